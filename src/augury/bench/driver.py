"""How an experiment talks to a method: ask, tell, and take up a run again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from augury._errors import AuguryError


class NotAvailableError(AuguryError):
    """A method that an experiment names does not exist here (yet)."""


@dataclass(frozen=True)
class Asked:
    """A point to evaluate; `number` identifies it when its value is told."""

    number: int
    params: Mapping[str, Any]
    info: Mapping[str, Any]  # small diagnostics: the accuracy eta, the seconds by part


@dataclass(frozen=True)
class Event:
    """What happened in a run, in order: an initial point, a point asked, or a value told."""

    kind: str  # "initial", "ask" or "tell"
    number: int
    params: Mapping[str, Any] | None = None
    value: float | None = None  # None for a failure


class Driver(Protocol):
    """Asks a method for points and tells it values."""

    @property
    def versions(self) -> Mapping[str, str]:
        """Of packages beyond those that Augury itself runs on."""

    def start(self, events: Sequence[Event]) -> None:
        """Take up a run after these events; an initial point carries its value."""

    def initial(self, number: int, params: Mapping[str, Any], value: float | None) -> None:
        """Tell a point of the initial design, which the runner has chosen."""

    def ask(self, n: int) -> Sequence[Asked]:
        """The next n points."""

    def tell(self, asked: Asked, value: float | None) -> None:
        """Tell the value of a point; None if the evaluation failed."""

    def recommend(self) -> Mapping[str, Any] | None:
        """The point that the method takes for the best; None if it only has values."""

    def close(self) -> None:
        """Release what the method holds."""
