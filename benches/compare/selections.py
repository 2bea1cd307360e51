"""What is selected: functions of a random generator, the scale and the data set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import zarr

from .case import Ints
from .data import hot_shard

Box = tuple[Ints, Ints]  # starts and stops, each (selections, axes)
Select = Callable[[np.random.Generator, float, Path], Box | tuple[Ints, Ints, Ints]]


def shape_of(source: Path) -> tuple[int, ...]:
    """Give the shape of the array of a data set."""
    shape: tuple[int, ...] = zarr.open_array(source / "a.zarr", mode="r").shape
    return shape


def column(values: Ints) -> Ints:
    """Give indices on one axis as selections have them."""
    return np.ascontiguousarray(values.astype(np.int64)[:, None])


def anywhere(rng: np.random.Generator, lengths: Ints, shape: tuple[int, ...]) -> Box:
    """Place boxes of the given sides, (selections, axes), anywhere in an array."""
    starts = (rng.random(lengths.shape) * (np.array(shape) - lengths + 1)).astype(np.int64)
    return starts, starts + lengths


def aligned(_: np.random.Generator, factor: float, source: Path) -> Box:
    """Select every other chunk of the array as a whole: 256 at full scale."""
    (length,), chunk = shape_of(source), 195_313
    starts = np.arange(0, length, 2 * chunk)[: max(1, int(256 * factor))]
    return column(starts), column(np.minimum(starts + chunk, length))


def spread(rng: np.random.Generator, factor: float, source: Path) -> Box:
    """Select 10,000 ranges of 1 to 2,000 elements, in order: one in each of 10,000 equal parts."""
    (length,), count = shape_of(source), int(10_000 * factor)
    part = length // count
    lengths = rng.integers(1, 2_001, count)
    room = part - lengths + 1
    starts = np.arange(count) * part + (rng.random(count) * room).astype(np.int64)
    # Parts begin where chunks do: moved, so that some ranges reach over the end of a chunk.
    starts = np.minimum(starts + part // 3, length - lengths)
    return column(starts), column(starts + lengths)


def shuffled(rng: np.random.Generator, factor: float, source: Path) -> Box:
    """Put the ranges of `spread` in random order."""
    starts, stops = spread(rng, factor, source)
    order = rng.permutation(len(starts))
    return starts[order], stops[order]


def squares(count: int, smallest: int, largest: int) -> Select:
    """Select crops with sides in a range, in random places."""

    def select(rng: np.random.Generator, factor: float, source: Path) -> Box:
        sides = rng.integers(smallest, largest + 1, (int(count * factor), 2))
        return anywhere(rng, sides, shape_of(source))

    return select


def csr_rows(order: str) -> Select:
    """Select 4,096 rows of the matrix: sorted, shuffled, or 128 blocks of 32 neighbours."""

    def select(rng: np.random.Generator, factor: float, source: Path) -> tuple[Ints, Ints, Ints]:
        pointers = np.asarray(zarr.open_array(source / "x.zarr" / "indptr", mode="r")[...])
        total, count = len(pointers) - 1, int(4_096 * factor)
        if order == "blocks":
            first = rng.choice(total // 32, max(1, count // 32), replace=False) * 32
            rows = (first[:, None] + np.arange(32)).reshape(-1)
        else:
            rows = rng.choice(total, count, replace=False)
            rows = np.sort(rows) if order == "sorted" else rows
        return column(pointers[rows]), column(pointers[rows + 1]), rows.astype(np.int64)

    return select


def windows(rng: np.random.Generator, factor: float, source: Path) -> Box:
    """Select 5,000 windows of 1,000 elements, in random places."""
    return anywhere(rng, np.full((int(5_000 * factor), 1), 1_000), shape_of(source))


def tiny_ranges(rng: np.random.Generator, factor: float, source: Path) -> Box:
    """Select 2,000,000 ranges of 1 to 20 elements, in random places."""
    return anywhere(rng, rng.integers(1, 21, (int(2e6 * factor), 1)), shape_of(source))


def overlapping(_: np.random.Generator, factor: float, source: Path) -> Box:
    """Select 100,000 windows of 1,000 elements, each 100 after the one before."""
    (length,), count = shape_of(source), int(100_000 * factor)
    starts = column(length // 3 + np.arange(count) * 100)
    return starts, starts + 1_000


def thin_boxes(rng: np.random.Generator, factor: float, source: Path) -> Box:
    """Select 4,000 boxes that are one element thin on one axis, each axis in turn."""
    count = int(4_000 * factor)
    lengths = rng.integers((3, 3, 8, 8), (9, 13, 49, 49), (count, 4))
    lengths[np.arange(count), np.arange(count) % 4] = 1
    return anywhere(rng, lengths, shape_of(source))


def in_one_shard(rng: np.random.Generator, factor: float, _: Path) -> Box:
    """Select 4,096 ranges of 1 to 2,000 elements, all in the second shard."""
    shard = hot_shard(factor)
    lengths = rng.integers(1, 2_001, (int(4_096 * factor), 1))
    starts, stops = anywhere(rng, lengths, (shard,))
    return starts + shard, stops + shard
