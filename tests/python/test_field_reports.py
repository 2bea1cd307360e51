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
from arrays import Maker, edit_json
from failures import fails, run

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


# ---- plans of what is too large --------------------------------------------------------------

LIMITED = """
import sys
import numpy as np, zarrow
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
except ImportError:
    pass
array, n = zarrow.open_array(sys.argv[1]), int(sys.argv[2])
"""
# Of 1e9 elements in chunks of 100, 100,001 rows of 2e8: 2e11 pieces, and 80 TB. To count the pieces
# takes no memory, but many minutes.
TOO_LARGE = {
    "ranges": "zarrow.ranges([0] * n, [200_000_000] * n)",
    "ranges with steps": "zarrow.ranges([0] * n, [600_000_000] * n, [3] * n)",
    "ranges, backwards": "zarrow.ranges([999_999_999] * n, [-1] * n, [-5] * n)",
    "boxes": "zarrow.boxes([[0]] * n, [[200_000_000]] * n)",
    "boxes, clipped": "zarrow.boxes([[-9]] * n, [[2**62]] * n, out_of_bounds='clip')",
    "windows that are filled": "zarrow.windows([5] * n, 400_000_000, out_of_bounds='fill')",
    "windows that are null": "zarrow.windows([5] * n, 400_000_000, out_of_bounds='null')",
    "slices": "[slice(200_000_000)] * n",
    "slices with steps": "[slice(None, None, 5)] * n",
    "whole": "[...] * n",
    "two kinds": "[slice(200_000_000), ...] * (n // 2) + [slice(0)]",
}


@pytest.mark.parametrize("rows", [99_999, 100_001])
@pytest.mark.parametrize("name", TOO_LARGE)
def test_results_that_are_too_large_are_not_planned(make: Maker, name: str, rows: int) -> None:
    """The sizes are added up before any piece is looked for, whatever the number of rows."""
    written = make(dtype="float32", shape=(4,), chunks=(4,), missing=1.0, fill_seed=1)
    grid = {"name": "regular", "configuration": {"chunk_shape": [100]}}
    edit_json(written.path / "zarr.json", shape=[1_000_000_000], chunk_grid=grid)
    code = LIMITED + f"asked = {TOO_LARGE[name]}\n"
    for call in ("read_ragged", "plan"):
        code += (
            f"try: zarrow.{call}(array, asked)\n"
            "except zarrow.AllocationError as error: print(error)\n"
            "else: raise SystemExit('no error')\n"
        )
    done = run(code, str(written.path), str(rows), timeout=60)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2


def test_sizes_of_several_arrays(make: Maker) -> None:
    """The same of rows that are spread over arrays."""
    written = [make(dtype="float32", shape=(4,), chunks=(4,), missing=1.0) for _ in range(2)]
    grid = {"name": "regular", "configuration": {"chunk_shape": [100]}}
    for each in written:
        edit_json(each.path / "zarr.json", shape=[1_000_000_000], chunk_grid=grid)
    code = LIMITED + (
        "asked = zarrow.ranges([0] * n, [200_000_000] * n)\n"
        "try: zarrow.read_ragged([array, sys.argv[3]], asked, sources=np.arange(n) % 2)\n"
        "except zarrow.AllocationError: pass\n"
        "else: raise SystemExit('no error')\n"
    )
    done = run(code, str(written[0].path), "100001", str(written[1].path), timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("indexing", ["orthogonal", "pointwise"])
def test_products_that_are_too_large(tmp_path: Path, indexing: str) -> None:
    """Index arrays that select more than there is memory for are refused, and end no process."""
    zarr.create_array(tmp_path / "a", data=np.ones((9, 9, 9), "u1"), chunks=(4, 4, 4))
    code = (
        LIMITED
        + """
many = np.zeros(n, np.int64)
asked = {
    "orthogonal": [(many, many), (many, 0, many), (many, many, many), (slice(None), many, many)],
    "pointwise": [
        (many[:, None], many), (many[:, None], many[None]), (many, slice(None), many[:, None]),
        (many[:, None, None], many[:, None], many),
    ],
}[sys.argv[3]]
for one in asked:
    for read in (zarrow.read_ragged, zarrow.plan):
        for selections in ([one], [one] * 3, [None, one]):
            try: read(array, selections, indexing=sys.argv[3])
            except zarrow.AllocationError as error: assert str(error)
            else: raise SystemExit("no error")
"""
    )
    done = run(code, str(tmp_path / "a"), "400000", indexing, timeout=60)
    assert done.returncode == 0, (done.returncode, done.stderr)


@pytest.mark.parametrize("chunk", [2**40, 2**59, 2**61, 2**62, 2**63 - 1])
@pytest.mark.parametrize("dtype", ["uint8", "float64", "complex128"])
def test_plans_of_huge_read_chunks(make: Maker, dtype: str, chunk: int) -> None:
    """What they would decode is more than 64 bits: it is as much as can be told, and no panic."""
    written = make(dtype=dtype, shape=(4,), chunks=(4,), missing=1.0, fill_seed=1)
    grid = {"name": "regular", "configuration": {"chunk_shape": [chunk]}}
    edit_json(written.path / "zarr.json", shape=[2**63 - 1], chunk_grid=grid)
    size = np.dtype(dtype).itemsize
    points = [at * chunk for at in range(min(16, (2**63 - 2) // chunk + 1))]
    try:
        array = zarrow.open_array(written.path)
    except (zarrow.UnsupportedError, zarrow.MetadataError, zarrow.AllocationError):
        assert chunk * size >= 2**63  # such a chunk is no array's
        return
    of_all = len(points) * chunk * size
    several = {"sources": [0] * len(points)}
    for plan in (
        zarrow.plan(array, [points]),
        zarrow.plan(array, points),
        zarrow.plan([array, array], points, **several),
    ):
        assert plan.read_chunks == len(points)
        assert plan.bytes_to_decode == min(of_all, 2**64 - 1)
        assert plan.amplification == pytest.approx(plan.bytes_to_decode / plan.bytes_out)
        assert f"{plan.bytes_to_decode} bytes" in repr(plan)
        chunks = plan.chunks()
        chunks.validate(full=True)
        assert chunks["bytes"].to_pylist() == [chunk * size] * len(points)
        assert chunks["chunk"].to_pylist() == [[at // chunk] for at in points]
    nothing = zarrow.plan(array, [slice(0)])
    assert (nothing.bytes_to_decode, nothing.bytes_out) == (0, 0)
    assert math.isnan(nothing.amplification)


def test_more_axes_than_there_are_levels(make: Maker) -> None:
    """New axes, axes of points, and both: an error and no overflow of the stack, planned or not."""
    written = make(dtype="int16", shape=(2, 3), chunks=(2, 2))
    deep = np.zeros((1,) * 62, np.int64)
    for indexing, wrong in (
        ("orthogonal", (None,) * 62),
        ("orthogonal", (None,) * 20_000),
        ("orthogonal", (0, *(None,) * 20_000, 0)),
        ("pointwise", (None,) * 20_000),
        ("pointwise", (deep, slice(None), None)),
        ("pointwise", (deep, deep, None, None)),
    ):
        for selections in ([wrong], [None, wrong], [wrong] * 3):
            with fails(zarrow.SelectionError, words=("axes", "expected at most 6")):
                zarrow.read_ragged(written.path, selections, indexing=indexing)
            with fails(zarrow.SelectionError, words=("axes", "expected at most 6")):
                zarrow.plan(written.path, selections, indexing=indexing).read()
    assert len(zarrow.read_ragged(written.path, [(deep, 0, None)], indexing="pointwise")) == 1
