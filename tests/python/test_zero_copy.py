"""Consumers take the values where they lie: buffer addresses prove it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import fixed_width as lib
import numpy as np
import oracle
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import zarrow
from arrays import Maker, Written

NUMBERS = sorted(set(oracle.ARROW_TYPES) - {"bool", "complex64", "complex128"})
SELECTIONS: list[Any] = [np.s_[2:9, 1:7], np.s_[0:1, 3:4], np.s_[5:5], np.s_[3:12, :]]


@pytest.fixture
def written(make: Maker) -> Written:
    """A small array of float64."""
    return make(dtype="float64", shape=(12, 8), chunks=(5, 3), codecs=("zstd",), counting=True)


@pytest.fixture
def result(written: Written) -> pa.Array:
    """A read of it."""
    return zarrow.read_ragged(written.path, SELECTIONS)


def offsets_addresses(result: pa.Array) -> list[int]:
    """Where the offsets of each level lie."""
    return [level.buffers()[1].address for level in oracle.lists_of(result)]


@pytest.mark.parametrize("dtype", oracle.ARROW_TYPES)
@pytest.mark.parametrize("count", [1, 3, 1000])
def test_alignment(make: Maker, dtype: str, count: int) -> None:
    written = make(dtype=dtype, shape=(count,), chunks=(7,) if count < 99 else (700,))
    for selections in ([...], [np.s_[count // 2 :]], [0, -1]):
        result = zarrow.read_ragged(written.path, selections)
        written.check(result, selections)
        assert oracle.values_address(result) % 64 == 0


def test_one_allocation(result: pa.Array) -> None:
    """All values lie in one buffer, with no slack worth speaking of."""
    elements = oracle.elements_of(result)
    size = elements.buffers()[1].size
    assert 8 * len(elements) <= size <= 8 * len(elements) + 4096


@pytest.mark.parametrize("dtype", NUMBERS)
def test_awkward(make: Maker, dtype: str) -> None:
    written = make(dtype=dtype, shape=(12, 8), chunks=(5, 3))
    result = zarrow.read_ragged(written.path, SELECTIONS)
    layout = ak.to_layout(ak.from_arrow(result))
    offsets = []
    while layout.is_list:
        offsets.append(layout.offsets.data.ctypes.data)
        layout = layout.content
    assert layout.data.ctypes.data == oracle.values_address(result)
    assert offsets == offsets_addresses(result)


def test_awkward_complex(make: Maker) -> None:
    """Pairs of floats view as complex numbers for free."""
    written = make(dtype="complex128", shape=(12, 8), chunks=(5, 3))
    result = zarrow.read_ragged(written.path, SELECTIONS)
    layout = ak.to_layout(ak.from_arrow(result))
    while hasattr(layout, "content"):
        layout = layout.content
    assert layout.data.ctypes.data == oracle.values_address(result)
    values = layout.data.reshape(-1).view(np.complex128)
    assert values.tobytes() == oracle.expect(written.whole, SELECTIONS).values


def test_polars(result: pa.Array) -> None:
    series = pl.Series(pl.from_arrow(result))
    assert series.dtype == pl.List(pl.List(pl.Float64))
    back = series.to_arrow()
    assert oracle.values_address(back) == oracle.values_address(result)
    assert series.to_list() == result.to_pylist()


def test_bytes_of_fixed_length(tmp_path: Path) -> None:
    """Raw bytes lie where they were decoded to, and consumers take them from there."""
    path, values = lib.write(tmp_path / "a", lib.CASES["V37"], 3, "<", "zstd")
    result = zarrow.read_ragged(path, [np.s_[1:6, 2:7]])
    leaf = lib.leaf_of(result, 2)
    validity, data = leaf.buffers()
    assert validity is None
    assert data.size == values[1:6, 2:7].size * 37
    assert data.address % 64 == 0
    layout = ak.to_layout(ak.from_arrow(result))
    while hasattr(layout, "content"):
        layout = layout.content
    assert layout.data.ctypes.data == data.address


def test_strings_in_awkward_and_polars(tmp_path: Path) -> None:
    """The characters of strings are not copied either."""
    path, values = lib.write(tmp_path / "a", lib.CASES["U6"], 3, "<", "zstd")
    result = zarrow.read_ragged(path, [np.s_[1:6, 2:7]])
    data = lib.leaf_of(result, 2).buffers()[2]
    layout = ak.to_layout(ak.from_arrow(result))
    while hasattr(layout, "content"):
        layout = layout.content
    assert layout.data.ctypes.data == data.address
    assert pl.Series(pl.from_arrow(result)).to_list() == [values[1:6, 2:7].tolist()]


def test_members_of_structs(tmp_path: Path) -> None:
    """Each number of a struct is a column of its own in awkward, where it lies in Arrow."""
    path, _ = lib.write(tmp_path / "a", lib.CASES["record"], 3, "<", "zstd")
    result = zarrow.read_ragged(path, [np.s_[1:6, 2:7]])
    leaf = lib.leaf_of(result, 2)
    array = ak.flatten(ak.from_arrow(result), axis=2)
    for name in ("a", "b"):
        address = leaf.field(name).buffers()[1].address
        assert address % 64 == 0
        layout = ak.to_layout(ak.from_arrow(leaf)[name])
        assert layout.data.ctypes.data == address
    assert array.fields == ["a", "b", "c", "ok", "u", "r"]


def test_polars_flat(written: Written) -> None:
    result = zarrow.read_ragged(written.path, [(3, 4), (0, 0), (11, -1)])
    series = pl.Series(pl.from_arrow(result))
    assert series.dtype == pl.Float64
    assert oracle.values_address(series.to_arrow()) == oracle.values_address(result)


def test_pandas(result: pa.Array) -> None:
    extension = pd.arrays.ArrowExtensionArray(result)
    series = pd.Series(extension)
    assert isinstance(series.dtype, pd.ArrowDtype)
    back = pa.array(series)
    back = back.combine_chunks() if isinstance(back, pa.ChunkedArray) else back
    assert oracle.values_address(back) == oracle.values_address(result)
    assert series.list.len().tolist() == [7, 1, 0, 9]
    typed = pd.Series(extension, dtype=pd.ArrowDtype(result.type))
    assert typed.dtype == pd.ArrowDtype(result.type)


def test_numpy(result: pa.Array) -> None:
    flat = oracle.elements_of(result).to_numpy(zero_copy_only=True)
    assert flat.ctypes.data == oracle.values_address(result)
    assert not flat.flags.writeable


def test_pyarrow_capsule(result: pa.Array) -> None:
    """Through the C data interface and back."""
    back = pa.Array._import_from_c_capsule(*result.__arrow_c_array__())
    assert back.equals(result)
    assert oracle.values_address(back) == oracle.values_address(result)
    assert oracle.lists_of(back)[-1].type.value_field.metadata[b"zarr:dtype"] == b"float64"


def test_values_outlive_everything(written: Written) -> None:
    """The buffer belongs to the result alone: not to the array, the handle or the files."""
    handle: Any = zarrow.open_array(written.path)
    result = zarrow.read_ragged(handle, SELECTIONS)
    want = oracle.expect(written.whole, SELECTIONS)
    del handle
    for path in written.files().values():
        path.write_bytes(b"")
    flat = oracle.numbers_of(result)
    del result
    assert flat.buffers()[1].to_pybytes()[: len(want.values)] == want.values


def test_results_do_not_share(written: Written) -> None:
    one, two = (zarrow.read_ragged(written.path, SELECTIONS) for _ in range(2))
    assert oracle.values_address(one) != oracle.values_address(two)
    assert one.equals(two)
