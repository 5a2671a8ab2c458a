"""Hyper-parameters of a stationary Gaussian process by maximum a posteriori, from several starts.

All outputs are standardized and all inputs lie in the unit cube, so one set of priors serves every
problem. Each logarithm has a normal prior:

    log lengthscale ~ N(√2 − 3 + ½ log P, 3)      P = number of parameters
    log variance    ~ N(0, 1)
    log noise       ~ N(−8, 4), or N(−12, 16) where values may have none (`FAINT`)
    log linear      ~ N(−log P, 9),   log quadratic and log bowl ~ N(−2 log P, 9),   of a trend
    log effects     ~ N(−4, 4), of each kind

The lengthscale's is the dimension-scaled prior of Hvarfner, Hellsten & Nardi (2024), "Vanilla Bayesian
optimization performs great in high dimensions" (their log-normal's mode, as a normal in the
logarithm): distances in the unit cube grow with √P, and so must lengthscales.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from augury._types import Array
from augury.surrogates.kernels import Kernel, Stationary, Trended, WithEffects
from augury.surrogates.likelihood import BASE_JITTER, Likelihood, Shares
from augury.surrogates.search import Search

# Starts, in prior deviations from its mean: (lengthscales, variance), and the noise of the two kinds.
# Longer lengthscales go with a larger variance: the likelihood has a ridge in that direction.
STARTS = np.array([[0.0, 0.0], [-0.6, 0.0], [0.6, 1.5]])
NOISE = np.array([0.0, 3.0])
SINGLE_INPUTS = 2  # starts at which one input alone matters
SHORT, LONG = -1.0, 1.5  # the lengthscale of that input, and of the others
FAR = 10.0  # a kind whose best start has a log density so much lower is dropped
FIRST_EVALUATIONS = 6  # of the likelihood, from the best start of each kind
MAX_EVALUATIONS = 60  # in all, from the better of the two


EFFECTS_MEAN, EFFECTS_DEVIATION = -4.0, 2.0
TREND_DEGREES = (1.0, 2.0, 2.0)  # in which the parts of a trend, linear, quadratic and bowl, grow with P


class Hyper(NamedTuple):
    """Logarithms of the hyper-parameters in standardized units; lengthscales by group."""

    log_lengthscale: Float[Array, " D"]
    log_variance: Float[Array, ""]
    log_noise: Float[Array, ""]
    log_trend: Float[Array, " t"] = np.zeros(0)  # linear, quadratic and bowl; nothing without a trend
    log_effects: Float[Array, " e"] = np.zeros(0)  # white, and by scale; nothing without effects


class Limits(NamedTuple):
    """Bounds on :class:`Hyper`; a hyper-parameter fixed by the user has equal bounds."""

    lower: Hyper
    upper: Hyper


class Noise(NamedTuple):
    """What is expected of the noise variance, in standardized units."""

    mean: float  # of its logarithm
    deviation: float
    smallest: float
    jitter: float  # times the prior variance, added to it for the sake of the factorization


USUAL, FAINT = Noise(-8.0, 2.0, 1e-6, BASE_JITTER), Noise(-12.0, 4.0, 1e-10, 1e-10)

# of lengthscales, variance, noise, and the three of a trend and that of effects
DEFAULT_LOWER = (np.log(5e-3), np.log(1e-3), np.log(USUAL.smallest), np.log(1e-8))
DEFAULT_UPPER = (np.log(1e3), np.log(1e3), np.log(1.0), np.log(1e3))


class Tuned(NamedTuple):
    """The hyper-parameters found, and how the search went."""

    hyper: Hyper
    log_posterior: float
    evaluations: int
    converged: bool
    left_out: float = 0.0  # log density of each value given all others, summed: to compare models by


def build(
    kind: type[Stationary],
    hyper: Hyper,
    groups: Int[Array, " D"],
    shares: tuple[Array, Array] | None = None,
) -> tuple[Kernel, Array]:
    """The kernel and the noise variance that `hyper` describes; `shares` are those of effects."""
    around = kind(jnp.exp(hyper.log_lengthscale)[groups], jnp.exp(hyper.log_variance))
    trend = jnp.exp(hyper.log_trend)
    kernel: Kernel = Trended(around, *trend) if len(trend) else around
    if len(hyper.log_effects):
        assert shares is not None
        kernel = WithEffects(kernel, jnp.exp(hyper.log_effects), *map(jnp.asarray, shares))
    return kernel, jnp.exp(hyper.log_noise)


def starts(lengthscales: int, parts: int = 0) -> Float[np.ndarray, "kinds candidates p"]:
    """Starting points in units of the prior, of two kinds.

    A density often has one mode that explains the data by the function and one that explains them
    by noise (Rasmussen & Williams, section 5.4.1): the second kind starts with large noise. Of each
    kind the candidates move all lengthscales together.
    """
    z = np.zeros((len(NOISE), len(STARTS), lengthscales + parts + 2))
    z[:, :, :lengthscales] = STARTS[:, :1]
    z[:, :, -2] = STARTS[:, 1]
    z[:, :, -1] = NOISE[:, None]
    return z


def single_inputs(
    x: Float[np.ndarray, "n D"], y: Float[np.ndarray, " n"], groups: Int[np.ndarray, " D"], parts: int = 0
) -> Float[np.ndarray, "candidates p"]:
    """Starts of a third kind: one input has a short lengthscale, and the others matter little.

    Where values oscillate along one input of many, a descent from equal lengthscales takes them for
    noise. The inputs tried are those along which neighbours differ least (von Neumann's ratio).
    """
    _, columns = np.unique(groups, return_index=True)
    orders = (np.argsort(x[:, column], kind="stable") for column in columns)
    roughness = [float((np.diff(y[order]) ** 2).sum()) for order in orders]
    chosen = np.argsort(roughness, kind="stable")[:SINGLE_INPUTS]
    z = np.zeros((len(chosen), len(columns) + parts + 2))
    z[:, : len(columns)] = LONG
    z[np.arange(len(chosen)), chosen] = SHORT
    return z


def mostly_trend(lengthscales: int, parts: int = len(TREND_DEGREES)) -> Float[np.ndarray, "1 p"]:
    """A start of a fourth kind: the trend explains the values, and the stationary part what is left."""
    z = np.zeros((1, lengthscales + parts + 2))
    z[0, lengthscales : lengthscales + len(TREND_DEGREES)] = 1.0
    z[0, -2] = -2.0
    return z


class Density:
    """The posterior density of the hyper-parameters, at z = (θ − prior mean) / prior deviation."""

    def __init__(
        self, likelihood: Likelihood, parameters: int, limits: Limits, noise: Noise = USUAL
    ) -> None:
        self.likelihood = likelihood
        self.evaluations = 0
        n, trend = likelihood.lengthscales, len(limits.lower.log_trend)
        effects = len(limits.lower.log_effects)
        self.mean = np.zeros(n + trend + effects + 2)
        self.mean[:n] = np.sqrt(2.0) - 3.0 + 0.5 * np.log(parameters)
        self.mean[n : n + trend] = -np.log(parameters) * np.array(TREND_DEGREES)[:trend]
        self.mean[n + trend : -2] = EFFECTS_MEAN
        self.mean[-1] = noise.mean
        self.deviation = np.ones_like(self.mean)
        self.deviation[:n] = np.sqrt(3.0)
        self.deviation[n : n + trend] = 3.0
        self.deviation[n + trend : -2] = EFFECTS_DEVIATION
        self.deviation[-1] = noise.deviation
        self.lower, self.upper = (
            np.concatenate(
                [at.log_lengthscale[:n], at.log_trend, at.log_effects, [at.log_variance, at.log_noise]]
            )
            for at in limits
        )
        self.lower, self.upper = ((at - self.mean) / self.deviation for at in (self.lower, self.upper))

    def theta(self, z: np.ndarray) -> np.ndarray:
        """The hyper-parameters themselves."""
        theta: np.ndarray = self.mean + self.deviation * z
        return theta

    def loss(self, z: np.ndarray) -> float:
        """The negative logarithm of the density, up to a constant; infinite where it has none."""
        self.evaluations += 1
        with np.errstate(over="ignore"):
            value = self.likelihood.value(self.theta(z)) + 0.5 * float(z @ z)
        return value if np.isfinite(value) else np.inf

    def loss_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """The same with its gradient."""
        self.evaluations += 1
        with np.errstate(over="ignore", invalid="ignore"):
            value, gradient = self.likelihood.value_and_gradient(self.theta(z))
            value, gradient = value + 0.5 * float(z @ z), gradient * self.deviation + z
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return np.inf, z
        return value, gradient


def tune(
    kind: type[Stationary],
    x: Float[np.ndarray, "n D"],
    y: Float[np.ndarray, " n"],
    groups: Int[np.ndarray, " D"],
    parameters: int,
    limits: Limits,
    noise: Noise = USUAL,
    shares: Shares | None = None,
) -> Tuned:
    """The hyper-parameters of largest posterior density for standardized `y`.

    `groups` tells which columns share a lengthscale, `parameters` is the prior's P (also where all
    columns share one), `shares` are those of the columns in effects.
    """
    trend, effects = len(limits.lower.log_trend), len(limits.lower.log_effects)
    likelihood = Likelihood(
        kind, x, y, groups, trend=trend > 0, effects=shares if effects else None, jitter=noise.jitter
    )
    density = Density(likelihood, parameters, limits, noise)
    n = density.likelihood.lengthscales
    z, loss, converged = np.clip(0.0, density.lower, density.upper), 0.0, True
    if len(x) > 0 and (density.lower < density.upper).any():  # else nothing to learn
        kinds = [*starts(n, trend + effects), single_inputs(x, y, groups, trend + effects)]
        if trend:
            kinds.append(mostly_trend(n, trend + effects))
        end = _best_of(density, kinds)
        z, loss, converged = end.z, end.loss, end.converged
    theta = density.theta(z)
    lengthscales = np.full(x.shape[1], density.mean[0])  # of no use beyond the number of groups
    lengthscales[:n] = theta[:n]
    hyper = Hyper(lengthscales, theta[-2], theta[-1], theta[n : n + trend], theta[n + trend : -2])
    left_out = likelihood.left_out(theta) if len(x) else 0.0
    return Tuned(hyper, -loss, density.evaluations, converged, left_out)


def _best_of(density: Density, kinds: Sequence[Float[np.ndarray, "candidates p"]]) -> Search[Density]:
    """A few steps from the best start of each kind that is not hopeless, then on from the best end."""
    first = []
    for kind in kinds:
        candidates = np.clip(kind, density.lower, density.upper)
        losses = [density.loss(z) for z in candidates]
        first.append((min(losses), candidates[int(np.argmin(losses))]))
    best = min(loss for loss, _ in first)
    searches = [Search(density, z) for loss, z in first if loss <= best + FAR]
    if len(searches) > 1:
        for search in searches:
            search.run(FIRST_EVALUATIONS)
    return min(searches, key=lambda search: search.loss).run(MAX_EVALUATIONS)
