"""The parameters along which a belief is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from augury._errors import UnsupportedError
from augury.plots.source import Modelled
from augury.plots.style import log_scale
from augury.space import Choice, Param, Pool, Space


@dataclass(frozen=True)
class Axis:
    """One parameter: the values on a grid, and how a value is shown."""

    name: str
    param: Param
    values: Sequence[Any]
    labels: tuple[str, ...] | None  # of a choice's options

    @classmethod
    def of(cls, modelled: Modelled, name: str, count: int) -> "Axis":
        """At most `count` values of a parameter, evenly spread on its scale; all options of a choice."""
        space = space_of(modelled)
        free = [n for n, param in space.params.items() if param.width]
        if name not in free:
            raise UnsupportedError(
                f"an axis must be one of the parameters {', '.join(free)}; got {name!r}. Use one of them."
            )
        param = space.params[name]
        if isinstance(param, Choice):
            options = modelled.options.get(name, tuple(param.options))
            return cls(name, param, list(param.options), _labels(options))
        levels = param.levels
        if levels is None:
            return cls(name, param, param.decode(np.linspace(0.0, 1.0, count)[:, None]), None)
        if levels <= count:
            return cls(name, param, param.decode(param.from_codes(np.arange(levels))), None)
        columns = param.snap(np.linspace(0.0, 1.0, count)[:, None])
        return cls(name, param, param.decode(np.unique(columns, axis=0)), None)

    @property
    def discrete(self) -> bool:
        """Whether there is nothing between two values."""
        return self.param.levels == len(self.values)

    def shown(self, values: Sequence[Any]) -> list[Any]:
        """Values as they are drawn: numbers, or the labels of options."""
        if self.labels is None:
            return list(values)
        assert isinstance(self.param, Choice)
        known = [(type(option), option) for option in self.param.options]
        return [self.labels[known.index((type(value), value))] for value in values]

    def layout(self, *, cells: bool = False) -> dict[str, Any]:
        """Plotly's settings of the axis, with room for points at its ends, or for cells around them."""
        if self.labels is not None:
            return {
                "title_text": self.name,
                "type": "category",
                "categoryorder": "array",
                "categoryarray": self.labels,
                "range": [-0.5, len(self.labels) - 0.5],
            }
        low, high = float(self.values[0]), float(self.values[-1])
        log = bool(getattr(self.param, "log", False))
        ends = np.log10([low, high]) if log else np.array([low, high])
        room = (0.5 / (len(self.values) - 1) if cells else 0.02) * (ends[1] - ends[0])
        return {
            "title_text": f"{self.name} (log scale)" if log else self.name,
            "range": [float(ends[0] - room), float(ends[1] + room)],
            **(log_scale(low, high) if log else {"type": "linear"}),
        }


def space_of(modelled: Modelled) -> Space:
    """The space, which must have parameters."""
    space = modelled.optimizer.space
    if isinstance(space, Pool):
        raise UnsupportedError(
            "belief draws slices of a Space of Float, Int and Choice parameters; got a Pool. "
            "Look at trial.info, or at calibration."
        )
    return space


def _labels(options: Sequence[Any]) -> tuple[str, ...]:
    """Options as texts that tell them apart."""
    plain = tuple(str(option) for option in options)
    return plain if len(set(plain)) == len(plain) else tuple(repr(option) for option in options)
