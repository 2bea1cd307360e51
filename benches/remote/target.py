"""A workload in the object server, as the process of a method sees it. Imports no reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..compare.case import Case

BUCKET = "bench"
REGION = "us-east-1"


@dataclass(frozen=True)
class Target:
    """A case, the port of the server that has its arrays, and their keys there."""

    case: Case
    port: int
    keys: tuple[str, ...]

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def s3_options(self) -> dict[str, Any]:
        """Give the options of object_store for the server's bucket."""
        return {
            "aws_endpoint": self.url,
            "aws_region": REGION,
            "aws_allow_http": "true",
            "aws_skip_signature": "true",
        }
