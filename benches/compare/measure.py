"""Measure the methods of one workload: each in a process of its own, all in turn."""

from __future__ import annotations

import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from .environments import Environment, limit_program
from .processes import MethodError, Process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .case import Case
    from .methods import Method
    from .options import Options

SETUP_SECONDS = 120.0
STARTED_TOGETHER = 4
FEWEST = 3  # timed calls of a method that is quick, for a median
SHARES = {"zarrow": 3.0, "limit": 3.0, "peer": 1.0}  # what all is compared with has more time
QUICK = 1.0  # seconds


@dataclass
class Outcome:
    """What was measured of a method, in seconds and bytes, or why nothing was.

    `share` is the part of the selections that was read, `resident` the part of the files that
    could not be dropped from the page cache.
    """

    method: str
    kind: str
    environment: str = ""
    note: str = ""
    share: float = 1.0
    first: float | None = None
    times: list[float] = field(default_factory=list)
    peak: int | None = None
    result: int | None = None
    equal: bool | None = None
    chunks: int | None = None
    decoded: int | None = None
    read: int | None = None
    disk: int | None = None
    resident: float | None = None

    @property
    def median(self) -> float | None:
        """Median time of a call for all selections. Where there is but a first call, its time."""
        return statistics.median(self.all_times) / self.share if self.all_times else None

    @property
    def minimum(self) -> float | None:
        """Shortest time of a call, likewise."""
        return min(self.all_times) / self.share if self.all_times else None

    @property
    def all_times(self) -> list[float]:
        """Times of calls: the first one only if there are no others."""
        return self.times or ([] if self.first is None else [self.first])


class Runner:
    """A method on a case, from its start to its end."""

    def __init__(self, method: Method, case: Case, options: Options) -> None:
        self.method, self.case, self.options = method, case, options
        self.outcome = Outcome(method.name, method.kind)
        self.process: Process | None = None

    @property
    def alive(self) -> bool:
        """Whether it can be called again."""
        return self.process is not None

    def start(self, environments: list[Environment], plan: Path | None) -> None:
        """Start the process, if the method can run here."""
        threads = str(self.options.threads)
        if self.method.start is None:
            if plan is None:
                self.outcome.note = "there is no plan"
                return
            arguments = [word.format(threads=threads) for word in self.method.arguments]
            self.process = Process([str(limit_program()), "serve", str(plan), *arguments])
            return
        for found in environments:
            if found.has(self.method.needs):
                self.outcome.environment = found.name
                if self.method.sampled and self.case.count > 2 * self.case.sample_count:
                    self.case = replace(self.case, sampled=True)
                command = [found.python, "-m", "benches.compare.child", self.method.name, threads]
                self.process = Process([*command, json.dumps(self.case.described())])
                return
        self.outcome.note = f"missing: {' and '.join(self.method.needs)}"

    def ready(self) -> None:
        """Wait until the method is set up."""
        with self.watched() as process:
            answer = process.answer(SETUP_SECONDS)
            self.outcome.share = answer.get("share", 1.0)
            self.outcome.chunks = answer.get("chunks")
            self.outcome.read = answer.get("bytes")

    def first(self) -> None:
        """Call it for the first time, and compare its result with the right one."""
        patience = self.options.scale.patience
        with self.watched() as process:
            self.before(process)
            if self.method.start is not None:
                answer = process.ask("first", patience)
                self.outcome.equal = answer["equal"]
                self.outcome.peak, self.outcome.result = answer["peak"], answer["result"]
                self.outcome.chunks = answer.get("chunks")
                self.outcome.decoded = answer.get("decoded")
            elif "--read-only" in self.method.arguments:
                answer = process.ask("run", patience)
            else:
                with tempfile.NamedTemporaryFile(dir=self.options.folder) as output:
                    answer = process.ask(f"check {output.name}", patience)
                    self.outcome.equal = digest_of(output.name) == self.case.reference
            self.outcome.first = answer["seconds"]
            self.note_io(answer)

    def run(self) -> None:
        """Call it once more, unless it has used up its time."""
        outcome = self.outcome
        budget = SHARES[self.method.kind] * self.options.scale.budget
        expected = outcome.times[-1] if outcome.times else (outcome.first or 0) / 2
        is_enough = len(outcome.times) >= FEWEST or expected > QUICK
        if is_enough and sum(outcome.times) + expected > budget:
            return
        with self.watched() as process:
            self.before(process)
            answer = process.ask("run", 10 * self.options.scale.patience)
            outcome.times.append(answer["seconds"])
            self.note_io(answer)

    def again(self) -> None:
        """Compare one more result of zarrow or of a quick peer with the right one.

        Its memory may have held earlier results.
        """
        is_slow = (self.outcome.first or 0) > self.options.scale.budget
        if self.method.start is None or (is_slow and self.method.kind == "peer"):
            return
        with self.watched() as process:
            answer = process.ask("again", 10 * self.options.scale.patience)
            self.outcome.equal = self.outcome.equal and answer["equal"]

    def count(self) -> None:
        """Count the chunks that it decodes, in one more call."""
        outcome = self.outcome
        slow = (outcome.first or 0) > self.options.scale.budget
        if outcome.chunks is not None or outcome.share < 1 or slow:
            return
        seconds = 10 * self.options.scale.patience
        with self.watched() as process:
            if self.method.opens and not self.case.sharded:
                outcome.chunks = process.count_opens(self.case.paths, "run", seconds)
            else:
                outcome.chunks = process.ask("count", seconds)["chunks"]

    def before(self, process: Process) -> None:
        """Put the files of a cold case out of the page cache, or back into it."""
        if not self.case.cold:
            return
        if self.method.warm:
            process.ask("run", 10 * self.options.scale.patience)
            return
        command = [str(limit_program()), "drop", *self.case.paths]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        left = found["resident"] / max(1, found["total"])
        self.outcome.resident = max(left, self.outcome.resident or 0.0)

    def note_io(self, answer: dict[str, int]) -> None:
        """Keep the least that a call read: the first one may have read code too."""
        for name, key in (("read", "bytes"), ("disk", "disk")):
            if key in answer and not (name == "read" and self.method.maps):
                known = getattr(self.outcome, name)
                setattr(self.outcome, name, min(answer[key], known or answer[key]))

    @contextmanager
    def watched(self) -> Iterator[Process]:
        """Give the process. A method that fails in this block takes no further part."""
        assert self.process is not None
        try:
            yield self.process
        except MethodError as error:
            self.outcome.note = str(error)
            self.close()

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.close()
            self.process = None


def measure(
    case: Case,
    methods: list[Method],
    environments: list[Environment],
    plan: Path | None,
    options: Options,
) -> list[Outcome]:
    """Measure methods: set all up, call each once, then go round as often as asked for."""
    runners = [Runner(method, case, options) for method in methods]
    try:
        say(f"{case.name}: setting up {len(runners)} methods")
        for begin in range(0, len(runners), STARTED_TOGETHER):
            some = runners[begin : begin + STARTED_TOGETHER]
            for runner in some:
                runner.start(environments, plan)
            for runner in living(some):
                runner.ready()
        say(f"{case.name}: first calls")
        for runner in living(runners):
            runner.first()
        for number in range(options.rounds):
            say(f"{case.name}: round {number + 1}")
            for runner in living(runners[:: -1 if number % 2 else 1]):
                runner.run()
        say(f"{case.name}: checking")
        for runner in living(runners):
            runner.again()
        say(f"{case.name}: counting")
        for runner in living(runners):
            runner.count()
    finally:
        say("")
        for runner in runners:
            runner.close()
    return [runner.outcome for runner in runners]


def say(text: str) -> None:
    """Show what goes on, in one line of the terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def living(runners: list[Runner]) -> Iterator[Runner]:
    """Give the methods that still take part."""
    return (runner for runner in runners if runner.alive)


def digest_of(path: str) -> str:
    """Hash a file of values as `workloads.digest` hashes arrays."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
