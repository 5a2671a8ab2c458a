import math

import numpy as np
import pytest
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from augury.bench.problems import synthetic
from augury.bench.problems.synthetic import PROBLEMS

VARIANTS = {
    "griewank-8-tsrsr": synthetic.griewank_without_root,
    "hartmann-3": synthetic.hartmann3,
    "hartmann-4": synthetic.hartmann4,
    "hartmann-6": synthetic.hartmann6,
}


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Threads of BLAS only wait for each other on matrices this small."""
    with threadpool_limits(1):
        yield


def function_of(name):
    return VARIANTS.get(name) or getattr(synthetic, name.split("-")[0])


def box_of(problem):
    return np.array([(param.low, param.high) for param in problem.space.params.values()]).T


def params_of(point):
    return {f"x{i}": float(x) for i, x in enumerate(point, 1)}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_row_of_the_table(name):
    problem = PROBLEMS[name](0)
    assert problem.name == name
    assert problem.direction == "minimize"
    assert problem.budget > 0
    assert problem.reference
    assert problem.observe is None
    dimension = int(name.split("-")[1]) if "-" in name else 2
    assert problem.space.dim == dimension
    assert problem.space.continuous.all()
    assert problem.space.check(problem.optimal) == problem.optimal
    assert problem.value(problem.optimal) == pytest.approx(problem.optimum, abs=1e-12)
    assert PROBLEMS[name](1).value(problem.optimal) == problem.value(problem.optimal)


@pytest.mark.parametrize("name", PROBLEMS)
def test_nothing_is_below_the_optimum(name):
    """200 uniform points, and 20 descents: half from the best of them, half from near the optimum."""
    problem, function = PROBLEMS[name](0), function_of(name)
    low, high = box_of(problem)
    rng = np.random.default_rng(0)
    points = rng.uniform(low, high, (200, len(low)))
    values = function(points)
    assert values.shape == (200,)
    assert values[7] == pytest.approx(problem.value(params_of(points[7])), rel=1e-12)
    assert values.min() >= problem.optimum

    best = np.array(list(problem.optimal.values()))
    near = np.clip(best + rng.normal(scale=0.02, size=(10, len(low))) * (high - low), low, high)
    shifts = np.concatenate([np.zeros((1, len(low))), np.eye(len(low)), -np.eye(len(low))])
    step = 1e-6 * (high - low)

    def with_gradient(x):
        middle, *sides = function(x + step * shifts)
        ahead, behind = np.reshape(sides, (2, -1))
        return middle, (ahead - behind) / (2 * step)

    for start in np.concatenate([points[values.argsort()[:10]], near]):
        found = minimize(
            with_gradient, start, jac=True, method="L-BFGS-B", bounds=list(zip(low, high, strict=True)),
            options={"maxiter": 15 if len(low) <= 10 else 4, "maxls": 10},
        )  # fmt: skip
        assert found.fun >= problem.optimum - 1e-9


@pytest.mark.parametrize(
    ("name", "point", "value", "tolerance"),
    [
        ("ackley-2", [1, 1], 20 * (1 - math.exp(-0.2)), 1e-12),
        ("ackley-2", [0.5, 0.5], 20 * (1 - math.exp(-0.1)) + math.e - 1 / math.e, 1e-12),
        ("ackley-3", [3, -3, 3], 20 * (1 - math.exp(-0.6)), 1e-12),
        ("ackley-10", [32] * 10, 20 * (1 - math.exp(-6.4)), 1e-12),
        ("bird", [4.70104, 3.15294], -106.764537, 1e-6),
        ("bird", [-1.58214, -3.13024], -106.764537, 1e-6),
        ("bird", [0, 0], math.e, 1e-12),
        ("bird", [0, math.pi], -math.e + math.pi**2, 1e-12),
        ("branin", [-math.pi, 12.275], 0.397887, 1e-6),
        ("branin", [9.42478, 2.475], 0.397887, 1e-6),
        ("branin", [0, 0], 55.602113, 1e-6),
        ("griewank-8", [math.pi, *[0] * 7], 2 + math.pi**2 / 4000, 1e-12),
        ("griewank-8", [0, 0, 0, 3, *[0] * 4], 1 + 9 / 4000 - math.cos(1.5), 1e-12),
        ("griewank-8-tsrsr", [0, 0, 0, 3, *[0] * 4], 1 + 9 / 4000 - math.cos(0.75), 1e-12),
        ("hartmann-3", [0.114614, 0.555649, 0.852547], -3.86278, 1e-5),
        ("hartmann-4", [0.18739, 0.19415, 0.55792, 0.26478], -3.729840584, 1e-8),
        ("hartmann-6", [0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573], -3.32237, 1e-5),
        ("levy-5", [-3] * 5, 5 + 40 * math.sin(1) ** 2, 1e-12),  # w = 0
        ("levy-10", [5] + [1] * 9, 1 + 10 * math.sin(1) ** 2, 1e-12),  # w = (2, 1, …)
        ("michalewicz-10", [math.pi / 2] * 10, None, 1e-12),
        ("rastrigin-3", [1, 1, 1], 3, 1e-12),
        ("rastrigin-10", [0.5] * 10, 202.5, 1e-12),
        ("rosenbrock-2", [0, 0], 1, 0),
        ("rosenbrock-2", [-1.2, 1], 24.2, 1e-12),
        ("rosenbrock-10", [0] * 10, 9, 0),
        ("schwefel-10", [0] * 10, 4189.828872724337, 1e-9),
        ("schwefel-10", [(math.pi / 2) ** 2] * 10, 4189.828872724337 - 10 * (math.pi / 2) ** 2, 1e-9),
    ],
)
def test_values_by_hand_and_published(name, point, value, tolerance):
    if value is None:  # sin²⁰(i π / 4) is 2⁻¹⁰ for odd i, 1 for i = 2, 6, 10 and 0 for i = 4, 8
        value = -(3 + 5 * 2**-10)
    assert PROBLEMS[name](0).value(params_of(point)) == pytest.approx(value, abs=tolerance)


@pytest.mark.parametrize(
    ("dimension", "minimum"),
    [(2, -1.8013034), (5, -4.6876582), (10, -9.6601517), (20, -19.6370136), (50, -49.6248323)],
)
def test_michalewicz_minima_that_vanaret_and_others_certified(dimension, minimum):
    argument = synthetic.michalewicz_argument(dimension)
    assert synthetic.michalewicz(argument) == pytest.approx(minimum, abs=1e-7)


def test_michalewicz_is_minimal_in_every_coordinate():
    argument = synthetic.michalewicz_argument(100)
    ticks = np.linspace(0, math.pi, 20_001)
    for i in range(1, 101):
        best = math.sin(argument[i - 1]) * math.sin(i * argument[i - 1] ** 2 / math.pi) ** 20
        assert best >= np.max(np.sin(ticks) * np.sin(i * ticks**2 / math.pi) ** 20)


def test_domains_and_budgets_of_the_papers():
    def sides(name):
        low, high = box_of(PROBLEMS[name](0))
        return sorted(set(zip(low.tolist(), high.tolist(), strict=True)))

    assert sides("ackley-2") == sides("ackley-3") == [(-5, 5)]
    assert sides("ackley-2-wide") == sides("ackley-100") == [(-32.768, 32.768)]
    assert sides("ackley-20-turbo") == [(-5, 10)]
    assert sides("rosenbrock-2") == [(-2, 2), (-1, 3)]
    assert sides("griewank-8") == [(-1, 4)]
    budgets = {
        "branin": 100, "rastrigin-3": 130, "hartmann-3": 130, "hartmann-4": 140, "levy-5": 200,
        "hartmann-6": 260, "bird": 265, "ackley-3": 315, "griewank-8": 315, "michalewicz-10": 165,
        "levy-100": 2000,
    }  # fmt: skip
    assert {name: PROBLEMS[name](0).budget for name in budgets} == budgets
