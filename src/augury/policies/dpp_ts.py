"""Thompson sampling with a determinantal point process: batches that tell more than their points alone.

    P(X) ∝ Π_i p_max(x_i) · det(I + λ σ⁻² K(X)),    p_max: where a draw of the posterior has its maximum,
                                                     K: posterior covariance, σ²: noise variance

by a Markov chain whose steps replace one point by another draw of Thompson sampling, accepted with
probability min(1, det(new) / det(old)).

Reference: Nava, Mutný & Krause (2022), "Diversified sampling for batched Bayesian optimization with
determinantal point processes", algorithm 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from augury._checks import check_count, check_real
from augury._errors import UnsupportedError
from augury.core.data import bucket, pad
from augury.core.keys import KeyArray, fold, generator
from augury.policies.base import Candidates, Chosen, Maximize, Picks
from augury.policies.thompson import PathScore
from augury.surrogates.base import Capability, Posterior

SMALLEST_NOISE = 1e-12  # of the largest variance


@dataclass(frozen=True)
class DPPThompson:
    """A batch of Thompson sampling made diverse by a determinantal point process (DPP-TS).

    Pending points: they are members of the batch that stay, and the new ones differ from them too. One
    point alone, with none pending, is that of Thompson sampling.

    Args:
        swaps: steps of the chain; None takes two for every point of the batch.
        weight: λ, how much diversity counts.
    """

    swaps: int | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_count("swaps", self.swaps)
        check_real("weight", self.weight)
        if not 0.0 <= self.weight < np.inf:
            raise UnsupportedError(f"weight must be finite and >= 0; got {self.weight}. Use 1.")

    @property
    def requires(self) -> frozenset[Capability]:
        """Paths, and the covariance of several points."""
        return frozenset({Capability.PATH, Capability.MEAN, Capability.JOINT})

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
        """One draw per key, then the steps of the chain."""

        def drawn(key: KeyArray, without: Sequence[Chosen]) -> Chosen:
            path = posterior.sample(key=fold(key, 0))
            return maximize(PathScore(path), key=fold(key, 1), without=without)

        points: list[Chosen] = []
        for key in keys:
            points.append(drawn(key, points))
        if len(points) + len(pending) == 1:
            return Picks(points, [{"swaps": 0}])
        volume, accepted = self._log_det(posterior, pending, points), np.zeros(len(points), dtype=int)
        for step in range(self.swaps or 2 * len(points)):
            rng = generator(fold(keys[0], 2, step))
            i = int(rng.integers(len(points)))
            others = [*points[:i], *points[i + 1 :]]
            swapped = [*points[:i], drawn(fold(keys[i], 3, step), others), *points[i + 1 :]]
            changed = self._log_det(posterior, pending, swapped)
            if np.log(rng.random()) < changed - volume:
                points, volume = swapped, changed
                accepted[i] += 1
        return Picks(points, [{"swaps": int(count)} for count in accepted])

    def _log_det(self, posterior: Posterior, pending: np.ndarray, points: Sequence[Chosen]) -> float:
        """log det(I + λ σ⁻² K) of pending points and batch."""
        rows = np.concatenate([pending, *(point.x[None] for point in points)])
        padded = pad(rows, bucket(len(rows)))  # compiled once for many sizes
        K = np.asarray(posterior.joint(padded)[1])[: len(rows), : len(rows)]
        noise = max(posterior.noise_std**2, SMALLEST_NOISE * float(np.diagonal(K).max()))
        return float(np.linalg.slogdet(np.eye(len(K)) + self.weight / noise * K)[1])
