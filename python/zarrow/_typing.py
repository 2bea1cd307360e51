"""The types of what a caller may pass."""

import os
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from zarrow._zarrow import Array


class ArrowArrayExportable(Protocol):
    """An object of the Arrow C data interface."""

    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...


class ArrowStreamExportable(Protocol):
    """An object of the Arrow C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class NumpyExportable(Protocol):
    """An object that turns into a NumPy array."""

    def __array__(self) -> np.ndarray[Any, Any]: ...


class ZarrArray(Protocol):
    """An array or a group of zarr-python, which zarrow does not import."""

    @property
    def store(self) -> Any:
        """The store."""

    @property
    def path(self) -> str:
        """The path in the store."""

    @property
    def metadata(self) -> Any:
        """The metadata, which knows the version of the format."""


class ZarrStore(Protocol):
    """A store of zarr-python: a ``zarr.abc.store.Store``, which zarrow does not import."""

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Give the value of a key, or bytes of it."""


class ObStore(Protocol):
    """A store of obstore, which zarrow does not import."""

    @property
    def prefix(self) -> Any:
        """What all keys begin with."""


class IcechunkSession(Protocol):
    """A session of Icechunk, which zarrow does not import."""

    @property
    def store(self) -> Any:
        """The store of the session."""


#: The path or URL of a store, or a store.
StoreLike: TypeAlias = (
    str | os.PathLike[str] | ZarrStore | ObStore | IcechunkSession | Mapping[str, Any]
)

#: The path or URL of an array or a store, a store, an array of zarr-python, or a handle of zarrow.
ArrayLike: TypeAlias = StoreLike | ZarrArray | Array

#: Is told the chunks that are done, all there are to do, and the same in decoded bytes.
ProgressCallback: TypeAlias = Callable[[int, int, int, int], object]

#: One item of a selection. A list or an array holds indices, or the bools of a mask.
Item: TypeAlias = (
    slice
    | int
    | np.integer[Any]
    | EllipsisType
    | Sequence[int]
    | Sequence[bool]
    | np.ndarray[Any, Any]
    | ArrowArrayExportable
)


class Transform(Protocol):
    """Shaped like ``zarr_indexing.IndexTransform``."""

    @property
    def domain(self) -> Any:
        """The positions of the result."""

    @property
    def output(self) -> tuple[Any, ...]:
        """A map for each axis of the array, to its indices."""


#: One selection: an item for each axis from the first on, one bare item, an IndexTransform, or None
#: for a null row.
Selection: TypeAlias = Item | tuple[Item, ...] | Transform

#: What becomes of the part of a range, box or window that is beyond its array.
OutOfBounds: TypeAlias = Literal["error"] | Literal["clip", "fill", "null"]

#: How the index arrays of one selection belong together.
Indexing: TypeAlias = Literal["orthogonal"] | Literal["pointwise"]

#: What becomes of chunks that the store does not hold.
MissingChunks: TypeAlias = Literal["fill"] | Literal["null", "error"]

#: Integers in any of the forms that :func:`zarrow.ranges` and :func:`zarrow.boxes` take.
Integers: TypeAlias = (
    np.ndarray[Any, Any]
    | ArrowArrayExportable
    | ArrowStreamExportable
    | NumpyExportable
    | Sequence[int]
    | Sequence[Sequence[int]]
)

#: A choice of rows.
Rows: TypeAlias = slice | Integers | Sequence[bool]
