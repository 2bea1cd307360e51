"""Environments for the readers, and the programs that are built: nothing here needs a package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from .options import HERE, ROOT, bench_dir

SHARED = ("numpy", "pyarrow", "scipy", "zarr", "zarrs", "anndata")


@dataclass(frozen=True, slots=True)
class PeerSet:
    """Packages that share an environment, on any Python from `oldest` on."""

    name: str
    oldest: tuple[int, int]
    packages: tuple[str, ...]


NOTE = "environments.json"

# Methods run in the first environment that has what they need.
PEER_SETS = (
    PeerSet("newest", (3, 12), (*SHARED, "annbatch")),
    PeerSet("base", (3, 11), (*SHARED, "tensorstore", "numcodecs", "matplotlib")),
)


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment that is ready, and what is installed in it."""

    name: str
    python: str
    version: str
    packages: dict[str, str]
    missing: tuple[str, ...]

    def has(self, needs: tuple[str, ...]) -> bool:
        """Whether all that a method needs is there."""
        return all(need in self.packages for need in needs)


def prepare(*, build: bool, sets: tuple[PeerSet, ...] = PEER_SETS, note: str = NOTE) -> None:
    """Make the environments, build zarrow and the limit, and note what is there."""
    bench_dir().mkdir(parents=True, exist_ok=True)
    found = []
    for peers in sets:
        if (python := find_python(peers)) is None:
            print(f"missing: a Python {'.'.join(map(str, peers.oldest))} or newer ({peers.name})")
            continue
        found.append(make(peers, python))
    if build:
        install_zarrow(found)
    build_limit()
    environments = [asdict(look_into(peers, python)) for peers, python in found]
    (bench_dir() / note).write_text(json.dumps(environments, indent=1))


def load(note: str = NOTE) -> list[Environment]:
    """Give the environments that `prepare` noted."""
    noted = json.loads((bench_dir() / note).read_text())
    return [Environment(**entry | {"missing": tuple(entry["missing"])}) for entry in noted]


def find_python(peers: PeerSet) -> str | None:
    """Find a Python: the one named by ZARROW_BENCH_PYTHON, else one from PATH or of pyenv."""
    if peers.oldest <= (3, 11):
        return sys.executable
    versions = ("3.13", "3.12", "3.14")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [os.environ.get("ZARROW_BENCH_PYTHON"), sys.executable]
    for version in versions:
        candidates.append(shutil.which(f"python{version}"))
        candidates += map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))
    test = f"import sys, ensurepip, venv; sys.exit(sys.version_info < {peers.oldest})"
    for python in filter(None, candidates):
        if not subprocess.run([python, "-c", test], capture_output=True, check=False).returncode:
            return python
    return None


def make(peers: PeerSet, python: str) -> tuple[PeerSet, str]:
    """Make an environment, unless it is there with all of its packages."""
    folder = bench_dir() / f"venv-{peers.name}"
    own = str(folder / "bin" / "python")
    ready = folder / "ready"
    if not ready.exists() or ready.read_text() != " ".join(peers.packages):
        print(f"Making {folder}", flush=True)
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        if not pip(own, *peers.packages):
            for package in peers.packages:  # one that cannot be had must not cost the others
                pip(own, package)
        ready.write_text(" ".join(peers.packages))
    return peers, own


def pip(python: str, *arguments: str) -> bool:
    """Install into an environment. Gives whether it worked."""
    options = ["--quiet", "--disable-pip-version-check", "--no-input"]
    command = [python, "-m", "pip", "install", *options, *arguments]
    return subprocess.run(command, check=False).returncode == 0


def install_zarrow(found: list[tuple[PeerSet, str]]) -> None:
    """Build a wheel in release mode, and install it: the run does not see later changes."""
    wheels = bench_dir() / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    command = [sys.executable, "-m", "maturin", "build", "--release", "--out", str(wheels)]
    options = ["--compatibility", "linux", "--interpreter", sys.executable]
    subprocess.run([*command, *options], cwd=ROOT, check=True)
    (wheel,) = wheels.glob("zarrow-*.whl")
    for _, python in found:
        if not pip(python, "--force-reinstall", "--no-deps", str(wheel)):
            sys.exit(f"zarrow's wheel could not be installed with {python}")


def limit_program() -> Path:
    """Path of the program that measures the limit."""
    return bench_dir() / "limit-target" / "release" / "limit"


def build_limit() -> None:
    """Build the program that measures the limit."""
    manifest = HERE / "limit" / "Cargo.toml"
    target = ["--target-dir", str(bench_dir() / "limit-target")]
    command = ["cargo", "build", "--quiet", "--release", "--manifest-path", str(manifest), *target]
    subprocess.run(command, check=True)


_LOOK = """
import importlib, importlib.metadata, json, platform, sys
found = {}
for name in sys.argv[1:]:
    try:
        module = importlib.import_module(name)
        found[name] = importlib.metadata.version(name)
    except Exception as error:
        print(f"missing: {name}: {error}", file=sys.stderr)
try:
    from zarr.core.codec_pipeline import FusedCodecPipeline
    found["zarr-fused"] = found["zarr"]
except ImportError:
    pass
print("FOUND " + json.dumps([platform.python_version(), found]))
"""


def look_into(peers: PeerSet, python: str) -> Environment:
    """See what can be imported in an environment, and in which version."""
    packages = dict.fromkeys((*peers.packages, "zarrow"))
    command = [python, "-c", _LOOK, *packages]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    answer = output.partition("FOUND ")[2]
    version, found = json.loads(answer)
    missing = tuple(package for package in packages if package not in found)
    return Environment(peers.name, python, version, found, missing)
