"""Server processes: a free port, waiting until it answers, and ending it."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

STARTUP_SECONDS = 60.0


def free_port() -> int:
    """Give a port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerProcess:
    """A server in a process of its own, which listens on a port of 127.0.0.1."""

    def __init__(self, command: Sequence[str], port: int, log: Path) -> None:
        self.command, self.port, self.log = list(command), port, log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            self._wait_until_it_listens()
        except BaseException:
            self.close()
            raise

    def _wait_until_it_listens(self) -> None:
        end = time.monotonic() + STARTUP_SECONDS
        while self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            if time.monotonic() > end:
                raise RuntimeError(f"{self.command[0]} did not start: {self.last_words()}")
            time.sleep(0.02)
        raise RuntimeError(f"{self.command[0]} ended: {self.last_words()}")

    def last_words(self) -> str:
        """Give the end of what it wrote."""
        return self.log.read_text(errors="replace")[-2_000:]

    def close(self) -> None:
        """End the process."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
