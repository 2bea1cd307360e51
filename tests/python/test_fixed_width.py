"""Every type of fixed width in every layout: equal to NumPy, bit for bit, and to zarr-python."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import fixed_width as lib
import numpy as np
import pytest
import zarr
import zarrow
from arrays import edit_json
from fixed_width import CASES, LAYOUTS

pytestmark = pytest.mark.filterwarnings("ignore")  # zarr-python warns of types beyond the format

FORMATS = [
    (name, zarr_format)
    for name, case in CASES.items()
    for zarr_format in (2, 3)
    if (case.v2 if zarr_format == 2 else case.v3 is not None)
]
MATRIX = [
    (name, zarr_format, order, layout)
    for name, zarr_format in FORMATS
    for order in ("<", ">")
    for layout in LAYOUTS
    if zarr_format == 3 or not layout.startswith("sharded")
]
# Byte orders of structs in v3, members that are arrays, and raw bits are beyond zarr-python 3.1.
BEYOND = {"record", "legacy record", "nested", "arrays", "one member", *lib.NARROW, *lib.SMALL}
RAW_BITS = {"r24", "V16"}


def selections(seed: int) -> list[Any]:
    """All, nothing, and random boxes, steps, points and picks."""
    random = np.random.default_rng(seed)
    rows: list[Any] = [np.s_[:, :], np.s_[2:2, :], np.s_[::-1, ::-2]]
    for _ in range(6):
        a, b = np.sort(random.integers(0, lib.SHAPE[0] + 1, 2)).tolist()
        c, d = np.sort(random.integers(0, lib.SHAPE[1] + 1, 2)).tolist()
        rows.append(np.s_[a:b, c:d])
    rows.append(np.s_[[6, 0, 0], 3:])
    return rows


def expected(values: np.ndarray, rows: list[Any]) -> np.ndarray:
    parts = [values[row].reshape(-1) for row in rows]
    return np.concatenate(parts)


@pytest.mark.parametrize(("name", "zarr_format", "order", "layout"), MATRIX)
def test_reads(tmp_path: Path, name: str, zarr_format: int, order: str, layout: str) -> None:
    case = CASES[name]
    seed = len(name) + 7 * len(layout)
    path, values = lib.write(tmp_path / "a", case, zarr_format, order, layout, seed=seed)
    rows = selections(seed)
    result = zarrow.read_ragged(path, rows)
    lib.assert_values(lib.leaf_of(result, 2), expected(values, rows))
    points = [(3, 4), (6, 8), (0, 0)]
    result = zarrow.read_ragged(path, points)
    lib.assert_values(result, np.array([values[point] for point in points], case.dtype))
    sharded_bytes = layout.startswith("sharded") and case.dtype.kind == "V"
    if not (name in BEYOND or (zarr_format == 3 and name in RAW_BITS) or sharded_bytes):
        reference = zarr.open_array(path, mode="r")
        got = np.asarray(reference[...])
        assert got.astype(case.dtype).tobytes() == values.tobytes(), "the test itself is wrong"


@pytest.mark.parametrize(("name", "zarr_format"), FORMATS)
def test_numpy_dtype(tmp_path: Path, name: str, zarr_format: int) -> None:
    case = CASES[name]
    path, _ = lib.write(tmp_path / "a", case, zarr_format, ">", "plain")
    dtype = zarrow.open_array(path).dtype
    if name in lib.NARROW:
        assert dtype == np.float32
    elif name in lib.SMALL:
        assert dtype == (np.uint8 if name[0] == "u" else np.int8)
    else:
        assert dtype == case.dtype
        assert dtype.isnative


@pytest.mark.parametrize("name", CASES)
def test_missing_chunks(tmp_path: Path, name: str) -> None:
    """Chunks that are not there are null, or an error; a null fill value in v2 is zero."""
    case = CASES[name]
    zarr_format = 2 if case.v2 else 3
    path, values = lib.write(tmp_path / "a", case, zarr_format, ">", "plain")
    nulls = zarrow.read_ragged(path, [np.s_[:, :]], missing_chunks="null")
    leaf = lib.leaf_of(nulls, 2)
    valid = np.ones(lib.SHAPE, bool)
    valid[:3, :4] = False
    flat = valid.reshape(-1)
    if np.dtype(case.dtype).kind in "mM":
        flat = flat & ~np.isnat(values.reshape(-1))
    assert leaf.is_valid().to_pylist() == flat.tolist()
    lib.assert_values(leaf.filter(leaf.is_valid()), values.reshape(-1)[flat])
    with pytest.raises(zarrow.NotFoundError, match="chunk"):
        zarrow.read_ragged(path, [np.s_[:, :]], missing_chunks="error")
    if zarr_format == 2:
        document = path / ".zarray"
        edit_json(document, fill_value=None)
        leaf = lib.leaf_of(zarrow.read_ragged(path, [np.s_[:3, :4]]), 2)
        zeros = np.zeros(12, case.dtype)
        if case.dtype.kind in "mM":
            zeros[...] = "NaT"
        lib.assert_values(leaf, zeros)


def test_zarr_pythons_own_arrays(tmp_path: Path) -> None:
    """What zarr-python writes of these types, opened again, is what zarrow reads."""
    read = 0
    for number, (name, case) in enumerate(CASES.items()):
        if name in lib.NARROW + lib.SMALL:
            continue
        for zarr_format in (2, 3):
            values = lib.random_values(case.dtype, (11,), number)
            path = tmp_path / f"{number}.{zarr_format}"
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    written = zarr.create_array(
                        path,
                        shape=(11,),
                        dtype=case.dtype,
                        chunks=(4,),
                        zarr_format=zarr_format,
                        compressors=None if zarr_format == 2 else "auto",
                    )
                    written[2:] = values[2:]
                reference = np.asarray(zarr.open_array(path, mode="r")[...])
            except (TypeError, ValueError):
                continue  # sub-arrays, and more in older releases
            leaf = lib.leaf_of(zarrow.read_ragged(path, [np.s_[:], np.s_[5:3:-1]]), 1)
            whole = reference.astype(case.dtype)
            lib.assert_values(leaf, np.concatenate([whole, whole[5:3:-1]]))
            read += 1
    assert read >= 25
