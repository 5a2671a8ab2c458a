"""The Gaussian process of an infinitely wide network, its settings chosen by marginal likelihood.

All outputs are standardized, so one set of priors serves every problem:

    log σ_W ~ N(log 1.5, ½²)     (fixed at √2 for ReLU, whose kernel only scales with it)
    log σ_b ~ N(log 0.5, 1)
    log v   ~ N(0, 1)            v: the prior variance at a typical point of the cube
    log noise ~ N(−8, 4)

and the depth is the one of 1, 2 and 3 with the largest posterior density.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from augury._checks import check_count, one_of
from augury._errors import UnsupportedError
from augury._types import Array
from augury.core.data import Data, bucket, pad
from augury.core.keys import KeyArray
from augury.core.linalg import cholesky, inverse_factor, square
from augury.core.precision import computing, to_numpy
from augury.surrogates.base import Capability, Fit
from augury.surrogates.dual_activations import DUALS, Activation
from augury.surrogates.gp import fit_status, standardization
from augury.surrogates.gp_posterior import LARGEST_SMALL_MATRIX, condition_on, nugget
from augury.surrogates.ntk import NTK
from augury.surrogates.search import Search

DEPTHS = (1, 2, 3)
TYPICAL = 1.0 / 3.0  # the mean of z² for z uniform in [−1, 1]
MEAN = np.array([np.log(1.5), np.log(0.5), 0.0, -8.0])  # of the priors of log (σ_W, σ_b, v, noise)
DEVIATION = np.array([0.5, 1.0, 1.0, 2.0])
LOWER = np.log([0.2, 0.01, 1e-3, 1e-6])
UPPER = np.log([10.0, 10.0, 1e3, 1.0])
NOISY = 3.0  # where the second start of a search has its noise, in prior deviations
FIRST_EVALUATIONS = 6  # from every start, before the best goes on
MAX_EVALUATIONS = 40


class NTKHyper(NamedTuple):
    """The settings of a wide network, in standardized units; `depth` is a number."""

    depth: int
    log_weight_std: float
    log_bias_std: float
    log_variance: float  # at a typical point
    log_noise: float


class NTKTuned(NamedTuple):
    """The settings found, and how the search went."""

    hyper: NTKHyper
    log_posterior: float
    evaluations: int
    converged: bool


@dataclass(frozen=True)
class NTKProcess:
    """A Gaussian process with the neural tangent kernel of an infinitely wide MLP, in closed form.

    Args:
        depth: hidden layers; None chooses 1, 2 or 3.
        activation: "relu", "erf", "tanh" or "gelu".
        weight_std: σ_W; None learns it (for ReLU it is √2).
        bias_std: σ_b; None learns it.
        noise: fixed noise variance in squared units of y; None learns it.
        standardize: whether y is standardized; False takes a prior mean of zero.
        width: of the network whose tangent features make the prior part of a drawn path.
        tuning_points: settings are learnt from at most so many observations, evenly spaced in time.

    Reference: Jacot, Gabriel & Hongler (2018), "Neural tangent kernel"; that the settings follow from
    the marginal likelihood is what Be Greedy names as future work.
    """

    depth: int | None = None
    activation: Activation = "relu"
    weight_std: float | None = None
    bias_std: float | None = None
    noise: float | None = None
    standardize: bool = True
    width: int = 1024
    tuning_points: int = 256

    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)

    def __post_init__(self) -> None:
        check_count("depth", self.depth)
        check_count("width", self.width)
        check_count("tuning_points", self.tuning_points)
        one_of("activation", self.activation, tuple(DUALS))
        for name in ("weight_std", "bias_std", "noise"):
            value = getattr(self, name)
            if value is not None and not (np.ndim(value) == 0 and 0.0 < value < np.inf):
                raise UnsupportedError(
                    f"{name} must be positive and finite; got {value!r}. "
                    "Give a positive number, or None to learn it."
                )

    def tune(self, data: Data, *, key: KeyArray) -> NTKTuned:
        """The settings of largest posterior density, from two starts for every depth."""
        _, scale = standardization(data, self.standardize)
        shift, _ = standardization(data, self.standardize)
        chosen = evenly(data.n, self.tuning_points)
        x, y = data.x[chosen], (data.y[chosen] - shift) / scale
        depths = DEPTHS if self.depth is None else (self.depth,)
        if len(x) == 0:
            hyper = self._hyper(depths[0], np.zeros(4), scale)
            return NTKTuned(hyper, 0.0, 0, True)
        densities = [Density(d, self.activation, x, y, self._bounds(scale)) for d in depths]
        with computing():
            end = best_of(densities, [np.zeros(4), np.array([0.0, 0.0, 0.0, NOISY])])
        density = end.density
        hyper = self._hyper(density.depth, end.z, scale)
        evaluations = sum(d.evaluations for d in densities)
        return NTKTuned(hyper, -end.loss, evaluations, end.converged)

    def fit(self, data: Data, *, key: KeyArray, tuned: NTKTuned | None = None) -> Fit:
        """The posterior given all of `data`, with `tuned` settings or new ones."""
        if tuned is None:
            tuned = self.tune(data, key=key)
        shift, scale = standardization(data, self.standardize)
        kernel, noise = self.kernel(tuned.hyper, scale)
        with computing(single_thread=len(data.x) <= LARGEST_SMALL_MATRIX):
            posterior, jitter = to_numpy(
                condition_on(kernel, noise, data, np.asarray(shift), np.asarray(scale), self.width)
            )
        return Fit(posterior, fit_status(posterior.alpha, scale, jitter), self.describe(tuned, scale))

    def kernel(self, hyper: NTKHyper, scale: float) -> tuple[NTK, np.ndarray]:
        """The kernel and the noise variance that `hyper` describes."""
        log_noise = hyper.log_noise if self.noise is None else np.log(self.noise / scale**2)
        with computing():
            return to_numpy(_build(hyper.depth, self.activation, *np.array([*hyper[1:4], log_noise])))

    def describe(self, tuned: NTKTuned, scale: float) -> dict[str, Any]:
        """What a fit found, in the units of the data."""
        hyper = tuned.hyper
        noise = np.exp(hyper.log_noise) * scale**2 if self.noise is None else self.noise
        return {
            "depth": hyper.depth,
            "weight_std": float(np.exp(hyper.log_weight_std)),
            "bias_std": float(np.exp(hyper.log_bias_std)),
            "variance": float(np.exp(hyper.log_variance) * scale**2),
            "noise": float(noise),
            "log_posterior": float(tuned.log_posterior),
            "tuning_evaluations": int(tuned.evaluations),
            "tuning_converged": bool(tuned.converged),
        }

    def _bounds(self, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """Of z; a setting that the user fixed has equal ones, and so has σ_W of a ReLU network."""
        lower, upper = LOWER.copy(), UPPER.copy()
        weight_std = self.weight_std
        if weight_std is None and self.activation == "relu":
            weight_std = float(np.sqrt(2.0))
        noise = None if self.noise is None else self.noise / scale**2
        for i, value in ((0, weight_std), (1, self.bias_std), (3, noise)):
            if value is not None:
                lower[i] = upper[i] = np.log(value)
        return (lower - MEAN) / DEVIATION, (upper - MEAN) / DEVIATION

    def _hyper(self, depth: int, z: np.ndarray, scale: float) -> NTKHyper:
        lower, upper = self._bounds(scale)
        theta = MEAN + DEVIATION * np.clip(z, lower, upper)
        return NTKHyper(depth, *(float(value) for value in theta))


def evenly(n: int, most: int) -> np.ndarray:
    """At most so many of n row numbers, evenly spaced, the last one included."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(int)


class Density:
    """The posterior density of the settings at one depth, at z = (log setting − mean) / deviation."""

    def __init__(
        self,
        depth: int,
        activation: Activation,
        x: Float[np.ndarray, "n D"],
        y: Float[np.ndarray, " n"],
        bounds: tuple[np.ndarray, np.ndarray],
    ) -> None:
        capacity = bucket(len(x))
        self.depth, self.activation = depth, activation
        self.lower, self.upper = bounds
        self._data = pad(x, capacity), pad(y, capacity), np.arange(capacity) < len(x)
        self.evaluations = 0

    def loss_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """The negative logarithm of the density, up to a constant, and its gradient."""
        self.evaluations += 1
        value, gradient = _loss(self.depth, self.activation, z, *self._data)
        value, gradient = float(value), np.asarray(gradient)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return np.inf, z
        return value, gradient


def best_of(densities: Sequence[Density], starts: Sequence[np.ndarray]) -> "Search[Density]":
    """A few steps from every start, then on from the best end."""
    searches = [Search(d, np.clip(start, d.lower, d.upper)) for d in densities for start in starts]
    for search in searches:
        search.run(FIRST_EVALUATIONS)
    return min(searches, key=lambda search: search.loss).run(MAX_EVALUATIONS)


def _build(
    depth: int, activation: Activation, log_weight: Array, log_bias: Array, log_v: Array, log_noise: Array
) -> tuple[NTK, Array]:
    kernel = NTK(depth, activation, jnp.exp(log_weight), jnp.exp(log_bias), jnp.ones(()))
    unit = kernel.at_norm(TYPICAL)
    kernel = eqx.tree_at(lambda k: k.output, kernel, jnp.exp(log_v) / unit)
    return kernel, jnp.exp(log_noise)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _loss(
    depth: int, activation: Activation, z: Array, x: Array, y: Array, mask: Bool[Array, " n"]
) -> tuple[Array, Array]:
    def loss(z: Array) -> Array:
        kernel, noise = _build(depth, activation, *(MEAN + DEVIATION * z))
        K = jnp.where(mask[:, None] & mask[None, :], kernel.gram(x, x), 0.0)
        K = K + jnp.diag(jnp.where(mask, nugget(kernel, noise), 1.0))
        return gaussian_loss(K, y) + 0.5 * z @ z

    return jax.value_and_grad(loss)(z)


@jax.custom_vjp
def gaussian_loss(K: Float[Array, "n n"], y: Float[Array, " n"]) -> Float[Array, ""]:
    """−log N(y; 0, K) without its constant; the gradient in K is ½(K⁻¹ − ααᵀ), α = K⁻¹y."""
    return _forward(K, y)[0]


def _forward(K: Array, y: Array) -> tuple[Array, tuple[Array, Array]]:
    L, _ = cholesky(K)
    root = inverse_factor(L)
    half = root @ y
    value = 0.5 * half @ half + jnp.log(jnp.diagonal(L)).sum()
    return value, (root, root.T @ half)


def _backward(kept: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    root, alpha = kept
    return g * 0.5 * (square(root) - jnp.outer(alpha, alpha)), g * alpha


gaussian_loss.defvjp(_forward, _backward)
