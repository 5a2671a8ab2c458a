"""Six synthetic maximization problems, shifted so that the maximum is 0.

Budgets (initial points, iterations) are those of section 5.1 of "Bayesian Optimization with
Inexact Acquisition: Is Random Grid Search Sufficient?". Every function maps an (n, d) array of
points to n values; a single point of shape (d,) is accepted too and gives one value. The regret
of a point is minus its value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

BRANIN_MINIMUM = 0.39788735772973816
HARTMANN3_MAXIMUM = 3.862779787332663
HARTMANN4_MAXIMUM = 3.729840584485584
HARTMANN6_MAXIMUM = 3.322368011415515

_WEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
_A3 = np.array([[3.0, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
_P3 = 1e-4 * np.array([[3689.0, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547],
                       [381, 5743, 8828]])  # fmt: skip
_A6 = np.array([[10.0, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8],
                [17, 8, 0.05, 10, 0.1, 14]])  # fmt: skip
_P6 = 1e-4 * np.array([[1312.0, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
                       [2348, 1451, 3522, 2883, 3047, 6650],
                       [4047, 8828, 8732, 5743, 1091, 381]])  # fmt: skip


@dataclass(frozen=True, eq=False)
class Problem:
    """A box, a function to maximize over it (maximum 0) and the budget of the experiment."""

    name: str
    lower: Array
    upper: Array
    function: Callable[[ArrayLike], Array]
    initial: int
    iterations: int
    optimum: Array

    @property
    def dimension(self) -> int:
        """The number of inputs."""
        return len(self.lower)


def branin(points: ArrayLike) -> Array:
    """Branin on [-5, 10] x [0, 15], negated and shifted."""
    x = np.asarray(points, dtype=float)
    first, second = x[..., 0], x[..., 1]
    valley = second - 5.1 / (4 * np.pi**2) * first**2 + 5 / np.pi * first - 6
    value = valley**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(first) + 10
    return np.asarray(BRANIN_MINIMUM - value)


def rastrigin(points: ArrayLike) -> Array:
    """Rastrigin in any dimension, negated."""
    x = np.asarray(points, dtype=float)
    return -np.asarray(np.sum(x**2 - 10 * np.cos(2 * np.pi * x) + 10, axis=-1))


def levy(points: ArrayLike) -> Array:
    """Levy in any dimension, negated."""
    w = 1 + (np.asarray(points, dtype=float) - 1) / 4
    body, last = w[..., :-1], w[..., -1]
    value = np.sin(np.pi * w[..., 0]) ** 2
    value = value + np.sum((body - 1) ** 2 * (1 + 10 * np.sin(np.pi * body + 1) ** 2), axis=-1)
    value = value + (last - 1) ** 2 * (1 + np.sin(2 * np.pi * last) ** 2)
    return -np.asarray(value)


def _hartmann(points: ArrayLike, rates: Array, centers: Array) -> Array:
    x = np.asarray(points, dtype=float)
    exponents = np.sum(rates * (x[..., None, :] - centers) ** 2, axis=-1)
    return np.asarray(np.exp(-exponents) @ _WEIGHTS)


def hartmann3(points: ArrayLike) -> Array:
    """Hartmann in 3 dimensions, shifted."""
    return _hartmann(points, _A3, _P3) - HARTMANN3_MAXIMUM


def hartmann4(points: ArrayLike) -> Array:
    """The first four columns of Hartmann 6, without the usual rescaling, shifted."""
    return _hartmann(points, _A6[:, :4], _P6[:, :4]) - HARTMANN4_MAXIMUM


def hartmann6(points: ArrayLike) -> Array:
    """Hartmann in 6 dimensions, shifted."""
    return _hartmann(points, _A6, _P6) - HARTMANN6_MAXIMUM


def _frozen(values: ArrayLike) -> Array:
    array = np.array(values, dtype=float)
    array.setflags(write=False)
    return array


def _problem(
    name: str,
    box: list[tuple[float, float]],
    function: Callable[[ArrayLike], Array],
    budget: tuple[int, int],
    optimum: ArrayLike,
) -> Problem:
    lower, upper = _frozen([low for low, _ in box]), _frozen([high for _, high in box])
    return Problem(name, lower, upper, function, *budget, _frozen(optimum))


PROBLEMS: dict[str, Problem] = {
    problem.name: problem
    for problem in (
        _problem("branin", [(-5, 10), (0, 15)], branin, (20, 80), [np.pi, 2.275]),
        _problem("rastrigin3", [(-5.12, 5.12)] * 3, rastrigin, (30, 100), np.zeros(3)),
        _problem(
            "hartmann3",
            [(0, 1)] * 3,
            hartmann3,
            (30, 100),
            [0.114589, 0.555649, 0.852547],
        ),
        _problem(
            "hartmann4",
            [(0, 1)] * 4,
            hartmann4,
            (40, 100),
            [0.18739, 0.19415, 0.55792, 0.26478],
        ),
        _problem("levy5", [(-10, 10)] * 5, levy, (50, 150), np.ones(5)),
        _problem(
            "hartmann6",
            [(0, 1)] * 6,
            hartmann6,
            (60, 200),
            [0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573],
        ),
    )
}
