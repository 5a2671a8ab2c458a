"""Points to start from: all over the space, and around points known to be good."""

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from augury.space import Space

SMALLEST, LARGEST = 1e-3, 0.3  # standard deviations of the steps away from a known point


def around(
    space: Space, near: Float[np.ndarray, "k D"], n: int, rng: Generator
) -> Float[np.ndarray, "n D"]:
    """Valid points at all distances from the rows of `near`, some differing in few coordinates only.

    Late in a run the acquisition function has its highest peak beside the best points, too narrow to
    be met by uniform points.
    """
    centres = near[rng.integers(len(near), size=n)]
    scale = np.exp(rng.uniform(np.log(SMALLEST), np.log(LARGEST), (n, 1)))
    moved = rng.random(centres.shape) < rng.random((n, 1))
    rows = centres + moved * scale * rng.standard_normal(centres.shape)
    return space.snap(np.clip(rows, 0.0, 1.0))


def spread_and_near(
    space: Space, near: Float[np.ndarray, "k D"], n: int, rng: Generator
) -> tuple[Float[np.ndarray, "n D"], int]:
    """`n` points, of which the first ones are uniform; a quarter is around `near`, if there is any."""
    uniform = n if len(near) == 0 else n - n // 4
    rows, _ = space.draw(uniform, rng)
    if uniform < n:
        rows = np.concatenate([rows, around(space, near, n - uniform, rng)])
    return rows, uniform


def best_starts(scores: Float[np.ndarray, " n"], uniform: int, count: int) -> Float[np.ndarray, " count"]:
    """Indices of the best points: half of them among the uniform ones, so that no peak takes all."""
    order = np.argsort(-scores, kind="stable")
    from_near = order[order >= uniform][: count // 2]
    from_uniform = order[order < uniform][: count - len(from_near)]
    return np.concatenate([from_uniform, from_near])
