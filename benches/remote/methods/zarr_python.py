"""zarr-python, with each of its pipelines and stores."""

from __future__ import annotations

import asyncio
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

from ...compare.methods.zarr_python import (
    NEEDS,
    Read,
    gathered,
    indices,
    joined,
    loop,
    use_pipeline,
)
from .base import Method, Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...compare.case import Case
    from ..target import Target

AT_ONCE = 256
STORES = {"obstore": ("obstore",), "fsspec": ("fsspec", "aiohttp")}


def gather(z: Any, case: Case) -> list[Any]:
    """Read all selections concurrently."""
    return gathered(z, case.slices)


def index(z: Any, case: Case) -> Any:
    """Read all elements by their indices."""
    return z.oindex[indices(case),]


def start(read: Read, pipeline: str, store: str, concurrency: int | None, target: Target) -> Reader:
    """Choose pipeline and store. Each call opens the arrays anew."""
    import zarr

    warnings.simplefilter("ignore")
    use_pipeline(pipeline)
    if concurrency is not None:
        zarr.config.set({"async.concurrency": concurrency})
    if store == "obstore":
        from obstore.store import HTTPStore

        client = HTTPStore(target.url, client_options={"allow_http": True})
        opened: Any = zarr.storage.ObjectStore(client, read_only=True)
    else:
        opened = zarr.storage.FsspecStore.from_url(target.url, read_only=True)
    case = target.case

    def read_one(key: str) -> Any:
        return read(zarr.open_array(opened, path=key, mode="r", zarr_format=3), case)

    def call() -> Any:
        if len(target.keys) == 1:
            return [read_one(target.keys[0])]

        # zarr-python's loop runs in a thread of its own: reads of several threads run together.
        async def all_of_them() -> list[Any]:
            return await asyncio.gather(*(asyncio.to_thread(read_one, key) for key in target.keys))

        return asyncio.run(all_of_them())

    return Reader(call)


def methods() -> Iterator[Method]:
    """Give all methods of a library."""
    for pipeline, store, name, read, concurrency, one_axis, quick in (
        ("default", "obstore", "loop", loop, None, False, True),
        ("default", "obstore", "gather", gather, None, False, False),
        ("default", "fsspec", "gather", gather, None, False, False),
        ("default", "obstore", "joined slices, 256", joined, AT_ONCE, True, False),
        ("default", "fsspec", "joined slices, 256", joined, AT_ONCE, True, False),
        ("default", "obstore", "integer index, 256", index, AT_ONCE, True, False),
        ("default", "fsspec", "integer index, 256", index, AT_ONCE, True, False),
        ("fused", "obstore", "gather", gather, None, False, True),
        ("fused", "fsspec", "gather", gather, None, False, True),
        ("fused", "obstore", "joined slices, 256", joined, AT_ONCE, True, True),
        ("fused", "fsspec", "joined slices, 256", joined, AT_ONCE, True, False),
        ("fused", "obstore", "integer index, 256", index, AT_ONCE, True, True),
        ("fused", "fsspec", "integer index, 256", index, AT_ONCE, True, False),
        ("zarrs", "obstore", "gather", gather, None, False, False),
        ("zarrs", "obstore", "joined slices", joined, None, True, True),
    ):
        yield Method(
            f"zarr ({pipeline}, {store}): {name}",
            "peer",
            (*NEEDS[pipeline], *STORES[store]),
            partial(start, read, pipeline, store, concurrency),
            one_axis,
            quick=quick,
            sampled=read is loop,
        )


METHODS = tuple(methods())
