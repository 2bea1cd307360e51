"""TensorStore, with its own stores: all selections in one batch."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from ...compare.methods.tensorstore import batch
from ..target import BUCKET, REGION
from .base import Method, Reader

if TYPE_CHECKING:
    from ..target import Target

LIMITS = (32, 256, 1024)  # requests at once; 32 is its default


def start(protocol: str, limit: int, target: Target) -> Reader:
    """Open the arrays in a context of their own, in each call."""
    import tensorstore as ts

    def store(key: str) -> dict[str, Any]:
        if protocol == "http":
            return {"driver": "http", "base_url": f"{target.url}/{key}/"}
        return {
            "driver": "s3",
            "bucket": BUCKET,
            "endpoint": target.url,
            "aws_region": REGION,
            "aws_credentials": {"type": "anonymous"},
            "path": f"{key}/",
        }

    def call() -> Any:
        limits = {f"{protocol}_request_concurrency": {"limit": limit}}
        context = ts.Context({"cache_pool": {"total_bytes_limit": 0}, **limits})
        opening = [
            ts.open(
                {"driver": "zarr3", "kvstore": store(key)}, context=context, open=True, read=True
            )
            for key in target.keys
        ]
        return batch([future.result() for future in opening], target.case)

    return Reader(call)


METHODS = tuple(
    Method(
        f"TensorStore ({protocol}): Batch, limit {limit}",
        "peer",
        ("tensorstore",),
        partial(start, protocol, limit),
        quick=(protocol, limit) in {("http", 256), ("s3", 1024)},
    )
    for protocol, limit in product(("http", "s3"), LIMITS)
)
