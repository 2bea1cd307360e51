"""A proxy before a server: adds latency, limits bandwidth, injects faults, and counts.

    with Proxy(server.url, latency=0.03) as proxy:
        proxy.status(r"/c/0/0$", 503, count=2)  # the first two requests for that chunk
        read(proxy.url)
        assert proxy.counts().path("/a.zarr/c/0/0").requests == 3

It runs in a process of its own, so that Python's lock, which a test may hold, does not delay it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

PROGRAM = Path(__file__).with_name("latency_proxy.py")


@dataclass(frozen=True)
class PathCounts:
    """What came for one path, whatever its query: requests by method, Range headers as sent."""

    methods: Mapping[str, int] = field(default_factory=dict)
    ranges: list[str] = field(default_factory=list)
    bytes: int = 0

    @property
    def requests(self) -> int:
        """All requests for the path."""
        return sum(self.methods.values())


@dataclass(frozen=True)
class Request:
    """One request, in the order of their coming. `status` is None where none was sent."""

    method: str
    target: str
    range: str | None
    status: int | None
    fault: str


@dataclass(frozen=True)
class Counts:
    """What the proxy saw since it began, or since `forget`. `bytes` are of bodies."""

    requests: int
    bytes: int
    in_flight: int
    most_in_flight: int
    connections: int
    most_connections: int
    connections_made: int
    paths: Mapping[str, PathCounts]
    log: list[Request]
    rules: list[int]

    def path(self, path: str) -> PathCounts:
        """Give the counts of a path, all zero if nobody asked for it."""
        return self.paths.get(path, PathCounts())

    def method(self, method: str) -> int:
        """Give the number of requests with a method."""
        return sum(path.methods.get(method, 0) for path in self.paths.values())


class Proxy:
    """A proxy process. `url` is its address; the paths are those of the server behind it.

    Parameters
    ----------
    upstream
        URL of the server, of which only host and port matter.
    latency
        Seconds that every request waits.
    bandwidth
        Bytes per second of each response's body; 0 does not limit it.
    """

    def __init__(self, upstream: str, latency: float = 0.03, bandwidth: float = 0) -> None:
        server = urlsplit(upstream)
        assert server.hostname is not None
        assert server.port is not None
        command = [sys.executable, "-S", str(PROGRAM), server.hostname, str(server.port)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            self.port = int(self._answer())
            self.configure(latency=latency, bandwidth=bandwidth)
        except BaseException:
            self.close()
            raise
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        """Give the proxy."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the proxy."""
        self.close()

    def close(self) -> None:
        """End the process, and with it all connections."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def configure(self, **settings: float) -> None:
        """Set `latency` (s) or `bandwidth` (bytes/s) for requests from now on."""
        self._ask("configure", **settings)

    def forget(self) -> None:
        """Begin counting anew."""
        self._ask("forget")

    def heal(self) -> None:
        """Take all faults back."""
        self._ask("heal")

    def counts(self) -> Counts:
        """Give what was counted."""
        counted = self._ask("counts")
        paths = {path: PathCounts(**entry) for path, entry in counted.pop("paths").items()}
        log = [Request(*line) for line in counted.pop("log")]
        return Counts(paths=paths, log=log, **counted)

    def wait_until(self, holds: Callable[[Counts], bool], seconds: float = 20) -> Counts:
        """Give the first counts of which something holds."""
        end = time.monotonic() + seconds
        while not holds(counts := self.counts()):
            assert time.monotonic() < end, f"never so within {seconds} s: {counts}"
            time.sleep(0.005)
        return counts

    def wait_until_idle(self, seconds: float = 20) -> Counts:
        """Wait until no request is in flight."""
        return self.wait_until(lambda counts: counts.in_flight == 0, seconds)

    # Faults. Each befalls requests whose path and query, in which `pattern` is searched, match: all
    # of them, or `count` after the first `skip`. Where several match a request, the first one made
    # counts. `method` restricts it to GET or HEAD, and `range`, a pattern too, to those with such a
    # Range header; that of a request for all is empty.

    def reset(self, pattern: str, after: int | None = None, **which: Any) -> None:
        """Reset the connection: before any answer, or after head and `after` bytes of the body."""
        self._fault("reset", pattern, which, after=after)

    def truncate(self, pattern: str, after: int = 0, **which: Any) -> None:
        """Promise the whole body, send `after` bytes of it, and close the connection."""
        self._fault("truncate", pattern, which, after=after)

    def hang(self, pattern: str, after: int | None = None, **which: Any) -> None:
        """Never answer, or send nothing after head and `after` bytes, until the client leaves."""
        self._fault("hang", pattern, which, after=after)

    def slow_start(self, pattern: str, seconds: float, **which: Any) -> None:
        """Answer so much later."""
        self._fault("slow_start", pattern, which, seconds=seconds)

    def status(
        self,
        pattern: str,
        status: int,
        retry_after: int | None = None,
        body: str = "refused on purpose",
        **which: Any,
    ) -> None:
        """Answer with a status of failure, without asking the server."""
        self._fault("status", pattern, which, status=status, retry_after=retry_after, body=body)

    def _fault(self, kind: str, pattern: str, which: dict[str, Any], **parameters: Any) -> None:
        self._ask("rule", pattern=pattern, kind=kind, parameters=parameters, **which)

    def _ask(self, command: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([command, arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["answer"]

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the proxy ended with code {self._process.wait()}"
        return json.loads(line)
