"""Read many selections of differing shape from a Zarr array in one call, as one Arrow array.

    >>> import numpy as np, zarr, zarrow
    >>> sky = np.arange(24, dtype="u1").reshape(4, 6)
    >>> _ = zarr.create_array("sky.zarr", data=sky, chunks=(2, 3))
    >>> crops = zarrow.read_ragged("sky.zarr", [np.s_[0:2, 1:3], np.s_[3:4, :]])
    >>> crops.to_pylist()
    [[[1, 2], [7, 8]], [[18, 19, 20, 21, 22, 23]]]

Start with :func:`read_ragged`. Use :func:`ranges`, :func:`boxes`, :func:`windows`, :func:`rows` and
:func:`indices` where the selections are columns of numbers, :func:`read_batch` for several arrays,
:func:`open_array` to read one array many times, and :func:`plan` to see what a read will do.
"""

from zarrow._api import plan, read_ragged, read_ragged_async
from zarrow._batch import read_batch, read_batch_async
from zarrow._group import Group, open_group
from zarrow._open import open_array
from zarrow._selections import boxes, indices, ranges, rows, windows
from zarrow._zarrow import (
    Array,
    ChunkCache,
    Plan,
    ReadStats,
    Selections,
    __version__,
    release_unused,
)
from zarrow.errors import (
    AllocationError,
    CancelledError,
    DecodeError,
    MetadataError,
    NotFoundError,
    ReadTimeoutError,
    SelectionError,
    StoreError,
    UnsupportedError,
    ZarrowError,
)

__all__ = [
    "AllocationError",
    "Array",
    "CancelledError",
    "ChunkCache",
    "DecodeError",
    "Group",
    "MetadataError",
    "NotFoundError",
    "Plan",
    "ReadStats",
    "ReadTimeoutError",
    "SelectionError",
    "Selections",
    "StoreError",
    "UnsupportedError",
    "ZarrowError",
    "__version__",
    "boxes",
    "indices",
    "open_array",
    "open_group",
    "plan",
    "ranges",
    "read_batch",
    "read_batch_async",
    "read_ragged",
    "read_ragged_async",
    "release_unused",
    "rows",
    "windows",
]
