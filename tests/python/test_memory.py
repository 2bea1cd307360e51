"""Memory beside the result: its limit, and that memory of earlier results shows nowhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zarrow
from failures import STATUS
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

CHUNK = 4 << 20  # elements of uint8, so bytes
CODECS = {
    "zstd": ZstdCodec(level=1),
    "blosc": BloscCodec(cname="lz4"),
    "gzip": GzipCodec(level=1),
    "raw": None,
}


@pytest.fixture(scope="module", params=CODECS)
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve chunks of 4 MiB."""
    path = tmp_path_factory.mktemp("large") / request.param
    values = np.random.default_rng(1).integers(0, 16, 12 * CHUNK, dtype="u1")
    codec = CODECS[request.param]
    zarr.create_array(
        path, data=values, chunks=(CHUNK,), compressors=None if codec is None else [codec]
    )
    return path


def scattered() -> list[slice]:
    """Ten thousand bytes of every chunk, spread so that each has to be decoded to its end."""
    return [slice(at, at + 100) for at in range(0, 12 * CHUNK - 100, CHUNK // 100)]


@pytest.mark.parametrize("limit", [14 << 20, 20 << 20, 10**12, 2**80])
def test_a_limit_changes_no_value(large: Path, limit: int) -> None:
    whole = zarr.open_array(large, mode="r")[:]
    rows, stats = zarrow.read_ragged(
        large, scattered(), threads=8, memory_limit=limit, return_stats=True
    )
    flat = rows.flatten().to_numpy()
    np.testing.assert_array_equal(flat, np.concatenate([whole[each] for each in scattered()]))
    assert stats.bytes_held <= limit
    assert stats.chunks_decoded == 12


def test_a_chunk_that_does_not_fit_is_an_error(large: Path) -> None:
    if large.name == "raw":
        pytest.skip("of raw chunks only the wanted bytes are held")
    with pytest.raises(
        zarrow.AllocationError, match=r"c/\d.* 1000000, .*[Rr]aise the memory limit"
    ):
        zarrow.read_ragged(large, scattered(), memory_limit=1_000_000)


@pytest.mark.parametrize("limit", [0, -1])
def test_limits_that_make_no_sense(large: Path, limit: int) -> None:
    with pytest.raises(ValueError, match="memory_limit"):
        zarrow.read_ragged(large, [slice(0, 1)], memory_limit=limit)


SCRIPT = """
import sys, zarrow
path, limit, chunk, sixteenths = sys.argv[1], *map(int, sys.argv[2:])
starts = range(0, 12 * chunk - 100, chunk // 100)
selections = [slice(at, at + 100) for at in starts if at % chunk < chunk // 16 * sixteenths]
array = zarrow.open_array(path)
zarrow.read_ragged(array, selections[:1], threads=1)
before = status("VmHWM")
zarrow.read_ragged(array, selections, threads=8, memory_limit=limit or None)
print(status("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/status is of Linux")
def test_the_limit_holds_for_the_process(large: Path) -> None:
    """What the system counts grows by no more than the limit, threads and small things aside."""
    limit = 14 << 20
    done = subprocess.run(
        [sys.executable, "-c", STATUS + SCRIPT, str(large), str(limit), str(CHUNK), "16"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) <= limit + (6 << 20)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/status is of Linux")
def test_the_limit_holds_for_fronts_of_chunks(tmp_path: Path) -> None:
    """Zstd, which may refer back to the chunk's begin, has no window beside what it decodes."""
    size = 4 * CHUNK
    values = np.random.default_rng(1).integers(0, 16, size, dtype="u1")
    array = zarr.create_array(
        tmp_path, shape=(12 * size,), chunks=(size,), dtype="u1", compressors=ZstdCodec(level=1)
    )
    array[:size] = values
    frame = bytearray((tmp_path / "c/0").read_bytes())
    assert frame[4] & 0x20 == 0, "a window of its own length follows"
    frame[5] = (24 - 10) << 3  # 16 MiB, as high levels have it (RFC 8878, section 3.1.1.1.2)
    for chunk in range(12):
        (tmp_path / f"c/{chunk}").write_bytes(frame)
    limit = 27 << 20  # for one chunk
    done = subprocess.run(
        [sys.executable, "-c", STATUS + SCRIPT, str(tmp_path), str(limit), str(size), "15"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) <= limit + (6 << 20)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/status is of Linux")
@pytest.mark.parametrize("compressor", ["lz4", "zstd"])
def test_the_limit_holds_for_blocks_as_long_as_chunks(tmp_path: Path, compressor: Any) -> None:
    """The C library of blosc would take three of them beside the chunk."""
    size = 4 * CHUNK
    values = np.random.default_rng(1).integers(0, 16, 12 * size, dtype="u1")
    codec = BloscCodec(cname=compressor, clevel=1, blocksize=size)
    zarr.create_array(tmp_path, data=values, chunks=(size,), compressors=codec)
    limit = 45 << 20  # for one chunk
    done = subprocess.run(
        [sys.executable, "-c", STATUS + SCRIPT, str(tmp_path), str(limit), str(size), "16"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) <= limit + (6 << 20)


LENGTHS = """
import sys, zarrow
path, chunk, *lengths = sys.argv[1], *map(int, sys.argv[2:])
array = zarrow.open_array(path)
zarrow.read_ragged(array, [slice(0, 1)])
before = status("VmRSS")
for length in lengths:
    rows = [slice(0, 12 * chunk)] * (length - 1) + [slice(0, chunk // 2)]
    zarrow.read_ragged(array, rows, threads=2)
print(status("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/status is of Linux")
def test_memory_of_earlier_results_does_not_add_up(large: Path) -> None:
    """Reads of ever other lengths take what the longest needs, and the 32 MiB that are kept."""
    lengths = [5, 3, 4, 2, 6, 3]
    done = subprocess.run(
        [sys.executable, "-c", STATUS + LENGTHS, str(large), str(CHUNK), *map(str, lengths)],
        capture_output=True,
        text=True,
        check=True,
    )
    longest = (max(lengths) - 1) * 12 * CHUNK + CHUNK // 2
    assert longest < int(done.stdout) <= longest + (48 << 20)


RELEASE = """
import sys, zarrow
path, chunk = sys.argv[1], int(sys.argv[2])
array = zarrow.open_array(path)
everything = slice(0, 12 * chunk)
zarrow.read_ragged(array, [everything] * 2, threads=2)
before = status("VmRSS")
if sys.argv[3] == "limit":
    zarrow.read_ragged(array, [slice(0, 1)], memory_limit=10**9)
else:
    zarrow.release_unused()
    zarrow.release_unused()
print(before - status("VmRSS"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/status is of Linux")
@pytest.mark.parametrize("by", ["call", "limit"])
def test_memory_of_earlier_results_is_given_back(large: Path, by: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STATUS + RELEASE, str(large), str(CHUNK), by],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) > 2 * 12 * CHUNK - (8 << 20)


BOUNDED = """
import resource, sys, zarrow
path, chunk = sys.argv[1], int(sys.argv[2])
array = zarrow.open_array(path)
zarrow.read_ragged(array, [slice(0, 12 * chunk)] * 4, threads=2)
limit = status("VmSize") + (8 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
print(len(zarrow.read_ragged(array, [slice(0, 6 * chunk)], threads=2)[0]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/status is of Linux")
def test_memory_of_earlier_results_makes_room(large: Path) -> None:
    """It goes where the system refuses more."""
    done = subprocess.run(
        [sys.executable, "-c", STATUS + BOUNDED, str(large), str(CHUNK)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == 6 * CHUNK


KINDS: dict[str, dict[str, Any]] = {
    "zstd": {"chunks": (3_000_001,), "compressors": [ZstdCodec(level=1)]},
    "blosc": {"chunks": (700_000,), "compressors": [BloscCodec(cname="lz4")]},
    "gzip": {"chunks": (1_234_567,), "compressors": [GzipCodec(level=1)]},
    "raw": {"chunks": (2_500_000,), "compressors": None},
    "small": {"chunks": (10_000,), "compressors": [ZstdCodec(level=1)]},
    "shards": {"chunks": (400_000,), "shards": (4_000_000,), "compressors": [ZstdCodec()]},
    "raw shards": {"chunks": (600_000,), "shards": (6_000_000,), "compressors": None},
}


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Arrays of about twelve million bytes, each in chunks of another size."""
    folder = tmp_path_factory.mktemp("kinds")
    values = np.random.default_rng(2).integers(0, 16, 12_000_000, dtype="u1")
    for name, kind in KINDS.items():
        zarr.create_array(folder / name, data=values, **kind)
    return {name: folder / name for name in KINDS}


SEVERAL = """
import sys, zarrow
limit, *paths = sys.argv[1:]
arrays = [zarrow.open_array(path) for path in paths]
def read(step, threads, limit):
    selections = [slice(at, at + 100) for at in range(0, 11_000_000, step)] * len(arrays)
    sources = [number for number in range(len(arrays)) for _ in range(0, 11_000_000, step)]
    return zarrow.read_ragged(
        arrays, selections, sources=sources, threads=threads, memory_limit=limit, return_stats=True
    )
small = [zarrow.open_array(path) for path in paths if path.endswith("small")]
# pyarrow imports pandas where it gets a list.
zarrow.read_ragged(small, [slice(0, 9)], sources=[0], threads=8)
before = status("VmHWM")
_, stats = read(30_000, 8, int(limit))
after = status("VmHWM")
assert stats.chunks_decoded == stats.chunks_fetched > 400
print(after - before, stats.bytes_held)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/status is of Linux")
def test_a_limit_holds_for_arrays_of_many_chunk_sizes(kinds: dict[str, Path]) -> None:
    limit = 7_000_000
    done = subprocess.run(
        [sys.executable, "-c", STATUS + SEVERAL, str(limit), *map(str, kinds.values())],
        capture_output=True,
        text=True,
        check=True,
    )
    grown, held = map(int, done.stdout.split())
    assert 1_000_000 < held <= limit
    assert grown <= limit + (6 << 20)


@pytest.mark.parametrize("kind", KINDS)
def test_casts_count(kinds: dict[str, Path], tmp_path: Path, kind: str) -> None:
    """Bytes become numbers of sixteen bytes: so does what a chunk takes."""
    limit = 60_000_000
    wide = zarr.create_array(tmp_path / "wide", data=np.full(9, 2j), chunks=(3,))
    whole = zarr.open_array(kinds[kind], mode="r")[:]
    selections = [slice(None, None, -7), slice(5, 3_500_000, 3), slice(1_000, 3_000_000), ...]
    sources = [0, 0, 0, 1]
    rows, stats = zarrow.read_ragged(
        [kinds[kind], wide],
        selections,
        sources=sources,
        promote=True,
        memory_limit=limit,
        threads=4,
        return_stats=True,
    )
    assert stats.bytes_held <= limit
    expected = [whole[::-7], whole[5:3_500_000:3], whole[1_000:3_000_000], np.full(9, 2j)]
    flat = rows.flatten().flatten().to_numpy().view("c16")
    np.testing.assert_array_equal(flat, np.concatenate(expected))


@pytest.mark.parametrize("dtype", ["u1", ">i4"])
@pytest.mark.parametrize("shards", [None, (32 << 20,)])
@pytest.mark.parametrize("promote", [False, True])
def test_some_bytes_of_a_large_raw_chunk(
    tmp_path: Path, dtype: str, shards: tuple[int] | None, *, promote: bool
) -> None:
    """Only the wanted bytes of a chunk that is stored as it is are read, so only they count."""
    values = np.arange(32 << 20, dtype="u4").astype(dtype)
    chunks = (16 << 20,) if shards else (32 << 20,)
    serializer = zarr.codecs.BytesCodec(endian="big")
    zarr.create_array(
        tmp_path / "a",
        data=values,
        chunks=chunks,
        shards=shards,
        compressors=None,
        serializer=serializer if dtype != "u1" else "auto",
    )
    wide = zarr.create_array(tmp_path / "wide", data=np.full(4, 2.5), chunks=(4,))
    wanted = [slice(5, 7), slice(9_000_000, 9_000_001), slice(31_000_002, 31_000_000, -1)]
    arrays: Any = tmp_path / "a"
    more: dict[str, Any] = {}
    if promote:
        arrays, more = [arrays, wide], {"promote": True}
    for selections in (wanted, wanted[1:2]):
        if promote:
            more["sources"] = [0] * len(selections)
        rows, stats = zarrow.read_ragged(
            arrays,
            selections,
            memory_limit=1 << 20,
            return_stats=True,
            **more,
        )
        expected = np.concatenate([values[each] for each in selections])
        np.testing.assert_array_equal(rows.flatten().to_numpy(), expected)
        assert stats.bytes_fetched < 40_000
        assert stats.bytes_held < 400_000


@pytest.mark.parametrize("promote", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_error_says_how_much_is_needed(
    kinds: dict[str, Path], tmp_path: Path, kind: str, *, promote: bool
) -> None:
    wide = zarr.create_array(tmp_path / "wide", data=np.full(4, 2.5), chunks=(4,))
    arrays: Any = kinds[kind]
    more: dict[str, Any] = {}
    selections = [slice(None, None, 2)]
    if promote:
        arrays, more = [arrays, wide], {"sources": [0], "promote": True}

    def needed(limit: int) -> int | None:
        try:
            _, stats = zarrow.read_ragged(
                arrays, selections, memory_limit=limit, threads=4, return_stats=True, **more
            )
        except zarrow.AllocationError as error:
            said = re.search(r"takes (\d+) bytes of memory", str(error))
            assert said, error
            assert int(said[1]) > limit
            return int(said[1])
        assert stats.bytes_held <= limit
        return None

    limit, tries = 1, 0
    while (more_needed := needed(limit)) is not None:
        limit, tries = more_needed, tries + 1
        # Chunks have different lengths, and the index of a shard comes before them.
        assert tries < 40
    assert limit <= (18 if not promote else 12) * KINDS[kind]["chunks"][0] + 20_000


@pytest.mark.parametrize("fill", [0, 7])
def test_memory_of_earlier_results_does_not_show(tmp_path: Path, fill: int) -> None:
    """Missing chunks read as the fill value in memory that held something else before."""
    ones = zarr.create_array(tmp_path / "ones", data=np.ones(1 << 20, "i4"), chunks=(1 << 16,))
    empty = zarr.create_array(
        tmp_path / "empty", shape=(1 << 20,), dtype="i4", chunks=(1 << 16,), fill_value=fill
    )
    empty[5] = 3
    for _ in range(3):
        assert zarrow.read_ragged(ones, [...]).flatten().to_numpy().all()
        values = zarrow.read_ragged(empty, [...]).flatten().to_numpy()
        expected = np.full(1 << 20, fill)
        expected[5] = 3
        np.testing.assert_array_equal(values, expected)
        del values


def test_results_that_live_are_not_reused(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "a", data=np.arange(1 << 18), chunks=(1 << 15,))
    kept = [zarrow.read_ragged(array, [slice(i, None)]) for i in range(8)]
    parts = [rows.flatten()[10:] for rows in kept]
    del kept
    for i, part in enumerate(parts):
        other = zarrow.read_ragged(array, [slice(0, -1)])
        del other
        np.testing.assert_array_equal(part.to_numpy(), np.arange(i + 10, 1 << 18))


INDICES = """
import resource, sys
import numpy as np, zarrow
array = zarrow.open_array(sys.argv[1])
numbers = np.random.default_rng(1).integers(0, array.shape[0], 5_000_000)
few = zarrow.indices([0, 3], [5, 1, 3])
zarrow.read_ragged(array, few)
wanted = zarrow.indices([0, len(numbers)], numbers)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = zarrow.read_ragged(array, wanted, memory_limit=64 << 20)
taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert len(rows[0]) == len(numbers)
print(taken >> 10)
"""


@pytest.mark.parametrize("codec", [None, BloscCodec(cname="lz4"), ZstdCodec()])
def test_long_lists_of_indices_of_one_chunk(tmp_path: Path, codec: Any) -> None:
    """No list of what they select, of which there is more than they are, whatever the codec."""
    values = np.arange(1_000_000, dtype="u4").astype("u1")
    zarr.create_array(tmp_path / "a", data=values, chunks=values.shape, compressors=codec)
    command = [sys.executable, "-c", INDICES, str(tmp_path / "a")]
    taken = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    # In MiB: 5 of the result, 40 of their copy, 20 of the plan, and what planning takes.
    assert taken < 150, taken
