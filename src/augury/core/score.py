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
        """How many points are best scored together: the fewest that a part of the score names.

        None stands for any number; parts with large networks, whose layers fill the memory, name few.
        """
        named = (getattr(part, "rows_at_once", None) for part in vars(self).values())
        return min((count for count in named if count is not None), default=None)

    @abstractmethod
    def __call__(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        """The score at one point."""
