"""zarr-python, with each of the codec pipelines that it can have."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .base import Method, Reader, one_axis, too_many

if TYPE_CHECKING:
    from ..case import Case, Ints

Read = Callable[[Any, "Case"], Any]

PIPELINES = {
    "default": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
    "zarrs": "zarrs.ZarrsCodecPipeline",
}
NEEDS = {"default": ("zarr",), "fused": ("zarr", "zarr-fused"), "zarrs": ("zarr", "zarrs")}
AT_ONCE = 32  # chunks that the hand-written reader asks for together


def use_pipeline(name: str) -> None:
    """Choose the pipeline of arrays that are opened from now on."""
    import zarr

    if name == "zarrs":
        import zarrs  # noqa: F401
    zarr.config.set({"codec_pipeline.path": PIPELINES[name]})


def loop(z: Any, case: Case) -> list[Any]:
    """Read one selection after the other."""
    return [z[box] for box in case.slices]


def gather(z: Any, case: Case) -> list[Any]:
    """Read all selections concurrently."""
    return gathered(z, case.slices)


def gathered(z: Any, boxes: list[Any]) -> list[Any]:
    """Await all boxes together, in the event loop of zarr-python."""
    from zarr.core.sync import sync

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(z.async_array.getitem(box) for box in boxes))

    return sync(all_of_them())


def index(z: Any, case: Case) -> Any:
    """Read all elements by their indices."""
    return z[indices(case)]


def indices(case: Case) -> Ints:
    """Give the indices of all selected elements, on one axis."""
    starts, lengths = case.starts[:, 0], (case.stops - case.starts)[:, 0]
    before = np.cumsum(lengths) - lengths
    chosen: Ints = np.arange(lengths.sum()) + np.repeat(starts - before, lengths)
    return chosen


def joined(z: Any, case: Case) -> Any:
    """Read all selections in one request to the pipeline, with an indexer that joins theirs."""
    from zarr.core import indexing
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    grid = getattr(z, "_chunk_grid", None) or z.metadata.chunk_grid

    class Joined(indexing.Indexer):
        drop_axes = ()

        def __init__(self) -> None:
            self.shape = (int((case.stops - case.starts).sum()),)

        def __iter__(self) -> Iterator[Any]:
            begin = 0
            for box in case.slices:
                for part in indexing.BasicIndexer(box, z.shape, grid):
                    (inside,) = cast("tuple[slice]", part.out_selection)
                    place = slice(begin + inside.start, begin + inside.stop)
                    yield part._replace(out_selection=(place,))
                begin += box[0].stop - box[0].start

    request = z.async_array._get_selection(Joined(), prototype=default_buffer_prototype())
    return sync(request)


def whole(z: Any, case: Case) -> list[Any]:
    """Read the whole array, then slice it."""
    everything = z[...]
    return [everything[box].copy() for box in case.slices]


def once(z: Any, case: Case) -> Any:
    """Read each chunk once, and cut the selections out: what a careful user writes by hand."""
    sides = case.stops - case.starts
    sizes = sides.prod(axis=1)
    flat = np.empty(int(sizes.sum()), z.dtype)
    ends = np.cumsum(sizes).tolist()
    results = [
        flat[end - size : end].reshape(shape)
        for end, size, shape in zip(ends, sizes.tolist(), sides.tolist(), strict=True)
    ]
    wanted: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for number, box in enumerate(case.slices):
        spans = [range(s.start // c, -(-s.stop // c)) for s, c in zip(box, z.chunks, strict=True)]
        for chunk in product(*spans):
            wanted[chunk].append(number)
    chunks = sorted(wanted)
    for begin in range(0, len(chunks), AT_ONCE):
        some = chunks[begin : begin + AT_ONCE]
        bounds = [
            [(i * c, min((i + 1) * c, n)) for i, c, n in zip(chunk, z.chunks, z.shape, strict=True)]
            for chunk in some
        ]
        blocks = gathered(z, [tuple(slice(*pair) for pair in each) for each in bounds])
        for chunk, bound, block in zip(some, bounds, blocks, strict=True):
            for number in wanted[chunk]:
                source, target = [], []
                for (low, high), s in zip(bound, case.slices[number], strict=True):
                    first, last = max(low, s.start), min(high, s.stop)
                    source.append(slice(first - low, last - low))
                    target.append(slice(first - s.start, last - s.start))
                results[number][tuple(target)] = block[tuple(source)]
    return flat


def start(read: Read, pipeline: str, case: Case, _threads: int) -> Reader:
    """Open the arrays, with a pipeline."""
    import zarr

    use_pipeline(pipeline)
    arrays = [zarr.open_array(path, mode="r") for path in case.paths]
    boxes = case.slices  # made here, not in the first call
    for z in arrays:
        z[boxes[0]]

    def call() -> Any:
        return [read(z, case) for z in arrays]

    count = None if pipeline == "zarrs" else partial(counted, call, arrays[0])
    return Reader(call, count=count)


def counted(call: Callable[[], Any], z: Any) -> int:
    """Call, and give how many chunks were decoded."""
    with counting(z) as decoded:
        call()
    return len(decoded)


@contextmanager
def counting(z: Any) -> Iterator[list[None]]:
    """Let a codec note what it decodes: the compressor, or the one for bytes if there is none."""
    from zarr.codecs import BytesCodec
    from zarr.codecs._v2 import V2Codec

    decoded: list[None] = []
    if z.metadata.zarr_format == 2:
        codec: Any = V2Codec
    else:
        codec = type(z.compressors[0]) if z.compressors else BytesCodec
    name = "_decode_sync" if hasattr(codec, "_decode_sync") else "_decode_single"
    original = getattr(codec, name)

    def noting(*arguments: Any, **named: Any) -> Any:
        decoded.append(None)
        return original(*arguments, **named)

    setattr(codec, name, noting)
    try:
        yield decoded
    finally:
        setattr(codec, name, original)


def methods(pipeline: str) -> Iterator[Method]:
    """Give the methods with a pipeline."""
    fits = lambda _: None  # noqa: E731
    for name, read, refuses, quick in (
        ("loop", loop, fits, pipeline == "default"),
        ("gather", gather, too_many, False),
        ("integer index", index, one_axis, pipeline == "fused"),
        ("joined slices", joined, one_axis, pipeline == "zarrs"),
        ("whole array", whole, fits, False),
        ("each chunk once, by hand", once, fits, pipeline == "zarrs"),
    ):
        yield Method(
            f"zarr ({pipeline}): {name}",
            "peer",
            NEEDS[pipeline],
            partial(start, read, pipeline),
            refuses,
            quick=quick,
            sampled=read is loop,
            opens=pipeline == "zarrs",
        )


METHODS = tuple(method for pipeline in PIPELINES for method in methods(pipeline))
