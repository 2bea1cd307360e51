"""Shards whose index lies: an error, never a panic, a wild read or a huge allocation."""

from __future__ import annotations

import struct
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import arrays
import numpy as np
import objects
import oracle
import pytest
import zarrow
from arrays import Layout, Maker, Written
from failures import STATUS, fails, run
from servers.http_files import FileServer
from zarr.codecs import ZstdCodec

NONE = 2**64 - 1
SUBCHUNKS = 6
INDEX = 16 * SUBCHUNKS


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.fixture(params=["raw", "zstd", "gzip, index at the start", "no crc32c", "big-endian index"])
def written(request: pytest.FixtureRequest, make: Maker) -> Written:
    """Two shards of six subchunks of four int32 each."""
    kinds: dict[str, dict[str, Any]] = {
        "raw": {},
        "zstd": {"codecs": ("zstd",)},
        "gzip, index at the start": {"codecs": ("gzip",), "index_at": "start"},
        "no crc32c": {"index_codecs": ("little",)},
        "big-endian index": {"index_codecs": ("big", "crc32c")},
    }
    fields = kinds[request.param]
    return make(dtype="int32", shape=(48,), chunks=(4,), shards=(24,), counting=True, **fields)


class Shard:
    """The first shard of an array, with an index to change."""

    def __init__(self, written: Written) -> None:
        layout = written.layout
        self.path = written.chunk(0)
        self.order = "<" if layout.index_codecs[0] == "little" else ">"
        self.checked = "crc32c" in layout.index_codecs
        self.at_start = layout.index_at == "start"
        data = self.path.read_bytes()
        size = INDEX + 4 * self.checked
        index = data[:size] if self.at_start else data[-size:]
        self.body = data[size:] if self.at_start else data[:-size]
        self.file_size = len(data)
        words = struct.unpack(f"{self.order}{2 * SUBCHUNKS}Q", index[:INDEX])
        self.entries = [list(words[i : i + 2]) for i in range(0, 2 * SUBCHUNKS, 2)]
        assert not self.checked or crc32c(index[:INDEX]) == int.from_bytes(index[INDEX:], "little")

    def save(self, *, damage_checksum: bool = False) -> None:
        """Write the shard with its index as it is now, and a right (or wrong) checksum."""
        words = [word for entry in self.entries for word in entry]
        index = struct.pack(f"{self.order}{2 * SUBCHUNKS}Q", *words)
        if self.checked:
            crc = crc32c(index) ^ (0x10000 if damage_checksum else 0)
            index += crc.to_bytes(4, "little")
        self.path.write_bytes(index + self.body if self.at_start else self.body + index)


def the_other_shard_still_reads(written: Written) -> None:
    selections: list[Any] = [np.s_[24:48], np.s_[30:33]]
    written.check(zarrow.read_ragged(written.path, selections), selections)


def test_rewritten_as_it_was(written: Written) -> None:
    """The test's own writer is right."""
    before = written.chunk(0).read_bytes()
    shard = Shard(written)
    shard.save()
    assert written.chunk(0).read_bytes() == before
    written.check(zarrow.read_ragged(written.path, [...]), [...])


def test_wrong_checksum(written: Written) -> None:
    shard = Shard(written)
    if not shard.checked:
        return
    shard.save(damage_checksum=True)
    for selections in ([...], [np.s_[5:6]]):
        with fails(zarrow.DecodeError, words=("c/0", "index")):
            zarrow.read_ragged(written.path, selections)
    the_other_shard_still_reads(written)


def test_each_flipped_bit_of_a_checked_index(make: Maker) -> None:
    written = make(dtype="uint8", shape=(6,), chunks=(1,), shards=(6,), counting=True)
    path = written.chunk(0)
    data = path.read_bytes()
    for at in range(6, len(data)):
        for bit in (0, 3, 7):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            path.write_bytes(damaged)
            with fails(zarrow.DecodeError, words=("c/0",)):
                zarrow.read_ragged(written.path, [np.s_[2:4]])


WRONG_ENTRIES: dict[str, tuple[int, int]] = {
    "offset just beyond the file": (10_000, 16),
    "end just beyond the file": (0, 100_000),
    "offset of 2**63": (2**63, 16),
    "offset of 2**64 - 2": (2**64 - 2, 16),
    "length of 2**64 - 2": (0, 2**64 - 2),
    "sum overflows to 0": (2**64 - 16, 16),
    "sum overflows to something small": (2**64 - 8, 24),
    "both of 2**64 - 2": (2**64 - 2, 2**64 - 2),
    "length of 2**40": (0, 2**40),
    "length of 2**63": (1, 2**63),
    "length of 0": (0, 0),
    "length of 1": (0, 1),
}


@pytest.mark.parametrize("name", WRONG_ENTRIES)
def test_wrong_entry(written: Written, name: str) -> None:
    """The checksum is right, the entry is not."""
    shard = Shard(written)
    shard.entries[3] = list(WRONG_ENTRIES[name])
    shard.save()
    for selections in ([...], [np.s_[13:15]], [np.s_[0:2], np.s_[12:16]]):
        with fails(zarrow.DecodeError, words=("c/0",)):
            zarrow.read_ragged(written.path, selections)
    the_other_shard_still_reads(written)


@pytest.mark.parametrize("entry", [(NONE, 16), (0, NONE)], ids=["no offset", "no length"])
def test_half_of_the_missing_mark(written: Written, entry: tuple[int, int]) -> None:
    """A subchunk is missing if both numbers say so. One alone: an error, or missing."""
    shard = Shard(written)
    shard.entries[3] = list(entry)
    shard.save()
    try:
        result = zarrow.read_ragged(written.path, [np.s_[12:16]])
    except zarrow.DecodeError as error:
        assert "c/0" in str(error)
    else:
        assert oracle.elements_of(result).to_pylist() == [0] * 4


def test_missing_subchunks(written: Written) -> None:
    shard = Shard(written)
    for number in (1, 3, 4):
        shard.entries[number] = [NONE, NONE]
        written.whole[4 * number : 4 * number + 4] = 0
    shard.save()
    result, stats = zarrow.read_ragged(written.path, [..., np.s_[3:17]], return_stats=True)
    written.check(result, [..., np.s_[3:17]])
    assert (stats.chunks_decoded, stats.chunks_missing) == (9, 3)


def test_shared_subchunks(written: Written) -> None:
    """Two entries may point to the same bytes."""
    shard = Shard(written)
    shard.entries[0] = list(shard.entries[5])
    written.whole[0:4] = written.whole[20:24]
    shard.save()
    written.check(zarrow.read_ragged(written.path, [...]), [...])


@pytest.mark.parametrize("size", [0, 1, 15, 50, INDEX - 1, INDEX + 3])
def test_shorter_than_its_index(written: Written, size: int) -> None:
    path = written.chunk(0)
    data = path.read_bytes()
    if size >= INDEX and not Shard(written).checked:
        return  # this index is shorter
    path.write_bytes(data[:size])
    with fails(zarrow.DecodeError, words=("c/0",)):
        zarrow.read_ragged(written.path, [np.s_[2:9]])
    the_other_shard_still_reads(written)


@pytest.mark.parametrize("lost", [1, 8, 40])
def test_cut_off(written: Written, lost: int) -> None:
    """At either end. Raw data that only moved, under an index that did not, cannot be told."""
    path = written.chunk(0)
    data = path.read_bytes()
    path.write_bytes(data[:-lost])
    with fails(zarrow.DecodeError, words=("c/0",)):
        zarrow.read_ragged(written.path, [...])
    layout = written.layout
    if layout.index_at == "end" and not layout.codecs:
        return
    path.write_bytes(data[lost:])
    with fails(zarrow.DecodeError, words=("c/0",)):
        zarrow.read_ragged(written.path, [...])


def test_damaged_subchunk(make: Maker) -> None:
    """Only a read that needs the damaged subchunk fails."""
    written = make(
        dtype="int32", shape=(24,), chunks=(4,), shards=(24,), codecs=("crc32c",), counting=True
    )
    shard = Shard(written)
    offset, _ = shard.entries[3]
    body = bytearray(shard.body)
    body[offset] ^= 1
    shard.body = bytes(body)
    shard.save()
    with fails(zarrow.DecodeError, words=("c/0",)):
        zarrow.read_ragged(written.path, [np.s_[0:2], np.s_[15:17]])
    selections: list[Any] = [np.s_[0:12], np.s_[16:24], np.s_[3:5]]
    written.check(zarrow.read_ragged(written.path, selections), selections)


def test_shard_is_a_folder(written: Written) -> None:
    written.chunk(0).unlink()
    written.chunk(0).mkdir()
    with fails(zarrow.StoreError, words=("c/0",)):
        zarrow.read_ragged(written.path, [np.s_[2:9]])
    the_other_shard_still_reads(written)


def test_missing_shard(written: Written) -> None:
    written.chunk(0).unlink()
    written.whole[0:24] = 0
    result, stats = zarrow.read_ragged(written.path, [..., np.s_[2:3]], return_stats=True)
    written.check(result, [..., np.s_[2:3]])
    assert (stats.chunks_decoded, stats.chunks_missing) == (6, 6)


# ---- lengths of what nothing bounds --------------------------------------------------------------

# Of text, and of pcodec, a subchunk may have any number of encoded bytes.
UNBOUNDED: dict[str, Callable[[Path], Any]] = {
    "text": lambda path: objects.write(path, TEXTS, (4,), kind="string", shards=(24,)),
    "text in zstd": lambda path: objects.write(
        path, TEXTS, (4,), kind="string", shards=(24,), compressors=ZstdCodec()
    ),
    "pcodec": lambda path: arrays.write(PCODEC, path),
}
TEXTS = objects.objects([f"{at}ü" * (at % 5) for at in range(48)])
PCODEC = Layout(dtype="int32", shape=(48,), chunks=(4,), shards=(24,), pcodec=True, counting=True)
HOSTILE_ENTRIES = [
    (0, 2**32),
    (0, 2**40),
    (8, 2**50),
    (0, 2**60),
    (3, 2**62),
    (0, 2**63 - 1),
    (1, 2**63),
    (0, 2**64 - 2),
    (2**50, 2**50),
    (2**62, 2**62),
    (2**63 - 8, 16),
]
HOSTILE = """
import resource, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from remote import store_of
import numpy as np, zarrow

kind, folder, url = sys.argv[2:]
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
arrays = [zarrow.open_array(store_of(kind, each, f"{url}/{each.name}"))
          for each in sorted(Path(folder).iterdir())]
for array in arrays:
    zarrow.read_ragged(array, [np.s_[24:48], np.s_[25:26], np.s_[0:12]])
before, longest = status("VmHWM"), 0
for array in arrays:
    for asked in ([...], [np.s_[13:15]], [np.s_[0:2], np.s_[10:30]]):
        for options in ({}, {"memory_limit": 50 << 20}, {"cache": zarrow.ChunkCache(1 << 20)}):
            began = time.perf_counter()
            try:
                zarrow.read_ragged(array, asked, **options)
            except zarrow.ZarrowError as error:
                print(type(error).__name__, error)
            else:
                print("no error:", array)
            longest = max(longest, time.perf_counter() - began)
print(longest, status("VmHWM") - before)
"""


@pytest.fixture(scope="module")
def hostile(http_server: FileServer) -> Path:
    """Arrays of two shards, of which an entry of the first lies."""
    folder = http_server.folder / "hostile-shards"
    for name, write in UNBOUNDED.items():
        for number, entry in enumerate(HOSTILE_ENTRIES):
            path = folder / f"{name.replace(' ', '-')}-{number}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about codecs that others may lack
                write(path)
            shard = path / "c" / "0"
            data = bytearray(shard.read_bytes())
            data[-INDEX - 4 + 48 : -INDEX - 4 + 64] = struct.pack("<2Q", *entry)
            data[-4:] = crc32c(data[-INDEX - 4 : -4]).to_bytes(4, "little")
            shard.write_bytes(data)
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/status is of Linux")
@pytest.mark.parametrize("kind", ["path", "http", "dict", "own", "mapping"])
def test_lengths_that_nothing_bounds(hostile: Path, http_server: FileServer, kind: str) -> None:
    """An error that names the key, soon and in little memory, whoever is asked for the bytes."""
    url, helpers = f"{http_server.url}/{hostile.name}", str(Path(__file__).parent)
    done = run(STATUS + HOSTILE, helpers, kind, str(hostile), url, timeout=120)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr}"
    *errors, last = done.stdout.splitlines()
    assert len(errors) == len(UNBOUNDED) * len(HOSTILE_ENTRIES) * 9
    for error in errors:
        is_limited = error.startswith("AllocationError") and "the memory limit" in error
        assert is_limited or error.startswith(("DecodeError", "StoreError")), error
        assert "key 'c/0'" in error
        assert "panic" not in error
    longest, grown = map(float, last.split())
    assert longest < 5
    assert grown < 100 << 20
