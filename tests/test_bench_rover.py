"""Rover paths against values measured with SciPy 1.17.1."""

import json
from importlib.resources import files

import numpy as np
import pytest

from augury.bench.problems import rover
from augury.bench.problems.rover import LARGE, PROBLEMS, SMALL

DIAGONAL = (np.linspace(0.05, 0.95, 12)[1:-1].repeat(2) + 0.1) / 1.2


def point(u):
    return {f"u{i}": float(x) for i, x in enumerate(u)}


@pytest.mark.parametrize(
    ("u", "expected"),
    [
        (DIAGONAL, 0.094909),
        (np.linspace(0, 1, 20), -6.678996),
        *zip(
            np.random.RandomState(0).rand(6, 20),
            (-9.738939, -15.537060, -4.675962, -9.536759, -7.007826, -15.826009),
            strict=True,
        ),
    ],
)
def test_small_domain(u, expected):
    assert PROBLEMS["rover-20"](0).value(point(u)) == pytest.approx(expected, abs=1e-5)


def test_small_domain_on_average():
    value = PROBLEMS["rover-20"](0).value
    values = [value(point(u)) for u in np.random.RandomState(1).rand(2000, 20)]
    assert np.mean(values) == pytest.approx(-7.48, abs=0.01)
    assert np.std(values) == pytest.approx(4.67, abs=0.01)
    assert max(values) == pytest.approx(3.47, abs=0.01)
    assert min(values) == pytest.approx(-26.6, abs=0.05)


def test_large_domain():
    value = PROBLEMS["rover-60"](0).value(point(np.random.RandomState(0).rand(60)))
    assert value == pytest.approx(-26.152088, abs=1e-5)


def test_the_obstacles_come_with_their_origin_and_licence():
    data = json.loads(files("augury.bench.problems").joinpath("rover_obstacles.json").read_text())
    assert "Ensemble-Bayesian-Optimization" in data["origin"]
    assert data["licence"][0] == "MIT License"
    for domain, count in ((SMALL, 30), (LARGE, 113)):
        centres = rover.centres(domain.obstacles)
        assert centres.shape == (count, 2)
        assert len(np.unique(centres, axis=0)) == count
        assert centres.min() > 0
        assert centres.max() < 1


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_best_known_point_has_its_value(name):
    problem = PROBLEMS[name](0)
    assert problem.value(problem.space.check(problem.optimal)) == pytest.approx(problem.optimum, abs=1e-4)
    assert problem.optimum < 5 - 0.05 * np.hypot(0.9, 0.9)  # the straight way without obstacles
    assert not problem.exact


def test_costs_do_not_add_up_and_edges_are_half_open():
    c = rover.centres("small")[5]
    low, high = c - 0.05, c + 0.05
    places = np.array([c, low, high, [0.0, 0.0], [1.0, 0.5], [-0.01, 0.5], [0.9, 0.05]])
    assert rover.density(SMALL, places).tolist() == [20.05, 20.05, 0.05, 0.05, 20.05, 20.05, 0.05]


def test_a_path_that_misses_start_and_goal_pays_for_it():
    there = np.linspace([0.1, 0.2], [0.8, 0.9], 30)
    way = rover.path(LARGE, there)
    assert way[0] == pytest.approx([0.1, 0.2], abs=1e-9)
    plain = rover.reward(rover.Domain("large", 0.025, 30, forced=True), there)
    assert rover.path(rover.Domain("large", 0.025, 30, forced=True), there)[0] == pytest.approx(0.05)
    assert rover.reward(LARGE, there) < plain


@pytest.mark.parametrize("name", PROBLEMS)
def test_noise_comes_from_the_generator_and_can_be_left_out(name):
    problem = PROBLEMS[name](0)
    params = point(np.random.default_rng(3).random(problem.space.dim))
    seen = [problem(params, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert seen[0] == seen[1] != seen[2]
    assert problem.value(params) == problem.value(params) != seen[0]
    assert PROBLEMS[name](1).value(params) == problem.value(params)
    assert seen[0] == pytest.approx(problem.value(params), abs=0.5)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("u", [0.0, 0.5, 1.0])
def test_points_that_coincide_give_a_number(name, u):
    problem = PROBLEMS[name](0)
    assert np.isfinite(problem.value(point(np.full(problem.space.dim, u))))
