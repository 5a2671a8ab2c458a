import math

import numpy as np
import pytest
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from augury.bench.problems.gp_draws import PROBLEMS, SquaredExponentialDraw, UniformFeatureDraw


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Threads of BLAS only wait for each other on matrices this small."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module", params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param](1)


def sign(problem):
    return 1 if problem.direction == "minimize" else -1


def test_a_row_of_the_table(problem):
    assert problem.name in PROBLEMS
    assert problem.reference
    assert problem.space.check(problem.optimal) == problem.optimal
    assert problem.value(problem.optimal) == problem.optimum
    assert problem.exact == (problem.name in ("gp-se-1d", "gp-rbf-3d-code"))


def test_nothing_is_better_than_the_optimum(problem):
    space = problem.space
    rows = space.draw(200, np.random.default_rng(0))[0]
    values = [sign(problem) * problem.value(point) for point in space.decode_all(rows)]
    best = sign(problem) * problem.optimum
    assert min(values) >= best
    if problem.exact:
        return
    for row in rows[np.argsort(values)[:20]]:
        found = minimize(
            lambda x: problem.value(space.decode(x)), row, method="L-BFGS-B",
            bounds=[(0, 1)] * space.dim, options={"maxiter": 5},
        )  # fmt: skip
        assert found.fun >= best - 1e-9


def test_the_seed_draws_the_function(problem):
    again, other = PROBLEMS[problem.name](1), PROBLEMS[problem.name](2)
    points = problem.space.decode_all(problem.space.draw(5, np.random.default_rng(0))[0])
    assert [again.value(p) for p in points] == [problem.value(p) for p in points]
    assert [other.value(p) for p in points] != [problem.value(p) for p in points]


@pytest.mark.parametrize("length_scale", [0.1, 0.15])
def test_the_covariance_of_a_draw(length_scale):
    """Without randomness: the covariance is φ(x) · φ(x'), and φ(x) · e_i is the draw with weights e_i."""
    draw = SquaredExponentialDraw.sample(1, 0.0, 1.0, length_scale, np.random.default_rng(0))
    ticks = np.linspace(0, 1, 301)
    phi = SquaredExponentialDraw(draw.nodes, draw.root, np.eye(len(draw.nodes)), length_scale)([ticks])
    expected = np.exp(-0.5 * ((ticks[:, None] - ticks) / length_scale) ** 2)
    np.testing.assert_allclose(phi.T @ phi, expected, atol=3e-8)


def test_draws_in_two_dimensions_have_the_moments_of_the_prior():
    a, b = [], []
    for seed in range(300):
        draw = SquaredExponentialDraw.sample(2, 0.0, 1.0, 0.25, np.random.default_rng(seed))
        values = draw([[0.3], [0.1, 0.4]])
        a.append(values[0, 0])
        b.append(values[0, 1])
    assert np.mean(a) == pytest.approx(0, abs=0.2)
    assert np.var(a) == pytest.approx(1, abs=0.25)
    assert np.corrcoef(a, b)[0, 1] == pytest.approx(math.exp(-0.5 * (0.3 / 0.25) ** 2), abs=0.15)


def test_a_grid_and_single_points_agree():
    draw = SquaredExponentialDraw.sample(3, 0.0, 1.0, 0.15, np.random.default_rng(0))
    axes = [[0.1, 0.2], [0.5, 0.6, 0.9], [0.0]]
    grid = draw(axes)
    assert grid.shape == (2, 3, 1)
    assert grid[1, 2, 0] == pytest.approx(draw([[0.2], [0.9], [0.0]]).item(), abs=1e-9)


def test_uniform_features_are_those_of_the_authors():
    """Their order of draws: b, w, θ; and their formula."""
    rng = np.random.RandomState(7)
    b = rng.uniform(0, 2 * np.pi, 256)
    w = rng.normal(0, 4, (256, 2))
    theta = rng.uniform(0, 1, 256)
    x = np.array([0.3, -2.2])
    expected = math.sqrt(2 / 256) * np.cos(w @ x + b) @ theta
    assert UniformFeatureDraw.sample(0.25, 7)([[0.3], [-2.2]]).item() == pytest.approx(
        expected, abs=1e-12
    )


def test_the_line_has_a_thousand_points_and_an_exact_maximum():
    problem = PROBLEMS["gp-se-1d"](3)
    assert problem.direction == "maximize"
    assert problem.space.size == 1000
    values = [problem.value(p) for p in problem.space.decode_all(problem.space.rows(0, 1000))]
    assert max(values) == problem.optimum
    assert len(set(values)) == 1000


def test_the_three_dimensional_code_is_constant_around_each_grid_point():
    smooth, code = PROBLEMS["gp-rbf-3d"](3), PROBLEMS["gp-rbf-3d-code"](3)
    on, around = {"x1": 0.04, "x2": 0.52, "x3": 1.0}, {"x1": 0.058, "x2": 0.501, "x3": 0.985}
    assert code.value(on) == code.value(around)
    assert code.value(on) == pytest.approx(math.sqrt(10) * smooth.value(on), abs=1e-8)
    grid = np.linspace(0, 1, 26)
    rng = np.random.default_rng(0)
    for x1, x2, x3 in rng.choice(grid, (200, 3)):
        assert code.value({"x1": x1, "x2": x2, "x3": x3}) >= code.optimum
