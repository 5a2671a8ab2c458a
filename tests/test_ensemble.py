"""Deep ensembles: their moments, their spread, and chains of trainings."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from augury import Algorithm, Float, Optimizer, Space, UnsupportedError
from augury.core.data import Data
from augury.core.keys import fold, root_key
from augury.core.precision import computing
from augury.surrogates import Capability, Ensemble, NTKProcess, SampleThenOptimize, ensemble

KEY = root_key(0)
X = np.array([[0.15], [0.3], [0.35], [0.8]])
Y = np.array([0.5, -0.4, -0.6, 0.7])
NEW = np.linspace(0.0, 1.0, 9)[:, None]
GAP = NEW[5]  # far from all data
PROCESS = NTKProcess(depth=1, weight_std=1.5, bias_std=0.5, noise=0.01, output=0.5,
                     standardize=False)  # fmt: skip
SMALL = Ensemble(PROCESS, width=32, members=3)
WARM = {"width": 32, "members": 2, "warm_start": True}


def fit(model, n=4, key=KEY):
    return model.fit(Data.of(X[:n], Y[:n]), key=key).posterior


def test_mean_and_variance_are_those_of_the_members():
    posterior = fit(SMALL)
    values = posterior.members(NEW)
    assert values.shape == (3, 9)
    for i in range(3):
        (W, b), (V, c) = jax.tree.map(lambda leaf, i=i: leaf[i], posterior.params)
        hidden = np.maximum(1.5 * (2.0 * NEW - 1.0) @ W + 0.5 * b, 0.0)
        own = np.sqrt(0.5) * (1.5 / np.sqrt(32) * hidden @ V + 0.5 * c)[:, 0]
        np.testing.assert_allclose(values[i], own, rtol=1e-9)
    np.testing.assert_allclose(posterior.mean(NEW), values.mean(0), rtol=1e-12)
    np.testing.assert_allclose(posterior.var(NEW), values.var(0), rtol=1e-12)
    assert posterior.mean(NEW[0]) == pytest.approx(values[:, 0].mean())
    assert posterior.incumbent() == pytest.approx(posterior.mean(X).max(), rel=1e-12)
    assert posterior.noise_std == pytest.approx(0.1)


def test_members_are_minima_of_their_losses():
    """At a minimum λ(θ_0 − θ) is the gradient of the misfit's half."""
    posterior = fit(SMALL)
    lam = float(posterior.noise / posterior.output)

    def loss(params, start):
        r = Y / posterior.output**0.5 - posterior.network(params, X)
        away = jax.tree.map(lambda a, b: ((a - b) ** 2).sum(), params, start)
        return (r**2).sum() + lam * sum(jax.tree.leaves(away))

    with computing():
        slopes, at_start = (
            jax.vmap(jax.grad(loss))(p, posterior.starts) for p in (posterior.params, posterior.starts)
        )
    for got, first in zip(jax.tree.leaves(slopes), jax.tree.leaves(at_start), strict=True):
        assert np.linalg.norm(got) < 1e-2 * np.linalg.norm(first)


def test_a_draw_is_a_member_and_its_deviation_can_be_enlarged():
    posterior = fit(SMALL)
    values, mean = posterior.members(NEW), posterior.mean(NEW)
    seen = set()
    for i in range(20):
        draw = posterior.sample(key=fold(KEY, i))(NEW)
        number = int(np.argmin(np.abs(values - draw).max(1)))
        np.testing.assert_allclose(draw, values[number], rtol=1e-9)
        wide = posterior.sample(key=fold(KEY, i), scale=2.0)(NEW)
        np.testing.assert_allclose(wide, mean + 2.0 * (draw - mean), rtol=1e-9)
        seen.add(number)
    assert seen == {0, 1, 2}


def test_it_is_differentiable():
    posterior = fit(SMALL)
    with computing():
        for function in (posterior.mean, posterior.var, posterior.sample(key=KEY)):
            slope = float(jax.grad(function)(GAP)[0])
            ends = [float(function(GAP + step)) for step in (1e-6, -1e-6)]
            assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4)


@pytest.mark.parametrize("penalty", [True, False])
def test_ensembles_spread_less_in_a_gap_than_draws_of_the_posterior(penalty):
    """sto-bnts, Fig. 1."""
    ours = fit(Ensemble(PROCESS, width=512, members=64, penalty=penalty))
    members, at_data = ours.members(NEW), ours.members(X)
    posterior = SampleThenOptimize(PROCESS, width=512).fit(Data.of(X, Y), key=KEY).posterior
    draws = np.array([d.path(NEW) for d in posterior.draws(keys=[fold(KEY, i) for i in range(64)])])
    assert members[:, 5].std() < 0.7 * draws[:, 5].std()
    assert at_data.std(0).max() < 0.3 * members[:, 5].std()


def test_without_a_penalty_members_interpolate():
    smooth = replace(PROCESS, activation="tanh")
    loose, tight = (fit(Ensemble(smooth, width=64, members=3, penalty=p)) for p in (True, False))
    misfits = [np.abs(p.members(X) - Y).max() for p in (loose, tight)]
    assert misfits[1] < 1e-3 < misfits[0]


def test_members_that_agree_leave_a_little_variance():
    posterior = fit(Ensemble(PROCESS, width=32, members=1))
    assert (posterior.var(NEW) == 1e-12).all()


def test_pending_points_join_the_data_at_the_mean():
    posterior = fit(SMALL)
    pending = posterior.condition(GAP)
    assert pending.var(GAP) < 0.1 * posterior.var(GAP)
    assert pending.mean(GAP) == pytest.approx(float(posterior.mean(GAP)), abs=0.1)
    both = posterior.condition(NEW[[5, 0]])
    np.testing.assert_array_equal(pending.condition(NEW[0]).members(NEW), both.members(NEW))
    assert posterior.condition(np.empty((0, 1))) is posterior
    told = fit(SMALL, 3).condition(X[3], Y[3])
    np.testing.assert_allclose(told.mean(NEW), posterior.mean(NEW), atol=1e-6)


def test_the_key_decides():
    np.testing.assert_array_equal(fit(SMALL).mean(NEW), fit(SMALL).mean(NEW))
    assert (fit(SMALL).mean(NEW) != fit(SMALL, key=fold(KEY, 1)).mean(NEW)).all()


@pytest.fixture
def trainings(monkeypatch):
    """The numbers of observations of all trainings, in order."""
    seen = []

    def counted(network, starts, x, mask, *rest, **settings):
        seen.append(int(mask.sum()))
        return plain(network, starts, x, mask, *rest, **settings)

    plain = ensemble.train
    monkeypatch.setattr(ensemble, "train", counted)
    return seen


@pytest.mark.parametrize("process", [PROCESS, NTKProcess()], ids=["fixed", "learnt"])
def test_a_chain_goes_on_by_one_training_and_can_be_replayed(process, trainings):
    running = Ensemble(process, **WARM)
    for n in (1, 2, 3, 4, 4):
        last = fit(running, n)
    assert trainings == [1, 2, 3, 4]
    restored = fit(Ensemble(process, **WARM))
    assert trainings == [1, 2, 3, 4] * 2
    np.testing.assert_array_equal(last.members(NEW), restored.members(NEW))
    fit(running, key=fold(KEY, 1))  # another study
    assert trainings == [1, 2, 3, 4] * 3
    changed = Data.of(X, np.r_[Y[:2], 3.0, Y[3]])
    running.fit(changed, key=KEY)  # what it kept for the first two observations is no longer there
    assert trainings[12:] in ([3, 4], [1, 2, 3, 4])
    assert running == Ensemble(process, **WARM)


def test_a_chain_begins_each_training_where_the_last_one_ended():
    posterior = fit(Ensemble(PROCESS, **WARM))
    cold = fit(Ensemble(PROCESS, width=32, members=2))
    assert np.abs(posterior.mean(NEW) - cold.mean(NEW)).max() > 1e-3
    before = fit(Ensemble(PROCESS, **WARM), 3)
    told = before.condition(X[3], Y[3])
    np.testing.assert_allclose(told.members(NEW), posterior.members(NEW), atol=1e-6)
    pending = posterior.condition(GAP)
    assert pending.var(GAP) < posterior.var(GAP)
    assert np.isfinite(fit(Ensemble(PROCESS, **WARM), 0).mean(NEW)).all()


def test_a_chain_is_bounded():
    model = Ensemble(PROCESS, **WARM)
    for i in range(6):
        fit(model, 1, key=fold(KEY, i))
    assert len(model._links) == ensemble.LINKS


@pytest.mark.parametrize("policy", ["thompson", "ei"])
@pytest.mark.parametrize("warm_start", [False, True])
def test_a_restored_study_goes_on_as_it_would_have(policy, warm_start):
    space = Space(x=Float(0.0, 1.0))

    def algorithm():
        return Algorithm(
            Ensemble(NTKProcess(depth=1), width=16, members=2, warm_start=warm_start), policy
        )

    opt = Optimizer(space, algorithm(), seed=0, initial=3)
    for _ in range(5):
        trial = opt.ask()
        opt.tell(trial, (trial.params["x"] - 0.3) ** 2)
    pending = opt.ask()
    again = Optimizer.from_json(opt.to_json(), algorithm=algorithm())
    assert again.ask().params == opt.ask().params
    training = pending.info["fit"]["training"]
    assert training["members"] == 2
    assert training["converged"] is (training["converged_members"] == 2)
    assert opt.recommend() in opt.trials


@pytest.mark.parametrize(
    "bad", [{"members": 0}, {"members": 2.5}, {"width": 0}, {"process": "ntk"}, {"penalty": 0.1}]
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(UnsupportedError, match=r"must be .* [A-Z]"):
        Ensemble(**bad)


def test_what_it_can_do():
    assert Capability.CONDITION not in Ensemble.capabilities
    assert Algorithm("ensemble", "thompson").surrogate == Ensemble()
