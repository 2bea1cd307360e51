"""Arrays to put into stores of every kind, and stores of Python's that count."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import arrays
import numpy as np
import objects
import oracle
import zarr
from arrays import Layout
from oracle import NDArray
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import MemoryStore

METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
ODD = "a b%20#+ü&=/c's (d)"  # names that have to be quoted in URLs

_GRID: dict[str, Any] = {"dtype": "float32", "shape": (23, 17), "chunks": (5, 6)}
_SHARDS: dict[str, Any] = _GRID | {"shards": (10, 12)}
LAYOUTS: dict[str, Layout] = {
    "v2-blosc": Layout(**_GRID, zarr_format=2, codecs=("blosc-lz4",), seed=1),
    "v3-zstd": Layout(**_GRID, codecs=("zstd",), seed=2, attributes={"unit": "µm"}),
    "shards": Layout(**_SHARDS, codecs=("zstd",), seed=3),
    "index-at-start": Layout(**_SHARDS, codecs=("zstd",), index_at="start", seed=4),
    "raw": Layout(**_GRID, seed=5),
    "raw-shards": Layout(**_SHARDS, seed=6),
    f"{ODD}/v2": Layout(**_GRID, zarr_format=2, codecs=("zlib",), seed=7),
    f"{ODD}/v3": Layout(**_GRID, codecs=("gzip",), seed=8),
    "missing": Layout(**_GRID, codecs=("zstd",), missing=0.5, fill_seed=9, seed=9),
    "missing-in-shards": Layout(**_SHARDS, codecs=("zstd",), missing=0.6, fill_seed=1, seed=10),
    "scalar": Layout(dtype="int64", shape=(), chunks=(), seed=11),
}
TEXT = "text"
SELECTIONS: list[Any] = [np.s_[1:7, 2:9], np.s_[0:0], np.s_[3:, ::2], ..., np.s_[-1:, 5:6]]


@dataclass(frozen=True)
class Form:
    """An array in a store: its path there, and what it holds."""

    path: str
    whole: NDArray
    zarr_format: int

    @property
    def selections(self) -> list[Any]:
        """What to read of it."""
        return SELECTIONS if self.whole.ndim else [..., ()]

    def check(self, result: Any) -> None:
        """Assert that a result is what NumPy gives for the selections."""
        if self.path == TEXT:
            rows = objects.rows_of(self.whole, self.selections)
            objects.assert_rows(result, rows, objects.ARROW["string"], 2)
        else:
            oracle.assert_reads(result, self.whole, self.selections)


def write_forms(folder: Path) -> dict[str, Form]:
    """Write an array of each form below a folder."""
    for path, zarr_format in (("", 3), (ODD.split("/", maxsplit=1)[0], 2), (ODD, 2)):
        zarr.create_group(folder / path, zarr_format=zarr_format)  # type: ignore[arg-type]
    forms = {}
    for path, layout in LAYOUTS.items():
        written = arrays.write(layout, folder / path)
        forms[path] = Form(path, written.whole, layout.zarr_format)
    words = [f"{'ü' * (n % 5)}{n}" for n in range(23 * 17)]
    text = objects.objects(words, (23, 17))
    objects.write(folder / TEXT, text, (5, 6), kind="string")
    return forms | {TEXT: Form(TEXT, text, 3)}


def read_folder(folder: Path) -> dict[str, bytes]:
    """Give all files below a folder, by their keys."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def fill(store: Any, values: Mapping[str, bytes]) -> Any:
    """Put values into a store of zarr-python's; gives it back."""

    async def put() -> None:
        for key, value in values.items():
            await store.set(key, default_buffer_prototype().buffer.from_bytes(value))

    sync(put())
    return store


def store_of(kind: str, folder: Path, url: str) -> Any:
    """Give a store of a kind with what a folder has; `url` is where that is."""
    made: dict[str, Any] = {
        "path": lambda: folder,
        "http": lambda: url,
        "dict": lambda: read_folder(folder),
        "MemoryStore": lambda: fill(MemoryStore(), read_folder(folder)),
        "own": lambda: OwnStore(read_folder(folder)),
        "mapping": lambda: OwnMapping(read_folder(folder)),
    }
    return made[kind]()


def is_metadata(key: str) -> bool:
    """Whether a key or the path of a URL is that of a document of metadata."""
    return key.rsplit("/", 1)[-1] in METADATA


@dataclass
class Asked:
    """What a store was asked: keys with what of them, and how many at once."""

    keys: list[tuple[str, str]] = field(default_factory=list)
    in_flight: int = 0
    most: int = 0
    most_threads: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, key: str, part: str) -> None:
        """Count a request that begins."""
        with self._lock:
            self.keys.append((key, part))
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
            self.most_threads = max(self.most_threads, threading.active_count())

    def end(self) -> None:
        """Count a request that ends."""
        with self._lock:
            self.in_flight -= 1

    def chunks(self) -> list[tuple[str, str]]:
        """Give the requests for other than metadata."""
        return [(key, part) for key, part in self.keys if not is_metadata(key)]

    def forget(self) -> None:
        """Count from zero."""
        with self._lock:
            self.keys.clear()
            self.most = self.most_threads = 0


class OwnStore(Store):
    """A store that nobody else knows: values in memory, each `latency` seconds away.

    It hangs at chunks while `hangs` is set, and fails at keys that hold `fails_at`.
    """

    def __init__(self, values: Mapping[str, bytes], latency: float = 0.0) -> None:
        super().__init__(read_only=True)
        self.values, self.latency = dict(values), latency
        self.hangs = False
        self.fails_at: str | None = None
        self.asked = Asked()

    def __reduce__(self) -> tuple[Any, ...]:
        return OwnStore, (self.values, self.latency)

    def __repr__(self) -> str:
        return f"OwnStore({len(self.values)} values)"

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        part = {
            type(None): "all",
            RangeByteRequest: "range",
            OffsetByteRequest: "offset",
            SuffixByteRequest: "suffix",
        }[type(byte_range)]
        self.asked.begin(key, part)
        try:
            await asyncio.sleep(self.latency)
            while self.hangs and not is_metadata(key):
                await asyncio.sleep(0.01)
            if self.fails_at is not None and self.fails_at in key:
                raise PermissionError("the door is locked")
            value = self.values.get(key)
        finally:
            self.asked.end()
        if value is None:
            return None
        if isinstance(byte_range, RangeByteRequest):
            value = value[byte_range.start : byte_range.end]
        elif isinstance(byte_range, OffsetByteRequest):
            value = value[byte_range.offset :]
        elif isinstance(byte_range, SuffixByteRequest):
            value = value[-byte_range.suffix :]
        return prototype.buffer.from_bytes(value)

    async def get_partial_values(self, prototype: Any, key_ranges: Any) -> list[Buffer | None]:
        return [await self.get(key, prototype, part) for key, part in key_ranges]

    async def exists(self, key: str) -> bool:
        return key in self.values

    supports_writes = supports_deletes = supports_partial_writes = False
    supports_listing = True

    async def set(self, key: str, value: Buffer) -> None:
        raise NotImplementedError

    async def delete(self, key: str) -> None:
        raise NotImplementedError

    async def list(self) -> AsyncIterator[str]:
        for key in self.values:
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        for key in self.values:
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        start = f"{prefix.rstrip('/')}/" if prefix else ""
        names = {
            key.removeprefix(start).split("/")[0] for key in self.values if key.startswith(start)
        }
        for name in sorted(names):
            yield name

    def with_read_only(self, read_only: bool = False) -> Self:
        raise NotImplementedError


class OwnMapping(Mapping[str, bytes]):
    """A mapping that is no dict: each value is `latency` seconds away."""

    def __init__(self, values: Mapping[str, bytes], latency: float = 0.0) -> None:
        self.held, self.latency = dict(values), latency
        self.asked = Asked()

    def __reduce__(self) -> tuple[Any, ...]:
        return OwnMapping, (self.held, self.latency)

    def __repr__(self) -> str:
        return f"OwnMapping({len(self.held)} values)"

    def __getitem__(self, key: str) -> bytes:
        self.asked.begin(key, "all")
        try:
            time.sleep(self.latency)
            return self.held[key]
        finally:
            self.asked.end()

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)


class LazyDict(dict[str, bytes]):
    """A dict whose own values are wrong: it gives those of a mapping, which is asked each time."""

    def __init__(self, values: Mapping[str, bytes], latency: float = 0.0) -> None:
        super().__init__(dict.fromkeys(values, b"not this"))
        self.behind = OwnMapping(values, latency)
        self.asked = self.behind.asked

    def __reduce__(self) -> tuple[Any, ...]:
        return LazyDict, (self.behind.held, self.behind.latency)

    def __getitem__(self, key: str) -> bytes:
        return self.behind[key]
