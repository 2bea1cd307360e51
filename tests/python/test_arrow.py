"""What people do next with a result: slices, casts, record batches, files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest
import zarrow
from arrays import Maker, Written

SELECTIONS: list[Any] = [
    np.s_[2:9, 1:7],
    np.s_[0:1, 3:4],
    np.s_[5:5],
    np.s_[3:12, :],
    np.s_[4:6, 2:2],
]


@pytest.fixture(params=["float64", "int16", "bool", "complex64", "float16"])
def written(request: pytest.FixtureRequest, make: Maker) -> Written:
    """A small array of some type; NaNs compare unequal, so there are none."""
    return make(dtype=request.param, shape=(12, 8), chunks=(5, 3), counting=True)


@pytest.fixture
def result(written: Written) -> pa.Array:
    """A read of it."""
    result = zarrow.read_ragged(written.path, SELECTIONS)
    written.check(result, SELECTIONS)
    return result


def batch_of(result: pa.Array) -> pa.RecordBatch:
    """A batch whose columns are non-nullable, as the items are."""
    fields = [pa.field("crop", result.type, nullable=False), pa.field("n", pa.int64())]
    return pa.record_batch([result, pa.array(range(len(result)))], schema=pa.schema(fields))


def test_record_batch(result: pa.Array) -> None:
    batch = batch_of(result)
    batch.validate(full=True)
    assert batch.column("crop").equals(result)
    assert oracle.values_address(batch.column("crop")) == oracle.values_address(result)


def test_ipc(result: pa.Array) -> None:
    batch = batch_of(result)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        back = reader.read_next_batch()
    assert back.schema.equals(batch.schema, check_metadata=True)
    assert back.equals(batch)
    assert oracle.values_bytes(back.column("crop")) == oracle.values_bytes(result)


def test_feather(result: pa.Array, tmp_path: Path) -> None:
    table = pa.table([result], names=["crop"])
    pf.write_feather(table, tmp_path / "t.feather")
    back = pf.read_table(tmp_path / "t.feather")
    assert back.column("crop").combine_chunks().equals(result)


def test_parquet(result: pa.Array, tmp_path: Path) -> None:
    table = pa.Table.from_batches([batch_of(result)])
    pq.write_table(table, tmp_path / "t.parquet", use_compliant_nested_type=False)
    back = pq.read_table(tmp_path / "t.parquet")
    assert back.column("crop").to_pylist() == result.to_pylist()
    assert back.column("crop").cast(result.type).combine_chunks().equals(result)


def test_slices(written: Written, result: pa.Array) -> None:
    assert result[1:3].to_pylist() == result.to_pylist()[1:3]
    assert result.take(pa.array([4, 0, 3])).to_pylist() == [result[i].as_py() for i in (4, 0, 3)]
    assert pa.concat_arrays([result[:2], result[2:]]).equals(result)
    rows = [written.whole[s] for s in SELECTIONS]
    assert pc.list_value_length(result).to_pylist() == [len(row) for row in rows]
    assert result.type.equals(result[1:3].type)


def test_pickle(result: pa.Array) -> None:
    """pyarrow 26 forgets that the items of fixed-size lists are non-nullable, so no `equals`."""
    back = pickle.loads(pickle.dumps(result))
    assert back.to_pylist() == result.to_pylist()
    assert oracle.values_bytes(back) == oracle.values_bytes(result)


def test_polars(result: pa.Array) -> None:
    if pa.types.is_fixed_size_list(oracle.elements_of(result).type):
        result = result.cast(pa.large_list(pa.large_list(pa.list_(pa.float32()))))
    assert pl.Series(pl.from_arrow(result)).to_list() == result.to_pylist()


def test_cast_to_plain_lists(make: Maker) -> None:
    """pyarrow's default lists are nullable; a cast makes types equal without a copy."""
    written = make(dtype="float64", shape=(12, 8), chunks=(5, 3))
    result = zarrow.read_ragged(written.path, SELECTIONS)
    plain = pa.large_list(pa.large_list(pa.float64()))
    assert result.type != plain
    cast = result.cast(plain)
    assert cast.type == plain
    assert oracle.values_address(cast) == oracle.values_address(result)


@pytest.mark.parametrize("dtype", ["float64", "uint8"])
def test_compute(make: Maker, dtype: str) -> None:
    """Reductions per row through the flat values and the offsets."""
    written = make(dtype=dtype, shape=(30,), chunks=(7,), counting=True)
    starts, stops = np.array([0, 5, 5, 29, 2]), np.array([4, 5, 9, 30, 30])
    result = zarrow.read_ragged(written.path, zarrow.ranges(starts, stops))
    table = pa.table({"row": pc.list_parent_indices(result), "value": pc.list_flatten(result)})
    sums = table.group_by("row").aggregate([("value", "sum")]).sort_by("row")
    want = [int(written.whole[a:b].sum()) for a, b in zip(starts, stops, strict=True) if b > a]
    assert sums.column("value_sum").to_pylist() == want
