"""Groups: what is in a store, and the arrays in it."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Callable, ItemsView, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zarrow import _zarrow
from zarrow._codecs import foreign_decoder
from zarrow._open import check_storage_options, names_of, open_path, open_remote, place_of
from zarrow.errors import MetadataError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zarrow._stores import Bridge
    from zarrow._typing import StoreLike, ZarrArray
    from zarrow._zarrow import Array

_DOCUMENTS = ("zarr.json", ".zgroup", ".zattrs", ".zarray", ".zmetadata")


def open_group(
    store: StoreLike | ZarrArray,
    *,
    path: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    allow_pickle: bool = False,
) -> Group:
    """Open a Zarr group, to list and open what is in it.

    Consolidated metadata is used where there is some: then members are known without asking the
    store.

    Parameters
    ----------
    store, path, storage_options
        As in :func:`open_array`, of the group. A ``zarr.Group`` is opened by its store and path.
    allow_pickle
        As in :func:`open_array`, for all arrays that are opened from the group.

    Returns
    -------
    Group
        A mapping from names to arrays and groups.

    Raises
    ------
    NotFoundError
        There is no group at the path.
    StoreError, UnsupportedError, TypeError, ValueError
        As :func:`open_array`.

    Examples
    --------
    >>> import numpy as np, zarr, zarrow
    >>> group = zarr.create_group("sample.zarr", attributes={"site": 7})
    >>> _ = group.create_array("counts/day1", data=np.arange(6), chunks=(3,))
    >>> sample = zarrow.open_group("sample.zarr")
    >>> list(sample), sample.attrs["site"]
    (['counts'], 7)
    >>> sample["counts/day1"].shape
    (6,)
    """
    options = check_storage_options(storage_options, store)
    group_class = getattr(sys.modules.get("zarr"), "Group", None)
    if group_class is not None and isinstance(store, group_class):
        path = "/".join([store.path, *names_of(path)])
        store = store.store
    decoder = partial(foreign_decoder, allow_pickle=True) if allow_pickle else foreign_decoder
    source, names = _source(store, options, decoder), names_of(path)
    return Group._of(source, names, source.documents(names))


class Group(Mapping[str, "Array | Group"]):
    """A group of arrays and groups. Made by :func:`open_group`.

    A mapping from the names of its members to handles on them; a path such as ``"a/b"`` reaches
    what is deeper. It sees members that are written later, unless its metadata is consolidated.
    """

    def __init__(
        self,
        source: _Source,
        names: Sequence[str],
        zarr_format: int,
        attributes: Mapping[str, Any],
        consolidated: Mapping[str, Mapping[str, bytes]] | None,
    ) -> None:
        self._source = source
        self._names = list(names)
        self._format = zarr_format
        self._attributes = attributes
        # Of each node below, its documents by name.
        self._consolidated = consolidated

    @classmethod
    def _of(cls, source: _Source, names: list[str], found: Mapping[str, bytes]) -> Group:
        """Make the group at a path, by the documents that were found there."""

        def parse(name: str) -> dict[str, Any]:
            return _parse(found[name], f"{source.location(names)}/{name}")

        if "zarr.json" in found:
            metadata = parse("zarr.json")
            if metadata.get("node_type") == "group":
                attributes = metadata.get("attributes") or {}
                return cls(source, names, 3, attributes, _consolidated_v3(metadata))
        elif ".zgroup" in found or ".zmetadata" in found:
            if ".zgroup" in found and parse(".zgroup").get("zarr_format") != 2:
                raise _invalid(f"{source.location(names)}/.zgroup")
            attributes = parse(".zattrs") if ".zattrs" in found else {}
            consolidated = None
            if ".zmetadata" in found:
                metadata = parse(".zmetadata")
                if not isinstance(metadata.get("metadata"), dict):
                    raise _invalid(f"{source.location(names)}/.zmetadata")
                consolidated = _consolidated_v2(metadata)
            return cls(source, names, 2, attributes, consolidated)
        raise NotFoundError(
            f"group {source.location(names)!r}: there is no Zarr group here; expected 'zarr.json' "
            "of a group, or '.zgroup'"
        )

    @property
    def path(self) -> str:
        """Path in the store."""
        return "/".join(self._names)

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The user attributes."""
        return self._attributes

    @property
    def zarr_format(self) -> int:
        """2 or 3."""
        return self._format

    @property
    def is_consolidated(self) -> bool:
        """Whether members are known from the metadata of the group."""
        return self._consolidated is not None

    def __getitem__(self, name: str) -> Array | Group:
        names = names_of(name)
        if not names:
            raise KeyError(name)
        below = "/".join(names)
        if self._consolidated is not None:
            documents = self._consolidated.get(below)
            if documents is None:
                raise KeyError(name)
            return self._member(names, documents)
        documents = self._source.documents([*self._names, *names])
        if not documents:
            raise KeyError(name)
        return self._member(names, documents)

    def _member(self, names: list[str], documents: Mapping[str, bytes]) -> Array | Group:
        full = [*self._names, *names]
        document = documents.get("zarr.json")
        where = self._source.location(full)
        metadata = _parse(document, where) if document is not None else {}
        if metadata.get("node_type") == "array" or ".zarray" in documents:
            zarr_format = 3 if document is not None else 2
            return self._source.open_array(full, zarr_format, dict(documents))
        if self._consolidated is None:
            return Group._of(self._source, full, documents)
        prefix = "/".join(names) + "/"
        below = {
            path.removeprefix(prefix): found
            for path, found in self._consolidated.items()
            if path.startswith(prefix)
        }
        if document is not None:
            attributes = metadata.get("attributes") or {}
        else:
            attributes = _parse(documents.get(".zattrs") or b"{}", where)
        return Group(self._source, full, self._format, attributes, below)

    def __iter__(self) -> Iterator[str]:
        if self._consolidated is not None:
            yield from sorted(path for path in self._consolidated if "/" not in path)
            return
        yield from self._found()

    def _found(self) -> dict[str, dict[str, bytes]]:
        """Give the documents of the members, all asked for at once."""
        names = sorted(self._source.names_in(self._names))
        found = self._source.documents_of([[*self._names, name] for name in names])
        return {
            name: documents
            for name, documents in zip(names, found, strict=True)
            if {"zarr.json", ".zarray", ".zgroup"} & documents.keys()
        }

    def items(self) -> ItemsView[str, Array | Group]:
        """Give the names of what is right in the group, and handles on it."""
        known = self._consolidated
        if known is None:
            return {
                name: self._member([name], documents) for name, documents in self._found().items()
            }.items()
        return {name: self._member([name], known[name]) for name in self}.items()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        try:
            self[name]  # type: ignore[index]
        except (KeyError, TypeError, ValueError):
            return False
        return True

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Give the names of the arrays right in the group, and handles on them."""
        for name, member in self.items():
            if isinstance(member, _zarrow.Array):
                yield name, member

    def groups(self) -> Iterator[tuple[str, Group]]:
        """Give the names of the groups right in the group, and handles on them."""
        for name, member in self.items():
            if isinstance(member, Group):
                yield name, member

    def __repr__(self) -> str:
        return f"<zarrow.Group {self._source.location(self._names)!r}>"


class _Source:
    """Where nodes lie: how documents and names are had."""

    def __init__(self, decoder: Callable[..., Any]) -> None:
        self._decoder = decoder

    def location(self, names: Sequence[str]) -> str:
        raise NotImplementedError

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        raise NotImplementedError

    def names_in(self, names: Sequence[str]) -> set[str]:
        raise NotImplementedError

    def open_array(
        self, names: Sequence[str], zarr_format: int, documents: dict[str, bytes]
    ) -> Array:
        raise NotImplementedError

    def documents(self, names: Sequence[str]) -> dict[str, bytes]:
        """Give the documents of a node that there are."""
        return self.documents_of([names])[0]

    def documents_of(self, nodes: Sequence[Sequence[str]]) -> list[dict[str, bytes]]:
        """Give the documents that there are of each node, all asked for at once."""
        keys = ["/".join([*names, document]) for names in nodes for document in _DOCUMENTS]
        values = self.get(keys)
        return [
            {
                name: value
                for name, value in zip(_DOCUMENTS, values[at : at + len(_DOCUMENTS)], strict=True)
                if value is not None
            }
            for at in range(0, len(values), len(_DOCUMENTS))
        ]


class _Folder(_Source):
    def __init__(self, root: str, decoder: Callable[..., Any]) -> None:
        super().__init__(decoder)
        self._root = Path(root).absolute()

    def location(self, names: Sequence[str]) -> str:
        return str(self._root.joinpath(*names))

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        return [self._read(self._root / key) for key in keys]

    @staticmethod
    def _read(path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def names_in(self, names: Sequence[str]) -> set[str]:
        return {each.name for each in self._root.joinpath(*names).iterdir() if each.is_dir()}

    def open_array(
        self, names: Sequence[str], zarr_format: int, documents: dict[str, bytes]
    ) -> Array:
        del documents  # they cost nothing here
        return open_path(str(self._root), "/".join(names), zarr_format, self._decoder)


class _Zip(_Source):
    def __init__(self, root: str, decoder: Callable[..., Any]) -> None:
        super().__init__(decoder)
        self._root = root
        with zipfile.ZipFile(root) as archive:
            self._keys = {name for name in archive.namelist() if not name.endswith("/")}
        tops = {key.split("/")[0] for key in self._keys}
        # All of it may lie in one folder.
        lies_deeper = len(tops) == 1 and not self._keys & set(_DOCUMENTS)
        self._prefix = f"{tops.pop()}/" if lies_deeper else ""

    def location(self, names: Sequence[str]) -> str:
        return "/".join([self._root, *names])

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        with zipfile.ZipFile(self._root) as archive:
            full = [self._prefix + key for key in keys]
            return [archive.read(key) if key in self._keys else None for key in full]

    def names_in(self, names: Sequence[str]) -> set[str]:
        prefix = self._prefix + "".join(f"{name}/" for name in names)
        below = (key.removeprefix(prefix) for key in self._keys if key.startswith(prefix))
        return {key.split("/")[0] for key in below if "/" in key}

    def open_array(
        self, names: Sequence[str], zarr_format: int, documents: dict[str, bytes]
    ) -> Array:
        del documents
        return open_path(self._root, "/".join(names), zarr_format, self._decoder)


class _Remote(_Source):
    def __init__(
        self, kind: str, store: Any, options: dict[str, str] | None, decoder: Callable[..., Any]
    ) -> None:
        super().__init__(decoder)
        self._kind = kind
        self._store = store
        self._options = options

    def location(self, names: Sequence[str]) -> str:
        root = self._store.rstrip("/") if isinstance(self._store, str) else repr(self._store)
        return "/".join([root, *names])

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        return _zarrow._remote_get(self._kind, self._store, self._options, list(keys))

    def names_in(self, names: Sequence[str]) -> set[str]:
        return set(_zarrow._remote_list(self._kind, self._store, self._options, "/".join(names)))

    def open_array(
        self, names: Sequence[str], zarr_format: int, documents: dict[str, bytes]
    ) -> Array:
        return open_remote(
            self._kind, self._store, "/".join(names), options=self._options,
            zarr_format=zarr_format, metadata=documents, decoder=self._decoder,
        )  # fmt: skip


class _Asked(_Remote):
    """A store that Python asks."""

    def __init__(self, bridge: Bridge, decoder: Callable[..., Any]) -> None:
        super().__init__("bridge", bridge, None, decoder)

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        bridge: Bridge = self._store
        return bridge.get(keys)

    def names_in(self, names: Sequence[str]) -> set[str]:
        bridge: Bridge = self._store
        return bridge.names_in("/".join(names))


def _source(store: Any, options: dict[str, str] | None, decoder: Callable[..., Any]) -> _Source:
    kind, where = place_of(store)
    if kind == "path":
        is_zip = os.path.isfile(where)  # noqa: PTH113
        return _Zip(where, decoder) if is_zip else _Folder(where, decoder)
    if kind == "bridge":
        return _Asked(where, decoder)
    return _Remote(kind, where, options, decoder)


def _parse(document: bytes, where: str) -> dict[str, Any]:
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise _invalid(where) from error
    if not isinstance(parsed, dict):
        raise _invalid(where)
    return parsed


def _invalid(where: str) -> MetadataError:
    return MetadataError(
        f"{where}: no valid metadata of a group; expected a document by the Zarr specification. "
        "The document is damaged or was written by something else; write it again."
    )


def _consolidated_v3(metadata: Mapping[str, Any]) -> dict[str, dict[str, bytes]] | None:
    consolidated = metadata.get("consolidated_metadata")
    if not isinstance(consolidated, dict):
        return None
    documents: dict[str, dict[str, bytes]] = {}
    _flatten(consolidated, "", documents)
    return documents


def _flatten(consolidated: Mapping[str, Any], prefix: str, into: dict[str, Any]) -> None:
    documents = consolidated.get("metadata") or {}
    if not isinstance(documents, dict):
        raise _invalid(f"consolidated metadata of {prefix or 'the group'}")
    for path, document in documents.items():
        if not isinstance(document, dict):
            raise _invalid(f"consolidated metadata of {prefix + path!r}")
        into[prefix + path] = {"zarr.json": json.dumps(document).encode()}
        inner = document.get("consolidated_metadata")
        if isinstance(inner, dict):
            _flatten(inner, f"{prefix}{path}/", into)


def _consolidated_v2(metadata: Mapping[str, Any]) -> dict[str, dict[str, bytes]]:
    documents: dict[str, dict[str, bytes]] = {}
    for key, document in (metadata.get("metadata") or {}).items():
        path, _, name = key.rpartition("/")
        if path:
            documents.setdefault(path, {})[name] = json.dumps(document).encode()
    return {
        path: found for path, found in documents.items() if {".zarray", ".zgroup"} & found.keys()
    }
