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
    """Read array by array, or all of them at once, awaited."""
    zarrow: Any = importlib.import_module("zarrow")
    starts, stops = target.case.starts, target.case.stops
    if target.case.ndim == 1:
        starts, stops, select = starts[:, 0].copy(), stops[:, 0].copy(), zarrow.ranges
    else:
        select = zarrow.boxes

    def opened() -> list[Any]:
        if protocol == "http":
            return [zarrow.open_array(f"{target.url}/{key}") for key in target.keys]
        options = target.s3_options()
        return [
            zarrow.open_array(f"s3://{BUCKET}/{key}", storage_options=options)
            for key in target.keys
        ]

    def call() -> Any:
        chosen = select(starts, stops)
        return [zarrow.read_ragged(array, chosen) for array in opened()]

    def call_at_once() -> Any:
        chosen = select(starts, stops)

        async def read() -> list[Any]:
            reads = [zarrow.read_ragged_async(array, chosen) for array in opened()]
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
