"""How a score is maximized over a space: maximizers."""

from augury.maximizers.base import Best, Domain, Maximizer
from augury.maximizers.exhaustive import Exhaustive
from augury.maximizers.few_columns import FewColumns
from augury.maximizers.fixed_steps import Gradient, NelderMead
from augury.maximizers.mixed import Mixed, Rounding
from augury.maximizers.multistart import MultiStart
from augury.maximizers.random_grid import RandomGrid

__all__ = [
    "Best",
    "Domain",
    "Exhaustive",
    "FewColumns",
    "Gradient",
    "Maximizer",
    "Mixed",
    "MultiStart",
    "NelderMead",
    "RandomGrid",
    "Rounding",
]
