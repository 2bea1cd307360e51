"""Processes that run one method each, and answer lines with JSON."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from .options import ROOT


class MethodError(Exception):
    """A method gave no result; the message says why."""


class Process:
    """A process that takes commands on standard input, and answers each with a line of JSON."""

    def __init__(self, command: list[str]) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 lives as long as the process
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors
        )
        self.received = b""

    def ask(self, command: str, seconds: float) -> dict[str, Any]:
        """Give a command, and wait so long for its answer."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # that there is no answer tells why
            self.process.stdin.write(f"{command}\n".encode())
            self.process.stdin.flush()
        return self.answer(seconds)

    def answer(self, seconds: float) -> dict[str, Any]:
        """Wait for an answer."""
        assert self.process.stdout is not None
        end = time.monotonic() + seconds
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self.received:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise MethodError(f"slower than {seconds:g} s")
            if not (more := os.read(descriptor, 1 << 16)):
                raise MethodError(self.last_words())
            self.received += more
        line, _, self.received = self.received.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        if "error" in message:
            raise MethodError(message["error"])
        return message

    def last_words(self) -> str:
        """Say how the process ended, and what it wrote last."""
        code = self.process.wait()
        self.errors.seek(0)
        lines = [line for line in self.errors.read().splitlines() if line.strip()]
        return f"ended with code {code}: {lines[-1][:200] if lines else 'no message'}"

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def count_opens(self, folders: list[str], command: str, seconds: float) -> int | None:
        """Give a command, and count the chunks opened meanwhile, if there is strace."""
        if (strace := shutil.which("strace")) is None:
            return None
        with tempfile.NamedTemporaryFile("r") as log:
            options = ["-f", "-qq", "-s", "1", "-e", "trace=open,openat", "-e", "signal=none"]
            own = [strace, *options, "-o", log.name, "-p", str(self.process.pid)]
            tracer = subprocess.Popen(own, stderr=subprocess.DEVNULL)
            try:
                if not self._traced(tracer):
                    return None
                self.ask(command, seconds)
            finally:
                tracer.terminate()
                tracer.wait()
            chunk = re.compile(rf'"({"|".join(map(re.escape, folders))})/(c/)?[\d/.]+"')
            return sum(bool(chunk.search(line)) and "= -1" not in line for line in log)

    def _traced(self, tracer: subprocess.Popen[bytes]) -> bool:
        """Wait until all threads are traced."""
        tasks = Path(f"/proc/{self.process.pid}/task")
        for _ in range(200):
            statuses = [(task / "status").read_text() for task in tasks.iterdir()]
            if all(f"TracerPid:\t{tracer.pid}\n" in status for status in statuses):
                return True
            if tracer.poll() is not None:
                return False
            time.sleep(0.01)
        return False
