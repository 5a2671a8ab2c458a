"""Policies for batches against NumPy transcriptions of their papers, on a grid of the unit interval."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from augury import Algorithm, AuguryError, Float, Int, Optimizer, Space
from augury.core.keys import fold, generator
from augury.maximizers import Best, Exhaustive
from augury.maximizers.scoring import values
from augury.policies import EI, QEI, TSRSR, UCB, UCBPE, Desautels, DPPThompson, StochasticPolicy, Thompson
from augury.policies.thompson import PathScore
from augury.policies.ts_rsr import MeanScore, RatioScore
from augury.policies.ucb_pe import LCBScore
from augury.surrogates import GaussianProcess, NeuralTangent, NTKProcess
from augury.surrogates.base import Path
from augury.surrogates.gp_posterior import GPPosterior
from known_line import (
    GRID,
    KEY,
    NOISE,
    POOL,
    VARIANCE,
    X,
    Y,
    choose,
    fitted,
    hallucinate,
    k,
    predict,
    rows,
)

ALL = (
    EI(),
    QEI(),
    UCB(),
    UCB(Desautels()),
    UCBPE(),
    Thompson(),
    DPPThompson(),
    StochasticPolicy(),
    TSRSR(),
)


@pytest.fixture(scope="module")
def posterior():
    return fitted()


# -------------------------------------------------------------------------------- TS-RSR


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


# --------------------------------------------------------------- batches and single points


@pytest.mark.parametrize("policy", [p for p in ALL if not isinstance(p, DPPThompson)], ids=repr)
def test_the_first_point_of_a_batch_is_that_of_a_batch_of_one(posterior, policy):
    batch, _ = choose(policy, posterior, count=5)
    assert batch[0] == choose(policy, posterior)[0][0]
    assert len(set(batch)) == 5


@pytest.mark.parametrize("policy", [EI(), QEI(), UCB(2.0), UCBPE(2.0), TSRSR()], ids=repr)
def test_a_batch_is_as_many_single_points_with_those_before_pending(posterior, policy):
    batch, _ = choose(policy, posterior, count=4)
    for i in range(1, 4):
        alone, _ = choose(policy, posterior, pending=GRID[batch[:i]], number=i, taken=batch[:i])
        assert alone == [batch[i]]


def test_one_point_of_each_batch_rule_is_that_of_its_sequential_rule(posterior):
    single = {Thompson(): DPPThompson(), EI(): QEI(), UCB(2.0): UCBPE(2.0)}
    for sequential, batch in single.items():
        keys = [fold(KEY, seed) for seed in range(3)]
        assert [choose(batch, posterior, key=key)[0] for key in keys] == [
            choose(sequential, posterior, key=key)[0] for key in keys
        ]


# -------------------------------------------------------------------------- BUCB and UCB-PE


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


# ------------------------------------------------------------------------------------- qEI


def joint(points):
    """Mean and covariance of the process at some points, by dense algebra."""
    A = k(X, X) + (NOISE + 1e-8 * VARIANCE) * np.eye(len(X))
    cross = k(points, X)
    return cross @ np.linalg.solve(A, Y), k(points, points) - cross @ np.linalg.solve(A, cross.T)


@pytest.mark.parametrize("pending", [[0.5], [0.31, 0.5, 0.85]])
def test_qei_is_what_a_point_adds_to_the_expected_improvement_of_the_batch(posterior, pending):
    """E(max f(P ∪ x) − incumbent)⁺ − E(max f(P) − incumbent)⁺ by a million joint draws."""
    incumbent = posterior.incumbent()
    places = np.array([0.0, 0.2, 0.33, 0.52, 0.9])
    score = QEI(4096).score(posterior, rows(np.array(pending)), incumbent, key=KEY)
    for x, value in zip(places, values(score, rows(places)), strict=True):
        mean, covariance = joint(np.append(pending, x))
        draws = np.random.default_rng(0).multivariate_normal(mean, covariance, 1_000_000)
        before = np.maximum(draws[:, :-1].max(1) - incumbent, 0.0)
        added = np.maximum(draws.max(1) - incumbent, 0.0) - before
        error = added.std() / 1000.0
        assert math.exp(value) == pytest.approx(added.mean(), abs=4.0 * error + 0.01 * added.mean())


def test_a_qei_batch_is_spread(posterior):
    indices, _ = choose(QEI(), posterior, count=3)
    assert np.diff(sorted(indices)).min() > 3


# -------------------------------------------------------------------------------------- SP


@pytest.mark.parametrize("acquisition", ["mean", "ei"])
def test_sp_draws_from_a_boltzmann_distribution(posterior, acquisition):
    mean, var = predict(X, Y, GRID)
    if acquisition == "ei":
        z = (mean - posterior.incumbent()) / np.sqrt(var)
        a = np.sqrt(var) * (stats.norm.pdf(z) + z * stats.norm.cdf(z))
    else:
        a = mean
    weights = np.exp(3.0 * math.log(len(X) + 1.0) * a / (a.max() - a.min()))
    p = (weights / weights.sum())[:100].reshape(10, 10).sum(1)
    policy = StochasticPolicy(acquisition)
    draws = 1000
    slope = choose(policy, posterior)[1].info[0]["beta"]
    assert slope == pytest.approx(3.0 * math.log(len(X) + 1.0) / (a.max() - a.min()), rel=1e-5)
    indices = [choose(policy, posterior, key=fold(KEY, i))[0][0] for i in range(draws)]
    counts = np.bincount(np.array([i for i in indices if i < 100]) // 10, minlength=10)
    error = np.sqrt(p * (1.0 - p) / draws) + 1.0 / draws
    assert np.all(np.abs(counts / draws - p) < 4.0 * error)


def test_sp_is_uniform_where_the_acquisition_is_flat(posterior):
    flat = SimpleNamespace(mean=lambda x: np.ones(len(x)), observations=5, incumbent=lambda: 1.0)
    indices = [choose(StochasticPolicy(), flat, key=fold(KEY, i))[0][0] for i in range(200)]
    assert np.mean(indices) == pytest.approx(50.0, abs=4.0 * 29.0 / math.sqrt(200))


# ---------------------------------------------------------------------------------- DPP-TS

K3 = np.array([[1.0, 0.9, 0.1], [0.9, 1.2, 0.0], [0.1, 0.0, 0.5]])
P3 = np.array([0.6, 0.3, 0.1])
NOISE3 = 0.25


class Three:
    """Three points, where draws have their maximum with probabilities P3 and covariance K3."""

    noise_std = math.sqrt(NOISE3)

    def __init__(self):
        self.drawn = 0

    def sample(self, *, key, scale=1.0):
        self.drawn += 1

    def joint(self, xs):
        where = xs[:, 0].astype(int)
        return np.zeros(len(where)), K3[np.ix_(where, where)]


def three_points(count, pending, policy, seed):
    """The points that DPP-TS picks, how often each was replaced, and the number of draws."""

    def maximize(score, *, key, without=(), anew=True, judged=True):
        i = int(generator(key).choice(3, p=P3))
        return Best(np.array([float(i)]), i, 0.0, 1.0)

    posterior = Three()
    picks = policy.choose(
        posterior,
        np.array(pending, dtype=float).reshape(-1, 1),
        None,
        t=1,
        maximize=maximize,
        candidates=None,
        keys=[fold(KEY, seed, number) for number in range(count)],
    )
    swaps = [info["swaps"] for info in picks.info]
    return [point.index for point in picks.points], swaps, posterior.drawn


def volume(members, weight):
    K = K3[np.ix_(members, members)]
    return np.linalg.det(np.eye(len(K)) + weight / NOISE3 * K)


@pytest.mark.parametrize(("pending", "weight"), [((), 1.0), ((), 0.0), ((1,), 2.0)])
def test_dpp_ts_samples_its_distribution(pending, weight):
    """P(x1, x2) ∝ p(x1) p(x2) det(I + λσ⁻²K), here with a chain that is long enough."""
    target = np.array(
        [[P3[a] * P3[b] * volume([*pending, a, b], weight) for b in range(3)] for a in range(3)]
    )
    target /= target.sum()
    runs = 300
    counts = np.zeros((3, 3))
    for seed in range(runs):
        (a, b), _, _ = three_points(2, pending, DPPThompson(8, weight), seed)
        counts[a, b] += 1
    error = np.sqrt(target * (1.0 - target) / runs) + 1.0 / runs
    assert np.all(np.abs(counts / runs - target) < 4.0 * error)


@pytest.mark.parametrize(("pending", "weight"), [((1,), 2.0), ((0, 2), 0.5)])
def test_a_step_of_dpp_ts_accepts_by_the_volumes_with_the_pending_points(pending, weight):
    """P(accepted) = Σ p(x) p(y) min(1, det(pending, y) / det(pending, x)) for a batch of one point."""
    V = np.array([volume([*pending, a], weight) for a in range(3)])
    p = float(P3 @ np.minimum(1.0, V[None, :] / V[:, None]) @ P3)
    runs, policy = 200, DPPThompson(1, weight)
    accepted = np.mean([three_points(1, pending, policy, seed)[1] for seed in range(runs)])
    assert abs(accepted - p) < 4.0 * math.sqrt(p * (1.0 - p) / runs) + 1.0 / runs


@pytest.mark.parametrize("count", [2, 5])
def test_dpp_ts_makes_two_steps_for_every_point_of_the_batch(count):
    assert three_points(count, (), DPPThompson(), 0)[2] == count + 2 * count
    assert three_points(count, (1,), DPPThompson(), 0)[2] == count + 2 * count
    assert three_points(count, (), DPPThompson(swaps=3), 0)[2] == count + 3


def test_the_volume_of_dpp_ts_has_the_noise_variance():
    members = [Best(np.array([float(i)]), i, 0.0, 1.0) for i in (0, 2)]
    log_det = DPPThompson(weight=2.0)._log_det(Three(), np.array([[1.0]]), members)
    assert math.exp(log_det) == pytest.approx(volume([1, 0, 2], 2.0))


def test_a_dpp_ts_batch_tells_more_than_one_of_thompson_sampling(posterior):
    def information(policy):
        gains = []
        for seed in range(10):
            indices, _ = choose(policy, posterior, count=3, key=fold(KEY, seed))
            _, K = joint(GRID[indices])
            gains.append(np.linalg.slogdet(np.eye(3) + K / 0.05)[1])
        return np.mean(gains)

    assert information(DPPThompson(swaps=12)) > information(Thompson()) + 0.1


# ------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "build",
    [
        lambda: Desautels(size=0),
        lambda: Desautels(delta=0.0),
        lambda: Desautels(scale=-1.0),
        lambda: Desautels(C=math.inf),
        lambda: UCBPE(beta=-1.0),
        lambda: UCBPE(region=1),
        lambda: QEI(fantasies=0),
        lambda: QEI(fantasies=100),
        lambda: StochasticPolicy("ucb"),
        lambda: StochasticPolicy(beta=-1.0),
        lambda: StochasticPolicy(points=0),
        lambda: DPPThompson(swaps=0),
        lambda: DPPThompson(weight=math.nan),
        lambda: TSRSR(redraws=0),
    ],
)
def test_wrong_settings_are_refused_at_once(build):
    with pytest.raises(AuguryError, match=r"; got .*\. [A-Z]"):
        build()


# ------------------------------------------------------- pending points, told in any order

BATCHES = ("ts-rsr", "bucb", "ucb-pe", "qei", "gp-ei", "gp-ts", "sp", "dpp-ts")
CELLS = Space(i=Int(0, 8), j=Int(0, 7))
BOX = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))


@pytest.mark.parametrize("name", BATCHES)
def test_half_of_a_batch_is_told_in_any_order_and_nothing_counts_twice(name):
    opt = Optimizer(CELLS, name, "maximize", seed=3, initial=4)
    rng, waiting = np.random.default_rng(0), []
    opt.tell({"i": 8, "j": 0}, -30.0)  # never asked: a warm start
    for number in range(6):
        waiting += opt.ask(4)
        rng.shuffle(waiting)
        for trial in [waiting.pop() for _ in range(2 + number % 3)]:
            far = (trial.params["i"] - 5) ** 2 + (trial.params["j"] - 2) ** 2
            opt.tell(trial, -float(far), failed=trial.number % 7 == 3)
            opt.tell(trial, -float(far), failed=trial.number % 7 == 3)  # once more says nothing new
    cells = [tuple(trial.params.values()) for trial in opt.trials]
    assert len(set(cells)) == len(cells) == 25
    assert len(opt._history.order) == 25 - len(waiting)
    assert opt._model.fitted().posterior.observations == 25 - len(waiting)
    again = Optimizer.from_json(opt.to_json())
    assert [t.params for t in again.ask(3)] == [t.params for t in opt.ask(3)]


def test_what_the_model_says_is_in_the_users_direction():
    low, high = (Optimizer(CELLS, "ts-rsr", d, seed=3, initial=6) for d in ("minimize", "maximize"))
    for opt, sign in ((low, 1.0), (high, -1.0)):
        for trial in opt.ask(6):
            far = (trial.params["i"] - 5) ** 2 + (trial.params["j"] - 2) ** 2
            opt.tell(trial, sign * (10.0 + far))
    below, above = low.ask(3), high.ask(3)
    assert [t.params for t in below] == [t.params for t in above]
    for a, b in zip(below, above, strict=True):
        assert a.info["f_star"] < a.info["best_mean"] < 60.0
        assert b.info["f_star"] == pytest.approx(-a.info["f_star"])
        assert b.info["best_mean"] == pytest.approx(-a.info["best_mean"])


def test_neural_bo_has_what_ts_rsr_needs():
    """Its mean, with the variance of tangent features."""
    surrogate = NeuralTangent(NTKProcess(depth=1), width=16)
    opt = Optimizer(CELLS, Algorithm(surrogate, TSRSR()), seed=0, initial=6)
    for trial in opt.ask(6):
        opt.tell(trial, float(trial.params["i"]))
    batch = opt.ask(4)
    assert len({tuple(trial.params.values()) for trial in batch}) == 4
    assert all(trial.info["f_star"] < trial.info["best_mean"] for trial in batch)


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


def wavy(params):
    return math.sin(9.0 * params["x"]) + math.cos(7.0 * params["y"])


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


@pytest.mark.parametrize(
    ("sequential", "batch"),
    [(Thompson(), DPPThompson()), (EI(), QEI()), (UCB(2.0), UCBPE(2.0))],
    ids=repr,
)
def test_on_a_box_too_one_point_is_exactly_that_of_the_sequential_rule(sequential, batch):
    asked = []
    for policy in (sequential, batch):
        opt = Optimizer(BOX, Algorithm("gp", policy), seed=1, initial=6)
        for trial in opt.ask(6):
            opt.tell(trial, wavy(trial.params))
        asked.append(opt.ask().params)
    assert asked[0] == asked[1]


@pytest.mark.parametrize("policy", [TSRSR(), UCB(2.0), UCBPE(2.0), EI()], ids=repr)
def test_a_batch_is_one_fit_and_a_row_per_point(policy, monkeypatch):
    counts = {"fits": 0, "rows": 0}
    fit, condition = GaussianProcess.fit, GPPosterior.condition

    def counted_fit(self, data, **options):
        counts["fits"] += 1
        return fit(self, data, **options)

    def counted_condition(self, xs, ys=None):
        counts["rows"] += len(np.atleast_2d(xs))
        return condition(self, xs, ys)

    opt = Optimizer(BOX, Algorithm("gp", policy), seed=1, initial=6)
    for trial in opt.ask(6):
        opt.tell(trial, wavy(trial.params))
    monkeypatch.setattr(GaussianProcess, "fit", counted_fit)
    monkeypatch.setattr(GPPosterior, "condition", counted_condition)
    opt.ask(6)
    assert counts["fits"] == 1
    assert 5 <= counts["rows"] <= 10  # a point that is known already makes the model look elsewhere
