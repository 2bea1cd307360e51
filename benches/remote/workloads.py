"""What is read: selections of arrays of benches.compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..compare.selections import aligned, csr_rows
from ..compare.workloads import CSR, MATRIX, PIXELS, Workload, crops

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from ..compare.case import Ints
    from ..compare.selections import Box


def few_chunks(rng: np.random.Generator, _: float, source: Path) -> Box:
    """Select every other chunk, the first eight."""
    starts, stops = aligned(rng, 1.0, source)
    return starts[:8], stops[:8]


def fewer_rows(rng: np.random.Generator, factor: float, source: Path) -> tuple[Ints, Ints, Ints]:
    """Select every fourth of the rows of W4: 1,024 at full scale."""
    starts, stops, *rows = csr_rows("sorted")(rng, factor, source)
    return starts[::4], stops[::4], rows[0][::4]


ALL = (
    Workload(
        "R1", "whole chunks of a series", "float64, zstd, chunks of 195,313", "line", few_chunks, 21
    ),
    Workload("R3", "crops of an image", f"sides of 16 to 128; {PIXELS}", "image", crops, 23),
    Workload("R4", "rows of a CSR matrix, in order", MATRIX, "cells", fewer_rows, 24, CSR),
)
