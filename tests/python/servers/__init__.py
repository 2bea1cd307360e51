"""Real servers on free ports of 127.0.0.1, started by the tests themselves.

`fixtures.py` has the pytest fixtures: what a test should ask for. Each other file is one server:

- `moto.py`: S3, by moto. From PyPI, in the `test` group.
- `http_files.py`: files by HTTP with ranges, by nginx if it is installed, else by uvicorn and
  starlette, which are in the `test` group too.
- `plain_http.py`: files by HTTP, with or without ranges and ETags, in a thread.
- `azurite.py`: Azure Blob Storage, by Azurite from npm, if it is installed.
- `icechunk.py`: no server: Icechunk repositories in a folder.
- `proxy.py`: a proxy before any of them that adds latency, limits bandwidth, injects faults and
  counts; `latency_proxy.py` is the process that it runs, `http1.py` the HTTP that this speaks.
"""
