"""TensorStore, with its own drivers for Zarr."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .base import Method, Reader, one_axis, too_many
from .zarr_python import indices

if TYPE_CHECKING:
    from ..case import Case

CACHE = 2_000_000_000
Read = Callable[[list[Any], "Case"], Any]


def open_all(case: Case, cache: int) -> list[Any]:
    """Open the arrays in a context of their own, that shares nothing with earlier ones."""
    import tensorstore as ts

    context = ts.Context({"cache_pool": {"total_bytes_limit": cache}})
    opening = []
    for path in case.paths:
        driver = "zarr3" if Path(path, "zarr.json").exists() else "zarr"
        spec = {"driver": driver, "kvstore": {"driver": "file", "path": path}}
        opening.append(ts.open(spec, context=context, open=True, read=True))
    return [future.result() for future in opening]


def requests(arrays: list[Any], case: Case) -> Any:
    """Request every selection on its own, all at once."""
    futures = [[array[box].read() for box in case.slices] for array in arrays]
    return [[future.result() for future in each] for each in futures]


def batch(arrays: list[Any], case: Case) -> Any:
    """Request every selection in one batch, in which reads of one chunk are joined."""
    import tensorstore as ts

    with ts.Batch() as joined:
        futures = [[array[box].read(batch=joined) for box in case.slices] for array in arrays]
    return [[future.result() for future in each] for each in futures]


def index(arrays: list[Any], case: Case) -> Any:
    """Read all elements by their indices, in one request."""
    wanted = indices(case)
    futures = [array[wanted].read() for array in arrays]
    return [future.result() for future in futures]


def whole(arrays: list[Any], case: Case) -> Any:
    """Read the whole array, then slice it."""
    results = []
    for array in arrays:
        everything = array[...].read().result()
        results.append([everything[box].copy() for box in case.slices])
        del everything
    return results


def start(read: Read, cache: int, case: Case, _threads: int) -> Reader:
    """Open the arrays. With a cache, each call opens them anew: the last call's chunks are gone."""
    import tensorstore as ts

    boxes = case.slices  # made here, not in the first call
    arrays = open_all(case, 0)
    for array in arrays:
        array[boxes[0]].read().result()

    def opened() -> list[Any]:
        return open_all(case, cache) if cache else arrays

    def call() -> Any:
        return read(opened(), case)

    def count() -> int:
        ready = opened()
        before = entries_read(ts)
        read(ready, case)
        return entries_read(ts) - before - sum(shards(array, case) for array in ready)

    return Reader(call, count=count)


def entries_read(ts: Any) -> int:
    """Give what its caches decoded so far, by TensorStore's own count: chunks and shard indices."""
    metrics = ts.experimental_collect_matching_metrics("/tensorstore/cache/kvs_cache_read")
    values = [value for metric in metrics for value in metric["values"]]
    return sum(int(value["value"]) for value in values if value["category"] == "changed")


def shards(array: Any, case: Case) -> int:
    """Give the number of shards that selections touch, each of which has an index to decode."""
    layout = array.chunk_layout
    shard = np.array(layout.write_chunk.shape)
    if tuple(shard) == tuple(layout.read_chunk.shape):
        return 0
    touched = np.concatenate([case.starts // shard, (case.stops - 1) // shard])
    return len(np.unique(touched, axis=0))


METHODS = tuple(
    Method(f"TensorStore: {name}", "peer", ("tensorstore",), partial(start, *how), refuses, quick)
    for name, how, refuses, quick in (
        ("reads, no cache", (requests, 0), too_many, False),
        ("reads, cache", (requests, CACHE), too_many, True),
        ("Batch, no cache", (batch, 0), too_many, True),
        ("Batch, cache", (batch, CACHE), too_many, False),
        ("index array, cache", (index, CACHE), one_axis, False),
        ("index array, no cache", (index, 0), one_axis, False),
        ("whole array", (whole, 0), lambda _: None, False),
    )
)
