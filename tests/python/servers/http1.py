"""As much of HTTP/1.1 as a proxy needs: heads and whole bodies of requests and responses."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

HEAD_LIMIT = 1 << 20
HOP_BY_HOP = {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "te", "trailer"}


class ProtocolError(Exception):
    """The other side does not speak HTTP as this module knows it."""


@dataclass
class Head:
    """First line and headers of a request or response, as they came."""

    first: list[str]
    headers: list[tuple[str, str]] = field(default_factory=list)

    def get(self, name: str) -> str | None:
        """Give the value of a header, by its name in lower case."""
        return next((value for key, value in self.headers if key.lower() == name), None)

    def without(self, *names: str) -> list[tuple[str, str]]:
        """Give the headers that are neither of these nor about the connection."""
        left_out = HOP_BY_HOP.union(names)
        return [pair for pair in self.headers if pair[0].lower() not in left_out]

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection may be used again."""
        version = self.first[0] if self.first[0].startswith("HTTP/") else self.first[-1]
        said = (self.get("connection") or "").lower()
        return said == "keep-alive" if version == "HTTP/1.0" else said != "close"


def encode(first: str, headers: list[tuple[str, str]]) -> bytes:
    """Write a head."""
    lines = [first, *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Read a head, or None where the connection ends before it."""
    try:
        text = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError as error:
        raise ProtocolError("a head is too long") from error
    first, *lines = text[:-4].decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2:
        raise ProtocolError(f"no first line of HTTP: {first!r}")
    pairs = (line.partition(":") for line in lines)
    return Head(words, [(name, value.strip()) for name, _, value in pairs])


async def read_request_body(head: Head, reader: asyncio.StreamReader) -> bytes:
    """Read the body of a request, which has none unless a header says so."""
    if "chunked" in (head.get("transfer-encoding") or ""):
        return await _read_chunks(reader)
    return await reader.readexactly(int(head.get("content-length") or 0))


async def read_response_body(method: str, head: Head, reader: asyncio.StreamReader) -> bytes:
    """Read the body of a response, which may last until the connection ends."""
    status = int(head.first[1])
    if method == "HEAD" or status in {204, 304} or status < 200:
        return b""
    if "chunked" in (head.get("transfer-encoding") or ""):
        return await _read_chunks(reader)
    length = head.get("content-length")
    return await (reader.read() if length is None else reader.readexactly(int(length)))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    while await reader.readline() not in {b"\r\n", b""}:
        pass  # trailers
    return b"".join(parts)
