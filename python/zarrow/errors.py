"""The exceptions that zarrow raises.

Each one is a :class:`ZarrowError` and also the built-in exception that a Python programmer expects
in its place, so that both ``except zarrow.ZarrowError`` and ``except IndexError`` work. The message
says what was found, what was expected and what to do about it.

An argument of the wrong type or form is a plain :class:`TypeError` or :class:`ValueError`: that is
a mistake in the call, whatever the data.
"""

__all__ = [
    "AllocationError",
    "CancelledError",
    "DecodeError",
    "MetadataError",
    "NotFoundError",
    "ReadTimeoutError",
    "SelectionError",
    "StoreError",
    "UnsupportedError",
    "ZarrowError",
]


class ZarrowError(Exception):
    """Any error of zarrow's own. Catch this one to catch all of them."""


class SelectionError(ZarrowError, IndexError):
    """A selection does not fit the array, or two columns of selections do not fit each other.

    The message names the selection, counted from 0: ``selection 3: ...``. Also an
    :class:`IndexError`.
    """


class StoreError(ZarrowError, OSError):
    """The store could not be read: no permission, a disk error, a file that vanished.

    Also an :class:`OSError`.
    """


class NotFoundError(StoreError, FileNotFoundError):
    """There is no Zarr array at the path. Also a :class:`FileNotFoundError`."""


class MetadataError(ZarrowError, ValueError):
    """The metadata of the array is not valid Zarr. Also a :class:`ValueError`."""


class DecodeError(ZarrowError, ValueError):
    """A chunk or a shard index is truncated or corrupt. Also a :class:`ValueError`."""


class UnsupportedError(ZarrowError, NotImplementedError):
    """Valid, but zarrow does not do it yet: a codec, a data type, a selection or a store.

    Also a :class:`NotImplementedError`.
    """


class AllocationError(ZarrowError, MemoryError):
    """The result is larger than the memory that can be had. Also a :class:`MemoryError`."""


class CancelledError(ZarrowError):
    """The read was ended before it was done."""


class ReadTimeoutError(ZarrowError, TimeoutError):
    """The read took longer than its `timeout`. Also a :class:`TimeoutError`."""
