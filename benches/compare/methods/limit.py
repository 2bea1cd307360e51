"""The limit: a program that only reads, decodes and places what a plan says."""

from __future__ import annotations

from .base import Facts, Method


def only_cold(facts: Facts) -> str | None:
    """Refuse workloads whose files stay in the page cache."""
    return None if facts.cold else ""


METHODS = (
    Method("limit", "limit", (), arguments=("{threads}",)),
    Method("limit, 1 thread", "limit", (), arguments=("1",)),
    # With a cold page cache, a read can be no faster than either of these two.
    Method("limit, warm", "limit", (), refuses=only_cold, arguments=("{threads}",), warm=True),
    Method("parallel read", "limit", (), refuses=only_cold, arguments=("16", "--read-only")),
)
