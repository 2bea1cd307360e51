"""Arrays of every type of fixed width, made of bytes that zarr-python writes without knowing them.

The stored bytes are written as raw bytes of the same width, in any layout; then the metadata is
told what they are. So there are arrays of types that zarr-python does not have, too.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zarr
from numcodecs import Blosc, Zstd
from zarr.codecs import BloscCodec, BytesCodec, ShardingCodec, TransposeCodec, ZstdCodec

NDArray = npt.NDArray[Any]
SHAPE = (7, 9)
CHUNKS = (3, 4)
SHARDS = (6, 8)
NAT = np.iinfo("i8").min

INNER = np.dtype([("s", "S3"), ("t", "M8[ms]")])
RECORD = np.dtype([("a", "i2"), ("b", "f8"), ("c", "c8"), ("ok", "?"), ("u", "U2"), ("r", "V3")])
NESTED = np.dtype([("x", "u1"), ("n", INNER), ("é ü", "f2")])
ARRAYS = np.dtype([("m", "i4", (2, 3)), ("v", INNER, (2,)), ("w", "f4", 2)])


@dataclass(frozen=True)
class Case:
    """One type: how NumPy holds it, and how the metadata of both formats names it."""

    dtype: np.dtype[Any]
    v3: Any = None  # None: v3 has no such type
    v2: bool = True
    fill: Any = None  # the JSON of a fill value in v3, and what it stands for
    fill_value: Any = None


def raw(width: int) -> dict[str, Any]:
    return {"name": "raw_bytes", "configuration": {"length_bytes": width}}


def time(name: str, unit: str, scale: int = 1) -> dict[str, Any]:
    return {"name": f"numpy.{name}", "configuration": {"unit": unit, "scale_factor": scale}}


def padded(width: int) -> dict[str, Any]:
    return {"name": "null_terminated_bytes", "configuration": {"length_bytes": width}}


def text(width: int) -> dict[str, Any]:
    return {"name": "fixed_length_utf32", "configuration": {"length_bytes": 4 * width}}


def struct(**fields: Any) -> dict[str, Any]:
    parts = [{"name": name, "data_type": data_type} for name, data_type in fields.items()]
    return {"name": "struct", "configuration": {"fields": parts}}


def legacy(**fields: Any) -> dict[str, Any]:
    parts = [[name, data_type] for name, data_type in fields.items()]
    return {"name": "structured", "configuration": {"fields": parts}}


INNER_V3 = struct(s=padded(3), t=time("datetime64", "ms"))
RECORD_V3 = {
    "a": "int16",
    "b": "float64",
    "c": "complex64",
    "ok": "bool",
    "u": text(2),
    "r": raw(3),
}
B64_ABC = base64.b64encode(b"abc").decode()

CASES: dict[str, Case] = {
    "bool": Case(np.dtype("?"), "bool", fill=True, fill_value=True),
    "int64": Case(np.dtype("i8"), "int64", fill=-5, fill_value=-5),
    "float32": Case(np.dtype("f4"), "float32", fill="NaN", fill_value=np.nan),
    "float64": Case(np.dtype("f8"), "float64", fill="-Infinity", fill_value=-np.inf),
    "complex128": Case(
        np.dtype("c16"), "complex128", fill=[1.5, "NaN"], fill_value=complex(1.5, np.nan)
    ),
    "datetime64": Case(
        np.dtype("M8[ms]"), time("datetime64", "ms"), fill="NaT", fill_value=np.datetime64("NaT")
    ),
    "timedelta64": Case(
        np.dtype("m8[7us]"),
        time("timedelta64", "us", 7),
        fill=-3,
        fill_value=np.timedelta64(-3, "7us"),
    ),
    "S1": Case(np.dtype("S1"), padded(1), fill="YQ==", fill_value=b"a"),
    "S5": Case(np.dtype("S5"), padded(5), fill=B64_ABC, fill_value=b"abc"),
    "U1": Case(np.dtype("U1"), text(1), fill="é", fill_value="é"),
    "U6": Case(np.dtype("U6"), text(6), fill="x\u20ac\U0001f600", fill_value="x\u20ac\U0001f600"),
    "V1": Case(np.dtype("V1"), raw(1), fill="/w==", fill_value=b"\xff"),
    "V3": Case(np.dtype("V3"), raw(3), fill=B64_ABC, fill_value=b"abc"),
    "r24": Case(np.dtype("V3"), "r24", v2=False, fill=[97, 98, 99], fill_value=b"abc"),
    "V16": Case(np.dtype("V16"), "r128", fill=[1] * 16, fill_value=b"\1" * 16),
    "V37": Case(
        np.dtype("V37"), raw(37), fill=base64.b64encode(b"q" * 37).decode(), fill_value=b"q" * 37
    ),
    "record": Case(
        RECORD,
        struct(**RECORD_V3),
        fill={"a": 258, "b": "NaN", "c": [1, -1], "ok": True, "u": "é", "r": B64_ABC},
        fill_value=(258, np.nan, 1 - 1j, True, "é", b"abc"),
    ),
    "legacy record": Case(
        RECORD,
        legacy(**RECORD_V3),
        v2=False,
        fill=base64.b64encode(
            np.array((2, 1.5, 2j, True, "zz", b"\0bc"), RECORD).tobytes()
        ).decode(),
        fill_value=(2, 1.5, 2j, True, "zz", b"\0bc"),
    ),
    "nested": Case(
        NESTED,
        struct(x="uint8", n=INNER_V3, **{"é ü": "float16"}),
        fill={"x": 7, "n": {"s": B64_ABC, "t": "NaT"}, "é ü": 0.5},
        fill_value=(7, (b"abc", np.datetime64("NaT")), 0.5),
    ),
    "arrays": Case(ARRAYS),
    "one member": Case(np.dtype([("x", "f4")]), struct(x="float32"), fill={}, fill_value=(0,)),
}

NARROW = [
    *("bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn"),
    *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
]
SMALL = ["int2", "int4", "uint2", "uint4"]
for _name in NARROW + SMALL:
    CASES[_name] = Case(np.dtype(getattr(ml_dtypes, _name)), _name, v2=False, fill=1, fill_value=1)

LAYOUTS = ["plain", "zstd", "blosc", "order", "sharded", "sharded order"]


def stored_dtype(dtype: np.dtype[Any], order: str) -> np.dtype[Any]:
    """The type with its numbers in a byte order; types of ml_dtypes have none of their own."""
    if dtype.isbuiltin == 2:
        return dtype
    return dtype.newbyteorder(order)


def stored_bytes(values: NDArray, order: str) -> NDArray:
    """The elements as they are stored, opaque."""
    dtype = stored_dtype(values.dtype, order)
    if dtype.isbuiltin == 2 and dtype.itemsize == 2 and order == ">":
        swapped = values.view("u2").byteswap()
        return swapped.view("V2")
    return np.ascontiguousarray(values.astype(dtype)).view(f"V{dtype.itemsize}")


def random_values(dtype: np.dtype[Any], shape: Sequence[int], seed: int) -> NDArray:
    """Any values of the type, with all that is special about it."""
    random = np.random.default_rng(seed)
    count = int(np.prod(shape))
    values: NDArray = np.zeros(count, dtype)
    if dtype.names is not None:
        for name in dtype.names:
            field = dtype[name]
            parts = random_values(field.base, (count, *field.shape), int(random.integers(1 << 30)))
            values[name] = parts.reshape((count, *field.shape))
    elif dtype.kind == "b":
        values[...] = random.integers(0, 2, count)
    elif dtype.kind == "U":
        letters = np.array(list("aé\u20ac\U0001f600\uffff\u0001"))
        lengths = random.integers(0, dtype.itemsize // 4 + 1, count)
        values[...] = ["".join(random.choice(letters, length)) for length in lengths]
        values[::7] = "\0b"[: dtype.itemsize // 4]
    elif dtype.kind == "S":
        lengths = random.integers(0, dtype.itemsize + 1, count)
        values[...] = [bytes(random.integers(0, 256, n, np.uint8)) for n in lengths]
    elif dtype.kind in "mM":
        counts = random.integers(-(10**12), 10**12, count)
        counts[::5] = NAT
        values[...] = counts.view(dtype)
    elif dtype.name in SMALL:
        limits = ml_dtypes.iinfo(dtype)
        values[...] = (
            random.integers(int(limits.min), int(limits.max) + 1, count).astype("i1").astype(dtype)
        )
    elif dtype.name in NARROW[-3:]:
        bits = 4 if dtype.name.startswith("float4") else 6
        values = random.integers(0, 1 << bits, count, np.uint8).view(dtype)
    else:
        values = random.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    return values.reshape(shape)


def json_v2(dtype: np.dtype[Any], order: str) -> Any:
    """The `dtype` of v2."""
    if dtype.names is None:
        return stored_dtype(dtype, order).str
    fields = []
    for name in dtype.names:
        field = dtype[name]
        parts = [name, json_v2(field.base, order)]
        fields.append([*parts, list(field.shape)] if field.shape else parts)
    return fields


def fill_v2(case: Case, order: str) -> tuple[Any, Any]:
    """The JSON of a fill value in v2, and what it stands for."""
    dtype = case.dtype
    if dtype.names is not None:
        record = random_values(dtype, (1,), 99)
        return base64.b64encode(
            record.astype(stored_dtype(dtype, order)).tobytes()
        ).decode(), record[0]
    if dtype.kind in "SV":
        filled = np.array(case.fill_value, dtype)
        return base64.b64encode(filled.tobytes()).decode(), filled[()]
    return case.fill, case.fill_value


def filled(dtype: np.dtype[Any], value: Any, shape: Sequence[int]) -> NDArray:
    """An array of one value."""
    values: NDArray = np.zeros(shape, dtype)
    if isinstance(value, np.void) or (dtype.kind == "V" and isinstance(value, bytes)):
        values[...] = np.array(value, dtype)
    else:
        values[...] = value
    return values


def write(
    path: Path, case: Case, zarr_format: int, order: str, layout: str, *, seed: int = 0
) -> tuple[Any, NDArray]:
    """Write random values, and leave a chunk out; give the array's path and what it holds."""
    values = random_values(case.dtype, SHAPE, seed)
    opaque = stored_bytes(values, order)
    options: dict[str, Any] = {
        "chunks": CHUNKS,
        "zarr_format": zarr_format,
        "compressors": None,
        "config": {"write_empty_chunks": True},
    }
    if zarr_format == 2:
        options["compressors"] = {"zstd": Zstd(), "blosc": Blosc(blocksize=64)}.get(layout)
        options["order"] = "F" if "order" in layout else "C"
    elif not layout.startswith("sharded"):
        options["compressors"] = {"zstd": [ZstdCodec()], "blosc": [BloscCodec(typesize=1)]}.get(
            layout
        )
        options["filters"] = [TransposeCodec(order=(1, 0))] if "order" in layout else []
    else:
        # zarr-python 3.1 has no shards of raw bytes: here they are an axis more at first.
        width = opaque.dtype.itemsize
        opaque = opaque.view("u1").reshape(*SHAPE, width)
        transposed = [TransposeCodec(order=(1, 0, 2))] if "order" in layout else []
        options["serializer"] = ShardingCodec(
            chunk_shape=(*CHUNKS, width), codecs=[*transposed, BytesCodec(endian=None), ZstdCodec()]
        )
        options["chunks"] = (*SHARDS, width)
    array = zarr.create_array(path, shape=opaque.shape, dtype=opaque.dtype, **options)
    array[...] = opaque
    document = path / ("zarr.json" if zarr_format == 3 else ".zarray")
    metadata = json.loads(document.read_text())
    if layout.startswith("sharded"):
        _drop_last_axis(metadata)
        for shard in list((path / "c").glob("*/*/0")):
            content = shard.read_bytes()
            shard.unlink()
            shard.parent.rmdir()
            shard.parent.write_bytes(content)
    chunk = path / ("c/0/0" if zarr_format == 3 else "0.0")
    chunk.unlink()
    if zarr_format == 3:
        metadata["data_type"], metadata["fill_value"] = case.v3, case.fill
        _set_endian(metadata["codecs"], "big" if order == ">" else "little")
        fill = case.fill_value
    else:
        metadata["dtype"] = json_v2(case.dtype, order)
        metadata["fill_value"], fill = fill_v2(case, order)
    document.write_text(json.dumps(metadata))
    rows, columns = SHARDS if layout.startswith("sharded") else CHUNKS
    values[:rows, :columns] = filled(case.dtype, fill, values[:rows, :columns].shape)
    return path, values


def _drop_last_axis(metadata: Any) -> None:
    """Make metadata of three axes such of two."""
    for value in metadata.values() if isinstance(metadata, dict) else metadata:
        if isinstance(value, list) and len(value) == 3 and all(isinstance(n, int) for n in value):
            value.pop()
        elif isinstance(value, (dict, list)):
            _drop_last_axis(value)


def _set_endian(codecs: list[Any], endian: str) -> None:
    for codec in codecs:
        if codec["name"] == "bytes":
            codec["configuration"] = {"endian": endian}
        _set_endian(codec.get("configuration", {}).get("codecs", []), endian)


def assert_values(leaf: pa.Array, values: NDArray) -> None:
    """Compare an Arrow array of elements with flat NumPy values, bit for bit."""
    assert len(leaf) == len(values)
    leaf.validate(full=True)
    dtype = values.dtype
    if dtype.names is not None:
        _assert_members(leaf, values)
    elif dtype.kind in "mM":
        unit = np.datetime_data(dtype)[0]
        assert leaf.type.unit == unit
        exact = values.astype(f"{dtype.kind}8[{unit}]").view("i8")
        assert leaf.is_valid().to_pylist() == (~np.isnat(values)).tolist()
        got = leaf.cast(pa.int64()).fill_null(NAT).to_numpy()
        np.testing.assert_array_equal(got, exact)
    else:
        assert leaf.null_count == 0
        _assert_non_null(leaf, values)


def _assert_members(leaf: pa.Array, values: NDArray) -> None:
    assert pa.types.is_struct(leaf.type)
    assert leaf.null_count == 0
    assert [field.name for field in leaf.type] == list(values.dtype.names or ())
    for at, name in enumerate(values.dtype.names or ()):
        part, column = leaf.field(at), values[name]
        for length in column.shape[1:]:
            assert part.type.list_size == length
            assert not part.null_count
            part = part.flatten()
        assert_values(part, column.reshape(-1))


def _assert_non_null(leaf: pa.Array, values: NDArray) -> None:
    dtype = values.dtype
    if dtype.kind in "SU":
        kind = pa.large_binary() if dtype.kind == "S" else pa.large_string()
        assert leaf.type == kind
        assert leaf.to_pylist() == values.tolist()
    elif dtype.kind == "b":
        assert leaf.to_pylist() == values.tolist()
    elif dtype.kind == "c":
        parts = leaf.flatten()
        assert parts.to_numpy().tobytes() == values.tobytes()
    elif dtype.name in SMALL:
        assert leaf.type == (pa.uint8() if dtype.name[0] == "u" else pa.int8())
        assert leaf.to_pylist() == [int(value) for value in values]
    elif dtype.name in NARROW:
        assert leaf.type == pa.float32()
        np.testing.assert_array_equal(leaf.to_numpy(), values.astype("f4"))
        signs = np.signbit(leaf.to_numpy()) == np.signbit(values.astype("f4"))
        assert (signs | np.isnan(leaf.to_numpy())).all()
    elif dtype.kind == "V":
        assert leaf.type == pa.binary(dtype.itemsize)
        assert leaf.to_pylist() == [value.tobytes() for value in values]
    else:
        assert leaf.to_numpy().tobytes() == values.tobytes()


def leaf_of(result: pa.Array, levels: int) -> pa.Array:
    """The elements of a result."""
    for _ in range(levels):
        result = result.values
    return result
