"""Observations that several tests share, and how far draws are from the moments they should have."""

import numpy as np


def observations(n=20, seed=0, noise=0.1):
    """Noisy values of a smooth function of two of three columns."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, 3))
    return x, np.sin(5 * x[:, 0]) + x[:, 1] ** 2 + noise * rng.standard_normal(n)


def wave(n=20):
    """Values around 10, without noise, of one of three columns."""
    x = np.random.default_rng(n).random((n, 3))
    return x, 10.0 + 3.0 * np.sin(4.0 * x[:, 0])


def distance(draws, mean, covariance):
    """How far mean and covariance of draws are from expected ones, in units of the Monte-Carlo error."""
    count, variances = len(draws), np.maximum(np.diagonal(covariance), 1e-6)
    of_mean = np.abs(draws.mean(0) - mean) / np.sqrt(variances / count)
    error = np.sqrt((np.outer(variances, variances) + covariance**2) / count)
    return of_mean.max(), (np.abs(np.cov(draws.T) - covariance) / error).max()
