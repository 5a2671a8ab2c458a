import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

PATH = Path(__file__).parents[1] / "benchmarks" / "problems.py"
SPEC = importlib.util.spec_from_file_location("bench_problems", PATH)
problems = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = problems  # dataclasses look their module up
SPEC.loader.exec_module(problems)

ALL = list(problems.PROBLEMS.values())


@pytest.mark.parametrize("problem", ALL, ids=lambda problem: problem.name)
def test_maximum_is_zero_at_the_known_optimum(problem):
    assert problem.function(problem.optimum) == pytest.approx(0, abs=1e-8)
    unit = np.random.default_rng(0).random((20_000, problem.dimension))
    points = problem.lower + (problem.upper - problem.lower) * unit
    values = problem.function(points)
    assert values.shape == (20_000,)
    assert values.max() <= 1e-4
    assert values[7] == pytest.approx(float(problem.function(points[7])))


@pytest.mark.parametrize(
    ("name", "point", "maximum", "published", "tolerance"),
    [
        # values of the functions to maximize before the shift, to the published digits
        ("branin", [-np.pi, 12.275], -problems.BRANIN_MINIMUM, -0.397887, 1e-6),
        ("branin", [9.42478, 2.475], -problems.BRANIN_MINIMUM, -0.397887, 1e-6),
        ("branin", [0, 0], -problems.BRANIN_MINIMUM, -55.602113, 1e-6),
        ("rastrigin3", [1, 1, 1], 0, -3, 1e-12),
        ("hartmann3", [0.114614, 0.555649, 0.852547], problems.HARTMANN3_MAXIMUM, 3.86278, 1e-5),
        ("hartmann4", [0.18739, 0.19415, 0.55792, 0.26478], problems.HARTMANN4_MAXIMUM, 3.729840584,
         1e-8),
        ("hartmann6", [0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573],
         problems.HARTMANN6_MAXIMUM, 3.32237, 1e-5),
        # w = 0 in every coordinate
        ("levy5", [-3] * 5, 0, -(5 + 40 * np.sin(1) ** 2), 1e-12),
    ],
)  # fmt: skip
def test_published_values(name, point, maximum, published, tolerance):
    value = float(problems.PROBLEMS[name].function(point)) + maximum
    assert value == pytest.approx(published, abs=tolerance)


def test_budgets_of_the_main_text():
    budgets = {problem.name: (problem.initial, problem.iterations) for problem in ALL}
    assert budgets == {
        "branin": (20, 80),
        "rastrigin3": (30, 100),
        "hartmann3": (30, 100),
        "hartmann4": (40, 100),
        "levy5": (50, 150),
        "hartmann6": (60, 200),
    }
