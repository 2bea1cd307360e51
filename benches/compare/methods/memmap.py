"""NumPy on an uncompressed file that is mapped into memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .base import Facts, Method, Reader

if TYPE_CHECKING:
    from ..case import Case


def start(case: Case, _threads: int) -> Reader:
    """Find the file. Each call maps it anew, as the pages of the last call would stay mapped."""
    path, boxes = str(case.npy), case.slices

    def call() -> Any:
        mapped = np.load(path, mmap_mode="r")
        return [[np.array(mapped[box]) for box in boxes]]

    np.array(np.load(path, mmap_mode="r")[boxes[0]])
    return Reader(call)


def refuses(facts: Facts) -> str | None:
    """Refuse what is compressed."""
    return None if facts.npy else ""


METHODS = (Method("NumPy memmap: loop", "peer", ("numpy",), start, refuses, maps=True),)
