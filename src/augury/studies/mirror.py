"""An optimizer that knows the trials of a study."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from augury._errors import SpaceExhausted
from augury.algorithm import Algorithm
from augury.core.precision import Device
from augury.maximizers import Domain
from augury.model import Duplicates
from augury.optimizer import Direction, Optimizer
from augury.studies import notes
from augury.studies.spaces import Distributions, Points, numbers_of
from augury.trial import Origin, Seen, Trial

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
        self.points, self._duplicates = Points(distributions, space), duplicates
        self._pruned: set[int] = set()  # numbers of trials whose values are not their own
        super().__init__(
            self.points.space, algorithm, direction, seed, initial, budget, duplicates, device
        )

    def _begin(self) -> None:
        self.duplicates = self._duplicates  # until no other point is left
        super()._begin()
        self._learnt: set[int] = set()
        self._replaced: dict[int, Trial] = {}  # trials that are no observations, but were pending once

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
            new = [trial for trial in finished if trial.number not in self._learnt]
            for trial in sorted(new, key=_completed):
                self._learnt.add(trial.number)
                self._learn(trial)

    def _learn(self, trial: FrozenTrial) -> None:
        """One trial; none in whose place another one is, or that has not all parameters."""
        point = self._point(trial)
        if point is None:
            return
        own = self._trial(trial, point)
        if is_replaced(trial):
            self._replaced[trial.number] = own
            return
        value = self._value(trial)
        self._history.add(own)
        self._history.finish(own, value, None if value is not None else f"it is {trial.state.name}")

    def _trial(self, trial: FrozenTrial, point: Mapping[str, Any]) -> Trial:
        """A trial of the study as one of ours; what others suggested was told."""
        noted = notes.read(trial)
        origin = noted[0].origin if noted else Origin.TOLD
        info = noted[0].info if noted else {}
        return Trial(trial.number, point, info=info, origin=origin, optimizer=self._identity)

    def _value(self, trial: FrozenTrial) -> float | None:
        """What the model learns; None of a failure.

        A pruned trial counts with its last reported value, but as no better than the median of the values
        that were complete before it: it was ended because it promised little. Before the first of these
        it counts as a failure.
        """
        if trial.state is TrialState.COMPLETE:
            return trial.value
        if trial.state is not TrialState.PRUNED or trial.last_step is None:
            return None
        complete = [one for one in self._history.complete if one.number not in self._pruned]
        if not complete:
            return None
        self._pruned.add(trial.number)
        last = trial.intermediate_values[trial.last_step]
        middle = statistics.median(float(one.value or 0.0) for one in complete)
        return min(last, middle) if self.direction == "maximize" else max(last, middle)

    def _point(self, trial: FrozenTrial) -> dict[str, Any] | None:
        """The trial's place in the space, if it has all parameters, suggested or noted."""
        known: dict[str, float] = {}
        if trial.state is TrialState.RUNNING or is_replaced(trial):
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
                    self._history.add(self._trial(trial, point))
            self._history.next_number = number
            try:
                return self._ask_any(count)
            finally:
                self._history.forget(self._history.trials.keys() - set(self._history.order))

    @property
    def best(self) -> Trial:
        """The best trial that is complete; a pruned one may have the same value."""
        return self._history.best(without=self._pruned)

    @property
    def known(self) -> Mapping[int, Trial]:
        """All trials that a suggestion may have known, by number."""
        return self._history.trials | self._replaced

    def recall(self, known: Mapping[int, Trial], seen: Seen) -> None:
        """Bring the history to where a suggestion was made."""
        self._history.forget(self._history.trials.keys() - set(self._history.order))
        for number in seen.learnt:
            self._history.add(known[number].begun())
            self._history.finish(self._history.trials[number], known[number].value, known[number].reason)
        for number in seen.pending:
            self._history.add(known[number].begun())
        self._history.next_number = seen.number
        if self.left <= 0:
            self._allow_duplicates()

    def _ask_any(self, count: int) -> list[Trial]:
        try:
            return self.ask(count)
        except SpaceExhausted:
            self._allow_duplicates()
            return self.ask(count)

    def _allow_duplicates(self) -> None:
        self.duplicates = self._model.duplicates = "allow"


def is_lost(trial: FrozenTrial) -> bool:
    """Whether a trial was lost with its worker; one that ended well after all was not."""
    return trial.state is TrialState.FAIL and LOST in trial.system_attrs


def is_replaced(trial: FrozenTrial) -> bool:
    """Whether a failed trial is no observation and does not count, because another one does."""
    return is_lost(trial) or (trial.state is TrialState.FAIL and GONE in trial.system_attrs)


def _completed(trial: FrozenTrial) -> tuple[Any, int]:
    return trial.datetime_complete, trial.number
