"""Tables of what was found, in Markdown."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..compare.report import NONE, megabytes, ratio, seconds, table

if TYPE_CHECKING:
    from pathlib import Path

    from .measure import Outcome

Results = dict[str, Any]
Row = dict[str, Any]

COLUMNS = (
    "method",
    "median s",
    "first s",
    "runs",
    "÷ best peer",
    "÷ ideal",
    "GET",
    "HEAD",
    "distinct",
    "MB",
    "in flight",
    "average",
    "connections",
    "peak MB",
    "stall ms",
    "worst",
    "held ms",
    "equal",
)

LEGEND = """\
- Times are of one call: opening the arrays, and reading all selections. `median` leaves out the
  `first` call, in which connections are made too. Server and reader share the cores.
- `÷ ideal`: the fastest ideal of the same condition. `ideal: N in flight`: a client that knows
  where everything is fetches it, N requests at a time, and then the limit of benches/compare
  decodes it. Whoever decodes while fetching can be faster.
- `GET`, `HEAD`, `MB`, `in flight` (the most), `average` (from the first request to the last) and
  `connections` (the most open) are the server's counts of the last timed call; `distinct` are the
  different ranges asked for.
- `peak`: the most memory that the first call took beyond what the process had before, the result
  included.
- `stall`: the longest time for which another thread of Python, which sleeps for a millisecond and
  again, was kept from running in a call; the median of some more calls, and the `worst` of them.
  For the ideal, a thread of a process that waits, in all calls.
  `held`: the same of a thread that goes before all others (`SCHED_FIFO`), so that it does not wait
  for its turn, but for locks, for those who have them, and for the kernel. What turns cost on this
  machine stands above.
- `equal`: whether the values are those that NumPy takes from the whole array.
- `≈`: extrapolated from a sample of the selections.
"""


def as_row(outcome: Outcome) -> Row:
    """Describe an outcome."""
    return asdict(outcome) | {"median": outcome.median}


def best(rows: list[Row], kind: str) -> float | None:
    """Give the shortest time of a kind of method, of right results of all selections."""
    times = [
        row["median"]
        for row in rows
        if row["kind"] == kind and row["median"] and row["equal"] is not False and row["share"] == 1
    ]
    return min(times, default=None)


def line(row: Row, rows: list[Row]) -> list[str]:
    """Give the line of a method under a condition."""
    about = "≈ " if row["share"] < 1 else ""
    counts = row["counts"]

    def count(name: str, form: str = ",.0f") -> str:
        return format(counts[name], form) if counts else NONE

    return [
        row["method"],
        about + seconds(row["median"]),
        about + seconds(None if row["first"] is None else row["first"] / row["share"]),
        str(len(row["times"])),
        ratio(row["median"], best(rows, "peer")),
        ratio(row["median"], best(rows, "ideal")),
        count("get"),
        count("head"),
        count("distinct"),
        megabytes(counts.get("bytes")),
        count("most_in_flight"),
        count("average_in_flight", ".1f"),
        count("most_connections"),
        megabytes(row["peak"]),
        milliseconds(statistics.median(stalls) if (stalls := row["stalls"]) else None),
        milliseconds(max(row["stalls"], default=None)),
        milliseconds(row["held"]),
        {True: "yes", False: "**NO**", None: NONE}[row["equal"]],
    ]


def milliseconds(value: float | None) -> str:
    """Format seconds as milliseconds."""
    return NONE if value is None else f"{value * 1e3:.1f}"


def order(row: Row) -> tuple[int, float]:
    """Put zarrow first, then the ideals, then peers from the fastest on."""
    kinds = ("zarrow", "ideal", "peer")
    rank = (row["median"] or float("inf")) if row["kind"] == "peer" else 0.0
    return kinds.index(row["kind"]), rank


def section(entry: dict[str, Any], condition: str) -> str:
    """Give the table of a workload under a condition, and why methods are not in it."""
    rows = sorted((row for row in entry["rows"] if row["condition"] == condition), key=order)
    measured = [row for row in rows if row["median"] is not None]
    text = f"### {entry['name']} at {condition}\n\n"
    text += f"{table(COLUMNS, [line(row, rows) for row in measured])}\n"
    notes = [f"- {row['method']}: {row['note']}\n" for row in rows if row["note"]]
    return text + ("\nNot measured, or not to the end:\n\n" + "".join(notes) if notes else "")


def overview(entry: dict[str, Any], conditions: list[str]) -> str:
    """Give the median times of a workload, a column for each condition."""
    times: dict[str, dict[str, str]] = {}
    for row in sorted(entry["rows"], key=order):
        about = "≈ " if row["share"] < 1 else ""
        cell = about + seconds(row["median"])
        times.setdefault(row["method"], {})[row["condition"]] = cell
    lines = [[name, *(of.get(each, NONE) for each in conditions)] for name, of in times.items()]
    return table(("median s", *conditions), [cells for cells in lines if set(cells[1:]) != {NONE}])


def workload(entry: dict[str, Any], conditions: list[str]) -> str:
    """Give all that was found of a workload."""
    title = f"## {entry['name']}: {entry['selections']:,} {entry['title']}\n\n{entry['detail']}"
    title += f". Decoding alone takes {seconds(entry['decode'])} s.\n"
    parts = [title, f"{overview(entry, conditions)}\n"]
    return "\n".join([*parts, *(section(entry, each) for each in conditions)])


def turns(stalls: dict[str, float]) -> str:
    """Say how long a waiting thread waits for its turn beside busy processes."""
    beside = ", ".join(f"{milliseconds(stall)} beside {busy}" for busy, stall in stalls.items())
    return (
        "A thread that sleeps for a millisecond, and again, for half a second, waits for its turn"
        " beside processes that are busy with nothing; the median of its longest waits, in ms:"
        f" {beside}.\n"
    )


def markdown(results: Results) -> str:
    """Give the whole report."""
    packages = ", ".join(
        f"{name} {version}"
        for name, version in results["packages"].items()
        if name not in {"python", "zarr-fused"}
    )
    about = (
        f"{results['date']}, zarrow at {results['revision']}, scale {results['scale']},"
        f" {results['threads']} threads. {results['machine']}."
    )
    parts = [
        "# Reads from an object store, measured\n",
        about,
        f"Python {results['packages']['python']}, {packages}.\n",
        turns(results["turns"]),
        LEGEND,
        *(workload(entry, results["conditions"]) for entry in results["workloads"]),
    ]
    return "\n".join(parts)


def save(results: Results, folder: Path) -> None:
    """Write the report, and what it was made from."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    (folder / "results.md").write_text(markdown(results))
