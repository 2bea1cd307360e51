"""What a read must give, computed with NumPy on the whole array, and the bit-for-bit comparison.

Everything here works on raw bytes: NaN payloads, signalling NaNs and the sign of zero count.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Item: TypeAlias = slice | SupportsIndex | EllipsisType
Selection: TypeAlias = Item | tuple[Item, ...]
NDArray: TypeAlias = npt.NDArray[Any]
Box: TypeAlias = tuple[tuple[int, int], ...]

# Every element type that is read today: NumPy's name, which is also Zarr's, and Arrow's type.
ARROW_TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "complex64": pa.list_(pa.field("item", pa.float32(), nullable=False), 2),
    "complex128": pa.list_(pa.field("item", pa.float64(), nullable=False), 2),
}


def arrow_type(dtype: str, levels: int, *, nullable: bool = False) -> pa.DataType:
    """The type of a result: `levels` of large lists, every field named item.

    Only the elements may be nullable.
    """
    result = ARROW_TYPES[dtype]
    for level in range(levels):
        result = pa.large_list(pa.field("item", result, nullable=nullable and level == 0))
    return result


# ---- what NumPy says -------------------------------------------------------------------------


def as_bits(values: NDArray) -> NDArray:
    """The same elements as opaque bytes, so that no float is ever loaded as a float."""
    return values.view(f"V{values.dtype.itemsize}")


def take(whole: NDArray, selection: Any) -> NDArray:
    """`whole[selection]` as opaque bytes, always an array."""
    return np.asarray(as_bits(whole)[selection])


def index_array(item: Any) -> NDArray:
    """An index array or a mask, in whatever form, as NumPy's."""
    if isinstance(item, (pa.Array, pa.ChunkedArray)):
        values = np.asarray(item.to_pylist(), bool if pa.types.is_boolean(item.type) else np.int64)
    else:
        values = np.asarray(item)
    if values.dtype.kind == "b":
        return values
    assert values.dtype.kind in "iu" or values.size == 0
    return values.astype(np.int64)


def is_basic(item: Any) -> bool:
    """Whether an item is no index array and no mask."""
    return item is None or isinstance(item, (slice, int, np.integer, EllipsisType))


def items_of(selection: Any) -> tuple[Any, ...]:
    """The items of a selection, index arrays as NumPy's."""
    items = selection if isinstance(selection, tuple) else (selection,)
    return tuple(item if is_basic(item) else index_array(item) for item in items)


def axes_of(item: Any) -> int:
    """Number of axes of the array that an item other than Ellipsis stands for."""
    if item is None:
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype.kind == "b" else 1


def orthogonal(whole: NDArray, selection: Any) -> NDArray:
    """What each item takes along its own axis, one after the other, as opaque bytes.

    NumPy never sees more than one index array at once, so their order and place are not in doubt.
    """
    items = list(items_of(selection))
    if any(item is Ellipsis for item in items):
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        named = sum(axes_of(item) for item in items if item is not Ellipsis)
        items[at : at + 1] = [slice(None)] * (whole.ndim - named)
    result = as_bits(whole)
    at = 0
    for item in items:
        result = np.asarray(result[(slice(None),) * at + (item,)])
        at += not isinstance(item, (int, np.integer))
    return result


def pointwise(whole: NDArray, selection: Any) -> NDArray:
    """What NumPy gives, as opaque bytes. A bare array of shape (n, ndim) holds coordinates."""
    if isinstance(selection, np.ndarray) and selection.ndim == 2 and selection.dtype.kind != "b":
        selection = tuple(selection.astype(np.int64).T)
    return np.asarray(as_bits(whole)[items_of(selection)])


INDEXING: dict[str, Callable[[NDArray, Any], NDArray]] = {
    "orthogonal": orthogonal,
    "pointwise": pointwise,
}


@dataclass(frozen=True)
class Expected:
    """Offsets per kept axis, the bytes of all values in order, and what is null."""

    rows: int
    levels: int
    dtype: str
    offsets: tuple[npt.NDArray[np.int64], ...]
    values: bytes  # zeros where an element is null
    valid_rows: npt.NDArray[np.bool_] | None = None  # None: no row is null
    valid: npt.NDArray[np.bool_] | None = None  # None: no element is null

    @property
    def length(self) -> int:
        """Number of elements."""
        return len(self.values) // np.dtype(self.dtype).itemsize


def expect(whole: NDArray, selections: Sequence[Any], levels: int | None = None) -> Expected:
    """What `read_ragged` must give for `selections` of an array that holds `whole`."""
    rows = [take(whole, selection) for selection in selections]
    return expect_rows(rows, whole.dtype.name, whole.ndim if levels is None else levels)


def expect_rows(
    rows: Sequence[NDArray | None],
    dtype: str,
    levels: int,
    valid: Sequence[NDArray | None] | None = None,
) -> Expected:
    """What the result of these rows is: None is a null row; `levels` counts if there are no others.

    `valid` tells for each element of each row whether it is not null.
    """
    kept = {row.ndim for row in rows if row is not None} or {levels}
    assert len(kept) == 1, f"the test itself mixes numbers of kept axes: {kept}"
    (depth,) = kept
    null = np.zeros(
        (0,) * depth, f"V{np.dtype(dtype).itemsize}"
    )  # one element, if there is no axis
    data = [null if row is None else as_bits(row) for row in rows]
    offsets = []
    for level in range(depth):
        counts: list[int] = []
        for row in data:
            counts += [row.shape[level]] * math.prod(row.shape[:level])
        offsets.append(np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64))
    valid_rows = np.array([row is not None for row in rows], bool)
    marks = []
    for number, row in enumerate(data):
        mark = None if valid is None else valid[number]
        marks.append(np.full(row.shape, valid_rows[number]) if mark is None else np.asarray(mark))
        assert marks[-1].shape == row.shape
    elements = np.concatenate([mark.reshape(-1) for mark in marks]) if marks else np.ones(0, bool)
    values = np.concatenate([row.reshape(-1) for row in data]) if data else null.reshape(-1)[:0]
    values[~elements] = np.zeros(1, values.dtype)
    return Expected(
        rows=len(rows),
        levels=depth,
        dtype=dtype,
        offsets=tuple(offsets),
        values=values.tobytes(),
        valid_rows=None if valid_rows.all() or not depth else valid_rows,
        valid=None if elements.all() else elements,
    )


def box(
    whole: NDArray, indices: Sequence[NDArray], policy: str, fill: NDArray
) -> tuple[NDArray, NDArray]:
    """The elements at any indices along each axis, and which of them are not null.

    What lies outside is left out (`clip`), has the bits of `fill` (`fill`) or is null (`null`).
    """
    inside = [(at >= 0) & (at < length) for at, length in zip(indices, whole.shape, strict=True)]
    if policy == "clip":
        indices = [at[within] for at, within in zip(indices, inside, strict=True)]
        inside = [within[within] for within in inside]
    shape = tuple(len(at) for at in indices)
    within = np.ones(shape, bool)
    for axis, along in enumerate(inside):
        within &= along.reshape((-1,) + (1,) * (len(shape) - axis - 1))
    result = np.empty(shape, as_bits(whole).dtype)
    result[...] = as_bits(fill.reshape(1))[0]
    if within.any():
        clipped = [np.where(along, at, 0) for at, along in zip(indices, inside, strict=True)]
        result[within] = as_bits(whole)[np.ix_(*clipped)][within] if shape else as_bits(whole)
    return result, within if policy == "null" else np.ones(shape, bool)


# ---- comparison ------------------------------------------------------------------------------


def lists_of(result: pa.Array) -> list[pa.LargeListArray]:
    """The large-list levels of a result, from the outside in."""
    levels = []
    while isinstance(result, pa.LargeListArray):
        levels.append(result)
        result = result.values
    return levels


def elements_of(result: pa.Array) -> pa.Array:
    """The flat array of elements below the list levels."""
    while isinstance(result, pa.LargeListArray):
        result = result.values
    return result


def numbers_of(result: pa.Array) -> pa.Array:
    """The flat array that owns the values buffer: below the pairs, where elements are complex."""
    elements = elements_of(result)
    if isinstance(elements, pa.FixedSizeListArray):
        elements = elements.values
    return elements


def values_address(result: pa.Array) -> int:
    """Where the values buffer lies in memory."""
    buffer = numbers_of(result).buffers()[1]
    assert buffer is not None
    return int(buffer.address)


def offsets_of(level: pa.LargeListArray) -> npt.NDArray[np.int64]:
    """The offsets of one level, straight from its buffer."""
    buffer = level.buffers()[1]
    assert buffer is not None, "the offsets buffer is absent"
    assert buffer.size >= 8 * (len(level) + 1), f"{buffer.size} bytes of offsets for {len(level)}"
    return np.frombuffer(buffer, np.int64, len(level) + 1)


def values_bytes(result: pa.Array) -> bytes:
    """The bytes of all elements, one byte per bool."""
    numbers = numbers_of(result)
    buffer = numbers.buffers()[1]
    if len(numbers) == 0:
        return b""
    assert buffer is not None, "the values buffer is absent"
    if pa.types.is_boolean(numbers.type):
        bits = np.frombuffer(buffer, np.uint8)
        return np.unpackbits(bits, count=len(numbers), bitorder="little").tobytes()
    size = len(numbers) * numbers.type.bit_width // 8
    assert buffer.size >= size
    return bytes(buffer.to_pybytes()[:size])


def valid_of(array: pa.Array) -> NDArray:
    """Which slots of one level are not null, straight from its buffer."""
    buffer = array.buffers()[0]
    if buffer is None:
        return np.ones(len(array), bool)
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8), count=len(array), bitorder="little")
    return bits.astype(bool)


def _assert_plain(array: pa.Array, where: str, *, nulls: bool = False) -> None:
    assert array.offset == 0, f"{where}: array offset {array.offset}"
    if nulls:
        assert array.null_count > 0, f"{where}: no nulls"
        return
    assert array.null_count == 0, f"{where}: null_count {array.null_count}"
    assert array.buffers()[0] is None, f"{where}: has a validity buffer"


def assert_contract(
    result: Any, dtype: str, levels: int, *, null_rows: bool = False, null_elements: bool = False
) -> None:
    """Assert all that holds for every result, whatever its values.

    Where there are nulls, there must be some: nothing else is nullable.
    """
    assert isinstance(result, pa.Array), f"got {type(result)!r}"
    expected = arrow_type(dtype, levels, nullable=null_elements)
    assert result.type == expected, f"got {result.type}"
    result.validate(full=True)
    lists = lists_of(result)
    for number, level in enumerate(lists):
        _assert_plain(level, f"level {number}", nulls=null_rows and number == 0)
        assert level.type.value_field.name == "item"
        assert level.type.value_field.nullable == (null_elements and number == levels - 1)
        offsets = offsets_of(level)
        assert offsets[0] == 0
        assert offsets[-1] == len(level.values), f"level {number} does not use all of its child"
    if lists:
        metadata = lists[-1].type.value_field.metadata or {}
        assert metadata.get(b"zarr:dtype") == dtype.encode(), f"field metadata {metadata}"
        assert not any(key.startswith(b"ARROW:extension") for key in metadata)
    elements = elements_of(result)
    _assert_plain(elements, "elements", nulls=null_elements)
    numbers = numbers_of(result)
    if isinstance(elements, pa.FixedSizeListArray):  # the parts of a complex number are never null
        _assert_plain(numbers, "numbers")
    if len(numbers):
        assert values_address(result) % 64 == 0, "the values buffer is not 64-byte aligned"


def assert_equal(result: Any, expected: Expected) -> None:
    """Assert that a result is `expected`, bit for bit, and keeps the contract."""
    assert_contract(
        result,
        expected.dtype,
        expected.levels,
        null_rows=expected.valid_rows is not None,
        null_elements=expected.valid is not None,
    )
    assert len(result) == expected.rows
    if expected.valid_rows is not None:
        np.testing.assert_array_equal(valid_of(result), expected.valid_rows, "null rows")
    for number, (level, offsets) in enumerate(zip(lists_of(result), expected.offsets, strict=True)):
        np.testing.assert_array_equal(offsets_of(level), offsets, f"offsets of level {number}")
    assert len(elements_of(result)) == expected.length
    got = values_bytes(result)
    if expected.valid is not None:
        valid = valid_of(elements_of(result))
        np.testing.assert_array_equal(valid, expected.valid, "null elements")
        words = np.frombuffer(got, f"V{np.dtype(expected.dtype).itemsize}").copy()
        words[~valid] = np.zeros(1, words.dtype)
        got = words.tobytes()
    if got != expected.values:
        size = np.dtype(expected.dtype).itemsize
        ours, theirs = (np.frombuffer(data, f"V{size}") for data in (got, expected.values))
        wrong = np.flatnonzero(ours != theirs)
        first = int(wrong[0])
        raise AssertionError(
            f"{len(wrong)} of {len(theirs)} elements differ; element {first} is "
            f"{ours[first].tobytes().hex()}, must be {theirs[first].tobytes().hex()}"
        )


def assert_reads(result: Any, whole: NDArray, selections: Sequence[Any]) -> None:
    """Assert that a result is what NumPy gives for `selections` of `whole`."""
    assert_equal(result, expect(whole, selections))


# ---- which read chunks a read must touch -----------------------------------------------------


def box_of(shape: Sequence[int], selection: Any) -> Box:
    """Start and stop on each axis of one selection; an integer is a run of one."""
    items = selection if isinstance(selection, tuple) else (selection,)
    at = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
    rest = items[at + 1 :]
    middle = (slice(None),) * (len(shape) - at - len(rest))
    box = []
    for length, item in zip(shape, items[:at] + middle + rest, strict=True):
        if isinstance(item, slice):
            start, stop, step = item.indices(length)
            assert step == 1
            box.append((start, max(start, stop)))
        else:
            start = int(item) + (length if item < 0 else 0)
            box.append((start, start + 1))
    return tuple(box)


def chunks_of_box(box: Box, chunks: Sequence[int]) -> list[tuple[int, ...]]:
    """Grid indices of the read chunks that one box touches; none where it is empty."""
    if any(start == stop for start, stop in box):
        return []
    runs = [
        range(start // chunk, (stop - 1) // chunk + 1)
        for (start, stop), chunk in zip(box, chunks, strict=True)
    ]
    return list(itertools.product(*runs))


def touched(
    shape: Sequence[int], chunks: Sequence[int], selections: Iterable[Any]
) -> set[tuple[int, ...]]:
    """Grid indices of all distinct read chunks that the selections touch."""
    boxes = {box_of(shape, selection) for selection in selections}
    return {index for box in boxes for index in chunks_of_box(box, chunks)}


def chunk_numbers(shape: Sequence[int], chunks: Sequence[int]) -> npt.NDArray[np.int64]:
    """For each element of an array, the number of its read chunk in C order."""
    numbers = np.zeros(tuple(shape), np.int64)
    for axis, (length, chunk) in enumerate(zip(shape, chunks, strict=True)):
        along = np.arange(length) // chunk
        numbers *= max(-(-length // chunk), 1)
        numbers += along.reshape((-1,) + (1,) * (len(shape) - axis - 1))
    return numbers


def grid_of(shape: Sequence[int], chunks: Sequence[int]) -> list[tuple[int, ...]]:
    """Grid indices of all read chunks of an array."""
    return list(itertools.product(*(range(-(-n // c)) for n, c in zip(shape, chunks, strict=True))))


def region_of(index: Sequence[int], chunks: Sequence[int]) -> tuple[slice, ...]:
    """The part of an array that one chunk covers."""
    return tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))
