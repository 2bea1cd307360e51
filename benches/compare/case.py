"""A workload at some scale, as every process sees it. Imports no reader."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable

Ints = NDArray[np.int64]


@dataclass
class Case:
    """A workload at some scale, ready to be read, or a sample of its selections."""

    name: str
    title: str
    detail: str
    cold: bool
    paths: list[str]
    selected: str
    sampled: bool = False

    def described(self) -> dict[str, Any]:
        """Give what makes an equal case in another process."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Selections and the hashes of right answers, as they were stored."""
        with np.load(self.selected) as stored:
            return dict(stored)

    def _some(self, values: Ints) -> Ints:
        return values[self.arrays["sample"]] if self.sampled else values

    @cached_property
    def starts(self) -> Ints:
        """First index on each axis, of each selection."""
        return self._some(self.arrays["starts"])

    @cached_property
    def stops(self) -> Ints:
        """Index after the last on each axis, of each selection."""
        return self._some(self.arrays["stops"])

    @cached_property
    def rows(self) -> Ints | None:
        """Rows of the matrix, where the selections are rows of a CSR matrix."""
        return self.arrays.get("rows")

    @cached_property
    def slices(self) -> list[tuple[slice, ...]]:
        """Give the selections as Python has them."""
        columns = zip(self.starts.tolist(), self.stops.tolist(), strict=True)
        return [tuple(map(slice, start, stop)) for start, stop in columns]

    @property
    def count(self) -> int:
        """Number of selections."""
        return len(self.starts)

    @property
    def all_count(self) -> int:
        """Number of selections of which these may be a sample."""
        return len(self.arrays["starts"])

    @property
    def sample_count(self) -> int:
        """Number of selections of a sample."""
        return len(self.arrays["sample"])

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return int(self.starts.shape[1])

    @property
    def npy(self) -> Path | None:
        """File of the array for NumPy, if there is one."""
        path = Path(self.paths[0]).with_suffix(".npy")
        return path if path.exists() else None

    @property
    def sharded(self) -> bool:
        """Whether chunks are parts of files."""
        metadata = Path(self.paths[0], "zarr.json")
        return metadata.exists() and "sharding_indexed" in metadata.read_text()

    @property
    def reference(self) -> str:
        """Hash of the right answer."""
        return str(self.arrays["sample_reference" if self.sampled else "reference"])


def digest(values: Iterable[NDArray[Any]]) -> str:
    """Hash the values of a result, array by array."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in values:
        hashed.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return hashed.hexdigest()
