"""Arrays to test with: a description that prints well, and the writer (zarr-python) behind it."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numcodecs
import numpy as np
import oracle
import zarr
from oracle import NDArray
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    ZstdCodec,
)
from zarr.codecs import numcodecs as zarr_numcodecs

# Zarr v3's bytes-to-bytes codecs by a short name.
CODECS: dict[str, Callable[[], Any]] = {
    "zstd": lambda: ZstdCodec(level=1, checksum=False),
    "zstd-checksum": lambda: ZstdCodec(level=3, checksum=True),
    "gzip": lambda: GzipCodec(level=1),
    "crc32c": Crc32cCodec,
    "shuffle": lambda: zarr_numcodecs.Shuffle(),  # of numbers as long as the elements
    "zlib": lambda: zarr_numcodecs.Zlib(level=1),
    "bz2": lambda: zarr_numcodecs.BZ2(level=1),
    "blosc-lz4": lambda: BloscCodec(cname="lz4", clevel=5, shuffle="shuffle"),
    "blosc-lz4hc": lambda: BloscCodec(cname="lz4hc", clevel=9, shuffle="bitshuffle"),
    "blosc-zstd": lambda: BloscCodec(cname="zstd", clevel=1, shuffle="bitshuffle"),
    "blosc-zlib": lambda: BloscCodec(cname="zlib", clevel=1, shuffle="noshuffle"),
    "blosc-blosclz": lambda: BloscCodec(cname="blosclz", clevel=3, shuffle="shuffle"),
    "blosc-stored": lambda: BloscCodec(cname="lz4", clevel=0, shuffle="noshuffle"),
    "blosc-blocks": lambda: BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", blocksize=64),
}

# Zarr v2's compressors by a short name.
COMPRESSORS: dict[str, Callable[[], Any]] = {
    "zlib": lambda: numcodecs.Zlib(level=1),
    "gzip": lambda: numcodecs.GZip(level=1),
    "zstd": lambda: numcodecs.Zstd(level=1),
    "zstd-checksum": lambda: numcodecs.Zstd(level=1, checksum=True),
    "bz2": lambda: numcodecs.BZ2(level=1),
    "blosc-lz4": lambda: numcodecs.Blosc("lz4", 5, numcodecs.Blosc.SHUFFLE),
    "blosc-zstd": lambda: numcodecs.Blosc("zstd", 1, numcodecs.Blosc.BITSHUFFLE),
    "blosc-zlib": lambda: numcodecs.Blosc("zlib", 1, numcodecs.Blosc.NOSHUFFLE),
    "blosc-auto": lambda: numcodecs.Blosc("blosclz", 5, numcodecs.Blosc.AUTOSHUFFLE),
    "lz4": lambda: numcodecs.LZ4(),
    "lzma": lambda: numcodecs.LZMA(),
}

# Bit patterns that a careless copy loses, per element size in bytes.
PATTERNS = {
    2: (0x8000, 0x7C00, 0xFC00, 0x7E01, 0x7C01, 0xFE55, 0x0001),
    4: (0x80000000, 0x7F800000, 0x7FC12345, 0x7F800001, 0xFFC00001, 0x00000001),
    8: (1 << 63, 0x7FF << 52, 0x7FF8000000000BAD, 0x7FF0000000000001, 0xFFF8 << 48, 1),
}


def random_bits(dtype: str, count: int, seed: int) -> NDArray:
    """`count` elements of arbitrary bit patterns, special ones among them."""
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return random.integers(0, 2, count).astype(bool)
    part = kind.itemsize // 2 if kind.kind == "c" else kind.itemsize
    words = np.frombuffer(random.bytes(count * kind.itemsize), f"u{part}").copy()
    if part in PATTERNS:
        special = random.random(words.size) < 0.15
        words[special] = random.choice(np.array(PATTERNS[part], f"u{part}"), int(special.sum()))
    return words.view(kind)


@dataclass(frozen=True)
class Layout:
    """All that decides how an array is stored, and what it holds."""

    dtype: str = "int32"
    shape: tuple[int, ...] = (12,)
    chunks: tuple[int, ...] = (4,)  # of a read chunk: a subchunk where there are shards
    shards: tuple[int, ...] | None = None
    zarr_format: int = 3
    codecs: tuple[str, ...] = ()  # names from CODECS, or one from COMPRESSORS
    pcodec: bool = False
    endian: str = "little"
    transpose: tuple[int, ...] | None = None
    order: Literal["C", "F"] = "C"  # v2 only
    index_at: str = "end"
    index_codecs: tuple[str, ...] = ("little", "crc32c")
    outside: tuple[str, ...] = ()  # codecs around the shards
    outside_transpose: tuple[int, ...] | None = None
    key_encoding: tuple[str, str] = ("default", "/")
    fill_seed: int | None = None  # None: zero
    missing: float = 0.0  # the share of read chunks that are not stored
    seed: int = 0
    counting: bool = False  # small numbers in order rather than arbitrary bits
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def nested(self) -> bool:
        """Whether a shard can be read only whole, for the codecs around it."""
        return bool(self.outside or self.outside_transpose)


@dataclass(frozen=True)
class Written:
    """An array on disk, and what it holds."""

    path: Path
    layout: Layout
    whole: NDArray
    stored: frozenset[tuple[int, ...]]
    array: Any  # of zarr-python

    def check(self, result: Any, selections: Sequence[Any]) -> None:
        """Assert that `result` is the read of `selections`."""
        oracle.assert_reads(result, self.whole, selections)

    def files(self) -> dict[str, Path]:
        """The stored chunks (or shards) by key."""
        names = ("zarr.json", ".zarray", ".zattrs")
        files = sorted(p for p in self.path.rglob("*") if p.is_file() and p.name not in names)
        return {p.relative_to(self.path).as_posix(): p for p in files}

    def chunk(self, *index: int) -> Path:
        """The file of one chunk (or shard)."""
        return self.path / str(self.array.metadata.encode_chunk_key(index))


def fill_of(layout: Layout) -> NDArray:
    """The fill value, as an array of one element."""
    if layout.fill_seed is None:
        return np.zeros(1, layout.dtype)
    fill = random_bits(layout.dtype, 1, layout.fill_seed)
    if layout.zarr_format == 2 and fill.dtype.kind in "fc":
        parts = fill.view(f"f{_part(fill)}")
        parts[np.isnan(parts)] = np.nan  # v2 knows one NaN only
    return fill


def _reads_as_zeros(values: NDArray) -> bool:
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return not (values != 0).any()


def _part(values: NDArray) -> int:
    return values.dtype.itemsize // (2 if values.dtype.kind == "c" else 1)


def fill_json(fill: NDArray, zarr_format: int) -> Any:
    """The JSON form of a fill value, which keeps the bits of any NaN in v3."""
    if fill.dtype.kind not in "fc":
        return fill[0].item()
    parts: list[float | str] = []
    size = _part(fill)
    for part, bits in zip(fill.view(f"f{size}"), fill.view(f"u{size}"), strict=True):
        if math.isnan(part):
            default = np.array(np.nan, part.dtype).tobytes() == bits.tobytes()
            plain = zarr_format == 2 or default
            parts.append("NaN" if plain else f"0x{int(bits):0{2 * size}x}")
        elif math.isinf(part):
            parts.append("Infinity" if part > 0 else "-Infinity")
        else:
            parts.append(float(part))
    return parts if fill.dtype.kind == "c" else parts[0]


def write(layout: Layout, path: Path) -> Written:
    """Write the array that `layout` describes.

    All is written with fill value 0, and read chunks of zeros are left out by zarr-python; then the
    metadata gets the real fill value, which these chunks then read as.
    """
    count = math.prod(layout.shape)
    whole = random_bits(layout.dtype, count, layout.seed).reshape(layout.shape)
    if layout.counting:
        whole = (np.arange(count) % 50).astype(layout.dtype).reshape(layout.shape)
    random = np.random.default_rng(layout.seed + 1)
    grid = oracle.grid_of(layout.shape, layout.chunks)
    stored = {index for index in grid if random.random() >= layout.missing}
    for index in grid:
        region = oracle.region_of(index, layout.chunks)
        if index not in stored:
            whole[region] = 0
        elif _reads_as_zeros(whole[region]):
            whole[tuple(s.start for s in region)] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about codecs that others may lack, which is the point
        array = create(layout, path)
        if whole.size:
            array[...] = whole
    fill = fill_of(layout)
    for index in set(grid) - stored:
        region = oracle.region_of(index, layout.chunks)
        oracle.as_bits(whole)[region] = oracle.as_bits(fill)[0]
    name = "zarr.json" if layout.zarr_format == 3 else ".zarray"
    edit_json(path / name, fill_value=fill_json(fill, layout.zarr_format))
    return Written(path, layout, whole, frozenset(stored), array)


def edit_json(path: Path, **changes: Any) -> None:
    """Change members of a JSON document; the value `...` removes one."""
    document = json.loads(path.read_text())
    for name, value in changes.items():
        if value is ...:
            document.pop(name)
        else:
            document[name] = value
    path.write_text(json.dumps(document))


def create(layout: Layout, path: Path) -> Any:
    """Make the empty array, with fill value 0."""
    common: dict[str, Any] = {
        "store": path,
        "shape": layout.shape,
        "fill_value": np.zeros(1, layout.dtype)[0],
        "attributes": layout.attributes,
        "config": {"write_empty_chunks": False},
        "zarr_format": layout.zarr_format,
    }
    name, separator = layout.key_encoding
    if layout.zarr_format == 2:
        (compressor,) = layout.codecs or (None,)
        return zarr.create_array(
            **common,
            dtype=np.dtype(layout.dtype).newbyteorder(">" if layout.endian == "big" else "<"),
            chunks=layout.chunks,
            order=layout.order,
            compressors=COMPRESSORS[compressor]() if compressor else None,
            filters=None,
            chunk_key_encoding={"name": "v2", "separator": separator},
        )
    filters = [TransposeCodec(order=layout.transpose)] if layout.transpose else []
    serializer: Any = (
        zarr_numcodecs.PCodec(level=4) if layout.pcodec else BytesCodec(endian=layout.endian)
    )
    compressors = [CODECS[codec]() for codec in layout.codecs]
    chunks = layout.chunks
    if layout.shards is not None:
        index_codecs: list[Any] = [BytesCodec(endian=layout.index_codecs[0])]
        index_codecs += [CODECS[codec]() for codec in layout.index_codecs[1:]]
        serializer = ShardingCodec(
            chunk_shape=layout.chunks,
            codecs=[*filters, serializer, *compressors],
            index_codecs=index_codecs,
            index_location=layout.index_at,
        )
        chunks = layout.shards
        compressors = [CODECS[codec]() for codec in layout.outside]
        outer = layout.outside_transpose
        filters = [TransposeCodec(order=outer)] if outer else []
    return zarr.create_array(
        **common,
        dtype=layout.dtype,
        chunks=chunks,
        filters=filters,
        serializer=serializer,
        compressors=compressors,
        chunk_key_encoding={"name": name, "separator": separator},
    )


def write_values(path: Path, values: NDArray, chunks: Sequence[int], **options: Any) -> Any:
    """Write given values; `options` are zarr.create_array's."""
    options.setdefault("compressors", None)
    array = zarr.create_array(
        path, shape=values.shape, dtype=values.dtype, chunks=tuple(chunks), **options
    )
    if values.size:
        array[...] = values
    return array


class Maker:
    """Writes arrays, each in a place of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def __call__(self, layout: Layout | None = None, **fields: object) -> Written:
        self.count += 1
        described = layout or Layout(**fields)  # type: ignore[arg-type]
        return write(described, self.folder / f"array{self.count}.zarr")
