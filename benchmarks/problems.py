"""The random-grid paper's six functions, maximized, shifted so that the maximum is 0.

Functions and budgets are those of the experiment random-grid-synthetic (section 5.1 of "Bayesian
Optimization with Inexact Acquisition: Is Random Grid Search Sufficient?"); here they map rows of an
array to values, as SciPy's and scikit-learn's functions want. The regret of a point is minus its value.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from augury import Space
from augury.bench import problem as bench
from augury.bench.experiment_files import read_experiment
from augury.bench.problems import problem as find
from common import Array

EXPERIMENT = Path(__file__).resolve().parents[1] / "experiments" / "random-grid-synthetic.toml"


@dataclass(frozen=True, eq=False)
class Problem:
    """A box, a function over it whose maximum is 0, and the budget of the experiment."""

    name: str
    problem: bench.Problem
    names: tuple[str, ...]
    lower: Array
    upper: Array
    initial: int
    iterations: int

    @property
    def dimension(self) -> int:
        """The number of inputs."""
        return len(self.lower)

    def function(self, points: Array) -> Array:
        """The values at the rows of `points`."""
        rows = [dict(zip(self.names, row, strict=True)) for row in np.asarray(points).tolist()]
        assert self.problem.optimum is not None
        sign = -1.0 if self.problem.direction == "minimize" else 1.0
        return sign * np.array([self.problem.value(row) - self.problem.optimum for row in rows])


def _problems() -> dict[str, Problem]:
    found = {}
    for task in read_experiment(EXPERIMENT).tasks:
        name, problem = task.problem.replace("-", ""), find(task.problem, 0)
        assert isinstance(problem.space, Space)
        low, high = (problem.space.decode(np.full(problem.space.dim, u)) for u in (0.0, 1.0))
        lower, upper = (np.array(list(corner.values())) for corner in (low, high))
        found[name] = Problem(name, problem, tuple(low), lower, upper, task.initial, task.iterations)
    return found


PROBLEMS = _problems()
