import jax
import numpy as np
import pytest

from augury import theory
from augury._errors import UnsupportedError
from augury.core.data import Data
from augury.core.keys import fold
from augury.surrogates import Capability, FourierProcess, GaussianProcess, Status
from augury.surrogates.likelihood import BASE_JITTER
from known_gp import KEY, NEW, UNTUNED, assert_predicts
from samples import distance, observations

VARIANCE, NOISE = 2.0, 0.01
EXACT = GaussianProcess(lengthscale=0.5, variance=VARIANCE, noise=NOISE, standardize=False)
FEATURES = 64
SMALL = FourierProcess(EXACT, features=FEATURES)


def fit(model, x, y):
    # what is fixed need not be searched for, which saves a compilation for every number of rows
    process = model if isinstance(model, GaussianProcess) else model.process
    return model.fit(Data.of(x, y), key=KEY, tuned=None if process.noise is None else UNTUNED)


def phi(posterior, x):
    """φ(x) by its formula."""
    angles = x @ np.asarray(posterior.features.frequencies).T
    amplitude = np.sqrt(2 * VARIANCE / FEATURES)
    return amplitude * np.hstack([np.cos(angles), np.sin(angles)])


def regression(posterior, x, y, new=NEW, noise=NOISE):
    """Mean and covariance of Bayesian linear regression with weights N(0, I), Bishop eq. 3.53–3.59."""
    Phi, phi_new = phi(posterior, x), phi(posterior, new)
    noise = noise + BASE_JITTER * VARIANCE
    S = np.linalg.inv(np.eye(FEATURES) + Phi.T @ Phi / noise)
    return phi_new @ S @ Phi.T @ y / noise, phi_new @ S @ phi_new.T


@pytest.mark.parametrize("n", [0, 1, 20, 33])
def test_the_posterior_is_bayesian_linear_regression(n):
    x, y = observations(n)
    fitted = fit(SMALL, x, y)
    assert fitted.status is Status.OK
    assert_predicts(fitted.posterior, regression(fitted.posterior, x, y))


def test_standardization():
    x, y = observations()
    y = 100.0 + 7.0 * y
    model = FourierProcess(
        GaussianProcess(lengthscale=0.5, variance=VARIANCE, noise=NOISE), features=FEATURES
    )
    posterior = fit(model, x, y).posterior
    # the amplitude is in standardized units, the prediction in the user's
    assert posterior.features.amplitude == pytest.approx(np.sqrt(2 * VARIANCE / FEATURES) / y.std())
    mean, covariance = regression(posterior, x, y - y.mean())
    assert_predicts(posterior, (y.mean() + mean, covariance))
    assert posterior.noise_std == pytest.approx(np.sqrt(NOISE))


def test_many_features_approach_the_exact_process():
    x, y = observations(10)
    exact = fit(EXACT, x, y).posterior
    errors = []
    for features in (FEATURES, 1024):
        posterior = fit(FourierProcess(EXACT, features=features), x, y).posterior
        np.testing.assert_allclose(posterior.var(NEW), exact.var(NEW), atol=5 / np.sqrt(features))
        errors.append(np.abs(posterior.mean(NEW) - exact.mean(NEW)).max())
    assert errors[1] < errors[0]
    assert errors[1] < 0.1  # features are right to 2/√1024 = 0.06, and the mean is of that order


def test_the_prior_variance_is_exact_with_any_number_of_features():
    posterior = fit(SMALL, np.empty((0, 3)), []).posterior
    np.testing.assert_allclose(posterior.var(NEW), VARIANCE, rtol=1e-6)
    assert posterior.incumbent() == 0.0
    assert posterior.information_gain() == pytest.approx(0.0, abs=1e-9)


def test_hardly_any_noise_leaves_the_unseen_variance():
    # A is singular without its ridge; a jitter that enters A alone would take the prior variance away
    x, y = observations(10)
    model = GaussianProcess(lengthscale=0.1, variance=VARIANCE, noise=1e-14, standardize=False)
    fitted = fit(FourierProcess(model, features=FEATURES), x, y)
    expected = regression(fitted.posterior, x, y, noise=1e-14)
    np.testing.assert_allclose(fitted.posterior.var(NEW), np.diagonal(expected[1]), rtol=1e-4)
    assert fitted.posterior.var(NEW).max() > 0.5 * VARIANCE


def test_conditioning_on_values_is_a_refit():
    x, y = observations(29)
    ys = np.linspace(-1, 1, 6)
    posterior = fit(SMALL, x, y).posterior
    conditioned = posterior.condition(NEW, ys)  # past the bucket of 32
    together = np.concatenate([x, NEW]), np.concatenate([y, ys])
    probes = np.random.default_rng(5).random((6, 3))
    assert_predicts(conditioned, regression(posterior, *together, new=probes), new=probes)
    assert conditioned.incumbent() == pytest.approx(conditioned.mean(together[0]).max(), abs=1e-12)
    refitted = fit(SMALL, *together).posterior
    assert conditioned.information_gain() == pytest.approx(refitted.information_gain(), abs=1e-8)


def test_conditioning_without_values_keeps_the_mean_and_shrinks_the_variance():
    x, y = observations(20)
    posterior = fit(SMALL, x, y).posterior
    conditioned = posterior.condition(NEW[:4])
    np.testing.assert_array_equal(conditioned.mean(NEW), posterior.mean(NEW))
    _, covariance = regression(posterior, np.concatenate([x, NEW[:4]]), np.zeros(24))
    np.testing.assert_allclose(conditioned.var(NEW), np.diagonal(covariance), atol=1e-10)
    assert posterior.condition(np.empty((0, 3))) is posterior


def test_several_points_together_are_several_points_one_at_a_time():
    posterior = fit(SMALL, *observations(30)).posterior
    for values in (None, np.arange(6.0)):
        together, alone = posterior.condition(NEW, values), posterior
        for i in range(6):
            alone = alone.condition(NEW[i], None if values is None else values[i : i + 1])
        leaves = zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True)
        assert all(np.array_equal(a, b) for a, b in leaves)  # bit for bit


def test_a_hundred_conditionings_stay_accurate():
    rng = np.random.default_rng(0)
    x, y = rng.random((100, 3)), rng.standard_normal(100)
    posterior = fit(SMALL, np.empty((0, 3)), []).posterior
    assert_predicts(posterior.condition(x, y), regression(posterior, x, y), tolerance=1e-8)


def test_the_scale_of_a_path_is_that_of_its_distance_from_the_mean():
    x, y = observations(20)
    posterior = fit(SMALL, x, 5.0 + y).posterior
    path, wide = (posterior.sample(key=KEY, scale=scale)(NEW) for scale in (1.0, 3.0))
    mean = posterior.mean(NEW)
    np.testing.assert_allclose(wide - mean, 3.0 * (path - mean), atol=1e-8)
    np.testing.assert_allclose(posterior.sample(key=KEY, scale=0.0)(NEW), mean, atol=1e-8)
    first, second = posterior.draws(keys=[KEY, fold(KEY, 1)], scale=3.0)
    np.testing.assert_array_equal(first.path(NEW), wide)
    assert (second.path(NEW) != wide).all()


@pytest.mark.parametrize("n", [0, 20])
def test_paths_have_the_moments_of_the_joint_posterior(n):
    x, y = observations(n)
    posterior = fit(SMALL, x, y).posterior
    draws = np.array([posterior.sample(key=fold(KEY, i))(NEW) for i in range(400)])
    mean, covariance = posterior.joint(NEW)
    assert max(distance(draws, mean, covariance)) < 4.5


def test_the_information_gain_is_that_of_the_features_kernel():
    x, y = observations(20)
    posterior = fit(SMALL, x, y).posterior
    Phi = phi(posterior, x)
    assert posterior.information_gain() == pytest.approx(
        theory.information_gain(Phi @ Phi.T, NOISE + BASE_JITTER * VARIANCE), abs=1e-8
    )


def test_the_incumbent_is_the_largest_mean_at_the_data():
    x, y = observations(20)
    posterior = fit(SMALL, x, y).posterior
    assert posterior.incumbent() == pytest.approx(posterior.mean(x).max(), rel=1e-12)


def test_starvation_is_reported():
    for n, starved in ((FEATURES // 2, False), (FEATURES // 2 + 1, True)):
        info = fit(SMALL, *observations(n)).info
        assert info["starved"] is starved
        assert info["features"] == FEATURES


def test_a_starved_model_is_sure_of_what_it_has_not_seen():
    # 60 observations in one half of the cube determine 16 features; the other half is far away
    x, y = observations(60)
    x[:, 0] *= 0.3
    far = np.array([[0.95, 0.5, 0.5], [1.0, 0.1, 0.9], [1.0, 0.9, 0.2]])
    process = GaussianProcess(lengthscale=0.2, variance=VARIANCE, noise=NOISE, standardize=False)
    exact = fit(process, x, y).posterior
    fitted = fit(FourierProcess(process, features=16), x, y)
    assert fitted.info["starved"]
    assert (exact.var(far) > 0.9 * VARIANCE).all()
    assert (fitted.posterior.var(far) < 0.2 * exact.var(far)).all()


def test_hyper_parameters_are_those_of_the_exact_process():
    x, y = observations(20)
    exact, approximate = GaussianProcess(), FourierProcess(GaussianProcess(), features=FEATURES)
    fits = [fit(model, x, y) for model in (exact, approximate)]
    for name in ("lengthscale", "variance", "noise", "log_posterior"):
        assert fits[0].info[name] == fits[1].info[name]


def test_features_are_functions_of_the_key():
    data = Data.of(*observations(5))
    first, same, other = (SMALL.fit(data, key=key).posterior for key in (KEY, KEY, fold(KEY, 1)))
    np.testing.assert_array_equal(first.mean(NEW), same.mean(NEW))
    assert (first.mean(NEW) != other.mean(NEW)).all()


def test_arguments():
    with pytest.raises(UnsupportedError, match="features must be an even number"):
        FourierProcess(features=15)
    assert FourierProcess.capabilities == frozenset(Capability)
