"""Any array, however stored, and any selections: the result is NumPy's, each chunk decoded once."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pytest
import strategies
import zarrow
from arrays import Layout, Maker, Written, write
from hypothesis import given
from hypothesis import strategies as st


def check(written: Written, asked: Any, selections: list[Any]) -> None:
    """Read, compare with NumPy, and compare the counters with a naive count."""
    layout = written.layout
    result, stats = zarrow.read_ragged(written.path, asked, return_stats=True)
    expected = oracle.expect(written.whole, selections)
    oracle.assert_equal(result, expected)
    assert stats.rows == len(selections)
    if layout.dtype != "bool":
        assert stats.bytes_out == len(expected.values)
    if not layout.nested:
        touched = oracle.touched(layout.shape, layout.chunks, selections)
        assert stats.chunks_decoded == len(touched & written.stored)
        assert stats.chunks_fetched == len(touched & written.stored)
        assert stats.chunks_missing == len(touched - written.stored)


def check_layout(layout: Layout, data: st.DataObject) -> None:
    """One array, three ways to ask."""
    with tempfile.TemporaryDirectory() as folder:
        written = write(layout, Path(folder) / "array.zarr")
        selections = data.draw(strategies.selections(layout.shape), label="selections")
        check(written, selections, selections)

        boxes = data.draw(strategies.boxes_in(layout.shape), label="boxes")
        kind = data.draw(strategies.integer_types, label="integer type")
        ends = np.array(boxes, kind).reshape(len(boxes), len(layout.shape), 2)
        slices = [tuple(slice(*run) for run in box) for box in boxes]
        check(written, zarrow.boxes(ends[..., 0], ends[..., 1]), slices)

        if not layout.shape:
            return
        runs = data.draw(st.lists(strategies.runs(layout.shape[0]), max_size=8), label="runs")
        starts, stops = np.array(runs, kind).reshape(len(runs), 2).T
        check(written, zarrow.ranges(starts, stops), [slice(*run) for run in runs])


@given(strategies.layouts_v3(), st.data())
def test_v3(layout: Layout, data: st.DataObject) -> None:
    check_layout(layout, data)


@given(strategies.layouts_v2(), st.data())
def test_v2(layout: Layout, data: st.DataObject) -> None:
    check_layout(layout, data)


@given(strategies.layouts_v3(), st.data())
def test_handle_and_threads(layout: Layout, data: st.DataObject) -> None:
    """A handle that is used again, on any number of threads, gives the same as the first read."""
    threads = data.draw(st.sampled_from([None, 1, 2, 7]), label="threads")
    selections = data.draw(strategies.selections(layout.shape), label="selections")
    with tempfile.TemporaryDirectory() as folder:
        written = write(layout, Path(folder) / "array.zarr")
        handle = zarrow.open_array(written.path)
        assert handle.shape == layout.shape
        assert handle.dtype == np.dtype(layout.dtype)
        for _ in range(2):
            result = zarrow.read_ragged(handle, iter(selections), threads=threads)
            oracle.assert_equal(result, oracle.expect(written.whole, selections))


RUNS = ((3, 9), (0, 0), (8, 12), (3, 9), (11, 12), (5, 5), (0, 12))
BOXES = (((1, 0), (9, 2)), ((5, 1), (12, 3)), ((2, 2), (2, 3)))
SMALL = Layout(dtype="float32", shape=(12, 3), chunks=(5, 2))
KINDS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("kind", KINDS)
def test_forms_of_ranges(kind: str, make: Maker) -> None:
    """The same numbers as NumPy arrays (any layout), Arrow arrays (sliced too) and lists."""
    starts, stops = np.array(RUNS, kind).T
    wide = np.zeros((len(RUNS), 3), kind)
    wide[:, 1] = starts
    padded = pa.array([99, *starts.tolist(), 99], pa.from_numpy_dtype(np.dtype(kind)))
    forms: list[tuple[Any, Any]] = [
        (starts, stops),
        (starts.tolist(), stops.tolist()),
        (tuple(starts), tuple(stops)),
        (pa.array(starts), pa.array(stops)),
        (wide[:, 1], np.ascontiguousarray(stops)),
        (starts[::-1].copy()[::-1], stops.astype(">i8")),
        (padded[1:-1], stops),
    ]
    written = make(SMALL)
    for form in forms:
        asked = zarrow.ranges(*form)
        assert len(asked) == len(RUNS)
        check(written, asked, [slice(*run) for run in RUNS])
        check(written, asked, [slice(*run) for run in RUNS])  # may be used again


@pytest.mark.parametrize("kind", KINDS)
def test_forms_of_boxes(kind: str, make: Maker) -> None:
    """The same numbers as NumPy arrays (any layout) and Arrow lists of fixed size (sliced too)."""
    ends = np.array(BOXES, kind)
    starts, stops = ends[:, 0], ends[:, 1]
    slices = [tuple(map(slice, *box)) for box in BOXES]
    lists = [
        pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 2) for values in (starts, stops)
    ]
    forms: list[tuple[Any, Any]] = [
        (starts, stops),
        (np.ascontiguousarray(starts), np.asfortranarray(stops)),
        (starts.astype(">i4"), stops),
        (lists[0], lists[1]),
        (starts, lists[1]),
    ]
    written = make(SMALL)
    for form in forms:
        asked = zarrow.boxes(*form)
        assert len(asked) == len(BOXES)
        check(written, asked, slices)
    check(written, zarrow.boxes(lists[0][1:], lists[1][1:]), slices[1:])
