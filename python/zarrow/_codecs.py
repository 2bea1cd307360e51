"""Chunks with codecs that zarrow does not have, decoded by zarr-python."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from zarrow.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable

# Decoding these runs code that the file brings along.
_UNSAFE = ("pickle",)


def foreign_decoder(metadata: str, zarr_format: int) -> ForeignDecoder:
    """Make the decoder of an array's chunks, by the metadata document of one chunk as an array.

    Raises
    ------
    UnsupportedError
        A codec runs code of the file, or zarr-python is not installed or does not know a codec.
    """
    document = json.loads(metadata)
    names = _codec_names(document)
    unsafe = [name for name in names if name.removeprefix("numcodecs.") in _UNSAFE]
    if unsafe:
        raise UnsupportedError(
            f"codec {unsafe[0]!r} runs code that the file brings along; "
            "read it with zarr-python if you trust the file, and write it again without"
        )
    try:
        return ForeignDecoder(document, zarr_format)
    except ImportError as error:
        raise UnsupportedError(
            f"codecs {', '.join(names)} are left to zarr-python: {error}; "
            "install the packages zarr and numcodecs"
        ) from error
    except Exception as error:
        raise UnsupportedError(
            f"zarr-python does not read codecs {', '.join(names)} either: "
            f"{type(error).__name__}: {error}; install the package that brings the codec"
        ) from error


class ForeignDecoder:
    """Decodes the chunks of one array: each is the only chunk of an array in memory.

    Parameters
    ----------
    document
        The metadata of that array.
    zarr_format
        2 or 3.
    """

    def __init__(self, document: dict[str, Any], zarr_format: int) -> None:
        import zarr.core.buffer.cpu as buffers  # noqa: PLC0415

        self._buffer = buffers.Buffer
        self._format = zarr_format
        name = ".zarray" if zarr_format == 2 else "zarr.json"
        self._documents = {name: json.dumps(document).encode()}
        ndim = len(document["shape"])
        if zarr_format == 2:
            self._key = ".".join(["0"] * max(ndim, 1))
        else:
            self._key = "/".join(["c"] + ["0"] * ndim)
        self._local = threading.local()
        # What is wrong with the metadata or the codecs is to be seen on opening.
        _, array = self._opened()
        _look_up(getattr(array.metadata, "codecs", ()))

    def _opened(self) -> tuple[dict[str, Any], Any]:
        """Give the store and the array of this thread."""
        import zarr  # noqa: PLC0415

        if not hasattr(self._local, "opened"):
            buffer = self._buffer.from_bytes
            store: dict[str, Any] = {
                name: buffer(document) for name, document in self._documents.items()
            }
            zarr_format: Any = self._format
            array = zarr.open_array(store=store, mode="r", zarr_format=zarr_format)
            self._local.opened = (store, array)
        opened: tuple[dict[str, Any], Any] = self._local.opened
        return opened

    def __call__(self, encoded: bytes) -> np.ndarray[Any, Any]:
        """Decode one chunk: its elements in C order and native byte order."""
        store, array = self._opened()
        store[self._key] = self._buffer.from_bytes(encoded)
        try:
            values = np.asarray(array[...])
        finally:
            del store[self._key]
        return np.ascontiguousarray(values, values.dtype.newbyteorder("="))


def _look_up(codecs: Iterable[Any]) -> None:
    """Have zarr-python's wrappers of codecs look for these, which they put off until decoding."""
    for codec in codecs:
        getattr(codec, "_codec", None)
        _look_up(getattr(codec, "codecs", ()))


def _codec_names(document: dict[str, Any]) -> list[str]:
    """Give the names of all codecs, inside and outside of shards."""
    names = []
    codecs = [document.get("compressor"), *(document.get("filters") or [])]
    stack = [*codecs, *document.get("codecs", [])]
    while stack:
        codec = stack.pop(0)
        if isinstance(codec, str):
            names.append(codec)
        elif isinstance(codec, dict):
            names.append(str(codec.get("name") or codec.get("id")))
            stack += (codec.get("configuration") or {}).get("codecs", [])
    return names
