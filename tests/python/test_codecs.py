"""Codecs that zarrow does not have: zarr-python decodes a chunk, once, and zarrow does the rest."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import oracle
import pytest
import zarr
import zarrow
from arrays import edit_json
from failures import fails
from zarr.codecs import BytesCodec, GzipCodec, ZstdCodec

pytestmark = pytest.mark.filterwarnings(
    "ignore::zarr.errors.ZarrUserWarning", "ignore::UserWarning", "ignore::FutureWarning"
)

SHAPE, CHUNKS = (23, 17), (7, 5)
BOXES = [np.s_[0:3, 0:4], np.s_[5:23, 3:17], np.s_[22:23, 0:1], np.s_[4:4, 0:3], np.s_[6:9, 4:6]]

# Filters and compressors of numcodecs that zarrow has no code for, with data types that they take.
V2 = {
    "lz4 and a filter": ([numcodecs.Delta("<i4")], numcodecs.LZ4(), "<i4"),
    "lzma": (None, numcodecs.LZMA(), ">f8"),
    "delta": ([numcodecs.Delta("<i4")], numcodecs.Zstd(), "<i4"),
    "delta, alone": ([numcodecs.Delta("<i4", "<i2")], None, "<i4"),
    "quantize": ([numcodecs.Quantize(3, "<f8")], numcodecs.Blosc(), "<f8"),
    "astype": ([numcodecs.AsType("<f4", "<f8")], numcodecs.Zlib(), "<f8"),
    "two filters": ([numcodecs.Delta("<u2"), numcodecs.Shuffle(2)], numcodecs.LZ4(), "<u2"),
    "times": (None, numcodecs.LZMA(), "<M8[ms]"),
}


def values_of(dtype: str) -> np.ndarray[Any, Any]:
    """Values that go up and down."""
    values = (np.arange(np.prod(SHAPE)) * 7 % 101).reshape(SHAPE)
    return values.astype(dtype)


def check(source: Any, expected: np.ndarray[Any, Any]) -> zarrow.ReadStats:
    """Each read chunk is decoded once, by zarr-python."""
    rows, stats = zarrow.read_ragged(source, BOXES, return_stats=True)
    for row, box in zip(rows, BOXES, strict=True):
        got = np.array(row.as_py(), expected.dtype).reshape(expected[box].shape)
        assert got.tobytes() == expected[box].astype(got.dtype).tobytes()
    assert stats.chunks_foreign == stats.chunks_decoded == stats.chunks_fetched
    return stats


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", V2)
def test_numcodecs_of_version_2(tmp_path: Path, name: str, order: Any) -> None:
    """Alone and together, in either order of the axes."""
    filters, compressor, dtype = V2[name]
    array = zarr.create_array(
        tmp_path / "a", shape=SHAPE, chunks=CHUNKS, dtype=dtype, zarr_format=2,
        filters=filters, compressors=compressor, order=order, fill_value=np.zeros((), dtype)[()],
    )  # fmt: skip
    array[:] = values_of(dtype)
    (tmp_path / "a" / "1.1").unlink()
    expected = np.asarray(array[:])
    for source in (array, tmp_path / "a"):
        stats = check(source, expected)
        assert stats.chunks_missing == 1
        assert stats.chunks_decoded == 15


@pytest.mark.parametrize("shards", [None, (14, 10)])
def test_lz4_in_checksums_is_not_left_to_others(tmp_path: Path, shards: Any) -> None:
    """With one checksum around it and with two."""
    for count in (1, 2):
        lz4 = {"name": "numcodecs.lz4", "configuration": {}}
        array = zarr.create_array(
            tmp_path / str(count), data=values_of("int32"), chunks=CHUNKS, shards=shards,
            compressors=[lz4, *[{"name": "crc32c"}] * count],
        )  # fmt: skip
        rows, stats = zarrow.read_ragged(tmp_path / str(count), BOXES, return_stats=True)
        oracle.assert_reads(rows, np.asarray(array[:]), BOXES)
        assert (stats.chunks_foreign, stats.chunks_decoded) == (0, 16)


@pytest.mark.parametrize("dtype", ["<f4", ">f4", ">i8", ">c16"])
@pytest.mark.parametrize("shuffle", [0, 1])
def test_blosc_blocks_in_either_byte_order(tmp_path: Path, dtype: str, shuffle: int) -> None:
    """Of a chunk only the blocks that hold wanted elements are decoded."""
    values = (np.arange(200_000) * 7919 % 1013).astype(dtype)
    array = zarr.create_array(
        tmp_path / "a", shape=values.shape, chunks=(100_000,), dtype=dtype, zarr_format=2,
        compressors=numcodecs.Blosc("lz4", 5, shuffle, blocksize=1 << 14),
    )  # fmt: skip
    array[:] = values
    slices = [slice(start, start + 100) for start in range(30_001, 200_000, 40_000)]
    rows, stats = zarrow.read_ragged(tmp_path / "a", slices, return_stats=True)
    oracle.assert_reads(rows, values.astype(values.dtype.newbyteorder("=")), slices)
    assert stats.chunks_decoded == 2
    assert stats.bytes_decoded < values.nbytes // 4


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
@pytest.mark.parametrize("shuffle", ["noshuffle", "shuffle", "bitshuffle"])
@pytest.mark.parametrize("compressor", ["lz4", "lz4hc", "blosclz", "zlib", "zstd"])
def test_only_blosc_blocks_that_are_wanted_are_read(
    tmp_path: Path, compressor: Any, shuffle: Any, dtype: str, *, sharded: bool
) -> None:
    """Of whatever compressor, by whatever shuffle."""
    values = np.random.default_rng(1).integers(0, 120, 600_000).astype(dtype)
    codec = zarr.codecs.BloscCodec(cname=compressor, shuffle=shuffle, blocksize=1 << 14)
    array = zarr.create_array(
        tmp_path / "a", data=values, chunks=values.shape,
        shards=values.shape if sharded else None, compressors=codec,
    )  # fmt: skip
    slices = [slice(20_001, 20_501), slice(350_003, 350_900), slice(500_000, 500_000)]
    rows, stats = zarrow.read_ragged(array, slices, return_stats=True)
    oracle.assert_reads(rows, values, slices)
    assert stats.bytes_decoded < values.nbytes // 4
    stored = sum(path.stat().st_size for path in (tmp_path / "a" / "c").rglob("*"))
    assert 0 < stats.bytes_fetched < stored // 2


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("codec", ["zstd", "blosc", "gzip", "zlib", "bz2", "crc32c"])
def test_other_names_of_what_zarrow_decodes(tmp_path: Path, codec: str, *, sharded: bool) -> None:
    """The codecs of numcodecs under their names in v3: those of the specification, by any name."""
    made = {
        "zstd": zarr.codecs.numcodecs.Zstd(level=3, checksum=True),
        "blosc": zarr.codecs.numcodecs.Blosc(cname="lz4hc", clevel=4, shuffle=1, blocksize=1 << 10),
        "gzip": zarr.codecs.numcodecs.GZip(level=2),
        "zlib": zarr.codecs.numcodecs.Zlib(level=1),
        "bz2": zarr.codecs.numcodecs.BZ2(),
        "crc32c": zarr.codecs.numcodecs.CRC32C(),
    }[codec]
    values = (np.arange(14 * 10) * 7919 % 1013).reshape(14, 10).astype("f4")
    array = zarr.create_array(
        tmp_path / "a", data=values, chunks=(4, 5), shards=(8, 10) if sharded else None,
        compressors=[made],
    )  # fmt: skip
    assert f"numcodecs.{codec}" in (tmp_path / "a" / "zarr.json").read_text()
    rows, stats = zarrow.read_ragged(array, [..., np.s_[3:7, 2:9]], return_stats=True)
    oracle.assert_reads(rows, values, [..., np.s_[3:7, 2:9]])
    assert stats.chunks_foreign == 0


@pytest.mark.parametrize(
    ("codec", "written"),
    [
        ("zstd", {"level": 3}),
        ("zstd", {}),
        ("gzip", {"level": -1}),
        ("numcodecs.zlib", {"level": -1}),
    ],
)
def test_configurations_that_lack_what_only_writers_need(
    tmp_path: Path, codec: str, written: dict[str, Any]
) -> None:
    made = {
        "zstd": ZstdCodec(), "gzip": GzipCodec(), "numcodecs.zlib": zarr.codecs.numcodecs.Zlib(),
    }[codec]  # fmt: skip
    values = np.arange(40, dtype="i2")
    zarr.create_array(tmp_path / "a", data=values, chunks=(16,), compressors=[made])
    path = tmp_path / "a" / "zarr.json"
    document = json.loads(path.read_text())
    document["codecs"][-1]["configuration"] = written
    path.write_text(json.dumps(document))
    rows, stats = zarrow.read_ragged(tmp_path / "a", [..., np.s_[3:30:4]], return_stats=True)
    oracle.assert_reads(rows, values, [..., np.s_[3:30:4]])
    assert stats.chunks_foreign == 0


@pytest.mark.parametrize("codec", ["gzip", "zlib"])
def test_the_level_that_zlib_chooses(tmp_path: Path, codec: str) -> None:
    """Written by other libraries than zarr-python, which takes it for none."""
    values = np.arange(40, dtype="i2")
    made = {"gzip": numcodecs.GZip(), "zlib": numcodecs.Zlib()}[codec]
    array = zarr.create_array(
        tmp_path / "a", shape=values.shape, chunks=(16,), dtype="i2", zarr_format=2,
        compressors=made,
    )  # fmt: skip
    array[:] = values
    path = tmp_path / "a" / ".zarray"
    document = json.loads(path.read_text())
    document["compressor"]["level"] = -1
    path.write_text(json.dumps(document))
    rows, stats = zarrow.read_ragged(tmp_path / "a", [...], return_stats=True)
    oracle.assert_reads(rows, values, [...])
    assert stats.chunks_foreign == 0


@pytest.mark.parametrize("name", ["lz4", "lzma", "zlib", "crc32", "adler32", "fletcher32"])
@pytest.mark.parametrize("sharded", [False, True, "outside", "outside alone"])
def test_numcodecs_of_version_3(tmp_path: Path, name: str, sharded: bool | str) -> None:
    """Also inside shards, whose subchunks are still read alone, and outside of them."""
    configuration = {"level": 1} if name == "zlib" else {}
    codec = {"name": f"numcodecs.{name}", "configuration": configuration}
    inner = [BytesCodec(endian="big").to_dict(), codec]
    shard: dict[str, Any] = {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": CHUNKS, "codecs": inner, "index_location": "end",
            "index_codecs": [BytesCodec().to_dict(), {"name": "crc32c"}],
        },
    }  # fmt: skip
    alone = shard | {"configuration": shard["configuration"] | {"codecs": inner[:1]}}
    layouts = {
        False: inner, True: [shard], "outside": [shard, codec], "outside alone": [alone, codec],
    }  # fmt: skip
    codecs = layouts[sharded]
    is_outside = str(sharded).startswith("outside")
    chunk_shape = [14, 10] if sharded else CHUNKS
    document = {
        "zarr_format": 3, "node_type": "array", "shape": SHAPE, "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk_shape}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": -3,
        "codecs": codecs, "attributes": {},
    }  # fmt: skip
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    array = zarr.open_array(tmp_path)
    array[0:14] = values_of("int32")[0:14]
    expected = np.asarray(array[:])
    stats = zarrow.read_ragged(tmp_path, BOXES, return_stats=True)[1]
    if stats.chunks_foreign == 0:
        assert name in ("zlib", "adler32", "fletcher32", "lz4")
        assert name != "lz4" or not is_outside
        oracle.assert_reads(zarrow.read_ragged(tmp_path, BOXES), expected, BOXES)
        return
    stats = check(tmp_path, expected)
    assert zarrow.open_array(tmp_path).chunks == ((14, 10) if is_outside else CHUNKS)
    assert stats.chunks_missing == (2 if is_outside else 8)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<i4", ">f8", "|b1", "<M8[s]", "|S5"])
def test_lz4_has_a_path_of_its_own(tmp_path: Path, dtype: str, order: Any) -> None:
    """Without zarr-python, and damaged chunks are errors."""
    array = zarr.create_array(
        tmp_path / "a", shape=SHAPE, chunks=CHUNKS, dtype=dtype, zarr_format=2,
        compressors=numcodecs.LZ4(), filters=None, order=order,
    )  # fmt: skip
    array[:] = values_of(dtype)
    (tmp_path / "a" / "1.1").unlink()
    expected = np.asarray(array[:])
    rows, stats = zarrow.read_ragged(array, BOXES, return_stats=True)
    assert stats.chunks_foreign == 0
    for row, box in zip(rows, BOXES, strict=True):
        got = np.array(row.as_py(), expected.dtype).reshape(expected[box].shape)
        np.testing.assert_array_equal(got, expected[box])
    chunk = tmp_path / "a" / "1.2"
    whole = chunk.read_bytes()
    for damage in (b"", whole[:3], whole[:-5], whole[4:], b"\xff\xff\xff\x7f" + whole[4:]):
        chunk.write_bytes(damage)
        with fails(zarrow.DecodeError, words=("1.2",)):
            zarrow.read_ragged(array, BOXES)


def test_a_codec_of_ones_own(tmp_path: Path) -> None:
    """Registered with numcodecs by the caller."""

    class Xor(numcodecs.abc.Codec):  # type: ignore[misc]
        codec_id = "zarrow-test-xor"

        def encode(self, buf: Any) -> Any:
            return (np.frombuffer(numcodecs.compat.ensure_bytes(buf), "u1") ^ 0x5A).tobytes()

        def decode(self, buf: Any, out: Any = None) -> Any:
            return numcodecs.compat.ndarray_copy(self.encode(buf), out)

    numcodecs.register_codec(Xor)
    array = zarr.create_array(
        tmp_path / "a", shape=SHAPE, chunks=CHUNKS, dtype="<f4", zarr_format=2, compressors=Xor(),
        filters=None,
    )  # fmt: skip
    array[:] = values_of("<f4")
    check(array, np.asarray(array[:]))
    handle = pickle.loads(pickle.dumps(zarrow.open_array(array)))
    check(handle, np.asarray(array[:]))


def test_codecs_that_nobody_has(tmp_path: Path) -> None:
    """The error names the codec."""
    array = zarr.create_array(
        tmp_path / "a", shape=SHAPE, chunks=CHUNKS, dtype="<i4", zarr_format=2,
        compressors=numcodecs.LZ4(),
    )  # fmt: skip
    array[:] = 1
    edit_json(tmp_path / "a" / ".zarray", compressor={"id": "no-such"})
    with fails(zarrow.UnsupportedError, words=("no-such", "install")):
        zarrow.open_array(tmp_path / "a")


def test_without_zarr_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the codec and the packages that bring it."""
    zarr.create_array(
        tmp_path / "a", shape=SHAPE, chunks=CHUNKS, dtype="<i4", zarr_format=2,
        compressors=numcodecs.LZMA(),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "zarr.core.buffer.cpu", None)
    with fails(zarrow.UnsupportedError, words=("lzma", "install the packages zarr and numcodecs")):
        zarrow.open_array(tmp_path / "a")


def test_chunks_that_are_damaged(tmp_path: Path) -> None:
    """zarr-python's error, with the key."""
    array = zarr.create_array(
        tmp_path / "a", shape=SHAPE, chunks=CHUNKS, dtype="<i4", zarr_format=2,
        compressors=numcodecs.LZMA(), filters=None,
    )  # fmt: skip
    array[:] = values_of("<i4")
    chunk = tmp_path / "a" / "1.2"
    whole = chunk.read_bytes()
    for damage in (b"", b"x", whole[:-9], whole[9:], numcodecs.LZMA().encode(b"short")):
        chunk.write_bytes(damage)
        with fails(zarrow.DecodeError, words=("1.2", "could not be decoded")):
            zarrow.read_ragged(tmp_path / "a", BOXES)
    chunk.write_bytes(whole)
    check(array, values_of("<i4"))


def test_from_many_threads(tmp_path: Path) -> None:
    """Each thread has an array of its own."""
    values = np.arange(200_000, dtype="<i8").reshape(400, 500)
    array = zarr.create_array(
        tmp_path / "a", data=values, chunks=(20, 50), zarr_format=2, compressors=numcodecs.LZMA(),
        filters=None,
    )  # fmt: skip
    rows = zarrow.read_ragged(array, [np.s_[:, :]] * 3, threads=8)
    for row in rows:
        assert np.array_equal(np.array(row.as_py()), values)
