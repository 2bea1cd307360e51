"""Plans for the program that measures the limit: what to read, and where its pieces go."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .case import Case, Ints

REVISION = "1"
GAP = 16_384  # uncompressed bytes that lie closer than this are read together

# The records of plan.rs.
CHUNK = np.dtype(
    [
        ("file", "<u4"),
        ("codec", "<u4"),
        ("offset", "<u8"),
        ("length", "<u8"),
        ("decoded", "<u8"),
        ("first", "<u8"),
        ("last", "<u8"),
    ]
)
COPY = np.dtype(
    [
        ("target", "<u8"),
        ("source", "<u4"),
        ("length", "<u4"),
        ("rows", "<u4"),
        ("source_stride", "<u4"),
        ("target_stride", "<u4"),
        ("unused", "<u4"),
    ]
)
RAW, ZSTD, BLOSC = 0, 1, 2


@dataclass
class Pieces:
    """Parts of selections, each in one chunk, in the order of the chunks."""

    chunk: Ints  # (pieces, axes): position in the grid of chunks
    copies: NDArray[Any]  # of COPY


def ensure(case: Case, folder: Path) -> Path:
    """Give the folder of the plan of a case, made now if need be."""
    target = folder / "plans" / case.name.removesuffix("-cold")
    mark = target / "mark"
    wanted = f"{REVISION} {case.arrays['mark']}"
    if not mark.exists() or mark.read_text() != wanted:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        write(case, target)
        mark.write_text(wanted)
    return target


def write(case: Case, target: Path) -> None:
    """Plan the read of all arrays of a case, one after the other in the output."""
    files: list[str] = []
    chunks, copies = [], []
    length = copied = 0
    for path in case.paths:
        array = zarr.open_array(path, mode="r")
        pieces = split(case.starts, case.stops, array)
        pieces.copies["target"] += length
        own_files, own_chunks, own_copies = locate(array, Path(path), pieces)
        own_chunks["file"] += len(files)
        for end in ("first", "last"):
            own_chunks[end] += copied
        files += own_files
        chunks.append(own_chunks)
        copies.append(own_copies)
        copied += len(own_copies)
        sizes = (case.stops - case.starts).prod(axis=1)
        length += int(sizes.sum()) * array.dtype.itemsize
    (target / "files.txt").write_text("\n".join([str(length), *files]) + "\n")
    np.concatenate(chunks).tofile(target / "chunks.bin")
    np.concatenate(copies).tofile(target / "copies.bin")


def split(starts: Ints, stops: Ints, array: Any) -> Pieces:
    """Cut selections at the borders of the chunks."""
    chunk = np.array(array.chunks)
    sides = stops - starts
    begins = np.concatenate([[0], np.cumsum(sides.prod(axis=1))])[:-1]
    first = starts // chunk
    counts = np.where(sides > 0, (stops - 1) // chunk - first + 1, 0)
    box, step = expand(counts)
    position = first[box] + step
    low = np.maximum(starts[box], position * chunk)
    high = np.minimum(stops[box], (position + 1) * chunk)
    # All axes but the last two are walked here, those two by the strided copies.
    outer = (high - low).copy()
    outer[:, -2:] = 1
    piece, step = expand(outer)
    box, position, low, high = box[piece], position[piece], low[piece] + step, high[piece]
    copies = np.zeros(len(piece), COPY)
    item = array.dtype.itemsize
    copies["source"] = ravel(low - position * chunk, np.broadcast_to(chunk, low.shape)) * item
    copies["target"] = (begins[box] + ravel(low - starts[box], sides[box])) * item
    copies["length"] = (high[:, -1] - low[:, -1]) * item
    copies["rows"] = 1
    if len(chunk) > 1:
        copies["rows"] = high[:, -2] - low[:, -2]
        copies["source_stride"] = chunk[-1] * item
        copies["target_stride"] = sides[box, -1] * item
    order = np.lexsort((copies["target"], *position.T[::-1]))
    return Pieces(position[order], copies[order])


def expand(counts: Ints) -> tuple[Ints, Ints]:
    """List all positions in grids of the given shapes, (grids, axes): their grid, and position."""
    totals = counts.prod(axis=1)
    grid = np.repeat(np.arange(len(counts)), totals)
    rank = np.arange(len(grid)) - np.repeat(np.cumsum(totals) - totals, totals)
    position = np.empty((len(grid), counts.shape[1]), np.int64)
    for axis in reversed(range(counts.shape[1])):
        rank, position[:, axis] = np.divmod(rank, counts[grid, axis])
    return grid, position


def ravel(position: Ints, shape: Ints) -> Ints:
    """Give the flat index of each position in its own shape."""
    flat = position[:, 0].copy()
    for axis in range(1, position.shape[1]):
        flat = flat * shape[:, axis] + position[:, axis]
    return flat


def locate(array: Any, path: Path, pieces: Pieces) -> tuple[list[str], NDArray[Any], NDArray[Any]]:
    """Find the bytes of the chunks that pieces lie in: their files, chunks, and copies."""
    keys, first = np.unique(pieces.chunk, axis=0, return_index=True)
    last = np.append(first[1:], len(pieces.copies))
    chunks = np.zeros(len(keys), CHUNK)
    size = int(np.prod(array.chunks)) * array.dtype.itemsize
    chunks["first"], chunks["last"], chunks["decoded"] = first, last, size
    chunks["codec"] = codec_of(array)
    files: dict[Path, int] = {}
    indices: dict[Path, NDArray[np.uint64]] = {}
    for entry, key in zip(chunks, keys, strict=True):
        if array.shards is None:
            file = path / chunk_name(array, key)
            entry["offset"], entry["length"] = 0, file.stat().st_size
        else:
            inner = np.array(array.shards) // np.array(array.chunks)
            file = path / chunk_name(array, key // inner)
            if file not in indices:
                indices[file] = shard_index(file, int(inner.prod()))
            place = np.ravel_multi_index(tuple(key % inner), tuple(inner))
            entry["offset"], entry["length"] = indices[file][place]
        entry["file"] = files.setdefault(file, len(files))
    names = list(map(str, files))
    if array.shards is None and codec_of(array) == RAW:
        return names, *byte_ranges(chunks, pieces.copies)
    return names, chunks, pieces.copies


def codec_of(array: Any) -> int:
    """Say how chunks are stored. Arrays of other codecs have no plan."""
    names = [type(codec).__name__ for codec in array.compressors]
    return {(): RAW, ("ZstdCodec",): ZSTD, ("Blosc",): BLOSC}[tuple(names)]


def chunk_name(array: Any, key: Ints) -> str:
    """Name of the file of a chunk or shard, in the default encodings of both formats."""
    if array.metadata.zarr_format == 2:
        return str(array.metadata.dimension_separator).join(map(str, key.tolist()))
    return "/".join(["c", *map(str, key.tolist())])


def shard_index(file: Path, count: int) -> NDArray[np.uint64]:
    """Read where the subchunks of a shard are: offset and length of each."""
    with file.open("rb") as shard:
        shard.seek(-(16 * count + 4), 2)
        index = np.frombuffer(shard.read(16 * count), "<u8")
    return index.reshape(count, 2)


def byte_ranges(chunks: NDArray[Any], copies: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Replace uncompressed chunks by the parts of them that are worth reading, and their copies."""
    owner = np.repeat(np.arange(len(chunks)), (chunks["last"] - chunks["first"]).astype(np.int64))
    piece, row = expand(copies["rows"].astype(np.int64)[:, None])
    rows = copies[piece]
    begin = rows["source"] + row[:, 0] * rows["source_stride"]
    rows["target"] += (row[:, 0] * rows["target_stride"]).astype(np.uint64)
    rows["rows"], rows["source_stride"], rows["target_stride"] = 1, 0, 0
    order = np.lexsort((begin, owner[piece]))
    rows, owner, begin = rows[order], owner[piece][order], begin[order].astype(np.int64)
    # Chunks are laid end to end, far apart, so that a gap to the part before is a plain difference.
    apart = int(chunks["decoded"].max(initial=0)) + GAP + 1
    end = np.maximum.accumulate(owner * apart + begin + rows["length"])
    start = owner * apart + begin
    heads = np.flatnonzero(np.append(True, start[1:] - end[:-1] > GAP)[: len(start)])
    tails = np.append(heads[1:], len(rows))
    parts = chunks[owner[heads]]
    parts["offset"] = begin[heads]
    parts["length"] = parts["decoded"] = end[tails - 1] - start[heads]
    parts["first"], parts["last"] = heads, tails
    rows["source"] = begin - np.repeat(begin[heads], tails - heads)
    return parts, rows
