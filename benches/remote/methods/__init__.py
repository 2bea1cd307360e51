"""The readers, one file for each library."""

from __future__ import annotations

from . import tensorstore, zarr_python, zarrow
from .base import Method, Reader

METHODS: dict[str, Method] = {
    method.name: method
    for module in (zarrow, tensorstore, zarr_python)
    for method in module.METHODS
}

__all__ = ["METHODS", "Method", "Reader"]
