"""The exact Gaussian process: its posterior against dense algebra."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augury import theory
from augury._errors import DataError, UnsupportedError
from augury.core import linalg
from augury.core.data import Data, pad
from augury.core.keys import fold
from augury.surrogates import Capability, GaussianProcess, Status, gp_posterior
from augury.surrogates.likelihood import BASE_JITTER
from known_gp import (
    FIXED,
    KEY,
    LENGTHSCALE,
    NEW,
    NOISE,
    UNTUNED,
    VARIANCE,
    assert_predicts,
    dense,
    fit,
    matern52,
)
from samples import observations

# The posterior at given hyper-parameters


def test_the_posterior_is_the_dense_one():
    x, y = observations()
    fitted = fit(FIXED, x, y)
    assert fitted.status is Status.OK
    assert fitted.info["jitter"] == pytest.approx(1e-8 * fitted.info["variance"])
    assert_predicts(fitted.posterior, dense(x, y))


def test_standardization_moves_the_mean_and_keeps_units():
    x, y = observations()
    y = 100.0 + 7.0 * y
    model = GaussianProcess(lengthscale=tuple(LENGTHSCALE), variance=VARIANCE, noise=NOISE)
    fitted = fit(model, x, y)
    assert_predicts(fitted.posterior, dense(x, y, shift=y.mean()))
    assert fitted.posterior.noise_std == pytest.approx(np.sqrt(NOISE), rel=1e-12)


@pytest.mark.parametrize("n", [31, 32, 33])
def test_full_and_barely_filled_buffers(n):
    x, y = observations(n)
    posterior = fit(FIXED, x, y).posterior
    assert len(posterior.x) == (32 if n <= 32 else 64)
    assert_predicts(posterior, dense(x, y))


def test_more_padding_changes_nothing():
    x, y = observations()
    data = Data.of(x, y)
    wide = Data(pad(data.x, 64), pad(data.y, 64), pad(data.mask, 64), data.groups)
    narrow, wide = (FIXED.fit(d, key=KEY, tuned=UNTUNED).posterior for d in (data, wide))
    np.testing.assert_allclose(wide.predict(NEW), narrow.predict(NEW), rtol=1e-12)
    assert wide.incumbent() == pytest.approx(narrow.incumbent(), rel=1e-12)
    assert wide.information_gain() == pytest.approx(narrow.information_gain(), rel=1e-12)
    paths = [posterior.sample(key=KEY)(NEW) for posterior in (narrow, wide)]
    np.testing.assert_allclose(paths[0], paths[1], rtol=1e-9)


@settings(max_examples=10, deadline=None)
@given(st.permutations(range(20)))
def test_the_order_of_the_data_does_not_matter(order):
    x, y = observations()
    expected = fit(FIXED, x, y).posterior
    shuffled = fit(FIXED, x[order], y[order]).posterior
    np.testing.assert_allclose(shuffled.predict(NEW), expected.predict(NEW), atol=1e-11)
    assert shuffled.incumbent() == pytest.approx(expected.incumbent(), abs=1e-11)
    assert shuffled.information_gain() == pytest.approx(expected.information_gain(), abs=1e-10)


def test_no_observations_leave_the_prior():
    fitted = fit(FIXED, np.empty((0, 3)), [])
    assert_predicts(fitted.posterior, (np.zeros(6), matern52(NEW, NEW)))
    assert fitted.posterior.incumbent() == 0.0
    assert fitted.posterior.information_gain() == 0.0
    learnt = fit(GaussianProcess(), np.empty((0, 3)), [])
    centre = np.exp(np.sqrt(2) - 3 + 0.5 * np.log(3))
    np.testing.assert_allclose(learnt.info["lengthscale"], centre)  # the prior's
    assert learnt.info["variance"] == pytest.approx(1.0)


def test_one_observation():
    x, y = observations(1)
    assert_predicts(fit(FIXED, x, y).posterior, dense(x, y))
    posterior = fit(GaussianProcess(), x, [42.0]).posterior
    np.testing.assert_allclose(posterior.mean(NEW), 42.0)
    assert (posterior.var(NEW) > 0.1).all()
    assert (posterior.var(x) < 0.01).all()


def test_repeated_points_average_their_values():
    x = np.tile([[0.2, 0.4, 0.6]], (12, 1))
    y = np.array([1.0, 3.0] * 6)
    posterior = fit(FIXED, x, y).posterior
    nugget = NOISE + BASE_JITTER * VARIANCE
    assert posterior.mean(x[0]) == pytest.approx(2.0 * VARIANCE / (VARIANCE + nugget / 12), rel=1e-9)
    assert posterior.var(x[0]) == pytest.approx(1 / (1 / VARIANCE + 12 / nugget), rel=1e-6)
    learnt = fit(GaussianProcess(), x, y)
    assert learnt.status is Status.OK
    assert learnt.posterior.noise_std == pytest.approx(1.0, rel=0.2)  # the spread of the values
    assert learnt.posterior.mean(x[0]) == pytest.approx(2.0)


def test_the_variance_is_never_negative_where_it_vanishes():
    x, y = observations(30)
    model = GaussianProcess(lengthscale=50.0, variance=1.0, noise=1e-12, standardize=False)
    posterior = fit(model, x, y).posterior
    assert (posterior.var(x) > 0.0).all()
    assert (posterior.var(x) < 1e-6).all()


# What a posterior says about its data


def test_the_incumbent_is_the_largest_mean_at_the_data():
    x, y = observations(30)
    for model in (FIXED, GaussianProcess()):
        posterior = fit(model, x, y).posterior
        assert posterior.incumbent() == pytest.approx(posterior.mean(x).max(), abs=1e-9)
    conditioned = posterior.condition(NEW, [10.0] * 6)
    everything = np.concatenate([x, NEW])
    assert conditioned.incumbent() == pytest.approx(conditioned.mean(everything).max(), abs=1e-8)


def test_the_information_gain_is_the_theory_s():
    x, y = observations()
    posterior = fit(FIXED, x, 5.0 * y + 3.0).posterior
    expected = theory.information_gain(matern52(x, x), NOISE)
    # the jitter of 1e-8 beside a noise of 0.01 changes each of 20 logarithms by 1e-6
    assert posterior.information_gain() == pytest.approx(expected, abs=1e-4)
    more = posterior.condition(NEW).information_gain()
    together = np.concatenate([x, NEW])
    assert more == pytest.approx(theory.information_gain(matern52(together, together), NOISE), abs=1e-4)


def test_the_information_gain_of_repeated_points_with_hardly_any_noise():
    # One point seen 20 times: its gain is ½ log(1 + 20·variance/noise). The jitter stands for the noise
    # where that is smaller still; counted for one of the two only, it would add log(100) a point.
    x = np.tile([[0.2, 0.4, 0.6]], (20, 1))
    model = GaussianProcess(lengthscale=0.5, variance=VARIANCE, noise=1e-10, standardize=False)
    gain = fit(model, x, np.ones(20)).posterior.information_gain()
    assert gain == pytest.approx(0.5 * np.log1p(20 / BASE_JITTER), rel=1e-2)


# Conditioning


def test_conditioning_on_values_is_a_refit():
    x, y = observations(29)
    ys = np.linspace(-1, 1, 6)
    conditioned = fit(FIXED, x, y).posterior.condition(NEW, ys)  # 35: past the first bucket
    together = np.concatenate([x, NEW]), np.concatenate([y, ys])
    probes = np.random.default_rng(5).random((6, 3))
    assert_predicts(conditioned, dense(*together, new=probes), new=probes)
    refitted = fit(FIXED, *together).posterior
    np.testing.assert_allclose(conditioned.predict(probes), refitted.predict(probes), atol=1e-10)
    assert conditioned.information_gain() == pytest.approx(refitted.information_gain(), abs=1e-8)
    path, other = (posterior.sample(key=KEY) for posterior in (conditioned, refitted))
    np.testing.assert_allclose(path(probes), other(probes), atol=1e-9)


@pytest.mark.parametrize("n", [0, 10, 31])
def test_conditioning_without_values_keeps_the_mean_and_shrinks_the_variance(n):
    x, y = observations(n)
    posterior = fit(FIXED, x, y).posterior
    pending = NEW[:4]
    conditioned = posterior.condition(pending)
    mean, _ = dense(x, y)
    _, covariance = dense(np.concatenate([x, pending]), np.zeros(n + 4))  # y does not matter for it
    np.testing.assert_allclose(conditioned.mean(NEW), mean, atol=1e-9)
    np.testing.assert_allclose(conditioned.var(NEW), np.diagonal(covariance), atol=1e-9)
    assert (conditioned.var(pending) < NOISE).all()


def test_several_points_together_are_several_points_one_at_a_time():
    x, y = observations(30)
    posterior = fit(GaussianProcess(), x, y).posterior  # 30 + 6: across the bucket's edge
    for values in (None, np.arange(6.0)):
        together = alone = posterior.condition(NEW, values)
        alone = posterior
        for i in range(6):
            alone = alone.condition(NEW[i], None if values is None else values[i : i + 1])
        leaves = zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True)
        assert all(np.array_equal(a, b) for a, b in leaves)  # bit for bit


def test_conditioning_on_nothing_and_on_nonsense():
    posterior = fit(FIXED, *observations(5)).posterior
    assert posterior.condition(np.empty((0, 3))) is posterior
    with pytest.raises(DataError, match="as many rows; got 2 and 1"):
        posterior.condition(NEW[:2], [1.0])
    with pytest.raises(DataError, match="ys must be finite"):
        posterior.condition(NEW[:1], [np.nan])


def test_conditioning_on_observed_points_again():
    x, y = observations(20)
    model = GaussianProcess(lengthscale=0.5, variance=1.0, noise=1e-12, standardize=False)
    posterior = fit(model, x, y).posterior
    again = posterior.condition(x[:6], y[:6])
    np.testing.assert_allclose(again.mean(NEW), posterior.mean(NEW), atol=1e-5)
    assert (again.var(NEW) <= posterior.var(NEW) + 1e-9).all()


# Arguments


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"kernel": "rbf"}, "kernel must be one of"),
        ({"lengthscale": 0.0}, "lengthscale must be positive and finite; got 0.0"),
        ({"lengthscale": (1.0, np.nan)}, "lengthscale must be positive and finite"),
        ({"variance": -1.0}, "variance must be positive"),
        ({"noise": np.inf}, "noise must be positive"),
        ({"features": 7}, "features must be an even number"),
        ({"features": 0}, "features must be an even number"),
        ({"tuning_points": 0}, "tuning_points must be a whole number"),
    ],
)
def test_arguments_are_checked(arguments, sentence):
    with pytest.raises(UnsupportedError, match=sentence):
        GaussianProcess(**arguments)


def test_points_of_another_dimension_get_a_sentence():
    posterior = fit(GaussianProcess(), *observations(5)).posterior
    for look in (posterior.mean, posterior.var, posterior.predict, posterior.joint, posterior.condition):
        with pytest.raises(DataError, match=r"points must have shape \(3,\) or \(n, 3\); got \(2, 4\)"):
            look(np.ones((2, 4)))


def test_a_process_can_do_everything():
    assert GaussianProcess.capabilities == frozenset(Capability)
    assert GaussianProcess(lengthscale=[0.1, 0.2]) == GaussianProcess(lengthscale=(0.1, 0.2))


# Compilations


@pytest.fixture
def traces(monkeypatch):
    """The calls that JAX has traced of a function that fitting uses once."""
    happened = []

    def counted(L):
        happened.append(L.shape)
        return linalg.inverse_factor(L)

    monkeypatch.setattr(gp_posterior, "inverse_factor", counted)
    return happened


@pytest.fixture
def compilations():
    """The compilations of this process, of whatever size, as they happen."""
    happened = []

    def listen(event, _seconds, **_details):
        if event == "/jax/core/compile/backend_compile_duration":
            happened.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield happened
    jax.monitoring.unregister_event_duration_listener(listen)


def test_growing_data_compile_once_per_bucket(traces, compilations):
    rng = np.random.default_rng(0)

    def study(sizes, **fixed):  # 13 columns, which no other test of the whole suite has
        for n in sizes:
            x = rng.random((n, 13))
            model = GaussianProcess(**fixed)
            model.fit(Data.of(x, 100.0 * rng.random() * x[:, 0]), key=fold(KEY, n))

    study([1, 2, 3, 10, 31, 32])
    assert traces == [(32, 32)]
    study([33, 34, 50, 60])
    assert traces == [(32, 32), (64, 64)]
    assert len(compilations) >= 2
    compilations.clear()
    study([1, 7, 40], variance=2.0 + rng.random())  # another study, also with other settings
    study([5, 60], noise=rng.random(), lengthscale=tuple(0.1 + rng.random(13)))
    assert len(traces) == 2
    assert compilations == []
