"""Opening arrays: what a caller may pass is sorted out here, then Rust takes over."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from zarrow import _zarrow
from zarrow._codecs import foreign_decoder
from zarrow._columns import _type_name
from zarrow._stores import (
    Bridge,
    is_icechunk_session,
    is_obstore,
    is_zarr_store,
    tells_itself,
)
from zarrow._zarrow import Array
from zarrow.errors import UnsupportedError

if TYPE_CHECKING:
    from zarrow._typing import ArrayLike

ACCEPTED = (
    "expected a path or URL (str or os.PathLike), a zarr.Array, a store of zarr-python, obstore or "
    "Icechunk, a mapping from keys to bytes, or a zarrow.Array"
)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)((?:::[A-Za-z][A-Za-z0-9+.-]+)*)://")
_REMOTE = ("s3", "s3a", "gs", "gcs", "az", "azure", "adl", "abfs", "abfss", "http", "https")


def open_array(
    store: ArrayLike,
    *,
    path: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    allow_pickle: bool = False,
) -> Array:
    """Open a Zarr array for any number of reads.

    Parameters
    ----------
    store
        Where the array lies, alone or together with `path`:

        - the path of a folder, or of a zip file (where all of that lies in one folder, that may be
          left out of `path`); a ``file://`` URL;
        - a URL: ``s3://``, ``gs://``, ``az://``, ``abfs://``, ``http://`` or ``https://``;
        - a store of zarr-python, or one of obstore, or a session or store of Icechunk;
        - a mapping from keys to bytes.

        Or a ``zarr.Array``, which hands over its metadata. A ``zarrow.Array`` is given back as it
        is.
    path
        Where the array lies in the store, such as ``"group/array"``.
    storage_options
        Only with the URL of something remote: how to reach it, by the names of the Rust crate
        object_store, such as ``aws_region``, ``aws_endpoint``, ``aws_access_key_id``,
        ``skip_signature`` (for anonymous access), ``allow_http`` and ``timeout``. The environment
        (``AWS_ACCESS_KEY_ID`` and its like) gives what is not named. Further, how what failed for a
        while is repeated: ``max_retries``, ``retry_timeout``, ``init_backoff`` and ``max_backoff``
        (in seconds) and ``backoff_base``.
    allow_pickle
        Whether chunks may be decoded by the codec `pickle`. That runs code that the file brings
        along: allow it only for files of people whom you would let use your computer. The handle
        keeps it, also where it is pickled.

    Returns
    -------
    Array
        A handle with `shape`, `dtype`, `chunks`, `shards` and `attrs`. It may be used from many
        threads. It sees chunks that are written later, but not a change of the metadata.

    Notes
    -----
    Paths, URLs and obstore's stores are read by Rust alone; of zarr-python's stores, so are
    ``LocalStore``, ``ZipStore`` and ``ObjectStore``. All others are asked by their own ``get``, for
    many keys at once.

    Chunks with codecs that zarrow does not have are decoded by zarr-python, if it is installed and
    has them: still each once, but one at a time, as Python does.

    Raises
    ------
    NotFoundError
        There is no array at the path.
    StoreError
        The store could not be reached, or may not be read.
    MetadataError
        The metadata of the array is not valid.
    UnsupportedError
        The array uses what zarrow does not read yet, or it does not know the URL or an option.
    TypeError, ValueError
        `store` is something else than the above, or it or `path` is no usable path.

    Examples
    --------
    >>> import numpy as np, zarr, zarrow
    >>> group = zarr.create_group("survey.zarr")
    >>> _ = group.create_array("night1/image", data=np.zeros((100, 80), "f4"), chunks=(32, 32))
    >>> image = zarrow.open_array("survey.zarr", path="night1/image")
    >>> image.shape, image.dtype.name, image.chunks
    ((100, 80), 'float32', (32, 32))
    """
    [array] = all_opened([store], path, storage_options, allow_pickle=allow_pickle)
    return array


def all_opened(
    stores: Sequence[Any],
    path: str | None,
    storage_options: Mapping[str, Any] | None,
    *,
    allow_pickle: bool = False,
    watch: dict[str, Any] | None = None,
) -> list[Array]:
    """Open arrays, those that are far away all at once, unless `watch` ends that."""
    near: dict[Any, Array] = {}
    far: dict[Any, dict[str, Any]] = {}
    given = [
        os.fspath(store) if isinstance(store, (str, os.PathLike)) else id(store) for store in stores
    ]
    for what, store in dict(zip(given, stores, strict=True)).items():
        found = _found(store, path, storage_options, allow_pickle=allow_pickle)
        if isinstance(found, Array):
            near[what] = found
        else:
            far[what] = found
    if len(far) == 1:
        [(what, arguments)] = far.items()
        near[what] = _zarrow._open_remote(arguments, watch)
    elif far:
        near.update(zip(far, _zarrow._open_remotes(list(far.values()), watch), strict=True))
    return [near[what] for what in given]


def _found(
    store: Any,
    path: str | None,
    storage_options: Mapping[str, Any] | None,
    *,
    allow_pickle: bool,
) -> Array | dict[str, Any]:
    """Give an open array, or what Rust needs to open it from afar."""
    options = check_storage_options(storage_options, store)
    if isinstance(store, Array):
        if path is not None:
            raise TypeError(
                f"path={path!r} was given with a zarrow.Array; expected path= only with a store"
            )
        if allow_pickle:
            raise TypeError(
                "allow_pickle was given with a zarrow.Array, which is open; "
                "expected it only with what is to be opened"
            )
        return store
    decoder = partial(foreign_decoder, allow_pickle=True) if allow_pickle else foreign_decoder
    array_class = getattr(sys.modules.get("zarr"), "Array", None)
    if array_class is not None and isinstance(store, array_class):
        return _zarr_array(store, path, decoder)
    kind, where = place_of(store)
    if kind == "path":
        return open_path(where, path, None, decoder)
    return _remote(kind, where, path, options=options, decoder=decoder)


def is_remote_url(root: str) -> bool:
    """Whether this is the URL of something that Rust reads from afar."""
    match = _URL.match(root)
    return match is not None and match[1].lower() in _REMOTE and not match[2]


def check_storage_options(options: Any, store: Any) -> dict[str, str] | None:
    if options is None:
        return None
    if not isinstance(options, Mapping):
        raise TypeError(
            f"storage_options is of type {_type_name(options)}; expected a mapping of names"
        )
    if not (isinstance(store, str) and is_remote_url(store)):
        raise TypeError(
            "storage_options was given, but store is no URL of something remote; "
            "expected it only with one, such as 's3://bucket/array.zarr'"
        )
    checked = {}
    for name, value in options.items():
        if not isinstance(name, str) or not isinstance(value, (str, int, float, bool)):
            raise TypeError(
                f"storage_options[{name!r}] is {value!r}; expected a str, a number or a bool, "
                "under the name that object_store has for it"
            )
        checked[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return checked


def open_remote(
    kind: str,
    store: Any,
    path: str | None,
    *,
    options: dict[str, str] | None = None,
    zarr_format: int | None = None,
    metadata: dict[str, bytes] | None = None,
    decoder: Callable[..., Any] = foreign_decoder,
) -> Array:
    """Open an array in a store of a kind that :func:`place_of` tells."""
    return _zarrow._open_remote(
        _remote(
            kind, store, path,
            options=options, zarr_format=zarr_format, metadata=metadata, decoder=decoder,
        )
    )  # fmt: skip


def _remote(
    kind: str,
    store: Any,
    path: str | None,
    *,
    decoder: Callable[..., Any],
    options: dict[str, str] | None = None,
    zarr_format: int | None = None,
    metadata: dict[str, bytes] | None = None,
) -> dict[str, Any]:
    """Give what Rust needs to open an array in a store of a kind that :func:`place_of` tells."""
    return {
        "kind": kind,
        "store": store,
        "storage_options": options,
        "path": "/" + "/".join(names_of(path)),
        "zarr_format": zarr_format,
        "fields": None,
        "foreign": decoder,
        "metadata": metadata,
    }


def place_of(store: Any) -> tuple[str, Any]:
    """Say what kind of store this is, and what Rust needs of it.

    ``"path"`` and a path, ``"url"`` and a URL, ``"object"`` and a store of obstore, or ``"bridge"``
    and the :class:`Bridge` that asks.
    """
    if isinstance(store, (str, os.PathLike)):
        root: Any = os.fspath(store)
        is_url = isinstance(root, str) and is_remote_url(root)
        return ("url", root) if is_url else ("path", _local_path(store))
    if is_icechunk_session(store):
        store = store.store
    if is_zarr_store(store):
        # Those of a class that inherits from one of these may do something else.
        name = type(store).__name__ if type(store).__module__.startswith("zarr.storage") else ""
        if name == "LocalStore":
            return "path", os.fspath(store.root)
        # What is still written to is no zip file yet.
        if name == "ZipStore" and store.read_only and isinstance(store.path, (str, os.PathLike)):
            return "path", os.fspath(store.path)
        if not (name == "ObjectStore" and is_obstore(store.store)):
            return "bridge", Bridge(store)
        store = store.store
    if is_obstore(store) and tells_itself(store):
        return "object", store
    if is_obstore(store) or isinstance(store, Mapping):
        return "bridge", Bridge(store)
    raise TypeError(f"array is of type {_type_name(store)}; {ACCEPTED}")


def _zarr_array(
    array: Any, path: str | None, decoder: Callable[..., Any]
) -> Array | dict[str, Any]:
    """Give what an array of zarr-python is a handle on, as :func:`_found`."""
    if path is not None:
        raise TypeError(
            f"path={path!r} was given with a zarr.Array; expected path= only with a store"
        )
    kind, where = place_of(array.store)
    if kind == "path":
        return open_path(where, array.path, array.metadata.zarr_format, decoder)
    return _remote(
        kind, where, array.path,
        zarr_format=array.metadata.zarr_format, metadata=_documents(array), decoder=decoder,
    )  # fmt: skip


def _documents(array: Any) -> dict[str, bytes]:
    """Give the metadata documents of an array of zarr-python, as they are in its store."""
    from zarr.core.buffer import default_buffer_prototype  # noqa: PLC0415

    documents = array.metadata.to_buffer_dict(default_buffer_prototype())
    return {name: document.to_bytes() for name, document in documents.items()}


def _local_path(store: str | os.PathLike[str]) -> str:
    """Find the path on this machine that `store` names."""
    root = os.fspath(store)
    if not isinstance(root, str):
        raise TypeError(
            f"store is a path of {_type_name(root)}; expected str: decode it with os.fsdecode"
        )
    if not root:
        raise ValueError(
            "store is an empty path; expected the path of an array or a store, such as '.'"
        )
    if match := _URL.match(root):
        url = urlsplit(root)
        if match[1].lower() != "file" or match[2] or url.netloc not in ("", "localhost"):
            msg = (
                f"store is the URL {root!r}; expected file://, s3://, gs://, az://, abfs://, "
                "http:// or https://, or a store of zarr-python for anything else"
            )
            raise UnsupportedError(msg)
        root = url2pathname(url.path)
    return root


def _join(root: str, path: str | None) -> str:
    """Join the path of a store with the path of an array in it."""
    return root if path is None else str(Path(root, *names_of(path)))


def names_of(path: str | None) -> list[str]:
    """Give the names that the path of an array is made of."""
    if path is None:
        return []
    if not isinstance(path, str):
        raise TypeError(f"path is of type {_type_name(path)}; expected a str such as 'group/array'")
    parts = [part for part in path.split("/") if part]
    if any(part in (".", "..") or "\\" in part for part in parts):
        raise ValueError(
            f"path is {path!r}; expected names joined by '/', without '.', '..' or a backslash"
        )
    return parts


def open_path(
    root: str,
    path: str | None,
    zarr_format: int | None,
    decoder: Callable[..., Any] = foreign_decoder,
) -> Array:
    """Open the array at a path in a directory, or in a zip file."""
    if os.path.isfile(root):  # noqa: PTH113
        inside = "/" + "/".join(names_of(path))
        return _zarrow._open_local(root, zarr_format, None, decoder, inside)
    return _zarrow._open_local(_join(root, path), zarr_format, None, decoder)
