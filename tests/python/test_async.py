"""Reads within an event loop: the same as others, the loop goes on, and cancelling ends them."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import arrays
import numpy as np
import pytest
import zarr
import zarrow
from arrays import Layout, Written
from remote import OwnMapping, OwnStore, fill, read_folder
from servers.http_files import FileServer
from servers.proxy import Proxy
from zarr.core.sync import sync
from zarr.storage import MemoryStore
from zarrow._api import _read_ragged
from zarrow._zarrow import Canceller

LIMIT = 30  # seconds until a hang is a failure
TIME = re.compile(r" in [0-9.]+[mµ]?s")
T = TypeVar("T")

_GRID: dict[str, Any] = {"dtype": "int32", "shape": (48, 40), "chunks": (4, 8), "codecs": ("zstd",)}
LAYOUTS = {"v3": Layout(**_GRID, seed=1), "shards": Layout(**_GRID, shards=(24, 16), seed=2)}
SELECTIONS: list[Any] = [np.s_[3:30, 5:33], np.s_[40:40], np.s_[1:, ::3]]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run until it is done; a hang is a failure."""

    async def limited() -> T:
        return await asyncio.wait_for(work, LIMIT)

    return asyncio.run(limited())


@pytest.fixture(scope="module")
def written(http_server: FileServer) -> dict[str, Written]:
    folder = http_server.folder / "async"
    return {name: arrays.write(layout, folder / name) for name, layout in LAYOUTS.items()}


def url(proxy: Proxy, name: str) -> str:
    return f"{proxy.url}/async/{name}"


@pytest.mark.parametrize("kind", ["path", "http", "dict", "MemoryStore", "own", "mapping"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_same_as_a_read(
    proxy: Proxy, written: dict[str, Written], kind: str, name: str
) -> None:
    values = read_folder(written[name].path)
    store: Any = {
        "path": lambda: written[name].path,
        "http": lambda: url(proxy, name),
        "dict": lambda: values,
        "MemoryStore": lambda: fill(MemoryStore(), values),
        "own": lambda: OwnStore(values),
        "mapping": lambda: OwnMapping(values),
    }[kind]()

    async def read() -> Any:
        got, stats = await zarrow.read_ragged_async(store, SELECTIONS, return_stats=True)
        again = await zarrow.read_ragged_async(zarrow.open_array(store), SELECTIONS)
        assert again.equals(got)
        return got, stats

    got, stats = run(read())
    written[name].check(got, SELECTIONS)
    assert isinstance(stats, zarrow.ReadStats)
    assert stats.rows == len(SELECTIONS)


def test_all_options(written: dict[str, Written]) -> None:
    """Those of a read, by the same names."""
    path = written["v3"].path
    cache = zarrow.ChunkCache(1 << 20)
    told: list[tuple[int, ...]] = []
    options: dict[str, Any] = {
        "sources": [0, 1, 0], "promote": True, "indexing": "orthogonal", "missing_chunks": "null",
        "threads": 1, "memory_limit": 1 << 20, "concurrency": 3, "max_gap": 0, "timeout": 30,
        "progress": lambda *counts: told.append(counts), "cache": cache,
    }  # fmt: skip
    arrays_ = [path, written["shards"].path]
    got = run(zarrow.read_ragged_async(arrays_, SELECTIONS, **options))
    assert got.equals(zarrow.read_ragged(arrays_, SELECTIONS, **options))
    assert len(cache) > 0
    assert told[-1][0] == told[-1][1] > 0


def test_many_at_once_while_the_loop_goes_on(proxy: Proxy, written: dict[str, Written]) -> None:
    """50 reads by gather, each of other rows; ticks of the loop in between."""
    proxy.configure(latency=0.03)
    handle = zarrow.open_array(url(proxy, "v3"))
    asked: list[list[Any]] = [[np.s_[i % 40 : i % 40 + 8], np.s_[:, i % 30]] for i in range(50)]
    asked = [[selections[0]] if i % 2 else [selections[1]] for i, selections in enumerate(asked)]
    ticks = 0
    proxy.forget()

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.002)
            ticks += 1

    async def read() -> list[Any]:
        ticking = asyncio.create_task(tick())
        reads = [zarrow.read_ragged_async(handle, selections) for selections in asked]
        got = await asyncio.gather(*reads)
        ticking.cancel()
        return got

    for selections, result in zip(asked, run(read()), strict=True):
        written["v3"].check(result, selections)
    assert ticks > 5
    assert proxy.counts().most_in_flight > 64


def test_the_loop_goes_on_while_an_array_is_opened(
    proxy: Proxy, written: dict[str, Written]
) -> None:
    proxy.configure(latency=0.3)

    async def read() -> int:
        task = asyncio.create_task(zarrow.read_ragged_async(url(proxy, "v3"), SELECTIONS))
        ticks = 0
        while not task.done():
            await asyncio.sleep(0.005)
            ticks += 1
        written["v3"].check(await task, SELECTIONS)
        return ticks

    assert run(read()) > 10


@pytest.mark.parametrize("name", LAYOUTS)
def test_cancelling_ends_the_read(proxy: Proxy, written: dict[str, Written], name: str) -> None:
    """At the server too: nothing is in flight any more. Other reads go on."""
    handle = zarrow.open_array(url(proxy, name))
    proxy.hang("/c/1/")

    async def read() -> None:
        task = asyncio.create_task(zarrow.read_ragged_async(handle, [...]))
        await asyncio.to_thread(proxy.wait_until, lambda counts: counts.in_flight > 0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        await asyncio.to_thread(proxy.wait_until_idle)
        proxy.heal()
        got = await zarrow.read_ragged_async(handle, SELECTIONS)
        written[name].check(got, SELECTIONS)

    run(read())


def test_cancelling_some_of_many(proxy: Proxy, written: dict[str, Written]) -> None:
    """Of reads of the same array at once, only those that are cancelled end."""
    handle = zarrow.open_array(url(proxy, "v3"))
    proxy.hang("/c/11/")

    async def read() -> None:
        hanging = [
            asyncio.create_task(zarrow.read_ragged_async(handle, [np.s_[44:]])) for _ in range(5)
        ]
        others = [zarrow.read_ragged_async(handle, [np.s_[i : i + 20]]) for i in range(20)]
        for i, result in enumerate(await asyncio.gather(*others)):
            written["v3"].check(result, [np.s_[i : i + 20]])
        assert not any(task.done() for task in hanging)
        for task in hanging:
            task.cancel()
        ended = await asyncio.gather(*hanging, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended)
        await asyncio.to_thread(proxy.wait_until_idle)

    run(read())


@pytest.mark.parametrize("kind", ["own", "mapping"])
def test_cancelling_a_read_of_a_python_store(written: dict[str, Written], kind: str) -> None:
    values = read_folder(written["v3"].path)
    store: Any = OwnStore(values) if kind == "own" else OwnMapping(values)
    handle = zarrow.open_array(store)

    async def read() -> None:
        if kind == "own":
            store.hangs = True
        else:
            store.latency = 0.5
        task = asyncio.create_task(zarrow.read_ragged_async(handle, [...]))
        while store.asked.in_flight == 0:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if kind == "own":
            # What was begun is cancelled, although the store would wait for ever.
            async with asyncio.timeout(5):
                while store.asked.in_flight:
                    await asyncio.sleep(0.005)
        store.hangs, store.latency = False, 0
        written["v3"].check(await zarrow.read_ragged_async(handle, SELECTIONS), SELECTIONS)

    run(read())


@pytest.mark.usefixtures("written")
def test_wait_for(proxy: Proxy) -> None:
    handle = zarrow.open_array(url(proxy, "v3"))
    proxy.hang("/c/")

    async def read() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(zarrow.read_ragged_async(handle, [...]), 0.3)
        await asyncio.to_thread(proxy.wait_until_idle)

    run(read())


@pytest.mark.usefixtures("written")
def test_cancelling_while_an_array_is_opened(proxy: Proxy) -> None:
    """The task ends at once; so does the request."""
    proxy.hang("zarr.json$")
    options = {"timeout": "4s", "max_retries": 0}  # so that the other tests need not wait for long

    async def read() -> None:
        work = zarrow.read_ragged_async(url(proxy, "v3"), SELECTIONS, storage_options=options)
        task = asyncio.create_task(work)
        await asyncio.to_thread(proxy.wait_until, lambda counts: counts.in_flight > 0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(proxy.wait_until_idle, 2)

    run(read())


@pytest.mark.usefixtures("written")
def test_a_canceller(proxy: Proxy) -> None:
    """What ends a read by itself is a CancelledError of zarrow's."""
    handle = zarrow.open_array(url(proxy, "v3"))
    proxy.hang("/c/")
    canceller = Canceller()
    threading.Timer(0.2, canceller.cancel).start()
    with pytest.raises(zarrow.CancelledError):
        _read_ragged(
            handle, [...], path=None, sources=None, promote=False, fields=None,
            indexing="orthogonal", missing_chunks="fill", fill=None, return_stats=False,
            progress=None, cache=None, storage_options=None, canceller=canceller,
            threads=None, memory_limit=None, concurrency=None, max_gap=None, timeout=None,
        )  # fmt: skip
    proxy.wait_until_idle()


def test_beside_reads_of_threads(proxy: Proxy, written: dict[str, Written]) -> None:
    """Reads of a loop, of another loop, and of threads, of the same handles at once."""
    proxy.configure(latency=0.005)
    handles = {name: zarrow.open_array(url(proxy, name)) for name in LAYOUTS}

    def plainly(i: int) -> None:
        for name, handle in handles.items():
            selections = [np.s_[i : i + 9, i:]]
            written[name].check(zarrow.read_ragged(handle, selections), selections)

    async def many(start: int) -> None:
        for name, handle in handles.items():
            asked = [[np.s_[start + i : start + i + 5]] for i in range(12)]
            reads = [zarrow.read_ragged_async(handle, selections) for selections in asked]
            for selections, got in zip(asked, await asyncio.gather(*reads), strict=True):
                written[name].check(got, selections)

    with ThreadPoolExecutor(10) as pool:
        work = [pool.submit(plainly, i) for i in range(8)]
        work += [pool.submit(lambda start=start: run(many(start))) for start in (0, 20)]
        for each in work:
            each.result(LIMIT)


def test_more_than_may_be_at_once(written: dict[str, Written]) -> None:
    """200 reads: those that wait for their turn have it."""
    handle = zarrow.open_array(OwnStore(read_folder(written["v3"].path), 0.01))

    async def read() -> None:
        asked = [[np.s_[i % 44 : i % 44 + 4]] for i in range(200)]
        reads = [zarrow.read_ragged_async(handle, selections) for selections in asked]
        for selections, got in zip(asked, await asyncio.gather(*reads), strict=True):
            written["v3"].check(got, selections)

    run(read())


def test_within_the_loop_of_zarr_python(written: dict[str, Written]) -> None:
    """Arrays of zarr-python's own loop are read there too, asynchronously, without a deadlock."""
    array = zarr.open_array(fill(MemoryStore(), read_folder(written["v3"].path)), mode="r")
    got = sync(zarrow.read_ragged_async(array, SELECTIONS), timeout=LIMIT)
    written["v3"].check(got, SELECTIONS)


def test_time_is_over_for_reads_that_have_no_turn(
    proxy: Proxy, written: dict[str, Written]
) -> None:
    """Those that wait for others to end, and those whose turn comes late."""
    handle = zarrow.open_array(url(proxy, "v3"))
    proxy.hang("/c/2/2$")

    async def read() -> tuple[list[Any], float, list[Any]]:
        began = time.monotonic()
        stuck = [
            asyncio.create_task(zarrow.read_ragged_async(handle, [np.s_[8:12]], timeout=1.5))
            for _ in range(64)
        ]
        await asyncio.sleep(0.1)
        waiting = [
            zarrow.read_ragged_async(handle, [np.s_[0:4]], timeout=0.3),
            zarrow.read_ragged_async(url(proxy, "v3"), [np.s_[0:4]], timeout=0.2),
            zarrow.read_batch_async({"a": handle}, [np.s_[0:4]], timeout=0.2),
        ]
        results = await asyncio.gather(*waiting, return_exceptions=True)
        elapsed = time.monotonic() - began
        results.append(await zarrow.read_ragged_async(handle, [np.s_[0:4]], timeout=30))
        return results, elapsed, await asyncio.gather(*stuck, return_exceptions=True)

    (*late, last), elapsed, stuck = run(read())
    assert elapsed < 1.3
    for error in late:
        assert isinstance(error, zarrow.ReadTimeoutError)
        assert "no turn within" in str(error)
    written["v3"].check(last, [np.s_[0:4]])
    assert all(isinstance(error, zarrow.ReadTimeoutError) for error in stuck)


@pytest.mark.usefixtures("written")
def test_a_turn_that_comes_late_leaves_less_time(proxy: Proxy) -> None:
    proxy.hang("/c/2/2$")
    handle = zarrow.open_array(url(proxy, "v3"))

    async def read() -> float:
        others = [
            asyncio.create_task(zarrow.read_ragged_async(handle, [np.s_[8:12]], timeout=1))
            for _ in range(64)
        ]
        await asyncio.sleep(0.1)
        began = time.monotonic()
        with pytest.raises(zarrow.ReadTimeoutError):
            await zarrow.read_ragged_async(handle, [np.s_[8:12]], timeout=2)
        elapsed = time.monotonic() - began
        await asyncio.gather(*others, return_exceptions=True)
        return elapsed

    assert run(read()) < 2.7  # not 0.9 and 2


def test_errors_are_the_same(proxy: Proxy, written: dict[str, Written]) -> None:
    damaged = read_folder(written["v3"].path)
    damaged["c/0/0"] = damaged["c/0/0"][:-5]
    proxy.status("/c/1/1$", 403)
    handle = zarrow.open_array(url(proxy, "v3"))
    proxy.hang("/c/2/2$")
    cases: list[tuple[type[Exception], Any, list[Any], dict[str, Any]]] = [
        (zarrow.NotFoundError, url(proxy, "nothing"), [...], {}),
        (zarrow.NotFoundError, written["v3"].path / "nothing", [...], {}),
        (zarrow.SelectionError, handle, [np.s_[100, 3]], {}),
        (zarrow.DecodeError, damaged, [...], {}),
        (zarrow.StoreError, handle, [np.s_[4:8]], {}),
        (zarrow.ReadTimeoutError, handle, [np.s_[8:12]], {"timeout": 0.2}),
        (TypeError, 17, [...], {}),
        (ValueError, handle, [...], {"threads": 0}),
        (TypeError, handle, 3, {}),
    ]
    for kind, array, selections, options in cases:
        with pytest.raises(kind) as plainly:
            zarrow.read_ragged(array, selections, **options)
        with pytest.raises(kind) as within:
            run(zarrow.read_ragged_async(array, selections, **options))
        assert type(within.value) is type(plainly.value)
        assert TIME.sub("", str(within.value)) == TIME.sub("", str(plainly.value))


def test_an_exception_of_progress(written: dict[str, Written]) -> None:
    def fail(*_: int) -> None:
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        run(zarrow.read_ragged_async(written["v3"].path, SELECTIONS, progress=fail))
