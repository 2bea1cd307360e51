"""Measure the methods of one workload under one condition: each in a process of its own."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..compare.environments import limit_program
from ..compare.measure import digest_of, say
from ..compare.processes import MethodError, Process
from . import ideal, programs
from .child import Ticker

if TYPE_CHECKING:
    from pathlib import Path

    from ..compare.case import Case
    from ..compare.environments import Environment
    from .methods import Method
    from .options import Condition, Options

SETUP_SECONDS = 60.0
CALM = "set 0 0"  # while a method is set up
SPIN = "while True: pass"
TURNS_ROUNDS = 3
TURNS_SECONDS = 0.5
STALLS = 3  # calls in which stalls are measured, for each that is timed


@dataclass
class Outcome:
    """What was measured of a method under a condition, in seconds and bytes, or why nothing was.

    `counts` are the server's, of the last timed call. `stalls` are the longest times that another
    thread of Python could not run, in each of some more calls; `held` that of one that goes before
    all other threads, in yet another. `share` is the part of the selections read.
    """

    method: str
    kind: str
    condition: str
    note: str = ""
    share: float = 1.0
    first: float | None = None
    times: list[float] = field(default_factory=list)
    fetch: float | None = None
    decode: float | None = None
    stalls: list[float] = field(default_factory=list)
    held: float | None = None
    peak: int | None = None
    result: int | None = None
    equal: bool | None = None
    counts: dict[str, float] = field(default_factory=dict)

    @property
    def median(self) -> float | None:
        """Median time of a call for all selections, the first call only if it is the only one."""
        times = self.times or ([] if self.first is None else [self.first])
        return statistics.median(times) / self.share if times else None


class Server:
    """The object server, with the arrays of one data set."""

    def __init__(self, folder: Path) -> None:
        self.process = Process([programs.server_program(), str(folder), "1"])
        self.port = int(self.process.answer(SETUP_SECONDS)["port"])

    def begin(self, condition: Condition) -> None:
        """Be as far away as a condition says, and count from now on."""
        self.process.ask(condition.command, SETUP_SECONDS)
        self.process.ask("reset", SETUP_SECONDS)

    def calm(self) -> None:
        """Be near."""
        self.process.ask(CALM, SETUP_SECONDS)

    def counts(self) -> dict[str, Any]:
        """Give what was counted."""
        return self.process.ask("counts", SETUP_SECONDS)

    def close(self) -> None:
        """End the server."""
        self.process.close()


@dataclass
class Bench:
    """A workload in the server, ready to be read."""

    case: Case
    keys: list[str]
    server: Server
    found: Environment
    options: Options

    def measure(self, method: Method, condition: Condition) -> Outcome:
        """Start a method, call it as often as asked for, and end it."""
        outcome = Outcome(method.name, method.kind, condition.name)
        if not self.found.has(method.needs):
            outcome.note = f"missing: {' and '.join(method.needs)}"
            return outcome
        case = self.case
        if method.sampled and case.count > 2 * case.sample_count:
            case = replace(case, sampled=True)
        say(f"{case.name}, {condition.name}: {method.name}")
        self.server.calm()
        command = [self.found.python, "-m", "benches.remote.child", method.name]
        described = json.dumps(case.described())
        process = Process([*command, described, str(self.server.port), *self.keys])
        try:
            outcome.share = process.answer(SETUP_SECONDS)["share"]
            self._call(outcome, process, condition)
        except MethodError as error:
            outcome.note = str(error)
        finally:
            process.close()
        return outcome

    def _call(self, outcome: Outcome, process: Process, condition: Condition) -> None:
        scale = self.options.scale
        self.server.begin(condition)
        answer = process.ask("first", scale.patience)
        outcome.counts = self.server.counts()
        outcome.first = answer["seconds"]
        outcome.equal, outcome.peak = answer["equal"], answer["peak"]
        outcome.result = answer["result"]
        for _ in range(self.options.rounds):
            if sum(outcome.times) + answer["seconds"] > scale.budget:
                break
            self.server.begin(condition)
            answer = process.ask("run", 10 * scale.patience)
            outcome.counts = self.server.counts()
            outcome.times.append(answer["seconds"])
        # Once at least, and no longer than the timed calls may take.
        begin = time.monotonic()
        while len(outcome.stalls) < STALLS * max(1, self.options.rounds):
            outcome.stalls.append(process.ask("tick", 10 * scale.patience)["stall"])
            if time.monotonic() - begin + answer["seconds"] > scale.budget:
                break
        outcome.held = process.ask("tick first", 10 * scale.patience)["stall"]

    def measure_ideal(
        self, ranges: Path, label: str, decode: float, condition: Condition
    ) -> list[Outcome]:
        """Fetch ranges, so many at once. The stalls are those of a thread of this process."""
        outcomes = []
        count = len(ranges.read_text().splitlines())
        process = Process([programs.fetch_program(), str(self.server.port), str(ranges)])
        try:
            process.answer(SETUP_SECONDS)
            for connections in ideal.CONNECTIONS:
                name = f"ideal: {connections} in flight"
                outcome = Outcome(f"{name}, {label}" if label else name, "ideal", condition.name)
                fetches: list[float] = []
                tickers: list[Ticker] = []
                for _ in range(self.options.rounds + 1):
                    self.server.begin(condition)
                    tickers.append(Ticker())
                    fetches.append(process.ask(f"run {connections}", SETUP_SECONDS)["seconds"])
                    tickers[-1].stop()
                outcome.counts = self.server.counts()
                outcome.fetch, outcome.decode = statistics.median(fetches), decode
                outcome.stalls = [ticker.longest for ticker in tickers]
                outcome.first = fetches[0] + decode
                outcome.times = [seconds + decode for seconds in fetches[1:]]
                outcomes.append(outcome)
                if count <= connections:
                    break  # more would not be used
        finally:
            process.close()
        return outcomes


def measure_turns(options: Options) -> dict[str, float]:
    """Give the stalls of a waiting thread beside busy processes, by their number: the system's."""
    turns = {}
    for busy in sorted({0, *(options.threads * share for share in (1, 2, 3)), options.threads + 1}):
        stalls = []
        with ExitStack() as stack:
            for _ in range(busy):
                process = stack.enter_context(subprocess.Popen([sys.executable, "-c", SPIN]))
                stack.callback(process.kill)
            time.sleep(TURNS_SECONDS)
            for _ in range(TURNS_ROUNDS * options.rounds):
                ticker = Ticker()
                time.sleep(TURNS_SECONDS)
                ticker.stop()
                stalls.append(ticker.longest)
        turns[str(busy)] = statistics.median(stalls)
    return turns


def measure_decode(plan: Path, case: Case, options: Options) -> float:
    """Give the least time to decode all touched chunks, from memory, and to place the pieces."""
    process = Process([str(limit_program()), "serve", str(plan), str(options.threads)])
    try:
        process.answer(SETUP_SECONDS)
        with tempfile.NamedTemporaryFile(dir=options.folder) as output:
            process.ask(f"check {output.name}", SETUP_SECONDS)
            assert digest_of(output.name) == case.reference, "the limit gives a wrong result"
        runs = [process.ask("run", SETUP_SECONDS)["seconds"] for _ in range(5)]
        return float(statistics.median(runs))
    finally:
        process.close()
