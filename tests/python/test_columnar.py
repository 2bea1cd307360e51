"""Selections in columns: every maker, from every library, with steps and on every axis."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import zarrow
from arrays import Maker, Written, edit_json
from checks import check_columns
from failures import fails
from hypothesis import given
from hypothesis import strategies as st
from oracle import NDArray
from strategies import Columns, integer_types

SHAPE = (9, 7, 5)
Form = Callable[[NDArray], Any]


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A (9, 7, 5) array."""
    make = Maker(tmp_path_factory.mktemp("cube"))
    return make(dtype="int16", shape=SHAPE, chunks=(4, 3, 2), codecs=("zstd",))


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """An array of 40."""
    make = Maker(tmp_path_factory.mktemp("line"))
    return make(dtype="float32", shape=(40,), chunks=(7,), codecs=("gzip",))


VECTORS: dict[str, Form] = {
    "numpy": lambda a: a,
    "numpy, swapped bytes": lambda a: a.astype(a.dtype.newbyteorder()),
    "numpy, strided": lambda a: np.repeat(a, 3)[::3],
    "numpy, backwards": lambda a: a[::-1].copy()[::-1],
    "list": lambda a: a.tolist(),
    "list of NumPy": list,
    "tuple": lambda a: tuple(a.tolist()),
    "arrow": pa.array,
    "arrow, sliced": lambda a: pa.array(np.concatenate([a, a, a]))[len(a) : 2 * len(a)],
    "arrow, chunked": lambda a: pa.chunked_array([pa.array(a[:1]), pa.array(a[1:])]),
    "arrow, many chunks": lambda a: pa.chunked_array(
        [pa.array(a[i : i + 1]) for i in range(len(a))]
    ),
    "polars": pl.Series,
    "polars, chunked": lambda a: pl.concat([pl.Series(a[:2]), pl.Series(a[2:])], rechunk=False),
    "pandas": pd.Series,
    "pandas, index": pd.Index,
    "pandas, nullable": lambda a: pd.Series(a).convert_dtypes(),
    "pandas, Arrow": lambda a: pd.Series(a, dtype=pd.ArrowDtype(pa.array(a).type)),
    "pandas, other labels": lambda a: pd.Series(a, index=np.arange(len(a))[::-1]),
}


def lists_of_arrow(rows: NDArray, kind: pa.DataType) -> pa.Array:
    return pa.array(rows.tolist(), kind)


TABLES: dict[str, Form] = {
    "numpy": lambda a: a,
    "numpy, Fortran order": np.asfortranarray,
    "numpy, swapped bytes": lambda a: a.astype(a.dtype.newbyteorder()),
    "numpy, columns of a wider one": lambda a: np.concatenate([a, a], axis=1)[:, : a.shape[1]],
    "nested lists": lambda a: a.tolist(),
    "list of NumPy": list,
    "list of tuples": lambda a: [tuple(row) for row in a.tolist()],
    "arrow, fixed": lambda a: lists_of_arrow(a, pa.list_(pa.int64(), a.shape[1])),
    "arrow, list": lambda a: lists_of_arrow(a, pa.list_(pa.int32())),
    "arrow, large": lambda a: lists_of_arrow(a, pa.large_list(pa.int16())),
    "arrow, chunked": lambda a: pa.chunked_array(
        [lists_of_arrow(part, pa.list_(pa.int64(), a.shape[1])) for part in (a[:1], a[1:])]
    ),
    "polars, lists": lambda a: pl.Series(a.tolist()),
    "polars, arrays": pl.Series,
    "pandas, objects": lambda a: pd.Series(a.tolist()),
    "pandas, Arrow": lambda a: pd.Series(
        a.tolist(), dtype=pd.ArrowDtype(pa.list_(pa.int64(), a.shape[1]))
    ),
}


# ---- the same numbers from everywhere --------------------------------------------------------


@pytest.mark.parametrize("kind", ["i1", "i8", "u2", "u8"])
@pytest.mark.parametrize("form", VECTORS)
def test_vectors(cube: Written, form: str, kind: str) -> None:
    """`ranges` with steps on the second axis, `rows`, `windows` of one axis, `sources`."""
    make = VECTORS[form]
    steps = [2, 1, 3, 5] if kind[0] == "u" else [2, 1, -2, -1]
    ends = [(0, 7), (2, 2), (1, 6), (0, 1)] if kind[0] == "u" else [(0, 7), (2, 2), (6, 0), (4, -1)]
    starts, stops = np.array(ends, kind).T
    asked = zarrow.ranges(make(starts), make(stops), make(np.array(steps, kind)), axis=1)
    bounds = zip(ends, steps, strict=True)
    rows = [(np.arange(9), np.arange(*pair, step), np.arange(5)) for pair, step in bounds]
    assert len(asked) == 4
    check_columns(cube, Columns(asked, list(rows), "error", form))

    offsets, which = np.array([0, 2, 2, 9], kind), np.array([2, 0, 1, 2], kind)
    asked = zarrow.rows(make(offsets), make(which))
    starts, stops = [2, 0, 2, 2], [9, 2, 2, 9]
    rows = [
        (np.arange(a, b), np.arange(7), np.arange(5)) for a, b in zip(starts, stops, strict=True)
    ]
    check_columns(cube, Columns(asked, list(rows), "error", form))

    centers = np.array([0, 8, 3], kind)
    asked = zarrow.windows(make(centers), 3, out_of_bounds="clip")
    rows = [(np.arange(c - 1, c + 2), np.arange(7), np.arange(5)) for c in centers.astype(int)]
    check_columns(cube, Columns(asked, list(rows), "clip", form))

    of = zarrow.read_ragged([cube.path] * 2, [0, 1, 2], sources=make(np.array([0, 1, 0], kind)))
    assert of.equals(zarrow.read_ragged(cube.path, [0, 1, 2]))


@pytest.mark.parametrize("form", TABLES)
def test_tables(cube: Written, form: str) -> None:
    """`boxes` with steps, and `windows` of several axes."""
    make = TABLES[form]
    starts = np.array([[0, 6], [8, 0], [3, 3], [5, 5]])
    stops = np.array([[9, -1], [-1, 7], [3, 3], [6, 6]])
    steps = np.array([[2, -3], [-4, 1], [1, 1], [7, 7]])
    asked = zarrow.boxes(make(starts), make(stops), make(steps))
    rows = [
        (*(np.arange(*bound) for bound in zip(*each, strict=True)), np.arange(5))
        for each in zip(starts, stops, steps, strict=True)
    ]
    check_columns(cube, Columns(asked, list(rows), "error", form))
    asked = zarrow.windows(make(starts), (2, 3), out_of_bounds="fill")
    rows = [(np.arange(a - 1, a + 1), np.arange(b - 1, b + 2), np.arange(5)) for a, b in starts]
    check_columns(cube, Columns(asked, list(rows), "fill", form))


LISTS = [[3, 1], [], [8, -2, 8, -9], [0]]
OF_LISTS: dict[str, Callable[[], Any]] = {
    "nested lists": lambda: LISTS,
    "tuples": lambda: [tuple(each) for each in LISTS],
    "list of NumPy": lambda: [np.array(each, "i2") for each in LISTS],
    "arrow": lambda: pa.array(LISTS),
    "arrow, large": lambda: pa.array(LISTS, pa.large_list(pa.int8())),
    "arrow, sliced": lambda: pa.array([[99], *LISTS, [99]])[1:-1],
    "arrow, chunked": lambda: pa.chunked_array([LISTS[:1], LISTS[1:]], pa.list_(pa.int32())),
    "polars": lambda: pl.Series(LISTS),
    "pandas, objects": lambda: pd.Series(LISTS),
    "pandas, Arrow": lambda: pd.Series(LISTS, dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
}


def of_lists(lists: list[list[int]], axis: int) -> list[Any]:
    rows = []
    for each in lists:
        along = [np.arange(length) for length in SHAPE]
        along[axis] = np.array(each, np.int64) % SHAPE[axis]
        rows.append(tuple(along))
    return rows


@pytest.mark.parametrize("form", OF_LISTS)
def test_lists_of_indices(cube: Written, form: str) -> None:
    asked = zarrow.indices(OF_LISTS[form]())
    assert len(asked) == len(LISTS)
    check_columns(cube, Columns(asked, of_lists(LISTS, 0), "error", form))


@pytest.mark.parametrize("form", VECTORS)
def test_offsets_and_values(cube: Written, form: str) -> None:
    make = VECTORS[form]
    values = np.array([each for part in LISTS for each in part], "i2")
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in LISTS])])
    asked = zarrow.indices(make(offsets), make(values))
    check_columns(cube, Columns(asked, of_lists(LISTS, 0), "error", form))
    part = zarrow.indices(make(offsets[1:-1]), make(values))  # values before and behind, not used
    check_columns(cube, Columns(part, of_lists(LISTS[1:-1], 0), "error", form))


@pytest.mark.parametrize("kind", ["u1", "i1", "u2", "i4", "u8", "i8"])
def test_lists_on_each_axis(cube: Written, kind: str) -> None:
    for axis, length in enumerate(SHAPE):
        lists = [[length - 1, 0, 0], [], [1, 2, 3, 4], [2, 1]]
        flat = np.array([at for each in lists for at in each], kind)
        asked = zarrow.indices([0, 3, 3, 7, 9], flat, axis=axis)
        check_columns(cube, Columns(asked, of_lists(lists, axis), "error", kind))


NOTHING: dict[str, Callable[[], Any]] = {
    "list": list,
    "tuple": tuple,
    "numpy": lambda: np.empty(0, "i4"),
    "arrow": lambda: pa.array([], pa.int64()),
    "arrow, null type": lambda: pa.array([]),
    "arrow, no chunks": lambda: pa.chunked_array([], pa.int64()),
    "polars": lambda: pl.Series([], dtype=pl.Int64),
    "pandas": lambda: pd.Series([], dtype="int64"),
}


@pytest.mark.parametrize("form", NOTHING)
def test_no_selections_at_all(cube: Written, form: str) -> None:
    nothing = NOTHING[form]()
    makers: dict[str, Callable[[], zarrow.Selections]] = {
        "ranges": lambda: zarrow.ranges(nothing, nothing),
        "ranges with steps": lambda: zarrow.ranges(nothing, nothing, nothing, axis=2),
        "windows": lambda: zarrow.windows(nothing, 3),
        "rows": lambda: zarrow.rows([0, 3], nothing),
        "indices": lambda: zarrow.indices([0], nothing),
    }
    for name, maker in makers.items():
        check_columns(cube, Columns(maker(), [], "error", name))


@pytest.mark.parametrize(
    "nothing",
    [
        [],
        (),
        pa.array([]),
        pa.array([], pa.list_(pa.int8())),
        pa.chunked_array([], pa.list_(pa.int64())),
    ],
    ids=repr,
)
def test_no_lists_at_all(cube: Written, nothing: Any) -> None:
    check_columns(cube, Columns(zarrow.indices(nothing), [], "error", "none"))


def test_rows_chosen_in_every_way(line: Written) -> None:
    offsets = np.array([0, 3, 3, 10, 40])
    ways: dict[str, tuple[Any, list[int]]] = {
        "all": (None, [0, 1, 2, 3]),
        "slice": (slice(1, 3), [1, 2]),
        "backwards": (slice(None, None, -1), [3, 2, 1, 0]),
        "step": (slice(0, 99, 2), [0, 2]),
        "beyond": (slice(7, None), []),
        "integers": ([3, 0, 0, -1, -4], [3, 0, 0, 3, 0]),
        "none": ([], []),
        "mask": ([True, False, True, False], [0, 2]),
        "NumPy mask": (np.array([False, True, True, False]), [1, 2]),
        "Arrow mask": (pa.array([False, True, True, False]), [1, 2]),
        "chunked mask": (pa.chunked_array([[True], [False, False, True]]), [0, 3]),
        "polars mask": (pl.Series([True, False, False, False]), [0]),
        "pandas mask": (pd.Series([True, False, False, True]), [0, 3]),
        "no row of a mask": (np.zeros(4, bool), []),
        "range": (range(2, 4), [2, 3]),
    }
    for name, (which, chosen) in ways.items():
        rows = [(np.arange(offsets[row], offsets[row + 1]),) for row in chosen]
        asked = zarrow.rows(offsets, which)
        assert len(asked) == len(chosen), name
        check_columns(line, Columns(asked, list(rows), "error", name))


def test_offsets_need_not_begin_at_zero(line: Written) -> None:
    asked = zarrow.rows([5, 9, 12])
    check_columns(line, Columns(asked, [(np.arange(5, 9),), (np.arange(9, 12),)], "error", ""))
    assert len(zarrow.read_ragged(line.path, zarrow.rows([7]))) == 0


def test_windows_lie_around_their_centers(line: Written) -> None:
    """From `center - length // 2` on: one more element in front where the length is even."""
    for side in range(6):
        asked = zarrow.windows([10, 30], side)
        rows = [(np.arange(c - side // 2, c - side // 2 + side),) for c in (10, 30)]
        check_columns(line, Columns(asked, list(rows), "error", str(side)))
    shapes: list[Any] = [3, np.int8(3), (3,), [3], np.array([3])]
    for shape in shapes:
        got = zarrow.read_ragged(line.path, zarrow.windows([10], shape))
        assert got.to_pylist() == [line.whole[9:12].tolist()]


@given(st.data())
def test_steps_as_arange(line: Written, data: st.DataObject) -> None:
    """Any steps from any starts, of any integer type, clipped or in bounds."""
    kind = data.draw(integer_types)
    least = 0 if kind[0] == "u" else -60
    number = st.integers(least, 100)
    steps = st.integers(max(least, -50), 60).filter(bool)
    triples = data.draw(st.lists(st.tuples(number, number, steps), max_size=6))
    sound = [(*((a, b) if (a <= b) == (c > 0) or a == b else (b, a)), c) for a, b, c in triples]
    starts, stops, step = np.array(sound, kind).reshape(len(sound), 3).T
    asked = zarrow.ranges(starts, stops, step, out_of_bounds="clip")
    check_columns(line, Columns(asked, [(np.arange(*each),) for each in sound], "clip", str(sound)))


def test_more_elements_than_32_bits_count(make: Maker) -> None:
    """Three billion, of chunks that nobody wrote."""
    written = make(dtype="uint8", shape=(4,), chunks=(4,), missing=1.0)
    grid = {"name": "regular", "configuration": {"chunk_shape": [1 << 30]}}
    edit_json(written.path / "zarr.json", shape=[1 << 40], chunk_grid=grid)
    asked = zarrow.ranges([5, 1 << 39, 7], [5 + 3_000_000_000, (1 << 39) + 7, 7])
    result, stats = zarrow.read_ragged(written.path, asked, return_stats=True)
    ends = [0, 3_000_000_000, 3_000_000_007, 3_000_000_007]
    assert oracle.offsets_of(result).tolist() == ends
    assert stats.bytes_out == ends[-1]
    assert stats.chunks_missing == 4
    assert result[1].as_py() == [0] * 7
    every_other = zarrow.read_ragged(written.path, [np.s_[: 1 << 32 : 2], [5, 5]])
    assert oracle.offsets_of(every_other).tolist() == [0, 1 << 31, (1 << 31) + 2]


# ---- what a maker gives ----------------------------------------------------------------------


def all_makers() -> dict[str, zarrow.Selections]:
    """Selections in columns of every kind, for an array of shape (9, 7, 5)."""
    return {
        "ranges": zarrow.ranges([0, 2], [4, 9]),
        "ranges with steps": zarrow.ranges([8, 2], [-1, 9], [-3, 2]),
        "ranges of axis 2": zarrow.ranges([0, 2], [4, 5], axis=2),
        "ranges that clip": zarrow.ranges([-3, 2], [4, 99], out_of_bounds="clip"),
        "boxes": zarrow.boxes([[0, 1], [2, 3]], [[4, 5], [6, 7]]),
        "boxes with steps": zarrow.boxes([[0, 6], [2, 3]], [[4, 0], [6, 7]], [[2, -1], [1, 1]]),
        "boxes that fill": zarrow.boxes([[-1, 1]], [[4, 9]], out_of_bounds="fill"),
        "windows": zarrow.windows([[0, 0, 0], [8, 6, 4]], (3, 2, 4), out_of_bounds="null"),
        "rows": zarrow.rows([0, 4, 4, 9], [2, 0]),
        "indices": zarrow.indices([[3, -1], None, []]),
        "indices of axis 1": zarrow.indices([0, 2, 2], [6, 0], axis=1),
        "none": zarrow.boxes(np.zeros((2, 0), int), np.zeros((2, 0), int)),
    }


@pytest.mark.parametrize("name", all_makers())
def test_pickle_and_reuse(cube: Written, name: str) -> None:
    asked = all_makers()[name]
    assert isinstance(asked, zarrow.Selections)
    first = zarrow.read_ragged(cube.path, asked)
    assert len(first) == len(asked)
    assert first.equals(zarrow.read_ragged(cube.path, asked))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(asked, protocol))
        assert (len(again), repr(again)) == (len(asked), repr(asked))
        assert first.equals(zarrow.read_ragged(cube.path, again))
    assert name.split(maxsplit=1)[0] in repr(asked) or name == "none"
    assert str(len(asked)) in repr(asked)


def test_later_changes_are_not_seen(cube: Written) -> None:
    numbers = [np.array(each) for each in ([1, 5], [3, 8], [1, 2])]
    starts, stops, steps = numbers
    made = [
        zarrow.ranges(starts, stops, steps),
        zarrow.ranges(*(pa.array(each) for each in numbers)),
        zarrow.boxes(*(each.reshape(2, 1) for each in numbers)),
        zarrow.windows(starts, 2),
        zarrow.rows(starts),
        zarrow.rows(pa.array(starts)),
        zarrow.indices([0, 2], starts),
        zarrow.indices(pa.LargeListArray.from_arrays(pa.array([0, 2]), pa.array(stops))),
    ]
    before = [zarrow.read_ragged(cube.path, asked) for asked in made]
    for each in numbers:
        each[:] = 8
    assert [zarrow.read_ragged(cube.path, asked) for asked in made] == before


# ---- errors ----------------------------------------------------------------------------------

UNREADABLE: dict[str, tuple[Callable[[], zarrow.Selections], tuple[str, ...]]] = {
    "range beyond": (lambda: zarrow.ranges([0, 3], [1, 10]), ("selection 1", "3..10", "9")),
    "range on axis 2": (
        lambda: zarrow.ranges([0, 3], [1, 6], axis=2),
        ("selection 1", "axis 2", "5"),
    ),
    "step beyond": (lambda: zarrow.ranges([0, 9], [2, -1], [1, -1]), ("selection 1", "9..-1", "9")),
    "step down below": (lambda: zarrow.ranges([0, 3], [2, -2], [1, -1]), ("selection 1", "-2")),
    "box": (
        lambda: zarrow.boxes([[0, 0], [0, 2]], [[1, 1], [2, 8]]),
        ("selection 1", "axis 1", "7"),
    ),
    "box of steps": (
        lambda: zarrow.boxes([[0, 0], [0, 8]], [[1, 1], [2, 0]], [[1, 1], [1, -1]]),
        ("selection 1", "axis 1", "7"),
    ),
    "box of 4 axes": (lambda: zarrow.boxes([[0] * 4], [[1] * 4]), ("4", "3", "[9, 7, 5]")),
    "window": (lambda: zarrow.windows([4, 0, 4], 3), ("selection 1", "-1..2", "9")),
    "window of axis 1": (
        lambda: zarrow.windows([[4, 3], [4, 6]], 3 * np.ones(2, int)),
        ("selection 1", "axis 1"),
    ),
    "row": (lambda: zarrow.rows([0, 4, 12]), ("selection 1", "4..12", "9")),
    "chosen row": (lambda: zarrow.rows([0, 4, 12, 9], [0, 0, 1]), ("selection 2", "4..12")),
    "row that descends": (lambda: zarrow.rows([0, 4, 3]), ("selection 1", "4..3")),
    "row before": (lambda: zarrow.rows([-2, 4]), ("selection 0", "-2")),
    "index": (lambda: zarrow.indices([[0], [8, 9]]), ("selection 1", "index 9", "-9 to 8")),
    "negative index": (lambda: zarrow.indices([None, [0], [-10]]), ("selection 2", "index -10")),
    "index on axis 1": (
        lambda: zarrow.indices([[0], [7]], axis=1),
        ("selection 1", "index 7", "axis 1"),
    ),
    "no axis 3": (lambda: zarrow.ranges([0], [1], axis=3), ("axis 3", "[9, 7, 5]")),
    "no axis 63": (lambda: zarrow.ranges([0], [1], axis=63), ("axis 63", "[9, 7, 5]")),
    "no axis 3 of indices": (lambda: zarrow.indices([[0]], axis=3), ("axis 3", "[9, 7, 5]")),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read(cube: Written, name: str) -> None:
    maker, words = UNREADABLE[name]
    asked = maker()
    with fails(zarrow.SelectionError, words=words):
        zarrow.read_ragged(cube.path, asked)
    with fails(zarrow.SelectionError, words=words):
        zarrow.plan(cube.path, asked)


def test_the_first_of_very_many_is_named(line: Written) -> None:
    count = 150_000
    starts = np.arange(count) % 30
    wrong = starts.copy()
    wrong[123_456:] += 40
    makers = [
        lambda: zarrow.ranges(wrong, wrong + 1),
        lambda: zarrow.ranges(wrong, wrong + 2, np.full(count, 2)),
        lambda: zarrow.windows(wrong, 1),
        lambda: zarrow.indices(np.arange(count + 1), wrong),
    ]
    for maker in makers:
        with fails(zarrow.SelectionError, words=("selection 123456",)):
            zarrow.read_ragged(line.path, maker())


UNMAKABLE: dict[str, tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = {
    "step 0": (
        lambda: zarrow.ranges([1, 2], [2, 3], [1, 0]),
        zarrow.SelectionError,
        ("selection 1", "step 0"),
    ),
    "step 0 of a box": (
        lambda: zarrow.boxes([[0, 0]] * 3, [[1, 1]] * 3, [[1, 1], [1, 1], [2, 0]]),
        zarrow.SelectionError,
        ("selection 2", "step 0"),
    ),
    "fewer steps": (
        lambda: zarrow.ranges([1, 2], [2, 3], [1]),
        zarrow.SelectionError,
        ("(2,)", "steps", "(1,)"),
    ),
    "float steps": (lambda: zarrow.ranges([1], [2], [1.0]), TypeError, ("steps", "integers")),
    "null steps": (
        lambda: zarrow.ranges([1], [2], [None]),
        zarrow.SelectionError,
        ("steps", "null"),
    ),
    "one step for all": (lambda: zarrow.ranges([1], [2], 2), TypeError, ("steps", "int")),
    "huge step": (
        lambda: zarrow.ranges([1], [2], [2**63]),
        zarrow.SelectionError,
        ("selection 0", "steps", str(2**63)),
    ),
    "axis -1": (lambda: zarrow.ranges([1], [2], axis=-1), ValueError, ("axis", "-1")),
    "axis 2**70": (lambda: zarrow.ranges([1], [2], axis=2**70), ValueError, ("axis", str(2**70))),
    "axis 1.0": (lambda: zarrow.ranges([1], [2], axis=1.0), TypeError, ("float",)),
    "axis of indices": (lambda: zarrow.indices([[1]], axis=-2), ValueError, ("axis", "-2")),
    "window of length -1": (
        lambda: zarrow.windows([1], -1),
        zarrow.SelectionError,
        ("(-1,)", "0 to"),
    ),
    "window of float length": (lambda: zarrow.windows([1], 2.5), TypeError, ("shape", "2.5")),
    "window of lengths": (lambda: zarrow.windows([1], (2.5,)), TypeError, ("shape", "2.5")),
    "window of no shape": (lambda: zarrow.windows([1], None), TypeError, ("shape", "None")),
    "window of text": (lambda: zarrow.windows([1], "ab"), TypeError, ("shape", "ab")),
    "window beyond int64": (
        lambda: zarrow.windows([1], 2**70),
        zarrow.SelectionError,
        (str(2**70),),
    ),
    "window near the end": (
        lambda: zarrow.windows([1, 2**63 - 1], 4),
        zarrow.SelectionError,
        ("selection 1", "4", str(2**63 - 1)),
    ),
    "window near the start": (
        lambda: zarrow.windows([[0, 0], [0, -(2**63)]], (3, 3)),
        zarrow.SelectionError,
        ("selection 1", "3", str(-(2**63))),
    ),
    "two axes of one": (
        lambda: zarrow.windows([1, 2], (3, 3)),
        zarrow.SelectionError,
        ("(2,)", "2 axes"),
    ),
    "one axis of two": (
        lambda: zarrow.windows([[1, 2]], 3),
        zarrow.SelectionError,
        ("(1, 2)", "1 axes"),
    ),
    "float centers": (lambda: zarrow.windows([1.5], 3), TypeError, ("centers", "integers")),
    "no offsets": (lambda: zarrow.rows([]), zarrow.SelectionError, ("offsets", "empty")),
    "float offsets": (lambda: zarrow.rows([0.0, 1.0]), TypeError, ("offsets", "integers")),
    "offsets of two axes": (
        lambda: zarrow.rows([[0, 1]]),
        zarrow.SelectionError,
        ("offsets", "(1, 2)"),
    ),
    "row out of bounds": (
        lambda: zarrow.rows([0, 2, 3], [1, 2]),
        zarrow.SelectionError,
        ("selection 1", "row 2", "-2 to 1"),
    ),
    "row far below": (
        lambda: zarrow.rows([0, 2, 3], [-3]),
        zarrow.SelectionError,
        ("selection 0", "row -3"),
    ),
    "row of no rows": (
        lambda: zarrow.rows([0], [0]),
        zarrow.SelectionError,
        ("selection 0", "row 0"),
    ),
    "float rows": (lambda: zarrow.rows([0, 2], [0.0]), TypeError, ("rows", "integers")),
    "one row": (lambda: zarrow.rows([0, 2], 0), TypeError, ("rows", "int")),
    "short mask": (
        lambda: zarrow.rows([0, 2, 3], [True]),
        zarrow.SelectionError,
        ("rows", "(1,)", "(2,)"),
    ),
    "null mask": (lambda: zarrow.rows([0, 2], pa.array([None], pa.bool_())), Exception, ("rows",)),
    "rows of step 0": (
        lambda: zarrow.rows([0, 2], slice(None, None, 0)),
        zarrow.SelectionError,
        ("rows", "step 0"),
    ),
    "uint64 row": (
        lambda: zarrow.rows([0, 2], np.array([0, 2**64 - 1], "u8")),
        zarrow.SelectionError,
        ("selection 1", str(2**64 - 1)),
    ),
    "no lists": (lambda: zarrow.indices([1, 2]), TypeError, ("lists",)),
    "lists of floats": (lambda: zarrow.indices([[1.0]]), TypeError, ("lists", "integers")),
    "lists of bools": (lambda: zarrow.indices([[True]]), TypeError, ("lists", "integers")),
    "lists of lists": (lambda: zarrow.indices([[[1]]]), TypeError, ("lists",)),
    "mixed lists": (lambda: zarrow.indices([[1], 2]), TypeError, ("lists",)),
    "text": (lambda: zarrow.indices(["ab"]), TypeError, ("lists",)),
    "a number": (lambda: zarrow.indices(3), TypeError, ("lists",)),
    "None": (lambda: zarrow.indices(None), TypeError, ("lists",)),
    "nulls in lists": (lambda: zarrow.indices([[1, None]]), zarrow.SelectionError, ("null",)),
    "list beyond int64": (
        lambda: zarrow.indices(pa.array([[0], [2**64 - 1]], pa.list_(pa.uint64()))),
        zarrow.SelectionError,
        (str(2**64 - 1),),
    ),
    "offsets that descend": (
        lambda: zarrow.indices([0, 3, 1], [1, 2, 3]),
        zarrow.SelectionError,
        ("selection 1", "3", "1"),
    ),
    "offsets beyond": (
        lambda: zarrow.indices([0, 1, 9], [1, 2, 3]),
        zarrow.SelectionError,
        ("selection 1", "9", "3"),
    ),
    "offsets below": (
        lambda: zarrow.indices([-1, 1], [1, 2, 3]),
        zarrow.SelectionError,
        ("selection 0", "-1"),
    ),
    "no offsets of lists": (
        lambda: zarrow.indices([], [1]),
        zarrow.SelectionError,
        ("offsets", "empty"),
    ),
    "float values": (lambda: zarrow.indices([0, 1], [1.5]), TypeError, ("values", "integers")),
    "mask of values": (lambda: zarrow.indices([0, 1], [True]), TypeError, ("values", "integers")),
    "pandas of objects": (
        lambda: zarrow.ranges(pd.Series([0, "a"]), [1, 1]),
        TypeError,
        ("starts",),
    ),
    "pandas of objects in lists": (
        lambda: zarrow.indices(pd.Series([[0], "a"])),
        TypeError,
        ("lists",),
    ),
    "pandas of objects as centers": (
        lambda: zarrow.windows(pd.Series([0, "a"]), 1),
        TypeError,
        ("centers",),
    ),
}


@pytest.mark.parametrize("name", UNMAKABLE)
def test_what_cannot_be_made(name: str) -> None:
    maker, kind, words = UNMAKABLE[name]
    with fails(kind, words=words):
        maker()
