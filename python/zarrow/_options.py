"""How to read, checked, in the form that Rust takes."""

from __future__ import annotations

import operator
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from zarrow import _zarrow
from zarrow._fill import fill_bytes, variable_bytes
from zarrow._zarrow import Array, Selections
from zarrow.errors import SelectionError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from typing import TextIO

    from zarrow._typing import Indexing, MissingChunks
    from zarrow._zarrow import Canceller

_MAX_THREADS = 1024
_INDEXING = ("orthogonal", "pointwise")
_MISSING_CHUNKS = ("fill", "null", "error")
_NAMED = 6  # data types in a message


def check_indexing(indexing: Indexing) -> str:
    """Check the name of a kind of indexing."""
    return _check_name(indexing, "indexing", _INDEXING)


def check_promote(promote: bool) -> bool:
    """Check a bool, of Python or NumPy."""
    if not isinstance(promote, (bool, np.bool_)):
        raise TypeError(f"promote is {promote!r}; expected True or False")
    return bool(promote)


def options(
    selections: Any,
    arrays: Sequence[Array],
    *,
    promote: bool,
    threads: int | None,
    memory_limit: int | None,
    missing_chunks: MissingChunks,
    fill: Any,
    concurrency: int | None = None,
    max_gap: int | None = None,
    timeout: float | None = None,
) -> tuple[Any, ...]:
    """Check how to read, and bring it to the form that Rust takes."""
    dtype = result_dtype(arrays, promote=promote)
    filled = None
    if fill is not None:
        first = arrays[0]
        is_variable = first._is_variable
        filled = variable_bytes(fill, first) if is_variable else fill_bytes(fill, dtype)
        _check_is_filled(selections, fill)
    return (
        _check_threads(threads),
        _check_memory_limit(memory_limit),
        _check_name(missing_chunks, "missing_chunks", _MISSING_CHUNKS),
        filled,
        check_concurrency(concurrency),
        _check_count(max_gap, "max_gap", 0),
        check_timeout(timeout),
    )


def result_dtype(arrays: Sequence[Array], *, promote: bool) -> np.dtype[Any]:
    """Give the data type of the result: that of all arrays, or the one that holds their values."""
    types = [array.dtype for array in arrays]
    names = [_type_name(array) for array in arrays]
    if all((dtype, name) == (types[0], names[0]) for dtype, name in zip(types, names, strict=True)):
        return types[0]
    try:
        # NumPy makes text of numbers.
        common = None if any(array._is_variable for array in arrays) else np.result_type(*types)
    except TypeError:
        common = None
    if common is not None and not all(_holds(common, dtype) for dtype in types):
        common = None
    if promote and common is not None:
        return common
    paths: dict[str, str] = {}
    for name, array in zip(names, arrays, strict=True):
        paths.setdefault(name, array.path)
    named = [f"{name} ({path!r})" for name, path in paths.items()]
    more = ["others"] if len(named) > _NAMED else []
    got = ", of ".join(named[:_NAMED] + more)
    separately = "read them in separate calls"
    if common is not None:
        expected = f"one data type: pass promote=True, which gives {common}, or {separately}"
    else:
        expected = f"data types of which one holds all values of the others exactly: {separately}"
    raise SelectionError(f"arrays of {got}; expected {expected}")


def _type_name(array: Array) -> str:
    """Name the data type: NumPy has one name for all that differ in length."""
    if array._item_dtype is not None:
        return f"{array.zarr_dtype} of {array._item_dtype}"
    return array.zarr_dtype if array._is_variable else str(array.dtype)


def _holds(wide: np.dtype[Any], narrow: np.dtype[Any]) -> bool:
    """Whether a type holds all values of another exactly, unlike NumPy's safe casts to floats."""
    if wide == narrow:
        return True
    if wide.kind in "Mm" or narrow.kind in "Mm":
        return False
    if wide.kind in "fc" and narrow.kind in "iu":
        return np.iinfo(narrow).bits - (narrow.kind == "i") <= np.finfo(wide).nmant + 1
    return np.can_cast(narrow, wide, "safe")


def _check_is_filled(selections: Any, fill: Any) -> None:
    """Refuse a value to fill with where nothing can be filled in."""
    if isinstance(selections, Selections):
        made, arguments = selections.__reduce__()
        if made is _zarrow._boxes and arguments[-1] == "fill":
            return
    raise ValueError(
        f"fill is {fill!r}, but nothing is filled in; expected it only with ranges, boxes or "
        "windows that are made with out_of_bounds='fill'"
    )


def _check_name(name: Any, argument: str, names: tuple[str, ...]) -> str:
    if not (isinstance(name, str) and name in names):
        raise ValueError(f"{argument} is {name!r}; expected one of {names}")
    return name


def _check_threads(threads: int | None) -> int | None:
    if threads is None:
        return None
    count = _integer(threads, "threads")
    if not 1 <= count <= _MAX_THREADS:
        raise ValueError(
            f"threads is {count}; expected 1 to {_MAX_THREADS}, "
            "or None for as many as may run at once"
        )
    return count


def _check_memory_limit(memory_limit: int | None) -> int | None:
    if memory_limit is None:
        return None
    limit = _integer(memory_limit, "memory_limit")
    if limit < 1:
        raise ValueError(
            f"memory_limit is {limit}; expected a positive number of bytes, or None for no limit"
        )
    return min(limit, sys.maxsize)


def _check_count(value: int | None, argument: str, least: int) -> int | None:
    if value is None:
        return None
    count = _integer(value, argument)
    if count < least:
        raise ValueError(f"{argument} is {count}; expected at least {least}, or None")
    return min(count, sys.maxsize)


def check_concurrency(concurrency: int | None) -> int | None:
    """Check a number of requests."""
    return _check_count(concurrency, "concurrency", 1)


def check_timeout(timeout: float | None) -> float | None:
    """Check a number of seconds."""
    if timeout is None:
        return None
    try:
        seconds = float(timeout)
    except (TypeError, ValueError) as err:
        raise TypeError(f"timeout is {timeout!r}; expected a number of seconds or None") from err
    if not seconds > 0:
        raise ValueError(f"timeout is {timeout!r}; expected more than 0 seconds, or None")
    return min(seconds, 1e9)


def ends_of_opening(
    timeout: float | None, began: float, canceller: Canceller | None, concurrency: int | None
) -> dict[str, Any]:
    """Say what ends opening arrays, in the form that Rust takes; the time `began` earlier."""
    limit = check_timeout(timeout)
    if limit is not None:
        limit = max(limit - (time.monotonic() - began), 1e-9)
    requests = check_concurrency(concurrency)
    return {"timeout": limit, "cancel": canceller, "concurrency": requests}


@contextmanager
def watched(
    progress: Any, cancel: Any, cache: Any, elapsed: float
) -> Generator[dict[str, Any], None, None]:
    """Check who is told how far a read is, in the form that Rust takes, until the read is over."""
    if cache is not None and not isinstance(cache, _zarrow.ChunkCache):
        raise TypeError(f"cache is {cache!r}; expected a zarrow.ChunkCache or None")
    bar: _Bar | _Line | None = None
    told: Any = None
    if progress is True:
        told = bar = _bar()
    elif callable(progress):
        told = progress
    elif progress is not None and progress is not False:
        raise TypeError(
            f"progress is {progress!r}; expected True, or a callable that takes chunks, "
            "all chunks, bytes and all bytes"
        )
    try:
        yield {"progress": told, "cancel": cancel, "cache": cache, "elapsed": elapsed}
    finally:
        if bar is not None:
            bar.close()


def _bar() -> _Bar | _Line:
    """Make a progress bar: that of tqdm where it is installed."""
    try:
        from tqdm.auto import tqdm  # noqa: PLC0415
    except ImportError:
        return _Line()
    return _Bar(tqdm(unit="B", unit_scale=True, desc="zarrow"))


class _Bar:
    """A bar of tqdm."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def __call__(self, chunks: int, chunks_total: int, done: int, total: int) -> None:
        if self._bar.total != total > 0:
            # In a notebook, nothing else tells the widget.
            self._bar.reset(total)
        self._bar.set_postfix_str(f"{chunks}/{chunks_total} chunks", refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        self._bar.close()


class _Line:
    """A line on stderr: rewritten in a terminal, now and then a new one elsewhere."""

    def __init__(self) -> None:
        self._file: TextIO | None = sys.stderr
        self._is_terminal = False
        with suppress(AttributeError, OSError, ValueError):
            self._is_terminal = self._file is not None and self._file.isatty()
        self._pause = 0.1 if self._is_terminal else 10.0
        self._began = self._shown = time.monotonic()
        self._text = self._last = ""

    def __call__(self, chunks: int, chunks_total: int, done: int, total: int) -> None:
        part = f"{done / total:4.0%}, " if total else ""
        counts = f"{chunks}/{chunks_total} chunks, {done / 1e6:.1f}/{total / 1e6:.1f} MB"
        now = time.monotonic()
        self._text = f"zarrow: {part}{counts}, {now - self._began:.1f} s"
        if now - self._shown >= self._pause:
            self._shown = now
            self._show()

    def _show(self, end: str = "") -> None:
        if self._file is None:
            return
        text = self._text
        if self._is_terminal:
            # What was longer is written over.
            text = "\r" + text.ljust(len(self._last)) + end
        elif text == self._last:
            return
        else:
            text += "\n"
        self._last = self._text
        # Nobody's read fails because nobody sees how far it is.
        with suppress(OSError, ValueError):
            self._file.write(text)
            self._file.flush()

    def close(self) -> None:
        """Show the last that was told."""
        if self._text:
            self._show("\n")


def _integer(value: Any, argument: str) -> int:
    try:
        return operator.index(value)
    except TypeError as err:
        raise TypeError(f"{argument} is {value!r}; expected an integer or None") from err
