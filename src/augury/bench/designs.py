"""The points with which the runs of an experiment begin, the same for all of its methods."""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from augury.bench.experiment import Design, Task
from augury.bench.problem import Problem
from augury.space import Pool

GOALS = 20  # numbers that the pushing problems take before the points: the goals of ten runs


def initial_points(task: Task, problem: Problem, design: Design, seed: int) -> list[Mapping[str, Any]]:
    """The initial design of a seed."""
    space, rng = problem.space, np.random.default_rng([seed, zlib.crc32(task.label.encode())])
    if isinstance(space, Pool):
        count = min(task.initial, int(space.size))
        return [space.decode(int(i)) for i in rng.choice(int(space.size), count, replace=False)]
    if design == "sobol":
        rows = space.sobol(task.initial, int(rng.integers(2**31)))
    elif design == "random":
        rows, _ = space.draw(task.initial, rng)
    else:
        rows = of_ts_rsr_code(task.problem, seed, task.initial, space.dim)
    return [space.decode(row) for row in rows]


def of_ts_rsr_code(problem: str, run: int, points: int, dim: int) -> np.ndarray:
    """The uniform points of a run: all runs take theirs from one sequence, in turn."""
    numbers = sequence_of_ts_rsr_code(problem)
    if problem.startswith("robot-push"):
        numbers.uniform(size=GOALS)
    return numbers.uniform(size=(run + 1, points, dim))[run]


def sequence_of_ts_rsr_code(problem: str) -> np.random.RandomState:
    """NumPy's old generator as it is when the code begins with a problem: seeded with 0.

    The script of the 4-D pushing problem draws ten random functions first, and seeds anew for each.
    """
    if problem != "robot-push-4-tsrsr-code":
        return np.random.RandomState(0)
    numbers = np.random.RandomState(9)
    numbers.uniform(size=256)
    numbers.normal(size=(256, 2))
    numbers.uniform(size=256)
    return numbers
