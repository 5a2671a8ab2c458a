"""Covariance functions: what any kernel offers, and the stationary ones, with a lengthscale per column.

    k(a, b) = variance · profile(s),   s = Σ_j ((a_j − b_j) / lengthscale_j)²

Profiles are functions of the *squared* distance with their derivative given in closed form, so that
gradients are finite at coincident points. An unordered choice is a group of one-hot columns that share
a lengthscale: two different options are then equally far apart, at s = 2/lengthscale².
"""

import functools
from abc import abstractmethod
from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from numpy.random import Generator

from augury._errors import UnsupportedError
from augury._types import Array
from augury.core.keys import KeyArray, fold, generator
from augury.surrogates.features import FeatureDraw, Features

KernelName = Literal["se", "matern32", "matern52"]


AGREEING = 1e-6  # values that are no further apart are equal: encoding a point anew rounds it
SCALES = (0.05, 0.3)  # of effects that are not white: their bumps' widths
EFFECTS = 1 + len(SCALES)  # kinds of effects: white ones, and those of the scales
WAVES = 64  # that stand for the effects of a kind in a draw, per column

Pair = tuple[Any, Any]  # of arrays of NumPy or JAX, whichever was given


class Kernel(eqx.Module):
    """A covariance function on the unit cube, as a Gaussian process uses it."""

    @abstractmethod
    def unit(self, dim: int) -> Float[Array, ""]:
        """A prior variance that is typical of the cube, of which jitter and floors are small parts."""

    @abstractmethod
    def gram(self, a: Float[Array, "n D"], b: Float[Array, "m D"]) -> Float[Array, "n m"]:
        """The covariance of all pairs."""

    @abstractmethod
    def diagonal(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """k(x, x)."""

    @abstractmethod
    def draw(self, count: int, dim: int, *, key: KeyArray) -> Callable[[Array], Array]:
        """A function of points with `dim` columns drawn from the prior, as a pytree.

        `count` is the number of its random features, or the width of its network.
        """


class Stationary(Kernel):
    """A stationary kernel; `frequencies` draws from its spectral density (Bochner's theorem)."""

    lengthscale: eqx.AbstractVar[Float[Array, " D"]]
    variance: eqx.AbstractVar[Float[Array, ""]]

    def unit(self, dim: int) -> Float[Array, ""]:
        """The variance."""
        return self.variance

    @staticmethod
    @abstractmethod
    def value_and_slope(s: Any, xp: ModuleType = np) -> Pair:
        """profile(s) and its derivative, by the functions of `xp`: NumPy or jax.numpy."""

    @abstractmethod
    def frequencies(self, count: int, rng: Generator) -> Float[np.ndarray, "count D"]:
        """Draws ω with E cos(ωᵀ(a − b)) = profile(s)."""

    def profile(self, s: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """The correlation at squared scaled distance `s`."""
        return _profile(type(self), s)

    def __call__(self, a: Float[Array, " D"], b: Float[Array, " D"]) -> Float[Array, ""]:
        """The covariance of the function values at one pair of points."""
        return self.variance * self.profile(jnp.sum(((a - b) / self.lengthscale) ** 2))

    def gram(self, a: Float[Array, "n D"], b: Float[Array, "m D"]) -> Float[Array, "n m"]:
        """All pairs at once; ‖a‖² + ‖b‖² − 2⟨a, b⟩ makes value and gradient matrix products."""
        a, b = a / self.lengthscale, b / self.lengthscale
        s = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] - 2.0 * a @ b.T
        return self.variance * self.profile(jnp.maximum(s, 0.0))

    def diagonal(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The variance, everywhere."""
        return jnp.broadcast_to(self.variance, x.shape[:-1])

    def features(self, count: int, rng: Generator) -> Features:
        """`count` random features (an even number).

        Drawn with NumPy: JAX's generator, compiled for every shape, would cost seconds at first use.
        """
        amplitude = np.sqrt(2.0 * np.asarray(self.variance) / count)
        return Features(self.frequencies(count // 2, rng), amplitude)

    def draw(self, count: int, dim: int, *, key: KeyArray) -> FeatureDraw:
        """φ(x)ᵀw of random features and standard normal weights."""
        rng = generator(key)
        return FeatureDraw(self.features(count, rng), rng.standard_normal(count))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _profile(kind: type[Stationary], s: Array) -> Array:
    value: Array = kind.value_and_slope(s, jnp)[0]
    return value


@_profile.defjvp
def _profile_jvp(kind: type[Stationary], at: tuple[Array], towards: tuple[Array]) -> Pair:
    value, slope = kind.value_and_slope(*at, jnp)
    return value, slope * towards[0]


class SquaredExponential(Stationary):
    """profile(s) = exp(−s/2): infinitely smooth functions."""

    lengthscale: Float[Array, " D"]
    variance: Float[Array, ""]

    @staticmethod
    def value_and_slope(s: Any, xp: ModuleType = np) -> Pair:
        """exp(−s/2), and its derivative."""
        value = xp.exp(-0.5 * s)
        return value, -0.5 * value

    def frequencies(self, count: int, rng: Generator) -> Float[np.ndarray, "count D"]:
        """ω ~ N(0, diag(lengthscale)⁻²)."""
        return _gaussian(count, self.lengthscale, rng)


class Matern32(Stationary):
    """profile(s) = (1 + r) exp(−r), r = √(3s): once differentiable functions."""

    lengthscale: Float[Array, " D"]
    variance: Float[Array, ""]

    @staticmethod
    def value_and_slope(s: Any, xp: ModuleType = np) -> Pair:
        """(1 + r) exp(−r), r = √(3s), and its derivative."""
        r = xp.sqrt(3.0 * s)
        decay = xp.exp(-r)
        return (1.0 + r) * decay, -1.5 * decay

    def frequencies(self, count: int, rng: Generator) -> Float[np.ndarray, "count D"]:
        """ω ~ Student's t with 3 degrees of freedom."""
        return _student(count, 3, self.lengthscale, rng)


class Matern52(Stationary):
    """profile(s) = (1 + r + r²/3) exp(−r), r = √(5s): twice differentiable functions."""

    lengthscale: Float[Array, " D"]
    variance: Float[Array, ""]

    @staticmethod
    def value_and_slope(s: Any, xp: ModuleType = np) -> Pair:
        """(1 + r + r²/3) exp(−r), r = √(5s), and its derivative."""
        r = xp.sqrt(5.0 * s)
        decay = xp.exp(-r)
        near = (1.0 + r) * decay
        return near + (5.0 / 3.0) * s * decay, (-5.0 / 6.0) * near

    def frequencies(self, count: int, rng: Generator) -> Float[np.ndarray, "count D"]:
        """ω ~ Student's t with 5 degrees of freedom."""
        return _student(count, 5, self.lengthscale, rng)


class Trended(Kernel):
    """A stationary kernel and the covariance of a quadratic function with random coefficients.

        k(a, b) + linear·⟨a', b'⟩ + quadratic·⟨a', b'⟩² + bowl·‖a'‖²‖b'‖²,   a' = 2a − 1

    A function that is nearly quadratic over the whole box is known from few points then, and what it
    differs by is left to the stationary part. The bowl is the curvature that all directions have in
    common, one coefficient among D²/2: with the linear part it is known from D + 2 points.
    """

    around: Stationary
    linear: Float[Array, ""]
    quadratic: Float[Array, ""]
    bowl: Float[Array, ""]

    def unit(self, dim: int) -> Float[Array, ""]:
        """The stationary variance, and the trend's at a point where ‖a'‖² is the mean of the cube's."""
        first, second, third = trend_units(dim)
        trend = first * self.linear + second * self.quadratic + third * self.bowl
        return self.around.variance + trend

    def gram(self, a: Float[Array, "n D"], b: Float[Array, "m D"]) -> Float[Array, "n m"]:
        """The covariance of all pairs."""
        za, zb = 2.0 * a - 1.0, 2.0 * b - 1.0
        products = za @ zb.T
        squares = jnp.sum(za**2, axis=-1)[:, None] * jnp.sum(zb**2, axis=-1)
        trend = products * (self.linear + self.quadratic * products) + self.bowl * squares
        return self.around.gram(a, b) + trend

    def diagonal(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """k(x, x)."""
        square = jnp.sum((2.0 * x - 1.0) ** 2, axis=-1)
        trend = square * (self.linear + (self.quadratic + self.bowl) * square)
        return self.around.diagonal(x) + trend

    def draw(self, count: int, dim: int, *, key: KeyArray) -> "TrendDraw":
        """A stationary draw and a quadratic function whose coefficients are normal."""
        rng = generator(fold(key, 2))
        slope = np.sqrt(np.asarray(self.linear)) * rng.standard_normal(dim)
        curvature = np.sqrt(np.asarray(self.quadratic)) * rng.standard_normal((dim, dim))
        curvature += np.sqrt(np.asarray(self.bowl)) * rng.standard_normal() * np.eye(dim)
        return TrendDraw(self.around.draw(count, dim, key=key), slope, curvature)


class TrendDraw(eqx.Module):
    """x ↦ f(x) + ⟨b, x'⟩ + ⟨x', Ax'⟩, x' = 2x − 1."""

    around: FeatureDraw
    slope: Float[Array, " D"]
    curvature: Float[Array, "D D"]

    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The value at one point or at several."""
        z = 2.0 * x - 1.0
        return self.around(x) + z @ self.slope + jnp.sum((z @ self.curvature) * z, axis=-1)


class WithEffects(Kernel):
    """A kernel and the covariance of Σ_j u_j(x_j): effects of single parameters, white and at two scales.

        k(a, b) + Σ_j share_j · (white·[a_j = b_j] + Σ_s effects_s · bump(|a_j − b_j| / scale_s))

    White effects say nothing of the values beside them. What is finer than the observations lie is noise
    to a smooth kernel, though a function has none; here, points that agree with a good one in most
    parameters share most of what made it good. Effects of the two scales are learnt as functions of one
    column, which takes fewer observations than a function of all. Two options of a choice only differ.

    Reference: Duvenaud, Nickisch & Rasmussen (2011), "Additive Gaussian processes".
    """

    around: Kernel
    effects: Float[Array, " s"]  # the variances: white, then by scale
    single: Float[Array, " D"]  # the share of a column that is a parameter, see `column_shares`
    choice: Float[Array, " D"]  # that of a choice, at each of its columns

    def unit(self, dim: int) -> Float[Array, ""]:
        """That of the kernel, and the variance of all effects together."""
        return self.around.unit(dim) + jnp.sum(self.effects)

    def gram(self, a: Float[Array, "n D"], b: Float[Array, "m D"]) -> Float[Array, "n m"]:
        """The covariance of all pairs."""

        def add(total: Array, column: tuple[Array, Array, Array]) -> tuple[Array, None]:
            of_a, of_b, share = column
            distance = jnp.abs(of_a[:, None] - of_b[None, :])
            parts = jnp.where(distance <= AGREEING, self.effects[0], 0.0)
            for effect, scale in zip(self.effects[1:], SCALES, strict=True):
                parts += effect * bump(distance / scale, jnp)
            return total + share * parts, None

        # one column after another: many times as fast as a sum over the last axis of all differences
        same = (a * self.choice) @ b.T * jnp.sum(self.effects)  # columns of a choice are 0 but for one
        effects, _ = jax.lax.scan(add, same, (a.T, b.T, self.single))
        return self.around.gram(a, b) + effects

    def diagonal(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """k(x, x)."""
        shares = jnp.sum(self.single) + jnp.sum(self.choice * x**2, axis=-1)
        return self.around.diagonal(x) + jnp.sum(self.effects) * shares

    def draw(self, count: int, dim: int, *, key: KeyArray) -> "EffectsDraw":
        """A draw of the kernel, random Fourier features of every column, a number for every option."""
        rng = generator(fold(key, 3))
        shape, effects = (EFFECTS, WAVES, dim), np.asarray(self.effects)
        scales = np.array([AGREEING, *SCALES])[:, None, None]
        frequencies = _bump_frequencies(shape, rng) / scales
        phases = rng.uniform(0.0, 2.0 * np.pi, shape)
        variances = 2.0 / WAVES * effects[:, None, None] * np.asarray(self.single)
        amplitudes = np.sqrt(variances) * rng.standard_normal(shape)
        options = np.sqrt(effects.sum() * np.asarray(self.choice)) * rng.standard_normal(dim)
        around = self.around.draw(count, dim, key=key)
        return EffectsDraw(around, frequencies, phases, amplitudes, options)


class EffectsDraw(eqx.Module):
    """x ↦ f(x) + Σ_jk a_jk cos(ω_jk x_j + b_jk) + Σ_j c_j x_j."""

    around: Callable[[Array], Array]
    frequencies: Float[Array, "s K D"]
    phases: Float[Array, "s K D"]
    amplitudes: Float[Array, "s K D"]
    options: Float[Array, " D"]

    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The value at one point or at several."""
        waves = jnp.cos(x[..., None, None, :] * self.frequencies + self.phases)
        return self.around(x) + jnp.sum(self.amplitudes * waves, axis=(-3, -2, -1)) + x @ self.options


def bump(r: Any, xp: ModuleType = np) -> Any:
    """(1 − r)³(1 + 3r) up to r = 1 and 0 beyond: a covariance of functions of one variable.

    Reference: Wendland (1995), "Piecewise polynomial, positive definite and compactly supported radial
    functions of minimal degree".
    """
    t = xp.maximum(1.0 - r, 0.0)
    return t * t * t * (4.0 - 3.0 * t)


def _bump_frequencies(shape: tuple[int, ...], rng: Generator) -> np.ndarray:
    """Draws ω with E cos(ωr) = bump(r), from the cosine transform, which is nowhere negative."""
    r, omega = np.linspace(0.0, 1.0, 513), np.linspace(0.0, 200.0, 2001)
    density = np.maximum(np.trapezoid(bump(r) * np.cos(omega[:, None] * r), r, axis=1), 0.0)
    cumulated = np.append(0.0, np.cumsum(density[1:] + density[:-1]))
    return np.interp(rng.random(shape), cumulated / cumulated[-1], omega)


def column_shares(
    groups: Int[np.ndarray, " D"],
) -> tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]]:
    """The shares of the columns in effects: one of P for a parameter, and for a choice at each column.

    The first array is of the columns that are parameters, the second of those of choices.
    """
    _, which, counts = np.unique(groups, return_inverse=True, return_counts=True)
    alone, share = (counts == 1)[which], 1.0 / max(len(counts), 1)
    return np.where(alone, share, 0.0), np.where(alone, 0.0, share)


def trend_units(dim: int) -> tuple[float, float, float]:
    """Of the three parts of a trend, their size at a point where ‖x'‖² is the mean of the cube's."""
    return dim / 3.0, dim**2 / 9.0, dim**2 / 9.0


def _gaussian(count: int, lengthscale: Array, rng: Generator) -> np.ndarray:
    return rng.standard_normal((count, len(lengthscale))) / np.asarray(lengthscale)


def _student(count: int, degrees: int, lengthscale: Array, rng: Generator) -> np.ndarray:
    """A Gaussian over √(χ²/degrees), one χ² per row: the spectral density of Matérn-degrees/2."""
    gaussian = _gaussian(count, lengthscale, rng)
    return gaussian / np.sqrt(rng.chisquare(degrees, (count, 1)) / degrees)


KERNELS: dict[str, type[Stationary]] = {
    "se": SquaredExponential,
    "matern32": Matern32,
    "matern52": Matern52,
}


def kernel_class(name: str) -> type[Stationary]:
    """The kernel of that name."""
    if name not in KERNELS:
        raise UnsupportedError(
            f"kernel must be one of {', '.join(KERNELS)}; got {name!r}. Use one of these names."
        )
    return KERNELS[name]
