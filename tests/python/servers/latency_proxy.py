"""The process of `proxy.Proxy`: `python latency_proxy.py HOST PORT`, the server that it is before.

Its first line on standard output names its own port. Then each line on standard input is a command
in JSON, answered with a line of JSON. It ends when standard input does. A response is read whole
from the server before any of it is sent on, so that what a client sees depends on no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import resource
import socket
import struct
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import http1  # beside this file, which is run by its path
from http1 import Head, ProtocolError

STEP_SECONDS = 0.01  # a limited body is sent in pieces that take about so long
LISTEN_BACKLOG = 4_096
UPSTREAM_AT_ONCE = 64
LOGGED = 100_000  # requests of which the log keeps the line


@dataclass
class Rule:
    """A fault, and the requests that it befalls."""

    pattern: str
    kind: str
    method: str | None = None
    range: str | None = None
    skip: int = 0
    count: int | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    matched: int = 0

    def takes(self, method: str, target: str, asked: str | None) -> bool:
        """Say whether it befalls this request, for a range or all, and note that it was asked."""
        if self.method not in {None, method} or not re.search(self.pattern, target):
            return False
        if self.range is not None and not re.search(self.range, asked or ""):
            return False
        self.matched += 1
        last = None if self.count is None else self.skip + self.count
        return self.matched > self.skip and (last is None or self.matched <= last)


class Watched(asyncio.StreamReaderProtocol):
    """A client's connection that says when the client has left."""

    def __init__(self, proxy: Proxy) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(asyncio.StreamReader(limit=http1.HEAD_LIMIT), self._connected, loop=loop)
        self.gone = asyncio.Event()
        self.proxy = proxy

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.proxy.serve(reader, writer, self.gone)

    def eof_received(self) -> bool | None:
        """Take a half-closed connection for one that was left."""
        self.gone.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the connection."""
        self.gone.set()
        super().connection_lost(exc)


class ClientLeftError(Exception):
    """The client has left."""


class Proxy:
    """Settings, rules and counters, and what is done with one connection."""

    def __init__(self, host: str, port: int) -> None:
        self.upstream = (host, port)
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.places = asyncio.Semaphore(UPSTREAM_AT_ONCE)
        self.latency, self.bandwidth = 0.0, 0.0
        self.rules: list[Rule] = []
        self.in_flight = self.connections = 0
        self.forget()

    def forget(self) -> None:
        """Begin counting anew. What is in flight now stays counted."""
        self.requests = self.bytes = self.connections_made = 0
        self.most_in_flight, self.most_connections = self.in_flight, self.connections
        self.methods: dict[str, Counter[str]] = {}
        self.ranges: dict[str, list[str]] = {}
        self.sent: Counter[str] = Counter()
        self.log: list[list[Any]] = []

    # Commands

    def obey(self, command: str, arguments: dict[str, Any]) -> Any:
        """Carry out a command of the test."""
        if command == "configure":
            self.latency = float(arguments.get("latency", self.latency))
            self.bandwidth = float(arguments.get("bandwidth", self.bandwidth))
        elif command == "rule":
            rule = Rule(**arguments)
            for pattern in (rule.pattern, rule.range or ""):
                re.compile(pattern)  # now, where a wrong one can be told to the test
            self.rules.append(rule)
        elif command == "heal":
            self.rules.clear()
        elif command == "forget":
            self.forget()
        elif command == "counts":
            return self.counts()
        else:
            raise ValueError(f"no command {command}")
        return None

    def counts(self) -> dict[str, Any]:
        """Give all counters."""
        return {
            "requests": self.requests,
            "bytes": self.bytes,
            "in_flight": self.in_flight,
            "most_in_flight": self.most_in_flight,
            "connections": self.connections,
            "most_connections": self.most_connections,
            "connections_made": self.connections_made,
            "paths": {
                path: {
                    "methods": dict(methods),
                    "ranges": self.ranges.get(path, []),
                    "bytes": self.sent[path],
                }
                for path, methods in self.methods.items()
            },
            "log": self.log,
            "rules": [rule.matched for rule in self.rules],
        }

    # Connections

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gone: asyncio.Event
    ) -> None:
        """Answer the requests of one connection."""
        self.connections += 1
        self.connections_made += 1
        self.most_connections = max(self.most_connections, self.connections)
        try:
            again = True
            while again and (head := await http1.read_head(reader)) is not None:
                self.in_flight += 1
                self.most_in_flight = max(self.most_in_flight, self.in_flight)
                try:
                    again = await self.answer(head, reader, writer, gone)
                finally:
                    self.in_flight -= 1
        except (OSError, EOFError, ProtocolError, ClientLeftError):
            pass  # the client sees the end of its connection
        finally:
            self.connections -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def answer(
        self,
        head: Head,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        gone: asyncio.Event,
    ) -> bool:
        """Answer one request. Gives whether the connection can be used again."""
        method, target = head.first[0], head.first[1]
        path = target.partition("?")[0]
        asked = head.get("range")
        self.requests += 1
        self.methods.setdefault(path, Counter())[method] += 1
        if asked is not None:
            self.ranges.setdefault(path, []).append(asked)
        if "100-continue" in (head.get("expect") or ""):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await http1.read_request_body(head, reader)
        # Every rule sees every request, so that `skip` counts do not depend on each other.
        taken = [rule for rule in self.rules if rule.takes(method, target, asked)]
        rule = taken[0] if taken else Rule("", "none")
        line = [method, target, asked, None, rule.kind]
        if len(self.log) < LOGGED:
            self.log.append(line)
        await self.wait(self.latency, gone)
        if rule.kind == "slow_start":
            await self.wait(rule.parameters["seconds"], gone)
        after = rule.parameters.get("after")
        if rule.kind in {"reset", "hang"} and after is None:
            return await self.fail(rule.kind, writer, gone)
        if rule.kind == "status":
            status, headers, content = refusal(rule.parameters)
        else:
            status, headers, content = await self.forward(head, body)
        line[3] = int(status.split(" ")[0])
        keep = head.keeps_alive
        headers.append(("Connection", "keep-alive" if keep else "close"))
        writer.write(http1.encode(f"HTTP/1.1 {status}", headers))
        if rule.kind in {"reset", "hang", "truncate"}:
            # Never the whole body: a fault that nothing can notice is none.
            cut = max(0, min(after or 0, len(content) - 1))
            await self.send(content[:cut], path, writer, gone)
            return await self.fail(rule.kind, writer, gone)
        await self.send(content, path, writer, gone)
        return keep

    async def send(
        self, content: bytes, path: str, writer: asyncio.StreamWriter, gone: asyncio.Event
    ) -> None:
        """Send a body no faster than the bandwidth allows."""
        clock = asyncio.get_running_loop().time
        step = max(1, int(self.bandwidth * STEP_SECONDS)) if self.bandwidth else len(content) or 1
        begin = clock()
        for start in range(0, len(content), step):
            piece = content[start : start + step]
            if self.bandwidth:
                due = begin + (start + len(piece)) / self.bandwidth
                await self.wait(due - clock(), gone)
            writer.write(piece)
            await writer.drain()
            self.bytes += len(piece)
            self.sent[path] += len(piece)
        await writer.drain()

    async def fail(self, kind: str, writer: asyncio.StreamWriter, gone: asyncio.Event) -> bool:
        """End a response before its end. What was written before goes out first."""
        while writer.transport.get_write_buffer_size():
            await self.wait(0.001, gone)
        if kind == "hang":
            await gone.wait()
        elif kind == "reset":
            # A lingering time of zero makes closing send RST instead of FIN.
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return False

    @staticmethod
    async def wait(seconds: float, gone: asyncio.Event) -> None:
        """Sleep, unless the client leaves."""
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(gone.wait(), seconds)
        if gone.is_set():
            raise ClientLeftError

    # The server behind

    async def forward(self, head: Head, body: bytes) -> tuple[str, list[tuple[str, str]], bytes]:
        """Ask the server. Gives status, headers and body of its answer."""
        method = head.first[0]
        headers = head.without("expect", "content-length")
        if body or method in {"POST", "PUT"}:
            headers.append(("Content-Length", str(len(body))))
        request = http1.encode(" ".join([*head.first[:2], "HTTP/1.1"]), headers) + body
        async with self.places:
            # A connection that waited may have been closed by the server meanwhile.
            while self.idle:
                reader, writer = self.idle.pop()
                with contextlib.suppress(OSError, EOFError):
                    return await self.exchange(method, request, reader, writer)
                writer.close()
            reader, writer = await asyncio.open_connection(*self.upstream, limit=http1.HEAD_LIMIT)
            return await self.exchange(method, request, reader, writer)

    async def exchange(
        self,
        method: str,
        request: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> tuple[str, list[tuple[str, str]], bytes]:
        """Send a request on a connection to the server, and read the answer."""
        writer.write(request)
        answer = await http1.read_head(reader)
        while answer is not None and answer.first[1] == "100":
            answer = await http1.read_head(reader)
        if answer is None:
            raise EOFError
        content = await http1.read_response_body(method, answer, reader)
        if answer.keeps_alive and (method == "HEAD" or answer.get("content-length") is not None):
            self.idle.append((reader, writer))
        else:
            writer.close()
        length = answer.get("content-length") if method == "HEAD" else str(len(content))
        headers = answer.without("content-length")
        if length is not None and answer.first[1] not in {"204", "304"}:
            headers.append(("Content-Length", length))
        return " ".join(answer.first[1:]), headers, content


def refusal(parameters: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
    """Give the answer of a server that refuses, as a fault says."""
    content = str(parameters.get("body", "refused on purpose")).encode()
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(content)))]
    if (seconds := parameters.get("retry_after")) is not None:
        headers.append(("Retry-After", str(seconds)))
    return f"{parameters['status']} Refused", headers, content


async def main(host: str, port: str) -> None:
    """Listen, and obey until standard input ends."""
    proxy = Proxy(host, int(port))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Watched(proxy), "127.0.0.1", 0, backlog=LISTEN_BACKLOG
    )
    commands = asyncio.StreamReader(limit=http1.HEAD_LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    say(server.sockets[0].getsockname()[1])
    while line := await commands.readline():
        command, arguments = json.loads(line)
        try:
            say({"answer": proxy.obey(command, arguments)})
        except (ValueError, TypeError, re.error) as error:
            say({"error": str(error)})


def say(answer: Any) -> None:
    """Answer a command."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def raise_open_files() -> None:
    """Allow as many connections as the system does."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    raise_open_files()
    asyncio.run(main(*sys.argv[1:]))
