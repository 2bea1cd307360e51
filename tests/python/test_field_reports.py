"""Faults that were found by reviewers and users: each with its whole kind."""

from __future__ import annotations

import bz2
import gzip
import json
import math
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zarrow

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
GZIP = {"name": "gzip", "configuration": {"level": 1}}
CRC32C = {"name": "crc32c"}
PACKBITS = {"name": "packbits", "configuration": {}}
# A zstd frame that claims 2^40 bytes and holds one empty block.
BOMB = struct.pack("<IBQ", 0xFD2FB528, 0xE0, 2**40) + b"\1\0\0"


def write(root: Path, codecs: list[Any], chunk: bytes | None = None, **changes: Any) -> Path:
    """Write a v3 array of 100 uint8 in one chunk by hand."""
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [100],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [100]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": codecs,
        **changes,
    }
    (root / "c").mkdir(parents=True, exist_ok=True)
    (root / "zarr.json").write_text(json.dumps(metadata))
    if chunk is not None:
        (root / "c/0").write_bytes(chunk)
    return root


def sharded(inner: list[Any], subchunk: bytes) -> tuple[dict[str, Any], bytes]:
    """Give the sharding codec and a shard of one subchunk."""
    codec = {
        "name": "sharding_indexed",
        "configuration": {"chunk_shape": [100], "codecs": inner, "index_codecs": [BYTES]},
    }
    return codec, subchunk + struct.pack("<QQ", 0, len(subchunk))


@pytest.mark.parametrize("kind", ["direct", "packbits", "twice", "shard in gzip", "shard in shard"])
def test_lengths_that_lie_allocate_nothing(tmp_path: Path, kind: str) -> None:
    shard, content = sharded([BYTES, ZSTD], BOMB)
    outer, outer_content = sharded([shard], content)
    codecs, chunk = {
        "direct": ([BYTES, ZSTD], BOMB),
        "packbits": ([PACKBITS, ZSTD], BOMB),
        "twice": ([BYTES, ZSTD, GZIP], gzip.compress(BOMB)),
        "shard in gzip": ([shard, GZIP], gzip.compress(content)),
        "shard in shard": ([outer], outer_content),
    }[kind]
    path = write(tmp_path, codecs, chunk)
    code = (
        "import resource, sys, zarrow\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "try: zarrow.read_ragged(sys.argv[1], [...], threads=1)\n"
        "except zarrow.DecodeError as error: assert 'c/0' in str(error), error\n"
        "else: raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)


@pytest.mark.parametrize("codec", ["numcodecs.bz2", "gzip"])
def test_bombs_are_cut_short(tmp_path: Path, codec: str) -> None:
    zeros = bytes(64 << 20)
    chunk = bz2.compress(zeros) if codec == "numcodecs.bz2" else gzip.compress(gzip.compress(zeros))
    codecs = [BYTES, {"name": codec, "configuration": {"level": 1}}]
    codecs += [GZIP] if codec == "gzip" else []
    with pytest.raises(zarrow.DecodeError, match="c/0"):
        zarrow.read_ragged(write(tmp_path, codecs, chunk), [...])


@pytest.mark.parametrize("more", [gzip.compress(bytes(50)), gzip.compress(bytes(100)), b"xyzxyz"])
def test_bytes_behind_a_gzip_stream(tmp_path: Path, more: bytes) -> None:
    path = write(tmp_path, [BYTES, GZIP], gzip.compress(bytes(100)) + more)
    with pytest.raises(zarrow.DecodeError, match="c/0"):
        zarrow.read_ragged(path, [...])


def test_gzip_of_several_members(tmp_path: Path) -> None:
    data = bytes(range(100))
    chunk = gzip.compress(data[:30]) + gzip.compress(data[30:])
    result = zarrow.read_ragged(write(tmp_path, [BYTES, GZIP], chunk), [...])
    assert result[0].as_py() == list(data)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_attributes_that_json_does_not_have(tmp_path: Path, zarr_format: Any) -> None:
    attrs = {"a": math.nan, "b": [math.inf, -math.inf], "big": 2**70, "s": 'NaN "Infinity" \\"'}
    z = zarr.create_array(
        tmp_path / "a", data=np.arange(4), chunks=(2,), attributes=attrs, zarr_format=zarr_format
    )
    array = zarrow.open_array(z)
    assert zarrow.read_ragged(array, [...]).to_pylist() == [[0, 1, 2, 3]]
    got = dict(array.attrs)
    assert math.isnan(got.pop("a"))
    assert got == {key: value for key, value in attrs.items() if key != "a"}


def test_attributes_of_null(tmp_path: Path) -> None:
    path = write(tmp_path, [BYTES], bytes(100), attributes=None)
    assert zarrow.open_array(path).attrs == {}


def test_fill_values_of_integers_may_be_written_as_floats(tmp_path: Path) -> None:
    path = write(tmp_path, [BYTES], fill_value=7.0)
    assert zarrow.read_ragged(path, [np.s_[:2]]).to_pylist() == [[7, 7]]


def test_chunks_of_nothing_along_an_empty_axis(tmp_path: Path) -> None:
    grid = {"name": "regular", "configuration": {"chunk_shape": [0]}}
    path = write(tmp_path, [BYTES], shape=[0], chunk_grid=grid)
    assert zarrow.read_ragged(path, [...]).to_pylist() == [[]]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("name", ["c/0", "zarr.json"])
def test_named_pipes_do_not_hang(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, [BYTES])
    (path / name).unlink(missing_ok=True)
    os.mkfifo(path / name)
    code = (
        "import sys, zarrow\n"
        "try: zarrow.read_ragged(sys.argv[1], [...])\n"
        "except zarrow.StoreError: pass\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=30)


def test_relative_paths_stay_where_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, folder in enumerate(["x", "y"]):
        zarr.create_array(tmp_path / folder / "a", data=np.full(4, value), chunks=(2,))
    monkeypatch.chdir(tmp_path / "x")
    array = zarrow.open_array("a")
    monkeypatch.chdir(tmp_path / "y")
    assert zarrow.read_ragged(array, [...]).to_pylist() == [[0, 0, 0, 0]]


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text elsewhere")
def test_paths_that_are_no_text(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.zarr")
    write(Path(name), [BYTES], bytes(range(100)))
    array = zarrow.open_array(name)
    assert array.path == name
    assert zarrow.read_ragged(array, [np.s_[3:5]]).to_pylist() == [[3, 4]]


@pytest.mark.parametrize("codec", ["none", "blosc"])
def test_thousands_of_thin_boxes_in_one_chunk(tmp_path: Path, codec: str) -> None:
    data = np.random.default_rng(1).integers(0, 255, (1000, 1000), "u1")
    compressors: Any = None if codec == "none" else zarr.codecs.BloscCodec(cname="lz4")
    z = zarr.create_array(tmp_path / "a", data=data, chunks=(1000, 1000), compressors=compressors)
    columns = np.arange(2000) % 1000
    starts = np.stack([columns * 0, columns], axis=1)
    stops = np.stack([columns * 0 + 1000, columns + 1], axis=1)
    result, stats = zarrow.read_ragged(z, zarrow.boxes(starts, stops), return_stats=True)
    assert stats.chunks_decoded == 1
    values = result.values.values.to_numpy().reshape(2000, 1000)
    assert np.array_equal(values, data.T[columns])


@pytest.mark.parametrize("threads", [0, -1, 1025, 2**70])
def test_thread_counts_out_of_the_question(tmp_path: Path, threads: int) -> None:
    with pytest.raises(ValueError, match="threads"):
        zarrow.read_ragged(write(tmp_path, [BYTES], bytes(100)), [...], threads=threads)


def test_no_boxes_at_all(tmp_path: Path) -> None:
    result = zarrow.read_ragged(write(tmp_path, [BYTES]), zarrow.boxes([], []))
    assert len(result) == 0
    assert str(result.type) == "large_list<item: uint8 not null>"
