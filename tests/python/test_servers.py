"""The servers that other tests read from: ranges, latency, concurrency and each fault."""

from __future__ import annotations

import asyncio
import http.client
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from servers import http_files
from servers.azurite import AzureServer
from servers.gcs import GoogleServer
from servers.http_files import FileServer
from servers.moto import S3Server
from servers.proxy import Proxy

obstore = pytest.importorskip("obstore", reason="needs obstore from PyPI")

from obstore.store import AzureStore, GCSStore, HTTPStore, S3Store  # noqa: E402 after it is known to be there

CONTENT = bytes(range(256)) * 400
NO_RETRIES: Any = {"max_retries": 0}


@pytest.fixture(scope="session")
def name(http_server: FileServer) -> str:
    """A file that the server of files has."""
    (http_server.folder / "plain").mkdir()
    (http_server.folder / "plain" / "file").write_bytes(CONTENT)
    return "plain/file"


@pytest.fixture
def proxy(http_server: FileServer, make_proxy: Callable[..., Proxy]) -> Proxy:
    return make_proxy(http_server.url, latency=0)


def get(url: str, **headers: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
        return answer.read()


def raw(proxy: Proxy, name: str) -> bytes:
    """All that comes for a request, up to the end of the connection."""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as connection:
        connection.sendall(f"GET /{name} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def until_it_ends(proxy: Proxy, name: str, patience: float) -> tuple[bytes, OSError | None]:
    """What comes for a request on a connection that is kept, and what ends it."""
    received = b""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=patience) as connection:
        connection.sendall(f"GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        try:
            while piece := connection.recv(1 << 16):
                received += piece
        except OSError as error:
            return received, error
    return received, None


def check_ranges(store: Any, name: str) -> None:
    """Reads by object_store: whole, part, to the end, from the end, and what is not there."""
    assert store.head(name)["size"] == len(CONTENT)
    assert bytes(store.get(name).bytes()) == CONTENT
    assert bytes(store.get_range(name, start=1_000, end=1_777)) == CONTENT[1_000:1_777]
    from_offset = store.get(name, options={"range": {"offset": 100_000}})
    assert bytes(from_offset.bytes()) == CONTENT[100_000:]
    if not isinstance(store, AzureStore):  # Azure has no ranges from the end
        suffix = store.get(name, options={"range": {"suffix": 20}})
        assert bytes(suffix.bytes()) == CONTENT[-20:]
    with pytest.raises(FileNotFoundError):
        store.get("plain/nothing")


@pytest.mark.parametrize("kind", ["nginx", "starlette"])
def test_both_servers_of_files_know_ranges(kind: str, tmp_path: Path) -> None:
    if (missing := http_files.missing(kind)) is not None:
        pytest.skip(missing)
    folder, work = tmp_path / "served", tmp_path / "work"
    (folder / "plain").mkdir(parents=True)
    work.mkdir()
    (folder / "plain" / "file").write_bytes(CONTENT)
    server = FileServer(kind, folder, work)
    try:
        check_ranges(
            HTTPStore.from_url(server.url, client_options={"allow_http": True}), "plain/file"
        )
        with pytest.raises(urllib.error.HTTPError, match="416"):
            get(f"{server.url}/plain/file", Range=f"bytes={len(CONTENT)}-")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(f"{server.url}/plain")
    finally:
        server.close()


def array_in(folder: Path) -> np.ndarray:
    """Write an array to upload."""
    data = np.arange(1_000, dtype="<i4").reshape(20, 50)
    zarr.create_array(folder / "a.zarr", data=data, chunks=(7, 20))
    (folder / "plain").mkdir()
    (folder / "plain" / "file").write_bytes(CONTENT)
    return data


@pytest.mark.parametrize("anonymous", [False, True])
def test_s3(
    s3_server: S3Server, make_proxy: Callable[..., Proxy], tmp_path: Path, anonymous: bool
) -> None:
    data = array_in(tmp_path)
    bucket = f"test-servers-{anonymous}".lower()
    assert s3_server.upload(tmp_path, bucket, "some/prefix") == f"s3://{bucket}/some/prefix"
    proxy = make_proxy(s3_server.url, latency=0)
    for endpoint in (None, proxy.url):
        options = s3_server.storage_options(endpoint, anonymous=anonymous)
        store = S3Store(bucket, prefix="some/prefix", **options)
        check_ranges(store, "plain/file")
        read = zarr.open_array(zarr.storage.ObjectStore(store, read_only=True), path="a.zarr")
        np.testing.assert_array_equal(read[...], data)
    assert proxy.counts().path(f"/{bucket}/some/prefix/plain/file").methods["HEAD"] == 1


def test_azure(azure_server: AzureServer, make_proxy: Callable[..., Proxy], tmp_path: Path) -> None:
    data = array_in(tmp_path)
    assert azure_server.upload(tmp_path, "test-servers", "some") == "az://test-servers/some"
    proxy = make_proxy(azure_server.url, latency=0)
    for endpoint in (None, proxy.url):
        store = AzureStore("test-servers", prefix="some", **azure_server.storage_options(endpoint))
        check_ranges(store, "plain/file")
        read = zarr.open_array(zarr.storage.ObjectStore(store, read_only=True), path="a.zarr")
        np.testing.assert_array_equal(read[...], data)


def test_google(google_server: GoogleServer, tmp_path: Path) -> None:
    data = array_in(tmp_path)
    assert google_server.upload(tmp_path, "test-servers", "some") == "gs://test-servers/some"
    config: Any = google_server.storage_options()
    del config["google_allow_http"]
    store = GCSStore("test-servers", prefix="some", client_options={"allow_http": True}, **config)
    check_ranges(store, "plain/file")
    read = zarr.open_array(zarr.storage.ObjectStore(store, read_only=True), path="a.zarr")
    np.testing.assert_array_equal(read[...], data)


def test_icechunk(write_icechunk: Callable[..., Any], tmp_path: Path) -> None:
    data = np.arange(1_000, dtype="<i4").reshape(20, 50)
    repository = write_icechunk(tmp_path / "repository", {"group/a": data}, chunks=(7, 20))
    store = repository.readonly_session("main").store
    np.testing.assert_array_equal(zarr.open_array(store, path="group/a", mode="r")[...], data)


def test_the_proxy_passes_ranges_on_and_counts(proxy: Proxy, name: str) -> None:
    store = HTTPStore.from_url(proxy.url, client_options={"allow_http": True})
    check_ranges(store, name)
    counts = proxy.wait_until_idle()
    path = counts.path(f"/{name}")
    assert path.methods == {"HEAD": 1, "GET": 4}
    assert path.ranges == ["bytes=1000-1776", "bytes=100000-", "bytes=-20"]
    assert path.bytes == 2 * len(CONTENT) - 100_000 + 777 + 20
    assert counts.path("/plain/nothing").requests == 1
    assert [(each.method, each.status) for each in counts.log] == [
        ("HEAD", 200),
        ("GET", 200),
        ("GET", 206),
        ("GET", 206),
        ("GET", 206),
        ("GET", 404),
    ]
    assert counts.method("GET") == 5
    proxy.forget()
    assert proxy.counts().requests == 0
    assert not proxy.counts().paths


def test_one_connection_serves_many_requests(proxy: Proxy, name: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    for begin in range(20):
        connection.request("GET", f"/{name}", headers={"Range": f"bytes={begin}-{begin}"})
        assert connection.getresponse().read() == CONTENT[begin : begin + 1]
    connection.close()
    counts = proxy.wait_until(lambda counts: counts.connections == 0)
    assert (counts.requests, counts.connections_made, counts.most_in_flight) == (20, 1, 1)


def test_latency_is_added(proxy: Proxy, name: str) -> None:
    proxy.configure(latency=0.2)
    begin = time.monotonic()
    get(f"{proxy.url}/{name}")
    assert time.monotonic() - begin >= 0.2


def test_bandwidth_is_limited(proxy: Proxy, name: str) -> None:
    proxy.configure(bandwidth=4 * len(CONTENT))
    begin = time.monotonic()
    assert get(f"{proxy.url}/{name}") == CONTENT
    assert time.monotonic() - begin >= 0.24


def read_at_once(proxy: Proxy, name: str, count: int) -> list[bytes]:
    """Read a file so many times, all at once, each on its own connection."""
    store = HTTPStore.from_url(proxy.url, client_options={"allow_http": True, "timeout": "60s"})

    async def all_of_them() -> list[Any]:
        reads = [obstore.get_range_async(store, name, start=i, end=i + 9) for i in range(count)]
        return await asyncio.gather(*reads)

    return [bytes(part) for part in asyncio.run(all_of_them())]


def test_requests_wait_together(proxy: Proxy, name: str) -> None:
    proxy.configure(latency=0.5)
    assert read_at_once(proxy, name, 200) == [CONTENT[i : i + 9] for i in range(200)]
    counts = proxy.wait_until_idle()
    assert counts.requests == 200
    assert counts.most_in_flight == 200


def test_a_thousand_connections(proxy: Proxy, name: str) -> None:
    proxy.configure(latency=0.1)
    connections = []
    try:
        for _ in range(1_024):
            connections.append(socket.create_connection(("127.0.0.1", proxy.port), timeout=60))
        request = (
            f"GET /{name} HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9\r\nConnection: close\r\n\r\n"
        )
        for connection in connections:
            connection.sendall(request.encode())
        for connection in connections:
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))  # noqa: B023 used at once
            assert answer.endswith(b"\r\n\r\n" + CONTENT[:10])
    finally:
        for connection in connections:
            connection.close()
    assert proxy.counts().most_connections == 1_024


def test_a_client_that_leaves_is_no_longer_in_flight(proxy: Proxy, name: str) -> None:
    proxy.hang(name)
    with socket.create_connection(("127.0.0.1", proxy.port)) as connection:
        connection.sendall(f"GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        proxy.wait_until(lambda counts: counts.in_flight == 1)
    counts = proxy.wait_until_idle()
    assert (counts.most_in_flight, counts.connections, counts.bytes) == (1, 0, 0)


def test_reset_before_the_answer(proxy: Proxy, name: str) -> None:
    proxy.reset(name)
    with pytest.raises(ConnectionResetError):
        raw(proxy, name)


def test_reset_within_the_body(proxy: Proxy, name: str) -> None:
    proxy.reset(name, after=1_000)
    received, end = until_it_ends(proxy, name, patience=20)
    assert isinstance(end, ConnectionResetError)
    assert received.startswith(b"HTTP/1.1 200")
    assert received.partition(b"\r\n\r\n")[2] == CONTENT[:1_000]


def test_truncate(proxy: Proxy, name: str) -> None:
    proxy.truncate(name, after=1_000)
    head, _, body = raw(proxy, name).partition(b"\r\n\r\n")
    assert f"content-length: {len(CONTENT)}".encode() in head.lower()
    assert body == CONTENT[:1_000]
    with pytest.raises(http.client.IncompleteRead):
        get(f"{proxy.url}/{name}")


def test_a_fault_never_lets_the_whole_body_through(proxy: Proxy, name: str) -> None:
    proxy.truncate(name, after=10 * len(CONTENT))
    assert raw(proxy, name).partition(b"\r\n\r\n")[2] == CONTENT[:-1]


@pytest.mark.parametrize("status", [403, 404, 429, 500, 503])
def test_status(proxy: Proxy, name: str, status: int) -> None:
    proxy.status(name, status, retry_after=7, body="no more")
    with pytest.raises(urllib.error.HTTPError) as raised:
        get(f"{proxy.url}/{name}")
    assert raised.value.code == status
    assert raised.value.headers["Retry-After"] == "7"
    assert raised.value.read() == b"no more"
    assert [each.status for each in proxy.counts().log] == [status]


def test_object_store_tries_again(proxy: Proxy, name: str) -> None:
    proxy.status(name, 503, count=2)
    store = HTTPStore.from_url(proxy.url, client_options={"allow_http": True})
    assert bytes(store.get(name).bytes()) == CONTENT
    assert [each.status for each in proxy.counts().log] == [503, 503, 200]
    strict = HTTPStore.from_url(
        proxy.url, client_options={"allow_http": True}, retry_config=NO_RETRIES
    )
    proxy.status(name, 503)
    with pytest.raises(obstore.exceptions.GenericError, match="503"):
        strict.get(name)


def test_slow_start(proxy: Proxy, name: str) -> None:
    proxy.slow_start(name, seconds=0.3)
    begin = time.monotonic()
    assert get(f"{proxy.url}/{name}") == CONTENT
    assert time.monotonic() - begin >= 0.3


def test_hang(proxy: Proxy, name: str) -> None:
    proxy.hang(name, after=1_000, count=1)
    received, end = until_it_ends(proxy, name, patience=2)
    assert isinstance(end, TimeoutError)
    assert received.endswith(b"\r\n\r\n" + CONTENT[:1_000])
    assert get(f"{proxy.url}/{name}") == CONTENT


def test_rules_choose_requests(proxy: Proxy, name: str) -> None:
    url = f"{proxy.url}/{name}"
    proxy.status(r"file$", 500, skip=1, count=2)
    proxy.status(r"file\?other", 503)
    proxy.status("", 403, method="HEAD")

    def status(target: str, method: str = "GET") -> int:
        try:
            request = urllib.request.Request(target, method=method)
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    assert [status(url) for _ in range(4)] == [200, 500, 500, 200]
    assert status(f"{url}?other=1") == 503
    assert status(url, "HEAD") == 403
    assert [each.fault for each in proxy.counts().log].count("status") == 4
    proxy.heal()
    assert [status(url), status(url, "HEAD")] == [200, 200]


def test_rules_choose_ranges(proxy: Proxy, name: str) -> None:
    url = f"{proxy.url}/{name}"
    proxy.status("file$", 404, range=r"bytes=\d")
    assert get(url) == CONTENT
    assert get(url, Range="bytes=-5") == CONTENT[-5:]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(url, Range="bytes=2-5")
    proxy.heal()
    proxy.status("file$", 403, range="^$")
    assert get(url, Range="bytes=2-5") == CONTENT[2:6]
    with pytest.raises(urllib.error.HTTPError, match="403"):
        get(url)


def test_a_wrong_rule_is_an_error(proxy: Proxy) -> None:
    with pytest.raises(ValueError, match="unterminated"):
        proxy.status("[", 500)
    with pytest.raises(ValueError, match="unterminated"):
        proxy.status("file", 500, range="[")
    with pytest.raises(ValueError, match="unexpected keyword"):
        proxy.status("file", 500, often=2)
    assert proxy.counts().requests == 0
