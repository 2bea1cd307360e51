"""Counters: each touched read chunk is fetched and decoded once, each shard index read once."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
import zarrow
from arrays import Maker, Written

LAYOUTS: dict[str, dict[str, Any]] = {
    "raw": {},
    "zstd": {"codecs": ("zstd",)},
    "gzip, half missing": {"codecs": ("gzip",), "missing": 0.5},
    "blosc, F order": {"codecs": ("blosc-lz4",), "transpose": (1, 0)},
    "v2": {"zarr_format": 2, "codecs": ("zlib",)},
    "v2, half missing": {"zarr_format": 2, "codecs": ("blosc-zstd",), "missing": 0.5},
    "sharded": {"shards": (20, 12), "codecs": ("zstd",)},
    "sharded, raw": {"shards": (20, 12)},
    "sharded, index at the start": {"shards": (10, 24), "codecs": ("gzip",), "index_at": "start"},
    "sharded, half missing": {"shards": (20, 12), "codecs": ("blosc-lz4",), "missing": 0.5},
    "sharded, none stored": {"shards": (20, 12), "missing": 1.0},
    "one shard": {"shards": (60, 60), "codecs": ("zstd",)},
}

ROWS = [17, 3, 3, 36, 5, 4, 17, 0]
SELECTIONS: dict[str, list[Any]] = {
    "one element": [np.s_[7:8, 9:10]],
    "slices in one chunk": [np.s_[0:2, 0:3], np.s_[1:4, 2:5], np.s_[0:5, 0:6], np.s_[2:3, 1:2]],
    "duplicates": [np.s_[3:9, 4:20]] * 7,
    "shuffled rows": ROWS,
    "overlaps": [np.s_[i : i + 9, i : i + 5] for i in range(0, 30, 2)],
    "whole, twice": [..., ...],
    "columns": [np.s_[:, 8], np.s_[:, 7], np.s_[:, -1], np.s_[:, 8]],
    "points": [(i, 25 - i) for i in (3, 3, 4, 8, 20)],
    "with empty ones": [np.s_[5:5], np.s_[9:2, 3:4], np.s_[30:99, 0:3], np.s_[0:0, 0:0]],
    "only empty ones": [np.s_[5:5], np.s_[:, 7:7]],
    "none": [],
}


@pytest.fixture(params=LAYOUTS)
def written(request: pytest.FixtureRequest, make: Maker) -> Written:
    """A (37, 26) array in read chunks of (5, 6)."""
    return make(dtype="int32", shape=(37, 26), chunks=(5, 6), seed=11, **LAYOUTS[request.param])


@pytest.mark.parametrize("asked", SELECTIONS)
def test_each_read_chunk_once(written: Written, asked: str) -> None:
    layout, selections = written.layout, SELECTIONS[asked]
    result, stats = zarrow.read_ragged(written.path, selections, return_stats=True)
    expected = oracle.expect(written.whole, selections, levels=None)
    oracle.assert_equal(result, expected)
    touched = oracle.touched(layout.shape, layout.chunks, selections)
    stored = touched & written.stored
    assert stats.chunks_decoded == len(stored)
    assert stats.chunks_fetched == len(stored)
    assert stats.chunks_missing == len(touched - stored)
    assert stats.rows == len(selections)
    assert stats.bytes_out == len(expected.values)
    low, high = bytes_bounds(written, touched)
    assert low <= stats.bytes_fetched <= high
    chunk_bytes = 4 * 5 * 6
    assert stats.bytes_decoded <= len(stored) * chunk_bytes
    if "raw" not in layout.codecs and layout.codecs and stored:
        assert stats.bytes_decoded > 0


def bytes_bounds(written: Written, touched: set[tuple[int, ...]]) -> tuple[int, int]:
    """At least the touched subchunks and indices, or some of a raw chunk; at most whole files."""
    layout = written.layout
    if layout.shards is None:
        sizes = [written.chunk(*index).stat().st_size for index in touched & written.stored]
        raw = not layout.codecs
        return (0 if raw else sum(sizes)), sum(sizes)
    per_shard = [s // c for s, c in zip(layout.shards, layout.chunks, strict=True)]
    low = high = 0
    shards: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for index in touched:
        shard = tuple(i // n for i, n in zip(index, per_shard, strict=True))
        shards.setdefault(shard, []).append(index)
    for shard, indices in shards.items():
        path = written.chunk(*shard)
        if not path.exists():
            continue
        entries = shard_index(path, per_shard, layout.index_at)
        low += entries.nbytes + 4
        high += path.stat().st_size
        for index in indices:
            if index in written.stored and layout.codecs:
                inside = tuple(i % n for i, n in zip(index, per_shard, strict=True))
                low += int(entries[inside][1])
    return low, high


def shard_index(path: Path, per_shard: list[int], at: str) -> Any:
    """The (offset, length) pairs of a shard whose index is little-endian with a crc32c."""
    data = path.read_bytes()
    size = 16 * int(np.prod(per_shard)) + 4
    index = data[:size] if at == "start" else data[-size:]
    return np.frombuffer(index[:-4], "<u8").reshape(*per_shard, 2)


@pytest.mark.parametrize("at", ["start", "end"])
def test_shard_index_is_read_once(make: Maker, at: str) -> None:
    """An index 16 times as large as the data: reading it per subchunk would show in the bytes."""
    written = make(dtype="uint8", shape=(256,), chunks=(1,), shards=(256,), index_at=at)
    points = list(range(255, -1, -1)) * 3
    result, stats = zarrow.read_ragged(written.path, points, return_stats=True)
    written.check(result, points)
    assert stats.bytes_fetched == written.chunk(0).stat().st_size == 256 + 256 * 16 + 4
    assert stats.chunks_decoded == 256


def test_whole_read_fetches_each_byte_once(written: Written) -> None:
    selections: list[Any] = [..., np.s_[3:30], ...]
    _, stats = zarrow.read_ragged(written.path, selections, return_stats=True)
    assert stats.bytes_fetched == sum(path.stat().st_size for path in written.files().values())
    # Chunks at the edge may be decoded in part.
    assert stats.bytes_decoded <= len(written.stored) * 4 * 5 * 6


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_for_any_number_of_threads(written: Written, threads: int) -> None:
    selections: list[Any] = [np.s_[i : i + 7, 3 * i :] for i in range(8)] * 3
    result, stats = zarrow.read_ragged(written.path, selections, return_stats=True, threads=threads)
    written.check(result, selections)
    touched = oracle.touched((37, 26), (5, 6), selections)
    assert stats.chunks_decoded == stats.chunks_fetched == len(touched & written.stored)


def test_pieces(make: Maker) -> None:
    """A piece is the part of one selection that lies in one read chunk."""
    written = make(dtype="int32", shape=(37, 26), chunks=(5, 6), codecs=("zstd",))
    selections: list[Any] = [
        np.s_[0:5, 0:6],
        np.s_[0:6, 0:6],
        np.s_[4:6, 5:7],
        np.s_[3:3],
        np.s_[4:6, 5:7],
    ]
    _, stats = zarrow.read_ragged(written.path, selections, return_stats=True)
    assert stats.pieces == 1 + 2 + 0 + 4 + 4


@pytest.mark.parametrize("outside", [{"outside": ("gzip",)}, {"outside_transpose": (1, 0)}])
def test_codecs_around_shards(make: Maker, outside: dict[str, Any]) -> None:
    """A shard inside another codec can be decoded only whole: once, too."""
    written = make(shape=(9, 13), chunks=(2, 2), shards=(4, 6), codecs=("zstd",), **outside)
    selections: list[Any] = [
        np.s_[0:4, 0:6],
        np.s_[1:3, 1:3],
        np.s_[0:9, 5:7],
        np.s_[3:5, 4:8],
        ...,
    ]
    result, stats = zarrow.read_ragged(written.path, selections[:2], return_stats=True)
    written.check(result, selections[:2])
    assert stats.bytes_fetched == written.chunk(0, 0).stat().st_size
    result, stats = zarrow.read_ragged(written.path, selections, return_stats=True)
    written.check(result, selections)
    assert stats.bytes_fetched == sum(path.stat().st_size for path in written.files().values())


def test_stats(make: Maker) -> None:
    """What the object tells besides the counts."""
    written = make(shape=(40,), chunks=(8,), codecs=("gzip",))
    _, stats = zarrow.read_ragged(written.path, [np.s_[0:20]], return_stats=True)
    assert isinstance(stats, zarrow.ReadStats)
    assert stats.plan_seconds >= 0
    assert stats.read_seconds > 0
    told = stats.as_dict()
    assert told["chunks_decoded"] == 3
    assert told["rows"] == 1
    names = {
        *("rows", "chunks_fetched", "chunks_decoded", "chunks_missing", "bytes_fetched"),
        *("bytes_decoded", "bytes_out", "pieces", "plan_seconds", "read_seconds"),
    }
    assert names <= set(told)
    assert all(told[name] == getattr(stats, name) for name in names)
    assert "chunks_decoded" in repr(stats) or "3" in repr(stats)


def test_index_entries_may_be_in_any_order(make: Maker) -> None:
    """Subchunks lie in a shard in any order, with gaps: the index alone says where."""
    written = make(dtype="uint8", shape=(6,), chunks=(2,), shards=(6,), index_codecs=("little",))
    path = written.chunk(0)
    values = written.whole.tobytes()
    data = b"gap" + values[4:6] + b"--" + values[0:2] + values[2:4] + b"slack"
    path.write_bytes(data + struct.pack("<6Q", 7, 2, 9, 2, 3, 2))
    selections: list[Any] = [..., np.s_[1:5], 5, 0][:2]
    written.check(zarrow.read_ragged(written.path, selections), selections)
