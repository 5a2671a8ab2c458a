"""Upper confidence bound, then pure exploration where the maximum may still be.

    x_1 = argmax_x μ(x) + β_t σ(x)
    x_i = argmax_{x ∈ R⁺} σ(x | pending points, x_1, …, x_{i−1}),    i = 2, …, m
    R⁺  = {x : μ(x) + 2 β_t σ(x) >= y•},    y• = max_x μ(x) − β_t σ(x)      (the relevant region)

Reference: Contal, Buffoni, Robicquet & Vayatis (2013), "Parallel Gaussian process optimization with upper
confidence bound and pure exploration", algorithm 1 and section 3.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from augury._checks import check_flags
from augury._types import Array
from augury.core.keys import KeyArray, fold, root_key
from augury.core.score import Score
from augury.policies.base import Candidates, Chosen, Maximize, Picks
from augury.policies.schedules import Desautels, Schedule, as_schedule, beta_at
from augury.policies.ucb import UCBScore
from augury.surrogates.base import Capability, Posterior

KNOWN = 0.5  # of σ, left by pending points: below it, a point counts as being evaluated
TIE = 0.05  # of βσ, below which two upper confidence bounds are the same


class LCBScore(Score):
    """μ(x) − β σ(x)."""

    posterior: Posterior
    beta: Float[Array, ""]

    def __call__(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        """The score at one point."""
        return self.posterior.mean(x) - self.beta * jnp.sqrt(self.posterior.var(x))


class ExplorationScore(Score):
    """σ(x | batch) in the relevant region; outside of it, minus the distance of the bound from y•."""

    belief: Posterior  # given the earlier points of the batch
    posterior: Posterior
    beta: Float[Array, ""]
    floor: Float[Array, ""]  # y•; −inf for no region

    def __call__(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        """The score at one point."""
        bound = self.posterior.mean(x) + 2.0 * self.beta * jnp.sqrt(self.posterior.var(x))
        below = jnp.maximum(self.floor - bound, 0.0)
        return jnp.where(below > 0.0, -below, jnp.sqrt(self.belief.var(x)))


@dataclass(frozen=True)
class UCBPE:
    """One point by its upper confidence bound, the others where the relevant region is least known.

    Pending points: while one of them has the largest bound, or nearly, or they leave less than half of
    the uncertainty there, or an evaluated point has it, the next point explores, given all of them.

    Args:
        beta: a number, or a schedule of :mod:`augury.policies.schedules`; that of Srinivas et al.,
            scaled as in their experiments, by default.
        region: whether exploration keeps to the relevant region.
    """

    beta: float | Schedule = field(default_factory=Desautels)
    region: bool = True

    def __post_init__(self) -> None:
        as_schedule(self.beta)
        check_flags(region=self.region)

    @property
    def requires(self) -> frozenset[Capability]:
        """Mean, variance, and variance given points without values."""
        return frozenset({Capability.MEAN, Capability.VAR, Capability.CONDITION})

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
        bound = UCBScore(posterior, np.asarray(beta))
        belief, floor = posterior.condition(pending), -np.inf
        points: list[Chosen] = []
        info: list[dict[str, Any]] = []
        for key in keys:
            if points:
                belief = belief.condition(points[-1].x)
            elif len(pending):
                top = maximize(bound, key=key, judged=False)
            explores = len(points) > 0 or (len(pending) > 0 and _evaluated(top, bound, belief, pending))
            if explores:
                if self.region and floor == -np.inf:
                    lower = LCBScore(posterior, np.asarray(beta))
                    # its key is that of no point: then asking together or one by one gives one floor
                    floor = maximize(lower, key=fold(root_key(0), t), anew=False, judged=False).value
                score = ExplorationScore(belief, posterior, np.asarray(beta), np.asarray(floor))
                points.append(maximize(score, key=fold(key, 2), without=points))
            else:
                points.append(maximize(bound, key=key))
            info.append({"beta": beta, "explores": explores})
        return Picks(points, info)


def _evaluated(top: Chosen, bound: UCBScore, belief: Posterior, pending: np.ndarray) -> bool:
    """Whether the point of largest bound has been asked for, or one as good or close to it."""
    if "explored" in top.info:  # then `top` stands in its place
        return True
    means, variances = bound.posterior.predict(pending)
    before, after = bound.posterior.predict(top.x)[1], belief.predict(top.x)[1]
    largest = np.max(means + bound.beta * np.sqrt(variances))
    tied = largest >= top.value - TIE * bound.beta * np.sqrt(before)
    return bool(tied or after < KNOWN**2 * before)
