"""The exact Gaussian process."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from augury._checks import check_count, check_flags, need_count
from augury._errors import DataError, UnsupportedError
from augury._types import Array
from augury.core.data import Data
from augury.core.keys import KeyArray, generator
from augury.core.precision import computing, jit, to_numpy
from augury.surrogates.base import Capability, Fit, Status
from augury.surrogates.gp_posterior import LARGEST_SMALL_MATRIX, GPPosterior, condition_on
from augury.surrogates.hyperfit import (
    DEFAULT_LOWER,
    DEFAULT_UPPER,
    FAINT,
    TREND_DEGREES,
    USUAL,
    Hyper,
    Limits,
    Noise,
    Tuned,
    build,
    tune,
)
from augury.surrogates.kernels import EFFECTS, SCALES, KernelName, Stationary, column_shares, kernel_class
from augury.surrogates.warps import Unwarped, Warp, Warped

LARGEST_ARD = 256  # lengthscales that are learnt
SMALLEST_SCALE, LARGEST_SCALE = 1e-150, 1e150  # of values: variances are their squares


@dataclass(frozen=True)
class GaussianProcess:
    """A Gaussian process with a stationary kernel, exact in every quantity.

        f ~ GP(m, k),  y = f(x) + N(0, noise);   μ(x) = m + k(x)ᵀ(K + noise·I)⁻¹(y − m)

    Outputs are standardized before the fit (and back after it), inputs lie in the unit cube. What is
    added to the diagonal for the sake of the factorization, at least 1e-8 times the variance (1e-10 with
    `faint`), is in `Fit.info["jitter"]`, in squared units of y as the noise beside it.

    Args:
        kernel: "matern52" (default), "matern32" or "se".
        lengthscale: fixed lengthscale(s) in the unit cube, a number or one per parameter; None
            learns them.
        variance: fixed prior variance in squared units of y; None learns it.
        noise: fixed noise variance in squared units of y; None learns it.
        ard: one lengthscale per parameter; False shares one among all, and so do more than 256
            parameters, whose lengthscales could not be told apart.
        relative: whether `variance` and `noise` are multiples of the values' variance, not of their
            squared unit.
        standardize: whether y is standardized; False takes a prior mean of zero.
        warp: transforms the values first, so that the process is about T(y): :class:`Log` or
            :class:`YeoJohnson`. `variance` and `noise` must be learnt then, or `relative`.
        trend: whether the function is one of the kernel's plus a quadratic one, whose three variances are
            learnt (:class:`Trended`): what is nearly quadratic over the whole box is then known from few
            points.
        effects: whether the function also has effects of single parameters, smooth ones and one of every
            single value, whose variances are learnt (:class:`WithEffects`): then what a point has of a
            rough function is expected of points that agree with it in most parameters, too.
        faint: whether values may be without noise: it is then expected to be less, and may be as little
            as 1e-10 of the values' variance instead of 1e-6, as may what the factorization adds.
        as_trended: whether a process without a trend is computed as one with a trend of zero: slower,
            but both kinds then share their compiled programs.
        features: random features of a drawn path's prior part.
        tuning_points: hyper-parameters are learnt from at most so many observations (the best half
            of them by value, the rest at random), which bounds the cost of large data.
        points: the posterior is made of at most so many observations, chosen in the same way; None
            takes all, whose cost grows with the cube of their number.

    Reference: Rasmussen & Williams (2006), "Gaussian processes for machine learning", algorithm 2.1.
    """

    kernel: KernelName = "matern52"
    lengthscale: float | tuple[float, ...] | None = None
    variance: float | None = None
    noise: float | None = None
    ard: bool = True
    relative: bool = False
    standardize: bool = True
    trend: bool = False
    effects: bool = False
    faint: bool = False
    as_trended: bool = False
    warp: Warp | None = None
    features: int = 1024
    tuning_points: int = 512
    points: int | None = None

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
        check_flags(ard=self.ard, relative=self.relative, standardize=self.standardize, trend=self.trend)
        check_flags(effects=self.effects, faint=self.faint, as_trended=self.as_trended)
        if self.warp is not None:
            self._check_warp()
        if not isinstance(self.features, int) or self.features < 2 or self.features % 2:
            raise UnsupportedError(
                f"features must be an even number of at least 2; got {self.features!r}. "
                "They come in pairs of a cosine and a sine."
            )
        need_count("tuning_points", self.tuning_points)
        check_count("points", self.points)

    def _check_warp(self) -> None:
        if not isinstance(self.warp, Warp):
            raise UnsupportedError(
                f"warp must be a Log, a YeoJohnson or None; got {self.warp!r}. Use Log()."
            )
        if not self.relative and not self.variance is self.noise is None:
            raise UnsupportedError(
                "variance and noise of a process with a warp must be learnt, or relative: transformed "
                "values have another unit. Leave them out, or add relative=True."
            )

    def tune(self, data: Data, *, key: KeyArray) -> Tuned:
        """The hyper-parameters of largest posterior density (MAP), from several starts."""
        warp, data = self._warped(data)
        shift, scale = standardization(data, self.standardize)  # of all data, as in `fit`
        data = subset(data, self.tuning_points, key)
        n = data.n
        with computing(single_thread=n <= LARGEST_SMALL_MATRIX):
            tuned = tune(
                kernel_class(self.kernel),
                data.x[:n],
                (data.y[:n] - shift) / scale,
                self.groups(data),
                int(data.groups.max(initial=0)) + 1,
                self._limits(data, scale),
                self._noise,
                column_shares(data.groups),
            )
        slopes = np.zeros(n) if warp is None else np.log(warp.slope(warp.inverse(data.y[:n])))
        return tuned._replace(left_out=tuned.left_out - n * np.log(scale) + slopes.sum())

    def fit(self, data: Data, *, key: KeyArray, tuned: Tuned | None = None) -> Fit:
        """The posterior given all of `data`, with `tuned` hyper-parameters or new ones."""
        if tuned is None:
            tuned = self.tune(data, key=key)
        warp, data = self._warped(data)
        shift, scale = standardization(data, self.standardize)
        hyper = self.within_limits(tuned.hyper, data, scale)
        if self.points is not None:
            data = subset(data, self.points, key)
        computed = hyper
        if self.as_trended and not self.trend:
            computed = hyper._replace(log_trend=np.full(len(TREND_DEGREES), -np.inf))
        with computing(single_thread=len(data.x) <= LARGEST_SMALL_MATRIX):
            posterior, jitter = to_numpy(
                _condition_on(
                    kernel_class(self.kernel),
                    computed,
                    data,
                    self.groups(data),
                    column_shares(data.groups),
                    np.asarray(shift),  # arrays, since a Python float would compile anew per value
                    np.asarray(scale),
                    self.features,
                    np.asarray(self._noise.jitter),
                )
            )
        info = describe(tuned, hyper, self.groups(data), scale, posterior.nugget - posterior.noise)
        status = fit_status(posterior.alpha, scale, jitter)
        if warp is None:
            return Fit(posterior, status, info)
        info["warp"] = repr(self.warp)  # of whose values the variances are
        return Fit(posterior, status, info, Unwarped(posterior.x, posterior, warp), warp)

    def _warped(self, data: Data) -> tuple[Warped | None, Data]:
        """The transformation, and the data whose values are transformed."""
        if self.warp is None:
            return None, data
        y = data.y[: data.n]
        warp = self.warp.on(y)
        return warp, Data.of(data.x[: data.n], warp(y), data.groups)

    @property
    def _noise(self) -> Noise:
        return FAINT if self.faint else USUAL

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

    def _limits(self, data: Data, scale: float) -> Limits:
        lower, upper = (
            Hyper(
                np.full(data.dim, low),
                np.float64(v),
                np.float64(noise),
                np.full(len(TREND_DEGREES) * self.trend, part),
                np.full(EFFECTS * self.effects, part),
            )
            for low, v, noise, part in (DEFAULT_LOWER, DEFAULT_UPPER)
        )
        if self.lengthscale is not None:
            given = np.asarray(self.lengthscale, dtype=np.float64)
            reason = self.fits(int(data.groups.max(initial=0)) + 1)
            if reason is not None:
                raise DataError(reason)
            log = np.zeros(data.dim)
            log[: int(self.groups(data).max(initial=0)) + 1] = np.log(given)
            lower, upper = (h._replace(log_lengthscale=log) for h in (lower, upper))
        lower = lower._replace(log_noise=np.log(self._noise.smallest))
        unit = 1.0 if self.relative else scale**2
        if self.variance is not None:
            log_variance = np.log(self.variance / unit)
            lower, upper = (h._replace(log_variance=log_variance) for h in (lower, upper))
        if self.noise is not None:
            log_noise = np.log(self.noise / unit)
            lower, upper = (h._replace(log_noise=log_noise) for h in (lower, upper))
        return Limits(lower, upper)


def subset(data: Data, most: int, key: KeyArray) -> Data:
    """At most so many of the observations, in their order: the best half by value, the rest at random."""
    n = data.n
    if n <= most:
        return data
    order = np.argsort(-data.y[:n], kind="stable")
    best, rest = np.split(order, [most // 2])
    others = generator(key).choice(rest, most - len(best), replace=False)
    return data.take(np.sort(np.concatenate([best, others])))


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


def without_repeats(
    x: Float[np.ndarray, "n D"], y: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "m D"], Float[np.ndarray, " m"]]:
    """Every row once, with the mean of its values: what a model without noise can tell of them.

    The marginal likelihood of different values at one point is 0 without noise; with the jitter that
    grows with the variance, it is largest at the largest variance.
    """
    _, first, which = np.unique(x, axis=0, return_index=True, return_inverse=True)
    which = which.ravel()
    means = np.bincount(which, y, minlength=len(first)) / np.bincount(which, minlength=len(first))
    order = np.argsort(first)
    return x[first[order]], means[order]


def fit_status(solution: np.ndarray, scale: float, jitter: float) -> Status:
    """How a linear solve went, in units whose square must be a number too."""
    if not np.isfinite(solution).all() or scale > LARGEST_SCALE:
        return Status.FAILED
    return Status.OK if jitter == 0.0 else Status.JITTERED


def describe(tuned: Tuned, hyper: Hyper, groups: np.ndarray, scale: float, jitter: Any) -> dict[str, Any]:
    """What a fit found, in the units of the data."""
    parameters = int(groups.max(initial=-1)) + 1
    trend, effects = ((np.exp(log) * scale**2).tolist() for log in (hyper.log_trend, hyper.log_effects))
    return {
        "lengthscale": np.exp(hyper.log_lengthscale[:parameters]).tolist(),
        "variance": float(np.exp(hyper.log_variance) * scale**2),
        "noise": float(np.exp(hyper.log_noise) * scale**2),
        **({"effects": dict(zip(("white", *map(str, SCALES)), effects, strict=True))} if effects else {}),
        **({"trend": dict(zip(("linear", "quadratic", "bowl"), trend, strict=True))} if trend else {}),
        "log_posterior": float(tuned.log_posterior),
        "tuning_evaluations": int(tuned.evaluations),
        "tuning_converged": bool(tuned.converged),
        "jitter": float(jitter) * scale**2,
    }


@jit
def _condition_on(
    kind: type[Stationary],
    hyper: Hyper,
    data: Data,
    groups: Array,
    shares: tuple[Array, Array],
    shift: Array,
    scale: Array,
    features: int,
    jitter: Array,
) -> tuple[GPPosterior, Array]:
    kernel, noise = build(kind, hyper, groups, shares)
    return condition_on(kernel, noise, data, shift, scale, features, jitter)
