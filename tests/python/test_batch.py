"""The same selections of several arrays in one call: a record batch with a column for each."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import objects
import oracle
import polars as pl
import pyarrow as pa
import pytest
import strategies
import zarr
import zarrow
from arrays import Layout, Maker, Written, write
from checks import Reference, rows_of_columns, rows_of_items
from failures import fails, run
from hypothesis import given, settings
from hypothesis import strategies as st
from remote import OwnMapping, OwnStore, read_folder
from servers.http_files import FileServer
from servers.proxy import Proxy


@st.composite
def layouts_of_one_shape(draw: st.DrawFn) -> list[Layout]:
    """Arrays of one shape, of one format each, which differ in all else."""
    first: Layout = draw(strategies.layouts_v3(3) | strategies.layouts_v2(3))
    layouts = [first]
    for _ in range(draw(st.integers(0, 2))):
        dtype = draw(strategies.dtypes)
        codecs = draw(st.sampled_from([(), ("zstd",), ("gzip",)]))
        chunks = draw(strategies.chunk_shapes(first.shape))
        seed = draw(st.integers(0, 99))
        layouts.append(
            Layout(dtype=dtype, shape=first.shape, chunks=chunks, codecs=codecs, seed=seed)
        )
    return layouts


@settings(max_examples=settings().max_examples // 2)
@given(layouts_of_one_shape(), st.data())
def test_any_arrays(layouts: list[Layout], data: st.DataObject) -> None:
    """Each column is what the oracle makes of its array alone; each chunk was decoded once."""
    with tempfile.TemporaryDirectory() as folder:
        references = [
            Reference.of(write(layout, Path(folder) / f"{number}.zarr"))
            for number, layout in enumerate(layouts)
        ]
        numbers = st.integers(0, len(layouts) - 1)
        listed = data.draw(st.lists(numbers, min_size=1, max_size=4), label="arrays")
        arrays = {f"column {at}": references[number].handle for at, number in enumerate(listed)}
        missing_chunks = data.draw(st.sampled_from(["fill", "null"]), label="missing_chunks")
        threads = data.draw(st.sampled_from([None, 1, 3]), label="threads")
        indexing = data.draw(st.sampled_from(["orthogonal", "pointwise"]), label="indexing")
        shape = layouts[0].shape
        if data.draw(st.booleans(), label="columns"):
            columns, indexing = data.draw(strategies.columns(shape), label="columns"), "orthogonal"
            asked: Any = columns.selections
            count = len(columns.rows)
        else:
            asked = data.draw(strategies.vocabulary(shape, indexing), label="items")
            columns, count = None, len(asked)
        batch, stats = zarrow.read_batch(
            arrays, asked, indexing=indexing, missing_chunks=missing_chunks, threads=threads,
            return_stats=True,
        )  # fmt: skip
        batch.validate(full=True)
        assert batch.schema.names == list(arrays)
        decoded = missing = 0
        for number in set(listed):
            reference, of = references[number], [number] * count
            if columns is None:
                rows = rows_of_items(references, of, asked, indexing)
            else:
                rows = rows_of_columns(references, of, columns, None)
            expected = rows.expected(reference.whole, missing_chunks)
            for at in np.flatnonzero(np.array(listed) == number):
                oracle.assert_equal(batch.column(int(at)), expected)
            stored = {chunk for _, chunk in rows.touched.chunks if chunk in reference.stored}
            decoded += len(stored)
            missing += len(rows.touched.chunks) - len(stored)
        assert stats.chunks_decoded == stats.chunks_fetched == decoded
        assert stats.chunks_missing == missing


# ---- a sparse matrix -------------------------------------------------------------------------

ENDS = np.array([0, 5, 5, 31, 40, 77, 90])
SPARSE = {
    "data": Layout(dtype="float32", shape=(90,), chunks=(20,), codecs=("zstd",), seed=1),
    "indices": Layout(dtype="int64", shape=(90,), chunks=(9,), shards=(27,), seed=2),
    "names": Layout(dtype="uint8", shape=(90, 3), chunks=(40, 2), zarr_format=2, seed=3),
}


@pytest.fixture
def sparse(make: Maker) -> dict[str, Written]:
    return {name: make(layout) for name, layout in SPARSE.items()}


@pytest.fixture
def rows() -> zarrow.Selections:
    return zarrow.ranges(ENDS[:-1], ENDS[1:])


def paths(written: dict[str, Written]) -> dict[str, Path]:
    return {name: each.path for name, each in written.items()}


def check(batch: pa.RecordBatch, written: dict[str, Written]) -> None:
    batch.validate(full=True)
    assert batch.schema.names == list(written)
    ranges = [np.s_[start:stop] for start, stop in itertools.pairwise(ENDS)]
    for name, each in written.items():
        each.check(batch.column(name), ranges)


def test_columns_of_equal_layout_share_offsets(
    sparse: dict[str, Written], rows: zarrow.Selections
) -> None:
    batch = zarrow.read_batch(paths(sparse), rows)
    check(batch, sparse)
    data, indices, names = (batch.column(name).buffers()[1] for name in sparse)
    assert data.address == indices.address == names.address


def test_an_array_that_is_given_twice_is_read_once(
    sparse: dict[str, Written], rows: zarrow.Selections
) -> None:
    path = sparse["data"].path
    for one, other in [(path, path), (str(path), str(path)), (zarrow.open_array(path),) * 2]:
        batch, stats = zarrow.read_batch({"a": one, "b": other}, rows, return_stats=True)
        check(batch.select(["a"]).rename_columns(["data"]), {"data": sparse["data"]})
        assert oracle.values_address(batch.column("a")) == oracle.values_address(batch.column("b"))
        assert stats.chunks_decoded == 5
        assert stats.bytes_out == 90 * 4


@pytest.mark.parametrize("selections", ["ranges", "items", "iterable"])
def test_forms_of_selections(sparse: dict[str, Written], selections: str) -> None:
    ranges = [np.s_[start:stop] for start, stop in itertools.pairwise(ENDS)]
    asked: dict[str, Any] = {
        "ranges": zarrow.ranges(ENDS[:-1], ENDS[1:]),
        "items": ranges,
        "iterable": iter(ranges),
    }
    check(zarrow.read_batch(paths(sparse), asked[selections]), sparse)


def test_polars(sparse: dict[str, Written], rows: zarrow.Selections) -> None:
    batch = zarrow.read_batch(paths(sparse), rows)
    frame = pl.from_arrow(batch)
    assert isinstance(frame, pl.DataFrame)
    assert frame["indices"].to_list() == batch.column("indices").to_pylist()
    assert frame["data"].list.len().to_list() == np.diff(ENDS).tolist()


def test_no_rows(sparse: dict[str, Written]) -> None:
    batch = zarrow.read_batch(paths(sparse), zarrow.ranges([], []))
    assert (batch.num_rows, batch.num_columns) == (0, 3)


def test_null_rows_and_missing_chunks(make: Maker) -> None:
    written = {name: make(replace(SPARSE[name], missing=0.5, fill_seed=1)) for name in SPARSE}
    asked = zarrow.ranges([0, 80], [90, 95], out_of_bounds="null")
    batch = zarrow.read_batch(paths(written), asked, missing_chunks="null")
    for name in SPARSE:
        alone = zarrow.read_ragged(written[name].path, asked, missing_chunks="null")
        assert batch.column(name).is_valid().equals(alone.is_valid())
        assert oracle.values_bytes(batch.column(name)) == oracle.values_bytes(alone)
    alone = zarrow.read_batch(paths(written), [None, np.s_[3:5]])
    assert [column.null_count for column in alone.columns] == [1, 1, 1]
    with pytest.raises(zarrow.StoreError, match="missing"):
        zarrow.read_batch(paths(written), asked, missing_chunks="error")


@pytest.mark.parametrize("policy", ["clip", "fill", "null"])
def test_what_lies_beyond_is_the_fill_value_of_each(make: Maker, policy: Any) -> None:
    written = {name: make(replace(SPARSE[name], fill_seed=7)) for name in SPARSE}
    asked = zarrow.ranges([80, -3], [95, 2], out_of_bounds=policy)
    batch = zarrow.read_batch(paths(written), asked)
    for name in SPARSE:
        alone = zarrow.read_ragged(written[name].path, asked)
        assert batch.column(name).type == alone.type
        assert batch.column(name).is_valid().equals(alone.is_valid())
        assert oracle.values_bytes(batch.column(name)) == oracle.values_bytes(alone)


def test_further_axes(make: Maker) -> None:
    """Whatever is not bounded may differ: an Ellipsis at the end bounds nothing."""
    grey = make(shape=(12, 9), chunks=(5, 4), seed=1)
    colours = make(shape=(12, 9, 3), chunks=(4, 9, 1), dtype="uint8", seed=2)
    mask = np.arange(12) % 5 == 2
    asked: list[Any] = [np.s_[2:5, 1:4, ...], np.s_[:, 3:4], ..., np.s_[mask, 2:5]]
    for arrays in ({"grey": grey, "rgb": colours}, {"rgb": colours, "grey": grey}):
        batch = zarrow.read_batch(paths(arrays), asked)
        for name, each in arrays.items():
            each.check(batch.column(name), asked)
    with fails(zarrow.SelectionError, words=("an Ellipsis that is not last", "[12, 9, 3]")):
        zarrow.read_batch({"grey": grey.path, "rgb": colours.path}, [np.s_[..., 0:2]])


def test_transforms(make: Maker) -> None:
    """They are for the array with the fewest axes, wherever that stands."""
    zi = pytest.importorskip("zarr_indexing", reason="needs Python 3.12 or later")
    transform = zi.IndexTransform.from_shape((90,))
    written = {name: make(SPARSE[name]) for name in ("names", "data")}
    batch = zarrow.read_batch(paths(written), [transform])
    for name, each in written.items():
        each.check(batch.column(name), [np.s_[:]])


def test_values_of_variable_length(tmp_path: Path, sparse: dict[str, Written]) -> None:
    words = objects.objects([f"{'ü' * (n % 4)}{n}" for n in range(90)], (90,))
    objects.write(tmp_path / "words", words, (20,), kind="string")
    asked = [np.s_[start:stop] for start, stop in itertools.pairwise(ENDS)]
    batch = zarrow.read_batch({"words": tmp_path / "words", **paths(sparse)}, asked)
    found = objects.rows_of(words, asked)
    objects.assert_rows(batch.column("words"), found, objects.ARROW["string"], 1)
    check(batch.select(list(sparse)), sparse)


def test_a_cache_serves_all_columns(sparse: dict[str, Written], rows: zarrow.Selections) -> None:
    cache, handles = zarrow.ChunkCache(1 << 20), paths(sparse)
    opened = {name: zarrow.open_array(path) for name, path in handles.items()}
    check(zarrow.read_batch(opened, rows, cache=cache), sparse)
    batch, stats = zarrow.read_batch(opened, rows, cache=cache, return_stats=True)
    check(batch, sparse)
    assert stats.chunks_decoded == stats.chunks_fetched == 0
    assert stats.chunks_cached == 5 + 10 + 6


def test_progress_is_that_of_all_columns(
    sparse: dict[str, Written], rows: zarrow.Selections
) -> None:
    told: list[tuple[int, int, int, int]] = []
    zarrow.read_batch(paths(sparse), rows, progress=lambda *done: told.append(done))
    assert told[-1][:2] == (21, 21)


# ---- refusals --------------------------------------------------------------------------------


def test_arrays_that_differ_in_length(sparse: dict[str, Written], make: Maker) -> None:
    other = make(shape=(91,), chunks=(30,)).path
    arrays = {"data": sparse["data"].path, "other": other}
    with fails(
        zarrow.SelectionError,
        words=(
            "'other' has shape [91]",
            "'data' has [90]",
        ),
    ):
        zarrow.read_batch(arrays, zarrow.ranges([0], [1]))


def test_out_of_bounds(sparse: dict[str, Written]) -> None:
    with fails(
        zarrow.SelectionError,
        words=(
            "selection 1",
            "90",
        ),
    ):
        zarrow.read_batch(paths(sparse), zarrow.ranges([0, 80], [1, 91]))


@pytest.mark.parametrize(
    ("arrays", "error", "told"),
    [
        ([], TypeError, "arrays is of type list; expected a mapping"),
        ("a.zarr", TypeError, "arrays is of type str; expected a mapping"),
        ({}, ValueError, "arrays is empty; expected at least one"),
        ({1: "a.zarr"}, TypeError, "[1]; expected each to be a str"),
        ({"a": 1}, TypeError, "array is of type int; expected a path"),
        ({"a": "no such.zarr"}, zarrow.NotFoundError, "no such.zarr"),
    ],
)
def test_what_is_no_mapping_of_arrays(arrays: Any, error: type[Exception], told: str) -> None:
    with fails(error, words=(told,)):
        zarrow.read_batch(arrays, [...])


def test_options_are_checked(sparse: dict[str, Written]) -> None:
    for name, value in [("threads", 0), ("memory_limit", -1), ("timeout", 0), ("concurrency", 0)]:
        options: dict[str, Any] = {name: value}
        with fails(ValueError, words=(f"{name} is {value}",)):
            zarrow.read_batch(paths(sparse), [...], **options)
    with fails(TypeError, words=("storage_options was given",)):
        zarrow.read_batch(paths(sparse), [...], storage_options={"allow_http": True})


def test_a_chunk_that_is_broken(sparse: dict[str, Written], rows: zarrow.Selections) -> None:
    (sparse["data"].path / "c" / "1").write_bytes(b"no zstd")
    with fails(zarrow.DecodeError, words=("c/1",)):
        zarrow.read_batch(paths(sparse), rows)


DEEP: dict[str, tuple[Any, int]] = {
    "int32": ("<i4", 0),
    "complex64": ("<c8", 1),
    "structs of lists of lists": ([["m", "<f4", [2, 3]], ["n", "<i2"]], 3),
    "structs of structs": ([["n", [["s", "|S3"]]]], 2),
}


@pytest.mark.parametrize(("dtype", "depth"), DEEP.values(), ids=DEEP)
def test_deep_lists(tmp_path: Path, dtype: Any, depth: int) -> None:
    """pyarrow takes 63 levels, lists and structs of the elements among them; 62 as a column."""
    document = {
        "zarr_format": 2, "shape": [2], "chunks": [1], "dtype": dtype, "order": "C",
        "compressor": None, "filters": None, "fill_value": None,
    }  # fmt: skip
    (tmp_path / ".zarray").write_text(json.dumps(document))
    deepest = (slice(None), *(None,) * (62 - depth))
    assert len(zarrow.read_ragged(tmp_path, [deepest])) == 1
    with fails(zarrow.SelectionError, words=("64 axes", "at most 63")):
        zarrow.read_ragged(tmp_path, [(*deepest, None)])
    with fails(zarrow.SelectionError, words=("63 axes", "at most 62")):
        zarrow.read_batch({"deep": tmp_path}, [deepest])
    batch = zarrow.read_batch({"deep": tmp_path}, [deepest[:-1]])
    assert (batch.num_rows, batch.schema.names) == (1, ["deep"])


# ---- far away --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def far(http_server: FileServer) -> dict[str, Written]:
    folder = http_server.folder / "batch"
    return {name: write(layout, folder / name) for name, layout in SPARSE.items()}


def urls(proxy: Proxy, names: Any = SPARSE) -> dict[str, Any]:
    return {name: f"{proxy.url}/batch/{name}" for name in names}


def test_far_arrays_are_opened_and_read_at_once(
    far: dict[str, Written], proxy: Proxy, rows: zarrow.Selections
) -> None:
    """None waits for another: as much is in flight as no column alone asks for."""
    batch, stats = zarrow.read_batch(urls(proxy), rows, return_stats=True)
    check(batch, far)
    alone = [
        zarrow.read_ragged(url, rows, return_stats=True)[1].max_in_flight
        for url in urls(proxy).values()
    ]
    assert stats.max_in_flight > max(alone)


@pytest.mark.parametrize("kind", ["dict", "own", "mapping", "mixed"])
def test_stores_of_python(
    far: dict[str, Written], proxy: Proxy, rows: zarrow.Selections, kind: str
) -> None:
    made: dict[str, Any] = {
        "dict": lambda name: read_folder(far[name].path),
        "own": lambda name: zarr.open_array(OwnStore(read_folder(far[name].path)), mode="r"),
        "mapping": lambda name: OwnMapping(read_folder(far[name].path), 0.001),
        "mixed": lambda name: {
            "data": far[name].path,
            "indices": f"{proxy.url}/batch/{name}",
            "names": read_folder(far[name].path),
        }[name],
    }
    check(zarrow.read_batch({name: made[kind](name) for name in far}, rows), far)


def test_the_first_array_that_is_not_there_ends_all(
    far: dict[str, Written], proxy: Proxy, rows: zarrow.Selections
) -> None:
    """However long the others take."""
    proxy.hang("/batch/data/")
    arrays = urls(proxy, ["data", "nothing", "indices"])
    with fails(zarrow.NotFoundError, words=("/batch/nothing",)):
        zarrow.read_batch(arrays, rows)
    assert far


@pytest.mark.parametrize("concurrency", [None, 3])
def test_many_arrays_are_opened_at_once(
    far: dict[str, Written], proxy: Proxy, concurrency: int | None
) -> None:
    """Of `sources=` as well: 64 of them, or as many as are asked for, with two documents each."""
    path = far["data"].path
    count = 100 if concurrency is None else 9
    places = [path.parent / f"link{number}" for number in range(count)]
    for place in places:
        place.symlink_to(path)
    proxy.configure(latency=0.2)
    try:
        found = [f"{proxy.url}/batch/{place.name}" for place in places]
        none = zarrow.ranges([], [])
        result = zarrow.read_ragged(found, none, sources=[], concurrency=concurrency)
        assert len(result) == 0
        most = proxy.counts().most_in_flight
        assert most > 64 if concurrency is None else concurrency <= most <= 3 * concurrency
        proxy.configure(latency=0)
        rows = zarrow.ranges([3] * count, [5] * count)
        result = zarrow.read_ragged(found, rows, sources=range(count), concurrency=concurrency)
        far["data"].check(result, [np.s_[3:5]] * count)
    finally:
        for place in places:
            place.unlink()


def test_opening_is_ended_by_a_timeout(
    far: dict[str, Written], proxy: Proxy, rows: zarrow.Selections
) -> None:
    proxy.hang("/batch/indices/zarr.json")
    with pytest.raises(zarrow.ReadTimeoutError):
        zarrow.read_batch(urls(proxy), rows, timeout=0.5)
    assert far


def test_awaited(far: dict[str, Written], proxy: Proxy, rows: zarrow.Selections) -> None:
    async def read() -> pa.RecordBatch:
        first = zarrow.read_batch_async(urls(proxy), rows)
        second = zarrow.read_batch_async(urls(proxy), rows, return_stats=True)
        batch, (other, stats) = await asyncio.gather(first, second)
        check(other, far)
        assert stats.rows == len(rows)
        return batch

    check(asyncio.run(read()), far)


def test_a_task_that_is_cancelled_ends_the_read(
    far: dict[str, Written], proxy: Proxy, rows: zarrow.Selections
) -> None:
    proxy.hang("/batch/indices/c/")

    async def read() -> None:
        await asyncio.wait_for(zarrow.read_batch_async(urls(proxy), rows), 0.4)
        raise AssertionError("the store hangs")

    with pytest.raises(TimeoutError):
        asyncio.run(read())
    proxy.wait_until_idle()
    assert far


SIGINT = """
import os, signal, sys, threading
import zarrow
threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    zarrow.read_batch({"a": sys.argv[1] + "/data", "b": sys.argv[1] + "/indices"}, [...])
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are another matter there")
@pytest.mark.parametrize("what", ["/batch/indices/zarr.json", "/batch/indices/c/"])
def test_ctrl_c(far: dict[str, Written], proxy: Proxy, what: str) -> None:
    """Whether arrays are being opened or read."""
    proxy.hang(what)
    done = run(SIGINT, f"{proxy.url}/batch", timeout=10)
    assert done.stdout.split() == ["interrupted"], done.stderr
    assert far
