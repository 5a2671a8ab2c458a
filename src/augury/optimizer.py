"""Ask and tell."""

import copy
import threading
import time
import uuid
import warnings
from collections.abc import Mapping
from typing import Any, Literal, Self, overload

import numpy as np

from augury import state
from augury._checks import check_count, check_seed, check_value, one_of
from augury._errors import AuguryError, DataError, SpaceExhausted, UnsupportedError
from augury.algorithm import Algorithm, default_maximizer, resolve
from augury.core.data import bucket, pad
from augury.core.keys import KeyArray, Purpose, fold, root_key
from augury.core.precision import Device, computing
from augury.design import (
    INFORMATION,
    InitialDesign,
    batch_bound,
    design_point,
    enough_information,
    parse_initial,
    prior_given,
)
from augury.history import History
from augury.maximizers import Domain
from augury.maximizers.base import check_domain
from augury.maximizers.sets import exhausted
from augury.model import Duplicates, Model
from augury.surrogates import Fit, Posterior, Status
from augury.trial import Origin, Seen, State, Trial

Direction = Literal["minimize", "maximize"]


class Optimizer:
    """Suggests points of a space and learns from their values.

    A suggestion is a pure function of the space, the algorithm, the seed, the ordered history and the
    pending points: an optimizer restored by :meth:`from_json` continues exactly as this one would.

    Args:
        space: a :class:`Space`, or a :class:`Pool` of candidates.
        algorithm: a name (`augury.algorithms()` lists them) or an :class:`Algorithm`.
        direction: "minimize" or "maximize".
        seed: decides all randomness; None draws one and keeps it as `seed`.
        initial: how many points come before the model's, or ("sobol" | "random" | "uncertainty", n).
            Every observation told counts; None chooses by the number of parameters. Without a model
            all points are of the algorithm's own design, and "uncertainty" is refused.
        budget: the total number of evaluations, if known.
        duplicates: "avoid" never asks for a point twice: where the score is largest at one that was
            asked before, the most uncertain point takes its place. "allow" may, for noisy functions.
        device: "cpu" or "gpu".

    Example:
        >>> opt = Optimizer(Space(x=Float(-1.0, 2.0)), seed=0)
        >>> trial = opt.ask()
        >>> opt.tell(trial, trial.params["x"] ** 2)
    """

    def __init__(
        self,
        space: Domain,
        algorithm: str | Algorithm = "auto",
        direction: Direction = "minimize",
        seed: int | None = None,
        initial: int | tuple[str, int] | None = None,
        budget: int | None = None,
        duplicates: Duplicates = "avoid",
        device: Device = "cpu",
    ) -> None:
        check_domain(space)
        one_of("direction", direction, ("minimize", "maximize"))
        one_of("duplicates", duplicates, ("avoid", "allow"))
        one_of("device", device, ("cpu", "gpu"))
        self.space = space
        self.algorithm = resolve(algorithm).on(space)
        self.direction: Direction = direction
        self.seed = check_seed(seed)
        self.budget = check_count("budget", budget)
        self.initial: InitialDesign = parse_initial(
            initial, space, self.budget, self.algorithm.exploration
        )
        if self.initial.kind == "uncertainty" and self.algorithm.surrogate is None:
            raise UnsupportedError(
                'an algorithm with initial=("uncertainty", n) must have a model; got '
                f"{self.algorithm.name}, which has none. Use another algorithm, or leave initial out."
            )
        self.duplicates: Duplicates = duplicates
        self.device: Device = device
        self._lock = threading.RLock()  # threads may share an optimizer
        self._root: KeyArray = root_key(self.seed)
        self._begin()

    def _begin(self) -> None:
        """Know nothing yet."""
        self._identity = uuid.uuid4().hex
        self._history = History(self.space, 1.0 if self.direction == "maximize" else -1.0)
        self._shown = 0  # how many finished trials the last suggestion knew
        self._queue: list[Mapping[str, Any]] = []
        self._ended: str | None = None  # why uncertainty sampling ended before its number
        self._model = Model(self.space, self.algorithm, self._root, self._history, self.duplicates)

    # ------------------------------------------------------------------ asking

    @overload
    def ask(self, n: None = None) -> Trial: ...
    @overload
    def ask(self, n: int) -> list[Trial]: ...

    def ask(self, n: int | None = None) -> Trial | list[Trial]:
        """The next point to evaluate, or a list of n.

        Asking again before telling is normal: the points being evaluated are taken into account. A
        finite space that runs out gives a shorter list, with a warning, and SpaceExhausted when nothing
        is left.
        """
        count = check_count("n", n)
        with self._lock:
            return self._ask_some(1)[0] if count is None else self._ask_some(count)

    def _ask_some(self, n: int) -> list[Trial]:
        asked: list[Trial] = []
        known, first = set(self._history.trials), self._history.next_number
        queue, shown = list(self._queue), self._shown
        batch = n + self._pending()  # with the points that are being evaluated
        try:
            with computing(self.device):
                while len(asked) < n:
                    try:
                        asked += self._next(n - len(asked), batch=batch)
                    except SpaceExhausted:
                        if not asked:
                            raise
                        break
            if len(asked) < n:
                left = f"{len(asked)} {'is' if len(asked) == 1 else 'are'} left in the space"
                warnings.warn(f"{n} points were asked for, and {left}: here they are.", stacklevel=3)
        except BaseException:  # what the caller never gets must not stay pending
            self._history.forget(self._history.trials.keys() - known)
            self._history.next_number, self._queue, self._shown = first, queue, shown
            raise
        return asked

    def _next(self, wanted: int, *, batch: int) -> list[Trial]:
        """At least one trial: enqueued, of the design, or up to `wanted` of the model."""
        if self._queue:
            return [self._add(self._queue.pop(0), Origin.ENQUEUED, {"chosen": "enqueued"})]
        exclude = self._exclude()
        if len(exclude) >= self.space.size:
            raise exhausted(self.space)
        started = time.perf_counter()
        if self.algorithm.surrogate is None:
            return [self._from_design(self.algorithm.design, exclude, started)]
        if self._initializing(len(self._history.trials), batch):
            return [self._from_design(self.initial.kind, exclude, started)]
        if self._history.observations == 0:
            why = "no finite value has been told yet"
            return [self._from_design("random", exclude, started, fallback=why)]
        return self._from_model(wanted, exclude)

    def _pending(self) -> int:
        """How many points are being evaluated."""
        return len(self._history.trials) - len(self._history.order)

    def _initializing(self, points: int, batch: int) -> bool:
        """Whether the initial design goes on.

        Uncertainty sampling may end before its number, once there is a value for the model to go on with.
        """
        if points >= self.initial.count:
            return False
        if self.initial.kind != "uncertainty" or not self._history.observations:
            return True
        if self._history.count(Origin.MODEL):
            return False
        whole = batch > 1 and getattr(self.algorithm.policy, "whole_batch", False)
        others = batch if whole else batch - 1
        rate = enough_information(self._prior_given(self._history.asked), points, others)
        if rate is not None:
            rule = "Bγ_T/T" if whole else "(B−1)γ_T/T"
            self._ended = f"{rule} = {rate:.3g} ≤ C = {INFORMATION:g} at T = {points}, B = {batch}"
        return rate is None

    def _prior_given(self, rows: np.ndarray, settings: Any = None) -> Posterior:
        """The prior conditioned on some points, with the settings that the model has learnt or none."""
        key = fold(self._root, Purpose.DESIGN)
        return prior_given(self.algorithm.surrogate, self.space, rows, key=key, settings=settings)

    def _from_design(
        self, kind: str, exclude: frozenset[int], started: float, fallback: str | None = None
    ) -> Trial:
        params, unfound = design_point(
            kind,
            self.space,
            root=self._root,
            number=self._history.next_number,
            position=self._position(),
            exclude=exclude,
            belief=self._prior_given(self._history.asked) if kind == "uncertainty" else None,
            maximizer=self.algorithm.maximizer or default_maximizer(self.space),
        )
        info: dict[str, Any] = {"chosen": f"{kind} design"}
        info["seconds"] = {"total": time.perf_counter() - started}
        fallback = fallback or self._warned(unfound)
        if fallback is not None:
            info["fallback"] = fallback
        return self._add(params, Origin.DESIGN, info)

    def _position(self) -> int:
        """Where the next point stands in the sequence of a design."""
        return self._history.count(Origin.DESIGN)

    def _from_model(self, wanted: int, exclude: frozenset[int]) -> list[Trial]:
        started = time.perf_counter()
        fit = self._model.fitted()
        seconds = time.perf_counter() - started
        if fit.status is Status.FAILED:
            why = self._warned(str(fit.status))
            return [self._from_design("random", exclude, started, fallback=why)]
        # with duplicates avoided, a finite space may have fewer points left than are wanted
        wanted = min(wanted, int(self.space.size - len(exclude)) if exclude else wanted)
        suggested = self._model.suggest(fit, wanted, exclude, fit_seconds=seconds)
        self._warned(next((s.info["fallback"] for s in suggested if "fallback" in s.info), None))
        about = {**self._initialization(), **self._narrowing(fit, [s.params for s in suggested])}
        return [
            self._add(s.params, Origin.MODEL, {**s.info, **about}, (place, len(suggested)))
            for place, s in enumerate(suggested)
        ]

    def _warned(self, why: str | None) -> str | None:
        """The reason for a random point, if there is one, after a warning."""
        if why is not None:
            warnings.warn(f"{why} A random point is suggested instead.", stacklevel=6)
        return why

    def _initialization(self) -> dict[str, str]:
        """Which rule ended uncertainty sampling."""
        if self.initial.kind != "uncertainty" or self._history.count(Origin.MODEL):
            return {}
        return {"initialization": self._ended or f"the number of points, {self.initial.count}"}

    def _narrowing(self, fit: Fit, batch: list[Mapping[str, Any]]) -> dict[str, Any]:
        """How much a batch narrows the posterior, and what uncertainty sampling allows: ρ_m of ts-rsr."""
        design = [trial for trial in self.trials if trial.origin is Origin.DESIGN]
        if self.initial.kind != "uncertainty" or not design:
            return {}
        realized = self._model.narrowing(fit, batch)
        if realized is None:
            return {}
        size = len(batch) + len(self._history.pending)
        prior = self._prior_given(self._history.rows(design), self._model.settings)
        bound = batch_bound(prior, len(design), size)
        return {"rho": {"batch": size, "bound": bound, "realized": realized}}

    def _exclude(self) -> frozenset[int]:
        return self._history.taken if self.duplicates == "avoid" else frozenset()

    def _add(
        self,
        params: Mapping[str, Any],
        origin: Origin,
        info: Mapping[str, Any],
        batch: tuple[int, int] = (0, 1),
    ) -> Trial:
        number = self._history.next_number
        if origin in (Origin.DESIGN, Origin.MODEL):
            info = {**info, "seen": self._seen(batch)}
        trial = Trial(number, params, info=info, origin=origin, optimizer=self._identity)
        self._history.add(trial)
        return trial

    def _seen(self, batch: tuple[int, int]) -> dict[str, Any]:
        """What a suggestion knows: the results since the last one, in order, and what was running."""
        learnt, self._shown = self._history.order[self._shown :], len(self._history.order)
        pending = [number for number, t in self._history.trials.items() if t.state is State.PENDING]
        return Seen(self._history.next_number, self._identity, learnt, pending, *batch).to_dict()

    # ------------------------------------------------------------------ telling

    def tell(
        self,
        trial: Trial | Mapping[str, Any],
        value: float | None = None,
        *,
        failed: bool = False,
        reason: str | None = None,
    ) -> Trial:
        """Record the value of a trial, or of a point evaluated elsewhere (a dict of parameters).

        NaN, an infinite value or `failed=True` is a failure: the model takes the point for as bad as
        the worst value so far, and it never counts as best. Telling a trial again with the same
        outcome does nothing; a different one is a DataError.
        """
        if reason is not None and not failed:
            raise DataError(
                f"a reason must come with failed=True; got reason={reason!r} without it. "
                "Add failed=True, or leave the reason out."
            )
        number = None if failed else check_value(value)
        if failed:
            reason = str(reason or "told as failed")
        if isinstance(trial, Trial):
            with self._lock:
                return self._tell_trial(trial, number, reason)
        if not isinstance(trial, Mapping):
            raise DataError(
                f"tell needs a Trial or a dict of parameters; got {type(trial).__name__}. "
                "Pass what ask() returned."
            )
        params = self.space.check(trial)
        with self._lock:
            told = self._add(params, Origin.TOLD, {})
            self._history.finish(told, number, reason)
        return told

    def _tell_trial(self, trial: Trial, value: float | None, reason: str | None) -> Trial:
        if trial.optimizer != self._identity or trial.number not in self._history.trials:
            raise DataError(
                f"a told Trial must come from this optimizer; got trial {trial.number} of another. "
                "Pass its params instead to tell an evaluation made elsewhere."
            )
        own = self._history.trials[trial.number]
        asked = self._history.params[trial.number]
        if dict(trial.params) != asked:
            raise DataError(
                f"a told Trial must have the params it was asked with, {asked}; got "
                f"{dict(trial.params)}. Tell the params as a dict instead."
            )
        if trial.number not in self._history.order:
            self._history.finish(own, value, reason)
        elif not _same_outcome(own, value, reason):
            raise DataError(
                f"trial {own.number} must be told one outcome; got {_outcome(value)} after "
                f"{_outcome(own.value)}. Tell the params as a dict to add a second observation."
            )
        return own

    def enqueue(self, params: Mapping[str, Any]) -> None:
        """Let this point be asked before any other; it may be one that was asked before."""
        checked = self.space.check(params)
        with self._lock:  # an ask that fails puts the queue back
            self._queue.append(checked)

    # ------------------------------------------------------------------ looking

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials by number."""
        return tuple(self._history.trials.values())

    @property
    def order(self) -> tuple[int, ...]:
        """The numbers of the finished trials, in the order they were told."""
        return tuple(self._history.order)

    @property
    def model(self) -> Model:
        """What suggests after the initial design; its posteriors maximize, whatever the direction."""
        return self._model

    @property
    def left(self) -> float:
        """How many points can still be asked for; ∞ unless the space is finite and duplicates avoided."""
        return self.space.size - len(self._exclude()) if self.duplicates == "avoid" else np.inf

    @property
    def best(self) -> Trial:
        """The best observed trial."""
        return self._history.best()

    def recommend(self) -> Trial:
        """The evaluated trial of best posterior mean: with noise, a better answer than `best`."""
        best = self.best
        if self.algorithm.surrogate is None:
            return best
        with self._lock, computing(self.device):
            fit = self._model.fitted()
            believer = self._model.believer(fit)
            if fit.status is Status.FAILED or believer is None:
                return best
            complete = self._history.complete
            rows = self._history.rows(complete)
            means = believer.mean(pad(rows, bucket(len(rows))))[: len(rows)]
        finite = np.isfinite(means)
        return complete[int(np.argmax(np.where(finite, means, -np.inf)))] if finite.any() else best

    @property
    def accumulated_inaccuracy(self) -> float:
        """M_T = Σ (1 − η_t) over the points that the model suggested."""
        return float(sum(1.0 - t.info["eta"] for t in self.trials if "eta" in t.info))

    def __repr__(self) -> str:
        done = len(self._history.order)
        waiting = self._pending()
        return (
            f"Optimizer({self.algorithm.name}, {self.direction}, seed={self.seed}: "
            f"{done} evaluated, {waiting} pending)"
        )

    # ------------------------------------------------------------------ beginning again, for a replay

    def blank(self) -> Self:
        """An optimizer like this one that knows nothing yet."""
        other = copy.copy(self)
        other._begin()
        return other

    @property
    def known(self) -> Mapping[int, Trial]:
        """All trials that a suggestion may have known, by number."""
        return self._history.trials

    def recall(self, known: Mapping[int, Trial], seen: Seen) -> None:
        """Bring the history to where a suggestion was made."""
        running = self._history.trials.keys() - set(self._history.order)
        self._history.forget(running - {*seen.learnt, *seen.pending})  # the rest of its batch
        for number in sorted({*seen.learnt, *seen.pending} - self._history.trials.keys()):
            self._history.add(known[number].begun())
        for number in seen.learnt:
            self._history.finish(self._history.trials[number], known[number].value, known[number].reason)
        self._history.next_number = seen.number

    # ------------------------------------------------------------------ saving

    def to_json(self) -> str:
        """The whole state as text; see :meth:`from_json`."""
        settings = {
            "direction": self.direction,
            "seed": self.seed,
            "initial": [self.initial.kind, self.initial.count],
            "budget": self.budget,
            "duplicates": self.duplicates,
            "device": self.device,
        }
        with self._lock:
            return state.dump(
                space=self.space,
                algorithm=self.algorithm,
                settings=settings,
                identity=self._identity,
                trials=self._history.saved(),
                order=self._history.order,
                queue=self._queue,
            )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, content: dict[str, Any]) -> None:
        vars(self).update(content, _lock=threading.RLock())

    @classmethod
    def from_json(
        cls, text: str, space: Domain | None = None, algorithm: str | Algorithm | None = None
    ) -> "Optimizer":
        """The optimizer that `to_json` described; it continues as the original would have.

        Spaces and named algorithms are in the text. A pool, and an algorithm of one's own parts, are
        not: give them again. What is given must match what the text describes, else DataError.
        """
        saved = state.load(text, space, algorithm)
        try:
            optimizer = cls(saved.space, saved.algorithm, **saved.settings)
            optimizer._identity = saved.identity
            for trial in saved.trials:
                checked = optimizer.space.check(trial.params)
                trial.params = checked
                optimizer._history.add(trial)
            optimizer._history.order = saved.order
            optimizer._shown = sum(len(seen.learnt) for seen in map(Seen.of, saved.trials) if seen)
            optimizer._queue = [optimizer.space.check(params) for params in saved.queue]
        except AuguryError as error:
            raise state.corrupt(str(error)) from error
        return optimizer


def _outcome(value: float | None) -> str:
    return "a failure" if value is None else str(value)


def _same_outcome(trial: Trial, value: float | None, reason: str | None) -> bool:
    if trial.state is State.FAILED:
        return reason is not None or not _finite(value)
    return reason is None and trial.value == value


def _finite(value: float | None) -> bool:
    return value is not None and bool(np.isfinite(value))
