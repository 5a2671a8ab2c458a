"""The Gaussian process of an infinitely wide network, its settings chosen by marginal likelihood.

All outputs are standardized, so one set of priors serves every problem:

    log σ_W ~ N(log 1.5, ½²)     (fixed at √2 for ReLU: σ_b and v do nearly all that it would)
    log σ_b ~ N(log 0.5, 1)
    log v   ~ N(0, 1)            v: the prior variance at a typical point of the cube
    log noise ~ N(−8, 4)

and the depth is the one of 1, 2 and 3 with the largest posterior density.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from augury._checks import check_count, check_fixed, check_flags, need_count, one_of
from augury._types import Array
from augury.core.data import Data, bucket, pad
from augury.core.keys import KeyArray
from augury.core.linalg import cholesky, inverse_factor, square
from augury.core.precision import computing, jit, to_numpy
from augury.surrogates.base import Capability, Fit
from augury.surrogates.dual_activations import DUALS, Activation
from augury.surrogates.gp import fit_status, standardization, without_repeats
from augury.surrogates.gp_posterior import LARGEST_SMALL_MATRIX, condition_on, covariance
from augury.surrogates.networks import MLP, Network
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
LARGEST_FINITE_BIAS = 1.0  # σ_b of networks that are trained
SMALLEST_NOISE = 1e-12  # that a search sees, in standardized units
NO_NOISE = 1e-8  # below which the jitter is larger


class NTKHyper(NamedTuple):
    """The settings of a wide network, in standardized units; `depth` is a number."""

    depth: int
    log_weight_std: float
    log_bias_std: float
    log_variance: float  # at a typical point
    log_noise: float


class Shape(NamedTuple):
    """What compiled code depends on; `normalized` if the variance is that at a typical point."""

    depth: int
    activation: Activation
    bias: bool
    centred: bool
    normalized: bool


class NTKTuned(NamedTuple):
    """The settings found, and how the search went."""

    hyper: NTKHyper
    log_posterior: float
    evaluations: int
    converged: bool


class Realized(NamedTuple):
    """A finite network with its settings, in standardized units."""

    network: Network
    output: np.ndarray  # what multiplies its tangent kernel, a variance
    noise: np.ndarray  # σ²


@dataclass(frozen=True)
class NTKProcess:
    """A Gaussian process with the neural tangent kernel of an infinitely wide MLP, in closed form.

    Args:
        depth: hidden layers; None chooses 1, 2 or 3.
        activation: "relu", "erf", "tanh" or "gelu".
        weight_std: σ_W; None learns it (for ReLU it is √2). "1/m" is d^{1/(2 depth + 2)}: a ReLU network
            without biases is then √m times one whose weights have variance 1/m in every layer (neural-bo,
            section 7), and λ‖θ − θ_0‖² is the mλ‖θ − θ_0‖² of that network.
        bias_std: σ_b; None learns it.
        noise: fixed noise variance in squared units of y, 0 for none; None learns it.
        output: what multiplies the kernel, in squared units of y; None learns it.
        bias: whether the layers have biases.
        centred: whether the network sees 2x − 1; without, it sees x itself.
        relative: whether `noise` and `output` are multiples of the values' variance, not of their squared
            unit.
        standardize: whether y is standardized; False takes a prior mean of zero.
        width: of the network whose tangent features make the prior part of a drawn path.
        tuning_points: settings are learnt from at most so many observations, evenly spaced in time.

    Reference: Jacot, Gabriel & Hongler (2018), "Neural tangent kernel"; that the settings follow from
    the marginal likelihood is what Be Greedy names as future work.
    """

    depth: int | None = None
    activation: Activation = "relu"
    weight_std: float | Literal["1/m"] | None = None
    bias_std: float | None = None
    noise: float | None = None
    standardize: bool = True
    width: int = 1024
    tuning_points: int = 256
    output: float | None = None
    bias: bool = True
    centred: bool = True
    relative: bool = False

    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)

    def __post_init__(self) -> None:
        check_count("depth", self.depth)
        need_count("width", self.width)
        need_count("tuning_points", self.tuning_points)
        one_of("activation", self.activation, tuple(DUALS))
        if not isinstance(self.weight_std, str) or self.weight_std != "1/m":
            check_fixed("weight_std", self.weight_std)
        check_fixed("bias_std", self.bias_std)
        check_fixed("noise", self.noise, zero=True)
        check_fixed("output", self.output)
        check_flags(
            standardize=self.standardize, bias=self.bias, centred=self.centred, relative=self.relative
        )

    def unit(self, scale: float) -> float:
        """Of `noise` and `output`, in standardized units."""
        return 1.0 if self.relative else scale**2

    def tune(self, data: Data, *, key: KeyArray, finite: bool = False) -> NTKTuned:
        """The settings of largest posterior density, from two starts for every depth.

        For a `finite` network σ_b is at most 1: beyond, its kernel is a large constant with small
        differences, which a network of some hundred units does not have right, and training fails.
        """
        shift, scale = standardization(data, self.standardize)
        chosen = evenly(data.n, self.tuning_points)
        x, y = data.x[chosen], (data.y[chosen] - shift) / scale
        if self.noise is not None and self.noise / self.unit(scale) < NO_NOISE:
            x, y = without_repeats(x, y)
        depths = DEPTHS if self.depth is None else (self.depth,)
        bounds = {depth: self._bounds(depth, scale, data.dim, finite) for depth in depths}
        if len(x) == 0:
            hyper = self._hyper(depths[0], np.zeros(4), bounds[depths[0]])
            return NTKTuned(hyper, 0.0, 0, True)
        densities = [Density(self._shape(d), x, y, bounds[d]) for d in depths]
        with computing():
            end = best_of(densities, [np.zeros(4), np.array([0.0, 0.0, 0.0, NOISY])])
        depth = end.density.shape.depth
        hyper = self._hyper(depth, end.z, bounds[depth])
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
        log_v, noise = self._in_use(hyper, scale)
        with computing():
            kernel = _build(self._shape(hyper.depth), *np.array([*hyper[1:3], log_v]))
            return to_numpy(kernel), np.asarray(noise)

    def _in_use(self, hyper: NTKHyper, scale: float) -> tuple[float, float]:
        """log v (or log output) and noise, in standardized units: what is fixed, else what was found."""
        unit = self.unit(scale)
        log_v = hyper.log_variance if self.output is None else np.log(self.output / unit)
        noise = np.exp(hyper.log_noise) if self.noise is None else self.noise / unit
        return float(log_v), float(noise)

    def realize(
        self, tuned: NTKTuned, scale: float, *, width: int, zero_output_bias: bool = False
    ) -> Realized:
        """A finite network whose tangent kernel has this process's for its limit."""
        kernel, noise = self.kernel(tuned.hyper, scale)
        network = MLP(
            kernel.depth, width, kernel.activation, kernel.weight_std, kernel.bias_std,
            bias=self.bias, zero_output_bias=zero_output_bias, centred=self.centred,
        )  # fmt: skip
        return Realized(network, np.asarray(kernel.output), noise)

    def describe(self, tuned: NTKTuned, scale: float) -> dict[str, Any]:
        """What a fit found, in the units of the data."""
        hyper = tuned.hyper
        log_v, noise = self._in_use(hyper, scale)
        return {
            "depth": hyper.depth,
            "weight_std": float(np.exp(hyper.log_weight_std)),
            "bias_std": float(np.exp(hyper.log_bias_std)) if self.bias else 0.0,
            "variance" if self.output is None else "output": float(np.exp(log_v) * scale**2),
            "noise": noise * scale**2,
            "log_posterior": float(tuned.log_posterior),
            "tuning_evaluations": int(tuned.evaluations),
            "tuning_converged": bool(tuned.converged),
        }

    def _shape(self, depth: int) -> Shape:
        return Shape(depth, self.activation, self.bias, self.centred, normalized=self.output is None)

    def _bounds(self, depth: int, scale: float, dim: int, finite: bool) -> tuple[np.ndarray, np.ndarray]:
        """Of z; a setting that the user fixed has equal ones, and so has σ_W of a ReLU network."""
        lower, upper = LOWER.copy(), UPPER.copy()
        if finite:
            upper[1] = np.log(LARGEST_FINITE_BIAS)
        weight_std = self.weight_std
        if weight_std == "1/m":
            weight_std = max(dim, 1) ** (0.5 / (depth + 1))
        elif weight_std is None and self.activation == "relu":
            weight_std = float(np.sqrt(2.0))
        noise = None if self.noise is None else max(self.noise / self.unit(scale), SMALLEST_NOISE)
        output = None if self.output is None else self.output / self.unit(scale)
        bias_std = self.bias_std if self.bias else 1.0
        for i, value in enumerate((weight_std, bias_std, output, noise)):
            if value is not None:
                lower[i] = upper[i] = np.log(value)
        return (lower - MEAN) / DEVIATION, (upper - MEAN) / DEVIATION

    def _hyper(self, depth: int, z: np.ndarray, bounds: tuple[np.ndarray, np.ndarray]) -> NTKHyper:
        lower, upper = bounds
        theta = MEAN + DEVIATION * np.clip(z, lower, upper)
        return NTKHyper(depth, *(float(value) for value in theta))


def evenly(n: int, most: int) -> np.ndarray:
    """At most so many of n row numbers, evenly spaced, the last one included."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(int)


class Density:
    """The posterior density of the settings at one depth, at z = (log setting − mean) / deviation."""

    def __init__(
        self,
        shape: Shape,
        x: Float[np.ndarray, "n D"],
        y: Float[np.ndarray, " n"],
        bounds: tuple[np.ndarray, np.ndarray],
    ) -> None:
        capacity = bucket(len(x))
        self.shape = shape
        self.lower, self.upper = bounds
        self._data = pad(x, capacity), pad(y, capacity), np.arange(capacity) < len(x)
        self.evaluations = 0

    def loss_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """The negative logarithm of the density, up to a constant, and its gradient."""
        self.evaluations += 1
        value, gradient = _loss(self.shape, z, *self._data)
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


@jit
def _build(shape: Shape, log_weight: Array, log_bias: Array, log_v: Array) -> NTK:
    bias_std = jnp.exp(log_bias) if shape.bias else jnp.zeros(())
    kernel = NTK(
        shape.depth, shape.activation, jnp.exp(log_weight), bias_std, jnp.ones(()), centred=shape.centred
    )
    unit = kernel.at_norm(TYPICAL) if shape.normalized else 1.0
    return eqx.tree_at(lambda k: k.output, kernel, jnp.exp(log_v) / unit)


@jit
def _loss(shape: Shape, z: Array, x: Array, y: Array, mask: Bool[Array, " n"]) -> tuple[Array, Array]:
    def loss(z: Array) -> Array:
        *settings, log_noise = MEAN + DEVIATION * z
        kernel, noise = _build(shape, *settings), jnp.exp(log_noise)
        return gaussian_loss(covariance(kernel, noise, x, mask), y) + 0.5 * z @ z

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
