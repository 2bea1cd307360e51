"""Groups in stores of every kind: what is in them, and what that costs."""

from __future__ import annotations

import asyncio
import json
import signal
import time
import warnings
import zipfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
import zarr
import zarrow
from remote import OwnMapping, OwnStore, fill, is_metadata, read_folder
from servers.http_files import FileServer
from servers.moto import S3Server
from servers.proxy import Counts, Proxy
from zarr.storage import LocalStore, MemoryStore, WrapperStore, ZipStore

obstore = pytest.importorskip("obstore", reason="needs obstore from PyPI")

HTTP: Any = {"allow_http": True}
ODD = "b é+%20#&"
ARRAYS = {
    "top": np.arange(12, dtype="int32").reshape(3, 4),
    "a/one": np.linspace(0, 1, 10),
    "a/two": np.arange(6, dtype="uint8"),
    f"a/deep/{ODD}/three": np.arange(30, dtype="int64").reshape(5, 6),
}
GROUPS = {"": {"site": 7, "ü": ["é"]}, "a": {"of": "a"}, "a/deep": {}, f"a/deep/{ODD}": {"x": 1},
          "empty": {}}  # fmt: skip
KINDS = ["v2", "v3", "v2-consolidated", "v3-consolidated"]


def write(folder: Path, zarr_format: Any, *, consolidated: bool) -> None:
    """Write a tree of groups and arrays."""
    for path, attributes in GROUPS.items():
        group = zarr.create_group(folder / path, zarr_format=zarr_format)
        group.attrs.update(attributes)
    for path, values in ARRAYS.items():
        zarr.create_array(
            folder / path, data=values, chunks=(2,) * values.ndim, zarr_format=zarr_format,
            attributes={"path": path},
        )  # fmt: skip
    if consolidated:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the specification of v3 does not have it yet
            zarr.consolidate_metadata(folder, zarr_format=zarr_format)
    # What is neither an array nor a group.
    (folder / "notes").mkdir()
    (folder / "notes" / "readme.txt").write_text("nothing")


@dataclass(frozen=True)
class Places:
    """The same groups in many places."""

    folder: Path
    http: FileServer
    s3: S3Server
    work: Path


@pytest.fixture(scope="module")
def places(
    http_server: FileServer, s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Places:
    folder, work = http_server.folder / "groups", tmp_path_factory.mktemp("groups")
    for kind in KINDS:
        write(folder / kind, int(kind[1]), consolidated="consolidated" in kind)
        with zipfile.ZipFile(work / f"{kind}.zip", "w") as archive:
            for key, value in read_folder(folder / kind).items():
                archive.writestr(key, value)
    s3_server.upload(folder, "groups")
    return Places(folder, http_server, s3_server, work)


def values(places: Places, kind: str) -> dict[str, bytes]:
    return read_folder(places.folder / kind)


def s3_store(places: Places, kind: str) -> Any:
    options: Any = places.s3.storage_options(anonymous=True)
    del options["aws_allow_http"]
    return obstore.store.S3Store("groups", prefix=kind, client_options=HTTP, **options)


def obstore_memory(places: Places, kind: str) -> Any:
    store = obstore.store.MemoryStore()
    for key, value in values(places, kind).items():
        store.put(key, value)
    return store


Opener = Callable[[Places, str], Any]
STORES: dict[str, Opener] = {
    "folder": lambda p, kind: p.folder / kind,
    "str": lambda p, kind: str(p.folder / kind),
    "file URL": lambda p, kind: (p.folder / kind).as_uri(),
    "zip": lambda p, kind: p.work / f"{kind}.zip",
    "s3": lambda _, kind: f"s3://groups/{kind}",
    "S3Store": s3_store,
    "obstore LocalStore": lambda p, kind: obstore.store.LocalStore(p.folder / kind),
    "obstore MemoryStore": obstore_memory,
    "dict": values,
    "mapping": lambda p, kind: OwnMapping(values(p, kind)),
    "LocalStore": lambda p, kind: LocalStore(p.folder / kind, read_only=True),
    "MemoryStore": lambda p, kind: fill(MemoryStore(), values(p, kind)),
    "ZipStore": lambda p, kind: ZipStore(p.work / f"{kind}.zip", mode="r"),
    "ObjectStore": lambda p, kind: zarr.storage.ObjectStore(s3_store(p, kind), read_only=True),
    "WrapperStore": lambda p, kind: WrapperStore(LocalStore(p.folder / kind)),
    "own": lambda p, kind: OwnStore(values(p, kind)),
}
BY_URL: dict[str, Opener] = {
    "http": lambda p, kind: f"{p.http.url}/groups/{kind}",
    "HTTPStore": lambda p, kind: obstore.store.HTTPStore.from_url(
        f"{p.http.url}/groups/{kind}", client_options=HTTP
    ),
}
ALL = STORES | BY_URL
SHORT = ("S3Store", "ObjectStore")  # moto takes its time
PAIRS = [(store, kind) for store in STORES for kind in (KINDS[3:] if store in SHORT else KINDS)]
PAIRS += [(store, kind) for store in BY_URL for kind in KINDS if "consolidated" in kind]


def opened(places: Places, store: str, kind: str, path: str | None = None) -> zarrow.Group:
    options = places.s3.storage_options(anonymous=True) if store == "s3" else None
    return zarrow.open_group(ALL[store](places, kind), path=path, storage_options=options)


@pytest.mark.parametrize(("store", "kind"), PAIRS)
def test_what_is_in_a_group(places: Places, store: str, kind: str) -> None:
    group = opened(places, store, kind)
    assert isinstance(group, zarrow.Group)
    assert group.zarr_format == int(kind[1])
    assert group.is_consolidated == ("consolidated" in kind)
    assert dict(group.attrs) == GROUPS[""]
    assert group.path == ""
    assert list(group) == ["a", "empty", "top"]
    assert len(group) == 3
    assert [name for name, _ in group.arrays()] == ["top"]
    assert [name for name, _ in group.groups()] == ["a", "empty"]
    assert list(group["a"]) == ["deep", "one", "two"]
    assert list(group["empty"]) == []
    assert list(group["a/deep"]) == [ODD]
    assert list(group["a"]["deep"][ODD]) == ["three"]
    assert dict(group.items()).keys() == {"a", "empty", "top"}


@pytest.mark.parametrize(("store", "kind"), PAIRS)
def test_members(places: Places, store: str, kind: str) -> None:
    """By path and step by step, arrays that can be read and groups with their attributes."""
    group = opened(places, store, kind)
    for path, whole in ARRAYS.items():
        member: Any = group
        for name in path.split("/"):
            member = member[name]
        for array in (group[path], member, group[f"{path}/"]):
            assert isinstance(array, zarrow.Array)
            assert dict(array.attrs) == {"path": path}
            assert array.zarr_format == int(kind[1])
            assert path in array.path
        oracle.assert_reads(zarrow.read_ragged(member, [..., np.s_[1:3]]), whole, [..., np.s_[1:3]])
    for path, attributes in GROUPS.items():
        if path:
            inner = group[path]
            assert isinstance(inner, zarrow.Group)
            assert dict(inner.attrs) == attributes
            assert inner.path == path
    for path in [*ARRAYS, "a", f"a/deep/{ODD}"]:
        assert path in group
    for path in ("nothing", "a/nothing", "top/nothing", "notes", "", "/", "a//../top", 3, None):
        assert path not in group
    for path in ("nothing", "a/one/x", "notes"):
        with pytest.raises(KeyError, match=path):
            group[path]
    assert group.get("nothing") is None


@pytest.mark.parametrize("store", ALL)
@pytest.mark.parametrize("kind", ["v2-consolidated", "v3-consolidated"])
def test_a_path_within_a_store(places: Places, store: str, kind: str) -> None:
    group = opened(places, store, kind, path="a/deep")
    assert group.path == "a/deep"
    assert "a/deep" in repr(group)
    oracle.assert_reads(
        zarrow.read_ragged(group[f"{ODD}/three"], [...]), ARRAYS[f"a/deep/{ODD}/three"], [...]
    )


@pytest.mark.parametrize("store", ALL)
@pytest.mark.parametrize("path", ["nothing", "top", "a/one", "notes"])
def test_no_group(places: Places, store: str, path: str) -> None:
    """There is nothing, or an array, or something else."""
    for kind in ("v2", "v3"):
        with pytest.raises(zarrow.NotFoundError, match=path):
            opened(places, store, kind, path=path)


@pytest.mark.parametrize("kind", KINDS)
def test_zarr_groups(places: Places, kind: str) -> None:
    """A group of zarr-python is opened by its store and path."""
    group = zarr.open_group(places.folder / kind, mode="r")
    for each, names in ((group, ["a", "empty", "top"]), (group["a"], ["deep", "one", "two"])):
        assert list(zarrow.open_group(each.store, path=each.path)) == names


@pytest.mark.parametrize("kind", KINDS)
def test_a_zarr_group_itself(places: Places, kind: str) -> None:
    group: Any = zarr.open_group(places.folder / kind, mode="r")
    assert list(zarrow.open_group(group)) == ["a", "empty", "top"]
    assert list(zarrow.open_group(group["a"])) == ["deep", "one", "two"]


# ---- requests ------------------------------------------------------------------------------------


def asked(counts: Counts) -> list[str]:
    return [each.target for each in counts.log]


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize("kind", ["v2-consolidated", "v3-consolidated"])
def test_consolidated_metadata_is_all_that_is_asked_for(proxy: Proxy, kind: str) -> None:
    """Opening asks for its documents at once; members cost no request until they are read."""
    proxy.configure(latency=0.2)
    group = zarrow.open_group(f"{proxy.url}/groups/{kind}")
    counts = proxy.counts()
    assert counts.most_in_flight == counts.requests <= 5
    assert len(set(asked(counts))) == counts.requests
    assert counts.method("GET") == counts.requests
    proxy.configure(latency=0)
    proxy.forget()
    arrays = {path: group[path] for path in ARRAYS}
    assert [list(group), list(group["a"]), len(group), "nothing" in group] == [
        ["a", "empty", "top"], ["deep", "one", "two"], 3, False,
    ]  # fmt: skip
    assert [dict(group[path].attrs) for path in ("a", f"a/deep/{ODD}")] == [{"of": "a"}, {"x": 1}]
    assert proxy.counts().requests == 0
    for path, whole in ARRAYS.items():
        oracle.assert_reads(zarrow.read_ragged(arrays[path], [...]), whole, [...])
    counts = proxy.counts()
    assert counts.requests > 0
    assert not any(is_metadata(target) for target in asked(counts))


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize("kind", ["v2", "v3"])
def test_members_of_a_group_that_is_not_consolidated(proxy: Proxy, kind: str) -> None:
    """By name, though HTTP does not list: in one round trip, and the array asks for no more."""
    group = zarrow.open_group(f"{proxy.url}/groups/{kind}")
    proxy.forget()
    proxy.configure(latency=0.2)
    array = group["a/one"]
    counts = proxy.counts()
    assert counts.most_in_flight == counts.requests <= 5
    proxy.configure(latency=0)
    proxy.forget()
    oracle.assert_reads(zarrow.read_ragged(array, [...]), ARRAYS["a/one"], [...])
    assert not any(is_metadata(target) for target in asked(proxy.counts()))


def test_http_does_not_list(places: Places) -> None:
    group = zarrow.open_group(f"{places.http.url}/groups/v3")
    with pytest.raises(zarrow.StoreError, match="list"):
        list(group)


def test_metadata_of_a_python_store(places: Places) -> None:
    store = OwnStore(values(places, "v3-consolidated"))
    group = zarrow.open_group(store)
    assert 0 < len(store.asked.keys) <= 5
    store.asked.forget()
    assert {name: type(member) for name, member in group.items()} == {
        "a": zarrow.Group, "empty": zarrow.Group, "top": zarrow.Array,
    }  # fmt: skip
    zarrow.read_ragged(group["a/one"], [...])
    assert len(store.asked.chunks()) == len(store.asked.keys) > 0


class Listing(OwnStore):
    """Hangs where it is to list."""

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        self.asked.begin(prefix, "list")
        try:
            while self.hangs:
                await asyncio.sleep(0.01)
        finally:
            self.asked.end()
        async for name in super().list_dir(prefix):
            yield name


def until_idle(store: OwnStore) -> None:
    """Wait until nobody asks any more."""
    until = time.monotonic() + 5
    while store.asked.in_flight and time.monotonic() < until:
        time.sleep(0.01)
    assert store.asked.in_flight == 0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals")
@pytest.mark.parametrize("what", ["open", "member", "list"])
def test_an_interrupt_ends_the_requests(places: Places, what: str) -> None:
    """Those of a store of Python, which a thread of its own asks."""
    store = Listing(read_folder(places.folder / "v3"))
    group = zarrow.open_group(store)
    store.hangs = True
    if what != "list":
        store.latency = 60

    def ring(*_: object) -> None:
        raise KeyboardInterrupt

    work: dict[str, Callable[[], object]] = {
        "open": lambda: zarrow.open_group(store),
        "member": lambda: group["top"],
        "list": lambda: list(group),
    }
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            work[what]()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert store.asked.most > 0
    until_idle(store)
    store.hangs, store.latency = False, 0
    assert set(group) == {"top", "a", "empty"}


def test_an_error_ends_the_other_requests(places: Places) -> None:
    """Where one of many fails, nobody waits for the others."""

    class Slow(OwnStore):
        async def get(self, key: str, *arguments: Any) -> Any:
            if "zattrs" in key:
                raise PermissionError("the door is locked")
            return await super().get(key, *arguments)

    store = Slow(read_folder(places.folder / "v3"), latency=60)
    with pytest.raises(PermissionError, match="the door is locked"):
        zarrow.open_group(store)
    assert store.asked.most > 0
    until_idle(store)


def test_icechunk(write_icechunk: Callable[..., Any], tmp_path: Path) -> None:
    arrays = {name.replace(ODD, "b"): values for name, values in ARRAYS.items()}
    repository = write_icechunk(tmp_path / "repository", arrays, chunks="auto")
    session = repository.readonly_session("main")
    for store in (session, session.store):
        group = zarrow.open_group(store)
        assert list(group) == ["a", "top"]
        assert list(group["a"]) == ["deep", "one", "two"]
        for path, whole in arrays.items():
            oracle.assert_reads(zarrow.read_ragged(group[path], [...]), whole, [...])
        with pytest.raises(zarrow.NotFoundError, match="nothing"):
            zarrow.open_group(store, path="nothing")


# ---- what is odd ---------------------------------------------------------------------------------


def test_members_that_are_written_later(tmp_path: Path) -> None:
    zarr.create_group(tmp_path / "g")
    group = zarrow.open_group(tmp_path / "g")
    assert list(group) == []
    zarr.create_array(tmp_path / "g" / "x", data=np.arange(3))
    assert list(group) == ["x"]
    oracle.assert_reads(zarrow.read_ragged(group["x"], [...]), np.arange(3), [...])


DAMAGED = [b"", b"{", b"[]", b"7", b'{"zarr_format": 3}', b"\xff\xfe"]


@pytest.mark.parametrize(
    ("name", "document"),
    [(name, each) for name in ("zarr.json", ".zgroup", ".zmetadata") for each in DAMAGED],
)
def test_documents_that_are_damaged(name: str, document: bytes) -> None:
    """An error of zarrow's own, and never a group that is not there."""
    store = {name: document}
    if name == ".zmetadata":
        store[".zgroup"] = b'{"zarr_format": 2}'
    try:
        zarrow.open_group(store)
    except zarrow.ZarrowError as error:
        assert str(error)
    else:
        pytest.fail("opened")


@pytest.mark.parametrize("store", [3, None, 3.5, b"path", object()])
def test_what_is_no_store(store: Any) -> None:
    with pytest.raises(TypeError):
        zarrow.open_group(store)


def test_a_group_is_no_array(places: Places) -> None:
    for store in (places.folder / "v3", values(places, "v3")):
        with pytest.raises(zarrow.NotFoundError):
            zarrow.open_array(store)
        with pytest.raises(zarrow.NotFoundError):
            zarrow.read_ragged(store, [...])


@pytest.mark.parametrize(
    "metadata", [5, [1], "x", {"a": 5}, {"a": {"consolidated_metadata": {"metadata": 7}}}]
)
def test_consolidated_metadata_that_is_none(metadata: Any) -> None:
    document = {
        "zarr_format": 3,
        "node_type": "group",
        "consolidated_metadata": {"metadata": metadata},
    }
    with pytest.raises(zarrow.MetadataError, match="valid metadata of a group"):
        zarrow.open_group({"zarr.json": json.dumps(document).encode()})


def test_metadata_without_end() -> None:
    with pytest.raises(zarrow.MetadataError, match="valid metadata of a group"):
        zarrow.open_group({"zarr.json": b"[" * 200_000})
