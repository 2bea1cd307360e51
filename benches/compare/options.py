"""What a run can be asked for, and the folders that it uses."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a run is.

    Parameters
    ----------
    name
        Also the name of the folder of its data.
    factor
        Sizes of the arrays and numbers of selections, relative to the full scale.
    rounds
        Timed calls of each method, at most.
    patience
        Seconds that a first call may take: a slower method is reported as that.
    budget
        Seconds of timed calls after which a method sits out the rounds that are left, but a quick
        one (`measure.QUICK`) not before a few calls (`measure.FEWEST`).
    sample
        Selections that a loop reads where there are far more, its time then being extrapolated.
    all_methods
        Whether all variants of the methods run.
    """

    name: str
    factor: float
    rounds: int
    patience: float
    budget: float
    sample: int
    all_methods: bool


SCALES = {
    scale.name: scale
    for scale in (
        Scale("full", 1.0, rounds=7, patience=6.0, budget=1.5, sample=500, all_methods=True),
        Scale("quick", 0.1, rounds=5, patience=2.0, budget=0.3, sample=400, all_methods=False),
        Scale("tiny", 0.01, rounds=3, patience=3.0, budget=0.2, sample=200, all_methods=True),
    )
}


@dataclass(frozen=True, slots=True)
class Options:
    """One run, as asked for on the command line."""

    scale: Scale
    workloads: tuple[str, ...]
    methods: tuple[str, ...]
    rounds: int
    threads: int
    output: Path
    figure: Path
    build: bool
    list_only: bool

    @property
    def folder(self) -> Path:
        """Where the data, selections and plans of this scale lie."""
        return bench_dir() / self.scale.name

    def wants_workload(self, name: str) -> bool:
        """Whether a workload was asked for, by its name or by the part before the hyphen."""
        names = (name, name.split("-", maxsplit=1)[0])
        return not self.workloads or any(
            re.fullmatch(pattern, name, re.IGNORECASE)
            for pattern in self.workloads
            for name in names
        )

    def wants_method(self, name: str, kind: str) -> bool:
        """Whether a method was asked for, by any part of its name. The limit always is."""
        return not self.methods or any(
            kind == "limit" or re.search(pattern, name, re.IGNORECASE) for pattern in self.methods
        )


def bench_dir() -> Path:
    """Folder of everything that the benchmark makes: data, environments, builds."""
    named = os.environ.get("ZARROW_BENCH_DIR")
    return Path(named or Path(tempfile.gettempdir(), "zarrow-bench")).resolve()


def parse(arguments: list[str] | None = None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="make bench ARGS=...",
        description="Compare zarrow with other readers of Zarr, on this machine.",
    )
    parser.add_argument(
        "workloads",
        nargs="*",
        metavar="WORKLOAD",
        help="regular expressions: W3 means W3 and W3-cold, W4 all that begin with W4-",
    )
    parser.add_argument(
        "--methods",
        default="",
        metavar="NAMES",
        help="regular expressions, separated by commas, found anywhere in a method's name",
    )
    parser.add_argument("--scale", choices=SCALES, default="full")
    parser.add_argument("--rounds", type=int, help="timed calls of each method, at most")
    parser.add_argument("--threads", type=int, default=2, help="cores that every method may use")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where the results go")
    parser.add_argument(
        "--no-build",
        action="store_true",
        help="take the zarrow that the environments have, as it is",
    )
    parser.add_argument(
        "--list", action="store_true", help="name the workloads and methods, and run nothing"
    )
    given = parser.parse_args(arguments)
    scale = SCALES[given.scale]
    methods = tuple(filter(None, given.methods.split(",")))
    output, figure = _targets(given.output, scale, whole=not (given.workloads or methods))
    return Options(
        scale=scale,
        workloads=tuple(given.workloads),
        methods=methods,
        rounds=given.rounds or scale.rounds,
        threads=given.threads,
        output=output,
        figure=figure,
        build=not given.no_build,
        list_only=given.list,
    )


def _targets(asked: Path | None, scale: Scale, *, whole: bool) -> tuple[Path, Path]:
    """Folder of the results, and path of the figure.

    Only a whole run at full scale replaces what is in the checkout.
    """
    if asked is None and whole and scale.name == "full":
        return HERE, ROOT / "docs" / "figures" / "compare.png"
    folder = (asked or bench_dir() / scale.name / "results").absolute()
    return folder, folder / "compare.png"


def affinity(cores: int) -> None:
    """Keep this process, and all that it starts, on as many cores as are asked for."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < cores:
        sys.exit(f"--threads {cores}: this process may use {len(allowed)} cores only")
    os.sched_setaffinity(0, allowed[:cores])
