"""Stores that are not files of this machine: which of them Rust reads, how to ask the others."""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import sys
import textwrap
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from zarrow._options import check_timeout
from zarrow._zarrow import (
    Canceller,
    _after_fork,
    _after_fork_in_child,
    _at_exit,
    _before_fork,
)
from zarrow.errors import ReadTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

_THREADS = 32  # for mappings, which only threads can ask many things at once

_READERS = 64  # reads that an event loop may wait for at once

_T = TypeVar("_T")

_OBSTORE = ("S3Store", "GCSStore", "AzureStore", "HTTPStore", "LocalStore", "MemoryStore")


class _Threads:
    """What runs beside the caller: made when it is needed, and again after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._readers: ThreadPoolExecutor | None = None

    def forget(self) -> None:
        """Forget what stayed behind in the parent process."""
        self.__init__()  # type: ignore[misc]

    def loop(self) -> asyncio.AbstractEventLoop:
        """Give an event loop that runs."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                run = self._loop.run_forever
                threading.Thread(target=run, name="zarrow-stores", daemon=True).start()
            return self._loop

    def pool(self) -> ThreadPoolExecutor:
        """Give threads."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="zarrow-mapping")
            return self._pool

    def readers(self) -> ThreadPoolExecutor:
        """Give threads that wait for reads."""
        with self._lock:
            if self._readers is None:
                self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="zarrow-reader")
            return self._readers


_threads = _Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork)
    os.register_at_fork(after_in_child=_after_fork_in_child)
    os.register_at_fork(after_in_child=_threads.forget)
atexit.register(_at_exit)


async def awaited(
    read: Callable[..., Any], /, *arguments: Any, timeout: float | None, **options: Any
) -> Any:
    """Read on a thread that waits, until the task that waits for this is cancelled.

    Seconds of `timeout` that pass before there is a thread count as well.
    """
    canceller, began, limit = Canceller(), time.monotonic(), check_timeout(timeout)
    options |= {"timeout": timeout, "canceller": canceller, "began": began}
    reading = _threads.readers().submit(functools.partial(read, *arguments, **options))
    waiting = asyncio.wrap_future(reading)
    try:
        if limit is not None:
            await asyncio.wait([waiting], timeout=limit)
            if reading.cancel():
                raise ReadTimeoutError(
                    f"the read had no turn within {limit} s, because others went on; "
                    "allow more time, or await fewer reads at once"
                )
        return await waiting
    except asyncio.CancelledError:
        canceller.cancel()
        waiting.cancel()
        raise


class Bridge:
    """Asks a store of Python for keys, many at once, and tells Rust what comes.

    Parameters
    ----------
    store
        What is asked. Pickled with the bridge.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._get, self._loop_of = _getter(store)

    def __reduce__(self) -> tuple[Any, ...]:
        return Bridge, (self._store,)

    def __repr__(self) -> str:
        if isinstance(self._store, dict):
            return f"<dict of {len(self._store)} keys>"
        return textwrap.shorten(repr(self._store), 200)

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        """Give the values of keys."""
        if self._loop_of is None:
            return [_slice(_of_mapping(self._store, key), None, None, None) for key in keys]

        async def all_of_them() -> list[bytes | None]:
            tasks: list[asyncio.Future[bytes | None]] = []
            try:
                tasks += (asyncio.ensure_future(self._get(key, None, None, None)) for key in keys)
                return list(await asyncio.gather(*tasks))
            finally:
                # One that fails does not end the others.
                for task in tasks:
                    task.cancel()

        return _result(all_of_them(), self._loop_of())

    def names_in(self, path: str) -> set[str]:
        """Give the names of what lies below a path."""
        prefix = f"{path}/" if path else ""
        if self._loop_of is None:
            return _first_names(self._store, prefix)
        store = self._store
        if is_zarr_store(store):

            async def listed() -> list[str]:
                return [name async for name in store.list_dir(path)]

            listing = _result(listed(), self._loop_of())
            return {name.removeprefix(prefix).strip("/") for name in listing}
        found = [meta["path"] for batch in store.list(prefix or None) for meta in batch]
        return _first_names(found, prefix)

    def ask(
        self, key: str, start: int | None, stop: int | None, suffix: int | None, reply: Any
    ) -> Future[None] | None:
        """Ask for bytes of a value; `reply` gets them, or None, or what went wrong."""
        if self._loop_of is None:
            return self._ask_mapping(key, start, stop, suffix, reply)
        answer = self._answer(key, start, stop, suffix, reply)
        return asyncio.run_coroutine_threadsafe(answer, self._loop_of())

    async def _answer(
        self, key: str, start: int | None, stop: int | None, suffix: int | None, reply: Any
    ) -> None:
        if reply.is_abandoned():
            return
        try:
            reply(await self._get(key, start, stop, suffix), None)
        except asyncio.CancelledError:
            reply(None, "the request was cancelled")
            raise
        except BaseException as error:  # noqa: BLE001 whoever waits for the answer has to be told
            reply(None, f"{type(error).__name__}: {error}")

    def _ask_mapping(
        self, key: str, start: int | None, stop: int | None, suffix: int | None, reply: Any
    ) -> Future[None] | None:
        def answer() -> None:
            if reply.is_abandoned():
                return
            try:
                reply(_slice(_of_mapping(self._store, key), start, stop, suffix), None)
            except BaseException as error:  # noqa: BLE001 whoever waits for the answer has to be told
                reply(None, f"{type(error).__name__}: {error}")

        # What inherits from dict may wait for its values, and this thread is one that must not.
        if type(self._store) is dict:
            answer()
            return None
        return _threads.pool().submit(answer)


def _result(work: Coroutine[Any, Any, _T], loop: asyncio.AbstractEventLoop) -> _T:
    """Give what comes of work in a loop that another thread runs, which ends if this one does."""
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    finally:
        # Ctrl-C ends the wait, not the work.
        future.cancel()


def _first_names(keys: Iterable[str], prefix: str) -> set[str]:
    below = (key.removeprefix(prefix) for key in keys if key.startswith(prefix))
    return {key.split("/")[0] for key in below if "/" in key}


def is_obstore(store: Any) -> bool:
    """Whether a store is one of obstore's classes."""
    return (
        type(store).__name__ in _OBSTORE
        and type(store).__module__.startswith(
            ("obstore", "_obstore", "builtins", "pyo3_object_store")
        )
        and hasattr(
            store, "__getnewargs_ex__" if type(store).__name__ != "MemoryStore" else "get_async"
        )
    )


def tells_itself(store: Any) -> bool:
    """Whether a store of obstore tells how another like it is made."""
    if type(store).__name__ == "MemoryStore":
        return False
    try:
        store.__getnewargs_ex__()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001 some options make it panic, which is no Exception
        return False
    return True


def is_zarr_store(store: Any) -> bool:
    """Whether a store is one of zarr-python, without importing that: who has one has done so."""
    store_class = getattr(sys.modules.get("zarr.abc.store"), "Store", None)
    return store_class is not None and isinstance(store, store_class)


def is_icechunk_session(store: Any) -> bool:
    """Whether this is a session of Icechunk, which has a store."""
    session = getattr(sys.modules.get("icechunk"), "Session", None)
    return session is not None and isinstance(store, session)


def _getter(store: Any) -> tuple[Any, Callable[[], asyncio.AbstractEventLoop] | None]:
    """Give what asks the store, and the loop that has to run it; None for a mapping."""
    if is_zarr_store(store):
        return _of_zarr_store(store), _zarr_loop
    if hasattr(store, "get_range_async"):
        return _of_obstore(store), _threads.loop
    if isinstance(store, Mapping):
        return None, None
    raise TypeError(f"store is of type {type(store).__name__}")


def _zarr_loop() -> asyncio.AbstractEventLoop:
    """Give the loop of zarr-python: what a store has open belongs to it."""
    try:
        from zarr.core.sync import _get_loop  # noqa: PLC0415
    except ImportError:
        return _threads.loop()
    return _get_loop()


def _of_zarr_store(store: Any) -> Any:
    from zarr.abc.store import (  # noqa: PLC0415
        OffsetByteRequest,
        RangeByteRequest,
        SuffixByteRequest,
    )
    from zarr.core.buffer import default_buffer_prototype  # noqa: PLC0415

    prototype = default_buffer_prototype()

    async def get(key: str, start: int | None, stop: int | None, suffix: int | None) -> Any:
        request: Any = None
        if suffix is not None:
            request = SuffixByteRequest(suffix)
        elif start is not None:
            request = (
                RangeByteRequest(start, stop) if stop is not None else OffsetByteRequest(start)
            )
        value = await store.get(key, prototype, request)
        return None if value is None else value.to_bytes()

    return get


def _of_obstore(store: Any) -> Any:
    async def get(key: str, start: int | None, stop: int | None, suffix: int | None) -> Any:
        try:
            if start is not None and stop is not None:
                return bytes(await store.get_range_async(key, start=start, end=stop))
            if suffix is not None and type(store).__name__ == "AzureStore":
                # Azure knows no suffixes.
                size = (await store.head_async(key))["size"]
                start = max(size - suffix, 0)
                return bytes(await store.get_range_async(key, start=start, end=size))
            options: Any = {"range": {"suffix": suffix}} if suffix is not None else None
            value = bytes(await (await store.get_async(key, options=options)).bytes_async())
        except FileNotFoundError:
            return None
        return value

    return get


def _of_mapping(mapping: Mapping[str, Any], key: str) -> Any:
    try:
        return mapping[key]
    except KeyError:
        return None


def _slice(value: Any, start: int | None, stop: int | None, suffix: int | None) -> bytes | None:
    """Give the bytes that are asked for of a whole value: bytes, a buffer, or a Buffer of zarr."""
    if value is None:
        return None
    if hasattr(value, "to_bytes") and not isinstance(value, int):
        value = value.to_bytes()
    if suffix is not None:
        if suffix > len(value):
            raise ValueError(f"the value has {len(value)} bytes; expected at least {suffix}")
        start, stop = len(value) - suffix, None
    if start is None and isinstance(value, bytes):
        return value
    return bytes(memoryview(value)[start:stop])
