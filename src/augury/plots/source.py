"""What is plotted: the trials of a run as the user knows them, and the model behind them."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optuna.distributions import CategoricalDistribution
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from augury._errors import DataError, NumericsError, SpaceExhausted, UnsupportedError
from augury.core.precision import computing
from augury.optimizer import Direction, Optimizer
from augury.run import Result
from augury.studies.book import own
from augury.studies.mirror import Mirror, is_replaced
from augury.studies.sampler import AugurySampler
from augury.surrogates import Fit, Posterior, Status
from augury.trial import State, Trial

Source = Result | Optimizer | Study
SHOWN = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL, TrialState.RUNNING)


@dataclass(frozen=True)
class Run:
    """The trials of a run, by number, and which values are better."""

    trials: tuple[Trial, ...]
    direction: Direction

    @classmethod
    def of(cls, source: Source) -> "Run":
        """What a source says."""
        if isinstance(source, Result):
            return cls(source.trials, source.optimizer.direction)
        if isinstance(source, Optimizer):
            return cls(source.trials, source.direction)
        if isinstance(source, Study):
            if len(source.directions) > 1:
                raise DataError(
                    f"a plotted study must have one objective; got {len(source.directions)}. "
                    "Use optuna.visualization."
                )
            frozen = source.get_trials(deepcopy=False, states=SHOWN)
            maximize = source.direction is StudyDirection.MAXIMIZE
            trials = tuple(own(trial) for trial in frozen if not is_replaced(trial))
            return cls(trials, "maximize" if maximize else "minimize")
        raise UnsupportedError(
            "what is plotted must be a Result, an Optimizer or a study of Optuna's; got "
            f"{type(source).__name__}. Pass what augury.minimize returned, for example."
        )

    @property
    def sign(self) -> float:
        """+1 to maximize, −1 to minimize."""
        return 1.0 if self.direction == "maximize" else -1.0


@dataclass(frozen=True)
class Modelled:
    """An optimizer that has a model, and the model as it is now.

    Of a study without a space of the user's, the optimizer has numbers where the user has options of a
    choice: points of the optimizer are `inside`, those of the user `outside`.
    """

    optimizer: Optimizer
    fit: Fit
    believer: Posterior  # has a mean and a variance
    options: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # of such choices
    frozen: Sequence[FrozenTrial] = field(default=(), repr=False)  # the study's trials

    @classmethod
    def of(cls, source: Source, caller: str) -> "Modelled":
        """The model of a source, fitted to all that is known; `caller` begins the sentences of errors."""
        optimizer = _optimizer(source, caller)
        model = optimizer.model
        if optimizer.algorithm.surrogate is None:
            raise UnsupportedError(
                f"{caller} needs an algorithm that has a model; got {optimizer.algorithm.name!r}. "
                'Use "gp-ei", for example.'
            )
        if model.history.observations == 0:
            raise DataError(
                f"{caller} needs at least one finished evaluation with a finite value; got none. "
                "Tell a value first."
            )
        with computing(optimizer.device):
            fit = model.fitted()
            believer = model.believer(fit)
        if believer is None:
            raise UnsupportedError(
                f"{caller} needs a model that has a mean and a variance; got that of "
                f"{optimizer.algorithm.name!r}. Use another algorithm."
            )
        if fit.status is Status.FAILED:
            raise NumericsError(
                f"{caller} needs a fitted model; got none: {fit.status} Scale the values."
            )
        frozen = source.get_trials(deepcopy=False) if isinstance(source, Study) else ()
        return cls(optimizer, fit, believer, _options(optimizer), frozen)

    @property
    def name(self) -> str:
        """What the model is."""
        return type(self.optimizer.algorithm.surrogate).__name__

    def next(self) -> Trial | None:
        """What would be asked next; None where nothing is left. Nothing changes by it."""
        twin = copy.deepcopy(self.optimizer)
        try:
            if not isinstance(twin, Mirror):
                return twin.ask()
            taken = [trial.number for trial in self.frozen] + [trial.number for trial in twin.trials]
            return twin.suggest(1 + max(taken), self._running())[0]
        except SpaceExhausted:
            return None

    def waiting(self) -> list[Trial]:
        """The points that are being evaluated."""
        optimizer = self.optimizer
        if not isinstance(optimizer, Mirror):
            return [trial for trial in optimizer.trials if trial.state is State.PENDING]
        known = ((trial.number, optimizer.values(trial)) for trial in self._running())
        return [Trial(n, self.inside(values)) for n, values in known if values is not None]

    def _running(self) -> list[FrozenTrial]:
        return [trial for trial in self.frozen if trial.state is TrialState.RUNNING]

    def inside(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """A point of the user's, or a part of one, as the optimizer has it."""
        found = dict(point)
        for name in self.options.keys() & point.keys():
            if point[name] not in self.options[name]:
                raise DataError(
                    f"{name!r} must be one of {list(self.options[name])}; got {point[name]!r}. "
                    "Use one of them."
                )
            found[name] = self.options[name].index(point[name])
        return found

    def outside(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """A point of the optimizer's as the user knows it."""
        return {n: self.options[n][value] if n in self.options else value for n, value in point.items()}


def _optimizer(source: Source, caller: str) -> Optimizer:
    Run.of(source)  # refuses what is no source
    if isinstance(source, Result):
        return source.optimizer
    if isinstance(source, Optimizer):
        return source
    if not isinstance(source.sampler, AugurySampler):
        raise UnsupportedError(
            f"{caller} needs a study with an AugurySampler; got {type(source.sampler).__name__}. "
            "Load it with sampler=augury.AugurySampler()."
        )
    return source.sampler.mirror(source)


def _options(optimizer: Optimizer) -> dict[str, tuple[Any, ...]]:
    """The options of choices whose numbers the optimizer has."""
    if not isinstance(optimizer, Mirror) or not optimizer.points.counted:
        return {}
    known = optimizer.points.distributions.items()
    return {name: one.choices for name, one in known if isinstance(one, CategoricalDistribution)}
