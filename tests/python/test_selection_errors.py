"""Selections that cannot be read: the right class, and a message that says which and why."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
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


def test_step_of_zero(written: Written) -> None:
    with fails(zarrow.UnsupportedError, zarrow.SelectionError, words=("selection 0", "step")):
        zarrow.read_ragged(written.path, [slice(0, 4, 0)])


NO_ITEMS: dict[str, Any] = {
    "True": True,
    "False in a tuple": (False, slice(None)),
    "NumPy bool": np.True_,
    "float": 1.0,
    "NumPy float": np.float64(1),
    "NaN": (float("nan"), 0),
    "string": "0",
    "bytes": b"0",
    "float slice": slice(0.0, 2.0),
    "string slice": slice("a", None),
    "list slice": slice([0], [1]),
    "dict": {},
    "object": object(),
    "date": dt.date(2020, 1, 1),
    "complex": 1j,
}


@pytest.mark.parametrize("name", NO_ITEMS)
def test_no_selection_at_all(written: Written, name: str) -> None:
    """Nothing is converted in silence."""
    wrong = NO_ITEMS[name]
    for selections in ([wrong], [slice(0, 2), wrong], [0, wrong], [(0, 0), wrong]):
        word = f"selection {len(selections) - 1}"
        with fails(zarrow.SelectionError, words=(word,)):
            zarrow.read_ragged(written.path, selections)


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
