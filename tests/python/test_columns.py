"""What `ranges` and `boxes` take: integers of every kind, from every library, and nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import zarr
import zarrow

INTEGERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
LIMIT = 2**63


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    """0 to 99."""
    path = tmp_path_factory.mktemp("columns") / "line.zarr"
    zarr.create_array(path, data=np.arange(100, dtype="i2"), chunks=(7,))
    return zarrow.open_array(path)


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """0 to 99, in rows of ten."""
    path = tmp_path_factory.mktemp("columns") / "grid.zarr"
    zarr.create_array(path, data=np.arange(100, dtype="i2").reshape(10, 10), chunks=(3, 4))
    return zarrow.open_array(path)


FORMS = {
    "numpy": lambda a: a,
    "numpy, swapped bytes": lambda a: a.astype(a.dtype.newbyteorder()),
    "numpy, strided": lambda a: np.repeat(a, 2, axis=0)[::2],
    "numpy, read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "numpy, masked": lambda a: np.ma.masked_array(a, mask=np.zeros(a.shape, bool)),
    "list": lambda a: a.tolist(),
    "list of NumPy": list,
    "tuple": lambda a: tuple(a.tolist()),
    "polars": pl.Series,
}
FORMS_1D = FORMS | {
    "arrow": pa.array,
    "arrow, sliced": lambda a: pa.array(np.concatenate([a[:1], a, a[:1]]))[1:-1],
    "arrow, chunked": lambda a: pa.chunked_array([pa.array(a[:1]), pa.array(a[1:])]),
    "pandas": pd.Series,
    "pandas, Arrow": lambda a: pd.Series(a, dtype=pd.ArrowDtype(pa.array(a).type)),
    "pandas, index": pd.Index,
}


def fixed(a):
    return pa.FixedSizeListArray.from_arrays(pa.array(a.reshape(-1)), a.shape[1])


FORMS_2D = FORMS | {
    "numpy, Fortran order": np.asfortranarray,
    "arrow": fixed,
    "arrow, sliced": lambda a: fixed(np.concatenate([a[:1], a, a[:1]]))[1:-1],
    "arrow, chunked": lambda a: pa.chunked_array([fixed(a[:1]), fixed(a[1:])]),
    "arrow, list": lambda a: pa.array(a.tolist(), pa.list_(pa.from_numpy_dtype(a.dtype))),
    "arrow, large list": lambda a: pa.array(a.tolist(), pa.large_list(pa.int64())),
}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("form", FORMS_1D.values(), ids=FORMS_1D)
def test_ranges(line, form, dtype):
    starts, stops = np.array([40, 0, 7], dtype), np.array([43, 2, 7], dtype)
    selections = zarrow.ranges(form(starts), form(stops))
    assert len(selections) == 3
    assert zarrow.read_ragged(line, selections).to_pylist() == [[40, 41, 42], [0, 1], []]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("form", FORMS_2D.values(), ids=FORMS_2D)
def test_boxes(grid, form, dtype):
    starts, stops = (
        np.array([[4, 0], [0, 8], [9, 9]], dtype),
        np.array([[6, 2], [1, 10], [9, 9]], dtype),
    )
    selections = zarrow.boxes(form(starts), form(stops))
    assert len(selections) == 3
    assert zarrow.read_ragged(grid, selections).to_pylist() == [[[40, 41], [50, 51]], [[8, 9]], []]


@pytest.mark.parametrize(
    "none",
    [[], (), range(0), np.empty(0, int), pa.array([], pa.int8()), pl.Series([], dtype=pl.Int8)],
)
def test_no_ranges(line, none):
    assert len(zarrow.ranges(none, none)) == 0
    assert zarrow.read_ragged(line, zarrow.ranges(none, none)).to_pylist() == []


@pytest.mark.parametrize("none", [np.empty((0, 2), int), pa.array([], pa.list_(pa.int8(), 2))])
def test_no_boxes(grid, none):
    assert zarrow.read_ragged(grid, zarrow.boxes(none, none)).to_pylist() == []


def test_kinds_mix(line):
    selections = zarrow.ranges(pa.array([1], pa.uint8()), [3])
    assert zarrow.read_ragged(line, selections).to_pylist() == [[1, 2]]


@pytest.mark.parametrize("form", [lambda a: a, pa.array], ids=["numpy", "arrow"])
def test_later_changes_are_not_seen(line, form):
    starts, stops = np.array([1]), np.array([3])
    selections = zarrow.ranges(form(starts), form(stops))
    starts[0] = stops[0] = 10**9
    assert zarrow.read_ragged(line, selections).to_pylist() == [[1, 2]]


NOT_INTEGERS = {
    "float": 1.5,
    "int": 3,
    "str": "ab",
    "None": None,
    "dict": {1: 2},
    "iterator": iter([1]),
    "floats": [1.5],
    "integers and floats": [1, 1.5],
    "bools": [True],
    "integers and bools": [1, True],
    "strings": ["a"],
    "objects": [object()],
    "numpy floats": np.array([1.0]),
    "numpy floats, empty": np.array([]),
    "numpy bools": np.array([True]),
    "numpy objects": np.array([1], object),
    "numpy dates": np.array(["2020-01-01"], "M8[D]"),
    "arrow floats": pa.array([1.0]),
    "arrow bools": pa.array([True]),
    "arrow dates": pa.array([1], pa.timestamp("s")),
    "arrow floats, empty": pa.array([], pa.float64()),
    "pandas floats": pd.Series([1.0]),
}


@pytest.mark.parametrize("values", NOT_INTEGERS.values(), ids=NOT_INTEGERS)
@pytest.mark.parametrize("make", [zarrow.ranges, zarrow.boxes])
def test_not_integers(make, values):
    with pytest.raises(TypeError, match=r"^starts .*expected"):
        make(values, values)


@pytest.mark.parametrize(
    "values",
    [
        [1, None],
        pa.array([1, None]),
        pa.chunked_array([[1], [None]], pa.int64()),
        np.ma.masked_array([1, 2], mask=[False, True]),
        pd.Series([1, None], dtype="Int64"),
        pl.Series([1, None]),
    ],
)
def test_nulls(values):
    with pytest.raises(zarrow.SelectionError, match=r"^stops has nulls \(1\); expected none"):
        zarrow.ranges([0, 0], values)


@pytest.mark.parametrize(
    "values",
    [
        [[1, 2], None],
        [[1, None]],
        pa.array([[1, 2], None], pa.list_(pa.int64(), 2)),
        pa.FixedSizeListArray.from_arrays(pa.array([1, None]), 2),
    ],
)
def test_nulls_in_boxes(values):
    with pytest.raises(zarrow.SelectionError, match=r"^starts has nulls"):
        zarrow.boxes(values, values)


@pytest.mark.parametrize(
    "values",
    [
        np.array([0, LIMIT], "u8"),
        pa.array([0, LIMIT], pa.uint64()),
        [LIMIT],
        [LIMIT**2],
        [-(LIMIT**2)],
    ],
)
def test_beyond_int64(values):
    expected = rf"^selection {len(values) - 1}: starts holds .* beyond the range of int64"
    with pytest.raises(zarrow.SelectionError, match=expected):
        zarrow.ranges(values, values)


def test_largest_int64_is_taken():
    assert len(zarrow.ranges(np.array([LIMIT - 1], "u8"), pa.array([LIMIT - 1], pa.uint64()))) == 1


@pytest.mark.parametrize(
    "values", [np.array([[1, 2]]), np.array(1), np.int64(1), [[1, 2]], pa.array([[1]])]
)
def test_wrong_rank_of_ranges(values):
    with pytest.raises(zarrow.SelectionError, match=r"^starts has shape \(.*\); expected \(n,\)"):
        zarrow.ranges(values, values)


@pytest.mark.parametrize(
    "values",
    [[1, 2], np.zeros((2, 2, 2), int), np.int64(1), pa.array([1])],
)
def test_wrong_rank_of_boxes(values):
    with pytest.raises(
        zarrow.SelectionError, match=r"^starts has shape \(.*\); expected \(n, ndim\)"
    ):
        zarrow.boxes(values, values)


def test_boxes_without_axes_are_whole():
    assert len(zarrow.boxes(np.zeros((2, 0), int), np.zeros((2, 0), int))) == 2


def test_ragged_boxes():
    with pytest.raises(zarrow.SelectionError, match="lists of 1 to 2 integers"):
        zarrow.boxes([[1, 2], [3]], [[1, 2], [3]])


def test_shapes_differ():
    with pytest.raises(zarrow.SelectionError, match=r"\(2,\) but stops has shape \(3,\)"):
        zarrow.ranges([1, 2], [1, 2, 3])
    with pytest.raises(zarrow.SelectionError, match=r"\(1, 2\) but stops has shape \(1, 3\)"):
        zarrow.boxes([[1, 2]], [[1, 2, 3]])
