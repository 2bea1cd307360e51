"""The figure of the README, drawn from results.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from . import results as found

INK, GREY, OURS, THEIRS = "#26303d", "#b9c0c9", "#e4572e", "#2e6fb7"
LABELS = ("zarrow", "fastest other reader", "other readers", "loop over z[...]")


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw, for each workload, every reader's time relative to the limit."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    entries = [
        entry
        for entry in results["workloads"]
        if found.limit(entry) and found.named(entry, "zarrow")["median"]
    ]
    if not entries:
        return
    mpl.use("agg")
    style: Any = {"font.size": 9.5, "text.color": INK, "xtick.color": INK, "ytick.color": INK}
    with mpl.rc_context(style | {"axes.edgecolor": GREY, "axes.labelcolor": INK}):
        canvas, axes = plt.subplots(figsize=(9.6, 1.5 + 0.36 * len(entries)), layout="constrained")
        axes.axvline(1, color=INK, lw=1.2, zorder=1)
        for place, entry in enumerate(entries):
            line(axes, place, entry)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
        axes.grid(axis="x", color=GREY, alpha=0.4, lw=0.6)
        axes.set_axisbelow(True)
        labels = [f"{entry['selections']:,} {entry['title']}" for entry in entries]
        axes.set_yticks(range(len(entries)), labels)
        axes.set_ylim(len(entries) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.set_xlabel(
            "time ÷ limit: each touched chunk decoded once, each piece copied once"
            f" ({results['threads']} threads)"
        )
        drawn = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        names = [name for name in LABELS if name in drawn]
        canvas.legend(
            [drawn[name] for name in names],
            names,
            loc="outside upper center",
            ncols=len(names),
            frameon=False,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, dpi=150)
        plt.close(canvas)


def line(axes: Any, place: int, entry: found.Entry) -> None:
    """Draw a workload."""
    least, best = found.limit(entry), found.best_peer(entry)
    assert least is not None
    own = found.named(entry, "zarrow")["median"] / least
    peers = [
        row
        for row in entry["outcomes"]
        if row["kind"] == "peer" and row["median"] and row["equal"] and row is not best
    ]
    loops = [row["median"] / least for row in peers if row["method"].endswith("): loop")]
    others = [row["median"] / least for row in peers if not row["method"].endswith("): loop")]
    every = [own, *loops, *others]
    axes.plot([min(every), max(every)], [place, place], color=GREY, lw=1)
    axes.plot(others, [place] * len(others), "o", color=GREY, ms=4.5, label=LABELS[2])
    axes.plot(
        loops, [place] * len(loops), "o", color=GREY, mfc="white", mew=1.3, ms=5, label=LABELS[3]
    )
    if best["median"]:
        axes.plot(best["median"] / least, place, "o", color=THEIRS, ms=7, label=LABELS[1])
        axes.annotate(
            best["method"],
            (1.01, place),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=8,
            color=THEIRS,
        )
    axes.plot(own, place, "D", color=OURS, ms=7, label=LABELS[0], zorder=3)


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    draw(json.loads(source.read_text()), target)
