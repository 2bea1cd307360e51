"""Icechunk repositories in a folder: no server, but a store that is no plain tree of files."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr


def missing() -> str | None:
    """Say why repositories cannot be made here, or None if they can."""
    return None if importlib.util.find_spec("icechunk") else "needs icechunk from PyPI"


def write_repository(folder: Path, arrays: Mapping[str, np.ndarray], **layout: Any) -> Any:
    """Make a repository, and commit arrays to its branch `main`.

    `layout` goes to zarr-python: `chunks`, `shards`, `compressors` and others. A session to read
    from is `repository.readonly_session("main")`, its store for zarr-python `session.store`.
    """
    import icechunk

    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(folder)))
    session = repository.writable_session("main")
    group = zarr.open_group(session.store, mode="a")
    for name, data in arrays.items():
        group.create_array(name, data=data, **layout)
    session.commit("Write arrays")
    return repository
