"""Augury's algorithms for Optuna studies."""

import threading
import warnings
import zlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from augury._checks import check_count, check_seed, one_of
from augury._errors import DataError, UnsupportedError
from augury.algorithm import Algorithm, resolve
from augury.core.precision import Device
from augury.maximizers import Domain
from augury.model import Duplicates
from augury.optimizer import Direction
from augury.space import Pool, Space
from augury.studies import notes
from augury.studies.mirror import Mirror
from augury.studies.spaces import (
    Distributions,
    can_be_modelled,
    distributions_of,
    is_value,
    numbers_of,
)
from augury.trial import Origin, Trial

WITH_PARAMETERS = (TrialState.COMPLETE, TrialState.PRUNED)  # all that the objective asks for
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
MIRRORS = 16  # that are kept: the shared parameters, and those of branches


class AugurySampler(BaseSampler):
    """Suggests the parameters of Optuna trials by one of Augury's algorithms.

    The parameters that all trials have are modelled together. Those of a branch, which only some trials
    have, are modelled by themselves once as many trials have them as an initial design has points; before
    that they are independent of all, with one warning.

    Running trials are pending points: each has a note of its point as soon as it exists, which every
    process that shares the storage sees. A failed trial counts as the worst value so far. A pruned one
    counts with its last reported value, but as no better than the median of the values that were complete
    before it; one that has reported nothing, or comes before all of these, counts as failed.

    A suggestion depends on the seed, the trial's number, the finished trials in the order of their
    completion and the running ones, so that processes may share a seed.

    Args:
        algorithm: a name (`augury.algorithms()` lists them) or an :class:`Algorithm`.
        seed: decides all randomness; None draws one.
        space: the parameters, if they are known; otherwise the first trials show them. Of a
            :class:`Pool`, trials have the parameter "index".
        initial: the initial design, as in :class:`Optimizer`.
        budget: the number of trials, if it is known.
        duplicates: "avoid" or "allow", as in :class:`Optimizer`; where no new point is left, points come
            again.
        device: "cpu" or "gpu".

    Example:
        >>> study = optuna.create_study(sampler=AugurySampler(seed=0))
        >>> study.optimize(lambda trial: trial.suggest_float("x", -1.0, 2.0) ** 2, n_trials=20)
    """

    def __init__(
        self,
        algorithm: str | Algorithm = "auto",
        seed: int | None = None,
        *,
        space: Domain | None = None,
        initial: int | tuple[str, int] | None = None,
        budget: int | None = None,
        duplicates: Duplicates = "avoid",
        device: Device = "cpu",
    ) -> None:
        if not isinstance(space, Space | Pool | None):
            raise UnsupportedError(
                f"the space of a sampler must be a Space, a Pool or None; got {type(space).__name__}. "
                "Leave it out, and the first trials show it."
            )
        one_of("duplicates", duplicates, ("avoid", "allow"))
        one_of("device", device, ("cpu", "gpu"))
        self.algorithm = resolve(algorithm)
        self.seed = check_seed(seed)
        self.space = space
        self._settings: dict[str, Any] = {
            "initial": initial,
            "budget": check_count("budget", budget),
            "duplicates": duplicates,
            "device": device,
        }
        self._known = None if space is None else distributions_of(space)
        if self._known:  # what does not fit together is said at once
            self._new_mirror(self._known, "minimize", self.seed)
        self._warned = False
        self._lock = threading.RLock()  # threads may share a sampler
        self._forget()

    def _forget(self) -> None:
        """Drop what can be computed anew from a study."""
        self._study: tuple[Any, int] | None = None  # of which the rest is known
        self._shared = IntersectionSearchSpace(include_pruned=True)
        self._mirrors: dict[tuple[Any, ...], Mirror] = {}
        self._asked: dict[int, dict[str, Any]] = {}  # by trial, the values that it has been noted for
        self._parts: dict[int, int] = {}  # how many notes a trial has
        self._batch = 1  # how many trials are chosen together, the next time
        self._chosen: dict[int, Trial] = {}  # by number, what was chosen with an earlier one

    def __getstate__(self) -> dict[str, Any]:
        left = {"_lock", "_study", "_shared", "_mirrors", "_asked", "_parts", "_chosen"}
        return {name: value for name, value in vars(self).items() if name not in left}

    def __setstate__(self, content: dict[str, Any]) -> None:
        vars(self).update(content, _lock=threading.RLock())
        self._forget()

    def __str__(self) -> str:
        return f"AugurySampler({self.algorithm.name})"

    def reseed_rng(self) -> None:
        """Nothing: what is random depends on the trial's number."""

    @staticmethod
    def info(trial: FrozenTrial) -> dict[str, Any]:
        """Why a trial has its point: what the model believed, as in :class:`Trial`; {} if not ours.

        Where a branch of a space has a model of its own, what that believed is under "branches".
        """
        first, *others = notes.read(trial) or [notes.Note({}, Origin.TOLD)]
        branches = {", ".join(note.numbers): dict(note.info) for note in others}
        return {**first.info, "branches": branches} if branches else dict(first.info)

    def together(self, count: int) -> None:
        """Let the next trials, so many, be chosen as one batch."""
        with self._lock:
            self._batch, self._chosen = count, {}

    def mirror(self, study: Study) -> Mirror:
        """The optimizer of the given space, or of what all trials share; it knows the finished ones."""
        with self._lock:
            self._check(study)
            known = _modelled(self._shared.calculate(study)) if self._known is None else self._known
            if not known:
                raise DataError(
                    "a model of a study needs parameters that all its trials have; got none. "
                    "Finish a trial first, or give the sampler a space."
                )
            mirror = self._mirror(study, known, self.seed)
            finished = study.get_trials(deepcopy=False, states=FINISHED)
            check_unconstrained(finished)
            mirror.learn(finished)
            return mirror

    # ------------------------------------------------------------------ Optuna's calls

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Choose the point of the shared parameters, and let other processes know.

        A trial of a study that is not supported ends here: nobody would.
        """
        try:
            with self._lock:
                self._check(study)
            check_unconstrained(study._get_trials(deepcopy=False, states=FINISHED, use_cache=True))
        except DataError:
            study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
            raise
        space = self.infer_relative_search_space(study, trial)
        self.sample_relative(study, trial, space)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """The parameters that all finished trials have, or those that were given."""
        with self._lock:
            self._check(study)
            if self._known is not None:
                return dict(self._known)
            return _modelled(self._shared.calculate(study))

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The point of the shared parameters; the same if asked again."""
        with self._lock:
            self._check(study)
            if not search_space:
                return {}
            known = self._asked.get(trial.number, {})
            if search_space.keys() <= known.keys():
                return {name: known[name] for name in search_space}
            mirror = self._mirror(study, search_space, self.seed)
            return self._suggest(study, trial, search_space, mirror)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """The value of a parameter that not all trials have."""
        with self._lock:
            self._check(study)
            known = self._asked.get(trial.number, {})
            if param_name in known:
                return known[param_name]
            finished = study.get_trials(deepcopy=False, states=WITH_PARAMETERS)
            branch = [t for t in finished if t.distributions.get(param_name) == param_distribution]
            group = _common(branch, without=trial.params.keys() | known.keys())
            if param_name not in group:  # in no trial yet, or it cannot be modelled
                self._warn_once(param_name, bool(finished))
                return self._random(study, trial, param_name, param_distribution)
            mirror = self._mirror(study, group, _seed_of(self.seed, group))
            self._warn_once(param_name, len(branch) < mirror.initial.count)
            return self._suggest(study, trial, group, mirror)[param_name]

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Forget what was kept for the trial."""
        with self._lock:
            self._asked.pop(trial.number, None)
            self._parts.pop(trial.number, None)

    # ------------------------------------------------------------------ suggesting

    def _suggest(
        self, study: Study, trial: FrozenTrial, space: Distributions, mirror: Mirror
    ) -> dict[str, Any]:
        """The point of some parameters, noted on the trial; what was enqueued stays as it is."""
        fixed = trial.system_attrs.get("fixed_params", {})
        given = {n: fixed[n] for n, one in space.items() if n in fixed and is_value(fixed[n], one)}
        if len(given) == len(space):
            note = notes.Note(numbers_of(given, space), Origin.ENQUEUED)
        else:
            point = self._choose(study, trial.number, mirror)
            numbers = mirror.points.numbers(point.params) | numbers_of(given, space)
            info = {**point.info, "enqueued": sorted(given)} if given else point.info
            note = notes.Note(numbers, point.origin, info)
        suggested = {n: one.to_external_repr(note.numbers[n]) for n, one in space.items()}
        part = self._parts.get(trial.number, 0)
        self._parts[trial.number] = part + 1
        self._asked.setdefault(trial.number, {}).update(suggested)
        notes.write(study, trial, note, part)
        return suggested

    def _choose(self, study: Study, number: int, mirror: Mirror) -> Trial:
        """A point, alone or as the first of a batch."""
        if number not in self._chosen:
            batch = mirror.suggest(number, self._look(study, mirror), self._batch)
            self._batch, self._chosen = 1, {point.number: point for point in batch}
        return self._chosen.pop(number)

    def _look(self, study: Study, mirror: Mirror) -> list[FrozenTrial]:
        """Let the mirror learn what has finished; the running trials."""
        if not mirror.needs_trials:
            return []
        trials = study.get_trials(deepcopy=False, states=(*FINISHED, TrialState.RUNNING))
        mirror.learn(trial for trial in trials if trial.state is not TrialState.RUNNING)
        return [trial for trial in trials if trial.state is TrialState.RUNNING]

    def _mirror(self, study: Study, space: Distributions, seed: int) -> Mirror:
        """The optimizer of these parameters; the last used are kept."""
        key = (*sorted((name, repr(distribution)) for name, distribution in space.items()),)
        mirror = self._mirrors.pop(key, None)
        if mirror is None:
            maximize = study.direction is StudyDirection.MAXIMIZE
            mirror = self._new_mirror(space, "maximize" if maximize else "minimize", seed)
        self._mirrors[key] = mirror
        while len(self._mirrors) > MIRRORS:
            del self._mirrors[next(iter(self._mirrors))]
        return mirror

    def _new_mirror(self, space: Distributions, direction: Direction, seed: int) -> Mirror:
        whole = self._known is not None and space.keys() == self._known.keys()
        own = self.space if whole else None
        return Mirror(space, own, self.algorithm, direction, seed, **self._settings)

    def _random(self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution) -> Any:
        """A value that is independent of all."""
        seed = zlib.crc32(f"{self.seed}:{trial.number}:{name}".encode())
        return RandomSampler(seed=seed).sample_independent(study, trial, name, distribution)

    def _warn_once(self, name: str, really: bool) -> None:
        if really and not self._warned:
            self._warned = True
            warnings.warn(
                f"not all trials have the parameter {name!r}: until enough of them have it, it is "
                "sampled independently of the others, and then modelled by itself.",
                stacklevel=4,
            )

    def _check(self, study: Study) -> None:
        """Refuse what is not supported; begin anew with another study."""
        if len(study.directions) > 1:
            raise DataError(
                "AugurySampler optimizes one objective; got a study of "
                f"{len(study.directions)} directions. Combine them into one value, or use "
                "optuna.samplers.GPSampler."
            )
        this = study._storage, study._study_id
        if self._study is None or self._study[0] is not this[0] or self._study[1] != this[1]:
            self._forget()
            self._study = this


def check_unconstrained(trials: Iterable[FrozenTrial]) -> None:
    """Refuse a study one of whose trials has constraints."""
    for trial in trials:
        if trial.constraints:
            raise DataError(
                f"AugurySampler knows no constraints; got some in trial {trial.number}. Let the "
                "objective raise an exception where one is violated, or use optuna.samplers.GPSampler."
            )


def _modelled(distributions: Distributions) -> dict[str, BaseDistribution]:
    return {name: one for name, one in distributions.items() if can_be_modelled(one)}


def _common(trials: Sequence[FrozenTrial], without: Collection[str]) -> dict[str, BaseDistribution]:
    """The parameters that all of some trials have, but for some."""
    common = dict(trials[0].distributions) if trials else {}
    for trial in trials[1:]:
        common = {name: one for name, one in common.items() if trial.distributions.get(name) == one}
    return {name: one for name, one in _modelled(common).items() if name not in without}


def _seed_of(seed: int, group: Distributions) -> int:
    """Another seed for every branch, or the points of two would follow each other."""
    return zlib.crc32(f"{seed}:{sorted(group)}".encode())
