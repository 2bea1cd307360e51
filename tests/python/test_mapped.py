"""Small pieces of raw chunks are copied out of mapped files, also where these change."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zarrow

ON_LINUX = sys.platform == "linux"
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


LAYOUTS: dict[str, tuple[dict[str, Any], bool]] = {
    # Whether what is read is near what is wanted.
    "chunks": ({}, ON_LINUX),
    "shards": ({"shards": (1500, 1500)}, ON_LINUX),
    "one chunk": ({"chunks": (SIDE, SIDE)}, ON_LINUX),
    "v2": ({"zarr_format": 2}, ON_LINUX),
    "F order": ({"filters": zarr.codecs.TransposeCodec(order=(1, 0))}, ON_LINUX),
    "the other byte order": ({"serializer": zarr.codecs.BytesCodec(endian="big")}, False),
    "checksums": ({"compressors": zarr.codecs.Crc32cCodec()}, False),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_crops(tmp_path: Path, layout: str) -> None:
    options, near = LAYOUTS[layout]
    values = image(tmp_path / "a", **options)
    wanted = crops(100)
    rows, stats = zarrow.read_ragged(tmp_path / "a", wanted, return_stats=True)
    assert_rows(rows, values, wanted)
    asked = sum(values[each].nbytes for each in wanted)
    assert stats.bytes_decoded >= asked
    assert (stats.bytes_decoded <= 2 * asked) == near
    if "shards" not in options:
        assert (stats.bytes_fetched <= 2 * asked) == near
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
    assert (stats.bytes_fetched == expected.nbytes) == ON_LINUX


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


READ = """
import numpy as np, sys, zarrow
def read():
    wanted = [np.s_[5:60, 4:9], np.s_[400:500, 20:30], np.s_[700:740, 5:9]]
    _, stats = zarrow.read_ragged(sys.argv[1], wanted, return_stats=True)
    assert stats.bytes_fetched == 2 * (55 * 5 + 100 * 10 + 40 * 4), stats
"""
FAULT = """
import mmap, os
with open(sys.argv[2], "r+b") as file:
    map = mmap.mmap(file.fileno(), 0)
    file.truncate(0)
    map[5000]
"""
SENT = "import os, signal; os.kill(os.getpid(), signal.SIGBUS)"
ENABLE = "import faulthandler; faulthandler.enable()"
DISABLE = "faulthandler.disable()"


def run(folder: Path, *parts: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the image and a file to damage, without anybody's handler at first."""
    image(folder / "a")
    (folder / "b").write_bytes(bytes(10_000))
    code = "\n".join(textwrap.dedent(part) for part in parts)
    command = [sys.executable, "-c", code, folder / "a", folder / "b"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.skipif(not ON_LINUX, reason="files are mapped on Linux alone")
class TestBusErrorsOfOthers:
    """They end as if zarrow were not there."""

    @pytest.mark.parametrize("error", [FAULT, SENT], ids=["fault", "sent"])
    @pytest.mark.parametrize(
        ("before", "dumps"),
        [
            ((READ, "read()"), 0),
            ((READ, ENABLE, "read()"), 1),
            ((READ, "read()", ENABLE), 1),
            ((READ, "read()", ENABLE, "read()"), 1),
            ((READ, ENABLE, "read()", DISABLE), 0),
            ((READ, ENABLE, "read()", DISABLE, "read()"), 0),
            ((READ, "read()", ENABLE, "read()", DISABLE, ENABLE, "read()"), 1),
        ],
        ids=["none", "before", "after", "between", "disabled", "disabled, again", "often"],
    )
    def test_faulthandler(
        self, tmp_path: Path, before: tuple[str, ...], dumps: int, error: str
    ) -> None:
        ended = run(tmp_path, *before, error)
        assert ended.returncode == -signal.SIGBUS, ended.stderr
        assert ended.stderr.count("Fatal Python error: Bus error") == dumps

    def test_a_handler_in_python(self, tmp_path: Path) -> None:
        handle = """
            import os, signal, time
            seen = []
            signal.signal(signal.SIGBUS, lambda *_: seen.append(1))
            def send():
                os.kill(os.getpid(), signal.SIGBUS)
                time.sleep(0.01)
        """
        ended = run(
            tmp_path, READ, "read()", handle, "send(); read(); send(); read(); print(len(seen))"
        )
        assert (ended.returncode, ended.stdout) == (0, "2\n"), ended.stderr

    def test_signals_that_are_ignored(self, tmp_path: Path) -> None:
        ignore = "import os, signal; signal.signal(signal.SIGBUS, signal.SIG_IGN)"
        ended = run(tmp_path, READ, ignore, "read()", SENT, "print(1)")
        assert (ended.returncode, ended.stdout) == (0, "1\n"), ended.stderr
        ended = run(tmp_path, READ, ignore, "read()", FAULT)
        assert ended.returncode == -signal.SIGBUS

    def test_a_thread_that_blocks_all_signals(self, tmp_path: Path) -> None:
        """Nothing is mapped for it, since its bus errors could not be handled."""
        block = """
            import signal
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            _, stats = zarrow.read_ragged(sys.argv[1], [np.s_[5:60, 4:9], np.s_[400:500, 20:30]],
                threads=1, return_stats=True)
            assert stats.bytes_fetched > 100_000, stats
        """
        ended = run(tmp_path, READ, block, "print(1)")
        assert (ended.returncode, ended.stdout) == (0, "1\n"), ended.stderr

    def test_a_fork(self, tmp_path: Path) -> None:
        fork = """
            import os
            read()
            child = os.fork()
            if child == 0:
                read()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            read()
        """
        ended = run(tmp_path, READ, fork, "print(1)")
        assert (ended.returncode, ended.stdout) == (0, "1\n"), ended.stderr
