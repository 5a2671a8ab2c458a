"""Draws from the posterior of a Gaussian process."""

import weakref

import numpy as np
import pytest

from augury._errors import DataError
from augury.core.keys import fold
from augury.surrogates import GaussianProcess
from known_gp import FIXED, KEY, NEW, dense, fit
from samples import distance, observations


def test_the_scale_of_a_path_is_that_of_its_distance_from_the_mean():
    x, y = observations(20)
    posterior = fit(FIXED, x, 5.0 + y).posterior
    path, wide = (posterior.sample(key=KEY, scale=scale)(NEW) for scale in (1.0, 3.0))
    mean = posterior.mean(NEW)
    np.testing.assert_allclose(wide - mean, 3.0 * (path - mean), atol=1e-8)
    np.testing.assert_allclose(posterior.sample(key=KEY, scale=0.0)(NEW), mean, atol=1e-8)
    first, second = posterior.draws(keys=[KEY, fold(KEY, 1)], scale=3.0)
    np.testing.assert_array_equal(first.path(NEW), wide)
    assert (second.path(NEW) != wide).all()


def test_the_functions_of_a_batch_are_not_kept_all_at_once():
    posterior = fit(FIXED, *observations(5)).posterior
    alive = []
    for draw in posterior.draws(keys=[fold(KEY, i) for i in range(4)]):
        alive.append(weakref.ref(draw))
        assert sum(made() is not None for made in alive) <= 2  # this one, and the last while it is made


@pytest.mark.parametrize("n", [0, 20])
def test_paths_have_the_moments_of_the_joint_posterior(n):
    x, y = observations(n)
    posterior = fit(FIXED, x, y).posterior
    draws = np.array([posterior.sample(key=fold(KEY, i))(NEW) for i in range(400)])
    assert max(distance(draws, *dense(x, y))) < 4.5


def test_paths_of_standardized_and_conditioned_posteriors():
    x, y = observations(20)
    y = 100.0 + 7.0 * y
    model = GaussianProcess(lengthscale=0.5, variance=80.0, noise=1.0, features=2048)
    posterior = fit(model, x, y).posterior.condition(NEW[:2])
    draws = np.array([posterior.sample(key=fold(KEY, i))(NEW) for i in range(400)])
    assert max(distance(draws, *posterior.joint(NEW))) < 4.5


def test_paths_pass_through_the_data_when_there_is_no_noise():
    x, y = observations(20, noise=0.0)
    model = GaussianProcess(lengthscale=0.5, variance=1.0, noise=1e-10, standardize=False)
    posterior = fit(model, x, y).posterior
    for i in range(3):
        path = posterior.sample(key=fold(KEY, i))
        np.testing.assert_allclose(path(x), y, atol=5e-4)  # 5 deviations of a nugget of 1e-8
        assert np.abs(path(NEW) - posterior.mean(NEW)).max() > 0.01


def test_a_path_is_a_function_of_its_key():
    posterior = fit(FIXED, *observations(20)).posterior
    path = posterior.sample(key=KEY)
    np.testing.assert_array_equal(path(NEW), posterior.sample(key=KEY)(NEW))
    assert (path(NEW) != posterior.sample(key=fold(KEY, 1))(NEW)).all()
    np.testing.assert_allclose(path(NEW[::-1]), path(NEW)[::-1], rtol=1e-12)  # one function, everywhere


def test_joint_draws_have_the_joint_moments():
    x, y = observations(20)
    posterior = fit(FIXED, x, y).posterior
    draws = posterior.sample_at(NEW, 4000, key=KEY)
    assert draws.shape == (4000, 6)
    assert max(distance(draws, *dense(x, y))) < 4.5
    repeated = posterior.sample_at(np.repeat(NEW[:3], 2, axis=0), 3, key=KEY)  # a singular covariance
    np.testing.assert_allclose(repeated[:, ::2], repeated[:, 1::2], atol=1e-4)


def test_joint_draws_are_limited():
    posterior = fit(FIXED, *observations(5)).posterior
    with pytest.raises(DataError, match="at most 5000 points; got 5001"):
        posterior.sample_at(np.zeros((5001, 3)), key=KEY)
