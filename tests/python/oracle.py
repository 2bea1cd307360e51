"""What a read must give, computed with NumPy on the whole array, and the bit-for-bit comparison.

Everything here works on raw bytes: NaN payloads, signalling NaNs and the sign of zero count.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
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


def arrow_type(dtype: str, levels: int) -> pa.DataType:
    """The type of a result: `levels` of large lists, nothing nullable, every field named item."""
    result = ARROW_TYPES[dtype]
    for _ in range(levels):
        result = pa.large_list(pa.field("item", result, nullable=False))
    return result


# ---- what NumPy says -------------------------------------------------------------------------


def as_bits(values: NDArray) -> NDArray:
    """The same elements as opaque bytes, so that no float is ever loaded as a float."""
    return values.view(f"V{values.dtype.itemsize}")


def take(whole: NDArray, selection: Any) -> NDArray:
    """`whole[selection]` as opaque bytes, always an array."""
    return np.asarray(as_bits(whole)[selection])


@dataclass(frozen=True)
class Expected:
    """Offsets per kept axis, and the bytes of all values in order."""

    rows: int
    levels: int
    dtype: str
    offsets: tuple[npt.NDArray[np.int64], ...]
    values: bytes

    @property
    def length(self) -> int:
        """Number of elements."""
        return len(self.values) // np.dtype(self.dtype).itemsize


def expect(whole: NDArray, selections: Sequence[Any], levels: int | None = None) -> Expected:
    """What `read_ragged` must give for `selections` of an array that holds `whole`."""
    rows = [take(whole, selection) for selection in selections]
    kept = {row.ndim for row in rows} or {whole.ndim if levels is None else levels}
    assert len(kept) == 1, f"the test itself mixes numbers of kept axes: {kept}"
    (depth,) = kept
    offsets = []
    for level in range(depth):
        counts: list[int] = []
        for row in rows:
            counts += [row.shape[level]] * math.prod(row.shape[:level])
        offsets.append(np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64))
    return Expected(
        rows=len(rows),
        levels=depth,
        dtype=whole.dtype.name,
        offsets=tuple(offsets),
        values=b"".join(row.tobytes() for row in rows),
    )


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


def _assert_plain(array: pa.Array, where: str) -> None:
    assert array.offset == 0, f"{where}: array offset {array.offset}"
    assert array.null_count == 0, f"{where}: null_count {array.null_count}"
    assert array.buffers()[0] is None, f"{where}: has a validity buffer"


def assert_contract(result: Any, dtype: str, levels: int) -> None:
    """Assert all that holds for every result, whatever its values."""
    assert isinstance(result, pa.Array), f"got {type(result)!r}"
    assert result.type == arrow_type(dtype, levels), f"got {result.type}"
    result.validate(full=True)
    lists = lists_of(result)
    for number, level in enumerate(lists):
        _assert_plain(level, f"level {number}")
        assert level.type.value_field.name == "item"
        assert not level.type.value_field.nullable
        offsets = offsets_of(level)
        assert offsets[0] == 0
        assert offsets[-1] == len(level.values), f"level {number} does not use all of its child"
    if lists:
        metadata = lists[-1].type.value_field.metadata or {}
        assert metadata.get(b"zarr:dtype") == dtype.encode(), f"field metadata {metadata}"
        assert not any(key.startswith(b"ARROW:extension") for key in metadata)
    elements = elements_of(result)
    _assert_plain(elements, "elements")
    numbers = numbers_of(result)
    _assert_plain(numbers, "numbers")
    if len(numbers):
        assert values_address(result) % 64 == 0, "the values buffer is not 64-byte aligned"


def assert_equal(result: Any, expected: Expected) -> None:
    """Assert that a result is `expected`, bit for bit, and keeps the contract."""
    assert_contract(result, expected.dtype, expected.levels)
    assert len(result) == expected.rows
    for number, (level, offsets) in enumerate(zip(lists_of(result), expected.offsets, strict=True)):
        np.testing.assert_array_equal(offsets_of(level), offsets, f"offsets of level {number}")
    assert len(elements_of(result)) == expected.length
    got = values_bytes(result)
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


def grid_of(shape: Sequence[int], chunks: Sequence[int]) -> list[tuple[int, ...]]:
    """Grid indices of all read chunks of an array."""
    return list(itertools.product(*(range(-(-n // c)) for n, c in zip(shape, chunks, strict=True))))


def region_of(index: Sequence[int], chunks: Sequence[int]) -> tuple[slice, ...]:
    """The part of an array that one chunk covers."""
    return tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))
