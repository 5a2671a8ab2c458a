"""A trial: one evaluation of the function, asked for or told from elsewhere."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
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
