"""The workloads, and what the right answer to each is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from . import data
from .case import Case, digest
from .selections import (
    Select,
    aligned,
    csr_rows,
    in_one_shard,
    overlapping,
    shuffled,
    spread,
    squares,
    thin_boxes,
    tiny_ranges,
    windows,
)

if TYPE_CHECKING:
    from pathlib import Path

    from .case import Ints
    from .options import Scale

REVISION = "1"  # changes with the selections, so that older ones are made again


@dataclass(frozen=True, slots=True)
class Workload:
    """What is measured: a data set, and selections of it."""

    name: str
    title: str  # follows their number
    detail: str
    dataset: str
    select: Select
    seed: int
    arrays: tuple[str, ...] = ("a.zarr",)
    cold: bool = False


CSR = ("x.zarr/data", "x.zarr/indices")
SERIES = "float64, zstd, chunks of 100,000"
MATRIX = "float32 and int32, zstd, shards of 128 subchunks of 32,768"
SIGNAL = "float32, chunks of 1,000,000"
PIXELS = "uint16, zstd, chunks of 512 by 512"
crops = squares(2_000, 16, 128)
small_crops = squares(200_000, 8, 40)
in_order, in_any_order, in_blocks = csr_rows("sorted"), csr_rows("shuffled"), csr_rows("blocks")

ALL = (
    Workload(
        "W1b", "whole chunks of a series", "float64, zstd, chunks of 195,313", "line", aligned, 21
    ),
    Workload(
        "W2-sorted",
        "ranges of a series, in order",
        f"1 to 2,000 elements; {SERIES}",
        "ranges",
        spread,
        22,
    ),
    Workload(
        "W2-shuffled",
        "ranges of a series, shuffled",
        f"1 to 2,000 elements; {SERIES}",
        "ranges",
        shuffled,
        22,
    ),
    Workload("W3", "crops of an image", f"sides of 16 to 128; {PIXELS}", "image", crops, 23),
    Workload("W4-sorted", "rows of a CSR matrix, in order", MATRIX, "cells", in_order, 24, CSR),
    Workload(
        "W4-shuffled", "rows of a CSR matrix, shuffled", MATRIX, "cells", in_any_order, 24, CSR
    ),
    Workload(
        "W4-blocks", "rows of a CSR matrix, in blocks of 32", MATRIX, "cells", in_blocks, 24, CSR
    ),
    Workload(
        "W5", "small crops of an image", f"sides of 8 to 40; {PIXELS}", "image", small_crops, 25
    ),
    Workload(
        "W6",
        "windows of a Zarr v2 array, blosc",
        f"1,000 elements; {SIGNAL}, lz4 with shuffle",
        "trace_blosc",
        windows,
        26,
    ),
    Workload(
        "W7-windows",
        "windows of an uncompressed array",
        f"1,000 elements; {SIGNAL}",
        "trace_raw",
        windows,
        26,
    ),
    Workload(
        "W7-crops",
        "crops of an uncompressed image",
        "sides of 16 to 128; uint16, chunks of 1,024 by 1,024",
        "image_raw",
        crops,
        27,
    ),
    Workload(
        "W8", "tiny ranges of a series", f"1 to 20 elements; {SERIES}", "ranges", tiny_ranges, 28
    ),
    Workload(
        "W9",
        "overlapping windows of a series",
        f"1,000 elements, 100 apart; {SERIES}",
        "ranges",
        overlapping,
        29,
    ),
    Workload(
        "W10",
        "thin boxes of a 4-D array",
        "one element on one axis; uint16, zstd, chunks of 4, 4, 32, 32",
        "volume",
        thin_boxes,
        30,
    ),
    Workload(
        "W11",
        "ranges in one hot shard",
        "1 to 2,000 elements; float32, zstd, shards of 64 MiB, subchunks of 32,768",
        "shards",
        in_one_shard,
        31,
    ),
    Workload(
        "W1b-cold",
        "whole chunks of a series, from disk",
        "as W1b, page cache dropped",
        "line",
        aligned,
        21,
        cold=True,
    ),
    Workload(
        "W3-cold",
        "crops of an image, from disk",
        "as W3, page cache dropped",
        "image",
        crops,
        23,
        cold=True,
    ),
)
WORKLOADS = {workload.name: workload for workload in ALL}


def ensure(workload: Workload, folder: Path, scale: Scale) -> Case:
    """Give the case of a workload, with data and selections made now if need be."""
    source = data.ensure(workload.dataset, folder, scale.factor)
    selected = folder / "selections" / f"{workload.name.removesuffix('-cold')}.npz"
    mark = f"{REVISION} {data.REVISION} {scale.factor} {scale.sample}"
    paths = [str(source / name) for name in workload.arrays]
    if not selected.exists() or str(np.load(selected)["mark"]) != mark:
        rng = np.random.default_rng(workload.seed)
        starts, stops, *rows = workload.select(rng, scale.factor, source)
        count = len(starts)
        sample = np.linspace(0, count - 1, min(scale.sample, count)).astype(np.int64)
        named: dict[str, Any] = answers(paths, starts, stops, sample)
        if rows:
            named["rows"] = rows[0]
        selected.parent.mkdir(exist_ok=True)
        np.savez(selected, mark=mark, starts=starts, stops=stops, sample=sample, **named)
    return Case(workload.name, workload.title, workload.detail, workload.cold, paths, str(selected))


def answers(paths: list[str], starts: Ints, stops: Ints, sample: Ints) -> dict[str, str]:
    """Hash what NumPy gives for the selections on whole arrays: for all, and for a sample."""
    everything, some = [], []
    for path in paths:
        whole = np.asarray(zarr.open_array(path, mode="r")[...])
        boxes = zip(starts.tolist(), stops.tolist(), strict=True)
        pieces = [whole[tuple(map(slice, a, b))].reshape(-1) for a, b in boxes]
        everything.append(np.concatenate(pieces))
        some.append(np.concatenate([pieces[i] for i in sample]))
    return {"reference": digest(everything), "sample_reference": digest(some)}
