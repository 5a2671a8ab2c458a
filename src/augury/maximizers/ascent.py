"""Local ascent of a score: by gradient where coordinates are continuous, by neighbours elsewhere."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int
from numpy.random import Generator

from augury._types import Array
from augury.core.descent import Descent, Rule, descend
from augury.core.precision import computing, jit
from augury.core.score import Score
from augury.maximizers.scoring import values
from augury.maximizers.starts import around
from augury.space import Space

LANES = 8  # starts per compiled call; a smaller number is filled up
MAX_EVALUATIONS = 60
GRADIENT_TOLERANCE = 1e-4  # of the start's gradient
VALUE_TOLERANCE = 1e-7  # of what the ascent has gained
REACH = 64  # neighbours of an ordered value: 1, 2, 4, … levels away, up to so many
MAX_ROUNDS = 20
WANDERINGS, WANDER_POINTS = 8, 32


class Climb(NamedTuple):
    """Where ascents ended, all the rows they scored on the way, and what that cost."""

    rows: Float[np.ndarray, "n D"]
    scores: Float[np.ndarray, " n"]
    evaluations: int


@jit
def _ascend(
    score: Score,
    boxes: Float[Array, "3 lanes D"],  # starts, lower and upper bounds
    rule: Rule,
    max_evaluations: Int[Array, ""],
) -> Descent:
    def one(start: Array, low: Array, high: Array) -> Descent:
        return descend(
            lambda x, s: -s(x),
            start,
            low,
            high,
            score,
            rule=rule,
            max_evaluations=max_evaluations,
            gradient_tolerance=GRADIENT_TOLERANCE,
            value_tolerance=VALUE_TOLERANCE,
        )

    return jax.vmap(one)(*boxes)


def ascend(
    score: Score,
    starts: Float[np.ndarray, "n D"],
    *,
    movable: np.ndarray | None = None,
    rule: Rule = "lbfgs",
    max_evaluations: int = MAX_EVALUATIONS,
) -> Climb:
    """Gradient ascents in the unit cube, of the `movable` columns, from all starts at once."""
    n = len(starts)
    if n == 0:
        return Climb(starts, np.empty(0), 0)
    lower, upper = np.zeros_like(starts), np.ones_like(starts)
    if movable is not None:
        lower, upper = (np.where(movable, bound, starts) for bound in (lower, upper))
    lanes = -(-n // LANES) * LANES
    boxes = np.stack([starts, lower, upper])
    boxes = np.concatenate([boxes, np.repeat(boxes[:, :1], lanes - n, axis=1)], axis=1)
    with computing():
        ends = _ascend(score, boxes, rule, np.asarray(max_evaluations))
        rows, scores = np.array(ends.x)[:n], -np.asarray(ends.value)[:n]
        evaluations = int(np.asarray(ends.evaluations)[:n].sum())
    return Climb(rows, np.where(np.isnan(scores), -np.inf, scores), evaluations)


def climb(score: Score, space: Space, starts: Float[np.ndarray, "n D"]) -> Climb:
    """Local ascents in a mixed space, all of whose rows are valid and were scored as such.

    Each round moves the continuous columns along the gradient, then every start to its best
    neighbour in one discrete parameter, until no neighbour is better.
    """
    rows = np.array(starts)
    scores = values(score, rows)
    seen_rows, seen_scores, evaluations = [rows.copy()], [scores.copy()], len(rows)
    active = np.arange(len(rows))
    for _ in range(MAX_ROUNDS):
        if len(active) and space.continuous.any():
            ends = ascend(score, rows[active], movable=space.continuous)
            evaluations += ends.evaluations
            rows[active], scores[active] = ends.rows, np.maximum(scores[active], ends.scores)
            seen_rows.append(ends.rows)
            seen_scores.append(ends.scores)
        around = [space.neighbours(row, reach=REACH) for row in rows[active]]
        if not around or not sum(map(len, around)):
            break
        around_scores = values(score, np.concatenate(around))
        evaluations += len(around_scores)
        seen_rows.append(np.concatenate(around))
        seen_scores.append(around_scores)
        moved, start = [], 0
        for i, options in zip(active, around, strict=True):
            block = around_scores[start : start + len(options)]
            start += len(options)
            margin = 1e-12 * abs(scores[i]) if np.isfinite(scores[i]) else 0.0
            if len(block) and block.max() > scores[i] + margin:
                rows[i], scores[i] = options[block.argmax()], block.max()
                moved.append(i)
        if not moved:
            break
        active = np.array(moved)
    return Climb(np.concatenate(seen_rows), np.concatenate(seen_scores), evaluations)


def wander(score: Score, space: Space, starts: Float[np.ndarray, "n D"], rng: Generator) -> Climb:
    """Local search without gradients: each start moves to the best of random points around it."""
    rows, scores = np.array(starts), values(score, starts)
    evaluations = len(rows)
    for _ in range(WANDERINGS):
        tried = np.stack([around(space, row[None], WANDER_POINTS, rng) for row in rows])
        found = values(score, tried.reshape(-1, space.dim)).reshape(len(rows), WANDER_POINTS)
        evaluations += found.size
        best = found.argmax(axis=1)
        better = found.max(axis=1) > scores
        rows = np.where(better[:, None], tried[np.arange(len(rows)), best], rows)
        scores = np.maximum(scores, found.max(axis=1))
    return Climb(rows, scores, evaluations)
