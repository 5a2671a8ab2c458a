"""What a benchmark problem is: a space, a function on it, and what is known about its best value."""

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from numpy.random import Generator

from augury._errors import AuguryError
from augury.space import Pool, Space

Params = Mapping[str, Any]
Value = Callable[[Params], float]
Observe = Callable[[Params, Generator], float]


class MissingError(AuguryError):
    """A package or a data file that a problem needs is not there."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A function to optimize, and what is known about it.

    Args:
        name: as in the table of problems.
        space: a Space or a Pool.
        value: the noise-free value at a point, always the same; regret is computed from it.
        direction: "minimize" or "maximize".
        reference: where it is defined.
        budget: the default number of evaluations.
        optimum: the best value, or the best known one, where one is known.
        exact: whether `optimum` is proven (or computed over all points), not just the best found.
        optimal: a point that attains it, where one is known.
        observe: what an optimizer sees, with all its randomness from the generator; None without
            noise, and then it sees `value`.
        noise: the noise in words.
        packages: those to import that decide the values; results record their versions.
    """

    name: str
    space: Space | Pool
    value: Value
    reference: str
    budget: int
    direction: Literal["minimize", "maximize"] = "minimize"
    optimum: float | None = None
    exact: bool = True
    optimal: Params | None = None
    observe: Observe | None = None
    noise: str = "none"
    packages: tuple[str, ...] = ()

    def __call__(self, params: Params, rng: Generator) -> float:
        """One evaluation."""
        return float(self.value(params) if self.observe is None else self.observe(params, rng))

    def regret(self, value: float) -> float | None:
        """How far a noise-free value is from the optimum; None where that is not known."""
        if self.optimum is None:
            return None
        return value - self.optimum if self.direction == "minimize" else self.optimum - value


Factory = Callable[[int], Problem]  # from a seed, which decides what a problem draws anew for each run


def package(name: str, problem: str, install: str | None = None) -> Any:
    """An optional package, imported, or a sentence that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingError(
            f"{problem} needs the package {name.split('.')[0]}; it is not installed. "
            f"Run pip install {install or 'augury[bench]'}."
        ) from None


def data_file(name: str, problem: str, source: str) -> Path:
    """A data file from the folder AUGURY_DATA, or ../shared/data; or a sentence on where to get it."""
    folders = [Path(os.environ["AUGURY_DATA"])] if "AUGURY_DATA" in os.environ else []
    folders.append(Path("..", "shared", "data"))
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise MissingError(
        f"{problem} needs the file {name}; it is not in {' or '.join(map(str, folders))}. "
        f"Get it from {source}, and name its folder in the environment variable AUGURY_DATA."
    )
