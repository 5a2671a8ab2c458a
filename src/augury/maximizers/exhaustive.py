"""Exhaustive search: every point of a finite space."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from augury.core.keys import KeyArray
from augury.maximizers.base import Domain, Found, Maximizer, Rows, Score
from augury.maximizers.sets import scan

LARGEST = 100_000_000


@dataclass(frozen=True)
class Exhaustive(Maximizer):
    """The best of all points, scored in blocks; its accuracy is 1 truly."""

    exact: ClassVar[bool] = True

    def fits(self, space: Domain) -> str | None:
        """Finite spaces."""
        if space.size <= LARGEST:
            return None
        return (
            f"exhaustive search needs a finite space of at most {LARGEST} points; got {space.size}. "
            "Use the mixed or the random-grid maximizer."
        )

    def search(
        self, score: Score, space: Domain, *, t: int, key: KeyArray, near: Rows, exclude: Collection[int]
    ) -> Found:
        """The best of all points that are not excluded."""
        return scan(score, space, exclude)
