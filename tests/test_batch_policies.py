"""Policies for batches against NumPy transcriptions of their papers, on a grid of the unit interval."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from augury import Algorithm, AuguryError, Float, Int, Optimizer, Space
from augury.core.keys import fold
from augury.maximizers.scoring import values
from augury.policies import EI, QEI, TSRSR, UCB, UCBPE, Desautels, DPPThompson, StochasticPolicy, Thompson
from augury.surrogates import GaussianProcess, NeuralTangent, NTKProcess
from augury.surrogates.gp_posterior import GPPosterior
from known_line import (
    GRID,
    KEY,
    X,
    Y,
    choose,
    fitted,
    joint,
    predict,
    rows,
    wavy,
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


# ------------------------------------------------------------------------------------- qEI


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
