"""What may be asked, case by case, and the cases that people reported against other readers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pytest
import zarrow
from arrays import Maker, Written, edit_json

WAYS_TO_ASK: dict[str, list[Any]] = {
    "one": [np.s_[2:5, 1:4, 0:2]],
    "bare slices": [np.s_[2:5], slice(None), np.s_[-3:], np.s_[:-2]],
    "bare ints": [3, 0, -1, np.int8(-7), np.uint64(2)],
    "bare Ellipsis": [..., (...,), ()],
    "unequal lengths": [np.s_[0:1, 0:4], np.s_[0:6, 2:3], np.s_[3:5, 1:1]],
    "clipping": [np.s_[5:99, -99:3], np.s_[-99:99], np.s_[7:8, 5:6], np.s_[2**70 :, -(2**70) :]],
    "empty": [np.s_[3:3], np.s_[5:2], np.s_[0:0, 0:0, 0:0], np.s_[-1:-3], np.s_[99:]],
    "Ellipsis in front": [np.s_[..., 1:3], np.s_[..., 0:1]],
    "Ellipsis in the middle": [np.s_[1:3, ..., 0:2], np.s_[0:7, ..., 1:]],
    "Ellipsis for no axis": [np.s_[1:3, ..., 0:2, 0:1], np.s_[1:3, 0:2, ..., 0:1]],
    "ints drop the axis": [np.s_[2, 1:3], np.s_[-1, :4], np.s_[0]],
    "ints on other axes": [np.s_[2, 1:3, :], np.s_[1:3, 4, :], np.s_[:, 1:2, -1], np.s_[..., 0]],
    "two ints": [np.s_[2, :, 1], np.s_[1, 1], np.s_[:, 0, 0], np.s_[..., 3, 2]],
    "all ints": [(0, 0, 0), (6, 4, 2), (-1, -1, -1), (0, 0, 0), (3, np.int16(2), 1)],
    "NumPy ints in slices": [np.s_[np.int8(1) : np.uint64(5), np.int64(-3) :]],
    "step of one": [slice(1, 5, 1), slice(0, 3, np.int64(1)), slice(None, None, None)],
    "duplicates": [np.s_[2:5]] * 5,
    "overlaps": [np.s_[0:5], np.s_[1:6], np.s_[2:7], np.s_[0:7], np.s_[3:4]],
    "descending": [np.s_[6:7], np.s_[4:6], np.s_[2:4], np.s_[0:2]],
    "shuffled rows": [1, 5, 6, 3, 2, 1, 0],
}


@pytest.fixture(params=["chunked", "sharded", "one chunk", "v2 F order"])
def cube(request: pytest.FixtureRequest, make: Maker) -> Written:
    """A (7, 5, 3) array in several kinds of storage."""
    kinds: dict[str, dict[str, Any]] = {
        "chunked": {"chunks": (3, 2, 2), "codecs": ("zstd",)},
        "sharded": {"chunks": (2, 2, 1), "shards": (4, 4, 2), "codecs": ("gzip",)},
        "one chunk": {"chunks": (10, 10, 10)},
        "v2 F order": {"chunks": (4, 3, 2), "zarr_format": 2, "order": "F"},
    }
    fields = kinds[request.param]
    return make(dtype="float64", shape=(7, 5, 3), **fields)


@pytest.mark.parametrize("way", WAYS_TO_ASK)
def test_as_numpy(cube: Written, way: str) -> None:
    selections = WAYS_TO_ASK[way]
    cube.check(zarrow.read_ragged(cube.path, selections), selections)


def test_any_iterable(cube: Written) -> None:
    selections: list[Any] = [np.s_[0:2], np.s_[3:7], np.s_[1:1]]
    keyed = dict(enumerate(selections))
    for asked in (
        iter(selections),
        (s for s in selections),
        keyed.values(),
        map(tuple, [[s] for s in selections]),
    ):
        cube.check(zarrow.read_ragged(cube.path, asked), selections)


def test_iterable_that_raises(cube: Written) -> None:
    def broken() -> Iterator[slice]:
        yield np.s_[0:2]
        raise RuntimeError("the caller's own")

    with pytest.raises(RuntimeError, match="the caller's own"):
        zarrow.read_ragged(cube.path, broken())


@pytest.mark.parametrize("dtype", ["bool", "uint16", "complex64"])
@pytest.mark.parametrize("shape", [(), (5,), (4, 3), (2, 3, 2, 2), (4, 0)])
def test_no_selections(make: Maker, dtype: str, shape: tuple[int, ...]) -> None:
    """No selections give a result of length 0 with the type of a read that keeps all axes."""
    written = make(dtype=dtype, shape=shape, chunks=tuple(max(n, 1) for n in shape))
    none = np.zeros((0, len(shape)), int)
    results = [zarrow.read_ragged(written.path, []), zarrow.read_ragged(written.path, iter(()))]
    results.append(zarrow.read_ragged(written.path, zarrow.boxes(none, none)))
    if shape:
        nothing: list[Any] = [[], none[:, 0], pa.array([], pa.uint8())]
        for empty in nothing:
            results.append(zarrow.read_ragged(written.path, zarrow.ranges(empty, empty)))
    for result in results:
        oracle.assert_equal(result, oracle.expect(written.whole, [], levels=len(shape)))
        assert result.to_pylist() == []


def test_zero_dimensions(make: Maker) -> None:
    written = make(dtype="int64", shape=(), chunks=())
    value = int(written.whole)
    result = zarrow.read_ragged(written.path, [(), ..., ()])
    written.check(result, [(), ..., ()])
    assert result.to_pylist() == [value] * 3
    none = np.zeros((2, 0), int)
    assert zarrow.read_ragged(written.path, zarrow.boxes(none, none)).to_pylist() == [value] * 2


def test_boxes_of_leading_axes(cube: Written) -> None:
    """Axes after the columns of a box are whole, as after the items of a selection."""
    starts, stops = np.array([[1, 0], [0, 3], [4, 4]]), np.array([[3, 5], [7, 4], [4, 5]])
    for axes in (2, 1, 0):
        result = zarrow.read_ragged(cube.path, zarrow.boxes(starts[:, :axes], stops[:, :axes]))
        ends = zip(starts[:, :axes].tolist(), stops[:, :axes].tolist(), strict=True)
        cube.check(result, [tuple(map(slice, *box)) for box in ends])


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (3, 0, 2), (0, 0)])
def test_zero_length_axes(make: Maker, shape: tuple[int, ...]) -> None:
    written = make(shape=shape, chunks=tuple(max(1, n // 2) for n in shape))
    selections: list[Any] = [..., np.s_[0:9], np.s_[1:2], np.s_[-1:]]
    written.check(zarrow.read_ragged(written.path, selections), selections)
    ends = np.array([shape, shape])
    result = zarrow.read_ragged(written.path, zarrow.boxes(0 * ends, ends))
    written.check(result, [..., ...])


def test_six_dimensions(make: Maker) -> None:
    written = make(shape=(3, 2, 4, 3, 2, 3), chunks=(2, 2, 3, 2, 1, 2), dtype="uint8")
    selections: list[Any] = [np.s_[1:, ..., 1], np.s_[:, 0:1, 2:, :, 1:2, 2], np.s_[2, :, 3:4]]
    written.check(zarrow.read_ragged(written.path, selections), selections)
    whole = [..., ...]
    written.check(zarrow.read_ragged(written.path, whole), whole)


def test_edge_chunks(make: Maker) -> None:
    """The border patch of shape (1, 1, 6), chunks (1, 1, 4) is there."""
    written = make(shape=(1, 1, 6), chunks=(1, 1, 4))
    selections: list[Any] = [np.s_[0:1, 0:1, 4:6], np.s_[0:1, 0:1, 2:6]]
    written.check(zarrow.read_ragged(written.path, selections), selections)


def test_rows_are_in_request_order_on_raw_shards(make: Maker) -> None:
    written = make(shape=(8, 6), chunks=(2, 3), shards=(4, 6), dtype="int16")
    rows = [0, 0, 1, 7, 3, 0, 5]
    written.check(zarrow.read_ragged(written.path, rows), rows)
    starts = np.array(rows, "uint8")
    result = zarrow.read_ragged(written.path, zarrow.ranges(starts, starts + 1))
    written.check(result, [slice(row, row + 1) for row in rows])


def test_many_selections(make: Maker) -> None:
    """200,000 ranges of one small array: near-linear, no Python object per selection."""
    written = make(shape=(10_000,), chunks=(700,), dtype="float32", codecs=("zstd",))
    random = np.random.default_rng(7)
    starts = random.integers(0, 10_000, 200_000)
    stops = np.minimum(starts + random.integers(0, 4, starts.size), 10_000)
    result = zarrow.read_ragged(written.path, zarrow.ranges(starts, stops))
    offsets = np.concatenate([[0], np.cumsum(stops - starts)])
    np.testing.assert_array_equal(oracle.offsets_of(result), offsets)
    picked = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], stops - starts)
    assert oracle.values_bytes(result) == written.whole[picked].tobytes()


@pytest.mark.parametrize("chunk", [1, 1 << 10, 1 << 40])
def test_work_is_bounded_by_what_is_touched(make: Maker, chunk: int) -> None:
    """An array of 2**60 elements, of up to 2**60 chunks, reads as fast as a small one."""
    written = make(shape=(4,), chunks=(4,), dtype="int16", fill_seed=5, missing=1.0)
    grid = {"name": "regular", "configuration": {"chunk_shape": [chunk]}}
    edit_json(written.path / "zarr.json", shape=[1 << 60], chunk_grid=grid)
    end = 1 << 60
    selections: list[Any] = [
        np.s_[end - 3 :],
        np.s_[17:20],
        np.s_[-(1 << 59) : -(1 << 59) + 2],
        np.s_[-1:],
    ]
    start = time.perf_counter()
    result, stats = zarrow.read_ragged(written.path, selections, return_stats=True)
    assert time.perf_counter() - start < 5
    fill = int(written.whole[0])
    assert result.to_pylist() == [[fill] * n for n in (3, 3, 2, 1)]
    assert stats.chunks_decoded == 0
    assert stats.chunks_missing == {1: 8, 1 << 10: 3, 1 << 40: 3}[chunk]
