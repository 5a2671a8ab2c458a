"""Hyper-parameters of a stationary Gaussian process by maximum a posteriori, from several starts.

All outputs are standardized and all inputs lie in the unit cube, so one set of priors serves every
problem. Each logarithm has a normal prior:

    log lengthscale ~ N(√2 − 3 + ½ log P, 3)      P = number of parameters
    log variance    ~ N(0, 1)
    log noise       ~ N(−8, 4)

The lengthscale's is the dimension-scaled prior of Hvarfner, Hellsten & Nardi (2024), "Vanilla Bayesian
optimization performs great in high dimensions" (their log-normal's mode, as a normal in the
logarithm): distances in the unit cube grow with √P, and so must lengthscales.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.random import Generator

from augury._types import Array
from augury.core.descent import Descent, descend
from augury.core.linalg import gaussian_nll
from augury.surrogates.kernels import Kernel

CANDIDATES = 4  # starting points of each kind that are looked at; the search descends from the best
SPREAD = np.array([0.0, -0.6, 0.6])  # the first candidates: the prior's centre, shorter, longer
NOISY = 3.0  # prior deviations by which the second kind's noise is larger
FIRST_EVALUATIONS = 8  # of the likelihood, from each kind's best candidate
MAX_EVALUATIONS = 60  # from the better of them
VALUE_TOLERANCE = 1e-5  # of what a search gains, some hundred units of log density
BASE_JITTER = 1e-8  # always on the diagonal of a standardized covariance


class Hyper(NamedTuple):
    """Logarithms of the hyper-parameters in standardized units; lengthscales by group."""

    log_lengthscale: Float[Array, " D"]
    log_variance: Float[Array, ""]
    log_noise: Float[Array, ""]


class Limits(NamedTuple):
    """Bounds on :class:`Hyper`; a hyper-parameter fixed by the user has equal bounds."""

    lower: Hyper
    upper: Hyper


DEFAULT_LOWER = (np.log(5e-3), np.log(1e-3), np.log(1e-6))
DEFAULT_UPPER = (np.log(1e3), np.log(1e3), np.log(1.0))


class Tuned(eqx.Module):
    """The hyper-parameters found, and how the search went."""

    hyper: Hyper
    log_posterior: Float[Array, ""]
    evaluations: Int[Array, ""]
    converged: Bool[Array, ""]


def prior(dim: int, parameters: Float[Array, ""]) -> tuple[Hyper, Hyper]:
    """Means and standard deviations of the normal priors on the logarithms."""
    mean = Hyper(
        jnp.full(dim, jnp.sqrt(2.0) - 3.0 + 0.5 * jnp.log(parameters)),
        jnp.zeros(()),
        jnp.full((), -8.0),
    )
    return mean, Hyper(jnp.full(dim, jnp.sqrt(3.0)), jnp.ones(()), jnp.full((), 2.0))


def covariance(
    kernel: Kernel, noise: Array, x: Float[Array, "n D"], mask: Bool[Array, " n"]
) -> Float[Array, "n n"]:
    """K + noise·I among the observations; padded rows are rows of the identity."""
    K = jnp.where(mask[:, None] & mask[None, :], kernel.gram(x, x), 0.0)
    return K + jnp.diag(jnp.where(mask, diagonal(kernel, noise), 1.0))


def diagonal(kernel: Kernel, noise: Array) -> Array:
    """What is added to the diagonal of K: the noise, and a jitter too small to matter."""
    return noise + BASE_JITTER * kernel.variance


def build(kind: type[Kernel], hyper: Hyper, groups: Int[Array, " D"]) -> tuple[Kernel, Array]:
    """The kernel and the noise variance that `hyper` describes."""
    kernel = kind(jnp.exp(hyper.log_lengthscale)[groups], jnp.exp(hyper.log_variance))
    return kernel, jnp.exp(hyper.log_noise)


def draw_starts(dim: int, rng: Generator) -> Float[np.ndarray, "kinds candidates p"]:
    """Starting points in units of the prior, of two kinds.

    A density often has one mode that explains the data by the function and one that explains them
    by noise (Rasmussen & Williams, section 5.4.1): the second kind starts with large noise. Of each
    kind, the first candidates move all lengthscales together; the last are draws from the prior
    shrunk by half, since its tails are wide and of little use as starts.
    """
    starts = np.zeros((2, CANDIDATES, dim + 2))
    starts[:, : len(SPREAD), :-2] = SPREAD[:, None]
    starts[:, len(SPREAD) :] = 0.5 * rng.standard_normal((2, CANDIDATES - len(SPREAD), dim + 2))
    starts[1, :, -1] += NOISY
    return starts


@eqx.filter_jit
def tune(
    kind: type[Kernel],
    x: Float[Array, "n D"],
    y: Float[Array, " n"],
    mask: Bool[Array, " n"],
    groups: Int[Array, " D"],
    parameters: Float[Array, ""],
    limits: Limits,
    starts: Float[Array, "kinds candidates p"],
) -> Tuned:
    """The hyper-parameters of largest posterior density for standardized `y`.

    `groups` tells which columns share a lengthscale, `parameters` is the prior's P (also where all
    columns share one). `starts` are in prior standard deviations from the prior's centre, see
    :func:`draw_starts`.
    """
    mean, std = prior(x.shape[1], parameters)

    def pack(hyper: Hyper) -> Array:
        return jnp.append(hyper.log_lengthscale, jnp.stack([hyper.log_variance, hyper.log_noise]))

    def unpack(theta: Array) -> Hyper:
        return Hyper(theta[:-2], theta[-2], theta[-1])

    centre, width = pack(mean), pack(std)
    lower, upper = ((pack(limit) - centre) / width for limit in limits)

    def loss(z: Array, _: None) -> Array:
        """The negative log density of z = (θ − prior mean) / prior deviation, up to a constant."""
        kernel, noise = build(kind, unpack(centre + width * z), groups)
        return gaussian_nll(covariance(kernel, noise, x, mask), y) + 0.5 * z @ z

    def best_candidate(candidates: Array) -> Array:
        losses = jax.lax.map(lambda z: loss(z, None), candidates)
        return candidates[jnp.argmin(jnp.where(jnp.isnan(losses), jnp.inf, losses))]

    def refine(stage: Array, best: Descent) -> Descent:
        """A few steps from the best candidate of each kind, then on from the better of the two ends."""
        last = stage == len(starts)
        fresh = best_candidate(jnp.clip(starts[jnp.minimum(stage, len(starts) - 1)], lower, upper))
        end = descend(
            loss,
            jnp.where(last, best.x, fresh),
            lower,
            upper,
            max_evaluations=jnp.where(last, MAX_EVALUATIONS, FIRST_EVALUATIONS),
            gradient_tolerance=1e-5,
            value_tolerance=VALUE_TOLERANCE,
        )
        spent = best.evaluations + end.evaluations
        better = jax.tree.map(lambda a, b: jnp.where(end.value <= best.value, a, b), end, best)
        return better._replace(evaluations=spent)

    # One after the other: the time goes into factorizations, of which `vmap` would make no fewer, and
    # batches of large ones were seen to hang in XLA (jaxlib 0.10.2, batch of 2, 512×512).
    nothing = Descent(
        jnp.zeros_like(centre), jnp.full((), jnp.inf), jnp.zeros((), dtype=int), jnp.zeros((), dtype=bool)
    )
    end = jax.lax.fori_loop(0, len(starts) + 1, refine, nothing)
    return Tuned(unpack(centre + width * end.x), -end.value, end.evaluations, end.converged)
