"""Arrays of one large chunk, whose pieces several threads copy."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zarrow

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")

SIDE = 1600
LENGTH = SIDE * SIDE

KINDS: dict[str, dict[str, Any]] = {
    "raw": {"compressors": None},
    "zstd": {"compressors": zarr.codecs.ZstdCodec(level=1)},
    "blosc": {"compressors": zarr.codecs.BloscCodec(cname="lz4")},
    "the other byte order": {
        "compressors": None,
        "serializer": zarr.codecs.BytesCodec(endian="big"),
    },
    "lz4 of numcodecs": {"compressors": {"name": "numcodecs.lz4", "configuration": {}}},
    "checksums": {"compressors": zarr.codecs.Crc32cCodec()},
    "missing": {"fill_value": 1.5},
}


def numbers() -> np.ndarray[Any, Any]:
    """Bits of every kind, NaNs among them."""
    return np.random.default_rng(8).integers(0, 1 << 32, LENGTH, dtype="u4").view("f4")


@pytest.fixture(scope="module", params=KINDS)
def series(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, np.ndarray[Any, Any]]:
    """A series of 10 MB in one chunk."""
    path = tmp_path_factory.mktemp("series") / "a"
    options = {"fill_value": 0, **KINDS[request.param]}
    array = zarr.create_array(path, shape=LENGTH, chunks=(LENGTH,), dtype="f4", **options)
    if request.param == "missing":
        return path, np.full(LENGTH, 1.5, "f4")
    values = numbers()
    array[:] = values
    return path, values


@pytest.fixture(scope="module", params=["C", "F"])
def image(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, np.ndarray[Any, Any]]:
    """An image of 10 MB in one chunk."""
    path = tmp_path_factory.mktemp("image") / "a"
    values = numbers().reshape(SIDE, SIDE)
    turn = zarr.codecs.TransposeCodec(order=(1, 0))
    zarr.create_array(
        path, data=values, chunks=values.shape, filters=turn if request.param == "F" else "auto"
    )
    return path, values


def windows() -> tuple[Any, list[Any]]:
    starts = np.linspace(0, LENGTH - 700_000, 40).astype("i8")
    return zarrow.ranges(starts, starts + 700_000), [slice(at, at + 700_000) for at in starts]


def short_windows() -> tuple[Any, list[Any]]:
    starts = np.random.default_rng(2).integers(0, LENGTH - 50, 400_000)
    stops = starts + np.random.default_rng(3).integers(1, 50, starts.size)
    return zarrow.ranges(starts, stops), list(map(slice, starts.tolist(), stops.tolist()))


def points() -> tuple[Any, list[Any]]:
    indices = np.random.default_rng(4).integers(0, LENGTH, 1_000_000)
    return [indices], [indices]


SERIES: dict[str, Callable[[], tuple[Any, list[Any]]]] = {
    "all": lambda: ([...], [...]),
    "most": lambda: ([slice(3, LENGTH - 5)], [slice(3, LENGTH - 5)]),
    "windows": windows,
    "short windows": short_windows,
    "steps": lambda: ([slice(1, None, 2)] * 3, [slice(1, None, 2)] * 3),
    "backwards": lambda: ([slice(None, None, -1)], [slice(None, None, -1)]),
    "points": points,
}


def check(path: Path, values: np.ndarray[Any, Any], asked: Any, wanted: list[Any]) -> None:
    """Compare the bits with NumPy's, whatever the number of threads."""
    expected = np.concatenate([values[each].reshape(-1) for each in wanted]).view("u4")
    for threads in (1, 2, 5):
        rows, stats = zarrow.read_ragged(path, asked, threads=threads, return_stats=True)
        while hasattr(rows, "values"):
            rows = rows.values
        got = rows.to_numpy(zero_copy_only=True).view("u4")
        assert got.shape == expected.shape
        assert np.array_equal(got, expected)
        assert stats.chunks_decoded + stats.chunks_missing == 1


@pytest.mark.parametrize("form", SERIES)
def test_series(series: tuple[Path, np.ndarray[Any, Any]], form: str) -> None:
    check(*series, *SERIES[form]())


def test_boxes(image: tuple[Path, np.ndarray[Any, Any]]) -> None:
    """Large and small, some of all columns."""
    path, values = image
    corners = np.random.default_rng(5).integers(0, SIDE - 600, (30, 2))
    boxes = [np.s_[y : y + 600, x : x + 590] for y, x in corners.tolist()]
    small = np.random.default_rng(6).integers(0, SIDE - 9, (30_000, 2))
    boxes += [np.s_[y : y + 8, x : x + 9] for y, x in small.tolist()]
    boxes += [np.s_[5:1500, :], np.s_[:, 7:1100], np.s_[::-1, 3:1300:2]]
    check(path, values, boxes, boxes)


def test_lists_of_rows_and_columns(image: tuple[Path, np.ndarray[Any, Any]]) -> None:
    path, values = image
    y = np.random.default_rng(7).integers(0, SIDE, 1_500)
    x = np.random.default_rng(8).integers(0, SIDE, 1_100)
    expected = values[np.ix_(y, x)].view("u4")
    for threads in (1, 2, 5):
        rows = zarrow.read_ragged(path, [(y, x)], indexing="orthogonal", threads=threads)
        got = rows.values.values.to_numpy(zero_copy_only=True).view("u4")
        assert np.array_equal(got.reshape(expected.shape), expected)


def test_missing_chunks_as_null(tmp_path: Path) -> None:
    """Points and windows of a chunk that nobody wrote."""
    path = tmp_path / "a"
    zarr.create_array(path, shape=2 * LENGTH, chunks=(LENGTH,), dtype="f4", fill_value=0)[
        LENGTH:
    ] = np.arange(LENGTH)
    indices = np.random.default_rng(9).integers(0, 2 * LENGTH, 1_000_000)
    for asked, wanted in [([indices], indices), ([...], np.arange(2 * LENGTH))]:
        rows = zarrow.read_ragged(path, asked, missing_chunks="null", threads=3)
        flat = rows.values
        assert np.array_equal(flat.is_null().to_numpy(zero_copy_only=False), wanted < LENGTH)
        there = wanted[wanted >= LENGTH] - LENGTH
        assert np.array_equal(flat.drop_null().to_numpy(), there.astype("f4"))


def test_reads_of_one_chunk_at_once(image: tuple[Path, np.ndarray[Any, Any]]) -> None:
    """Each as many threads may help are those that nobody else wants."""
    path, values = image
    failed = []

    def read() -> None:
        for _ in range(5):
            rows = zarrow.read_ragged(path, [...] * 3)
            got = rows.values.values.to_numpy(zero_copy_only=True).view("u4")
            if not np.array_equal(got, np.tile(values.reshape(-1).view("u4"), 3)):
                failed.append(1)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
