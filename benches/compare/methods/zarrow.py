"""zarrow itself, from Python, selections as NumPy has them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .base import Method, Reader

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..case import Case


def start(case: Case, threads: int) -> Reader:
    """Open the arrays. Each call makes the selections, and reads into pyarrow arrays."""
    import zarrow

    arrays = [zarrow.open_array(path) for path in case.paths]
    starts, stops = case.starts, case.stops
    if case.ndim == 1:
        starts, stops = starts[:, 0].copy(), stops[:, 0].copy()
        select: Any = zarrow.ranges
    else:
        select = zarrow.boxes

    def call() -> Any:
        chosen = select(starts, stops)
        return [
            zarrow.read_ragged(array, chosen, threads=threads, return_stats=True)
            for array in arrays
        ]

    for array in arrays:
        values(zarrow.read_ragged(array, select(starts[:1], stops[:1]), threads=threads))
    return Reader(call, lambda result: [values(lists) for lists, _ in result], stats=stats)


def values(lists: Any) -> NDArray[Any]:
    """Give the innermost values of nested lists, without a copy."""
    while hasattr(lists, "values"):
        lists = lists.values
    return lists.to_numpy()  # type: ignore[no-any-return]


def stats(result: Any) -> dict[str, int]:
    """Say what the reads did, in zarrow's own words."""
    every = [stats for _, stats in result]
    return {
        "chunks": sum(stats.chunks_decoded for stats in every),
        "decoded": sum(stats.bytes_decoded for stats in every),
        "bytes": sum(stats.bytes_fetched for stats in every),
    }


def single(case: Case, _threads: int) -> Reader:
    """Start with one thread."""
    return start(case, 1)


def fresh(case: Case, threads: int) -> Reader:
    """Start with nothing left of earlier results, as where each result is kept."""
    import zarrow

    return replace(start(case, threads), before=zarrow.release_unused)


METHODS = (
    Method("zarrow", "zarrow", ("zarrow",), start),
    Method("zarrow, fresh memory", "zarrow", ("zarrow",), fresh),
    Method("zarrow, 1 thread", "zarrow", ("zarrow",), single),
)
