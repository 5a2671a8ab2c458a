"""Random grid search: the best of c·t^a random points."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from augury._checks import check_real, one_of
from augury._errors import UnsupportedError
from augury.core.keys import KeyArray, generator
from augury.maximizers.base import Domain, Found, Maximizer, Rows, Score
from augury.maximizers.multistart import check_counts
from augury.maximizers.scoring import best_of, values
from augury.maximizers.sets import any_allowed
from augury.space import Pool


@dataclass(frozen=True)
class RandomGrid(Maximizer):
    """The best of |X_t| = c·t^a fresh random points (100·t by default).

    Args:
        c: points per step.
        a: the power of t; 1 is enough for sublinear regret (Theorems 7 and 8).
        size: a fixed number of points instead.
        points: "uniform", or "sobol" for a scrambled Sobol sequence, scrambled anew each step.

    Reference: Kim, Liu & Chen (2025), "Bayesian optimization with inexact acquisition: is random grid
    search sufficient?", section 4.
    """

    c: float = 100.0
    a: float = 1.0
    size: int | None = None
    points: Literal["uniform", "sobol"] = "uniform"

    def __post_init__(self) -> None:
        check_real("c", self.c)
        check_real("a", self.a)
        if not (0 < self.c < math.inf and 0 <= self.a <= 10):
            raise UnsupportedError(
                f"a random grid must have finite c > 0 and 0 <= a <= 10; got c={self.c}, a={self.a}. "
                "Use c=100, a=1 for the paper's grid."
            )
        if self.size is not None:
            check_counts("random-grid", size=self.size)
        one_of("points", self.points, ("uniform", "sobol"))

    def fits(self, space: Domain) -> str | None:
        """Any space."""
        return None

    def count(self, t: int) -> int:
        """|X_t|."""
        return self.size or math.ceil(self.c * t**self.a)

    def search(
        self, score: Score, space: Domain, *, t: int, key: KeyArray, near: Rows, exclude: Collection[int]
    ) -> Found:
        """The best of the grid; any other point where the whole grid is excluded."""
        rng = generator(key)
        if self.points == "sobol" and not isinstance(space, Pool):
            rows = space.sobol(self.count(t), seed=int(rng.integers(2**31)))
            indices = space.index_of(rows)
        else:
            rows, indices = space.draw(self.count(t), rng)
        found = best_of(rows, values(score, rows), indices, exclude)
        return any_allowed(score, space, rng, exclude) if found is None else found
