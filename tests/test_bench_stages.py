"""Contamination and pest control: against the recursions written out, course by course."""

import itertools

import numpy as np
import pytest
from scipy import stats

from augury.bench.problems import problem, stages

COURSES = stages.Courses.drawn(3)


@pytest.mark.parametrize("b", [3.0 / 7.0, 17.0 / 3.0, 30.0])
def test_quantiles_of_the_beta_distribution(b):
    u = np.linspace(0.01, 0.99, 25)
    np.testing.assert_allclose(stages.beta(u, b), stats.beta(1.0, b).ppf(u), rtol=1e-9)


def test_contamination_course_by_course():
    cleaned = np.random.default_rng(0).random(25) < 0.5
    kept = np.zeros(25)
    for course in range(100):
        z = stats.beta(1, 30).ppf(COURSES.start[course])
        for i in range(25):
            caught = stats.beta(1, 17 / 3).ppf(COURSES.spread[i, course])
            cured = stats.beta(1, 3 / 7).ppf(COURSES.cure[i, course])
            z = z - cured * z if cleaned[i] else z + caught * (1 - z)
            kept[i] += z < 0.1
    expected = 1.01 * cleaned.sum() - (kept / 100 - 0.95).sum()
    assert stages.contamination(cleaned, COURSES) == pytest.approx(expected, rel=1e-9)


def test_pests_course_by_course():
    used = list(np.random.default_rng(0).choice(["none", "A", "B", "C", "D"], 25))
    price = {"A": (1.0, 0.2), "B": (0.8, 0.3), "C": (0.7, 0.3), "D": (0.5, 0.0)}
    prices = sum(p * (1 - d * used.count(name) / 25) * used.count(name) for name, (p, d) in price.items())
    above = 0
    for course in range(100):
        b = {"A": 2 / 7, "B": 3 / 7, "C": 3 / 7, "D": 5 / 7}
        grows = {"A": 1 / 7, "B": 2.5 / 7, "C": 2 / 7, "D": 0.5 / 7}
        share = stats.beta(1, 30).ppf(COURSES.start[course])
        for i, name in enumerate(used):
            above += share > 0.1
            if name == "none":
                share += stats.beta(1, 17 / 3).ppf(COURSES.spread[i, course]) * (1 - share)
            else:
                share *= 1 - stats.beta(1, b[name]).ppf(COURSES.cure[i, course])
                b[name] += grows[name] / 25
    assert stages.pests(used, COURSES) == pytest.approx(prices + above / 100, rel=1e-9)


@pytest.mark.parametrize("name", ["contamination-25", "pest-control-25"])
def test_problems_are_of_choices_alone_and_always_the_same(name):
    one, other = problem(name, 0), problem(name, 1)
    rng = np.random.default_rng(0)
    rows, _ = one.space.draw(4, rng)
    points = [one.space.decode(row) for row in rows]
    values = [one(point, rng) for point in points]
    assert values == [other.value(point) for point in points]
    assert len(set(values)) == 4
    assert not one.space.continuous.any()


def test_doing_nothing_is_free_and_bad():
    nothing, everything = np.zeros(25, bool), np.ones(25, bool)
    assert (
        stages.contamination(everything, COURSES) < 25.25
    )  # the limit is kept more often than asked for
    assert stages.contamination(nothing, COURSES) > 15.0
    assert stages.pests(["none"] * 25, COURSES) > 20.0
    for a, b in itertools.pairwise(["none", "D", "A"]):
        # the better the pesticide, the fewer stages above the limit, were they free
        free = [stages.pests([name] * 25, COURSES) - 25 * _price(name) for name in (a, b)]
        assert free[1] < free[0]


def _price(name):
    if name == "none":
        return 0.0
    one = stages.PESTICIDES[name]
    return one.price * (1.0 - one.discount)
