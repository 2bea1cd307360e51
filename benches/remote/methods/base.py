"""What a method is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ..target import Target


@dataclass(slots=True)
class Reader:
    """A method that is set up: libraries are loaded, nothing is open.

    Parameters
    ----------
    call
        What is timed: opens the arrays and reads them. Gives the result as the library has it.
    values
        Gives the values of a result as one flat array for each array of the workload. None: the
        result has, for each, one array or a list of them.
    """

    call: Callable[[], Any]
    values: Callable[[Any], list[NDArray[Any]]] | None = None


@dataclass(frozen=True, slots=True)
class Method:
    """A way to read a workload.

    Parameters
    ----------
    needs
        Packages that must be installed.
    start
        Sets it up.
    one_axis
        Whether it cannot read boxes.
    quick
        Whether it runs at the quick scale.
    sampled
        Whether it reads few of many selections, its time then being extrapolated.
    """

    name: str
    kind: Literal["zarrow", "peer"]
    needs: tuple[str, ...]
    start: Callable[[Target], Reader]
    one_axis: bool = False
    quick: bool = True
    sampled: bool = False
