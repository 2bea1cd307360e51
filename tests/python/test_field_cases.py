"""Cases that people reported against other readers, by the issue in which they did."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pytest
import zarr
import zarrow
from arrays import Maker, Written, edit_json, write_values
from checks import check_columns, check_items
from failures import STATUS, fails, run
from oracle import NDArray
from strategies import Columns

# ---- decode once, bounded work ---------------------------------------------------------------


def test_zarr_python_3175_slices_in_one_chunk(make: Maker) -> None:
    """The store sees each chunk key once."""
    written = make(dtype="float32", shape=(64, 64), chunks=(32, 32), codecs=("zstd",))
    selections = [np.s_[i : i + 3, i : i + 2] for i in range(29)] * 3
    result, stats = zarrow.read_ragged(written.path, selections, return_stats=True)
    written.check(result, selections)
    assert (stats.chunks_fetched, stats.chunks_decoded) == (1, 1)
    assert stats.bytes_fetched == written.chunk(0, 0).stat().st_size


def test_zarr_python_4306_slabs_of_a_few_rows(make: Maker) -> None:
    """Slabs of 6 rows cost as many decodes as slabs of 256."""
    written = make(dtype="int16", shape=(1024, 20), chunks=(64, 20), codecs=("gzip",))
    counts = []
    for rows in (6, 256):
        slabs = [slice(at, at + rows) for at in range(0, 1024, rows)]
        result, stats = zarrow.read_ragged(written.path, slabs, return_stats=True)
        written.check(result, slabs)
        counts.append((stats.chunks_fetched, stats.chunks_decoded, stats.bytes_fetched))
    assert counts[0] == counts[1]
    assert counts[0][1] == 16


def test_zarr_python_278_and_1214_rows_of_one_chunk(make: Maker) -> None:
    written = make(dtype="float64", shape=(10, 7), chunks=(10, 7), codecs=("blosc-lz4",))
    rows = [1, 5, 8, 3, 2]
    asked: list[list[Any]] = [[rows], rows, [np.array(rows)], [slice(row, row + 1) for row in rows]]
    for selections in asked:
        result, stats = zarrow.read_ragged(written.path, selections, return_stats=True)
        assert oracle.values_bytes(result) == written.whole[rows].tobytes()
        assert stats.chunks_decoded == 1


MEMORY = """
import sys, zarrow
path, index = sys.argv[1], [int(at) for at in sys.argv[2].split(",")]
array = zarrow.open_array(path)
zarrow.read_ragged(array, [(0, index[:1], slice(0, 2), slice(0, 2))], threads=1)
before = status("VmHWM")
rows = zarrow.read_ragged(array, [(0, index)])
grown = status("VmHWM") - before
print(grown, rows.flatten().flatten().flatten().nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/status is of Linux")
def test_zarr_python_3641_index_list_over_large_shards(tmp_path: Path) -> None:
    """A list on axis 1 of shards that span it takes little more memory than the result."""
    values = np.random.default_rng(1).integers(0, 255, (1, 10, 2048, 2048), "u1")
    write_values(
        tmp_path / "a",
        values,
        (1, 1, 512, 512),
        shards=(1, 10, 1024, 1024),
        compressors=[zarr.codecs.ZstdCodec(level=1)],
    )
    done = run(STATUS + MEMORY, str(tmp_path / "a"), "7,1,4")
    assert done.returncode == 0, done.stderr
    grown, size = map(int, done.stdout.split())
    assert size >= 3 << 22
    assert grown < size + (8 << 20)
    result = zarrow.read_ragged(tmp_path / "a", [(0, [7, 1, 4])])
    assert oracle.values_bytes(result) == values[0, [7, 1, 4]].tobytes()


@pytest.mark.parametrize("step", [2, 3, -2, 50])
def test_zarr_python_3524_strides(make: Maker, step: int) -> None:
    """A strided read decodes no more than the contiguous one, and is one piece per chunk."""
    written = make(
        dtype="float32", shape=(6063, 4, 1, 10), chunks=(1000, 4, 1, 10), codecs=("zstd",)
    )
    (_, plain), (rows, strided) = (
        zarrow.read_ragged(written.path, [asked], return_stats=True)
        for asked in (slice(None), slice(None, None, step))
    )
    assert oracle.values_bytes(rows) == written.whole[::step].tobytes()
    assert strided.chunks_decoded == plain.chunks_decoded == 7
    assert strided.bytes_fetched <= plain.bytes_fetched
    assert strided.bytes_decoded <= plain.bytes_decoded
    assert strided.pieces == plain.pieces == 7


def read_calls() -> int:
    """How many times this process has asked the system to read."""
    counters = Path("/proc/self/io").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in counters.splitlines() if "syscr" in line))


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs /proc")
def test_zarr_python_1758_subchunks_that_lie_together(make: Maker) -> None:
    """Ranges of a shard are coalesced."""
    written = make(dtype="uint8", shape=(4096,), chunks=(16,), shards=(4096,), codecs=("zstd",))
    array = zarrow.open_array(written.path)
    before = read_calls()
    zarrow.read_ragged(array, [...], threads=1)
    assert read_calls() - before < 100


def test_zarr_python_4170_sorted_runs(tmp_path: Path) -> None:
    """Sorted indices are planned and copied in runs, not element by element."""
    values = np.arange(3_000_000, dtype="u4")
    write_values(tmp_path / "a", values, (100_000,))
    keep = np.ones(values.size, bool)
    keep[::1000] = False
    index = np.flatnonzero(keep)
    for asked in (index, keep, pa.array(index)):
        begin = time.perf_counter()
        result, stats = zarrow.read_ragged(tmp_path / "a", [asked], return_stats=True)
        assert time.perf_counter() - begin < 10
        np.testing.assert_array_equal(result.flatten().to_numpy(), index)
        assert stats.chunks_decoded == stats.pieces == 30


def test_xarray_10311_nothing_is_broadcast(make: Maker) -> None:
    """Lists on several axes of a huge array are planned axis by axis."""
    written = make(dtype="int8", shape=(2, 2, 2), chunks=(2, 2, 2), missing=1.0, fill_seed=1)
    grid = {"name": "regular", "configuration": {"chunk_shape": [1 << 20] * 3}}
    edit_json(written.path / "zarr.json", shape=[1 << 40] * 3, chunk_grid=grid)
    index = np.arange(0, 1 << 40, 1 << 30)
    one = np.array([5])
    plan = zarrow.plan(written.path, [(one, index, one), (index, one, one), (one, one, index)])
    assert plan.row_shapes.tolist() == [[1, 1024, 1], [1024, 1, 1], [1, 1, 1024]]
    assert plan.read_chunks == 3 * 1024 - 2
    huge = np.zeros(1 << 20, np.int64)
    with fails(zarrow.AllocationError):
        zarrow.plan(written.path, [(huge, huge, huge)])
    with fails(zarrow.AllocationError):
        zarrow.read_ragged(written.path, [...])


@pytest.mark.parametrize("order", ["sorted", "shuffled", "repeated"])
def test_h5py_2536_and_pynwb_1276_many_indices(tmp_path: Path, order: str) -> None:
    """644,742 of them in seconds, in any order."""
    random = np.random.default_rng(3)
    values = random.integers(0, 2**31, 1_000_000, "i4")
    write_values(tmp_path / "a", values, (4096,), compressors=[zarr.codecs.ZstdCodec(level=1)])
    index = random.choice(values.size, 644_742, replace=order == "repeated")
    if order == "sorted":
        index.sort()
    begin = time.perf_counter()
    result, stats = zarrow.read_ragged(tmp_path / "a", [index], return_stats=True)
    points = zarrow.read_ragged(tmp_path / "a", [index[:, None]], indexing="pointwise")
    lists = zarrow.read_ragged(tmp_path / "a", zarrow.indices([0, 9, index.size], index))
    assert time.perf_counter() - begin < 20
    assert oracle.values_bytes(result) == values[index].tobytes()
    assert oracle.values_bytes(points) == oracle.values_bytes(lists) == values[index].tobytes()
    assert stats.chunks_decoded == -(-values.size // 4096)


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np, zarrow
array = zarrow.open_array(sys.argv[1])
index = np.random.default_rng(1).integers(0, array.shape[0], 644_742)
if sys.argv[2] == "indices":
    plan = zarrow.plan(array, [(index, slice(0, 1))])
else:
    plan = zarrow.plan(array, [(index, index % 7)], indexing="pointwise")
begin = time.perf_counter()
plan.read()
whole = time.perf_counter() - begin
threading.Timer(whole / 10, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.perf_counter()
try:
    plan.read()
except KeyboardInterrupt:
    print("early" if time.perf_counter() - begin < 0.8 * whole else "late")
print(len(plan.read()))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent otherwise there")
@pytest.mark.parametrize("asked", ["indices", "points"])
def test_h5py_2536_and_pynwb_1276_interrupt(tmp_path: Path, asked: str) -> None:
    """Ctrl-C ends a read of so many indices."""
    rows = 500
    shape, chunks = (rows, 1 << 20), (1, 1 << 20)
    gzip = zarr.codecs.GzipCodec(level=1)
    z = zarr.create_array(tmp_path / "a", shape=shape, chunks=chunks, dtype="u1", compressors=gzip)
    z[0] = np.random.default_rng(1).integers(0, 16, 1 << 20)
    for row in range(1, rows):  # all of one file
        (tmp_path / f"a/c/{row}").mkdir()
        (tmp_path / f"a/c/{row}/0").hardlink_to(tmp_path / "a/c/0/0")
    done = run(INTERRUPTED, str(tmp_path / "a"), asked)
    assert done.stdout.split() == ["early", "1"], done.stderr


def test_swiftsimio_311_ranges_that_overlap(make: Maker) -> None:
    """Each selection gets values of its own."""
    written = make(dtype="float64", shape=(100, 3), chunks=(16, 2), codecs=("zstd",))
    bounds = [(0, 60), (10, 20), (15, 100), (10, 20), (59, 61), (0, 100)]
    starts, stops = np.array(bounds).T
    rows = [(np.arange(*pair), np.arange(3)) for pair in bounds]
    check_columns(written, Columns(zarrow.ranges(starts, stops), list(rows), "error", "overlaps"))
    check_items(written, [np.s_[a:b] for a, b in bounds], "orthogonal")


def test_tensorstore_249_several_arrays_do_not_hang(tmp_path: Path) -> None:
    """More arrays than threads, each with more chunks than threads, in one batch."""
    for number in range(12):
        write_values(tmp_path / f"{number}", np.full(64, number, "u2"), (2,))
    done = run(
        """
        import sys, zarrow
        arrays = [f"{sys.argv[1]}/{number}" for number in range(12)]
        of = [i % 12 for i in range(600)]
        for threads in (1, 2, 16):
            starts = [i % 60 for i in range(600)]
            ranges = zarrow.ranges(starts, [start + 4 for start in starts])
            rows = zarrow.read_ragged(arrays, ranges, sources=of, threads=threads)
            assert rows.to_pylist() == [[number] * 4 for number in of]
        """,
        str(tmp_path),
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_zarrs_python_189_many_runs_in_one_chunk(make: Maker) -> None:
    """The chunk is decoded once, then its runs are copied."""
    written = make(dtype="int32", shape=(20_000,), chunks=(20_000,), codecs=("zstd",))
    runs = [np.s_[at : at + 3] for at in range(0, 20_000, 7)]
    joined = np.concatenate([np.arange(20_000)[run_] for run_ in runs])
    for asked in (runs, [joined], [joined[::-1]], [(joined,)] * 3):
        result, stats = zarrow.read_ragged(written.path, asked, return_stats=True)
        written.check(result, asked)
        assert (stats.chunks_decoded, stats.chunks_fetched) == (1, 1)
        assert stats.pieces == len(asked)


# ---- selections ------------------------------------------------------------------------------


@pytest.fixture
def csr(make: Maker) -> Written:
    """The data of a sparse matrix."""
    return make(dtype="float32", shape=(40, 6), chunks=(7, 4), codecs=("zstd",))


def test_anndata_1320_and_1321_all_false(csr: Written) -> None:
    """An empty row, on each axis and on both, not an error and not everything."""
    for indexing in ("orthogonal", "pointwise"):
        check_items(csr, [np.zeros(40, bool), [False] * 40, []], indexing)
        check_items(csr, [np.s_[:, np.zeros(6, bool)], np.s_[3:9, [False] * 6]], indexing)
        check_items(csr, [np.zeros((40, 6), bool)], indexing)
    nothing = zarrow.read_ragged(csr.path, [np.zeros(40, bool)])
    assert nothing.to_pylist() == [[]]


def test_anndata_1254_alternating_mask(csr: Written) -> None:
    for first in (0, 1):
        rows, columns = np.arange(40) % 2 == first, np.arange(6) % 2 == first
        check_items(csr, [rows, (rows, slice(None)), rows.tolist()], "orthogonal")
        check_items(csr, [(slice(None), columns), (rows, columns)], "orthogonal")


def test_anndata_1224_and_2506_order_of_rows(csr: Written) -> None:
    """Clustered, shuffled and duplicated."""
    random = np.random.default_rng(4)
    clustered = np.concatenate([np.arange(at, at + 4) for at in (30, 2, 17, 2)])
    rows = [clustered, random.permutation(40), random.integers(0, 40, 90), np.repeat([5, 1], 9)]
    check_items(csr, rows, "orthogonal")
    check_items(csr, rows, "pointwise")
    flat = np.concatenate(rows)
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in rows])])
    whole = np.arange(6)
    asked = zarrow.indices(offsets, flat)
    check_columns(csr, Columns(asked, [(each, whole) for each in rows], "error", "rows"))
    starts = flat.astype("u1")
    taken = [(np.arange(at, at + 1), whole) for at in flat]
    check_columns(csr, Columns(zarrow.ranges(starts, starts + 1), list(taken), "error", "rows"))


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "u8"])
def test_zarr_python_4285_unsigned_indices(csr: Written, kind: str) -> None:
    """`[3, 0]` as any unsigned type is what it is as int64."""
    index = np.array([3, 0], kind)
    asked: list[Any] = [index, pa.array(index), index.astype("i8"), [3, 0], (index, slice(None))]
    for indexing in ("orthogonal", "pointwise"):
        check_items(csr, asked, indexing)
        results = [zarrow.read_ragged(csr.path, [each], indexing=indexing) for each in asked]
        assert len({oracle.values_bytes(result) for result in results}) == 1
        check_items(csr, [(index[0], 1), (3, index[1])], indexing)


def test_zarr_python_1490_and_143_masks_and_scalars(csr: Written) -> None:
    """A mask as a list and as an array; integers of NumPy and of Python."""
    mask = np.arange(40) % 3 == 0
    forms: list[Any] = [
        mask,
        mask.tolist(),
        list(mask),
        pa.array(mask),
        (mask,),
        (mask.tolist(), ...),
    ]
    check_items(csr, forms, "orthogonal")
    scalars = [kind(3) for kind in (int, np.int8, np.int64, np.uint8, np.uint64, np.intp)]
    check_items(csr, [*scalars, np.array(3)], "orthogonal")
    check_items(csr, [*scalars, np.array(3)], "pointwise")


def test_zarr_python_4203_order_on_uncompressed_shards(make: Maker) -> None:
    written = make(dtype="int32", shape=(8, 6), chunks=(2, 3), shards=(4, 6))
    asked: list[Any] = [np.s_[[0, 0, 1], :], np.s_[[7, 0, 3, 0], :], np.s_[:, [5, 0, 0]]]
    check_items(written, asked, "orthogonal")
    check_items(written, asked, "pointwise")


def test_xarray_8252_and_pizzarr_41_backwards(csr: Written, make: Maker) -> None:
    check_items(csr, [np.s_[::-1], np.s_[:, ::-1], np.s_[::-1, ::-1]], "orthogonal")
    line = make(dtype="int16", shape=(10,), chunks=(3,))
    check_items(line, [np.s_[-5:0:-1], np.s_[::-1], np.s_[-1:-11:-1], np.s_[9::-3]], "orthogonal")
    result = zarrow.read_ragged(line.path, [np.s_[-5:0:-1]])
    assert result.to_pylist() == [line.whole[-5:0:-1].tolist()]


def test_xarray_10479_lists_of_slices(make: Maker) -> None:
    """Cells of the sky, regions of a genome: long ranges are never turned into integers."""
    written = make(dtype="int8", shape=(4,), chunks=(4,), missing=1.0, fill_seed=6)
    grid = {"name": "regular", "configuration": {"chunk_shape": [1 << 32]}}
    edit_json(written.path / "zarr.json", shape=[1 << 45], chunk_grid=grid)
    starts = np.arange(1000) << 34
    cells = [slice(int(at), int(at) + (1 << 33)) for at in starts]
    for asked in (zarrow.ranges(starts, starts + (1 << 33)), cells):
        with fails(zarrow.AllocationError):  # 8 TiB
            zarrow.plan(written.path, asked)
    begin = time.perf_counter()
    few = [slice(int(at), int(at) + (1 << 33), 1 << 31) for at in starts]
    plan = zarrow.plan(written.path, few)
    assert time.perf_counter() - begin < 5
    assert (plan.bytes_out, plan.read_chunks, plan.pieces) == (4000, 2000, 2000)
    assert oracle.values_bytes(plan.read()) == written.whole[:1].tobytes() * 4000


def test_zarrdataset_5_border_patch(make: Maker) -> None:
    """Shape (1, 1, 6) in chunks (1, 1, 4): the chunk at the edge is there."""
    written = make(shape=(1, 1, 6), chunks=(1, 1, 4), dtype="uint16")
    patches = [np.s_[0:1, 0:1, at : at + 4] for at in (0, 4)]
    check_items(written, patches, "orthogonal")
    starts = np.array([[0, 0, 0], [0, 0, 4]])
    rows = [(np.arange(1), np.arange(1), np.arange(at, min(at + 4, 6))) for at in (0, 4)]
    asked = zarrow.boxes(starts, starts + np.array([1, 1, 4]), out_of_bounds="clip")
    check_columns(written, Columns(asked, list(rows), "clip", "patches"))


@pytest.mark.parametrize("policy", ["error", "clip", "fill", "null"])
def test_zarrdataset_3_and_6_windows_past_the_edge(make: Maker, policy: Any) -> None:
    """What becomes of them is said, never guessed."""
    written = make(shape=(10, 8), chunks=(4, 4), dtype="uint16", fill_seed=5)
    centers = np.array([[5, 4], [0, 0], [9, 7], [-3, 20]])
    asked = zarrow.windows(centers, (4, 5), out_of_bounds=policy)
    if policy == "error":
        with fails(zarrow.SelectionError, words=("selection 1", "-2..2", "axis 0", "10")):
            zarrow.read_ragged(written.path, asked)
        return
    rows = [(np.arange(y - 2, y + 2), np.arange(x - 2, x + 3)) for y, x in centers]
    check_columns(written, Columns(asked, list(rows), policy, "windows"))
    result = zarrow.read_ragged(written.path, asked)
    shapes = {(len(row), len(row[0]) if row else 0) for row in result.to_pylist()}
    assert shapes == {(4, 5)} or policy == "clip"


@pytest.mark.parametrize("dtype", oracle.ARROW_TYPES)
def test_xbatcher_184_no_selections(make: Maker, dtype: str) -> None:
    """A result of length 0 with the right type."""
    written = make(dtype=dtype, shape=(3, 4), chunks=(2, 2))
    none: NDArray = np.zeros((0, 2), int)
    asked: list[Any] = [
        [],
        zarrow.ranges([], []),
        zarrow.boxes(none, none),
        zarrow.windows(none, (3, 3), out_of_bounds="null"),
        zarrow.rows([0]),
        zarrow.indices([]),
    ]
    for selections in asked:
        result = zarrow.read_ragged(written.path, selections)
        oracle.assert_equal(result, oracle.expect_rows([], dtype, 2))
        assert zarrow.plan(written.path, selections).read().equals(result)
        several = zarrow.read_ragged([written.path] * 2, selections, sources=[])
        assert several.equals(result)
