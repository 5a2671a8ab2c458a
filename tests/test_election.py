"""The best predictor of several models."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import augury
from augury._errors import UnsupportedError
from augury.core.data import Data
from augury.surrogates import Election, GaussianProcess, Log
from augury.surrogates.election import elect, last_election
from known_gp import KEY, NEW
from samples import observations

MODELS = (GaussianProcess(), GaussianProcess(trend=True), GaussianProcess(warp=Log()))


def quadratic(n):
    x, _ = observations(n)
    return x, -((x - 0.4) ** 2).sum(1)


def test_the_model_that_predicts_best_is_elected():
    election = Election(MODELS)
    x, bent = quadratic(31)
    wave = np.sin(9.0 * x[:, 0]) * np.cos(7.0 * x[:, 1])
    for values, number in ((wave, 0), (bent, 1), (-np.exp(-8.0 * wave), 2)):
        data = Data.of(x, values)
        elected = election.tune(data, key=KEY)
        left_out = [model.tune(data, key=KEY).left_out for model in MODELS]
        assert last_election(31) == 31
        assert elected.number == number == np.argmax(left_out)
        fit = election.fit(data, key=KEY, tuned=elected)
        alone = MODELS[number].fit(data, key=KEY, tuned=elected.tuned)
        np.testing.assert_array_equal(fit.posterior.mean(NEW), alone.posterior.mean(NEW))


def test_elections_are_held_when_the_data_have_grown():
    held = sorted({last_election(n) for n in range(200)})
    assert held[:15] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 19]
    assert all(b == max(a + 1, int(1.2 * a)) for a, b in itertools.pairwise(held))
    assert len(held) < 35


def test_hyper_parameters_are_learnt_at_every_third_of_a_hundred_observations():
    space = augury.Space(a=augury.Float(0.0, 1.0), b=augury.Float(0.0, 1.0))
    opt = augury.Optimizer(space, augury.Algorithm(Election(MODELS), "ei"), seed=0)
    for i, (row, value) in enumerate(zip(*quadratic(103), strict=True)):
        opt.tell({"a": row[0], "b": row[1]}, float(value))
        if i + 1 >= 99:
            learnt = opt.ask().info["fit"]["lengthscale"]
            if i + 1 in (99, 102):
                last = learnt
            assert learnt == last


def test_a_process_without_a_trend_is_the_same_computed_as_one_with_a_trend():
    data = Data.of(*quadratic(30))
    process = GaussianProcess(faint=True)
    one, other = (p.fit(data, key=KEY) for p in (process, replace(process, as_trended=True)))
    assert one.info.keys() == other.info.keys()
    for a, b in zip(one.posterior.predict(NEW), other.posterior.predict(NEW), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    draws = [fit.posterior.sample(key=KEY)(NEW) for fit in (one, other)]
    np.testing.assert_allclose(*draws, rtol=1e-5, atol=1e-8)


def test_between_elections_the_first_data_decide_and_all_are_learnt_from():
    n = next(n for n in range(30, 60) if last_election(n) == n - 1)
    x, y = quadratic(n)
    y[-1] -= 5.0  # not quadratic any more
    data, election = Data.of(x, y), Election(MODELS)
    elected = election.tune(data, key=KEY)
    assert elected.number == 1
    alone = MODELS[1].tune(data, key=KEY)
    np.testing.assert_array_equal(elected.tuned.hyper.log_trend, alone.hyper.log_trend)
    elect.cache_clear()  # what is kept can be computed anew
    assert election.tune(data, key=KEY).number == 1


def test_a_study_goes_on_exactly():
    space = augury.Space(a=augury.Float(0.0, 1.0), b=augury.Float(0.0, 1.0), c=augury.Float(0.0, 1.0))
    algorithm = augury.Algorithm(Election(MODELS), "ei")

    def value(params):
        return float(np.exp(5.0 * params["a"]) + (params["b"] - 0.3) ** 2)

    opt = augury.Optimizer(space, algorithm, seed=1, initial=6)
    for _ in range(9):
        trial = opt.ask()
        opt.tell(trial, value(trial.params))
    elect.cache_clear()
    again = augury.Optimizer.from_json(opt.to_json(), algorithm=algorithm)
    assert again.ask().params == opt.ask().params


def test_models_are_checked():
    for models in ((), (GaussianProcess(), "gp")):
        with pytest.raises(UnsupportedError, match="models must be Gaussian processes, at least one"):
            Election(models)
    assert "one per parameter; got 2" in Election((GaussianProcess(lengthscale=(1.0, 2.0)),)).fits(3)


def test_many_data_elect_by_some_of_them_and_the_elected_learns_from_more():
    rng = np.random.default_rng(0)
    x = rng.random((400, 3))
    y = -((x - 0.4) ** 2).sum(1) + 1e-3 * rng.standard_normal(400)
    data, models = Data.of(x, y), (GaussianProcess(points=150), GaussianProcess(trend=True, points=150))
    election = Election(models)
    elected = election.tune(data, key=KEY)
    assert elected.number == 1
    alone = models[1].tune(data, key=KEY)
    np.testing.assert_array_equal(elected.tuned.hyper.log_trend, alone.hyper.log_trend)
    assert election.fit(data, key=KEY, tuned=elected).posterior.mask.sum() == 150


def test_the_default_says_what_was_elected_and_of_how_many():
    x, y = quadratic(20)
    fitted = Election().fit(Data.of(x, y), key=KEY)
    assert "of 13 processes the best" in fitted.info["elected"]
    assert "with a trend" in fitted.info["elected"]
