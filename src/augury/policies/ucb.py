"""Upper confidence bound: α_t(x) = μ(x) + β_t σ(x)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from augury._types import Array
from augury.core.keys import KeyArray
from augury.core.score import Score
from augury.policies.base import Candidates, Maximize, Picks, one_by_one
from augury.policies.schedules import Schedule, SqrtLog, as_schedule, beta_at
from augury.surrogates.base import Capability, Posterior


class UCBScore(Score):
    """μ(x) + β σ(x)."""

    posterior: Posterior
    beta: Float[Array, ""]

    def __call__(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        """The score at one point."""
        return self.posterior.mean(x) + self.beta * jnp.sqrt(self.posterior.var(x))


@dataclass(frozen=True)
class UCB:
    """The point of largest upper confidence bound.

    Pending points: their posterior mean is taken as observed, so the variance around them shrinks.

    Args:
        beta: a number, or a schedule of :mod:`augury.policies.schedules`; √log(t + 2) by default.

    Reference: Srinivas et al. (2010), "Gaussian process optimization in the bandit setting";
    Kim, Liu & Chen (2025), algorithm 1.
    """

    beta: float | Schedule = field(default_factory=SqrtLog)

    def __post_init__(self) -> None:
        as_schedule(self.beta)

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
        beta = beta_at(self.beta, t, posterior)
        points = one_by_one(
            lambda belief: UCBScore(belief, np.asarray(beta)),
            posterior.condition(pending),
            maximize,
            keys,
        )
        return Picks(points, [{"beta": beta}] * len(points))
