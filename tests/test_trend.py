"""A process with a quadratic trend, against dense algebra."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from augury._errors import UnsupportedError
from augury.core.data import Data
from augury.core.keys import fold
from augury.surrogates import FourierProcess, GaussianProcess
from augury.surrogates.hyperfit import Hyper, Tuned
from augury.surrogates.kernels import KERNELS
from augury.surrogates.likelihood import BASE_JITTER, Likelihood
from known_gp import KEY, NEW, NOISE, assert_predicts, matern52
from samples import distance, observations

LENGTHSCALE, VARIANCE, LINEAR, QUADRATIC, BOWL = np.array([0.3, 0.5, 0.9]), 2.0, 0.7, 0.4, 0.3
MODEL = GaussianProcess(
    lengthscale=tuple(LENGTHSCALE), variance=VARIANCE, noise=NOISE, standardize=False, trend=True
)
ZERO = np.zeros(())
TUNED = Tuned(Hyper(np.zeros(3), ZERO, ZERO, np.log([LINEAR, QUADRATIC, BOWL])), ZERO, ZERO, ZERO)
UNIT = VARIANCE + LINEAR * 3 / 3 + (QUADRATIC + BOWL) * 3**2 / 9  # that jitter is a part of


def covariance(a, b):
    a_, b_ = 2.0 * a - 1.0, 2.0 * b - 1.0
    products, squares = a_ @ b_.T, np.outer((a_**2).sum(1), (b_**2).sum(1))
    trend = LINEAR * products + QUADRATIC * products**2 + BOWL * squares
    return matern52(a, b, LENGTHSCALE, VARIANCE) + trend


def dense(x, y, new=NEW):
    K = covariance(x, x) + (NOISE + BASE_JITTER * UNIT) * np.eye(len(x))
    k = covariance(x, new)
    return k.T @ np.linalg.solve(K, y), covariance(new, new) - k.T @ np.linalg.solve(K, k)


def posterior(n=20):
    x, y = observations(n)
    return x, y, MODEL.fit(Data.of(x, y), key=KEY, tuned=TUNED)


def test_the_posterior_is_the_dense_one():
    x, y, fit = posterior()
    assert_predicts(fit.posterior, dense(x, y))
    assert fit.info["trend"] == pytest.approx({"linear": LINEAR, "quadratic": QUADRATIC, "bowl": BOWL})
    assert fit.info["jitter"] == pytest.approx(BASE_JITTER * UNIT, rel=1e-5)
    more = fit.posterior.condition(NEW[:2], np.array([1.0, -1.0]))
    expected = dense(np.concatenate([x, NEW[:2]]), np.append(y, [1.0, -1.0]))
    assert_predicts(more, expected, tolerance=1e-8)


@pytest.mark.parametrize("n", [0, 20])
def test_paths_have_the_moments_of_the_joint_posterior(n):
    x, y, fit = posterior(n)
    draws = np.array([fit.posterior.sample(key=fold(KEY, i))(NEW) for i in range(400)])
    assert max(distance(draws, *dense(x, y))) < 4.5


def test_the_likelihood_and_its_gradient():
    x, y = observations(30)
    likelihood = Likelihood(KERNELS["matern52"], x, y, np.arange(3), trend=True)
    theta = np.log([*LENGTHSCALE, LINEAR, QUADRATIC, BOWL, VARIANCE, NOISE])
    K = covariance(x, x) + (NOISE + BASE_JITTER * UNIT) * np.eye(30)
    expected = -multivariate_normal(np.zeros(30), K).logpdf(y) - 15.0 * np.log(2.0 * np.pi)
    value, gradient = likelihood.value_and_gradient(theta)
    assert likelihood.value(theta) == pytest.approx(expected, rel=1e-9)
    assert value == pytest.approx(expected, rel=1e-9)
    for i, e in enumerate(1e-5 * np.eye(len(theta))):
        slope = (likelihood.value(theta + e) - likelihood.value(theta - e)) / 2e-5
        assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_values_left_out_are_those_of_a_process_that_does_not_know_them():
    x, y = observations(25)
    likelihood = Likelihood(KERNELS["matern52"], x, y, np.arange(3), trend=True)
    K = covariance(x, x) + (NOISE + BASE_JITTER * UNIT) * np.eye(25)
    expected = 0.5 * 25 * np.log(2.0 * np.pi)
    for i in range(25):
        others = np.arange(25) != i
        weights = np.linalg.solve(K[np.ix_(others, others)], K[others, i])
        variance = K[i, i] - weights @ K[others, i]
        expected += multivariate_normal(weights @ y[others], variance).logpdf(y[i])
    theta = np.log([*LENGTHSCALE, LINEAR, QUADRATIC, BOWL, VARIANCE, NOISE])
    assert likelihood.left_out(theta) == pytest.approx(expected, rel=1e-9)
    theta[3:] = -800.0  # a covariance of zeros
    assert likelihood.left_out(theta) == -np.inf


def test_a_bowl_in_many_dimensions_is_known_from_a_few_more_points_than_these():
    rng = np.random.default_rng(2)
    x, new = rng.random((2, 40, 20))

    def bowl(x):
        return -((x - 0.3) ** 2).sum(1)

    errors = []
    for trend in (False, True):
        fit = GaussianProcess(trend=trend).fit(Data.of(x, bowl(x)), key=KEY)
        errors.append(np.abs(fit.posterior.mean(new) - bowl(new)).max() / bowl(new).std())
    assert errors[1] < 0.05 < 0.2 * errors[0]


def test_a_quadratic_function_is_known_from_few_points():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((3, 3))

    def function(x):
        return -((x - 0.4) @ (A @ A.T) * (x - 0.4)).sum(1) + 3.0 * x[:, 1]

    x = rng.random((14, 3))
    errors = []
    for trend in (False, True):
        fit = GaussianProcess(trend=trend).fit(Data.of(x, function(x)), key=KEY)
        errors.append(np.abs(fit.posterior.mean(NEW) - function(NEW)).max() / function(x).std())
    assert errors[1] < 5e-3 < 0.05 * errors[0]


def test_a_wave_needs_no_trend():
    rng = np.random.default_rng(1)
    x = rng.random((40, 3))
    y = np.sin(9.0 * x[:, 0]) * np.cos(7.0 * x[:, 1])
    models = (GaussianProcess(), GaussianProcess(trend=True))
    plain, trended = (model.fit(Data.of(x, y), key=KEY).posterior.mean(NEW) for model in models)
    np.testing.assert_allclose(trended, plain, atol=0.15)


def test_random_features_have_no_trend():
    with pytest.raises(UnsupportedError, match="must be stationary; got one with a trend"):
        FourierProcess(GaussianProcess(trend=True))
