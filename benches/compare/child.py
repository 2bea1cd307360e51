"""One method on one workload, in a process of its own: answers each line on stdin with JSON."""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from .case import Case, digest
from .methods import METHODS, Reader


def main(arguments: list[str]) -> None:
    """Set the method up, then obey.

    `first`, `run` and `again` call it, `count` counts, `quit` ends.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    name, threads, described = arguments
    limit_memory()

    def answer(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    try:
        case = Case(**json.loads(described))
        method = METHODS[name]
        assert method.start is not None, "the limit is another program"
        reader = method.start(case, int(threads))
        answer({"ready": True, "share": case.count / max(1, case.all_count)})
        for line in sys.stdin:
            command = line.strip()
            if command == "quit":
                break
            answer(obey(command, reader, case))
    except MemoryError:
        answer({"error": f"more than {memory_allowed() / 2**30:.0f} GiB of memory needed"})
    except Exception as error:  # noqa: BLE001 it is reported, whatever it is
        text = str(error).splitlines() or [""]
        answer({"error": f"{type(error).__name__}: {text[0][:200]}"})
    answers.flush()
    os._exit(0)  # without the tidying up of libraries, which takes long or hangs


def obey(command: str, reader: Reader, case: Case) -> dict[str, Any]:
    """Carry out one command."""
    if command == "count":
        return {"chunks": reader.count() if reader.count else None}
    gc.collect()
    if reader.before:
        reader.before()
    before, disk = io_counters()
    memory = status("VmRSS")
    if command == "first":
        reset_peak()
    begin = time.perf_counter()
    result = reader.call()
    seconds = time.perf_counter() - begin
    after, disk_after = io_counters()
    answer: dict[str, Any] = {
        "seconds": seconds,
        "bytes": after - before,
        "disk": disk_after - disk,
    }
    if reader.stats:
        answer |= reader.stats(result)
    if command == "first":
        answer["peak"] = status("VmHWM") - memory
    if command in {"first", "again"}:
        values = reader.values(result)
        answer["result"] = sum(part.nbytes for part in values)
        answer["equal"] = digest(values) == case.reference
    return answer


def memory_allowed() -> int:
    """Memory that one method may take: half of the machine's."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def limit_memory() -> None:
    """Let a method that takes too much fail alone."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory_allowed(), resource.RLIM_INFINITY))


def status(key: str) -> int:
    """Give a number of bytes from the kernel's account of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {key}")


def reset_peak() -> None:
    """Let VmHWM begin anew at VmRSS."""
    Path("/proc/self/clear_refs").write_text("5")


def io_counters() -> tuple[int, int]:
    """Bytes that this process read from files, and from disks."""
    lines = Path("/proc/self/io").read_text().splitlines()
    counters = dict(line.split(": ") for line in lines)
    return int(counters["rchar"]), int(counters["read_bytes"])


if __name__ == "__main__":
    main(sys.argv[1:])
