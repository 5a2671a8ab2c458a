"""A Gaussian process on random Fourier features: Bayesian linear regression with M weights."""

from dataclasses import dataclass, field
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from augury._errors import UnsupportedError
from augury._types import Array
from augury.core.data import Data, bucket, pad
from augury.core.keys import KeyArray, generator
from augury.core.linalg import cholesky, inverse_factor, square
from augury.core.precision import computing, jit, public, to_numpy
from augury.surrogates.base import Capability, Fit, Path, StandardizedPosterior
from augury.surrogates.features import Features
from augury.surrogates.gp import GaussianProcess, describe, fit_status, standardization
from augury.surrogates.gp_posterior import nugget
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
        if self.process.trend or self.process.effects:
            raise UnsupportedError(
                "a process of random features must be stationary; got one with "
                f"{'a trend' if self.process.trend else 'effects'}. Leave that out."
            )

    def fits(self, parameters: int) -> str | None:
        """None if it can model so many parameters, else the reason why not."""
        return self.process.fits(parameters)

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
            features = kernel.features(self.features, generator(key))
            on_diagonal = np.asarray(nugget(kernel, noise, data.dim))
            fitted = _fit(features, noise, on_diagonal, data, np.asarray(shift), np.asarray(scale))
            posterior, jitter = to_numpy(fitted)
        info = describe(tuned, hyper, groups, scale, jitter + on_diagonal - noise)
        info |= {"features": self.features, "starved": data.n > self.features // 2}
        return Fit(posterior, fit_status(posterior.weights, scale, jitter), info)


class FourierPosterior(StandardizedPosterior):
    """The posterior of the weights, held as a root of its covariance."""

    features: Features
    noise: Float[Array, ""]
    nugget: Float[Array, ""]  # the noise and a little jitter, as in the exact process
    weights: Float[Array, " M"]  # their mean
    root: Float[Array, "M M"]  # RᵀR = A⁻¹
    gain: Float[Array, ""]  # ½ log det(A/nugget)
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
        """σ²(x) = nugget · φ(x)ᵀA⁻¹φ(x)."""
        half = self.features(x) @ self.root.T
        return self.scale**2 * self.nugget * (half * half).sum(-1)

    @public
    def joint(self, xs: Float[Array, "m D"]) -> tuple[Float[Array, " m"], Float[Array, "m m"]]:
        """Mean and covariance at several points."""
        half = self.features(xs) @ self.root.T
        return self.mean(xs), self.scale**2 * self.nugget * half @ half.T

    def sample(self, *, key: KeyArray, scale: float = 1.0) -> "FeaturePath":
        """φ(x)ᵀw with w drawn from its posterior, `scale` times its deviation."""
        z = generator(key).standard_normal(len(self.weights))
        with computing():
            return to_numpy(_sample(self, np.asarray(scale) * z))

    def condition(self, xs: np.ndarray, ys: np.ndarray | None = None) -> "FourierPosterior":
        """A rank-one update of the root per new point, O(M²) each."""
        xs, values = self.new_observations(xs, ys)
        if len(xs) == 0:
            return self
        with computing():
            posterior = self
            for x, y in zip(xs, values, strict=True):
                # one at a time: then four points together give the same bits as one by one
                posterior = to_numpy(_update(posterior, x, y))
        seen = np.concatenate([np.asarray(self.x)[np.asarray(self.mask)], xs])
        capacity = bucket(len(seen))
        room = pad(seen, capacity), np.arange(capacity) < len(seen)
        return eqx.tree_at(lambda p: (p.x, p.mask), posterior, room)

    def information_gain(self) -> float:
        """½ log det(I + ΦΦᵀ/nugget) = ½ log det(A/nugget)."""
        return float(self.gain)


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


@jit
def _fit(
    features: Features, noise: Array, nugget: Array, data: Data, shift: Array, scale: Array
) -> tuple[FourierPosterior, Array]:
    Phi = jnp.where(data.mask[:, None], features(data.x), 0.0)
    y = jnp.where(data.mask, (data.y - shift) / scale, 0.0)
    L, jitter = cholesky(square(Phi) + nugget * jnp.eye(features.count))
    nugget = nugget + jitter
    root = inverse_factor(L)
    weights = root.T @ (root @ (Phi.T @ y))
    gain = jnp.log(jnp.diagonal(L)).sum() - 0.5 * features.count * jnp.log(nugget)
    posterior = FourierPosterior(
        features=features, noise=jnp.asarray(noise), nugget=nugget, weights=weights, root=root, gain=gain,
        x=jnp.asarray(data.x), mask=jnp.asarray(data.mask), shift=jnp.asarray(shift),
        scale=jnp.asarray(scale),
    )  # fmt: skip
    return posterior, jitter


@jit
def _sample(p: FourierPosterior, z: Array) -> FeaturePath:
    weights = p.weights + jnp.sqrt(p.nugget) * (p.root.T @ z)
    return FeaturePath(p.features, weights, p.shift, p.scale)


@jit
def _update(p: FourierPosterior, x: Array, y: Array) -> FourierPosterior:
    """One more observation, A' = A + φφᵀ: with u = Rφ and s = uᵀu,

        R' = R − u(uᵀR) / (1 + s + √(1 + s)),   w' = w + Rᵀu (y − φᵀw) / (1 + s)

    Reference: Potter's square-root update; Bierman (1977), "Factorization methods for discrete
    sequential estimation", section II.5.
    """
    phi = p.features(x)
    u = p.root @ phi
    s = u @ u
    surprise = jnp.where(jnp.isnan(y), 0.0, (y - p.shift) / p.scale - phi @ p.weights)
    back = u @ p.root
    root = p.root - jnp.outer(u, back) / (1.0 + s + jnp.sqrt(1.0 + s))
    weights = p.weights + back * (surprise / (1.0 + s))
    gain = p.gain + 0.5 * jnp.log1p(s)
    return eqx.tree_at(lambda q: (q.root, q.weights, q.gain), p, (root, weights, gain))
