"""Hypothesis strategies: how an array is stored, and what is asked of it."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import zarrow
from arrays import CODECS, Layout
from hypothesis import strategies as st
from oracle import ARROW_TYPES, INDEXING, Box, NDArray, axes_of

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
def shapes(draw: st.DrawFn, max_ndim: int = 6, min_ndim: int = 0) -> tuple[int, ...]:
    """Rank 0 to 6, few elements, now and then an axis of length 0."""
    ndim = draw(st.integers(min_ndim, max_ndim))
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


# All but the one that takes whole elements.
outer_codecs = st.lists(st.sampled_from(sorted(CODECS.keys() - {"shuffle"})), max_size=2)


@st.composite
def layouts_v3(
    draw: st.DrawFn, max_ndim: int = 6, min_ndim: int = 0, dtype: str | None = None
) -> Layout:
    """A Zarr v3 array, sharded or not, through most codecs."""
    dtype = dtype or draw(dtypes)
    shape = draw(shapes(max_ndim, min_ndim))
    chunks = draw(chunk_shapes(shape))
    orders: st.SearchStrategy[Any] = st.permutations(range(len(shape))).map(tuple)
    pcodec = HAVE_PCODEC and dtype in PCODEC_TYPES and draw(st.integers(0, 9)) == 0
    if pcodec:  # numcodecs writes in the order of memory, and refuses some subchunks for theirs
        orders = st.none()
    inner = [(), (), (), ("shuffle",)] if not pcodec else [()]  # its bytes are no whole elements
    shards = None
    sharded: bool = draw(st.booleans())
    if shape and sharded and not pcodec:  # zarr-python cannot write 0-dimensional shards
        shards = tuple(c * draw(st.integers(1, 3)) for c in chunks)
    return Layout(
        dtype=dtype,
        shape=shape,
        chunks=chunks,
        shards=shards,
        codecs=draw(st.sampled_from(inner)) + tuple(draw(outer_codecs)),
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
def layouts_v2(
    draw: st.DrawFn, max_ndim: int = 6, min_ndim: int = 0, dtype: str | None = None
) -> Layout:
    """A Zarr v2 array through the compressors that are read."""
    compressors = ["zlib", "gzip", "zstd", "bz2", "blosc-lz4", "blosc-zstd", "blosc-zlib"]
    shape = draw(shapes(max_ndim, min_ndim))
    return Layout(
        zarr_format=2,
        dtype=dtype or draw(dtypes),
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


# ---- the whole vocabulary --------------------------------------------------------------------

STEPS = (None, 1, 2, 3, 7, -1, -1, -2, -3, 2**40, -(2**63), 2**70)


def stepped(length: int) -> st.SearchStrategy[slice]:
    """A slice of any step."""
    ends = bounds(length)
    return st.just(slice(None)) | st.builds(slice, ends, ends, st.sampled_from(STEPS))


@st.composite
def index_forms(draw: st.DrawFn, values: NDArray) -> Any:
    """An index array as a list, as NumPy's of any integer type and layout, or as Arrow's."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    fitting = [
        kind
        for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max
    ]
    typed = values.astype(draw(st.sampled_from(fitting)))
    cut = len(typed) // 2
    forms: dict[str, Callable[[], Any]] = {
        "numpy": lambda: typed,
        "swapped": lambda: typed.astype(typed.dtype.newbyteorder()),
        "strided": lambda: np.repeat(typed, 2, axis=-1)[..., ::2],
        "Fortran": lambda: np.asfortranarray(typed),
    }
    if values.ndim == 1 or values.size:  # else a list has another shape
        forms["list"] = values.tolist
    if values.ndim == 1:
        forms["arrow"] = lambda: pa.array(typed)
        forms["arrow, sliced"] = lambda: pa.array(np.concatenate([typed, typed]))[len(typed) :]
        forms["arrow, chunked"] = lambda: pa.chunked_array(
            [pa.array(typed[:cut]), pa.array(typed[cut:])]
        )
    return forms[draw(st.sampled_from(sorted(forms)))]()


def indices_of(length: int, most: int) -> st.SearchStrategy[list[int]]:
    """Up to so many indices of an axis."""
    return st.lists(st.integers(-length, length - 1), max_size=most) if length else st.just([])


@st.composite
def index_lists(draw: st.DrawFn, length: int) -> Any:
    """Indices of one axis: runs, shuffled, repeated, negative or none."""
    start = draw(st.integers(0, length))
    values = indices_of(length, 7)
    run = st.integers(start, length).map(lambda stop: list(range(start, stop)))
    return draw(index_forms(np.array(draw(values | run), np.int64)))


@st.composite
def masks(draw: st.DrawFn, shape: tuple[int, ...], count: int | None = None) -> Any:
    """A mask over one axis or several; `count` of its bits are true."""
    size = math.prod(shape)
    random = np.random.default_rng(draw(seeds))
    if count is None:
        share = draw(st.sampled_from([0.0, 0.2, 0.8, 1.0]))
        bits = random.random(size) < share
    else:
        bits = random.permutation(np.arange(size) < count)
    mask = bits.reshape(shape)
    if mask.ndim == 1 and mask.size:
        forms: list[Any] = [mask, mask.tolist(), pa.array(mask), np.repeat(mask, 2)[::2]]
        return draw(st.sampled_from(range(len(forms))).map(lambda at: forms[at]))
    return draw(st.sampled_from([mask, np.asfortranarray(mask)]))


@st.composite
def orthogonal_items(draw: st.DrawFn, shape: tuple[int, ...]) -> list[Any]:
    """An item for each axis, masks of several axes among them."""
    items: list[Any] = []
    axis = 0
    while axis < len(shape):
        length, span = shape[axis], 1
        kind = draw(st.sampled_from(["slice", "slice", "index", "mask", "int"]))
        if kind == "index":
            items.append(draw(index_lists(length)))
        elif kind == "mask":
            span = draw(st.integers(1, min(3, len(shape) - axis)))
            items.append(draw(masks(shape[axis : axis + span])))
        elif kind == "int" and length:
            items.append(draw(positions(length)))
        else:
            items.append(draw(stepped(length)))
        axis += span
    return items


@st.composite
def pointwise_items(draw: st.DrawFn, shape: tuple[int, ...]) -> list[Any]:
    """An item for each axis; the index arrays and masks broadcast to each other."""
    lengths = st.sampled_from([1, 2, 3, 4, 0])
    common = tuple(draw(st.lists(lengths, min_size=1, max_size=2)))
    items: list[Any] = []
    axis = 0
    while axis < len(shape):
        length, span = shape[axis], 1
        kind = draw(st.sampled_from(["slice", "slice", "index", "index", "mask", "int"]))
        if kind == "mask":
            span = draw(st.integers(1, min(2, len(shape) - axis)))
            count = draw(st.sampled_from([common[-1], 1]))
            if count <= math.prod(shape[axis : axis + span]):
                items.append(draw(masks(shape[axis : axis + span], count)))
                axis += span
                continue
            span = 1
        own = [n if draw(st.booleans()) else 1 for n in common][
            draw(st.integers(0, len(common) - 1)) :
        ]
        if kind == "index" and (length or 0 in own):
            low = min(-length, 0)
            number = st.integers(low, max(length - 1, 0))
            values = draw(st.lists(number, min_size=math.prod(own), max_size=math.prod(own)))
            items.append(draw(index_forms(np.array(values, np.int64).reshape(own))))
        elif kind == "int" and length:
            items.append(draw(positions(length)))
        else:
            items.append(draw(stepped(length)))
        axis += span
    return items


ITEMS = {"orthogonal": orthogonal_items, "pointwise": pointwise_items}


def kept_axes(shape: tuple[int, ...], selection: Any, indexing: str) -> int:
    """Number of axes that a selection keeps."""
    return INDEXING[indexing](np.empty(shape, bool), selection).ndim


def droppable(shape: tuple[int, ...], items: list[Any]) -> dict[int, int]:
    """The slices that may become integers: where they stand, and on which axis."""
    axes = [sum(axes_of(item) for item in items[:i]) for i in range(len(items))]
    pairs = zip(items, axes, strict=True)
    return {i: n for i, (item, n) in enumerate(pairs) if isinstance(item, slice) and shape[n]}


@st.composite
def fitting(
    draw: st.DrawFn, shape: tuple[int, ...], items: list[Any], indexing: str, levels: int
) -> list[Any]:
    """The items changed so that they keep `levels` axes; `[...]` where that cannot be."""
    items = list(items)
    while (kept := kept_axes(shape, tuple(items), indexing)) > levels:
        free = droppable(shape, items)
        if not free:
            return [...]
        at = draw(st.sampled_from(sorted(free)))
        items[at] = draw(positions(shape[free[at]]))
    for _ in range(levels - kept):
        items.insert(draw(st.integers(0, len(items))), None)
    return items


@st.composite
def abbreviated(draw: st.DrawFn, items: list[Any]) -> list[Any]:
    """The items with an Ellipsis, which may stand for no axis, or without trailing whole axes."""
    items = list(items)
    if draw(st.booleans()):
        first = last = draw(st.integers(0, len(items)))
        while last < len(items) and isinstance(items[last], slice) and draw(st.booleans()):
            last += 1
        items[first:last] = [Ellipsis]
        return items
    while items and isinstance(items[-1], slice) and draw(st.booleans()):
        items.pop()
    return items


@st.composite
def any_selection(
    draw: st.DrawFn, shape: tuple[int, ...], indexing: str, levels: int | None
) -> Any:
    """One selection of any items, which keeps `levels` axes if that is possible, else `...`."""
    items = draw(ITEMS[indexing](shape))
    if levels is None:
        kept = kept_axes(shape, tuple(items), indexing)
        levels = kept + draw(st.sampled_from([0, 0, 0, 1, 2]))
    items = draw(fitting(shape, items, indexing, levels))
    if not any(item is Ellipsis for item in items):
        items = draw(abbreviated(items))
    # None alone would be a null row, and an array of two axes coordinates.
    bare = items[0] if len(items) == 1 else None
    is_points = indexing == "pointwise" and getattr(bare, "ndim", 0) == 2 and not is_mask(bare)
    return bare if bare is not None and not is_points and draw(st.booleans()) else tuple(items)


def is_mask(item: Any) -> bool:
    """Whether an item is an array of bools."""
    return getattr(getattr(item, "dtype", None), "kind", "") == "b"


@st.composite
def coordinates(draw: st.DrawFn, shape: tuple[int, ...]) -> NDArray:
    """Points as an array of shape (n, ndim)."""
    count = draw(st.integers(0, 6)) if all(shape) else 0
    columns = [
        draw(
            st.lists(st.integers(-n, n - 1) if n else st.nothing(), min_size=count, max_size=count)
        )
        for n in shape
    ]
    values = np.array(columns, draw(st.sampled_from(["i8", "i2"]))).reshape(len(shape), count).T
    return np.ascontiguousarray(values)


@st.composite
def vocabulary(draw: st.DrawFn, shape: tuple[int, ...], indexing: str) -> list[Any]:
    """Many selections of any items that keep the same number of axes, and null rows."""
    if indexing == "pointwise" and shape and draw(st.integers(0, 4)) == 0:
        chosen = draw(st.lists(coordinates(shape), min_size=1, max_size=4))
    else:
        first = draw(any_selection(shape, indexing, None))
        levels = kept_axes(shape, first, indexing)
        more = draw(st.lists(any_selection(shape, indexing, levels), max_size=5))
        chosen = [first, *(each for each in more if kept_axes(shape, each, indexing) == levels)]
    again = draw(st.lists(st.sampled_from(range(len(chosen))), max_size=2))
    nulls = [None] * draw(st.sampled_from([0, 0, 1, 2]))
    return list(draw(st.permutations([*chosen, *(chosen[i] for i in again), *nulls])))


@st.composite
def sparse_slice(draw: st.DrawFn, length: int) -> slice:
    """A whole axis, a run of it, or few of it, forwards or backwards."""
    end = st.integers(-length, length - 1)
    kind = draw(st.sampled_from(["whole", "run", "step", "step"]))
    if kind == "whole":
        return slice(None, None, draw(st.sampled_from([None, -1])))
    step = draw(st.sampled_from([2, -1, -3, 17, -50, 131])) if kind == "step" else None
    return slice(draw(end), draw(end), step)


@st.composite
def sparse_points(draw: st.DrawFn, length: int, count: int) -> Any:
    """So many indices of a long axis, by chance next to each other."""
    start = draw(st.integers(-length, length - 1 - count))
    index = st.integers(-length, length - 1)
    far = st.lists(index, min_size=count, max_size=count)
    near = st.just(list(range(start, start + count)))
    return draw(index_forms(np.array(draw(far | near), np.int64)))


@st.composite
def sparse_item(draw: st.DrawFn, length: int) -> Any:
    """An item that takes little of a long axis."""
    kind = draw(st.sampled_from(["slice", "slice", "slice", "index", "int", "mask"]))
    if kind == "slice":
        return draw(sparse_slice(length))
    if kind == "index":
        return draw(sparse_points(length, draw(st.integers(0, 9))))
    if kind == "int":
        return draw(st.integers(-length, length - 1))
    share = draw(st.sampled_from([0.002, 0.02, 0.9]))
    return np.random.default_rng(draw(seeds)).random(length) < share


@st.composite
def few_of_much(draw: st.DrawFn, shape: tuple[int, ...], indexing: str) -> list[Any]:
    """Selections of little of an array of long axes."""
    chosen: list[Any] = []
    for _ in range(draw(st.integers(1, 4))):
        count = draw(st.integers(0, 9))
        items = []
        for length in shape:
            if indexing == "orthogonal":
                items.append(draw(sparse_item(length)))
            elif draw(st.booleans()):
                items.append(draw(sparse_points(length, count)))
            else:
                items.append(draw(sparse_slice(length)))
        chosen.append(tuple(items))
    levels = kept_axes(shape, chosen[0], indexing)
    return [each for each in chosen if kept_axes(shape, each, indexing) == levels]


# ---- selections in columns -------------------------------------------------------------------

POLICIES = ("error", "clip", "fill", "null")


@dataclass(frozen=True)
class Columns:
    """Selections in columns, and the indices along each axis that each of them asks for."""

    selections: zarrow.Selections
    rows: list[tuple[NDArray, ...] | None]
    policy: str
    what: str

    def __repr__(self) -> str:
        return self.what


@st.composite
def bound_pairs(draw: st.DrawFn, length: int, policy: str, step: int) -> tuple[int, int]:
    """Start and stop of one range, in the order that the step wants; beyond the edge by policy."""
    reach = 0 if policy == "error" else 6
    low, high = sorted(draw(st.tuples(*[st.integers(-reach, length + reach)] * 2)))
    return (low, high) if step > 0 else (high - 1, low - 1)


@st.composite
def range_columns(draw: st.DrawFn, shape: tuple[int, ...]) -> Columns:
    """Ranges of one axis, or boxes on the first axes, with steps."""
    policy = draw(st.sampled_from(POLICIES))
    single = draw(st.booleans())
    axis = draw(st.integers(0, len(shape) - 1)) if single else 0
    axes = [axis] if single else list(range(draw(st.integers(0, len(shape)))))
    count = draw(st.integers(0, 5))
    steps = np.ones((count, len(axes)), np.int64)
    stepping = policy in ("error", "clip") and draw(st.booleans())
    if stepping:
        few = st.sampled_from([1, 1, 2, 3, -1, -1, -2, -5, 100, -100])
        steps = np.array([[draw(few) for _ in axes] for _ in range(count)], np.int64)
    ends = np.zeros((count, len(axes), 2), np.int64)
    steps = steps.reshape(count, len(axes))
    rows: list[tuple[NDArray, ...] | None] = []
    for row in range(count):
        indices = [np.arange(length) for length in shape]
        for at, bounded in enumerate(axes):
            ends[row, at] = draw(bound_pairs(shape[bounded], policy, steps[row, at]))
            indices[bounded] = np.arange(*ends[row, at], steps[row, at])
        rows.append(tuple(indices))
    starts, stops = ends[..., 0], ends[..., 1]
    given = steps if stepping or draw(st.booleans()) else None
    if single:
        starts, stops = starts[:, 0], stops[:, 0]
        given = None if given is None else given[:, 0]
        selections = zarrow.ranges(starts, stops, given, axis=axis, out_of_bounds=policy)
    else:
        selections = zarrow.boxes(starts, stops, given, out_of_bounds=policy)
    steps_told = None if given is None else given.tolist()
    what = f"{starts.tolist()} {stops.tolist()} {steps_told} {axes=} {policy=}"
    return Columns(selections, rows, policy, what)


@st.composite
def window_columns(draw: st.DrawFn, shape: tuple[int, ...]) -> Columns:
    """Windows around points inside and outside."""
    policy = draw(st.sampled_from(POLICIES[1:]))
    sides = draw(st.lists(st.integers(0, 7), max_size=len(shape)))
    count = draw(st.integers(0, 5))
    near = [st.integers(-4, length + 4) for length in shape[: len(sides)]]
    centers = np.array([[draw(at) for at in near] for _ in range(count)], np.int64)
    centers = centers.reshape(count, len(sides))
    rows: list[tuple[NDArray, ...] | None] = []
    for center in centers:
        starts = [c - side // 2 for c, side in zip(center, sides, strict=True)]
        along = [np.arange(at, at + side) for at, side in zip(starts, sides, strict=True)]
        rows.append((*along, *(np.arange(length) for length in shape[len(sides) :])))
    selections = zarrow.windows(centers, sides, out_of_bounds=policy)
    return Columns(selections, rows, policy, f"windows({centers.tolist()}, {sides}) {policy=}")


@st.composite
def list_columns(draw: st.DrawFn, shape: tuple[int, ...]) -> Columns:
    """Lists of indices of one axis, null ones among them; or rows by offsets."""
    whole = [np.arange(length) for length in shape]
    if draw(st.booleans()):
        ends = st.lists(st.integers(0, shape[0]), min_size=1, max_size=6)
        offsets = np.sort(draw(ends))
        count = len(offsets) - 1
        which = draw(st.none() | indices_of(count, 6))
        asked = list(range(count)) if which is None else which
        rows = [(np.arange(offsets[:-1][row], offsets[1:][row]), *whole[1:]) for row in asked]
        told = f"rows({offsets.tolist()}, {which})"
        return Columns(zarrow.rows(offsets, which), list(rows), "error", told)
    axis = draw(st.integers(0, len(shape) - 1))
    length = shape[axis]
    lists = draw(st.lists(st.none() | indices_of(length, 6), max_size=5))
    rows_or_null: list[tuple[NDArray, ...] | None] = []
    for each in lists:
        if each is None:
            rows_or_null.append(None)
            continue
        indices = list(whole)
        indices[axis] = np.array(each, np.int64) % max(length, 1)
        rows_or_null.append(tuple(indices))
    kinds = [pa.large_list(pa.int64()), pa.list_(pa.int16())]
    given = pa.array(lists, draw(st.sampled_from(kinds)))
    told = f"indices({lists}, axis={axis})"
    return Columns(zarrow.indices(given, axis=axis), rows_or_null, "error", told)


def columns(shape: tuple[int, ...]) -> st.SearchStrategy[Columns]:
    """Selections in columns of any kind."""
    kinds = [range_columns(shape), window_columns(shape), list_columns(shape)]
    return st.one_of(kinds if shape else [window_columns(shape)])


# ---- several arrays --------------------------------------------------------------------------


@st.composite
def similar_layouts(draw: st.DrawFn) -> list[Layout]:
    """Arrays of one data type and number of axes, which differ in all else."""
    ndim, dtype = draw(st.integers(0, 3)), draw(dtypes)
    either = layouts_v3(ndim, ndim, dtype) | layouts_v2(ndim, ndim, dtype)
    return draw(st.lists(either, min_size=1, max_size=3))


@st.composite
def items_of_sources(
    draw: st.DrawFn, shapes_of: list[tuple[int, ...]], indexing: str
) -> tuple[list[int], list[Any]]:
    """The array of each row, and its selection of any items."""
    of = draw(st.lists(st.integers(0, len(shapes_of) - 1), max_size=7))
    sources: list[int] = []
    chosen: list[Any] = []
    levels = None
    for number in of:
        one = draw(any_selection(shapes_of[number], indexing, levels))
        kept = kept_axes(shapes_of[number], one, indexing)
        if levels in (None, kept):
            levels = kept
            sources.append(number)
            chosen.append(one)
        if draw(st.integers(0, 5)) == 0:
            sources.append(number)
            chosen.append(None)
    return sources, chosen


@st.composite
def columns_of_sources(
    draw: st.DrawFn, shapes_of: list[tuple[int, ...]]
) -> tuple[list[int], Columns]:
    """The array of each row, and boxes that reach beyond it. Further axes are whole."""
    of = draw(st.lists(st.integers(0, len(shapes_of) - 1), max_size=6))
    axes = draw(st.integers(0, len(shapes_of[0])))
    policy = draw(st.sampled_from(POLICIES[1:]))
    ends = np.zeros((len(of), axes, 2), np.int64)
    rows: list[tuple[NDArray, ...] | None] = []
    for row, number in enumerate(of):
        shape = shapes_of[number]
        for axis in range(axes):
            ends[row, axis] = draw(bound_pairs(shape[axis], policy, 1))
        whole = [np.arange(length) for length in shape[axes:]]
        rows.append((*(np.arange(*pair) for pair in ends[row]), *whole))
    selections = zarrow.boxes(ends[..., 0], ends[..., 1], out_of_bounds=policy)
    return of, Columns(selections, rows, policy, f"boxes {ends.tolist()} {policy}")
