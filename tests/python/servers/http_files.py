"""A folder by HTTP, with ranges: by nginx where it is installed, else by uvicorn and starlette.

nginx: `apt install nginx-light`, or any that is on the PATH or in /usr/sbin. The other needs what
the `test` group of pyproject.toml installs, so that no test goes without a server.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

from .process import ServerProcess, free_port

NGINX = """
daemon off;
master_process off;
pid {work}/nginx.pid;
error_log stderr warn;
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {work}/body;
  proxy_temp_path {work}/proxy;
  fastcgi_temp_path {work}/fastcgi;
  uwsgi_temp_path {work}/uwsgi;
  scgi_temp_path {work}/scgi;
  default_type application/octet-stream;
  sendfile on;
  keepalive_requests 1000000;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    root {folder};
    location ~ /$ {{ return 404; }}  # folders are no objects
  }}
}}
"""

STARLETTE = """
import sys
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

app = Starlette(routes=[Mount("/", StaticFiles(directory=sys.argv[1]))])
uvicorn.run(
    app,
    host="127.0.0.1",
    port=int(sys.argv[2]),
    backlog=4096,
    access_log=False,
    log_level="warning",
)
"""


class FileServer:
    """A server of one folder. `kind` is `nginx` or `starlette`."""

    def __init__(self, kind: str, folder: Path, work: Path) -> None:
        self.kind, self.folder = kind, folder
        port = free_port()
        if kind == "nginx":
            program = find_nginx()
            assert program is not None, "nginx is not installed"
            config = work / "nginx.conf"
            config.write_text(NGINX.format(work=work, port=port, folder=folder))
            command = [program, "-e", "stderr", "-p", str(work), "-c", str(config)]
        else:
            command = [sys.executable, "-c", STARLETTE, str(folder), str(port)]
        self.process = ServerProcess(command, port, work / f"{kind}.log")
        self.url = f"http://127.0.0.1:{port}"

    def close(self) -> None:
        """End the server."""
        self.process.close()


def find_nginx() -> str | None:
    """Give the path of nginx, which the PATH of a plain user often lacks."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")


def missing(kind: str) -> str | None:
    """Say why a kind of server cannot be had here, or None if it can."""
    if kind == "nginx":
        return None if find_nginx() else "nginx is not installed (apt install nginx-light)"
    lacking = [name for name in ("uvicorn", "starlette") if importlib.util.find_spec(name) is None]
    return f"needs {' and '.join(lacking)} from PyPI" if lacking else None
