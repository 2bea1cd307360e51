"""What may be read: paths, stores with a path, zarr-python's arrays, handles; and the handle."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
import zarr
import zarrow
from arrays import Maker, Written, write_values
from zarr.storage import LocalStore, ZipStore

SELECTIONS: list[Any] = [np.s_[1:5, 2:3], np.s_[0:0], np.s_[3:, :]]


@pytest.fixture(params=[2, 3], ids=["v2", "v3"])
def written(request: pytest.FixtureRequest, make: Maker) -> Written:
    """A small array of either format."""
    return make(
        dtype="float32", shape=(7, 6), chunks=(3, 4), codecs=("zstd",), zarr_format=request.param
    )


class Somewhere(os.PathLike[str]):
    """A path of a class that nobody knows."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


def test_paths(written: Written) -> None:
    path = written.path
    for asked in (str(path), path, Somewhere(path), f"{path}{os.sep}"):
        written.check(zarrow.read_ragged(asked, SELECTIONS), SELECTIONS)
        written.check(zarrow.read_ragged(zarrow.open_array(asked), SELECTIONS), SELECTIONS)


def test_relative_path(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handle stays with its array when the working directory changes."""
    monkeypatch.chdir(written.path.parent)
    name = written.path.name
    written.check(zarrow.read_ragged(name, SELECTIONS), SELECTIONS)
    written.check(zarrow.read_ragged(f"./{name}", SELECTIONS), SELECTIONS)
    monkeypatch.chdir(written.path)
    written.check(zarrow.read_ragged(".", SELECTIONS), SELECTIONS)
    written.check(zarrow.read_ragged(".", SELECTIONS, path=""), SELECTIONS)


def test_path_in_a_store(written: Written) -> None:
    store, name = written.path.parent, written.path.name
    for root in (store, str(store), Somewhere(store)):
        written.check(zarrow.read_ragged(root, SELECTIONS, path=name), SELECTIONS)
        handle = zarrow.open_array(root, path=name)
        written.check(zarrow.read_ragged(handle, SELECTIONS), SELECTIONS)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_path_in_groups(tmp_path: Path, zarr_format: Any) -> None:
    values = np.arange(12, dtype="int16").reshape(4, 3)
    group = zarr.create_group(tmp_path / "s.zarr", zarr_format=zarr_format)
    inner = group.create_group("images").create_group("a b é")
    inner.create_array("raw", data=values, chunks=(3, 2))
    name = "images/a b é/raw"
    for result in (
        zarrow.read_ragged(tmp_path / "s.zarr", [...], path=name),
        zarrow.read_ragged(tmp_path / "s.zarr" / name, [...]),
        zarrow.read_ragged(group[name], [...]),
        zarrow.read_ragged(inner["raw"], [...]),
    ):
        oracle.assert_reads(result, values, [...])


def test_zarr_array(written: Written) -> None:
    array = written.array
    written.check(zarrow.read_ragged(array, SELECTIONS), SELECTIONS)
    for store in (written.path, LocalStore(written.path, read_only=True)):
        array = zarr.open_array(store, mode="r")
        written.check(zarrow.read_ragged(array, SELECTIONS), SELECTIONS)


def test_both_formats_in_one_folder(tmp_path: Path) -> None:
    """A zarr.Array is read in its own format, where both metadata documents exist."""
    path = tmp_path / "both.zarr"
    old, new = np.arange(6, dtype="int32"), np.arange(100, 108, dtype="float64")
    arrays = [
        write_values(path, old, (4,), zarr_format=2),
        write_values(path, new, (3,), zarr_format=3),
    ]
    assert {".zarray", "zarr.json"} <= {p.name for p in path.iterdir()}
    for array, values in zip(arrays, (old, new), strict=True):
        oracle.assert_reads(zarrow.read_ragged(array, [...]), values, [...])
    oracle.assert_reads(zarrow.read_ragged(path, [...]), new, [...])
    assert zarrow.open_array(path).zarr_format == 3


def test_handle(written: Written) -> None:
    handle = zarrow.open_array(written.path)
    assert isinstance(handle, zarrow.Array)
    for _ in range(3):
        written.check(zarrow.read_ragged(handle, SELECTIONS), SELECTIONS)
    assert handle.shape == (7, 6)
    assert handle.ndim == 2
    assert handle.dtype == np.dtype("float32")
    assert isinstance(handle.dtype, np.dtype)
    assert handle.zarr_dtype == "float32"
    assert handle.chunks == (3, 4)
    assert handle.shards is None
    assert handle.zarr_format == written.layout.zarr_format
    assert Path(handle.path).resolve() == written.path.resolve()
    for told in ("(7, 6)", "float32", "(3, 4)"):
        assert told in repr(handle)


def test_handle_of_shards(make: Maker) -> None:
    written = make(dtype="complex128", shape=(9, 9), chunks=(2, 3), shards=(4, 9), endian="big")
    handle = zarrow.open_array(written.path)
    assert handle.chunks == (2, 3)
    assert handle.shards == (4, 9)
    assert handle.dtype == np.dtype("complex128")
    assert handle.dtype.isnative
    assert "(4, 9)" in repr(handle)


@pytest.mark.parametrize("dtype", oracle.ARROW_TYPES)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_handle_dtype(make: Maker, dtype: str, zarr_format: int) -> None:
    written = make(dtype=dtype, shape=(3,), chunks=(2,), zarr_format=zarr_format, endian="big")
    handle = zarrow.open_array(written.path)
    assert handle.dtype == np.dtype(dtype)
    assert handle.dtype.isnative
    assert handle.zarr_dtype == dtype


def test_handle_of_a_scalar(make: Maker) -> None:
    handle = zarrow.open_array(make(shape=(), chunks=()).path)
    assert (handle.shape, handle.chunks, handle.ndim) == ((), (), 0)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_attributes(make: Maker, zarr_format: int) -> None:
    attributes: dict[str, Any] = {
        "unit": "µm",
        "none": None,
        "nested": {"list": [1, 2.5, [True, False]], "big": 2**53, "small": -(2**63)},
        "": "",
        "float": 0.1,
    }
    handle = zarrow.open_array(make(attributes=attributes, zarr_format=zarr_format).path)
    assert isinstance(handle.attrs, Mapping)
    assert dict(handle.attrs) == attributes
    assert zarrow.open_array(make(zarr_format=zarr_format).path).attrs == {}


def test_pickled_handle(written: Written) -> None:
    handle = zarrow.open_array(written.path)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        back = pickle.loads(pickle.dumps(handle, protocol))
        assert (back.shape, back.path, back.zarr_format) == (
            handle.shape,
            handle.path,
            handle.zarr_format,
        )
        written.check(zarrow.read_ragged(back, SELECTIONS), SELECTIONS)


def test_handle_sees_new_chunks(make: Maker) -> None:
    """A handle holds metadata, not data."""
    written = make(dtype="int32", shape=(6,), chunks=(2,), missing=1.0)
    handle = zarrow.open_array(written.path)
    assert zarrow.read_ragged(handle, [...]).to_pylist() == [[0] * 6]
    written.array[2:4] = 7
    assert zarrow.read_ragged(handle, [...]).to_pylist() == [[0, 0, 7, 7, 0, 0]]


def wrong_inputs(path: Path) -> dict[str, Any]:
    """Things that are no array."""
    group = zarr.create_group(path / "group.zarr")
    return {
        "None": None,
        "int": 3,
        "bytes": os.fsencode(path),
        "NumPy array": np.zeros(3),
        "list": [str(path)],
        "file": io.BytesIO(),
        "zarr.Group": group,
    }


def test_type_errors(tmp_path: Path) -> None:
    for what, wrong in wrong_inputs(tmp_path).items():
        with pytest.raises(TypeError) as caught:
            zarrow.read_ragged(wrong, [np.s_[0:1]])
        assert ("sources" if what == "list" else "path") in str(caught.value), what
        with pytest.raises(TypeError):
            zarrow.open_array(wrong)


def test_zarr_array_in_a_zip_that_is_being_written(tmp_path: Path) -> None:
    """A zip file has no directory before it is closed; its store has what was written."""
    values = np.arange(7, dtype="i4")
    with ZipStore(tmp_path / "a.zip", mode="w") as store:
        array = zarr.create_array(store, data=values, chunks=(3,))
        for selections in ([np.s_[1:6]], [..., np.s_[5:2]]):
            oracle.assert_reads(zarrow.read_ragged(array, selections), values, selections)


def test_keyword_arguments(written: Written) -> None:
    """`path`, `return_stats` and `threads` have names only."""
    with pytest.raises(TypeError):
        zarrow.read_ragged(written.path, SELECTIONS, "name")  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        zarrow.open_array(written.path, "name")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        zarrow.read_ragged(written.path, SELECTIONS, stats=True)  # type: ignore[call-overload]
    result = zarrow.read_ragged(array=written.path, selections=SELECTIONS)
    written.check(result, SELECTIONS)


@pytest.mark.parametrize("threads", [-1, "2", 1.5])
def test_wrong_threads(written: Written, threads: Any) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError, zarrow.ZarrowError)):
        zarrow.read_ragged(written.path, SELECTIONS, threads=threads)


def test_return_stats(written: Written) -> None:
    """A pair with statistics, else the array alone."""
    plain = zarrow.read_ragged(written.path, SELECTIONS, return_stats=False)
    result, stats = zarrow.read_ragged(written.path, SELECTIONS, return_stats=True)
    written.check(plain, SELECTIONS)
    written.check(result, SELECTIONS)
    assert isinstance(stats, zarrow.ReadStats)


def test_public_names() -> None:
    """The whole API is at the top, and each error is also the built-in that people catch."""
    parents = {
        "SelectionError": IndexError,
        "StoreError": OSError,
        "NotFoundError": FileNotFoundError,
        "MetadataError": ValueError,
        "DecodeError": ValueError,
        "UnsupportedError": NotImplementedError,
        "AllocationError": MemoryError,
    }
    assert issubclass(zarrow.ZarrowError, Exception)
    for name, parent in parents.items():
        kind = getattr(zarrow, name)
        assert issubclass(kind, zarrow.ZarrowError)
        assert issubclass(kind, parent)
        assert kind.__module__.split(".")[0] == "zarrow"
        assert pickle.loads(pickle.dumps(kind("what"))).args == ("what",)
    assert issubclass(zarrow.NotFoundError, zarrow.StoreError)
    names = {*parents, "ZarrowError", "Array", "Selections", "ReadStats"}
    names |= {"read_ragged", "open_array", "ranges", "boxes", "__version__"}
    assert all(hasattr(zarrow, name) for name in names)
    if hasattr(zarrow, "__all__"):
        assert names - {"__version__"} <= set(zarrow.__all__)


def test_selections_object() -> None:
    """Columns of selections are a sized value that tells what it is."""
    ranges = zarrow.ranges([0, 1, 2], [5, 6, 7])
    boxes = zarrow.boxes(np.zeros((4, 3), int), np.ones((4, 3), int))
    assert (len(ranges), len(boxes)) == (3, 4)
    assert isinstance(ranges, zarrow.Selections)
    assert isinstance(boxes, zarrow.Selections)
    assert "3" in repr(ranges)
    assert "4" in repr(boxes)
