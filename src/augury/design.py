"""The points before the model's: Sobol, random, or where a prior is most uncertain."""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from augury._errors import UnsupportedError
from augury._types import Array
from augury.core.data import Data
from augury.core.keys import KeyArray, Purpose, fold, generator
from augury.core.score import Score
from augury.maximizers import Domain, Maximizer
from augury.maximizers.scoring import allowed
from augury.maximizers.sets import any_allowed
from augury.space import Pool
from augury.surrogates import Capability, GaussianProcess, Posterior, Surrogate

KINDS = ("sobol", "random", "uncertainty")
LEAST, MOST = 0.025, 0.075  # of the budget, for an exploration phase
INFORMATION = 1.0  # C: what a batch may tell about itself, in nats, after uncertainty sampling
NO_SCORE = "The model gives no finite score to any point."
SOBOL_ATTEMPTS = 256  # points of the sequence that are tried where earlier ones are taken


@dataclass(frozen=True)
class InitialDesign:
    """How many points come before the model's, and how they are chosen."""

    kind: str
    count: int


def parse_initial(
    initial: int | tuple[str, int] | None,
    space: Domain,
    budget: int | None,
    exploration: int | None = None,
) -> InitialDesign:
    """What the user asked for; by default 2·parameters + 2 Sobol points, between 5 and 20.

    With a known budget, at most a third of it goes into the initial design. An algorithm with an
    `exploration` phase has so many random points per parameter (be-greedy, appendix F).
    """
    if initial is None:
        parameters = space.dim if isinstance(space, Pool) else space.free
        if exploration is not None:
            points = exploration * parameters
            if budget is None and isinstance(space, Pool):
                points = min(points, 20)  # columns of an image or a text are no parameters
            return InitialDesign("random", explored(points, budget))
        count = min(max(2 * parameters + 2, 5), 20)
        if budget is not None:
            count = min(count, max(1, budget // 3))
        return InitialDesign("sobol", count)
    kind, count = (
        initial if isinstance(initial, tuple | list) and len(initial) == 2 else ("sobol", initial)
    )
    whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
    if kind not in KINDS or not whole or count < 1:
        raise UnsupportedError(
            f'initial must be a number of at least 1, or a pair such as ("sobol", 10) of one of '
            f"{', '.join(KINDS)} and a number; got {initial!r}. Use initial=10."
        )
    return InitialDesign(kind, int(count))


def explored(points: int, budget: int | None) -> int:
    """The length of an exploration phase, within 2.5 % and 7.5 % of a known budget."""
    if budget is not None:
        points = int(np.clip(points, math.ceil(LEAST * budget), math.floor(MOST * budget)))
    return max(1, points)


def design_point(
    kind: str,
    space: Domain,
    *,
    root: KeyArray,
    number: int,
    position: int,
    exclude: frozenset[int],
    belief: Posterior | None,
    maximizer: Maximizer,
) -> tuple[Mapping[str, Any], str | None]:
    """The design's point for trial `number`, the `position`-th of its design, as parameters.

    With it comes the reason if it is a random one in the place of one that could not be found.

    Uncertainty sampling takes the point where `belief`, the prior given all points asked so far, has the
    largest variance; the values do not matter, so the design can be asked all at once. References: Dai
    et al. (2022), appendix B, Eq. 4, whose features at one θ_0 are here, for dense networks, those of the
    infinitely wide one; Ren & Li (2024), appendix B.
    """
    key = fold(root, number, Purpose.DESIGN)
    fallback: str | None = None
    if kind == "uncertainty":
        assert belief is not None
        best = maximizer(Uncertainty(belief), space, t=number + 1, key=key, exclude=exclude)
        if np.isfinite(best.value):
            return _params(space, best.x, best.index), None
        fallback = NO_SCORE
    if kind == "sobol" and not isinstance(space, Pool):
        seed = int(generator(fold(root, Purpose.DESIGN)).integers(2**31))
        attempts = SOBOL_ATTEMPTS if exclude else 1
        rows = space.sobol(attempts, seed, skip=position)
        free = np.flatnonzero(allowed(space.index_of(rows), len(rows), exclude))
        if len(free):
            return space.decode(rows[free[0]]), None
    # on a pool, a space-filling design is a random subset
    rng = generator(key)
    rows, indices = space.draw(1, rng)
    if not allowed(indices, 1, exclude)[0]:
        found = any_allowed(Zero(), space, rng, exclude)
        rows, indices = found.x[None], None if found.index is None else np.array([found.index])
    return _params(space, rows[0], None if indices is None else indices[0]), fallback


def prior_given(
    surrogate: Surrogate | None,
    space: Domain,
    asked: Float[np.ndarray, "n D"],
    *,
    key: KeyArray,
    settings: Any = None,
) -> Posterior:
    """The surrogate's prior after observing, whatever the values, at `asked`.

    `settings` are what its `tune` has learnt; None are those before any data.

    A surrogate whose variance cannot be conditioned has the belief beside it, or a Gaussian process; so
    has a forest, which knows nothing of places without data.
    """
    empty = Data.of(np.empty((0, space.dim)), np.empty(0), space.groups)
    needed = {Capability.VAR, Capability.CONDITION}
    prior: Posterior | None = None
    if surrogate is not None and Capability.GRADIENT in surrogate.capabilities:
        fit = copy.copy(surrogate).fit(empty, key=key, tuned=settings)  # what it keeps is of the data
        prior = fit.posterior if needed <= surrogate.capabilities else fit.belief
    if prior is None:
        prior = GaussianProcess().fit(empty, key=key).posterior
    return prior.condition(asked)


def enough_information(belief: Posterior, points: int, others: int) -> float | None:
    """b·γ_T/T if it is at most C = 1, else None.

    γ_T is the information in the T points asked for, which the belief is conditioned on; b counts the
    `others` of a batch of B: B − 1 in sto-bnts (section 4.1, appendix B), B in ts-rsr (Lemma B.2). A
    batch of one needs no uncertainty sampling: the rule says nothing then, and the number of points
    decides.
    """
    if others < 1 or points < 1:
        return None
    rate = others * max(belief.information_gain(), 0.0) / points
    return rate if rate <= INFORMATION else None


def batch_bound(belief: Posterior, points: int, batch: int) -> float:
    """exp(m·γ_T/T), a bound of ρ_m = max σ(x)/σ(x | m points) after T points of uncertainty sampling.

    Reference: Ren & Li (2024), Lemma B.2, after Desautels, Krause & Burdick (2014).
    """
    with np.errstate(over="ignore"):
        return float(np.exp(batch * max(belief.information_gain(), 0.0) / points))


def _params(space: Domain, row: np.ndarray, index: Any) -> Mapping[str, Any]:
    return space.decode(int(index)) if isinstance(space, Pool) else space.decode(row)


class Uncertainty(Score):
    """σ²(x)."""

    posterior: Posterior

    def __call__(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        """The score at one point."""
        return self.posterior.var(x)


class Zero(Score):
    """A score that prefers no point."""

    def __call__(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        """0."""
        return jnp.zeros(())
