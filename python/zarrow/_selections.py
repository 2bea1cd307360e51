"""Selections in columns: integers of any kind become int64 Arrow arrays, then Rust takes over."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zarrow import _zarrow
from zarrow._columns import (
    _Column,
    _column,
    _columns,
    _is_list,
    _ndim,
    _nulls,
    _type_name,
    _wrap,
)
from zarrow.errors import SelectionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zarrow._typing import Integers, OutOfBounds, Rows
    from zarrow._zarrow import Selections

_MAX = np.iinfo(np.int64).max
_MAX_AXES = 64
_OUT_OF_BOUNDS = ("error", "clip", "fill", "null")


def ranges(
    starts: Integers,
    stops: Integers,
    steps: Integers | None = None,
    *,
    axis: int = 0,
    out_of_bounds: OutOfBounds = "error",
) -> Selections:
    """Make one selection of each range ``start:stop`` on one axis, all other axes whole.

    The numbers go from one buffer to another: there is no Python object for each selection.

    Parameters
    ----------
    starts, stops
        Shape ``(n,)``, in elements of the axis, with ``0 <= start <= stop <= shape[axis]``. A
        NumPy array, an Arrow array or chunked array, a Series of polars or pandas, or a list, of
        any integer type. The values are copied: to change them later changes nothing here.
    steps
        Shape ``(n,)``: takes every ``step``-th element. A negative step goes backwards from
        ``start`` to before ``stop``, as in ``numpy.arange``: a stop of -1 includes element 0.
    axis
        The axis that the ranges are on.
    out_of_bounds
        What becomes of a range beyond the array: ``"error"``; ``"clip"`` cuts it off; ``"fill"``
        gives the fill value there; ``"null"`` gives nulls there.

    Returns
    -------
    Selections
        ``n`` selections, in the order given. They may overlap, repeat and be empty.

    Raises
    ------
    SelectionError
        The lengths differ, there are nulls, a step is 0, or a value does not fit into int64. A
        range that is reversed, or beyond the edge, is one too, at the latest when it is read.
    TypeError
        The values are not integers.

    Examples
    --------
    >>> import numpy as np, zarr, zarrow
    >>> _ = zarr.create_array("spikes.zarr", data=np.arange(10.0), chunks=(4,))
    >>> events = zarrow.ranges(np.array([7, 0, 5]), np.array([10, 2, 5]))
    >>> len(events)
    3
    >>> zarrow.read_ragged("spikes.zarr", events).to_pylist()
    [[7.0, 8.0, 9.0], [0.0, 1.0], []]
    >>> around = zarrow.ranges([-2, 8], [2, 12], out_of_bounds="null")
    >>> zarrow.read_ragged("spikes.zarr", around).to_pylist()
    [[None, None, 0.0, 1.0], [8.0, 9.0, None, None]]
    """
    columns = _columns(1, starts=starts, stops=stops, steps=steps)
    return _boxes("ranges", columns, axis=_check_axis(axis), out_of_bounds=out_of_bounds)


def boxes(
    starts: Integers,
    stops: Integers,
    steps: Integers | None = None,
    *,
    out_of_bounds: OutOfBounds = "error",
) -> Selections:
    """Make one selection of each box, from its lowest corner to the corner past its highest.

    The numbers go from one buffer to another: there is no Python object for each selection.

    Parameters
    ----------
    starts, stops
        Shape ``(n, ndim)``, in elements, with ``0 <= start <= stop <= shape`` on every axis. The
        columns are the leading axes of the array; axes after them are whole. A two-dimensional
        NumPy array, an Arrow array of lists of one length (``FixedSizeList`` is best), a Series of
        such lists, nested lists, or a data frame or table with these columns, of any integer type.
        The values are copied.
    steps
        Shape ``(n, ndim)``: takes every ``step``-th element on each axis, as in :func:`ranges`.
    out_of_bounds
        As in :func:`ranges`.

    Returns
    -------
    Selections
        ``n`` selections, in the order given. They may overlap, repeat and be empty.

    Raises
    ------
    SelectionError
        The shapes differ, there are nulls, a step is 0, or a value does not fit into int64. A box
        that is reversed, beyond the edge or of more axes than the array is one too, at the latest
        when it is read.
    TypeError
        The values are not integers.

    Examples
    --------
    >>> import numpy as np, zarr, zarrow
    >>> _ = zarr.create_array("grid.zarr", data=np.arange(12).reshape(3, 4), chunks=(2, 2))
    >>> corners = np.array([[0, 0], [1, 2]])
    >>> sizes = np.array([[2, 3], [2, 1]])
    >>> zarrow.read_ragged("grid.zarr", zarrow.boxes(corners, corners + sizes)).to_pylist()
    [[[0, 1, 2], [4, 5, 6]], [[6], [10]]]
    """
    columns = _columns(2, starts=starts, stops=stops, steps=steps)
    return _boxes("boxes", columns, out_of_bounds=out_of_bounds)


def windows(
    centers: Integers, shape: int | Sequence[int], *, out_of_bounds: OutOfBounds = "error"
) -> Selections:
    """Make one selection of each window of one shape around a point.

    Parameters
    ----------
    centers
        Shape ``(n, ndim)``, in elements, or ``(n,)`` for windows on the first axis. A window of
        length ``s`` around ``c`` spans ``c - s // 2`` to ``c - s // 2 + s``.
    shape
        The length of every window on each of these axes, in elements. Axes after them are whole.
    out_of_bounds
        As in :func:`ranges`: ``"fill"`` and ``"null"`` keep all windows of one shape.

    Returns
    -------
    Selections
        ``n`` selections, in the order given.

    Raises
    ------
    SelectionError
        `centers` and `shape` do not fit each other, a length is negative, or as :func:`boxes`.
    TypeError
        The values are not integers.

    Examples
    --------
    >>> import numpy as np, zarr, zarrow
    >>> _ = zarr.create_array("frame.zarr", data=np.arange(20).reshape(4, 5), chunks=(2, 2))
    >>> stars = zarrow.windows([[1, 1], [0, 4]], (3, 3), out_of_bounds="fill")
    >>> zarrow.read_ragged("frame.zarr", stars).to_pylist()
    [[[0, 1, 2], [5, 6, 7], [10, 11, 12]], [[0, 0, 0], [3, 4, 0], [8, 9, 0]]]
    """
    sides = _sides(shape)
    ndim = 1 if _ndim(centers) == 1 else 2
    column = _column(centers, "centers", ndim)
    rows, axes = (*column.shape, 1)[:2]
    if rows and axes != len(sides):
        msg = (
            f"centers has shape {column.shape} but the windows have {len(sides)} axes; "
            "expected a column for each length in shape"
        )
        raise SelectionError(msg)
    middle = column.values.to_numpy().reshape(rows, len(sides))
    before = sides // 2
    beyond = (middle < before - _MAX - 1) | (middle > _MAX - (sides - before))
    if beyond.any():
        row, axis = (int(at) for at in np.argwhere(beyond)[0])
        raise SelectionError(
            f"selection {row}: a window of length {sides[axis]} around {middle[row, axis]} is "
            "beyond the range of int64; expected a window near the array"
        )
    starts = middle - before
    first = _Column(_wrap(starts), (rows, len(sides)))
    last = _Column(_wrap(starts + sides), first.shape)
    return _boxes("windows", (first, last, None), out_of_bounds=out_of_bounds)


def rows(offsets: Integers, rows: Rows | None = None) -> Selections:
    """Make one selection of each row of a ragged array, such as a CSR matrix, by its offsets.

    Parameters
    ----------
    offsets
        Shape ``(n + 1,)``: row *i* is ``offsets[i]:offsets[i + 1]`` of the first axis, in elements.
    rows
        Which rows, in which order: a slice, integers of any order (negative ones count from the
        end), or a mask of length ``n``. None: all.

    Returns
    -------
    Selections
        One selection for each of the `rows`.

    Raises
    ------
    SelectionError
        There is no offset, or a row is out of bounds; offsets that descend, or are beyond the
        array, are an error when they are read.
    TypeError
        The values are not integers.

    Examples
    --------
    >>> import numpy as np, zarr, zarrow
    >>> _ = zarr.create_array("csr.zarr", data=np.array([5, 3, 8, 1, 9]), chunks=(2,))
    >>> indptr = [0, 2, 2, 5]
    >>> zarrow.read_ragged("csr.zarr", zarrow.rows(indptr, [2, 0, 1])).to_pylist()
    [[8, 1, 9], [5, 3], []]
    """
    column = _column(offsets, "offsets", 1)
    bounds = column.values.to_numpy()
    if not len(bounds):
        raise SelectionError("offsets is empty; expected one more than there are rows")
    starts, stops = bounds[:-1], bounds[1:]
    if rows is not None:
        chosen = _chosen(rows, len(starts))
        starts, stops = starts[chosen], stops[chosen]
    first, last = (_Column(_wrap(each), each.shape) for each in (starts, stops))
    return _boxes("rows", (first, last, None))


def indices(lists: Any, values: Integers | None = None, *, axis: int = 0) -> Selections:
    """Make one selection of each list of indices of one axis, all other axes whole.

    Parameters
    ----------
    lists
        Lists of integers: an Arrow array or a Series of them, nested lists (a null list gives a
        null row), or a NumPy array of shape ``(n, k)``. Or, with `values`, offsets of shape
        ``(n + 1,)``: list *i* is ``values[offsets[i]:offsets[i + 1]]``. Indices may have any order
        and repeat; negative ones count from the end.
    values
        All indices, where `lists` are offsets.
    axis
        The axis that they index.

    Returns
    -------
    Selections
        ``n`` selections, in the order given.

    Raises
    ------
    SelectionError
        Offsets that do not ascend or do not fit the values, nulls among the indices, or a value
        that does not fit into int64. An index out of bounds is one when it is read.
    TypeError
        The values are not integers, or `lists` holds no lists.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa, zarr, zarrow
    >>> _ = zarr.create_array("line.zarr", data=np.arange(10) * 10, chunks=(4,))
    >>> neighbours = zarrow.indices(pa.array([[3, 1], None, [9, -2, 9]]))
    >>> zarrow.read_ragged("line.zarr", neighbours).to_pylist()
    [[30, 10], None, [90, 80, 90]]
    """
    valid = None
    if values is not None:
        offsets = _column(lists, "offsets", 1).values.to_numpy()
        column = _column(values, "values", 1)
        _check_offsets(offsets, len(column.values))
    elif isinstance(lists, np.ndarray) and lists.ndim == 2:
        column = _column(lists, "lists", 2)
        offsets = np.arange(len(lists) + 1) * lists.shape[1]
    else:
        array = _to_lists(lists)
        if array.null_count:
            valid = pc.is_valid(array)
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy().astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        column = _column(array.flatten(), "lists", 1)
    return _zarrow._lists(_wrap(offsets), column.values, valid, _check_axis(axis))


def _boxes(
    kind: str,
    columns: tuple[_Column, _Column, _Column | None],
    *,
    axis: int = 0,
    out_of_bounds: Any = "error",
) -> Selections:
    """Hand starts, stops and steps over. The columns of one axis may have one dimension."""
    if not (isinstance(out_of_bounds, str) and out_of_bounds in _OUT_OF_BOUNDS):
        raise ValueError(f"out_of_bounds is {out_of_bounds!r}; expected one of {_OUT_OF_BOUNDS}")
    first, last, step = columns
    number, ndim = (*first.shape, 1)[:2]
    steps = None if step is None else step.values
    return _zarrow._boxes(kind, first.values, last.values, steps, number, ndim, axis, out_of_bounds)


def _sides(shape: int | Sequence[int]) -> np.ndarray[Any, Any]:
    """Give the lengths of a window as a vector."""
    given: Any = shape  # a NumPy array too
    is_many = isinstance(given, Iterable) and getattr(given, "ndim", None) != 0
    try:
        lengths = tuple(operator.index(length) for length in (given if is_many else (given,)))
    except TypeError as err:
        msg = f"shape is {shape!r}; expected an integer, or one for each axis"
        raise TypeError(msg) from err
    if not all(0 <= length <= _MAX for length in lengths):
        raise SelectionError(f"windows of shape {lengths}; expected lengths of 0 to {_MAX}")
    return np.array(lengths, dtype=np.int64)


def _check_offsets(offsets: np.ndarray[Any, Any], count: int) -> None:
    """Check that the offsets of lists ascend from 0 or more to at most `count` values."""
    if not len(offsets):
        raise SelectionError("offsets is empty; expected one more than there are lists")
    wrong = (offsets[:-1] < 0) | (offsets[:-1] > offsets[1:]) | (offsets[1:] > count)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise SelectionError(
            f"selection {row}: offsets {offsets[row]} and {offsets[row + 1]}; "
            f"expected offsets that ascend from 0 or more to at most {count}, the number of values"
        )


def _check_axis(axis: int) -> int:
    number = operator.index(axis)
    if not 0 <= number < _MAX_AXES:
        raise ValueError(f"axis is {number}; expected 0 or more, counted from the first axis")
    return number


def _chosen(rows: Any, count: int) -> Any:
    """Turn a choice of rows into what indexes a NumPy array, checked."""
    if isinstance(rows, slice):
        if rows.step is not None and operator.index(rows.step) == 0:
            raise SelectionError("rows is a slice of step 0; expected a step that is not 0")
        return rows
    chosen = np.asarray(rows.to_numpy() if isinstance(rows, pa.ChunkedArray) else rows)
    if chosen.dtype.kind == "b":
        if isinstance(rows, np.ma.MaskedArray) and np.ma.is_masked(rows):
            raise _nulls("rows", int(np.ma.getmaskarray(rows).sum()))
        if chosen.shape != (count,):
            raise SelectionError(
                f"rows is a mask of shape {chosen.shape}; expected ({count},), a bool for each row"
            )
        return chosen
    column = _column(rows, "rows", 1).values.to_numpy()
    beyond = (column < -count) | (column >= count)
    if beyond.any():
        at = int(np.flatnonzero(beyond)[0])
        raise SelectionError(
            f"selection {at}: row {column[at]} is out of bounds; expected {-count} to {count - 1}"
        )
    return column


def _to_lists(lists: Any) -> pa.Array:
    """Turn lists of any kind into lists of Arrow."""
    try:
        if isinstance(lists, pa.ChunkedArray) or hasattr(lists, "__arrow_c_stream__"):
            array = pa.chunked_array(lists).combine_chunks()
        else:
            array = pa.array(lists)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as err:
        msg = f"lists is of type {_type_name(lists)} ({err}); expected lists of integers of int64"
        raise TypeError(msg) from err
    if pa.types.is_null(array.type):
        array = array.cast(pa.large_list(pa.int64()))  # no lists, or null ones alone
    if not _is_list(array.type) or _is_list(array.type.value_type):
        raise TypeError(f"lists is an Arrow array of {array.type}; expected lists of integers")
    return array
