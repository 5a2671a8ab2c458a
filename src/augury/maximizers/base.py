"""What a maximizer is: it finds a point of the space where a score is large, and says how large."""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from augury._errors import UnsupportedError
from augury.core.keys import KeyArray, fold, generator
from augury.core.precision import computing
from augury.core.score import Score
from augury.maximizers.accuracy import Estimate, estimate
from augury.maximizers.scoring import Found
from augury.space import Pool, Space

Domain = Space | Pool
Rows = Float[np.ndarray, "n D"]

__all__ = ["Best", "Domain", "Found", "Maximizer", "Rows", "Score"]


@dataclass(frozen=True)
class Best:
    """The point a maximizer chose.

    `index` is its number in a finite space, else None. `eta` is the accuracy of the maximization,
    (α(x) − α_0) / (α* − α_0), estimated as :mod:`augury.maximizers.accuracy` says, or NaN.
    """

    x: Float[np.ndarray, " D"]
    index: int | None
    value: float
    eta: float
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Maximizer(ABC):
    """Finds a large value of a score over a space.

    Calling one runs its `search` and then estimates how accurate it was; the seconds of the two are
    reported apart. With `audit=True`, which every maximizer takes, the estimate spends 20,000 points and
    50 ascents.
    """

    audit: bool = field(default=False, kw_only=True)

    needs_gradient: ClassVar[bool] = False
    exact: ClassVar[bool] = False  # whether it looks at every point

    @abstractmethod
    def fits(self, space: Domain) -> str | None:
        """None if it can search the space, else the reason why not."""

    @abstractmethod
    def search(
        self, score: Score, space: Domain, *, t: int, key: KeyArray, near: Rows, exclude: Collection[int]
    ) -> Found:
        """The best point found, among those whose index is not in `exclude`.

        Around the rows `near` (none or a few) the score may have peaks too narrow for random points.
        """

    def __call__(
        self,
        score: Score,
        space: Domain,
        *,
        t: int,
        key: KeyArray,
        near: Rows | None = None,
        exclude: Collection[int] = frozenset(),
        gradient: bool = True,
        judged: bool = True,
    ) -> Best:
        """Maximize `score` over `space` at step `t`, which starts at 1.

        `gradient` says whether the score has one; without, its accuracy is estimated by local search.
        If it is not to be `judged`, the accuracy is NaN.
        """
        near = np.empty((0, space.dim)) if near is None else near
        reason = self.fits(space)
        if reason is not None:
            raise UnsupportedError(reason)
        with computing():
            started = time.perf_counter()
            found = self.search(score, space, t=t, key=fold(key, 0), near=near, exclude=exclude)
            searched = time.perf_counter()
            accuracy = Estimate(1.0 if self.exact else np.nan, False)
            if judged and not self.exact:
                accuracy = estimate(
                    score,
                    space,
                    found,
                    generator(fold(key, 1)),
                    near=near,
                    exclude=exclude,
                    gradient=gradient,
                    audit=self.audit,
                )
            estimated = time.perf_counter()
        info = {
            "evaluations": found.evaluations,
            "seconds": searched - started,
            "eta_seconds": estimated - searched,
            "flat": accuracy.flat,
        }
        return Best(found.x, found.index, found.value, accuracy.eta, info)


def check_domain(space: object) -> None:
    """Refuse what is no domain."""
    if not isinstance(space, Domain):
        remedy = "Space({...})" if isinstance(space, dict) else "Space(x=Float(0.0, 1.0)), for example"
        raise UnsupportedError(
            f"space must be a Space or a Pool; got {type(space).__name__}. Write augury.{remedy}."
        )


def no_pool(maximizer: Maximizer, space: Domain) -> str | None:
    """The reason why a maximizer that moves in a box cannot search a pool."""
    if isinstance(space, Pool):
        return (
            f"{type(maximizer).__name__} needs a Space; got a pool of {space.size} candidates. "
            "Use Exhaustive() or RandomGrid()."
        )
    return None


def continuous_only(maximizer: Maximizer, space: Domain) -> str | None:
    """The reason why a maximizer that moves continuously cannot search `space`, if it cannot."""
    if isinstance(space, Space) and not space.continuous.all():
        name = type(maximizer).__name__
        return (
            f"{name} needs a space of continuous Floats; got integers, steps or choices. "
            f"Use Mixed(), or wrap it: Rounding({name}())."
        )
    return no_pool(maximizer, space)
