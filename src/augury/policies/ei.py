"""Expected improvement, in logarithmic form so that it never underflows.

EI(x) = σ(x) h(z),   z = (μ(x) − incumbent) / σ(x),   h(z) = φ(z) + z Φ(z)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Float

from augury._types import Array
from augury.core.keys import KeyArray
from augury.core.score import Score
from augury.policies.base import Candidates, Chosen, Maximize, Picks
from augury.surrogates.base import Capability, Posterior

LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)
TAIL = -5.0  # below it, φ(z) + z Φ(z) cancels and the continued fraction converges in a few terms
TERMS = 24  # at TAIL they leave a relative error of 2e-15


@jax.custom_jvp
def log_h(z: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """log(φ(z) + z Φ(z)), with full relative accuracy for all z down to −1e150.

    In the tail, with u = −z and Laplace's c(u), Φ(z)/φ(z) = 1/(u + c), so
    h(z) = φ(z)(1 − u/(u + c)) = φ(z) c/(u + c).
    """
    near, u = jnp.maximum(z, TAIL), -jnp.minimum(z, TAIL)
    c = _laplace(u)
    tail = -0.5 * u * u - LOG_SQRT_2PI + jnp.log(c) - jnp.log(u + c)
    return jnp.where(z > TAIL, jnp.log(_h(near)), tail)


def _h(z: Array) -> Array:
    """φ(z) + z Φ(z), which cancels below TAIL."""
    return jnp.exp(-0.5 * z * z - LOG_SQRT_2PI) + z * ndtr(z)


def _laplace(u: Array) -> Array:
    """c = 1/(u + 2/(u + 3/(u + …))), from Laplace's continued fraction of the Mills ratio."""
    c = u
    for k in range(TERMS, 1, -1):
        c = u + k / c
    return 1.0 / c


def _log_h_derivative(t: Array, out: Array, z: Array) -> Array:
    """h' = Φ, so (log h)' = Φ/h, which is 1/c in the tail."""
    near, u = jnp.maximum(z, TAIL), -jnp.minimum(z, TAIL)
    return jnp.where(z > TAIL, ndtr(near) / _h(near), 1.0 / _laplace(u)) * t


log_h.defjvps(_log_h_derivative)


def log_ei(mean: Float[Array, "*n"], std: Float[Array, "*n"], incumbent: Array) -> Float[Array, "*n"]:
    """log EI of a normal variable over the incumbent."""
    return jnp.log(std) + log_h((mean - incumbent) / std)


class LogEIScore(Score):
    """log EI(x)."""

    posterior: Posterior
    incumbent: Float[Array, ""]

    logarithmic: ClassVar[bool] = True

    def __call__(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        """The score at one point."""
        return log_ei(self.posterior.mean(x), jnp.sqrt(self.posterior.var(x)), self.incumbent)


@dataclass(frozen=True)
class EI:
    """The point of largest expected improvement over the incumbent.

    The incumbent is the largest posterior mean at observed points, not the largest value: noise does
    not raise it. Pending points: their posterior mean is taken as observed (kriging believer), also as
    the incumbent.

    Reference: Jones, Schonlau & Welch (1998), "Efficient global optimization of expensive black-box
    functions"; batches: Ginsbourger, Le Riche & Carraro (2008), section 4; the logarithm: Ament et al.
    (2023), "Unexpected improvements to expected improvement".
    """

    # Whether nothing is asked of pending points but that their mean has been observed: then the
    # posterior may be given conditioned on them already.
    believes: ClassVar[bool] = True

    @property
    def requires(self) -> frozenset[Capability]:
        """Mean and variance."""
        return frozenset({Capability.MEAN, Capability.VAR})

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
        """One point per key, each conditioned on those before it."""
        belief = posterior.condition(pending)
        best = belief.incumbent() if incumbent is None or len(pending) else incumbent
        points: list[Chosen] = []
        info: list[dict[str, float]] = []
        for key in keys:
            if points:
                belief = belief.condition(points[-1].x)
                best = belief.incumbent()
            points.append(maximize(LogEIScore(belief, np.asarray(best)), key=key, without=points))
            info.append({"incumbent": best})
        return Picks(points, info)
