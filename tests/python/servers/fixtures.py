"""Fixtures of servers, for conftest.py. A server that cannot be had skips the test, and says why.

A session has one server of each kind: what a test writes to it goes under a name of its own, a
folder, bucket or container.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from . import azurite, gcs, http_files, icechunk, moto
from .azurite import AzureServer
from .gcs import GoogleServer
from .http_files import FileServer
from .moto import S3Server
from .proxy import Proxy

ProxyMaker = Callable[..., Proxy]


def need(missing: str | None) -> None:
    """Skip the test if something is missing."""
    if missing is not None:
        pytest.skip(missing)


@pytest.fixture(scope="session")
def http_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileServer]:
    """A server of files: `.folder` to write to, `.url`. nginx, else one from PyPI."""
    kind = "starlette" if http_files.missing("nginx") else "nginx"
    need(http_files.missing(kind))
    folder, work = (tmp_path_factory.mktemp(name) for name in ("served", kind))
    server = FileServer(kind, folder, work)
    yield server
    server.close()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server of S3: `.upload(folder, bucket)`, `.storage_options()`, `.url`."""
    need(moto.missing())
    server = S3Server(tmp_path_factory.mktemp("moto"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """A server of Azure blobs: `.upload(folder, container)`, `.storage_options()`, `.url`."""
    need(azurite.missing())
    server = AzureServer(tmp_path_factory.mktemp("azurite"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def google_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleServer]:
    """A server of Google's storage: `.upload(folder, bucket)`, `.storage_options()`, `.url`."""
    need(gcs.missing())
    server = GoogleServer(tmp_path_factory.mktemp("gcs"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def write_icechunk() -> Callable[..., object]:
    """Make an Icechunk repository: `write_icechunk(folder, {"a": array}, chunks=...)`."""
    need(icechunk.missing())
    return icechunk.write_repository


@pytest.fixture
def make_proxy() -> Iterator[ProxyMaker]:
    """Make proxies before servers: `make_proxy(server.url, latency=0.03, bandwidth=0)`."""
    made: list[Proxy] = []

    def start(upstream: str, latency: float = 0.03, bandwidth: float = 0) -> Proxy:
        made.append(Proxy(upstream, latency, bandwidth))
        return made[-1]

    yield start
    for proxy in made:
        proxy.close()


@pytest.fixture(scope="module")
def shared_proxy(http_server: FileServer) -> Iterator[Proxy]:
    """A proxy before the server of files, for all tests of a module."""
    with Proxy(http_server.url, latency=0) as proxy:
        yield proxy


@pytest.fixture
def proxy(shared_proxy: Proxy) -> Proxy:
    """That of the module, as if it were new: idle, without faults and counts."""
    shared_proxy.heal()
    shared_proxy.configure(latency=0)
    shared_proxy.wait_until_idle()
    shared_proxy.forget()
    return shared_proxy
