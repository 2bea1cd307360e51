"""Small pieces of chunks that are stored as they are, also of files that others change."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zarrow

SIDE = 1500


def image(path: Path, **options: Any) -> np.ndarray[Any, Any]:
    """Write a raw image of 16-bit numbers, in four chunks unless `options` say otherwise."""
    values = np.random.default_rng(3).integers(0, 1 << 16, (SIDE, SIDE), dtype="u2")
    settings: dict[str, Any] = {"chunks": (750, 750), "compressors": None, **options}
    zarr.create_array(path, data=values, overwrite=True, **settings)
    return values


def crops(count: int) -> list[tuple[slice, slice]]:
    """Crops of 10 to 60 by 10 to 40, some of which lie in several chunks."""
    numbers = random.Random(count)
    found = []
    for _ in range(count):
        height, width = numbers.randint(10, 60), numbers.randint(10, 40)
        y, x = numbers.randint(0, SIDE - height), numbers.randint(0, SIDE - width)
        found.append(np.s_[y : y + height, x : x + width])
    return found


def assert_rows(rows: Any, values: np.ndarray[Any, Any], wanted: list[Any]) -> None:
    """Compare with NumPy's."""
    expected = [values[each].tolist() for each in wanted]
    assert rows.to_pylist() == expected


LAYOUTS: dict[str, dict[str, Any]] = {
    "chunks": {},
    "shards": {"shards": (1500, 1500)},
    "one chunk": {"chunks": (SIDE, SIDE)},
    "v2": {"zarr_format": 2},
    "F order": {"filters": zarr.codecs.TransposeCodec(order=(1, 0))},
    "the other byte order": {"serializer": zarr.codecs.BytesCodec(endian="big")},
    "checksums": {"compressors": zarr.codecs.Crc32cCodec()},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_crops(tmp_path: Path, layout: str) -> None:
    values = image(tmp_path / "a", **LAYOUTS[layout])
    wanted = crops(100)
    rows, stats = zarrow.read_ragged(tmp_path / "a", wanted, return_stats=True)
    assert_rows(rows, values, wanted)
    assert sum(values[each].nbytes for each in wanted) <= stats.bytes_decoded <= values.nbytes
    assert stats.chunks_decoded == stats.chunks_fetched == (1 if layout == "one chunk" else 4)


FORMS: dict[str, Callable[[], list[Any]]] = {
    "one column": lambda: [np.s_[:, 700:702], np.s_[:, 3:4], np.s_[::-1, 1200:1201]],
    "steps": lambda: [
        np.s_[y : y + 40 : 3, x : x + 30 : 2] for y, x in [(0, 0), (700, 740), (720, 3), (1, 1400)]
    ],
    "reversed": lambda: [
        np.s_[y + 40 : y : -1, x + 30 : x : -1] for y, x in [(0, 0), (700, 740), (1, 1400)]
    ],
    "indices": lambda: [np.s_[[5, 300, 301, 744, 1490], [7, 9, 800]], np.s_[[1, 700], 4:9]],
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(tmp_path: Path, form: str) -> None:
    values = image(tmp_path / "a")
    wanted = FORMS[form]()
    rows = zarrow.read_ragged(tmp_path / "a", wanted, indexing="orthogonal")
    got = rows.to_pylist()
    for row, each in zip(got, wanted, strict=True):
        expected = (
            values[np.ix_(*each)]
            if isinstance(each[0], list) and isinstance(each[1], list)
            else values[each]
        )
        assert row == expected.tolist()


def test_ranges_of_a_series(tmp_path: Path) -> None:
    """Short runs with gaps between them that are read over otherwise."""
    values = np.random.default_rng(1).random(1_000_000)
    zarr.create_array(tmp_path / "a", data=values, chunks=(500_000,), compressors=None)
    starts = np.arange(0, 999_000, 500)
    rows, stats = zarrow.read_ragged(
        tmp_path / "a", zarrow.ranges(starts, starts + 20), return_stats=True
    )
    expected = np.concatenate([values[start : start + 20] for start in starts])
    assert rows.flatten().to_numpy().tobytes() == expected.tobytes()
    assert expected.nbytes <= stats.bytes_fetched <= values.nbytes


def test_files_that_are_cut_off_meanwhile(tmp_path: Path) -> None:
    """Values that are right, or an error that says so: never an end of the process."""
    values = image(tmp_path / "a")
    wanted = crops(300)
    expected = [values[each].tolist() for each in wanted]
    files = [path for path in (tmp_path / "a" / "c").rglob("*") if path.is_file()]
    whole = {path: path.read_bytes() for path in files}
    is_over = threading.Event()

    def cut() -> None:
        numbers = random.Random(5)
        while not is_over.is_set():
            path = numbers.choice(files)
            with path.open("r+b") as file:
                file.truncate(numbers.randrange(len(whole[path])))
                time.sleep(numbers.random() / 1000)
                file.seek(0)
                file.write(whole[path])
            time.sleep(numbers.random() / 1000)

    array = zarrow.open_array(tmp_path / "a")
    cutter = threading.Thread(target=cut)
    cutter.start()
    errors = 0
    end = time.monotonic() + 5
    try:
        while time.monotonic() < end:
            try:
                zarrow.read_ragged(array, wanted)
            except (zarrow.StoreError, zarrow.DecodeError) as error:
                assert "c/" in str(error)
                errors += 1
    finally:
        is_over.set()
        cutter.join()
    assert errors > 0
    assert zarrow.read_ragged(array, wanted).to_pylist() == expected
