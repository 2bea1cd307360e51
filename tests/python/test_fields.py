"""Some fields of structured arrays, and values for what is beyond an array."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import fixed_width as lib
import numpy as np
import pyarrow as pa
import pytest
import zarrow
from arrays import edit_json
from fixed_width import CASES

pytestmark = pytest.mark.filterwarnings("ignore")  # zarr-python warns of types beyond the format

ROWS: list[Any] = [np.s_[1:6, 2:5], np.s_[::-2, [8, 0]], np.s_[0:0, :]]
LAYOUTS = [(2, "<", "plain"), (2, ">", "blosc"), (3, ">", "sharded order"), (3, "<", "zstd")]


def expected(values: np.ndarray, names: list[str]) -> np.ndarray:
    flat = np.concatenate([values[row].reshape(-1) for row in ROWS])
    chosen = np.zeros(len(flat), [(name, flat.dtype[name]) for name in names])
    for name in names:
        chosen[name] = flat[name]
    return chosen


@pytest.mark.parametrize(("zarr_format", "order", "layout"), LAYOUTS)
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("record", ["a"]),
        ("record", ["u", "a", "r"]),
        ("record", ["r", "u", "ok", "c", "b", "a"]),
        ("nested", ["é ü", "n"]),
        ("arrays", ["w", "v"]),
    ],
)
def test_some_fields(
    tmp_path: Path, name: str, fields: list[str], zarr_format: int, order: str, layout: str
) -> None:
    case = CASES[name]
    if zarr_format == 3 and case.v3 is None:
        zarr_format, layout = 2, "plain"
    path, values = lib.write(tmp_path / "a", case, zarr_format, order, layout, seed=5)
    result, stats = zarrow.read_ragged(path, ROWS, fields=fields, return_stats=True)
    lib.assert_values(lib.leaf_of(result, 2), expected(values, fields))
    plan = zarrow.plan(path, ROWS, fields=fields)
    width = sum(values.dtype[name].itemsize for name in fields)
    assert plan.bytes_out == stats.bytes_out == len(lib.leaf_of(result, 2)) * width
    again = pickle.loads(pickle.dumps(plan)).read()
    lib.assert_values(lib.leaf_of(again, 2), expected(values, fields))
    assert stats.chunks_decoded == stats.chunks_fetched


def test_fields_of_several_arrays(tmp_path: Path) -> None:
    """Byte orders do not matter, an array that is given twice is read once."""
    one, a = lib.write(tmp_path / "a", CASES["record"], 2, "<", "plain", seed=1)
    two, b = lib.write(tmp_path / "b", CASES["record"], 2, ">", "zstd", seed=2)
    rows = [np.s_[:, 0], np.s_[3, :], np.s_[:, 1]]
    result, stats = zarrow.read_ragged(
        [one, two, one], rows, sources=[0, 1, 2], fields=["u", "b"], return_stats=True
    )
    flat = np.concatenate([a[:, 0], b[3, :], a[:, 1]])
    chosen = np.zeros(len(flat), [("u", "U2"), ("b", "f8")])
    chosen["u"], chosen["b"] = flat["u"], flat["b"]
    lib.assert_values(lib.leaf_of(result, 1), chosen)
    assert stats.chunks_fetched + stats.chunks_missing == 3 + 3
    metadata = result.type.value_field.metadata
    assert metadata[b"zarr:dtype"] == b"struct"
    assert b"zarr:byte_order" not in metadata


@pytest.mark.parametrize(
    ("fields", "words"),
    [(["x"], ("'x'", "'a'", "'ok'")), (["a", "a"], ("'a' twice",)), ([], ("no fields", "'b'"))],
)
def test_fields_that_are_not_there(
    tmp_path: Path, fields: list[str], words: tuple[str, ...]
) -> None:
    path, _ = lib.write(tmp_path / "a", CASES["record"], 2, "<", "plain")
    with pytest.raises(zarrow.SelectionError) as caught:
        zarrow.read_ragged(path, [...], fields=fields)
    assert all(word in str(caught.value) for word in words)
    with pytest.raises(TypeError, match="list of names"):
        zarrow.read_ragged(path, [...], fields="ab")
    plain, _ = lib.write(tmp_path / "b", CASES["int64"], 2, "<", "plain")
    with pytest.raises(zarrow.SelectionError, match="fields of int64"):
        zarrow.read_ragged(plain, [...], fields=["a"])


def test_a_handle_with_fields(tmp_path: Path) -> None:
    path, values = lib.write(tmp_path / "a", CASES["record"], 2, ">", "plain")
    handle = zarrow.open_array(path)
    assert handle.fields is None
    chosen = handle._with_fields(["u", "ok"])
    assert chosen.fields == ("u", "ok")
    assert chosen.dtype == np.dtype([("u", "U2"), ("ok", "?")])
    assert pickle.loads(pickle.dumps(chosen)).fields == ("u", "ok")
    (row,) = zarrow.read_ragged(chosen, [(6, 8)]).to_pylist()
    assert row == {"u": values[6, 8]["u"], "ok": values[6, 8]["ok"]}


BEYOND = {
    "S5": (b"ab", np.array(b"ab", "S5")),
    "U6": ("é\U0001f600", np.array("é\U0001f600", "U6")),
    "V3": (b"xyz", np.void(b"xyz")),
    "datetime64": (np.datetime64(5, "s"), np.datetime64(5, "s")),
    "float8_e5m2": (1.5, 1.5),
    "float6_e2m3fn": (-0.0, -0.0),
    "bfloat16": (-2.5, -2.5),
    "int4": (-8, -8),
    "uint2": (3, 3),
    "nested": (
        (7, (b"q", np.datetime64("NaT", "ms")), 0.5),
        (7, (b"q", np.datetime64("NaT")), 0.5),
    ),
    "one member": ((2.5,), (2.5,)),
}


@pytest.mark.parametrize("name", BEYOND)
def test_fill_beyond_the_array(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    path, values = lib.write(tmp_path / "a", case, 3, ">", "plain", seed=3)
    given, value = BEYOND[name]
    windows = zarrow.boxes([[6, 7]], [[8, 11]], out_of_bounds="fill")
    padded = lib.filled(case.dtype, value, (2, 4))
    padded[:1, :2] = values[6:, 7:]
    leaf = lib.leaf_of(zarrow.read_ragged(path, windows, fill=given), 2)
    lib.assert_values(leaf, padded.reshape(-1))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("S5", [b"123456", "a", 1]),
        ("U6", ["1234567", b"a", 1]),
        ("V3", [b"ab", b"abcd", 1]),
        ("float8_e5m2", [1.3, "x"]),
        ("float4_e2m1fn", [np.nan, 7.0]),
        ("bfloat16", [1.001]),
        ("int4", [8, -9, 0.5]),
        ("uint2", [4, -1]),
        (
            "nested",
            [5, (7,), (7, (b"1234", np.datetime64("NaT", "ms")), 0.5), (300, (b"", 0), 0.5)],
        ),
    ],
)
def test_fill_that_the_type_does_not_hold(tmp_path: Path, name: str, wrong: list[Any]) -> None:
    path, _ = lib.write(tmp_path / "a", CASES[name], 3, ">", "plain", seed=3)
    windows = zarrow.boxes([[6, 7]], [[8, 11]], out_of_bounds="fill")
    for value in wrong:
        with pytest.raises((ValueError, zarrow.SelectionError), match="fill"):
            zarrow.read_ragged(path, windows, fill=value)


def test_beyond_the_array_is_null(tmp_path: Path) -> None:
    for name in ("S5", "U6", "V3", "nested", "float8_e5m2", "int2"):
        path, values = lib.write(tmp_path / name, CASES[name], 3, ">", "plain", seed=3)
        windows = zarrow.boxes([[6, 7]], [[8, 11]], out_of_bounds="null")
        leaf = lib.leaf_of(zarrow.read_ragged(path, windows), 2)
        assert leaf.is_valid().to_pylist() == [True, True] + [False] * 6
        lib.assert_values(leaf[:2], values[6, 7:])


def test_strings_that_are_none(tmp_path: Path) -> None:
    """A code point that is none is an error that names the selection, and the code."""
    path, _ = lib.write(tmp_path / "a", CASES["U6"], 2, "<", "plain")
    for code in (0x110000, 0xD800, 0xDFFF, 0xFFFFFFFF):
        chunk = np.zeros(12 * 6, "<u4")
        chunk[6 * 5 + 2] = code
        (path / "1.1").write_bytes(chunk.tobytes())
        rows = [np.s_[:3, :], np.s_[4:5, 5:6], np.s_[0, 0]]
        with pytest.raises(zarrow.UnsupportedError, match=rf"selection 1: .*{code:#x}"):
            zarrow.read_ragged(path, [*rows[:2], np.s_[:1, :1]])
        zarrow.read_ragged(path, [np.s_[:3, :]])
    swapped = {"dtype": ">U6"}
    edit_json(path / ".zarray", **swapped)
    (path / "1.1").write_bytes(np.full(72, ord("a"), "<u4").tobytes())
    with pytest.raises(zarrow.UnsupportedError, match=r"0x61000000.*byte order"):
        zarrow.read_ragged(path, [np.s_[3:6, 4:8]])


def test_byte_orders_of_sources(tmp_path: Path) -> None:
    for name in ("U6", "nested", "bfloat16", "V3"):
        formats = (3, 3)
        paths = [tmp_path / f"{name}{order}" for order in "<>"]
        written = [
            lib.write(path, CASES[name], formats[0], order, "zstd", seed=4)
            for path, order in zip(paths, "<>", strict=True)
        ]
        result = zarrow.read_ragged(paths, [np.s_[:, 0]] * 2, sources=[0, 1])
        values = np.concatenate([values[:, 0] for _, values in written])
        lib.assert_values(lib.leaf_of(result, 1), values)


def test_types_that_differ(tmp_path: Path) -> None:
    """Types that are not numbers of Arrow must be the same, promoted or not."""
    names = ["int64", "S5", "U6", "V3", "record", "float8_e5m2", "int4", "datetime64"]
    paths = {n: lib.write(tmp_path / n, CASES[n], 3, "<", "plain")[0] for n in names}
    for name in names[1:]:
        for promote in (False, True):
            with pytest.raises(zarrow.SelectionError, match="data type"):
                zarrow.read_ragged(
                    [paths["int64"], paths[name]], [(0, 0)] * 2, sources=[0, 1], promote=promote
                )


def test_field_metadata(tmp_path: Path) -> None:
    """Name, configuration, byte order and fill value as stored; members tell their types."""
    path, _ = lib.write(tmp_path / "a", CASES["nested"], 3, ">", "plain")
    field = zarrow.read_ragged(path, [np.s_[0, :2]]).type.value_field
    assert field.metadata[b"zarr:dtype"] == b"struct"
    assert field.metadata[b"zarr:byte_order"] == b"big"
    assert b'"unit":"ms"' in field.metadata[b"zarr:configuration"]
    assert b'"NaT"' in field.metadata[b"zarr:fill_value"]
    assert field.type.field("x").metadata == {b"zarr:dtype": b"uint8"}
    path, _ = lib.write(tmp_path / "b", CASES["timedelta64"], 2, ">", "plain")
    field = zarrow.read_ragged(path, [np.s_[0, :2]]).type.value_field
    configuration = json.loads(field.metadata[b"zarr:configuration"])
    assert configuration == {"unit": "us", "scale_factor": 7}
    assert field.metadata[b"zarr:dtype"] == b"numpy.timedelta64"
    assert field.metadata[b"zarr:byte_order"] == b"big"
    assert field.metadata[b"zarr:fill_value"] == b"-3"
    path, _ = lib.write(tmp_path / "c", CASES["V3"], 2, "<", "plain")
    field = zarrow.read_ragged(path, [np.s_[0, :2]]).type.value_field
    assert field.metadata == {b"zarr:dtype": b"r24", b"zarr:fill_value": b'"YWJj"'}
    assert pa.types.is_fixed_size_binary(field.type)
