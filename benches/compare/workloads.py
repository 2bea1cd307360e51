"""What is selected from the arrays, and what the right answer is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from . import data

REVISION = "1"  # changes with the selections, so that older ones are made again
SAMPLE = 2_000  # selections that the slowest methods read where there are far more

Ints = NDArray[np.int64]
Box = tuple[Ints, Ints]  # starts and stops, each (selections, axes)
Select = Callable[[np.random.Generator, float, Path], Box | tuple[Ints, Ints, Ints]]


@dataclass(frozen=True, slots=True)
class Workload:
    """What is measured: a data set, and selections of it."""

    name: str
    title: str
    dataset: str
    select: Select
    seed: int
    arrays: tuple[str, ...] = ("a.zarr",)
    cold: bool = False


@dataclass
class Case:
    """A workload at some scale, ready to be read, or a sample of its selections."""

    name: str
    title: str
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
        return values[sample_of(len(values))] if self.sampled else values

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


def sample_of(count: int) -> Ints:
    """Give the positions of a sample of so many selections."""
    return np.linspace(0, count - 1, min(SAMPLE, count)).astype(np.int64)


def digest(values: Iterable[NDArray[Any]]) -> str:
    """Hash the values of a result, array by array."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in values:
        hashed.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return hashed.hexdigest()


def ensure(workload: Workload, folder: Path, factor: float) -> Case:
    """Give the case of a workload, with data and selections made now if need be."""
    source = data.ensure(workload.dataset, folder, factor)
    selected = folder / "selections" / f"{workload.name.removesuffix('-cold')}.npz"
    mark = json.dumps([REVISION, data.REVISION])
    paths = [str(source / name) for name in workload.arrays]
    if not selected.exists() or str(np.load(selected)["mark"]) != mark:
        rng = np.random.default_rng(workload.seed)
        starts, stops, *rows = workload.select(rng, factor, source)
        references = answers(paths, starts, stops)
        named: dict[str, Any] = dict(zip(("rows",), rows, strict=False)) | references
        selected.parent.mkdir(exist_ok=True)
        np.savez(selected, mark=mark, starts=starts, stops=stops, **named)
    return Case(workload.name, workload.title, workload.cold, paths, str(selected))


def answers(paths: list[str], starts: Ints, stops: Ints) -> dict[str, str]:
    """Hash what NumPy gives for the selections on whole arrays: for all, and for a sample."""
    everything, some = [], []
    for path in paths:
        whole = np.asarray(zarr.open_array(path, mode="r")[...])
        boxes = zip(starts.tolist(), stops.tolist(), strict=True)
        pieces = [whole[tuple(map(slice, a, b))].reshape(-1) for a, b in boxes]
        everything.append(np.concatenate(pieces))
        some.append(np.concatenate([pieces[i] for i in sample_of(len(pieces))]))
    return {"reference": digest(everything), "sample_reference": digest(some)}
