"""The forms in which people have their selections: as NumPy takes them, or an error that helps."""

from __future__ import annotations

import array
import collections
import enum
from collections.abc import Callable
from typing import Any

import awkward as ak
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import zarr
import zarrow
from arrays import Maker, Written, write_values
from checks import check_items
from failures import fails

LINE = np.arange(10) * 10
EVEN = np.arange(10) % 2 == 0
POINTS = np.array([[0, 1], [2, 3], [0, 1]])


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> zarrow.Array:
    """`LINE` in chunks of 3."""
    path = tmp_path_factory.mktemp("line") / "a"
    write_values(path, LINE, (3,))
    return zarrow.open_array(path)


@pytest.fixture
def sheet(make: Maker) -> Written:
    """A (10, 6) array."""
    return make(dtype="int32", shape=(10, 6), chunks=(4, 4), codecs=("zstd",))


class Place(enum.IntEnum):
    """An integer of a class of its own."""

    SECOND = 2


# ---- lists of selections ---------------------------------------------------------------------

# What is passed as `selections` to read `LINE`, and what NumPy gives for each.
LISTS: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "generator": (lambda: (slice(at, at + 2) for at in (1, 5)), [LINE[1:3], LINE[5:7]]),
    "map": (lambda: map(int, "31"), [LINE[3], LINE[1]]),
    "deque": (lambda: collections.deque([3, 1]), [LINE[3], LINE[1]]),
    "range": (lambda: range(3), [*LINE[:3]]),
    "values of a dict": (lambda: {"a": 3, "b": 1}.values(), [LINE[3], LINE[1]]),
    "NumPy integers": (lambda: np.array([3, 1], "u1"), [LINE[3], LINE[1]]),
    "NumPy objects": (
        lambda: np.array([slice(1, 2), None], object),
        [LINE[1:2], None],
    ),
    "memoryview": (lambda: memoryview(np.array([3, 1])), [LINE[3], LINE[1]]),
    "polars": (lambda: pl.Series([3, None]), [LINE[3], None]),
    "polars lists": (lambda: pl.Series([[3, 1], None, []]), [LINE[[3, 1]], None, LINE[:0]]),
    "pandas": (lambda: pd.Series([3, 1], [9, 8]), [LINE[3], LINE[1]]),
    "pandas slices": (lambda: pd.Series([slice(1, 3), slice(5)]), [LINE[1:3], LINE[:5]]),
    "Arrow": (lambda: pa.array([3, None]), [LINE[3], None]),
    "Arrow lists": (lambda: pa.array([[3, 1], None, []]), [LINE[[3, 1]], None, LINE[:0]]),
    "Arrow chunks": (lambda: pa.chunked_array([[[3, 1]], [], [None]]), [LINE[[3, 1]], None]),
    "Arrow masks": (lambda: pa.array([EVEN, ~EVEN]), [LINE[EVEN], LINE[~EVEN]]),
    "Arrow lists of one length": (
        lambda: pa.FixedSizeListArray.from_arrays([3, 1, 0, 0], 2),
        [LINE[[3, 1]], LINE[[0, 0]]],
    ),
    "awkward": (lambda: ak.Array([[3, 1], [0]]), [LINE[[3, 1]], LINE[[0]]]),
    "NumPy rows": (lambda: np.array([[3, 1], [0, 0]]), [LINE[[3, 1]], LINE[[0, 0]]]),
    "lists of lists": (lambda: [[3, 1], [0, 0]], [LINE[[3, 1]], LINE[[0, 0]]]),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists(line: zarrow.Array, name: str) -> None:
    make, rows = LISTS[name]
    expected = [None if row is None else row.tolist() for row in rows]
    assert zarrow.read_ragged(line, make()).to_pylist() == expected
    assert zarrow.plan(line, make()).read().to_pylist() == expected


NO_LISTS: dict[str, Any] = {
    "dict": {1: 2, 3: 4},
    "set": {1, 2},
    "frozenset": frozenset({1, 2}),
    "keys of a dict": {1: 2}.keys(),  # a set too
    "str": "12",
    "bytes": b"\1\2",
    "bytearray": bytearray(b"\1\2"),
    "no axis": np.array(3),
    "polars table": pl.DataFrame({"start": [1, 2], "stop": [3, 4]}),
    "pandas table": pd.DataFrame([[1, 2], [3, 4]]),
    "Arrow table": pa.table({"start": [1, 2], "stop": [3, 4]}),
    "Arrow batch": pa.record_batch({"start": [1, 2], "stop": [3, 4]}),
    "mask of two axes": np.ones((10, 10), bool),
    "mask of three axes": np.ones((2, 10, 1), bool),
}


@pytest.mark.parametrize("indexing", ["orthogonal", "pointwise"])
@pytest.mark.parametrize("name", NO_LISTS)
def test_what_is_no_list(line: zarrow.Array, name: str, indexing: Any) -> None:
    """Has no order, or is one value, or may be meant otherwise."""
    for read in (zarrow.read_ragged, zarrow.plan):
        with fails(TypeError, words=("selections is", "expected a list of selections")):
            read(line, NO_LISTS[name], indexing=indexing)


COORDINATES: dict[str, Any] = {
    "NumPy": POINTS,
    "NumPy uint8": POINTS.astype("u1"),
    "F order": np.asfortranarray(POINTS),
    "no points": POINTS[:0],
    "polars": pl.DataFrame(POINTS),
    "pandas": pd.DataFrame(POINTS),
    "pandas, filtered": pd.DataFrame(POINTS[[0, 0, 1, 2]]).drop(index=1),
    "pandas, two types": pd.DataFrame({"y": POINTS[:, 0].astype("u8"), "x": POINTS[:, 1]}),
    "pandas, nullable": pd.DataFrame(POINTS).convert_dtypes(),
    "Arrow table": pa.table({"y": POINTS[:, 0], "x": POINTS[:, 1].astype("i2")}),
    "Arrow batch": pa.record_batch({"y": POINTS[:, 0], "x": POINTS[:, 1]}),
    "Arrow lists": pa.FixedSizeListArray.from_arrays(POINTS.reshape(-1), 2),
    "polars arrays": pl.Series(POINTS),
}


@pytest.mark.parametrize("name", COORDINATES)
def test_coordinates_in_a_list(sheet: Written, name: str) -> None:
    """One selection of points each, whatever holds the table of them."""
    points = COORDINATES[name]
    whole = sheet.whole[tuple(POINTS.T)] if len(points) else sheet.whole[:0, 0]
    for asked in ([points], (points,), [points, None, points]):
        rows = [None if each is None else whole.tolist() for each in asked]
        for read in (zarrow.read_ragged, lambda *a, **k: zarrow.plan(*a, **k).read()):
            assert read(sheet.path, asked, indexing="pointwise").to_pylist() == rows
    with fails(zarrow.SelectionError, words=("selection 1", "ointwise")):
        zarrow.read_ragged(sheet.path, [None, points])


@pytest.mark.parametrize("name", COORDINATES)
def test_coordinates_in_place_of_a_list(sheet: Written, name: str) -> None:
    """Points would be taken for index arrays of the first axis."""
    for read in (zarrow.read_ragged, zarrow.plan):
        with fails(TypeError, words=("selections is", "list of selections", "pass [")):
            read(sheet.path, COORDINATES[name], indexing="pointwise")


def test_lists_are_no_coordinates(sheet: Written) -> None:
    """Nested lists are what they are to NumPy, in both modes."""
    lists = POINTS.tolist()
    check_items(sheet, lists, "orthogonal")
    check_items(sheet, lists, "pointwise")
    check_items(sheet, [lists], "pointwise")
    check_items(sheet, [tuple(pair) for pair in lists], "pointwise")
    check_items(sheet, list(POINTS), "pointwise")
    for ragged in (pa.array(lists), pl.Series(lists)):  # of what length is seen in the data alone
        for indexing in ("orthogonal", "pointwise"):
            with fails(zarrow.SelectionError, words=("selection 0", "(n, ndim)")):
                zarrow.read_ragged(sheet.path, [ragged], indexing=indexing)


WRONG_COORDINATES: dict[str, tuple[Any, str]] = {
    "floats": (pl.DataFrame({"y": [0.0], "x": [1.0]}), "double"),
    "nulls": (pl.DataFrame({"y": [0, None], "x": [1, 1]}), "nulls (1)"),
    "pandas nulls": (pd.DataFrame({"y": [0, None], "x": [1, 1]}, dtype="Int64"), "nulls (1)"),
    "text": (pd.DataFrame({"y": [0], "x": ["1"]}), "string"),
    "uint64": (pa.table({"y": pa.array([2**63], pa.uint64()), "x": [0]}), str(2**63)),
    "null lists": (pa.array([[0, 1], None], pa.list_(pa.int64(), 2)), "nulls (1)"),
    "three columns": (pl.DataFrame(np.zeros((4, 3), int)), "at most 2"),
    "beyond": (pl.DataFrame([[0, 9], [0, 6]]), "index 6"),
}


@pytest.mark.parametrize("name", WRONG_COORDINATES)
def test_wrong_coordinates(sheet: Written, name: str) -> None:
    wrong, word = WRONG_COORDINATES[name]
    with fails(zarrow.SelectionError, words=("selection 1", word)):
        zarrow.read_ragged(sheet.path, [None, wrong], indexing="pointwise")


@pytest.mark.parametrize(
    "columns",
    [
        zarrow.ranges([0], [1]),
        zarrow.boxes([[0, 0]], [[1, 1]]),
        zarrow.windows([1], 3),
        zarrow.rows([0, 1]),
        zarrow.indices([[0]]),
    ],
    ids=repr,
)
def test_columns_have_no_indexing(sheet: Written, columns: zarrow.Selections) -> None:
    """Said, not ignored."""
    for read in (zarrow.read_ragged, zarrow.plan):
        with fails(ValueError, words=("indexing", repr(columns), "list of selections")):
            read(sheet.path, columns, indexing="pointwise")
        read(sheet.path, columns, indexing="orthogonal")


# ---- items -----------------------------------------------------------------------------------

ITEMS: dict[str, list[Any]] = {
    "integers": [np.int8(3), np.uint64(4), np.intp(-1), Place.SECOND, np.array(3), True + 1],
    "Arrow scalars": [pa.scalar(3), pa.scalar(4, pa.uint8())],
    "range": [range(1, 9, 3), range(9, -1, -2), range(0)],
    "lists of NumPy's integers": [[np.int8(1), np.uint64(2)], [np.uint64(3), -1]],
    "lists of scalars": [[np.array(1), np.array(2)], [Place.SECOND]],
    "buffers": [array.array("i", [1, 2]), memoryview(np.array([3, 1]))],
    "read-only": [np.broadcast_to(np.array(3), 4), np.frombuffer(b"\1\2", "u1")],
    "strided": [
        np.arange(10)[::-3],
        np.arange(10)[1::2],
        np.arange(20).reshape(10, 2)[::4, 0] // 2,
    ],
    "swapped bytes": [np.array([1, 2], ">u2"), np.array([-1], ">i8")],
    "pandas": [pd.Index([3, 1]), pd.RangeIndex(1, 9, 3), pd.array([1, 2], dtype="Int64")],
    "pandas of Arrow": [pd.Series([1, 2], dtype="int64[pyarrow]"), pd.Series([], dtype="int64")],
    "polars": [pl.Series([1, 2], dtype=pl.UInt8), pl.Series([], dtype=pl.Int64), pl.Series([])],
    "polars chunks": [pl.Series([1]).append(pl.Series([2])), pl.Series(EVEN).arg_true()],
    "masks": [EVEN, EVEN.tolist(), pl.Series(EVEN), pd.Series(EVEN, dtype="boolean"), ~EVEN],
    "masks of Arrow": [
        pa.chunked_array([EVEN[:3], EVEN[3:]]),
        pd.Series(EVEN, dtype="bool[pyarrow]"),
    ],
    "dictionaries": [pa.array([3, 1, 3]).dictionary_encode(), pd.Series([3, 1]).astype("category")],
    "awkward": [ak.Array([3, 1])],
    "masked arrays": [np.ma.array([3, 1]), np.ma.array([3, 1], mask=False)],
    "slices": [slice(np.int32(1), np.uint8(5), np.int64(2)), slice(np.array(1), pa.scalar(5))],
    "bools in slices": [slice(True, 5), slice(False, None)],
    "huge slices": [slice(10**30), slice(-(10**30), None, 10**30), slice(np.uint64(2**64 - 1))],
}


@pytest.mark.parametrize("indexing", ["orthogonal", "pointwise"])
@pytest.mark.parametrize("name", ITEMS)
def test_items(line: zarrow.Array, name: str, indexing: Any) -> None:
    for item in ITEMS[name]:
        index = item
        if isinstance(item, pa.Scalar):
            index = item.as_py()
        elif isinstance(item, slice):
            index = slice(*(None if at is None else int(at) for at in (item.start, item.stop)))
            index = slice(index.start, index.stop, None if item.step is None else int(item.step))
        elif not isinstance(item, (int, np.integer)) and np.ndim(item):
            is_mask = isinstance(np.asarray(item).tolist()[0], bool) if len(item) else False
            index = np.asarray(item).astype(bool if is_mask else np.int64)
        expected = [LINE[index].tolist()]
        for selections in ([item], [(item,)], [(..., item)]):
            got = zarrow.read_ragged(line, selections, indexing=indexing)
            assert got.to_pylist() == expected, item


NULLS: dict[str, Any] = {
    "Arrow": pa.array([0, None]),
    "Arrow chunks": pa.chunked_array([[0], [None]]),
    "Arrow mask": pa.array([True] * 9 + [None]),
    "polars": pl.Series([0, None]),
    "polars mask": pl.Series([True] * 9 + [None]),
    "polars null": pl.Series([None]),
    "pandas": pd.Series([0, None], dtype="Int64"),
    "pandas mask": pd.Series([True] * 9 + [None], dtype="boolean"),
    "pandas index": pd.Index([0, None], dtype="Int64"),
    "pandas array": pd.array([0, None], dtype="Int64"),
    "pandas of Arrow": pd.Series([0, None], dtype="int64[pyarrow]"),
    "pandas floats": pd.Series([0, None]),
    "pandas categories": pd.Series([0, None]).astype("category"),
}


@pytest.mark.parametrize("name", NULLS)
def test_nulls_are_named(line: zarrow.Array, name: str) -> None:
    """As indices, as bounds and as rows: none is read as a number."""
    values = NULLS[name]
    for selections in ([None, values], [None, (values,)]):
        with fails(zarrow.SelectionError, words=("selection 1", "nulls (1)")):
            zarrow.read_ragged(line, selections)
    with fails(zarrow.SelectionError, words=("nulls (1)",)):
        zarrow.ranges(values, [1, 1])
    with fails(zarrow.SelectionError, words=("nulls (1)",)):
        zarrow.rows(np.arange(len(values) + 1), values)


def test_masked_rows() -> None:
    """What is masked is not known to be wanted."""
    for masked in (np.ma.array([True, False], mask=[0, 1]), np.ma.array([0, 1], mask=[0, 1])):
        with fails(zarrow.SelectionError, words=("rows", "nulls (1)")):
            zarrow.rows([0, 1, 2], masked)


# ---- columns ---------------------------------------------------------------------------------

TABLE = np.array([[1, 3], [4, 9]])

ONE_COLUMN: dict[str, Any] = {
    "read-only": np.broadcast_to(np.array([1, 4]), (2,)),
    "strided": np.array([1, 0, 4, 0])[::2],
    "backwards": np.array([4, 1])[::-1],
    "swapped bytes": np.array([1, 4], ">i4"),
    "column": np.array([[1, 3], [4, 9]])[:, 0],
    "uint64": np.array([1, 4], "u8"),
    "NumPy's integers": [np.int64(1), np.uint8(4)],
    "buffer": array.array("q", [1, 4]),
    "memoryview": memoryview(np.array([1, 4], "i2")),
    "memoryview, strided": memoryview(np.array([1, 0, 4]))[::2],
    "chunks": pa.chunked_array([[1], [], [4]]),
    "polars": pl.DataFrame(TABLE)["column_0"],
    "pandas": pd.DataFrame(TABLE)[0],
    "pandas Int64": pd.array([1, 4], dtype="Int64"),
    "awkward": ak.Array([1, 4]),
    "range": range(1, 5, 3),
}


@pytest.mark.parametrize("name", ONE_COLUMN)
def test_one_column(line: zarrow.Array, name: str) -> None:
    expected = [LINE[1:3].tolist(), LINE[4:9].tolist()]
    asked = zarrow.ranges(ONE_COLUMN[name], [3, 9])
    assert zarrow.read_ragged(line, asked).to_pylist() == expected


def test_starts_of_a_zarr_array(line: zarrow.Array, make: Maker) -> None:
    starts = zarr.create_array(make.folder / "starts", data=np.array([1, 4]), chunks=(1,))
    asked = [zarrow.ranges(starts, [3, 9]), [starts]]
    assert zarrow.read_ragged(line, asked[0]).to_pylist() == [[10, 20], [40, 50, 60, 70, 80]]
    assert zarrow.read_ragged(line, asked[1]).to_pylist() == [[10, 40]]


@pytest.mark.parametrize("name", [name for name in COORDINATES if name != "no points"])
def test_tables_of_corners(sheet: Written, name: str) -> None:
    """Boxes and windows take their axes from the columns of a table."""
    table = COORDINATES[name]
    boxes = zarrow.boxes(table, POINTS + np.array([2, 1]))
    corners = [np.s_[y : y + 2, x : x + 1] for y, x in POINTS]
    expected = [sheet.whole[corner].tolist() for corner in corners]
    assert zarrow.read_ragged(sheet.path, boxes).to_pylist() == expected
    windows = zarrow.windows(table, (1, 1))
    expected = [sheet.whole[y : y + 1, x : x + 1].tolist() for y, x in POINTS]
    assert zarrow.read_ragged(sheet.path, windows).to_pylist() == expected


def test_wrong_tables() -> None:
    """The column is named, or that there is more than one."""
    for table in (pl.DataFrame(TABLE), pd.DataFrame(TABLE), pa.table({"a": [1], "b": [2]})):
        with fails(TypeError, words=("starts", "table", "columns")):
            zarrow.ranges(table, [3, 9])
    wrong = pl.DataFrame({"y": [1, None], "x": [0, 0]})
    with fails(zarrow.SelectionError, words=("starts, column 0", "nulls (1)")):
        zarrow.boxes(wrong, TABLE)
    with fails(TypeError, words=("stops, column 1", "double", "integers")):
        zarrow.boxes(TABLE, pl.DataFrame({"y": [1], "x": [0.5]}))
    with fails(zarrow.SelectionError, words=("(2, 2)", "(2, 1)")):
        zarrow.boxes(TABLE, pd.DataFrame({"y": [1, 2]}))


@pytest.mark.parametrize("values", [b"ab", bytearray(b"ab"), (at for at in [1, 4]), {1, 4}, {1: 4}])
def test_no_column(values: Any) -> None:
    with fails(TypeError, words=("starts is of type", "a list of integers")):
        zarrow.ranges(values, [3, 9])


@pytest.mark.parametrize("values", [[1, np.uint64(2**63)], [np.uint64(2**63), 1], (1, 2**64)])
def test_lists_beyond_int64(values: Any) -> None:
    at = int(values[0] == 1)
    with fails(zarrow.SelectionError, words=(f"selection {at}", str(values[at]))):
        zarrow.ranges(values, [3, 9])


SHAPES: list[tuple[Any, list[int]]] = [
    (3, [20, 30, 40]),
    (np.int8(3), [20, 30, 40]),
    (np.array(3), [20, 30, 40]),
    (np.array([3]), [20, 30, 40]),
    ([np.uint8(3)], [20, 30, 40]),
    ((at for at in (3,)), [20, 30, 40]),
]


@pytest.mark.parametrize(("shape", "expected"), SHAPES, ids=str)
def test_shapes_of_windows(line: zarrow.Array, shape: Any, expected: list[int]) -> None:
    assert zarrow.read_ragged(line, zarrow.windows([3], shape)).to_pylist() == [expected]


INDEX_LISTS: dict[str, Any] = {
    "lists": [[3, 1], [0, 0]],
    "tuples": ((3, 1), (0, 0)),
    "NumPy": np.array([[3, 1], [0, 0]]),
    "NumPy, strided": np.array([[1, 3], [0, 0]], ">u2")[:, ::-1],
    "NumPy arrays": [np.array([3, 1]), np.array([0, 0], "u1")],
    "objects": pd.Series([[3, 1], [0, 0]]),
    "polars": pl.Series([[3, 1], [0, 0]]),
    "awkward": ak.Array([[3, 1], [0, 0]]),
    "list views": pa.array([[3, 1], [0, 0]], pa.list_view(pa.int64())),
    "large list views": pa.array([[9], [3, 1], [0, 0]], pa.large_list_view(pa.int8()))[1:],
    "overlapping views": pa.ListViewArray.from_arrays(
        pa.array([2, 0], pa.int32()), pa.array([2, 2], pa.int32()), pa.array([0, 0, 3, 1])
    ),
}


@pytest.mark.parametrize("name", INDEX_LISTS)
def test_lists_of_indices(line: zarrow.Array, name: str) -> None:
    asked = zarrow.indices(INDEX_LISTS[name])
    assert zarrow.read_ragged(line, asked).to_pylist() == [[30, 10], [0, 0]]


def test_lists_of_no_indices(line: zarrow.Array) -> None:
    for shape in ((3, 0), (0, 3)):
        asked = zarrow.indices(np.zeros(shape, int))
        assert zarrow.read_ragged(line, asked).to_pylist() == [[]] * shape[0]
    for wrong in (np.zeros((2, 2)), np.zeros((2, 2), bool), np.zeros((1, 2, 2), int), {"a": [1]}):
        with fails(TypeError, words=("lists",)):
            zarrow.indices(wrong)


def test_null_list_views(line: zarrow.Array) -> None:
    views = pa.array([[9], [3, 1], None, [], [0]], pa.list_view(pa.int64()))
    for given, rows in ((views, [[90], [30, 10], None, [], [0]]), (views[2:], [None, [], [0]])):
        assert zarrow.read_ragged(line, zarrow.indices(given)).to_pylist() == rows


# ---- the other arguments ---------------------------------------------------------------------


def test_arrays_that_are_no_list(line: zarrow.Array) -> None:
    """Many arrays come as a list, and the message says so of whatever else they come as."""
    objects = np.empty(2, object)
    objects[:] = [line, line]
    for many in (objects, (each for each in [line]), {"a": line}, pd.Series([line, line])):
        name = type(many).__name__
        for read in (zarrow.read_ragged, zarrow.plan):
            with fails(TypeError, words=("sources", name, "list of arrays")):
                read(many, [0, 0], sources=[0, 1])  # type: ignore[arg-type]


@pytest.mark.parametrize("argument", ["threads", "memory_limit"])
@pytest.mark.parametrize("wrong", [1.5, "2", float("inf"), [1], np.array([1, 2])], ids=str)
def test_numbers_that_are_none(line: zarrow.Array, argument: str, wrong: Any) -> None:
    options: dict[str, Any] = {argument: wrong}
    with fails(TypeError, words=(argument, "integer")):
        zarrow.read_ragged(line, [0], **options)


@pytest.mark.parametrize("argument", ["indexing", "missing_chunks"])
def test_names_that_are_arrays(line: zarrow.Array, argument: str) -> None:
    options: dict[str, Any] = {argument: np.array(["fill", "pointwise"])}
    with fails(ValueError, words=(argument, "expected one of")):
        zarrow.read_ragged(line, [0], **options)
    with fails(ValueError, words=("out_of_bounds", "expected one of")):
        zarrow.ranges([0], [1], out_of_bounds=options[argument])
