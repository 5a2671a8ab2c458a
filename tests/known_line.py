"""A Gaussian process on a grid of the unit interval, by dense algebra, and policies that choose there.

Rows have a second column, always 0: then they share compiled code with the tests in two dimensions.
"""

import math

import numpy as np

from augury import Pool
from augury.core.data import Data
from augury.core.keys import fold, root_key
from augury.maximizers import Best, Exhaustive
from augury.surrogates import GaussianProcess

LENGTHSCALE, VARIANCE, NOISE = 0.15, 2.0, 0.05
PROCESS = GaussianProcess(lengthscale=LENGTHSCALE, variance=VARIANCE, noise=NOISE, standardize=False)


def rows(x):
    return np.column_stack([x, np.zeros(len(x))])


GRID = np.linspace(0.0, 1.0, 101)
POOL = Pool(rows(GRID))
X = np.array([0.05, 0.3, 0.32, 0.7, 0.95])
Y = np.array([0.2, 1.0, 0.9, -0.5, 0.4])
KEY = root_key(7)


def k(a, b):
    """The Matérn-5/2 kernel."""
    r = math.sqrt(5.0) * np.abs(a[:, None] - b[None, :]) / LENGTHSCALE
    return VARIANCE * (1.0 + r + r * r / 3.0) * np.exp(-r)


def predict(x, y, at):
    """Mean and variance of the Gaussian process, by dense algebra."""
    A = k(x, x) + (NOISE + 1e-8 * VARIANCE) * np.eye(len(x))
    cross = k(at, x)
    mean = cross @ np.linalg.solve(A, y)
    return mean, VARIANCE - np.einsum("ij,ji->i", cross, np.linalg.solve(A, cross.T))


def fitted(x=X, y=Y):
    """The posterior of the process given values at some places."""
    return PROCESS.fit(Data.of(rows(x), y), key=KEY).posterior


class Grid:
    """The points of the grid that are not taken, as a policy draws them."""

    def __init__(self, taken):
        self.indices = np.array([i for i in range(len(GRID)) if i not in taken])
        self.rows = rows(GRID[self.indices])

    def point(self, i, value):
        return Best(self.rows[i], int(self.indices[i]), value, 1.0)


def choose(policy, posterior, *, t=1, count=1, pending=(), key=KEY, number=0, taken=()):
    """The grid indices that a policy picks for trials from `number` on, and its own words about them."""

    def maximize(score, *, key, without=(), anew=True, judged=True):
        out = {*taken, *(point.index for point in without)} if anew else set()
        return Exhaustive()(score, POOL, t=t, key=key, exclude=out)

    picks = policy.choose(
        posterior,
        rows(pending),
        posterior.incumbent(),
        t=t,
        maximize=maximize,
        candidates=lambda n, key, *, without=(): Grid({*taken, *(p.index for p in without)}),
        keys=[fold(key, i) for i in range(number, number + count)],
    )
    return [point.index for point in picks.points], picks


def hallucinate(x, y, chosen, score):
    """Points chosen one after another, each taking the mean at those before it as observed."""
    for _ in range(3):
        mean, var = predict(x, y, GRID)
        scores = score(mean, var)
        scores[chosen] = -np.inf
        i = int(np.argmax(scores))
        chosen.append(i)
        x, y = np.append(x, GRID[i]), np.append(y, mean[i])
    return chosen


def joint(points):
    """Mean and covariance of the process at some points, by dense algebra."""
    A = k(X, X) + (NOISE + 1e-8 * VARIANCE) * np.eye(len(X))
    cross = k(points, X)
    return cross @ np.linalg.solve(A, Y), k(points, points) - cross @ np.linalg.solve(A, cross.T)


def wavy(params):
    return math.sin(9.0 * params["x"]) + math.cos(7.0 * params["y"])
