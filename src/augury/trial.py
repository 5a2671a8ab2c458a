"""A trial: one evaluation of the function, asked for or told from elsewhere."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any


class State(enum.StrEnum):
    """Where a trial stands."""

    PENDING = "pending"
    COMPLETE = "complete"
    FAILED = "failed"


class Origin(enum.StrEnum):
    """Where a trial's point came from."""

    DESIGN = "design"
    MODEL = "model"
    ENQUEUED = "enqueued"
    TOLD = "told"


@dataclass(eq=False)
class Trial:
    """One evaluation.

    `value` is what was told (None while pending, possibly NaN or infinite for a failed one), `info`
    what the model believed when it suggested the point: predicted mean and standard deviation of the
    function and of the noise in the user's units, the score, its accuracy eta, and seconds.
    """

    number: int
    params: Mapping[str, Any]
    value: float | None = None
    state: State = State.PENDING
    info: Mapping[str, Any] = field(default_factory=dict, repr=False)
    origin: Origin = Origin.TOLD
    reason: str | None = None  # why it failed
    optimizer: str = field(default="", repr=False)  # the identity of the optimizer that asked

    def begun(self) -> "Trial":
        """The trial as it was while it ran."""
        return replace(self, value=None, state=State.PENDING, reason=None)

    def to_dict(self) -> dict[str, Any]:
        """As the JSON state holds it."""
        return {
            "number": self.number,
            "params": dict(self.params),
            "value": self.value,
            "state": str(self.state),
            "origin": str(self.origin),
            "reason": self.reason,
            "info": dict(self.info),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], optimizer: str) -> "Trial":
        """The trial that `to_dict` described."""
        value = data["value"]
        return cls(
            number=int(data["number"]),
            params=dict(data["params"]),
            value=None if value is None else float(value),
            state=State(data["state"]),
            origin=Origin(data["origin"]),
            reason=data["reason"],
            info=dict(data["info"]),
            optimizer=optimizer,
        )


@dataclass(frozen=True)
class Seen:
    """What the suggestion of a trial knew, besides what the last one of the same optimizer did."""

    number: int
    by: str  # the identity of the optimizer
    learnt: Sequence[int]  # the trials whose results came since, in their order
    pending: Sequence[int]  # those that were running
    place: int = 0  # in the batch of points that were chosen together
    count: int = 1  # of its points

    def to_dict(self) -> dict[str, Any]:
        """As `info["seen"]` holds it."""
        trials = {"learnt": _spans(self.learnt), "pending": _spans(self.pending)}
        return {"by": self.by, **trials, "place": self.place, "count": self.count}

    @staticmethod
    def of(trial: Trial) -> "Seen | None":
        """What a trial says; None if nothing that is understood."""
        try:
            seen = trial.info["seen"]
            learnt, pending = _numbers(seen["learnt"]), _numbers(seen["pending"])
            batch = int(seen["place"]), int(seen["count"])
            return Seen(trial.number, str(seen["by"]), learnt, pending, *batch)
        except (KeyError, TypeError, ValueError, AttributeError):
            return None


def _spans(numbers: Iterable[int]) -> str:
    """Numbers in their order as short text: "0-2 7 5" is 0, 1, 2, 7, 5."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in found)


def _numbers(text: str) -> list[int]:
    """The numbers that `_spans` wrote."""
    ends = [tuple(map(int, span.split("-"))) for span in text.split()]
    return [number for span in ends for number in range(span[0], span[-1] + 1)]
