"""Thompson sampling: the maximum of a function drawn from the posterior."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from augury import theory
from augury._checks import check_real
from augury._errors import UnsupportedError
from augury._types import Array
from augury.core.keys import KeyArray, fold
from augury.core.score import Score
from augury.policies.base import Candidates, Chosen, Maximize, Picks
from augury.policies.schedules import Constant, Schedule, as_schedule, beta_at
from augury.surrogates.base import Capability, Path, Posterior


class PathScore(Score):
    """The drawn function itself."""

    path: Path

    def __call__(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        """The score at one point."""
        return self.path(x)


class EnlargedPathScore(Score):
    """μ(x) + (β σ(x) + v)(f(x) − μ(x)) / √(σ²(x) + ε): a path with standard deviation β σ(x) + v."""

    path: Path
    posterior: Posterior
    beta: Float[Array, ""]
    v: Float[Array, ""]
    epsilon: Float[Array, ""]

    def __call__(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        """The score at one point."""
        mean, var = self.posterior.mean(x), self.posterior.var(x)
        deviation = (self.path(x) - mean) / jnp.sqrt(var + self.epsilon)
        return mean + (self.beta * jnp.sqrt(var) + self.v) * deviation


@dataclass(frozen=True)
class Thompson:
    """The point where a drawn function is largest; every point has a draw of its own.

    Pending points: they do not enter, the draws are independent; that is what makes a batch diverse.

    With `eta` and `B` the draws have the enlarged standard deviation of Theorem 4, which makes up for
    a maximizer of accuracy η̃: β_t σ(x) + (1/η̃ − 1) B.

    Args:
        beta: factor of the draws' standard deviation, a number or a schedule; 1 by default.
        eta: worst-case accuracy η̃ in (0, 1] of the maximizer; None does not enlarge.
        B: bound on the function, in the units of its values; needed with `eta`.
        epsilon: ε in the denominator, where σ vanishes at observed points, as a multiple of the
            noise variance: a number of its own unit would decide by the unit of the values.

    Reference: Chowdhury & Gopalan (2017), "On kernelized multi-armed bandits", algorithm 2;
    Kim, Liu & Chen (2025), Theorem 4.
    """

    beta: float | Schedule = 1.0
    eta: float | None = None
    B: float | None = None
    epsilon: float = 1e-9

    def __post_init__(self) -> None:
        as_schedule(self.beta)
        if (self.eta is None) != (self.B is None):
            raise UnsupportedError(
                f"eta and B must be given together; got eta={self.eta}, B={self.B}. "
                "Give the maximizer's worst-case accuracy and a bound on the function, or neither."
            )
        if self.eta is not None and self.B is not None:
            theory.enlargement(self.eta, self.B)  # its checks
        check_real("epsilon", self.epsilon)
        if not 0.0 < self.epsilon < np.inf:
            raise UnsupportedError(f"epsilon must be positive and finite; got {self.epsilon}. Use 1e-9.")

    @property
    def requires(self) -> frozenset[Capability]:
        """Paths; also mean and variance to enlarge them, and the mean itself where β is 0."""
        enlarging = {Capability.MEAN, Capability.VAR} if self.eta is not None else set()
        mean = {Capability.MEAN} if as_schedule(self.beta) == Constant(0.0) else set()
        return frozenset({Capability.PATH} | enlarging | mean)

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
        """One draw and one point per key."""
        beta = beta_at(self.beta, t, posterior)
        plain = self.eta is None
        draws = posterior.draws(keys=[fold(key, 0) for key in keys], scale=beta if plain else 1.0)
        points: list[Chosen] = []
        info: list[dict[str, Any]] = []
        for key, draw in zip(keys, draws, strict=True):
            score = PathScore(draw.path) if plain else self._enlarged(draw.path, posterior, beta)
            points.append(maximize(score, key=fold(key, 1), without=points))
            info.append({"beta": beta, **draw.info})
        return Picks(points, info)

    def _enlarged(self, path: Path, posterior: Posterior, beta: float) -> EnlargedPathScore:
        assert self.eta is not None
        assert self.B is not None
        v = theory.enlargement(self.eta, self.B)
        epsilon = max(self.epsilon * posterior.noise_std**2, np.finfo(float).tiny)
        return EnlargedPathScore(path, posterior, *(np.asarray(a) for a in (beta, v, epsilon)))
