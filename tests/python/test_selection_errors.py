"""Selections that cannot be read: the right class, and a message that says which and why."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import oracle
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import zarrow
from arrays import Maker, Written
from failures import fails

SHAPE = (10, 6)


@pytest.fixture
def written(make: Maker) -> Written:
    """A (10, 6) array."""
    return make(dtype="int32", shape=SHAPE, chunks=(4, 4))


OUT_OF_BOUNDS: dict[str, tuple[list[Any], tuple[str, ...]]] = {
    "first axis": ([(0, 0), (10, 0)], ("selection 1", "10")),
    "second axis": ([np.s_[:, 5], np.s_[:, 6]], ("selection 1", "6")),
    "negative": ([-10, -11], ("selection 1", "-11", "10")),
    "bare": ([3, 4, 5, 99], ("selection 3", "99", "10")),
    "huge": ([0, 2**63], ("selection 1",)),
    "huger": ([0, 0, 2**70], ("selection 2",)),
    "hugely negative": ([-(2**70)], ("selection 0",)),
    "unsigned": ([0, np.uint64(2**64 - 1)], ("selection 1",)),
    "after Ellipsis": ([np.s_[..., 1], np.s_[..., 7]], ("selection 1", "7", "6")),
}


@pytest.mark.parametrize("name", OUT_OF_BOUNDS)
def test_integer_out_of_bounds(written: Written, name: str) -> None:
    selections, words = OUT_OF_BOUNDS[name]
    with fails(zarrow.SelectionError, words=words):
        zarrow.read_ragged(written.path, selections)


def test_integer_on_an_empty_axis(make: Maker) -> None:
    written = make(shape=(0, 3), chunks=(1, 3))
    for index in (0, -1):
        with fails(zarrow.SelectionError, words=("selection 0",)):
            zarrow.read_ragged(written.path, [index])


@pytest.mark.parametrize(
    "wrong",
    [np.s_[0, 0, 0], np.s_[:, :, :], np.s_[0:1, ..., 0:1, 0:1], np.s_[..., 0:1, 0:1, 0]],
    ids=str,
)
def test_too_many_axes(written: Written, wrong: Any) -> None:
    kept = sum(isinstance(item, slice) for item in wrong)
    good: Any = [(0, 0), 0, np.s_[0:1], np.s_[0:1]][kept]
    with fails(zarrow.SelectionError, words=("selection 1", "2")):
        zarrow.read_ragged(written.path, [good, wrong])
    with fails(zarrow.SelectionError, words=("selection 0", "2")):
        zarrow.read_ragged(written.path, [wrong])


def test_axes_of_a_scalar(make: Maker) -> None:
    written = make(shape=(), chunks=())
    for wrong in (0, slice(None), (0,), (..., 0)):
        with fails(zarrow.SelectionError, words=("selection 1",)):
            zarrow.read_ragged(written.path, [(), wrong])
        with fails(zarrow.SelectionError, words=("selection 0",)):
            zarrow.read_ragged(written.path, [wrong])
    with fails(zarrow.SelectionError):
        zarrow.read_ragged(written.path, zarrow.ranges([0], [1]))


def test_two_ellipses(written: Written) -> None:
    with fails(zarrow.SelectionError, words=("selection 1", "ellipsis")):
        zarrow.read_ragged(written.path, [..., (..., ...)])


@pytest.mark.parametrize(
    "items",
    [[np.s_[0:1], 0], [0, np.s_[0:1]], [(0, 0), 0], [np.s_[:], np.s_[:, 0]], [..., (0, ...)]],
    ids=str,
)
def test_unequal_numbers_of_kept_axes(written: Written, items: list[Any]) -> None:
    with fails(zarrow.SelectionError, words=("selection 2", "1", "axes")):
        zarrow.read_ragged(written.path, [items[0], items[0], items[1]])


@pytest.mark.parametrize("zero", [0, np.int8(0), np.uint64(0)], ids=repr)
def test_step_of_zero(written: Written, zero: Any) -> None:
    for wrong in (
        slice(0, 4, zero),
        (slice(None), slice(None, None, zero)),
        (0, slice(0, 0, zero)),
    ):
        with fails(zarrow.SelectionError, words=("selection 1", "step")):
            zarrow.read_ragged(written.path, [None, wrong])


NO_ITEMS: dict[str, Any] = {
    "True": True,
    "False in a tuple": (False, slice(None)),
    "NumPy bool": np.True_,
    "NumPy bool in a tuple": (np.False_, 0),
    "0-d mask": np.array(True),
    "float": 1.0,
    "NumPy float": np.float64(1),
    "short float": np.float32(1),
    "NaN": (float("nan"), 0),
    "string": "0",
    "bytes": b"0",
    "float array": np.array([0.0, 1.0]),
    "empty float array": np.array([]),
    "list of floats": [0.0, 1.0],
    "list of strings": ["0"],
    "list of None": [None],
    "integers and floats": [0, 1.5],
    "integers and None": [0, None],
    "ragged list": [[0, 1], [2]],
    "list of slices": [slice(0, 1), slice(1, 2)],
    "objects": np.array([0, 1], object),
    "dates in an array": np.array([0, 1], "M8[s]"),
    "durations in an array": np.array([0, 1], "m8[s]"),
    "complex array": np.array([0j, 1j]),
    "masked values": np.ma.masked_array([0, 1], mask=[False, True]),
    "Arrow floats": pa.array([0.0, 1.0]),
    "Arrow nulls": pa.array([0, None]),
    "Arrow mask with nulls": pa.array([True] * 9 + [None]),
    "Arrow strings": pa.array(["0"]),
    "Arrow dates": pa.array([0, 1], pa.date32()),
    "Arrow lists": pa.array([[0, 1], [1, 0]]),
    "Arrow scalar": pa.scalar(1.5),
    "chunked floats": pa.chunked_array([[0.0], [1.0]]),
    "Series of floats": pd.Series([0.0, 1.0]),
    "Series of objects": pl.Series(["a"]),
    "Series with nulls": pl.Series([0, None]),
    "nested float tuple": ((0.0, 1.0), 0),
    "float slice": slice(0.0, 2.0),
    "float step": slice(None, None, 1.0),
    "string slice": slice("a", None),
    "list slice": slice([0], [1]),
    "bool array slice": slice(np.array([0, 1]), None),
    "dict": {},
    "set": {0, 1},
    "object": object(),
    "date": dt.date(2020, 1, 1),
    "complex": 1j,
    "function": len,
    "list of 2**63": [0, 2**63],
    "list of 2**70": [0, 2**70],
    "list of -2**70": [-(2**70)],
    "uint64": np.array([0, 2**63], "u8"),
    "Arrow uint64": pa.array([0, 2**64 - 1], pa.uint64()),
}


@pytest.mark.parametrize("indexing", ["orthogonal", "pointwise"])
@pytest.mark.parametrize("name", NO_ITEMS)
def test_no_selection_at_all(written: Written, name: str, indexing: Any) -> None:
    """Nothing is converted in silence."""
    wrong = NO_ITEMS[name]
    for selections in ([wrong], [slice(0, 2), wrong], [0, wrong], [(0, 0), wrong], [None, wrong]):
        word = f"selection {len(selections) - 1}"
        with fails(zarrow.SelectionError, words=(word,)):
            zarrow.read_ragged(written.path, selections, indexing=indexing)
        with fails(zarrow.SelectionError, words=(word,)):
            zarrow.plan(written.path, selections, indexing=indexing)


# Of an array of shape (10, 6): what is wrong, and what the message has to say.
WRONG_ARRAYS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "index beyond": ([0, 10, 99], ("index 10", "axis 0", "10", "-10 to 9")),
    "negative index beyond": ([0, -11], ("index -11", "axis 0", "10")),
    "index beyond the second axis": (np.s_[:, [0, 6]], ("index 6", "axis 1", "6", "-6 to 5")),
    "index beyond, after Ellipsis": (np.s_[..., [7]], ("index 7", "axis 1")),
    "index beyond, after a new axis": ((None, slice(None), [-7]), ("index -7", "axis 1")),
    "NumPy index": (np.array([3, 12], "u1"), ("index 12", "axis 0")),
    "Arrow index": (pa.array([3, -12]), ("index -12", "axis 0")),
    "least int64": (np.array([-(2**63)]), (str(-(2**63)), "axis 0")),
    "greatest int64": (np.array([2**63 - 1]), (str(2**63 - 1), "axis 0")),
    "short mask": (np.ones(9, bool), ("mask", "[9]", "[10]")),
    "long mask": ([True] * 11, ("mask", "[11]", "[10]")),
    "empty mask": (np.ones(0, bool), ("mask", "[0]", "[10]")),
    "Arrow mask": (pa.array([True] * 6), ("mask", "[6]", "[10]")),
    "mask of the wrong axis": ((slice(None), np.ones(10, bool)), ("mask", "[10]", "axis 1", "[6]")),
    "mask of two axes": (np.ones((6, 10), bool), ("mask", "[6, 10]", "[10, 6]")),
    "mask of three axes": (np.ones((10, 6, 1), bool), ("3", "at most 2", "[10, 6]")),
    "mask of two axes and an item": ((np.ones((10, 6), bool), 0), ("3", "at most 2", "[10, 6]")),
    "too many arrays": (([0], [0], [0]), ("3", "at most 2", "[10, 6]")),
    "array and Ellipsis": (([0], ..., [0], [0]), ("3", "at most 2", "[10, 6]")),
    "two Ellipses": (([0], ..., ...), ("ellipsis",)),
    "new axes do not count": ((None, None, 0, 0, 0), ("3", "at most 2", "[10, 6]")),
}


@pytest.mark.parametrize("indexing", ["orthogonal", "pointwise"])
@pytest.mark.parametrize("name", WRONG_ARRAYS)
def test_arrays_that_do_not_fit(written: Written, name: str, indexing: Any) -> None:
    wrong, words = WRONG_ARRAYS[name]
    for before in ([], [None], [None, None, None]):
        with fails(zarrow.SelectionError, words=(f"selection {len(before)}", *words)):
            zarrow.read_ragged(written.path, [*before, wrong], indexing=indexing)


WRONG_POINTS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "lengths": (([0, 1], [0, 1, 2]), ("[2]", "[3]", "broadcast")),
    "shapes": ((np.zeros((2, 3), int), np.zeros((3, 2), int)), ("[2, 3]", "[3, 2]", "broadcast")),
    "of nothing": (([], [0, 1]), ("[0]", "[2]", "broadcast")),
    "mask and list": ((np.ones(10, bool), [0, 1]), ("[10]", "[2]", "broadcast")),
    "coordinates of three axes": (np.zeros((4, 3), int), ("3", "at most 2", "[10, 6]")),
    "coordinates beyond": (np.array([[0, 0], [9, 6]]), ("index 6", "axis 1")),
    "negative coordinates beyond": (np.array([[-11, 0]]), ("index -11", "axis 0")),
    "float coordinates": (np.zeros((4, 2)), ("float64",)),
    "uint64 coordinates": (np.full((1, 2), 2**64 - 1, "u8"), (str(2**64 - 1),)),
}


@pytest.mark.parametrize("name", WRONG_POINTS)
def test_wrong_points(written: Written, name: str) -> None:
    wrong, words = WRONG_POINTS[name]
    with fails(zarrow.SelectionError, words=("selection 1", *words)):
        zarrow.read_ragged(written.path, [None, wrong], indexing="pointwise")


def test_arrays_of_two_axes_are_pointwise(written: Written) -> None:
    """Along one axis of the array there is no room for two."""
    for wrong in (np.zeros((2, 2), int), ([[0, 1], [1, 0]], 0), np.zeros((0, 2), int)):
        with fails(zarrow.SelectionError, words=("selection 1", "pointwise")):
            zarrow.read_ragged(written.path, [None, wrong])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([0, 1], 0),
        ((None, 0), 0),
        ((0, None), ...),
        (np.ones((10, 6), bool), ...),
        (np.s_[::2], (None, slice(None, None, 2))),
        ([0], ([0], 0)),
    ],
    ids=str,
)
def test_kept_axes_of_arrays_differ(written: Written, one: Any, other: Any) -> None:
    for first, second in ((one, other), (other, one)):
        kept = [oracle.orthogonal(written.whole, each).ndim for each in (first, second)]
        if kept[0] == kept[1]:
            continue
        words = ("selection 3", f"keeps {kept[1]}", str(kept[0]), "selection 1")
        with fails(zarrow.SelectionError, words=words):
            zarrow.read_ragged(written.path, [None, first, first, second])


@pytest.mark.parametrize("wrong", ["", "Orthogonal", "oindex", "vindex", None, 0, ["pointwise"]])
def test_unknown_indexing(written: Written, wrong: Any) -> None:
    for read in (zarrow.read_ragged, zarrow.plan):
        with fails(ValueError, words=("indexing", "orthogonal", "pointwise")):
            read(written.path, [...], indexing=wrong)


@pytest.mark.parametrize(
    "wrong",
    [np.s_[0:3, 1:2], np.s_[0:3, 1], np.s_[..., 0:1], np.s_[0:3], ..., 3, None, 2.5],
    ids=str,
)
def test_one_selection_in_place_of_a_list(written: Written, wrong: Any) -> None:
    """The mistake that everybody makes once."""
    with pytest.raises(TypeError) as caught:
        zarrow.read_ragged(written.path, wrong)
    assert "list of selections" in str(caught.value)


@pytest.mark.parametrize("wrong", ["abc", b"abc"])
def test_strings_in_place_of_a_list(written: Written, wrong: Any) -> None:
    with fails(TypeError, zarrow.SelectionError, zarrow.UnsupportedError):
        zarrow.read_ragged(written.path, wrong)


# ---- ranges and boxes ------------------------------------------------------------------------

WRONG_RANGES: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "beyond the edge": ([0, 3, 5], [1, 10, 11], ("selection 2", "11", "10")),
    "start beyond the edge": ([0, 11], [1, 11], ("selection 1", "11", "10")),
    "far beyond": ([0], [2**62], ("selection 0",)),
    "negative start": ([0, -1], [1, 3], ("selection 1", "-1")),
    "negative stop": ([0, 0, 0], [1, 1, -1], ("selection 2", "-1")),
    "both negative": ([-3], [-1], ("selection 0", "-3")),
    "start > stop": ([0, 0, 5, 0], [1, 1, 4, 1], ("selection 2", "5", "4")),
    "uint64": (np.array([0], "u8"), np.array([2**64 - 1], "u8"), (str(2**64 - 1),)),
    "uint64 that wraps to 0": (np.array([2**64 - 1], "u8"), np.array([3], "u8"), (str(2**64 - 1),)),
    "int64 minimum": ([-(2**63)], [3], ("selection 0",)),
    "int8": (np.array([-1], "i1"), np.array([3], "i1"), ("selection 0", "-1")),
}


@pytest.mark.parametrize("name", WRONG_RANGES)
def test_wrong_ranges(written: Written, name: str) -> None:
    starts, stops, words = WRONG_RANGES[name]
    with fails(zarrow.SelectionError, words=words):
        zarrow.read_ragged(written.path, zarrow.ranges(starts, stops))


def test_ranges_on_an_empty_axis(make: Maker) -> None:
    written = make(shape=(0,), chunks=(2,))
    assert len(zarrow.read_ragged(written.path, zarrow.ranges([0, 0], [0, 0]))) == 2
    with fails(zarrow.SelectionError, words=("selection 1",)):
        zarrow.read_ragged(written.path, zarrow.ranges([0, 0], [0, 1]))


def test_first_of_many_wrong_ranges(written: Written) -> None:
    """The first wrong one of 100,000 is named."""
    starts = np.arange(100_000) % 10
    stops = starts + 1
    stops[77_777:] += 5
    with fails(zarrow.SelectionError, words=("selection 77777",)):
        zarrow.read_ragged(written.path, zarrow.ranges(starts, stops))


WRONG_BOXES: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "beyond the first axis": ([(0, 0), (0, 0)], [(1, 1), (11, 1)], ("selection 1", "11", "10")),
    "beyond the second axis": ([(0, 0), (0, 6)], [(1, 1), (1, 7)], ("selection 1", "7", "6")),
    "negative": ([(0, -2)], [(1, 1)], ("selection 0", "-2")),
    "start > stop": ([(0, 0), (3, 2)], [(1, 1), (4, 1)], ("selection 1",)),
    "one axis too many": ([(0, 0, 0)], [(1, 1, 1)], ("3", "2")),
    "beyond the edge of a leading axis": ([(0,), (9,)], [(1,), (11,)], ("selection 1", "11", "10")),
    "no boxes of the wrong rank": (np.zeros((0, 3), int), np.zeros((0, 3), int), ("3", "2")),
}


@pytest.mark.parametrize("name", WRONG_BOXES)
def test_wrong_boxes(written: Written, name: str) -> None:
    starts, stops, words = WRONG_BOXES[name]
    with fails(zarrow.SelectionError, words=words):
        zarrow.read_ragged(written.path, zarrow.boxes(np.array(starts), np.array(stops)))


LENGTHS: dict[str, tuple[Any, Any]] = {
    "shorter": ([0, 1], [1]),
    "longer": (np.array([0]), np.array([1, 2])),
    "one is empty": ([], [1]),
    "Arrow": (pa.array([0, 1, 2]), np.array([1, 2])),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_unequal_lengths(name: str) -> None:
    starts, stops = LENGTHS[name]
    with fails(zarrow.SelectionError, words=(str(len(starts)), str(len(stops)))):
        zarrow.ranges(starts, stops)


def test_unequal_lengths_of_boxes() -> None:
    two, three = np.zeros((2, 2), int), np.zeros((3, 2), int)
    with fails(zarrow.SelectionError, words=("2", "3")):
        zarrow.boxes(two, three)
    with fails(zarrow.SelectionError, words=("2", "3")):
        zarrow.boxes(np.zeros((2, 3), int), two)


NO_INTEGERS: dict[str, Any] = {
    "floats": np.array([0.0, 1.0]),
    "list of floats": [0.0, 1.0],
    "bools": np.array([False, True]),
    "list of bools": [False, True],
    "Arrow floats": pa.array([0.0, 1.0]),
    "Arrow bools": pa.array([False, True]),
    "Arrow nulls": pa.array([0, None], pa.int64()),
    "Arrow strings": pa.array(["0", "1"]),
    "strings": ["0", "1"],
    "None": None,
    "list with None": [0, None],
    "scalar": 3,
    "NumPy scalar": np.int64(3),
    "string": "01",
    "datetimes": np.array([0, 1], "M8[s]"),
    "timedeltas": np.array([0, 1], "m8[s]"),
    "objects": np.array([0, "1"], object),
    "complex": np.array([0j, 1j]),
    "two axes": np.zeros((2, 2), int),
    "no axis": np.zeros((), int),
    "huge Python ints": [0, 2**64],
    "hugely negative Python ints": [0, -(2**63) - 1],
    "Arrow dates": pa.array([0, 1], pa.date32()),
    "Arrow durations": pa.array([0, 1], pa.duration("s")),
    "Arrow decimals": pa.array([0, 1], pa.decimal128(5)),
}


@pytest.mark.parametrize("name", NO_INTEGERS)
def test_columns_that_are_no_integers(name: str) -> None:
    """Floats and bools are never truncated, nulls never read as 0."""
    good = np.array([0, 1])
    for starts, stops in ((NO_INTEGERS[name], good), (good, NO_INTEGERS[name])):
        with fails(zarrow.SelectionError, zarrow.UnsupportedError, TypeError, OverflowError):
            zarrow.ranges(starts, stops)


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((2, 2)),
        np.zeros((2, 2), bool),
        np.zeros(4, int),
        np.zeros((2, 2, 1), int),
        pa.array([0, 1, 2, 3]),
        pa.FixedSizeListArray.from_arrays(pa.array([0.0, 1, 2, 3]), 2),
        pa.FixedSizeListArray.from_arrays(pa.array([0, 1, None, 3]), 2),
        pa.array([[0, 1], None], pa.list_(pa.int64(), 2)),
        pa.array([[0, 1], [2]], pa.list_(pa.int64())),
        None,
        3,
    ],
    ids=lambda wrong: (
        f"{type(wrong).__name__} {getattr(wrong, 'type', getattr(wrong, 'dtype', ''))}"
    ),
)
def test_boxes_that_are_no_integers(wrong: Any) -> None:
    good = np.array([[0, 0], [1, 1]])
    for starts, stops in ((wrong, good), (good, wrong)):
        with fails(zarrow.SelectionError, zarrow.UnsupportedError, TypeError):
            zarrow.boxes(starts, stops)
