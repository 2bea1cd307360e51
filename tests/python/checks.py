"""One read of any selections, checked in full: values and nulls bit for bit, counters, the plan."""

from __future__ import annotations

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

    pieces: int = 0
    chunks: set[tuple[int, int]] = field(default_factory=set)  # of an array, and its number there

    def add(self, of: int, numbers: NDArray) -> None:
        """Count the read chunks of one row, given for each of its elements."""
        distinct = set(np.unique(numbers).tolist())
        self.pieces += len(distinct)
        self.chunks |= {(of, number) for number in distinct}


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


def rows_of_items(
    reference: Reference, selections: Sequence[Any], indexing: str
) -> tuple[list[NDArray | None], list[NDArray | None], Touched]:
    """The rows of any items, which of their elements the store holds, and what they touch."""
    select = oracle.INDEXING[indexing]
    whole, held, numbers = reference.whole, reference.held, reference.numbers
    rows: list[NDArray | None] = []
    marks: list[NDArray | None] = []
    touched = Touched()
    for selection in selections:
        if selection is None:
            rows.append(None)
            marks.append(None)
            continue
        rows.append(select(whole, selection))
        marks.append(select(held, selection).view(bool))
        touched.add(0, select(numbers, selection).view(np.int64))
    return rows, marks, touched


def rows_of_columns(
    reference: Reference, columns: Columns, fill: NDArray
) -> tuple[list[NDArray | None], list[NDArray | None], list[NDArray | None], Touched]:
    """The rows of columns, which elements are in bounds, which the store holds, what they touch."""
    rows: list[NDArray | None] = []
    inside: list[NDArray | None] = []
    held: list[NDArray | None] = []
    touched = Touched()
    for indices in columns.rows:
        if indices is None:
            rows.append(None)
            inside.append(None)
            held.append(None)
            continue
        row, valid = oracle.box(reference.whole, indices, columns.policy, fill)
        rows.append(row)
        inside.append(valid)
        outside = np.array(-1, np.int64)
        numbers, _ = oracle.box(reference.numbers, indices, columns.policy, outside)
        numbers = numbers.view(np.int64)
        held.append(np.isin(numbers, [*reference.stored, -1]))
        touched.add(0, numbers[numbers >= 0])
    return rows, inside, held, touched


def check_items(
    written: Written,
    selections: Sequence[Any],
    indexing: str,
    *,
    missing_chunks: str = "fill",
    threads: int | None = None,
) -> None:
    """Read selections of any items, and compare all with NumPy and naive counts."""
    reference = Reference.of(written)
    rows, held, touched = rows_of_items(reference, selections, indexing)
    valid = held if missing_chunks == "null" else None
    levels = written.whole.ndim
    expected = oracle.expect_rows(rows, written.whole.dtype.name, levels, valid)
    asked: dict[str, Any] = {"indexing": indexing, "missing_chunks": missing_chunks}
    result, stats = zarrow.read_ragged(
        reference.handle, selections, threads=threads, return_stats=True, **asked
    )
    oracle.assert_equal(result, expected)
    check_stats(stats, reference, expected, touched)
    check_plan(zarrow.plan(reference.handle, selections, **asked), reference, expected, touched)


def check_columns(
    written: Written,
    columns: Columns,
    *,
    missing_chunks: str = "fill",
    threads: int | None = None,
    fill: NDArray | None = None,
) -> None:
    """Read selections in columns, and compare all with NumPy and naive counts."""
    reference = Reference.of(written)
    beyond = fill_of(written.layout) if fill is None else fill
    rows, inside, held, touched = rows_of_columns(reference, columns, beyond)
    valid = inside
    if missing_chunks == "null":
        pairs = zip(inside, held, strict=True)
        valid = [a if a is None or b is None else a & b for a, b in pairs]
    levels = written.whole.ndim
    expected = oracle.expect_rows(rows, written.whole.dtype.name, levels, valid)
    asked: dict[str, Any] = {"missing_chunks": missing_chunks}
    if fill is not None:
        asked["fill"] = fill.reshape(())
    result, stats = zarrow.read_ragged(
        reference.handle, columns.selections, threads=threads, return_stats=True, **asked
    )
    oracle.assert_equal(result, expected)
    check_stats(stats, reference, expected, touched)
    plan = zarrow.plan(reference.handle, columns.selections, **asked)
    check_plan(plan, reference, expected, touched)


def check_stats(
    stats: zarrow.ReadStats, reference: Reference, expected: oracle.Expected, touched: Touched
) -> None:
    """Compare the counters of a read with naive counts."""
    numbers = {number for _, number in touched.chunks}
    assert stats.rows == expected.rows
    assert stats.chunks_decoded == stats.chunks_fetched == len(numbers & reference.stored)
    assert stats.chunks_missing == len(numbers - reference.stored)
    assert stats.pieces == touched.pieces
    assert stats.bytes_out == len(expected.values)


def check_plan(
    plan: zarrow.Plan, reference: Reference, expected: oracle.Expected, touched: Touched
) -> None:
    """Compare the numbers of a plan with naive counts."""
    chunk_bytes = int(np.prod(reference.handle.chunks)) * reference.whole.dtype.itemsize
    assert plan.rows == expected.rows
    assert plan.row_shapes.shape == (expected.rows, expected.levels)
    assert plan.bytes_out == len(expected.values)
    assert plan.read_chunks == len(touched.chunks)
    assert plan.bytes_to_decode == len(touched.chunks) * chunk_bytes
    assert plan.pieces == touched.pieces
    if expected.values:
        assert plan.amplification == plan.bytes_to_decode / plan.bytes_out
    else:
        assert np.isnan(plan.amplification)
