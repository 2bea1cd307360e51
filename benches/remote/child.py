"""One method on one workload, in a process of its own: answers each line on stdin with JSON."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import threading
import time
from typing import Any

from ..compare.case import Case, digest
from ..compare.child import limit_memory, memory_allowed, reset_peak, status
from ..compare.methods.base import flat_values
from .methods import METHODS, Reader
from .target import Target

TICK = 0.001


class Ticker:
    """A thread that wakes every millisecond: `longest` is the longest time that it could not.

    With `first`, it goes before all other threads, if the system grants that: then it does not wait
    for its turn, but at most for that of a thread that has Python's lock. `granted` says whether
    it does.
    """

    def __init__(self, *, first: bool = False) -> None:
        self.first = first
        self.granted = not first
        self.longest = 0.0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._tick)
        self.thread.start()

    def _tick(self) -> None:
        if self.first:
            with contextlib.suppress(OSError, AttributeError):
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
                self.granted = True
        last = time.perf_counter()
        while not self.ended.is_set():
            time.sleep(TICK)
            now = time.perf_counter()
            self.longest = max(self.longest, now - last - TICK)
            last = now

    def stop(self) -> float | None:
        """End the thread. Gives `longest`, or nothing if it was not granted to go first."""
        self.ended.set()
        self.thread.join()
        return self.longest if self.granted else None


def main(arguments: list[str]) -> None:
    """Set the method up, then obey: `first`, `run`, `tick` and `tick first` call it."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    name, described, port, *keys = arguments
    limit_memory()

    def answer(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    try:
        target = Target(Case(**json.loads(described)), int(port), tuple(keys))
        reader = METHODS[name].start(target)
        target.case.slices  # noqa: B018 made here, not in the first call
        answer({"ready": True, "share": target.case.count / max(1, target.case.all_count)})
        for line in sys.stdin:
            answer(obey(line.strip(), reader, target.case))
    except MemoryError:
        answer({"error": f"more than {memory_allowed() / 2**30:.0f} GiB of memory needed"})
    except Exception as error:  # noqa: BLE001 it is reported, whatever it is
        text = str(error).splitlines() or [""]
        answer({"error": f"{type(error).__name__}: {text[0][:200]}"})
    answers.flush()
    os._exit(0)  # without the tidying up of libraries, which takes long or hangs


def obey(command: str, reader: Reader, case: Case) -> dict[str, Any]:
    """Carry out one command."""
    gc.collect()
    memory = status("VmRSS")
    reset_peak()
    ticker = Ticker(first=command == "tick first") if command.startswith("tick") else None
    begin = time.perf_counter()
    result = reader.call()
    answer: dict[str, Any] = {"seconds": time.perf_counter() - begin}
    if ticker is not None:
        answer["stall"] = ticker.stop()
    if command == "first":
        answer["peak"] = status("VmHWM") - memory
        values = (reader.values or flat_values)(result)
        answer["result"] = sum(part.nbytes for part in values)
        answer["equal"] = digest(values) == case.reference
    return answer


if __name__ == "__main__":
    main(sys.argv[1:])
