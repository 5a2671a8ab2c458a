"""What TS-RSR's published code does otherwise than Augury.

All maximizations of a batch are over one small set of points, and the values, which are exact, get other
noise every time that the model is fitted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from augury import theory
from augury._types import Array
from augury.core.data import Data
from augury.core.keys import KeyArray, fold, generator
from augury.core.precision import computing, jit
from augury.core.score import Score
from augury.maximizers import Best
from augury.maximizers.scoring import values
from augury.policies.base import Candidates, Chosen, Maximize, Picks, Policy
from augury.policies.thompson import PathScore
from augury.policies.ts_rsr import MeanScore
from augury.surrogates import Fit, GaussianProcess
from augury.surrogates.base import Capability, Draw, Path, Posterior
from augury.surrogates.gp_posterior import GPPosterior, joint_factor
from augury.surrogates.hyperfit import Tuned

OBSERVED = 8  # observations at most, from which the mean is climbed
FAR = 0.1  # in the problem's units, from which two points are different candidates


class TableDraw(Path):
    """A drawn function that is known at the candidates alone."""

    rows: Float[np.ndarray, "n D"]
    values: Float[np.ndarray, " n"]

    def __call__(self, x: Float[np.ndarray, " D"]) -> Float[np.ndarray, ""]:
        """The value at a candidate; −inf elsewhere."""
        same = (self.rows == x).all(axis=1)
        return np.max(self.values, where=same, initial=-np.inf)


class OnRows:
    """A posterior whose draws are joint normals at the candidates."""

    def __init__(self, posterior: GPPosterior, rows: Float[np.ndarray, "n D"]) -> None:
        self._posterior, self._rows = posterior, rows
        with computing():
            self._factor = tuple(np.asarray(a) for a in _factor(posterior, rows))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._posterior, name)

    def draws(self, *, keys: Sequence[KeyArray], scale: float = 1.0) -> list[Draw]:
        """One function per key."""
        mean, L = self._factor
        z = (generator(key).standard_normal(len(mean)) for key in keys)
        return [Draw(TableDraw(self._rows, mean + scale * (L @ each))) for each in z]


_factor = jit(joint_factor)


@dataclass(frozen=True)
class CandidateSet:
    """The points of a batch's set, each of which may be chosen once."""

    rows: Float[np.ndarray, "n D"]
    refine: int
    rate: float
    box: tuple[float, ...]

    def __call__(self, n: int, key: KeyArray, *, without: Sequence[Chosen] = ()) -> "CandidateSet":
        """The whole set, as random points."""
        return self

    def point(self, i: int, value: float) -> Best:
        """The i-th point."""
        return Best(self.rows[i], None, value, 1.0)

    def maximize(
        self,
        score: Score,
        *,
        key: KeyArray,
        without: Sequence[Chosen] = (),
        anew: bool = True,
        judged: bool = True,
    ) -> Best:
        """The best of the set; after the first point of a batch, a short ascent from there."""
        drawn = score.path if isinstance(score, PathScore) else None
        scores = drawn.values.copy() if isinstance(drawn, TableDraw) else values(score, self.rows)
        for point in without if anew else ():
            scores[(self.rows == point.x).all(axis=1)] = -np.inf
        i = int(np.argmax(scores))
        if self.refine and anew and without:
            rate = self.rate / np.asarray(self.box)[None]
            with computing():
                climbed = adam(score, self.rows[i : i + 1], rate, rate, self.refine)
                _, row, value = (np.asarray(a) for a in climbed)
            if value[0] > scores[i]:
                return Best(row[0], None, float(value[0]), 1.0)
        return self.point(i, float(scores[i]))


@jit
def adam(
    score: Score, starts: Float[Array, "k D"], rate: Array, clamped: Array, steps: int
) -> tuple[Array, Array, Array]:
    """Where ascents end, and the best points on the way with their scores.

    A step out of the cube ends at its border; Adam (Kingma & Ba, 2015) then begins anew, at the rate
    `clamped`.
    """
    both = jax.value_and_grad(score)

    def one(start: Array, rate: Array, clamped: Array) -> tuple[Array, Array, Array]:
        def step(state: tuple[Array, ...], _: None) -> tuple[tuple[Array, ...], None]:
            x, m, v, count, rate, best, top = state
            value, g = both(x)
            better = value > top
            best, top = jnp.where(better, x, best), jnp.where(better, value, top)
            count = count + 1.0
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            unbiased = m / (1.0 - 0.9**count), v / (1.0 - 0.999**count)
            moved = x + rate * unbiased[0] / (jnp.sqrt(unbiased[1]) + 1e-8)
            x = jnp.clip(moved, 0.0, 1.0)
            outside = jnp.any(x != moved)
            m, v, count = (jnp.where(outside, 0.0, a) for a in (m, v, count))
            return (x, m, v, count, jnp.where(outside, clamped, rate), best, top), None

        zero = jnp.zeros_like(start)
        first = (start, zero, zero, jnp.zeros(()), rate, start, jnp.asarray(-jnp.inf))
        (x, *_, best, top), _ = jax.lax.scan(step, first, None, length=steps)
        return x, best, top

    return jax.vmap(one)(starts, rate, clamped)


@dataclass(frozen=True)
class OnCandidates:
    """A policy whose maximizers look at random points and at maxima of the posterior mean, no more.

    Args:
        inner: the policy.
        size: random points, drawn anew for every batch.
        ascend_mean: whether ascents of the mean from the best of them, and from better observations, are
            among the candidates.
        refine: steps of an ascent of the score from the chosen candidate, but for a batch's first.
        rate: of that ascent.
        box: lengths of the sides of the box, in whose units the code's rates and distances are.
    """

    inner: Policy
    size: int = 1000
    ascend_mean: bool = True
    refine: int = 0
    rate: float = 0.01
    box: tuple[float, ...] = ()

    @property
    def requires(self) -> frozenset[Capability]:
        """What the policy needs, and the mean."""
        return self.inner.requires | {Capability.MEAN}

    def choose(
        self,
        posterior: Posterior,
        pending: Float[np.ndarray, "p D"],
        incumbent: float | None,
        *,
        t: int,
        maximize: Maximize,
        candidates: Candidates,
        keys: Sequence[KeyArray],
    ) -> Picks:
        """What the policy chooses from the candidates."""
        rows = candidates(self.size, fold(keys[0], 7)).rows
        if self.ascend_mean:
            rows = np.concatenate([rows, self._maxima(posterior, rows)])
        among = CandidateSet(rows, self.refine, self.rate, self.box)
        drawing: Any = posterior
        if isinstance(posterior, GPPosterior):
            drawing = OnRows(posterior, rows)
        return self.inner.choose(
            drawing, pending, incumbent, t=t, maximize=among.maximize, candidates=among, keys=keys
        )

    def _maxima(self, posterior: Posterior, rows: np.ndarray) -> np.ndarray:
        """Ascents of the mean: from the best candidate, and from better observations far from all."""
        means = np.asarray(posterior.mean(rows))
        seen = np.asarray(posterior.x)[: posterior.observations]
        there = np.asarray(posterior.mean(seen))
        starts, box = [rows[np.argmax(means)]], np.asarray(self.box)
        for i in np.argsort(-there):
            if there[i] <= means.max() or len(starts) > OBSERVED:
                break
            apart = np.concatenate([rows, starts[1:]]) - seen[i] if starts[1:] else rows - seen[i]
            if np.min(np.sum((apart * box) ** 2, axis=1)) > FAR**2:
                starts.append(seen[i])
        used = np.arange(1 + OBSERVED) % len(starts)  # compiled once
        rates = np.where(used == 0, 1e-3, 1e-2)[:, None] / box
        with computing():
            ends, _, _ = adam(
                MeanScore(posterior), np.stack(starts)[used], rates, 1e-4 / box + 0 * rates, 200
            )
        return np.asarray(ends)[: len(starts)]


@dataclass(frozen=True)
class RedrawnNoise:
    """A Gaussian process that adds noise to the values, other noise in every fit.

    Args:
        process: the process.
        deviation: of the noise, in units of the values' standard deviation.
    """

    process: GaussianProcess
    deviation: float = 1e-3

    capabilities: ClassVar[frozenset[Capability]] = GaussianProcess.capabilities

    def tune(self, data: Data, *, key: KeyArray) -> Tuned:
        """As of the process."""
        return self.process.tune(data, key=key)

    def fit(self, data: Data, *, key: KeyArray, tuned: Tuned | None = None) -> Fit:
        """The posterior given noisy values."""
        x, y = data.x[: data.n], data.y[: data.n]
        noise = self.deviation * y.std() * generator(fold(key, 1)).standard_normal(len(y))
        noisy = Data.of(x, y + noise, data.groups)
        return self.process.fit(noisy, key=key, tuned=tuned)

    def fits(self, parameters: int) -> str | None:
        """As of the process."""
        return self.process.fits(parameters)


@dataclass(frozen=True)
class LogCandidates:
    """β = factor · log(N t²π²/(6δ)), which multiplies σ; t counts batches."""

    candidates: int
    factor: float = 0.2
    delta: float = 0.01
    batch: int = 1

    def __call__(self, t: int, posterior: Posterior) -> float:
        """β at the batch of evaluation t."""
        step = (t - 1) // self.batch + 1
        return self.factor / 2.0 * theory.beta_srinivas(step, float(np.log(self.candidates)), self.delta)
