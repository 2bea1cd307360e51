"""What a store is asked: each key once, no more than is needed, many at once, few threads."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import arrays
import numpy as np
import oracle
import pytest
import zarr
import zarrow
from arrays import Layout, Written, write_values
from remote import LazyDict, OwnMapping, OwnStore, fill, is_metadata, read_folder, store_of
from servers.http_files import FileServer
from servers.moto import S3Server
from servers.proxy import Counts, Proxy
from zarr.storage import MemoryStore, WrapperStore

_GRID: dict[str, Any] = {"dtype": "int32", "shape": (60, 40), "chunks": (5, 8), "codecs": ("zstd",)}
LAYOUTS = {
    "v3": Layout(**_GRID, seed=1),
    "v2": Layout(**_GRID | {"codecs": ("zlib",)}, zarr_format=2, seed=2),
    "missing": Layout(**_GRID, missing=0.4, fill_seed=2, seed=3),
    "shards": Layout(**_GRID, shards=(20, 16), seed=4),
    "index-at-start": Layout(**_GRID, shards=(20, 16), index_at="start", seed=5),
    # 400 chunks of 40 bytes; a shard whose subchunks have gaps between those that are asked for.
    "many": Layout(dtype="int32", shape=(400, 10), chunks=(1, 10), seed=6),
    "row": Layout(dtype="uint8", shape=(64 * 512,), chunks=(512,), shards=(64 * 512,), seed=7),
}
OVERLAPPING: list[Any] = [np.s_[i : i + 9, i % 7 : i % 7 + 20] for i in range(0, 50, 3)] * 2
INDEX = re.compile(r"bytes=-\d+$")


@pytest.fixture(scope="module")
def written(http_server: FileServer) -> dict[str, Written]:
    folder = http_server.folder / "requests"
    return {name: arrays.write(layout, folder / name) for name, layout in LAYOUTS.items()}


def url(proxy: Proxy, name: str) -> str:
    return f"{proxy.url}/requests/{name}"


def keys(counts: Counts, name: str, *, metadata: bool = False) -> list[str]:
    """The keys of an array that were asked for, in order."""
    start = f"/requests/{name}/"
    found = [
        each.target.removeprefix(start) for each in counts.log if each.target.startswith(start)
    ]
    return [key for key in found if is_metadata(key) == metadata]


@pytest.mark.parametrize("name", ["v3", "v2", "missing"])
def test_each_chunk_is_asked_for_once(proxy: Proxy, written: dict[str, Written], name: str) -> None:
    """However many selections touch it, and whether there is one or not."""
    handle = zarrow.open_array(url(proxy, name))
    proxy.forget()
    got, stats = zarrow.read_ragged(handle, OVERLAPPING, return_stats=True)
    written[name].check(got, OVERLAPPING)
    counts = proxy.counts()
    asked = keys(counts, name)
    assert len(asked) == len(set(asked)) == stats.requests - (name == "missing")
    # Where a chunk is missing, whether the array is there at all.
    assert keys(counts, name, metadata=True) == (["zarr.json"] if name == "missing" else [])
    assert len(asked) == stats.chunks_decoded + stats.chunks_missing
    assert counts.method("GET") == counts.requests
    assert stats.max_in_flight == counts.most_in_flight or stats.max_in_flight > 1
    assert all(each.range is None for each in counts.log)


@pytest.mark.usefixtures("written")
def test_all_requests_are_counted(proxy: Proxy) -> None:
    handle = zarrow.open_array(url(proxy, "missing"))
    proxy.forget()
    _, stats = zarrow.read_ragged(handle, OVERLAPPING, return_stats=True)
    assert stats.requests == proxy.counts().requests


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("name", LAYOUTS)
def test_no_request_is_a_head(proxy: Proxy, name: str) -> None:
    zarrow.read_ragged(url(proxy, name), [...])
    counts = proxy.counts()
    assert counts.method("HEAD") == 0
    assert counts.method("GET") == counts.requests > 1


@pytest.mark.parametrize("name", ["shards", "index-at-start"])
def test_an_index_is_asked_for_once(proxy: Proxy, written: dict[str, Written], name: str) -> None:
    """By its range: from the end, where it is at the end."""
    handle = zarrow.open_array(url(proxy, name))
    proxy.forget()
    got, stats = zarrow.read_ragged(handle, OVERLAPPING, return_stats=True)
    written[name].check(got, OVERLAPPING)
    counts = proxy.counts()
    asked = keys(counts, name)
    size = 8 * 16 + 4
    index = f"bytes=-{size}" if name == "shards" else f"bytes=0-{size - 1}"
    for key in set(asked):
        ranges = counts.path(f"/requests/{name}/{key}").ranges
        assert ranges.count(index) == 1
        assert ranges[0] == index
        assert len(ranges) == asked.count(key), "a request without a range"
        # Every byte of a shard once, at most.
        spans = sorted(
            tuple(map(int, each.removeprefix("bytes=").split("-"))) for each in ranges[1:]
        )
        assert all(one[1] < other[0] for one, other in itertools.pairwise(spans))
    assert stats.requests == counts.requests
    assert stats.bytes_fetched <= counts.bytes


def test_neighbours_come_together(proxy: Proxy, written: dict[str, Written]) -> None:
    """Subchunks one after the other are one request; so are those with a gap, unless forbidden."""
    handle = zarrow.open_array(url(proxy, "row"))

    def ranges(selections: list[Any], **how: Any) -> list[str]:
        proxy.forget()
        got = zarrow.read_ragged(handle, selections, **how)
        written["row"].check(got, selections)
        counts = proxy.counts()
        found = [each.range for each in counts.log]
        assert all(each is not None for each in found)
        return [str(each) for each in found if not INDEX.search(str(each))]

    near: list[Any] = [np.s_[512 * i : 512 * i + 512] for i in range(10, 20)]
    apart: list[Any] = [np.s_[512 * i : 512 * i + 512] for i in range(0, 64, 2)]
    assert ranges(near, max_gap=0) == [f"bytes={5120}-{10239}"]
    assert ranges(near) == [f"bytes={5120}-{10239}"]
    assert len(ranges(apart, max_gap=0)) == 32
    assert len(ranges(apart, max_gap=511)) == 32
    assert ranges(apart, max_gap=512) == [f"bytes=0-{512 * 63 - 1}"]
    assert ranges(apart) == [f"bytes=0-{512 * 63 - 1}"]


@pytest.mark.parametrize("limit", [1, 3, 40, 300])
def test_concurrency_is_obeyed(proxy: Proxy, written: dict[str, Written], limit: int) -> None:
    handle = zarrow.open_array(url(proxy, "many"))
    proxy.configure(latency=0.002 if limit < 10 else 0.1)
    proxy.forget()
    rows = 60 if limit == 1 else 400
    got, stats = zarrow.read_ragged(handle, [np.s_[:rows]], concurrency=limit, return_stats=True)
    written["many"].check(got, [np.s_[:rows]])
    most = proxy.counts().most_in_flight
    assert most <= limit
    assert most >= min(limit, 30) or limit == 300
    assert stats.max_in_flight <= limit
    assert limit != 300 or most > 100


def test_many_are_in_flight_by_default(proxy: Proxy, written: dict[str, Written]) -> None:
    proxy.configure(latency=0.03)
    handle = zarrow.open_array(url(proxy, "many"))
    proxy.forget()
    got, stats = zarrow.read_ragged(handle, [np.s_[:300]], return_stats=True, threads=1)
    written["many"].check(got, [np.s_[:300]])
    counts = proxy.counts()
    assert counts.requests == stats.requests == 300
    assert counts.most_in_flight >= 64
    assert stats.max_in_flight >= 64


def in_flight_after(proxy: Proxy, *, is_pushed_back: bool) -> int:
    """The most requests in flight of the second read of an array, of 80 chunks."""
    # Metadata that is known takes no request: while nobody knows how far away the server is, no
    # more than 64 are sent before the first answer.
    options = {"init_backoff": 0.01, "max_backoff": 0.02}
    handle: Any = zarrow.open_group(f"{proxy.url}/requests-group", storage_options=options)["many"]
    proxy.forget()
    if is_pushed_back:
        proxy.status("/c/", 503, count=64)
        proxy.status("/c/", 429, retry_after=0, skip=64, count=1)
        for begin in range(70, 300, 10):
            proxy.status("/c/", 503, skip=begin, count=2)
    zarrow.read_ragged(handle, [np.s_[:300]])
    statuses = Counter(each.status for each in proxy.counts().log)
    assert statuses[200] == 300
    assert statuses[429] == (1 if is_pushed_back else 0)
    assert (statuses[503] >= 64) == is_pushed_back
    proxy.heal()
    # Of a server that is seen to be near, waiting for it gives no reason to send more.
    proxy.status("/c/399/", 404)
    for _ in range(30):
        zarrow.read_ragged(handle, [np.s_[399:]], concurrency=1)
    _, stats = zarrow.read_ragged(handle, [np.s_[300:380]], return_stats=True)
    return int(stats.max_in_flight)


def test_pushbacks_leave_fewer_in_flight(
    http_server: FileServer, make_proxy: Callable[..., Proxy]
) -> None:
    """503 and 429: the next read begins with fewer than the 64 that it begins with else."""
    folder = http_server.folder / "requests-group"
    arrays.write(LAYOUTS["many"], folder / "many")
    consolidated = {
        "kind": "inline",
        "must_understand": False,
        "metadata": {"many": json.loads((folder / "many" / "zarr.json").read_text())},
    }
    group = {"zarr_format": 3, "node_type": "group", "consolidated_metadata": consolidated}
    (folder / "zarr.json").write_text(json.dumps(group))
    # Another proxy is another server, of which nothing is known.
    assert in_flight_after(make_proxy(http_server.url, latency=0), is_pushed_back=False) >= 64
    attempts: list[int] = []
    # Where the machine is busy, the server may seem to be far away: then more are sent again.
    while len(attempts) < 3 and not (attempts and attempts[-1] < 64):
        proxy = make_proxy(http_server.url, latency=0)
        attempts.append(in_flight_after(proxy, is_pushed_back=True))
    assert attempts[-1] < 64, attempts


# ---- metadata ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("name", ["v3", "v2"])
def test_metadata_takes_one_round_trip(proxy: Proxy, name: str) -> None:
    proxy.configure(latency=0.3)
    handle = zarrow.open_array(url(proxy, name))
    counts = proxy.counts()
    asked = keys(counts, name, metadata=True)
    assert sorted(asked) == sorted(set(asked))
    assert set(asked) <= {"zarr.json", ".zarray", ".zattrs"}
    assert counts.most_in_flight == counts.requests == len(asked)
    proxy.configure(latency=0)
    proxy.forget()
    zarrow.read_ragged(handle, [np.s_[:1, :1]])
    assert keys(proxy.counts(), name, metadata=True) == []


@pytest.mark.parametrize("name", ["v3", "v2", "shards"])
def test_an_array_of_zarr_python_hands_over_its_metadata(
    proxy: Proxy, written: dict[str, Written], name: str
) -> None:
    obstore = pytest.importorskip("obstore.store", reason="needs obstore from PyPI")
    options: Any = {"allow_http": True}
    store = obstore.HTTPStore.from_url(url(proxy, name), client_options=options)
    own = OwnStore(read_folder(written[name].path))
    array = zarr.open_array(zarr.storage.ObjectStore(store, read_only=True), mode="r")
    other = zarr.open_array(own, mode="r")
    proxy.forget()
    own.asked.forget()
    written[name].check(zarrow.read_ragged(array, OVERLAPPING), OVERLAPPING)
    written[name].check(zarrow.read_ragged(other, OVERLAPPING), OVERLAPPING)
    assert keys(proxy.counts(), name, metadata=True) == []
    assert len(own.asked.chunks()) == len(own.asked.keys) > 0


@pytest.mark.usefixtures("written")
def test_metadata_of_a_list_of_urls(proxy: Proxy) -> None:
    """An array that is given twice has its chunks read once."""
    urls = [url(proxy, "v3")] * 2 + [url(proxy, "v2")]
    zarrow.read_ragged(urls, [...] * 3, sources=[0, 1, 2])
    for name in ("v3", "v2"):
        asked = keys(proxy.counts(), name)
        assert len(asked) == len(set(asked)) == 60


# ---- s3 ------------------------------------------------------------------------------------------


def test_s3(s3_server: S3Server, make_proxy: Callable[..., Proxy], tmp_path: Path) -> None:
    """The same of another protocol: each key once, no HEAD, no listing."""
    written = arrays.write(LAYOUTS["shards"], tmp_path / "a")
    s3_server.upload(tmp_path, "requests")
    proxy = make_proxy(s3_server.url, latency=0)
    options = s3_server.storage_options(proxy.url)
    handle = zarrow.open_array("s3://requests/a", storage_options=options)
    opening = proxy.counts()
    assert opening.method("GET") == opening.requests <= 3
    proxy.forget()
    written.check(zarrow.read_ragged(handle, OVERLAPPING), OVERLAPPING)
    counts = proxy.counts()
    assert counts.method("GET") == counts.requests
    assert not any("list-type" in each.target for each in counts.log)
    for path in counts.paths.values():
        assert len(path.ranges) == path.requests
        assert path.ranges.count(f"bytes=-{8 * 16 + 4}") == 1


# ---- stores that Python asks ---------------------------------------------------------------------

MAKE: dict[str, Callable[[dict[str, bytes]], Any]] = {
    "own": lambda values: OwnStore(values, 0.03),
    "wrapped": lambda values: WrapperStore(OwnStore(values, 0.03)),
    "mapping": lambda values: OwnMapping(values, 0.03),
    "lazy dict": lambda values: LazyDict(values, 0.03),
}


def asked_of(store: Any) -> Any:
    return store._store.asked if isinstance(store, WrapperStore) else store.asked


@pytest.mark.parametrize("kind", MAKE)
def test_python_stores_are_asked_at_once(written: dict[str, Written], kind: str) -> None:
    """Many keys in flight, each once; threads are few, and at most 32 more for a mapping."""
    store = MAKE[kind](read_folder(written["many"].path))
    handle = zarrow.open_array(store)
    asked = asked_of(store)
    zarrow.read_ragged(handle, [np.s_[:1]])
    asked.forget()
    before = threading.active_count()
    got, stats = zarrow.read_ragged(handle, [np.s_[:300]], return_stats=True)
    written["many"].check(got, [np.s_[:300]])
    assert sorted(asked.keys) == sorted((f"c/{i}/0", "all") for i in range(300))
    assert stats.requests == 300
    if isinstance(store, Mapping):
        assert 16 <= asked.most <= 32
        assert asked.most_threads <= before + 32
    else:
        assert asked.most >= 64
        assert asked.most_threads <= before + 4
    assert asked.in_flight == 0


@pytest.mark.parametrize("kind", ["own", "wrapped"])
def test_python_stores_are_asked_for_ranges(written: dict[str, Written], kind: str) -> None:
    store = MAKE[kind](read_folder(written["shards"].path))
    handle = zarrow.open_array(store)
    asked = asked_of(store)
    asked.forget()
    got, stats = zarrow.read_ragged(handle, OVERLAPPING, return_stats=True)
    written["shards"].check(got, OVERLAPPING)
    shards = {key for key, _ in asked.keys}
    assert {key for key, part in asked.keys if part == "suffix"} == shards
    assert [part for _, part in asked.keys].count("suffix") == len(shards)
    assert {part for _, part in asked.keys} == {"suffix", "range"}
    assert len(asked.keys) == stats.requests


def test_a_dict_that_makes_up_what_it_lacks(written: dict[str, Written]) -> None:
    """`__missing__` of a class that inherits from dict is asked, for many keys at once."""
    behind = OwnMapping(read_folder(written["many"].path), 0.03)

    class Loading(dict[str, bytes]):
        def __missing__(self, key: str) -> bytes:
            return behind[key]

    handle = zarrow.open_array(Loading())
    behind.asked.forget()
    written["many"].check(zarrow.read_ragged(handle, [np.s_[:100]]), [np.s_[:100]])
    assert sorted(behind.asked.keys) == sorted((f"c/{i}/0", "all") for i in range(100))
    assert 2 < behind.asked.most <= 32


@pytest.mark.parametrize("limit", [1, 7])
@pytest.mark.parametrize("kind", MAKE)
def test_concurrency_of_python_stores(written: dict[str, Written], kind: str, limit: int) -> None:
    store = MAKE[kind](read_folder(written["v3"].path))
    handle = zarrow.open_array(store)
    asked = asked_of(store)
    asked.forget()
    selections = [np.s_[:20]]
    got = zarrow.read_ragged(handle, selections, concurrency=limit)
    written["v3"].check(got, selections)
    assert asked.most == limit


def windows(kind: str) -> list[Any]:
    """Rows of an array of two chunks of 1 MiB, most of them in the first."""
    random = np.random.default_rng(1)
    if kind == "the same few":
        return [slice(i % 5 * 20_000, i % 5 * 20_000 + 1) for i in range(300)]
    if kind == "backwards":
        return [slice(i * 9_000, i * 9_000 + 40) for i in reversed(range(110))]
    # Wide and narrow, twice, within each other, one after the other, and in any order.
    starts = random.integers(400_000, 440_000, 300)
    near = [slice(int(at), int(at) + int(random.integers(0, 300))) for at in starts]
    starts = random.integers(0, 2 << 20, 60)
    far = [slice(int(at), int(at) + int(random.integers(1, 3_000))) for at in starts]
    across = [np.s_[1_048_570:1_048_590], np.s_[1_048_500:1_048_576], np.s_[1_048_576:1_048_577]]
    strided = [np.s_[410_000:430_000:777], np.s_[425_000:405_000:-1_001], np.s_[::50_021]]
    listed = [[420_000, 7, 419_999, 420_000, 2_000_000]]
    chosen = {"hot": near, "mixed": [*near, *far, *near[:50], *across, *strided, *listed]}[kind]
    return [chosen[at] for at in random.permutation(len(chosen))]


@pytest.mark.parametrize("store", ["path", "http", "dict", "MemoryStore", "own", "mapping"])
@pytest.mark.parametrize("shards", [None, (2 << 20,)])
@pytest.mark.parametrize("kind", ["the same few", "backwards", "hot", "mixed"])
def test_small_windows_of_long_raw_chunks(
    proxy: Proxy, http_server: FileServer, kind: str, shards: tuple[int] | None, store: str
) -> None:
    """Of ranges of a chunk that come together, each window is cut out where it is."""
    name = "windows-in-a-shard" if shards else "windows"
    folder = http_server.folder / name
    values = np.random.default_rng(2).integers(0, 256, 2 << 20, dtype="u1")
    if not folder.exists():
        write_values(folder, values, (1 << 20,), shards=shards)
    handle = zarrow.open_array(store_of(store, folder, f"{proxy.url}/{name}"))
    selections = windows(kind)
    for options in ({}, {"max_gap": 0}, {"max_gap": 30_000}, {"cache": zarrow.ChunkCache(1 << 24)}):
        how: Any = options
        oracle.assert_reads(zarrow.read_ragged(handle, selections, **how), values, selections)


def test_stores_in_memory_count_their_requests(written: dict[str, Written]) -> None:
    values = read_folder(written["v3"].path)
    for store in (values, fill(MemoryStore(), values)):
        _, stats = zarrow.read_ragged(store, OVERLAPPING, return_stats=True)
        assert stats.requests == stats.chunks_fetched > 0
    _, stats = zarrow.read_ragged(written["v3"].path, OVERLAPPING, return_stats=True)
    assert (stats.requests, stats.max_in_flight) == (0, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("concurrency", 0), ("concurrency", -1), ("max_gap", -1), ("timeout", 0), ("timeout", -1.0)],
)
def test_options_out_of_the_question(written: dict[str, Written], name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        zarrow.read_ragged(written["v3"].path, [...], **{name: value})


@pytest.mark.parametrize("name", ["concurrency", "max_gap", "timeout", "progress", "cache"])
def test_options_of_a_wrong_type(written: dict[str, Written], name: str) -> None:
    wrong: Any = {name: "many"}
    with pytest.raises(TypeError, match=name):
        zarrow.read_ragged(written["v3"].path, [...], **wrong)
