"""The arrays that are read: made once per scale, with fixed seeds, outside the checkout."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import zarr
from numcodecs import Blosc
from zarr.codecs import ZstdCodec

if TYPE_CHECKING:
    from numpy.typing import NDArray

REVISION = "1"  # changes with what is written, so that older data are made again

CSR_CHUNK = 32_768
CSR_SHARD = 128 * CSR_CHUNK
GENES = 20_000
HOT_CHUNK = 32_768

Maker = Callable[[Path, float], None]
MAKERS: dict[str, Maker] = {}


def dataset(function: Maker) -> Maker:
    """Register the function that makes the data set of its name."""
    MAKERS[function.__name__] = function
    return function


def ensure(name: str, folder: Path, factor: float) -> Path:
    """Give the folder of a data set, made now if need be. It appears only when it is complete."""
    target = folder / "data" / name
    mark = target / "revision"
    if mark.exists() and mark.read_text() == REVISION:
        return target
    begin = time.perf_counter()
    print(f"Making {target}", end=" ", flush=True)
    shutil.rmtree(target, ignore_errors=True)
    draft = target.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    MAKERS[name](draft, factor)
    (draft / "revision").write_text(REVISION)
    draft.rename(target)
    print(f"({time.perf_counter() - begin:.0f} s)", flush=True)
    return target


def zstd() -> ZstdCodec:
    """Give the compressor that zarr-python takes by default."""
    return ZstdCodec(level=0)


def noise(factor: float) -> NDArray[np.float64]:
    """Give numbers that hardly compress."""
    return np.random.default_rng(11).standard_normal(int(1e8 * factor))


def signal(factor: float) -> NDArray[np.float32]:
    """Give the samples of an instrument: slow waves, noise, and steps of one unit."""
    length, rng = int(1e8 * factor), np.random.default_rng(12)
    samples = np.empty(length, np.float32)
    for start in range(0, length, 1_000_000):
        part = samples[start : start + 1_000_000]
        phase = np.arange(start, start + len(part)) * 1e-4
        part[:] = 800 * np.sin(phase) + 12 * rng.standard_normal(len(part), dtype=np.float32)
    return np.rint(samples, out=samples)


def picture(start: int, rows: int, width: int) -> NDArray[np.uint16]:
    """Give some rows of a microscope's image: uneven light, blobs in rows, noise."""
    y = np.arange(start, start + rows, dtype=np.float32)[:, None]
    x = np.arange(width, dtype=np.float32)[None, :]
    rng = np.random.default_rng((13, start))
    light = 700 + 300 * np.cos(y / 2_900) * np.cos(x / 3_700 - 1)
    blobs = 260 * np.exp(-3 * (np.sin(y / 60 + np.sin(x / 500)) ** 2 + np.cos(x / 75) ** 2))
    grain = 12 * rng.standard_normal((rows, width), dtype=np.float32)
    pixels: NDArray[np.uint16] = (light + blobs + grain).clip(0, 65_535).astype(np.uint16)
    return pixels


@dataset
def line(folder: Path, factor: float) -> None:
    """W1b: chunks as zarr-python chose them by default for this array."""
    zarr.create_array(folder / "a.zarr", data=noise(factor), chunks=(195_313,), compressors=zstd())


@dataset
def ranges(folder: Path, factor: float) -> None:
    """W2, W8, W9."""
    zarr.create_array(folder / "a.zarr", data=noise(factor), chunks=(100_000,), compressors=zstd())


@dataset
def image(folder: Path, factor: float) -> None:
    """W3, W5."""
    side = int(20_000 * factor**0.5)
    z = zarr.create_array(
        folder / "a.zarr", shape=(side, side), dtype="u2", chunks=(512, 512), compressors=zstd()
    )
    for start in range(0, side, 2_048):
        z[start : start + 2_048] = picture(start, min(2_048, side - start), side)


@dataset
def cells(folder: Path, factor: float) -> None:
    """W4: counts of molecules by cell and gene, as a CSR matrix in anndata's layout.

    Each cell draws molecules from genes of very different abundance; the counts are scaled to
    10,000 per cell, of which the logarithm is taken.
    """
    rng = np.random.default_rng(14)
    abundance = np.cumsum(rng.lognormal(0, 1.5, GENES))
    lengths, values, columns = [], [], []
    number = int(100_000 * factor)
    for start in range(0, number, 1_000):
        rows = min(1_000, number - start)
        depths = rng.integers(900, 2_900, rows)
        genes = np.searchsorted(abundance, rng.random(depths.sum()) * abundance[-1])
        drawn = np.repeat(np.arange(rows), depths) * GENES + np.minimum(genes, GENES - 1)
        entries, counts = np.unique(drawn, return_counts=True)
        row = entries // GENES
        lengths.append(np.bincount(row, minlength=rows))
        columns.append((entries % GENES).astype(np.int32))
        values.append(np.log1p(counts * (10_000 / depths[row])).astype(np.float32))
    pointers = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    attributes = {
        "encoding-type": "csr_matrix",
        "encoding-version": "0.1.0",
        "shape": [number, GENES],
    }
    matrix = zarr.create_group(folder / "x.zarr", attributes=attributes)
    for name, data in (("data", values), ("indices", columns)):
        matrix.create_array(
            name,
            data=np.concatenate(data),
            chunks=(CSR_CHUNK,),
            shards=(CSR_SHARD,),
            compressors=zstd(),
        )
    matrix.create_array("indptr", data=pointers.astype(np.int64), compressors=zstd())


@dataset
def trace_blosc(folder: Path, factor: float) -> None:
    """W6: as most Zarr v2 data are stored."""
    zarr.create_array(
        folder / "a.zarr",
        data=signal(factor),
        chunks=(1_000_000,),
        zarr_format=2,
        compressors=Blosc("lz4", clevel=5, shuffle=Blosc.SHUFFLE),
    )


@dataset
def trace_raw(folder: Path, factor: float) -> None:
    """W7: the same samples as they are, and in a file for NumPy."""
    samples = signal(factor)
    np.save(folder / "a.npy", samples)
    zarr.create_array(folder / "a.zarr", data=samples, chunks=(1_000_000,), compressors=None)


@dataset
def image_raw(folder: Path, factor: float) -> None:
    """W7: an image as it is, and in a file for NumPy."""
    side = int(10_000 * factor**0.5)
    pixels = picture(0, side, side)
    np.save(folder / "a.npy", pixels)
    zarr.create_array(folder / "a.zarr", data=pixels, chunks=(1_024, 1_024), compressors=None)


@dataset
def volume(folder: Path, factor: float) -> None:
    """W10: time, z, y, x in small chunks."""
    times = max(8, int(96 * factor))
    z = zarr.create_array(
        folder / "a.zarr",
        shape=(times, 32, 256, 256),
        dtype="u2",
        chunks=(4, 4, 32, 32),
        compressors=zstd(),
    )
    slab = picture(0, 32 * 256, 256).reshape(32, 256, 256)
    rng = np.random.default_rng(15)
    for start in range(0, times, 4):
        shape = (min(4, times - start), *slab.shape)
        z[start : start + 4] = slab + rng.integers(0, 24, shape, dtype=np.uint16)


def hot_shard(factor: float) -> int:
    """Elements of one shard of W11: 64 MiB at full scale."""
    return HOT_CHUNK * max(16, int(512 * factor))


@dataset
def shards(folder: Path, factor: float) -> None:
    """W11: three shards, of which only the one in the middle is read."""
    shard = hot_shard(factor)
    data = np.random.default_rng(16).standard_normal(3 * shard, dtype=np.float32)
    zarr.create_array(
        folder / "a.zarr", data=data, chunks=(HOT_CHUNK,), shards=(shard,), compressors=zstd()
    )
