"""The readers, one file for each library."""

from __future__ import annotations

from . import limit, memmap, sparse, tensorstore, zarr_python, zarrow
from .base import Facts, Method, Reader

METHODS: dict[str, Method] = {
    method.name: method
    for module in (zarrow, limit, zarr_python, tensorstore, sparse, memmap)
    for method in module.METHODS
}

__all__ = ["METHODS", "Facts", "Method", "Reader"]
