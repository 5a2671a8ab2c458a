"""The exact Gaussian process."""

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from numpy.random import Generator

from augury._errors import DataError, UnsupportedError
from augury._types import Array
from augury.core.data import Data, bucket
from augury.core.keys import KeyArray, generator
from augury.core.linalg import cholesky, inverse_factor, square
from augury.core.precision import computing, public, to_numpy
from augury.surrogates.base import Capability, Fit, Path, Posterior, Status, new_observations
from augury.surrogates.features import Features, draw_features
from augury.surrogates.hyperfit import (
    DEFAULT_LOWER,
    DEFAULT_UPPER,
    Hyper,
    Limits,
    Tuned,
    build,
    covariance,
    diagonal,
    tune,
)
from augury.surrogates.kernels import Kernel, KernelName, kernel_class
from augury.surrogates.likelihood import BASE_JITTER

LARGEST_ARD = 256  # lengthscales that are learnt
LARGEST_JOINT_DRAW = 5000
LARGEST_SMALL_MATRIX = 1024  # above it, BLAS threads help
SMALLEST_SCALE, LARGEST_SCALE = 1e-150, 1e150  # of values: variances are their squares


@dataclass(frozen=True)
class GaussianProcess:
    """A Gaussian process with a stationary kernel, exact in every quantity.

        f ~ GP(m, k),  y = f(x) + N(0, noise);   μ(x) = m + k(x)ᵀ(K + noise·I)⁻¹(y − m)

    Outputs are standardized before the fit (and back after it), inputs lie in the unit cube. What is
    added to the diagonal for the sake of the factorization, at least 1e-8 times the variance, is in
    `Fit.info["jitter"]`, in squared units of y as the noise beside it.

    Args:
        kernel: "matern52" (default), "matern32" or "se".
        lengthscale: fixed lengthscale(s) in the unit cube, a number or one per parameter; None
            learns them.
        variance: fixed prior variance in squared units of y; None learns it.
        noise: fixed noise variance in squared units of y; None learns it.
        ard: one lengthscale per parameter; False shares one among all, and so do more than 256
            parameters, whose lengthscales could not be told apart.
        standardize: whether y is standardized; False takes a prior mean of zero.
        features: random features of a drawn path's prior part.
        tuning_points: hyper-parameters are learnt from at most so many observations (the best half
            of them by value, the rest at random), which bounds the cost of large data.

    Reference: Rasmussen & Williams (2006), "Gaussian processes for machine learning", algorithm 2.1.
    """

    kernel: KernelName = "matern52"
    lengthscale: float | tuple[float, ...] | None = None
    variance: float | None = None
    noise: float | None = None
    ard: bool = True
    standardize: bool = True
    features: int = 1024
    tuning_points: int = 512

    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)

    def __post_init__(self) -> None:
        kernel_class(self.kernel)
        if isinstance(self.lengthscale, list | np.ndarray):
            object.__setattr__(self, "lengthscale", tuple(np.asarray(self.lengthscale).tolist()))
        for name in ("lengthscale", "variance", "noise"):
            value = getattr(self, name)
            scalar = name == "lengthscale" or np.ndim(value) == 0
            if value is not None and not (scalar and _positive(value)):
                raise UnsupportedError(
                    f"{name} must be positive and finite; got {value!r}. "
                    f"Give a positive number, or None to learn it."
                )
        for name in ("ard", "standardize"):
            if not isinstance(getattr(self, name), bool):
                raise UnsupportedError(
                    f"{name} must be True or False; got {getattr(self, name)!r}. Use one of them."
                )
        if not isinstance(self.features, int) or self.features < 2 or self.features % 2:
            raise UnsupportedError(
                f"features must be an even number of at least 2; got {self.features!r}. "
                "They come in pairs of a cosine and a sine."
            )
        if not isinstance(self.tuning_points, int) or self.tuning_points < 1:
            raise UnsupportedError(
                f"tuning_points must be at least 1; got {self.tuning_points!r}. Use about 500."
            )

    def tune(self, data: Data, *, key: KeyArray) -> Tuned:
        """The hyper-parameters of largest posterior density (MAP), from several starts."""
        shift, scale = standardization(data, self.standardize)  # of all data, as in `fit`
        data = self._subset(data, generator(key))
        n = data.n
        with computing(single_thread=n <= LARGEST_SMALL_MATRIX):
            return tune(
                kernel_class(self.kernel),
                data.x[:n],
                (data.y[:n] - shift) / scale,
                self.groups(data),
                int(data.groups.max(initial=0)) + 1,
                self._limits(data, scale),
            )

    def fit(self, data: Data, *, key: KeyArray, tuned: Tuned | None = None) -> Fit:
        """The posterior given all of `data`, with `tuned` hyper-parameters or new ones."""
        if tuned is None:
            tuned = self.tune(data, key=key)
        shift, scale = standardization(data, self.standardize)
        hyper = self.within_limits(tuned.hyper, data, scale)
        with computing(single_thread=len(data.x) <= LARGEST_SMALL_MATRIX):
            posterior, jitter = to_numpy(
                _condition_on(
                    kernel_class(self.kernel),
                    hyper,
                    data,
                    self.groups(data),
                    np.asarray(shift),  # arrays, since a Python float would compile anew per value
                    np.asarray(scale),
                    self.features,
                )
            )
        info = describe(tuned, hyper, self.groups(data), scale, jitter)
        return Fit(posterior, fit_status(posterior.alpha, scale, jitter), info)

    def fits(self, parameters: int) -> str | None:
        """None if it can model so many parameters, else the reason why not."""
        wanted = parameters if self.ard and parameters <= LARGEST_ARD else 1
        if not isinstance(self.lengthscale, tuple) or len(self.lengthscale) == wanted:
            return None
        return (
            f"lengthscale must be one number or {wanted}, one per parameter; "
            f"got {len(self.lengthscale)}. Leave out parameters that are fixed."
        )

    def groups(self, data: Data) -> np.ndarray:
        """Which columns share a lengthscale."""
        wide = int(data.groups.max(initial=0)) >= LARGEST_ARD
        return data.groups if self.ard and not wide else np.zeros_like(data.groups)

    def within_limits(self, hyper: Hyper, data: Data, scale: float) -> Hyper:
        """`hyper` with what the user fixed: that is in units of y, whose scale changes with the data."""
        limits = self._limits(data, scale)
        return Hyper(*(np.clip(*triple) for triple in zip(hyper, *limits, strict=True)))

    def _subset(self, data: Data, rng: Generator) -> Data:
        n = data.n
        if n <= self.tuning_points:
            return data
        order = np.argsort(-data.y[:n], kind="stable")
        best, rest = np.split(order, [self.tuning_points // 2])
        others = rng.choice(rest, self.tuning_points - len(best), replace=False)
        return data.take(np.sort(np.concatenate([best, others])))

    def _limits(self, data: Data, scale: float) -> Limits:
        lower, upper = (Hyper(np.full(data.dim, low), np.float64(v), np.float64(noise))
                        for low, v, noise in (DEFAULT_LOWER, DEFAULT_UPPER))  # fmt: skip
        if self.lengthscale is not None:
            given = np.asarray(self.lengthscale, dtype=np.float64)
            reason = self.fits(int(data.groups.max(initial=0)) + 1)
            if reason is not None:
                raise DataError(reason)
            log = np.zeros(data.dim)
            log[: int(self.groups(data).max(initial=0)) + 1] = np.log(given)
            lower, upper = (h._replace(log_lengthscale=log) for h in (lower, upper))
        if self.variance is not None:
            log_variance = np.log(self.variance / scale**2)
            lower, upper = (h._replace(log_variance=log_variance) for h in (lower, upper))
        if self.noise is not None:
            log_noise = np.log(self.noise / scale**2)
            lower, upper = (h._replace(log_noise=log_noise) for h in (lower, upper))
        return Limits(lower, upper)


def _positive(value: Any) -> bool:
    array = np.asarray(value)
    return array.dtype.kind in "iuf" and array.size > 0 and bool(np.all((array > 0) & np.isfinite(array)))


def standardization(data: Data, wanted: bool = True) -> tuple[float, float]:
    """Mean and scale of the values; constant values (or one) have scale 1."""
    y = data.y[data.mask]
    if not wanted or len(y) == 0:
        return 0.0, 1.0
    with np.errstate(over="ignore"):  # then the scale is infinite and the fit has failed
        spread = float(y.std())
    rounding = 1e-12 * float(np.abs(y).max())  # what it leaves of equal values
    return float(y.mean()), spread if spread > max(rounding, SMALLEST_SCALE) else 1.0


def fit_status(solution: np.ndarray, scale: float, jitter: float) -> Status:
    """How a linear solve went, in units whose square must be a number too."""
    if not np.isfinite(solution).all() or scale > LARGEST_SCALE:
        return Status.FAILED
    return Status.OK if jitter == 0.0 else Status.JITTERED


def describe(tuned: Tuned, hyper: Hyper, groups: np.ndarray, scale: float, jitter: Any) -> dict[str, Any]:
    """What a fit found, in the units of the data."""
    parameters = int(groups.max(initial=-1)) + 1
    return {
        "lengthscale": np.exp(hyper.log_lengthscale[:parameters]).tolist(),
        "variance": float(np.exp(hyper.log_variance) * scale**2),
        "noise": float(np.exp(hyper.log_noise) * scale**2),
        "log_posterior": float(tuned.log_posterior),
        "tuning_evaluations": int(tuned.evaluations),
        "tuning_converged": bool(tuned.converged),
        "jitter": float(jitter + BASE_JITTER * np.exp(hyper.log_variance)) * scale**2,
    }


class GPPosterior(Posterior):
    """The posterior of a Gaussian process, held as L⁻¹ so that predictions are matrix products."""

    kernel: Kernel
    noise: Float[Array, ""]
    x: Float[Array, "capacity D"]
    y: Float[Array, " capacity"]  # standardized; zero in padded rows
    mask: Bool[Array, " capacity"]
    L_inverse: Float[Array, "capacity capacity"]
    alpha: Float[Array, " capacity"]  # (K + nugget·I)⁻¹ y
    nugget: Float[Array, ""]  # what stands on the diagonal: the noise and a little jitter
    shift: Float[Array, ""]
    scale: Float[Array, ""]
    features: int = eqx.field(static=True)  # of a path's prior part

    def _k(self, x: Float[Array, " D"]) -> Float[Array, " capacity"]:
        return self._gram(x[None])[0]

    @public
    def mean(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """μ(x) = shift + scale · k(x)ᵀ(K + noise·I)⁻¹y."""
        if x.ndim == 2:
            return self.shift + self.scale * (self._gram(x) @ self.alpha)
        return self.shift + self.scale * (self._k(x) @ self.alpha)

    @public
    def var(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """σ²(x) = k(x, x) − ‖L⁻¹k(x)‖², of the function, without the observation noise."""
        if x.ndim == 2:
            return jax.vmap(self.var)(x)
        reduction = self.L_inverse @ self._k(x)
        floor = 1e-12 * self.kernel.variance
        return self.scale**2 * jnp.maximum(self.kernel.variance - reduction @ reduction, floor)

    @public
    def joint(self, xs: Float[Array, "m D"]) -> tuple[Float[Array, " m"], Float[Array, "m m"]]:
        """Mean and covariance at several points: k(a, b) − k(a)ᵀ(K + noise·I)⁻¹k(b)."""
        cross = self.L_inverse @ self._gram(xs).T
        covariance = self.kernel.gram(xs, xs) - square(cross)
        return self.mean(xs), self.scale**2 * covariance

    def _gram(self, xs: Array) -> Array:
        return jnp.where(self.mask[None, :], self.kernel.gram(xs, self.x), 0.0)

    def sample(self, *, key: KeyArray) -> "GPPath":
        """A path by Matheron's rule: a prior draw of random features plus its exact update.

            f(x) = φ(x)ᵀw + k(x)ᵀ(K + nugget·I)⁻¹(y − Φw − ε),   w ~ N(0, I), ε ~ N(0, nugget·I)

        Reference: Wilson et al. (2020), "Efficiently sampling functions from Gaussian process
        posteriors", eq. 13.
        """
        rng = generator(key)
        features = draw_features(self.kernel, self.features, rng)
        weights = rng.standard_normal(self.features)
        epsilon = rng.standard_normal(len(self.y)) * np.sqrt(self.nugget)
        with computing():
            return to_numpy(_sample(self, features, weights, epsilon))

    def sample_at(self, xs: Float[np.ndarray, "m D"], count: int = 1, *, key: KeyArray) -> np.ndarray:
        """`count` exact joint draws at the rows of `xs` (at most 5,000), as an array (count, m)."""
        if len(xs) > LARGEST_JOINT_DRAW:
            raise DataError(
                f"a joint draw takes at most {LARGEST_JOINT_DRAW} points; got {len(xs)}. "
                "Use sample(key=...), whose path can be evaluated anywhere."
            )
        with computing(single_thread=len(xs) <= LARGEST_SMALL_MATRIX):
            xs = np.asarray(xs, dtype=np.float64)
            z = generator(key).standard_normal((count, len(xs)))
            return np.asarray(_joint_draws(self, xs, z))

    def condition(self, xs: np.ndarray, ys: np.ndarray | None = None) -> "GPPosterior":
        """One row of L⁻¹ per new point, O(n²) each; without `ys` the mean is taken as observed."""
        xs, values = new_observations(xs, ys)
        if len(xs) == 0:
            return self
        self.check_points(xs)
        with computing():
            posterior, n = self, int(self.mask.sum())
            for i, (x, y) in enumerate(zip(xs, values, strict=True), start=1):
                # one at a time also here: then four points together give the same bits as one by one
                posterior = to_numpy(_append(_grow(posterior, bucket(n + i)), x, y))
            return posterior

    def incumbent(self) -> float:
        """The largest posterior mean at the observed points; the prior mean without any."""
        mask = np.asarray(self.mask)
        if not mask.any():
            return float(self.shift)
        fitted = self.y - self.nugget * self.alpha  # K·alpha, the mean at the observed points
        return float(self.shift + self.scale * np.max(fitted[mask]))

    def information_gain(self) -> float:
        """½ log det(I + K/nugget) = Σ log L_ii − (n/2) log nugget."""
        diagonal = np.diagonal(np.asarray(self.L_inverse))[np.asarray(self.mask)]
        return float(-np.log(diagonal).sum() - 0.5 * len(diagonal) * np.log(self.nugget))

    @property
    def noise_std(self) -> float:
        """The standard deviation of the observation noise."""
        return float(np.sqrt(self.noise) * self.scale)


class GPPath(Path):
    """A path of a Gaussian process posterior: prior features plus k(x)ᵀv."""

    features: Features  # of the prior part, with their weights
    weights: Float[Array, " M"]
    posterior: GPPosterior
    v: Float[Array, " capacity"]

    @public
    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The value at one point or at several."""
        p = self.posterior
        update = p._gram(x) @ self.v if x.ndim == 2 else p._k(x) @ self.v
        return p.shift + p.scale * (self.features(x) @ self.weights + update)


@eqx.filter_jit
def _condition_on(
    kind: type[Kernel],
    hyper: Hyper,
    data: Data,
    groups: Array,
    shift: Array,
    scale: Array,
    features: int,
) -> tuple[GPPosterior, Array]:
    kernel, noise = build(kind, hyper, groups)
    y = jnp.where(data.mask, (data.y - shift) / scale, 0.0)
    L, jitter = cholesky(covariance(kernel, noise, data.x, data.mask))
    L_inverse = inverse_factor(L)
    alpha = L_inverse.T @ (L_inverse @ y)
    nugget = diagonal(kernel, noise) + jitter
    posterior = GPPosterior(
        kernel, noise, jnp.asarray(data.x), y, jnp.asarray(data.mask), L_inverse, alpha,
        nugget, jnp.asarray(shift), jnp.asarray(scale), features,
    )  # fmt: skip
    return posterior, jitter


@eqx.filter_jit
def _sample(p: GPPosterior, features: Features, weights: Array, epsilon: Array) -> GPPath:
    residual = jnp.where(p.mask, p.y - features(p.x) @ weights - epsilon, 0.0)
    return GPPath(features, weights, p, p.L_inverse.T @ (p.L_inverse @ residual))


@eqx.filter_jit
def _joint_draws(posterior: GPPosterior, xs: Array, z: Array) -> Array:
    mean, covariance = posterior.joint(xs)
    unit = jnp.mean(jnp.diagonal(covariance))
    L, _ = cholesky(covariance + 1e-12 * unit * jnp.eye(len(xs)))
    return mean + z @ L.T


def _grow(posterior: GPPosterior, capacity: int) -> GPPosterior:
    """The same posterior with room for more observations."""
    more = capacity - len(posterior.x)
    if more <= 0:
        return posterior
    L_inverse = np.eye(capacity)
    L_inverse[:-more, :-more] = posterior.L_inverse
    return eqx.tree_at(
        lambda p: (p.x, p.y, p.mask, p.L_inverse, p.alpha),
        posterior,
        (
            np.pad(posterior.x, ((0, more), (0, 0))),
            np.pad(posterior.y, (0, more)),
            np.pad(posterior.mask, (0, more)),
            L_inverse,
            np.pad(posterior.alpha, (0, more)),
        ),
    )


@eqx.filter_jit
def _append(posterior: GPPosterior, x: Array, y: Array) -> GPPosterior:
    """One more observation: a new row of L, hence of L⁻¹, in the first free row of the buffers.

    [L 0; lᵀ d]⁻¹ = [L⁻¹ 0; −lᵀL⁻¹/d  1/d],  l = L⁻¹k(x),  d² = k(x, x) + nugget − lᵀl
    """
    p = posterior
    i = p.mask.sum()
    l = p.L_inverse @ p._k(x)  # noqa: E741
    d = jnp.sqrt(jnp.maximum(p.kernel.variance + p.nugget - l @ l, 1e-10 * p.kernel.variance))
    y = jnp.where(jnp.isnan(y), p.mean(x), y)
    row = (-(l @ p.L_inverse) / d).at[i].set(1.0 / d)
    L_inverse = p.L_inverse.at[i].set(row)
    targets = p.y.at[i].set((y - p.shift) / p.scale)
    alpha = L_inverse.T @ (L_inverse @ targets)
    return eqx.tree_at(
        lambda q: (q.x, q.y, q.mask, q.L_inverse, q.alpha),
        p,
        (p.x.at[i].set(x), targets, p.mask.at[i].set(True), L_inverse, alpha),
    )
