"""The log marginal likelihood of a stationary Gaussian process and its gradient, in closed form.

    −log p(y | θ) = ½ yᵀK⁻¹y + ½ log det K + const,   ∂/∂θ = ½ tr((K⁻¹ − ααᵀ) ∂K/∂θ),   α = K⁻¹y

The search for hyper-parameters spends nearly all its time here. It is written on LAPACK rather than
compiled: the small operations of a compiled one wait for each other's threads, rows would be padding,
and there is nothing to compile when the data grow.

Reference: Rasmussen & Williams (2006), "Gaussian processes for machine learning", section 5.4.
"""

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import blas, lapack

from augury.surrogates.kernels import AGREEING, SCALES, Stationary, bump, trend_units

Shares = tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]]  # see `kernels.column_shares`

BASE_JITTER = 1e-8  # times the variance, always on the diagonal of a standardized covariance
SMALLEST_BLOCK = 64  # of a triangular matrix, below which LAPACK inverts it
BLOCK = 1 << 13  # kernel values computed together: their temporaries stay in the cache


class Likelihood:
    """−log p(y | θ) of standardized data, θ = (log lengthscale per group, log variance, log noise).

    With a `trend`, the logarithms of its three variances (`kernels.Trended`) stand before the variance,
    and with `effects`, which are the columns' shares in them, those of theirs (`kernels.WithEffects`).
    Buffers are kept between evaluations, since fresh memory costs time.
    """

    def __init__(
        self,
        kind: type[Stationary],
        x: Float[np.ndarray, "n D"],
        y: Float[np.ndarray, " n"],
        groups: Int[np.ndarray, " D"],
        *,
        trend: bool = False,
        effects: Shares | None = None,
        jitter: float = BASE_JITTER,
    ) -> None:
        n, dim = x.shape
        self._jitter = jitter
        self.lengthscales = int(groups.max(initial=-1)) + 1
        self._parts = _trends(x, jitter) if trend else []
        if effects is not None:
            self._parts += _effects(x, effects, jitter)
        self._halves = [2.0 * np.triu(G, 1) + np.diag(G.diagonal()) for G in self._parts]
        self.kind, self.groups, self._x, self._y = kind, groups, np.ascontiguousarray(x.T), y
        self._slope, self._C = np.zeros((2, n, n))
        self._left, self._right = np.ones((2, dim + 2, n))
        step = max(1, BLOCK // max(n, 1))
        self._blocks = [(slice(i, i + step), slice(i, n)) for i in range(0, n, step)]

    def value(self, theta: Float[np.ndarray, " p"]) -> float:
        """−log p(y | θ) without its constant; infinite where K is not positive definite."""
        L = self._factor(theta)
        if L is None:
            return np.inf
        z = lapack.dtrtrs(L, self._y, lower=1)[0]
        return float(0.5 * z @ z + np.log(L.diagonal()).sum())

    def value_and_gradient(self, theta: Float[np.ndarray, " p"]) -> tuple[float, np.ndarray]:
        """The value, and its derivative in every element of θ."""
        L = self._factor(theta)
        if L is None:
            return np.inf, np.zeros_like(theta)
        log_det = float(np.log(L.diagonal()).sum())
        invert_triangular(L)
        z = L @ self._y
        alpha = z @ L
        K_inverse = lapack.dlauum(L, lower=1, overwrite_c=1)[0]  # L⁻ᵀL⁻¹, its lower half
        variance, noise = np.exp(theta[-2:])
        fit = float(z @ z)
        in_diagonal = K_inverse.trace() - alpha @ alpha
        # ∂k/∂log ℓ_j = −2 variance·slope(s)·(a_j − b_j)², summed over all pairs by two products
        W = blas.dsyr(-1.0, alpha, lower=1, a=K_inverse, overwrite_a=1)
        gradient = np.empty_like(theta)
        ours = slice(self.lengthscales, len(theta) - 2)
        weights = np.exp(theta[ours])
        sums = [np.vdot(W.T, half) for half in self._halves]  # over all pairs, W's upper half being 0
        gradient[ours] = 0.5 * weights * sums
        W *= self._slope.T
        ab = self._right[:-1]  # the scaled inputs and a row of ones
        products = blas.dsymm(1.0, W, ab.T, lower=1).T
        pairs = ((products[-1] * ab[:-1] - products[:-1]) * ab[:-1]).sum(1)
        gradient[: ours.start] = np.bincount(self.groups, -2.0 * variance * pairs, minlength=ours.start)
        # K = variance·∂K/∂variance + parts + noise·I, and tr((K⁻¹ − ααᵀ)K) = n − yᵀK⁻¹y
        gradient[-2] = 0.5 * (len(z) - fit - noise * in_diagonal) - gradient[ours].sum()
        gradient[-1] = 0.5 * noise * in_diagonal
        return 0.5 * fit + log_det, gradient

    def left_out(self, theta: Float[np.ndarray, " p"]) -> float:
        """The sum of log p(yᵢ | all others, θ) without its constant; −∞ where K has no factor.

        Given the others, yᵢ is normal with mean yᵢ − αᵢ/(K⁻¹)ᵢᵢ and variance 1/(K⁻¹)ᵢᵢ, eq. 5.12.
        """
        L = self._factor(theta)
        if L is None:
            return -np.inf
        invert_triangular(L)
        alpha = (L @ self._y) @ L
        precision = np.einsum("ij,ij->j", L, L)
        value = float(0.5 * (np.log(precision) - alpha**2 / precision).sum())
        return value if np.isfinite(value) else -np.inf

    def _factor(self, theta: np.ndarray) -> np.ndarray | None:
        """The lower factor of K + noise·I, in a buffer; None if it has none."""
        variance, noise = np.exp(theta[-2:])
        # ‖a‖² + ‖b‖² − 2⟨a, b⟩ = (−2a, ‖a‖², 1)·(b, 1, ‖b‖²), up to rounding, whose sign is dropped
        left, right = self._left, self._right
        np.multiply(self._x, np.exp(-theta[: self.lengthscales])[self.groups, None], out=right[:-2])
        np.einsum("ij,ij->j", right[:-2], right[:-2], out=right[-1])
        np.multiply(right[:-2], -2.0, out=left[:-2])
        left[-2] = right[-1]
        C = self._C
        for rows, columns in self._blocks:  # the upper half, which LAPACK reads as the lower one
            s = np.abs(left[:, rows].T @ right[:, columns])
            value, self._slope[rows, columns] = self.kind.value_and_slope(s)
            np.multiply(value, variance, out=C[rows, columns])
        C.ravel()[:: len(C) + 1] = variance + noise + self._jitter * variance
        for weight, G in zip(np.exp(theta[self.lengthscales : -2]), self._parts, strict=True):
            C += weight * G
        L, failed = lapack.dpotrf(C.T, lower=1, clean=1, overwrite_a=1)
        return None if failed or not np.isfinite(L[-1, -1]) else L


def _trends(x: Float[np.ndarray, "n D"], jitter: float) -> list[Float[np.ndarray, "n n"]]:
    """The covariances of a linear function, a quadratic one and a bowl with their parts of the jitter."""
    z = 2.0 * x - 1.0
    G = z @ z.T
    unit = jitter * np.eye(len(x))
    squares = (z**2).sum(1)
    parts = (G, G**2, np.outer(squares, squares))
    return [part + size * unit for part, size in zip(parts, trend_units(x.shape[1]), strict=True)]


def _effects(
    x: Float[np.ndarray, "n D"], shares: Shares, jitter: float
) -> list[Float[np.ndarray, "n n"]]:
    """The covariances of effects, white and at each scale, with their parts of the jitter."""
    single, choice = shares
    same = (x * choice) @ x.T + jitter * np.eye(len(x))
    parts = [same.copy() for _ in range(1 + len(SCALES))]
    for column, share in zip(x.T, single, strict=True):
        distance = np.abs(column[:, None] - column)
        parts[0] += share * (distance <= AGREEING)
        for part, scale in zip(parts[1:], SCALES, strict=True):
            part += share * bump(distance / scale)
    return parts


def invert_triangular(L: Float[np.ndarray, "n n"]) -> None:
    """L⁻¹ in the place of a lower-triangular L.

    [A 0; B C]⁻¹ = [A⁻¹ 0; −C⁻¹BA⁻¹  C⁻¹]: the products are faster than LAPACK's own inversion.
    """
    n = len(L)
    if n <= SMALLEST_BLOCK:
        L[...] = lapack.dtrtri(L, lower=1)[0]
        return
    m = n // 2
    A, B, C = L[:m, :m], L[m:, :m], L[m:, m:]
    invert_triangular(A)
    invert_triangular(C)
    np.negative(C @ (B @ A), out=B)
