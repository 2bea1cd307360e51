"""Chunks that differ in shape: written by hand, and by zarr-python where it can."""

from __future__ import annotations

import gzip
import itertools
import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
import zarr
import zarrow
from failures import fails
from hypothesis import given
from hypothesis import strategies as st

LENGTHS = [[3, 1, 4, 4], [5, 2, 6]]
SHAPE = (11, 12)
SELECTIONS = [
    np.s_[:, :], np.s_[2:5, 4:9], np.s_[::-2, 1:12:3], np.s_[[9, 0, 3, 4], 3:3], np.s_[-1:, -1:]
]  # fmt: skip


def grid(lengths: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Lengths that follow each other are written as length and count."""
    shapes = []
    for axis in lengths:
        runs = [(length, len(list(run))) for length, run in itertools.groupby(axis)]
        shapes.append([[length, count] if count > 1 else length for length, count in runs])
    return {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}}


def write(
    path: Path,
    whole: np.ndarray[Any, Any],
    lengths: Sequence[Sequence[int]],
    *,
    order: Sequence[int] | None = None,
    compressed: bool = False,
    skip: Sequence[tuple[int, ...]] = (),
    chunk_grid: dict[str, Any] | None = None,
) -> np.ndarray[Any, Any]:
    """Write an array by the letter of the specification; give it as it is to be read."""
    path.mkdir(parents=True)
    axes = [] if order is None else [{"name": "transpose", "configuration": {"order": list(order)}}]
    after = [{"name": "gzip", "configuration": {"level": 1}}] if compressed else []
    document = {
        "zarr_format": 3, "node_type": "array", "shape": whole.shape, "data_type": whole.dtype.name,
        "chunk_grid": chunk_grid or grid(lengths), "chunk_key_encoding": {"name": "default"},
        "codecs": [*axes, {"name": "bytes", "configuration": {"endian": "little"}}, *after],
        "fill_value": 77, "attributes": {},
    }  # fmt: skip
    (path / "zarr.json").write_text(json.dumps(document))
    expected = whole.copy()
    edges = [np.concatenate([[0], np.cumsum(axis)]) for axis in lengths]
    for index in itertools.product(*(range(len(axis)) for axis in lengths)):
        region = tuple(slice(e[at], e[at + 1]) for e, at in zip(edges, index, strict=True))
        if index in skip:
            expected[region] = 77
            continue
        chunk = np.full(
            [axis[at] for axis, at in zip(lengths, index, strict=True)], 88, whole.dtype
        )
        part = whole[region]
        chunk[tuple(map(slice, part.shape))] = part
        encoded = chunk.transpose(order or range(whole.ndim)).tobytes()
        file = path.joinpath("c", *map(str, index))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(encoded, 1) if compressed else encoded)
    return expected


def numbers(shape: Sequence[int], dtype: str = "int32") -> np.ndarray[Any, Any]:
    return (np.arange(np.prod(shape, dtype=int)) % 250).astype(dtype).reshape(shape)


@pytest.mark.parametrize("order", [None, (1, 0)], ids=["c", "f"])
@pytest.mark.parametrize("compressed", [False, True])
def test_by_hand(tmp_path: Path, order: Any, compressed: bool) -> None:
    whole = numbers(SHAPE)
    skip = [(1, 1), (3, 0)]
    expected = write(tmp_path / "a", whole, LENGTHS, order=order, compressed=compressed, skip=skip)
    for limit in (None, 100_000):
        result = zarrow.read_ragged(tmp_path / "a", SELECTIONS, memory_limit=limit)
        oracle.assert_reads(result, expected, SELECTIONS)
    result = zarrow.read_ragged(tmp_path / "a", [np.s_[4, [11, 5, 5, 6]]])
    assert result.to_pylist() == [expected[4, [11, 5, 5, 6]].tolist()]


def test_the_handle_tells_all_sizes(tmp_path: Path) -> None:
    write(tmp_path / "a", numbers(SHAPE), LENGTHS)
    array = zarrow.open_array(tmp_path / "a")
    sizes = ((3, 1, 4, 3), (5, 2, 5))
    assert array.read_chunk_sizes == array.write_chunk_sizes == sizes
    assert array.shards is None
    assert "chunks=<variable>" in repr(array)
    again = pickle.loads(pickle.dumps(array))
    assert again.read_chunk_sizes == sizes
    with fails(NotImplementedError, words=("read_chunk_sizes",)):
        _ = array.chunks
    regular = zarr.create_array(
        tmp_path / "r", shape=(10, 5), chunks=(2, 3), shards=(4, 6), dtype="i1"
    )
    array = zarrow.open_array(regular)
    assert array.read_chunk_sizes == ((2, 2, 2, 2, 2), (3, 2))
    assert array.write_chunk_sizes == ((4, 4, 2), (5,))


def test_a_plan_tells_the_bytes_of_each_chunk(tmp_path: Path) -> None:
    write(tmp_path / "a", numbers(SHAPE), LENGTHS)
    plan = zarrow.plan(tmp_path / "a", [np.s_[2:5, 4:6]])
    listed = plan.chunks().select(["key", "chunk", "bytes"]).to_pylist()
    areas = {(0, 0): 15, (0, 1): 6, (1, 0): 5, (1, 1): 2, (2, 0): 20, (2, 1): 8}
    assert listed == [
        {"key": f"c/{y}/{x}", "chunk": [y, x], "bytes": 4 * area} for (y, x), area in areas.items()
    ]
    assert plan.bytes_to_decode == 4 * sum(areas.values())


@given(data=st.data())
def test_any_lengths(tmp_path_factory: Any, data: st.DataObject) -> None:
    """Of one to three axes, against NumPy."""
    lengths = data.draw(
        st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=5), min_size=1, max_size=3)
    )
    last = [data.draw(st.integers(0, axis[-1] - 1)) for axis in lengths]
    shape = [sum(axis) - cut for axis, cut in zip(lengths, last, strict=True)]
    order = data.draw(st.none() | st.permutations(range(len(shape))))
    indices = st.tuples(*(st.integers(0, len(axis) - 1) for axis in lengths))
    skip = data.draw(st.lists(indices, max_size=3))
    path = tmp_path_factory.mktemp("any") / "a"
    expected = write(
        path, numbers(shape, "uint8"), lengths, order=order, compressed=data.draw(st.booleans()),
        skip=skip,
    )  # fmt: skip
    bound = [st.tuples(st.integers(0, n), st.integers(0, n)).map(sorted) for n in shape]
    boxes = data.draw(st.lists(st.tuples(*bound), max_size=6))
    selections = [tuple(slice(*sides) for sides in box) for box in boxes]
    oracle.assert_reads(zarrow.read_ragged(path, selections), expected, selections)


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        ([[3, 3], [12]], "axis 0 has chunks that do not cover its 11 elements"),
        ([[3, 8], [[0, 4], 12]], "axis 1 has the number 0"),
        ([[3, 8], [[6, 0], 12]], "axis 1 has the number 0"),
        ([[3, 8]], "'chunk_shapes' of 1 axes"),
        ([[3, 8], [[1, 2, 3]]], "axis 1 has the chunks [1,2,3]"),
    ],
)
def test_what_is_no_grid_is_refused(tmp_path: Path, shapes: Any, told: str) -> None:
    configuration = {"kind": "inline", "chunk_shapes": shapes}
    chunk_grid = {"name": "rectilinear", "configuration": configuration}
    write(tmp_path / "a", numbers(SHAPE), LENGTHS, chunk_grid=chunk_grid)
    with fails(zarrow.MetadataError, words=(told,)):
        zarrow.open_array(tmp_path / "a")


def test_counts_allocate_nothing(tmp_path: Path) -> None:
    many = 10**18
    write(tmp_path / "a", numbers((4,)), [[2, 2]])
    document = json.loads((tmp_path / "a" / "zarr.json").read_text())
    document["shape"] = [many]
    document["chunk_grid"]["configuration"]["chunk_shapes"] = [[[2, 3], [1, many]]]
    (tmp_path / "a" / "zarr.json").write_text(json.dumps(document))
    rows = zarrow.read_ragged(tmp_path / "a", [np.s_[1:6], np.s_[many - 2 :]])
    assert rows.to_pylist() == [[1, 2, 3, 77, 77], [77, 77]]
    with fails(zarrow.AllocationError, words=("chunks",)):
        _ = zarrow.open_array(tmp_path / "a").read_chunk_sizes


def writes_rectilinear() -> bool:
    try:
        with zarr.config.set({"array.rectilinear_chunks": True}):
            array = zarr.create_array({}, shape=(3,), chunks=[[1, 2]], dtype="i1")
            return bool(array.read_chunk_sizes == ((1, 2),))
    except Exception:  # noqa: BLE001
        return False


@pytest.mark.skipif(not writes_rectilinear(), reason="zarr-python before 3.2 writes regular grids")
@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("dtype", ["int16", "str"])
def test_written_by_zarr_python(tmp_path: Path, sharded: bool, dtype: str) -> None:
    """Also shards that differ in shape, whose subchunks do not."""
    lengths = [[4, 2, 6], [3, 3, 9]] if sharded else [[4, 1, 6], [3, 3, 8]]
    cut: Any = {"chunks": (2, 3), "shards": lengths} if sharded else {"chunks": lengths}
    shape = (11, 14)
    with zarr.config.set({"array.rectilinear_chunks": True}):
        covered = tuple(map(sum, lengths))
        cut["dtype"] = dtype
        array = zarr.create_array(tmp_path / "a", shape=covered, fill_value=None, **cut)
        array.resize(shape)
        whole = numbers(shape)
        array[:] = whole.astype(array.dtype)
        expected = np.asarray(array[:])
        sizes = (array.read_chunk_sizes, array.write_chunk_sizes)
        handle = zarrow.open_array(array)
    assert (handle.read_chunk_sizes, handle.write_chunk_sizes) == sizes
    if sharded:
        assert handle.chunks == (2, 3)
        with fails(NotImplementedError, words=("write_chunk_sizes",)):
            _ = handle.shards
    selections = [np.s_[:, :], np.s_[3:8, 2:7], np.s_[10:, 13:], np.s_[::3, ::-4]]
    rows, stats = zarrow.read_ragged(handle, selections, return_stats=True)
    assert rows.to_pylist() == [expected[each].tolist() for each in selections]
    assert stats.chunks_fetched == stats.chunks_decoded
