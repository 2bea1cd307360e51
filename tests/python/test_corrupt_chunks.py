"""Chunks that are cut off, overwritten, in the way or not readable: an error, never a panic."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
import zarrow
from arrays import Maker, Written, edit_json
from failures import fails, run

CHAINS: dict[str, dict[str, Any]] = {
    "raw": {},
    "raw, big-endian": {"endian": "big"},
    "crc32c": {"codecs": ("crc32c",)},
    "zstd": {"codecs": ("zstd",)},
    "zstd with checksum": {"codecs": ("zstd-checksum",)},
    "zstd in crc32c": {"codecs": ("zstd", "crc32c")},
    "gzip": {"codecs": ("gzip",)},
    "zlib": {"codecs": ("zlib",)},
    "bz2": {"codecs": ("bz2",)},
    "shuffle": {"codecs": ("shuffle",)},
    "shuffle, zlib": {"codecs": ("shuffle", "zlib")},
    "shuffle, zstd": {"codecs": ("shuffle", "zstd")},
    "blosc lz4": {"codecs": ("blosc-lz4",)},
    "blosc zstd": {"codecs": ("blosc-zstd",)},
    "blosc blocks": {"codecs": ("blosc-blocks",)},
    "blosc stored": {"codecs": ("blosc-stored",)},
    "transpose": {"transpose": (1, 0), "codecs": ("zstd",)},
    "v2 raw": {"zarr_format": 2},
    "v2 raw F order": {"zarr_format": 2, "order": "F"},
    "v2 zlib": {"zarr_format": 2, "codecs": ("zlib",)},
    "v2 zstd": {"zarr_format": 2, "codecs": ("zstd",)},
    "v2 blosc": {"zarr_format": 2, "codecs": ("blosc-lz4",)},
}
CHECKED = (
    "crc32c",
    "zstd with checksum",
    "zstd in crc32c",
    "gzip",
    "zlib",
    "bz2",
    "v2 zlib",
    "shuffle, zlib",
)
COUNTING: dict[str, Any] = {
    "dtype": "int32",
    "shape": (20, 12),
    "chunks": (10, 6),
    "counting": True,
}


@pytest.fixture(params=CHAINS)
def written(request: pytest.FixtureRequest, make: Maker) -> Written:
    """A (20, 12) array in (10, 6) chunks."""
    return make(**COUNTING, **CHAINS[request.param])


def key_of(written: Written, *index: int) -> str:
    """The key of a chunk, as in an error message."""
    return written.chunk(*index).relative_to(written.path).as_posix()


def others_still_read(written: Written) -> None:
    """Whatever is wrong with chunk (1, 0), the others can be read."""
    selections: list[Any] = [np.s_[0:10], np.s_[3:20, 6:]]
    written.check(zarrow.read_ragged(written.path, selections), selections)


@pytest.mark.parametrize("keep", [0.0, 0.02, 0.5, 0.9, -1, -5])
def test_cut_off(written: Written, keep: float) -> None:
    path = written.chunk(1, 0)
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if keep >= 0 else int(keep)])
    for selections in ([...], [np.s_[10:20, 0:6]], [np.s_[0:2, 0:2], np.s_[19:20, 5:6]]):
        with fails(zarrow.DecodeError, words=(key_of(written, 1, 0),)):
            zarrow.read_ragged(written.path, selections)
    others_still_read(written)


@pytest.mark.parametrize("garbage", [b"\0" * 240, b"\xff" * 240, b"garbage!" * 30, b"x" * 9999])
def test_overwritten(written: Written, garbage: bytes) -> None:
    is_stored = {*written.layout.codecs} <= {"shuffle"}
    raw = is_stored and len(garbage) == 240  # garbage is as good as data
    written.chunk(1, 0).write_bytes(garbage)
    if raw:
        whole = zarrow.read_ragged(written.path, [np.s_[10:20, 0:6]])
        assert oracle.elements_of(whole).to_numpy().sum() != 0 or garbage[0] == 0
    else:
        with fails(zarrow.DecodeError, words=(key_of(written, 1, 0),)):
            zarrow.read_ragged(written.path, [np.s_[0:20, 0:12]])
    others_still_read(written)


def test_too_long(written: Written) -> None:
    """Trailing bytes are refused, or ignored: they never shift the data."""
    path = written.chunk(1, 0)
    path.write_bytes(path.read_bytes() + b"trailing")
    try:
        result = zarrow.read_ragged(written.path, [...])
    except zarrow.DecodeError as error:
        assert key_of(written, 1, 0) in str(error)
    else:
        written.check(result, [...])


@pytest.mark.parametrize("name", CHAINS)
def test_flipped_bits(make: Maker, name: str) -> None:
    """Each byte in turn. With a checksum the damage is seen; without, the shape still holds."""
    written = make(**COUNTING, **CHAINS[name])
    path = written.chunk(1, 0)
    data = bytearray(path.read_bytes())
    region: list[Any] = [np.s_[10:20, 0:6]]
    want = oracle.expect(written.whole, region)
    for at in range(len(data)):
        for mask in (0x01, 0x80, 0xFF):
            damaged = data.copy()
            damaged[at] ^= mask
            path.write_bytes(damaged)
            try:
                result = zarrow.read_ragged(written.path, region)
            except zarrow.ZarrowError as error:
                assert isinstance(error, zarrow.DecodeError)
                assert key_of(written, 1, 0) in str(error)
                continue
            oracle.assert_contract(result, "int32", 2)
            assert oracle.offsets_of(result).tolist() == want.offsets[0].tolist()
            assert len(oracle.elements_of(result)) == want.length
            if name in CHECKED:
                assert oracle.values_bytes(result) == want.values, f"byte {at} ^ {mask:#x}"
    path.write_bytes(data)
    written.check(zarrow.read_ragged(written.path, [...]), [...])


def test_chunk_of_another_size(make: Maker) -> None:
    """A chunk that decodes well, to too many or too few bytes."""
    for name in ("zstd", "gzip", "blosc lz4", "zlib", "bz2", "shuffle", "shuffle, zstd"):
        written = make(**COUNTING, **CHAINS[name])
        for shape in ((4, 3), (40, 20)):
            other = make(dtype="int32", shape=shape, chunks=shape, counting=True, **CHAINS[name])
            shutil.copy(other.chunk(0, 0), written.chunk(1, 0))
            with fails(zarrow.DecodeError, words=(key_of(written, 1, 0),)):
                zarrow.read_ragged(written.path, [np.s_[12:14, 1:3]])
        others_still_read(written)


def test_every_bad_chunk_at_once(make: Maker) -> None:
    """Many threads that fail together still give one error."""
    written = make(dtype="int32", shape=(400,), chunks=(4,), codecs=("zstd",))
    for path in written.files().values():
        path.write_bytes(b"garbage")
    for threads in (None, 1, 4):
        with fails(zarrow.DecodeError, words=("c/",)):
            zarrow.read_ragged(written.path, [...], threads=threads)


# ---- the store -------------------------------------------------------------------------------


def test_missing_chunk_is_the_fill_value(make: Maker) -> None:
    written = make(**COUNTING, fill_seed=9)
    handle = zarrow.open_array(written.path)
    written.chunk(1, 0).unlink()
    written.whole[10:20, 0:6] = np.array([np.random.default_rng(9).bytes(4)]).view("int32")[0]
    written.check(zarrow.read_ragged(handle, [...]), [...])
    _, stats = zarrow.read_ragged(handle, [...], return_stats=True)
    assert (stats.chunks_decoded, stats.chunks_missing) == (3, 1)


def test_chunk_is_a_folder(written: Written) -> None:
    written.chunk(1, 0).unlink()
    written.chunk(1, 0).mkdir()
    with fails(zarrow.StoreError, words=(key_of(written, 1, 0),)):
        zarrow.read_ragged(written.path, [...])
    others_still_read(written)


def test_chunk_is_not_readable(written: Written) -> None:
    """A link to itself, which not even root can open."""
    path = written.chunk(1, 0)
    path.unlink()
    path.symlink_to(path)
    with fails(zarrow.StoreError, words=(key_of(written, 1, 0),)):
        zarrow.read_ragged(written.path, [...])
    others_still_read(written)


def test_chunk_is_a_dangling_link(written: Written) -> None:
    """A link to nothing is a missing chunk, or an error: never something else."""
    path = written.chunk(1, 0)
    path.unlink()
    path.symlink_to(written.path / "nowhere")
    whole = written.whole.copy()
    whole[10:20, 0:6] = 0
    try:
        result = zarrow.read_ragged(written.path, [...])
    except zarrow.StoreError:
        return
    oracle.assert_reads(result, whole, [...])


@pytest.mark.parametrize("shards", [None, (20, 12)])
def test_array_vanishes(make: Maker, shards: tuple[int, ...] | None) -> None:
    """A handle whose array is gone: the fill value, or an error that names it."""
    written = make(**COUNTING, shards=shards)
    handle = zarrow.open_array(written.path)
    shutil.rmtree(written.path)
    try:
        result = zarrow.read_ragged(handle, [...])
    except zarrow.StoreError as error:
        assert written.path.name in str(error)
    else:
        assert set(oracle.elements_of(result).to_pylist()) == {0}
    with fails(zarrow.NotFoundError):
        zarrow.read_ragged(written.path, [...])


# ---- sizes that nobody has -------------------------------------------------------------------

HUGE = """
    import sys, resource
    import numpy as np, zarrow

    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    selections = eval(sys.argv[2], {"np": np})
    try:
        zarrow.read_ragged(sys.argv[1], selections)
    except zarrow.ZarrowError as error:
        print(type(error).__name__, error)
"""


def reads_apart(path: Path, selections: str) -> str:
    """The class and message of the error of a read in a process of its own."""
    ended = run(HUGE, str(path), selections)
    assert ended.returncode == 0, f"{ended.returncode}: {ended.stdout}{ended.stderr}"
    assert ended.stdout, "no error"
    return ended.stdout


@pytest.mark.parametrize("bits", [40, 50, 60, 62])
def test_result_too_large(make: Maker, bits: int) -> None:
    """A result that no machine holds is refused before any work; 2**62 doubles overflow, too."""
    written = make(dtype="float64", shape=(4,), chunks=(4,))
    grid = {"name": "regular", "configuration": {"chunk_shape": [1 << (bits - 4)]}}
    edit_json(written.path / "zarr.json", shape=[1 << bits], chunk_grid=grid)
    written.chunk(0).unlink()
    told = reads_apart(written.path, "[np.s_[0:2], ...]")
    assert told.startswith("AllocationError"), told


def test_results_that_add_up(make: Maker) -> None:
    """Many large selections whose total overflows 64 bits."""
    written = make(dtype="int8", shape=(4,), chunks=(4,))
    grid = {"name": "regular", "configuration": {"chunk_shape": [1 << 62]}}
    edit_json(written.path / "zarr.json", shape=[1 << 62], chunk_grid=grid)
    assert reads_apart(written.path, "[...] * 5").startswith("AllocationError")


def test_chunk_too_large(make: Maker) -> None:
    """A stored chunk that must decode to 2**50 bytes is an error, not an abort."""
    for codecs in ((), ("zstd",), ("gzip",), ("blosc-lz4",)):
        written = make(dtype="int8", shape=(4,), chunks=(4,), codecs=codecs)
        grid = {"name": "regular", "configuration": {"chunk_shape": [1 << 50]}}
        edit_json(written.path / "zarr.json", shape=[1 << 50], chunk_grid=grid)
        told = reads_apart(written.path, "[np.s_[0:2]]")
        assert told.startswith(("AllocationError", "DecodeError", "UnsupportedError")), told


BOMBS = {
    "zstd": bytes.fromhex("28b52ffde0") + struct.pack("<Q", 1 << 50) + bytes.fromhex("010000"),
    "blosc-lz4": bytes([2, 1, 0x21, 4]) + struct.pack("<III", 0x7FFFFFFF, 0x7FFFFFFF, 16),
    "gzip": bytes.fromhex("1f8b0800000000000003") + b"\x03\x00" + struct.pack("<II", 0, 1 << 31),
}


@pytest.mark.parametrize("codec", BOMBS)
def test_chunk_that_claims_too_much(make: Maker, codec: str) -> None:
    """The size in a compressor's header is a claim, not a fact."""
    written = make(**COUNTING, codecs=(codec,))
    written.chunk(1, 0).write_bytes(BOMBS[codec])
    told = reads_apart(written.path, "[...]")
    assert told.startswith("DecodeError"), told
    assert "c/1/0" in told
