"""The functions that read: what a caller may pass is sorted out here, then Rust takes over."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import pyarrow as pa

from zarrow import _zarrow
from zarrow._columns import _column, _type_name
from zarrow._items import check_selections, settled
from zarrow._open import all_opened
from zarrow._options import check_indexing, check_promote, ends_of_opening, options, watched
from zarrow._stores import awaited
from zarrow._zarrow import Array, Selections
from zarrow.errors import SelectionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zarrow._typing import (
        ArrayLike,
        Indexing,
        Integers,
        MissingChunks,
        ProgressCallback,
        Selection,
    )
    from zarrow._zarrow import Canceller, ChunkCache, Plan, ReadStats


@overload
def read_ragged(
    array: ArrayLike | Sequence[ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    path: str | None = None,
    sources: Integers | None = None,
    promote: bool = False,
    fields: Sequence[str] | None = None,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    fill: Any = None,
    return_stats: Literal[False] = False,
    threads: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
    progress: bool | ProgressCallback | None = None,
    cache: ChunkCache | None = None,
) -> pa.Array: ...
@overload
def read_ragged(
    array: ArrayLike | Sequence[ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    path: str | None = None,
    sources: Integers | None = None,
    promote: bool = False,
    fields: Sequence[str] | None = None,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    fill: Any = None,
    return_stats: Literal[True],
    threads: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
    progress: bool | ProgressCallback | None = None,
    cache: ChunkCache | None = None,
) -> tuple[pa.Array, ReadStats]: ...
@overload
def read_ragged(
    array: ArrayLike | Sequence[ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    path: str | None = None,
    sources: Integers | None = None,
    promote: bool = False,
    fields: Sequence[str] | None = None,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    fill: Any = None,
    return_stats: bool,
    threads: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
    progress: bool | ProgressCallback | None = None,
    cache: ChunkCache | None = None,
) -> pa.Array | tuple[pa.Array, ReadStats]: ...
def read_ragged(
    array: ArrayLike | Sequence[ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    path: str | None = None,
    sources: Integers | None = None,
    promote: bool = False,
    fields: Sequence[str] | None = None,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    fill: Any = None,
    return_stats: bool = False,
    threads: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
    progress: bool | ProgressCallback | None = None,
    cache: ChunkCache | None = None,
) -> pa.Array | tuple[pa.Array, ReadStats]:
    """Read many selections of an array, or of several, into one Arrow array with a row for each.

    Every chunk is fetched once and decoded once, on many threads, however many selections touch it.

    Parameters
    ----------
    array
        As the `store` of :func:`open_array`. Or a list of them, together with `sources`; they may
        differ in shape, chunks and codecs, but not in number of axes, nor, without `promote`, in
        data type.
    selections
        A list, or any iterable, of selections. One selection is a tuple of slices, integers,
        ``...``, ``None`` (a new axis), index arrays and masks, or one such item alone;
        ``numpy.s_`` writes them well. The meaning is NumPy's: negative indices count from the end,
        slices are clipped, axes that are not named are whole, and an integer drops its axis. In
        the place of a whole selection, ``None`` makes a null row, and a
        ``zarr_indexing.IndexTransform`` with an output for each axis gives a row of the shape of
        its domain, whatever `indexing` is, and refuses negative indices. All selections of a call
        keep the same number of axes. Where the selections are columns of numbers, :func:`ranges`,
        :func:`boxes`, :func:`windows`, :func:`rows` and :func:`indices` are faster.
    path
        Where the array lies in the store. Only where `array` is the path of a store.
    sources
        Of several arrays, the number of the one that each selection reads from, shape ``(n,)``.
    promote
        Whether the data types of several arrays may differ. The result has the type that
        ``numpy.result_type`` gives, provided that it holds all their values exactly.
    fields
        The names of the fields to read of a structured data type, in this order. None: all.
    indexing
        What several index arrays in one selection mean. ``"orthogonal"``: each selects along its
        own axis, as Zarr's ``oindex``. ``"pointwise"``: together they are coordinates, as in
        NumPy and Zarr's ``vindex``; a bare array or table of shape ``(n, ndim)`` in the list holds
        the coordinates of n points. Only with a list of selections.
    missing_chunks
        What becomes of chunks that the store does not hold: ``"fill"`` (the array's fill value),
        ``"null"`` or ``"error"``.
    fill
        The value beyond the array, which the data type of the result must hold exactly: a number,
        a time, bytes, a str, a tuple for a record. Only where ``out_of_bounds="fill"``. None: the
        array's fill value.
    return_stats
        Whether to give back what the read did as well.
    threads
        How many threads fetch and decode, 1 to 1024. None: as many as this process may run at
        once, by its CPU affinity and quota.
    memory_limit
        The most bytes of encoded and decoded chunks that may be held at once, beside the result
        and the plan: of chunks that are stored as they are, those that are read, and of elements
        that are cast to another type, both. Where that is less than a chunk for each thread,
        threads wait for each other. None: no limit, so each thread holds one encoded and one
        decoded read chunk, or, of a shard, up to 4 MiB of encoded neighbours and one decoded
        subchunk. All decoded text and bytes of variable length that the result needs are held
        until their lengths are known, and count as well. Memory of earlier results does not count,
        but is let go; see :func:`release_unused`. Nor do buffers of connections, three blocks of
        blosc whose bits are shuffled, nor what zarr-python takes to decode in the place of zarrow.

    storage_options
        As in :func:`open_array`.
    concurrency
        How many requests to a remote store are in flight at once. None: 64 at first, up to 1,024 as
        long as more make it faster, and fewer where the store pushes back.
    max_gap
        The largest gap, in bytes, between two parts of a value in a remote store that one request
        gets, together with what lies between them. None: 1 MiB. Smaller ones are read over where
        that takes less time than a request, as seen so far.
    timeout
        The most seconds that opening, planning and reading may take together. None: any number.
    progress
        True shows a bar, of tqdm where it is installed, else a line on stderr. A callable is called
        now and then, and once at the end, with the chunks that are done, all there are to do, and
        the same in decoded bytes.
    cache
        Where decoded chunks are kept for further reads, which then need not decode them again.
        They are decoded whole.

    Returns
    -------
    pyarrow.Array
        Row *i* is selection *i*. Its type is as many levels of ``LargeList`` as axes are kept,
        around the element type: float64 becomes ``double``, bool ``bool``, complex a list of two
        floats, datetime64 and timedelta64 timestamps and durations, with nulls for NaT, strings
        ``large_string``, bytes ``large_binary``, records ``struct``. Only what has nulls is
        nullable. All values lie in one buffer, 64-byte aligned, in C order. The innermost field's
        metadata ``zarr:dtype`` names the Zarr data type.
    ReadStats
        Only if `return_stats`: chunks and bytes fetched and decoded, and seconds.

    Raises
    ------
    SelectionError
        A selection does not fit the array, or keeps another number of axes than the others.
    ReadTimeoutError
        The read was not done after `timeout`.
    NotFoundError, StoreError
        There is no array at the path, it could not be read, or a chunk is missing and that is to
        be an error.
    MetadataError, DecodeError
        The metadata, a chunk or a shard index is not valid.
    UnsupportedError
        A codec, a data type, or a store that zarrow does not read yet.
    AllocationError
        The result does not fit into memory, or a single chunk not into `memory_limit`.
    TypeError, ValueError
        `array` is something else than the above, `selections` is one selection and not a list, or
        another argument is out of the question.

    Examples
    --------
    >>> import numpy as np, zarr, zarrow
    >>> z = zarr.create_array("image.zarr", data=np.arange(12).reshape(3, 4), chunks=(2, 2))
    >>> zarrow.read_ragged("image.zarr", [np.s_[0:2, 1:3], np.s_[-1:, :], np.s_[1:1]]).to_pylist()
    [[[1, 2], [5, 6]], [[8, 9, 10, 11]], []]

    An integer drops its axis; a list or an array picks; a step may go backwards.

    >>> selections = [np.s_[2, ::-1], np.s_[0, [3, 0, 0]], None, np.s_[:2, 1]]
    >>> rows, stats = zarrow.read_ragged(z, selections, return_stats=True)
    >>> rows.to_pylist()
    [[11, 10, 9, 8], [3, 0, 0], None, [1, 5]]
    >>> stats.chunks_decoded
    4

    Row *i* from array ``sources[i]``:

    >>> w = zarr.create_array("other.zarr", data=np.arange(100, 104).reshape(2, 2), chunks=(1, 2))
    >>> zarrow.read_ragged([z, w], [np.s_[0], np.s_[1], np.s_[1]], sources=[0, 1, 0]).to_pylist()
    [[0, 1, 2, 3], [102, 103], [4, 5, 6, 7]]
    """
    return _read_ragged(
        array, selections, path=path, sources=sources, promote=promote, fields=fields,
        indexing=indexing, missing_chunks=missing_chunks, fill=fill, return_stats=return_stats,
        threads=threads, memory_limit=memory_limit, storage_options=storage_options,
        concurrency=concurrency, max_gap=max_gap, timeout=timeout, progress=progress, cache=cache,
    )  # fmt: skip


def _read_ragged(
    array: ArrayLike | Sequence[ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    path: str | None,
    sources: Integers | None,
    promote: bool,
    fields: Sequence[str] | None,
    indexing: Indexing,
    missing_chunks: MissingChunks,
    fill: Any,
    return_stats: bool,
    progress: bool | ProgressCallback | None,
    cache: ChunkCache | None,
    storage_options: Mapping[str, Any] | None,
    canceller: Canceller | None = None,
    began: float | None = None,
    **how_to: Any,
) -> Any:
    """Read, until it is done or `canceller` ends it, in a time that `began`."""
    began = time.monotonic() if began is None else began
    ends = ends_of_opening(how_to["timeout"], began, canceller, how_to["concurrency"])
    handles, of = _open_arrays(
        array, path, sources, fields, storage_options=storage_options, watch=ends
    )
    elapsed = time.monotonic() - began
    mode, promotes = check_indexing(indexing), check_promote(promote)
    asked = check_selections(selections, mode)
    how = options(
        asked, handles, promote=promotes, missing_chunks=missing_chunks, fill=fill, **how_to
    )
    with watched(progress, canceller, cache, elapsed) as watch:
        result, stats = _zarrow._read(handles, of, asked, (mode, promotes), how, watch)
    return (result, stats) if return_stats else result


@overload
async def read_ragged_async(
    array: ArrayLike | Sequence[ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    path: str | None = None,
    sources: Integers | None = None,
    promote: bool = False,
    fields: Sequence[str] | None = None,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    fill: Any = None,
    return_stats: Literal[False] = False,
    threads: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
    progress: bool | ProgressCallback | None = None,
    cache: ChunkCache | None = None,
) -> pa.Array: ...
@overload
async def read_ragged_async(
    array: ArrayLike | Sequence[ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    path: str | None = None,
    sources: Integers | None = None,
    promote: bool = False,
    fields: Sequence[str] | None = None,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    fill: Any = None,
    return_stats: Literal[True],
    threads: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
    progress: bool | ProgressCallback | None = None,
    cache: ChunkCache | None = None,
) -> tuple[pa.Array, ReadStats]: ...
@overload
async def read_ragged_async(
    array: ArrayLike | Sequence[ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    path: str | None = None,
    sources: Integers | None = None,
    promote: bool = False,
    fields: Sequence[str] | None = None,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    fill: Any = None,
    return_stats: bool,
    threads: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
    progress: bool | ProgressCallback | None = None,
    cache: ChunkCache | None = None,
) -> pa.Array | tuple[pa.Array, ReadStats]: ...
async def read_ragged_async(
    array: ArrayLike | Sequence[ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    path: str | None = None,
    sources: Integers | None = None,
    promote: bool = False,
    fields: Sequence[str] | None = None,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    fill: Any = None,
    return_stats: bool = False,
    threads: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
    progress: bool | ProgressCallback | None = None,
    cache: ChunkCache | None = None,
) -> pa.Array | tuple[pa.Array, ReadStats]:
    """:func:`read_ragged`, for the tasks of an event loop, which goes on meanwhile.

    Takes, gives and raises what that does. A task that is cancelled ends its read. Up to 64 reads
    go on at once, on the same threads and connections as those of :func:`read_ragged`; others wait
    for their turn.

    Examples
    --------
    >>> import asyncio, numpy as np, zarr, zarrow
    >>> z = zarr.create_array("dial.zarr", data=np.arange(12), chunks=(4,))
    >>> asyncio.run(zarrow.read_ragged_async("dial.zarr", [np.s_[1:3], np.s_[10:]])).to_pylist()
    [[1, 2], [10, 11]]
    """
    return await awaited(
        _read_ragged, array, selections, path=path, sources=sources, promote=promote,
        fields=fields, indexing=indexing, missing_chunks=missing_chunks, fill=fill,
        return_stats=return_stats, threads=threads, memory_limit=memory_limit,
        storage_options=storage_options, concurrency=concurrency, max_gap=max_gap,
        timeout=timeout, progress=progress, cache=cache,
    )  # fmt: skip


def plan(
    array: ArrayLike | Sequence[ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    path: str | None = None,
    sources: Integers | None = None,
    promote: bool = False,
    fields: Sequence[str] | None = None,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    fill: Any = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
) -> Plan:
    """Say what a read will do, without doing it.

    Parameters
    ----------
    array, selections, path, sources, promote, fields, indexing, missing_chunks, fill, threads, \
    memory_limit, storage_options, concurrency, max_gap, timeout
        As those of :func:`read_ragged`.

    Returns
    -------
    Plan
        How many rows, bytes and chunks there are to read, and :meth:`Plan.read`, which reads them,
        as often as it is called. It may be pickled together with its array.

    Raises
    ------
    SelectionError, AllocationError, TypeError, ValueError
        As :func:`read_ragged`.

    Examples
    --------
    >>> import numpy as np, zarr, zarrow
    >>> _ = zarr.create_array("sheet.zarr", data=np.arange(12).reshape(3, 4), chunks=(2, 2))
    >>> plan = zarrow.plan("sheet.zarr", [np.s_[0:2, 1:3], np.s_[2:, :]])
    >>> plan.row_shapes.tolist(), plan.read_chunks, plan.amplification
    ([[2, 2], [1, 4]], 4, 2.0)
    >>> plan.read().to_pylist()
    [[[1, 2], [5, 6]], [[8, 9, 10, 11]]]
    """
    ends = ends_of_opening(timeout, time.monotonic(), None, concurrency)
    handles, of = _open_arrays(
        array, path, sources, fields, storage_options=storage_options, watch=ends
    )
    mode, promotes = check_indexing(indexing), check_promote(promote)
    asked = check_selections(selections, mode)
    how = options(
        asked, handles, promote=promotes, threads=threads, memory_limit=memory_limit,
        missing_chunks=missing_chunks, fill=fill, concurrency=concurrency, max_gap=max_gap,
        timeout=timeout,
    )  # fmt: skip
    if not isinstance(asked, Selections):
        asked = _zarrow._items([settled(each) for each in asked], mode, handles, of)
    return _zarrow._plan(handles, of, asked, promotes, how)


def _open_arrays(
    array: ArrayLike | Sequence[ArrayLike],
    path: str | None,
    sources: Integers | None,
    fields: Sequence[str] | None,
    *,
    storage_options: Mapping[str, Any] | None,
    watch: dict[str, Any],
) -> tuple[list[Array], pa.Array | None]:
    """Open one array, or several, and check the sources."""
    names = _check_fields(fields)
    if not isinstance(array, (list, tuple)):
        if sources is not None:
            raise TypeError(
                f"sources was given, but array is of type {_type_name(array)}; "
                "expected sources= only with a list of arrays: pass [array], or list(arrays)"
            )
        [handle] = all_opened([array], path, storage_options, watch=watch)
        return [_choose(handle, names)], None
    if not array:
        raise ValueError("array is an empty list; expected at least one array")
    if sources is None:
        raise TypeError("array is a list; expected sources=, the number of the array of each row")
    of = _column(sources, "sources", 1).values.to_numpy()
    beyond = (of < 0) | (of >= len(array))
    if beyond.any():
        row = int(np.flatnonzero(beyond)[0])
        raise SelectionError(
            f"selection {row}: source {of[row]}; expected 0 to {len(array) - 1}, "
            "the number of one of the arrays"
        )
    known: dict[tuple[str | int, int], Array] = {}  # an array that is given twice is read once
    handles = []
    opened = all_opened(array, path, storage_options, watch=watch)
    for each, handle in zip(array, opened, strict=True):
        if handle is each:
            same = handle
        else:
            # Stores of Python are told apart by nothing but themselves.
            is_named = isinstance(each, (str, os.PathLike)) or handle._is_local
            what = handle.path if is_named else id(each)
            same = known.setdefault((what, handle.zarr_format), handle)
        handles.append(_choose(same, names))
    return handles, pa.array(of.astype(np.uint32))


def _check_fields(fields: Sequence[str] | None) -> list[str] | None:
    if fields is None:
        return None
    if isinstance(fields, str) or not all(isinstance(field, str) for field in fields):
        raise TypeError(f"fields is {fields!r}; expected a list of names, such as ['x', 'y']")
    return list(fields)


def _choose(array: Array, names: list[str] | None) -> Array:
    return array if names is None else array._with_fields(names)
