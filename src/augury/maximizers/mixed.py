"""Mixed spaces: searching them as they are, or rounding the optimum of a continuous relaxation."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from augury._errors import UnsupportedError
from augury.core.keys import KeyArray, fold, generator
from augury.maximizers.ascent import climb
from augury.maximizers.base import Domain, Found, Maximizer, Rows, Score, no_pool
from augury.maximizers.multistart import MultiStart, check_counts
from augury.maximizers.scoring import best_of, values
from augury.maximizers.sets import any_allowed
from augury.maximizers.starts import best_starts, spread_and_near
from augury.space import Float, Space


@dataclass(frozen=True)
class Mixed(Maximizer):
    """Random valid points, then local search from the best of them; every point scored is valid.

    The local search alternates ascent along the gradient in the continuous columns with moves to the
    best neighbour in one discrete parameter.

    Args:
        raw: random points that are scored; a quarter of them around the best points so far.
        starts: local searches.
    """

    raw: int = 512
    starts: int = 4

    needs_gradient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_counts("mixed", raw=self.raw, starts=self.starts)

    def fits(self, space: Domain) -> str | None:
        """Everything but pools."""
        return no_pool(self, space)

    def search(
        self, score: Score, space: Domain, *, t: int, key: KeyArray, near: Rows, exclude: Collection[int]
    ) -> Found:
        """The best valid point that was scored."""
        assert isinstance(space, Space)
        rng = generator(key)
        rows, uniform = spread_and_near(space, near, self.raw, rng)
        scores = values(score, rows)
        ends = climb(score, space, rows[best_starts(scores, uniform, self.starts)])
        rows, scores = np.concatenate([ends.rows, rows]), np.concatenate([ends.scores, scores])
        found = best_of(rows, scores, space.index_of(rows), exclude)
        if found is None:
            found = any_allowed(score, space, rng, exclude)
        return replace(found, evaluations=self.raw + ends.evaluations)


@dataclass(frozen=True)
class Rounding(Maximizer):
    """The papers' way on mixed spaces: maximize over the cube, then round to the nearest valid point.

    The value returned is that of the rounded point, and so is the accuracy: what rounding loses shows.
    Where the rounded point is excluded, its best neighbour that is not takes its place.

    Args:
        inner: the maximizer of the relaxation.

    Reference: Dai et al. (2022), "Sample-then-optimize batch neural Thompson sampling", appendix F.
    """

    inner: Maximizer = field(default_factory=MultiStart)

    @property
    def needs_gradient(self) -> bool:  # type: ignore[override]
        """As its inner maximizer."""
        return self.inner.needs_gradient

    def __post_init__(self) -> None:
        reason = (
            self.inner.fits(Space(x=Float(0.0, 1.0)))
            if isinstance(self.inner, Maximizer)
            else f"rounding must be given a maximizer; got {self.inner!r}. Use MultiStart()."
        )
        if reason is not None:
            raise UnsupportedError(reason)

    def fits(self, space: Domain) -> str | None:
        """Everything but pools."""
        return no_pool(self, space)

    def search(
        self, score: Score, space: Domain, *, t: int, key: KeyArray, near: Rows, exclude: Collection[int]
    ) -> Found:
        """The rounded maximum of the relaxation."""
        assert isinstance(space, Space)
        cube = (
            Space({str(column): Float(0.0, 1.0) for column in range(space.dim)}) if space.dim else space
        )
        relaxed = self.inner.search(score, cube, t=t, key=fold(key, 0), near=near, exclude=frozenset())
        row = space.snap(relaxed.x[None])
        around = np.concatenate([row, space.neighbours(row[0])]) if exclude else row
        found = best_of(row, values(score, row), space.index_of(row), exclude)
        if found is None:
            found = best_of(around, values(score, around), space.index_of(around), exclude)
        if found is None:
            found = any_allowed(score, space, generator(fold(key, 1)), exclude)
        return replace(found, evaluations=relaxed.evaluations + found.evaluations)
