"""Every selection that NumPy users know, of any array however stored: the result is NumPy's."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import strategies
from arrays import Layout, write
from checks import check_columns, check_items
from hypothesis import given
from hypothesis import strategies as st

MAX_NDIM = 4
threads = st.sampled_from([None, 1, 2, 5])
missing_chunks = st.sampled_from(["fill", "fill", "null"])


def check_layout(layout: Layout, data: st.DataObject) -> None:
    """One array, three ways to ask."""
    with tempfile.TemporaryDirectory() as folder:
        written = write(layout, Path(folder) / "array.zarr")
        options: dict[str, Any] = {
            "threads": data.draw(threads, label="threads"),
            "missing_chunks": data.draw(missing_chunks, label="missing_chunks"),
        }
        for indexing in ("orthogonal", "pointwise"):
            selections = data.draw(strategies.vocabulary(layout.shape, indexing), label=indexing)
            check_items(written, selections, indexing, **options)
        columns = data.draw(strategies.columns(layout.shape), label="columns")
        check_columns(written, columns, **options)


@given(strategies.layouts_v3(MAX_NDIM), st.data())
def test_v3(layout: Layout, data: st.DataObject) -> None:
    check_layout(layout, data)


@given(strategies.layouts_v2(MAX_NDIM), st.data())
def test_v2(layout: Layout, data: st.DataObject) -> None:
    check_layout(layout, data)
