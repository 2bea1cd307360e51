"""Files by HTTP, by a server that knows as little as it may, and cuts bodies off."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path


class PlainServer:
    """A server of one folder, in a thread.

    Parameters
    ----------
    folder
        What is served.
    ranges, etags, times, heads
        Whether it knows ranges, ETags, when files were modified, and the method HEAD.
    cuts
        So many bodies of chunks end early.
    """

    def __init__(
        self,
        folder: Path,
        *,
        ranges: bool = False,
        etags: bool = False,
        times: bool = False,
        heads: bool = True,
        cuts: int = 0,
    ) -> None:
        self.folder, self.cuts = folder, cuts
        self.ranges, self.etags, self.times, self.heads = ranges, etags, times, heads
        self.after_cut: Callable[[], object] = lambda: None
        self.before_answer: Callable[[str], object] = lambda _: None
        self.unchanged = 0
        self.requests: list[tuple[str, str | None]] = []
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that leave."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: PlainServer

    def do_GET(self) -> None:
        owner = self.owner
        owner.requests.append((self.path, self.headers["Range"]))
        file = owner.folder / self.path.lstrip("/")
        if not file.is_file():
            self.send_error(404)
            return
        modified = int(file.stat().st_mtime)
        since = self.headers["If-Modified-Since"] if owner.times else None
        if since and modified <= parsedate_to_datetime(since).timestamp():
            owner.unchanged += 1
            self.send_response(304)
            self.end_headers()
            return
        body, of = file.read_bytes(), None
        if owner.ranges and (asked := self.headers["Range"]):
            first, last = asked.removeprefix("bytes=").split("-")
            start = int(first) if first else len(body) - int(last)
            stop = int(last) + 1 if first and last else len(body)
            of = f"bytes {start}-{stop - 1}/{len(body)}"
            body = body[start:stop]
        self.send_response(206 if of else 200)
        if of:
            self.send_header("Content-Range", of)
        if owner.etags:
            self.send_header("ETag", f'"{file.stat().st_mtime_ns}"')
        if owner.times:
            self.send_header("Last-Modified", formatdate(modified, usegmt=True))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if "/c/" in self.path and owner.cuts:
            owner.cuts -= 1
            body, self.close_connection = body[: len(body) // 2], True
            owner.after_cut()
        self.owner.before_answer(self.path)
        if self.command == "GET":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        if self.owner.heads:
            self.do_GET()
        else:
            self.send_error(501)

    def log_message(self, *args: object) -> None:
        """Say nothing."""
