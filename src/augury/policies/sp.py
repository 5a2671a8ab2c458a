"""A stochastic policy: points drawn with probabilities that grow with an acquisition function.

    p(x) ∝ exp(β_n a(x)),    β_n = β log(n + 1) / (max a − min a)

n is the number of observations: the policy becomes greedier as it learns.

Reference: Garcia-Barcos & Martinez-Cantin (2019), "Fully distributed Bayesian optimization with
stochastic policies", section 4; β_n as in the experiments of Ren & Li (2024).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from augury._checks import check_real, need_count, one_of
from augury._errors import UnsupportedError
from augury.core.keys import KeyArray, fold, generator
from augury.core.precision import computing
from augury.policies.base import Candidates, Chosen, Maximize, Picks
from augury.policies.ei import log_ei
from augury.surrogates.base import Capability, Posterior

FLAT = 1e-12  # of the largest value: a spread below it is rounding


@dataclass(frozen=True)
class StochasticPolicy:
    """A point drawn from a Boltzmann distribution over the space (SP).

    Pending points: they do not enter, the draws are independent; no worker needs to know of another.

    Args:
        acquisition: "mean" (the posterior mean) or "ei" (expected improvement).
        beta: how much greedier than uniform the policy is.
        points: the distribution is that over so many random points, or over all of a smaller space.
    """

    acquisition: Literal["mean", "ei"] = "mean"
    beta: float = 3.0
    points: int = 4096

    def __post_init__(self) -> None:
        one_of("acquisition", self.acquisition, ("mean", "ei"))
        need_count("points", self.points)
        check_real("beta", self.beta)
        if not 0.0 <= self.beta < np.inf:
            raise UnsupportedError(f"beta must be finite and >= 0; got {self.beta}. Use 3.")

    @property
    def requires(self) -> frozenset[Capability]:
        """The mean; expected improvement also needs the variance."""
        return frozenset({Capability.MEAN} | ({Capability.VAR} if self.acquisition == "ei" else set()))

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
        """One draw per key."""
        best = posterior.incumbent() if incumbent is None else incumbent
        points: list[Chosen] = []
        info: list[dict[str, Any]] = []
        for key in keys:
            drawn = candidates(self.points, fold(key, 0), without=points)
            values = self._values(posterior, drawn.rows, best)
            spread = float(values.max() - values.min())
            flat = spread <= FLAT * np.abs(values).max()
            slope = 0.0 if flat else self.beta * np.log(posterior.observations + 1.0) / spread
            weights = np.exp(slope * (values - values.max()))
            i = generator(fold(key, 1)).choice(len(weights), p=weights / weights.sum())
            points.append(drawn.point(int(i), float(values[i])))
            info.append({"beta": slope})
        return Picks(points, info)

    def _values(self, posterior: Posterior, rows: np.ndarray, best: float) -> np.ndarray:
        if self.acquisition == "mean":
            return np.asarray(posterior.mean(rows))
        mean, var = posterior.predict(rows)
        with computing():
            return np.exp(log_ei(mean, np.sqrt(var), np.asarray(best)))
