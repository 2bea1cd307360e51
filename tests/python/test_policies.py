"""What lies outside an array, or in chunks that nobody wrote: every policy at every edge."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import oracle
import pyarrow as pa
import pytest
import zarrow
from arrays import Layout, Maker, Written
from checks import check_columns, check_items, columns_of_boxes
from failures import fails
from oracle import NDArray
from strategies import POLICIES, Columns

SHAPE = (7, 5, 4)
KINDS: dict[str, dict[str, Any]] = {
    "chunked": {"chunks": (3, 2, 3), "codecs": ("zstd",)},
    "sharded": {"chunks": (2, 2, 1), "shards": (4, 4, 2), "codecs": ("gzip",)},
    "one chunk, raw": {"chunks": (9, 9, 9)},
    "v2, F order": {"chunks": (4, 3, 2), "zarr_format": 2, "order": "F", "codecs": ("blosc-lz4",)},
    "half missing": {"chunks": (2, 2, 2), "missing": 0.5, "codecs": ("zstd",)},
    "all missing": {"chunks": (2, 2, 2), "missing": 1.0},
}
Policy = Literal["error", "clip", "fill", "null"]


@pytest.fixture(params=KINDS, scope="module")
def cube(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A (7, 5, 4) array with a fill value of its own."""
    make = Maker(tmp_path_factory.mktemp("cube"))
    return make(dtype="int32", shape=SHAPE, fill_seed=3, seed=5, **KINDS[request.param])


def boxes(
    bounds: list[tuple[tuple[int, int], ...]], policy: Policy, shape: tuple[int, ...] = SHAPE
) -> Columns:
    """Boxes of the cube, unless of another shape."""
    return columns_of_boxes(bounds, policy, shape)


def edges(length: int) -> dict[str, tuple[int, int]]:
    """Runs of an axis at each of its edges."""
    return {
        "before, touching": (-2, 0),
        "before, apart": (-9, -5),
        "across the start": (-2, 2),
        "the start": (0, 2),
        "inside": (1, 3),
        "the end": (length - 2, length),
        "across the end": (length - 2, length + 3),
        "behind, touching": (length, length + 2),
        "behind, apart": (length + 4, length + 6),
        "all and more": (-3, length + 3),
        "just all": (0, length),
        "empty inside": (2, 2),
        "empty before": (-4, -4),
        "empty at the end": (length, length),
        "empty behind": (length + 5, length + 5),
    }


# ---- out of bounds ---------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES[1:])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_every_edge_of_every_axis(cube: Written, axis: int, policy: Policy) -> None:
    """One axis at its edges, the others whole, by `boxes` and by `ranges`."""
    runs = list(edges(SHAPE[axis]).values())
    whole = [(0, length) for length in SHAPE]
    asked = boxes([(*whole[:axis], run, *whole[axis + 1 :]) for run in runs], policy)
    check_columns(cube, asked)
    starts, stops = np.array(runs).T
    ranges = zarrow.ranges(starts, stops, axis=axis, out_of_bounds=policy)
    check_columns(cube, replace(asked, selections=ranges))
    for name, run in edges(SHAPE[axis]).items():  # alone, so that nothing else is nullable
        start, stop = np.array([run]).T
        alone = zarrow.ranges(start, stop, axis=axis, out_of_bounds=policy)
        at = runs.index(run)
        check_columns(cube, Columns(alone, asked.rows[at : at + 1], policy, name))


@pytest.mark.parametrize("policy", POLICIES[1:])
def test_every_corner(cube: Written, policy: Policy) -> None:
    """Each pair of edges of each pair of axes, and the corners of all three."""
    few = ["across the start", "inside", "across the end", "behind, apart", "all and more"]
    per_axis = [[edges(length)[name] for name in few] for length in SHAPE]
    bounds = list(itertools.product(*per_axis))
    check_columns(cube, boxes(bounds, policy))
    check_columns(cube, boxes(bounds, policy), missing_chunks="null")


@pytest.mark.parametrize("policy", POLICIES[1:])
def test_boxes_of_leading_axes(cube: Written, policy: Policy) -> None:
    bounds = list(itertools.product(edges(7).values(), list(edges(5).values())[::2]))
    check_columns(cube, boxes(bounds, policy))


@pytest.mark.parametrize("policy", POLICIES[1:])
@pytest.mark.parametrize("sides", [(3, 3, 3), (4, 2), (1,), (0, 3), (16, 12, 9)], ids=str)
def test_windows(cube: Written, sides: tuple[int, ...], policy: Policy) -> None:
    """Windows around points inside, at the edges and outside."""
    few = [(-3, 0, 2, length - 1, length, length + 2) for length in SHAPE[: len(sides)]]
    centers = np.array(list(itertools.product(*few)))
    rows = []
    for center in centers:
        along = [np.arange(c - s // 2, c - s // 2 + s) for c, s in zip(center, sides, strict=True)]
        rows.append((*along, *(np.arange(length) for length in SHAPE[len(sides) :])))
    selections = zarrow.windows(centers, sides, out_of_bounds=policy)
    assert len(selections) == len(centers)
    check_columns(cube, Columns(selections, list(rows), policy, f"windows {sides}"))


def test_error_names_the_first_one_outside(cube: Written) -> None:
    for axis, length in enumerate(SHAPE):
        for run in edges(length).values():
            start, stop = np.array([(0, 1), (1, 1), run, run]).T
            asked = zarrow.ranges(start, stop, axis=axis)
            if 0 <= run[0] <= run[1] <= length:
                assert len(zarrow.read_ragged(cube.path, asked)) == 4
                continue
            words = ("selection 2", f"{run[0]}..{run[1]}", f"axis {axis}", str(length))
            with fails(zarrow.SelectionError, words=words):
                zarrow.read_ragged(cube.path, asked)
            with fails(zarrow.SelectionError, words=words):
                zarrow.plan(cube.path, asked)


@pytest.mark.parametrize("policy", POLICIES)
def test_reversed_is_always_an_error(cube: Written, policy: Policy) -> None:
    for start, stop in ((3, 2), (-2, -3), (99, 98), (2, -1)):
        asked = zarrow.ranges([0, start], [1, stop], out_of_bounds=policy)
        with fails(zarrow.SelectionError, words=("selection 1", f"{start}..{stop}")):
            zarrow.read_ragged(cube.path, asked)


HUGE = (2**31, 2**40, 2**62, 2**63 - 1)


@pytest.mark.parametrize("policy", ["clip", "fill", "null"])
def test_far_outside(cube: Written, policy: Policy) -> None:
    """Bounds of any size are compared before anything is added or allocated."""
    far = [*HUGE, *(-n for n in HUGE), -(2**63)]
    ends = [(at, at) for at in far]
    ends += [(at, at + 3) for at in far if at < 2**63 - 3]
    asked = boxes([(run,) for run in ends], policy)
    check_columns(cube, asked)


def test_from_end_to_end_of_int64(cube: Written) -> None:
    """More than 2^63 elements are clipped, and too many to fill in."""
    for start, stop in ((-(2**62), 2**62), (0, 2**63 - 1), (-(2**63), 3), (-(2**63), 2**63 - 1)):
        for step in (None, 1, 2, -1, -3):
            (first, last), back = (start, stop), step is not None and step < 0
            if back:
                first, last = last, first
            steps = None if step is None else [step]
            asked = zarrow.ranges([first], [last], steps, out_of_bounds="clip")
            along = stepped(first, last, step or 1, 7)
            rows = [(along, np.arange(5), np.arange(4))]
            check_columns(cube, Columns(asked, list(rows), "clip", str((first, last, step))))
    for policy in ("fill", "null"):
        asked = zarrow.ranges([0, -(2**63)], [1, 3], out_of_bounds=policy)
        with fails(zarrow.SelectionError, words=("selection 1", str(-(2**63)))):
            zarrow.read_ragged(cube.path, asked)


@pytest.mark.parametrize("policy", ["fill", "null"])
def test_more_than_memory_is_an_error(cube: Written, policy: Policy) -> None:
    for stop in (2**50, 2**62, 2**63 - 1):
        asked = zarrow.ranges([0], [stop], out_of_bounds=policy)
        with fails(zarrow.AllocationError):
            zarrow.read_ragged(cube.path, asked)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)], ids=str)
def test_empty_axes(make: Maker, shape: tuple[int, ...], policy: Policy) -> None:
    """There is nothing inside, but there is an outside."""
    written = make(dtype="uint16", shape=shape, chunks=tuple(max(n, 1) for n in shape), fill_seed=1)
    runs = [(0, 0)] if policy == "error" else [(0, 0), (-2, 1), (0, 3), (2, 3), (-2, -2)]
    whole = [(0, length) for length in shape]
    for axis in range(len(shape)):
        bounds = [(*whole[:axis], run, *whole[axis + 1 :]) for run in runs]
        check_columns(written, boxes(bounds, policy, shape))


def test_one_element(make: Maker) -> None:
    written = make(dtype="float64", shape=(1,), chunks=(1,), fill_seed=2)
    for policy in POLICIES[1:]:
        runs = [((start, stop),) for start in range(-3, 4) for stop in range(start, 4)]
        check_columns(written, boxes(runs, policy, (1,)))


def test_no_axes(make: Maker) -> None:
    """A scalar has no outside."""
    written = make(dtype="int8", shape=(), chunks=())
    none = np.zeros((3, 0), int)
    for policy in POLICIES:
        for asked in (
            zarrow.boxes(none, none, out_of_bounds=policy),
            zarrow.windows(none, (), out_of_bounds=policy),
        ):
            check_columns(written, Columns(asked, [(), (), ()], policy, policy))


def test_only_what_has_nulls_is_nullable(cube: Written) -> None:
    inside = zarrow.windows([3], 3, out_of_bounds="null")
    assert not zarrow.read_ragged(cube.path, inside).type.value_field.nullable
    oracle.assert_contract(zarrow.read_ragged(cube.path, inside), "int32", 3)


@pytest.mark.parametrize("policy", ["fill", "null"])
def test_steps_and_padding(cube: Written, policy: Policy) -> None:
    """Not together, which is said; steps of one are none."""
    steps = zarrow.ranges([0, 0], [9, 9], [1, 2], out_of_bounds=policy)
    with fails(zarrow.SelectionError, words=("step", "clip")):
        zarrow.read_ragged(cube.path, steps)
    ones = zarrow.ranges([0, -1], [9, 2], [1, 1], out_of_bounds=policy)
    rows = [(np.arange(at, to), np.arange(5), np.arange(4)) for at, to in ((0, 9), (-1, 2))]
    check_columns(cube, Columns(ones, list(rows), policy, "steps of one"))


@pytest.mark.parametrize("policy", ["", "ERROR", "wrap", None, 1, ["clip"]], ids=str)
def test_unknown_policies(policy: Any) -> None:
    makers = [
        lambda: zarrow.ranges([0], [1], out_of_bounds=policy),
        lambda: zarrow.boxes([[0]], [[1]], out_of_bounds=policy),
        lambda: zarrow.windows([0], 1, out_of_bounds=policy),
    ]
    for maker in makers:
        with fails(ValueError, TypeError, words=("out_of_bounds", "clip", "null")):
            maker()


# ---- steps at the edges ----------------------------------------------------------------------

STEPPED: dict[str, tuple[int, int, int]] = {
    "phase from before the start": (-3, 10, 2),
    "phase from far before": (-1_000_000, 10, 7),
    "phase from behind the end": (15, -1, -4),
    "phase from far behind": (1_000_003, -1, -7),
    "down to below zero": (9, -30, -3),
    "one step jumps over all": (-5, 20, 100),
    "backwards over all": (20, -5, -100),
    "wholly before": (-20, -2, 3),
    "wholly behind": (12, 40, 3),
    "backwards wholly behind": (40, 12, -3),
    "backwards wholly before": (-2, -20, -3),
    "just the first": (0, 1, 5),
    "backwards to the first": (9, -1, -9),
    "least int64, step 7": (-(2**63), 10, 7),
    "least int64, step 1 beside a step": (-(2**63), -(2**62), 1),
    "least int64, step 73": (-(2**63), -(2**63) + 2**62, 73),
    "greatest int64, backwards": (2**63 - 1, -1, -2),
    "greatest int64, backwards, odd": (2**63 - 1, -1, -3),
    "greatest step": (0, 10, 2**63 - 1),
    "least step": (9, -1, -(2**63)),
    "greatest step from before": (-5, 10, 2**63 - 1),
}


def stepped(start: int, stop: int, step: int, length: int) -> NDArray:
    """The indices in bounds, with Python's integers, which do not overflow."""
    asked = range(start, stop, step)
    if step > 0:
        skipped = max(-(start // step), 0) if start < 0 else 0
    else:
        skipped = max(-(-(start - length + 1) // -step), 0)
    near = [start + step * at for at in range(skipped, skipped + length + 1)]
    return np.array([at for at in near if at in asked and 0 <= at < length], np.int64)


@pytest.mark.parametrize("name", STEPPED)
def test_clipped_steps(make: Maker, name: str) -> None:
    """A clipped range keeps the elements that the whole one would have."""
    start, stop, step = STEPPED[name]
    written = make(dtype="int16", shape=(10,), chunks=(4,), codecs=("zstd",))
    starts, stops, steps = [0, start, 9], [10, stop, -1], [3, step, -4]
    asked = zarrow.ranges(starts, stops, steps, out_of_bounds="clip")
    bounds = zip(starts, stops, steps, strict=True)
    rows = [(stepped(*bound, 10),) for bound in bounds]
    check_columns(written, Columns(asked, list(rows), "clip", name))
    lone = zarrow.ranges([start], [stop], [step], out_of_bounds="clip")
    check_columns(written, Columns(lone, list(rows[1:2]), "clip", name))


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(-1, 5, 2), (0, 11, 2), (10, -1, -1), (9, -2, -1), (10, 12, 2), (-(2**63), 3, 2)],
)
def test_steps_outside_are_an_error(make: Maker, start: int, stop: int, step: int) -> None:
    written = make(dtype="int16", shape=(10,), chunks=(4,))
    asked = zarrow.ranges([0, start], [2, stop], [1, step])
    with fails(zarrow.SelectionError, words=("selection 1", f"{start}..{stop}", "10")):
        zarrow.read_ragged(written.path, asked)


@pytest.mark.parametrize("policy", ["error", "clip"])
def test_steps_that_lead_away(make: Maker, policy: Policy) -> None:
    """A range that its step can never finish; the message shows what a right one looks like."""
    written = make(dtype="int16", shape=(10,), chunks=(4,))
    for start, stop, step in ((2, 5, -1), (5, 2, 1), (5, 2, 3), (-9, 12, -2)):
        asked = zarrow.ranges([0, start], [2, stop], [2, step], out_of_bounds=policy)
        words = (
            "selection 1",
            f"{start}..{stop}",
            "stop <= start" if step < 0 else "start <= stop",
        )
        with fails(zarrow.SelectionError, words=words):
            zarrow.read_ragged(written.path, asked)


# ---- missing chunks --------------------------------------------------------------------------

LAYOUTS: dict[str, Layout] = {
    "chunks": Layout(shape=(9, 7), chunks=(2, 3), missing=0.5, fill_seed=1),
    "zstd": Layout(shape=(9, 7), chunks=(2, 3), missing=0.5, fill_seed=1, codecs=("zstd",)),
    "float": Layout(dtype="float32", shape=(9, 7), chunks=(2, 3), missing=0.5, fill_seed=9),
    "bool": Layout(dtype="bool", shape=(9, 7), chunks=(2, 3), missing=0.5, fill_seed=1),
    "complex": Layout(dtype="complex128", shape=(9, 7), chunks=(2, 3), missing=0.5, fill_seed=1),
    "shards": Layout(shape=(9, 7), chunks=(2, 3), shards=(4, 6), missing=0.5, codecs=("gzip",)),
    "some shards": Layout(shape=(9, 7), chunks=(3, 7), shards=(3, 7), missing=0.5),
    "whole shards": Layout(
        shape=(9, 7), chunks=(2, 2), shards=(4, 4), missing=0.8, outside=("gzip",), seed=1
    ),
    "v2": Layout(shape=(9, 7), chunks=(2, 3), missing=0.5, zarr_format=2, codecs=("zlib",)),
    "F order": Layout(shape=(9, 7), chunks=(2, 3), missing=0.5, zarr_format=2, order="F"),
    "all": Layout(shape=(9, 7), chunks=(2, 3), missing=1.0, fill_seed=2),
    "none": Layout(shape=(9, 7), chunks=(2, 3), missing=0.0, fill_seed=2),
    "one axis": Layout(shape=(63,), chunks=(5,), missing=0.5, codecs=("blosc-lz4",)),
    "1-D, no codec": Layout(shape=(63,), chunks=(5,), missing=0.5),
    "no axis": Layout(shape=(), chunks=(), missing=1.0, fill_seed=3),
}
# For 0 to 3 kept axes, selections of an array of one, of two axes.
ASKED: dict[int, list[Any]] = {
    0: [[5, -1, 0, 44], [(i, j) for i in range(9) for j in (0, 3, -1)]],
    1: [[np.s_[3:40], np.s_[::-7], [0, 60, 0]], [0, -1, np.s_[2:7, 3], ([0, 8], 2), np.s_[3, :0]]],
    2: [[(None, np.s_[3:40])], [..., np.s_[1:8:3, ::-1], np.s_[2:2], ([8, 0, 0], [6, 1])]],
    3: [[(None, np.s_[3:40], None)], [(None, ...), np.s_[1:3, None, 2:6], (slice(0, 0), None)]],
}


@pytest.fixture(params=LAYOUTS, scope="module")
def partly(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """An array of which some chunks are stored."""
    return Maker(tmp_path_factory.mktemp("partly"))(LAYOUTS[request.param])


@pytest.mark.parametrize("levels", ASKED)
@pytest.mark.parametrize("mode", ["fill", "null"])
def test_missing_chunks(partly: Written, mode: str, levels: int) -> None:
    """Null elements at every depth, of every kind of storage, with and without null rows."""
    if not partly.layout.shape:
        scalar: list[Any] = [[(), ...], [(None,), (..., None)], [(None, None)], [(None,) * 3]]
        selections = scalar[levels]
    else:
        selections = ASKED[levels][partly.whole.ndim - 1]
    check_items(partly, selections, "orthogonal", missing_chunks=mode)
    check_items(partly, [None, *selections, None], "orthogonal", missing_chunks=mode)


@pytest.mark.parametrize("policy", POLICIES[1:])
@pytest.mark.parametrize("name", ["chunks", "shards", "complex", "bool", "F order"])
def test_missing_and_outside(make: Maker, name: str, policy: Policy) -> None:
    """Null where nothing is stored, and outside whatever the other policy says."""
    written = make(LAYOUTS[name])
    bounds = list(itertools.product(edges(9).values(), list(edges(7).values())[::3]))
    check_columns(written, boxes(bounds, policy, (9, 7)), missing_chunks="null")


@pytest.mark.parametrize("name", ["chunks", "shards", "v2", "one axis", "all", "no axis"])
def test_missing_is_an_error(make: Maker, name: str) -> None:
    """Only where a touched chunk is missing, and the message names its key."""
    written = make(LAYOUTS[name])
    grid = oracle.grid_of(written.layout.shape, written.layout.chunks)
    for index in grid:
        one = oracle.region_of(index, written.layout.chunks)
        selections: list[Any] = [None, one] if one else [one]
        if index in written.stored:
            check_items(written, selections, "orthogonal", missing_chunks="error")
            continue
        shards = written.layout.shards or written.layout.chunks
        starts = [i * c // s for i, c, s in zip(index, written.layout.chunks, shards, strict=True)]
        key = str(written.array.metadata.encode_chunk_key(tuple(starts)))
        with fails(zarrow.NotFoundError, words=("chunk", f"'{key}'", written.path.name)):
            zarrow.read_ragged(written.path, selections, missing_chunks="error")
    nothing: list[Any] = [np.s_[3:3]] if written.layout.shape else []
    result = zarrow.read_ragged(written.path, [*nothing, None], missing_chunks="error")
    assert len(result) == len(nothing) + 1


def test_no_chunk_of_the_outside_is_missing(make: Maker) -> None:
    """What lies outside touches no chunk."""
    written = make(dtype="int8", shape=(5,), chunks=(2,), codecs=("zstd",))
    for policy in ("clip", "fill", "null"):
        asked = zarrow.ranges([-5, 5, 3], [-2, 9, 8], out_of_bounds=policy)
        rows = [(np.arange(at, to),) for at, to in ((-5, -2), (5, 9), (3, 8))]
        check_columns(written, Columns(asked, list(rows), policy, policy), missing_chunks="error")


@pytest.mark.parametrize("mode", ["", "NULL", "skip", None, 1, True], ids=str)
def test_unknown_modes(cube: Written, mode: Any) -> None:
    for read in (zarrow.read_ragged, zarrow.plan):
        with fails(ValueError, TypeError, words=("missing_chunks", "fill", "null", "error")):
            read(cube.path, [...], missing_chunks=mode)


# ---- null rows -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "bool", "complex64", "float16"])
@pytest.mark.parametrize("shape", [(), (5,), (4, 3), (2, 3, 2), (2, 2, 2, 2)], ids=str)
def test_null_rows(make: Maker, dtype: str, shape: tuple[int, ...]) -> None:
    """First, last, between, alone, and at every number of kept axes."""
    written = make(dtype=dtype, shape=shape, chunks=tuple(max(n - 1, 1) for n in shape))
    for selections in ([None], [None, ...], [..., None], [None, None, ..., None, ..., None]):
        check_items(written, selections, "orthogonal")
        check_items(written, selections, "pointwise")
    for dropped in range(len(shape) + 1):
        one = (0,) * dropped
        check_items(written, [None, one, None, one], "orthogonal")
        check_items(written, [None, (*one, None), None], "orthogonal")
        if dropped < len(shape):
            check_items(written, [None, (*one, [0, 0]), None], "pointwise")


def test_null_lists(make: Maker) -> None:
    written = make(dtype="int32", shape=(6, 4), chunks=(4, 3), codecs=("zstd",))
    for lists in ([None], [None, None], [[], None], [None, [5, 0], None, [-1, -1], None]):
        for axis, length in enumerate((6, 4)):
            rows: list[Any] = []
            for each in lists:
                along = [np.arange(6), np.arange(4)]
                along[axis] = np.array(each or [], np.int64) % length
                rows.append(None if each is None else tuple(along))
            safe = [None if each is None else [at % length for at in each] for each in lists]
            asked = zarrow.indices(pa.array(safe, pa.large_list(pa.int64())), axis=axis)
            check_columns(written, Columns(asked, rows, "error", str(lists)))


def test_null_rows_are_not_looked_at(make: Maker) -> None:
    """A null list may hide values that would be out of bounds."""
    written = make(dtype="int32", shape=(6,), chunks=(4,))
    values = pa.array([1, 999, -999, 2])
    offsets = pa.array([0, 1, 3, 4])
    mask = pa.array([False, True, False])
    lists = pa.ListArray.from_arrays(offsets.cast(pa.int32()), values, mask=mask)
    result = zarrow.read_ragged(written.path, zarrow.indices(lists))
    one, two = written.whole[1:3].tolist()
    assert result.to_pylist() == [[one], None, [two]]


def test_hundreds_of_thousands_of_nulls(make: Maker) -> None:
    written = make(dtype="int16", shape=(50,), chunks=(7,))
    lists = pa.array([None if i % 3 else [i % 50] for i in range(300_000)])
    result = zarrow.read_ragged(written.path, zarrow.indices(lists))
    assert result.null_count == 200_000
    picked = written.whole[np.arange(0, 300_000, 3) % 50]
    np.testing.assert_array_equal(result.flatten().to_numpy(), picked)
