"""NumPy on an uncompressed file that is mapped into memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .base import Facts, Method, Reader

if TYPE_CHECKING:
    from ..workloads import Case


def start(case: Case, _threads: int) -> Reader:
    """Map the file. A call copies each selection out of it."""
    mapped = np.load(str(case.npy), mmap_mode="r")
    slices = case.slices

    def call() -> Any:
        return [[np.array(mapped[box]) for box in slices]]

    np.array(mapped[slices[0]])
    return Reader(call)


def refuses(facts: Facts) -> str | None:
    """Refuse what is compressed."""
    return None if facts.npy else ""


METHODS = (Method("NumPy memmap: loop", "peer", ("numpy",), start, refuses, maps=True),)
