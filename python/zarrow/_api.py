"""The functions that read: what a caller may pass is sorted out here, then Rust takes over."""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np
import pyarrow as pa

from zarrow import _zarrow
from zarrow._codecs import foreign_decoder
from zarrow._columns import _column, _type_name
from zarrow._items import check_selections, settled
from zarrow._options import check_indexing, check_promote, options
from zarrow._zarrow import Array, Selections
from zarrow.errors import SelectionError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zarrow._typing import ArrayLike, Indexing, Integers, MissingChunks, Selection
    from zarrow._zarrow import Plan, ReadStats

_ACCEPTED = (
    "expected a path (str or os.PathLike), a zarr.Array on a LocalStore or ZipStore, "
    "or a zarrow.Array"
)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)(::[A-Za-z][A-Za-z0-9+.-]+)*://")


def open_array(store: ArrayLike, *, path: str | None = None, allow_pickle: bool = False) -> Array:
    """Open a Zarr array for any number of reads.

    Parameters
    ----------
    store
        The path of the array itself, or of a store together with `path`: a folder, or a zip file
        (where all of it lies in one folder, that may be left out of `path`). Or a ``zarr.Array``
        that lies on a ``zarr.storage.LocalStore`` or ``ZipStore``. A ``zarrow.Array`` is given back
        as it is.
    path
        Where the array lies in the store, such as ``"group/array"``. Only together with a path of a
        store.
    allow_pickle
        Whether chunks may be decoded by the codec `pickle`. That runs code that the file brings
        along: allow it only for files of people whom you would let use your computer. The handle
        keeps it, also where it is pickled.

    Returns
    -------
    Array
        A handle with `shape`, `dtype`, `chunks`, `shards` and `attrs`. It may be used from many
        threads. It sees chunks that are written later, but not a change of the metadata.

    Notes
    -----
    Chunks with codecs that zarrow does not have are decoded by zarr-python, if it is installed and
    has them: still each once, but one at a time, as Python does.

    Raises
    ------
    NotFoundError
        There is no array at the path.
    MetadataError
        The metadata of the array is not valid.
    UnsupportedError
        The array uses what zarrow does not read yet, or the path is the URL of something remote.
    TypeError, ValueError
        `store` is something else than the above, or it or `path` is no usable path.

    Examples
    --------
    >>> import numpy as np, zarr, zarrow
    >>> group = zarr.create_group("survey.zarr")
    >>> _ = group.create_array("night1/image", data=np.zeros((100, 80), "f4"), chunks=(32, 32))
    >>> image = zarrow.open_array("survey.zarr", path="night1/image")
    >>> image.shape, image.dtype.name, image.chunks
    ((100, 80), 'float32', (32, 32))
    """
    if isinstance(store, Array):
        if path is not None:
            raise TypeError(
                f"path={path!r} was given with a zarrow.Array; expected path= only with a path"
            )
        if allow_pickle:
            raise TypeError(
                "allow_pickle was given with a zarrow.Array, which is open; "
                "expected it only with what is to be opened"
            )
        return store
    decoder = partial(foreign_decoder, allow_pickle=True) if allow_pickle else foreign_decoder
    if isinstance(store, (str, os.PathLike)):
        return _open_path(_local_path(store), path, None, decoder)
    return _open_zarr_python(store, path, decoder)


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
        until their lengths are known, and count as well.

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
    handles, of = _open_arrays(array, path, sources, fields)
    mode, promotes = check_indexing(indexing), check_promote(promote)
    asked = check_selections(selections, mode)
    how = options(
        asked, handles, promote=promotes, threads=threads, memory_limit=memory_limit,
        missing_chunks=missing_chunks, fill=fill,
    )  # fmt: skip
    result, stats = _zarrow._read(handles, of, asked, mode, promotes, how)
    return (result, stats) if return_stats else result


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
) -> Plan:
    """Say what a read will do, without doing it.

    Parameters
    ----------
    array, selections, path, sources, promote, fields, indexing, missing_chunks, fill, threads, \
    memory_limit
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
    handles, of = _open_arrays(array, path, sources, fields)
    mode, promotes = check_indexing(indexing), check_promote(promote)
    asked = check_selections(selections, mode)
    how = options(
        asked, handles, promote=promotes, threads=threads, memory_limit=memory_limit,
        missing_chunks=missing_chunks, fill=fill,
    )  # fmt: skip
    if not isinstance(asked, Selections):
        asked = _zarrow._items([settled(each) for each in asked], mode, handles, of)
    return _zarrow._plan(handles, of, asked, promotes, how)


def _open_arrays(
    array: ArrayLike | Sequence[ArrayLike],
    path: str | None,
    sources: Integers | None,
    fields: Sequence[str] | None,
) -> tuple[list[Array], pa.Array | None]:
    """Open one array, or several, and check the sources."""
    names = _check_fields(fields)
    if not isinstance(array, (list, tuple)):
        if sources is not None:
            raise TypeError(
                f"sources was given, but array is of type {_type_name(array)}; "
                "expected sources= only with a list of arrays: pass [array], or list(arrays)"
            )
        return [_choose(open_array(cast("ArrayLike", array), path=path), names)], None
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
    opened: dict[tuple[str, int], Array] = {}  # an array that is given twice is read once
    handles = []
    for each in array:
        handle = open_array(each, path=path)
        if handle is not each:
            handle = opened.setdefault((handle.path, handle.zarr_format), handle)
        handles.append(_choose(handle, names))
    return handles, pa.array(of.astype(np.uint32))


def _check_fields(fields: Sequence[str] | None) -> list[str] | None:
    if fields is None:
        return None
    if isinstance(fields, str) or not all(isinstance(field, str) for field in fields):
        raise TypeError(f"fields is {fields!r}; expected a list of names, such as ['x', 'y']")
    return list(fields)


def _choose(array: Array, names: list[str] | None) -> Array:
    return array if names is None else array._with_fields(names)


def _local_path(store: str | os.PathLike[str]) -> str:
    """Find the path on this machine that `store` names."""
    root = os.fspath(store)
    if not isinstance(root, str):
        raise TypeError(
            f"store is a path of {_type_name(root)}; expected str: decode it with os.fsdecode"
        )
    if not root:
        raise ValueError(
            "store is an empty path; expected the path of an array or a store, such as '.'"
        )
    if match := _URL.match(root):
        url = urlsplit(root)
        if match[1].lower() != "file" or match[2] or url.netloc not in ("", "localhost"):
            msg = (
                f"store is the URL {root!r}; zarrow reads only local paths today: "
                "copy the array to a local disk, or mount the store as a folder"
            )
            raise UnsupportedError(msg)
        root = url2pathname(url.path)
    return root


def _join(root: str, path: str | None) -> str:
    """Join the path of a store with the path of an array in it."""
    return root if path is None else str(Path(root, *_names(path)))


def _names(path: str | None) -> list[str]:
    """Give the names that the path of an array is made of."""
    if path is None:
        return []
    if not isinstance(path, str):
        raise TypeError(f"path is of type {_type_name(path)}; expected a str such as 'group/array'")
    parts = [part for part in path.split("/") if part]
    if any(part in (".", "..") or "\\" in part for part in parts):
        raise ValueError(
            f"path is {path!r}; expected names joined by '/', without '.', '..' or a backslash"
        )
    return parts


def _open_zarr_python(array: Any, path: str | None, decoder: Callable[..., Any]) -> Array:
    """Open what may be an array of zarr-python, without importing that: who has one has done so."""
    array_class = getattr(sys.modules.get("zarr"), "Array", None)
    if array_class is None or not isinstance(array, array_class):
        raise TypeError(f"array is of type {_type_name(array)}; {_ACCEPTED}")
    store: Any = array.store
    if _is_store(store, "LocalStore"):
        root = store.root
    elif _is_store(store, "ZipStore"):
        root = store.path
    else:
        raise TypeError(f"array is a zarr.Array on a {_type_name(store)}; {_ACCEPTED}")
    if path is not None:
        raise TypeError(
            f"path={path!r} was given with a zarr.Array; expected path= only with a path"
        )
    return _open_path(os.fspath(root), array.path, array.metadata.zarr_format, decoder)


def _is_store(store: Any, name: str) -> bool:
    store_class = getattr(sys.modules.get("zarr.storage"), name, None)
    return store_class is not None and isinstance(store, store_class)


def _open_path(
    root: str, path: str | None, zarr_format: int | None, decoder: Callable[..., Any]
) -> Array:
    """Open the array at a path in a directory, or in a zip file."""
    if os.path.isfile(root):  # noqa: PTH113
        inside = "/" + "/".join(_names(path))
        return _zarrow._open_local(root, zarr_format, None, decoder, inside)
    return _zarrow._open_local(_join(root, path), zarr_format, None, decoder)
