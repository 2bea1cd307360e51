"""What a run found: as results.json holds it, and what follows from it."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .measure import Outcome
from .options import ROOT

if TYPE_CHECKING:
    from .case import Case
    from .environments import Environment
    from .options import Options

Results = dict[str, Any]
Entry = dict[str, Any]  # a workload
Row = dict[str, Any]  # an outcome: a method on a workload


def begin(options: Options, environments: list[Environment]) -> Results:
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
    """Describe what was measured of a workload: zarrow, the limit, peers from the fastest on."""
    names = [each.name for each in fields(Outcome)]
    rows = [
        {name: getattr(outcome, name) for name in (*names, "median", "minimum")}
        for outcome in outcomes
    ]
    kinds = ("zarrow", "limit", "peer")
    rows.sort(key=lambda row: (kinds.index(row["kind"]), rank(row)))
    results = [row["result"] for row in rows if row["result"] and row["share"] == 1]
    return {
        "name": case.name,
        "title": case.title,
        "detail": case.detail,
        "cold": case.cold,
        "selections": case.count,
        "result": max(results, default=None),
        "outcomes": rows,
    }


def rank(row: Row) -> float:
    """Order peers by their time, those that have none last. The others keep their order."""
    return (row["median"] or float("inf")) if row["kind"] == "peer" else 0.0


def named(entry: Entry, method: str) -> Row:
    """Give what was measured of a method, or nothing."""
    nothing = dict.fromkeys(("median", "peak", "result")) | {"method": method}
    return next((row for row in entry["outcomes"] if row["method"] == method), nothing)


def best_peer(entry: Entry) -> Row:
    """Give the fastest peer that read all selections rightly, or nothing."""
    rows = [
        row
        for row in entry["outcomes"]
        if row["kind"] == "peer" and row["median"] and row["equal"] and row["share"] == 1
    ]
    return min(rows, key=lambda row: row["median"], default=named(entry, "-"))


def loop(entry: Entry) -> float | None:
    """Give the time of the fastest loop over the selections with zarr-python."""
    times = [
        row["median"]
        for row in entry["outcomes"]
        if row["method"].endswith("): loop") and row["median"] and row["equal"]
    ]
    return min(times, default=None)


def limit(entry: Entry) -> float | None:
    """Give the least time that a read could take.

    From a cold page cache that is the longer of reading the files and, from memory, decoding them.
    """
    names = ("limit, warm", "parallel read") if entry["cold"] else ("limit",)
    times = [named(entry, name)["median"] for name in names]
    return None if None in times else max(times)
