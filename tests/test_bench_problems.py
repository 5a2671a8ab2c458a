"""The six functions of the random-grid experiment, as the scripts in benchmarks/ see them."""

import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def problems():
    sys.path.insert(0, str(FOLDER))
    try:
        import problems

        return problems.PROBLEMS
    finally:
        sys.path.remove(str(FOLDER))


@pytest.mark.parametrize(
    ("name", "point", "regret", "tolerance"),
    [
        ("branin", [-np.pi, 12.275], 0.0, 1e-6),
        ("branin", [9.42478, 2.475], 0.0, 1e-6),
        ("branin", [0, 0], 55.602113 - 0.397887, 1e-6),
        ("rastrigin3", [1, 1, 1], 3.0, 1e-12),
        ("hartmann3", [0.114614, 0.555649, 0.852547], 0.0, 1e-5),
        ("hartmann4", [0.18739, 0.19415, 0.55792, 0.26478], 0.0, 1e-8),
        ("hartmann6", [0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573], 0.0, 1e-5),
        ("levy5", [-3] * 5, 5 + 40 * np.sin(1) ** 2, 1e-12),  # w = 0 in every coordinate
    ],
)
def test_published_values(problems, name, point, regret, tolerance):
    (value,) = problems[name].function(np.array([point], dtype=float))
    assert -value == pytest.approx(regret, abs=tolerance)


def test_the_maximum_is_zero(problems):
    for problem in problems.values():
        unit = np.random.default_rng(0).random((500, problem.dimension))
        values = problem.function(problem.lower + (problem.upper - problem.lower) * unit)
        assert values.shape == (500,)
        assert values.max() <= 1e-4


def test_budgets_of_the_main_text(problems):
    budgets = {name: (problem.initial, problem.iterations) for name, problem in problems.items()}
    assert budgets == {
        "branin": (20, 80),
        "rastrigin3": (30, 100),
        "hartmann3": (30, 100),
        "hartmann4": (40, 100),
        "levy5": (50, 150),
        "hartmann6": (60, 200),
    }
