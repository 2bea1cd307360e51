"""Lists of selections and their items: what Rust asks Python to make of those that are arrays."""

from __future__ import annotations

import copy
import operator
import reprlib
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import numpy as np
import pyarrow as pa

from zarrow._columns import _column, _is_list, _is_table, _null_count, _type_name
from zarrow._zarrow import Selections
from zarrow.errors import SelectionError

_MAX = np.iinfo(np.int64).max
# Of one value, or in no order.
_NOT_LISTS = (str, bytes, bytearray, Mapping, AbstractSet)
# What a Series raises whose values are any objects.
_NOT_ARROW = (pa.ArrowException, TypeError, ValueError, OverflowError)
_IMMUTABLE: tuple[type, ...] = (slice, int, np.integer, EllipsisType)


@dataclass(frozen=True)
class Points:
    """Points in several axes at once: flat int64 coordinates along each, and their shape."""

    coordinates: list[pa.Array]
    shape: tuple[int, ...]


# ---- lists of selections ---------------------------------------------------------------------


def check_selections(selections: Any, indexing: str) -> Any:
    """Give what selections to iterate over, or the columns that they are.

    What may be meant otherwise is refused: to tell the two apart would be a guess.
    """
    if isinstance(selections, Selections):
        if indexing != "orthogonal":
            raise ValueError(
                f"indexing is {indexing!r}, but the selections are columns: {selections!r}; "
                "expected it only with a list of selections"
            )
        return selections
    items = selections if isinstance(selections, tuple) else (selections,)
    if is_transform(selections) or any(
        isinstance(item, (slice, int, np.integer, EllipsisType)) for item in items
    ):
        msg = (
            f"selections is {reprlib.repr(selections)}, which may be taken for one selection; "
            "pass a list of selections, such as [numpy.s_[0:3, 1:2]]"
        )
        raise TypeError(msg)
    shape = getattr(selections, "shape", None)
    iterable = hasattr(selections, "__iter__") or hasattr(selections, "__getitem__")
    if not iterable or shape == () or isinstance(selections, _NOT_LISTS):
        msg = (
            f"selections is of type {_type_name(selections)}; expected a list of selections, "
            "or what zarrow.ranges(...) and its like make"
        )
        raise TypeError(msg)
    if _is_table(selections):
        msg = (
            f"selections is a table of shape {selections.shape}; expected a list of selections: "
            "pass [table] for one selection of points, or columns of it to zarrow.ranges or "
            "zarrow.boxes"
        )
        raise TypeError(msg)
    if hasattr(selections, "__arrow_c_array__") and not hasattr(selections, "__array__"):
        selections = pa.array(selections)
    _check_axes(selections, indexing)
    # The scalars of Arrow are no Python objects.
    is_arrow = isinstance(selections, (pa.Array, pa.ChunkedArray))
    return selections.to_pylist() if is_arrow else selections


def _check_axes(selections: Any, indexing: str) -> None:
    """Refuse an array of several axes that is one selection as well as a list of them."""
    shape = getattr(selections, "shape", ())
    if isinstance(shape, tuple) and len(shape) > 1 and hasattr(selections, "dtype"):
        is_mask = getattr(selections.dtype, "kind", None) == "b"
    elif _is_fixed_lists(selections):
        shape, is_mask = (len(selections), "k"), False
    else:
        return
    if not (is_mask or indexing == "pointwise"):
        return
    if is_mask:
        one, remedy = "one mask", "[mask] for one selection, or list(masks) for many"
    else:
        one = "the coordinates of points"
        remedy = "[points] for one selection of points, or zarrow.indices(lists) for lists of rows"
    axes = ", ".join(map(str, shape))
    msg = (
        f"selections is an array of shape ({axes}), which may be taken for {one}; "
        f"expected a list of selections: pass {remedy}"
    )
    raise TypeError(msg)


def _is_fixed_lists(selections: Any) -> bool:
    """Whether these are lists of Arrow that have one length by their type."""
    if not isinstance(selections, (pa.Array, pa.ChunkedArray)):
        if not hasattr(selections, "__arrow_c_stream__"):
            return False
        try:
            selections = pa.chunked_array(selections)
        except _NOT_ARROW:
            return False
    return bool(pa.types.is_fixed_size_list(selections.type))


def settled(selection: Any) -> Any:
    """Give a selection that stays as it is, whatever the caller does to the arrays in it."""
    items = selection if isinstance(selection, tuple) else (selection,)
    if all(item is None or isinstance(item, _IMMUTABLE) for item in items):
        return selection
    return copy.deepcopy(selection)


def is_transform(selection: Any) -> bool:
    """Whether this is an IndexTransform of zarr-indexing, which is not imported for that."""
    kind = getattr(sys.modules.get("zarr_indexing"), "IndexTransform", None)
    return kind is not None and isinstance(selection, kind)


def transform_items(
    selection: Any, shape: tuple[int, ...], row: int, pointwise: bool
) -> list[Any] | None:
    """Give the items of a transform to an array of `shape`, or None if `selection` is none."""
    if not is_transform(selection):
        return None
    from zarrow._transforms import items  # noqa: PLC0415 - only where that package is in use

    return items(selection, shape, row, pointwise=pointwise)


# ---- items -----------------------------------------------------------------------------------


def array_item(item: Any, row: int) -> tuple[pa.Array, tuple[int, ...]]:
    """Turn an index array or a mask into a flat Arrow array of int64 or bool, and its shape."""
    values = _to_numpy(item, row)
    if values.dtype.kind == "b" and values.ndim == 0:
        raise _refuse(row, "a bool", "a mask of one axis or more")
    if values.dtype.kind == "b":
        return pa.array(values.reshape(-1)), values.shape
    if values.dtype.kind not in "iu":
        raise _refuse(row, f"an index array of {values.dtype}", "integers or bools")
    if values.dtype.kind == "u" and values.size and values.max() > _MAX:
        raise _beyond_int64(row, values.max())
    flat = np.array(values, dtype=np.int64, order="C", subok=False).reshape(-1)
    return pa.Array.from_buffers(pa.int64(), flat.size, [None, pa.py_buffer(flat)]), values.shape


def coordinates(selection: Any) -> list[np.ndarray[Any, Any]] | None:
    """Give the columns of an array of coordinates, shape (n, ndim), or None if it is none."""
    if isinstance(selection, (list, tuple)):
        return None
    arrow = _exported(selection)
    is_fixed = arrow is not None and pa.types.is_fixed_size_list(arrow.type)
    if _is_table(selection) or is_fixed:
        try:
            values = _column(selection, "coordinates", 2).to_numpy()
        except (TypeError, SelectionError):
            return None  # says what is wrong when it is taken for an index array
    elif hasattr(selection, "__array__"):
        values = np.asarray(selection)
    else:
        return None
    return list(values.T) if values.ndim == 2 and values.dtype.kind in "iu" else None


def _to_numpy(item: Any, row: int) -> np.ndarray[Any, Any]:
    if isinstance(item, np.ma.MaskedArray) and np.ma.is_masked(item):
        raise _refuse(row, "an index array with masked values", "none")
    if _is_table(item):
        return _lists_to_numpy(item, row)
    arrow = _exported(item)
    if arrow is not None:
        return _arrow_to_numpy(arrow, row)
    if count := _null_count(item):
        raise _refuse(row, f"an index array with nulls ({count})", "none")
    try:
        values = np.asarray(item)
    except ValueError as err:
        raise _refuse(row, f"an index array that is none ({err})", "integers or bools") from err
    if values.dtype.kind in "fO" and isinstance(item, (list, tuple, range)):
        return _integers_to_numpy(item, row, values)
    return values


def _exported(item: Any) -> pa.Array | pa.ChunkedArray | None:
    """Give an array of Arrow, or what is one behind an interface; None for all else.

    A Series of pandas is left to NumPy, which sees what that package takes it for.
    """
    if isinstance(item, (pa.Array, pa.ChunkedArray)):
        return item
    if isinstance(item, pa.ListScalar):
        return item.values
    if hasattr(item, "isna") or _is_table(item):
        return None
    try:
        if hasattr(item, "__arrow_c_stream__"):
            return pa.chunked_array(item)
        if hasattr(item, "__arrow_c_array__") and not hasattr(item, "__array__"):
            return pa.array(item)
    except _NOT_ARROW:
        pass
    return None


def _arrow_to_numpy(array: pa.Array | pa.ChunkedArray, row: int) -> np.ndarray[Any, Any]:
    if array.null_count:
        raise _refuse(row, f"an index array with nulls ({array.null_count})", "none")
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        return _lists_to_numpy(array, row)
    if _is_list(kind):
        points = "for points, an array or FixedSizeLists of shape (n, ndim)"
        raise _refuse(row, f"an index array of {kind}", f"integers or bools; {points}")
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_boolean = pa.types.is_boolean(kind)
    if not len(array) and (is_boolean or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        return np.empty(0, bool if is_boolean else np.int64)
    if not (is_boolean or pa.types.is_integer(kind)):
        raise _refuse(row, f"an index array of {array.type}", "integers or bools")
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _lists_to_numpy(lists: Any, row: int) -> np.ndarray[Any, Any]:
    """Turn lists of one length, or columns, into an array of two axes."""
    try:
        return _column(lists, "an index array", 2).to_numpy()
    except (TypeError, SelectionError) as err:
        raise SelectionError(f"selection {row}: {err}") from err


def _integers_to_numpy(
    item: list[Any] | tuple[Any, ...] | range, row: int, values: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Turn lists of integers into an array where NumPy makes floats or objects of them.

    It does so of integers beyond int64, of signed and unsigned ones together, and of empty lists.
    """
    if values.size == 0 and values.dtype.kind == "f":
        return values.astype(np.int64)
    try:
        integers = [operator.index(each) for each in np.array(item, dtype=object).reshape(-1)]
    except TypeError:
        return values
    for integer in integers:
        if not -_MAX - 1 <= integer <= _MAX:
            raise _beyond_int64(row, integer)
    return np.array(integers, dtype=np.int64).reshape(values.shape)


def _beyond_int64(row: int, index: object) -> SelectionError:
    return _refuse(row, f"index {index}", "indices in the range of int64")


def _refuse(row: int, got: str, expected: str) -> SelectionError:
    return SelectionError(f"selection {row}: {got}; expected {expected}")
