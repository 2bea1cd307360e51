"""The figure of the README, drawn from results.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from . import results as found


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
    ink, grey, ours, theirs = "#26303d", "#c3c9d1", "#e4572e", "#2e6fb7"
    style: Any = {"font.size": 9.5, "text.color": ink, "axes.edgecolor": grey, "ytick.color": ink}
    with mpl.rc_context(style | {"xtick.color": ink, "axes.labelcolor": ink}):
        canvas, axes = plt.subplots(figsize=(8.6, 1.5 + 0.36 * len(entries)), layout="constrained")
        for place, entry in enumerate(entries):
            least = found.limit(entry)
            assert least is not None
            times = [
                row["median"] / least
                for row in entry["outcomes"]
                if row["kind"] == "peer" and row["median"] and row["equal"]
            ]
            own = found.named(entry, "zarrow")["median"] / least
            axes.plot([min([own, *times]), max([own, *times])], [place] * 2, color=grey, lw=1)
            axes.plot(times, [place] * len(times), "o", color=grey, ms=4.5, label="other readers")
            best = found.best_peer(entry)
            if best["median"]:
                axes.plot(best["median"] / least, place, "o", color=theirs, ms=7, label="fastest")
                axes.annotate(
                    best["method"],
                    (1.01, place),
                    xycoords=("axes fraction", "data"),
                    va="center",
                    fontsize=8,
                    color=theirs,
                )
            axes.plot(own, place, "D", color=ours, ms=7, label="zarrow", zorder=3)
        axes.axvline(1, color=ink, lw=1.2, zorder=1)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
        axes.grid(axis="x", color=grey, alpha=0.4, lw=0.6)
        axes.set_axisbelow(True)
        axes.set_yticks(range(len(entries)), [entry["name"] for entry in entries])
        axes.set_ylim(len(entries) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.set_xlabel("time relative to decoding each touched chunk once and placing each piece")
        shown = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        order = ["zarrow", "fastest", "other readers"]
        labels = {"fastest": "fastest other reader (its name at the right)"}
        names = [name for name in order if name in shown]
        canvas.legend(
            [shown[name] for name in names],
            [labels.get(name, name) for name in names],
            loc="outside upper left",
            ncols=3,
            frameon=False,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, dpi=150)
        plt.close(canvas)


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    draw(json.loads(source.read_text()), target)
