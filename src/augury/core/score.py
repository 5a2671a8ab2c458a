"""What policies hand to maximizers: a score of points."""

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
from jaxtyping import Float

from augury._types import Array


class Score(eqx.Module):
    """A function to be maximized: a pytree, called with one point (D,) of the unit cube."""

    # Whether the score is the logarithm of a quantity that is positive by nature (expected
    # improvement); accuracy is then a ratio of these quantities.
    logarithmic: ClassVar[bool] = False

    @property
    def rows_at_once(self) -> int | None:
        """How many points are best scored together, where each takes much memory; None for any number."""
        return None

    @abstractmethod
    def __call__(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        """The score at one point."""
