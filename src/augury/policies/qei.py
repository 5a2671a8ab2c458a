"""The expected improvement of a batch, chosen greedily: what a point adds to those before it.

    qEI(X) = E[(max_{x ∈ X} f(x) − incumbent)⁺]
    x_i    = argmax_x qEI({pending, x_1, …, x_{i−1}, x}) − qEI({pending, x_1, …, x_{i−1}})
           = argmax_x E[(f(x) − max(incumbent, f(P)))⁺],    P = {pending, x_1, …, x_{i−1}}

The expectation over the values f(P), fantasies, is a mean over quasi-random draws of them; that over f(x)
given f(P) is the closed form of expected improvement.

Reference: Ginsbourger, Le Riche & Carraro (2008), "A multi-points criterion for deterministic parallel
global optimization"; greedy choice: Wilson, Hutter & Deisenroth (2018), "Maximizing acquisition functions
for Bayesian optimization".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtri

from augury._checks import need_count
from augury._errors import UnsupportedError
from augury._types import Array
from augury.core.data import bucket, pad
from augury.core.keys import KeyArray, fold, generator
from augury.core.linalg import cholesky, inverse_factor
from augury.core.precision import computing, jit
from augury.core.score import Score
from augury.policies.base import Candidates, Chosen, Maximize, Picks
from augury.policies.ei import LogEIScore, log_h
from augury.surrogates.base import Capability, Posterior

LEAST = 1e-12  # of a variance, left by values that are known exactly
FANTASIES = 5  # what a key is folded with for these draws; as it is, it is the maximizer's
JITTER = 1e-10  # of the mean variance of the points whose values are drawn


class FantasyEIScore(Score):
    """log E[(f(x) − max(incumbent, f(P)))⁺], a mean over fantasies f(P) = μ(P) + L z."""

    posterior: Posterior
    points: Float[Array, "p D"]  # P, padded
    mask: Bool[Array, " p"]
    L_inverse: Float[Array, "p p"]  # of the covariance of f(P)
    z: Float[Array, "fantasies p"]
    best: Float[Array, " fantasies"]  # max(incumbent, f(P))

    logarithmic: ClassVar[bool] = True

    def __call__(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        """The score at one point."""
        covariance = jnp.where(self.mask, self.posterior.covariance(x, self.points), 0.0)
        known = self.L_inverse @ covariance  # f(x) given f(P) has mean μ(x) + known·z
        var = self.posterior.var(x)
        std = jnp.sqrt(jnp.maximum(var - known @ known, LEAST * var))
        mean = self.posterior.mean(x) + self.z @ known
        each = log_h((mean - self.best) / std)
        return jnp.log(std) + jax.nn.logsumexp(each) - np.log(len(self.z))


@dataclass(frozen=True)
class QEI:
    """The point that adds most to the expected improvement of the batch.

    Pending points: they are part of the batch; their unknown values are averaged over. For the mean in
    the place of these values (kriging believer), use :class:`~augury.policies.EI`.

    Args:
        fantasies: draws of the values of pending points, a power of two.
    """

    fantasies: int = 128

    def __post_init__(self) -> None:
        need_count("fantasies", self.fantasies)
        if self.fantasies & (self.fantasies - 1):
            raise UnsupportedError(
                f"fantasies must be a power of two; got {self.fantasies}. Use 64, 128 or 256."
            )

    @property
    def requires(self) -> frozenset[Capability]:
        """Mean, variance and covariances."""
        return frozenset({Capability.MEAN, Capability.VAR, Capability.JOINT})

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
        """One point per key, each given that those before it are in the batch."""
        best = posterior.incumbent() if incumbent is None else incumbent
        points: list[Chosen] = []
        for key in keys:
            waiting = np.concatenate([pending, *(point.x[None] for point in points)])
            score = self.score(posterior, waiting, best, key=fold(key, FANTASIES))
            points.append(maximize(score, key=key, without=points))
        return Picks(points, [{"incumbent": best}] * len(points))

    def score(
        self, posterior: Posterior, waiting: Float[np.ndarray, "p D"], best: float, *, key: KeyArray
    ) -> Score:
        """What is maximized, given the points that are being evaluated."""
        from scipy.stats import qmc  # takes a second to import

        p = len(waiting)
        if p == 0:
            return LogEIScore(posterior, np.asarray(best))
        rows, mask = pad(waiting, bucket(p)), np.arange(bucket(p)) < p
        with computing():
            mean, L, L_inverse = (np.asarray(a) for a in _factor(posterior, rows, mask))
        sobol = qmc.Sobol(p, rng=generator(key)).random(self.fantasies)
        z = np.zeros((self.fantasies, len(rows)))
        z[:, :p] = ndtri(np.clip(sobol, 1e-12, 1.0 - 1e-12))
        values = (mean + z @ L.T)[:, :p]
        return FantasyEIScore(posterior, rows, mask, L_inverse, z, np.maximum(best, values.max(axis=1)))


@jit
def _factor(
    posterior: Posterior, rows: Float[Array, "p D"], mask: Bool[Array, " p"]
) -> tuple[Array, Array, Array]:
    """Mean, factor of the covariance, and its inverse; padded rows are rows of the identity."""
    mean, covariance = posterior.joint(rows)
    unit = jnp.where(mask, jnp.diagonal(covariance), 0.0).sum() / mask.sum()
    covariance = jnp.where(mask[:, None] & mask[None, :], covariance, 0.0)
    L, _ = cholesky(covariance + jnp.diag(jnp.where(mask, JITTER * unit, 1.0)))
    return mean, L, inverse_factor(L)
