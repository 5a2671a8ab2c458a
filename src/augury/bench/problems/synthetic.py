"""Synthetic functions, all minimized in their natural sign.

Every function maps points (..., d) to values (...). Formulas are those of Surjanovic and Bingham's
Virtual Library of Simulation Experiments (https://www.sfu.ca/~ssurjano/optimization.html) unless a
docstring says otherwise. A name ends with the dimension; what follows it tells two domains or two
variants of one function apart. Budgets count the initial points. Where no paper states a dimension
(Rosenbrock, Rastrigin and Schwefel on the boxes of NeuralBO's code), those of its section 7.1 are here.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from augury.bench.problem import Factory, Params, Problem
from augury.space import Float, Space

Array = npt.NDArray[np.float64]
Function = Callable[[Array], Array]
Box = Sequence[tuple[float, float]]

_LIBRARY = "Surjanovic and Bingham, https://www.sfu.ca/~ssurjano/optimization.html"
_RANDOM_GRID = (
    "Bayesian Optimization with Inexact Acquisition: Is Random Grid Search Sufficient?, section 5.1"
)
_TS_RSR = (
    "TS-RSR: a provably efficient approach for Batch Bayesian Optimization, section 6.2, tables 5 and 6"
)
_TS_RSR_CODE = "the code of TS-RSR (github.com/rafflesintown/TSRSR)"
_NEURAL_BO = "NeuralBO: A Black-box Optimization Algorithm using Deep Neural Networks, section 7.1"
_NEURAL_BO_CODE = "the code of NeuralBO (github.com/phantrdat/neuralbo)"
_TURBO = "BoTorch's tutorial on TuRBO-1 (https://botorch.org/docs/tutorials/turbo_1)"

_WEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
_A3 = np.array([[3.0, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
_P3 = 1e-4 * np.array([[3689.0, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547],
                       [381, 5743, 8828]])  # fmt: skip
_A6 = np.array([[10.0, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8],
                [17, 8, 0.05, 10, 0.1, 14]])  # fmt: skip
_P6 = 1e-4 * np.array([[1312.0, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
                       [2348, 1451, 3522, 2883, 3047, 6650],
                       [4047, 8828, 8732, 5743, 1091, 381]])  # fmt: skip
_STEEPNESS = 10
_SCHWEFEL_ARGUMENT = 420.96874635998205
_SCHWEFEL_CONSTANT = 418.9828872724337


def ackley(x: Array) -> Array:
    """20 + e - 20 exp(-0.2 √(Σ x_i² / d)) - exp(Σ cos(2π x_i) / d)."""
    radius = np.sqrt(np.mean(x**2, axis=-1))
    waves = np.mean(np.cos(2 * np.pi * x), axis=-1)
    return np.asarray(-20 * np.expm1(-0.2 * radius) + np.e - np.exp(waves))


def bird(x: Array) -> Array:
    """sin(x₁) exp((1 - cos x₂)²) + cos(x₂) exp((1 - sin x₁)²) + (x₁ - x₂)² (Mishra, 2006)."""
    first, second = x[..., 0], x[..., 1]
    left = np.sin(first) * np.exp((1 - np.cos(second)) ** 2)
    right = np.cos(second) * np.exp((1 - np.sin(first)) ** 2)
    return np.asarray(left + right + (first - second) ** 2)


def branin(x: Array) -> Array:
    """(x₂ - 5.1 x₁² / 4π² + 5 x₁ / π - 6)² + 10 (1 - 1 / 8π) cos x₁ + 10."""
    first, second = x[..., 0], x[..., 1]
    valley = second - 5.1 / (4 * np.pi**2) * first**2 + 5 / np.pi * first - 6
    return np.asarray(valley**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(first) + 10)


def griewank(x: Array) -> Array:
    """1 + Σ x_i² / 4000 - Π cos(x_i / √i)."""
    return _griewank(x, np.sqrt(np.arange(1, x.shape[-1] + 1)))


def griewank_without_root(x: Array) -> Array:
    """1 + Σ x_i² / 4000 - Π cos(x_i / i), as the code of TS-RSR has it."""
    return _griewank(x, np.arange(1.0, x.shape[-1] + 1))


def _griewank(x: Array, scales: Array) -> Array:
    return np.asarray(1 + np.sum(x**2, axis=-1) / 4000 - np.prod(np.cos(x / scales), axis=-1))


def hartmann3(x: Array) -> Array:
    """-Σ_i α_i exp(-Σ_j A_ij (x_j - P_ij)²)."""
    return _hartmann(x, _A3, _P3)


def hartmann4(x: Array) -> Array:
    """Hartmann with the first four columns of A and P of six dimensions, without the usual rescaling.

    So it is in the code of the random-grid paper (github.com/hwkim12/INEXACT_UCB_GRID).
    """
    return _hartmann(x, _A6[:, :4], _P6[:, :4])


def hartmann6(x: Array) -> Array:
    """-Σ_i α_i exp(-Σ_j A_ij (x_j - P_ij)²)."""
    return _hartmann(x, _A6, _P6)


def _hartmann(x: Array, rates: Array, centers: Array) -> Array:
    exponents = np.sum(rates * (x[..., None, :] - centers) ** 2, axis=-1)
    return -np.asarray(np.exp(-exponents) @ _WEIGHTS)


def levy(x: Array) -> Array:
    """sin²(π w₁) + Σ_{i<d} (w_i - 1)² (1 + 10 sin²(π w_i + 1)) + (w_d - 1)² (1 + sin²(2π w_d)).

    Here w = 1 + (x - 1) / 4.
    """
    w = 1 + (x - 1) / 4
    body, last = w[..., :-1], w[..., -1]
    value = np.sin(np.pi * w[..., 0]) ** 2
    value = value + np.sum((body - 1) ** 2 * (1 + 10 * np.sin(np.pi * body + 1) ** 2), axis=-1)
    return np.asarray(value + (last - 1) ** 2 * (1 + np.sin(2 * np.pi * last) ** 2))


def michalewicz(x: Array) -> Array:
    """-Σ sin(x_i) sin²⁰(i x_i² / π), i.e. with steepness m = 10."""
    i = np.arange(1, x.shape[-1] + 1)
    return -np.asarray(np.sum(np.sin(x) * np.sin(i * x**2 / np.pi) ** (2 * _STEEPNESS), axis=-1))


def rastrigin(x: Array) -> Array:
    """Σ (x_i² - 10 cos(2π x_i) + 10)."""
    return np.asarray(np.sum(x**2 - 10 * np.cos(2 * np.pi * x) + 10, axis=-1))


def rosenbrock(x: Array) -> Array:
    """Σ_{i<d} (100 (x_{i+1} - x_i²)² + (1 - x_i)²)."""
    head, tail = x[..., :-1], x[..., 1:]
    return np.asarray(np.sum(100 * (tail - head**2) ** 2 + (1 - head) ** 2, axis=-1))


def schwefel(x: Array) -> Array:
    """Σ (418.98… - x_i sin √|x_i|), the constant with all its digits, so that the minimum is 0."""
    return np.asarray(np.sum(_SCHWEFEL_CONSTANT - x * np.sin(np.sqrt(np.abs(x))), axis=-1))


def michalewicz_argument(dimension: int) -> Array:
    """The minimizer (d,): the function is a sum over coordinates, each with one peak per half wave.

    Newton's method climbs g(x) = ln sin x + 2m ln |sin u|, u = i x² / π, from u = π/2 + kπ for all k.
    """
    best = np.empty(dimension)
    for i in range(1, dimension + 1):
        x = np.pi * np.sqrt((np.arange(i) + 0.5) / i)
        for _ in range(20):
            u, du = i * x**2 / np.pi, 2 * i * x / np.pi
            slope = 1 / np.tan(x) + 2 * _STEEPNESS * du / np.tan(u)
            curvature = -1 / np.sin(x) ** 2
            curvature = curvature + 2 * _STEEPNESS * (du / (x * np.tan(u)) - (du / np.sin(u)) ** 2)
            x = x - slope / curvature
        best[i - 1] = x[np.argmax(np.sin(x) * np.sin(i * x**2 / np.pi) ** (2 * _STEEPNESS))]
    return best


def _problem(
    name: str,
    function: Function,
    box: Box,
    optimum: float,
    optimal: Sequence[float],
    budget: int,
    reference: str,
    exact: bool = True,
) -> Problem:
    names = [f"x{i}" for i in range(1, len(box) + 1)]

    def value(params: Params) -> float:
        return float(function(np.array([params[key] for key in names], dtype=float)))

    return Problem(
        name=name,
        space=Space({key: Float(low, high) for key, (low, high) in zip(names, box, strict=True)}),
        value=value,
        reference=reference,
        budget=budget,
        optimum=optimum,
        exact=exact,
        optimal=dict(zip(names, map(float, optimal), strict=True)),
    )


def _zero(
    function: Function, box: Box, optimal: float, budget: int, reference: str
) -> Callable[[str], Problem]:
    """A function whose minimum is 0, where all coordinates are `optimal`."""
    point = [optimal] * len(box)
    return lambda name: _problem(name, function, box, 0.0, point, budget, f"{_LIBRARY}; {reference}")


def _best_known(
    function: Function, box: Box, optimum: float, optimal: Sequence[float], budget: int, reference: str
) -> Callable[[str], Problem]:
    """A function whose published minimum has not been improved, nor proven here."""
    return lambda name: _problem(name, function, box, optimum, optimal, budget, reference, exact=False)


def _branin(name: str) -> Problem:
    reference = f"{_LIBRARY}; {_RANDOM_GRID}"
    box = [(-5.0, 10.0), (0.0, 15.0)]
    return _problem(name, branin, box, 10 / (8 * math.pi), [math.pi, 2.275], 20 + 80, reference)


def _michalewicz(dimension: int, budget: int, reference: str) -> Callable[[str], Problem]:
    def make(name: str) -> Problem:
        argument = michalewicz_argument(dimension)
        minimum, box = float(michalewicz(argument)), [(0.0, math.pi)] * dimension
        return _problem(name, michalewicz, box, minimum, list(argument), budget, reference)

    return make


def _factory(make: Callable[[str], Problem], name: str) -> Factory:
    return lambda seed: make(name)  # nothing is drawn


_DIMENSIONS = (10, 20, 50, 100)
_ROWS: dict[str, Callable[[str], Problem]] = {
    "ackley-2": _zero(ackley, [(-5, 5)] * 2, 0, 15 + 250, _TS_RSR),
    "ackley-2-wide": _zero(ackley, [(-32.768, 32.768)] * 2, 0, 5 + 100, _NEURAL_BO_CODE),
    "ackley-3": _zero(ackley, [(-5, 5)] * 3, 0, 15 + 300, _TS_RSR),
    **{f"ackley-{d}": _zero(ackley, [(-32.768, 32.768)] * d, 0, 2000, _NEURAL_BO) for d in _DIMENSIONS},
    "ackley-20-turbo": _zero(ackley, [(-5, 10)] * 20, 0, 400, _TURBO),
    "bird": _best_known(
        bird,
        [(-2 * math.pi, 2 * math.pi)] * 2,
        -106.76453674926472,
        [-1.582142163766863, -3.130246803779425],  # the other minimizer is (4.70104312, 3.15293851)
        15 + 250,
        f"Mishra, Some New Test Functions for Global Optimization, 2006; {_TS_RSR}",
    ),
    "branin": _branin,
    "griewank-8": _zero(griewank, [(-1, 4)] * 8, 0, 15 + 300, _TS_RSR),
    "griewank-8-tsrsr": _zero(griewank_without_root, [(-1, 4)] * 8, 0, 15 + 300, _TS_RSR_CODE),
    "hartmann-3": _best_known(
        hartmann3,
        [(0, 1)] * 3,
        -3.862779787332663,
        [0.114588879, 0.555648894, 0.852546978],
        30 + 100,
        f"{_LIBRARY}; {_RANDOM_GRID}",
    ),
    "hartmann-4": _best_known(
        hartmann4,
        [(0, 1)] * 4,
        -3.729840584485592,
        [0.187395275, 0.194151528, 0.557917779, 0.264779623],
        40 + 100,
        f"{_RANDOM_GRID}, and its code (github.com/hwkim12/INEXACT_UCB_GRID)",
    ),
    "hartmann-6": _best_known(
        hartmann6,
        [(0, 1)] * 6,
        -3.322368011415515,
        [0.201689513, 0.150010692, 0.476873967, 0.27533243, 0.311651618, 0.657300534],
        60 + 200,
        f"{_LIBRARY}; {_RANDOM_GRID}; {_TS_RSR}",
    ),
    "levy-5": _zero(levy, [(-10, 10)] * 5, 1, 50 + 150, _RANDOM_GRID),
    **{f"levy-{d}": _zero(levy, [(-10, 10)] * d, 1, 2000, _NEURAL_BO) for d in _DIMENSIONS},
    "michalewicz-10": _michalewicz(10, 15 + 150, f"{_LIBRARY}; {_TS_RSR}; {_NEURAL_BO}"),
    **{f"michalewicz-{d}": _michalewicz(d, 2000, f"{_LIBRARY}; {_NEURAL_BO}") for d in _DIMENSIONS[1:]},
    "rastrigin-3": _zero(rastrigin, [(-5.12, 5.12)] * 3, 0, 30 + 100, _RANDOM_GRID),
    **{
        f"rastrigin-{d}": _zero(rastrigin, [(-5.12, 5.12)] * d, 0, 2000, _NEURAL_BO_CODE)
        for d in _DIMENSIONS
    },
    "rosenbrock-2": _zero(rosenbrock, [(-2, 2), (-1, 3)], 1, 15 + 250, _TS_RSR),
    **{
        f"rosenbrock-{d}": _zero(rosenbrock, [(-2.048, 2.048)] * d, 1, 2000, _NEURAL_BO_CODE)
        for d in _DIMENSIONS
    },
    **{
        f"schwefel-{d}": _zero(schwefel, [(-500, 500)] * d, _SCHWEFEL_ARGUMENT, 2000, _NEURAL_BO_CODE)
        for d in _DIMENSIONS
    },
}

PROBLEMS: Mapping[str, Factory] = MappingProxyType(
    {name: _factory(make, name) for name, make in _ROWS.items()}
)
