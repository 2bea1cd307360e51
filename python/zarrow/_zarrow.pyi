from collections.abc import Mapping
from typing import Any, Final, Literal, final, overload

import numpy as np
import pyarrow as pa

__all__ = [
    "Array",
    "Canceller",
    "ChunkCache",
    "Plan",
    "ReadStats",
    "Selections",
    "__version__",
    "_after_fork",
    "_after_fork_in_child",
    "_at_exit",
    "_before_fork",
    "_boxes",
    "_chunk_cache",
    "_items",
    "_lists",
    "_open_local",
    "_open_remote",
    "_open_remotes",
    "_plan",
    "_read",
    "_read_batch",
    "_read_stats",
    "_remote_get",
    "_remote_list",
    "release_unused",
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
        """NumPy data type that holds one element, in native byte order.

        It is that of the result where NumPy does not have the data type itself. Text of variable
        length has NumPy's StringDType (object in NumPy 1); bytes and lists are objects.
        """
    @property
    def zarr_dtype(self) -> str:
        """Zarr v3's name of the data type."""
    @property
    def fields(self) -> tuple[str, ...] | None:
        """The fields that are read of a structured data type, or None if all are."""
    def _with_fields(self, names: list[str]) -> Array: ...
    @property
    def _is_variable(self) -> bool: ...
    @property
    def _is_local(self) -> bool: ...
    @property
    def _item_dtype(self) -> np.dtype[Any] | None: ...
    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of a read chunk, in elements: a subchunk where the array is sharded.

        Raises NotImplementedError where they differ in shape: `read_chunk_sizes` has them all.
        """
    @property
    def shards(self) -> tuple[int, ...] | None:
        """Shape of a shard, in elements, or None where the array is not sharded.

        Raises NotImplementedError where they differ in shape: `write_chunk_sizes` has them all.
        """
    @property
    def read_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """For each axis, the length of each read chunk, in elements: the last ends with the array.

        A tuple with one number for each chunk along an axis, as in zarr-python.
        """
    @property
    def write_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """As `read_chunk_sizes`, of shards where the array is sharded."""
    @property
    def attrs(self) -> Mapping[str, Any]:
        """The user attributes of the array."""
    @property
    def path(self) -> str:
        """Where the array lies: the directory of its metadata; in a zip file, its path and that."""
    @property
    def zarr_format(self) -> int:
        """2 or 3."""
    def __repr__(self) -> str: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Canceller:
    """What ends a read from another thread."""

    def __new__(cls) -> Canceller: ...
    def cancel(self) -> None:
        """End the read that it was given to, soon."""

@final
class ChunkCache:
    """Decoded chunks, shard indices and what is missing, for any number of reads and threads.

    Given to reads as `cache`. What was used longest ago is let go of when all would be more than
    `max_bytes`. Of several reads that need a chunk at once, one decodes it.

    A chunk that was written anew is told apart: by the time of modification of its file, by the
    ETag of its object, or where there is none, by when the server says that it was modified. For
    that, a read asks an object store of each chunk that is held (of each shard, if there are)
    whether it has changed; that takes a round trip, but no bytes. Other stores cannot tell:
    :meth:`clear` the cache after a write.

    Parameters
    ----------
    max_bytes
        The most bytes to hold.
    recheck
        Whether object stores are asked. False: what is held is what counts.

    Examples
    --------
    >>> import numpy as np, zarr, zarrow
    >>> z = zarr.create_array("tide.zarr", data=np.arange(100), chunks=(10,))
    >>> cache = zarrow.ChunkCache(1 << 20)
    >>> for start in range(0, 90, 2):
    ...     window = zarrow.read_ragged(z, [np.s_[start : start + 10]], cache=cache)
    >>> cache.misses
    10
    """

    def __new__(cls, max_bytes: int, *, recheck: bool = True) -> ChunkCache: ...
    @property
    def max_bytes(self) -> int:
        """The most bytes that it holds."""
    @property
    def recheck(self) -> bool:
        """Whether object stores are asked if what is held has changed."""
    @property
    def nbytes(self) -> int:
        """Bytes that it holds now."""
    @property
    def hits(self) -> int:
        """Chunks that were found, since the last :meth:`clear`."""
    @property
    def misses(self) -> int:
        """Chunks that were not found, or were stale."""
    @property
    def evictions(self) -> int:
        """Values that were let go of to make room for others."""
    def clear(self) -> None:
        """Let go of everything, and count from 0 again."""
    def __len__(self) -> int: ...
    def __repr__(self) -> str: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Selections:
    """Many selections in columns. Made by :func:`zarrow.ranges` and its like."""

    def __len__(self) -> int: ...
    def __repr__(self) -> str: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Plan:
    """What a read will do. Made by :func:`zarrow.plan`.

    A plan is inert: it has read nothing. It may be read any number of times, and pickled.
    """

    @property
    def rows(self) -> int:
        """Number of selections: the length of the result."""
    @property
    def row_shapes(self) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Shape of each row in the result, in elements: shape (rows, kept axes)."""
    @property
    def bytes_out(self) -> int:
        """Bytes of the values of the result, one for each bool.

        Of values of variable length, their offsets: eight bytes each.
        """
    @property
    def read_chunks(self) -> int:
        """Read chunks that the selections touch."""
    @property
    def bytes_to_decode(self) -> int:
        """Bytes of the touched read chunks, decoded.

        Of values of variable length, eight bytes each.
        A read decodes fewer where a codec can stop early, and none of chunks that are missing.
        """
    @property
    def pieces(self) -> int:
        """Parts of selections, each in one read chunk."""
    @property
    def amplification(self) -> float:
        """Bytes to decode for each byte of the result; NaN if that is empty."""
    def chunks(self) -> pa.RecordBatch:
        """Give the read chunks in the order in which they are read.

        One row each, with the columns `source` (which array), `key` (of the store: of a shard,
        where the array is sharded), `chunk` (index of the read chunk along each axis), `rows` (how
        many it serves) and `bytes` (decoded).
        """
    @overload
    def read(
        self,
        *,
        return_stats: Literal[False] = False,
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> pa.Array:
        """Read the rows, as :func:`zarrow.read_ragged` does with the arguments of the plan.

        What is in the store now is read, whatever it was when the plan was made. Missing chunks
        and fill value are those that :func:`zarrow.plan` was given.

        Parameters
        ----------
        return_stats
            Whether to give back what the read did as well.
        threads, memory_limit
            As in :func:`zarrow.read_ragged`. None: what :func:`zarrow.plan` was given.

        Raises
        ------
        StoreError, DecodeError, AllocationError
            As :func:`zarrow.read_ragged`.
        """
    @overload
    def read(
        self,
        *,
        return_stats: Literal[True],
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> tuple[pa.Array, ReadStats]: ...
    @overload
    def read(
        self,
        *,
        return_stats: bool,
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> pa.Array | tuple[pa.Array, ReadStats]: ...
    def __repr__(self) -> str: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

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
    def chunks_foreign(self) -> int:
        """Of these, chunks that zarr-python decoded, because zarrow does not have their codecs."""
    @property
    def chunks_missing(self) -> int:
        """Read chunks that the store does not hold; they read as the fill value."""
    @property
    def chunks_cached(self) -> int:
        """Read chunks that were found decoded in a :class:`ChunkCache`."""
    @property
    def bytes_fetched(self) -> int:
        """Encoded bytes fetched from the store, shard indices included."""
    @property
    def bytes_decoded(self) -> int:
        """Bytes that came out of decoding."""
    @property
    def bytes_out(self) -> int:
        """Bytes of the values in the result; of those of variable length, with their offsets."""
    @property
    def requests(self) -> int:
        """Requests to a store that is not on this machine.

        Those that a store repeats by itself count once.
        """
    @property
    def max_in_flight(self) -> int:
        """The most requests that were in flight at once."""
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
    def as_dict(self) -> dict[str, int | float]:
        """Give all of these by name."""
    def __repr__(self) -> str: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

def release_unused() -> None:
    """Give memory that is kept for results to come back to the system.

    Memory of results that are gone, from 256 KiB each up to 1 GiB in all, is kept for those to
    come: to be given fresh memory costs a read from a warm cache about a fifth of its time. It
    counts as memory of this process, though the system may take it back at any time where it can
    be told so (``MADV_FREE`` on Linux and macOS; elsewhere 32 MiB are kept). A read with a
    `memory_limit` lets go of what it does not take for its result.

        >>> import zarrow
        >>> zarrow.release_unused()
    """

def _open_local(
    root: str,
    zarr_format: int | None,
    fields: list[str] | None = None,
    foreign: Any = None,
    inside: str | None = None,
) -> Array: ...
def _open_remote(arguments: dict[str, Any], watch: dict[str, Any] | None = None) -> Array: ...
def _open_remotes(
    arguments: list[dict[str, Any]], watch: dict[str, Any] | None = None
) -> list[Array]: ...
def _remote_get(
    kind: str, store: Any, storage_options: dict[str, str] | None, keys: list[str]
) -> list[bytes | None]: ...
def _remote_list(
    kind: str, store: Any, storage_options: dict[str, str] | None, path: str
) -> list[str]: ...
def _before_fork() -> None: ...
def _after_fork() -> None: ...
def _after_fork_in_child() -> None: ...
def _at_exit() -> None: ...
def _chunk_cache(max_bytes: int, recheck: bool) -> ChunkCache: ...
def _read_stats(values: dict[str, int | float]) -> ReadStats: ...
def _boxes(*args: Any) -> Selections: ...
def _lists(*args: Any) -> Selections: ...
def _items(*args: Any) -> Selections: ...
def _plan(*args: Any) -> Plan: ...
def _read(
    arrays: list[Array],
    of: pa.Array | None,
    selections: Any,
    meaning: tuple[str, bool],
    options: tuple[Any, ...],
    watch: dict[str, Any],
) -> tuple[pa.Array, ReadStats]: ...
def _read_batch(
    arrays: list[tuple[str, Array]],
    selections: Any,
    indexing: str,
    options: tuple[Any, ...],
    watch: dict[str, Any],
) -> tuple[pa.RecordBatch, ReadStats]: ...
