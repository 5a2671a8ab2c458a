"""A Gaussian process on random Fourier features: Bayesian linear regression with M weights."""

from dataclasses import dataclass, field
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from augury._types import Array
from augury.core.data import Data, bucket, pad
from augury.core.keys import KeyArray, generator
from augury.core.linalg import cholesky, inverse_factor, square
from augury.core.precision import computing, public, to_numpy
from augury.surrogates.base import Capability, Fit, Path, Posterior, new_observations
from augury.surrogates.features import Features, draw_features
from augury.surrogates.gp import GaussianProcess, describe, fit_status, standardization
from augury.surrogates.hyperfit import Tuned, build
from augury.surrogates.kernels import kernel_class


@dataclass(frozen=True)
class FourierProcess:
    """The kernel of `process` replaced by M random features: cost O(nM² + M³), linear in n.

        f(x) = φ(x)ᵀw,   w | data ~ N(A⁻¹Φᵀy, noise·A⁻¹),   A = ΦᵀΦ + noise·I

    Paths are exact draws of this model and cost M operations per point, whatever n is. The model has
    only M degrees of freedom: once n is of the order of M, the data determine all weights and the
    variance falls below that of the process it stands for, also far from the data ("variance
    starvation"). `Fit.info["starved"]` is then true; use more features, or the exact process.
    Hyper-parameters are those of the exact process.

    Args:
        process: the process that is approximated; its own `features` are not used.
        features: M, an even number.

    Reference: Rahimi & Recht (2007), "Random features for large-scale kernel machines"; on variance
    starvation: Wang et al. (2018), "Batched large-scale Bayesian optimization in high-dimensional
    spaces".
    """

    process: GaussianProcess = field(default_factory=GaussianProcess)
    features: int = 1000

    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)

    def __post_init__(self) -> None:
        GaussianProcess(features=self.features)  # the same rule for the number of features

    def tune(self, data: Data, *, key: KeyArray) -> Tuned:
        """The hyper-parameters of the exact process."""
        return self.process.tune(data, key=key)

    def fit(self, data: Data, *, key: KeyArray, tuned: Tuned | None = None) -> Fit:
        """The posterior of the weights; the features are drawn with `key`."""
        if tuned is None:
            tuned = self.tune(data, key=key)
        shift, scale = standardization(data, self.process.standardize)
        hyper = self.process.within_limits(tuned.hyper, data, scale)
        groups = self.process.groups(data)
        with computing(single_thread=False):
            kernel, noise = to_numpy(build(kernel_class(self.process.kernel), hyper, groups))
            features = draw_features(kernel, self.features, generator(key))
            fitted = _fit(features, noise, data, np.asarray(shift), np.asarray(scale))
            posterior, jitter = to_numpy(fitted)
        info = describe(tuned, hyper, groups, scale, jitter)
        info |= {"features": self.features, "starved": data.n > self.features // 2}
        return Fit(posterior, fit_status(posterior.weights, jitter), info)


class FourierPosterior(Posterior):
    """The posterior of the weights, held as the inverse factor of A."""

    features: Features
    noise: Float[Array, ""]
    weights: Float[Array, " M"]  # their mean
    A: Float[Array, "M M"]
    L_inverse: Float[Array, "M M"]  # of A = LLᵀ
    x: Float[Array, "capacity D"]  # observed, for the incumbent
    mask: Bool[Array, " capacity"]
    shift: Float[Array, ""]
    scale: Float[Array, ""]

    @public
    def mean(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """μ(x) = φ(x)ᵀA⁻¹Φᵀy."""
        return self.shift + self.scale * (self.features(x) @ self.weights)

    @public
    def var(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """σ²(x) = noise · φ(x)ᵀA⁻¹φ(x)."""
        half = self.features(x) @ self.L_inverse.T
        return self.scale**2 * self.noise * (half * half).sum(-1)

    @public
    def joint(self, xs: Float[Array, "m D"]) -> tuple[Float[Array, " m"], Float[Array, "m m"]]:
        """Mean and covariance at several points."""
        half = self.features(xs) @ self.L_inverse.T
        return self.mean(xs), self.scale**2 * self.noise * half @ half.T

    def sample(self, *, key: KeyArray) -> "FeaturePath":
        """φ(x)ᵀw with w drawn from its posterior."""
        z = generator(key).standard_normal(len(self.weights))
        with computing():
            return to_numpy(_sample(self, z))

    def condition(self, xs: np.ndarray, ys: np.ndarray | None = None) -> "FourierPosterior":
        """A rank-m update of A and one new factorization, O(M³) for all points together."""
        xs, values = new_observations(xs, ys)
        if len(xs) == 0:
            return self
        rows = bucket(len(xs))
        with computing(single_thread=False):
            updated = _update(self, pad(xs, rows), pad(values, rows), np.arange(rows) < len(xs))
            seen = np.concatenate([np.asarray(self.x)[np.asarray(self.mask)], xs])
            capacity = bucket(len(seen))
            return eqx.tree_at(
                lambda p: (p.x, p.mask),
                to_numpy(updated),
                (pad(seen, capacity), np.arange(capacity) < len(seen)),
            )

    def incumbent(self) -> float:
        """The largest posterior mean at the observed points; the prior mean without any."""
        mask = np.asarray(self.mask)
        if not mask.any():
            return float(self.shift)
        return float(np.max(self.mean(np.asarray(self.x))[mask]))

    def information_gain(self) -> float:
        """½ log det(I + ΦΦᵀ/noise) = ½ log det(A/noise)."""
        diagonal = np.diagonal(np.asarray(self.L_inverse))
        return float(-np.log(diagonal).sum() - 0.5 * len(diagonal) * np.log(self.noise))

    @property
    def noise_std(self) -> float:
        """The standard deviation of the observation noise."""
        return float(np.sqrt(self.noise) * self.scale)


class FeaturePath(Path):
    """x ↦ shift + scale · φ(x)ᵀw."""

    features: Features
    weights: Float[Array, " M"]
    shift: Float[Array, ""]
    scale: Float[Array, ""]

    @public
    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The value at one point or at several."""
        return self.shift + self.scale * (self.features(x) @ self.weights)


@eqx.filter_jit
def _fit(
    features: Features, noise: Array, data: Data, shift: Array, scale: Array
) -> tuple[FourierPosterior, Array]:
    Phi = jnp.where(data.mask[:, None], features(data.x), 0.0)
    y = jnp.where(data.mask, (data.y - shift) / scale, 0.0)
    A = square(Phi) + noise * jnp.eye(features.count)
    L, jitter = cholesky(A)
    L_inverse = inverse_factor(L)
    weights = L_inverse.T @ (L_inverse @ (Phi.T @ y))
    x, mask, noise = jnp.asarray(data.x), jnp.asarray(data.mask), jnp.asarray(noise)
    shift, scale = jnp.asarray(shift), jnp.asarray(scale)
    return FourierPosterior(features, noise, weights, A, L_inverse, x, mask, shift, scale), jitter


@eqx.filter_jit
def _sample(p: FourierPosterior, z: Array) -> FeaturePath:
    weights = p.weights + jnp.sqrt(p.noise) * (p.L_inverse.T @ z)
    return FeaturePath(p.features, weights, p.shift, p.scale)


@eqx.filter_jit
def _update(p: FourierPosterior, xs: Array, ys: Array, mask: Array) -> FourierPosterior:
    Phi = jnp.where(mask[:, None], p.features(xs), 0.0)
    observed = jnp.where(jnp.isnan(ys), Phi @ p.weights, (ys - p.shift) / p.scale)
    A = p.A + square(Phi)
    L, _ = cholesky(A)
    L_inverse = inverse_factor(L)
    projected = p.A @ p.weights + Phi.T @ jnp.where(mask, observed, 0.0)  # Φᵀy of all data
    weights = L_inverse.T @ (L_inverse @ projected)
    return eqx.tree_at(lambda q: (q.A, q.L_inverse, q.weights), p, (A, L_inverse, weights))
