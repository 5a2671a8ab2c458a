"""Finite spaces: looking at every point, and finding one that is left."""

from collections.abc import Collection

import numpy as np
from numpy.random import Generator

from augury._errors import SpaceExhausted
from augury.core.score import Score
from augury.maximizers.scoring import BLOCKS, Found, best_of, better, blocks_for, values
from augury.space import Pool, Space

ATTEMPTS = 64


def scan(score: Score, space: Space | Pool, exclude: Collection[int]) -> Found:
    """The best of all points of a finite space that are not excluded, in blocks."""
    best: Found | None = None
    step = blocks_for(space.dim)[-1]
    for start in range(0, int(space.size), step):
        stop = min(start + step, int(space.size))
        rows = space.rows(start, stop)
        found = best_of(rows, values(score, rows), np.arange(start, stop), exclude)
        best = better([best, found])
    if best is None:
        raise exhausted(space)
    return best


def any_allowed(score: Score, space: Space | Pool, rng: Generator, exclude: Collection[int]) -> Found:
    """A point of a finite space that is not excluded, when a search met none."""
    if len(exclude) >= space.size:
        raise exhausted(space)
    for _ in range(ATTEMPTS):
        rows, indices = space.draw(BLOCKS[1], rng)
        found = best_of(rows, values(score, rows), indices, exclude)
        if found is not None:
            return found
    return scan(score, space, exclude)


def exhausted(space: Space | Pool) -> SpaceExhausted:
    """The error for a space of which nothing is left."""
    return SpaceExhausted(
        f"a finite space must have a point left to ask for; all {space.size} have been asked. "
        'Stop here, or use duplicates="allow" to evaluate points again.'
    )
