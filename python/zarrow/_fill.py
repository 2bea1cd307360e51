"""The value that stands beyond an array, as the bytes of one element: exactly it, or an error."""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from zarrow._zarrow import Array

_TIMES = {"M": ("datetime64", "date or datetime"), "m": ("timedelta64", "timedelta")}
# Attoseconds in one of each. Years and months have no length.
_LENGTHS = {
    "W": 604_800 * 10**18,
    "D": 86_400 * 10**18,
    "h": 3_600 * 10**18,
    "m": 60 * 10**18,
    "s": 10**18,
    "ms": 10**15,
    "us": 10**12,
    "ns": 10**9,
    "ps": 10**6,
    "fs": 10**3,
    "as": 1,
}
# What each kind of data type takes. Python's large integers are objects.
_TAKES = {"b": "b", "c": "iufcO", "M": "M", "m": "m"}
_EPOCH = "2000-01-01"


def fill_bytes(fill: Any, dtype: np.dtype[Any]) -> bytes:
    """Give the bytes of one element that is exactly `fill`.

    Raises
    ------
    ValueError
        The data type does not hold it exactly. The message says what it does hold.
    """
    if dtype.names is not None:
        return _record_bytes(fill, dtype)
    if dtype.kind in "SUV":
        return _padded_bytes(fill, dtype)
    value = np.asarray(_time(fill) if isinstance(fill, (dt.date, dt.timedelta)) else fill)
    if value.ndim:
        raise ValueError(f"fill has shape {value.shape}; expected one value")
    if value.dtype.kind in _TAKES.get(dtype.kind, "iufO"):
        try:
            with np.errstate(all="ignore"):
                cast = _cast_time(value, dtype) if dtype.kind in _TIMES else value.astype(dtype)
            if dtype.kind in _TIMES or _is_same(cast, value):
                return cast.tobytes()
        except (TypeError, ValueError, OverflowError):
            pass
    raise ValueError(f"fill is {fill!r}; expected {_expected(fill, value, dtype)}")


def variable_bytes(fill: Any, array: Array) -> bytes:
    """Give the bytes of text, of bytes, or of a list of numbers, as an element of `array` has them.

    Raises
    ------
    ValueError
        It is something else, or the data type of the list does not hold its numbers exactly.
    """
    if array._item_dtype is not None:
        dtype = array._item_dtype
        if np.ndim(fill) == 1 and not isinstance(fill, (str, bytes)):
            try:
                return b"".join(fill_bytes(number, dtype) for number in fill)
            except ValueError:
                pass
        expected = f"a list of numbers that {dtype} holds exactly"
    elif array.zarr_dtype == "string":
        if isinstance(fill, str):
            try:
                return fill.encode()
            except UnicodeEncodeError as err:
                raise ValueError(f"fill is {fill!r}; expected text that UTF-8 can hold") from err
        expected = "a str"
    else:
        if isinstance(fill, (bytes, bytearray, memoryview)):
            return bytes(fill)
        expected = "bytes"
    raise ValueError(f"fill is {fill!r}; expected {expected}")


def _padded_bytes(fill: Any, dtype: np.dtype[Any]) -> bytes:
    """Give the bytes of a string, or of bytes, of at most the length that `dtype` has."""
    if isinstance(fill, (bytes, np.void)) and dtype.kind in "SV":
        value = bytes(fill) if isinstance(fill, bytes) else fill.tobytes()
        fits = len(value) == dtype.itemsize if dtype.kind == "V" else len(value) <= dtype.itemsize
        if fits:
            return value.ljust(dtype.itemsize, b"\0")
    if isinstance(fill, str) and dtype.kind == "U" and len(fill) <= dtype.itemsize // 4:
        return np.array(fill, dtype).tobytes()
    kind = "a str" if dtype.kind == "U" else "bytes"
    raise ValueError(f"fill is {fill!r}; expected {kind} that {dtype} holds exactly")


def _record_bytes(fill: Any, dtype: np.dtype[Any]) -> bytes:
    """Give the bytes of a tuple of a value for each field, or of a record."""
    names = dtype.names or ()
    if isinstance(fill, np.void) and fill.dtype.names == names:
        fill = tuple(fill[name] for name in names)
    if not isinstance(fill, tuple) or len(fill) != len(names):
        raise ValueError(f"fill is {fill!r}; expected a tuple of a value for each of {names}")
    parts = []
    for name, value in zip(names, fill, strict=True):
        field = dtype[name]
        base, shape = field.base, field.shape
        if not shape:
            parts.append(fill_bytes(value, base))
            continue
        values = np.empty(shape, object)
        values[...] = value
        parts += [fill_bytes(each, base) for each in values.reshape(-1)]
    return b"".join(parts)


def _time(fill: dt.date | dt.timedelta) -> Any:
    """Give a time of Python's, or of pandas', as NumPy's."""
    if getattr(fill, "tzinfo", None) is not None:
        raise ValueError(
            f"fill is {fill!r}, which has a time zone; expected none, as the array has: "
            "pass fill.astimezone(datetime.timezone.utc).replace(tzinfo=None)"
        )
    if hasattr(fill, "to_numpy"):
        return fill.to_numpy()  # of pandas, which has nanoseconds
    if isinstance(fill, dt.datetime):
        return np.datetime64(fill, "us")
    if isinstance(fill, dt.date):
        return np.datetime64(fill, "D")
    # NumPy itself wraps around in microseconds.
    seconds = fill.days * 86_400 + fill.seconds
    if not fill.microseconds:
        return np.timedelta64(seconds, "s")
    try:
        return np.timedelta64(seconds * 1_000_000 + fill.microseconds, "us")
    except OverflowError:
        return fill


def _cast_time(value: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Cast a time exactly, or raise ValueError. NumPy wraps around, and so do its comparisons."""
    if np.isnat(value) or value.dtype == dtype:
        return value.astype(dtype)
    (unit, step), (to_unit, to_step) = (np.datetime_data(each) for each in (value.dtype, dtype))
    if unit in _LENGTHS and to_unit in _LENGTHS:
        span = int(value.astype(np.int64)) * step * _LENGTHS[unit]
        count, rest = divmod(span, to_step * _LENGTHS[to_unit])
        if rest or count == np.iinfo(np.int64).min:  # which is NaT
            raise ValueError
        return np.array(count, np.int64).view(dtype)
    cast = value.astype(dtype)  # of the calendar
    if unit == "generic" or dtype.kind == "m" or cast.astype(value.dtype) != value:
        raise ValueError
    return cast


def _is_same(cast: np.ndarray[Any, Any], value: np.ndarray[Any, Any]) -> bool:
    """Compare as Python's numbers, which are compared exactly. NaN is the same as NaN."""
    one, other = cast.item(), value.item()
    if not isinstance(other, (int, float, complex)):
        return False
    parts = ((one.real, other.real), (one.imag, other.imag))
    return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in parts)


def _expected(fill: Any, value: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> str:
    """Say what a data type holds, and what to pass instead."""
    if dtype.kind in _TIMES:
        name, alias = _TIMES[dtype.kind]
        unit, count = np.datetime_data(dtype)
        example = f"'{_EPOCH}', '{unit}'" if dtype.kind == "M" else f"{count}, '{unit}'"
        such_as = f"numpy.{name}({example})"
        return f"a numpy.{name} or a {alias} that {dtype} holds exactly, such as {such_as}"
    if dtype.kind == "b":
        return "True or False"
    such_as = f", such as {int(value)}" if value.dtype.kind == "b" else ""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return f"an integer of {info.min} to {info.max}{such_as}"
    if value.dtype.kind in _TAKES.get(dtype.kind, "iufO") and isinstance(
        value.item(), (int, float, complex)
    ):
        try:
            with np.errstate(all="ignore"):
                rounded = value.astype(dtype)
            if np.isfinite(rounded):
                such_as = f": numpy.{dtype}({fill!r}) rounds it"
        except OverflowError:
            pass
    return f"a number that {dtype} holds exactly{such_as}"
