"""The two settings of a process whose kernel matrix K is known up to its scale, by marginal likelihood.

    y ~ N(0, vK + noise·I),   log v ~ N(0, 1),   log noise ~ N(−8, 4)

in standardized units, K divided by the mean of its diagonal. With K = U diag(s) Uᵀ and c = Uᵀy,

    −log N(y; 0, vK + noise·I) = ½ Σ_i (c_i²/d_i + log d_i),   d_i = v s_i + noise:

one factorization, then O(n) operations for every pair of settings.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from augury.core.precision import computing
from augury.surrogates.ntk_process import (
    DEVIATION,
    LOWER,
    MAX_EVALUATIONS,
    MEAN,
    NOISY,
    SMALLEST_NOISE,
    UPPER,
)
from augury.surrogates.search import Search

JITTER = 1e-8  # times the variance, always on the diagonal of the covariance


class Likeliest(NamedTuple):
    """The settings of largest posterior density, and how the search went."""

    v: float
    noise: float
    log_posterior: float
    evaluations: int
    converged: bool


def likeliest(
    K: Float[np.ndarray, "n n"], y: Float[np.ndarray, " n"], v: float | None, noise: float | None
) -> Likeliest:
    """The settings, each learnt if it is None; without observations those of the priors."""
    lower, upper = LOWER[2:].copy(), UPPER[2:].copy()
    for i, value in enumerate((v, noise)):
        if value is not None:
            lower[i] = upper[i] = np.log(max(value, SMALLEST_NOISE))
    bounds = [(bound - MEAN[2:]) / DEVIATION[2:] for bound in (lower, upper)]
    if len(y) == 0 or not np.isfinite(K).all():
        z, log_posterior, evaluations, converged = np.clip(np.zeros(2), *bounds), 0.0, 0, len(y) == 0
    else:
        density = SpectralDensity(K, y, *bounds)
        starts = (np.clip(start, *bounds) for start in ([0.0, 0.0], [0.0, NOISY]))
        end = min((Search(density, z).run(MAX_EVALUATIONS) for z in starts), key=lambda s: s.loss)
        z, log_posterior, evaluations = end.z, -float(end.loss), density.evaluations
        converged = end.converged
    found = np.exp(MEAN[2:] + DEVIATION[2:] * z)
    return Likeliest(float(found[0]), float(found[1]), log_posterior, evaluations, converged)


class SpectralDensity:
    """The posterior density of (log v, log noise), at z = (log setting − mean) / deviation."""

    def __init__(
        self,
        K: Float[np.ndarray, "n n"],
        y: Float[np.ndarray, " n"],
        lower: Float[np.ndarray, " 2"],
        upper: Float[np.ndarray, " 2"],
    ) -> None:
        self.lower, self.upper = lower, upper
        with computing():  # one thread
            eigenvalues, vectors = np.linalg.eigh(K)
        self.eigenvalues = np.maximum(eigenvalues, 0.0) + JITTER
        self.squares = (vectors.T @ y) ** 2
        self.evaluations = 0

    def loss_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """The negative logarithm of the density, up to a constant, and its gradient."""
        self.evaluations += 1
        v, noise = np.exp(MEAN[2:] + DEVIATION[2:] * z)
        d = v * self.eigenvalues + noise
        slope = 0.5 * (1.0 / d - self.squares / d**2)
        gradient = DEVIATION[2:] * np.array([slope @ (v * self.eigenvalues), noise * slope.sum()]) + z
        value = 0.5 * float((self.squares / d + np.log(d)).sum() + z @ z)
        return (value, gradient) if np.isfinite(value) else (np.inf, z)
