"""BUCB and UCB-PE against their papers in NumPy, on a grid of the unit interval and in a box."""

import math

import numpy as np
import pytest

from augury import Algorithm, Float, Optimizer, Space
from augury.core.keys import fold, generator
from augury.maximizers import Exhaustive
from augury.policies import TSRSR, UCB, UCBPE, Desautels
from augury.policies.thompson import PathScore
from augury.policies.ts_rsr import MeanScore
from augury.policies.ucb_pe import LCBScore
from augury.surrogates import GaussianProcess
from known_line import (
    GRID,
    KEY,
    POOL,
    X,
    Y,
    choose,
    fitted,
    hallucinate,
    predict,
    rows,
    wavy,
)

BOX = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))


@pytest.fixture(scope="module")
def posterior():
    return fitted()


@pytest.mark.parametrize("t", [1, 7])
def test_the_bound_of_desautels(t):
    alpha = 2.0 * math.log(500 * t**2 * math.pi**2 / (6 * 0.05))
    assert Desautels(500, 0.05, 1.0)(t, None) == pytest.approx(math.sqrt(alpha))
    assert Desautels(500, 0.05, 0.2, 0.7)(t, None) == pytest.approx(
        math.sqrt(0.2 * alpha) * math.exp(0.7)
    )


def test_bucb_hallucinates_with_the_bound_of_desautels(posterior):
    beta = Desautels()(5, posterior)
    expected = hallucinate(X, Y, [], lambda mean, var: mean + beta * np.sqrt(var))
    indices, picks = choose(UCB(Desautels()), posterior, t=5, count=3)
    assert indices == expected
    assert picks.info[0]["beta"] == beta


def explored(beta, count, region):
    """Algorithm 1 of Contal et al., by dense algebra; a pool gives no point twice."""
    mean, var = predict(X, Y, GRID)
    chosen = [int(np.argmax(mean + beta * np.sqrt(var)))]
    floor = (mean - beta * np.sqrt(var)).max()
    relevant = mean + 2.0 * beta * np.sqrt(var) >= floor
    for _ in range(count - 1):
        observed = np.append(X, GRID[chosen])
        _, left = predict(observed, np.zeros(len(observed)), GRID)
        left[chosen] = -np.inf
        if region:
            left[~relevant] = -np.inf
        chosen.append(int(np.argmax(left)))
    return chosen, relevant


@pytest.mark.parametrize("beta", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("region", [True, False])
def test_ucb_pe_is_algorithm_1(posterior, beta, region):
    expected, relevant = explored(beta, 5, region)
    indices, picks = choose(UCBPE(beta, region), posterior, count=5)
    assert indices == expected
    assert [info["explores"] for info in picks.info] == [False, True, True, True, True]
    if beta < 0.1:
        assert 0.0 < relevant.mean() < 0.9, "the region must be a part of the grid"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("policy", "rough"), [(UCBPE(0.05), LCBScore), (TSRSR(), MeanScore | PathScore)])
def test_points_asked_one_by_one_are_those_asked_together(posterior, seed, policy, rough):
    """Searches for the region's floor, or for the largest mean and f*, see few points, by their keys."""
    keys = [fold(KEY, seed, i) for i in range(4)]

    def choose(keys, before=()):
        def maximize(score, *, key, without=(), anew=True, judged=True):
            out = {*before, *(point.index for point in without)} if anew else set()
            if isinstance(score, rough):
                out = set(range(len(GRID))) - set(generator(key).integers(len(GRID), size=3).tolist())
            return Exhaustive()(score, POOL, t=1, key=key, exclude=out)

        pending = rows(GRID[list(before)])
        picks = policy.choose(
            posterior, pending, None, t=1, maximize=maximize, candidates=None, keys=keys
        )
        return [
            (point.index, info.get("f_star"))
            for point, info in zip(picks.points, picks.info, strict=True)
        ]

    together = choose(keys)
    indices = [index for index, _ in together]
    assert together == [choose([keys[i]], indices[:i])[0] for i in range(4)]


def test_ucb_pe_does_not_explore_for_ever_while_others_are_pending(posterior):
    """The pending points are far from where the bound is largest."""
    (top,), _ = choose(UCB(2.0), posterior)
    far = [x for x in (0.05, 0.5, 0.95) if abs(x - GRID[top]) > 0.3]
    indices, picks = choose(UCBPE(2.0), posterior, pending=far)
    assert indices == [top]
    assert picks.info[0]["explores"] is False
    _, picks = choose(UCBPE(2.0), posterior, pending=[*far, GRID[top] + 0.004])
    assert picks.info[0]["explores"] is True


def test_ucb_pe_explores_where_pending_points_leave_little_to_know(posterior):
    """They are beside the point of largest bound, with clearly lower bounds of their own."""
    mean, var = predict(X, Y, GRID)
    bound = mean + 2.0 * np.sqrt(var)
    top = int(np.argmax(bound))
    beside = [top - 5, top + 5]
    assert bound[beside].max() < bound[top] - 0.1 * np.sqrt(var[top])
    observed = np.concatenate([X, GRID[beside]])
    _, left = predict(observed, np.zeros(len(observed)), GRID[[top]])
    assert left[0] < 0.25 * var[top]
    _, picks = choose(UCBPE(2.0), posterior, pending=GRID[beside])
    assert picks.info[0]["explores"] is True


@pytest.mark.parametrize("level", [1000.0, -1000.0])
def test_ucb_pe_on_a_box_takes_one_point_by_its_bound_and_explores_with_the_others(level):
    def batch(policy):
        opt = Optimizer(BOX, Algorithm("gp", policy), "maximize", seed=0, initial=6)
        for trial in opt.ask(6):
            opt.tell(trial, level - 100.0 * (trial.params["x"] - 0.4) ** 2 - trial.params["y"])
        return opt.ask(4)

    first, *others = batch(UCBPE(2.0))
    assert [first.info["explores"], *(trial.info["explores"] for trial in others)] == [False, *[True] * 3]
    assert first.params == batch(UCB(2.0))[0].params


@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_ucb_pe_explores_the_relevant_region_however_little_a_noisy_value_tells(noise):
    process = GaussianProcess("matern52", 0.3, 1.0, noise, standardize=False)
    for seed in range(4):
        both = [
            Optimizer(BOX, Algorithm(process, UCBPE(2.0)), "maximize", seed=seed, initial=8)
            for _ in range(2)
        ]
        for opt in both:
            for trial in opt.ask(8):
                opt.tell(trial, wavy(trial.params))
        together, single = both[0].ask(4), [both[1].ask() for _ in range(4)]
        for trials in (together, single):
            assert [trial.info["explores"] for trial in trials] == [False, True, True, True]
        assert together[0].params == single[0].params
        posterior = both[0]._model.fitted().posterior
        places = np.random.default_rng(0).random((4096, 2))
        mean, var = posterior.predict(places)
        floor = (mean - 2.0 * np.sqrt(var)).max()
        for trial in together[1:]:
            mean, var = posterior.predict(BOX.encode(trial.params))
            assert mean + 4.0 * np.sqrt(var) >= floor - 1e-6


def test_ucb_pe_explores_where_an_evaluated_point_has_the_largest_bound():
    """It is in a corner; then one point is the most uncertain one, and all others explore."""
    both = [Optimizer(BOX, Algorithm("gp", UCBPE(0.2)), "maximize", seed=0) for _ in range(2)]
    for opt in both:
        for x in np.linspace(0.0, 1.0, 5):
            for y in (0.0, 0.4, 1.0):
                opt.tell({"x": x, "y": y}, 3.0 * x + y)
    together, single = both[0].ask(4), [both[1].ask() for _ in range(4)]
    assert "explored" in together[0].info
    assert [trial.info["explores"] for trial in single] == [False, True, True, True]
    assert [trial.params for trial in single] == [trial.params for trial in together]
