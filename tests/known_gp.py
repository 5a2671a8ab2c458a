"""A Gaussian process with known hyper-parameters, and its posterior by dense algebra."""

import numpy as np

from augury.core.data import Data
from augury.core.keys import root_key
from augury.surrogates import GaussianProcess
from augury.surrogates.hyperfit import Hyper, Tuned
from augury.surrogates.likelihood import BASE_JITTER

KEY = root_key(0)
LENGTHSCALE, VARIANCE, NOISE = np.array([0.3, 0.5, 0.9]), 2.0, 0.01
FIXED = GaussianProcess(
    lengthscale=tuple(LENGTHSCALE), variance=VARIANCE, noise=NOISE, standardize=False, features=2048
)
NOTHING = np.zeros(())
UNTUNED = Tuned(Hyper(np.zeros(3), NOTHING, NOTHING), NOTHING, NOTHING, NOTHING)
# Dimension 3 and at most 32 observations almost everywhere: then all tests share their compilations.
NEW = np.random.default_rng(99).random((6, 3))


def fit(model, x, y, **kwargs):
    # what is fixed need not be searched for, which saves a compilation for every number of rows
    return model.fit(Data.of(x, y, **kwargs), key=KEY, tuned=UNTUNED if model is FIXED else None)


def matern52(a, b, lengthscale=LENGTHSCALE, variance=VARIANCE):
    r = np.sqrt(5.0 * (((a[:, None] - b[None]) / lengthscale) ** 2).sum(-1))
    return variance * (1.0 + r + r**2 / 3.0) * np.exp(-r)


def dense(x, y, new=NEW, shift=0.0, lengthscale=LENGTHSCALE, variance=VARIANCE, noise=NOISE):
    """Mean and covariance at `new` by linear solves, Rasmussen & Williams eq. 2.25 and 2.26."""
    K = matern52(x, x, lengthscale, variance) + (noise + BASE_JITTER * variance) * np.eye(len(x))
    k = matern52(x, new, lengthscale, variance)
    mean = shift + k.T @ np.linalg.solve(K, y - shift)
    return mean, matern52(new, new, lengthscale, variance) - k.T @ np.linalg.solve(K, k)


def assert_predicts(posterior, expected, new=NEW, tolerance=1e-9):
    """Against dense algebra: K has condition 1e4, so 1e-9 leaves room for rounding only."""
    mean, covariance = expected
    np.testing.assert_allclose(posterior.mean(new), mean, atol=tolerance)
    np.testing.assert_allclose(posterior.var(new), np.diagonal(covariance), atol=tolerance)
    for got, want in zip(posterior.joint(new), expected, strict=True):
        np.testing.assert_allclose(got, want, atol=tolerance)
    np.testing.assert_allclose(posterior.predict(new), (mean, np.diagonal(covariance)), atol=tolerance)
