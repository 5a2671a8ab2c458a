"""How accurately a score was maximized: η = (α(x) − α_0) / (α* − α_0), in [0, 1].

The paper allows any positive shift of the score, and a larger one flatters every η; ours is fixed.
α_0 is the median score of 512 uniform points of the same step, or 0 for a score that is positive by
nature (expected improvement itself, not its logarithm). α* is estimated as the largest of the value
reached, one more ascent from it, ascents from 4 fresh points, and from 3 beside the best points so far
(where those are known: the narrow peak there would be missed, and every η flattered). An audit takes
the best of 20,000 points and 50 ascents. A flat score (α* = α_0) has η = 1 and is reported as flat.

Reference: Kim, Liu & Chen (2025), "Bayesian optimization with inexact acquisition: is random grid
search sufficient?", section 3.1.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from augury.core.score import Score
from augury.maximizers.ascent import ascend, climb, wander
from augury.maximizers.scoring import Found, best_of, values
from augury.maximizers.starts import around
from augury.space import Pool, Space

REFERENCE_POINTS = 512
FRESH_ASCENTS = 4
NEAR_ASCENTS = 3
ASCENT_EVALUATIONS = 30  # with more, η stays the same to four digits
POOL_POINTS = 4096  # a pool has no neighbours to climb along; more draws stand in for ascents
AUDIT_POINTS = 20_000
AUDIT_ASCENTS = 50


class Estimate(NamedTuple):
    """η, and whether the score is flat."""

    eta: float
    flat: bool


def estimate(
    score: Score,
    space: Space | Pool,
    found: Found,
    rng: Generator,
    *,
    near: np.ndarray,
    exclude: Collection[int] = frozenset(),
    gradient: bool = True,
    audit: bool = False,
) -> Estimate:
    """The accuracy of `found` as a maximizer of `score` over `space` without `exclude`."""
    reference, largest = -np.inf, found.value  # the logarithm of α_0 = 0
    if not score.logarithmic:
        rows, indices = space.draw(REFERENCE_POINTS, rng)
        reference = float(np.median(values(score, rows)))

    def look(rows: np.ndarray, indices: np.ndarray | None, scores: np.ndarray) -> None:
        nonlocal largest
        best = best_of(rows, scores, indices, exclude)
        largest = max(largest, -np.inf if best is None else best.value)

    points = AUDIT_POINTS if audit else POOL_POINTS if isinstance(space, Pool) else 0
    if points:
        rows, indices = space.draw(points, rng)
        look(rows, indices, values(score, rows))
    if isinstance(space, Space):
        fresh, _ = space.draw(AUDIT_ASCENTS if audit else FRESH_ASCENTS, rng)
        beside = around(space, near, NEAR_ASCENTS, rng) if len(near) else near
        starts = np.concatenate([found.x[None], fresh, beside])
        if not gradient:
            ends = wander(score, space, starts, rng)
        elif space.continuous.all():
            ends = ascend(score, starts, max_evaluations=ASCENT_EVALUATIONS)
            if np.array_equal(ends.rows, starts):  # its gradient is no number, or 0
                ends = wander(score, space, starts, rng)
        else:
            ends = climb(score, space, starts)
        look(ends.rows, space.index_of(ends.rows), ends.scores)
    return accuracy(found.value, largest, reference, score.logarithmic)


def accuracy(value: float, largest: float, reference: float, logarithmic: bool) -> Estimate:
    """η from the value reached, the largest value and the reference α_0."""
    if logarithmic:
        flat = not np.isfinite(largest)
        eta = 1.0 if flat else float(np.exp(min(value - largest, 0.0)))
        return Estimate(eta, flat)
    gap = largest - reference
    flat = not gap > 1e-12 * max(abs(largest), abs(reference))
    eta = 1.0 if flat else float(np.clip((value - reference) / gap, 0.0, 1.0))
    return Estimate(eta, flat)
