"""Python's threads and processes: reads side by side, the lock released, fork and spawn."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
import zarr
import zarrow
from arrays import Maker, Written, write_values
from failures import run
from zarr.codecs import GzipCodec

LIMIT = 60.0


@pytest.fixture
def written(make: Maker) -> Written:
    """A sharded array of some hundred read chunks."""
    return make(dtype="int32", shape=(60, 50), chunks=(5, 4), shards=(20, 16), codecs=("zstd",))


def random_boxes(seed: int) -> list[tuple[slice, slice]]:
    """Some boxes in a (60, 50) array."""
    random = np.random.default_rng(seed)
    rows, columns = random.integers(0, 40, 15), random.integers(0, 40, 15)
    return [
        np.s_[r : r + 9, c : c + 7] for r, c in zip(rows.tolist(), columns.tolist(), strict=True)
    ]


def test_many_threads(written: Written) -> None:
    """One handle, and paths besides, read from many threads at once."""
    handle = zarrow.open_array(written.path)

    def read(seed: int) -> int:
        selections = random_boxes(seed)
        threads = [None, 1, 2, 3][seed % 4]
        source = handle if seed % 3 else written.path
        result, stats = zarrow.read_ragged(source, selections, return_stats=True, threads=threads)
        written.check(result, selections)
        return int(stats.chunks_decoded)

    with ThreadPoolExecutor(12) as pool:
        counts = list(pool.map(read, range(120)))
    wanted = [len(oracle.touched((60, 50), (5, 4), random_boxes(seed))) for seed in range(120)]
    assert counts == wanted


def test_a_short_read_goes_before_the_rest_of_a_long_one(written: Written, tmp_path: Path) -> None:
    """Reads share the pool: none has to wait until another has ended."""
    chunk, count = 4_000_000, 400
    array = zarr.create_array(
        tmp_path / "long", shape=(count * chunk,), chunks=(chunk,), dtype="int32",
        compressors=GzipCodec(level=1),
    )  # fmt: skip
    array[:chunk] = np.arange(chunk) % 1_000
    for number in range(1, count):
        os.link(tmp_path / "long" / "c" / "0", tmp_path / "long" / "c" / str(number))
    starts = np.arange(1, count + 1) * chunk - 1  # the last element of each chunk
    begun, enough, done = threading.Event(), threading.Event(), 0

    def progress(chunks: int, *_: int) -> None:
        nonlocal done
        done = chunks
        if chunks:
            begun.set()
        if enough.is_set():
            raise EOFError

    def long_read() -> None:
        with pytest.raises(EOFError):
            zarrow.read_ragged(
                tmp_path / "long", zarrow.ranges(starts, starts + 1), threads=2, progress=progress
            )

    reader = threading.Thread(target=long_read)
    reader.start()
    try:
        assert begun.wait(LIMIT)
        selections = random_boxes(0)
        written.check(zarrow.read_ragged(written.path, selections, threads=2), selections)
        assert done < count // 2, f"{done} of {count} chunks of the long read came first"
    finally:
        enough.set()
        reader.join()


def test_a_cache_and_a_memory_limit_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Who waits for what another decodes lets go of the memory that the other waits for."""
    length, count = 1_000_000, 24
    data = np.random.default_rng(1).integers(0, 1_000, count * length).astype("int32")
    zarr.create_array(
        tmp_path / "a", data=data, chunks=(length,), compressors=GzipCodec(level=1)
    )  # fmt: skip
    stops = np.arange(1, count + 1) * length
    encoded = max(file.stat().st_size for file in (tmp_path / "a" / "c").iterdir())
    # A chunk, in buffers that are rounded up, for one thread of two.
    limit = int(1.2 * (encoded + 4 * length))
    # Each handle is read on its own; the chunks are the same.
    arrays = {name: zarrow.open_array(tmp_path / "a") for name in "xy"}
    batch, stats = zarrow.read_batch(
        arrays, zarrow.ranges(stops - 10, stops), cache=zarrow.ChunkCache(1 << 30),
        memory_limit=limit, threads=2, timeout=LIMIT, return_stats=True,
    )  # fmt: skip
    for column in batch.columns:
        oracle.assert_reads(column, data, [slice(stop - 10, stop) for stop in stops.tolist()])
    assert (stats.chunks_decoded, stats.chunks_cached) == (count, count)


def test_lock_is_released(tmp_path: Path) -> None:
    """Another thread makes progress while a read goes on."""
    values = np.arange(6_000_000, dtype="int64") * 7919 % 65_537
    array = write_values(tmp_path / "big.zarr", values, (500_000,), compressors=GzipCodec(level=1))
    handle = zarrow.open_array(tmp_path / "big.zarr")
    done = threading.Event()
    spans: list[tuple[float, float]] = []

    def read() -> None:
        try:
            for _ in range(5):
                start = time.perf_counter()
                result = zarrow.read_ragged(handle, [...], threads=1)
                spans.append((start, time.perf_counter()))
                assert len(result.values) == array.size
        finally:
            done.set()

    thread = threading.Thread(target=read)
    ticks = []
    thread.start()
    while not done.is_set():
        ticks.append(time.perf_counter())
        time.sleep(0.0002)
    thread.join()
    assert len(spans) == 5
    inside = [
        sum(start + margin < tick < stop - margin for tick in ticks)
        for start, stop in spans
        for margin in [(stop - start) / 10]
    ]
    assert sorted(inside)[2] >= 5, f"ticks within each read: {inside}"


def test_spawned_workers(written: Written) -> None:
    """A handle travels to workers that start from nothing."""
    handle = zarrow.open_array(written.path)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        jobs = [
            pool.apply_async(zarrow.read_ragged, (handle, random_boxes(seed))) for seed in range(4)
        ]
        results = [job.get(timeout=LIMIT) for job in jobs]
    for seed, result in enumerate(results):  # unpickled, so not aligned any more
        wanted = oracle.expect(written.whole, random_boxes(seed))
        assert oracle.values_bytes(result) == wanted.values
        assert oracle.offsets_of(result).tolist() == wanted.offsets[0].tolist()


FORK = """
    import os, signal, sys
    import numpy as np, zarrow

    path = sys.argv[1]
    handle = zarrow.open_array(path)
    first = zarrow.read_ragged(handle, [np.s_[0:30], np.s_[20:60]])
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a hang ends in SIGALRM
        code = 1
        try:
            for source in (handle, path):
                again = zarrow.read_ragged(source, [np.s_[0:30], np.s_[20:60]])
                code = 0 if again.equals(first) else 3
        except zarrow.ZarrowError as error:
            code = 0 if str(error) else 4
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    again = zarrow.read_ragged(handle, [np.s_[0:30], np.s_[20:60]])
    assert again.equals(first)
    print("child:", os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_fork(written: Written) -> None:
    """A read after `os.fork()` in a process that has read before works, or says that it cannot."""
    ended = run(FORK, str(written.path))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == "child: 0", ended.stdout + ended.stderr


def test_reads_while_others_write(make: Maker) -> None:
    """Chunks that vanish and come back read as themselves or as the fill value, never as a mix."""
    written = make(dtype="int32", shape=(64,), chunks=(4,), shards=(32,), codecs=("zstd",), seed=5)
    path = written.chunk(0)
    data = path.read_bytes()
    stop = threading.Event()

    def flicker() -> None:
        while not stop.is_set():
            path.unlink()
            time.sleep(0.0002)
            path.with_suffix(".new").write_bytes(data)
            path.with_suffix(".new").rename(path)
            time.sleep(0.0002)

    thread = threading.Thread(target=flicker)
    thread.start()
    seen: dict[str, int] = {}
    whole, absent = written.whole.tobytes(), bytes(128) + written.whole[32:].tobytes()
    try:
        end = time.perf_counter() + 1.5
        while time.perf_counter() < end:
            outcome: Any
            try:
                outcome = oracle.values_bytes(zarrow.read_ragged(written.path, [...]))
            except zarrow.ZarrowError as error:
                assert "c/0" in str(error)
                seen["error"] = seen.get("error", 0) + 1
                continue
            assert outcome in (whole, absent)
            name = "whole" if outcome == whole else "absent"
            seen[name] = seen.get(name, 0) + 1
    finally:
        stop.set()
        thread.join()
    assert seen


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent otherwise there")
def test_an_interrupt_ends_a_read(tmp_path: Path) -> None:
    """SIGINT raises KeyboardInterrupt before the read would end, and later reads work."""
    z = zarr.create_array(
        tmp_path / "a", shape=(3000, 2**20), chunks=(1, 2**20), dtype="u1", compressors=GzipCodec()
    )
    z[0] = np.arange(2**20) % 251
    chunk = tmp_path / "a/c/0/0"
    for row in range(1, 3000):
        folder = tmp_path / "a/c" / str(row)
        folder.mkdir()
        (folder / "0").hardlink_to(chunk)
    code = """
import os, signal, sys, threading, time
import zarrow
array = zarrow.open_array(sys.argv[1])
whole = float("inf")
for _ in range(2):
    begin = time.perf_counter()
    zarrow.read_ragged(array, [(slice(None), slice(0, 2))])
    whole = min(whole, time.perf_counter() - begin)
threading.Timer(whole / 10, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.perf_counter()
try:
    zarrow.read_ragged(array, [(slice(None), slice(0, 2))])
except KeyboardInterrupt:
    print("early" if time.perf_counter() - begin < 0.8 * whole else "late")
print(len(zarrow.read_ragged(array, [slice(0, 8)])))
"""
    done = run(code, str(tmp_path / "a"))
    assert done.stdout.split() == ["early", "1"], done.stderr
