"""Looking near the best point: a box around it that follows its successes, and the points it is about.

A model of the whole space has one smoothness everywhere. Near an optimum functions are smoother than the
whole is, or steeper, or nearly quadratic; a model of the points nearby knows that, and a search in a box
around them is not tempted away by what is unknown elsewhere. The box is the trust region of
derivative-free optimization: halved after some suggestions in it that did not improve on the best value,
doubled after a few that did, and begun anew once it is too small to matter.

References: Powell (2009), "The BOBYQA algorithm for bound constrained optimization without derivatives";
Regis & Shoemaker (2013), "Combining radial basis function surrogates and dynamic coordinate search";
Eriksson et al. (2019), "Scalable global optimization via local Bayesian optimization".
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from augury._checks import check_real
from augury._errors import UnsupportedError

ROUGH = 20  # columns from which on a box is wide for its observations: models of it have effects
SEARCHED = 5  # columns for each suggestion of a round of them, one of which is looked for everywhere
SUCCESSES = 3  # in a row, after which the box is doubled
FEWEST = 4  # failures in a row before it is halved, at least
LARGEST_BOX = 0.8  # its width, as a fraction of each range
HALVINGS = 9  # of the first width, after which the box begins anew
MOST_POINTS = 256  # that a model of the box is made of


@dataclass(frozen=True)
class Locality:
    """Of every two suggestions of the model, or more, all but one are near the best point.

    One is looked for everywhere, with a model of all observations: every second one, or one of D/5 where
    15 columns D or more are narrowed, since of a space of many dimensions a model knows nothing far
    from the observations. The others are looked for in a box around the best point, with a model of the
    observations within twice its width (at least as many as a quadratic function has coefficients, at
    most 256). Only continuous parameters are narrowed. Where these have 20 columns or more, the model,
    if it is a Gaussian process, has effects of single parameters (`effects` of
    :class:`~augury.surrogates.GaussianProcess`), and points are looked for that differ from good ones
    in few columns (:class:`~augury.maximizers.FewColumns`).

    Args:
        width: of the first box, as a fraction of each parameter's range.
        patience: failures in a row, per column of the space, after which the box is halved; at least 4.
    """

    width: float = 0.4
    patience: float = 0.6

    def __post_init__(self) -> None:
        check_real("width", self.width)
        check_real("patience", self.patience)
        if not 0.0 < self.width <= LARGEST_BOX:
            raise UnsupportedError(
                f"width must be above 0 and at most {LARGEST_BOX}; got {self.width}. Use 0.4."
            )
        if not 0.0 < self.patience < math.inf:
            raise UnsupportedError(f"patience must be positive and finite; got {self.patience}. Use 0.6.")

    def is_local(self, number: int, narrowed: int) -> bool:
        """Whether the suggestion of that number, from 0, is looked for in a box of so many columns."""
        return number % max(2, narrowed // SEARCHED) != 0

    def is_rough(self, narrowed: int) -> bool:
        """Whether a model of a box of so many columns has effects."""
        return narrowed >= ROUGH

    def box_width(self, outcomes: Iterable[bool], columns: int) -> float:
        """The width after suggestions in the box that did or did not improve on the best value."""
        width, successes, failures = self.width, 0, 0
        patience = max(FEWEST, round(self.patience * columns))
        for improved in outcomes:
            successes, failures = (successes + 1, 0) if improved else (0, failures + 1)
            if successes == SUCCESSES:
                width, successes = min(2.0 * width, LARGEST_BOX), 0
            elif failures == patience:
                width, failures = width / 2.0, 0
            if width < self.width / 2**HALVINGS:
                width = self.width
        return width


def nearby(
    x: Float[np.ndarray, "n D"], center: Float[np.ndarray, " D"], width: float
) -> Int[np.ndarray, " m"]:
    """The rows within twice the box, in their order; the nearest where these are too few or too many."""
    dim = x.shape[1]
    distance = np.abs(x - center).max(axis=1, initial=0.0)
    wanted = max((dim + 1) * (dim + 2) // 2, int(np.sum(distance <= width)))
    nearest = np.argsort(distance, kind="stable")[: min(wanted, MOST_POINTS)]
    return np.sort(nearest)
