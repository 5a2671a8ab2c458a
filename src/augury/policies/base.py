"""What a policy is: it chooses the next points from a posterior, given a way to maximize scores."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from augury.core.keys import KeyArray
from augury.core.score import Score
from augury.surrogates.base import Capability, Posterior


class Chosen(Protocol):
    """What `maximize` returns: a maximizer's :class:`~augury.maximizers.base.Best`."""

    @property
    def x(self) -> Float[np.ndarray, " D"]:
        """The point, a row of the unit cube."""

    @property
    def index(self) -> int | None:
        """Its number in a finite space."""

    @property
    def value(self) -> float:
        """Its score."""

    @property
    def eta(self) -> float:
        """How accurately the score was maximized, in [0, 1]."""

    @property
    def info(self) -> Mapping[str, Any]:
        """What the maximizer did."""


class Maximize(Protocol):
    """Maximize a score over the space, without the points already chosen."""

    def __call__(
        self,
        score: Score,
        *,
        key: KeyArray,
        without: Sequence[Chosen] = (),
        anew: bool = True,
        judged: bool = True,
    ) -> Chosen:
        """The point found.

        If it need not be `anew`, points asked for before are looked at too. If it is not to be `judged`,
        because it will not be suggested, how accurate the search was is not estimated.
        """


class Drawn(Protocol):
    """Random valid points."""

    @property
    def rows(self) -> Float[np.ndarray, "n D"]:
        """The points, rows of the unit cube."""

    def point(self, i: int, value: float) -> Chosen:
        """The i-th of them, with its score."""


class Candidates(Protocol):
    """Draw points of the space, without those that `maximize` would not choose either."""

    def __call__(self, n: int, key: KeyArray, *, without: Sequence[Chosen] = ()) -> Drawn:
        """n of them, or all of a smaller finite space; fewer where some are taken, at least one."""


@dataclass(frozen=True)
class Picks:
    """The chosen points, and for each what the policy did."""

    points: Sequence[Chosen]
    info: Sequence[Mapping[str, Any]] = field(default_factory=list)


@runtime_checkable
class Policy(Protocol):
    """Chooses points; it is given `maximize` and never imports a maximizer.

    The posterior comes without the pending points, which stand beside it; `incumbent` is the largest
    posterior mean at observed points. `t` is 1 + the finished trials that the model suggested.
    `candidates(n, key)` draws n valid points of the space. `keys` holds one key per point to choose.
    A policy may have `whole_batch = True`: then the rule that ends uncertainty sampling counts all B
    points of a batch, not B − 1.
    """

    @property
    def requires(self) -> frozenset[Capability]:
        """What the posterior must be able to do."""

    def choose(
        self,
        posterior: Posterior,
        pending: Float[np.ndarray, "p D"],
        incumbent: float | None,
        *,
        t: int,
        maximize: Maximize,
        candidates: Candidates,
        keys: Sequence[KeyArray],
    ) -> Picks:
        """As many points as there are keys."""


def one_by_one(
    score: Callable[[Posterior], Score], belief: Posterior, maximize: Maximize, keys: Sequence[KeyArray]
) -> list[Chosen]:
    """One maximizer of the score per key, each given that those before it will be observed."""
    points: list[Chosen] = []
    for key in keys:
        if points:
            belief = belief.condition(points[-1].x)
        points.append(maximize(score(belief), key=key, without=points))
    return points
