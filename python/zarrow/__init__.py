"""Read many selections of differing shape from a Zarr array in one call, as one Arrow array.

    >>> import numpy as np, zarr, zarrow
    >>> sky = np.arange(24, dtype="u1").reshape(4, 6)
    >>> _ = zarr.create_array("sky.zarr", data=sky, chunks=(2, 3))
    >>> crops = zarrow.read_ragged("sky.zarr", [np.s_[0:2, 1:3], np.s_[3:4, :]])
    >>> crops.to_pylist()
    [[[1, 2], [7, 8]], [[18, 19, 20, 21, 22, 23]]]

Start with :func:`read_ragged`. Use :func:`ranges` and :func:`boxes` where the selections are
columns of numbers, and :func:`open_array` to read one array many times.
"""

from zarrow._api import open_array, read_ragged
from zarrow._selections import boxes, ranges
from zarrow._zarrow import Array, ReadStats, Selections, __version__
from zarrow.errors import (
    AllocationError,
    DecodeError,
    MetadataError,
    NotFoundError,
    SelectionError,
    StoreError,
    UnsupportedError,
    ZarrowError,
)

__all__ = [
    "AllocationError",
    "Array",
    "DecodeError",
    "MetadataError",
    "NotFoundError",
    "ReadStats",
    "SelectionError",
    "Selections",
    "StoreError",
    "UnsupportedError",
    "ZarrowError",
    "__version__",
    "boxes",
    "open_array",
    "ranges",
    "read_ragged",
]
