"""Chunks with codecs that zarrow does not have, decoded by zarr-python."""

from __future__ import annotations

import json
import math
import pickle
import threading
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from zarrow.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Decoding these runs code that the file brings along.
_UNSAFE = ("pickle",)


def foreign_decoder(
    metadata: str, zarr_format: int, *, allow_pickle: bool = False
) -> ForeignDecoder | ObjectsDecoder:
    """Make the decoder of an array's chunks, by the metadata document of one chunk as an array.

    Raises
    ------
    UnsupportedError
        A codec runs code of the file, or zarr-python is not installed or does not know a codec.
    """
    document = json.loads(metadata)
    names = _codec_names(document)
    unsafe = [name for name in names if name.removeprefix("numcodecs.") in _UNSAFE]
    if unsafe and not allow_pickle:
        raise UnsupportedError(
            f"codec {unsafe[0]!r} runs code that the file brings along; if you trust whoever wrote "
            "the file, open it with open_array(..., allow_pickle=True)"
        )
    is_of_objects = zarr_format == 2 and str(document["dtype"]).lstrip("<>|=").startswith("O")
    try:
        if is_of_objects:
            return ObjectsDecoder(document)
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


class ObjectsDecoder:
    """Decodes the chunks of one v2 array of objects with numcodecs; zarr-python 3 has no such type.

    Parameters
    ----------
    document
        The metadata of an array that is a chunk.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self._shape = tuple(document["shape"])
        self._order: Literal["C", "F"] = "F" if document.get("order") == "F" else "C"
        codecs = [*(document.get("filters") or []), document.get("compressor")]
        self._decoders = [_decoder_of(dict(codec)) for codec in reversed(codecs) if codec]

    def _decoded(self, encoded: bytes) -> list[Any]:
        """Give the objects of a chunk in C order."""
        chunk: Any = encoded
        for decode in self._decoders:
            chunk = decode(chunk)
        count = math.prod(self._shape)
        if isinstance(chunk, _Listed):
            return chunk.objects(self._shape, self._order)
        array = np.asarray(chunk)
        if array.dtype.kind not in "OUS":
            raise TypeError(f"the codecs give {array.dtype}, and no objects")
        if array.size != count:
            raise ValueError(f"{array.size} objects; expected {count}")
        if array.shape != self._shape:
            # Some codecs write an array as it lies in memory, others with its shape.
            array = array.reshape(self._shape, order=self._order)
        objects: list[Any] = array.reshape(-1).tolist()
        return objects

    def objects(
        self, encoded: bytes, is_text: bool
    ) -> tuple[bytes, np.ndarray[Any, Any], list[tuple[int, str | None]]]:
        """Decode one chunk: the values' bytes, where each ends, and what is no value."""
        wanted = str if is_text else bytes
        values, others = [], []
        for number, value in enumerate(self._decoded(encoded)):
            if isinstance(value, wanted):
                values.append(value.encode() if isinstance(value, str) else value)
                continue
            others.append((number, None if value is None else type(value).__name__))
            values.append(b"")
        ends = np.cumsum([len(value) for value in values], dtype=np.uint64)
        return b"".join(values), ends, others

    def holds_bytes(self, encoded: bytes) -> bool:
        """Whether the first value of a chunk is bytes rather than text."""
        kinds = (type(value) for value in self._decoded(encoded))
        first = next((kind for kind in kinds if issubclass(kind, (str, bytes))), str)
        return issubclass(first, bytes)


class _Listed:
    """What `json2` and `msgpack2` write: nested lists, a data type and a shape.

    numcodecs makes an array of that shape before it sees how many objects there are.
    """

    def __init__(self, items: Any) -> None:
        if not (isinstance(items, list) and len(items) > 1 and isinstance(items[-1], list)):
            raise ValueError("no list of objects with a data type and a shape")
        *self._items, _, shape = items
        self._shape = tuple(shape)

    def objects(self, expected: tuple[int, ...], order: Literal["C", "F"]) -> list[Any]:
        """Give all objects in C order."""
        if self._shape not in (expected, (math.prod(expected),)):
            raise ValueError(f"objects of shape {self._shape}; expected {expected}")
        level = self._items
        for axis, length in enumerate(self._shape):
            lists = [level] if axis == 0 else level
            if not all(isinstance(each, list) and len(each) == length for each in lists):
                raise ValueError(f"lists that are not all of length {length} on axis {axis}")
            level = [each for one in lists for each in one]
        if len(level) != math.prod(expected):
            raise ValueError(f"{len(level)} objects; expected {math.prod(expected)}")
        if self._shape != expected and order == "F":
            numbers = np.arange(len(level)).reshape(expected, order="F")
            return [level[number] for number in numbers.reshape(-1)]
        return level


def _decoder_of(config: dict[str, Any]) -> Callable[[Any], Any]:
    """Give what undoes one codec of numcodecs."""
    name = config["id"]
    if name == "json2":
        encoding = config.get("encoding", "utf-8")
        return lambda chunk: _Listed(json.loads(bytes(memoryview(chunk)).decode(encoding)))
    if name == "msgpack2":
        import msgpack  # noqa: PLC0415

        raw = bool(config.get("raw", False))
        return lambda chunk: _Listed(msgpack.unpackb(chunk, raw=raw, strict_map_key=False))
    if name == "pickle":
        # Only where the caller allows it.
        return lambda chunk: pickle.loads(bytes(memoryview(chunk)))  # noqa: S301
    from numcodecs import get_codec  # noqa: PLC0415

    decode: Callable[[Any], Any] = get_codec(config).decode
    return decode


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
