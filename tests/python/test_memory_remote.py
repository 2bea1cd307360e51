"""The memory limit of reads from stores that are asked."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zarrow
from remote import LazyDict, OwnStore

MIB = 1 << 20


def files(path: Path) -> dict[str, bytes]:
    """Give what is in a folder."""
    return {
        str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["u1", "text"])
def test_stores_of_python_are_asked_for_what_there_is_room_for(
    tmp_path: Path, dtype: str, *, compressed: bool
) -> None:
    """Their answers come whole, so that there is no other way to bound them."""
    count = 40
    numbers = np.random.default_rng(2).integers(0, 256, count * MIB, dtype="u1")
    codecs: dict[str, Any] = {} if compressed else {"compressors": None}
    if dtype == "u1":
        values: Any = numbers
        zarr.create_array(tmp_path / "a", data=values, chunks=(MIB,), **codecs)
        rows = [slice(at * MIB + 5, (at + 1) * MIB - 5) for at in range(count)]
    else:
        step = 1000
        text = numbers.tobytes().hex()
        length = MIB // step
        texts = [text[at * length : (at + 1) * length] for at in range(count * step)]
        values = np.array(texts, dtype=np.dtypes.StringDType())
        zarr.create_array(tmp_path / "a", data=values, chunks=(step,), **codecs)
        rows = [slice(at * step + 5, at * step + 90) for at in range(count)]
    store = OwnStore(files(tmp_path / "a"), latency=0.005)
    array = zarrow.open_array(store)
    store.asked.forget()
    limit = 16 * MIB
    result, stats = zarrow.read_ragged(array, rows, memory_limit=limit, return_stats=True)
    if dtype == "u1":
        expected = np.concatenate([values[row] for row in rows])
        np.testing.assert_array_equal(result.flatten().to_numpy(), expected)
    else:
        assert result.to_pylist() == [values[row].tolist() for row in rows]
    assert stats.bytes_held <= limit
    # Chunks are of a MiB each.
    assert 2 <= store.asked.most <= 17, store.asked.most
    without = zarrow.read_ragged(array, rows)
    assert without == result
    assert store.asked.most > 17


@pytest.mark.parametrize("order", ["native", "other"])
@pytest.mark.parametrize("shards", [None, (16 * MIB,)])
def test_parts_of_long_raw_chunks(tmp_path: Path, order: str, shards: Any) -> None:
    """What is put together before it is decoded counts, too."""
    values = np.random.default_rng(3).integers(0, 1 << 16, 16 * MIB, dtype="u2")
    endian = "little" if order == "native" else "big"
    zarr.create_array(
        tmp_path / "a", data=values, chunks=(8 * MIB,), shards=shards, compressors=None,
        serializer=zarr.codecs.BytesCodec(endian=endian),
    )  # fmt: skip
    store = LazyDict(files(tmp_path / "a"))
    numbers = random.Random(4)
    far = [slice(at, at + 1000) for at in (0, 6 * MIB, 9 * MIB, 15 * MIB)]
    near = [slice(at, at + 50) for at in (numbers.randrange(2 * MIB) for _ in range(400))]
    most = [slice(10, 7 * MIB), slice(5 * MIB, 7 * MIB + 50)]
    outcomes = []
    for rows in (far, near, most):
        for limit in (2, 9, 18, 30, 60, 100):
            try:
                result, stats = zarrow.read_ragged(
                    store, rows, memory_limit=limit * MIB, return_stats=True
                )
            except zarrow.AllocationError as error:
                assert "memory limit" in str(error)
                outcomes.append(False)
                continue
            outcomes.append(True)
            expected = np.concatenate([values[row] for row in rows])
            np.testing.assert_array_equal(result.flatten().to_numpy(), expected)
            assert stats.bytes_held <= limit * MIB, (limit, stats.bytes_held)
    assert outcomes[:6] == [True] * 6
    assert not outcomes[12]
    assert all(outcomes[-2:])
