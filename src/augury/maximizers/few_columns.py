"""Points that differ from good ones in few columns."""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from augury._errors import UnsupportedError
from augury.core.keys import KeyArray, fold, generator
from augury.maximizers.base import Domain, Found, Maximizer, Rows, Score, no_pool
from augury.maximizers.multistart import MultiStart, check_counts
from augury.maximizers.scoring import best_of, better, values
from augury.space import Space

STEP = 0.1  # deviation of the smaller of two kinds of moves
RETURNING = 0.3  # of the moves after the first round that take columns back to where they were
PARENTS = 20  # points from which the next round goes on


@dataclass(frozen=True)
class FewColumns(Maximizer):
    """The better of an inner maximizer's point and of points that differ from good ones in few columns.

    A model with effects (:class:`~augury.surrogates.kernels.WithEffects`) has its largest scores at
    points that keep most of a good point. They are isolated, so that no ascent leads there: they are
    drawn, around the best points so far, and again around the best of these.

    Args:
        inner: the other maximizer; what it finds is often a point that differs in every column.
        raw: points of the first round.
        rounds: the following ones have half as many.

    Reference: Regis & Shoemaker (2013), "Combining radial basis function surrogates and dynamic
    coordinate search in high-dimensional expensive black-box optimization"; Eriksson et al. (2019),
    "Scalable global optimization via local Bayesian optimization", section 3.
    """

    inner: Maximizer = field(default_factory=MultiStart)
    raw: int = 2000
    rounds: int = 3

    @property
    def needs_gradient(self) -> bool:  # type: ignore[override]
        """As its inner maximizer."""
        return self.inner.needs_gradient

    def __post_init__(self) -> None:
        check_counts("few-columns", raw=self.raw, rounds=self.rounds)
        if not isinstance(self.inner, Maximizer):
            raise UnsupportedError(
                f"few-columns must be given a maximizer; got {self.inner!r}. Use MultiStart()."
            )

    def fits(self, space: Domain) -> str | None:
        """What the inner maximizer can search, but for pools."""
        return no_pool(self, space) or self.inner.fits(space)

    def search(
        self, score: Score, space: Domain, *, t: int, key: KeyArray, near: Rows, exclude: Collection[int]
    ) -> Found:
        """The best of the inner maximizer's point and those of all rounds."""
        assert isinstance(space, Space)
        inner = self.inner.search(score, space, t=t, key=fold(key, 0), near=near, exclude=exclude)
        if len(near) == 0:
            return inner
        rng, parents = generator(fold(key, 1)), near
        found: list[Found | None] = [inner]
        for count in (self.raw, *[max(self.raw // 2, 1)] * (self.rounds - 1)):
            rows = _moved(space, parents, near if len(found) > 1 else None, count, rng)
            scores = values(score, rows)
            found.append(best_of(rows, scores, space.index_of(rows), exclude))
            parents = rows[np.argsort(-scores, kind="stable")[:PARENTS]]
        best = better(found)  # with the evaluations of all
        assert best is not None
        return best


def _moved(
    space: Space,
    parents: Float[np.ndarray, "k D"],
    home: Float[np.ndarray, "h D"] | None,
    count: int,
    rng: Generator,
) -> Float[np.ndarray, "n D"]:
    """Points that differ from parents in 1 to P/2 parameters, few more often than many.

    Half of the moves, and all of those that are not continuous, go anywhere, half not far; with a `home`,
    some go back to a point of it.
    """
    old = parents[rng.integers(len(parents), size=count)]
    _, groups = np.unique(space.groups, return_inverse=True)
    parameters = int(groups.max(initial=0)) + 1
    expected = np.exp(rng.uniform(0.0, np.log(max(parameters / 2, 1.0)), (count, 1)))
    moves = rng.random((count, parameters)) < expected / parameters
    moves[np.arange(count), rng.integers(parameters, size=count)] = True
    moves = moves[:, groups]  # all columns of a choice
    anywhere = space.draw(count, rng)[0]
    close = np.clip(old + STEP * rng.standard_normal(old.shape), 0.0, 1.0)
    new = np.where((rng.random((count, 1)) < 0.5) & space.continuous, close, anywhere)
    if home is not None:
        back = home[rng.integers(len(home), size=count)]
        new = np.where(rng.random((count, 1)) < RETURNING, back, new)
    return space.snap(np.where(moves, new, old))
