"""Azure Blob Storage, by Azurite, which is a package of npm.

`make test` installs it beside the Python environment, where there is npm. Any on the PATH will do.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import subprocess
import sys
import urllib.request
from email.utils import formatdate
from pathlib import Path

from .process import ServerProcess, free_port

# The account and key that Azurite documents; they open nothing else.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
OPTIONS = ("--silent", "--skipApiVersionCheck", "--inMemoryPersistence", "--disableTelemetry")


def find() -> list[str] | None:
    """Give the command that runs Azurite's blob service, or None. Nothing is installed."""
    installed = Path(sys.prefix, "azurite", "node_modules", ".bin", "azurite-blob")
    if installed.exists():
        return [str(installed)]
    if (program := shutil.which("azurite-blob")) is not None:
        return [program]
    if (npx := shutil.which("npx")) is None:
        return None
    command = [npx, "--no-install", "azurite-blob"]
    try:
        tried = subprocess.run(
            [*command, "--version"], capture_output=True, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    return None if tried.returncode else command


def missing() -> str | None:
    """Say why the server cannot be had here, or None if it can."""
    return None if find() else "Azurite is not installed (npm install --global azurite)"


class AzureServer:
    """A server of blobs. Containers and blobs last as long as it."""

    def __init__(self, work: Path) -> None:
        command = find()
        assert command is not None, "Azurite is not installed"
        port = free_port()
        place = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
        self.process = ServerProcess([*command, *OPTIONS, *place], port, work / "azurite.log")
        self.url = f"http://127.0.0.1:{port}"

    def upload(self, folder: Path, container: str, prefix: str = "") -> str:
        """Put all files of a folder into a new container. Gives their `az://` URL."""
        from obstore.store import AzureStore

        self._make_container(container)
        store = AzureStore(container, **self.storage_options())
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            key = "/".join(filter(None, [prefix, file.relative_to(folder).as_posix()]))
            store.put(key, file.read_bytes())
        return "/".join(filter(None, [f"az://{container}", prefix]))

    def _make_container(self, container: str) -> None:
        """Make a container, which object_store cannot: by a signed request."""
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
        named = "".join(f"{name}:{value}\n" for name, value in headers.items())
        resource = f"/{ACCOUNT}/{ACCOUNT}/{container}\nrestype:container"
        text = "PUT" + "\n" * 12 + named + resource
        digest = hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)
        signature = base64.b64encode(digest).decode()
        request = urllib.request.Request(
            f"{self.url}/{ACCOUNT}/{container}?restype=container",
            method="PUT",
            headers=headers | {"Authorization": f"SharedKey {ACCOUNT}:{signature}"},
        )
        with urllib.request.urlopen(request, timeout=30):
            pass

    def storage_options(self, endpoint: str | None = None) -> dict[str, str]:
        """Give the options of object_store for this server, or for a proxy before it."""
        return {
            "azure_endpoint": f"{endpoint or self.url}/{ACCOUNT}",
            "azure_storage_account_name": ACCOUNT,
            "azure_storage_account_key": KEY,
            "azure_allow_http": "true",
        }

    def close(self) -> None:
        """End the server."""
        self.process.close()
