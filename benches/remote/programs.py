"""The environment of the readers, and the programs that are built: nothing here needs a package."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ..compare import environments
from ..compare.environments import Environment, PeerSet
from ..compare.options import bench_dir

NOTE = "remote-environments.json"
PACKAGES = (
    *("numpy", "pyarrow", "scipy", "zarr", "numcodecs", "zarrs", "tensorstore"),
    *("obstore", "fsspec", "aiohttp"),
)
# The fused pipeline of zarr-python needs a newer Python than zarrow does.
NEWEST = PeerSet("remote", (3, 12), PACKAGES)
OLDEST = PeerSet("remote", (3, 11), PACKAGES)
HERE = Path(__file__).resolve().parent


def prepare(*, build: bool) -> Environment:
    """Make the environment, and build zarrow, the server and the limit."""
    peers = NEWEST if environments.find_python(NEWEST) else OLDEST
    environments.prepare(build=build, sets=(peers,), note=NOTE)
    manifest = HERE / "server" / "Cargo.toml"
    command = ["cargo", "build", "--quiet", "--release", "--manifest-path", str(manifest)]
    subprocess.run([*command, "--target-dir", str(_target())], check=True)
    return load()


def load() -> Environment:
    """Give the environment that `prepare` noted."""
    (found,) = environments.load(NOTE)
    return found


def server_program() -> str:
    """Path of the object server."""
    return str(_target() / "release" / "object-server")


def fetch_program() -> str:
    """Path of the client that only fetches."""
    return str(_target() / "release" / "raw-fetch")


def _target() -> Path:
    return bench_dir() / "object-server-target"
