"""Memory beside the result: its limit, and that memory of earlier results shows nowhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
import zarrow
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
    with pytest.raises(zarrow.AllocationError, match=r"c/0.* 1000000, .*[Rr]aise the memory limit"):
        zarrow.read_ragged(large, scattered(), memory_limit=1_000_000)


@pytest.mark.parametrize("limit", [0, -1])
def test_limits_that_make_no_sense(large: Path, limit: int) -> None:
    with pytest.raises(ValueError, match="memory_limit"):
        zarrow.read_ragged(large, [slice(0, 1)], memory_limit=limit)


SCRIPT = """
import resource, sys, zarrow
path, limit, chunk = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
selections = [slice(at, at + 100) for at in range(0, 12 * chunk - 100, chunk // 100)]
array = zarrow.open_array(path)
zarrow.read_ragged(array, selections[:1], threads=1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
zarrow.read_ragged(array, selections, threads=8, memory_limit=limit or None)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux")
def test_the_limit_holds_for_the_process(large: Path) -> None:
    """What the system counts grows by no more than the limit, threads and small things aside."""
    limit = 14 << 20
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(large), str(limit), str(CHUNK)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) <= limit + (6 << 20)


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
