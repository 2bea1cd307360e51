"""Measure every galaxy of the Hubble deep field, each in a crop of its own size, with one read.

Run it with ``make demo``, or ``python examples/quickstart.py [FIGURE.png]``.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np
import zarr
import zarrow
from matplotlib import colors, patheffects
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle
from skimage import data, filters, measure, morphology
from zarr.codecs import ZstdCodec

if TYPE_CHECKING:
    from numpy.typing import NDArray

MARGIN = 5  # pixels of sky around a galaxy
CHUNKS = (64, 64, 3)  # y, x, colour
GALLERY = 90  # crops in the figure


class CountingStore(zarr.storage.LocalStore):
    """A local store that counts the chunks that zarr-python asks of it: it decodes each of them."""

    chunks_read = 0

    async def get(self, key: str, *args: Any, **kwargs: Any) -> Any:
        """Count the chunk, then read it."""
        self.chunks_read += key.startswith("c/")
        return await super().get(key, *args, **kwargs)


def find_galaxies(image: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
    """Find what is brighter than the sky: the corners of its boxes (n, 3), and the sky's level."""
    light = image.mean(axis=-1)
    sky = float(np.median(light))
    noise = 1.4826 * np.median(np.abs(light - sky))
    bright = filters.gaussian(light - sky, sigma=1.0) > 6 * noise
    labels = measure.label(morphology.opening(bright, morphology.disk(1)))
    boxes = np.array([region.bbox for region in measure.regionprops(labels)])  # y0, x0, y1, x1
    starts = np.maximum(boxes[:, :2] - MARGIN, 0)
    stops = np.minimum(boxes[:, 2:] + MARGIN, image.shape[:2])
    return np.insert(starts, 2, 0, axis=1), np.insert(stops, 2, 3, axis=1), sky


def main(figure: str) -> None:
    """Write the photograph as a Zarr array, find the galaxies, read them, measure them, draw."""
    image = data.hubble_deep_field()
    starts, stops, sky = find_galaxies(image)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sky.zarr")
        z = zarr.create_array(path, data=image, chunks=CHUNKS, compressors=ZstdCodec())
        print(f"Hubble deep field: {size(image.shape)} {z.dtype} in {z.nchunks} chunks of zstd")
        sizes = (stops - starts)[:, :2]
        print(f"Found: {len(starts)} galaxies (and some stars)")
        print(f"Their boxes: from {size(sizes.min(axis=0))} to {size(sizes.max(axis=0))} pixels\n")

        # Every galaxy in one call: a pyarrow array that has a row for each box.
        begin = time.perf_counter()
        crops, stats = zarrow.read_ragged(path, zarrow.boxes(starts, stops), return_stats=True)
        one_call = time.perf_counter() - begin

        # The same with zarr-python: a loop.
        store = CountingStore(path, read_only=True)
        z = zarr.open_array(store, mode="r")
        begin = time.perf_counter()
        looped = [z[y0:y1, x0:x1] for (y0, x0, _), (y1, x1, _) in zip(starts, stops, strict=True)]
        loop = time.perf_counter() - begin

    print("                      chunks fetched   chunks decoded        time")
    for name, fetched, decoded, seconds in [
        ("zarrow.read_ragged", stats.chunks_fetched, stats.chunks_decoded, one_call),
        ("a loop over z[...]", store.chunks_read, store.chunks_read, loop),
    ]:
        print(f"{name}    {fetched:14,}   {decoded:14,}   {seconds * 1e3:6,.1f} ms")

    galaxies = ak.from_arrow(crops)  # no copy
    print(f"\nIn awkward: {galaxies.type}")
    assert all(np.array_equal(np.asarray(a), b) for a, b in zip(galaxies, looped, strict=True))

    # Ragged arithmetic: no loop here either.
    light = ak.mean(galaxies, axis=-1) - sky
    flux = ak.sum(ak.sum(light, axis=-1), axis=-1)
    red, blue = (ak.sum(ak.sum(galaxies[..., c], axis=-1), axis=-1) for c in (0, 2))
    height, width = ak.num(galaxies, axis=1), ak.num(galaxies[:, 0], axis=1)
    order = ak.argsort(flux, ascending=False)

    print("\nThe brightest:\n\n  rank   centre y, x   height × width      flux   red / blue")
    for rank, i in enumerate(order[:10], 1):
        y, x, _ = (starts[i] + stops[i]) // 2
        print(
            f"  {rank:4}   {y:8}, {x:3}   {height[i]:6} × {width[i]:<5}  {flux[i]:10,.0f}"
            f"   {red[i] / blue[i]:10.2f}"
        )
    draw(figure, image, starts, stops, galaxies, order)
    print(f"\nFigure: {figure}")


def draw(figure: str, image: Any, starts: Any, stops: Any, galaxies: Any, order: Any) -> None:
    """Draw the boxes on the photograph, and beside it the brightest crops, all to one scale."""
    ink, paper, accent = "#e8e3d9", "#14171f", "#ffb454"
    plt.switch_backend("agg")
    plt.rcParams.update({"text.color": ink, "axes.titlesize": 11, "axes.titlelocation": "left"})
    canvas, (left, right) = plt.subplots(
        1, 2, figsize=(13, 6.2), facecolor=paper, width_ratios=(1000, 872), layout="constrained"
    )
    outline = [patheffects.withStroke(linewidth=2, foreground="black")]
    mosaic, places = pack([darken(galaxies[i]) for i in order[:GALLERY]], paper)
    left.imshow(darken(image))
    right.imshow(mosaic, interpolation="lanczos")
    for rank, i in enumerate(order, 1):
        (y, x, _), (h, w, _) = starts[i], stops[i] - starts[i]
        width, alpha = (1.1, 1.0) if rank <= GALLERY else (0.5, 0.6)
        left.add_patch(Rectangle((x, y), w, h, fill=False, ec=accent, lw=width, alpha=alpha))
    for rank, (i, (v, u)) in enumerate(zip(order[:10], places, strict=False), 1):
        label: dict[str, Any] = {"color": accent, "path_effects": outline, "weight": "bold"}
        left.text(starts[i][1] - 4, starts[i][0], rank, ha="right", va="top", fontsize=9, **label)
        right.text(u + 1, v + 1, rank, va="top", fontsize=8, **label)
    left.set_title(f"{len(starts)} galaxies and stars, each in a box of its own size")
    right.set_title(f"The {GALLERY} brightest of the crops, to one scale")
    for axes in (left, right):
        axes.set_axis_off()
    canvas.savefig(figure, dpi=130)


def pack(crops: list[Any], paper: str) -> tuple[Any, list[tuple[int, int]]]:
    """Set crops on shelves, the tallest first: the picture, and the corner of each crop in it."""
    side = int(1.09 * np.sqrt(sum(crop.shape[0] * crop.shape[1] for crop in crops)))
    shelves: list[list[int]] = [[]]
    for i in sorted(range(len(crops)), key=lambda i: -len(crops[i])):
        if sum(crops[k].shape[1] + 2 for k in [*shelves[-1], i]) > side:
            shelves.append([])
        shelves[-1].append(i)
    height = sum(len(crops[shelf[0]]) + 3 for shelf in shelves)
    picture = np.full((height, side, 3), np.array(colors.to_rgb(paper)) * 255, dtype=np.uint8)
    places, y = [(0, 0)] * len(crops), 0
    for shelf in shelves:
        spare = side - sum(crops[i].shape[1] for i in shelf)
        gap, x = min(spare // max(len(shelf) - 1, 1), 9), 0
        for i in shelf:
            h, w, _ = crops[i].shape
            picture[y : y + h, x : x + w] = crops[i]
            places[i], x = (y, x), x + w + gap
        y += len(crops[shelf[0]]) + 3
    return picture, places


def darken(pixels: Any) -> Any:
    """Take the glow of the sky out of a picture."""
    light = np.asarray(pixels, dtype=float) / 255
    return (255 * np.clip((light - 0.09) / 0.85, 0, 1)).astype(np.uint8)


def size(shape: Any) -> str:
    """Write a shape."""
    return " × ".join(str(int(n)) for n in shape)


if __name__ == "__main__":
    main(*sys.argv[1:2] or ["quickstart.png"])
