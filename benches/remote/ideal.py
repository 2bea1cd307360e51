"""The ideal: to fetch what the selections touch, knowing where it is, and then to decode it.

The client that fetches reads metadata, then the indices of shards, then the chunks, so many
requests at once; the limit of benches.compare decodes them and places the pieces. A reader that
decodes while it fetches, or more requests at once, can be faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..compare import plans

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from ..compare.case import Case

CONNECTIONS = (32, 64, 256, 1024)
CHECKSUM = 4


def write(case: Case, plan: Path, source: Path) -> dict[str, Path]:
    """Write the ranges to fetch, as raw-fetch reads them. Gives their files by what they are."""
    names = [line for line in (plan / "files.txt").read_text().splitlines()[1:] if line]
    files = [str(_relative(name, source)) for name in names]
    chunks = np.fromfile(plan / "chunks.bin", plans.CHUNK)
    metadata = [f"{_relative(path, source)}/zarr.json" for path in case.paths]
    lines = [f"0 {name} 0 {(source / name).stat().st_size}" for name in metadata]
    written = {"": plan / "ranges.txt"}
    if case.sharded:
        lines += [
            f"1 {name} - {size}" for name, size in zip(files, _indices(case, names), strict=True)
        ]
        written["one range per shard"] = plan / "shard-ranges.txt"
        whole = lines + [f"2 {line}" for line in _spans(chunks, files)]
        written["one range per shard"].write_text("\n".join(whole) + "\n")
    parts = (
        f"{1 + case.sharded} {files[chunk['file']]} {chunk['offset']} {chunk['length']}"
        for chunk in chunks
    )
    written[""].write_text("\n".join([*lines, *parts]) + "\n")
    return written


def _relative(name: str, source: Path) -> str:
    return name.removeprefix(f"{source}/")


def _indices(case: Case, names: list[str]) -> list[int]:
    """Give the length of the index of each shard: 16 bytes for each subchunk, and a checksum."""
    import zarr

    lengths = {}
    for path in case.paths:
        array = zarr.open_array(path, mode="r")
        shards = array.shards
        assert shards is not None
        count = int(np.prod(np.array(shards) // np.array(array.chunks)))
        lengths[path] = 16 * count + CHECKSUM
    return [
        next(length for path, length in lengths.items() if name.startswith(f"{path}/"))
        for name in names
    ]


def _spans(chunks: NDArray[np.void], files: list[str]) -> list[str]:
    """Give the range from the first touched byte of each shard to the last."""
    lines = []
    for number, name in enumerate(files):
        own = chunks[chunks["file"] == number]
        first = int(own["offset"].min())
        last = int((own["offset"] + own["length"]).max())
        lines.append(f"{name} {first} {last - first}")
    return lines
