"""One read of any selections, checked in full: values and nulls bit for bit, counters, the plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import oracle
import zarrow
from arrays import Written, fill_of
from oracle import NDArray
from strategies import Columns


@dataclass
class Touched:
    """What a naive count says of a read: pairs of a row and a read chunk, and distinct chunks."""

    per_row: list[set[int]] = field(default_factory=list)
    chunks: set[tuple[int, int]] = field(default_factory=set)  # of an array, and its number there

    def add(self, of: int, numbers: NDArray) -> None:
        """Count the read chunks of one row, given for each of its elements."""
        distinct = set(np.unique(numbers).tolist())
        self.per_row.append(distinct)
        self.chunks |= {(of, number) for number in distinct}

    @property
    def pieces(self) -> int:
        """Pairs of a row and a read chunk."""
        return sum(map(len, self.per_row))


@dataclass
class Reference:
    """An array, and for each of its elements what a read has to know."""

    written: Written
    handle: zarrow.Array

    @classmethod
    def of(cls, written: Written) -> Reference:
        """Open the array."""
        return cls(written, zarrow.open_array(written.path))

    @property
    def whole(self) -> NDArray:
        """The values."""
        return self.written.whole

    @cached_property
    def numbers(self) -> NDArray:
        """The number of the read chunk of each element."""
        return oracle.chunk_numbers(self.whole.shape, self.handle.chunks)

    @cached_property
    def stored(self) -> set[int]:
        """The numbers of the read chunks that the store holds.

        A read chunk is a whole shard where codecs lie around the shards.
        """
        of_layout = oracle.chunk_numbers(self.whole.shape, self.written.layout.chunks)
        grid = oracle.grid_of(self.whole.shape, self.written.layout.chunks)
        stored = [number for number, index in enumerate(grid) if index in self.written.stored]
        return set(np.unique(self.numbers[np.isin(of_layout, stored)]).tolist())

    @cached_property
    def held(self) -> NDArray:
        """Whether the store holds each element."""
        return np.isin(self.numbers, sorted(self.stored))


@dataclass
class Rows:
    """The rows of a result, and for each of their elements what a read has to know.

    None is a null row.
    """

    values: list[NDArray | None] = field(default_factory=list)
    inside: list[NDArray | None] = field(default_factory=list)  # not null for being out of bounds
    held: list[NDArray | None] = field(default_factory=list)  # not in a chunk that is missing
    touched: Touched = field(default_factory=Touched)

    def add_null(self) -> None:
        """Add a null row."""
        self.values.append(None)
        self.inside.append(None)
        self.held.append(None)

    def expected(self, like: NDArray, missing_chunks: str) -> oracle.Expected:
        """What the result must be; `like` is the whole of an array."""
        valid = self.inside
        if missing_chunks == "null":
            pairs = zip(self.inside, self.held, strict=True)
            valid = [a if a is None or b is None else a & b for a, b in pairs]
        return oracle.expect_rows(self.values, like.dtype.name, like.ndim, valid)


def rows_of_items(
    references: Sequence[Reference], of: Sequence[int], selections: Sequence[Any], indexing: str
) -> Rows:
    """The rows of any items, each of its reference."""
    select = oracle.INDEXING[indexing]
    rows = Rows()
    for number, selection in zip(of, selections, strict=True):
        if selection is None:
            rows.add_null()
            continue
        reference = references[number]
        rows.values.append(select(reference.whole, selection))
        held = select(reference.held, selection).view(bool)
        rows.held.append(held)
        rows.inside.append(np.ones_like(held))
        rows.touched.add(number, select(reference.numbers, selection).view(np.int64))
    return rows


def rows_of_columns(
    references: Sequence[Reference], of: Sequence[int], columns: Columns, fill: NDArray | None
) -> Rows:
    """The rows of columns, each of its reference. Without `fill`, arrays have their own."""
    rows = Rows()
    outside = np.array(-1, np.int64)
    for number, indices in zip(of, columns.rows, strict=True):
        if indices is None:
            rows.add_null()
            continue
        reference = references[number]
        beyond = fill_of(reference.written.layout) if fill is None else fill
        row, inside = oracle.box(reference.whole, indices, columns.policy, beyond)
        rows.values.append(row)
        rows.inside.append(inside)
        numbers, _ = oracle.box(reference.numbers, indices, columns.policy, outside)
        numbers = numbers.view(np.int64)
        rows.held.append(np.isin(numbers, [*reference.stored, -1]))
        rows.touched.add(number, numbers[numbers >= 0])
    return rows


def columns_of_boxes(
    bounds: Sequence[tuple[tuple[int, int], ...]], policy: Any, shape: tuple[int, ...]
) -> Columns:
    """Boxes of the leading axes of an array of `shape`, and the indices that they ask for."""
    ends = np.array(bounds, np.int64).reshape(len(bounds), -1, 2)
    whole = [(0, length) for length in shape[ends.shape[1] :]]
    rows = [tuple(np.arange(*pair) for pair in (*bound, *whole)) for bound in bounds]
    selections = zarrow.boxes(ends[..., 0], ends[..., 1], out_of_bounds=policy)
    return Columns(selections, list(rows), policy, f"boxes {bounds} {policy}")


def check_items(
    written: Written,
    selections: Sequence[Any],
    indexing: str,
    **options: Any,
) -> None:
    """Read selections of any items, and compare all with NumPy and naive counts."""
    reference = Reference.of(written)
    rows = rows_of_items([reference], [0] * len(selections), selections, indexing)
    asked = {"indexing": indexing, **options}
    check_read(reference.handle, [reference], selections, rows, asked)


def check_columns(
    written: Written, columns: Columns, *, fill: NDArray | None = None, **options: Any
) -> None:
    """Read selections in columns, and compare all with NumPy and naive counts."""
    reference = Reference.of(written)
    rows = rows_of_columns([reference], [0] * len(columns.rows), columns, fill)
    if fill is not None:
        options["fill"] = fill.reshape(())
    check_read(reference.handle, [reference], columns.selections, rows, options)


def check_read(
    array: Any,
    references: Sequence[Reference],
    selections: Any,
    rows: Rows,
    asked: dict[str, Any],
) -> None:
    """Read and plan an array, or a list of them, and compare all. References are all different."""
    expected = rows.expected(references[0].whole, asked.get("missing_chunks", "fill"))
    result, stats = zarrow.read_ragged(array, selections, return_stats=True, **asked)
    oracle.assert_equal(result, expected)
    check_stats(stats, references, expected, rows.touched)
    check_plan(zarrow.plan(array, selections, **asked), references, expected, rows.touched)


def check_stats(
    stats: zarrow.ReadStats,
    references: Sequence[Reference],
    expected: oracle.Expected,
    touched: Touched,
) -> None:
    """Compare the counters of a read with naive counts."""
    stored = {chunk for chunk in touched.chunks if chunk[1] in references[chunk[0]].stored}
    assert stats.rows == expected.rows
    assert stats.chunks_decoded == stats.chunks_fetched == len(stored)
    assert stats.chunks_missing == len(touched.chunks - stored)
    assert stats.pieces == touched.pieces
    assert stats.bytes_out == len(expected.values)


def check_plan(
    plan: zarrow.Plan,
    references: Sequence[Reference],
    expected: oracle.Expected,
    touched: Touched,
) -> None:
    """Compare the numbers of a plan with naive counts."""
    chunk_bytes = [
        math.prod(reference.handle.chunks) * reference.whole.dtype.itemsize
        for reference in references
    ]
    assert plan.rows == expected.rows
    assert plan.row_shapes.shape == (expected.rows, expected.levels)
    assert plan.bytes_out == len(expected.values)
    assert plan.read_chunks == len(touched.chunks)
    assert plan.bytes_to_decode == sum(chunk_bytes[number] for number, _ in touched.chunks)
    assert plan.pieces == touched.pieces
    if expected.values:
        assert plan.amplification == plan.bytes_to_decode / plan.bytes_out
    else:
        assert math.isnan(plan.amplification)
