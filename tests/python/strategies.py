"""Hypothesis strategies: how an array is stored, and what is asked of it."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

import numpy as np
from arrays import CODECS, Layout
from hypothesis import strategies as st
from oracle import ARROW_TYPES, Box

MAX_ELEMENTS = 2_000
MAX_CHUNKS = 36
HAVE_PCODEC = importlib.util.find_spec("pcodec") is not None  # which zarr-python writes with
PCODEC_TYPES = {
    *("int16", "int32", "int64", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
}
AXIS_LENGTHS = {0: 0, 1: 60, 2: 24, 3: 11, 4: 6, 5: 4, 6: 3}

dtypes = st.sampled_from(sorted(ARROW_TYPES))
seeds = st.integers(0, 2**32 - 2)
fills = st.none() | seeds
missing = st.sampled_from([0.0, 0.0, 0.3, 0.7, 1.0])


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, ...]:
    """Rank 0 to 6, few elements, now and then an axis of length 0."""
    ndim = draw(st.integers(0, 6))
    length = st.integers(1, max(AXIS_LENGTHS[ndim], 1))
    shape = [draw(length) for _ in range(ndim)]
    if ndim and draw(st.integers(0, 9)) == 0:
        shape[draw(st.integers(0, ndim - 1))] = 0
    while math.prod(shape) > MAX_ELEMENTS:
        shape[int(np.argmax(shape))] //= 2
    return tuple(shape)


@st.composite
def chunk_shapes(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Lengths that divide the axis or do not, from 1 to beyond the edge, not too many chunks."""
    chunks = [draw(st.integers(1, n + 2)) for n in shape]

    def counts() -> list[int]:
        return [-(-n // c) for n, c in zip(shape, chunks, strict=True)]

    while math.prod(counts()) > MAX_CHUNKS:
        axis = int(np.argmax(counts()))
        chunks[axis] += max(1, chunks[axis] // 2)
    return tuple(chunks)


@st.composite
def layouts_v3(draw: st.DrawFn) -> Layout:
    """A Zarr v3 array, sharded or not, through most codecs."""
    dtype = draw(dtypes)
    shape = draw(shapes())
    chunks = draw(chunk_shapes(shape))
    orders: st.SearchStrategy[Any] = st.permutations(range(len(shape))).map(tuple)
    pcodec = HAVE_PCODEC and dtype in PCODEC_TYPES and draw(st.integers(0, 9)) == 0
    if pcodec:  # numcodecs writes in the order of memory, and refuses some subchunks for theirs
        orders = st.none()
    shards = None
    sharded: bool = draw(st.booleans())
    if shape and sharded and not pcodec:  # zarr-python cannot write 0-dimensional shards
        shards = tuple(c * draw(st.integers(1, 3)) for c in chunks)
    return Layout(
        dtype=dtype,
        shape=shape,
        chunks=chunks,
        shards=shards,
        codecs=tuple(draw(st.lists(st.sampled_from(sorted(CODECS)), max_size=2))),
        pcodec=pcodec,
        endian=draw(st.sampled_from(["little", "big"])),
        transpose=draw(st.none() | orders) or None,
        index_at=draw(st.sampled_from(["end", "start"])),
        index_codecs=draw(
            st.sampled_from([("little", "crc32c"), ("little",), ("big", "crc32c"), ("big",)])
        ),
        outside=draw(st.sampled_from([(), (), (), ("gzip",), ("crc32c",)])) if shards else (),
        # zarr-python takes a subchunk's axes as transposed, so only cubes mean what they say
        outside_transpose=draw(st.none() | orders) if shards and len({*chunks}) == 1 else None,
        key_encoding=draw(
            st.sampled_from([("default", "/"), ("default", "."), ("v2", "."), ("v2", "/")])
        ),
        fill_seed=draw(fills),
        missing=draw(missing),
        seed=draw(seeds),
    )


@st.composite
def layouts_v2(draw: st.DrawFn) -> Layout:
    """A Zarr v2 array through the compressors that are read."""
    compressors = ["zlib", "gzip", "zstd", "bz2", "blosc-lz4", "blosc-zstd", "blosc-zlib"]
    shape = draw(shapes())
    return Layout(
        zarr_format=2,
        dtype=draw(dtypes),
        shape=shape,
        chunks=draw(chunk_shapes(shape)),
        codecs=draw(st.sampled_from([(), *((name,) for name in compressors)])),
        endian=draw(st.sampled_from(["little", "big"])),
        order=draw(st.sampled_from("CF")),
        key_encoding=("v2", draw(st.sampled_from("./"))),
        fill_seed=draw(fills),
        missing=draw(missing),
        seed=draw(seeds),
    )


# ---- selections ------------------------------------------------------------------------------


def bounds(length: int) -> st.SearchStrategy[int | None]:
    """One end of a slice: inside, beyond either edge, absent, or absurd."""
    near = st.integers(-length - 3, length + 3)
    far = st.sampled_from([2**31, -(2**31), 2**63 - 1, -(2**63), 2**70, -(2**70)])
    return near | near | near | st.none() | far


def slices(length: int) -> st.SearchStrategy[slice]:
    """A slice of step 1, empty ones and start > stop among them."""
    steps = st.sampled_from([None, 1])
    ends = bounds(length)
    return st.just(slice(None)) | st.builds(slice, ends, ends, steps)


def positions(length: int) -> st.SearchStrategy[Any]:
    """An integer index in bounds, Python's or NumPy's."""
    kinds = st.sampled_from([int, np.int64, np.int8, np.intp])
    return st.builds(lambda kind, value: kind(value), kinds, st.integers(-length, length - 1))


@st.composite
def one_selection(draw: st.DrawFn, shape: tuple[int, ...], kept: int) -> Any:
    """One selection that keeps `kept` axes, in any of the ways to write it."""
    ndim = len(shape)
    able = [axis for axis, length in enumerate(shape) if length]
    dropped = set(draw(st.permutations(able))[: ndim - kept])
    items: list[Any] = [
        draw(positions(n) if axis in dropped else slices(n)) for axis, n in enumerate(shape)
    ]
    style = draw(st.integers(0, 3))
    if style == 1:  # an Ellipsis in the place of a run of whole axes, maybe of none
        first = draw(st.integers(0, ndim))
        last = first
        while last < ndim and last not in dropped and draw(st.booleans()):
            last += 1
        items[first:last] = [Ellipsis]
    elif style == 2:  # leave trailing whole axes out
        while items and isinstance(items[-1], slice) and draw(st.booleans()):
            items.pop()
    if len(items) == 1 and draw(st.booleans()):
        return items[0]
    return tuple(items)


@st.composite
def selections(draw: st.DrawFn, shape: tuple[int, ...]) -> list[Any]:
    """Many selections that keep the same number of axes, duplicates among them, in any order."""
    empty_axes = sum(length == 0 for length in shape)
    kept = draw(st.integers(empty_axes, len(shape)))
    chosen = draw(st.lists(one_selection(shape, kept), max_size=6))
    if chosen:
        again = st.lists(st.sampled_from(range(len(chosen))), max_size=3)
        chosen = draw(st.permutations([*chosen, *(chosen[i] for i in draw(again))]))
    return list(chosen)


def runs(length: int) -> st.SearchStrategy[tuple[int, int]]:
    """Start and stop within an axis, empty runs among them."""
    end = st.integers(0, length)
    return st.tuples(end, end).map(lambda pair: (min(pair), max(pair)))


def boxes_in(shape: tuple[int, ...]) -> st.SearchStrategy[list[Box]]:
    """Boxes within an array."""
    return st.lists(st.tuples(*(runs(length) for length in shape)), max_size=8)


integer_types = st.sampled_from(
    ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)
