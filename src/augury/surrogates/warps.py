"""Monotone transformations of the values, for functions whose bad values are far worse than others.

A process expects values that are normal around their mean. Where a few are a thousand times as far from
the best as most, nothing is left of the differences between good ones; after a transformation that
shrinks what is bad, there is. The best value is the largest; T(y) increases with y.

References: Snelson, Rasmussen & Ghahramani (2003), "Warped Gaussian processes"; Yeo & Johnson (2000), "A
new family of power transformations to improve normality or symmetry"; Cowen-Rivers et al. (2022), "HEBO".
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import numpy as np
from jaxtyping import Float

from augury._checks import check_real
from augury._errors import UnsupportedError
from augury._types import Array
from augury.surrogates.base import Path, Posterior
from augury.surrogates.gp_posterior import GPPosterior


class Warped(eqx.Module):
    """A transformation of values, with its location and unit."""

    top: Float[Array, ""]  # the value that it is centred at
    unit: Float[Array, ""]

    def __call__(self, y: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """T(y)."""
        raise NotImplementedError

    def inverse(self, w: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """The y with T(y) = w."""
        raise NotImplementedError

    def slope(self, y: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """T'(y)."""
        raise NotImplementedError


@runtime_checkable
class Warp(Protocol):
    """A kind of transformation, whose location and unit follow from the values."""

    def on(self, y: Float[np.ndarray, " n"]) -> Warped:
        """The transformation for these values."""


@dataclass(frozen=True)
class Log:
    """T(y) = −log((max y − y)/u + offset), u the median of max y − y: the logarithm of what is missing.

    Args:
        offset: the share of a typical distance below which distances are told apart no more.
    """

    offset: float = 0.01

    def __post_init__(self) -> None:
        check_real("offset", self.offset)
        if not 0.0 < self.offset < np.inf:
            raise UnsupportedError(
                f"offset must be positive and finite; got {self.offset}. Use 0.01, for example."
            )

    def on(self, y: Float[np.ndarray, " n"]) -> "LogWarped":
        """With the largest of the values and their median distance from it."""
        top = float(np.max(y)) if len(y) else 0.0
        return LogWarped(np.asarray(top), _unit(top - y), np.asarray(self.offset))


class LogWarped(Warped):
    """−log((top − y)/unit + offset)."""

    top: Float[Array, ""]
    unit: Float[Array, ""]
    offset: Float[Array, ""]

    def __call__(self, y: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """T(y)."""
        return -np.log((self.top - y) / self.unit + self.offset)

    def inverse(self, w: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """top − unit·(exp(−w) − offset): never more than `offset` units above the largest value."""
        return self.top - self.unit * (np.exp(-w) - self.offset)

    def slope(self, y: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """1/(top − y + offset·unit)."""
        return 1.0 / (self.top - y + self.offset * self.unit)


@dataclass(frozen=True)
class YeoJohnson:
    """Yeo and Johnson's transformation with λ = 0, of distances from the median in quartiles.

    What is worse than the median is shrunk as by a logarithm, what is better is stretched as by a square.
    """

    def on(self, y: Float[np.ndarray, " n"]) -> "YeoJohnsonWarped":
        """With the median of the values and the distance of their quartiles."""
        low, middle, high = np.quantile(y, (0.25, 0.5, 0.75)) if len(y) else np.zeros(3)
        spread = high - low if high > low else np.std(y) if len(y) else 0.0
        return YeoJohnsonWarped(np.asarray(middle), _unit(np.array([spread / QUARTILES])))


class YeoJohnsonWarped(Warped):
    """With v = (median − y)/unit: −log(1 + v) where v ≥ 0, and ((1 − v)² − 1)/2 where it is not."""

    top: Float[Array, ""]
    unit: Float[Array, ""]

    def __call__(self, y: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """T(y)."""
        v = (self.top - y) / self.unit
        worse, better = np.maximum(v, 0.0), np.minimum(v, 0.0)
        return -np.log1p(worse) + 0.5 * ((1.0 - better) ** 2 - 1.0)

    def inverse(self, w: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """The value of which w is the transformed one."""
        worse, better = np.minimum(w, 0.0), np.maximum(w, 0.0)
        return self.top - self.unit * (np.expm1(-worse) + 1.0 - np.sqrt(1.0 + 2.0 * better))

    def slope(self, y: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """1/(1 + v) or 1 − v, per unit."""
        v = (self.top - y) / self.unit
        return np.where(v > 0.0, 1.0 / (1.0 + np.maximum(v, 0.0)), 1.0 - np.minimum(v, 0.0)) / self.unit


QUARTILES = 1.349  # between those of a normal distribution, in deviations


def _unit(distances: Float[np.ndarray, " n"]) -> np.ndarray:
    """The median of distances, or their mean; 1 where there are none."""
    for typical in (np.median, np.mean) if len(distances) else ():
        value = typical(distances)
        if np.isfinite(value) and value > np.finfo(float).tiny:
            return np.asarray(value)
    return np.ones(())


class Unwarped(Posterior):
    """The belief of a process of transformed values, about the values themselves.

    The mean is the median, T⁻¹(μ); standard deviations are those for small ones, σ/T'. To be read, not
    to be compiled: all transformations share the programs of the process.
    """

    x: Float[Array, "capacity D"]  # observed points
    inner: GPPosterior
    warp: Warped

    def sample(self, *, key: Any, scale: float = 1.0) -> "UnwarpedPath":
        """A drawn function of the values themselves."""
        return UnwarpedPath(self.inner.sample(key=key, scale=scale), self.warp)

    def mean(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """T⁻¹(μ(x))."""
        return self.warp.inverse(np.asarray(self.inner.mean(x)))

    def var(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """σ²(x)/T'²."""
        return self.predict(x)[1]

    def predict(self, x: Float[Array, "*n D"]) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
        """Both."""
        mean, var = self.inner.predict(x)
        value = self.warp.inverse(np.asarray(mean))
        return value, var / self.warp.slope(value) ** 2

    def incumbent(self) -> float:
        """The largest mean at the observed points."""
        return float(self.warp.inverse(np.asarray(self.inner.incumbent())))

    @property
    def observations(self) -> int:
        """How many it was given."""
        return self.inner.observations

    def information_gain(self) -> float:
        """That of the process."""
        return self.inner.information_gain()

    @property
    def noise_std(self) -> float:
        """The deviation of the noise where the mean is largest."""
        return self.inner.noise_std / float(self.warp.slope(np.asarray(self.incumbent())))

    def leave_one_out(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean and standard deviation of each observation given all the others."""
        mean, std = self.inner.leave_one_out()
        value = self.warp.inverse(mean)
        return value, std / self.warp.slope(value)


class UnwarpedPath(Path):
    """A drawn function in the units of the values."""

    path: Path
    warp: Warped

    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """T⁻¹ of the value at one point or at several."""
        return self.warp.inverse(np.asarray(self.path(x)))
