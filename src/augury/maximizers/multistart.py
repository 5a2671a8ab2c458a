"""Multi-start ascent with exact gradients: L-BFGS in the box, or conjugate gradients."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from augury._checks import one_of
from augury._errors import UnsupportedError
from augury.core.keys import KeyArray, generator
from augury.maximizers.ascent import MAX_EVALUATIONS, ascend
from augury.maximizers.base import Domain, Found, Maximizer, Rows, Score, continuous_only
from augury.maximizers.scoring import best_of, values
from augury.maximizers.starts import best_starts, spread_and_near
from augury.space import Space


def check_counts(name: str, **counts: int) -> None:
    """Every count must be a positive whole number."""
    for what, count in counts.items():
        whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
        if not whole or count < 1:
            raise UnsupportedError(
                f"{what} of {name} must be a whole number of at least 1; got {count!r}. Raise it."
            )


@dataclass(frozen=True)
class MultiStart(Maximizer):
    """Random points, then ascents from the best of them (or from fresh ones), all in one call.

    Args:
        raw: random points that are scored; a quarter of them around the best points so far.
        starts: ascents.
        fresh: start from new random points instead of the best of the raw ones (as the papers do);
            the best raw point still counts.
        method: "lbfgs" (projected L-BFGS) or "cg" (projected Polak–Ribière conjugate gradients).
        max_evaluations: per ascent.
    """

    raw: int = 512
    starts: int = 8
    fresh: bool = False
    method: Literal["lbfgs", "cg"] = "lbfgs"
    max_evaluations: int = MAX_EVALUATIONS

    needs_gradient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_counts("multistart", raw=self.raw, starts=self.starts, max_evaluations=self.max_evaluations)
        one_of("method", self.method, ("lbfgs", "cg"))

    def fits(self, space: Domain) -> str | None:
        """Spaces of continuous Floats."""
        return continuous_only(self, space)

    def search(
        self, score: Score, space: Domain, *, t: int, key: KeyArray, near: Rows, exclude: Collection[int]
    ) -> Found:
        """The best of all raw points and all ascents."""
        assert isinstance(space, Space)
        rng = generator(key)
        rows, uniform = spread_and_near(space, near[:0] if self.fresh else near, self.raw, rng)
        scores = values(score, rows)
        if self.fresh:
            starts, _ = space.draw(self.starts, rng)
        else:
            starts = rows[best_starts(scores, uniform, self.starts)]
        ends = ascend(score, starts, rule=self.method, max_evaluations=self.max_evaluations)
        found = best_of(
            np.concatenate([ends.rows, rows]), np.concatenate([ends.scores, scores]), None, exclude
        )
        assert found is not None
        return replace(found, evaluations=len(rows) + ends.evaluations)
