"""Arrays in zip files: stored and deflated, zipped from within and from the parent."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import oracle
import pytest
import zarr
import zarrow
from failures import fails
from zarr.storage import ZipStore

BOXES = [np.s_[0:3, 0:4], np.s_[5:23, 3:17], np.s_[22:23, 0:1], np.s_[4:4, 0:3]]
VALUES = (np.arange(23 * 17) * 7 % 101).reshape(23, 17).astype("i4")


def write(folder: Path, **options: Any) -> Path:
    """Write a group with an array `g/a`, of which one chunk is missing."""
    group = zarr.create_group(folder, zarr_format=options.pop("zarr_format", 3))
    array = group.create_array("g/a", shape=VALUES.shape, dtype="i4", fill_value=-1, **options)
    array[:14] = VALUES[:14]
    return folder


def pack(folder: Path, target: Path, how: int, start: Literal["within", "parent", "array"]) -> Path:
    """Zip what is in the folder, or the folder, or the array alone."""
    root = {"within": folder, "parent": folder.parent, "array": folder / "g" / "a"}[start]
    with zipfile.ZipFile(target, "w", how) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.is_relative_to(root):
                archive.write(file, file.relative_to(root).as_posix())
    return target


@pytest.mark.parametrize("start", ["within", "parent", "array"])
@pytest.mark.parametrize("how", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (7, 5)},
        {"chunks": (7, 5), "compressors": None},
        {"chunks": (7, 5), "shards": (14, 10)},
        {"chunks": (7, 5), "zarr_format": 2},
    ],
    ids=["zstd", "raw", "sharded", "v2"],
)
def test_zipped(tmp_path: Path, options: dict[str, Any], how: int, start: Any) -> None:
    """Equal to the folder, each chunk fetched once, before and after a pickle."""
    folder = write(tmp_path / "folder.zarr", **options)
    file = pack(folder, tmp_path / "a.zip", how, start)
    expected = np.asarray(zarr.open_array(folder / "g" / "a")[:])
    path = None if start == "array" else "g/a"
    handle = zarrow.open_array(file, path=path)
    for source in (handle, pickle.loads(pickle.dumps(handle))):
        rows, stats = zarrow.read_ragged(source, BOXES, return_stats=True)
        oracle.assert_reads(rows, expected, BOXES)
        assert stats.chunks_fetched == stats.chunks_decoded
        assert stats.chunks_missing > 0
    oracle.assert_reads(zarrow.read_ragged(file, BOXES, path=path), expected, BOXES)
    if start == "parent":
        oracle.assert_reads(
            zarrow.read_ragged(file, BOXES, path="folder.zarr/g/a"), expected, BOXES
        )
    assert str(file) in handle.path
    assert handle.shape == VALUES.shape


@pytest.mark.parametrize("start", ["within", "parent"])
def test_arrays_of_zarr_python(tmp_path: Path, start: Any) -> None:
    """By the path that they have in their store."""
    file = pack(write(tmp_path / "f", chunks=(7, 5)), tmp_path / "a.zip", zipfile.ZIP_STORED, start)
    with ZipStore(file, mode="r") as store:
        path = "g/a" if start == "within" else "f/g/a"
        array = zarr.open_array(store, path=path, mode="r")
        oracle.assert_reads(zarrow.read_ragged(array, BOXES), np.asarray(array[:]), BOXES)


def test_no_such_array(tmp_path: Path) -> None:
    """The error names the file and the path."""
    file = pack(
        write(tmp_path / "f", chunks=(7, 5)), tmp_path / "a.zip", zipfile.ZIP_STORED, "within"
    )
    for path in (None, "g", "g/b"):
        with fails(zarrow.NotFoundError, words=("a.zip",)):
            zarrow.open_array(file, path=path)


def test_damaged_files(tmp_path: Path) -> None:
    """Cut at any place, or with any byte changed: an error, or the right values."""
    folder = write(tmp_path / "f", chunks=(7, 5))
    expected = np.asarray(zarr.open_array(folder / "g" / "a")[:])
    random = np.random.default_rng(3)
    for how in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        file = pack(folder, tmp_path / f"{how}.zip", how, "within")
        whole = file.read_bytes()
        damages = [whole[:cut] for cut in random.integers(0, len(whole), 60)]
        for at in random.integers(0, len(whole), 300):
            damages.append(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        for damaged in damages:
            file.write_bytes(damaged)
            try:
                rows = zarrow.read_ragged(file, BOXES, path="g/a")
            except zarrow.ZarrowError:
                continue
            if how == zipfile.ZIP_DEFLATED:
                # A name that is changed may hide a chunk, which then is missing.
                values = [np.array(row.as_py()).ravel() for row in rows]
                for got, box in zip(values, BOXES, strict=True):
                    assert np.all((got == expected[box].ravel()) | (got == -1))


def test_compressions_that_are_not_read(tmp_path: Path) -> None:
    """The error names it."""
    folder = write(tmp_path / "f", chunks=(7, 5))
    file = pack(folder, tmp_path / "a.zip", zipfile.ZIP_BZIP2, "within")
    with fails(zarrow.UnsupportedError, words=("stored or deflated",)):
        zarrow.open_array(file, path="g/a")
    (tmp_path / "text").write_text("no zip")
    with fails(zarrow.StoreError, words=("no zip file", "directory")):
        zarrow.open_array(tmp_path / "text")
