"""A plan: what it tells equals naive counts, and it may be read again and again, and pickled."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pytest
import strategies
import zarrow
from arrays import Layout, Maker, Written, edit_json, write
from checks import Reference, rows_of_columns, rows_of_items
from failures import fails
from hypothesis import given, settings
from hypothesis import strategies as st

SCHEMA = pa.schema(
    [
        pa.field("source", pa.uint32(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("chunk", pa.list_(pa.field("item", pa.int64(), nullable=False)), nullable=False),
        pa.field("rows", pa.uint64(), nullable=False),
        pa.field("bytes", pa.uint64(), nullable=False),
    ]
)


def check_chunks(plan: zarrow.Plan, reference: Reference, per_row: list[set[int]]) -> None:
    """Compare the read chunks of a plan with a naive list: number, key, rows and bytes of each."""
    table = plan.chunks()
    assert table.schema.equals(SCHEMA), table.schema
    table.validate(full=True)
    handle = reference.handle
    grid = oracle.grid_of(reference.whole.shape, handle.chunks)
    bytes_each = math.prod(handle.chunks) * handle.dtype.itemsize
    files = handle.shards or handle.chunks
    encode = reference.written.array.metadata.encode_chunk_key
    expected = {}
    for number in set().union(*per_row):
        index = grid[number]
        file = tuple(i * c // f for i, c, f in zip(index, handle.chunks, files, strict=True))
        served = sum(number in row for row in per_row)
        expected[index] = (0, str(encode(file)), served, bytes_each)
    got = {
        tuple(row["chunk"]): (row["source"], row["key"], row["rows"], row["bytes"])
        for row in table.to_pylist()
    }
    assert len(got) == table.num_rows, "a read chunk is listed twice"
    assert got == expected
    assert table.num_rows == plan.read_chunks
    assert sum(got[index][2] for index in got) == plan.pieces
    assert sum(got[index][3] for index in got) == plan.bytes_to_decode


@settings(max_examples=settings().max_examples // 2)
@given(strategies.layouts_v3(3) | strategies.layouts_v2(3), st.data())
def test_any_plan(layout: Layout, data: st.DataObject) -> None:
    """The shape of every row and the rows of every read chunk, before and after a pickle."""
    with tempfile.TemporaryDirectory() as folder:
        reference = Reference.of(write(layout, Path(folder) / "array.zarr"))
        indexing = data.draw(st.sampled_from(sorted(oracle.INDEXING)), label="indexing")
        selections = data.draw(strategies.vocabulary(layout.shape, indexing), label="selections")
        columns = data.draw(strategies.columns(layout.shape), label="columns")
        of_items = rows_of_items([reference], [0] * len(selections), selections, indexing)
        of_columns = rows_of_columns([reference], [0] * len(columns.rows), columns, None)
        both = ((selections, of_items, indexing), (columns.selections, of_columns, "orthogonal"))
        for asked, rows, mode in both:
            plan = zarrow.plan(reference.handle, asked, indexing=mode)
            shapes = [
                (0,) * plan.row_shapes.shape[1] if r is None else r.shape for r in rows.values
            ]
            assert plan.row_shapes.tolist() == [list(shape) for shape in shapes]
            assert plan.row_shapes.dtype == np.int64
            check_chunks(plan, reference, rows.touched.per_row)
            expected = rows.expected(reference.whole, "fill")
            for each in (plan, plan, pickle.loads(pickle.dumps(plan))):
                oracle.assert_equal(each.read(), expected)


@pytest.fixture
def sheet(make: Maker) -> Written:
    """A (20, 30) array."""
    return make(dtype="int16", shape=(20, 30), chunks=(6, 7), codecs=("zstd",), missing=0.2)


SELECTIONS: list[Any] = [np.s_[2:9, 3:20], np.s_[:, ::-4], None, ([19, 0, 0], [5, 5]), np.s_[3:3]]


def test_numbers(sheet: Written) -> None:
    """The figures of one small plan, by hand."""
    plan = zarrow.plan(sheet.path, [np.s_[0:6, 0:7], np.s_[5:7, 6:8], [0], np.s_[4:4]])
    assert plan.rows == 4
    assert plan.row_shapes.tolist() == [[6, 7], [2, 2], [1, 30], [0, 30]]
    assert plan.bytes_out == 2 * (42 + 4 + 30)
    assert plan.read_chunks == 4 + 3
    assert plan.bytes_to_decode == 7 * 42 * 2
    assert plan.pieces == 1 + 4 + 5
    assert plan.amplification == 7 * 84 / 152
    told = repr(plan)
    for figure in ("4 rows", "152 bytes", "7 read chunks", "10 pieces", "588 bytes", "3.87"):
        assert figure in told, told


def test_a_plan_of_nothing(sheet: Written) -> None:
    for selections in ([], [None], [np.s_[3:3]], zarrow.ranges([], []), zarrow.indices([None])):
        plan = zarrow.plan(sheet.path, selections)
        assert (plan.rows, plan.bytes_out, plan.read_chunks) == (len(selections), 0, 0)
        assert (plan.bytes_to_decode, plan.pieces) == (0, 0)
        assert math.isnan(plan.amplification)
        assert plan.row_shapes.shape == (len(selections), 2)
        assert plan.chunks().num_rows == 0
        assert plan.chunks().schema.equals(SCHEMA)
        assert len(plan.read()) == len(selections)
        repr(plan)


def test_a_plan_of_a_scalar(make: Maker) -> None:
    written = make(dtype="float64", shape=(), chunks=())
    plan = zarrow.plan(written.path, [(), None, ...])
    assert plan.row_shapes.shape == (3, 0)
    assert (plan.read_chunks, plan.pieces, plan.bytes_out) == (1, 2, 24)
    (chunk,) = plan.chunks().to_pylist()
    assert chunk == {"source": 0, "key": "c", "chunk": [], "rows": 2, "bytes": 8}
    value = float(written.whole)
    assert plan.read().to_pylist() == [value, None, value]


def test_padding_is_no_work(sheet: Written) -> None:
    """What lies outside is in the result, but in no read chunk."""
    outside = zarrow.boxes([[20, 0], [-9, 2]], [[25, 4], [0, 3]], out_of_bounds="fill")
    plan = zarrow.plan(sheet.path, outside)
    assert plan.row_shapes.tolist() == [[5, 4], [9, 1]]
    assert (plan.bytes_out, plan.read_chunks, plan.pieces) == (2 * 29, 0, 0)
    assert plan.amplification == 0
    clipped = zarrow.boxes([[20, 0], [-9, 2]], [[25, 4], [0, 3]], out_of_bounds="clip")
    assert zarrow.plan(sheet.path, clipped).row_shapes.tolist() == [[0, 4], [0, 1]]


def test_subchunks_are_read_chunks(make: Maker) -> None:
    """The key is that of the shard, the index that of the subchunk in the whole array."""
    written = make(dtype="uint8", shape=(9, 9), chunks=(2, 3), shards=(4, 6), codecs=("gzip",))
    chunks = zarrow.plan(written.path, [np.s_[3:5, 5:7], np.s_[3:4, 5:6]]).chunks()
    assert chunks["key"].to_pylist() == ["c/0/0", "c/0/1", "c/1/0", "c/1/1"]
    assert chunks["chunk"].to_pylist() == [[1, 1], [1, 2], [2, 1], [2, 2]]
    assert chunks["rows"].to_pylist() == [2, 1, 1, 1]
    assert chunks["bytes"].to_pylist() == [6] * 4


def test_chunks_of_several_arrays(make: Maker) -> None:
    """Numbered as in the list that was given, of duplicates the first."""
    one = make(dtype="int8", shape=(6,), chunks=(2,))
    two = make(dtype="int8", shape=(9,), chunks=(3,), codecs=("gzip",))
    handles = [zarrow.open_array(each.path) for each in (one, two)]
    arrays = [handles[0], handles[0], handles[1]]
    plan = zarrow.plan(arrays, [0, np.s_[1], 8, None, 8], sources=[0, 1, 2, 1, 2])
    assert plan.chunks().to_pylist() == [
        {"source": 0, "key": "c/0", "chunk": [0], "rows": 2, "bytes": 2},
        {"source": 2, "key": "c/2", "chunk": [2], "rows": 2, "bytes": 3},
    ]
    assert plan.read_chunks == 2
    assert plan.bytes_to_decode == 5
    values = [one.whole[0], one.whole[1], two.whole[8], None, two.whole[8]]
    assert plan.read().to_pylist() == values


# ---- reading ---------------------------------------------------------------------------------


def test_read_again_and_again(sheet: Written) -> None:
    plan = zarrow.plan(sheet.path, SELECTIONS)
    expected = zarrow.read_ragged(sheet.path, SELECTIONS)
    results = [plan.read() for _ in range(3)]
    assert all(result.equals(expected) for result in results)
    _, stats = zarrow.read_ragged(sheet.path, SELECTIONS, return_stats=True)
    for _ in range(2):
        result, again = plan.read(return_stats=True)
        assert result.equals(expected)
        for name in ("rows", "chunks_decoded", "chunks_missing", "pieces", "bytes_out"):
            assert getattr(again, name) == getattr(stats, name)
    assert again.pieces == plan.pieces
    assert again.chunks_decoded + again.chunks_missing == plan.read_chunks
    assert plan.read(return_stats=False).equals(expected)


def test_a_plan_reads_nothing(sheet: Written) -> None:
    """And sees what was written after it was made."""
    plan = zarrow.plan(sheet.path, [np.s_[0:6, 0:7]])
    path = sheet.chunk(0, 0)
    before = plan.read()
    content = path.read_bytes()
    path.write_bytes(b"rubbish")
    again = zarrow.plan(sheet.path, [np.s_[0:6, 0:7]])
    again.chunks()
    pickle.loads(pickle.dumps(again))
    with fails(zarrow.DecodeError, words=("c/0/0",)):
        again.read()
    path.write_bytes(content)
    assert again.read().equals(before)
    sheet.array[0:6, 0:7] = 5
    assert plan.read().to_pylist() == [[[5] * 7] * 6]


def test_options_of_a_plan(make: Maker) -> None:
    """They are those of `read_ragged`, and stay with the plan."""
    written = make(
        dtype="int32", shape=(6,), chunks=(2,), missing=1.0, fill_seed=3, codecs=("gzip",)
    )
    outside = zarrow.ranges([-1, 2], [2, 3], out_of_bounds="fill")
    own = int(written.whole[0])
    for options, expected in (
        ({}, [[own, own, own], [own]]),
        ({"fill": 7}, [[7, own, own], [own]]),
        ({"missing_chunks": "null"}, [[own, None, None], [None]]),
        ({"missing_chunks": "null", "fill": 7, "threads": 2}, [[7, None, None], [None]]),
    ):
        plan = zarrow.plan(written.path, outside, **options)
        assert plan.read().to_pylist() == expected
        assert pickle.loads(pickle.dumps(plan)).read().to_pylist() == expected
    plan = zarrow.plan(written.path, outside, missing_chunks="error")
    for each in (plan, pickle.loads(pickle.dumps(plan))):
        # Which of the two chunks that are missing is noticed first is open.
        with fails(zarrow.NotFoundError, words=("key 'c/",)):
            each.read()
    full = make(dtype="int32", shape=(6,), chunks=(2,), codecs=("gzip",))
    with fails(zarrow.AllocationError, words=("limit",)):
        zarrow.plan(full.path, [...], memory_limit=1).read()
    for wrong in ({"threads": 0}, {"memory_limit": -1}, {"indexing": "x"}, {"missing_chunks": "x"}):
        with fails(ValueError, words=tuple(wrong)):
            zarrow.plan(full.path, [...], **wrong)


def test_a_plan_is_what_was_asked_then(sheet: Written) -> None:
    """To change the index arrays later changes nothing, nor in a pickle made later."""
    index, mask, bounds = np.array([3, 1]), np.arange(20) < 2, np.array([0, 4])
    inner = [7, 8]
    asked: list[Any] = [index, mask, (pa.array(bounds), inner), inner]
    columns = zarrow.rows(bounds)
    made = [zarrow.plan(sheet.path, asked), zarrow.plan(sheet.path, columns)]
    before = [plan.read() for plan in made]
    index[:], mask[:], bounds[:], inner[:] = 9, True, 1, [0]
    asked.clear()
    for plan, result in zip(made, before, strict=True):
        assert plan.read().equals(result)
        assert pickle.loads(pickle.dumps(plan)).read().equals(result)


# ---- pickle ----------------------------------------------------------------------------------


def test_every_protocol(sheet: Written) -> None:
    plan = zarrow.plan(sheet.path, SELECTIONS)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(plan, protocol))
        assert isinstance(again, zarrow.Plan)
        assert repr(again) == repr(plan)
        assert again.chunks().equals(plan.chunks())
        np.testing.assert_array_equal(again.row_shapes, plan.row_shapes)
        assert again.read().equals(plan.read())


@pytest.mark.parametrize("indexing", ["orthogonal", "pointwise"])
def test_in_a_fresh_interpreter(sheet: Written, tmp_path: Path, indexing: str) -> None:
    """Started anew, in another folder, with nothing imported, as workers are that are spawned."""
    selections: list[Any] = [
        np.s_[2:9, 3],
        ([1, 2, 3], pa.array([4, 5, 6])) if indexing == "pointwise" else np.s_[[4, -1], 0],
        None,
        np.s_[np.arange(20) % 3 == 0, 7],
    ]
    other = zarrow.open_array(sheet.path)
    asked: dict[str, Any] = {"indexing": indexing, "sources": [0, 1, 0, 1]}
    plan = zarrow.plan([sheet.path, other], selections, **asked)
    stored = tmp_path / "plan.pickle"
    stored.write_bytes(pickle.dumps([plan, zarrow.plan(sheet.path, zarrow.windows([3, 9], 4))]))
    code = (
        "import pickle, sys, pyarrow as pa\n"
        "plans = pickle.load(open(sys.argv[1], 'rb'))\n"
        "for number, plan in enumerate(plans):\n"
        "    rows = plan.read()\n"
        "    batch = pa.record_batch([rows], names=['rows'])\n"
        "    with pa.ipc.new_file(f'{number}.arrow', batch.schema) as file: file.write(batch)\n"
    )
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, str(stored)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    results = [plan.read(), zarrow.read_ragged(sheet.path, zarrow.windows([3, 9], 4))]
    for number, result in enumerate(results):
        with pa.ipc.open_file(folder / f"{number}.arrow") as file:
            assert file.read_all()["rows"].combine_chunks().equals(result)


def read_plan(plan: zarrow.Plan) -> list[Any]:
    """Read in a worker."""
    return plan.read().to_pylist()


def test_relative_path(sheet: Written, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A plan stays with its array when the working directory changes."""
    monkeypatch.chdir(sheet.path.parent)
    plan = zarrow.plan(sheet.path.name, SELECTIONS)
    pickled = pickle.dumps(plan)
    (tmp_path / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "deeper")
    assert pickle.loads(pickled).read().equals(plan.read())


def test_pickle_of_an_array_that_is_gone(sheet: Written) -> None:
    pickled = pickle.dumps(zarrow.plan(sheet.path, SELECTIONS))
    (sheet.path / "zarr.json").rename(sheet.path / "was.json")
    with fails(zarrow.NotFoundError, words=(sheet.path.name,)):
        pickle.loads(pickled)


def test_pickle_of_an_array_that_shrank(sheet: Written) -> None:
    """The selections no longer fit: an error that names one, not a crash."""
    pickled = pickle.dumps(zarrow.plan(sheet.path, [0, 19]))
    edit_json(sheet.path / "zarr.json", shape=[10, 30])
    with fails(zarrow.SelectionError, words=("selection 1", "19", "10")):
        pickle.loads(pickled)


# ---- errors and size -------------------------------------------------------------------------


def test_wrong_selections(sheet: Written) -> None:
    """All that a read refuses before it reads, a plan refuses too."""
    wrong: list[tuple[Any, tuple[str, ...]]] = [
        ([0, 20], ("selection 1", "20")),
        ([0, ...], ("selection 1", "keeps 2")),
        ([..., [1, 99]], ("selection 1", "99")),
        ([..., np.ones(19, bool)], ("selection 1", "19")),
        (zarrow.ranges([0, 0], [1, 21]), ("selection 1", "21")),
        ([..., 1.5], ("selection 1", "float")),
    ]
    for selections, words in wrong:
        with fails(zarrow.SelectionError, words=words):
            zarrow.plan(sheet.path, selections)
    for not_a_list in (
        np.s_[0:3],
        (slice(None), 0),
        ...,
        3,
        None,
        2.5,
        zarrow.plan(sheet.path, []),
    ):
        with fails(TypeError, words=("list of selections",)):
            zarrow.plan(sheet.path, not_a_list)  # type: ignore[arg-type]


@pytest.mark.parametrize("chunk", [1, 1000, 2**40])
def test_a_huge_array(make: Maker, chunk: int) -> None:
    """A dozen points of 2**60 elements in up to 2**60 chunks."""
    written = make(shape=(4,), chunks=(4,), dtype="int16", fill_seed=5, missing=1.0)
    grid = {"name": "regular", "configuration": {"chunk_shape": [chunk]}}
    edit_json(written.path / "zarr.json", shape=[1 << 60], chunk_grid=grid)
    points = [(at << 56) + at for at in range(16)]
    for selections in ([points], points, [slice(at, at + 1) for at in points], [points[::-1]]):
        plan = zarrow.plan(written.path, selections)
        assert plan.bytes_out == 32
        assert plan.read_chunks == len({at // chunk for at in points})
        fill = int(written.whole[0])
        assert oracle.elements_of(plan.read()).to_pylist() == [fill] * 16
    steps = zarrow.ranges([0, 1 << 59], [1 << 60, -1], [1 << 55, -(1 << 55)])
    plan = zarrow.plan(written.path, steps)
    assert plan.row_shapes.tolist() == [[32], [17]]
    assert plan.chunks()["chunk"].to_pylist()[-1] == [31 * (1 << 55) // chunk]


def test_a_million_rows(make: Maker) -> None:
    written = make(dtype="uint8", shape=(1000,), chunks=(64,))
    starts = np.arange(1_000_000) % 990
    plan = zarrow.plan(written.path, zarrow.ranges(starts, starts + 2))
    assert plan.row_shapes.shape == (1_000_000, 1)
    assert (plan.row_shapes == 2).all()
    crossing = int(np.count_nonzero(starts // 64 != (starts + 1) // 64))
    assert plan.pieces == 1_000_000 + crossing
    assert plan.read_chunks == 16
    assert sum(plan.chunks()["rows"].to_pylist()) == plan.pieces


def test_spawned_workers(sheet: Written) -> None:
    """Plans as tasks of a pool of processes."""
    plans = [zarrow.plan(sheet.path, [np.s_[at : at + 3], None]) for at in range(4)]
    with get_context("spawn").Pool(1) as pool:
        assert pool.map(read_plan, plans) == [plan.read().to_pylist() for plan in plans]


def test_stats_survive_a_pickle_and_plans_take_other_options(make: Maker) -> None:
    """Threads and memory limit belong to one read, not to the plan."""
    written = make(dtype="int32", shape=(40, 9), chunks=(7, 4))
    plan = zarrow.plan(written.path, [np.s_[3:30, 2:8]] * 3)
    rows, stats = plan.read(return_stats=True, threads=1, memory_limit=1 << 20)
    assert rows.equals(plan.read(threads=3))
    assert rows.equals(plan.read())
    again = pickle.loads(pickle.dumps(stats))
    assert again.as_dict() == stats.as_dict()
    assert repr(again) == repr(stats)
    with fails(zarrow.AllocationError, words=("memory limit",)):
        plan.read(memory_limit=1)
    with fails(zarrow.UnsupportedError, words=("threads",)):
        plan.read(threads=0)
