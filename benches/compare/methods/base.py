"""What a method is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ..case import Case

MANY = 20_000  # selections from which one Python object for each is too much to hold at once


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides whether a method fits a workload."""

    count: int
    ndim: int
    csr: bool
    npy: bool
    cold: bool


def flat_values(result: Any) -> list[NDArray[Any]]:
    """Give the values of results that are, for each array, one array or a list of them."""
    return [
        np.concatenate([np.asarray(part).reshape(-1) for part in per_array])
        if isinstance(per_array, list)
        else np.asarray(per_array).reshape(-1)
        for per_array in result
    ]


@dataclass(slots=True)
class Reader:
    """A method that is set up: arrays are open, threads have been started.

    Parameters
    ----------
    call
        What is timed. Gives the result as the library has it.
    values
        Gives the values of a result as one flat array for each array of the workload.
    count
        Makes one more call, and gives how many chunks it decoded.
    stats
        Gives the chunks and bytes decoded and the bytes read of a result that says so itself.
    before
        Is called before each call, and not timed.
    """

    call: Callable[[], Any]
    values: Callable[[Any], list[NDArray[Any]]] = flat_values
    count: Callable[[], int] | None = None
    stats: Callable[[Any], dict[str, int]] | None = None
    before: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Method:
    """A way to read a workload.

    Parameters
    ----------
    needs
        Packages that must be installed, as `environments.look_into` names them.
    start
        Sets it up for a case, with so many threads.
    refuses
        Says why it does not fit, or None if it does. An empty reason is not worth a report.
    quick
        Whether it runs at the quick scale.
    sampled
        Whether it reads few of very many selections, its time then being extrapolated.
    opens
        Whether each chunk it decodes is a file that it opens, so that opens can be counted.
    maps
        Whether it maps files into memory, so that the kernel does not count what it reads.
    arguments
        Those of the limit program, which is no Python.
    warm
        Whether the page cache is filled before each call, on cold workloads too.
    """

    name: str
    kind: Literal["zarrow", "peer", "limit"]
    needs: tuple[str, ...]
    start: Callable[[Case, int], Reader] | None = None
    refuses: Callable[[Facts], str | None] = field(default=lambda _: None)
    quick: bool = True
    sampled: bool = False
    opens: bool = False
    maps: bool = False
    arguments: tuple[str, ...] = ()
    warm: bool = False


def too_many(facts: Facts) -> str | None:
    """Refuse workloads of very many selections."""
    if facts.count > MANY:
        return f"one request for each of {facts.count:,} selections at once is too much to hold"
    return None


def one_axis(facts: Facts) -> str | None:
    """Refuse boxes."""
    return None if facts.ndim == 1 else ""
