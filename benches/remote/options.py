"""What a run can be asked for."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

from ..compare.options import Scale, bench_dir

HERE = Path(__file__).resolve().parent

# The factors of benches.compare: both read the same arrays. What is `all_methods` there is here.
SCALES = {
    scale.name: scale
    for scale in (
        Scale("full", 1.0, rounds=3, patience=20.0, budget=10.0, sample=100, all_methods=True),
        Scale("quick", 0.1, rounds=2, patience=5.0, budget=3.0, sample=20, all_methods=False),
        Scale("tiny", 0.01, rounds=1, patience=5.0, budget=3.0, sample=10, all_methods=True),
    )
}


@dataclass(frozen=True, slots=True)
class Condition:
    """How far away the store is: milliseconds, and MB/s of each request, of which 0 is no limit."""

    latency: float
    bandwidth: float = 0.0

    @property
    def name(self) -> str:
        """How tables call it."""
        limit = f", {self.bandwidth:g} MB/s" if self.bandwidth else ""
        return f"{self.latency:g} ms{limit}"

    @property
    def command(self) -> str:
        """What tells the server."""
        return f"set {self.latency} {self.bandwidth * 1e6}"


@dataclass(frozen=True, slots=True)
class Options:
    """One run, as asked for on the command line."""

    scale: Scale
    workloads: tuple[str, ...]
    methods: tuple[str, ...]
    conditions: tuple[Condition, ...]
    rounds: int
    threads: int
    output: Path
    build: bool
    list_only: bool

    @property
    def folder(self) -> Path:
        """Where the data, selections and plans of this scale lie."""
        return bench_dir() / self.scale.name

    def wants_workload(self, name: str) -> bool:
        """Whether a workload was asked for."""
        return not self.workloads or name.upper() in map(str.upper, self.workloads)

    def wants_method(self, name: str) -> bool:
        """Whether a method was asked for, by any part of its name."""
        return not self.methods or any(
            re.search(pattern, name, re.IGNORECASE) for pattern in self.methods
        )


def condition(text: str) -> Condition:
    """Read `MS` or `MS@MBPS`."""
    latency, _, bandwidth = text.partition("@")
    return Condition(float(latency), float(bandwidth or 0))


def parse(arguments: list[str] | None = None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benches.remote", description=__doc__)
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help="R1, R3 or R4; all if none"
    )
    parser.add_argument(
        "--methods",
        default="",
        metavar="NAMES",
        help="regular expressions, separated by commas, found anywhere in a method's name;"
        " the ideal runs always",
    )
    parser.add_argument(
        "--at",
        default="10 30 100 30@100",
        metavar="CONDITIONS",
        help='milliseconds of each request, @MB/s of each: "10 30@100" (default: %(default)s)',
    )
    parser.add_argument("--scale", choices=SCALES, default="full")
    parser.add_argument("--rounds", type=int, help="timed calls after the first, at most")
    parser.add_argument("--threads", type=int, default=2, help="cores for reader and server")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where the results go")
    parser.add_argument(
        "--no-build", action="store_true", help="take the zarrow that is installed, as it is"
    )
    parser.add_argument("--list", action="store_true", help="name workloads and methods only")
    given = parser.parse_args(arguments)
    scale = SCALES[given.scale]
    conditions = tuple(map(condition, given.at.split()))
    whole = not (given.workloads or given.methods) and given.at == parser.get_default("at")
    default = HERE if whole and scale.name == "full" else bench_dir() / scale.name / "remote"
    return Options(
        scale=scale,
        workloads=tuple(given.workloads),
        methods=tuple(filter(None, given.methods.split(","))),
        conditions=conditions,
        rounds=scale.rounds if given.rounds is None else given.rounds,
        threads=given.threads,
        output=(given.output or default).absolute(),
        build=not given.no_build,
        list_only=given.list,
    )
