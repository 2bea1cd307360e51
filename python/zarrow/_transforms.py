"""Transforms of zarr-indexing, as items of a selection.

An ``IndexTransform`` maps the positions of a result (its input domain) to indices of the array, one
output map for each axis: a constant, an affine map of one input dimension, or an array of indices.
Axes whose maps come in the order of the input dimensions become a slice, an integer or indices
each; the others are taken together, as points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from zarrow._columns import _wrap
from zarrow._items import Points
from zarrow.errors import AllocationError, SelectionError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

_NO_DIMENSIONS = range(0)
_MAX_POINTS = np.iinfo(np.intp).max // 8


@dataclass(frozen=True)
class _Steps:
    """Indices of one axis of the array, equally spaced along at most one input dimension."""

    dimension: int | None
    first: int
    step: int


# An array has all input dimensions.
_Indices: TypeAlias = _Steps | np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Block:
    """Neighbouring axes of the array, and the run of input dimensions that they stand for."""

    axes: range
    dimensions: range

    def join(self, other: _Block) -> _Block:
        """Unite with a later block."""
        axes = range(self.axes.start, other.axes.stop)
        return _Block(axes, _hull(self.dimensions, other.dimensions))


def items(transform: Any, shape: Sequence[int], row: int, *, pointwise: bool) -> list[Any]:
    """Give the items of a transform to an array of `shape`, all of it checked.

    No item counts from the end or leaves anything to be clipped. Where `pointwise`, index arrays
    will be joined with each other and with integers, so there is at most one, without integers.
    """
    if len(transform.output) != len(shape):
        raise _refuse(
            row,
            f"a transform to {len(transform.output)} axes",
            f"{len(shape)}, one for each of the array of shape {tuple(shape)}",
        )
    lengths = tuple(int(length) for length in transform.domain.shape)
    if not shape and any(length != 1 for length in lengths):
        raise UnsupportedError(
            f"selection {row}: a transform that repeats the element of an array without axes, in "
            f"shape {lengths}; expected lengths of 1"
        )
    if 0 in lengths:  # nothing is read, wherever it would lie
        return [Points([_wrap(np.empty(0, np.int64))] * len(shape), lengths)]
    maps = [
        _indices(output, transform.domain, row, axis, shape[axis])
        for axis, output in enumerate(transform.output)
    ]
    blocks = _cover(_in_order(maps, lengths), lengths)
    if pointwise:
        blocks = _join_advanced(blocks, maps)
    return _emit(blocks, maps, lengths, row)


def _indices(output: Any, domain: Any, row: int, axis: int, length: int) -> _Indices:
    """Evaluate one output map over a domain that is not empty."""
    offset, step = int(output.offset), int(getattr(output, "stride", 0))
    if hasattr(output, "input_dimension"):
        dimension = int(output.input_dimension)
        first = offset + step * int(domain.inclusive_min[dimension])
        _check(first, first + step * (int(domain.shape[dimension]) - 1), row, axis, length)
        return _Steps(dimension if step else None, first, step)
    if not hasattr(output, "index_array"):
        _check(offset, offset, row, axis, length)
        return _Steps(None, offset, 0)
    index = output.index_array
    low, high = int(index.min()), int(index.max())
    first, last = offset + step * low, offset + step * high
    _check(first, last, row, axis, length)
    if first == last:
        return _Steps(None, first, 0)
    # The offset alone may be beyond int64; what is in bounds at both ends is not, nor is its step.
    return np.asarray(first + step * (index - low), dtype=np.int64)


def _in_order(maps: Sequence[_Indices], lengths: Sequence[int]) -> list[_Block]:
    """Join axes until the dimensions ascend: those of each block lie before those of the next.

    A dimension of length one does not count, for it may stand anywhere.
    """
    blocks: list[_Block] = []
    for axis, indices in enumerate(maps):
        block = _Block(range(axis, axis + 1), _dimensions(indices, lengths))
        start = block.dimensions.start
        while block.dimensions and any(before.dimensions.stop > start for before in blocks):
            block = blocks.pop().join(block)
        blocks.append(block)
    return blocks


def _dimensions(indices: _Indices, lengths: Sequence[int]) -> range:
    """Give the run of input dimensions, from the first to the last that matters."""
    if isinstance(indices, _Steps):
        dimension = indices.dimension
        if dimension is None or lengths[dimension] == 1:
            return _NO_DIMENSIONS
        return range(dimension, dimension + 1)
    matter = [dimension for dimension, length in enumerate(indices.shape) if length > 1]
    return range(matter[0], matter[-1] + 1)


def _hull(first: range, second: range) -> range:
    if not (first and second):
        return first or second
    return range(min(first.start, second.start), max(first.stop, second.stop))


def _cover(blocks: list[_Block], lengths: Sequence[int]) -> list[_Block]:
    """Give each dimension that no axis depends on, along which all repeats, to a neighbour."""
    for dimension, length in enumerate(lengths):
        if length == 1 or any(dimension in block.dimensions for block in blocks):
            continue
        beyond = (at for at, block in enumerate(blocks) if block.dimensions.start > dimension)
        at = max(next(beyond, len(blocks)) - 1, 0)
        wider = _hull(blocks[at].dimensions, range(dimension, dimension + 1))
        blocks[at] = _Block(blocks[at].axes, wider)
    return blocks


def _join_advanced(blocks: list[_Block], maps: Sequence[_Indices]) -> list[_Block]:
    """Join all from the first to the last index array or integer, if there is an index array."""
    advanced = [at for at, block in enumerate(blocks) if not _is_slice(block, maps)]
    if not any(blocks[at].dimensions for at in advanced):
        return blocks
    first, last = advanced[0], advanced[-1]
    joined = blocks[first]
    for block in blocks[first + 1 : last + 1]:
        joined = joined.join(block)
    return [*blocks[:first], joined, *blocks[last + 1 :]]


def _is_slice(block: _Block, maps: Sequence[_Indices]) -> bool:
    indices = maps[block.axes.start]
    return (
        len(block.axes) == len(block.dimensions) == 1
        and isinstance(indices, _Steps)
        and indices.dimension == block.dimensions.start
    )


def _emit(
    blocks: Sequence[_Block], maps: Sequence[_Indices], lengths: tuple[int, ...], row: int
) -> list[Any]:
    """Make the items, with new axes for the dimensions of length one between the blocks."""
    result: list[Any] = []
    given = 0  # dimensions so far
    for number, block in enumerate(blocks):
        indices = maps[block.axes.start]
        if block.dimensions:
            result += [None] * (block.dimensions.start - given)
            given = block.dimensions.stop
            if _is_slice(block, maps) and isinstance(indices, _Steps):
                result.append(_slice(indices, lengths[block.dimensions.start]))
            else:
                chosen = maps[block.axes.start : block.axes.stop]
                result.append(_points(chosen, block.dimensions, lengths, row))
        elif isinstance(indices, _Steps):
            later = (other.dimensions.start for other in blocks[number:] if other.dimensions)
            dimension = indices.dimension
            if dimension is not None and given <= dimension < next(later, len(lengths)):
                result += [None] * (dimension - given)
                given = dimension + 1
                result.append(slice(indices.first, indices.first + 1, 1))
            else:
                result.append(indices.first)
    return result + [None] * (len(lengths) - given)


def _slice(indices: _Steps, length: int) -> slice:
    last = indices.first + indices.step * (length - 1)
    stop = last + (1 if indices.step > 0 else -1)
    return slice(indices.first, None if stop < 0 else stop, indices.step)


def _points(
    maps: Sequence[_Indices], dimensions: range, lengths: Sequence[int], row: int
) -> Points:
    shape = tuple(lengths[dimension] for dimension in dimensions)
    if math.prod(shape) > _MAX_POINTS:
        raise _too_many(row, shape)
    try:
        coordinates = [
            _wrap(np.broadcast_to(_spread(indices, dimensions, shape), shape)) for indices in maps
        ]
    except MemoryError as err:
        raise _too_many(row, shape) from err
    return Points(coordinates, shape)


def _spread(indices: _Indices, dimensions: range, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Give indices as an array that broadcasts to `shape`, the lengths of `dimensions`."""
    if not isinstance(indices, _Steps):
        return indices.reshape(indices.shape[dimensions.start : dimensions.stop])
    if indices.dimension is None or indices.dimension not in dimensions:
        return np.full(1, indices.first)
    at = indices.dimension - dimensions.start
    along = indices.first + indices.step * np.arange(shape[at], dtype=np.int64)
    return along.reshape((-1,) + (1,) * (len(shape) - at - 1))


def _check(first: int, last: int, row: int, axis: int, length: int) -> None:
    for index in (first, last):
        if not 0 <= index < length:
            expected = f"0 to {length - 1}" if length else "no index, because the axis is empty"
            if index < 0 < length:
                expected += "; indices of a transform do not count from the end"
            got = f"a transform to index {index} on axis {axis} of length {length}"
            raise _refuse(row, got, expected)


def _refuse(row: int, got: str, expected: str) -> SelectionError:
    return SelectionError(f"selection {row}: {got}; expected {expected}")


def _too_many(row: int, shape: tuple[int, ...]) -> AllocationError:
    return AllocationError(
        f"selection {row}: a transform to points of shape {shape}, whose coordinates do not fit "
        "into memory; expected fewer, or output maps in the order of the input dimensions"
    )
