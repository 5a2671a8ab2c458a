"""The model's part in a suggestion: fit, choose, and explain what was chosen."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from augury.algorithm import Algorithm
from augury.core.data import Data
from augury.core.keys import KeyArray, Purpose, fold, generator
from augury.core.precision import forget_programs
from augury.core.score import Score
from augury.design import NO_SCORE, Uncertainty, Zero
from augury.history import History
from augury.locality import nearby
from augury.maximizers import Best, Domain, FewColumns, Maximizer
from augury.maximizers.base import Rows
from augury.maximizers.scoring import allowed
from augury.maximizers.sets import any_allowed
from augury.policies.base import Chosen, Picks
from augury.space import Pool, Space
from augury.surrogates import Capability, Fit, GaussianProcess, Posterior, Status
from augury.trial import Origin

Duplicates = Literal["avoid", "allow"]

BEST_POINTS = 4  # maximizers also look around so many of the best points
VALUES = ("incumbent", "f_star", "best_mean")  # what policies tell in units of the values
NARROWING_POINTS = 512  # at which a batch's narrowing of the posterior is looked at
SAME = 1e-5  # rows of the unit cube that are nowhere further apart are one point


@dataclass(frozen=True)
class Suggestion:
    """A point, and what the model believed about it."""

    params: Mapping[str, Any]
    info: Mapping[str, Any]


@dataclass(frozen=True)
class Sample:
    """Random points of a space, with their numbers in a finite one."""

    rows: np.ndarray
    indices: np.ndarray | None

    def point(self, i: int, value: float) -> Best:
        """The i-th of them; nothing was searched for, so nothing was missed."""
        return Best(self.rows[i], None if self.indices is None else int(self.indices[i]), value, 1.0)


class Given:
    """The posterior given that pending points and those of a batch will be observed.

    A batch grows point by point: what is known of its earlier points is used again.
    """

    def __init__(self, posterior: Posterior, pending: np.ndarray) -> None:
        self._posterior, self._pending = posterior, pending
        self._rows, self._belief = pending[:0], posterior

    def __call__(self, *points: Rows) -> Posterior:
        """After the pending points, given these rows of the batch."""
        rows = np.concatenate([self._pending, *points])
        if not np.array_equal(rows[: len(self._rows)], self._rows):
            self._rows, self._belief = rows[:0], self._posterior
        self._belief = self._belief.condition(rows[len(self._rows) :])
        self._rows = rows
        return self._belief


@dataclass(frozen=True)
class Place:
    """The box in which a suggestion is looked for, and a model of what is in it and around.

    To model, policy and maximizer the box is the unit cube, whatever its size.
    """

    fit: Fit
    low: Rows
    side: Rows
    maximizer: Maximizer
    near: Rows  # in the box, good points around which there may be better ones
    about: Mapping[str, Any] = field(default_factory=dict)  # what is said of it

    def inside(self, rows: Rows) -> Rows:
        """Rows of the space in the coordinates of the box."""
        return (rows - self.low) / self.side

    def outside(self, rows: Rows) -> Rows:
        """Rows of the box in the coordinates of the space."""
        return np.clip(self.low + self.side * rows, 0.0, 1.0)


class Model:
    """Surrogate, policy and maximizer at work on a history.

    All that it keeps can be computed anew from the history, and is not part of a saved state.
    """

    def __init__(
        self,
        space: Domain,
        algorithm: Algorithm,
        root: KeyArray,
        history: History,
        duplicates: Duplicates,
    ) -> None:
        self.space, self.algorithm, self.duplicates = space, algorithm, duplicates
        self._root, self._history = root, history
        self._narrowed = int(space.continuous.sum()) if isinstance(space, Space) else 0
        self._tuned: tuple[int, Any] | None = None  # (number of observations, hyper-parameters)
        self._fit: tuple[int, Fit] | None = None
        self._box: tuple[int, Place] | None = None  # with the number of observations

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the surrogate's posterior can do."""
        surrogate = self.algorithm.surrogate
        return frozenset() if surrogate is None else surrogate.capabilities

    @property
    def history(self) -> History:
        """What is known so far."""
        return self._history

    def fitted(self) -> Fit:
        """The surrogate fitted to all observations; its hyper-parameters are tuned on a schedule.

        The schedule depends on the number of observations alone, and the tuning on the first
        observations alone, so that what is kept here can be computed anew from the history.
        """
        surrogate = self.algorithm.surrogate
        assert surrogate is not None
        n = len(self._history.order)
        if self._fit is not None and self._fit[0] == n:
            return self._fit[1]
        forget_programs()
        data, tuned_at = self._history.data(), getattr(surrogate, "last_tuning", last_tuning)(n)
        if self._tuned is None or self._tuned[0] != tuned_at:
            key = fold(self._root, tuned_at, Purpose.TUNE)
            known = data if tuned_at == n else self._history.data(first=tuned_at)
            self._tuned = (tuned_at, surrogate.tune(known, key=key))
        steady = getattr(surrogate, "steady", False)  # what it draws is the same for every n
        key = fold(self._root, Purpose.FIT) if steady else fold(self._root, n, Purpose.FIT)
        self._fit = (n, surrogate.fit(data, key=key, tuned=self._tuned[1]))
        return self._fit[1]

    @property
    def settings(self) -> Any:
        """The hyper-parameters that were tuned last; None before."""
        return None if self._tuned is None else self._tuned[1]

    def believer(self, fit: Fit) -> Posterior | None:
        """What has a mean and a variance of the values: the posterior, or the belief beside it."""
        if fit.belief is None and {Capability.MEAN, Capability.VAR} <= self.capabilities:
            return fit.posterior
        return fit.belief

    def suggest(
        self, fit: Fit, wanted: int, exclude: frozenset[int], *, fit_seconds: float
    ) -> list[Suggestion]:
        """So many points, none of them among `exclude`."""
        started = time.perf_counter()
        first, modelled = self._history.next_number, self._history.count(Origin.MODEL)
        together = wanted if self.algorithm.locality is None else 1  # else every other one is in a box
        chosen: list[tuple[Place, Chosen, Mapping[str, Any]]] = []
        # points of the batch, as they are encoded once they have been asked for
        earlier = np.empty((0, self.space.dim))
        places: dict[bool, tuple[Place, Given]] = {}
        while len(chosen) < wanted:
            boxed = self._is_local(modelled + len(chosen))
            if boxed not in places:
                place = self._near(fit) if boxed else self._everywhere(fit)
                places[boxed] = place, Given(place.fit.posterior, place.inside(self._history.pending))
            place, given = places[boxed]
            numbers = range(first + len(chosen), first + len(chosen) + together)
            picks = self._choose(place, given, numbers, earlier, exclude)
            chosen += [(place, *pick) for pick in zip(picks.points, picks.info, strict=True)]
            if len(chosen) < wanted:
                rows = [self.space.encode(self._params(point, place)) for point in picks.points]
                earlier = np.concatenate([earlier, rows])
        seconds = time.perf_counter() - started
        eta_seconds = [point.info.get("eta_seconds", 0.0) for _, point, _ in chosen]
        fit_share = fit_seconds / len(chosen)
        choose_share = (seconds - sum(eta_seconds)) / len(chosen)
        suggestions = []
        for (place, point, extra), on_eta in zip(chosen, eta_seconds, strict=True):
            info = self._explain(place, point, {**extra, **place.about})
            info["seconds"] = {
                "fit": fit_share,
                "choose": choose_share,
                "eta": on_eta,
                "total": fit_share + choose_share + on_eta,
            }
            suggestions.append(Suggestion(self._params(point, place), info))
        return suggestions

    def _choose(
        self,
        place: Place,
        given: Given,
        numbers: range,
        earlier: Rows,
        exclude: frozenset[int],
    ) -> Picks:
        """Points for the trials of these numbers, after `earlier` ones of the same batch."""
        policy, maximizer, near = self.algorithm.policy, place.maximizer, place.near
        assert policy is not None
        climbs = Capability.GRADIENT in self.capabilities

        def taken_with(without: Sequence[Chosen]) -> frozenset[int]:
            chosen = {p.index for p in without if p.index is not None}
            return exclude | chosen if self.duplicates == "avoid" else frozenset()

        def candidates(n: int, key: KeyArray, *, without: Sequence[Chosen] = ()) -> Sample:
            return sample(self.space, n, generator(key), taken_with(without))

        def maximize(
            score: Score,
            *,
            key: KeyArray,
            without: Sequence[Chosen] = (),
            anew: bool = True,
            judged: bool = True,
        ) -> Best:
            anew = anew and self.duplicates == "avoid"
            taken = taken_with(without) if anew else frozenset()
            best = maximizer(
                score, self.space, t=t, key=key, near=near, exclude=taken, gradient=climbs, judged=judged
            )
            if not np.isfinite(best.value):
                found = any_allowed(Zero(), self.space, generator(fold(key, 4)), taken)
                return Best(found.x, found.index, best.value, 0.0, {"fallback": NO_SCORE})
            known = np.concatenate([asked, *(p.x[None] for p in without)])
            if not anew or best.index is not None or not _among(best.x, known):
                return best
            rows = np.concatenate([earlier, *(p.x[None] for p in without)])
            return self._explore(given, rows, maximizer, known, key=key, t=t)

        t = 1 + self._history.count(Origin.MODEL, finished=True)
        asked = place.inside(np.concatenate([self._history.asked, earlier]))
        earlier = place.inside(earlier)
        posterior = place.fit.posterior
        pending = np.concatenate([place.inside(self._history.pending), earlier])
        if getattr(policy, "believes", False):
            posterior, pending = given(earlier), pending[:0]
        return policy.choose(
            posterior,
            pending,
            posterior.incumbent() if Capability.MEAN in self.capabilities else None,
            t=t,
            maximize=maximize,
            candidates=candidates,
            keys=[fold(self._root, number, Purpose.POLICY) for number in numbers],
        )

    def _is_local(self, number: int) -> bool:
        """Whether the suggestion of that number among the model's is looked for in a box."""
        locality = self.algorithm.locality
        return locality is not None and locality.is_local(number, self._narrowed)

    def _everywhere(self, fit: Fit) -> Place:
        maximizer = self.algorithm.maximizer
        assert maximizer is not None
        near = np.clip(self._history.top(BEST_POINTS), 0.0, 1.0)
        return Place(fit, np.zeros(self.space.dim), np.ones(self.space.dim), maximizer, near)

    def _near(self, fit: Fit) -> Place:
        """A box around the best point; the whole space where no model of the box can be had."""
        n = len(self._history.order)
        if self._box is None or self._box[0] != n:
            place = self._around_best(fit)
            failed = place.fit.status is Status.FAILED
            self._box = (n, self._everywhere(fit) if failed else place)
        return self._box[1]

    def _around_best(self, fit: Fit) -> Place:
        """The box around the point of the best mean, and a model of the observations around it."""
        locality = self.algorithm.locality
        assert locality is not None
        data = self._history.data()
        x, n = data.x[: data.n], data.n
        means = fit.posterior.mean(data.x)[:n]  # of the padded rows, whose number seldom changes
        center = x[int(np.argmax(means))]
        width = locality.box_width(self._history.improvements(self._is_local), self.space.dim)
        assert isinstance(self.space, Space)
        low = np.where(self.space.continuous, np.maximum(center - 0.5 * width, 0.0), 0.0)
        high = np.where(self.space.continuous, np.minimum(center + 0.5 * width, 1.0), 1.0)
        rows = nearby(x, center, width)
        some = Data.of((x[rows] - low) / (high - low), data.y[rows], data.groups)
        surrogate: Any = self.algorithm.surrogate
        if hasattr(surrogate, "elected"):
            surrogate = surrogate.elected(self.settings)
        near = (self._history.top(BEST_POINTS) - low) / (high - low)
        maximizer = self.algorithm.maximizer
        assert maximizer is not None
        rough = locality.is_rough(self._narrowed) and isinstance(surrogate, GaussianProcess)
        if rough:
            surrogate = replace(surrogate, effects=True)
            maximizer = FewColumns(maximizer, audit=maximizer.audit)
        fit = surrogate.fit(some, key=fold(self._root, n, Purpose.LOCAL))
        if rough:
            means = fit.posterior.mean(some.x)[: some.n]
            near = some.x[np.argsort(-means, kind="stable")[:BEST_POINTS]]
        about = {"local": {"width": width, "observations": len(rows)}}
        return Place(fit, low, high - low, maximizer, np.clip(near, 0.0, 1.0), about)

    def narrowing(self, fit: Fit, batch: Sequence[Mapping[str, Any]]) -> float | None:
        """The largest σ(x)/σ(x | batch and pending points) over some points; None if σ cannot tell."""
        if not {Capability.VAR, Capability.CONDITION} <= self.capabilities:
            return None
        rows = np.stack([self.space.encode(params) for params in batch])
        places, _ = self.space.draw(NARROWING_POINTS, generator(fold(self._root, Purpose.DESIGN)))
        after = fit.posterior.condition(np.concatenate([self._history.pending, rows]))
        return float(np.sqrt(np.max(fit.posterior.var(places) / after.var(places))))

    def _explore(
        self,
        given: "Given",
        points: Rows,
        maximizer: Maximizer,
        known: np.ndarray,
        *,
        key: KeyArray,
        t: int,
    ) -> Best:
        """Where the model will know least, instead of a point that is known already.

        A score may be largest at the best point so far, if that lies in a corner. To evaluate it again
        would tell nothing, and so on for ever.
        """
        why = {"explored": "the score is largest at a point already asked for"}
        if {Capability.VAR, Capability.CONDITION} <= self.capabilities:
            uncertainty = Uncertainty(given(points))
            climbs = Capability.GRADIENT in self.capabilities
            best = maximizer(uncertainty, self.space, t=t, key=fold(key, 2), gradient=climbs)
            if np.isfinite(best.value) and not _among(best.x, known):
                return replace(best, info={**best.info, **why})
        rows, _ = self.space.draw(1, generator(fold(key, 3)))
        return Best(rows[0], None, 0.0, 0.0, why)

    def _explain(self, place: Place, point: Chosen, extra: Mapping[str, Any]) -> dict[str, Any]:
        """What the model believed about a point, in the user's units and direction."""
        fit, parts = place.fit, self.algorithm
        names = (type(part).__name__ for part in (parts.surrogate, parts.policy, place.maximizer))
        belief: dict[str, float] = {}
        believer = self.believer(fit)
        if believer is not None:
            mean, var = believer.predict(point.x)
            belief["mean"] = self._history.sign * float(mean)
            belief["std"] = float(np.sqrt(var))
            belief["noise"] = believer.noise_std
        return {
            "chosen": " × ".join(names),
            **belief,
            "score": point.value,
            "eta": point.eta,
            "flat": bool(point.info.get("flat", False)),
            "evaluations": int(point.info.get("evaluations", 0)),
            **{why: point.info[why] for why in ("explored", "fallback") if why in point.info},
            "status": str(fit.status),
            "fit": dict(fit.info),
            **{name: self._in_units(fit, x) if name in VALUES else x for name, x in extra.items()},
        }

    def _in_units(self, fit: Fit, y: float) -> float:
        """What a policy says in the posterior's units, in the user's."""
        return self._history.sign * float(fit.value(y))

    def _params(self, point: Chosen, place: Place) -> Mapping[str, Any]:
        if isinstance(self.space, Pool):
            assert point.index is not None
            return self.space.decode(point.index)
        return self.space.decode(place.outside(point.x))


def last_tuning(n: int) -> int:
    """The number of observations at which hyper-parameters were last tuned: n up to 127, then
    every 2nd, 3rd, … observation, so that the cost per observation does not grow with the cube."""
    every = max(1, n // 64)
    return n // every * every


def sample(space: Domain, n: int, rng: np.random.Generator, exclude: frozenset[int]) -> Sample:
    """n random points that are not excluded, or all such points of a smaller finite space."""
    rows, indices = space.draw(n, rng) if space.size > n else _all(space)
    may = allowed(indices, len(rows), exclude)
    if not may.any():
        found = any_allowed(Zero(), space, rng, exclude)
        return Sample(found.x[None], np.array([found.index]))
    return Sample(rows[may], None if indices is None else indices[may])


def _all(space: Domain) -> tuple[np.ndarray, np.ndarray | None]:
    return space.rows(0, int(space.size)), np.arange(int(space.size))


def _among(x: np.ndarray, known: np.ndarray) -> bool:
    """Whether a row is, for all purposes, one of the known ones."""
    return bool(len(known)) and bool(np.abs(known - x).max(axis=1, initial=0.0).min() < SAME)
