"""Metadata that cannot be read: missing, garbage, or of things that zarrow lacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zarrow
from arrays import COMPRESSORS, Maker, edit_json, write_values
from failures import fails

Kinds = tuple[type[Exception], ...]
METADATA: Kinds = (zarrow.MetadataError,)
UNSUPPORTED: Kinds = (zarrow.UnsupportedError,)
EITHER: Kinds = (zarrow.MetadataError, zarrow.UnsupportedError)


def bytes_codec(endian: str = "little") -> dict[str, Any]:
    """The metadata of Zarr v3's plain serializer."""
    return {"name": "bytes", "configuration": {"endian": endian}}


def grid(*chunks: Any, name: str = "regular") -> dict[str, Any]:
    """The metadata of a chunk grid."""
    return {"name": name, "configuration": {"chunk_shape": list(chunks)}}


def sharding(**changes: Any) -> list[Any]:
    """The metadata of a sharding codec."""
    configuration: dict[str, Any] = {
        "chunk_shape": [2],
        "codecs": [bytes_codec()],
        "index_codecs": [bytes_codec(), {"name": "crc32c"}],
        "index_location": "end",
    }
    configuration.update(changes)
    return [{"name": "sharding_indexed", "configuration": configuration}]


# ---- not there -------------------------------------------------------------------------------


def test_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "none.zarr", tmp_path / "empty"):
        for read in (zarrow.open_array, lambda p: zarrow.read_ragged(p, [...])):
            with fails(zarrow.NotFoundError, words=(path.name,)):
                read(path)
        with fails(FileNotFoundError, words=(path.name,)):
            zarrow.open_array(path)
        with fails(zarrow.StoreError):
            zarrow.open_array(path)


def test_nothing_there_in_a_store(make: Maker) -> None:
    store = make().path.parent
    with fails(zarrow.NotFoundError, words=("elsewhere",)):
        zarrow.read_ragged(store, [...], path="elsewhere")
    with fails(zarrow.NotFoundError, words=("b",)):
        zarrow.open_array(store, path="a/b/c")


def test_path_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file.zarr").write_text("hello")
    with fails(zarrow.StoreError, words=("file.zarr",)):
        zarrow.open_array(tmp_path / "file.zarr")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_group(tmp_path: Path, zarr_format: Any) -> None:
    zarr.create_group(tmp_path / "g.zarr", zarr_format=zarr_format)
    with fails(zarrow.NotFoundError, zarrow.MetadataError) as caught:
        zarrow.open_array(tmp_path / "g.zarr")
    assert "group" in str(caught.value) or "g.zarr" in str(caught.value)


def test_null_in_a_path() -> None:
    with fails(ValueError, zarrow.StoreError):
        zarrow.open_array("a\0b")


# ---- garbage ---------------------------------------------------------------------------------

GARBAGE = {
    "empty": b"",
    "text": b"hello",
    "cut off": b'{"zarr_format": 3, "node_type": "arr',
    "not UTF-8": b'{"zarr_format": "\xff\xfe"}',
    "zeros": bytes(100),
    "a list": b"[1, 2]",
    "a number": b"3",
    "null": b"null",
    "an empty object": b"{}",
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
}


@pytest.mark.parametrize("name", GARBAGE)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_garbage(make: Maker, name: str, zarr_format: int) -> None:
    written = make(zarr_format=zarr_format)
    document = "zarr.json" if zarr_format == 3 else ".zarray"
    (written.path / document).write_bytes(GARBAGE[name])
    with fails(*METADATA, words=(document,)):
        zarrow.read_ragged(written.path, [...])


def test_metadata_is_a_folder(make: Maker) -> None:
    written = make()
    (written.path / "zarr.json").unlink()
    (written.path / "zarr.json").mkdir()
    with fails(zarrow.StoreError, words=(written.path.name,)):
        zarrow.open_array(written.path)


WRONG_V3: dict[str, tuple[dict[str, Any], Kinds, tuple[str, ...]]] = {
    "zarr_format": ({"zarr_format": 4}, EITHER, ()),
    "node_type": ({"node_type": "table"}, METADATA, ()),
    "no shape": ({"shape": ...}, METADATA, ("shape",)),
    "negative shape": ({"shape": [-12]}, METADATA, ()),
    "fractional shape": ({"shape": [1.5]}, METADATA, ()),
    "shape of strings": ({"shape": ["12"]}, METADATA, ()),
    "shape is a number": ({"shape": 12}, METADATA, ()),
    "shape beyond 64 bits": ({"shape": [2**64]}, METADATA, ()),
    "no data type": ({"data_type": ...}, METADATA, ()),
    "no chunk grid": ({"chunk_grid": ...}, METADATA, ()),
    "chunk of 0": ({"chunk_grid": grid(0)}, METADATA, ()),
    "negative chunk": ({"chunk_grid": grid(-4)}, METADATA, ()),
    "chunk of more axes": ({"chunk_grid": grid(4, 4)}, METADATA, ()),
    "chunk of fewer axes": ({"chunk_grid": grid()}, METADATA, ()),
    "unknown chunk grid": ({"chunk_grid": grid(4, name="hexagonal")}, EITHER, ("hexagonal",)),
    "no codecs": ({"codecs": []}, METADATA, ()),
    "codecs missing": ({"codecs": ...}, METADATA, ("codecs",)),
    "codecs in the wrong order": (
        {"codecs": [{"name": "gzip", "configuration": {"level": 1}}, bytes_codec()]},
        (*EITHER, zarrow.DecodeError),  # zarrs puts them in order, and then the data does not fit
        (),
    ),
    "no serializer": ({"codecs": [{"name": "crc32c"}]}, METADATA, ()),
    "unknown endian": ({"codecs": [bytes_codec("middle")]}, METADATA, ()),
    "bad transpose": (
        {"codecs": [{"name": "transpose", "configuration": {"order": [3]}}, bytes_codec()]},
        METADATA,
        (),
    ),
    "unknown codec": (
        {"codecs": [bytes_codec(), {"name": "my.codec"}]},
        UNSUPPORTED,
        ("my.codec",),
    ),
    "unknown serializer": ({"codecs": [{"name": "my.codec"}]}, UNSUPPORTED, ("my.codec",)),
    "unknown codec in shards": (
        {"codecs": sharding(codecs=[bytes_codec(), {"name": "my.codec"}])},
        UNSUPPORTED,
        ("my.codec",),
    ),
    "subchunk that does not divide": ({"codecs": sharding(chunk_shape=[3])}, METADATA, ()),
    "subchunk of 0": ({"codecs": sharding(chunk_shape=[0])}, METADATA, ()),
    "subchunk of more axes": ({"codecs": sharding(chunk_shape=[2, 2])}, METADATA, ()),
    "index location": ({"codecs": sharding(index_location="middle")}, METADATA, ()),
    "no fill value": ({"fill_value": ...}, METADATA, ("fill_value",)),
    "fill value too large": ({"fill_value": 2**31}, METADATA, ("fill", str(2**31))),
    "fill value is a string": ({"fill_value": "many"}, METADATA, ("fill", "many")),
    "fill value is NaN": ({"fill_value": "NaN"}, METADATA, ("fill",)),
    "fractional fill value": ({"fill_value": 1.5}, METADATA, ("fill", "1.5")),
    "fill value is null": ({"fill_value": None}, METADATA, ("fill",)),
    "unknown data type": ({"data_type": "int7.5"}, EITHER, ("int7.5",)),
    "key encoding": ({"chunk_key_encoding": {"name": "hilbert"}}, EITHER, ("hilbert",)),
    "storage transformer": ({"storage_transformers": [{"name": "mine"}]}, EITHER, ()),
    "an extension that must be understood": ({"tiles": {"name": "x"}}, EITHER, ("tiles",)),
}


@pytest.mark.parametrize("name", WRONG_V3)
def test_wrong_v3(make: Maker, name: str) -> None:
    changes, kinds, words = WRONG_V3[name]
    written = make(dtype="int32", shape=(12,), chunks=(4,))
    edit_json(written.path / "zarr.json", **changes)
    with fails(*kinds, words=words):
        zarrow.read_ragged(written.path, [...])


WRONG_V2: dict[str, tuple[dict[str, Any], Kinds, tuple[str, ...]]] = {
    "zarr_format": ({"zarr_format": 1}, EITHER, ()),
    "negative shape": ({"shape": [-12]}, METADATA, ()),
    "no shape": ({"shape": ...}, METADATA, ("shape",)),
    "no chunks": ({"chunks": ...}, METADATA, ("chunks",)),
    "chunk of 0": ({"chunks": [0]}, METADATA, ()),
    "chunk of more axes": ({"chunks": [4, 4]}, METADATA, ()),
    "order": ({"order": "X"}, METADATA, ()),
    "no order": ({"order": ...}, METADATA, ("order",)),
    "unknown compressor": ({"compressor": {"id": "mycomp"}}, UNSUPPORTED, ("mycomp",)),
    "compressor without id": ({"compressor": {"level": 3}}, METADATA, ()),
    "compressor is a string": ({"compressor": "zlib"}, METADATA, ()),
    "unknown filter": ({"filters": [{"id": "myfilter"}]}, UNSUPPORTED, ("myfilter",)),
    "unknown dtype": ({"dtype": "<q9"}, EITHER, ("q9",)),
    "fill value too large": ({"fill_value": 2**31}, METADATA, ("fill", str(2**31))),
    "fractional fill value": ({"fill_value": 1.5}, METADATA, ("fill", "1.5")),
    "fill value is a string": ({"fill_value": "many"}, METADATA, ("fill", "many")),
}


@pytest.mark.parametrize("name", WRONG_V2)
def test_wrong_v2(make: Maker, name: str) -> None:
    changes, kinds, words = WRONG_V2[name]
    written = make(dtype="int32", shape=(12,), chunks=(4,), zarr_format=2)
    edit_json(written.path / ".zarray", **changes)
    with fails(*kinds, words=words):
        zarrow.read_ragged(written.path, [...])


def test_extension_that_need_not_be_understood(make: Maker) -> None:
    written = make(dtype="int32", shape=(12,), chunks=(4,))
    edit_json(written.path / "zarr.json", tiles={"must_understand": False, "x": 1})
    written.check(zarrow.read_ragged(written.path, [...]), [...])


def test_v2_without_separator(make: Maker) -> None:
    """The member is optional, and a full stop if absent."""
    written = make(shape=(5, 5), chunks=(2, 2), zarr_format=2, key_encoding=("v2", "."))
    edit_json(written.path / ".zarray", dimension_separator=...)
    written.check(zarrow.read_ragged(written.path, [...]), [...])


# ---- not there yet ---------------------------------------------------------------------------

DTYPES_V3: dict[str, tuple[Any, Any]] = {
    "bytes": ("bytes", ""),
    "datetime64": (
        {"name": "numpy.datetime64", "configuration": {"unit": "generic", "scale_factor": 1}},
        -(2**63),
    ),
    "timedelta64": (
        {"name": "numpy.timedelta64", "configuration": {"unit": "M", "scale_factor": 1}},
        0,
    ),
    "struct": ({"name": "struct", "configuration": {"fields": [["a", "string"]]}}, ""),
    "optional": (
        {
            "name": "optional",
            "configuration": {"name": "optional", "configuration": {"name": "uint8"}},
        },
        None,
    ),
}


@pytest.mark.parametrize("name", DTYPES_V3)
def test_data_types_not_there_yet(make: Maker, name: str) -> None:
    data_type, fill = DTYPES_V3[name]
    written = make(dtype="int32", shape=(12,), chunks=(4,))
    edit_json(written.path / "zarr.json", data_type=data_type, fill_value=fill)
    word = data_type if isinstance(data_type, str) else data_type["name"]
    with fails(*UNSUPPORTED, words=(word,)):
        zarrow.read_ragged(written.path, [...])


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("<M8", 0),
        ("<m8[Y]", 0),
        ("<U99999999", ""),
        ([["a", "<i4"], ["b", "|O"]], None),
    ],
    ids=str,
)
def test_data_types_not_there_yet_v2(make: Maker, dtype: Any, fill: Any) -> None:
    written = make(dtype="int32", shape=(12,), chunks=(4,), zarr_format=2)
    edit_json(written.path / ".zarray", dtype=dtype, fill_value=fill)
    with fails(*UNSUPPORTED):
        zarrow.read_ragged(written.path, [...])


@pytest.mark.parametrize("codec", ["lz4", "lzma"])
def test_compressors_that_may_lack(tmp_path: Path, codec: str) -> None:
    """A v2 compressor is read right, or refused by name."""
    values = np.arange(20, dtype="int32")
    path = tmp_path / "a.zarr"
    write_values(path, values, (8,), zarr_format=2, compressors=COMPRESSORS[codec]())
    try:
        result = zarrow.read_ragged(path, [...])
    except zarrow.UnsupportedError as error:
        assert codec in str(error)
    else:
        assert result.to_pylist() == [values.tolist()]


def test_attributes_are_no_metadata(make: Maker) -> None:
    """Odd user attributes do not stop a read."""
    written = make(attributes={"codecs": "none", "shape": [1]}, shape=(12,), chunks=(4,))
    written.check(zarrow.read_ragged(written.path, [...]), [...])
    document = json.loads((written.path / "zarr.json").read_text())
    assert document["attributes"]["shape"] == [1]
