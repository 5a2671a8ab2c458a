import numpy as np
import pytest
from scipy import stats

from augury._errors import DataError
from augury.bench import statistics

VALUES = np.array([[5.0, 3.0, np.nan, 4.0, 1.0], [np.nan, 6.0, 2.0, 2.0, 3.0]])


def test_best_so_far_by_hand():
    np.testing.assert_array_equal(
        statistics.best_so_far(VALUES, "minimize"), [[5, 3, 3, 3, 1], [np.nan, 6, 2, 2, 2]]
    )
    np.testing.assert_array_equal(
        statistics.best_so_far(VALUES, "maximize"), [[5, 5, 5, 5, 5], [np.nan, 6, 6, 6, 6]]
    )


def test_regrets_by_hand():
    np.testing.assert_array_equal(
        statistics.simple_regret(VALUES, 1.0, "minimize"), [[4, 2, 2, 2, 0], [np.nan, 5, 1, 1, 1]]
    )
    np.testing.assert_array_equal(
        statistics.simple_regret(VALUES[:1], 6.0, "maximize"), [[1, 1, 1, 1, 1]]
    )
    # a failure counts as the worst regret of its run, initial design included
    cumulative = statistics.cumulative_regret(VALUES, 1.0, "minimize", skip=1)
    np.testing.assert_array_equal(cumulative, [[2, 6, 9, 9], [5, 6, 7, 9]])
    hopeless = np.array([[3.0, np.nan, np.nan], [np.nan, np.nan, np.nan]])
    cumulative = statistics.cumulative_regret(hopeless, 1.0, "minimize", skip=1)
    np.testing.assert_array_equal(cumulative, [[2, 4], [np.nan, np.nan]])
    in_batches = statistics.cumulative_regret(VALUES, 1.0, "minimize", skip=1, batch=2)
    np.testing.assert_array_equal(in_batches, [[2, 2], [1, 2]])


def test_summary():
    s = statistics.summary(np.array([1.0, 2.0, 3.0, 6.0]))
    assert (s.mean, s.median, s.repeats) == (3.0, 2.5, 4)
    assert s.error == pytest.approx(np.sqrt(14.0 / 3.0) / 2.0)
    assert s.quartiles == (1.75, 3.75)
    assert np.isnan(statistics.summary(np.array([1.0])).error)
    with pytest.raises(DataError, match="at least one number"):
        statistics.summary(np.array([]))


def test_mean_ranks_and_the_critical_difference_of_demsar():
    # Demšar (2006), table 6: four algorithms on 14 data sets, CD = 1.25 at 5 %, ranks as printed there
    table = {
        "C4.5": [.763, .599, .954, .628, .882, .936, .661, .583, .775, 1.0, .940, .619, .972, .957],
        "C4.5+m": [.768, .591, .971, .661, .888, .931, .668, .583, .838, 1.0, .962, .666, .981, .978],
        "C4.5+cf": [.771, .590, .968, .654, .886, .916, .609, .563, .866, 1.0, .965, .614, .9751, .946],
        "C4.5+m+cf": [.798, .569, .967, .657, .898, .931, .685, .625, .875, 1.0, .962, .669, .975, .970],
    }  # fmt: skip
    ranks = statistics.mean_ranks({name: [-v for v in row] for name, row in table.items()})
    assert ranks.problems == 14
    expected = {"C4.5": 3.143, "C4.5+m": 2.000, "C4.5+cf": 2.893, "C4.5+m+cf": 1.964}
    assert ranks.mean == pytest.approx(expected, abs=1e-3)
    assert ranks.critical_difference == pytest.approx(1.25, abs=5e-3)
    # the statistic is 9.28 there; SciPy corrects it upwards for ties
    assert 0.01 < ranks.p_value < stats.chi2.sf(9.28, 3)
    with pytest.raises(DataError, match="at least 2 methods"):
        statistics.mean_ranks({"one": [1.0]})


def test_benjamini_hochberg_by_hand():
    adjusted = statistics.benjamini_hochberg([0.01, 0.04, 0.03, 0.005])
    np.testing.assert_allclose(adjusted, [0.02, 0.04, 0.04, 0.02])
    np.testing.assert_allclose(adjusted, stats.false_discovery_control([0.01, 0.04, 0.03, 0.005]))
    assert len(statistics.benjamini_hochberg([])) == 0


def test_one_sided_tests():
    rng = np.random.default_rng(0)
    base = rng.normal(size=20)
    scores = {"ours": base, "worse": base + 1.0 + 0.1 * rng.normal(size=20), "same": base.copy()}
    worse, same = statistics.one_sided_tests("ours", scores)
    assert (worse.worse, same.worse) == ("worse", "same")
    assert worse.p_value < 1e-6
    assert worse.p_value <= worse.adjusted
    assert same.p_value == 1.0
    assert worse.normal
    reverse = statistics.one_sided_tests("worse", scores)
    assert min(c.p_value for c in reverse) > 0.99


def test_samples_without_spread_are_told_apart_by_their_means():
    constant = {"a": np.array([1.0, 2.0, 3.0]), "b": np.array([2.0, 3.0, 4.0])}
    assert statistics.one_sided_tests("a", constant)[0].p_value == 0.0
    assert statistics.one_sided_tests("b", constant)[0].p_value == 1.0
    flat = {"a": np.zeros(3), "b": np.ones(3)}
    assert statistics.one_sided_tests("a", flat, paired=False)[0].p_value == 0.0


def test_normality():
    rng = np.random.default_rng(0)
    assert statistics.is_normal(rng.normal(3.0, 2.0, 200))
    assert not statistics.is_normal(rng.exponential(size=500) ** 3)
    assert not statistics.is_normal(np.ones(5))


def test_log_efficiency():
    baseline = np.array([[8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]])
    twice = np.array([[7.0, 5.0, 3.0, 1.0]])  # gets there in half of the evaluations
    efficiency = statistics.log_efficiency(twice, baseline, "minimize")
    np.testing.assert_allclose(efficiency[1::2], 1.0)
    assert statistics.log_efficiency(baseline, baseline, "minimize").tolist() == [0.0] * 8
    slow = statistics.log_efficiency(baseline[:, :4], baseline, "minimize")
    assert np.isneginf(slow[-1])
    mirrored = statistics.log_efficiency(-twice, -baseline, "maximize")
    np.testing.assert_array_equal(mirrored, efficiency)
