"""Several arrays read with the same selections, as the columns of a record batch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

import pyarrow as pa

from zarrow import _zarrow
from zarrow._columns import _type_name
from zarrow._items import check_selections
from zarrow._open import all_opened
from zarrow._options import check_indexing, ends_of_opening, options, watched
from zarrow._stores import awaited

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zarrow._typing import ArrayLike, Indexing, MissingChunks, ProgressCallback, Selection
    from zarrow._zarrow import Canceller, ChunkCache, ReadStats, Selections


@overload
def read_batch(
    arrays: Mapping[str, ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    return_stats: Literal[False] = False,
    threads: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
    progress: bool | ProgressCallback | None = None,
    cache: ChunkCache | None = None,
) -> pa.RecordBatch: ...
@overload
def read_batch(
    arrays: Mapping[str, ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    return_stats: Literal[True],
    threads: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
    progress: bool | ProgressCallback | None = None,
    cache: ChunkCache | None = None,
) -> tuple[pa.RecordBatch, ReadStats]: ...
@overload
def read_batch(
    arrays: Mapping[str, ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    return_stats: bool,
    threads: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
    progress: bool | ProgressCallback | None = None,
    cache: ChunkCache | None = None,
) -> pa.RecordBatch | tuple[pa.RecordBatch, ReadStats]: ...
def read_batch(
    arrays: Mapping[str, ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    return_stats: bool = False,
    threads: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
    progress: bool | ProgressCallback | None = None,
    cache: ChunkCache | None = None,
) -> pa.RecordBatch | tuple[pa.RecordBatch, ReadStats]:
    """Read the same selections of several arrays in one call, into one Arrow record batch.

    The arrays are opened and read all at once, so what is far away takes the time of one. They may
    be chunked each in its own way, and differ in data type and in further axes.

    Parameters
    ----------
    arrays
        The arrays by the names of their columns, each as the `store` of :func:`open_array`. Those
        of one group, whose documents are got at once: ``dict(zarrow.open_group(store).arrays())``.
    selections
        As in :func:`read_ragged`. They must fit each of the arrays, which must agree in length on
        all axes that the selections bound, and in shape where an Ellipsis is not last.
    indexing, missing_chunks, return_stats, threads, memory_limit, storage_options, concurrency, \
    max_gap, timeout, progress, cache
        As in :func:`read_ragged`, for all arrays together; `storage_options` only where each is the
        URL of something remote. What lies beyond an array is that
        array's fill value, where selections are made with ``out_of_bounds="fill"``.

    Returns
    -------
    pyarrow.RecordBatch
        A row for each selection, and a column for each array, in their order: what
        :func:`read_ragged` gives for it. Columns of equal layout share their offsets.
        With ``return_stats=True``, also a :class:`ReadStats` of all columns together.

    Raises
    ------
    SelectionError
        A selection is out of the bounds of an array, or the arrays differ in length.
    TypeError, ValueError
        `arrays` is no mapping of names, or it is empty.
    NotFoundError, StoreError, DecodeError and others
        As :func:`read_ragged`.

    Examples
    --------
    The values and the columns of rows of a sparse matrix in compressed rows:

    >>> import numpy as np, zarr, zarrow
    >>> matrix = zarr.create_group("matrix.zarr")
    >>> _ = matrix.create_array("data", data=np.array([0.5, 1.5, 2.5, 3.5]), chunks=(2,))
    >>> _ = matrix.create_array("indices", data=np.array([0, 7, 3, 1]), chunks=(3,))
    >>> indptr = np.array([0, 1, 1, 4])
    >>> rows = zarrow.ranges(indptr[:-1], indptr[1:])
    >>> columns = {"data": "matrix.zarr/data", "indices": "matrix.zarr/indices"}
    >>> zarrow.read_batch(columns, rows).to_pydict()
    {'data': [[0.5], [], [1.5, 2.5, 3.5]], 'indices': [[0], [], [7, 3, 1]]}
    """
    return _read_batch(
        arrays, selections, indexing=indexing, missing_chunks=missing_chunks,
        return_stats=return_stats, threads=threads, memory_limit=memory_limit,
        storage_options=storage_options, concurrency=concurrency, max_gap=max_gap, timeout=timeout,
        progress=progress, cache=cache,
    )  # fmt: skip


@overload
async def read_batch_async(
    arrays: Mapping[str, ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    return_stats: Literal[False] = False,
    threads: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
    progress: bool | ProgressCallback | None = None,
    cache: ChunkCache | None = None,
) -> pa.RecordBatch: ...
@overload
async def read_batch_async(
    arrays: Mapping[str, ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    return_stats: Literal[True],
    threads: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
    progress: bool | ProgressCallback | None = None,
    cache: ChunkCache | None = None,
) -> tuple[pa.RecordBatch, ReadStats]: ...
@overload
async def read_batch_async(
    arrays: Mapping[str, ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    return_stats: bool,
    threads: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
    progress: bool | ProgressCallback | None = None,
    cache: ChunkCache | None = None,
) -> pa.RecordBatch | tuple[pa.RecordBatch, ReadStats]: ...
async def read_batch_async(
    arrays: Mapping[str, ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    return_stats: bool = False,
    threads: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
    progress: bool | ProgressCallback | None = None,
    cache: ChunkCache | None = None,
) -> pa.RecordBatch | tuple[pa.RecordBatch, ReadStats]:
    """:func:`read_batch`, for the tasks of an event loop, which goes on meanwhile.

    Takes, gives and raises what that does. A task that is cancelled ends its read.

    Examples
    --------
    >>> import asyncio, numpy as np, zarr, zarrow
    >>> x = zarr.create_array("x.zarr", data=np.arange(6), chunks=(4,))
    >>> y = zarr.create_array("y.zarr", data=np.arange(6) / 2, chunks=(3,))
    >>> asyncio.run(zarrow.read_batch_async({"x": x, "y": y}, [np.s_[1:3], np.s_[5:]])).to_pydict()
    {'x': [[1, 2], [5]], 'y': [[0.5, 1.0], [2.5]]}
    """
    return await awaited(
        _read_batch, arrays, selections, indexing=indexing, missing_chunks=missing_chunks,
        return_stats=return_stats, threads=threads, memory_limit=memory_limit,
        storage_options=storage_options, concurrency=concurrency, max_gap=max_gap, timeout=timeout,
        progress=progress, cache=cache,
    )  # fmt: skip


def _read_batch(
    arrays: Mapping[str, ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    indexing: Indexing,
    missing_chunks: MissingChunks,
    return_stats: bool,
    storage_options: Mapping[str, Any] | None,
    progress: bool | ProgressCallback | None,
    cache: ChunkCache | None,
    canceller: Canceller | None = None,
    began: float | None = None,
    **how_to: Any,
) -> Any:
    """Read, until it is done or `canceller` ends it, in a time that `began`."""
    began = time.monotonic() if began is None else began
    ends = ends_of_opening(how_to["timeout"], began, canceller, how_to["concurrency"])
    if not isinstance(arrays, Mapping):
        raise TypeError(
            f"arrays is of type {_type_name(arrays)}; expected a mapping from the names of columns "
            "to arrays, such as {'x': 'points.zarr/x', 'y': 'points.zarr/y'}"
        )
    names = list(arrays)
    if not names:
        raise ValueError("arrays is empty; expected at least one array")
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"arrays has the names {names!r}; expected each to be a str")
    handles = all_opened([arrays[name] for name in names], None, storage_options, watch=ends)
    elapsed = time.monotonic() - began
    mode = check_indexing(indexing)
    asked = check_selections(selections, mode)
    how = options(
        asked, handles[:1], promote=False, missing_chunks=missing_chunks, fill=None, **how_to
    )
    columns = list(zip(names, handles, strict=True))
    with watched(progress, canceller, cache, elapsed) as watch:
        batch, stats = _zarrow._read_batch(columns, asked, mode, how, watch)
    return (batch, stats) if return_stats else batch
