"""What becomes of a read when a server fails: repeated, or an error that names the key."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import arrays
import numpy as np
import oracle
import pytest
import zarr
import zarrow
from arrays import Layout, Written
from remote import OwnMapping, OwnStore, read_folder
from servers.http_files import FileServer
from servers.moto import S3Server
from servers.plain_http import PlainServer
from servers.proxy import Proxy

RETRIES: dict[str, Any] = {
    "max_retries": 2,
    "retry_timeout": 10,
    "init_backoff": 0.01,
    "max_backoff": 0.05,
}
LAYOUTS = {
    # Chunks of some length, so that a body comes in several pieces.
    "chunks": Layout(dtype="int32", shape=(40, 900), chunks=(10, 300), codecs=("zstd",), seed=1),
    "shards": Layout(
        dtype="int32", shape=(40, 900), chunks=(10, 300), shards=(20, 900), codecs=("zstd",), seed=2
    ),
    "raw": Layout(dtype="int32", shape=(40, 900), chunks=(10, 300), seed=3),
    "missing": Layout(
        dtype="int32", shape=(40, 900), chunks=(10, 300), missing=0.5, fill_seed=4, seed=4
    ),
    "index-at-start": Layout(
        dtype="int32",
        shape=(40, 900),
        chunks=(10, 300),
        shards=(20, 900),
        codecs=("zstd",),
        index_at="start",
        seed=5,
    ),
    "v2": Layout(
        dtype="int32",
        shape=(40, 900),
        chunks=(10, 300),
        zarr_format=2,
        codecs=("zlib",),
        seed=6,
        attributes={"unit": "m"},
    ),
    "group-v3/a": Layout(dtype="int32", shape=(40, 900), chunks=(10, 300), seed=7),
    "group-v2/a": Layout(dtype="int32", shape=(40, 900), chunks=(10, 300), zarr_format=2, seed=8),
}
BROKEN = {"chunks": "chunks/c/1/1", "shards": "shards/c/1/0", "raw": "raw/c/1/1"}
SELECTIONS: list[Any] = [np.s_[3:33, 100:700], np.s_[12:13], ...]


def tells(error: Exception, form: str, key: str = "") -> bool:
    """Whether an error names the array, and the key in it."""
    key = key or BROKEN[form].partition("/")[2]
    return f"/{form}', key '{key}'" in str(error)


class Remote:
    """Arrays behind a proxy, by one protocol."""

    def __init__(self, proxy: Proxy, url: str, options: dict[str, Any]) -> None:
        self.proxy, self.url, self.options = proxy, url, options

    def open(self, form: str, **options: Any) -> zarrow.Array:
        """Open an array, with these options more."""
        url, options = f"{self.url}/{form}", self.options | options
        return zarrow.open_array(url, storage_options=options or None)

    def open_group(self, form: str) -> Any:
        """Open a group, patiently."""
        return zarrow.open_group(f"{self.url}/{form}", storage_options=self.options or None)


@pytest.fixture(scope="module")
def written(http_server: FileServer) -> dict[str, Written]:
    folder = http_server.folder / "faults"
    for zarr_format in (2, 3):
        zarr.create_group(folder / f"group-v{zarr_format}", zarr_format=zarr_format)  # type: ignore[arg-type]
    return {form: arrays.write(layout, folder / form) for form, layout in LAYOUTS.items()}


@pytest.fixture(scope="module")
def proxies(
    http_server: FileServer, s3_server: S3Server, written: dict[str, Written]
) -> Iterator[dict[str, Remote]]:
    s3_server.upload(written["chunks"].path.parent, "faults")
    with Proxy(http_server.url, latency=0) as files, Proxy(s3_server.url, latency=0) as s3:
        yield {
            "http": Remote(files, f"{files.url}/faults", {}),
            "s3": Remote(s3, "s3://faults", s3_server.storage_options(s3.url)),
        }


@pytest.fixture(params=["http", "s3"])
def remote(request: pytest.FixtureRequest, proxies: dict[str, Remote]) -> Remote:
    remote = proxies[request.param]
    remote.proxy.heal()
    remote.proxy.forget()
    return remote


Inject = Callable[..., None]
FAULTS: dict[str, Inject] = {
    "reset before": lambda proxy, key, **which: proxy.reset(key, **which),
    "reset within": lambda proxy, key, **which: proxy.reset(key, after=1_500, **which),
    "truncate": lambda proxy, key, **which: proxy.truncate(key, after=1_500, **which),
    "truncate at once": lambda proxy, key, **which: proxy.truncate(key, **which),
    "500": lambda proxy, key, **which: proxy.status(key, 500, **which),
    "502": lambda proxy, key, **which: proxy.status(key, 502, **which),
    "503": lambda proxy, key, **which: proxy.status(key, 503, **which),
    "429": lambda proxy, key, **which: proxy.status(key, 429, retry_after=0, **which),
}


CASES = [(fault, form) for fault in FAULTS for form in BROKEN]


@pytest.mark.parametrize(("fault", "form"), CASES)
def test_once(remote: Remote, written: dict[str, Written], fault: str, form: str) -> None:
    """What fails once is repeated, and nobody notices."""
    handle = remote.open(form, **RETRIES)
    FAULTS[fault](remote.proxy, f"{BROKEN[form]}$", count=1)
    written[form].check(zarrow.read_ragged(handle, SELECTIONS), SELECTIONS)
    assert any(each.fault != "" for each in remote.proxy.counts().log), "no fault befell"


@pytest.mark.parametrize(("fault", "form"), CASES)
def test_always(remote: Remote, written: dict[str, Written], fault: str, form: str) -> None:
    """What never works is an error that names the key; and works again when the server does."""
    handle = remote.open(form, **RETRIES)
    FAULTS[fault](remote.proxy, f"{BROKEN[form]}$")
    with pytest.raises(zarrow.StoreError) as caught:
        zarrow.read_ragged(handle, SELECTIONS)
    assert tells(caught.value, form)
    asked = remote.proxy.counts().log
    assert 2 <= sum(each.target.split("?")[0].endswith(BROKEN[form]) for each in asked) <= 20
    remote.proxy.heal()
    written[form].check(zarrow.read_ragged(handle, SELECTIONS), SELECTIONS)


@pytest.mark.parametrize("fault", FAULTS)
def test_metadata(remote: Remote, written: dict[str, Written], fault: str) -> None:
    """Opening an array is no different."""
    FAULTS[fault](remote.proxy, "chunks/zarr.json$", count=1)
    handle = remote.open("chunks", **RETRIES)
    written["chunks"].check(zarrow.read_ragged(handle, SELECTIONS), SELECTIONS)
    FAULTS[fault](remote.proxy, "chunks/zarr.json$")
    with pytest.raises(zarrow.StoreError, match="store failed") as caught:
        remote.open("chunks", **RETRIES)
    assert tells(caught.value, "chunks", "zarr.json")
    assert not isinstance(caught.value, zarrow.NotFoundError)


# Documents that a node of v3 does not have.
OTHERS = r"/\.z(array|attrs|group|metadata)$"
NEVER: dict[str, Inject] = {
    "401": lambda proxy, key: proxy.status(key, 401),
    "403": lambda proxy, key: proxy.status(key, 403),
    "429": lambda proxy, key: proxy.status(key, 429),
    "500": lambda proxy, key: proxy.status(key, 500),
    "503": lambda proxy, key: proxy.status(key, 503, retry_after=20),
    "hang": lambda proxy, key: proxy.hang(key),
    "hang within": lambda proxy, key: proxy.hang(key, after=1),
    "reset": lambda proxy, key: proxy.reset(key),
    "truncate": lambda proxy, key: proxy.truncate(key),
}


@pytest.mark.parametrize("fault", NEVER)
def test_documents_that_are_not_needed(
    remote: Remote, written: dict[str, Written], fault: str
) -> None:
    """Where there is a zarr.json, what becomes of requests for others does not matter."""
    NEVER[fault](remote.proxy, OTHERS)
    began = time.monotonic()
    handle = remote.open("chunks")
    group = remote.open_group("group-v3")
    assert group.zarr_format == 3
    member = group["a"]
    # By the defaults, it would be repeated for a minute at least.
    assert time.monotonic() - began < 5
    written["chunks"].check(zarrow.read_ragged(handle, SELECTIONS), SELECTIONS)
    written["group-v3/a"].check(zarrow.read_ragged(member, SELECTIONS), SELECTIONS)
    if remote.options:  # S3 lists what it holds
        [(name, again)] = group.items()
        assert name == "a"
        written["group-v3/a"].check(zarrow.read_ragged(again, SELECTIONS), SELECTIONS)
    remote.proxy.wait_until_idle()


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("absent", ["zarr.json", "zarr.json, .zmetadata, .zattrs"])
def test_v2_where_what_is_absent_is_forbidden(
    remote: Remote, written: dict[str, Written], status: int, absent: str
) -> None:
    """So answer buckets whose keys may be read by all, but not listed."""
    for key in absent.split(", "):
        remote.proxy.status(f"/{re.escape(key)}$", status)
    handle = remote.open("v2", **RETRIES)
    assert handle.zarr_format == 2
    assert handle.attrs == ({"unit": "m"} if absent == "zarr.json" else {})
    written["v2"].check(zarrow.read_ragged(handle, SELECTIONS), SELECTIONS)
    group = remote.open_group("group-v2")
    assert group.zarr_format == 2
    written["group-v2/a"].check(zarrow.read_ragged(group["a"], SELECTIONS), SELECTIONS)


@pytest.mark.parametrize("form", ["v2", "chunks", "nothing"])
@pytest.mark.parametrize("forbidden", ["/zarr.json$|/.zarray$", "/zarr.json$|/.z"])
def test_all_documents_are_forbidden(remote: Remote, form: str, forbidden: str) -> None:
    """An array that may not be read is not one that is not there, though its `.zattrs` is."""
    remote.proxy.status(forbidden, 403)
    with pytest.raises(zarrow.StoreError) as caught:
        remote.open(form, **RETRIES)
    assert not isinstance(caught.value, zarrow.NotFoundError), caught.value
    assert tells(caught.value, form, "zarr.json") or tells(caught.value, form, ".zarray")


def test_a_group_whose_documents_are_forbidden(remote: Remote) -> None:
    remote.proxy.status(r"/zarr.json$|/\.z", 403)
    for form in ("group-v2", "group-v3"):
        with pytest.raises(zarrow.StoreError, match=r"zarr\.json|\.z") as caught:
            remote.open_group(form)
        assert not isinstance(caught.value, zarrow.NotFoundError), caught.value


def test_slow_start(remote: Remote, written: dict[str, Written]) -> None:
    for form, key in BROKEN.items():
        remote.proxy.slow_start(f"{key}$", 0.3)
        handle = remote.open(form, **RETRIES)
        written[form].check(zarrow.read_ragged(handle, SELECTIONS), SELECTIONS)


def test_retry_after_is_heeded(remote: Remote, written: dict[str, Written]) -> None:
    """And the fewer requests that are in flight afterwards read the same."""
    remote.proxy.status("/c/", 429, retry_after=1, count=3)
    remote.proxy.status("/c/", 503, skip=5, count=3)
    handle = remote.open("chunks")
    for _ in range(3):
        written["chunks"].check(zarrow.read_ragged(handle, SELECTIONS), SELECTIONS)


@pytest.mark.parametrize("status", [400, 401, 403])
@pytest.mark.parametrize("missing", ["fill", "null", "error"])
def test_refused(remote: Remote, status: int, missing: Any) -> None:
    """A refusal is not a missing chunk, and is not repeated."""
    handle = remote.open("chunks", **RETRIES)
    remote.proxy.status(f"{BROKEN['chunks']}$", status)
    with pytest.raises(zarrow.StoreError) as caught:
        zarrow.read_ragged(handle, SELECTIONS, missing_chunks=missing)
    assert tells(caught.value, "chunks")
    statuses = [each.status for each in remote.proxy.counts().log]
    assert statuses.count(status) == 1


@pytest.mark.parametrize("remote", ["http"], indirect=True)
def test_405_is_not_a_missing_chunk(remote: Remote) -> None:
    handle = remote.open("chunks", **RETRIES)
    remote.proxy.status(f"{BROKEN['chunks']}$", 405)
    with pytest.raises(zarrow.StoreError):
        zarrow.read_ragged(handle, SELECTIONS)


@pytest.mark.parametrize("form", ["chunks", "raw", "shards"])
def test_404(remote: Remote, written: dict[str, Written], form: str) -> None:
    """The fill value, null or an error, as `missing_chunks` says."""
    handle = remote.open(form)
    remote.proxy.status(f"{BROKEN[form]}$", 404)
    filled = written[form].whole.copy()
    gone = np.s_[20:40, :] if form == "shards" else np.s_[10:20, 300:600]
    filled[gone] = 0
    oracle.assert_reads(zarrow.read_ragged(handle, SELECTIONS), filled, SELECTIONS)
    nulls = zarrow.read_ragged(handle, SELECTIONS, missing_chunks="null")
    held = np.ones(filled.shape, bool)
    held[gone] = False
    valid = [held[selection] for selection in SELECTIONS]
    expected = oracle.expect_rows(
        [oracle.take(filled, selection) for selection in SELECTIONS], "int32", 2, valid
    )
    oracle.assert_equal(nulls, expected)
    with pytest.raises(zarrow.StoreError) as caught:
        zarrow.read_ragged(handle, SELECTIONS, missing_chunks="error")
    assert tells(caught.value, form)


def test_chunks_that_are_missing(remote: Remote, written: dict[str, Written]) -> None:
    handle = remote.open("missing")
    got, stats = zarrow.read_ragged(handle, SELECTIONS, return_stats=True)
    written["missing"].check(got, SELECTIONS)
    assert stats.chunks_missing == 12 - len(written["missing"].stored)
    assert 0 < stats.chunks_missing < 12


@pytest.mark.parametrize("after", [None, 1_500])
@pytest.mark.parametrize("form", BROKEN)
def test_a_hang_and_a_timeout(
    remote: Remote, written: dict[str, Written], form: str, after: int | None
) -> None:
    """`timeout=` of the read ends it, and lets go of the connection."""
    handle = remote.open(form)
    remote.proxy.hang(f"{BROKEN[form]}$", after=after)
    with pytest.raises(zarrow.ReadTimeoutError, match="300ms"):
        zarrow.read_ragged(handle, SELECTIONS, timeout=0.3)
    remote.proxy.wait_until_idle()
    remote.proxy.heal()
    written[form].check(zarrow.read_ragged(handle, SELECTIONS, timeout=60), SELECTIONS)


@pytest.mark.parametrize("after", [None, 1_500])
def test_a_hang_and_a_timeout_of_the_client(remote: Remote, after: int | None) -> None:
    """`timeout` of the storage options is one of a request: an error of the store."""
    options = RETRIES | {"timeout": "0.3s", "max_retries": 1}
    handle = remote.open("chunks", **options)
    remote.proxy.hang(f"{BROKEN['chunks']}$", after=after)
    with pytest.raises(zarrow.StoreError) as caught:
        zarrow.read_ragged(handle, SELECTIONS)
    assert tells(caught.value, "chunks")
    assert not isinstance(caught.value, zarrow.ReadTimeoutError)
    remote.proxy.wait_until_idle()


def test_a_hang_once(remote: Remote, written: dict[str, Written]) -> None:
    handle = remote.open("chunks", **(RETRIES | {"timeout": "0.5s"}))
    remote.proxy.hang(f"{BROKEN['chunks']}$", count=1)
    written["chunks"].check(zarrow.read_ragged(handle, SELECTIONS), SELECTIONS)


@pytest.mark.parametrize("after", [None, 100])
def test_opening_hangs(remote: Remote, after: int | None) -> None:
    remote.proxy.hang("zarr.json$", after=after)
    with pytest.raises(zarrow.StoreError, match=r"zarr\.json"):
        remote.open("chunks", **(RETRIES | {"timeout": "0.3s", "max_retries": 1}))
    remote.proxy.wait_until_idle()


@pytest.mark.parametrize("remote", ["http"], indirect=True)
def test_a_timeout_includes_opening(remote: Remote) -> None:
    remote.proxy.hang("zarr.json$")
    options = remote.options | RETRIES | {"timeout": "3s", "max_retries": 0}
    for read in (zarrow.read_ragged, zarrow.plan):
        began = time.monotonic()
        with pytest.raises(zarrow.ReadTimeoutError):
            read(f"{remote.url}/chunks", SELECTIONS, timeout=0.3, storage_options=options)
        assert time.monotonic() - began < 2


def test_nobody_is_there() -> None:
    for url, more in (("http://127.0.0.1:9/a", {}), ("s3://a/b", {"skip_signature": True})):
        options = RETRIES | more
        if url.startswith("s3"):
            options |= {"aws_endpoint": "http://127.0.0.1:9", "allow_http": True}
        with pytest.raises(zarrow.StoreError, match=r"zarr\.json|zarray") as caught:
            zarrow.open_array(url, storage_options=options)
        assert not isinstance(caught.value, zarrow.NotFoundError)


# ---- servers without ranges, and stores that lie -------------------------------------------------


@pytest.fixture
def serve(written: dict[str, Written]) -> Iterator[Callable[..., PlainServer]]:
    """Start servers, given what they know."""
    servers = []

    def start(folder: Path | None = None, **knows: Any) -> PlainServer:
        servers.append(PlainServer(folder or written["chunks"].path.parent, **knows))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.mark.parametrize("form", ["chunks", "missing", "raw"])
def test_whole_chunks_without_ranges(
    serve: Callable[..., PlainServer], written: dict[str, Written], form: str
) -> None:
    written[form].check(zarrow.read_ragged(f"{serve().url}/{form}", [...]), [...])


def test_long_raw_chunks_without_ranges(serve: Callable[..., PlainServer], tmp_path: Path) -> None:
    """What is wanted whole is asked for whole; else the error says what the server lacks."""
    data = np.arange(80_000, dtype="<i4")
    zarr.create_array(tmp_path / "long", data=data, chunks=(20_000,), compressors=None)
    handle = zarrow.open_array(f"{serve(tmp_path).url}/long")
    for whole in (..., np.s_[20_000:60_000]):
        oracle.assert_reads(zarrow.read_ragged(handle, [whole]), data, [whole])
    with pytest.raises(zarrow.StoreError, match="Range request not supported"):
        zarrow.read_ragged(handle, [np.s_[5:9]])


def test_ranges_of_few_words(
    serve: Callable[..., PlainServer], written: dict[str, Written]
) -> None:
    """A server that knows ranges but no ETags nor times."""
    url = serve(ranges=True).url
    for form in BROKEN:
        written[form].check(zarrow.read_ragged(f"{url}/{form}", SELECTIONS), SELECTIONS)


@pytest.mark.parametrize("form", BROKEN)
@pytest.mark.parametrize("knows", ["etags", "times", "ranges"])
def test_a_body_that_ends_early(
    serve: Callable[..., PlainServer], written: dict[str, Written], form: str, knows: str
) -> None:
    """With an ETag the rest is asked for, without all of it."""
    server = serve(**{"ranges": True, knows: True}, cuts=1)
    handle = zarrow.open_array(f"{server.url}/{form}", storage_options=RETRIES)
    for concurrency in (1, None):
        got = zarrow.read_ragged(handle, SELECTIONS, concurrency=concurrency)
        written[form].check(got, SELECTIONS)


@pytest.mark.parametrize("form", BROKEN)
@pytest.mark.parametrize("etags", [True, False])
def test_bodies_that_all_end_early(
    serve: Callable[..., PlainServer], form: str, etags: bool
) -> None:
    """It is not tried for ever."""
    server = serve(ranges=True, etags=etags)
    handle = zarrow.open_array(f"{server.url}/{form}", storage_options=RETRIES)
    server.cuts = 10**6
    with pytest.raises(zarrow.StoreError) as caught:
        zarrow.read_ragged(handle, SELECTIONS, concurrency=1)
    assert f"/{form}', key 'c/" in str(caught.value)
    # The first request, and two repetitions.
    assert 10**6 - server.cuts == 3


@pytest.mark.parametrize(
    "heads",
    [
        True,
        False,
    ],
)
def test_shards_without_ranges(serve: Callable[..., PlainServer], heads: bool) -> None:
    with pytest.raises(zarrow.ZarrowError, match="Range request not supported") as caught:
        zarrow.read_ragged(f"{serve(heads=heads).url}/shards", SELECTIONS, storage_options=RETRIES)
    assert "/shards', key 'c/" in str(caught.value)


@pytest.mark.parametrize("etags", [True, False])
def test_a_value_that_changes_while_it_is_repeated(
    serve: Callable[..., PlainServer], written: dict[str, Written], tmp_path: Path, etags: bool
) -> None:
    """Half of the old and half of the new is neither."""
    shutil.copytree(written["raw"].path, tmp_path / "raw")
    server = serve(folder=tmp_path, ranges=True, etags=etags, cuts=1)
    handle = zarrow.open_array(f"{server.url}/raw", storage_options=RETRIES)
    file = tmp_path / "raw" / "c" / "1" / "1"
    old, new = written["raw"].whole[10:20, 300:600], np.full((10, 300), 7, "int32")
    new_bytes = new.tobytes()
    server.after_cut = lambda: file.write_bytes(new_bytes)
    asked = [np.s_[10:20, 300:600]]
    try:
        got = zarrow.read_ragged(handle, asked)
    except zarrow.StoreError as error:
        assert "key 'c/1/1'" in str(error)
    else:
        assert oracle.values_bytes(got) in (old.tobytes(), new_bytes)
    oracle.assert_reads(zarrow.read_ragged(handle, asked), new, [...])


DAMAGES = [(form, damage) for form in BROKEN for damage in ("shorter", "empty", "garbage")]
DAMAGES.remove(("raw", "garbage"))  # any bytes are numbers


@pytest.mark.parametrize("make", [dict, OwnMapping, OwnStore])
@pytest.mark.parametrize(("form", "change"), DAMAGES)
def test_values_that_are_damaged(
    written: dict[str, Written], make: Callable[[Any], Any], form: str, change: str
) -> None:
    values = read_folder(written[form].path)
    key = BROKEN[form].partition("/")[2]
    good = values[key]
    garbage = np.random.default_rng(1).bytes(len(good))
    values[key] = {"shorter": good[: len(good) // 2], "empty": b"", "garbage": garbage}[change]
    with pytest.raises(zarrow.ZarrowError) as caught:
        zarrow.read_ragged(make(values), SELECTIONS)
    assert key in str(caught.value)


def test_a_store_without_chunks(written: dict[str, Written]) -> None:
    """All chunks missing is no error, unless that is asked for."""
    handle = zarrow.open_array({"zarr.json": (written["raw"].path / "zarr.json").read_bytes()})
    oracle.assert_reads(
        zarrow.read_ragged(handle, SELECTIONS), np.zeros((40, 900), "int32"), SELECTIONS
    )
    with pytest.raises(zarrow.StoreError, match="c/"):
        zarrow.read_ragged(handle, SELECTIONS, missing_chunks="error")


def test_a_shard_that_is_written_between_two_requests(
    serve: Callable[..., PlainServer], written: dict[str, Written], tmp_path: Path
) -> None:
    """The index of one writing says nothing of the other."""
    shutil.copytree(written["shards"].path, tmp_path / "shards")
    server = serve(folder=tmp_path, ranges=True, etags=True)
    handle = zarrow.open_array(f"{server.url}/shards", storage_options=RETRIES)
    file = tmp_path / "shards" / "c" / "1" / "0"

    def write_anew(path: str) -> None:
        if path.endswith("/c/1/0"):
            os.utime(file, ns=(time.time_ns(), time.time_ns()))

    server.before_answer = write_anew
    with pytest.raises(zarrow.StoreError, match=r"key 'c/1/0'.*changed while it was read"):
        zarrow.read_ragged(handle, SELECTIONS)
    server.before_answer = lambda _: None
    written["shards"].check(zarrow.read_ragged(handle, SELECTIONS), SELECTIONS)


GONE = "c/1/0"
# Ranges that are not those of the index.
VANISHING = {"shards": r"bytes=\d", "index-at-start": "bytes=[1-9]"}


@pytest.mark.parametrize("missing", ["fill", "null", "error"])
@pytest.mark.parametrize("form", VANISHING)
@pytest.mark.parametrize("recheck", [None, True, False])
def test_a_shard_that_vanishes_after_its_index(
    remote: Remote, written: dict[str, Written], recheck: bool | None, form: str, missing: Any
) -> None:
    """It is no missing chunk, for there was one, and is not kept as one by a cache."""
    cache = None if recheck is None else zarrow.ChunkCache(1 << 24, recheck=recheck)
    handle = remote.open(form, **RETRIES)
    remote.proxy.status(f"/{form}/{GONE}$", 404, range=VANISHING[form])
    for asked in (SELECTIONS, [np.s_[20:21, :5]]):
        with pytest.raises(zarrow.StoreError) as caught:
            zarrow.read_ragged(handle, asked, missing_chunks=missing, cache=cache)
        assert tells(caught.value, form, GONE), caught.value
    remote.proxy.heal()
    for _ in range(2):
        got = zarrow.read_ragged(handle, SELECTIONS, missing_chunks=missing, cache=cache)
        written[form].check(got, SELECTIONS)


class VanishingStore(OwnStore):
    """A store of which a shard is there only to those who ask for its index."""

    is_gone = True

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        value = await super().get(key, prototype, byte_range)
        is_index = sum(asked == key for asked, _ in self.asked.keys) == 1
        return None if self.is_gone and key == GONE and not is_index else value


class VanishingMapping(OwnMapping):
    """The same of a mapping."""

    is_gone = True

    def __getitem__(self, key: str) -> bytes:
        value = super().__getitem__(key)
        if self.is_gone and key == GONE and sum(asked == key for asked, _ in self.asked.keys) > 1:
            raise KeyError(key)
        return value


@pytest.mark.parametrize("missing", ["fill", "null", "error"])
@pytest.mark.parametrize("form", VANISHING)
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("make", [VanishingStore, VanishingMapping])
def test_a_shard_that_vanishes_from_a_store_of_python(
    written: dict[str, Written], make: Any, cached: bool, form: str, missing: Any
) -> None:
    cache = zarrow.ChunkCache(1 << 24) if cached else None
    store = make(read_folder(written[form].path))
    handle = zarrow.open_array(store)
    with pytest.raises(zarrow.StoreError, match=f"key '{GONE}'"):
        zarrow.read_ragged(handle, SELECTIONS, missing_chunks=missing, cache=cache)
    store.is_gone = False
    for _ in range(2):
        got = zarrow.read_ragged(handle, SELECTIONS, missing_chunks=missing, cache=cache)
        written[form].check(got, SELECTIONS)


class Panic(BaseException):
    """What a store written in another language may raise."""


# By an exit or an interrupt, the event loop that asks the store would end, too.
ENDS: list[tuple[Any, type[BaseException]]] = [
    *((OwnStore, raised) for raised in (Panic, GeneratorExit, ValueError)),
    *((OwnMapping, raised) for raised in (Panic, GeneratorExit, SystemExit, KeyboardInterrupt)),
]


@pytest.mark.parametrize(("make", "raised"), ENDS)
def test_whatever_a_store_raises_ends_the_read(
    written: dict[str, Written], make: Any, raised: type[BaseException]
) -> None:
    """Nobody waits for an answer that never comes."""
    values = read_folder(written["chunks"].path)

    class Broken(make):  # type: ignore[misc]
        def __getitem__(self, key: str) -> Any:
            if "c/" in key:
                raise raised("broken")
            return super().__getitem__(key)

        async def get(self, key: str, *args: Any) -> Any:
            if "c/" in key:
                raise raised("broken")
            return await super().get(key, *args)

    handle = zarrow.open_array(Broken(values))
    with pytest.raises(zarrow.StoreError, match=f"{raised.__name__}: broken"):
        zarrow.read_ragged(handle, SELECTIONS, timeout=20)


@pytest.mark.parametrize("value", [7, "text", object()])
def test_values_that_are_no_bytes(written: dict[str, Written], value: Any) -> None:
    values: dict[str, Any] = dict(read_folder(written["raw"].path))
    values["c/1/1"] = value
    for make in (dict, OwnMapping):
        with pytest.raises(zarrow.StoreError, match=r"c/1/1.*TypeError"):
            zarrow.read_ragged(make(values), SELECTIONS, timeout=20)
