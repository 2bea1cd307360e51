"""How a failure must look: its class, the built-in class behind it, and words of its message."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import zarrow

BUILT_IN: dict[type[Exception], type[Exception]] = {
    zarrow.SelectionError: IndexError,
    zarrow.StoreError: OSError,
    zarrow.NotFoundError: FileNotFoundError,
    zarrow.MetadataError: ValueError,
    zarrow.DecodeError: ValueError,
    zarrow.UnsupportedError: NotImplementedError,
    zarrow.AllocationError: MemoryError,
}

# For a script: memory in bytes, by the system's count. The peak is `VmHWM`:
# `ru_maxrss` is at least that of the process from which this one was forked.
STATUS = """
def status(key):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))
"""


@contextmanager
def fails(
    *kinds: type[Exception], words: tuple[str, ...] = ()
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Assert that the block raises one of `kinds`, and says each of `words` (in any case).

    A panic is no `Exception`, so it goes through and fails the test.
    """
    with pytest.raises(kinds) as caught:
        yield caught
    error = caught.value
    if isinstance(error, zarrow.ZarrowError):
        assert isinstance(error, BUILT_IN[type(error)])
    told = str(error)
    assert told.strip(), "an empty message"
    assert "panic" not in told.lower(), told
    missing = [word for word in words if word.lower() not in told.lower()]
    assert not missing, f"the message lacks {missing}: {told}"


def run(code: str, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a program of its own, which a hang or a crash cannot take along."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
