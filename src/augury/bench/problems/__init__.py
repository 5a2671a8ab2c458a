"""The table of benchmark problems, by name."""

import importlib
from collections.abc import Mapping
from types import MappingProxyType

from augury._errors import UnsupportedError
from augury.bench.problem import Factory, Problem

# One row per module; each has a mapping PROBLEMS of factories. Importing a module needs no optional
# package: factories import what they need, through `augury.bench.problem.package`.
MODULES = (
    "synthetic",
    "gp_draws",
    "bbob",
    "automl",
    "lunar",
    "pushing",
    "rover",
    "pools",
    "sensitive",
    "stages",
)


def problems() -> Mapping[str, Factory]:
    """All factories by name."""
    table: dict[str, Factory] = {}
    for module in MODULES:
        table |= importlib.import_module(f"augury.bench.problems.{module}").PROBLEMS
    return MappingProxyType(table)


def problem(name: str, seed: int = 0) -> Problem:
    """The problem of that name; `seed` decides what it draws anew for each run (a goal, a function)."""
    table = problems()
    if name not in table:
        raise UnsupportedError(
            f"problem must be one of {', '.join(table)}; got {name!r}. augury bench list shows them."
        )
    return table[name](seed)
