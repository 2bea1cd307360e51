"""Arrays of text, bytes and lists: how they are written, and what a read must give."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import oracle
import pyarrow as pa
import zarr
from oracle import NDArray
from zarr.codecs import TransposeCodec
from zarr.core.dtype import VariableLengthBytes, VariableLengthUTF8

ARROW = {"string": pa.large_string(), "bytes": pa.large_binary()}
TYPES: dict[str, Any] = {"string": VariableLengthUTF8(), "bytes": VariableLengthBytes()}


def objects(values: Sequence[Any], shape: Sequence[int] | None = None) -> NDArray:
    """An array of objects, each of which may be a sequence."""
    array = np.empty(len(values), object)
    for at, value in enumerate(values):
        array[at] = value
    return array.reshape(len(values) if shape is None else shape)


def write(
    path: Path,
    values: NDArray,
    chunks: Sequence[int],
    *,
    kind: str,
    transpose: Sequence[int] | None = None,
    **options: Any,
) -> Any:
    """Write text or bytes; `options` are zarr.create_array's."""
    if transpose is not None:
        options["filters"] = [TransposeCodec(order=tuple(transpose))]
    array = zarr.create_array(
        path, shape=values.shape, dtype=TYPES[kind], chunks=tuple(chunks), **options
    )
    if values.size:
        array[...] = values.astype(array.dtype) if kind == "string" else values
    return array


def encode(values: Sequence[bytes]) -> bytes:
    """What numcodecs writes for elements."""
    parts = [struct.pack("<I", len(values))]
    for value in values:
        parts += [struct.pack("<I", len(value)), value]
    return b"".join(parts)


def write_lists(
    path: Path,
    values: NDArray,
    chunks: Sequence[int],
    *,
    dtype: str,
    order: str = "C",
    compressor: Any = None,
    skip: Sequence[tuple[int, ...]] = (),
) -> None:
    """Write lists of numbers as zarr-python 2 did; zarr-python 3 does not read them."""
    path.mkdir(parents=True)
    codec = numcodecs.VLenArray(dtype)
    document = {
        "zarr_format": 2,
        "shape": values.shape,
        "chunks": list(chunks),
        "dtype": "|O",
        "fill_value": 0,
        "order": order,
        "filters": [codec.get_config()],
        "compressor": compressor and compressor.get_config(),
    }
    (path / ".zarray").write_text(json.dumps(document))
    for index in oracle.grid_of(values.shape, chunks):
        if index in skip:
            continue
        chunk = objects([np.zeros(0, dtype)] * math.prod(chunks), chunks)
        part = values[oracle.region_of(index, chunks)]
        chunk[tuple(slice(0, length) for length in part.shape)] = part
        encoded = codec.encode(chunk.ravel(order=order))  # type: ignore[call-overload]
        encoded = compressor.encode(encoded) if compressor else encoded
        (path / ".".join(map(str, index or (0,)))).write_bytes(bytes(encoded))


def plain(value: Any) -> Any:
    """An object as pyarrow gives it."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value) if isinstance(value, str) else value


def rows_of(whole: NDArray, selections: Sequence[Any], indexing: str = "orthogonal") -> list[Any]:
    """What a read must give for selections of an array of objects, as nested lists."""
    numbers = np.arange(whole.size, dtype=np.int64).reshape(whole.shape)
    flat = [plain(value) for value in whole.astype(object).reshape(-1)]
    rows = []
    for selection in selections:
        if selection is None:
            rows.append(None)
            continue
        taken = oracle.INDEXING[indexing](numbers, selection).view(np.int64)
        rows.append(nested(taken, flat))
    return rows


def nested(numbers: NDArray, flat: Sequence[Any]) -> Any:
    """The elements of these numbers, in lists as the numbers are. -1 is null."""
    if numbers.ndim == 0:
        return None if numbers < 0 else flat[int(numbers)]
    return [nested(row, flat) for row in numbers]


def assert_rows(result: Any, expected: Sequence[Any], element: pa.DataType, levels: int) -> None:
    """Compare a result with nested lists, and check all that must be true of it."""
    assert isinstance(result, pa.Array)
    result.validate(full=True)
    assert result.offset == 0
    assert result.to_pylist() == list(expected)
    array = result
    for _ in range(levels):
        assert pa.types.is_large_list(array.type), result.type
        (field,) = [array.type.value_field]
        assert field.name == "item"
        array = array.values
        assert field.nullable == (array.null_count > 0)
        assert array.offset == 0
    assert array.type == element
    if levels:
        assert b"zarr:dtype" in field.metadata


def lists_of(number: pa.DataType) -> pa.DataType:
    """The type of lists of numbers."""
    return pa.large_list(pa.field("item", number, nullable=False))
