"""Every kind of store by every form of array: the same values, bit for bit, from each."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import oracle
import pytest
import zarr
import zarrow
from remote import (
    LAYOUTS,
    ODD,
    TEXT,
    Form,
    OwnMapping,
    OwnStore,
    fill,
    is_metadata,
    read_folder,
    write_forms,
)
from servers.azurite import AzureServer
from servers.gcs import Account, GoogleServer
from servers.http_files import FileServer
from servers.moto import S3Server
from zarr.storage import (
    FsspecStore,
    LocalStore,
    LoggingStore,
    MemoryStore,
    ObjectStore,
    WrapperStore,
    ZipStore,
)

obstore = pytest.importorskip("obstore", reason="needs obstore from PyPI")

FORMS = [*LAYOUTS, TEXT]
HTTP: Any = {"allow_http": True}


@dataclass(frozen=True)
class Places:
    """The same arrays in many places."""

    folder: Path
    forms: dict[str, Form]
    values: dict[str, bytes]
    http: FileServer
    s3: S3Server
    work: Path

    @property
    def url(self) -> str:
        """Where the folder is by HTTP."""
        return f"{self.http.url}/{self.folder.name}"


@pytest.fixture(scope="module")
def places(
    http_server: FileServer, s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Places:
    folder = http_server.folder / "forms.zarr"
    forms = write_forms(folder)
    values = read_folder(folder)
    work = tmp_path_factory.mktemp("stores")
    s3_server.upload(folder, "forms", "deep/in")
    with zipfile.ZipFile(work / "forms.zip", "w") as archive:
        for key, value in values.items():
            archive.writestr(key, value)
    return Places(folder, forms, values, http_server, s3_server, work)


@dataclass(frozen=True)
class Opened:
    """A store to read from, with options, and what `repr` and `path` of a handle must say."""

    store: Any
    says: str = ""
    options: dict[str, Any] | None = None


def s3_store(places: Places, **options: Any) -> Any:
    """A store of obstore. What is the client's is given apart: see below."""
    config: Any = places.s3.storage_options(**options)
    del config["aws_allow_http"]
    return obstore.store.S3Store("forms", prefix="deep/in", client_options=HTTP, **config)


def obstore_memory(places: Places) -> Any:
    store = obstore.store.MemoryStore()
    for key, value in places.values.items():
        store.put(key, value)
    return store


def fsspec_memory(places: Places) -> Any:
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec from PyPI")
    wrapper = importlib.import_module("fsspec.implementations.asyn_wrapper")
    memory = fsspec.filesystem("memory", skip_instance_cache=True)
    for key, value in places.values.items():
        memory.pipe_file(f"/forms/{key}", value)
    fs = wrapper.AsyncFileSystemWrapper(memory, asynchronous=True)
    return FsspecStore(fs, read_only=True, path="/forms")


def fsspec_http(places: Places) -> Any:
    pytest.importorskip("aiohttp", reason="needs aiohttp from PyPI")
    return FsspecStore.from_url(places.url, read_only=True)


def cache_store(places: Places) -> Any:
    module = pytest.importorskip(
        "zarr.experimental.cache_store", reason="needs a zarr-python that has CacheStore"
    )
    return module.CacheStore(LocalStore(places.folder, read_only=True), cache_store=MemoryStore())


def gs_options(places: Places) -> dict[str, Any]:
    """Google's way to read values of a bucket is that of any HTTP server."""
    account = {"gcs_base_url": places.http.url, "disable_oauth": True}
    secrets = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    key = json.dumps(account | secrets)
    return {"google_service_account_key": key, "allow_http": True}


PLAIN: dict[str, Callable[[Places], Opened]] = {
    "path": lambda p: Opened(p.folder, "forms.zarr"),
    "str": lambda p: Opened(str(p.folder), "forms.zarr"),
    "file URL": lambda p: Opened(p.folder.as_uri(), "forms.zarr"),
    "zip": lambda p: Opened(p.work / "forms.zip", "forms.zip"),
    "http": lambda p: Opened(p.url, p.url),
    "http, slash": lambda p: Opened(f"{p.url}/", p.url),
    "s3": lambda p: Opened("s3://forms/deep/in", "s3://forms/deep/in", p.s3.storage_options()),
    "s3, anonymous": lambda p: Opened(
        "s3://forms/deep/in/", "s3://forms/deep/in", p.s3.storage_options(anonymous=True)
    ),
    "gs": lambda p: Opened("gs://forms.zarr", "gs://forms.zarr", gs_options(p)),
    "S3Store": lambda p: Opened(s3_store(p), "S3Store"),
    "S3Store, anonymous": lambda p: Opened(s3_store(p, anonymous=True), "S3Store"),
    "HTTPStore": lambda p: Opened(
        obstore.store.HTTPStore.from_url(p.url, client_options=HTTP), "HTTPStore"
    ),
    "obstore LocalStore": lambda p: Opened(obstore.store.LocalStore(p.folder), "LocalStore"),
    "obstore MemoryStore": lambda p: Opened(obstore_memory(p)),
    "dict": lambda p: Opened(p.values),
    "mapping": lambda p: Opened(OwnMapping(p.values, 0.0005)),
}

OF_ZARR: dict[str, Callable[[Places], Opened]] = {
    "LocalStore": lambda p: Opened(LocalStore(p.folder, read_only=True), "forms.zarr"),
    "MemoryStore": lambda p: Opened(fill(MemoryStore(), p.values)),
    "ZipStore": lambda p: Opened(ZipStore(p.work / "forms.zip", mode="r"), "forms.zip"),
    "FsspecStore, memory": lambda p: Opened(fsspec_memory(p)),
    "FsspecStore, http": lambda p: Opened(fsspec_http(p)),
    "ObjectStore, s3": lambda p: Opened(ObjectStore(s3_store(p), read_only=True), "S3Store"),
    "ObjectStore, memory": lambda p: Opened(ObjectStore(obstore_memory(p))),
    "WrapperStore": lambda p: Opened(WrapperStore(LocalStore(p.folder))),
    "LoggingStore": lambda p: Opened(LoggingStore(LocalStore(p.folder), log_level="ERROR")),
    "CacheStore": lambda p: Opened(cache_store(p)),
    "own": lambda p: Opened(OwnStore(p.values)),
    "wrapped own": lambda p: Opened(WrapperStore(OwnStore(p.values))),
}

ALL = PLAIN | OF_ZARR

# Moto takes its time: what is read of it by one way is not all read again by others.
FEW = ("v2-blosc", "shards", f"{ODD}/v3", TEXT)
SHORT = ("s3, anonymous", "S3Store", "S3Store, anonymous", "ObjectStore, s3")
PAIRS = [(kind, form) for kind in ALL for form in (FEW if kind in SHORT else FORMS)]


@pytest.fixture(scope="module")
def opened(places: Places) -> Callable[[str], Opened]:
    """Give the store of a kind, made once."""
    made: dict[str, Opened] = {}

    def get(kind: str) -> Opened:
        if kind not in made:
            made[kind] = ALL[kind](places)
        return made[kind]

    return get


def _without_addresses(text: str) -> str:
    """A text in which what differs from copy to copy is left out."""
    return re.sub(r"0x[0-9a-f]+|\d{9,}", "…", text)


@pytest.mark.parametrize(("kind", "form"), PAIRS)
def test_each_store_and_form(
    places: Places, opened: Callable[[str], Opened], kind: str, form: str
) -> None:
    """By path in the store; a handle and its pickle; a plan and its pickle."""
    store, expected = opened(kind), places.forms[form]
    if kind == "FsspecStore, http" and ODD in form:
        pytest.skip("fsspec does not quote names for HTTP")
    handle = zarrow.open_array(store.store, path=form, storage_options=store.options)
    assert handle.shape == expected.whole.shape
    assert handle.zarr_format == expected.zarr_format
    assert store.says in repr(handle)
    assert store.says in handle.path
    assert form in handle.path
    expected.check(zarrow.read_ragged(handle, expected.selections))
    if form not in FEW or kind in ("obstore MemoryStore", "ObjectStore, memory"):
        return  # obstore itself does not pickle what is in memory
    again = pickle.loads(pickle.dumps(handle))
    assert _without_addresses(repr(again)) == _without_addresses(repr(handle))
    expected.check(zarrow.read_ragged(again, expected.selections))
    if form == TEXT:
        return
    plan = zarrow.plan(handle, expected.selections)
    expected.check(pickle.loads(pickle.dumps(plan)).read())


@pytest.mark.parametrize("kind", ["dict", "mapping", "MemoryStore", "own", "obstore MemoryStore"])
def test_a_handle_tells_its_store(opened: Callable[[str], Opened], kind: str) -> None:
    """Not only where it lies in the store, which is the same in all."""
    store = opened(kind).store
    handle = zarrow.open_array(store, path="raw")
    named = f"dict of {len(store)} keys" if isinstance(store, dict) else type(store).__name__
    assert named in repr(handle)


@pytest.mark.parametrize("how", ["alone", "ObjectStore"])
def test_an_obstore_that_does_not_pickle(places: Places, how: str) -> None:
    """obstore panics at pickling where an option of the client is among those of S3."""
    options: Any = places.s3.storage_options()
    store = obstore.store.S3Store("forms", prefix="deep/in", **options)
    form = places.forms["shards"]
    array = ObjectStore(store, read_only=True) if how == "ObjectStore" else store
    try:
        form.check(zarrow.read_ragged(array, form.selections, path=form.path))
    except zarrow.ZarrowError as error:
        assert "S3Store" in str(error)
    except BaseException as error:  # noqa: BLE001 a panic is no Exception
        pytest.fail(f"{type(error).__name__}: {error}")


@pytest.mark.parametrize("kind", OF_ZARR)
def test_arrays_of_zarr_python(places: Places, opened: Callable[[str], Opened], kind: str) -> None:
    for form in map(places.forms.__getitem__, FEW if kind in SHORT else FORMS):
        if kind == "FsspecStore, http" and ODD in form.path:
            continue  # fsspec does not quote names for HTTP
        array = zarr.open_array(opened(kind).store, path=form.path, mode="r")
        handle = zarrow.open_array(array)
        assert form.path in handle.path
        assert handle.zarr_format == form.zarr_format
        form.check(zarrow.read_ragged(array, form.selections))
        form.check(zarrow.read_ragged(handle, form.selections))


@pytest.mark.parametrize("kind", ALL)
def test_attributes(opened: Callable[[str], Opened], kind: str) -> None:
    store = opened(kind)
    handle = zarrow.open_array(store.store, path="v3-zstd", storage_options=store.options)
    assert handle.attrs == {"unit": "µm"}


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("path", ["nothing", "v3-zstd/nothing", ODD])
def test_not_found(opened: Callable[[str], Opened], kind: str, path: str) -> None:
    """No array there, or a group."""
    store = opened(kind)
    with pytest.raises(zarrow.NotFoundError) as caught:
        zarrow.open_array(store.store, path=path, storage_options=store.options)
    assert path.rsplit("/", maxsplit=1)[-1] in str(caught.value)


@pytest.mark.parametrize("kind", ["http", "s3"])
def test_path_in_the_url(places: Places, opened: Callable[[str], Opened], kind: str) -> None:
    """The URL of the array itself, where that needs no quotes."""
    store = opened(kind)
    for name in ("v3-zstd", "v2-blosc", "shards"):
        form = places.forms[name]
        url = f"{store.store}/{name}"
        form.check(zarrow.read_ragged(url, form.selections, storage_options=store.options))


def test_several_stores_in_one_call(places: Places, opened: Callable[[str], Opened]) -> None:
    """A list of arrays from different stores."""
    kinds = ["path", "http", "s3", "dict", "own", "MemoryStore", "mapping", "zip"]
    handles, form = [], places.forms["shards"]
    for kind in kinds:
        store = opened(kind)
        handles.append(
            zarrow.open_array(store.store, path=form.path, storage_options=store.options)
        )
    sources = [i for i in range(len(kinds)) for _ in form.selections]
    selections = form.selections * len(kinds)
    got = zarrow.read_ragged(handles, selections, sources=sources)
    oracle.assert_reads(got, form.whole, selections)


def forget(monkeypatch: pytest.MonkeyPatch, *starts: str) -> None:
    """Take out of the environment what there is of a kind."""
    for name in list(os.environ):
        if name.startswith(starts):
            monkeypatch.delenv(name)


def test_s3_through_the_environment(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """`AWS_...` says what `storage_options` do not."""
    forget(monkeypatch, "AWS_")
    for name, value in places.s3.storage_options().items():
        monkeypatch.setenv(name.upper(), value)
    form = places.forms["shards"]
    got = zarrow.read_ragged("s3://forms/deep/in", form.selections, path=form.path)
    form.check(got)
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:9")
    options = {"aws_endpoint": places.s3.url}
    form.check(
        zarrow.read_ragged(
            "s3://forms/deep/in", form.selections, path=form.path, storage_options=options
        )
    )


def test_azure(azure_server: AzureServer, places: Places) -> None:
    url = azure_server.upload(places.folder, "forms", "deep")
    options = azure_server.storage_options()
    for form in places.forms.values():
        handle = zarrow.open_array(url, path=form.path, storage_options=options)
        form.check(zarrow.read_ragged(handle, form.selections))
        form.check(zarrow.read_ragged(pickle.loads(pickle.dumps(handle)), form.selections))
    store = obstore.store.AzureStore("forms", prefix="deep", **options)
    form = places.forms["shards"]
    form.check(zarrow.read_ragged(store, form.selections, path=form.path))


@pytest.mark.parametrize("account", ["service", "token", "nobody"])
def test_google(
    google_server: GoogleServer, places: Places, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gs://` of a server of its own kind, handles, groups, and a store of obstore."""
    forget(monkeypatch, "GOOGLE_", "SERVICE_ACCOUNT")
    url = google_server.upload(places.folder, f"forms-{account}", "deep")
    options = google_server.storage_options(account)
    for form in places.forms.values():
        handle = zarrow.open_array(url, path=form.path, storage_options=options)
        form.check(zarrow.read_ragged(handle, form.selections))
        form.check(zarrow.read_ragged(pickle.loads(pickle.dumps(handle)), form.selections))
    form = places.forms["shards"]
    other = f"gcs{url.removeprefix('gs')}"
    form.check(zarrow.read_ragged(other, form.selections, path=form.path, storage_options=options))
    group = zarrow.open_group(url, storage_options=options)
    assert set(group) == set(zarrow.open_group(places.folder))
    form.check(zarrow.read_ragged(group[form.path], form.selections))
    with pytest.raises(zarrow.NotFoundError, match="nothing"):
        zarrow.open_array(f"{url}/nothing", storage_options=options)
    if account == "service":
        config: Any = {key: value for key, value in options.items() if key != "google_allow_http"}
        store = obstore.store.GCSStore(
            f"forms-{account}", prefix="deep", client_options=HTTP, **config
        )
        form.check(zarrow.read_ragged(store, form.selections, path=form.path))


@pytest.mark.parametrize(
    "how", ["SERVICE_ACCOUNT_KEY", "SERVICE_ACCOUNT", "SERVICE_ACCOUNT_PATH", "SKIP_SIGNATURE"]
)
def test_google_through_the_environment(
    google_server: GoogleServer,
    places: Places,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    """`GOOGLE_...` says what `storage_options` do not: a key, or a file with one."""
    forget(monkeypatch, "GOOGLE_", "SERVICE_ACCOUNT")
    url = google_server.upload(places.folder / "shards", f"environment-{how.lower()}")
    options = google_server.storage_options("nobody" if how == "SKIP_SIGNATURE" else "service")
    key = options.pop("google_service_account_key", "")
    if how.endswith(("ACCOUNT", "PATH")):
        file = tmp_path / "key.json"
        file.write_text(key)
        key = str(file)
    if key:
        monkeypatch.setenv(f"GOOGLE_{how}", key)
    for name, value in options.items():
        monkeypatch.setenv(name.upper(), value)
    form = places.forms["shards"]
    form.check(zarrow.read_ragged(url, form.selections))
    # What is given goes before.
    monkeypatch.setenv("GOOGLE_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.delenv(f"GOOGLE_{how}")
    given = google_server.storage_options("nobody")
    form.check(zarrow.read_ragged(url, form.selections, storage_options=given))


def test_azure_through_the_environment(
    azure_server: AzureServer, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`AZURE_...` says what `storage_options` do not."""
    forget(monkeypatch, "AZURE_")
    url = azure_server.upload(places.folder / "shards", "environment")
    for name, value in azure_server.storage_options().items():
        monkeypatch.setenv(name.upper(), value)
    form = places.forms["shards"]
    form.check(zarrow.read_ragged(url, form.selections))
    monkeypatch.setenv("AZURE_ENDPOINT", "http://127.0.0.1:9")
    given = {"azure_endpoint": azure_server.storage_options()["azure_endpoint"]}
    form.check(zarrow.read_ragged(url, form.selections, storage_options=given))


def test_urls_of_azure(
    azure_server: AzureServer, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container, or a container of an account."""
    forget(monkeypatch, "AZURE_")
    azure_server.upload(places.folder, "urls", "deep")
    options = azure_server.storage_options()
    account = options["azure_storage_account_name"]
    form = places.forms["shards"]

    def check(root: str, options: dict[str, str]) -> None:
        url = f"{root}/deep"
        handle = zarrow.open_array(url, path=form.path, storage_options=options)
        assert handle.path.startswith(url)
        form.check(zarrow.read_ragged(handle, form.selections))
        inside = f"{url}/{form.path}"
        form.check(zarrow.read_ragged(inside, form.selections, storage_options=options))
        group = zarrow.open_group(url, storage_options=options)
        assert set(group) == set(zarrow.open_group(places.folder))

    for scheme in ("az", "azure", "adl", "abfs", "abfss"):
        check(f"{scheme}://urls", options)
    del options["azure_storage_account_name"]  # which the URL says
    for scheme in ("abfs", "abfss"):
        check(f"{scheme}://urls@{account}.dfs.core.windows.net", options)


def test_icechunk(write_icechunk: Callable[..., Any], places: Places, tmp_path: Path) -> None:
    """A session, its store, an array of zarr-python on it; Icechunk has no v2."""
    repository = write_icechunk(tmp_path / "repository", {})
    session = repository.writable_session("main")
    forms = [
        form for form in places.forms.values() if form.zarr_format == 3 and ODD not in form.path
    ]
    names = tuple(f"{form.path}/" for form in forms)
    copied = {key: value for key, value in places.values.items() if key.startswith(names)}
    fill(session.store, {key: copied[key] for key in sorted(copied, key=is_metadata, reverse=True)})
    session.commit("Copy the forms")
    session = repository.readonly_session("main")
    for form in forms:
        array = zarr.open_array(session.store, path=form.path, mode="r")
        for store, path in ((session, form.path), (session.store, form.path), (array, None)):
            handle = zarrow.open_array(store, path=path)
            assert form.path in handle.path
            form.check(zarrow.read_ragged(handle, form.selections))
            form.check(zarrow.read_ragged(pickle.loads(pickle.dumps(handle)), form.selections))


def test_an_error_of_the_store_names_the_key(places: Places) -> None:
    """What the store of Python's raises is told, with its class."""
    store = OwnStore(places.values)
    handle = zarrow.open_array(store, path="v3-zstd")
    store.fails_at = "v3-zstd/c/1/2"
    with pytest.raises(zarrow.StoreError, match="the door is locked") as caught:
        zarrow.read_ragged(handle, [...])
    assert "v3-zstd/c/1/2" in str(caught.value)
    assert "PermissionError" in str(caught.value)
    store.fails_at = None
    form = places.forms["v3-zstd"]
    form.check(zarrow.read_ragged(handle, form.selections))


@pytest.mark.parametrize(
    "store", ["ftp://127.0.0.1/a", "memory://a", "s3+x://a", "http://", "s3://"], ids=str
)
def test_urls_that_nobody_reads(store: str) -> None:
    with pytest.raises(zarrow.UnsupportedError):
        zarrow.open_array(store)


@pytest.mark.parametrize("scheme", ["http", "https", "HTTPS"])
@pytest.mark.parametrize(
    "rest", ["/path?query", "/path#part", "/a/b/path?a=1&b=2#part", "/?query", "?query"]
)
def test_urls_with_a_query(scheme: str, rest: str) -> None:
    """Nobody knows where in it the names of what is in an array would go."""
    url = f"{scheme}://127.0.0.1:9{rest}"
    for read in (zarrow.open_array, zarrow.open_group):
        with pytest.raises(zarrow.UnsupportedError, match="without a query") as caught:
            read(url)
        assert url in str(caught.value)


def test_unknown_options() -> None:
    with pytest.raises(zarrow.UnsupportedError, match="aws_regoin"):
        zarrow.open_array("s3://bucket/a", storage_options={"aws_regoin": "x"})
    with pytest.raises(TypeError, match="storage_options"):
        zarrow.open_array({}, storage_options={"aws_region": "x"})
