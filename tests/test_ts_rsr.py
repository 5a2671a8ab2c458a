"""TS-RSR against a NumPy transcription of its paper, on a grid of the unit interval."""

import numpy as np
import pytest

from augury.core.keys import fold
from augury.maximizers import Exhaustive
from augury.policies import TSRSR
from augury.policies.thompson import PathScore
from augury.policies.ts_rsr import RatioScore
from augury.surrogates.base import Path
from known_line import (
    GRID,
    KEY,
    POOL,
    X,
    Y,
    choose,
    fitted,
    predict,
    rows,
)


@pytest.fixture(scope="module")
def posterior():
    return fitted()


def ratios(posterior, count, pending=(), key=KEY):
    """Eq. 4.2 of ts-rsr by dense algebra, with the policy's draws: the points, the f* and the ratios."""
    mean, _ = predict(X, Y, GRID)
    chosen, stars, least = [], [], []
    for number in range(count):
        own, redraw = fold(key, number), 0
        star = posterior.sample(key=fold(own, 0))(rows(GRID)).max()
        while star <= mean.max():
            redraw += 1
            star = posterior.sample(key=fold(own, 0, redraw))(rows(GRID)).max()
        observed = np.concatenate([X, np.asarray(pending), GRID[chosen]])
        _, var = predict(observed, np.zeros(len(observed)), GRID)
        ratio = (star - mean) / np.sqrt(var)
        ratio[chosen] = np.inf  # a pool gives no point twice
        chosen.append(int(np.argmin(ratio)))
        stars.append(star)
        least.append(ratio[chosen[-1]])
    return chosen, stars, least


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pending", [(), (0.31, 0.5)])
def test_ts_rsr_is_equation_4_2(posterior, seed, pending):
    key = fold(KEY, seed)
    expected, stars, least = ratios(posterior, 6, pending, key)
    indices, picks = choose(TSRSR(redraws=100), posterior, count=6, pending=pending, key=key)
    assert indices == expected
    np.testing.assert_allclose([info["f_star"] for info in picks.info], stars, rtol=1e-6)
    np.testing.assert_allclose([np.exp(-point.value) for point in picks.points], least, rtol=1e-5)


class Low(Path):
    """A draw whose maximum is below every mean."""

    def __call__(self, x):
        return -1e3 + 0.0 * x[..., 0]


def test_ts_rsr_without_a_draw_above_the_mean_exploits_and_says_so(posterior, monkeypatch):
    monkeypatch.setattr(type(posterior), "sample", lambda self, *, key, scale=1.0: Low())
    indices, picks = choose(TSRSR(redraws=3), posterior)
    mean, _ = predict(X, Y, GRID)
    assert indices == [np.argmax(mean)]
    info = picks.info[0]
    assert info["redraws"] == 3
    assert info["f_star_is"] == "just above the largest mean, since no draw was"
    assert mean.max() < info["f_star"] < mean.max() + 1e-5


def test_ts_rsr_raises_f_star_when_its_search_finds_a_larger_mean(posterior):
    """The maximizer of the mean and of draws looks at a part of the grid only."""

    def maximize(score, *, key, without=(), anew=True, judged=True):
        hidden = set(range(20, 45)) if not anew else set()  # where the mean is largest
        return Exhaustive()(score, POOL, t=1, key=key, exclude=hidden)

    mean, _ = predict(X, Y, GRID)
    picks = TSRSR().choose(
        posterior,
        rows(()),
        None,
        t=1,
        maximize=maximize,
        candidates=None,
        keys=[fold(KEY, i) for i in range(4)],
    )
    assert np.argmax(mean) in range(20, 45)
    for point, info in zip(picks.points, picks.info, strict=True):
        assert info["f_star"] > mean[point.index]


def test_ts_rsr_raises_the_smallest_f_star_to_the_largest_mean_that_its_search_finds(
    posterior, monkeypatch
):
    """No draw is above any mean, and the maximizer of the mean does not see where it is largest."""
    monkeypatch.setattr(type(posterior), "sample", lambda self, *, key, scale=1.0: Low())

    def maximize(score, *, key, without=(), anew=True, judged=True):
        return Exhaustive()(score, POOL, t=1, key=key, exclude=set() if anew else set(range(20, 45)))

    picks = TSRSR(redraws=3).choose(
        posterior, rows(()), None, t=1, maximize=maximize, candidates=None, keys=[KEY]
    )
    mean, _ = predict(X, Y, GRID)
    assert picks.points[0].index == np.argmax(mean)
    assert mean.max() < picks.info[0]["f_star"] < mean.max() + 1e-5
    assert picks.info[0]["best_mean"] == pytest.approx(mean.max())


def climbing(posterior):
    """A maximizer that finds the next larger mean whenever it searches for the least ratio."""
    mean = np.asarray(posterior.mean(rows(GRID)))
    order = np.argsort(mean)

    def maximize(score, *, key, without=(), anew=True, judged=True):
        low = set(order[50:].tolist())  # what the searches for the mean and for draws do not see
        if not isinstance(score, RatioScore):
            return Exhaustive()(score, POOL, t=1, key=key, exclude=low)
        above = [i for i in order if mean[i] >= score.best]
        others = set(range(len(GRID))) - set(above[:1])
        return Exhaustive()(score, POOL, t=1, key=key, exclude=others if above else set())

    return mean, maximize


@pytest.mark.parametrize("looks", [100, 3])
@pytest.mark.parametrize("redraws", [1, 2, 16])
def test_f_star_is_above_the_mean_of_the_point_however_often_the_search_finds_a_larger_one(
    posterior, monkeypatch, redraws, looks
):
    """At least 50 times here, far more often than f* may be drawn anew."""
    monkeypatch.setattr(type(posterior), "sample", lambda self, *, key, scale=1.0: Low())
    monkeypatch.setattr("augury.policies.ts_rsr.LOOKS", looks)
    mean, maximize = climbing(posterior)
    keys = [fold(KEY, i) for i in range(2)]
    picks = TSRSR(redraws).choose(
        posterior, rows(()), None, t=1, maximize=maximize, candidates=None, keys=keys
    )
    for point, info in zip(picks.points, picks.info, strict=True):
        assert mean[point.index] < info["f_star"] < mean[point.index] + 1e-5
        assert info["best_mean"] == pytest.approx(mean[point.index], rel=1e-12)
        assert info["f_star_is"] == "just above the largest mean, since no draw was"
        assert info["redraws"] == redraws
    assert (picks.points[1].index == np.argmax(mean)) == (looks == 100)


def test_a_draws_maximum_is_at_least_its_value_where_the_mean_is_largest(posterior):
    """The maximizer of draws misses that place."""
    mean, _ = predict(X, Y, GRID)

    def maximize(score, *, key, without=(), anew=True, judged=True):
        hidden = set(range(100)) if isinstance(score, PathScore) else set()
        return Exhaustive()(score, POOL, t=1, key=key, exclude=hidden)

    for seed in range(20):
        key = fold(KEY, seed)
        at_top = posterior.sample(key=fold(key, 0))(rows(GRID))[np.argmax(mean)]
        if at_top > mean.max() + 1e-3:
            picks = TSRSR().choose(
                posterior, rows(()), None, t=1, maximize=maximize, candidates=None, keys=[key]
            )
            assert picks.info[0]["redraws"] == 0
            assert picks.info[0]["f_star"] >= at_top - 1e-9
