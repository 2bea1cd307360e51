"""anndata and annbatch: readers of sparse matrices, on zarr-python's pipelines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .base import Facts, Method, Reader
from .zarr_python import NEEDS, counting, use_pipeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..case import Case

ReadRows = Callable[["NDArray[np.int64]"], Any]


def anndata_rows(matrix: Any) -> ReadRows:
    """Index the sparse dataset with an array of rows."""
    return lambda rows: matrix[rows]


def annbatch_rows(matrix: Any) -> ReadRows:
    """Let a loader load the rows as one batch."""
    import annbatch
    from annbatch.abc import Sampler

    class Given(Sampler):  # type: ignore[misc]
        rows: NDArray[np.int64]
        shuffle = False

        @property
        def batch_size(self) -> int:
            return len(self.rows)

        def n_batches(self, _: int) -> int:
            return 1

        def validate(self, _: int) -> None:
            pass

        def _sample(self, _: int) -> Iterator[dict[str, Any]]:
            yield {"requests": self.rows, "splits": [np.arange(len(self.rows))]}

    sampler = Given()
    loader = annbatch.Loader(batch_sampler=sampler, preload_to_gpu=False)
    loader.add_dataset(matrix)

    def read(rows: NDArray[np.int64]) -> Any:
        sampler.rows = rows
        return next(iter(loader))["X"]

    return read


def start(rows_of: Callable[[Any], ReadRows], pipeline: str, case: Case, _threads: int) -> Reader:
    """Open the matrix, with a pipeline, and read its row pointers."""
    import zarr
    from anndata.io import sparse_dataset

    use_pipeline(pipeline)
    group = zarr.open_group(str(Path(case.paths[0]).parent), mode="r")
    read = rows_of(sparse_dataset(group))
    rows = case.rows
    assert rows is not None
    read(rows[:1])

    def call() -> Any:
        return read(rows)

    def count() -> int:
        with counting(group["data"]) as decoded:
            call()
        return len(decoded)

    return Reader(call, values, count=None if pipeline == "zarrs" else count)


def values(matrix: Any) -> list[NDArray[Any]]:
    """Give the values and columns of the rows."""
    return [matrix.data, matrix.indices.astype(np.int32, copy=False)]


def refuses(facts: Facts) -> str | None:
    """Refuse all but sparse matrices."""
    return None if facts.csr else ""


METHODS = tuple(
    Method(
        f"{package} ({pipeline})",
        "peer",
        (package, "scipy", *NEEDS[pipeline]),
        partial(start, rows_of, pipeline),
        refuses,
        quick=(package, pipeline) in {("anndata", "fused"), ("annbatch", "zarrs")},
        opens=pipeline == "zarrs",
    )
    for package, rows_of in (("anndata", anndata_rows), ("annbatch", annbatch_rows))
    for pipeline in NEEDS
)
