"""The value that stands beyond an array: that of the array, or one that its type holds exactly."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import oracle
import pandas as pd
import pyarrow as pa
import pytest
import zarr
import zarrow
from arrays import Maker
from checks import check_columns, columns_of_boxes
from failures import fails


@pytest.mark.parametrize("dtype", oracle.ARROW_TYPES)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_the_fill_value_of_the_array(make: Maker, dtype: str, zarr_format: int) -> None:
    """Its very bits, in an array of either byte order."""
    for seed in (1, 7, 8):
        written = make(
            dtype=dtype,
            shape=(5, 3),
            chunks=(2, 2),
            zarr_format=zarr_format,
            endian="big",
            fill_seed=seed,
            missing=0.4,
        )
        bounds = [((-2, 3), (1, 5)), ((4, 9), (-1, 2)), ((9, 11), (0, 3))]
        for policy in ("fill", "null"):
            check_columns(written, columns_of_boxes(bounds, policy, (5, 3)))


FILLS: dict[str, tuple[str, ...]] = {
    "float16": ("0x7e01", "0xfe55", "0x7c01", "0x8000", "0x7c00"),
    "float32": ("0x7fc12345", "0xffc00001", "0x7f800001", "0x80000000", "0xff800000"),
    "float64": ("0x7ff8000000000bad", "0x7ff0000000000001", "0x8000000000000000", "0x1"),
    "int64": ("0x8000000000000000", "0x7fffffffffffffff", "0x20000000000001"),
    "uint64": ("0xffffffffffffffff", "0x20000000000001"),
    "uint8": ("0xff", "0x0"),
}


@pytest.mark.parametrize("dtype", FILLS)
def test_fill_keeps_every_bit(make: Maker, dtype: str) -> None:
    """NaNs with a payload, signalling ones, negative zero, integers that float64 does not hold."""
    written = make(dtype=dtype, shape=(4, 3), chunks=(3, 2))
    for word in FILLS[dtype]:
        fill = np.array(int(word, 16), f"u{np.dtype(dtype).itemsize}").view(dtype).reshape(1)
        check_columns(
            written,
            columns_of_boxes([((-1, 2), (2, 5)), ((1, 2), (0, 1))], "fill", (4, 3)),
            fill=fill,
        )


def test_fill_of_complex_parts(make: Maker) -> None:
    written = make(dtype="complex64", shape=(4,), chunks=(3,))
    fill = np.array([0x80000000, 0x7FC12345], "u4").view("c8")
    check_columns(written, columns_of_boxes([((-1, 2),)], "fill", (4,)), fill=fill)


EXACT: dict[str, tuple[str, Any, Any]] = {
    "int": ("float64", 3, 3.0),
    "large int that is a float": ("float32", 2**70, 2.0**70),
    "float that is an int": ("int16", 7.0, 7),
    "NumPy scalar": ("uint8", np.int64(255), 255),
    "NumPy 0-d array": ("uint8", np.array(3), 3),
    "bool": ("bool", True, True),
    "NumPy bool": ("bool", np.True_, True),
    "NaN": ("float16", float("nan"), float("nan")),
    "infinity": ("float32", float("-inf"), float("-inf")),
    "float in complex": ("complex64", 1.5, 1.5),
    "int in complex": ("complex128", 2, 2.0),
    "half": ("float16", 0.5, 0.5),
    "greatest": ("uint64", 2**64 - 1, 2**64 - 1),
    "least": ("int64", -(2**63), -(2**63)),
    "other byte order": ("float32", np.float32(2).astype(">f4"), 2.0),
}


@pytest.mark.parametrize("name", EXACT)
def test_fills_that_the_type_holds(make: Maker, name: str) -> None:
    dtype, fill, expected = EXACT[name]
    written = make(dtype=dtype, shape=(3,), chunks=(2,))
    bits = np.array([expected]).astype(dtype)
    rows, _ = oracle.box(written.whole, [np.arange(-2, 4)], "fill", bits)
    result = zarrow.read_ragged(
        written.path, zarrow.ranges([-2], [4], out_of_bounds="fill"), fill=fill
    )
    oracle.assert_equal(result, oracle.expect_rows([rows], dtype, 1))


INEXACT: list[tuple[str, Any]] = [
    ("uint8", 256),
    ("uint8", -1),
    ("int8", 128),
    ("int64", 2**63),
    ("uint64", 2**64),
    ("int32", 0.5),
    ("int32", float("nan")),
    ("int32", float("inf")),
    ("float32", 0.1),
    ("float32", 1e300),
    ("float32", 2**24 + 1),
    ("float64", 2**53 + 1),
    ("float64", np.uint64(2**64 - 1)),
    ("float64", 10**400),
    ("float16", 65520),
    ("float16", 1e-9),
    ("float64", 1j),
    ("float64", complex(1, 0)),
    ("complex64", 0.1),
    ("complex64", complex(float("nan"), 0.1)),
    ("complex128", 2**53 + 1),
    ("bool", 1),
    ("bool", 0.0),
    ("uint8", True),
    ("float32", np.True_),
    ("int32", "1"),
    ("int32", b"1"),
    ("float32", "nan"),
    ("int64", np.datetime64(1, "s")),
    ("int64", np.timedelta64(1, "s")),
    ("int64", object()),
    ("int64", pa.scalar(1)),
    ("int64", [1]),
    ("int64", np.array([1])),
    ("int64", ()),
    ("int8", np.float64(1e300)),
    ("float32", np.float64(0.1)),
    ("float32", "0.5"),
    ("bool", "True"),
]


@pytest.mark.parametrize(("dtype", "fill"), INEXACT, ids=lambda value: str(value)[:20])
def test_fills_that_the_type_does_not_hold(make: Maker, dtype: str, fill: Any) -> None:
    """Never rounded, wrapped or parsed; and no warning of NumPy's in place of an error."""
    written = make(dtype=dtype, shape=(3,), chunks=(2,))
    for policy in ("fill", "error"):
        asked = zarrow.ranges([0], [1], out_of_bounds=policy)
        with fails(ValueError, words=("fill",)):
            zarrow.read_ragged(written.path, asked, fill=fill)
        with fails(ValueError, words=("fill",)):
            zarrow.plan(written.path, asked, fill=fill)


REMEDIES: list[tuple[str, Any, str]] = [
    ("float32", 0.1, "numpy.float32(0.1)"),
    ("float32", -0.1, "numpy.float32(-0.1)"),
    ("float16", 1e-9, "numpy.float16(1e-09)"),
    ("float32", 2**24 + 1, "numpy.float32(16777217)"),
    ("float64", 2**53 + 1, "numpy.float64(9007199254740993)"),
    ("complex64", 0.1, "numpy.complex64(0.1)"),
    ("complex64", 1 + 0.1j, "numpy.complex64((1+0.1j))"),
    ("uint8", True, "1"),
    ("float32", False, "0"),
    ("int64", np.True_, "1"),
    ("bool", 1, "True or False"),
    ("int8", 128, "an integer of -128 to 127"),
    ("uint16", 0.5, "an integer of 0 to 65535"),
]


@pytest.mark.parametrize(("dtype", "fill", "remedy"), REMEDIES, ids=str)
def test_what_to_pass_instead(make: Maker, dtype: str, fill: Any, remedy: str) -> None:
    """The message says it, and it works."""
    written = make(dtype=dtype, shape=(3,), chunks=(2,))
    asked = zarrow.ranges([-1], [0], out_of_bounds="fill")
    with fails(ValueError, words=(f"fill is {fill!r}", remedy)):
        zarrow.read_ragged(written.path, asked, fill=fill)
    if "(" in remedy or remedy.isdigit():
        instead = eval(remedy, {"numpy": np})
        expected = oracle.expect_rows([oracle.as_bits(np.array([instead], dtype))], dtype, 1)
        oracle.assert_equal(zarrow.read_ragged(written.path, asked, fill=instead), expected)


@pytest.mark.parametrize(("dtype", "fill"), [("float32", 1e300), ("float16", 65520)])
def test_no_remedy_that_is_infinite(make: Maker, dtype: str, fill: float) -> None:
    written = make(dtype=dtype, shape=(3,), chunks=(2,))
    with fails(ValueError, words=(dtype,)) as caught:
        zarrow.read_ragged(written.path, zarrow.ranges([0], [4], out_of_bounds="fill"), fill=fill)
    assert "rounds" not in str(caught.value)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", oracle.ARROW_TYPES)
def test_fill_is_for_what_lies_outside(make: Maker, dtype: str, zarr_format: int) -> None:
    """Chunks that are missing keep the fill value of the array, also where that is all zeros."""
    for fill_seed in (None, 4):
        written = make(
            dtype=dtype,
            shape=(6, 5),
            chunks=(2, 2),
            missing=0.7,
            fill_seed=fill_seed,
            zarr_format=zarr_format,
        )
        bounds = [((-1, 3), (0, 5)), ((4, 8), (2, 9)), ((-3, 9), (-3, 9)), ((1, 5), (1, 4))]
        ones = np.full(1, 255, "u1").repeat(np.dtype(dtype).itemsize).view(dtype)
        fill = np.array([True]) if dtype == "bool" else ones
        for threads in (1, 4):
            boxes = columns_of_boxes(bounds, "fill", (6, 5))
            check_columns(written, boxes, fill=fill, threads=threads)


UNFILLED: dict[str, Any] = {
    "error": zarrow.ranges([0], [1]),
    "clip": zarrow.ranges([0], [9], out_of_bounds="clip"),
    "null": zarrow.boxes([[0]], [[9]], out_of_bounds="null"),
    "windows": zarrow.windows([1], 3),
    "rows": zarrow.rows([0, 1]),
    "indices": zarrow.indices([[0]]),
    "steps": zarrow.ranges([0], [9], [2], out_of_bounds="clip"),
    "list": [np.s_[0:1]],
    "tuple": (np.array([0]), np.array([1])),
    "generator": None,
    "nothing": [],
    "no ranges": zarrow.ranges([], []),
}


@pytest.mark.parametrize("name", UNFILLED)
def test_fill_where_nothing_is_filled_in(make: Maker, name: str) -> None:
    """Is an error, not ignored, whatever the selections are."""
    written = make(dtype="int32", shape=(3,), chunks=(2,))
    for read in (zarrow.read_ragged, zarrow.plan):
        asked = UNFILLED[name] if name != "generator" else (slice(at) for at in range(2))
        with fails(ValueError, words=("fill is 0", "out_of_bounds='fill'")):
            read(written.path, asked, fill=0)
        read(written.path, [0] if name == "generator" else UNFILLED[name], fill=None)


# ---- times -----------------------------------------------------------------------------------

COUNTS = [0, 1, -1, 13, -13, 10_000, 2**31, -(2**40), 2**55, 2**63 - 1, -(2**63) + 1]
# Picoseconds in one of each.
SCALES = {
    "W": 604_800 * 10**12,
    "D": 86_400 * 10**12,
    "h": 3600 * 10**12,
    "m": 60 * 10**12,
    "s": 10**12,
    "ms": 10**9,
    "us": 10**6,
    "ns": 10**3,
    "ps": 1,
    "10ms": 10**10,
    "7D": 604_800 * 10**12,
}


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, zarrow.Array]:
    """Empty arrays of points and spans of time."""
    folder = tmp_path_factory.mktemp("times")
    arrays = {}
    for kind in "Mm":
        for unit in [*SCALES, *(["Y", "M"] if kind == "M" else [])]:
            path = folder / f"{kind}{unit}"
            zarr.create_array(
                path, shape=(0,), chunks=(1,), dtype=f"{kind}8[{unit}]", zarr_format=2
            )
            arrays[f"{kind}{unit}"] = zarrow.open_array(path)
    return arrays


@pytest.mark.parametrize("kind", ["M", "m"])
@pytest.mark.parametrize("unit", SCALES)
def test_times_of_other_units(moments: dict[str, zarrow.Array], kind: str, unit: str) -> None:
    """Are taken if they are whole counts of the array's unit that fit, and never wrap around."""
    array = moments[kind + unit]
    outside = zarrow.ranges([0], [1], out_of_bounds="fill")
    for other, scale in SCALES.items():
        for count in COUNTS:
            fill = np.array(count).view(f"{kind}8[{other}]")[()]
            exact, rest = divmod(count * scale, SCALES[unit])
            if rest or not -(2**63) < exact < 2**63:
                with fails(ValueError, words=("fill is", str(array.dtype))):
                    zarrow.plan(array, outside, fill=fill)
                continue
            plan = zarrow.plan(array, outside, fill=fill)
            wanted = np.array([exact]).view(array.dtype)
            element = plan_element(array)
            if wanted.astype(element).astype(array.dtype) == wanted and abs(exact) < 2**31:
                row = plan.read().flatten().to_numpy(zero_copy_only=False)
                assert row.astype(array.dtype) == wanted


def plan_element(array: zarrow.Array) -> np.dtype[Any]:
    """The type in which Arrow has the times of an array."""
    unit = zarrow.read_ragged(array, []).type.value_type.unit
    return np.dtype(f"{array.dtype.kind}8[{unit}]")


ZONE = dt.timezone(dt.timedelta(hours=2))
PYTHON_TIMES: list[tuple[str, Any, Any]] = [
    ("MD", dt.date(2000, 1, 1), np.datetime64("2000-01-01", "D")),
    ("Mns", dt.date(1969, 12, 31), np.datetime64("1969-12-31", "D")),
    ("Ms", dt.date.max, np.datetime64("9999-12-31", "D")),
    ("MD", dt.datetime(2000, 1, 2), np.datetime64("2000-01-02", "D")),
    ("Mus", dt.datetime(2000, 1, 2, 3, 4, 5, 6), np.datetime64("2000-01-02T03:04:05.000006")),
    ("Mus", dt.datetime.max, np.datetime64("9999-12-31T23:59:59.999999")),
    ("Mns", pd.Timestamp(7), np.datetime64(7, "ns")),
    ("Mms", pd.Timestamp("2000-01-01"), np.datetime64("2000-01-01")),
    ("Mns", pd.NaT, None),
    ("Mns", np.datetime64("NaT"), None),
    ("MY", dt.date(2000, 1, 1), np.datetime64("2000", "Y")),
    ("MM", np.datetime64("1969-03-01T00", "h"), np.datetime64("1969-03", "M")),
    ("MD", np.datetime64("1900", "Y"), np.datetime64("1900-01-01", "D")),
    ("ms", dt.timedelta(days=1), np.timedelta64(86_400, "s")),
    ("mus", dt.timedelta(microseconds=-1), np.timedelta64(-1, "us")),
    ("mD", dt.timedelta(days=999_999_999), np.timedelta64(999_999_999, "D")),
    ("mns", pd.Timedelta(7, "ns"), np.timedelta64(7, "ns")),
    ("mD", np.timedelta64("NaT", "s"), None),
]
NO_TIMES: list[tuple[str, Any, str]] = [
    ("Mns", dt.date.max, "datetime64[ns]"),
    ("Mns", np.datetime64("9999-01-01"), "datetime64[ns]"),
    ("Mns", dt.datetime(2000, 1, 1, tzinfo=ZONE), "astimezone"),
    ("Mns", pd.Timestamp("2000-01-01", tz="UTC"), "astimezone"),
    ("Mus", pd.Timestamp(1), "datetime64[us]"),
    ("MD", dt.datetime(2000, 1, 1, 1), "datetime64[D]"),
    ("MY", dt.date(2000, 1, 2), "datetime64[Y]"),
    ("MM", dt.datetime(2000, 1, 1, 1), "datetime64[M]"),
    ("Mns", np.datetime64("3000", "Y"), "datetime64[ns]"),
    ("Ms", np.datetime64(2**62, "Y"), "datetime64[s]"),
    ("MD", np.datetime64(-(2**62), "M"), "datetime64[D]"),
    ("Mns", dt.timedelta(1), "datetime64"),
    ("Mns", 0, "numpy.datetime64('2000-01-01', 'ns')"),
    ("Mns", "2000-01-01", "numpy.datetime64('2000-01-01', 'ns')"),
    ("Mns", dt.time(3), "datetime64"),
    ("mns", dt.date(2000, 1, 1), "timedelta64"),
    ("mus", dt.timedelta.max, "timedelta64[us]"),
    ("mns", dt.timedelta.min, "timedelta64[ns]"),
    ("ms", dt.timedelta(microseconds=1), "timedelta64[s]"),
    ("mD", pd.Timedelta(1, "ns"), "timedelta64[D]"),
    ("ms", np.timedelta64(5), "numpy.timedelta64(1, 's')"),
    ("m10ms", 5, "numpy.timedelta64(10, 'ms')"),
    ("ms", np.timedelta64(1, "Y"), "timedelta64[s]"),
    ("mD", np.timedelta64(1, "M"), "timedelta64[D]"),
    ("mns", pd.NaT, "timedelta64"),
]


@pytest.mark.parametrize(("name", "fill", "expected"), PYTHON_TIMES, ids=str)
def test_times_of_python(
    moments: dict[str, zarrow.Array], name: str, fill: Any, expected: Any
) -> None:
    outside = zarrow.ranges([0], [1], out_of_bounds="fill")
    value = zarrow.read_ragged(moments[name], outside, fill=fill)[0].values
    if expected is None:
        assert value.null_count == 1
    else:
        assert value.to_numpy(zero_copy_only=False)[0] == expected


@pytest.mark.parametrize(("name", "fill", "word"), NO_TIMES, ids=str)
def test_no_times(moments: dict[str, zarrow.Array], name: str, fill: Any, word: str) -> None:
    """Nothing that is rounded, wraps around, has a time zone or no unit."""
    outside = zarrow.ranges([0], [1], out_of_bounds="fill")
    with fails(ValueError, words=("fill is", word)):
        zarrow.read_ragged(moments[name], outside, fill=fill)
