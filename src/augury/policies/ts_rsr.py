"""TS-RSR: the point with the least regret, as a draw sees it, per unit of uncertainty.

    f*_i = max_x f̃_i(x),   f̃_1, …, f̃_m drawn independently from the posterior
    x_i  = argmin_x (f*_i − μ(x)) / σ(x | pending points, x_1, …, x_{i−1})              (ts-rsr, Eq. 4.2)

The ratio is minimized as the maximum of log σ − log(f* − μ). It means something only where f* is above μ
everywhere: a draw whose maximum is not above the largest mean is replaced by another one.

Reference: Ren & Li (2024), "TS-RSR: a provably efficient approach for batch Bayesian optimization".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from augury._checks import need_count
from augury._types import Array
from augury.core.keys import KeyArray, fold, root_key
from augury.core.score import Score
from augury.policies.base import Candidates, Chosen, Maximize, Picks
from augury.policies.thompson import PathScore
from augury.surrogates.base import Capability, Path, Posterior

LEAST = 1e-6  # by which f* is above the largest mean, in units of σ there
LOOKS = 100  # at most, for a point whose mean is below f*; far more than any search has needed
DRAWN = "the maximum of a draw"
SMALLEST = "just above the largest mean, since no draw was"


class MeanScore(Score):
    """μ(x)."""

    posterior: Posterior

    def __call__(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        """The score at one point."""
        return self.posterior.mean(x)


class RatioScore(Score):
    """log σ(x) − log(f* − μ(x)), with the logarithm's tangent where f* − μ is below `least`.

    So where f* is not above μ, the largest μ wins, and not the largest σ: then the policy sees that f* is
    too small.
    """

    belief: Posterior
    best: Float[Array, ""]
    least: Float[Array, ""]

    logarithmic: ClassVar[bool] = True

    def __call__(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        """The score at one point."""
        gap = self.best - self.belief.mean(x)
        least = jnp.maximum(gap, self.least)
        return 0.5 * jnp.log(self.belief.var(x)) - jnp.log(least) + (least - gap) / self.least


class Ceiling(NamedTuple):
    """The largest mean that is known, the point where it is, and what f* must have above it."""

    mean: float
    x: Float[np.ndarray, " D"]
    least: float

    @classmethod
    def at(cls, posterior: Posterior, x: Float[np.ndarray, " D"]) -> "Ceiling":
        """With a point where the mean is large."""
        mean, var = (float(a) for a in posterior.predict(x))
        return cls(mean, x, max(LEAST * np.sqrt(var), np.spacing(abs(mean)), np.finfo(float).tiny))

    @property
    def smallest(self) -> float:
        """The smallest admissible f*."""
        return self.mean + self.least


@dataclass(frozen=True)
class TSRSR:
    """The point of least regret-to-sigma ratio; every point has a draw of its own.

    Pending points: σ is that after observing them and the earlier points of the batch; μ stays.

    Args:
        redraws: the most draws that replace one whose maximum is not above the largest mean; after
            them f* is the smallest number that is.
    """

    redraws: int = 16

    whole_batch: ClassVar[bool] = True  # the rule of initialization counts all its points: Lemma B.2

    def __post_init__(self) -> None:
        need_count("redraws", self.redraws)

    @property
    def requires(self) -> frozenset[Capability]:
        """Paths, mean, variance, and variance given points without values."""
        return frozenset({Capability.PATH, Capability.MEAN, Capability.VAR, Capability.CONDITION})

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
        # its key is that of no point: then asking together or one by one gives one largest mean
        highest = maximize(MeanScore(posterior), key=fold(root_key(0), t), anew=False, judged=False)
        draws = posterior.draws(keys=[fold(key, 0) for key in keys])
        points: list[Chosen] = []
        info: list[dict[str, Any]] = []
        for key, draw in zip(keys, draws, strict=True):
            if points:
                belief = belief.condition(points[-1].x)
            ceiling = Ceiling.at(posterior, highest.x)
            star, number = self._drawn(posterior, draw.path, ceiling, maximize, key)
            for _ in range(LOOKS):
                point = _least_ratio(belief, star, ceiling, maximize, fold(key, 2), points)
                seen = Ceiling.at(posterior, point.x)
                if seen.mean < star:
                    break
                ceiling = seen  # the search has found a larger mean; f* rises above it
                star, number = self._drawn(posterior, None, ceiling, maximize, key, number)
            points.append(point)
            kind = DRAWN if star > ceiling.smallest else SMALLEST
            said = {"f_star": star, "f_star_is": kind, "best_mean": ceiling.mean, "redraws": number}
            info.append({**draw.info, **said})
        return Picks(points, info)

    def _drawn(
        self,
        posterior: Posterior,
        path: Path | None,
        ceiling: Ceiling,
        maximize: Maximize,
        key: KeyArray,
        number: int = 0,
    ) -> tuple[float, int]:
        """The first maximum of a draw that is above the ceiling, and how many draws were replaced."""
        while True:
            if path is not None:
                found = maximize(PathScore(path), key=fold(key, 1, number), anew=False, judged=False)
                star = max(found.value, float(path(ceiling.x)))
                if star > ceiling.smallest:
                    return star, number
            if number == self.redraws:
                return ceiling.smallest, number
            number += 1
            path = posterior.sample(key=fold(key, 0, number))


def _least_ratio(
    belief: Posterior,
    star: float,
    ceiling: Ceiling,
    maximize: Maximize,
    key: KeyArray,
    without: Sequence[Chosen],
) -> Chosen:
    score = RatioScore(belief, np.asarray(star), np.asarray(ceiling.least))
    return maximize(score, key=key, without=without)
