"""An optimizer that knows the trials of a study."""

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from augury._errors import DataError, SpaceExhausted
from augury.algorithm import Algorithm
from augury.core.precision import Device
from augury.maximizers import Domain
from augury.model import Duplicates
from augury.optimizer import Direction, Optimizer
from augury.studies import notes
from augury.studies.spaces import Distributions, Points, numbers_of
from augury.trial import Origin, Trial

LOST = "augury:lost"  # marks a trial that was lost with its worker, and says why
GONE = "augury:not counted"  # marks a failed trial in whose place another one is, and says why


class Mirror(Optimizer):
    """An optimizer of the trials of a study that have certain parameters.

    Its trials have the study's numbers, so that two processes that ask at the same time draw different
    random numbers. Finished trials are learnt in the order they were completed, once; those being
    evaluated are looked at anew for every suggestion.

    Args:
        distributions: the parameters.
        space: the user's, if there is one.
        algorithm, direction, seed, initial, budget, duplicates, device: as in :class:`Optimizer`.
    """

    def __init__(
        self,
        distributions: Distributions,
        space: Domain | None,
        algorithm: str | Algorithm,
        direction: Direction,
        seed: int,
        initial: int | tuple[str, int] | None = None,
        budget: int | None = None,
        duplicates: Duplicates = "avoid",
        device: Device = "cpu",
    ) -> None:
        self.points = Points(distributions, space)
        super().__init__(
            self.points.space, algorithm, direction, seed, initial, budget, duplicates, device
        )
        self._seen: set[int] = set()

    def _position(self) -> int:
        return self._history.next_number  # processes that ask at the same time have different ones

    @property
    def needs_trials(self) -> bool:
        """Whether a suggestion depends on other trials at all."""
        finite = self.duplicates == "avoid" and math.isfinite(self.space.size)
        return self.algorithm.surrogate is not None or finite

    def learn(self, finished: Iterable[FrozenTrial]) -> None:
        """Take in the trials that were completed since the last time."""
        with self._lock:
            new = [trial for trial in finished if trial.number not in self._seen]
            for trial in sorted(new, key=_completed):
                self._seen.add(trial.number)
                self._learn(trial)

    def _learn(self, trial: FrozenTrial) -> None:
        """One trial; none in whose place another one is, or that has not all parameters."""
        if trial.constraints:
            raise DataError(
                f"AugurySampler knows no constraints; got some in trial {trial.number}. Let the "
                "objective raise an exception where one is violated, or use optuna.samplers.GPSampler."
            )
        point = self._point(trial)
        if point is None or is_replaced(trial):
            return
        value = self._value(trial)
        own = Trial(trial.number, point, origin=_origin(trial), optimizer=self._identity)
        self._history.add(own)
        self._history.finish(own, value, None if value is not None else f"it is {trial.state.name}")

    def _value(self, trial: FrozenTrial) -> float | None:
        """What the model learns; None of a failure.

        A pruned trial counts with its last reported value, but as no better than the median of the values
        before it: it was ended because it promised little.
        """
        if trial.state is TrialState.COMPLETE:
            return trial.value
        if trial.state is not TrialState.PRUNED or trial.last_step is None:
            return None
        last = trial.intermediate_values[trial.last_step]
        known = [one.value for one in self._history.complete if one.value is not None]
        middle = statistics.median(known) if known else last
        return min(last, middle) if self.direction == "maximize" else max(last, middle)

    def _point(self, trial: FrozenTrial) -> dict[str, Any] | None:
        """The trial's place in the space, if it has all parameters, suggested or noted."""
        known: dict[str, float] = {}
        if trial.state is TrialState.RUNNING:
            for note in notes.read(trial):
                known |= note.numbers
        distributions = self.points.distributions
        same = {
            name: value
            for name, value in trial.params.items()
            if trial.distributions[name] == distributions.get(name)
        }
        return self.points.point(known | numbers_of(same, distributions))

    def values(self, trial: FrozenTrial) -> dict[str, Any] | None:
        """The values of a trial's parameters, suggested or noted, as Optuna has them."""
        point = self._point(trial)
        if point is None:
            return None
        numbers = self.points.numbers(point)
        return {n: one.to_external_repr(numbers[n]) for n, one in self.points.distributions.items()}

    def suggest(self, number: int, running: Sequence[FrozenTrial], count: int = 1) -> list[Trial]:
        """The points of the trials from that number on, while others run; nothing of it is kept.

        Where no point is left that was not evaluated, points may come again: no study ends by that.
        """
        with self._lock:
            for trial in running:
                point = self._point(trial)
                if point is not None and trial.number != number:
                    self._history.add(Trial(trial.number, point, origin=_origin(trial)))
            self._history.next_number = number
            try:
                return self._ask_any(count)
            finally:
                self._history.forget(self._history.trials.keys() - set(self._history.order))

    def _ask_any(self, count: int) -> list[Trial]:
        try:
            return self.ask(count)
        except SpaceExhausted:
            self.duplicates = self._model.duplicates = "allow"
            return self.ask(count)


def is_lost(trial: FrozenTrial) -> bool:
    """Whether a trial was lost with its worker; one that ended well after all was not."""
    return trial.state is TrialState.FAIL and LOST in trial.system_attrs


def is_replaced(trial: FrozenTrial) -> bool:
    """Whether a failed trial is no observation and does not count, because another one does."""
    return is_lost(trial) or (trial.state is TrialState.FAIL and GONE in trial.system_attrs)


def _completed(trial: FrozenTrial) -> tuple[Any, int]:
    return trial.datetime_complete, trial.number


def _origin(trial: FrozenTrial) -> Origin:
    """Where a trial's point came from; what others suggested was told."""
    noted = notes.read(trial)
    return noted[0].origin if noted else Origin.TOLD
