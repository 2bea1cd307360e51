"""Tables of what was measured, and the files of them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

from .environments import Environment
from .measure import Outcome
from .options import ROOT, Options
from .workloads import Case

Entry = dict[str, Any]  # a workload as results.json has it
Row = dict[str, Any]  # an outcome, likewise

COLUMNS = (
    "method | median s | min s | first s | runs | peak ÷ result | chunks decoded | MB read"
    " | × best peer | × limit | equal"
)


def begin(options: Options, environments: list[Environment]) -> dict[str, Any]:
    """Describe a run, to which workloads are added."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "scale": options.scale.name,
        "threads": options.threads,
        "machine": machine(),
        "revision": revision(),
        "environments": {
            each.name: {"python": each.version, **each.packages} for each in environments
        },
        "missing": {each.name: list(each.missing) for each in environments if each.missing},
        "workloads": [],
    }


def machine() -> str:
    """Describe the machine."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    processor = names[0] if names else platform.machine()
    return f"{processor}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}"


def revision() -> str:
    """Name the commit that was measured, with a + if files differ from it."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def entry(case: Case, outcomes: list[Outcome]) -> Entry:
    """Describe what was measured of a workload, the fastest peers first."""
    names = [each.name for each in fields(Outcome)]
    order = {"zarrow": 0, "limit": 1, "peer": 2}
    rows = [
        {name: getattr(outcome, name) for name in (*names, "median", "minimum")}
        for outcome in outcomes
    ]
    rows.sort(
        key=lambda row: (
            order[row["kind"]],
            row["kind"] == "peer" and (row["median"] or float("inf")),
        )
    )
    results = [row["result"] for row in rows if row["result"] and row["share"] == 1]
    return {
        "name": case.name,
        "title": case.title,
        "cold": case.cold,
        "selections": case.count,
        "result": max(results, default=None),
        "outcomes": rows,
    }


def named(entry: Entry, method: str) -> Row:
    """Give what was measured of a method, or nothing."""
    rows = (row for row in entry["outcomes"] if row["method"] == method)
    return next(rows, {"median": None, "method": method})


def best_peer(entry: Entry) -> Row:
    """Give the fastest peer whose result was right, or nothing."""
    rows = [
        row
        for row in entry["outcomes"]
        if row["kind"] == "peer" and row["median"] and row["equal"] and row["share"] == 1
    ]
    return min(rows, key=lambda row: row["median"], default={"median": None, "method": "–"})


def limit(entry: Entry) -> float | None:
    """Give the least time that a read could take.

    From a cold page cache that is the longer of reading the files and, from memory, decoding them.
    """
    names = ("limit, warm", "parallel read") if entry["cold"] else ("limit",)
    times = [named(entry, name)["median"] for name in names]
    return None if None in times else max(times)


def ratio(value: float | None, to: float | None, digits: int = 2) -> str:
    """Format a ratio."""
    return f"{value / to:.{digits}f}" if value and to else "–"


def seconds(value: float | None, *, guessed: bool = False) -> str:
    """Format a time."""
    if value is None:
        return "–"
    return f"{'≈ ' if guessed else ''}{value:.{4 if value < 10 else 1}f}"


def table(header: str, rows: list[list[str]]) -> str:
    """Lay out a table in Markdown, whose columns are aligned in the terminal too."""
    cells = [header.split(" | "), *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = [
        " | ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    rule = "|".join("-" * (width + 1) + ("-" if i == 0 else ":") for i, width in enumerate(widths))
    return (
        "\n".join(f"| {line} |" for line in [lines[0]])
        + f"\n|{rule}|\n"
        + "\n".join(f"| {line} |" for line in lines[1:])
    )


def section(entry: Entry) -> str:
    """Give the table of a workload."""
    least, best = limit(entry), best_peer(entry)["median"]
    rows, others = [], []
    for row in entry["outcomes"]:
        if row["median"] is None:
            others.append(f"- {row['method']}: {row['note']}")
            continue
        guessed = row["share"] < 1
        rows.append(
            [
                row["method"],
                seconds(row["median"], guessed=guessed),
                seconds(row["minimum"], guessed=guessed),
                seconds(row["first"] / row["share"], guessed=guessed),
                str(len(row["times"])),
                ratio(row["peak"], row["result"]),
                "–" if row["chunks"] is None else f"{row['chunks']:,}",
                "–" if row["read"] is None else f"{row['read'] / row['share'] / 1e6:,.1f}",
                ratio(row["median"], best),
                ratio(row["median"], least),
                {True: "yes", False: "**NO**", None: "–"}[row["equal"]],
            ]
        )
        if row["note"]:
            others.append(f"- {row['method']}, later: {row['note']}")
    size = f", result {entry['result'] / 1e6:,.1f} MB" if entry["result"] else ""
    text = f"## {entry['name']}: {entry['title']}\n\n{entry['selections']:,} selections{size}.\n"
    left = [row["resident"] for row in entry["outcomes"] if row["resident"] is not None]
    if left:
        text += f"At most {max(left):.1%} of the files' pages were in memory before a call.\n"
    text += f"\n{table(COLUMNS, rows)}\n" if rows else ""
    return text + ("\nNot measured:\n\n" + "\n".join(others) + "\n" if others else "")


def overview(results: dict[str, Any]) -> str:
    """Give the table of all workloads."""
    header = (
        "workload | limit s | zarrow s | × limit | peak ÷ result | 2nd thread: zarrow | limit"
        " | best peer s | × limit | × zarrow | best peer"
    ).replace("2nd thread", "threads help" if results["threads"] != 2 else "2nd thread")
    rows = []
    for entry in results["workloads"]:
        ours, best, least = named(entry, "zarrow"), best_peer(entry), limit(entry)
        scaling = [
            ratio(named(entry, f"{name}, 1 thread")["median"], named(entry, name)["median"])
            for name in ("zarrow", "limit")
        ]
        rows.append(
            [
                entry["name"],
                seconds(least),
                seconds(ours["median"]),
                ratio(ours["median"], least),
                ratio(ours.get("peak"), ours.get("result")),
                *scaling,
                seconds(best["median"]),
                ratio(best["median"], least),
                ratio(best["median"], ours["median"]),
                best["method"],
            ]
        )
    return table(header, rows)


def markdown(results: dict[str, Any]) -> str:
    """Give the whole report."""
    versions = [
        f"- {name}: Python {packages['python']}, "
        + ", ".join(f"{key} {value}" for key, value in packages.items() if key != "python")
        + (
            f"; missing: {', '.join(results['missing'][name])}"
            if name in results["missing"]
            else ""
        )
        for name, packages in results["environments"].items()
    ]
    return "\n".join(
        [
            "# zarrow and other readers, measured",
            "",
            f"{results['date']}, zarrow at {results['revision']}, scale {results['scale']}, "
            f"{results['threads']} threads. {results['machine']}.",
            "",
            *versions,
            "",
            overview(results),
            "",
            *(section(entry) for entry in results["workloads"]),
        ]
    )


def save(results: dict[str, Any], folder: Path) -> None:
    """Write the report, and what it was made from."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    (folder / "results.md").write_text(markdown(results))
