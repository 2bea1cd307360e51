"""Items of selections that are arrays: what Rust asks Python to make of them."""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import numpy as np
import pyarrow as pa

from zarrow.errors import SelectionError

_MAX = np.iinfo(np.int64).max
_IMMUTABLE: tuple[type, ...] = (slice, int, np.integer, EllipsisType)


@dataclass(frozen=True)
class Points:
    """Points in several axes at once: flat int64 coordinates along each, and their shape."""

    coordinates: list[pa.Array]
    shape: tuple[int, ...]


def array_item(item: Any, row: int) -> tuple[pa.Array, tuple[int, ...]]:
    """Turn an index array or a mask into a flat Arrow array of int64 or bool, and its shape."""
    values = _to_numpy(item, row)
    if values.dtype.kind == "b" and values.ndim == 0:
        raise _refuse(row, "a bool", "a mask of one axis or more")
    if values.dtype.kind == "b":
        return pa.array(values.reshape(-1)), values.shape
    if values.size == 0 and values.dtype.kind == "f" and not hasattr(item, "dtype"):
        values = values.astype(np.int64)  # an empty list
    if values.dtype.kind not in "iu":
        raise _refuse(row, f"an index array of {values.dtype}", "integers or bools")
    if values.dtype.kind == "u" and values.size and values.max() > _MAX:
        raise _refuse(row, f"index {values.max()}", "indices in the range of int64")
    flat = np.array(values, dtype=np.int64, order="C", subok=False).reshape(-1)
    return pa.Array.from_buffers(pa.int64(), flat.size, [None, pa.py_buffer(flat)]), values.shape


def coordinates(selection: Any) -> list[np.ndarray[Any, Any]] | None:
    """Give the columns of an array of coordinates, shape (n, ndim), or None if it is none."""
    if isinstance(selection, (list, tuple)) or not hasattr(selection, "__array__"):
        return None
    values = np.asarray(selection)
    return list(values.T) if values.ndim == 2 and values.dtype.kind in "iu" else None


def _to_numpy(item: Any, row: int) -> np.ndarray[Any, Any]:
    if isinstance(item, (pa.Array, pa.ChunkedArray)):
        if item.null_count:
            raise _refuse(row, f"an index array with nulls ({item.null_count})", "none")
        return np.asarray(item.to_numpy(zero_copy_only=False) if len(item) else _empty(item))
    if hasattr(item, "__arrow_c_array__") and not hasattr(item, "__array__"):
        return _to_numpy(pa.array(item), row)
    if isinstance(item, np.ma.MaskedArray) and np.ma.is_masked(item):
        raise _refuse(row, "an index array with masked values", "none")
    try:
        return np.asarray(item)
    except ValueError as err:
        raise _refuse(row, f"an index array that is none ({err})", "integers or bools") from err


def _empty(item: pa.Array | pa.ChunkedArray) -> np.ndarray[Any, Any]:
    return np.empty(0, bool if pa.types.is_boolean(item.type) else np.int64)


def settled(selection: Any) -> Any:
    """Give a selection that stays as it is, whatever the caller does to the arrays in it."""
    items = selection if isinstance(selection, tuple) else (selection,)
    if all(item is None or isinstance(item, _IMMUTABLE) for item in items):
        return selection
    return copy.deepcopy(selection)


def _refuse(row: int, got: str, expected: str) -> SelectionError:
    return SelectionError(f"selection {row}: {got}; expected {expected}")


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
