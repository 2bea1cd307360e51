"""The cache of decoded chunks when a store changes: what is written anew is seen."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import arrays
import numpy as np
import oracle
import pytest
import zarr
import zarrow
from arrays import Layout, Written, write_values
from remote import OwnStore, is_metadata, read_folder
from servers.http_files import FileServer
from servers.moto import S3Server
from servers.plain_http import PlainServer
from servers.proxy import Proxy
from zarr.codecs import ZstdCodec

_GRID: dict[str, Any] = {"dtype": "int32", "shape": (60, 40), "chunks": (5, 8), "codecs": ("zstd",)}
LAYOUTS = {"chunks": Layout(**_GRID, seed=1), "shards": Layout(**_GRID, shards=(20, 16), seed=2)}
BIG = 1 << 24


@pytest.fixture(scope="module")
def written(http_server: FileServer) -> dict[str, Written]:
    folder = http_server.folder / "changes"
    return {name: arrays.write(layout, folder / name) for name, layout in LAYOUTS.items()}


def two(folder: Path, shards: tuple[int, ...] | None) -> tuple[np.ndarray, np.ndarray, Path]:
    """Write an array, and beside it the same with two rows changed. Give both, and where."""
    old = np.arange(60 * 40, dtype="int32").reshape(60, 40)
    new = old.copy()
    new[[7, 44]] += 1_000_000
    for name, values in (("a", old), ("b", new)):
        write_values(folder / name, values, (5, 8), shards=shards, compressors=ZstdCodec())
    return old, new, folder / "b"


def replace(source: Path, target: Path, keys: list[str]) -> None:
    """Put other files in the place of these, at once, as one does who writes well."""
    for key in keys:
        shutil.copy(source / key, target / f"{key}.new")
        (target / f"{key}.new").replace(target / key)


def subchunks(key: str) -> int:
    """The subchunks of (5, 8) within the array in a shard of (20, 16)."""
    return 4 * (1 if key.endswith("/2") else 2)


@pytest.mark.parametrize("shards", [None, (20, 16)])
@pytest.mark.parametrize("kind", ["path", "http", "s3"])
def test_a_chunk_that_is_written_anew(
    proxy: Proxy,
    http_server: FileServer,
    s3_server: S3Server,
    kind: str,
    shards: tuple[int, ...] | None,
) -> None:
    """The next read has the new values, and only what changed is decoded again."""
    name = f"anew-{kind}-{'shards' if shards else 'chunks'}"
    folder = http_server.folder / "changes" / name
    old, new, other = two(folder, shards)
    options = None
    if kind == "s3":
        s3_server.upload(folder / "a", name, "a")
        array: Any = f"s3://{name}/a"
        options = s3_server.storage_options()
    else:
        array = f"{proxy.url}/changes/{name}/a" if kind == "http" else folder / "a"
    handle, cache = zarrow.open_array(array, storage_options=options), zarrow.ChunkCache(BIG)
    asked: list[Any] = [np.s_[5:10], np.s_[40:50], ...]
    for _ in range(2):
        oracle.assert_reads(zarrow.read_ragged(handle, asked, cache=cache), old, asked)
    keys = [key for key in read_folder(other) if not is_metadata(key)]
    changed = [
        key for key in keys if (folder / "a" / key).read_bytes() != (other / key).read_bytes()
    ]
    assert len(changed) == (6 if shards else 10)
    replace(other, folder / "a", changed)
    if kind == "s3":
        s3_server.upload(folder / "a", name, "a")
    got, stats = zarrow.read_ragged(handle, asked, cache=cache, return_stats=True)
    oracle.assert_reads(got, new, asked)
    # Of a shard, what was decoded is kept only if the whole shard is as it was.
    assert stats.chunks_decoded == (sum(map(subchunks, changed)) if shards else len(changed))
    got, stats = zarrow.read_ragged(handle, asked, cache=cache, return_stats=True)
    oracle.assert_reads(got, new, asked)
    assert (stats.chunks_decoded, stats.chunks_cached) == (0, 60)


def test_an_index_of_a_file_that_is_written_anew(tmp_path: Path) -> None:
    """Where another subchunk lies in the old shard says nothing of the new one."""
    old = np.arange(60 * 40, dtype="int32").reshape(60, 40)
    # Noise takes more bytes: all subchunks but the first lie elsewhere.
    new = np.random.default_rng(1).integers(0, 1 << 30, (60, 40), dtype="int32")
    for name, values in (("a", old), ("b", new)):
        write_values(tmp_path / name, values, (5, 8), shards=(20, 16), compressors=ZstdCodec())
    handle, cache = zarrow.open_array(tmp_path / "a"), zarrow.ChunkCache(BIG)
    first, others = [np.s_[20:25, 16:24]], [np.s_[25:40, 16:32], np.s_[20:25, 24:32]]
    oracle.assert_reads(zarrow.read_ragged(handle, first, cache=cache), old, first)
    replace(tmp_path / "b", tmp_path / "a", ["c/1/1"])
    for asked in (others, first, [np.s_[20:40, 16:32]]):
        oracle.assert_reads(zarrow.read_ragged(handle, asked, cache=cache), new, asked)
    (tmp_path / "a/c/1/1").unlink()
    oracle.assert_reads(zarrow.read_ragged(handle, first, cache=cache), np.zeros_like(new), first)
    shutil.copy(tmp_path / "b/c/1/1", tmp_path / "a/c/1/1")
    oracle.assert_reads(zarrow.read_ragged(handle, others, cache=cache), new, others)


@pytest.mark.parametrize("shards", [None, (20, 16)])
def test_a_server_that_knows_times_alone(tmp_path: Path, shards: tuple[int, ...] | None) -> None:
    """What was modified is told by when, to the second, where there is no ETag."""
    old, new, other = two(tmp_path, shards)
    for number, folder in enumerate((tmp_path / "a", other)):
        for file in folder.rglob("*"):
            os.utime(file, (1_700_000_000 + number,) * 2)
    server = PlainServer(tmp_path, ranges=True, times=True)
    try:
        handle, cache = zarrow.open_array(f"{server.url}/a"), zarrow.ChunkCache(BIG)
        oracle.assert_reads(zarrow.read_ragged(handle, [...], cache=cache), old, [...])
        got, stats = zarrow.read_ragged(handle, [...], cache=cache, return_stats=True)
        oracle.assert_reads(got, old, [...])
        assert (stats.chunks_decoded, stats.chunks_cached) == (0, 60)
        # The index of a shard has to be that of its bytes: a time does not tell enough.
        assert stats.requests == (9 if shards else 60)
        assert server.unchanged == (0 if shards else 60)
        keys = [key for key in read_folder(other) if not is_metadata(key)]
        replace(other, tmp_path / "a", keys)
        for key in keys:
            os.utime(tmp_path / "a" / key, (1_700_000_001,) * 2)
        oracle.assert_reads(zarrow.read_ragged(handle, [...], cache=cache), new, [...])
    finally:
        server.close()


@pytest.mark.parametrize("name", ["chunks", "shards"])
def test_what_is_rechecked(proxy: Proxy, written: dict[str, Written], name: str) -> None:
    """A request for each chunk or shard, which brings no bytes; none with recheck=False."""
    handle = zarrow.open_array(f"{proxy.url}/changes/{name}")
    for recheck in (True, False):
        cache = zarrow.ChunkCache(BIG, recheck=recheck)
        zarrow.read_ragged(handle, [...], cache=cache)
        proxy.forget()
        got, stats = zarrow.read_ragged(handle, [...], cache=cache, return_stats=True)
        written[name].check(got, [...])
        counts = proxy.counts()
        assert stats.chunks_decoded == 0
        assert stats.chunks_cached == 60
        assert counts.bytes == 0
        assert counts.method("HEAD") == 0
        objects = 9 if name == "shards" else 60
        assert counts.requests == stats.requests == (objects if recheck else 0)
        assert all(each.status == 304 for each in counts.log)


@pytest.mark.parametrize("name", ["chunks", "shards"])
@pytest.mark.parametrize("missing", ["fill", "null"])
def test_what_is_missing_is_not_rechecked(
    proxy: Proxy, http_server: FileServer, name: str, missing: Any
) -> None:
    """With recheck=False, no request for what is there, nor for what is not; else one for each."""
    folder = http_server.folder / "changes" / f"half-{name}-{missing}"
    half = arrays.write(LAYOUTS[name], folder)
    gone = list(half.files().values())[::2]
    for file in gone:
        file.unlink()
    # What NumPy has to give, by a way that keeps nothing.
    expected = zarrow.read_ragged(folder, [..., np.s_[3:33, 5:20]], missing_chunks=missing)
    handle = zarrow.open_array(f"{proxy.url}/changes/{folder.name}")
    for recheck in (False, True):
        cache = zarrow.ChunkCache(BIG, recheck=recheck)
        first, stats = zarrow.read_ragged(
            handle, [...], missing_chunks=missing, cache=cache, return_stats=True
        )
        absent = stats.chunks_missing
        assert absent > 0
        for asked in ([..., np.s_[3:33, 5:20]], [np.s_[3:33, 5:20]]):
            proxy.forget()
            got, stats = zarrow.read_ragged(
                handle, asked, missing_chunks=missing, cache=cache, return_stats=True
            )
            assert got.equals(expected[2 - len(asked) :])
            counts = proxy.counts()
            assert stats.chunks_decoded == 0
            assert counts.requests == stats.requests
            assert (counts.requests > 0) == recheck
            assert len(asked) == 1 or stats.chunks_missing == absent
        assert first.equals(expected[:1])
    with pytest.raises(zarrow.StoreError):
        zarrow.read_ragged(handle, [...], missing_chunks="error", cache=cache)


@pytest.mark.parametrize("name", ["chunks", "shards"])
def test_an_array_that_is_gone_is_noticed(proxy: Proxy, http_server: FileServer, name: str) -> None:
    """Also where the cache knew all of it to be missing: the array itself was asked for."""
    folder = http_server.folder / "changes" / f"gone-{name}"
    half = arrays.write(LAYOUTS[name], folder)
    half.chunk(0, 0).unlink()
    handle = zarrow.open_array(f"{proxy.url}/changes/{folder.name}")
    cache = zarrow.ChunkCache(BIG)
    absent = np.s_[0:5, 0:8]
    for asked in ([...], [absent]):
        stats = zarrow.read_ragged(handle, asked, cache=cache, return_stats=True)[1]
        assert stats.chunks_missing > 0
    shutil.rmtree(folder)
    for asked in ([absent], [...]):
        with pytest.raises(zarrow.StoreError, match="vanished after it was opened"):
            zarrow.read_ragged(handle, asked, cache=cache)


def test_no_recheck_sees_nothing_new(http_server: FileServer) -> None:
    """By intention, of a remote store; a file on this machine costs nothing to look at."""
    folder = http_server.folder / "changes" / "unchecked"
    old, new, other = two(folder, None)
    cache = zarrow.ChunkCache(BIG, recheck=False)
    handle = zarrow.open_array(f"{http_server.url}/changes/unchecked/a")
    oracle.assert_reads(zarrow.read_ragged(handle, [...], cache=cache), old, [...])
    replace(other, folder / "a", [key for key in read_folder(other) if not is_metadata(key)])
    oracle.assert_reads(zarrow.read_ragged(handle, [...], cache=cache), old, [...])
    cache.clear()
    oracle.assert_reads(zarrow.read_ragged(handle, [...], cache=cache), new, [...])


@pytest.mark.parametrize("kind", ["path", "http"])
@pytest.mark.parametrize("shards", [None, (20, 16)])
def test_a_missing_chunk_that_is_written(
    proxy: Proxy, http_server: FileServer, kind: str, shards: tuple[int, ...] | None
) -> None:
    """That a chunk is missing is cached too, but not for good; nor that there is one."""
    name = f"late-{kind}-{'shards' if shards else 'chunks'}"
    folder = http_server.folder / "changes" / name
    old, _, _ = two(folder, shards)
    key = "c/1/1"
    data = (folder / "a" / key).read_bytes()
    (folder / "a" / key).unlink()
    without = old.copy()
    without[(np.s_[20:40, 16:32] if shards else np.s_[5:10, 8:16])] = 0
    handle = zarrow.open_array(folder / "a" if kind == "path" else f"{proxy.url}/changes/{name}/a")
    cache = zarrow.ChunkCache(BIG)
    for _ in range(2):
        oracle.assert_reads(zarrow.read_ragged(handle, [...], cache=cache), without, [...])
    (folder / "a" / key).write_bytes(data)
    oracle.assert_reads(zarrow.read_ragged(handle, [...], cache=cache), old, [...])
    (folder / "a" / key).unlink()
    oracle.assert_reads(zarrow.read_ragged(handle, [...], cache=cache), without, [...])
    with pytest.raises(zarrow.StoreError, match=key):
        zarrow.read_ragged(handle, [...], cache=cache, missing_chunks="error")


@pytest.mark.parametrize("kind", ["path", "http", "own", "dict"])
def test_a_path_that_holds_another_array(proxy: Proxy, http_server: FileServer, kind: str) -> None:
    """Another shape, data type, grid or fill value: nothing of the old one is used."""
    cache = zarrow.ChunkCache(BIG)
    folder = http_server.folder / "changes" / f"other-{kind}"
    values: dict[str, bytes] = {}
    store = OwnStore({})
    shapes: list[tuple[str, tuple[int, ...], tuple[int, ...], int]] = [
        ("int32", (8, 8), (4, 4), 0),
        ("float32", (8, 8), (4, 4), 0),
        ("int32", (8, 4), (4, 4), 0),
        ("int32", (8, 8), (4, 8), 0),
        ("uint32", (8, 8), (4, 4), 0),
        ("uint32", (8, 8), (4, 4), 7),
    ]
    for number, (dtype, shape, chunks, filled) in enumerate(shapes):
        shutil.rmtree(folder, ignore_errors=True)
        whole = np.arange(np.prod(shape)).reshape(shape).astype(dtype) + number
        array = zarr.create_array(
            folder, shape=shape, dtype=dtype, chunks=chunks, fill_value=filled
        )
        array[:4] = whole[:4]  # the rest is missing
        whole[4:] = filled
        values.clear()
        values.update(read_folder(folder))
        store.values = dict(values)
        stores: dict[str, Any] = {
            "path": folder,
            "http": f"{proxy.url}/changes/{folder.name}",
            "own": store,
            "dict": values,
        }
        for _ in range(2):
            got = zarrow.read_ragged(stores[kind], [...], cache=cache)
            oracle.assert_reads(got, whole, [...])
