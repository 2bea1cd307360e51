"""Text, bytes and lists: values of variable length, equal to what zarr-python reads."""

from __future__ import annotations

import itertools
import json
import math
import pickle
from pathlib import Path
from typing import Any

import awkward as ak
import numcodecs
import numpy as np
import oracle
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import strategies
import zarr
import zarrow
from hypothesis import given
from hypothesis import strategies as st
from objects import ARROW, assert_rows, encode, lists_of, objects, rows_of, write, write_lists
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec

pytestmark = pytest.mark.filterwarnings(
    "ignore::zarr.errors.ZarrUserWarning", "ignore::zarr.errors.UnstableSpecificationWarning"
)

TEXTS = ["", "a", "héllo", "日本語", "nul\0inside", "\0", "🦀" * 9, "z" * 300, " ", "é" * 63]
SELECTIONS = [np.s_[:], np.s_[2:5, ::-1], np.s_[::-3, [1, 6, 1]], None, np.s_[7:7], np.s_[-2:, 3:4]]
COMPRESSORS: dict[str, Any] = {
    "plain": None,
    "zstd": ZstdCodec(level=3, checksum=True),
    "gzip": GzipCodec(),
    "blosc": BloscCodec(cname="lz4", shuffle="noshuffle", typesize=1),
    "zstd-crc32c": [ZstdCodec(), Crc32cCodec()],
    "two": [GzipCodec(), BloscCodec(typesize=1)],
}
COMPRESSORS_V2: dict[str, Any] = {
    "plain": None,
    "zstd": numcodecs.Zstd(),
    "zlib": numcodecs.Zlib(),
    "bz2": numcodecs.BZ2(),
    "blosc": numcodecs.Blosc(),
}


def values_of(kind: str, shape: tuple[int, ...]) -> Any:
    texts = itertools.islice(itertools.cycle([*TEXTS, *TEXTS[::3]]), math.prod(shape))
    values: list[Any] = [text * (1 + at % 3) for at, text in enumerate(texts)]
    if kind == "bytes":
        values = [text.encode() + b"\xff\x80"[: at % 3] for at, text in enumerate(values)]
    return objects(values, shape)


def check(path: Path, selections: Any, kind: str, levels: int) -> None:
    """Compare with what zarr-python reads."""
    whole = zarr.open_array(path, mode="r")[...]
    expected = rows_of(np.asarray(whole), selections)
    result, stats = zarrow.read_ragged(path, selections, return_stats=True)
    assert_rows(result, expected, ARROW[kind], levels)
    assert stats.chunks_fetched == stats.chunks_decoded
    leaves = result
    for _ in range(levels):
        leaves = leaves.flatten()
    bytes_of = sum(len(leaf.as_buffer()) for leaf in leaves)
    assert stats.bytes_out == 8 * len(leaves) + bytes_of
    assert zarrow.plan(path, selections).read().equals(result)


@pytest.mark.parametrize("kind", ["string", "bytes"])
@pytest.mark.parametrize("shards", [None, (8, 6)], ids=["chunks", "shards"])
@pytest.mark.parametrize("compressor", COMPRESSORS)
@pytest.mark.parametrize("transpose", [None, (1, 0)], ids=["c", "f"])
def test_v3(tmp_path: Path, kind: str, shards: Any, compressor: str, transpose: Any) -> None:
    values = values_of(kind, (10, 9))
    write(
        tmp_path / "a",
        values,
        (4, 3),
        kind=kind,
        shards=shards,
        compressors=COMPRESSORS[compressor],
        transpose=transpose,
    )
    check(tmp_path / "a", SELECTIONS, kind, 2)


@pytest.mark.parametrize("kind", ["string", "bytes"])
@pytest.mark.parametrize("compressor", COMPRESSORS_V2)
@pytest.mark.parametrize("order", ["C", "F"])
def test_v2(tmp_path: Path, kind: str, compressor: str, order: str) -> None:
    values = values_of(kind, (10, 9))
    options = {"compressors": COMPRESSORS_V2[compressor], "order": order, "zarr_format": 2}
    write(tmp_path / "a", values, (4, 3), kind=kind, **options)
    check(tmp_path / "a", SELECTIONS, kind, 2)


@pytest.mark.parametrize("kind", ["string", "bytes"])
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    ("shape", "chunks"),
    [((), ()), ((0,), (3,)), ((3, 0, 2), (2, 1, 2)), ((1,), (5,)), ((2, 3, 4, 5), (1, 2, 3, 2))],
    ids=str,
)
def test_shapes(
    tmp_path: Path, kind: str, zarr_format: Any, shape: tuple[int, ...], chunks: tuple[int, ...]
) -> None:
    write(tmp_path / "a", values_of(kind, shape), chunks, kind=kind, zarr_format=zarr_format)
    selections = [..., ..., None] if shape else [..., ...]
    check(tmp_path / "a", selections, kind, len(shape))
    check(tmp_path / "a", [], kind, len(shape))


def test_values_of_a_megabyte(tmp_path: Path) -> None:
    values = objects([letter * (1 << 20) + "é" for letter in "abcdefgh"] + [""] * 8)
    write(tmp_path / "a", values, (5,), kind="string")
    check(tmp_path / "a", [np.s_[::-1], np.s_[3:4], np.s_[2:6]], "string", 1)


@pytest.mark.parametrize("kind", ["string", "bytes"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_missing_chunks(tmp_path: Path, kind: str, zarr_format: Any) -> None:
    fill: Any = "fïll" if kind == "string" else b"f\xff"
    path = tmp_path / "a"
    array = write(path, objects([]), (1,), kind=kind, zarr_format=zarr_format)
    array = zarr.create_array(
        path,
        shape=(10, 4),
        chunks=(3, 3),
        dtype=array.metadata.dtype if zarr_format == 2 else array.metadata.data_type,
        zarr_format=zarr_format,
        fill_value=fill,
        overwrite=True,
    )
    values = values_of(kind, (3, 4))
    array[3:6] = values.astype(array.dtype)
    check(path, [..., np.s_[2:5], np.s_[8:]], kind, 2)
    nulls = zarrow.read_ragged(path, [np.s_[2:4, :2], np.s_[3:5]], missing_chunks="null")
    expected = [[[None, None], values[0, :2].tolist()], values[:2].tolist()]
    assert_rows(nulls, expected, ARROW[kind], 2)
    with pytest.raises(zarrow.NotFoundError, match="does not hold"):
        zarrow.read_ragged(path, [...], missing_chunks="error")


@pytest.mark.parametrize("fill", [None, 0, "", "x", 12, -3, 1.5, 1e15, True])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_fill_values_of_text(tmp_path: Path, fill: Any, zarr_format: Any) -> None:
    path = tmp_path / "a"
    write(path, objects(["a"] * 4), (2,), kind="string", zarr_format=zarr_format)
    document = path / (".zarray" if zarr_format == 2 else "zarr.json")
    metadata = json.loads(document.read_text())
    document.write_text(json.dumps({**metadata, "fill_value": fill}))
    (path / ("1" if zarr_format == 2 else "c/1")).unlink()
    if zarr_format == 3 and fill is None:
        with pytest.raises(zarrow.MetadataError):
            zarrow.open_array(path)
        return
    check(path, [...], "string", 1)


@pytest.mark.parametrize("fill", [None, 0, "", "eHk="])
def test_fill_values_of_bytes(tmp_path: Path, fill: Any) -> None:
    path = tmp_path / "a"
    write(path, objects([b"a"] * 4), (2,), kind="bytes", zarr_format=2)
    document = path / ".zarray"
    document.write_text(json.dumps({**json.loads(document.read_text()), "fill_value": fill}))
    (path / "1").unlink()
    value = b"xy" if fill == "eHk=" else b""
    assert zarrow.read_ragged(path, [...]).to_pylist() == [[b"a", b"a", value, value]]


def test_fill_value_as_a_list_of_integers(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, objects([b"a"] * 4), (2,), kind="bytes")
    document = path / "zarr.json"
    metadata = json.loads(document.read_text())
    metadata.update(fill_value=[0, 255], data_type="bytes")
    document.write_text(json.dumps(metadata))
    (path / "c/0").unlink()
    assert zarrow.read_ragged(path, [...]).to_pylist() == [[b"\0\xff"] * 2 + [b"a"] * 2]


@pytest.mark.parametrize("name", ["string", "variable_length_utf8", "numpy.variable_length_utf8"])
def test_spellings(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a"
    write(path, objects(TEXTS), (3,), kind="string")
    document = path / "zarr.json"
    document.write_text(json.dumps({**json.loads(document.read_text()), "data_type": name}))
    result = zarrow.read_ragged(path, [...])
    assert_rows(result, [TEXTS], ARROW["string"], 1)
    assert result.type.value_field.metadata[b"zarr:dtype"] == name.encode()


# ---- out of bounds ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fill"), [("string", None), ("string", "né"), ("bytes", None), ("bytes", b"\xff")]
)
def test_beyond_the_array(tmp_path: Path, kind: str, fill: Any) -> None:
    values = values_of(kind, (10,))
    write(tmp_path / "a", values, (4,), kind=kind)
    empty: Any = "" if kind == "string" else b""
    value = empty if fill is None else fill
    starts, stops = [-2, 8, 3, -5, 12], [2, 12, 5, 12, 14]
    for policy, beyond in [("fill", value), ("null", None)]:
        windows = zarrow.ranges(starts, stops, out_of_bounds=policy)
        given = fill if policy == "fill" else None
        result = zarrow.read_ragged(tmp_path / "a", windows, fill=given)
        expected = [
            [values[i] if 0 <= i < 10 else beyond for i in range(start, stop)]
            for start, stop in zip(starts, stops, strict=True)
        ]
        assert_rows(result, expected, ARROW[kind], 1)
    clipped = zarrow.read_ragged(tmp_path / "a", zarrow.ranges([-2], [3], out_of_bounds="clip"))
    assert_rows(clipped, [values[:3].tolist()], ARROW[kind], 1)


@pytest.mark.parametrize(("kind", "fill"), [("string", b"x"), ("string", 3), ("bytes", "x")])
def test_a_fill_of_another_type(tmp_path: Path, kind: str, fill: Any) -> None:
    write(tmp_path / "a", values_of(kind, (10,)), (4,), kind=kind)
    with pytest.raises(ValueError, match="fill is"):
        zarrow.read_ragged(tmp_path / "a", [...], fill=fill)
    with pytest.raises(ValueError, match="fill is"):
        zarrow.read_ragged(tmp_path / "a", [...], fill="\ud800")


# ---- any selections --------------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, ...]:
    shape = draw(strategies.shapes(max_ndim=3))
    chunks = draw(strategies.chunk_shapes(shape))
    kind = draw(st.sampled_from(["string", "bytes"]))
    zarr_format = draw(st.sampled_from([2, 3]))
    seed = draw(st.integers(0, 99))
    indexing = draw(st.sampled_from(["orthogonal", "pointwise"]))
    return shape, chunks, kind, zarr_format, seed, indexing


@given(st.data())
def test_any_items(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    shape, chunks, kind, zarr_format, seed, indexing = data.draw(cases())
    values = values_of(kind, shape)
    values = np.roll(values, seed)
    path = tmp_path_factory.mktemp("variable") / "a"
    write(path, values, chunks, kind=kind, zarr_format=zarr_format)
    selections = data.draw(strategies.vocabulary(shape, indexing))
    result = zarrow.read_ragged(path, selections, indexing=indexing)
    result.validate(full=True)
    assert result.to_pylist() == rows_of(values, selections, indexing)


@given(st.data())
def test_any_columns(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    shape, chunks, kind, zarr_format, seed, _ = data.draw(cases())
    values = np.roll(values_of(kind, shape), seed)
    path = tmp_path_factory.mktemp("variable") / "a"
    write(path, values, chunks, kind=kind, zarr_format=zarr_format)
    columns = data.draw(strategies.columns(shape))
    result = zarrow.read_ragged(path, columns.selections)
    result.validate(full=True)
    numbers = np.arange(values.size, dtype=np.int64).reshape(shape)
    empty: Any = "" if kind == "string" else b""
    flat = [*values.reshape(-1).tolist(), empty, None]
    expected: list[Any] = []
    for indices in columns.rows:
        if indices is None:
            expected.append(None)
            continue
        row, within = oracle.box(numbers, indices, columns.policy, np.array(values.size))
        row = np.where(within, row.view(np.int64), values.size + 1)
        expected.append(objects([flat[number] for number in row.reshape(-1)], row.shape).tolist())
    assert result.to_pylist() == expected


# ---- several arrays --------------------------------------------------------------------------


@pytest.mark.parametrize("promote", [False, True])
def test_several_arrays(tmp_path: Path, promote: bool) -> None:
    one, two = values_of("string", (10,)), values_of("string", (25,))[::-1]
    write(tmp_path / "one", one, (3,), kind="string")
    write(tmp_path / "two", two, (25,), kind="string", zarr_format=2)
    selections = [np.s_[2:7], np.s_[20:], np.s_[::-1], np.s_[:0]]
    arrays = [tmp_path / "one", tmp_path / "two"]
    result = zarrow.read_ragged(arrays, selections, sources=[0, 1, 0, 1], promote=promote)
    expected = [one[2:7].tolist(), two[20:].tolist(), one[::-1].tolist(), []]
    assert_rows(result, expected, ARROW["string"], 1)


@pytest.mark.parametrize("promote", [False, True])
@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("string", "bytes"),
        ("string", "int64"),
        ("bytes", "<i4"),
        ("<i4", "<f8"),
        ("<f8", "float64"),
    ],
)
def test_types_do_not_mix(tmp_path: Path, promote: bool, one: str, two: str) -> None:
    """NumPy would make text of numbers, and has one type for bytes and lists of any kind."""
    names = {"<i4": "vlen-array of int32", "<f8": "vlen-array of float64"}
    for kind, path in [(one, tmp_path / "one"), (two, tmp_path / "two")]:
        if kind in ("string", "bytes"):
            write(path, values_of(kind, (10,)), (3,), kind=kind)
        elif kind in names:
            write_lists(path, objects([np.arange(3, dtype=kind)] * 10), (3,), dtype=kind)
        else:
            zarr.create_array(path, data=np.arange(10, dtype=kind), chunks=(3,))
    arrays = [tmp_path / "one", tmp_path / "two"]
    first, second = (names.get(kind, kind) for kind in (one, two))
    told = (
        rf"arrays of {first} \(.*one'\), of {second} \(.*two'\); expected data types of which one"
    )
    with pytest.raises(zarrow.SelectionError, match=told):
        zarrow.read_ragged(arrays, [np.s_[:1]], sources=[0], promote=promote)
    with pytest.raises(zarrow.SelectionError, match=rf"arrays of {second}"):
        zarrow.plan(arrays[::-1], [np.s_[:1]], sources=[0], promote=promote)
    same = zarrow.read_ragged(arrays[:1] * 2, [np.s_[:1]] * 2, sources=[0, 1], promote=promote)
    assert same[0] == same[1]


# ---- lists -----------------------------------------------------------------------------------

NUMBERS = {
    "<i2": pa.int16(),
    ">i4": pa.int32(),
    "<f8": pa.float64(),
    ">f4": pa.float32(),
    "|u1": pa.uint8(),
    "|b1": pa.bool_(),
    ">c8": pa.list_(pa.field("item", pa.float32(), nullable=False), 2),
}


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("compressor", [None, numcodecs.Zstd()], ids=["plain", "zstd"])
def test_lists(tmp_path: Path, dtype: str, order: str, compressor: Any) -> None:
    random = np.random.default_rng(1)
    values = objects(
        [random.integers(0, 100, length).astype(dtype) for length in random.integers(0, 9, 70)],
        (10, 7),
    )
    path = tmp_path / "a"
    write_lists(
        path, values, (4, 3), dtype=dtype, order=order, compressor=compressor, skip=[(0, 0)]
    )
    handle = zarrow.open_array(path)
    assert (handle.dtype, handle.zarr_dtype) == (np.dtype(object), "vlen-array")
    values[:4, :3] = objects([np.zeros(0, dtype)] * 12, (4, 3))
    if dtype.endswith("c8"):
        values = objects([[[v.real, v.imag] for v in of] for of in values.reshape(-1)], (10, 7))
    result = zarrow.read_ragged(path, SELECTIONS)
    assert_rows(result, rows_of(values, SELECTIONS), lists_of(NUMBERS[dtype]), 2)
    beyond = [True, False] if dtype == "|b1" else [1, 0]
    window = zarrow.read_ragged(
        path, zarrow.boxes([[9, 6]], [[11, 7]], out_of_bounds="fill"), fill=beyond
    )
    if dtype.endswith("c8"):
        beyond = [[1, 0], [0, 0]]  # type: ignore[list-item]
    assert window.to_pylist() == [[rows_of(values, [np.s_[9, 6:]])[0], [beyond]]]


@pytest.mark.parametrize("dtype", ["|O", "<U3", "<M8[D]", "|V4", "<f3", ""])
def test_lists_of_what_is_no_number(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "a"
    write_lists(path, objects([np.zeros(2, "<f4")]), (1,), dtype="<f4")
    document = json.loads((path / ".zarray").read_text())
    document["filters"][0]["dtype"] = dtype
    (path / ".zarray").write_text(json.dumps(document))
    with pytest.raises(zarrow.UnsupportedError, match="vlen-array"):
        zarrow.open_array(path)


def test_lists_of_half_a_number(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_lists(path, objects([np.zeros(2, "<f4")] * 3), (3,), dtype="<f4")
    (path / "0").write_bytes(encode([b"abcd", b"abcdef", b""]))
    with pytest.raises(zarrow.DecodeError, match=r"'0'.*6 bytes.*multiple of 4"):
        zarrow.read_ragged(path, [...])


# ---- consumers -------------------------------------------------------------------------------


def test_consumers_take_it(tmp_path: Path) -> None:
    values = values_of("string", (10, 9))
    write(tmp_path / "a", values, (4, 3), kind="string")
    handle = zarrow.open_array(tmp_path / "a")
    assert handle.dtype == zarr.open_array(tmp_path / "a").dtype
    assert handle.zarr_dtype == "string"
    selections = [np.s_[2:5, 1], np.s_[:0, 0], np.s_[:, 8]]
    result = zarrow.read_ragged(handle, selections)
    expected = rows_of(values, selections)
    assert ak.from_arrow(result).to_list() == expected
    assert str(ak.from_arrow(result).type) == "3 * var * string"
    assert pl.Series(pl.from_arrow(result)).to_list() == expected
    series = pd.Series(result, dtype=pd.ArrowDtype(result.type))
    assert [None if row is None else list(row) for row in series] == expected
    flat = pd.Series(result.flatten(), dtype=pd.ArrowDtype(pa.large_string()))
    assert flat.str.len().tolist() == [len(text) for row in expected for text in row]


def test_bytes_are_objects(tmp_path: Path) -> None:
    write(tmp_path / "a", values_of("bytes", (10,)), (4,), kind="bytes")
    handle = zarrow.open_array(tmp_path / "a")
    assert (handle.dtype, handle.zarr_dtype) == (np.dtype(object), "bytes")
    assert str(ak.from_arrow(zarrow.read_ragged(handle, [...])).type) == "1 * var * bytes"


def test_a_plan_knows_offsets_and_can_be_pickled(tmp_path: Path) -> None:
    values = values_of("string", (10,))
    write(tmp_path / "a", values, (4,), kind="string")
    plan = zarrow.plan(tmp_path / "a", [np.s_[2:6], np.s_[:3]])
    assert (plan.bytes_out, plan.bytes_to_decode, plan.read_chunks) == (7 * 8, 2 * 4 * 8, 2)
    assert plan.chunks()["bytes"].to_pylist() == [32, 32]
    again = pickle.loads(pickle.dumps(plan))
    for each in (plan, again):
        result, stats = each.read(return_stats=True)
        assert result.to_pylist() == [values[2:6].tolist(), values[:3].tolist()]
        assert stats.bytes_out == 7 * 8 + sum(
            len(text.encode()) for row in result.to_pylist() for text in row
        )
        assert stats.chunks_decoded == 2


def test_each_chunk_is_decoded_once(tmp_path: Path) -> None:
    values = values_of("string", (100,))
    write(tmp_path / "a", values, (10,), kind="string", shards=(50,))
    selections = [np.s_[at : at + 30] for at in range(0, 70, 3)] * 5
    result, stats = zarrow.read_ragged(tmp_path / "a", selections, return_stats=True)
    assert result.to_pylist() == rows_of(values, selections)
    assert stats.chunks_decoded == stats.chunks_fetched == 10


# ---- memory ----------------------------------------------------------------------------------


def test_what_is_held_counts_against_the_limit(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    texts = [random.bytes(10).hex() for _ in range(20_000)]
    write(tmp_path / "a", objects(texts), (1000,), kind="string")
    whole, stats = zarrow.read_ragged(tmp_path / "a", [...], return_stats=True)
    assert whole.to_pylist() == [texts]
    # Places of 16 bytes, and all texts.
    assert stats.bytes_held >= 20_000 * 36
    for threads in (1, 4):
        limited = zarrow.read_ragged(
            tmp_path / "a", [...], memory_limit=1_200_000, threads=threads, return_stats=True
        )
        assert limited[0].equals(whole)
        assert limited[1].bytes_held <= 1_200_000
        assert limited[1].chunks_decoded == 20
        with pytest.raises(
            zarrow.AllocationError, match=r"variable length.*[Rr]aise the memory limit"
        ):
            zarrow.read_ragged(tmp_path / "a", [...], memory_limit=600_000, threads=threads)
        with pytest.raises(zarrow.AllocationError, match="places of values"):
            zarrow.read_ragged(tmp_path / "a", [...], memory_limit=300_000, threads=threads)


def test_only_wanted_bytes_are_held(tmp_path: Path) -> None:
    texts = ["x" * 1000] * 10_000
    write(tmp_path / "a", objects(texts), (1000,), kind="string")
    some = [np.s_[at : at + 1] for at in range(0, 10_000, 100)]
    result, stats = zarrow.read_ragged(tmp_path / "a", some, threads=1, return_stats=True)
    assert result.to_pylist() == [texts[:1]] * 100
    assert stats.bytes_held < 2_000_000
    # Ten times what one decoded chunk has would not fit.
    limited, stats = zarrow.read_ragged(
        tmp_path / "a", some, memory_limit=4_000_000, return_stats=True
    )
    assert limited.equals(result)
    assert stats.chunks_decoded <= 20


@pytest.mark.parametrize("shards", [None, (2000,)], ids=["chunks", "shards"])
@pytest.mark.parametrize("compressor", [None, ZstdCodec()], ids=["plain", "zstd"])
def test_any_limit_is_kept_to(tmp_path: Path, shards: Any, compressor: Any) -> None:
    """Within every limit the result is right, or there is an error that tells of the limit."""
    random = np.random.default_rng(5)
    texts = ["x" * length for length in random.integers(0, 300, 6000).tolist()]
    write(
        tmp_path / "a", objects(texts), (500,), kind="string", shards=shards, compressors=compressor
    )
    selections = zarrow.ranges([10, 900, 5990], [1200, 4000, 6000])
    whole = zarrow.read_ragged(tmp_path / "a", selections)
    enough = 0
    for limit in (int(20_000 * 1.3**step) for step in range(24)):
        for threads in (1, 3):
            try:
                rows, stats = zarrow.read_ragged(
                    tmp_path / "a",
                    selections,
                    memory_limit=limit,
                    threads=threads,
                    return_stats=True,
                )
            except zarrow.AllocationError as error:
                assert "memory limit" in str(error)
                continue
            assert rows.equals(whole)
            assert stats.bytes_held <= limit
            enough += 1
    assert enough


# ---- damage ----------------------------------------------------------------------------------

DAMAGE: dict[str, Any] = {
    "nothing": lambda b: b[:0],
    "three bytes": lambda b: b[:3],
    "half": lambda b: b[: len(b) // 2],
    "one less": lambda b: b[:-1],
    "one more": lambda b: b + b"\0",
    "count one more": lambda b: (int.from_bytes(b[:4], "little") + 1).to_bytes(4, "little") + b[4:],
    "count one less": lambda b: (int.from_bytes(b[:4], "little") - 1).to_bytes(4, "little") + b[4:],
    "count of all": lambda b: b"\xff\xff\xff\xff" + b[4:],
    "length of all": lambda b: b[:4] + b"\xff\xff\xff\xff" + b[8:],
    "length one more": lambda b: b[:4] + bytes([b[4] + 1]) + b[5:],
    "sign bit": lambda b: b[:7] + b"\x80" + b[8:],
}


@pytest.mark.parametrize("kind", ["string", "bytes"])
@pytest.mark.parametrize(
    "compressor", [None, ZstdCodec(), GzipCodec()], ids=["plain", "zstd", "gzip"]
)
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_chunks(tmp_path: Path, kind: str, compressor: Any, damage: str) -> None:
    path = tmp_path / "a"
    values = values_of(kind, (12,))
    write(path, values, (6,), kind=kind, compressors=compressor)
    chunk = path / "c/1"
    raw = encode([v.encode() if kind == "string" else v for v in values[6:].tolist()])
    encoded = DAMAGE[damage](raw)
    if isinstance(compressor, ZstdCodec):
        encoded = bytes(numcodecs.Zstd().encode(encoded)) if encoded else b""
    elif isinstance(compressor, GzipCodec):
        encoded = bytes(numcodecs.GZip().encode(encoded))
    chunk.write_bytes(encoded)
    for selection in (np.s_[:], np.s_[6:7]):
        with pytest.raises(zarrow.DecodeError, match="c/1"):
            zarrow.read_ragged(path, [selection])
    assert zarrow.read_ragged(path, [np.s_[:6]]).to_pylist() == [values[:6].tolist()]


@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"a\xe2\x82", b"\xed\xa0\x80", b"\xc0\x80"])
def test_text_that_is_no_utf8(tmp_path: Path, bad: bytes) -> None:
    """Invalid on its own, even where its neighbour would make it valid."""
    path = tmp_path / "a"
    write(path, objects(["a"] * 8), (4,), kind="string", compressors=None)
    (path / "c/1").write_bytes(encode([b"\xe2", b"ok", bad, b"\xa9"]))
    with pytest.raises(zarrow.DecodeError, match=r"c/1.*UTF-8"):
        zarrow.read_ragged(path, [np.s_[2:7]])
    with pytest.raises(zarrow.DecodeError, match=r"c/1.*UTF-8"):
        zarrow.read_ragged(path, [np.s_[6:8], np.s_[0:1]])
    # What nobody wants is not looked at.
    assert zarrow.read_ragged(path, [np.s_[5:6]]).to_pylist() == [["ok"]]


@pytest.mark.parametrize("compressor", ["zstd", "gzip", "bz2"])
def test_bombs(tmp_path: Path, compressor: str) -> None:
    path = tmp_path / "a"
    codec: Any = {"zstd": numcodecs.Zstd(), "gzip": numcodecs.GZip(), "bz2": numcodecs.BZ2()}[
        compressor
    ]
    options = {"compressors": codec, "zarr_format": 2}
    if compressor != "bz2":
        options = {"compressors": ZstdCodec() if compressor == "zstd" else GzipCodec()}
    write(path, objects(["a"] * 4), (4,), kind="string", **options)
    bomb = bytes(codec.encode(encode([b"x" * (64 << 20), b"", b"", b""])))
    (path / ("0" if compressor == "bz2" else "c/0")).write_bytes(bomb)
    with pytest.raises(zarrow.AllocationError, match=r"0'.*memory limit"):
        zarrow.read_ragged(path, [...], memory_limit=16 << 20)
    # It is only long, so without a limit it is read.
    assert zarrow.read_ragged(path, [np.s_[1:2]]).to_pylist() == [[""]]


@pytest.mark.parametrize(
    "filters",
    [[{"id": "pickle", "protocol": 5}], None, []],
)
def test_other_objects_are_refused_by_name(tmp_path: Path, filters: Any) -> None:
    path = tmp_path / "a"
    write(path, objects(["a"]), (1,), kind="string", zarr_format=2)
    document = {**json.loads((path / ".zarray").read_text()), "filters": filters}
    (path / ".zarray").write_text(json.dumps(document))
    name = filters[0]["id"] if filters else "objects"
    with pytest.raises(zarrow.UnsupportedError, match=name):
        zarrow.open_array(path)
