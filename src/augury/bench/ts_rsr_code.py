"""What TS-RSR's published code does otherwise than Augury.

All maximizations of a batch are over one small set of points, and the values, which are exact, get other
noise every time that the model is fitted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.linalg import lapack
from scipy.spatial.distance import cdist

from augury import theory
from augury._types import Array
from augury.core.data import Data, bucket
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
from augury.surrogates.kernels import kernel_class

STEP = 128  # the numbers of candidates for which something is compiled are its multiples
LARGEST = 1e300  # in the place of infinity
ROUNDING = 1e-9  # of a score, by which another one must be larger
JITTERS = (1e-6, 1e-5, 1e-4)  # that GPyTorch tries in single precision
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
    """A posterior whose draws are joint normals at the candidates.

    Args:
        posterior: of the function.
        rows: the candidates.
        more: other points, with which there are a round number of them; drawn too, and not looked at.
    """

    def __init__(
        self, posterior: GPPosterior, rows: Float[np.ndarray, "n D"], more: Float[np.ndarray, "k D"]
    ) -> None:
        self.posterior, self._rows, n = posterior, rows, len(rows)
        with computing():
            mean, L = _factor(posterior, np.concatenate([rows, more]))
        self._mean, self._L = np.asarray(mean)[:n], np.asarray(L)[:n, :n]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.posterior, name)

    def mean(self, x: Float[np.ndarray, "*n D"]) -> Float[np.ndarray, "*n"]:
        """The posterior's."""
        return self._mean if x is self._rows else self.posterior.mean(x)

    def sample(self, *, key: KeyArray, scale: float = 1.0) -> TableDraw:
        """One function."""
        z = generator(key).standard_normal(len(self._mean))
        return TableDraw(self._rows, self._mean + scale * (self._L @ z))

    def draws(self, *, keys: Sequence[KeyArray], scale: float = 1.0) -> Iterable[Draw]:
        """One function per key."""
        return (Draw(self.sample(key=key, scale=scale)) for key in keys)


_factor = jit(joint_factor)


@dataclass(frozen=True)
class CandidateSet:
    """The points of a batch's set; one may be chosen again."""

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
        # what is compiled for a posterior depends on its arrays' shapes, for a wrapper on which one it is
        score = jax.tree.map(lambda leaf: leaf.posterior if isinstance(leaf, OnRows) else leaf, score)
        drawn = score.path if isinstance(score, PathScore) else None
        scores = drawn.values if isinstance(drawn, TableDraw) else values(score, self.rows)
        i = int(np.argmax(scores))
        if self.refine and anew and without:
            rate = self.rate / np.asarray(self.box)[None]
            with computing():
                climbed = adam(score, self.rows[i : i + 1], rate, rate, self.refine, scores[i : i + 1])
                _, row, value = (np.asarray(a) for a in climbed)
            if value[0] > scores[i]:
                return Best(row[0], None, float(value[0]), 1.0)
        return self.point(i, float(scores[i]))


@jit
def adam(
    score: Score,
    starts: Float[Array, "k D"],
    rate: Array,
    clamped: Array,
    steps: int,
    floor: Float[Array, " k"],
) -> tuple[Array, Array, Array]:
    """Where ascents end; where the steps from the best points on the way led, and these points' scores.

    A step out of the cube ends at its border; Adam (Kingma & Ba, 2015) then begins anew, at the rate
    `clamped`. Points count as best if their scores are above `floor` and the steps from them stay inside;
    that the point after such a step is taken, and not the one before, is the code's way.
    """
    both = jax.value_and_grad(score)

    def one(start: Array, rate: Array, clamped: Array, floor: Array) -> tuple[Array, Array, Array]:
        def step(state: tuple[Array, ...], _: None) -> tuple[tuple[Array, ...], None]:
            x, m, v, count, rate, best, top = state
            value, g = both(x)
            count = count + 1.0
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            unbiased = m / (1.0 - 0.9**count), v / (1.0 - 0.999**count)
            moved = x + rate * unbiased[0] / (jnp.sqrt(unbiased[1]) + 1e-8)
            x = jnp.clip(moved, 0.0, 1.0)
            outside = jnp.any(x != moved)
            better = (value > top + ROUNDING * jnp.abs(top)) & ~outside
            best, top = jnp.where(better, x, best), jnp.where(better, value, top)
            m, v, count = (jnp.where(outside, 0.0, a) for a in (m, v, count))
            return (x, m, v, count, jnp.where(outside, clamped, rate), best, top), None

        zero = jnp.zeros_like(start)
        first = (start, zero, zero, jnp.zeros(()), rate, start, jnp.maximum(floor, -LARGEST))
        (x, *_, best, top), _ = jax.lax.scan(step, first, None, length=steps)
        return x, best, top

    return jax.vmap(one)(starts, rate, clamped, floor)


@dataclass(frozen=True)
class OnCandidates:
    """A policy whose maximizers look at random points and at maxima of the posterior mean, no more.

    Args:
        inner: the policy.
        size: random points, drawn anew for every batch.
        ascend_mean: whether ascents of the mean from the best of them, and from better observations, are
            among the candidates.
        refine: steps of an ascent of the score from the chosen candidate, but for a batch's first; of the
            best point on the way, the next one is taken.
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
            more = generator(fold(keys[0], 8)).random((-len(rows) % STEP, rows.shape[1]))
            drawing = OnRows(posterior, rows, more)
        return self.inner.choose(
            drawing, pending, incumbent, t=t, maximize=among.maximize, candidates=among, keys=keys
        )

    def _maxima(self, posterior: Posterior, rows: np.ndarray) -> np.ndarray:
        """Ascents of the mean: from the best candidate, and from better observations far from all."""
        means, box = np.asarray(posterior.mean(rows)), np.asarray(self.box)
        seen, n = np.asarray(posterior.x), posterior.observations
        better = np.flatnonzero(np.asarray(posterior.mean(seen))[:n] > means.max())
        far = cdist(seen[better] * box, rows * box).min(axis=1, initial=np.inf) > FAR
        starts = np.concatenate([rows[[np.argmax(means)]], seen[better[far]]])
        used = np.arange(bucket(len(starts))) % len(starts)  # compiled for few numbers
        rates = np.where(used == 0, 1e-3, 1e-2)[:, None] / box
        with computing():
            clamped, floor = 1e-4 / box + 0 * rates, np.full(len(used), -np.inf)
            ends, _, _ = adam(MeanScore(posterior), starts[used], rates, clamped, 200, floor)
        return np.asarray(ends)[: len(starts)]


@dataclass(frozen=True)
class RedrawnNoise:
    """A Gaussian process that adds noise to the values, other noise in every fit.

    Args:
        process: the process, with lengthscales and variances that are given.
        deviation: of the noise, in units of the values' standard deviation.
        single: whether the covariance must have a factor in single precision: where points are close
            together it has none, and the code's library adds jitter until there is one, which smooths.
    """

    process: GaussianProcess
    deviation: float = 1e-3
    single: bool = False

    capabilities: ClassVar[frozenset[Capability]] = GaussianProcess.capabilities

    def tune(self, data: Data, *, key: KeyArray) -> Tuned:
        """As of the process."""
        return self.process.tune(data, key=key)

    def fit(self, data: Data, *, key: KeyArray, tuned: Tuned | None = None) -> Fit:
        """The posterior given noisy values."""
        x, y = data.x[: data.n], data.y[: data.n]
        noise = self.deviation * y.std() * generator(fold(key, 1)).standard_normal(len(y))
        noisy = Data.of(x, y + noise, data.groups)
        process = self.process
        if self.single:
            assert process.noise is not None
            process = replace(process, noise=process.noise + jitter_in_single_precision(process, x))
        return process.fit(noisy, key=key, tuned=tuned)

    def fits(self, parameters: int) -> str | None:
        """As of the process."""
        return self.process.fits(parameters)


def jitter_in_single_precision(process: GaussianProcess, x: Float[np.ndarray, "n D"]) -> float:
    """What GPyTorch adds to the diagonal: 0, 1e-6, 1e-5 or 1e-4, the first with a factor in float32.

    deviation: where even 1e-4 is not enough, the code's batch is random; here that is what is added.
    """
    assert process.variance is not None
    assert process.noise is not None
    scaled = x.astype(np.float32) / np.asarray(process.lengthscale, dtype=np.float32)
    scaled -= scaled.mean(axis=0)
    norms, ones = (scaled**2).sum(axis=1), np.ones(len(x), dtype=np.float32)
    # ‖a‖² + ‖b‖² − 2⟨a, b⟩ by one product, as there: close points have distances of rounding errors
    left, right = np.stack([*(-2.0 * scaled.T), norms, ones]), np.stack([*scaled.T, ones, norms])
    squares = np.maximum(left.T @ right, np.float32(0.0))
    np.fill_diagonal(squares, 0.0)
    kernel, _ = kernel_class(process.kernel).value_and_slope(squares)
    K = np.float32(process.variance) * kernel.astype(np.float32)
    for jitter in (0.0, *JITTERS):
        diagonal = np.float32(process.noise + jitter) * np.eye(len(x), dtype=np.float32)
        if lapack.spotrf(K + diagonal, lower=1)[1] == 0:
            return jitter
    return JITTERS[-1]


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
