"""Lunar Lander against values measured with gymnasium 1.4.0 and Box2D 2.3.10.

Builds of Box2D differ in their last digits, and episodes amplify them; hence the tolerances.
"""

import sys

import numpy as np
import pytest

from augury.bench.problem import MissingError
from augury.bench.problems import lunar

STOCK = (0.5, 1.0, 0.4, 0.55, 0.5, 1.0, 0.5, 0.5, 0.0, 0.5, 0.05, 0.05)


def point(weights):
    return {f"w{i}": float(w) for i, w in enumerate(weights)}


def test_the_stock_controller_earns_what_it_should():
    rewards = lunar.rewards(STOCK, range(50))
    assert rewards[:5] == pytest.approx([297.3531, 260.9438, 254.6247, 244.5007, 265.8668], abs=0.01)
    assert np.mean(rewards[:20]) == pytest.approx(263.8832, abs=0.5)
    assert np.mean(rewards) == pytest.approx(264.6337, abs=0.5)
    assert lunar.PROBLEMS["lunar-lander-fixed"](0).value(point(STOCK)) == np.mean(rewards)


def test_random_controllers_crash():
    weights = 2 * np.random.RandomState(0).rand(30, 12)
    means = [np.mean(lunar.rewards(w.tolist(), range(20))) for w in weights]
    first = [-41.128, -113.371, -245.336, -149.617, -146.554, -133.740]
    assert means[:6] == pytest.approx(first, abs=0.1)
    assert np.mean(means) == pytest.approx(-113.5, abs=0.5)
    assert max(means) == pytest.approx(-11.9, abs=0.5)


def test_the_best_known_point_has_its_value():
    problem = lunar.PROBLEMS["lunar-lander"](0)
    assert problem.value(problem.optimal) == pytest.approx(problem.optimum, abs=1.0)
    assert problem.optimum == pytest.approx(280.1, abs=0.1)  # as published, on 50 terrains
    assert not problem.exact


def test_the_noise_comes_from_the_generator():
    problem = lunar.PROBLEMS["lunar-lander"](0)
    seen = [problem(point(STOCK), np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert seen[0] == seen[1] != seen[2]
    assert all(230 < value < 290 for value in seen)


def test_without_noise_every_evaluation_is_the_same(monkeypatch):
    monkeypatch.setattr(lunar, "TERRAINS", range(4))
    problem = lunar.PROBLEMS["lunar-lander-fixed"](0)
    rng = np.random.default_rng(0)
    assert problem.noise == "none"
    assert problem(point(STOCK), rng) == problem(point(STOCK), rng) == problem.value(point(STOCK))


@pytest.mark.parametrize(
    ("weights", "state", "expected"),
    [
        (STOCK, [0, 0, 0, 0, 0, 0, 0, 0], lunar.ENGINES_OFF),
        (STOCK, [0, 0.5, 0, -1, 0, 0, 0, 0], lunar.MAIN),  # 0.25 down, beyond 0.05
        (STOCK, [0, 0.5, 0, 0, -0.4, 0, 0, 0], lunar.LEFT),  # leans right
        (STOCK, [0, 0.5, 0, 0, 0.4, 0, 0, 0], lunar.RIGHT),
        (STOCK, [9, 0.5, 9, 0, 0.4, 0, 0, 0], lunar.MAIN),  # the target angle is at most 0.4
        (STOCK, [0, 0, 0, 0, 0.4, 0, 1, 0], lunar.ENGINES_OFF),  # on the ground angles do not matter
        ([1.0] * 8 + [0.3, 1.0, 0.1, 0.1], [0, 0, 0, 0, 0, 0, 0, 1], lunar.LEFT),  # w8 as it is
    ],
)
def test_the_controller(weights, state, expected):
    assert lunar.action(weights, state) == expected


@pytest.mark.parametrize("name", lunar.PROBLEMS)
@pytest.mark.parametrize("package", ["Box2D", "gymnasium", "pygame"])
def test_a_missing_package_is_named(monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingError, match=rf"{name} needs the package {package}.*augury\[bench\]"):
        lunar.PROBLEMS[name](0)
