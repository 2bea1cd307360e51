"""Every selection that NumPy users know, of any array however stored: the result is NumPy's."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import strategies
import zarr
import zarrow
from arrays import Layout, Maker, Written, write
from checks import check_columns, check_items
from failures import fails
from hypothesis import given
from hypothesis import strategies as st

MAX_NDIM = 4
threads = st.sampled_from([None, 1, 2, 5])
missing_chunks = st.sampled_from(["fill", "fill", "null"])


def check_layout(layout: Layout, data: st.DataObject) -> None:
    """One array, three ways to ask."""
    with tempfile.TemporaryDirectory() as folder:
        written = write(layout, Path(folder) / "array.zarr")
        options: dict[str, Any] = {
            "threads": data.draw(threads, label="threads"),
            "missing_chunks": data.draw(missing_chunks, label="missing_chunks"),
        }
        for indexing in ("orthogonal", "pointwise"):
            selections = data.draw(strategies.vocabulary(layout.shape, indexing), label=indexing)
            check_items(written, selections, indexing, **options)
        columns = data.draw(strategies.columns(layout.shape), label="columns")
        check_columns(written, columns, **options)


@given(strategies.layouts_v3(MAX_NDIM), st.data())
def test_v3(layout: Layout, data: st.DataObject) -> None:
    check_layout(layout, data)


@given(strategies.layouts_v2(MAX_NDIM), st.data())
def test_v2(layout: Layout, data: st.DataObject) -> None:
    check_layout(layout, data)


# Chunks so large that only what is wanted of them is fetched or decoded, where the codecs allow it.
LARGE: dict[str, Layout] = {
    "raw": Layout(shape=(300, 400), chunks=(300, 400)),
    "raw, big-endian": Layout(shape=(300, 400), chunks=(150, 400), endian="big"),
    "raw, transposed": Layout(shape=(300, 400), chunks=(300, 200), transpose=(1, 0)),
    "raw, F order": Layout(shape=(300, 400), chunks=(300, 400), zarr_format=2, order="F"),
    "raw shards": Layout(shape=(300, 400), chunks=(150, 200), shards=(300, 400)),
    "raw, one axis": Layout(shape=(120_000,), chunks=(50_000,)),
    "raw, three axes": Layout(dtype="uint8", shape=(60, 50, 40), chunks=(60, 50, 40)),
    "wide elements": Layout(dtype="complex128", shape=(300, 400), chunks=(200, 400)),
    "blosc": Layout(shape=(300, 400), chunks=(300, 400), codecs=("blosc-lz4",)),
    "blosc, small blocks": Layout(shape=(300, 400), chunks=(200, 300), codecs=("blosc-blocks",)),
    "blosc, transposed": Layout(
        shape=(300, 400), chunks=(300, 400), codecs=("blosc-zstd",), transpose=(1, 0)
    ),
    "blosc shards": Layout(
        shape=(300, 400), chunks=(150, 200), shards=(300, 400), codecs=("blosc-lz4",), missing=0.3
    ),
    "blosc, v2": Layout(
        shape=(300, 400), chunks=(300, 250), zarr_format=2, order="F", codecs=("blosc-lz4",)
    ),
    "zstd": Layout(shape=(300, 400), chunks=(300, 400), codecs=("zstd",)),
    "gzip": Layout(dtype="float64", shape=(300, 400), chunks=(150, 400), codecs=("gzip",)),
    "bool": Layout(dtype="bool", shape=(300, 400), chunks=(300, 400)),
}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Written]:
    """One array of each of these layouts."""
    make = Maker(tmp_path_factory.mktemp("large"))
    return {name: make(layout) for name, layout in LARGE.items()}


@given(st.sampled_from(sorted(LARGE)), st.data())
def test_parts_of_large_chunks(large: dict[str, Written], name: str, data: st.DataObject) -> None:
    """Steps, points and lists of little of each chunk, forwards and backwards."""
    written = large[name]
    indexing = data.draw(st.sampled_from(sorted(oracle.INDEXING)), label="indexing")
    selections = data.draw(
        strategies.few_of_much(written.whole.shape, indexing), label="selections"
    )
    options = {
        "threads": data.draw(threads, label="threads"),
        "memory_limit": data.draw(st.sampled_from([None, None, 4 << 20]), label="memory_limit"),
    }
    columns = data.draw(strategies.columns(written.whole.shape), label="columns")
    check_items(written, selections, indexing, **options)
    check_columns(written, columns, **options)


# ---- case by case ----------------------------------------------------------------------------

STORED: dict[str, dict[str, Any]] = {
    "chunked": {"chunks": (3, 2, 2), "codecs": ("zstd",)},
    "sharded": {"chunks": (2, 2, 1), "shards": (4, 4, 2), "codecs": ("gzip",)},
    "one chunk": {"chunks": (10, 10, 10)},
    "single elements": {"chunks": (1, 1, 1), "shards": (8, 8, 8)},
    "v2, F order": {"chunks": (4, 3, 2), "zarr_format": 2, "order": "F"},
    "transposed, half missing": {"chunks": (4, 3, 2), "transpose": (2, 0, 1), "missing": 0.5},
}


@pytest.fixture(params=STORED, scope="module")
def cube(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A (7, 5, 4) array in several kinds of storage."""
    make = Maker(tmp_path_factory.mktemp("cube"))
    return make(dtype="float64", shape=(7, 5, 4), fill_seed=3, **STORED[request.param])


ROWS = np.array([True, False, False, True, True, False, True])
TABLE = np.arange(35).reshape(7, 5) % 3 == 0
CUBE = np.arange(140).reshape(7, 5, 4) % 7 == 0

BOTH: dict[str, list[Any]] = {
    "steps": [np.s_[::2], np.s_[1::3], np.s_[:6:4], np.s_[2:7:2, ::3, ::2]],
    "backwards": [np.s_[::-1], np.s_[::-2], np.s_[-2:0:-1], np.s_[5::-3, ::-1, ::-1]],
    "backwards past the start": [np.s_[3:-99:-1], np.s_[:-8:-1], np.s_[99:-99:-4], np.s_[2:2:-1]],
    "steps past the end": [np.s_[::7], np.s_[::8], np.s_[3::99], np.s_[::-99], np.s_[99::5]],
    "absurd steps": [np.s_[:: 2**70], np.s_[:: -(2**70)], np.s_[:: 2**63 - 1], np.s_[:: -(2**63)]],
    "absurd ends": [np.s_[2**70 :: -2], np.s_[: -(2**70) : -3], np.s_[-(2**63) : 2**63 - 1 : 2]],
    "NumPy's steps": [slice(None, None, np.int8(-2)), slice(None, None, np.uint64(3))],
    "empty steps": [np.s_[5:2:2], np.s_[2:5:-2], np.s_[0:0:-1], np.s_[:, 3:3:-1]],
    "steps and integers": [np.s_[2, ::-1], np.s_[::3, -1], np.s_[..., ::-2, 0]],
    "list": [[3, 0, 6], [1, 1, 1, 1], [-1, -7, 2], [5], []],
    "list on axis 1": [np.s_[:, [4, 0]], np.s_[2:5, [0, 0, -1]], np.s_[..., [1], :]],
    "list on the last axis": [np.s_[..., [3, 1]], np.s_[:, :, []], np.s_[0:1, ::2, [-4]]],
    "list beside an integer": [np.s_[[0, 6], 2], np.s_[[6], -1], np.s_[[2, 1, 0], 0, :]],
    "NumPy arrays": [np.array(at, k) for at, k in (([3, 0], "u1"), ([-1, 2], "i2"), ([], "i8"))],
    "unsigned": [np.array([3, 0], k) for k in ("u1", "u2", "u4", "u8")],
    "swapped bytes": [np.array([3, 0], k) for k in (">i2", ">u4", ">i8")],
    "strided": [np.arange(14)[::2] % 7, np.arange(7)[::-1], np.arange(12).reshape(4, 3)[:, 1] % 7],
    "masked without masks": [np.ma.masked_array([1, 2], mask=[False, False])],
    "arrow": [pa.array([3, 0, 3]), pa.array([5, -1], pa.int8()), pa.array([], pa.uint16())],
    "arrow, sliced": [pa.array([9, 3, 0, 9])[1:3], pa.array([9])[1:]],
    "arrow, chunked": [pa.chunked_array([[3], [], [0, -1]]), pa.chunked_array([], pa.int64())],
    "Series": [pd.Series([3, 0]), pl.Series([3, 0]), pd.Index([3, 0]), pd.Series([3, 0], [9, 8])],
    "range": [range(3, 0, -1), range(0)],
    "mask": [ROWS, ROWS.tolist(), pa.array(ROWS), pl.Series(ROWS), pd.Series(ROWS), ~ROWS],
    "sliced masks": [np.repeat(ROWS, 2)[::2], pa.array([True, *ROWS])[1:], ROWS[::-1]],
    "chunked mask": [pa.chunked_array([pa.array(ROWS[:3]), pa.array(ROWS[3:])])],
    "all and none": [np.ones(7, bool), np.zeros(7, bool), [True] * 7, [False] * 7],
    "mask on axis 1": [np.s_[:, np.arange(5) % 2 == 0], np.s_[1:3, [True] * 5, ::-1]],
    "mask of two axes": [TABLE, ~TABLE, np.asfortranarray(TABLE), np.zeros((7, 5), bool)],
    "mask of the last two axes": [np.s_[:, np.ones((5, 4), bool)], np.s_[::2, CUBE[0]]],
    "mask of all axes": [CUBE, np.zeros((7, 5, 4), bool), np.ones((7, 5, 4), bool)],
    "new axis": [np.s_[None], np.s_[None, 2:4], np.s_[:, None], np.s_[..., None], (None, ...)],
    "new axes": [(None, None), np.s_[None, ::2, None], np.s_[:, None, :, None], (..., None, None)],
    "new axis and integers": [(None, 0), (0, None), (-1, ..., None), (slice(None), None, 2)],
    "new axis and list": [(None, [1, 2]), ([1, 2], None), ([6, 0, 0], ..., None)],
    "Ellipsis for no axis": [(..., 0, 0, 0), (0, ..., 1, 2), (0, 1, 2, ...)],
    "null rows": [None, ..., None, np.s_[::-1], None],
    "duplicates": [[2, 1], [2, 1], np.s_[::-1], np.s_[::-1], ROWS, ROWS],
}


@pytest.mark.parametrize("indexing", ["orthogonal", "pointwise"])
@pytest.mark.parametrize("name", BOTH)
def test_in_both_modes(cube: Written, name: str, indexing: str) -> None:
    """One index array at most: both modes mean the same."""
    selections = BOTH[name]
    check_items(cube, selections, indexing)
    for one in (each for each in selections if each is not None):
        same = [oracle.INDEXING[mode](cube.whole, one) for mode in oracle.INDEXING]
        assert same[0].shape == same[1].shape
        assert same[0].tobytes() == same[1].tobytes()


ORTHOGONAL: dict[str, list[Any]] = {
    "two lists": [([3, 0], [1, 1, 4]), ([6], []), ([0, 1, 2], [0, 1, 2])],
    "three lists": [([3, 0], [4, 4], [0]), ([1, 2, 3], [-1], [3, 2, 1, 0])],
    "lists around a slice": [([3, 0], slice(None, None, -2), [3, 3]), ([5], slice(1, 1), [0])],
    "list and mask": [([3, 0], np.arange(5) > 2), (ROWS, [4, 0]), (ROWS, ROWS[:5], ROWS[:4])],
    "mask of two axes and list": [
        (TABLE, [3, 0]),
        (TABLE, slice(None, None, -1)),
        (TABLE, ROWS[:4]),
    ],
    "list and mask of two axes": [([6, 0], CUBE[0]), (ROWS, CUBE[1]), (slice(1, 3), CUBE[2])],
    "integer between lists": [([3, 0], 1, [2, 2, 2]), ([3], -1, []), (ROWS, 0, [1])],
    "new axis between lists": [([3, 0], None, [1, 2], 0), ([0], None, ROWS[:5], 1)],
    "arrow and NumPy": [(pa.array([1, 2]), np.array([0]), [3]), (pa.array(ROWS), [0, 1], [2])],
}


@pytest.mark.parametrize("name", ORTHOGONAL)
def test_orthogonal(cube: Written, name: str) -> None:
    check_items(cube, ORTHOGONAL[name], "orthogonal")


def test_orthogonal_is_oindex(cube: Written) -> None:
    """As zarr-python has it, where it takes the selection."""
    rows = [([3, 0, 0], slice(None), [1, 2]), (ROWS, [4, 1], slice(1, 3)), ([6], [0, 4], [3])]
    theirs = zarr.open_array(cube.path)  # anew, for its fill value
    for one in rows:
        assert theirs.oindex[one].tobytes() == oracle.orthogonal(cube.whole, one).tobytes()
        check_items(cube, [one], "orthogonal")


POINTWISE: dict[str, list[Any]] = {
    "points": [([3, 0], [1, 4]), ([6, 6, 6], [0, 0, 0]), ([], []), (np.array([-1]), [-5])],
    "points of all axes": [([3, 0], [1, 4], [2, 2]), ([0], [0], [0]), ([], [], [])],
    "broadcasting": [([[3], [0]], [1, 4, 2]), ([[1]], [[2]]), ([3], [[0, 1], [2, 3]])],
    "broadcasting of empty ones": [([[]], [1]), ([[]], [[1], [2]]), (np.zeros((3, 0), int), [1])],
    "points of two axes": [([[3, 0], [1, 1]], [[0, 1], [2, 3]]), (np.eye(3, dtype=int), 0)],
    "around a slice": [([3, 0], slice(None), [1, 2]), ([6], slice(None, None, -2), [3, 0, 1])],
    "behind a slice": [(slice(1, 4), [3, 0], [1, 2]), (..., [4, 4], [0, 3])],
    "integer as a point": [
        ([3, 0], 2),
        (4, [1, 0]),
        ([3, 0], slice(None), 2),
        (2, slice(None), [1]),
    ],
    "integers as points": [(0, 1, [2, 3]), ([0, 5], 1, 2), (0, [2, 2], 3)],
    "new axis between": [([3, 0], None, [1, 2]), (None, [3, 0], [1, 2]), ([1], [2], None)],
    "integer, new axis, list": [(0, None, [1, 2]), ([1, 2], None, 0)],
    "Ellipsis for no axis between": [(slice(None), [0, 1], ..., [1, 2]), ([0], [1], ..., [2])],
    "Ellipsis between": [([0, 1], ..., [1, 2]), (0, ..., [1, 2]), ([1], 0, ..., 1)],
    "mask and list": [(ROWS, [0, 1, 2, 3]), (ROWS, 4), (ROWS, [4])],
    "mask and broadcasting": [(ROWS, [[0], [1], [2]]), ([[0], [6]], np.arange(5) < 3)],
    "mask of two axes and list": [(TABLE, np.arange(12) % 4), (TABLE, [2]), (TABLE, 1)],
    "list and mask of two axes": [(np.arange(3), CUBE[0]), ([6], CUBE[0]), (2, CUBE[0])],
    "masks": [(ROWS, np.arange(5) < 4), (ROWS, np.arange(5) == 3), (~ROWS, np.arange(5) < 3, 1)],
    "scalars of NumPy": [
        (np.array(3), [1, 2]),
        ([1, 2], np.int8(-1)),
        (np.array(-1), np.array([0])),
    ],
    "arrow": [(pa.array([3, 0]), pa.array([1, 4], pa.uint8())), (pa.array(ROWS), pa.array([1]))],
    "with null rows": [None, ([3, 0], [1, 4]), None],
}


@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise(cube: Written, name: str) -> None:
    for selection in POINTWISE[name]:
        check_items(cube, [selection], "pointwise")
    by_levels: dict[int, list[Any]] = {}
    for selection in POINTWISE[name]:
        if selection is not None:
            kept = oracle.pointwise(cube.whole, selection).ndim
            by_levels.setdefault(kept, []).append(selection)
    for selections in by_levels.values():
        check_items(cube, [None, *selections, *selections[::-1]], "pointwise")


COORDINATES = [[3, 0, 1], [6, 4, 3], [-1, -5, 0], [3, 0, 1]]


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("kind", ["i1", "i8", ">i4"])
def test_coordinates(cube: Written, kind: str, axes: int) -> None:
    """An array of shape (n, ndim), or of as many leading axes as it has columns."""
    points = np.array(COORDINATES, kind)[:, :axes]
    forms = [points, np.asfortranarray(points), points[:0], points[::-1], points[:1]]
    check_items(cube, forms, "pointwise")
    expected = zarrow.read_ragged(cube.path, [points], indexing="pointwise")
    tables: list[Any] = [
        pd.DataFrame(points.astype(kind[-2:]), columns=list("zyx")[:axes]),
        pl.DataFrame(points.astype(kind[-2:])),
    ]
    for table in tables:
        got = zarrow.read_ragged(cube.path, [table], indexing="pointwise")
        assert oracle.values_bytes(got) == oracle.values_bytes(expected)
        assert got.type == expected.type


def test_coordinates_are_vindex(cube: Written) -> None:
    points = np.array(COORDINATES)
    theirs = zarr.open_array(cube.path).vindex[tuple((points % [7, 5, 4]).T)]
    assert theirs.tobytes() == oracle.pointwise(cube.whole, points).tobytes()
    check_items(cube, [points, tuple(points.T)], "pointwise")


def test_a_bare_mask_is_no_coordinates(tmp_path: Path) -> None:
    """A mask of two axes is NumPy's, though it has the shape of coordinates."""
    square = zarr.create_array(tmp_path / "a", data=np.arange(4).reshape(2, 2), chunks=(1, 2))
    mask = np.array([[True, True], [False, True]])
    for indexing in ("orthogonal", "pointwise"):
        result = zarrow.read_ragged(square, [mask, ~mask], indexing=indexing)
        assert result.to_pylist() == [[0, 1, 3], [2]]


@pytest.mark.parametrize("indexing", ["orthogonal", "pointwise"])
def test_nothing_of_axes_without_length(make: Maker, indexing: str) -> None:
    written = make(dtype="uint8", shape=(3, 0, 2), chunks=(2, 1, 2))
    nothing: list[Any] = [
        np.s_[:, ::-1],
        np.s_[:, []],
        np.s_[:, np.zeros(0, bool)],
        np.s_[[0, 2]],
        (np.zeros((3, 0), bool), slice(None), None),
        np.s_[:, :, [1]],
        None,
    ]
    check_items(written, nothing, indexing)
    for wrong in (np.s_[:, [0]], np.s_[:, 0], np.s_[:, [-1]], np.s_[:, [True]]):
        with fails(zarrow.SelectionError, words=("selection 1",)):
            zarrow.read_ragged(written.path, [None, wrong], indexing=indexing)


def test_a_scalar_has_new_axes_only(make: Maker) -> None:
    written = make(dtype="int64", shape=(), chunks=())
    for indexing in ("orthogonal", "pointwise"):
        check_items(written, [(), ..., None, (...,)], indexing)
        check_items(written, [(None,), (None, ...), (..., None), None], indexing)
        check_items(written, [(None, ..., None)], indexing)
        for wrong in ([0], [], [True], slice(None, None, -1), (None, 0), (None, [0])):
            with fails(zarrow.SelectionError, words=("selection 1",)):
                zarrow.read_ragged(written.path, [(None,), wrong], indexing=indexing)


def test_many_levels(make: Maker) -> None:
    """Lists as deep as pyarrow takes them."""
    written = make(dtype="int16", shape=(2, 3), chunks=(2, 2))
    for deep in (10, 30, 61):
        result = zarrow.read_ragged(written.path, [(None,) * deep, None])
        flat = result
        for _ in range(deep + 2):
            flat = flat.flatten()
        assert flat.to_pylist() == written.whole.reshape(-1).tolist()
        assert result.null_count == 1
    for deep in (62, 63, 100, 100_000):
        with fails(zarrow.SelectionError, words=(f"{deep + 2} axes",)):
            zarrow.read_ragged(written.path, [(None,) * deep])
    pairs = make(dtype="complex64", shape=(2, 3), chunks=(2, 2))  # their elements are lists too
    assert len(zarrow.read_ragged(pairs.path, [(None,) * 60])) == 1
    with fails(zarrow.SelectionError, words=("axes", "pyarrow")):
        zarrow.read_ragged(pairs.path, [(None,) * 61])


def test_large_results_of_small_selections(make: Maker) -> None:
    """An index array that repeats: the result is larger than the array."""
    written = make(dtype="uint8", shape=(50, 3), chunks=(7, 2), codecs=("zstd",))
    index = np.random.default_rng(2).integers(-50, 50, 200_000)
    result, stats = zarrow.read_ragged(written.path, [index, index[::-1]], return_stats=True)
    assert (
        oracle.values_bytes(result) == written.whole[np.concatenate([index, index[::-1]])].tobytes()
    )
    assert stats.chunks_decoded == 16
    assert stats.pieces == 32
