"""S3, by moto's server. It checks no signatures: any credentials will do.

What `upload` puts can be read without credentials too.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from .process import ServerProcess, free_port

REGION = "us-east-1"


def missing() -> str | None:
    """Say why the server cannot be had here, or None if it can."""
    lacking = [
        name for name in ("moto", "flask", "boto3") if importlib.util.find_spec(name) is None
    ]
    return f"needs moto[server] and boto3 from PyPI: no {', '.join(lacking)}" if lacking else None


class S3Server:
    """A server of S3. Buckets and objects last as long as it."""

    def __init__(self, work: Path) -> None:
        port = free_port()
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        self.process = ServerProcess(command, port, work / "moto.log")
        self.url = f"http://127.0.0.1:{port}"

    def client(self) -> object:
        """Give a boto3 client."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def upload(self, folder: Path, bucket: str, prefix: str = "") -> str:
        """Put all files of a folder into a bucket, made now if need be. Gives their `s3://` URL."""
        client = self.client()
        client.create_bucket(Bucket=bucket)
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            key = "/".join(filter(None, [prefix, file.relative_to(folder).as_posix()]))
            # Readable without credentials too: moto checks that, if no signatures.
            client.put_object(Bucket=bucket, Key=key, Body=file.read_bytes(), ACL="public-read")
        return "/".join(filter(None, [f"s3://{bucket}", prefix]))

    def storage_options(
        self, endpoint: str | None = None, *, anonymous: bool = False
    ) -> dict[str, str]:
        """Give the options of object_store for this server, or for a proxy before it."""
        options = {
            "aws_endpoint": endpoint or self.url,
            "aws_region": REGION,
            "aws_allow_http": "true",
        }
        if anonymous:
            return options | {"aws_skip_signature": "true"}
        return options | {"aws_access_key_id": "test", "aws_secret_access_key": "test"}

    def close(self) -> None:
        """End the server."""
        self.process.close()
