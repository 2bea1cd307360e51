"""datetime64 and timedelta64 of every unit become timestamps and durations, NaT becomes null."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import zarr
import zarrow

NAT = np.iinfo("i8").min
EXACT = {"ps": 10**3, "fs": 10**6, "as": 10**9}
POINTS = [
    "Y",
    "M",
    "W",
    "D",
    "h",
    "m",
    "s",
    "ms",
    "us",
    "ns",
    "ps",
    "fs",
    "as",
    "10ms",
    "25ps",
    "7D",
]
SPANS = ["W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "7m", "1500ps"]
DTYPES = [f"M8[{unit}]" for unit in POINTS] + [f"m8[{unit}]" for unit in SPANS]
ORDERS = ["<", ">"]

pytestmark = pytest.mark.filterwarnings("ignore")  # zarr-python warns of types beyond the format


def counts(dtype: str) -> np.ndarray:
    """Counts that Arrow's unit can express, with two NaT among them."""
    unit = dtype[3:-1].lstrip("0123456789")
    limit = {"Y": 2_000, "M": 24_000}.get(unit, 10**6)
    values = np.random.default_rng(3).integers(-limit, limit, 20) * EXACT.get(unit, 1)
    values[[3, 7]] = NAT
    return values


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_times(tmp_path: Path, dtype: str, zarr_format: int, order: str) -> None:
    values = counts(dtype).view(dtype)
    array = zarr.create_array(
        tmp_path / "a", data=values.astype(order + dtype), chunks=(6,), zarr_format=zarr_format
    )
    assert zarrow.open_array(array).dtype == np.dtype(dtype)
    selections = [np.s_[2:9], np.s_[::-3], np.s_[[3, 3, 0]], np.s_[4:4]]
    rows = zarrow.read_ragged(array, selections)
    element = rows.type.value_type
    assert pa.types.is_timestamp(element) == (dtype[0] == "M")
    assert pa.types.is_duration(element) == (dtype[0] == "m")
    for row, selection in zip(rows, selections, strict=True):
        expected = values[selection].astype(f"{dtype[0]}8[{element.unit}]")
        got = row.values.to_numpy(zero_copy_only=False)
        np.testing.assert_array_equal(got.view("i8"), expected.view("i8"))
        assert row.values.null_count == np.isnat(expected).sum()


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("fill", ["NaT", 5])
def test_missing_chunks(tmp_path: Path, zarr_format: int, fill: str | int) -> None:
    fill_value = np.datetime64("NaT", "s") if fill == "NaT" else np.datetime64(fill, "s")
    array = zarr.create_array(
        tmp_path / "a",
        shape=(5,),
        dtype="M8[s]",
        chunks=(2,),
        fill_value=fill_value,
        zarr_format=zarr_format,
    )
    rows = zarrow.read_ragged(array, [np.s_[:]])
    expected = [None] * 5 if fill == "NaT" else [fill] * 5
    assert rows.flatten().cast(pa.int64()).to_pylist() == expected


def test_padding(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "a", data=np.arange(5).astype("M8[ns]"), chunks=(2,))
    windows = zarrow.windows([0, 4], 3, out_of_bounds="fill")
    day = np.datetime64("2000-01-01", "ns")
    padded = zarrow.read_ragged(array, windows, fill=day)
    got = padded.flatten().cast(pa.int64()).to_pylist()
    assert got == [int(day.view("i8")), 0, 1, 3, 4, int(day.view("i8"))]
    with pytest.raises(ValueError, match="fill"):
        zarrow.read_ragged(array, windows, fill=7)
    nulls = zarrow.read_ragged(array, zarrow.windows([0, 4], 3, out_of_bounds="null"))
    assert nulls.flatten().cast(pa.int64()).to_pylist() == [None, 0, 1, 3, 4, None]


def test_a_whole_buffer_is_not_copied(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "a", data=np.arange(500).astype("M8[us]"), chunks=(64,))
    rows = zarrow.read_ragged(array, [np.s_[:], np.s_[3:9]])
    assert str(ak.from_arrow(rows).type) == "2 * var * datetime64[us]"
    assert pl.from_arrow(rows).dtype == pl.List(pl.Datetime("us"))
    assert not rows.type.value_field.nullable


@pytest.mark.parametrize("dtype", ["m8[Y]", "m8[M]", "M8", "m8"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_types_that_arrow_cannot_express(tmp_path: Path, dtype: str, zarr_format: int) -> None:
    zarr.create_array(tmp_path / "a", shape=(4,), dtype=dtype, chunks=(2,), zarr_format=zarr_format)
    with pytest.raises(zarrow.UnsupportedError, match=r"data type .*; expected"):
        zarrow.open_array(tmp_path / "a")


@pytest.mark.parametrize(
    ("dtype", "count"), [("M8[D]", 2**62), ("M8[Y]", 2**60), ("m8[W]", -(2**60)), ("M8[ps]", 1)]
)
def test_times_that_do_not_fit_name_the_selection(tmp_path: Path, dtype: str, count: int) -> None:
    values = np.array([0, 0, count], "i8").view(dtype)
    array = zarr.create_array(tmp_path / "a", data=values, chunks=(2,))
    with pytest.raises(zarrow.UnsupportedError, match=rf"selection 1: .*{count}.*expected a time"):
        zarrow.read_ragged(array, [np.s_[:2], np.s_[1:]])


def test_sources_of_one_unit(tmp_path: Path) -> None:
    days = zarr.create_array(tmp_path / "a", data=np.arange(4).astype("M8[D]"), chunks=(2,))
    hours = zarr.create_array(tmp_path / "b", data=np.arange(4).astype("M8[h]"), chunks=(2,))
    rows = zarrow.read_ragged([days, days], [np.s_[1:2], np.s_[0:1]], sources=[1, 0])
    assert rows.flatten().cast(pa.int64()).to_pylist() == [86_400, 0]
    for promote in (False, True):
        with pytest.raises(zarrow.SelectionError, match="datetime64"):
            zarrow.read_ragged([days, hours], [np.s_[:1]] * 2, sources=[0, 1], promote=promote)


def test_nulls_may_hide_times_that_do_not_fit(tmp_path: Path) -> None:
    """The fill value of chunks that are missing is not shown, so it need not be a time of Arrow."""
    array = zarr.create_array(
        tmp_path / "a", shape=(4,), chunks=(2,), dtype="M8[D]", fill_value=np.datetime64(2**61, "D")
    )
    array[:2] = np.datetime64(1, "D")
    rows = zarrow.read_ragged(array, [np.s_[1:3]], missing_chunks="null")
    assert rows.flatten().cast(pa.int64()).to_pylist() == [86_400, None]
    windows = zarrow.windows([0], 3, out_of_bounds="null")
    rows = zarrow.read_ragged(array, windows)
    assert rows.flatten().cast(pa.int64()).to_pylist() == [None, 86_400, 86_400]
    with pytest.raises(zarrow.UnsupportedError, match="selection 0"):
        zarrow.read_ragged(array, [...])
