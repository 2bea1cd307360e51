"""Optional values, packed numbers, complex numbers of small floats, and elements of no bytes.

zarr-python writes none of them: their chunks are made here, by the specification of each codec.
"""

from __future__ import annotations

import itertools
import json
import struct
from pathlib import Path
from typing import Any

import fixed_width as lib
import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
import zarrow
from fixed_width import CASES

SHAPE, CHUNKS = (5, 6), (2, 4)
ROWS: list[Any] = [np.s_[:, :], np.s_[1:4, 3:6], np.s_[::-2, [5, 0]]]
BYTES = {"little": "<", "big": ">"}


def write(
    path: Path, data_type: Any, fill: Any, codecs: list[Any], chunks: dict[str, bytes]
) -> Path:
    path.mkdir(parents=True)
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": SHAPE,
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": CHUNKS}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": codecs,
        "attributes": {},
    }
    (path / "zarr.json").write_text(json.dumps(document))
    for key, chunk in chunks.items():
        target = path / "c" / key
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(chunk)
    return path


def chunks_of(values: np.ndarray) -> dict[str, np.ndarray]:
    """The chunks of an array, those at the edge filled up with what is at its start."""
    padded = np.resize(values, (6, 8))
    padded[:5, :6] = values
    grid = itertools.product(range(3), range(2))
    return {f"{i}/{j}": padded[2 * i : 2 * i + 2, 4 * j : 4 * j + 4] for i, j in grid}


def pack(bits: np.ndarray) -> bytes:
    return np.packbits(bits.reshape(-1), bitorder="little").tobytes()


def optional_chunk(values: np.ndarray, valid: np.ndarray, order: str, packed: bool) -> bytes:
    mask = pack(valid) if packed else valid.astype("u1").tobytes()
    data = lib.stored_bytes(values.reshape(-1)[valid.reshape(-1)], order).tobytes()
    return struct.pack("<QQ", len(mask), len(data)) + mask + data


def bytes_codec(endian: str) -> dict[str, Any]:
    return {"name": "bytes", "configuration": {"endian": endian}}


@pytest.mark.parametrize("spelling", ["optional", "zarrs.optional"])
@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("endian", BYTES)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.v3 is not None])
def test_optional(tmp_path: Path, name: str, endian: str, sharded: bool, spelling: str) -> None:
    case = CASES[name]
    values = lib.random_values(case.dtype, SHAPE, 3)
    valid = np.random.default_rng(8).random(SHAPE) < 0.6
    valid[2:4, :4] = False
    data_type = case.v3 if isinstance(case.v3, dict) else {"name": case.v3, "configuration": {}}
    codec = {
        "name": spelling,
        "configuration": {
            "mask_codecs": [{"name": "packbits"}],
            "data_codecs": [bytes_codec(endian)],
        },
    }
    parts = chunks_of(values), chunks_of(valid)
    chunks = {
        key: optional_chunk(part, parts[1][key], BYTES[endian], packed=True)
        for key, part in parts[0].items()
    }
    # One chunk is missing: its values are the fill value, or none.
    fill = [case.fill] if sharded else None
    chunks["0/1"] = b""
    codecs: list[Any] = [codec]
    if sharded:
        inner = {
            "chunk_shape": CHUNKS,
            "codecs": [codec],
            "index_codecs": [bytes_codec("little")],
        }
        codecs = [{"name": "sharding_indexed", "configuration": inner}]
        empty = (1 << 64) - 1
        chunks = {
            key: chunk + struct.pack("<QQ", *((0, len(chunk)) if chunk else (empty, empty)))
            for key, chunk in chunks.items()
        }
    else:
        del chunks["0/1"]
    path = write(
        tmp_path / "a", {"name": spelling, "configuration": data_type}, fill, codecs, chunks
    )
    valid[:2, 4:] = sharded
    values[:2, 4:] = lib.filled(case.dtype, case.fill_value, (2, 2))
    leaf = lib.leaf_of(zarrow.read_ragged(path, ROWS), 2)
    flat = np.concatenate([values[row].reshape(-1) for row in ROWS])
    present = np.concatenate([valid[row].reshape(-1) for row in ROWS])
    shown = present & ~np.isnat(flat) if flat.dtype.kind in "mM" else present
    assert leaf.is_valid().to_pylist() == shown.tolist()
    lib.assert_values(leaf.filter(pa.array(shown)), flat[shown])
    assert zarrow.open_array(path).zarr_dtype == "zarrs.optional"


def test_optional_fill_and_errors(tmp_path: Path) -> None:
    codec = {
        "name": "zarrs.optional",
        "configuration": {
            "mask_codecs": [bytes_codec("little")],
            "data_codecs": [bytes_codec("little")],
        },
    }
    of = {"name": "optional", "configuration": {"name": "int16", "configuration": {}}}
    valid = np.ones(SHAPE, bool)
    values = np.arange(30, dtype="i2").reshape(SHAPE)
    parts = chunks_of(values), chunks_of(valid)
    chunks = {k: optional_chunk(v, parts[1][k], "<", packed=False) for k, v in parts[0].items()}
    path = write(tmp_path / "a", of, None, [codec], chunks)
    window = zarrow.boxes([[4, 4]], [[6, 7]], out_of_bounds="fill")
    assert zarrow.read_ragged(path, window).to_pylist() == [[[28, 29, None], [None] * 3]]
    assert zarrow.read_ragged(path, window, fill=7).to_pylist() == [[[28, 29, 7], [7] * 3]]
    for damage in (chunks["0/0"][:-1], chunks["0/0"][:9], b"", chunks["0/0"] + b"x", b"\xff" * 40):
        (path / "c/0/0").write_bytes(damage)
        with pytest.raises(zarrow.DecodeError, match="c/0/0"):
            zarrow.read_ragged(path, [np.s_[:1, :1]])
    for fill in (3, [1, 2], [1 << 20], ["x"], [None]):
        bad = write(tmp_path / f"bad{fill}", of, fill, [codec], {})
        with pytest.raises(zarrow.MetadataError, match="fill value"):
            zarrow.open_array(bad)


PACKED = {
    **dict.fromkeys(("int2", "uint2"), 2),
    **dict.fromkeys(("int4", "uint4", "float4_e2m1fn"), 4),
    **dict.fromkeys(("float6_e2m3fn", "float6_e3m2fn"), 6),
    "float8_e5m2": 8,
    "bool": 1,
}


@pytest.mark.parametrize(
    ("name", "padding"),
    [
        (name, padding)
        for name, bits in PACKED.items()
        for padding in (None, "first_byte", "last_byte")
        if bits < 8 or padding is None
    ],
)
def test_packed_bits(tmp_path: Path, name: str, padding: str | None) -> None:
    """The lowest bits of each element, one after the other, least significant first."""
    case, bits = CASES[name], PACKED[name]
    values = lib.random_values(case.dtype, SHAPE, 11)
    chunks = {}
    for key, part in chunks_of(values).items():
        codes = part.reshape(-1).view("u1")
        packed = pack((codes[:, None] >> np.arange(bits)) & 1)
        unused = bytes([-len(codes) * bits % 8])
        chunks[key] = {None: packed, "first_byte": unused + packed, "last_byte": packed + unused}[
            padding
        ]
    configuration = {} if padding is None else {"padding_encoding": padding}
    codecs = [{"name": "packbits", "configuration": configuration}]
    path = write(tmp_path / "a", case.v3, case.fill, codecs, chunks)
    leaf = lib.leaf_of(zarrow.read_ragged(path, ROWS), 2)
    lib.assert_values(leaf, np.concatenate([values[row].reshape(-1) for row in ROWS]))


@pytest.mark.parametrize("endian", BYTES)
@pytest.mark.parametrize("name", [*lib.NARROW, "float16", "float32", "float64"])
def test_complex(tmp_path: Path, name: str, endian: str) -> None:
    """Two floats to a number, of every kind."""
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    parts = lib.random_values(dtype, (*SHAPE, 2), 12)
    opaque = lib.stored_bytes(parts, BYTES[endian])
    padded = np.zeros((6, 8, 2), opaque.dtype)
    padded[:5, :6] = opaque
    chunks = {
        f"{i}/{j}": padded[2 * i : 2 * i + 2, 4 * j : 4 * j + 4].tobytes()
        for i, j in itertools.product(range(3), range(2))
    }
    del chunks["2/1"]
    parts[4:, 4:] = np.array([1, 2], dtype)
    fill = [1, 2]
    path = write(tmp_path / "a", f"complex_{name}", fill, [bytes_codec(endian)], chunks)
    result = zarrow.read_ragged(path, ROWS)
    leaf = lib.leaf_of(result, 2)
    assert leaf.type.list_size == 2
    flat = np.concatenate([parts[row].reshape(-1) for row in ROWS])
    lib.assert_values(leaf.flatten(), flat)
    assert (
        result.type.value_field.type.value_field.metadata[b"zarr:dtype"]
        == f"complex_{name}".encode()
    )
    wide = {"float16": "complex64", "float32": "complex64", "float64": "complex128"}
    assert zarrow.open_array(path).dtype == np.dtype(wide.get(name, "complex64"))
    window = zarrow.boxes([[4, 4]], [[6, 7]], out_of_bounds="fill")
    beyond = lib.leaf_of(zarrow.read_ragged(path, window, fill=2 + 1j), 2)
    assert beyond[-1].as_py() == [2, 1]


@pytest.mark.parametrize(
    "dtype", ["|S0", "|V0", "<U0", [["a", "|S0"], ["b", "<U0"]], [["a", "|V0"], ["n", "<i2"]]]
)
@pytest.mark.parametrize("compressor", [None, {"id": "zstd", "level": 1}])
def test_elements_without_bytes(tmp_path: Path, dtype: Any, compressor: Any) -> None:
    path = tmp_path / "a"
    path.mkdir()
    document = {
        "zarr_format": 2,
        "shape": [5],
        "chunks": [2],
        "dtype": dtype,
        "compressor": compressor,
        "filters": None,
        "fill_value": None,
        "order": "C",
    }
    (path / ".zarray").write_text(json.dumps(document))
    rows: list[Any] = [np.s_[:], np.s_[3:1:-1], np.s_[5:]]
    empty: Any = "" if dtype == "<U0" else b""
    if isinstance(dtype, list):
        empty = {"a": b"", dtype[1][0]: "" if dtype[1][1] == "<U0" else 0}
    assert zarrow.read_ragged(path, rows).to_pylist() == [[empty] * 5, [empty] * 2, []]
    (nulls,) = zarrow.read_ragged(path, rows[:1], missing_chunks="null").to_pylist()
    assert nulls == [None] * 5
    with pytest.raises(zarrow.NotFoundError):
        zarrow.read_ragged(path, rows, missing_chunks="error")
    if empty in (b"", ""):
        (path / "0").write_bytes(b"")
        (path / "2").write_bytes(b"what is not looked at")
        (nulls,) = zarrow.read_ragged(path, rows[:1], missing_chunks="null").to_pylist()
        assert nulls == [empty, empty, None, None, empty]
    windows = zarrow.ranges([3], [7], out_of_bounds="null")
    assert zarrow.read_ragged(path, windows).to_pylist() == [[empty, empty, None, None]]
