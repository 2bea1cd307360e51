"""Tables of what was found, in Markdown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from . import results as found

if TYPE_CHECKING:
    from pathlib import Path

    from .results import Entry, Results, Row

NONE = "-"

COLUMNS = (
    "method",
    "median s",
    "min s",
    "first s",
    "runs",
    "peak MB",
    "÷ result",
    "chunks decoded",
    "MB decoded",
    "MB read",
    "÷ best peer",
    "÷ limit",
    "equal",
)

OVERVIEW = (
    "workload",
    "result MB",
    "limit s",
    "zarrow s",
    "÷ limit",
    "fresh s",
    "fresh ÷ limit",
    "peak MB",
    "÷ result",
    "1 thread ÷ {threads}",
    "the limit's",
    "best peer ÷ zarrow",
    "÷ fresh",
    "÷ limit",
    "loop ÷ zarrow",
    "best peer",
)

LEGEND = """\
- Times are of one call: from open arrays, and from selections in memory (NumPy columns for zarrow,
  Python slices for the others), to the result. `median` and `min` leave out the `first` call. The
  methods of a workload ran in turn, round by round.
- `peak`: the most memory that the first call took beyond what the process had before, the result
  included.
- `chunks decoded` and `MB read`: by the counters of zarrow and of TensorStore, by counting calls of
  zarr-python's codecs and the files that zarrs opened, and by the kernel's count of bytes read.
  `MB decoded`: by zarrow's. A `-` is what could not be counted.
- `limit`: a program that reads and decodes each touched chunk once, and copies each piece to its
  place in fresh memory, by a plan that it is given. With a cold page cache, it is the longer of
  that from a warm one and of a parallel read of the chunks. A reader that decodes parts of chunks
  can be faster, and so can one that uses memory again, which the system need not zero.
- `zarrow` uses memory of the last result again, as a loop over results that are dropped does;
  other readers do so by way of malloc, for pieces of up to 32 MiB. `fresh`, or `zarrow, fresh
  memory`: nothing is left of the last result before each call, as where results are kept; that is
  to be compared with the limit, and with readers that make one large array.
- `runs`: zarrow and the limit have three times the time of others, for medians of more calls.
- `equal`: whether the values are those that NumPy takes from the whole array, of the first call
  and, for zarrow and peers that are quick, of one after all rounds.
- `≈`: extrapolated from a sample of the selections.
"""


def table(header: tuple[str, ...], rows: list[list[str]]) -> str:
    """Lay out a table whose columns are aligned in the terminal too, the first to the left."""
    lines = [list(header), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    laid_out = []
    for line in lines:
        first, *others = zip(line, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        laid_out.append(f"| {' | '.join(cells)} |")
    rule = "".join(f"|{'-' * (width + 1)}:" for width in widths[1:])
    laid_out.insert(1, f"|{'-' * (widths[0] + 2)}{rule}|")
    return "\n".join(laid_out)


def ratio(value: float | None, to: float | None) -> str:
    """Format a ratio."""
    if not (value and to):
        return NONE
    return f"{value / to:.2f}" if value < 100 * to else f"{value / to:,.0f}"


def seconds(value: float | None) -> str:
    """Format a time."""
    if value is None:
        return NONE
    return f"{value:.4f}" if value < 10 else f"{value:,.1f}"


def megabytes(value: float | None) -> str:
    """Format a number of bytes."""
    return NONE if value is None else f"{value / 1e6:,.1f}"


def outcome(row: Row, entry: Entry) -> list[str]:
    """Give the line of a method."""
    share = row["share"]
    about = "≈ " if share < 1 else ""
    return [
        row["method"],
        about + seconds(row["median"]),
        about + seconds(row["minimum"]),
        about + seconds(row["first"] / share),
        str(len(row["times"])),
        megabytes(row["peak"]),
        ratio(row["peak"], row["result"]),
        NONE if row["chunks"] is None else f"{row['chunks']:,}",
        megabytes(row["decoded"]),
        NONE if row["read"] is None else about + megabytes(row["read"] / share),
        ratio(row["median"], found.best_peer(entry)["median"]),
        ratio(row["median"], found.limit(entry)),
        {True: "yes", False: "**NO**", None: NONE}[row["equal"]],
    ]


def section(entry: Entry) -> str:
    """Give the table of a workload, and why methods are not in it."""
    measured = [row for row in entry["outcomes"] if row["median"] is not None]
    text = f"## {entry['name']}: {entry['selections']:,} {entry['title']}\n\n{entry['detail']}"
    text += f". Result: {megabytes(entry['result'])} MB.\n" if entry["result"] else ".\n"
    left = [row["resident"] for row in measured if row["resident"] is not None]
    disk = [row["disk"] for row in measured if row["kind"] == "zarrow" and row["disk"] is not None]
    if left and disk:
        text += (
            f"Before each call, all but {max(left):.1%} of the files were out of the page cache;"
            f" zarrow read {megabytes(min(disk))} MB from the disk.\n"
        )
    if measured:
        text += f"\n{table(COLUMNS, [outcome(row, entry) for row in measured])}\n"
    notes = [f"- {row['method']}: {row['note']}\n" for row in entry["outcomes"] if row["note"]]
    return text + ("\nNot measured, or not to the end:\n\n" + "".join(notes) if notes else "")


def line(entry: Entry) -> list[str]:
    """Give the line of a workload."""
    ours, best, least = found.named(entry, "zarrow"), found.best_peer(entry), found.limit(entry)
    fresh = found.named(entry, "zarrow, fresh memory")
    one_thread = [found.named(entry, f"{name}, 1 thread")["median"] for name in ("zarrow", "limit")]
    return [
        entry["name"],
        megabytes(entry["result"]),
        seconds(least),
        seconds(ours["median"]),
        ratio(ours["median"], least),
        seconds(fresh["median"]),
        ratio(fresh["median"], least),
        megabytes(ours["peak"]),
        ratio(ours["peak"], ours["result"]),
        ratio(one_thread[0], ours["median"]),
        ratio(one_thread[1], found.named(entry, "limit")["median"]),
        ratio(best["median"], ours["median"]),
        ratio(best["median"], fresh["median"]),
        ratio(best["median"], least),
        ratio(found.loop(entry), ours["median"]),
        best["method"],
    ]


def overview(results: Results) -> str:
    """Give the table of all workloads."""
    header = tuple(name.format(threads=results["threads"]) for name in OVERVIEW)
    return table(header, [line(entry) for entry in results["workloads"]])


def markdown(results: Results) -> str:
    """Give the whole report."""
    versions = ""
    for name, packages in results["environments"].items():
        named = {
            key: value for key, value in packages.items() if key not in {"python", "zarr-fused"}
        }
        others = ", ".join(f"{key} {value}" for key, value in named.items())
        missing = ", ".join(results["missing"].get(name, ()))
        versions += f"- {name}: Python {packages['python']}, {others}"
        versions += f"; missing: {missing}\n" if missing else "\n"
    about = (
        f"{results['date']}, zarrow at {results['revision']}, scale {results['scale']},"
        f" {results['threads']} threads. {results['machine']}.\n"
    )
    parts = [
        "# zarrow and other readers, measured\n",
        about,
        versions,
        f"{overview(results)}\n",
        LEGEND,
        *map(section, results["workloads"]),
    ]
    return "\n".join(parts)


def save(results: Results, folder: Path) -> None:
    """Write the report, and what it was made from."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    (folder / "results.md").write_text(markdown(results))
