"""The posterior of a Gaussian process, whatever its kernel."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from augury._errors import DataError
from augury._types import Array
from augury.core.data import Data, bucket
from augury.core.keys import KeyArray, fold, generator
from augury.core.linalg import cholesky, inverse_factor, square
from augury.core.precision import computing, jit, public, to_numpy
from augury.surrogates.base import Path, StandardizedPosterior
from augury.surrogates.kernels import Kernel
from augury.surrogates.likelihood import BASE_JITTER

LARGEST_JOINT_DRAW = 5000
LARGEST_SMALL_MATRIX = 1024  # above it, BLAS threads help


class GPPosterior(StandardizedPosterior):
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
        floor = 1e-12 * self.kernel.unit(x.shape[-1])
        return self.scale**2 * jnp.maximum(self.kernel.diagonal(x) - reduction @ reduction, floor)

    @public
    def joint(self, xs: Float[Array, "m D"]) -> tuple[Float[Array, " m"], Float[Array, "m m"]]:
        """Mean and covariance at several points: k(a, b) − k(a)ᵀ(K + noise·I)⁻¹k(b)."""
        cross = self.L_inverse @ self._gram(xs).T
        covariance = self.kernel.gram(xs, xs) - square(cross)
        return self.mean(xs), self.scale**2 * covariance

    def covariance(self, x: Float[Array, " D"], xs: Float[Array, "m D"]) -> Float[Array, " m"]:
        """k(x, b) − k(x)ᵀ(K + noise·I)⁻¹k(b) for every row b."""
        cross = self.L_inverse @ self._gram(xs).T  # the same for every x
        return self.scale**2 * (self.kernel.gram(x[None], xs)[0] - (self.L_inverse @ self._k(x)) @ cross)

    def _gram(self, xs: Array) -> Array:
        return jnp.where(self.mask[None, :], self.kernel.gram(xs, self.x), 0.0)

    def sample(self, *, key: KeyArray, scale: float = 1.0) -> "GPPath":
        """A path by Matheron's rule: a prior draw plus its exact update.

            f(x) = f₀(x) + k(x)ᵀ(K + nugget·I)⁻¹(y − f₀(X) − ε),   f₀ ~ GP(0, k), ε ~ N(0, nugget·I)

        With a `scale` s, the prior draw and its update are multiplied by s, the mean is not.

        Reference: Wilson et al. (2020), "Efficiently sampling functions from Gaussian process
        posteriors", eq. 13.
        """
        prior = self.kernel.draw(self.features, self.x.shape[1], key=key)
        epsilon = generator(fold(key, 1)).standard_normal(len(self.y)) * np.sqrt(self.nugget)
        with computing():
            return to_numpy(_sample(self, prior, epsilon, np.asarray(scale)))

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
        xs, values = self.new_observations(xs, ys)
        if len(xs) == 0:
            return self
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

    def leave_one_out(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean and standard deviation of each observation, noise and all, given all the others.

            μ_{−i} = y_i − α_i / [(K + nugget·I)⁻¹]_ii,   σ²_{−i} = 1 / [(K + nugget·I)⁻¹]_ii

        Hyper-parameters and standardization stay those of all observations.

        Reference: Rasmussen & Williams (2006), eq. 5.12.
        """
        mask = np.asarray(self.mask)
        precision = (np.asarray(self.L_inverse)[mask][:, mask] ** 2).sum(axis=0)
        mean = np.asarray(self.y)[mask] - np.asarray(self.alpha)[mask] / precision
        return np.asarray(self.shift + self.scale * mean), np.asarray(self.scale / np.sqrt(precision))

    def information_gain(self) -> float:
        """½ log det(I + K/nugget) = Σ log L_ii − (n/2) log nugget."""
        diagonal = np.diagonal(np.asarray(self.L_inverse))[np.asarray(self.mask)]
        return float(-np.log(diagonal).sum() - 0.5 * len(diagonal) * np.log(self.nugget))


class GPPath(Path):
    """A path of a Gaussian process posterior: a prior draw plus k(x)ᵀv."""

    prior: Callable[[Array], Array]
    scale: Float[Array, ""]  # of the prior draw
    posterior: GPPosterior
    v: Float[Array, " capacity"]

    @public
    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The value at one point or at several."""
        p = self.posterior
        update = p._gram(x) @ self.v if x.ndim == 2 else p._k(x) @ self.v
        return p.shift + p.scale * (self.scale * self.prior(x) + update)


@jit
def condition_on(
    kernel: Kernel,
    noise: Array,
    data: Data,
    shift: Array,
    scale: Array,
    features: int,
    jitter: float | Array = BASE_JITTER,
) -> tuple[GPPosterior, Array]:
    """The posterior given all of `data`, and what the factorization needed beyond the jitter."""
    y = jnp.where(data.mask, (data.y - shift) / scale, 0.0)
    L, more = cholesky(covariance(kernel, noise, data.x, data.mask, jitter))
    L_inverse = inverse_factor(L)
    alpha = L_inverse.T @ (L_inverse @ y)
    posterior = GPPosterior(
        kernel, noise, jnp.asarray(data.x), y, jnp.asarray(data.mask), L_inverse, alpha,
        nugget(kernel, noise, data.dim, jitter) + more, jnp.asarray(shift), jnp.asarray(scale), features,
    )  # fmt: skip
    return posterior, more


def covariance(
    kernel: Kernel,
    noise: Array,
    x: Float[Array, "n D"],
    mask: Bool[Array, " n"],
    jitter: float | Array = BASE_JITTER,
) -> Float[Array, "n n"]:
    """K + nugget·I among the observations; padded rows are rows of the identity."""
    K = jnp.where(mask[:, None] & mask[None, :], kernel.gram(x, x), 0.0)
    return K + jnp.diag(jnp.where(mask, nugget(kernel, noise, x.shape[1], jitter), 1.0))


def nugget(kernel: Kernel, noise: Array, dim: int, jitter: float | Array = BASE_JITTER) -> Array:
    """What is added to the diagonal of K: the noise, and a jitter too small to matter."""
    return noise + jitter * kernel.unit(dim)


@jit
def _sample(p: GPPosterior, prior: Callable[[Array], Array], epsilon: Array, scale: Array) -> GPPath:
    residual = jnp.where(p.mask, p.y - scale * (prior(p.x) + epsilon), 0.0)
    return GPPath(prior, scale, p, p.L_inverse.T @ (p.L_inverse @ residual))


@jit
def _joint_draws(posterior: GPPosterior, xs: Array, z: Array) -> Array:
    mean, L = joint_factor(posterior, xs)
    return mean + z @ L.T


def joint_factor(posterior: GPPosterior, xs: Array) -> tuple[Array, Array]:
    """The joint mean and a factor of the covariance, from which draws are made."""
    mean, covariance = posterior.joint(xs)
    unit = jnp.mean(jnp.diagonal(covariance))
    return mean, cholesky(covariance + 1e-12 * unit * jnp.eye(len(xs)))[0]


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


@jit
def _append(posterior: GPPosterior, x: Array, y: Array) -> GPPosterior:
    """One more observation: a new row of L, hence of L⁻¹, in the first free row of the buffers.

    [L 0; lᵀ d]⁻¹ = [L⁻¹ 0; −lᵀL⁻¹/d  1/d],  l = L⁻¹k(x),  d² = k(x, x) + nugget − lᵀl
    """
    p = posterior
    i = p.mask.sum()
    l = p.L_inverse @ p._k(x)  # noqa: E741
    d = jnp.sqrt(jnp.maximum(p.kernel.diagonal(x) + p.nugget - l @ l, 1e-10 * p.kernel.unit(len(x))))
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
