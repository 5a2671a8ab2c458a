"""A process with effects of single parameters, against dense algebra."""

import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from augury._errors import UnsupportedError
from augury.core.data import Data
from augury.core.keys import fold
from augury.core.precision import computing
from augury.surrogates import FourierProcess, GaussianProcess
from augury.surrogates.hyperfit import Hyper, Tuned
from augury.surrogates.kernels import KERNELS, SCALES, _bump_frequencies, bump, column_shares
from augury.surrogates.likelihood import BASE_JITTER, Likelihood
from known_gp import KEY, LENGTHSCALE, NEW, NOISE, VARIANCE, assert_predicts, matern52
from samples import distance

WHITE, FINE, COARSE = 1.5, 0.4, 0.8
MODEL = GaussianProcess(
    lengthscale=tuple(LENGTHSCALE), variance=VARIANCE, noise=NOISE, standardize=False, effects=True
)
ZERO = np.zeros(())
TUNED = Tuned(Hyper(np.zeros(3), ZERO, ZERO, log_effects=np.log([WHITE, FINE, COARSE])), ZERO, ZERO, ZERO)
UNIT = VARIANCE + WHITE + FINE + COARSE  # that jitter is a part of


def relatives(n=24, dim=3, values=3, seed=0):
    """Points whose columns have few values, so that most pairs agree somewhere."""
    rng = np.random.default_rng(seed)
    x = rng.random((values, dim))[rng.integers(values, size=(n, dim)), np.arange(dim)]
    return x, np.sin(5.0 * x[:, 0]) + rng.standard_normal(n)


RELATED = np.concatenate([NEW[:3], relatives()[0][:3]])
RELATED[3:, 2] += 0.1  # two columns as they are observed


def covariance(a, b):
    def wendland(r):
        return np.where(r < 1.0, (1.0 - r) ** 3 * (1.0 + 3.0 * r), 0.0)

    d = np.abs(a[:, None] - b[None])
    effects = WHITE * (d == 0.0) + FINE * wendland(d / SCALES[0]) + COARSE * wendland(d / SCALES[1])
    return matern52(a, b, LENGTHSCALE, VARIANCE) + effects.mean(-1)


def dense(x, y, new=RELATED):
    K = covariance(x, x) + (NOISE + BASE_JITTER * UNIT) * np.eye(len(x))
    k = covariance(x, new)
    return k.T @ np.linalg.solve(K, y), covariance(new, new) - k.T @ np.linalg.solve(K, k)


def posterior(n=24):
    x, y = relatives(n)
    return x, y, MODEL.fit(Data.of(x, y), key=KEY, tuned=TUNED)


def test_the_posterior_is_the_dense_one():
    x, y, fit = posterior()
    assert np.count_nonzero(covariance(x, RELATED) - matern52(x, RELATED)) > 20
    assert_predicts(fit.posterior, dense(x, y), RELATED)
    assert fit.info["effects"] == pytest.approx({"white": WHITE, "0.05": FINE, "0.3": COARSE})
    assert fit.info["jitter"] == pytest.approx(BASE_JITTER * UNIT, rel=1e-5)
    more = fit.posterior.condition(RELATED[:2], np.array([1.0, -1.0]))
    expected = dense(np.concatenate([x, RELATED[:2]]), np.append(y, [1.0, -1.0]))
    assert_predicts(more, expected, RELATED, tolerance=1e-8)


@pytest.mark.parametrize("n", [0, 24])
def test_paths_have_the_moments_of_the_joint_posterior(n):
    x, y, fit = posterior(n)
    draws = np.array([fit.posterior.sample(key=fold(KEY, i))(RELATED) for i in range(400)])
    assert max(distance(draws, *dense(x, y))) < 4.5


def test_slopes_are_those_beside_the_white_effects():
    x, _, fit = posterior()
    steps = 1e-4 * np.eye(3)  # beyond the place where it agrees with an observation
    with computing():
        slope, at_data = jax.grad(fit.posterior.mean)(NEW[0]), jax.grad(fit.posterior.mean)(x[0])
    differences = (fit.posterior.mean(NEW[0] + steps) - fit.posterior.mean(NEW[0] - steps)) / 2e-4
    np.testing.assert_allclose(slope, differences, rtol=1e-3, atol=1e-3)
    differences = (fit.posterior.mean(x[0] + steps) - fit.posterior.mean(x[0] - steps)) / 2e-4
    np.testing.assert_allclose(at_data, differences, rtol=1e-2, atol=1e-2)


def test_a_bump_is_a_covariance():
    x = np.random.default_rng(0).random(60)
    eigenvalues = np.linalg.eigvalsh(bump(np.abs(x[:, None] - x) / 0.3))
    assert eigenvalues.min() > -1e-12
    waves = _bump_frequencies((200_000,), np.random.default_rng(1))
    for r in (0.0, 0.2, 0.5, 0.9, 1.3):
        assert np.cos(waves * r).mean() == pytest.approx(bump(r), abs=0.01)


def test_two_options_of_a_choice_differ_in_one_parameter():
    single, choice = column_shares(np.array([0, 1, 1, 1, 2]))
    np.testing.assert_allclose(single, np.array([1, 0, 0, 0, 1]) / 3)
    np.testing.assert_allclose(choice, np.array([0, 1, 1, 1, 0]) / 3)
    a, b = np.array([[0.3, 1, 0, 0, 0.2]]), np.array([[0.3, 0, 1, 0, 0.2], [0.7, 1, 0, 0, 0.2]])
    data = Data.of(a, np.zeros(1), np.array([0, 1, 1, 1, 2]))
    hyper = Hyper(
        np.zeros(5), np.float64(-30.0), np.float64(-30.0), log_effects=np.log([1.0, 1e-9, 1e-9])
    )
    fit = GaussianProcess(standardize=False, effects=True).fit(
        data, key=KEY, tuned=Tuned(hyper, ZERO, ZERO, ZERO)
    )
    kernel = fit.posterior.kernel
    with computing():
        np.testing.assert_allclose(kernel.gram(a, b)[0], [2 / 3, 2 / 3], atol=2e-3)
        np.testing.assert_allclose(kernel.gram(a, a)[0], kernel.diagonal(a), atol=1e-9)
        np.testing.assert_allclose(kernel.diagonal(b), 1.0, atol=2e-3)
    draws = np.array([kernel.draw(64, 5, key=fold(KEY, i))(np.concatenate([a, b])) for i in range(2000)])
    np.testing.assert_allclose(np.cov(draws.T)[0], [1.0, 2 / 3, 2 / 3], atol=0.12)


def test_the_likelihood_and_its_gradient():
    x, y = relatives(30)
    likelihood = Likelihood(KERNELS["matern52"], x, y, np.arange(3), effects=column_shares(np.arange(3)))
    theta = np.log([*LENGTHSCALE, WHITE, FINE, COARSE, VARIANCE, NOISE])
    K = covariance(x, x) + (NOISE + BASE_JITTER * UNIT) * np.eye(30)
    expected = -multivariate_normal(np.zeros(30), K).logpdf(y) - 15.0 * np.log(2.0 * np.pi)
    value, gradient = likelihood.value_and_gradient(theta)
    assert likelihood.value(theta) == pytest.approx(expected, rel=1e-9)
    assert value == pytest.approx(expected, rel=1e-9)
    for i, e in enumerate(1e-5 * np.eye(len(theta))):
        slope = (likelihood.value(theta + e) - likelihood.value(theta - e)) / 2e-5
        assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_functions_of_single_parameters_are_learnt_as_such():
    """Waves in each of eight columns, which no smooth function of all tells from 120 points."""
    rng = np.random.default_rng(0)
    x, new = rng.random((120, 8)), rng.random((50, 8))

    def waves(x):
        return np.sin(12.0 * x + np.arange(8)).sum(1)

    errors = []
    for effects in (False, True):
        fit = GaussianProcess(effects=effects, faint=True).fit(Data.of(x, waves(x)), key=KEY)
        errors.append(np.sqrt(np.mean((fit.posterior.mean(new) - waves(new)) ** 2)) / waves(new).std())
    assert errors[1] < 0.35 < 0.5 * errors[0]


@pytest.mark.parametrize("trend", [False, True])
def test_what_looks_like_noise_is_known_of_relatives(trend):
    """A slope and white effects of five parameters: combinations that were not seen are predicted."""
    rng = np.random.default_rng(1)
    levels, heights = rng.random((6, 5)), rng.standard_normal((6, 5))

    def some(n):
        which = rng.integers(6, size=(n, 5))
        columns = np.arange(5)
        return levels[which, columns], heights[which, columns].sum(1) + 3.0 * levels[which, columns][:, 0]

    (x, y), (new, truth) = some(90), some(50)
    errors, noise = [], []
    for effects in (False, True):
        model = GaussianProcess(effects=effects, trend=trend, faint=True)
        fit = model.fit(Data.of(x, y), key=KEY)
        errors.append(np.sqrt(np.mean((fit.posterior.mean(new) - truth) ** 2)) / truth.std())
        noise.append(fit.info["noise"] / y.var())
    assert errors[1] < 0.1 < 0.3 * errors[0]
    assert noise[1] < 1e-3


def test_values_without_effects_need_none():
    rng = np.random.default_rng(0)
    x = rng.random((40, 3))
    y = np.sin(4.0 * x[:, 0]) + x[:, 1] ** 2
    models = (GaussianProcess(faint=True), GaussianProcess(faint=True, effects=True))
    plain, rough = (model.fit(Data.of(x, y), key=KEY) for model in models)
    np.testing.assert_allclose(rough.posterior.mean(NEW), plain.posterior.mean(NEW), atol=0.05)
    assert rough.info["effects"]["white"] < 1e-3 * y.var()


def test_random_features_have_no_effects():
    with pytest.raises(UnsupportedError, match="must be stationary; got one with effects"):
        FourierProcess(GaussianProcess(effects=True))
    with pytest.raises(UnsupportedError, match="effects must be True or False"):
        GaussianProcess(effects=1)
