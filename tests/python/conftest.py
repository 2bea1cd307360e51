"""Settings for the whole suite, and fixtures.

`ZARROW_TEST_PROFILE` chooses how much Hypothesis tries: `quick` (the default), the same examples in
every run, or `thorough` for many times as many from fresh random seeds.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))  # for the helper modules beside this file

from arrays import Maker
from servers.fixtures import (  # noqa: F401 fixtures are found here by their names
    azure_server,
    google_server,
    http_server,
    make_proxy,
    proxy,
    s3_server,
    shared_proxy,
    write_icechunk,
)

ROOT = Path(__file__).resolve().parents[2]
PEER_DATA = ROOT.parent / "shared" / "data"

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "quick",
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=_SLOW,
    database=None,
    print_blob=True,
)
settings.register_profile(
    "thorough",
    parent=settings.get_profile("quick"),
    max_examples=5_000,
    derandomize=False,
)
settings.load_profile(os.environ.get("ZARROW_TEST_PROFILE", "quick"))


@pytest.fixture(scope="session")
def peer_data() -> Path:
    """A folder of arrays written by others, beside the checkout: `../shared/data`."""
    if not PEER_DATA.is_dir():
        pytest.skip(
            "needs ../shared/data, a folder of arrays written by others, beside the checkout"
        )
    return PEER_DATA


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def make(tmp_path: Path) -> Maker:
    """Write an array: `make(dtype=..., shape=..., ...)` with the fields of `Layout`."""
    return Maker(tmp_path)
