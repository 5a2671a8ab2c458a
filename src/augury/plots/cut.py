"""A slice of a space, and what is known there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from augury._errors import DataError
from augury.core.data import pad
from augury.core.keys import Purpose, fold, root_key
from augury.core.precision import computing
from augury.plots.axes import Axis, space_of
from augury.plots.source import Modelled, Run
from augury.surrogates import Capability
from augury.trial import Trial

BLOCK = 256  # rows of one compiled call


@dataclass(frozen=True)
class Cut:
    """A slice of a space: the point it goes through, and what is known.

    Trials are as the user knows them; `inside` are their points as the model knows them, by number.
    """

    modelled: Modelled
    axes: list[Axis]
    point: Mapping[str, Any]  # the fixed parameters, and some values of the others
    seen: list[Trial]  # what the model was fitted to
    values: list[float]  # to which of their values
    waiting: list[Trial]  # being evaluated
    coming: list[Trial]  # the next one, if there is one
    inside: Mapping[int, Mapping[str, Any]]

    @classmethod
    def of(cls, modelled: Modelled, axes: list[Axis], run: Run, at: Mapping[str, Any]) -> "Cut":
        """Through the best point, but for what is given."""
        history, space = modelled.optimizer.model.history, space_of(modelled)
        unknown = [str(name) for name in at if name not in space.params]
        if unknown:
            raise DataError(
                f"'at' must have some of the parameters {', '.join(space.names)}; got "
                f"{', '.join(unknown)}. Correct the names."
            )
        data, known = history.data(), {trial.number: trial for trial in run.trials}
        waiting, following = modelled.waiting(), modelled.next()
        coming = [] if following is None else [following]
        return cls(
            modelled,
            axes,
            point=space.check({**modelled.optimizer.best.params, **modelled.inside(at)}),
            seen=[known.get(number, history.trials[number]) for number in history.order],
            values=(history.sign * data.y[: data.n]).tolist(),
            waiting=[replace(trial, params=modelled.outside(trial.params)) for trial in waiting],
            coming=[replace(trial, params=modelled.outside(trial.params)) for trial in coming],
            inside={**history.params, **{t.number: t.params for t in (*waiting, *coming)}},
        )

    def rows(self) -> np.ndarray:
        """The grid as rows of the unit cube, the last axis changing fastest."""
        points: list[dict[str, Any]] = [dict(self.point)]
        for axis in self.axes:
            points = [{**point, axis.name: value} for point in points for value in axis.values]
        return self.encoded(points)

    def encoded(self, points: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """Points of the model's as rows of the unit cube."""
        return space_of(self.modelled).encode_all(points)

    def predict(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the function, in the user's units."""
        sign = self.modelled.optimizer.model.history.sign
        mean, var = _in_blocks(lambda some: np.stack(self.modelled.believer.predict(some)), rows)
        return sign * mean, np.sqrt(var)

    def drawn(self, rows: np.ndarray, count: int) -> list[np.ndarray]:
        """The values of drawn functions; none if the model draws none."""
        optimizer = self.modelled.optimizer
        if Capability.PATH not in optimizer.model.capabilities or not count:
            return []
        keys = [fold(root_key(optimizer.seed), Purpose.PICTURE, i) for i in range(count)]
        fit, sign = self.modelled.fit, optimizer.model.history.sign
        with computing(optimizer.device):
            paths = (draw.path for draw in fit.posterior.draws(keys=keys))
            return [sign * fit.value(_in_blocks(path, rows)) for path in paths]

    def places(self, trials: list[Trial]) -> list[list[Any]]:
        """Where trials are on each axis."""
        points = [self.inside[trial.number] for trial in trials]
        return [axis.shown([point[axis.name] for point in points]) for axis in self.axes]

    def on_it(self, trial: Trial) -> bool:
        """Whether a trial lies on the slice."""
        names = {axis.name for axis in self.axes}
        inside = self.inside[trial.number]
        return all(inside[name] == value for name, value in self.point.items() if name not in names)


def _in_blocks(function: Callable[[np.ndarray], Any], rows: np.ndarray) -> np.ndarray:
    """A function of rows, called with blocks of one size, so that it is compiled once."""
    parts = []
    for start in range(0, len(rows), BLOCK):
        some = rows[start : start + BLOCK]
        parts.append(np.asarray(function(pad(some, BLOCK)))[..., : len(some)])
    return np.concatenate(parts, axis=-1)
