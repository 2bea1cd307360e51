"""The functions that read: what a caller may pass is sorted out here, then Rust takes over."""

from __future__ import annotations

import math
import operator
import os
import re
import reprlib
import sys
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, cast, overload
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np
import pyarrow as pa

from zarrow import _zarrow
from zarrow._items import is_transform, settled
from zarrow._selections import _column, _type_name
from zarrow._zarrow import Array, Selections
from zarrow.errors import SelectionError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zarrow._typing import ArrayLike, Indexing, Integers, MissingChunks, Selection
    from zarrow._zarrow import Plan, ReadStats

_ACCEPTED = "expected a path (str or os.PathLike), a zarr.Array on a LocalStore, or a zarrow.Array"
_MAX_THREADS = 1024
_INDEXING = ("orthogonal", "pointwise")
_MISSING_CHUNKS = ("fill", "null", "error")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)(::[A-Za-z][A-Za-z0-9+.-]+)*://")


def open_array(store: ArrayLike, *, path: str | None = None) -> Array:
    """Open a Zarr array for any number of reads.

    Parameters
    ----------
    store
        The path of the array itself, or of a store together with `path`. Or a ``zarr.Array`` that
        lies on a ``zarr.storage.LocalStore``. A ``zarrow.Array`` is given back as it is.
    path
        Where the array lies in the store, such as ``"group/array"``. Only together with a path of a
        store.

    Returns
    -------
    Array
        A handle with `shape`, `dtype`, `chunks`, `shards` and `attrs`. It may be used from many
        threads. It sees chunks that are written later, but not a change of the metadata.

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
        return store
    if isinstance(store, (str, os.PathLike)):
        return _zarrow._open_local(_join(_local_path(store), path), None)
    return _open_zarr_python(store, path)


@overload
def read_ragged(
    array: ArrayLike | Sequence[ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    path: str | None = None,
    sources: Integers | None = None,
    promote: bool = False,
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
    indexing
        What several index arrays in one selection mean. ``"orthogonal"``: each selects along its
        own axis, as Zarr's ``oindex``. ``"pointwise"``: together they are coordinates, as in
        NumPy and Zarr's ``vindex``; a bare array of shape ``(n, ndim)`` holds the coordinates of
        n points.
    missing_chunks
        What becomes of chunks that the store does not hold: ``"fill"`` (the array's fill value),
        ``"null"`` or ``"error"``.
    fill
        The value beyond the array where ``out_of_bounds="fill"``. None: the array's fill value.
    return_stats
        Whether to give back what the read did as well.
    threads
        How many threads fetch and decode, 1 to 1024. None: as many as this process may run at
        once, by its CPU affinity and quota.
    memory_limit
        The most bytes of encoded and decoded chunks that may be held at once, beside the result
        and the plan. Where that is less than a chunk for each thread, threads wait for each other.
        None: no limit, so each thread holds one encoded and one decoded read chunk. All decoded
        text and bytes of variable length that the result needs are held until their lengths are
        known, and count as well.

    Returns
    -------
    pyarrow.Array
        Row *i* is selection *i*. Its type is as many levels of ``LargeList`` as axes are kept,
        around the element type: float64 becomes ``double``, bool ``bool``, complex a list of two
        floats, datetime64 and timedelta64 timestamps and durations, with nulls for NaT, text
        ``large_string``, bytes ``large_binary``. Only what has nulls is nullable. All values lie in
        one buffer, 64-byte aligned, in C order. The innermost field's metadata ``zarr:dtype`` names
        the Zarr data type.
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
    handles, of = _open_arrays(array, path, sources)
    _check_is_list(selections)
    result, stats = _zarrow._read(
        handles,
        of,
        selections,
        _check_name(indexing, "indexing", _INDEXING),
        promote,
        _options(handles, threads, memory_limit, missing_chunks, fill),
    )
    return (result, stats) if return_stats else result


def plan(
    array: ArrayLike | Sequence[ArrayLike],
    selections: Iterable[Selection] | Selections,
    *,
    path: str | None = None,
    sources: Integers | None = None,
    promote: bool = False,
    indexing: Indexing = "orthogonal",
    missing_chunks: MissingChunks = "fill",
    fill: Any = None,
    threads: int | None = None,
    memory_limit: int | None = None,
) -> Plan:
    """Say what a read will do, without doing it.

    Parameters
    ----------
    array, selections, path, sources, promote, indexing, missing_chunks, fill, threads, memory_limit
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
    handles, of = _open_arrays(array, path, sources)
    _check_is_list(selections)
    mode = _check_name(indexing, "indexing", _INDEXING)
    if not isinstance(selections, Selections):
        selections = _zarrow._items([settled(each) for each in selections], mode, handles, of)
    options = _options(handles, threads, memory_limit, missing_chunks, fill)
    return _zarrow._plan(handles, of, selections, promote, options)


def _open_arrays(
    array: ArrayLike | Sequence[ArrayLike], path: str | None, sources: Integers | None
) -> tuple[list[Array], pa.Array | None]:
    """Open one array, or several, and check the sources."""
    if not isinstance(array, (list, tuple)):
        if sources is not None:
            raise TypeError("sources was given with one array; expected it only with a list")
        return [open_array(cast("ArrayLike", array), path=path)], None
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
        handles.append(handle)
    return handles, pa.array(of.astype(np.uint32))


def _dtype(arrays: list[Array]) -> np.dtype[Any]:
    """Give the data type of the result, or the first where Rust will refuse to mix them."""
    try:
        return np.result_type(*(array.dtype for array in arrays))
    except TypeError:
        return arrays[0].dtype


def _options(
    arrays: list[Array],
    threads: int | None,
    memory_limit: int | None,
    missing_chunks: MissingChunks,
    fill: Any,
) -> tuple[int | None, int | None, str, bytes | None]:
    """Check how to read, and bring it to the form that Rust takes."""
    return (
        _check_threads(threads),
        _check_memory_limit(memory_limit),
        _check_name(missing_chunks, "missing_chunks", _MISSING_CHUNKS),
        None if fill is None else _fill_bytes(fill, arrays),
    )


def _check_name(name: str, argument: str, names: tuple[str, ...]) -> str:
    if name not in names:
        raise ValueError(f"{argument} is {name!r}; expected one of {names}")
    return name


def _fill_bytes(fill: Any, arrays: list[Array]) -> bytes:
    """Give the bytes of one element that is exactly `fill`."""
    first = arrays[0]
    if first.zarr_dtype in ("string", "bytes") or first._item_dtype is not None:
        return _variable_fill(fill, first)
    dtype = _dtype(arrays)
    value = np.asarray(fill)
    if value.ndim:
        raise ValueError(f"fill has shape {value.shape}; expected one value")
    if dtype.kind == value.dtype.kind and dtype.kind in "Mm":
        time = value.astype(dtype)
        # There and back: NumPy's comparison of two units wraps around.
        if np.isnat(value) or time.astype(value.dtype) == value:
            return time.tobytes()
    # Python's large integers are objects.
    kinds = {"b": "b", "c": "iufcO", "M": "", "m": ""}.get(dtype.kind, "iufO")
    if value.dtype.kind in kinds:
        try:
            with np.errstate(all="ignore"):
                cast = value.astype(dtype)
            if _is_same(cast.item(), value.item()):
                return cast.tobytes()
        except (TypeError, ValueError, OverflowError):
            pass
    raise ValueError(f"fill is {fill!r}; expected a value that {dtype} holds exactly")


def _variable_fill(fill: Any, array: Array) -> bytes:
    """Give the bytes of text, bytes or a list of numbers."""
    if array.zarr_dtype == "string":
        if isinstance(fill, str):
            try:
                return fill.encode()
            except UnicodeEncodeError as err:
                raise ValueError(f"fill is {fill!r}; expected text that UTF-8 can hold") from err
        expected = "a str"
    elif array.zarr_dtype == "bytes":
        if isinstance(fill, (bytes, bytearray, memoryview)):
            return bytes(fill)
        expected = "bytes"
    else:
        values = np.asarray(fill)
        if values.ndim == 1:
            with np.errstate(all="ignore"):
                cast = values.astype(array._item_dtype)
            if not values.size or np.array_equal(cast, values, equal_nan=values.dtype.kind in "fc"):
                return cast.tobytes()
        expected = f"a list of numbers that {array._item_dtype} holds exactly"
    raise ValueError(f"fill is {fill!r}; expected {expected}")


def _is_same(one: Any, other: Any) -> bool:
    """Compare Python numbers, which unlike NumPy's are compared exactly. NaN is the same as NaN."""
    if not isinstance(other, (int, float, complex)):
        return False
    parts = ((one.real, other.real), (one.imag, other.imag))
    return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in parts)


def _check_is_list(selections: object) -> None:
    """Refuse one selection in place of a list: to tell the two apart would be a guess."""
    items = selections if isinstance(selections, tuple) else (selections,)
    if is_transform(selections) or any(
        isinstance(item, (slice, int, np.integer, EllipsisType)) for item in items
    ):
        msg = (
            f"selections is {reprlib.repr(selections)}, which may be taken for one selection; "
            "pass a list of selections, such as [numpy.s_[0:3, 1:2]]"
        )
        raise TypeError(msg)
    iterable = hasattr(selections, "__iter__") or hasattr(selections, "__getitem__")
    if not (iterable or isinstance(selections, Selections)):
        msg = (
            f"selections is of type {_type_name(selections)}; expected a list of selections, "
            "or what zarrow.ranges(...) and its like make"
        )
        raise TypeError(msg)


def _check_threads(threads: int | None) -> int | None:
    if threads is None:
        return None
    count = operator.index(threads)
    if not 1 <= count <= _MAX_THREADS:
        raise ValueError(
            f"threads is {count}; expected 1 to {_MAX_THREADS}, "
            "or None for as many as may run at once"
        )
    return count


def _check_memory_limit(memory_limit: int | None) -> int | None:
    if memory_limit is None:
        return None
    limit = operator.index(memory_limit)
    if limit < 1:
        raise ValueError(
            f"memory_limit is {limit}; expected a positive number of bytes, or None for no limit"
        )
    return min(limit, sys.maxsize)


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
    if path is None:
        return root
    if not isinstance(path, str):
        raise TypeError(f"path is of type {_type_name(path)}; expected a str such as 'group/array'")
    parts = [part for part in path.split("/") if part]
    if any(part in (".", "..") or "\\" in part for part in parts):
        raise ValueError(
            f"path is {path!r}; expected names joined by '/', without '.', '..' or a backslash"
        )
    return str(Path(root, *parts))


def _open_zarr_python(array: Any, path: str | None) -> Array:
    """Open what may be an array of zarr-python, without importing that: who has one has done so."""
    array_class = getattr(sys.modules.get("zarr"), "Array", None)
    if array_class is None or not isinstance(array, array_class):
        raise TypeError(f"array is of type {_type_name(array)}; {_ACCEPTED}")
    local_class = getattr(sys.modules.get("zarr.storage"), "LocalStore", None)
    if local_class is None or not isinstance(array.store, local_class):
        raise TypeError(f"array is a zarr.Array on a {_type_name(array.store)}; {_ACCEPTED}")
    if path is not None:
        raise TypeError(
            f"path={path!r} was given with a zarr.Array; expected path= only with a path"
        )
    return _zarrow._open_local(
        _join(os.fspath(array.store.root), array.path), array.metadata.zarr_format
    )
