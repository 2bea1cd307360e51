"""Arrays of objects that numcodecs encodes: text and bytes are read, all else is refused."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import oracle
import pytest
import zarrow
from failures import fails
from numcodecs.categorize import Categorize
from numcodecs.msgpacks import MsgPack
from objects import objects, rows_of

TEXTS = ["a", "héllo", "", "日本", "z" * 300]
WORDS = ["a", "héllo", "日本"]
CODECS: dict[str, Any] = {
    "json2": numcodecs.JSON(),
    "msgpack2": MsgPack(),
    "pickle": numcodecs.Pickle(),
    "categorize": Categorize(WORDS, dtype=object),
}
SELECTIONS = [np.s_[:, :], np.s_[2:5, 1:4], np.s_[[6, 0, 6], ::-2], np.s_[3:3], None]


def write(
    path: Path,
    values: np.ndarray[Any, Any],
    chunks: Sequence[int],
    codec: Any,
    *,
    order: str = "C",
    compressor: Any = None,
    fill_value: Any = None,
    padding: Any = None,
    skip: Sequence[tuple[int, ...]] = (),
) -> None:
    """Write objects as zarr-python 2 did; zarr-python 3 does not open them."""
    path.mkdir(parents=True)
    document = {
        "zarr_format": 2, "shape": values.shape, "chunks": list(chunks), "dtype": "|O",
        "fill_value": fill_value, "order": order, "filters": [codec.get_config()],
        "compressor": compressor and compressor.get_config(),
    }  # fmt: skip
    (path / ".zarray").write_text(json.dumps(document))
    for index in oracle.grid_of(values.shape, chunks):
        if index in skip:
            continue
        chunk = objects([padding] * math.prod(chunks), chunks)
        part = values[(*oracle.region_of(index, chunks), ...)]
        chunk[tuple(slice(0, length) for length in part.shape)] = part
        if isinstance(codec, Categorize):
            chunk = chunk.ravel(order=order)  # type: ignore[call-overload]
        encoded = codec.encode(chunk)
        encoded = compressor.encode(encoded) if compressor else encoded
        (path / ".".join(map(str, index or (0,)))).write_bytes(bytes(memoryview(encoded)))


def texts(shape: tuple[int, ...], words: Sequence[str] = TEXTS) -> np.ndarray[Any, Any]:
    return objects([words[at % len(words)] for at in range(math.prod(shape))], shape)


def opened(path: Path, codec: str) -> zarrow.Array:
    return zarrow.open_array(path, allow_pickle=codec == "pickle")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("compressor", [None, numcodecs.Zstd(), numcodecs.LZMA()], ids=str)
@pytest.mark.parametrize("codec", CODECS)
def test_text(tmp_path: Path, codec: str, compressor: Any, order: str) -> None:
    """The padding of the last chunks may be anything."""
    values = texts((7, 5), WORDS if codec == "categorize" else TEXTS)
    padding = "" if codec == "categorize" else 0
    write(
        tmp_path / "a", values, (3, 2), CODECS[codec],
        order=order, compressor=compressor, fill_value="none", padding=padding, skip=[(1, 1)],
    )  # fmt: skip
    values[3:6, 2:4] = "none"
    for limit in (None, 1 << 20):
        result, stats = zarrow.read_ragged(
            opened(tmp_path / "a", codec), SELECTIONS, return_stats=True, memory_limit=limit
        )
        assert result.to_pylist() == rows_of(values, SELECTIONS)
        assert (stats.chunks_foreign, stats.chunks_missing) == (8, 1)
        assert "large_string" in str(result.type)


@pytest.mark.parametrize("codec", ["msgpack2", "pickle"])
def test_bytes_are_told_by_the_first_chunk(tmp_path: Path, codec: str) -> None:
    values = objects([text.encode() + b"\xff" for text in TEXTS])
    write(tmp_path / "a", values, (2,), CODECS[codec], padding=None, skip=[(1,)])
    array = opened(tmp_path / "a", codec)
    result = zarrow.read_ragged(array, [np.s_[:]])
    assert "large_binary" in str(result.type)
    assert result.to_pylist() == [[values[0], values[1], None, None, values[4]]]


@pytest.mark.parametrize("codec", ["json2", "msgpack2", "pickle"])
def test_none_is_null(tmp_path: Path, codec: str) -> None:
    """So is what was never written, unless the fill value is text."""
    values = objects(["a", None, "b", None, "c", "d", None, "e"])
    write(tmp_path / "a", values, (3,), CODECS[codec], fill_value=0, skip=[(1,)])
    rows = zarrow.read_ragged(opened(tmp_path / "a", codec), [np.s_[:], np.s_[[7, 1]], np.s_[4:5]])
    assert rows.to_pylist() == [["a", None, "b", None, None, None, None, "e"], ["e", None], [None]]
    rows.validate(full=True)
    crops = zarrow.ranges([-1], [2], out_of_bounds="fill")
    rows = zarrow.read_ragged(opened(tmp_path / "a", codec), crops)
    assert rows.to_pylist() == [[None, "a", None]]
    rows = zarrow.read_ragged(opened(tmp_path / "a", codec), crops, fill="x")
    assert rows.to_pylist() == [["x", "a", None]]


@pytest.mark.parametrize("codec", ["json2", "msgpack2", "pickle"])
@pytest.mark.parametrize(
    ("value", "name"), [(7, "int"), (1.5, "float"), ([1], "list"), ({"a": 1}, "dict")]
)
def test_other_objects_are_refused(tmp_path: Path, codec: str, value: Any, name: str) -> None:
    """Where they are wanted, with the key and what they are."""
    values = objects(["a", "b", "c", value, "d"])
    write(tmp_path / "a", values, (2,), CODECS[codec])
    array = opened(tmp_path / "a", codec)
    assert zarrow.read_ragged(array, [np.s_[:3], np.s_[4:]]).to_pylist() == [["a", "b", "c"], ["d"]]
    with fails(zarrow.UnsupportedError, words=("selection 1", f"type {name}", "'1'", "text")):
        zarrow.read_ragged(array, [np.s_[:2], np.s_[1:4]])


def test_text_and_bytes_do_not_mix(tmp_path: Path) -> None:
    write(tmp_path / "a", objects(["a", b"b"]), (2,), CODECS["msgpack2"])
    with fails(zarrow.UnsupportedError, words=("type bytes", "expected text")):
        zarrow.read_ragged(tmp_path / "a", [np.s_[:]])


def test_pickle_has_to_be_allowed(tmp_path: Path) -> None:
    """By whoever opens the array; the handle keeps it."""
    write(tmp_path / "a", texts((4,)), (2,), CODECS["pickle"])
    words = ("pickle", "runs code", "allow_pickle=True")
    for read in (
        lambda: zarrow.open_array(tmp_path / "a"),
        lambda: zarrow.read_ragged(tmp_path / "a", [np.s_[:]]),
        lambda: zarrow.open_array(tmp_path, path="a", allow_pickle=False),
    ):
        with fails(zarrow.UnsupportedError, words=words):
            read()
    array = zarrow.open_array(tmp_path, path="a", allow_pickle=True)
    (tmp_path / ".zgroup").write_text('{"zarr_format": 2}')
    files = (tmp_path / name for name in (".zgroup", "a/.zarray", "a/0", "a/1"))
    values = {file.relative_to(tmp_path).as_posix(): file.read_bytes() for file in files}
    for store in (tmp_path, values):
        with fails(zarrow.UnsupportedError, words=words):
            zarrow.open_group(store)["a"]
        member = zarrow.open_group(store, allow_pickle=True)["a"]
        assert isinstance(member, zarrow.Array)
        assert zarrow.read_ragged(member, [...]).equals(zarrow.read_ragged(array, [...]))
    again = pickle.loads(pickle.dumps(array))
    assert zarrow.read_ragged(again, [np.s_[1:3]]).to_pylist() == [TEXTS[1:3]]
    plan = pickle.loads(pickle.dumps(zarrow.plan(array, [np.s_[1:3]])))
    assert plan.read().to_pylist() == [TEXTS[1:3]]
    with fails(TypeError, words=("allow_pickle",)):
        zarrow.open_array(array, allow_pickle=True)


class Bomb:
    """What runs when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_what_is_not_allowed_does_not_run(tmp_path: Path) -> None:
    write(tmp_path / "a", texts((4,)), (2,), CODECS["pickle"])
    (tmp_path / "a" / "0").write_bytes(pickle.dumps(Bomb(tmp_path / "ran")))
    with fails(zarrow.UnsupportedError):
        zarrow.read_ragged(tmp_path / "a", [np.s_[:]])
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "stored",
    [
        b"", b"{}", b"[]", b'["a"]', b'["a", "b", "|O"]', b'["a", "b", "|O", [3]]',
        b'["a", "|O", [1000000000000]]', b'["a", "|O", [2]]', b'["a", "b", "c", "|O", [2]]',
        b'[["a"], ["b"], "|O", [2, 2]]', b'["a", "b", "|O", "x"]', b"\xff", b'["a", "b", "|O", [2]',
    ],
    ids=repr,
)  # fmt: skip
def test_damaged_chunks_are_errors(tmp_path: Path, stored: bytes) -> None:
    """Whatever shape they claim."""
    write(tmp_path / "a", texts((4,)), (2,), CODECS["json2"])
    (tmp_path / "a" / "0").write_bytes(stored)
    with fails(zarrow.DecodeError, words=("'0'",)):
        zarrow.read_ragged(tmp_path / "a", [np.s_[:]])
    assert zarrow.read_ragged(tmp_path / "a", [np.s_[2:]]).to_pylist() == [TEXTS[2:4]]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("shape", "chunks"), [((), ()), ((0,), (2,)), ((2, 3, 4), (1, 2, 3))], ids=str
)
def test_shapes(tmp_path: Path, codec: str, shape: Any, chunks: Any) -> None:
    if codec != "categorize" and not shape:
        pytest.skip("numcodecs does not write these")
    values = texts(shape, WORDS)
    write(tmp_path / "a", values, chunks, CODECS[codec], padding="")
    rows = zarrow.read_ragged(opened(tmp_path / "a", codec), [..., ...])
    assert rows.to_pylist() == rows_of(values, [..., ...])


def test_text_behind_other_compressors(tmp_path: Path) -> None:
    """With zarrow's own layout of text, numcodecs undoes the rest."""
    values = texts((5,))
    codec = numcodecs.VLenUTF8()
    write(tmp_path / "a", values, (2,), codec, compressor=numcodecs.LZMA(), padding="")
    assert zarrow.read_ragged(tmp_path / "a", [np.s_[:]]).to_pylist() == [values.tolist()]
