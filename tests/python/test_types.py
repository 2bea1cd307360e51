"""The Arrow type of each result, and that bits survive."""

from __future__ import annotations

import struct
from typing import Any

import awkward as ak
import numpy as np
import oracle
import pyarrow as pa
import pytest
import zarrow
from arrays import Maker, edit_json, random_bits, write_values

SIGNED_ZEROS_AND_NANS = {
    "float16": (0x8000, 0x7E00, 0x7E01, 0x7C01, 0xFE55, 0xFC00),
    "float32": (0x80000000, 0x7FC00000, 0x7FC12345, 0x7F800001, 0x7F800002, 0xFF800000),
    "float64": (1 << 63, 0x7FF8 << 48, 0x7FF8000000000BAD, 0x7FF0000000000001, 0xFFF0 << 48),
}


@pytest.mark.parametrize("levels", range(4))
@pytest.mark.parametrize("dtype", oracle.ARROW_TYPES)
def test_type(make: Maker, dtype: str, levels: int) -> None:
    """One large list per kept axis; elements as they are; nothing nullable."""
    written = make(dtype=dtype, shape=(3, 4, 2), chunks=(2, 3, 2))
    items = (slice(0, 2), slice(1, 4), slice(None))[:levels] + (1,) * (3 - levels)
    result = zarrow.read_ragged(written.path, [items, items])
    written.check(result, [items, items])
    assert result.type == oracle.arrow_type(dtype, levels)
    assert len(oracle.lists_of(result)) == levels


@pytest.mark.parametrize("dtype", oracle.ARROW_TYPES)
def test_awkward_type(make: Maker, dtype: str) -> None:
    """Awkward sees no option type anywhere."""
    written = make(dtype=dtype, shape=(6, 5), chunks=(4, 4))
    selections: list[Any] = [np.s_[0:2, 1:4], np.s_[3:6, 0:5], np.s_[2:2]]
    array = ak.from_arrow(zarrow.read_ragged(written.path, selections))
    part = {"complex64": "2 * float32", "complex128": "2 * float64"}.get(dtype, dtype)
    assert str(ak.type(array)) == f"3 * var * var * {part}"
    if not dtype.startswith("complex"):
        ones = np.array([1], dtype)
        flat = np.asarray(ak.flatten(array, axis=None))
        assert flat.dtype == ones.dtype
        wanted = oracle.expect(written.whole, selections).values
        assert flat.tobytes() == wanted


def test_metadata_is_plain(make: Maker) -> None:
    """The Zarr data type is told in field metadata; no extension type gets in the way."""
    written = make(dtype="uint16", shape=(4, 3), chunks=(2, 2))
    result = zarrow.read_ragged(written.path, [np.s_[0:2], np.s_[1:4]])
    outer = result.type.value_field
    inner = outer.type.value_field
    assert inner.metadata == {
        b"zarr:dtype": b"uint16",
        b"zarr:byte_order": b"little",
        b"zarr:fill_value": b"0",
    }
    assert (outer.name, inner.name) == ("item", "item")


@pytest.mark.parametrize("dtype", SIGNED_ZEROS_AND_NANS)
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "fill value"])
@pytest.mark.parametrize("endian", ["little", "big"])
def test_nan_payloads(make: Maker, dtype: str, stored: bool, endian: str) -> None:
    """VCF Zarr tells missing from padding by the payload of a NaN."""
    size = np.dtype(dtype).itemsize
    for word in SIGNED_ZEROS_AND_NANS[dtype]:
        bits = np.array([word], f"u{size}")
        written = make(
            dtype=dtype, shape=(5,), chunks=(2,), endian=endian, missing=float(not stored)
        )
        if stored:
            for index, key in enumerate(written.files()):
                data = bits.astype(f"{'>' if endian == 'big' else '<'}u{size}").tobytes() * 2
                written.chunk(index).write_bytes(data)
                assert key == f"c/{index}"
        else:
            edit_json(written.path / "zarr.json", fill_value=f"0x{word:0{2 * size}x}")
        result = zarrow.read_ragged(written.path, [np.s_[1:5]])
        assert oracle.values_bytes(result) == bits.tobytes() * 4


FILLS: list[tuple[str, Any, Any]] = [
    ("int8", -128, -128),
    ("uint64", 2**64 - 1, 2**64 - 1),
    ("int64", -(2**63), -(2**63)),
    ("uint8", 255, 255),
    ("bool", True, True),
    ("float64", 0.1, 0.1),
    ("float64", 1, 1.0),
    ("float64", -0.0, -0.0),
    ("float64", 5e-324, 5e-324),
    ("float64", 1.7976931348623157e308, 1.7976931348623157e308),
    ("float64", 2.2250738585072011e-308, 2.2250738585072011e-308),
    ("float64", 0.30000000000000004, 0.30000000000000004),
    ("float64", "Infinity", np.inf),
    ("float32", "-Infinity", -np.inf),
    ("float32", "NaN", np.nan),
    ("float32", 0.10000000149011612, np.float32(0.1)),
    ("float16", 65504, 65504),
    ("float32", "0x3f800000", 1.0),
    ("complex64", [1.5, "-Infinity"], complex(1.5, -np.inf)),
    ("complex128", [-0.0, 0.1], complex(-0.0, 0.1)),
]


@pytest.mark.parametrize(("dtype", "fill", "value"), FILLS, ids=lambda part: str(part))
def test_fill_values(make: Maker, dtype: str, fill: Any, value: Any) -> None:
    """Each form of a fill value in Zarr v3, exact to the last bit."""
    written = make(dtype=dtype, shape=(4,), chunks=(3,), missing=1.0)
    edit_json(written.path / "zarr.json", fill_value=fill)
    whole = np.full(4, value, dtype)
    oracle.assert_reads(
        zarrow.read_ragged(written.path, [..., np.s_[1:2]]), whole, [..., np.s_[1:2]]
    )


@pytest.mark.parametrize(("dtype", "fill", "value"), [f for f in FILLS if "0x" not in str(f[1])])
def test_fill_values_v2(make: Maker, dtype: str, fill: Any, value: Any) -> None:
    written = make(dtype=dtype, shape=(4,), chunks=(3,), missing=1.0, zarr_format=2, endian="big")
    edit_json(written.path / ".zarray", fill_value=fill)
    whole = np.full(4, value, dtype)
    oracle.assert_reads(zarrow.read_ragged(written.path, [...]), whole, [...])


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "float64", "complex64"])
def test_null_fill_value_v2(make: Maker, dtype: str) -> None:
    """No fill value in v2 reads as zero, as zarr-python has it."""
    written = make(dtype=dtype, shape=(9,), chunks=(2,), missing=0.5, zarr_format=2, seed=3)
    edit_json(written.path / ".zarray", fill_value=None)
    assert 0 < len(written.stored) < 5
    written.check(zarrow.read_ragged(written.path, [...]), [...])


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 63, 64, 65, 1000])
def test_bool_bits(make: Maker, rows: int) -> None:
    """Bools are packed; runs begin and end in the middle of a byte of the result."""
    written = make(dtype="bool", shape=(1100,), chunks=(17,), seed=rows)
    starts = np.arange(rows) % 1000
    selections: list[Any] = [slice(s, s + s % 5) for s in starts.tolist()]
    written.check(zarrow.read_ragged(written.path, selections), selections)


def test_bool_bytes_other_than_0_and_1(make: Maker) -> None:
    """A byte that is no bool is an error, or true: never half of each."""
    written = make(dtype="bool", shape=(4,), chunks=(4,))
    written.chunk(0).write_bytes(bytes([0, 1, 2, 255]))
    try:
        result = zarrow.read_ragged(written.path, [...])
    except zarrow.DecodeError:
        return
    assert result.to_pylist() == [[False, True, True, True]]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", [">u2", ">i8", ">f4", ">f8", ">c16", "<u4", "|b1", "|u1"])
def test_byte_order(here: Any, dtype: str, zarr_format: int) -> None:
    """The element type of a result is native, whatever the order on disk."""
    kind = np.dtype(dtype)
    values = random_bits(kind.newbyteorder("=").name, 30, 4).reshape(6, 5)
    options: dict[str, Any] = {"zarr_format": zarr_format}
    if zarr_format == 3:
        options["serializer"] = {
            "name": "bytes",
            "configuration": {"endian": "big" if dtype[0] == ">" else "little"},
        }
        kind = kind.newbyteorder("=")
    write_values(here / "a.zarr", values.astype(kind), (4, 4), **options)
    selections: list[Any] = [np.s_[1:6, 2:5], np.s_[0:2]]
    oracle.assert_reads(zarrow.read_ragged(here / "a.zarr", selections), values, selections)


def test_sharded_scalar(make: Maker) -> None:
    """A 0-dimensional array in a shard, which zarr-python does not write: made by hand."""
    written = make(dtype="int32", shape=(), chunks=())
    inner = {
        "chunk_shape": [],
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }
    index = [{"name": "bytes", "configuration": {"endian": "little"}}]
    sharding = {"name": "sharding_indexed", "configuration": {**inner, "index_codecs": index}}
    edit_json(written.path / "zarr.json", codecs=[sharding])
    written.chunk().write_bytes(struct.pack("<iQQ", -77, 0, 4))
    result = zarrow.read_ragged(written.path, [(), ...])
    assert result.equals(pa.array([-77, -77], pa.int32()))


@pytest.mark.parametrize(
    "dtype",
    ["int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"],
)
@pytest.mark.parametrize("shards", [None, (6, 8)])
def test_pcodec(make: Maker, dtype: str, shards: tuple[int, ...] | None) -> None:
    pytest.importorskip("pcodec", reason="zarr-python needs pcodec to write it")
    written = make(dtype=dtype, shape=(10, 13), chunks=(3, 4), shards=shards, pcodec=True)
    selections: list[Any] = [np.s_[1:9, 3:12], np.s_[9:, :1], ...]
    written.check(zarrow.read_ragged(written.path, selections), selections)
