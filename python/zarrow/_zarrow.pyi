from collections.abc import Mapping
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

__all__ = [
    "Array",
    "ReadStats",
    "Selections",
    "__version__",
    "_boxes",
    "_open_local",
    "_ranges",
    "_read",
]

__version__: Final[str]

@final
class Array:
    """A Zarr array that is open for reading.

    Made by :func:`zarrow.open_array`. A handle holds the parsed metadata and may be used by many
    threads and for any number of reads.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis, in elements."""
    @property
    def ndim(self) -> int:
        """Number of axes."""
    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy data type of one element, in native byte order."""
    @property
    def zarr_dtype(self) -> str:
        """Zarr v3's name of the data type."""
    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of a read chunk, in elements: a subchunk where the array is sharded."""
    @property
    def shards(self) -> tuple[int, ...] | None:
        """Shape of a shard, in elements, or None where the array is not sharded."""
    @property
    def attrs(self) -> Mapping[str, Any]:
        """The user attributes of the array."""
    @property
    def path(self) -> str:
        """Where the array lies: the directory of its metadata."""
    @property
    def zarr_format(self) -> int:
        """2 or 3."""
    def __repr__(self) -> str: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Selections:
    """Many selections in columns. Made by :func:`zarrow.ranges` and :func:`zarrow.boxes`."""

    def __len__(self) -> int: ...
    def __repr__(self) -> str: ...

@final
class ReadStats:
    """What one read did."""

    @property
    def rows(self) -> int:
        """Selections read: the length of the result."""
    @property
    def chunks_fetched(self) -> int:
        """Read chunks whose encoded bytes were fetched from the store."""
    @property
    def chunks_decoded(self) -> int:
        """Read chunks that were decoded."""
    @property
    def chunks_missing(self) -> int:
        """Read chunks that the store does not hold; they read as the fill value."""
    @property
    def bytes_fetched(self) -> int:
        """Encoded bytes fetched from the store, shard indices included."""
    @property
    def bytes_decoded(self) -> int:
        """Bytes that came out of decoding."""
    @property
    def bytes_out(self) -> int:
        """Bytes of the values in the result."""
    @property
    def pieces(self) -> int:
        """Parts of selections that were copied, each from one read chunk."""
    @property
    def bytes_held(self) -> int:
        """The most bytes of chunks that were held at once, beside the result."""
    @property
    def plan_seconds(self) -> float:
        """Wall time of planning, in seconds."""
    @property
    def read_seconds(self) -> float:
        """Wall time of fetching, decoding and copying, in seconds."""
    def as_dict(self) -> dict[str, int | float]: ...
    def __repr__(self) -> str: ...

def _open_local(root: str, zarr_format: int | None) -> Array: ...
def _ranges(starts: pa.Array, stops: pa.Array) -> Selections: ...
def _boxes(starts: pa.Array, stops: pa.Array, rows: int, ndim: int) -> Selections: ...
def _read(
    array: Array, selections: Any, threads: int | None, memory_limit: int | None
) -> tuple[pa.Array, ReadStats]: ...
