"""What a surrogate is: it turns data into a posterior belief about the function."""

import enum
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from augury._errors import DataError, UnsupportedError
from augury._types import Array
from augury.core.data import Data
from augury.core.keys import KeyArray
from augury.core.precision import public


class Capability(enum.StrEnum):
    """What a posterior can do; policies and maximizers say which of these they need."""

    MEAN = "mean"
    VAR = "var"
    JOINT = "joint"
    PATH = "path"
    CONDITION = "condition"
    GRADIENT = "gradient"


class Status(enum.StrEnum):
    """How a fit went; the value is the sentence that the user reads."""

    OK = "The model was fitted."
    JITTERED = "The covariance was singular; the stated jitter was added to its diagonal."
    FAILED = "The model could not be fitted: its covariance, or its networks, are not finite."


class Path(eqx.Module):
    """A drawn function: callable on points of the unit cube, differentiable, a pytree."""

    @property
    def rows_at_once(self) -> int | None:
        """How many points are best taken together, where each needs much memory; None for any number."""
        return None

    @abstractmethod
    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The value at one point (D,) or at the rows of (n, D)."""


@dataclass(frozen=True)
class Draw:
    """A drawn function, and diagnostics that nothing depends on."""

    path: Path
    info: Mapping[str, Any] = field(default_factory=dict)


class Posterior(eqx.Module):
    """A belief about the function, in the units of the data it was fitted to.

    On ordinary arrays the methods return NumPy float64; on tracers they are plain JAX. A point is a
    row (D,) of the unit cube; several are the rows of (n, D). A posterior may lack some methods:
    the surrogate's `capabilities` say which it has.
    """

    x: eqx.AbstractVar[Float[Array, "capacity D"]]  # observed points

    @property
    def rows_at_once(self) -> int | None:
        """How many points are best taken together, where each needs much memory; None for any number."""
        return None

    def check_points(self, rows: np.ndarray) -> None:
        """Refuse what is neither a point nor rows of points."""
        dim = self.x.shape[1]
        if rows.ndim not in (1, 2) or rows.shape[-1] != dim:
            raise DataError(
                f"points must have shape ({dim},) or (n, {dim}); got {rows.shape}. Use Space.encode."
            )

    def new_observations(self, xs: Any, ys: Any | None) -> tuple[np.ndarray, np.ndarray]:
        """Checked arguments of `condition`; a value that is to be the mean is NaN."""
        xs = np.asarray(xs, dtype=np.float64)
        xs = xs.reshape(1, -1) if xs.ndim == 1 and xs.size else xs
        values = np.full(len(xs), np.nan) if ys is None else np.asarray(ys, dtype=np.float64).ravel()
        if len(values) != len(xs):
            raise DataError(
                f"xs and ys must have as many rows; got {len(xs)} and {len(values)}. "
                "Pass one value for each point."
            )
        if ys is not None and not np.isfinite(values).all():
            raise DataError("ys must be finite; got NaN or infinity. Leave such points out.")
        if len(xs):
            self.check_points(xs)
        return xs, values

    @abstractmethod
    def sample(self, *, key: KeyArray, scale: float = 1.0) -> Path:
        """A function drawn from the posterior; μ + scale·(f − μ), so to speak, with another scale."""

    def draws(self, *, keys: Sequence[KeyArray], scale: float = 1.0) -> Iterable[Draw]:
        """One function per key, and how each was made: together where that is cheaper, else in turn."""
        return (Draw(self.sample(key=key, scale=scale)) for key in keys)

    def mean(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """μ(x)."""
        raise self._lacks(Capability.MEAN)

    def var(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """σ²(x), of the function itself, without the observation noise."""
        raise self._lacks(Capability.VAR)

    @public
    def predict(self, x: Float[Array, "*n D"]) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
        """μ(x) and σ²(x) in one compiled call."""
        return self.mean(x), self.var(x)

    def joint(self, xs: Float[Array, "m D"]) -> tuple[Float[Array, " m"], Float[Array, "m m"]]:
        """Mean and covariance of the function at several points together."""
        raise self._lacks(Capability.JOINT)

    def covariance(self, x: Float[Array, " D"], xs: Float[Array, "m D"]) -> Float[Array, " m"]:
        """Of the function at one point with that at several; for compiled code."""
        return self.joint(jnp.concatenate([x[None], xs]))[1][0, 1:]

    def condition(self, xs: np.ndarray, ys: np.ndarray | None = None) -> "Posterior":
        """The posterior after observing `ys` at `xs`, at the same hyper-parameters.

        Without `ys` the mean is taken as observed: the variance shrinks, the mean stays. That is how
        pending points enter. A model without this capability may still take them in by a new fit.
        """
        raise self._lacks(Capability.CONDITION)

    def incumbent(self) -> float:
        """The largest posterior mean at the observed points."""
        raise self._lacks(Capability.MEAN)

    @property
    def observations(self) -> int:
        """How many it was given."""
        raise self._lacks(Capability.MEAN)

    def information_gain(self) -> float:
        """½ log det(I + K/τ) of the observed points: what the data have told about the function."""
        raise self._lacks(Capability.VAR)

    @property
    def noise_std(self) -> float:
        """The standard deviation of the observation noise, in the data's units."""
        raise self._lacks(Capability.VAR)

    def _lacks(self, capability: Capability) -> UnsupportedError:
        return UnsupportedError(
            f"this needs a posterior with {capability}; got {type(self).__name__}, which has none. "
            "Use a Gaussian process."
        )


class StandardizedPosterior(Posterior):
    """A posterior of standardized values; results are multiplied by `scale` and moved by `shift`."""

    mask: eqx.AbstractVar[Bool[Array, " capacity"]]  # which rows of `x` were observed
    noise: eqx.AbstractVar[Float[Array, ""]]  # standardized
    shift: eqx.AbstractVar[Float[Array, ""]]
    scale: eqx.AbstractVar[Float[Array, ""]]

    def incumbent(self) -> float:
        """The largest posterior mean at the observed points; the prior mean without any."""
        mask = np.asarray(self.mask)
        return float(np.max(self.mean(np.asarray(self.x))[mask])) if mask.any() else float(self.shift)

    @property
    def observations(self) -> int:
        """How many rows are no padding."""
        return int(np.asarray(self.mask).sum())

    @property
    def noise_std(self) -> float:
        """The standard deviation of the observation noise."""
        return float(np.sqrt(self.noise) * self.scale)


@dataclass(frozen=True)
class Fit:
    """A fitted posterior, how the fitting went, and diagnostics that nothing depends on.

    A posterior that has no mean, or is about transformed values, may come with a `belief` that has one
    and is about the values themselves, to explain and to recommend by.
    """

    posterior: Posterior
    status: Status
    info: Mapping[str, Any] = field(default_factory=dict)
    belief: Posterior | None = None
    warp: Any = None  # with `inverse`, if the posterior is about transformed values

    def value(self, y: Any) -> Any:
        """What the posterior says of the function, in the units of the data."""
        return y if self.warp is None else self.warp.inverse(y)


@runtime_checkable
class Surrogate(Protocol):
    """Fits a posterior to data in two steps: `tune` is slow and seldom, `fit` is quick and always.

    `tune` finds the hyper-parameters; the optimizer calls it on a schedule that depends on the number
    of observations alone and keeps the result. `fit` with `tuned=None` does both. A surrogate may also
    have `fits(parameters) -> str | None`, the reason why it cannot model so many; `on(shape, *, finite)`,
    itself for inputs of that shape, of which there may be finitely many; and `steady = True` if `fit` is
    to get the same key at every number of observations.
    """

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What its posteriors can do."""

    def tune(self, data: Data, *, key: KeyArray) -> Any:
        """The hyper-parameters for this data: a pytree that `fit` takes as `tuned`."""

    def fit(self, data: Data, *, key: KeyArray, tuned: Any = None) -> Fit:
        """The posterior given all of `data`."""
