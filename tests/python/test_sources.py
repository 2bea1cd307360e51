"""Several arrays in one call: row i from array `sources[i]`, each chunk of each array once."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import polars as pl
import pyarrow as pa
import pytest
import strategies
import zarr
import zarrow
from arrays import Layout, Maker, Written, write
from checks import Reference, check_read, rows_of_columns, rows_of_items
from failures import fails, run
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=settings().max_examples // 2)
@given(strategies.similar_layouts(), st.data())
def test_any_arrays(layouts: list[Layout], data: st.DataObject) -> None:
    """Whatever the arrays, some given twice and some not used, in any order of the rows."""
    with tempfile.TemporaryDirectory() as folder:
        references = [
            Reference.of(write(layout, Path(folder) / f"{number}.zarr"))
            for number, layout in enumerate(layouts)
        ]
        numbers = st.integers(0, len(layouts) - 1)
        listed = data.draw(st.lists(numbers, min_size=1, max_size=4), label="arrays")
        arrays = [references[number].handle for number in listed]
        shapes = [layouts[number].shape for number in listed]
        options: dict[str, Any] = {
            "threads": data.draw(st.sampled_from([None, 1, 3]), label="threads"),
            "missing_chunks": data.draw(st.sampled_from(["fill", "null"]), label="missing_chunks"),
        }
        for indexing in ("orthogonal", "pointwise"):
            of, asked = data.draw(strategies.items_of_sources(shapes, indexing), label=indexing)
            distinct = [listed[number] for number in of]
            rows = rows_of_items(references, distinct, asked, indexing)
            options |= {"indexing": indexing, "sources": of}
            check_read(arrays, references, asked, rows, options)
        of, columns = data.draw(strategies.columns_of_sources(shapes), label="columns")
        distinct = [listed[number] for number in of]
        rows = rows_of_columns(references, distinct, columns, None)
        options |= {"indexing": "orthogonal", "sources": of}
        check_read(arrays, references, columns.selections, rows, options)


# ---- arrays that differ in everything --------------------------------------------------------

DIFFERENT: dict[str, Layout] = {
    "chunks": Layout(shape=(12, 9), chunks=(5, 4), codecs=("zstd",), seed=1),
    "shards": Layout(shape=(7, 20), chunks=(2, 3), shards=(4, 6), codecs=("gzip",), seed=2),
    "v2, F order": Layout(
        shape=(9, 9), chunks=(4, 2), zarr_format=2, order="F", codecs=("blosc-lz4",), seed=3
    ),
    "big-endian, transposed": Layout(
        shape=(1, 30), chunks=(1, 7), endian="big", transpose=(1, 0), seed=4
    ),
    "half missing": Layout(shape=(10, 3), chunks=(2, 2), missing=0.5, fill_seed=5, seed=6),
    "whole shards": Layout(
        shape=(8, 8), chunks=(2, 2), shards=(4, 4), outside=("gzip",), codecs=("zstd",), seed=7
    ),
    "raw": Layout(shape=(40, 2), chunks=(40, 2), seed=8),
    "empty": Layout(shape=(0, 5), chunks=(1, 5), seed=9),
}


@pytest.fixture(scope="module")
def different(tmp_path_factory: pytest.TempPathFactory) -> list[Reference]:
    """Arrays of int32 with two axes that differ in everything else."""
    make = Maker(tmp_path_factory.mktemp("different"))
    return [Reference.of(make(layout)) for layout in DIFFERENT.values()]


def handles(references: list[Reference]) -> list[zarrow.Array]:
    return [reference.handle for reference in references]


ASKED: dict[str, list[Any]] = {
    "whole": [...],
    "slices": [np.s_[:3, 1:], np.s_[-2:], np.s_[::-1, ::2], np.s_[50:]],
    "integers": [np.s_[:, 0], np.s_[..., -1]],
    "index arrays": [np.s_[:, [1, 0, -1]], (slice(None), np.array([True, False]))],
    "new axes": [np.s_[None, :2], np.s_[:1, None], (..., None)],
    "null rows": [None, ..., None],
}


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("name", ASKED)
def test_the_same_of_each(different: list[Reference], name: str, threads: int) -> None:
    """Every selection of every array, in an order that mixes them."""
    pairs = list(itertools.product(range(len(different)), ASKED[name]))
    if name == "index arrays":  # a mask is as long as its axis
        length = {number: each.whole.shape[1] for number, each in enumerate(different)}
        pairs = [
            (
                number,
                one if isinstance(one[1], list) else (one[0], np.arange(length[number]) % 2 == 0),
            )
            for number, one in pairs
        ]
    order = np.random.default_rng(1).permutation(len(pairs)).tolist()
    of = [pairs[at][0] for at in order]
    selections = [pairs[at][1] for at in order]
    rows = rows_of_items(different, of, selections, "orthogonal")
    asked = {"sources": of, "threads": threads}
    check_read(handles(different), different, selections, rows, asked)


@pytest.mark.parametrize("policy", strategies.POLICIES[1:])
@pytest.mark.parametrize("axis", [0, 1])
def test_columns_of_each(different: list[Reference], axis: int, policy: Any) -> None:
    """One range of one axis; the other axis is whole, as long as it is in each array."""
    of = [*range(len(different))] * 3
    starts = np.repeat([-2, 0, 6], len(different))
    stops = starts + 5
    rows = []
    for number, start, stop in zip(of, starts, stops, strict=True):
        along = [np.arange(length) for length in different[number].whole.shape]
        along[axis] = np.arange(start, stop)
        rows.append(tuple(along))
    selections = zarrow.ranges(starts, stops, axis=axis, out_of_bounds=policy)
    columns = strategies.Columns(selections, list(rows), policy, policy)
    expected = rows_of_columns(different, of, columns, None)
    check_read(handles(different), different, selections, expected, {"sources": of})


def test_other_columns_of_each(different: list[Reference]) -> None:
    """Steps, index lists and rows by offsets, each resolved for its own array."""
    of = [0, 1, 2, 5, 0, 6]
    six = range(6)
    whole = [[np.arange(n) for n in different[number].whole.shape] for number in of]
    cases: list[tuple[zarrow.Selections, list[Any]]] = [
        (
            zarrow.ranges([0, 6, 1, 7, 11, 39], [9, -1, 7, 0, 0, 3], [2, -1, 3, -2, -5, -4]),
            [
                (np.arange(*bound), each[1])
                for bound, each in zip(
                    [(0, 9, 2), (6, -1, -1), (1, 7, 3), (7, 0, -2), (11, 0, -5), (39, 3, -4)],
                    whole,
                    strict=True,
                )
            ],
        ),
        (
            zarrow.indices([[-1], [6, 0], None, [7, -8], [], [39, -40]]),
            [
                None if at is None else (np.array(at, np.int64) % len(each[0]), each[1])
                for at, each in zip(
                    [[-1], [6, 0], None, [7, -8], [], [39, -40]], whole, strict=True
                )
            ],
        ),
        (
            zarrow.indices([[-1], [19, 0], [1], None, [8], [-2]], axis=1),
            [
                None if at is None else (each[0], np.array(at, np.int64) % len(each[1]))
                for at, each in zip([[-1], [19, 0], [1], None, [8], [-2]], whole, strict=True)
            ],
        ),
        (
            zarrow.rows([0, 4, 7, 7, 8, 12, 40]),
            [
                (np.arange(*pair), each[1])
                for pair, each in zip(
                    [(0, 4), (4, 7), (7, 7), (7, 8), (8, 12), (12, 40)], whole, strict=True
                )
            ],
        ),
    ]
    for selections, rows in cases:
        assert len(rows) == len(six)
        columns = strategies.Columns(selections, rows, "error", repr(selections))
        expected = rows_of_columns(different, of, columns, None)
        check_read(handles(different), different, selections, expected, {"sources": of})


# ---- decode once -----------------------------------------------------------------------------


@pytest.fixture
def pair(make: Maker) -> list[Written]:
    """Two arrays of 60 and of 40."""
    return [
        make(dtype="int64", shape=(60,), chunks=(7,), codecs=("zstd",), seed=1),
        make(dtype="int64", shape=(40,), chunks=(5,), shards=(20,), codecs=("gzip",), seed=2),
    ]


def test_each_chunk_of_each_array_once(pair: list[Written]) -> None:
    of = [0, 1] * 40
    selections = [np.s_[at % 30 : at % 30 + 9] for at in range(80)]
    _, stats = zarrow.read_ragged(
        [each.path for each in pair], selections, sources=of, return_stats=True
    )
    touched = [
        oracle.touched(each.layout.shape, each.layout.chunks, selections[number::2])
        for number, each in enumerate(pair)
    ]
    assert stats.chunks_decoded == stats.chunks_fetched == len(touched[0]) + len(touched[1])


@pytest.mark.parametrize("form", ["path", "Path and str", "zarr.Array", "handle", "in a store"])
def test_an_array_that_is_given_twice_is_read_once(pair: list[Written], form: str) -> None:
    written = pair[0]
    options: dict[str, Any] = {}
    arrays: list[Any] = [written.path, written.path]
    if form == "Path and str":
        arrays = [written.path, str(written.path)]
    elif form == "zarr.Array":
        arrays = [written.array, zarr.open_array(written.path)]
    elif form == "handle":
        arrays = [zarrow.open_array(written.path)] * 2
    elif form == "in a store":
        arrays, options = [written.path.parent] * 2, {"path": written.path.name}
    selections = [np.s_[3:40], np.s_[0:60], np.s_[59:]]
    result, stats = zarrow.read_ragged(
        arrays, selections, sources=[0, 1, 0], return_stats=True, **options
    )
    written.check(result, selections)
    assert stats.chunks_decoded == stats.chunks_fetched == 9


def test_arrays_that_no_row_reads(pair: list[Written]) -> None:
    """Nothing is fetched of them, even where all of their chunks are gone."""
    for path in pair[1].files().values():
        path.write_bytes(b"rubbish")
    arrays = [each.path for each in pair]
    result, stats = zarrow.read_ragged(arrays, [..., np.s_[3:]], sources=[0, 0], return_stats=True)
    pair[0].check(result, [..., np.s_[3:]])
    assert stats.chunks_fetched == 9
    with fails(zarrow.DecodeError, words=(pair[1].path.name,)):
        zarrow.read_ragged(arrays, [..., np.s_[3:4]], sources=[0, 1])
    result = zarrow.read_ragged(arrays, [None, np.s_[3:3]], sources=[1, 1])  # nor of such rows
    assert result.to_pylist() == [None, []]


def test_one_array_in_a_list(pair: list[Written]) -> None:
    selections = [np.s_[3:40], [5, 5], None]
    one = zarrow.read_ragged(pair[0].path, selections)
    assert one.equals(zarrow.read_ragged([pair[0].path], selections, sources=[0, 0, 0]))
    assert one.equals(zarrow.read_ragged((pair[0].path,), selections, sources=(0, 0, 0)))


@pytest.mark.parametrize("kind", ["i1", "u1", "i4", "u8"])
def test_sources_from_everywhere(pair: list[Written], kind: str) -> None:
    numbers = np.array([1, 0, 0, 1], kind)
    arrays = [each.path for each in pair]
    selections = [np.s_[at : at + 3] for at in range(4)]
    expected = [
        pair[number].whole[one].tolist() for number, one in zip(numbers, selections, strict=True)
    ]
    forms: list[Any] = [
        numbers,
        numbers.tolist(),
        tuple(numbers),
        pa.array(numbers),
        pa.chunked_array([numbers[:1], numbers[1:]]),
        pl.Series(numbers),
    ]
    for form in forms:
        assert zarrow.read_ragged(arrays, selections, sources=form).to_pylist() == expected


@pytest.mark.parametrize("shape", [(), (5,), (3, 0, 2)], ids=str)
def test_no_rows_of_several_arrays(make: Maker, shape: tuple[int, ...]) -> None:
    arrays = [
        make(dtype="uint8", shape=shape, chunks=tuple(max(n, 1) for n in shape)).path
        for _ in range(2)
    ]
    result, stats = zarrow.read_ragged(arrays, [], sources=[], return_stats=True)
    assert result.type == oracle.arrow_type("uint8", len(shape))
    assert (len(result), stats.chunks_fetched) == (0, 0)


def test_rows_are_in_request_order(make: Maker) -> None:
    """10,000 rows of 30 arrays, shuffled."""
    random = np.random.default_rng(5)
    written = [
        make(dtype="uint16", shape=(50 + 3 * i,), chunks=(8 + i,), codecs=("zstd",), seed=i)
        for i in range(30)
    ]
    of = random.integers(0, 30, 10_000)
    starts = random.integers(0, 50, of.size)
    stops = np.minimum(starts + random.integers(0, 4, of.size), 50)
    arrays = [zarrow.open_array(each.path) for each in written]
    result, stats = zarrow.read_ragged(
        arrays, zarrow.ranges(starts, stops), sources=of, return_stats=True
    )
    bounds = zip(of, starts, stops, strict=True)
    expected = np.concatenate([written[number].whole[a:b] for number, a, b in bounds])
    assert oracle.values_bytes(result) == expected.tobytes()
    assert stats.chunks_decoded == sum(-(-50 // (8 + i)) for i in range(30))


def test_rows_of_many_arrays_with_no_more_memory(pair: list[Written]) -> None:
    """A limit holds for all arrays together."""
    arrays = [each.path for each in pair]
    of = [0, 1] * 10
    selections: list[Any] = [...] * 20
    free = zarrow.read_ragged(arrays, selections, sources=of)
    tight, stats = zarrow.read_ragged(
        arrays, selections, sources=of, memory_limit=400, threads=4, return_stats=True
    )
    assert tight.equals(free)
    assert stats.bytes_held <= 400


def test_a_read_of_several_arrays_ends(pair: list[Written]) -> None:
    """On one thread, on many, and when one of the arrays fails."""
    next(iter(pair[1].files().values())).write_bytes(b"no shard")
    done = run(
        """
        import sys, zarrow
        one, two = sys.argv[1:]
        for threads in (1, 2, 8) * 5:
            zarrow.read_ragged([one, two], [...] * 9, sources=[0] * 9, threads=threads)
            try:
                zarrow.read_ragged([one, two] * 4, [...] * 8, sources=range(8), threads=threads)
            except zarrow.DecodeError as error:
                assert two in str(error), error
            else:
                raise SystemExit("no error")
        """,
        *(str(each.path) for each in pair),
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


# ---- errors ----------------------------------------------------------------------------------


def test_byte_order_is_no_data_type(make: Maker) -> None:
    written = [
        make(dtype="int32", shape=(4,), chunks=(2,), endian=end) for end in ("big", "little")
    ]
    result = zarrow.read_ragged([each.path for each in written], [..., ...], sources=[0, 1])
    assert result.to_pylist() == [each.whole.tolist() for each in written]


def test_numbers_of_axes_must_agree(make: Maker) -> None:
    one, two = make(shape=(4,), chunks=(2,)), make(shape=(4, 4), chunks=(2, 2))
    for of in ([0, 1], [0, 0]):
        with fails(zarrow.SelectionError, words=("[4]", "[4, 4]", "axes")):
            zarrow.read_ragged([one.path, two.path], [0, 0], sources=of)


WRONG_SOURCES: dict[str, tuple[Any, type[Exception], tuple[str, ...]]] = {
    "beyond": ([0, 2, 1], zarrow.SelectionError, ("selection 1", "source 2", "0 to 1")),
    "negative": ([0, 1, -1], zarrow.SelectionError, ("selection 2", "source -1", "0 to 1")),
    "huge": ([0, 2**40, 0], zarrow.SelectionError, ("selection 1", str(2**40))),
    "beyond int64": ([0, 2**64, 0], zarrow.SelectionError, ("selection 1", "sources", str(2**64))),
    "uint64": (np.array([0, 2**64 - 1, 0], "u8"), zarrow.SelectionError, ("selection 1",)),
    "uint32 that wraps": ([0, 2**32, 0], zarrow.SelectionError, ("selection 1", str(2**32))),
    "too few": ([0, 1], zarrow.SelectionError, ("3 selections", "2 sources")),
    "too many": ([0, 1, 0, 0], zarrow.SelectionError, ("3 selections", "4 sources")),
    "none": ([], zarrow.SelectionError, ("3 selections", "0 sources")),
    "two axes": ([[0, 1, 0]], zarrow.SelectionError, ("sources", "(1, 3)", "(n,)")),
    "a number": (0, TypeError, ("sources", "int")),
    "floats": ([0.0, 1.0, 0.0], TypeError, ("sources", "integers")),
    "bools": ([True, False, True], TypeError, ("sources", "integers")),
    "NumPy bools": (np.array([True, False, True]), TypeError, ("sources", "integers")),
    "null": ([0, None, 0], zarrow.SelectionError, ("sources", "null")),
    "text": ("010", TypeError, ("sources", "str")),
    "absent": (None, TypeError, ("sources",)),
}


@pytest.mark.parametrize("name", WRONG_SOURCES)
def test_wrong_sources(pair: list[Written], name: str) -> None:
    sources, kind, words = WRONG_SOURCES[name]
    arrays = [each.path for each in pair]
    selections: list[list[Any]] = [[np.s_[:2], np.s_[:3], None], [0, 1, 2], [[0], [1], [2]]]
    for asked in (*selections, zarrow.ranges([0, 1, 2], [3, 4, 5]), zarrow.indices([[0]] * 3)):
        with fails(kind, words=words):
            zarrow.read_ragged(arrays, asked, sources=sources)
        with fails(kind, words=words):
            zarrow.plan(arrays, asked, sources=sources)


def test_sources_of_one_array(pair: list[Written]) -> None:
    with fails(TypeError, words=("sources", "list")):
        zarrow.read_ragged(pair[0].path, [0], sources=[0])
    with fails(ValueError, words=("array", "empty list")):
        zarrow.read_ragged([], [], sources=[])
    for wrong in (None, 3, b"path"):
        with fails(TypeError, words=("expected",)):
            zarrow.read_ragged([pair[0].path, wrong], [0], sources=[0])


def test_selections_fit_the_array_that_they_read(pair: list[Written]) -> None:
    """What fits the first array may not fit the second."""
    arrays = [each.path for each in pair]
    for selections in (
        [59, 39, 40],
        [[59], [39], [0, 40]],
        [np.ones(60, bool), np.ones(40, bool), np.ones(60, bool)],
        zarrow.ranges([0, 0, 0], [60, 40, 41]),
        zarrow.ranges([59, 39, 40], [-1, -1, -1], [-1, -1, -1]),
        zarrow.indices([[-60], [-40], [-41]]),
        zarrow.windows([58, 38, 39], 3),
        zarrow.ranges([0, 0, 41], [60, 40, 41]),
    ):
        with fails(zarrow.SelectionError, words=("selection 2", "40")):
            zarrow.read_ragged(arrays, selections, sources=[0, 1, 1])


def test_rows_keep_the_same_number_of_axes(different: list[Reference]) -> None:
    with fails(zarrow.SelectionError, words=("selection 2", "keeps 1", "2")):
        zarrow.read_ragged(handles(different)[:2], [..., None, 0], sources=[0, 1, 1])
