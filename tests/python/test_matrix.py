"""Every data type × codec × layout that zarr-python writes: whole, and in twenty random boxes.

Each array is written once, by zarr-python, and must equal what that reads. The number of those that
are read is printed, and checked: none may fail.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fixed_width
import numcodecs
import numpy as np
import pytest
import zarr
import zarrow
from numcodecs import BZ2, LZ4, LZMA, Blosc, GZip, Shuffle, Zlib, Zstd
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPE, CHUNKS, SHARDS = (13, 9), (4, 3), (8, 6)
BOXES = 20

NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
TIMES = ["M8[s]", "M8[ms]", "M8[us]", "M8[ns]", "m8[s]", "m8[ns]"]
TEXTS = ["S1", "S7", "U1", "U5"]
TYPES = ["b1", *NUMBERS, *TIMES, *TEXTS]

V2: dict[str, dict[str, Any]] = {
    "raw": {"compressors": None},
    "zstd": {"compressors": Zstd(level=1)},
    "zlib": {"compressors": Zlib()},
    "gzip": {"compressors": GZip()},
    "bz2": {"compressors": BZ2()},
    "lz4": {"compressors": LZ4()},
    "lzma": {"compressors": LZMA()},
    "blosc-lz4": {"compressors": Blosc("lz4", shuffle=Blosc.SHUFFLE)},
    "blosc-zstd": {"compressors": Blosc("zstd", shuffle=Blosc.BITSHUFFLE)},
    "shuffle": {"filters": [Shuffle(4)], "compressors": Zlib()},
    "shuffle of lz4": {"filters": [Shuffle(3)], "compressors": LZ4()},
}
V3: dict[str, dict[str, Any]] = {
    "raw": {"compressors": None},
    "zstd": {"compressors": ZstdCodec(level=1)},
    "zstd with checksum": {"compressors": ZstdCodec(level=1, checksum=True)},
    "gzip": {"compressors": GzipCodec()},
    "blosc": {"compressors": BloscCodec(cname="lz4")},
    "crc32c": {"compressors": [GzipCodec(), Crc32cCodec()]},
    "lz4": {"compressors": {"name": "numcodecs.lz4", "configuration": {}}},
    "lz4 in crc32c": {
        "compressors": [{"name": "numcodecs.lz4", "configuration": {}}, Crc32cCodec()]
    },
    "bz2": {"compressors": {"name": "numcodecs.bz2", "configuration": {"level": 1}}},
    "lzma": {"compressors": {"name": "numcodecs.lzma", "configuration": {}}},
    "shuffle": {
        "compressors": [
            {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}},
            GzipCodec(),
        ]
    },
}
LAYOUTS_V2: list[dict[str, Any]] = [{}, {"order": "F"}]
LAYOUTS_V3: list[dict[str, Any]] = [{}, {"shards": SHARDS}]


@dataclass
class Case:
    """An array, and how it is written."""

    dtype: str
    zarr_format: Any
    codec: str
    layout: dict[str, Any]

    @property
    def name(self) -> str:
        """All of it in one word."""
        layout = "-".join(self.layout) or "plain"
        return f"v{self.zarr_format} {self.dtype} {self.codec} {layout}"

    def write(self, folder: Path, seed: int) -> Any:
        """Write it, but for the last rows, which are missing."""
        order = "<>"[seed % 2]
        dtype = np.dtype(self.dtype).newbyteorder(order)
        options = (V2 if self.zarr_format == 2 else V3)[self.codec]
        array = zarr.create_array(
            folder, shape=SHAPE, chunks=CHUNKS, dtype=dtype, zarr_format=self.zarr_format,
            **({"filters": None} if self.zarr_format == 2 else {}) | options, **self.layout,
        )  # fmt: skip
        values = fixed_width.random_values(np.dtype(self.dtype), SHAPE, seed)
        array[:8] = values[:8]
        return array


def cases() -> Iterator[Case]:
    """All types with all codecs, in one layout or another by turns, in both for raw and zstd."""
    turns = itertools.cycle([0, 1])
    for dtype in TYPES:
        for zarr_format, codecs, layouts in ((2, V2, LAYOUTS_V2), (3, V3, LAYOUTS_V3)):
            for codec in codecs:
                both = codec in ("raw", "zstd")
                for layout in layouts if both else [layouts[next(turns)]]:
                    yield Case(dtype, zarr_format, codec, layout)
            next(turns)


def check(array: Any, seed: int) -> zarrow.ReadStats:
    """Compare with zarr-python, element by element."""
    values = np.asarray(array[...])
    values = values.astype(values.dtype.newbyteorder("="))
    ends = np.random.default_rng(seed).integers(0, np.array(SHAPE) + 1, (BOXES, 2, len(SHAPE)))
    boxes = [tuple(map(slice, *box)) for box in np.sort(ends, 1).tolist()]
    for selections in ([...], boxes):
        rows, stats = zarrow.read_ragged(array, selections, return_stats=True)
        assert len(rows) == len(selections)
        expected = np.concatenate([values[selection].reshape(-1) for selection in selections])
        fixed_width.assert_values(fixed_width.leaf_of(rows, values.ndim), expected)
        for row, selection in zip(rows, selections, strict=True):
            assert len(row) == values[selection].shape[0]
    return stats


def test_matrix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Read or refused by name, and nothing else."""
    counts: Counter[str] = Counter()
    foreign = 0
    failed = []
    for seed, case in enumerate(cases()):
        try:
            array = case.write(tmp_path / str(seed), seed)
        except (TypeError, ValueError, numcodecs.errors.UnknownCodecError) as error:
            counts[f"not written by zarr-python: {type(error).__name__}"] += 1
            continue
        try:
            foreign += check(array, seed).chunks_foreign > 0
            counts["read"] += 1
        except Exception as error:  # noqa: BLE001
            failed.append(f"{case.name}: {type(error).__name__}: {str(error)[:300]}")
    with capsys.disabled():
        print(f"\n{dict(counts)}, {foreign} of these with codecs left to zarr-python")
    assert not failed, "\n".join(failed)
    assert counts["read"] >= 400
