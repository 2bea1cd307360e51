"""Selections in columns: integers of any kind become int64 Arrow arrays, then Rust takes over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zarrow import _zarrow
from zarrow.errors import SelectionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zarrow._typing import Integers
    from zarrow._zarrow import Selections

_MAX = np.iinfo(np.int64).max


def ranges(starts: Integers, stops: Integers) -> Selections:
    """Make one selection of each range ``start:stop`` on the first axis, all other axes whole.

    The numbers go from one buffer to another: there is no Python object for each selection.

    Parameters
    ----------
    starts, stops
        Shape ``(n,)``, in elements of the first axis, with ``0 <= start <= stop <= shape[0]``. A
        NumPy array, an Arrow array or chunked array, a Series of polars or pandas, or a list, of
        any integer type. The values are copied: to change them later changes nothing here.

    Returns
    -------
    Selections
        ``n`` selections, in the order given. They may overlap, repeat and be empty.

    Raises
    ------
    SelectionError
        The two lengths differ, there are nulls, or a value does not fit into int64. A range that
        is negative, reversed or beyond the edge is one too, at the latest when it is read.
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
    """
    first, last = _pair(starts, stops, ndim=1)
    return _zarrow._ranges(first.values, last.values)


def boxes(starts: Integers, stops: Integers) -> Selections:
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

    Returns
    -------
    Selections
        ``n`` selections, in the order given. They may overlap, repeat and be empty.

    Raises
    ------
    SelectionError
        The two shapes differ, there are nulls, or a value does not fit into int64. A box that is
        negative, reversed, beyond the edge or of more axes than the array is one too, at the
        latest when it is read.
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
    first, last = _pair(starts, stops, ndim=2)
    return _zarrow._boxes(first.values, last.values, *first.shape)


class _Column(NamedTuple):
    """Integers of one argument: flat in C order, int64, without nulls."""

    values: pa.Array
    shape: tuple[int, ...]


def _pair(starts: Integers, stops: Integers, ndim: int) -> tuple[_Column, _Column]:
    first, last = _column(starts, "starts", ndim), _column(stops, "stops", ndim)
    if first.shape != last.shape:
        msg = (
            f"starts has shape {first.shape} but stops has shape {last.shape}; "
            "expected the same shape: give one stop for each start"
        )
        raise SelectionError(msg)
    return first, last


def _column(values: Any, name: str, ndim: int) -> _Column:
    """Turn one argument into a column of ``ndim`` axes (1 or 2)."""
    if isinstance(values, np.ndarray):
        return _from_numpy(values, name, ndim)
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return _from_arrow(values, name, ndim)
    if hasattr(values, "__arrow_c_array__"):
        return _from_arrow(pa.array(values), name, ndim)
    if hasattr(values, "__arrow_c_stream__"):
        return _from_arrow(pa.chunked_array(values), name, ndim)
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
    copied = np.array(values, dtype=np.int64, order="C", subok=False).reshape(-1)
    # Not `pa.array`, which imports pandas where there is one: a quarter of a second.
    return pa.Array.from_buffers(pa.int64(), copied.size, [None, pa.py_buffer(copied)])


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
    if ndim == 1:
        expected, remedy = "(n,)", "give one number for each range, or use zarrow.boxes"
    else:
        expected, remedy = "(n, ndim)", "give a row for each box and a column for each axis"
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
