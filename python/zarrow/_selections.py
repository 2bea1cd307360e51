"""Selections in columns: integers of any kind become int64 Arrow arrays, then Rust takes over."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zarrow import _zarrow
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
        such lists, or nested lists, of any integer type.
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
        An Arrow array of lists of integers (a null list gives a null row), or, with `values`,
        offsets of shape ``(n + 1,)``: list *i* is ``values[offsets[i]:offsets[i + 1]]``. Indices
        may have any order and repeat; negative ones count from the end.
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
    if values is None:
        array = lists if isinstance(lists, (pa.Array, pa.ChunkedArray)) else _to_arrow(lists)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if pa.types.is_null(array.type):
            array = array.cast(pa.large_list(pa.int64()))  # no lists, or null ones alone
        if not _is_list(array.type) or _is_list(array.type.value_type):
            raise TypeError(f"lists is an Arrow array of {array.type}; expected lists of integers")
        if array.null_count:
            valid = pc.is_valid(array)
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy().astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        column = _column(array.flatten(), "lists", 1)
    else:
        offsets = _column(lists, "offsets", 1).values.to_numpy()
        column = _column(values, "values", 1)
        _check_offsets(offsets, len(column.values))
    return _zarrow._lists(_wrap(offsets), column.values, valid, _check_axis(axis))


def _boxes(
    kind: str,
    columns: tuple[_Column, _Column, _Column | None],
    *,
    axis: int = 0,
    out_of_bounds: OutOfBounds = "error",
) -> Selections:
    """Hand starts, stops and steps over. The columns of one axis may have one dimension."""
    if out_of_bounds not in _OUT_OF_BOUNDS:
        raise ValueError(f"out_of_bounds is {out_of_bounds!r}; expected one of {_OUT_OF_BOUNDS}")
    first, last, step = columns
    number, ndim = (*first.shape, 1)[:2]
    steps = None if step is None else step.values
    return _zarrow._boxes(kind, first.values, last.values, steps, number, ndim, axis, out_of_bounds)


def _sides(shape: int | Sequence[int]) -> np.ndarray[Any, Any]:
    """Give the lengths of a window as a vector."""
    sides = shape if isinstance(shape, Iterable) else (shape,)
    try:
        lengths = tuple(operator.index(length) for length in sides)
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


def _ndim(values: Any) -> int:
    """Give the number of axes of one argument, 2 for nested lists."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return 2 if _is_list(values.type) else 1
    if isinstance(values, (list, tuple)) or hasattr(values, "__arrow_c_stream__"):  # a Series too
        first = next(iter(values), None)
        return 1 if first is None else 1 + int(hasattr(first, "__len__"))
    return int(getattr(values, "ndim", 1))


def _to_arrow(lists: Any) -> pa.Array | pa.ChunkedArray:
    try:
        if hasattr(lists, "__arrow_c_stream__"):
            return pa.chunked_array(lists)
        return pa.array(lists)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError) as err:
        msg = f"lists is of type {_type_name(lists)} ({err}); expected lists of integers of int64"
        raise TypeError(msg) from err


class _Column(NamedTuple):
    """Integers of one argument: flat in C order, int64, without nulls."""

    values: pa.Array
    shape: tuple[int, ...]


def _columns(
    ndim: int, *, starts: Integers, stops: Integers, steps: Integers | None
) -> tuple[_Column, _Column, _Column | None]:
    first, last = _column(starts, "starts", ndim), _column(stops, "stops", ndim)
    step = None if steps is None else _column(steps, "steps", ndim)
    for name, other in (("stops", last), ("steps", step)):
        if other is not None and first.shape != other.shape:
            msg = (
                f"starts has shape {first.shape} but {name} has shape {other.shape}; "
                f"expected the same shape: give one {name[:-1]} for each start"
            )
            raise SelectionError(msg)
    return first, last, step


def _column(values: Any, name: str, ndim: int) -> _Column:
    """Turn one argument into a column of ``ndim`` axes (1 or 2)."""
    if isinstance(values, np.ndarray):
        return _from_numpy(values, name, ndim)
    if not isinstance(values, pa.Array) and hasattr(values, "__arrow_c_array__"):
        values = pa.array(values)
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return _from_arrow(values, name, ndim)
    if hasattr(values, "__arrow_c_stream__"):
        try:
            return _from_arrow(pa.chunked_array(values), name, ndim)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return _from_list(list(values), name, ndim)  # says what is wrong
    if hasattr(values, "__array__"):
        return _from_numpy(np.asarray(values), name, ndim)
    if isinstance(values, (list, tuple, range)):
        return _from_list(values, name, ndim)
    msg = (
        f"{name} is of type {_type_name(values)}; "
        "expected a NumPy array, an Arrow array, a Series or a list of integers"
    )
    raise TypeError(msg)


def _from_numpy(values: np.ndarray[Any, Any], name: str, ndim: int) -> _Column:
    if values.dtype.kind not in "iu":
        raise _not_integers(name, str(values.dtype))
    if values.ndim != ndim:
        raise _wrong_shape(name, values.shape, ndim)
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise _nulls(name, int(np.ma.getmaskarray(values).sum()))
    if values.dtype.kind == "u" and values.dtype.itemsize == 8:
        _check_fits(values, name)
    return _Column(_copy(values), values.shape)


def _from_arrow(values: pa.Array | pa.ChunkedArray, name: str, ndim: int) -> _Column:
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    if values.null_count:
        raise _nulls(name, values.null_count)
    shape: tuple[int, ...] = (len(values),)
    if _is_list(values.type):
        shape = (len(values), _list_width(values, name))
        values = values.flatten()
        if values.null_count:
            raise _nulls(name, values.null_count)
    if not (
        pa.types.is_integer(values.type) or (pa.types.is_null(values.type) and not len(values))
    ):
        raise _not_integers(name, str(values.type))
    if shape == (0,) and ndim == 2:
        shape = (0, 0)  # no boxes at all
    if len(shape) != ndim:
        raise _wrong_shape(name, shape, ndim)
    if pa.types.is_uint64(values.type):
        _check_fits(values.to_numpy().reshape(shape), name)
    return _Column(_copy(values.cast(pa.int64()).to_numpy()), shape)


def _from_list(values: Sequence[Any], name: str, ndim: int) -> _Column:
    try:
        return _from_arrow(pa.array(values), name, ndim)
    except OverflowError as err:
        row = next(i for i, value in enumerate(values) if _beyond_int64(value))
        raise _too_large(name, row, values[row]) from err
    except (pa.ArrowInvalid, pa.ArrowTypeError) as err:
        msg = f"{name} is a list that is not of integers alone ({err}); expected integers"
        raise TypeError(msg) from err


def _copy(values: np.ndarray[Any, Any]) -> pa.Array:
    """Copy into memory of our own: the caller's may change, even between a check and its use."""
    return _wrap(np.array(values, dtype=np.int64, order="C", subok=False))


def _wrap(values: np.ndarray[Any, Any]) -> pa.Array:
    """Make an Arrow array of values that nobody changes, without a copy if they are in C order."""
    flat = np.ascontiguousarray(values, dtype=np.int64).reshape(-1)
    # Not `pa.array`, which imports pandas where there is one: a quarter of a second.
    return pa.Array.from_buffers(pa.int64(), flat.size, [None, pa.py_buffer(flat)])


def _is_list(data_type: pa.DataType) -> bool:
    kinds = (pa.types.is_fixed_size_list, pa.types.is_large_list, pa.types.is_list)
    return any(is_kind(data_type) for is_kind in kinds)


def _list_width(values: Any, name: str) -> int:
    """Length of every list, which is one and the same."""
    if pa.types.is_fixed_size_list(values.type):
        return int(values.type.list_size)
    if not len(values):
        return 0
    lengths = pc.min_max(pc.list_value_length(values)).as_py()
    if lengths["min"] != lengths["max"]:
        msg = (
            f"{name} has lists of {lengths['min']} to {lengths['max']} integers; "
            "expected as many as the array has axes in every one"
        )
        raise SelectionError(msg)
    return int(lengths["min"])


def _wrong_shape(name: str, shape: tuple[int, ...], ndim: int) -> SelectionError:
    if ndim != 1:
        expected, remedy = "(n, ndim)", "give a row for each box and a column for each axis"
    elif name in ("starts", "stops", "steps"):
        expected, remedy = "(n,)", "give one number for each range, or use zarrow.boxes"
    else:
        expected, remedy = "(n,)", "give one number for each"
    return SelectionError(f"{name} has shape {shape}; expected {expected}: {remedy}")


def _not_integers(name: str, data_type: str) -> TypeError:
    return TypeError(
        f"{name} has data type {data_type}; expected integers: "
        "convert the values where they are made, or cast them to int64"
    )


def _nulls(name: str, count: int) -> SelectionError:
    return SelectionError(
        f"{name} has nulls ({count}); expected none: drop those selections or fill them in"
    )


def _check_fits(values: np.ndarray[Any, Any], name: str) -> None:
    """Refuse unsigned values that int64 cannot hold."""
    if values.size and values.max() > _MAX:
        row = int(np.argwhere(values > _MAX)[0][0])
        raise _too_large(name, row, values[row])


def _beyond_int64(value: Any) -> bool:
    numbers = value if isinstance(value, (list, tuple)) else (value,)
    return any(isinstance(number, int) and not -_MAX - 1 <= number <= _MAX for number in numbers)


def _too_large(name: str, row: int, value: object) -> SelectionError:
    return SelectionError(
        f"selection {row}: {name} holds {value}, beyond the range of int64; "
        f"expected at most {_MAX}: no array is that long, so look at how the numbers were made"
    )


def _type_name(value: object) -> str:
    kind = type(value)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"
