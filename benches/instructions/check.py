"""Count the instructions of planning and copying, and compare them with baseline.json.

    python benches/instructions/check.py             # exits with 1 if a count has grown too much
    python benches/instructions/check.py --update    # takes the counts as the new baseline

Needs valgrind and cargo. See benches/README.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
BASELINE = Path(__file__).with_name("baseline.json")

# In per cent. How the C library copies depends on its release and on the processor.
TOLERANCE = {"program": 2.0, "libraries": 20.0}

# So often a count that is too high is taken again: waiting for a thread takes instructions too.
RUNS = 3

NO_VALGRIND = """valgrind is not installed. It runs on Linux:
    apt install valgrind      (Debian, Ubuntu)
    dnf install valgrind      (Fedora)
    pacman -S valgrind        (Arch)"""


class CountError(Exception):
    """The counts cannot be had."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Instructions of one scenario."""

    program: int  # zarrow, and all that is linked into the program
    libraries: int  # the C library: copying, setting and allocating memory

    def change(self, before: Counts) -> dict[str, float]:
        """Give the change of each count, in per cent."""
        pairs = {
            field.name: (getattr(before, field.name), getattr(self, field.name))
            for field in fields(self)
        }
        return {name: (now / max(then, 1) - 1) * 100 for name, (then, now) in pairs.items()}

    def exceeds(self, before: Counts, tolerance: dict[str, float]) -> bool:
        """Whether a count has grown by more than is tolerated."""
        return any(change > tolerance[name] for name, change in self.change(before).items())


@dataclass(frozen=True, slots=True)
class Baseline:
    """What counts are compared with."""

    machine: str
    compiler: str
    tolerance: dict[str, float]
    counts: dict[str, Counts]

    @classmethod
    def load(cls) -> Baseline | None:
        """Read the file, if it is there."""
        if not BASELINE.exists():
            return None
        noted = json.loads(BASELINE.read_text())
        counts = {name: Counts(**counts) for name, counts in noted["scenarios"].items()}
        return cls(noted["machine"], noted["compiler"], noted["tolerance_percent"], counts)

    def save(self) -> None:
        """Write the file."""
        noted = {
            "machine": self.machine,
            "compiler": self.compiler,
            "tolerance_percent": self.tolerance,
            "scenarios": {name: asdict(counts) for name, counts in self.counts.items()},
        }
        BASELINE.write_text(json.dumps(noted, indent=2) + "\n")


def main() -> int:
    """Count, compare, and print a table."""
    options = parse()
    machine = platform.machine()
    compiler = output(tool("rustc", "Install Rust."), "--version").strip()
    valgrind = tool("valgrind", NO_VALGRIND)
    baseline = Baseline.load()
    if baseline and baseline.machine != machine and not options.update:
        raise CountError(
            f"The baseline is of {baseline.machine}, not of {machine}: make one with --update."
        )
    if baseline and baseline.compiler != compiler:
        print(f"The baseline was made with {baseline.compiler}. This is {compiler}.")

    program = build()
    known = output(program).split()
    if unknown := set(options.scenarios) - set(known):
        raise CountError(
            f"No such scenario: {', '.join(sorted(unknown))}. There are {', '.join(known)}."
        )
    tolerance = baseline.tolerance if baseline else TOLERANCE
    before = baseline.counts if baseline and baseline.machine == machine else {}
    callgrind = Callgrind(valgrind, program, options.keep)
    found: dict[str, Counts] = {}
    worse = []
    columns = f"{'baseline':>14}{'change':>9}"
    print(
        f"{'instructions of':<22}{'pieces':>8}{'each':>8}"
        f"{'program':>14}{columns}{'libraries':>14}{columns}"
    )
    for name in options.scenarios or known:
        then = before.get(name)
        pieces, found[name] = callgrind.lowest(name, None if options.update else then, tolerance)
        print(row(name, pieces, found[name], then), flush=True)
        if then and found[name].exceeds(then, tolerance):
            worse.append(name)

    if options.update:
        kept = {name: before[name] for name in known if name in before} | found
        counts = {name: kept[name] for name in known if name in kept}
        Baseline(machine, compiler, tolerance, counts).save()
        print(f"Written to {BASELINE.relative_to(ROOT)}.")
        return 0
    if new := [name for name in found if name not in before]:
        print(f"Not in the baseline: {', '.join(new)}. Add with --update.")
    if worse:
        limits = " or ".join(f"{limit:g} % of the {name}" for name, limit in tolerance.items())
        print(f"Grown by more than {limits}: {', '.join(worse)}. If that is meant, --update.")
        return 1
    return 0


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description="Count instructions, and compare with the baseline."
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="all, if none is named")
    parser.add_argument("--update", action="store_true", help="take the counts as the new baseline")
    keep = "keep callgrind's files there, for callgrind_annotate or KCachegrind"
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help=keep)
    return parser.parse_args()


def tool(name: str, remedy: str) -> str:
    """Find a program."""
    if (path := shutil.which(name)) is None:
        raise CountError(remedy)
    return path


def output(*command: str) -> str:
    """Run a command and give what it prints."""
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
    if done.returncode:
        raise CountError(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def build() -> str:
    """Build the program whose instructions are counted, as releases are built."""
    cargo = tool("cargo", "Install Rust.")
    command = [cargo, "bench", "--bench", "instructions", "--no-run"]
    command += ["--message-format", "json-render-diagnostics"]
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise CountError("The build failed.")
    messages = (json.loads(message) for message in done.stdout.splitlines())
    programs = [message["executable"] for message in messages if message.get("executable")]
    return str(Path(programs[-1]).resolve())  # as callgrind names it


@dataclass(frozen=True, slots=True)
class Callgrind:
    """Runs scenarios of the program under callgrind."""

    valgrind: str
    program: str
    keep: Path | None

    def lowest(
        self, name: str, before: Counts | None, tolerance: dict[str, float]
    ) -> tuple[int, Counts]:
        """Give a scenario's pieces and its lowest counts, the first that are tolerated."""
        pieces, best = self.count(name)
        for _ in range(RUNS - 1):
            if before and not best.exceeds(before, tolerance):
                break
            _, again = self.count(name)
            best = min(best, again, key=lambda counts: counts.program + counts.libraries)
        return pieces, best

    def count(self, name: str) -> tuple[int, Counts]:
        """Run a scenario, and give its pieces and its instructions."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = self.keep or Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            file = (folder / f"callgrind.{name}").resolve()
            # The first dump is what was measured. The file without a number is what came after.
            dump = Path(f"{file}.1")
            dump.unlink(missing_ok=True)
            # These count all threads. `--toggle-collect` would count the calling thread only.
            options = ["--zero-before=*measured", "--dump-after=*measured"]
            options += ["--tool=callgrind", f"--callgrind-out-file={file}"]
            pieces = int(output(self.valgrind, *options, self.program, name))
            if not dump.exists():
                raise CountError("Callgrind did not find the function `measured`.")
            counts = {"program": 0, "libraries": 0}
            with dump.open() as lines:
                for binary, instructions in costs(lines):
                    counts["program" if binary == self.program else "libraries"] += instructions
            if not counts["program"]:
                raise CountError(f"Callgrind counted nothing in {self.program}.")
            return pieces, Counts(**counts)


def costs(lines: Iterator[str]) -> Iterator[tuple[str, int]]:
    """Give the binary and the instructions of each line of costs.

    Source: the callgrind profile format specification in valgrind's manual.
    """
    names: dict[str, str] = {}
    binary = ""
    for line in lines:
        # The first mention of a name numbers it.
        if found := re.match(r"(c?)ob=\((\d+)\)(?: (.*))?$", line):
            names.setdefault(found[2], found[3] or "")
            if not found[1]:
                binary = names[found[2]]
        elif line.startswith("calls="):
            next(lines)  # what the callee took, which its own lines have too
        elif line[0] in "0123456789+-*":
            yield binary, int(line.split()[1])


def row(name: str, pieces: int, now: Counts, before: Counts | None) -> str:
    """Format a row of the table."""
    each = (now.program + now.libraries) / max(pieces, 1)
    text = f"{name:<22}{pieces:>8,}{each:>8,.0f}"
    change = now.change(before) if before else {}
    for field in fields(now):
        then = f"{getattr(before, field.name):,}" if before else "-"
        percent = f"{change[field.name]:+.1f} %" if before else "-"
        text += f"{getattr(now, field.name):>14,}{then:>14}{percent:>9}"
    return text


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CountError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
