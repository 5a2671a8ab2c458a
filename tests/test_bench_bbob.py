import sys

import numpy as np
import pytest
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from augury._errors import DataError
from augury.bench.problem import MissingError
from augury.bench.problems.bbob import DIMENSIONS, FUNCTIONS, PROBLEMS, TARGETS, runtime_profile

cocoex = pytest.importorskip("cocoex")


def test_the_table():
    assert len(PROBLEMS) == 24 * 6
    assert "bbob-f24-d40" in PROBLEMS


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_the_optimum_of_every_function_and_instance(dimension):
    rng = np.random.default_rng(0)
    for function in FUNCTIONS:
        for seed in range(15):
            problem = PROBLEMS[f"bbob-f{function}-d{dimension}"](seed)
            assert problem.space.check(problem.optimal) == problem.optimal
            assert problem.value(problem.optimal) == pytest.approx(problem.optimum, abs=1e-6)
            best = problem.space.encode(problem.optimal)
            near = np.clip(best + rng.normal(scale=1e-3, size=(3, dimension)), 0, 1)
            far = rng.random((10, dimension))
            points = problem.space.decode_all(np.concatenate([near, far]))
            assert min(problem.value(point) for point in points) >= problem.optimum - 1e-9


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_descent_ends_below_the_optimum(function):
    problem = PROBLEMS[f"bbob-f{function}-d3"](0)
    starts = np.random.default_rng(0).uniform(-5, 5, (200, 3))

    def value(x):
        return problem.value({"x1": x[0], "x2": x[1], "x3": x[2]})

    values = [value(start) for start in starts]
    assert min(values) >= problem.optimum
    with threadpool_limits(1):
        for start in starts[np.argsort(values)[:20]]:
            found = minimize(
                value, start, method="L-BFGS-B", bounds=[(-5, 5)] * 3, options={"maxiter": 10}
            )
            assert found.fun >= problem.optimum - 1e-9


def test_values_are_those_of_the_suite():
    suite = cocoex.Suite("bbob", "instances: 2", "dimensions: 3")
    assert len(suite) == 24
    for official in suite:
        problem = PROBLEMS[f"bbob-f{official.id_function}-d3"](1)
        params = {"x1": 0.5, "x2": -1.25, "x3": 3.0}
        assert problem.value(params) == official([0.5, -1.25, 3.0])


def test_the_seed_chooses_the_instance():
    first, again, other = (PROBLEMS["bbob-f8-d2"](seed) for seed in (0, 15, 1))
    assert first.optimal == again.optimal
    assert first.optimal != other.optimal
    assert "instance 2" in other.reference
    assert first.budget == 40


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cocoex", None)
    with pytest.raises(MissingError, match=r"bbob-f1-d2 needs the package cocoex.*coco-experiment"):
        PROBLEMS["bbob-f1-d2"](0)


def test_the_51_targets_of_coco():
    assert len(TARGETS) == 51
    assert TARGETS[0] == 100
    assert TARGETS[-1] == pytest.approx(1e-8)
    np.testing.assert_allclose(np.diff(np.log10(TARGETS)), -0.2)


def test_a_profile_by_hand():
    regrets = [
        [200.0, 50.0, 5.0, 80.0],  # 100 after 2, 10 after 3
        [np.nan, 5.0, 0.5],  # 100 and 10 after 2, 1 after 3; it ended there
    ]
    profile = runtime_profile(regrets, [0, 1, 2, 3, 4, 100], targets=[100.0, 10.0, 1.0])
    np.testing.assert_allclose(profile, [0, 0, 3 / 6, 5 / 6, 5 / 6, 5 / 6])


def test_a_profile_with_the_targets_of_coco():
    profile = runtime_profile([[1e3, 1.0, 0.0], [1e3, 1e3, 1e3]], [1, 2, 3])
    np.testing.assert_allclose(profile, [0, 11 / 102, 51 / 102])


def test_a_profile_needs_a_run():
    with pytest.raises(DataError, match="got none"):
        runtime_profile([], [1])
