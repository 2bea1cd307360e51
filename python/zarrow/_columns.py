"""Columns of integers: one argument of any kind becomes a flat int64 Arrow array, checked."""

from __future__ import annotations

from array import array
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zarrow.errors import SelectionError

if TYPE_CHECKING:
    from zarrow._typing import Integers

_MAX = np.iinfo(np.int64).max
_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


class _Column(NamedTuple):
    """Integers of one argument: flat in C order, int64, without nulls."""

    values: pa.Array
    shape: tuple[int, ...]

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Give the values in their shape."""
        values: np.ndarray[Any, Any] = self.values.to_numpy()
        return values.reshape(self.shape)


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
    if _is_table(values):
        return _from_table(values, name, ndim)
    if isinstance(values, (np.ndarray, memoryview, array)):
        return _from_numpy(np.asanyarray(values), name, ndim)
    if not isinstance(values, pa.Array) and hasattr(values, "__arrow_c_array__"):
        values = pa.array(values)
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return _from_arrow(values, name, ndim)
    if count := _null_count(values):
        raise _nulls(name, count)
    if hasattr(values, "__arrow_c_stream__"):
        return _from_series(values, name, ndim)
    if hasattr(values, "__array__"):
        return _from_numpy(np.asarray(values), name, ndim)
    return _from_list(values, name, ndim)


def _ndim(values: Any) -> int:
    """Give the number of axes of one argument, 2 for nested lists."""
    if _is_table(values):
        return 2
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return 2 if _is_list(values.type) else 1
    if isinstance(values, (list, tuple)) or hasattr(values, "__arrow_c_stream__"):  # a Series too
        first = next(iter(values), None)
        return 1 if first is None else 1 + int(hasattr(first, "__len__"))
    return int(getattr(values, "ndim", 1))


def _is_table(values: Any) -> bool:
    """Whether this is a data frame, or a table or record batch of Arrow."""
    shape = getattr(values, "shape", None)
    return isinstance(shape, tuple) and len(shape) == 2 and not hasattr(values, "dtype")


def _null_count(values: Any) -> int:
    """Count the nulls of what pandas makes, which NumPy takes for NaN or for objects."""
    return int(np.count_nonzero(values.isna())) if hasattr(values, "isna") else 0


def _from_table(values: Any, name: str, ndim: int) -> _Column:
    """Take the columns of a table as those of the result. A pandas index is none of them."""
    if ndim != 2:
        raise TypeError(f"{name} is a table of shape {values.shape}; expected one of its columns")
    count = values.shape[1]
    if hasattr(values, "iloc"):
        given = [values.iloc[:, at] for at in range(count)]
    else:
        given = pa.table(values).columns
    columns = [_column(each, f"{name}, column {at},", 1) for at, each in enumerate(given)]
    flat = np.stack([each.to_numpy() for each in columns], axis=1) if count else np.empty(0)
    return _Column(_wrap(flat), values.shape)


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


def _from_series(values: Any, name: str, ndim: int) -> _Column:
    try:
        return _from_arrow(pa.chunked_array(values), name, ndim)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return _from_list(list(values), name, ndim)  # says what is wrong


def _from_list(values: Any, name: str, ndim: int) -> _Column:
    if not isinstance(values, (list, tuple, range)):
        msg = (
            f"{name} is of type {_type_name(values)}; "
            "expected a NumPy array, an Arrow array, a Series or a list of integers"
        )
        raise TypeError(msg)
    try:
        return _from_arrow(pa.array(values), name, ndim)
    except OverflowError as err:
        row = next((i for i, value in enumerate(values) if _beyond_int64(value)), 0)
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
    return any(is_kind(data_type) for is_kind in _LISTS)


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
    integers = (int(number) for number in numbers if isinstance(number, Integral))
    return any(not -_MAX - 1 <= integer <= _MAX for integer in integers)


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
