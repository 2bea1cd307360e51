"""The cache of decoded chunks: each is decoded once, none is stale, and no two are mixed up."""

from __future__ import annotations

import pickle
import struct
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import arrays
import numpy as np
import objects
import oracle
import pytest
import zarr
import zarrow
from arrays import Layout, Written, write_values
from remote import OwnStore, read_folder, store_of
from servers.http_files import FileServer
from servers.proxy import Proxy
from zarr.codecs import ZstdCodec

_GRID: dict[str, Any] = {"dtype": "int32", "shape": (60, 40), "chunks": (5, 8), "codecs": ("zstd",)}
CHUNK = 5 * 8 * 4
LAYOUTS = {
    "chunks": Layout(**_GRID, seed=1),
    "shards": Layout(**_GRID, shards=(20, 16), seed=2),
    "missing": Layout(**_GRID, missing=0.4, fill_seed=3, seed=3),
    "raw": Layout(**_GRID | {"codecs": ()}, seed=4),
}
KINDS = ["path", "http", "dict", "MemoryStore", "own"]
BIG = 1 << 24


@pytest.fixture(scope="module")
def written(http_server: FileServer) -> dict[str, Written]:
    folder = http_server.folder / "cache"
    return {name: arrays.write(layout, folder / name) for name, layout in LAYOUTS.items()}


def opened(kind: str, proxy: Proxy, written: Written) -> zarrow.Array:
    url = f"{proxy.url}/cache/{written.path.name}"
    return zarrow.open_array(store_of(kind, written.path, url))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_sliding_windows_decode_each_chunk_once(
    proxy: Proxy, written: dict[str, Written], name: str, kind: str
) -> None:
    """Over many reads; hits and misses are those of a naive count."""
    handle, cache = opened(kind, proxy, written[name]), zarrow.ChunkCache(BIG)
    seen: set[tuple[int, ...]] = set()
    decoded = found = 0
    for start in range(0, 50, 3):
        selections: list[Any] = [np.s_[start : start + 10, 3:30], np.s_[start : start + 4]]
        got, stats = zarrow.read_ragged(handle, selections, cache=cache, return_stats=True)
        written[name].check(got, selections)
        touched = oracle.touched((60, 40), (5, 8), selections)
        fresh = (touched - seen) & written[name].stored
        assert stats.chunks_decoded == len(fresh)
        assert (
            stats.chunks_cached == len(touched & seen & written[name].stored) or name == "missing"
        )
        found += len(touched & seen)
        decoded += stats.chunks_decoded
        seen |= touched
    assert decoded == len(seen & written[name].stored)
    assert cache.evictions == 0
    assert cache.nbytes >= decoded * CHUNK
    assert len(cache) >= decoded
    if name != "missing":  # see below
        assert (cache.hits, cache.misses) == (found, len(seen))


@pytest.mark.parametrize(
    "kind",
    [
        "path",
        "http",
        "dict",
        "own",
    ],
)
def test_missing_chunks_are_counted(proxy: Proxy, written: dict[str, Written], kind: str) -> None:
    """A miss at first, and a hit when it is known that there is none, of whatever store."""
    handle, cache = opened(kind, proxy, written["missing"]), zarrow.ChunkCache(BIG)
    for turn in range(3):
        zarrow.read_ragged(handle, [...], cache=cache)
        assert (cache.misses, cache.hits) == (60, 60 * turn)


INDEX = 16 * 8 + 4  # bytes of the index of a shard of "shards"


def stored_lengths(shard: Path) -> list[int]:
    """The bytes that each of the eight subchunks of a shard takes."""
    words = struct.unpack("<16Q", shard.read_bytes()[-INDEX:-4])
    return list(words[1::2])


def zipped(folder: Path, path: Path) -> Path:
    """Put all files of a folder into a zip file, as they are."""
    with zipfile.ZipFile(path, "w") as archive:
        for key, value in read_folder(folder).items():
            archive.writestr(key, value)
    return path


@pytest.mark.parametrize("kind", ["path", "zip"])
def test_an_index_of_a_file_is_read_once(
    written: dict[str, Written], tmp_path: Path, kind: str
) -> None:
    """Of a shard of this machine, too: what a second read reads are the bytes of subchunks."""
    shards = written["shards"]
    path = shards.path if kind == "path" else zipped(shards.path, tmp_path / "shards.zip")
    lengths = stored_lengths(shards.chunk(1, 1))
    cache = zarrow.ChunkCache(BIG)

    def fetched(handle: zarrow.Array, selection: Any) -> int:
        got, stats = zarrow.read_ragged(handle, [selection], cache=cache, return_stats=True)
        shards.check(got, [selection])
        return int(stats.bytes_fetched)

    handle = zarrow.open_array(path)
    # Of the shard, subchunks in rows of two.
    assert fetched(handle, np.s_[20:25, 16:24]) == INDEX + lengths[0]
    assert fetched(handle, np.s_[20:25, 16:24]) == 0
    assert fetched(handle, np.s_[20:25, 24:32]) == lengths[1]
    assert fetched(handle, np.s_[30:40, 17:30]) == sum(lengths[4:])
    assert fetched(handle, np.s_[20:40, 16:32]) == sum(lengths[2:4])
    assert fetched(handle, np.s_[20:40, 16:32]) == 0
    assert fetched(handle, ...) > 0
    assert fetched(handle, ...) == 0
    other = zarrow.open_array(path)
    assert fetched(other, ...) == 0
    cache.clear()
    assert fetched(other, np.s_[20:25, 16:24]) == INDEX + lengths[0]


def texts(shape: tuple[int, ...]) -> Any:
    """Texts of many lengths, none among them."""
    count = int(np.prod(shape))
    return objects.objects([f"{at}ü" * (at * 7 % 5) for at in range(count)], shape)


TEXTS: dict[str, dict[str, Any]] = {
    "raw": {"compressors": None},
    "zstd": {"compressors": ZstdCodec()},
    "shards": {"shards": (20, 16), "compressors": ZstdCodec()},
    "bytes": {"kind": "bytes"},
    "transposed": {"transpose": (1, 0)},
    "v2": {"zarr_format": 2, "order": "F"},
    "missing": {"fill_value": "none"},
}


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TEXTS)
def test_values_of_variable_length_are_decoded_once(
    proxy: Proxy, http_server: FileServer, name: str, kind: str
) -> None:
    """Of sliding windows; what is wanted of a chunk differs from read to read."""
    folder, values = http_server.folder / "cache" / f"text-{name}", texts((60, 40))
    options = {"kind": "string"} | TEXTS[name]
    if options["kind"] == "bytes":
        values = objects.objects([text.encode() for text in values.reshape(-1)], values.shape)
    if not folder.exists():
        array = objects.write(folder, values, (5, 8), **options)
        if name == "missing":
            array[10:20] = "none"
    # Of transposed texts, zarr-python gives others back than it was given.
    values = np.asarray(zarr.open_array(folder, mode="r")[...])
    url = f"{proxy.url}/cache/{folder.name}"
    handle = zarrow.open_array(store_of(kind, folder, url))
    cache = zarrow.ChunkCache(BIG)
    seen: set[tuple[int, ...]] = set()
    for start in range(0, 50, 3):
        selections: list[Any] = [np.s_[start : start + 10, 3:30:2], np.s_[start : start + 4]]
        got, stats = zarrow.read_ragged(handle, selections, cache=cache, return_stats=True)
        rows = objects.rows_of(values, selections)
        objects.assert_rows(got, rows, objects.ARROW[options["kind"]], 2)
        touched = oracle.touched((60, 40), (5, 8), [np.s_[start : start + 10, 3:30], selections[1]])
        absent = {at for at in touched if name == "missing" and at[0] in (2, 3)}
        assert stats.chunks_decoded == len(touched - seen - absent)
        assert stats.chunks_cached == len((touched & seen) - absent)
        seen |= touched
    bytes_of = sum(len(str(text).encode()) for text in values.reshape(-1).tolist())
    assert cache.evictions == 0
    if name not in ("missing", "bytes"):
        assert 16 * 52 * 40 + bytes_of * 52 // 60 - 5000 < cache.nbytes
        assert cache.nbytes < (16 + 4) * 60 * 40 + bytes_of + 200 * 60


@pytest.mark.parametrize("limit", [None, 40_000, 100_000, 1 << 20])
def test_values_of_variable_length_within_a_memory_limit(tmp_path: Path, limit: Any) -> None:
    """What does not fit into it twice is read, but not kept."""
    values = texts((600,))
    objects.write(tmp_path / "a", values, (100,), kind="string")
    cache = zarrow.ChunkCache(BIG)
    for _ in range(2):
        for selections in ([np.s_[90:110]], [..., np.s_[::7]]):
            got, stats = zarrow.read_ragged(
                tmp_path / "a", selections, cache=cache, memory_limit=limit, return_stats=True
            )
            assert got.to_pylist() == objects.rows_of(values, selections)
            assert limit is None or stats.bytes_held <= limit


def test_eviction(written: dict[str, Written]) -> None:
    """Never more bytes than allowed; what was used longest ago goes first."""
    path = written["chunks"].path
    cache = zarrow.ChunkCache(10 * (CHUNK + 200))
    for start in range(0, 60, 5):
        got = zarrow.read_ragged(path, [np.s_[start : start + 5]], cache=cache)
        written["chunks"].check(got, [np.s_[start : start + 5]])
        assert 0 < cache.nbytes <= cache.max_bytes
    assert cache.evictions > 0
    before = cache.hits
    zarrow.read_ragged(path, [np.s_[55:60]], cache=cache)
    assert cache.hits == before + 5
    _, stats = zarrow.read_ragged(path, [np.s_[0:5]], cache=cache, return_stats=True)
    assert stats.chunks_decoded == 5


@pytest.mark.parametrize("max_bytes", [0, 1, CHUNK - 1])
def test_a_cache_that_holds_nothing(written: dict[str, Written], max_bytes: int) -> None:
    cache = zarrow.ChunkCache(max_bytes)
    for _ in range(2):
        got, stats = zarrow.read_ragged(
            written["chunks"].path, [...], cache=cache, return_stats=True
        )
        written["chunks"].check(got, [...])
        assert (stats.chunks_decoded, cache.nbytes) == (60, 0)


def test_clear(written: dict[str, Written]) -> None:
    cache = zarrow.ChunkCache(BIG)
    assert (len(cache), cache.nbytes, cache.max_bytes, cache.recheck) == (0, 0, BIG, True)
    for _ in range(2):
        _, stats = zarrow.read_ragged(written["chunks"].path, [...], cache=cache, return_stats=True)
        assert (stats.chunks_decoded, cache.misses, len(cache)) == (60, 60, 60)
        cache.clear()
        assert (len(cache), cache.nbytes, cache.hits, cache.misses, cache.evictions) == (0,) * 5


def test_pickle_and_arguments() -> None:
    cache = zarrow.ChunkCache(12345, recheck=False)
    again = pickle.loads(pickle.dumps(cache))
    assert (again.max_bytes, again.recheck, len(again)) == (12345, False, 0)
    assert "12345" in repr(cache) or "12_345" in repr(cache)
    for wrong in (-1, "1 GB", None, 1.5):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            zarrow.ChunkCache(wrong)  # type: ignore[arg-type]


def test_a_pickled_cache_is_empty(written: dict[str, Written]) -> None:
    cache = zarrow.ChunkCache(BIG)
    zarrow.read_ragged(written["chunks"].path, [...], cache=cache)
    again = pickle.loads(pickle.dumps(cache))
    assert (len(again), again.nbytes, len(cache)) == (0, 0, 60)


def test_two_reads_at_once_decode_once(written: dict[str, Written]) -> None:
    """Of the same chunks, which are far away: the second read waits for the first."""
    store = OwnStore(read_folder(written["chunks"].path), 0.05)
    handle, cache = zarrow.open_array(store), zarrow.ChunkCache(BIG)
    store.asked.forget()

    def read(_: int) -> zarrow.ReadStats:
        got, stats = zarrow.read_ragged(handle, [...], cache=cache, return_stats=True)
        written["chunks"].check(got, [...])
        return stats

    with ThreadPoolExecutor(6) as pool:
        stats = list(pool.map(read, range(6)))
    assert sum(each.chunks_decoded for each in stats) == 60
    assert len(store.asked.chunks()) == 60


@pytest.mark.parametrize("kind", KINDS)
def test_two_stores_with_the_same_keys(
    proxy: Proxy, written: dict[str, Written], kind: str
) -> None:
    cache = zarrow.ChunkCache(BIG)
    handles = {name: opened(kind, proxy, written[name]) for name in ("chunks", "raw", "missing")}
    for _ in range(2):
        for name, handle in handles.items():
            written[name].check(zarrow.read_ragged(handle, [...], cache=cache), [...])


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
def test_fields_and_promotion(tmp_path: Path) -> None:
    """What a read takes of an element, or makes of it, is not what is cached."""
    records = np.zeros(40, [("x", "i4"), ("y", "f8"), ("z", "u2")])
    records["x"], records["y"], records["z"] = np.arange(40), np.arange(40) / 3, 7
    zarr.create_array(tmp_path / "r", data=records, chunks=(6,))
    cache = zarrow.ChunkCache(BIG)
    for fields in (None, ["x"], ["z", "y"], ["x"], None, ["y"]):
        got = zarrow.read_ragged(tmp_path / "r", [np.s_[3:30]], fields=fields, cache=cache)
        plain = zarrow.read_ragged(tmp_path / "r", [np.s_[3:30]], fields=fields)
        assert got.equals(plain), fields
    small, large = np.arange(30, dtype="i2"), np.arange(30, dtype="f8") / 7
    write_values(tmp_path / "s", small, (7,), compressors=ZstdCodec())
    write_values(tmp_path / "l", large, (7,), compressors=ZstdCodec())
    both = [tmp_path / "s", tmp_path / "l"]
    for _ in range(2):
        got = zarrow.read_ragged(tmp_path / "s", [...], cache=cache)
        oracle.assert_reads(got, small, [...])
        got = zarrow.read_ragged(both, [..., ...], sources=[0, 1], promote=True, cache=cache)
        assert got.to_pylist() == [small.tolist(), large.tolist()]


@pytest.mark.parametrize("kind", KINDS)
def test_threads_that_hammer_a_small_cache(
    proxy: Proxy, written: dict[str, Written], kind: str
) -> None:
    """Values are right while chunks come and go, and the bytes stay in bounds."""
    handles = {name: opened(kind, proxy, written[name]) for name in LAYOUTS}
    cache = zarrow.ChunkCache(25 * (CHUNK + 150))
    over: list[int] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for turn in range(4 if kind == "http" else 15):
            name = list(LAYOUTS)[int(random.integers(len(LAYOUTS)))]
            start, left = (int(each) for each in random.integers(0, 35, 2))
            selections = [np.s_[start : start + 17, left : left + 9]]
            got = zarrow.read_ragged(handles[name], selections, cache=cache)
            written[name].check(got, selections)
            if cache.nbytes > cache.max_bytes:
                over.append(cache.nbytes)
            if turn == 7 and seed == 0:
                cache.clear()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert not over
    assert cache.evictions > 0


def test_a_read_that_fails_leaves_nothing_behind(written: dict[str, Written]) -> None:
    """Whoever waited for its chunks reads them."""
    store = OwnStore(read_folder(written["chunks"].path), 0.01)
    handle, cache = zarrow.open_array(store), zarrow.ChunkCache(BIG)
    store.hangs = True
    ended: list[type[Exception]] = []

    def impatient() -> None:
        try:
            zarrow.read_ragged(handle, [...], cache=cache, timeout=0.3)
        except zarrow.ReadTimeoutError as error:
            ended.append(type(error))
        store.hangs = False

    thread = threading.Thread(target=impatient)
    thread.start()
    got = zarrow.read_ragged(handle, [...], cache=cache, timeout=60)
    thread.join()
    written["chunks"].check(got, [...])
    assert ended == [zarrow.ReadTimeoutError]
    store.fails_at = "c/0/0"
    cache.clear()
    with pytest.raises(zarrow.StoreError):
        zarrow.read_ragged(handle, [...], cache=cache)
    store.fails_at = None
    written["chunks"].check(zarrow.read_ragged(handle, [...], cache=cache), [...])
