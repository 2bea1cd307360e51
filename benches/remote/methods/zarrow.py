"""zarrow itself, with its defaults."""

from __future__ import annotations

import asyncio
import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

from ...compare.methods.zarrow import values
from ..target import BUCKET
from .base import Method, Reader

if TYPE_CHECKING:
    from ..target import Target


def start(protocol: str, at_once: bool, target: Target) -> Reader:
    """Read all arrays in one call, or each in one of its own, awaited together."""
    zarrow: Any = importlib.import_module("zarrow")
    starts, stops = target.case.starts, target.case.stops
    if target.case.ndim == 1:
        starts, stops, select = starts[:, 0].copy(), stops[:, 0].copy(), zarrow.ranges
    else:
        select = zarrow.boxes

    def places() -> list[tuple[str, dict[str, str] | None]]:
        if protocol == "http":
            return [(f"{target.url}/{key}", None) for key in target.keys]
        return [(f"s3://{BUCKET}/{key}", target.s3_options()) for key in target.keys]

    def call() -> Any:
        chosen = select(starts, stops)
        found = places()
        if len(found) == 1:
            [(place, options)] = found
            return [zarrow.read_ragged(place, chosen, storage_options=options)]
        columns = {place: place for place, _ in found}
        return zarrow.read_batch(columns, chosen, storage_options=found[0][1]).columns

    def call_at_once() -> Any:
        chosen = select(starts, stops)

        async def read() -> list[Any]:
            reads = [
                zarrow.read_ragged_async(place, chosen, storage_options=options)
                for place, options in places()
            ]
            return await asyncio.gather(*reads)

        return asyncio.run(read())

    return Reader(
        call_at_once if at_once else call, lambda result: [values(lists) for lists in result]
    )


METHODS = tuple(
    Method(name, "zarrow", ("zarrow",), partial(start, protocol, at_once))
    for name, protocol, at_once in (
        ("zarrow (http)", "http", False),
        ("zarrow (http): async", "http", True),
        ("zarrow (s3)", "s3", False),
    )
)
