"""Robot pushing against values measured with Box2D 2.3.10; builds differ in their last digits."""

import math
import sys

import numpy as np
import pytest

from augury.bench.box2d import box2d
from augury.bench.problem import MissingError
from augury.bench.problems import pushing
from augury.bench.problems.pushing import ONE_HAND, PROBLEMS

ROUNDING = 1e-4


def point(problem, values):
    return dict(zip(problem.space.names, map(float, values), strict=True))


def middle(problem):
    return {name: (p.low + p.high) / 2 for name, p in problem.space.params.items()}


def random_point(problem, seed=0):
    unit = np.random.default_rng(seed).random((1, problem.space.dim))
    return problem.space.decode(unit[0])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.488, 2.152, 2.055, 0.898, 13.862, 4.058, -0.624, 3.918, 9.273, -2.331, 24.168, 3.323,
          0.68, 4.256), -0.191730),
        ((0.218, -0.853, -4.709, 5.485, 14.772, 3.572, -4.812, 1.176, 2.242, 2.339, 28.425, 4.284,
          -1.405, -0.63), -0.080734),
        ((1.976, -4.398, 3.335, 3.413, 7.891, 0.81, -1.846, -1.363, 1.404, -1.228, 29.674, 0.641,
          -2.911, -3.387), -1.689647),
        ((-4, 1, 6, 2, 8, 0, 4, -5, -5, 7, 10, 0, 0, 0), 1.600651),
    ],
)  # fmt: skip
def test_two_hands(values, expected):
    problem = PROBLEMS["robot-push-14"](0)
    assert problem.value(point(problem, values)) == pytest.approx(expected, abs=ROUNDING)


def test_two_hands_that_touch_nothing():
    problem = PROBLEMS["robot-push-14"](0)
    assert problem.value(middle(problem)) == pytest.approx(0, abs=1e-6)
    assert problem.optimum == pytest.approx(11.072737127026487, abs=1e-12)


def test_two_hands_on_average():
    problem = PROBLEMS["robot-push-14"](0)
    values = [problem.value(random_point(problem, seed)) for seed in range(300)]
    # Published for another 300 points: mean -0.39, sd 1.49.
    assert np.mean(values) == pytest.approx(-0.39, abs=4 * 1.49 / math.sqrt(300))
    assert np.std(values) == pytest.approx(1.49, abs=0.5)
    assert max(values) < problem.optimum


def end(name, values):
    problem = PROBLEMS[name](0)
    hand = pushing.towards_disc(point(problem, values), ONE_HAND[name].speed)
    return pushing.push(box2d(name), [pushing.Thing((0.0, 0.0))], [hand])[0]


@pytest.mark.parametrize("name", ["robot-push-3", "robot-push-3-tsrsr"])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((-3, -3, 5), (0, 0)),
        ((2, 1, 10), (-2.150845, -1.075423)),
        ((-4.5, 0.5, 20), (3.867340, -0.429705)),
        ((1.5, -2.5, 3), (-0.010274, 0.017123)),
        ((0.5, 0.5, 8), (-1.886825, -1.886825)),
    ],
)
def test_where_a_hand_that_faces_the_disc_pushes_it(name, values, expected):
    assert end(name, values) == pytest.approx(expected, abs=ROUNDING)


@pytest.mark.parametrize(
    ("values", "fast", "slow"),
    [
        ((-3, -3, 5, 0.7), (1.553603, 1.427328), (0, 0)),
        ((2, 1, 10, 2.0), (-7.662310, -3.829886), (-2.581585, -1.289707)),
        ((-4.5, 0.5, 20, 5.0), (2.881840, -1.678633), (1.717657, -1.053737)),
    ],
)
def test_where_a_hand_at_an_angle_pushes_the_disc(values, fast, slow):
    assert end("robot-push-4", values) == pytest.approx(fast, abs=ROUNDING)
    assert end("robot-push-4-tsrsr", values) == pytest.approx(fast, abs=ROUNDING)
    assert end("robot-push-4-tsrsr-code", values) == pytest.approx(slow, abs=ROUNDING)


@pytest.mark.parametrize("name", ONE_HAND)
def test_the_value_is_the_distance_from_the_goal(name):
    problem = PROBLEMS[name](3)
    untouched = {"x": -5.0, "y": -5.0, "t": 1.0, "angle": 0.7}
    there = {axis: untouched[axis] for axis in problem.space.names}
    distance = math.hypot(*pushing.goal(ONE_HAND[name], 3))
    assert problem.value(there) == pytest.approx((0 if "tsrsr" in name else 5) - distance)
    assert problem.regret(problem.value(there)) == pytest.approx(distance)


def test_the_ranges_that_paper_and_code_of_ts_rsr_state():
    upper = {
        n: PROBLEMS[n](0).space.params["angle"].high for n in PROBLEMS if n.startswith("robot-push-4")
    }
    assert upper == {
        "robot-push-4": 2 * math.pi,
        "robot-push-4-tsrsr": 2 * math.pi,
        "robot-push-4-tsrsr-code": math.pi,
    }


def test_goals():
    drawn = np.random.RandomState(0).uniform(-5, 5, (10, 2))  # as the code of ts-rsr does, in 3-D
    assert np.array(pushing.TSRSR_GOALS_3D) == pytest.approx(drawn, abs=5.1e-5)
    assert pushing.goal(ONE_HAND["robot-push-3-tsrsr"], 9) == (2.7816, 3.7001)
    assert pushing.goal(ONE_HAND["robot-push-4-tsrsr"], 0) == (2.7562, 0.0205)
    assert pushing.goal(ONE_HAND["robot-push-4-tsrsr-code"], 9) == (-1.8874, -0.6841)
    for variant in ONE_HAND.values():
        goals = [pushing.goal(variant, seed) for seed in range(20)]
        assert len(set(goals)) == 20
        assert np.abs(goals).max() <= 5
        assert goals == [pushing.goal(variant, seed) for seed in range(20)]


def test_a_goal_in_three_dimensions_can_be_reached():
    """The disc goes straight on, so the side opposite to the goal and the right time suffice."""
    problem = PROBLEMS["robot-push-3"](0)
    x, y = pushing.goal(ONE_HAND["robot-push-3"], 0)
    far = math.hypot(x, y)
    points = [
        {"x": -r * x / far, "y": -r * y / far, "t": float(t)}
        for r in np.linspace(2, 4.5, 12)
        for t in range(1, 31)
    ]
    assert max(map(problem.value, points)) > problem.optimum - 0.02


@pytest.mark.parametrize("name", PROBLEMS)
def test_noise_comes_from_the_generator_and_can_be_left_out(name):
    problem = PROBLEMS[name](0)
    angle = math.pi / 4 if problem.space.dim < 14 else 0.0
    values = {"x": 1.5, "y": 1.5, "t": 8.0, "angle": angle, "vx1": 6.0, "x1": -2.0, "y1": 2.0}
    params = {**middle(problem), **{n: v for n, v in values.items() if n in problem.space.names}}
    seen = [problem(params, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert seen[0] == seen[1] != seen[2]
    assert problem.value(params) == problem.value(params) != seen[0]
    assert PROBLEMS[name](0).value(params) == problem.value(params)


@pytest.mark.parametrize("name", ONE_HAND)
@pytest.mark.parametrize("place", [(0.0, 0.0), (0.0, 3.0), (-3.0, 0.0)])
def test_hands_on_the_axes_and_on_the_disc_give_numbers(name, place):
    problem = PROBLEMS[name](0)
    params = {**middle(problem), "x": place[0], "y": place[1]}
    assert math.isfinite(problem.value(params))


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_missing_package_is_named(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "Box2D", None)
    with pytest.raises(MissingError, match=rf"{name} needs the package Box2D.*augury\[bench\]"):
        PROBLEMS[name](0)
