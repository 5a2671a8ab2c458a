"""Functions drawn from Gaussian processes: the seed draws the function.

The authors drew theirs with PyTorch's generator, which is not needed here: the functions below have
the same distributions, but are other draws. Only "gp-rbf-2d-code", which they drew with NumPy, is
theirs, draw by draw. TS-RSR minimizes, STO-BNTS maximizes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np
import numpy.typing as npt

from augury.bench.problem import Factory, Params, Problem
from augury.space import Float, Space

Array = npt.NDArray[np.float64]

_STO_BNTS = "Sample-Then-Optimize Batch Neural Thompson Sampling, appendix F.1"
_TS_RSR = "TS-RSR: a provably efficient approach for Batch Bayesian Optimization, section 6.1"
_TS_RSR_CODE = "the code of TS-RSR (github.com/rafflesintown/TSRSR)"

_NODES_PER_LENGTH_SCALE = 3  # the covariance is then right to 2e-8
_JITTER = 1e-10
_CANDIDATES = 1000
_CELLS = 25  # per axis of the 3-D grid of TS-RSR's code: a step of 0.04


class Draw(Protocol):
    """A function that can be evaluated on grids."""

    def __call__(self, axes: Sequence[npt.ArrayLike]) -> Array:
        """The values at all combinations of coordinates, one axis of the result per dimension."""


@dataclass(frozen=True, eq=False)
class SquaredExponentialDraw:
    """A draw with covariance Π_j exp(-(x_j - x'_j)² / 2ℓ²) on a box with equal sides.

    f(x) = Σ z_{i…k} φ_i(x₁) … φ_k(x_d), where z is standard normal, φ(x) = L⁻¹ k(nodes, x), and
    L Lᵀ is the covariance of evenly spaced nodes. This smooth function is defined on the whole box.
    """

    nodes: Array
    root: Array  # L⁻¹
    weights: Array
    length_scale: float

    @classmethod
    def sample(
        cls, dimension: int, low: float, high: float, length_scale: float, rng: np.random.Generator
    ) -> "SquaredExponentialDraw":
        """A new function on [low, high]^d."""
        count = round(_NODES_PER_LENGTH_SCALE * (high - low) / length_scale) + 1
        nodes = np.linspace(low, high, count)
        covariance = _squared_exponential(nodes, nodes, length_scale) + _JITTER * np.eye(count)
        root = np.linalg.inv(np.linalg.cholesky(covariance))
        return cls(nodes, root, rng.standard_normal((count,) * dimension), length_scale)

    def __call__(self, axes: Sequence[npt.ArrayLike]) -> Array:
        """The values on a grid."""
        values = self.weights
        for axis in axes:
            phi = _squared_exponential(np.asarray(axis), self.nodes, self.length_scale) @ self.root.T
            values = np.tensordot(values, phi, axes=(0, 1))
        return values


def _squared_exponential(a: Array, b: Array, length_scale: float) -> Array:
    return np.asarray(np.exp(-0.5 * ((a[:, None] - b) / length_scale) ** 2))


@dataclass(frozen=True, eq=False)
class UniformFeatureDraw:
    """√(2/D) Σ_j θ_j cos(w_j · x + b_j), D = 256, θ ~ U(0, 1), w ~ N(0, ℓ⁻²), b ~ U(0, 2π); in 2-D.

    So TS-RSR's code makes its "GP-RBF-prior-2D"; it would approach a Gaussian process if θ were
    standard normal.
    """

    theta: Array
    w: Array
    b: Array

    @classmethod
    def sample(cls, length_scale: float, seed: int, features: int = 256) -> "UniformFeatureDraw":
        """The function of a seed, the same as the authors' (theirs are 0 to 9)."""
        rng = np.random.RandomState(seed % 2**32)
        b = rng.uniform(0.0, 2 * np.pi, size=features)
        w = rng.normal(scale=1 / length_scale, size=(features, 2))
        return cls(rng.uniform(size=features), w, b)

    def __call__(self, axes: Sequence[npt.ArrayLike]) -> Array:
        """The values on a grid, with cos(p + q) = cos p cos q - sin p sin q."""
        first, second = (np.asarray(axis, dtype=float)[:, None] for axis in axes)
        p, q = first * self.w[:, 0] + self.b, second * self.w[:, 1]
        scale = np.sqrt(2 / len(self.theta)) * self.theta
        return np.asarray((scale * np.cos(p)) @ np.cos(q).T - (scale * np.sin(p)) @ np.sin(q).T)


def lowest(draw: Draw, dimension: int, low: float, high: float, step: float) -> Array:
    """The best minimizer found: the ten lowest local minima of a grid, refined on ever finer grids."""
    from scipy.ndimage import minimum_filter  # takes long to import

    ticks = np.linspace(low, high, round((high - low) / step) + 1)
    values = draw([ticks] * dimension)
    minima = np.argwhere(values == minimum_filter(values, 3, mode="nearest"))
    minima = minima[np.argsort(values[tuple(minima.T)])[:10]]
    refined = [_refined(draw, ticks[place], low, high, step) for place in minima]
    return min(refined, key=lambda best: best[0])[1]


def _refined(draw: Draw, place: Array, low: float, high: float, reach: float) -> tuple[float, Array]:
    """The lowest value near a point, and where it is; `reach` is halved 25 times."""
    best = np.inf
    for width in reach / 2.0 ** np.arange(25):
        axes = np.clip(place[:, None] + np.linspace(-width, width, 7), low, high)
        values = draw(list(axes))
        best = float(values.min())
        place = np.array([axis[i] for axis, i in zip(axes, _where(values), strict=True)])
    return best, place


def _where(values: Array) -> tuple[int, ...]:
    """The indices of the smallest value."""
    return tuple(map(int, np.unravel_index(values.argmin(), values.shape)))


def _generator(name: str, seed: int) -> np.random.Generator:
    """A stream that no other user of the same seed shares."""
    return np.random.default_rng([seed, *name.encode()])


def _se_1d(seed: int) -> Problem:
    """A draw with lengthscale 0.1 at 1,000 points of [0, 1], maximized over them.

    The domain is a Float with a step rather than a pool: it has the same 1,000 points, and optimizers
    that know no pools can search it too.
    """
    last = _CANDIDATES - 1
    draw = SquaredExponentialDraw.sample(1, 0.0, 1.0, 0.1, _generator("gp-se-1d", seed))
    values = draw([np.linspace(0.0, 1.0, _CANDIDATES)])
    space = Space(x=Float(0, 1, step=1 / last))
    best = int(values.argmax())
    return Problem(
        name="gp-se-1d",
        space=space,
        value=lambda params: float(values[round(params["x"] * last)]),
        reference=_STO_BNTS,
        budget=100,  # not stated in the paper
        direction="maximize",
        optimum=float(values[best]),
        optimal=space.decode(space.rows(best, best + 1)[0]),
    )


def _smooth(
    name: str, draw: Draw, dimension: int, side: tuple[float, float], budget: int, source: str
) -> Problem:
    """A draw on a box, as a problem; its minimum is searched from a grid of 401² or 81³ points."""
    names = [f"x{i}" for i in range(1, dimension + 1)]
    step = (side[1] - side[0]) / (400 if dimension == 2 else 80)

    def value(params: Params) -> float:
        return float(draw([[params[key]] for key in names]).item())

    optimal = dict(zip(names, lowest(draw, dimension, *side, step).tolist(), strict=True))
    return Problem(
        name=name,
        space=Space({key: Float(*side) for key in names}),
        value=value,
        reference=source,
        budget=budget,
        optimum=value(optimal),
        exact=False,
        optimal=optimal,
    )


def _rbf_2d(seed: int) -> Problem:
    """A draw with lengthscale 0.25 on [-5, 5]² and variance 1, which the paper does not state."""
    draw = SquaredExponentialDraw.sample(2, -5.0, 5.0, 0.25, _generator("gp-rbf-2d", seed))
    return _smooth("gp-rbf-2d", draw, 2, (-5.0, 5.0), 15 + 400, _TS_RSR)


def _rbf_2d_code(seed: int) -> Problem:
    """A sum of random features with uniform weights on [-5, 5]²."""
    draw = UniformFeatureDraw.sample(0.25, seed)
    return _smooth("gp-rbf-2d-code", draw, 2, (-5.0, 5.0), 15 + 400, _TS_RSR_CODE)


def _rbf_3d(seed: int) -> Problem:
    """A draw with lengthscale 0.15 on [0, 1]³ and variance 1, which the paper does not state."""
    draw = SquaredExponentialDraw.sample(3, 0.0, 1.0, 0.15, _generator("gp-rbf-3d", seed))
    return _smooth("gp-rbf-3d", draw, 3, (0.0, 1.0), 15 + 250, _TS_RSR)


def _rbf_3d_code(seed: int) -> Problem:
    """A draw with lengthscale 0.15 and variance 10 on a grid of 26³, read at the nearest grid point.

    Up to the variance it is the draw of "gp-rbf-3d" with the same seed. It is constant around each
    grid point, and the search happens on the whole box.
    """
    draw = SquaredExponentialDraw.sample(3, 0.0, 1.0, 0.15, _generator("gp-rbf-3d", seed))
    ticks = np.linspace(0.0, 1.0, _CELLS + 1)
    values = np.sqrt(10) * draw([ticks] * 3)
    names = ("x1", "x2", "x3")

    def value(params: Params) -> float:
        return float(values[tuple(round(params[key] * _CELLS) for key in names)])

    return Problem(
        name="gp-rbf-3d-code",
        space=Space({key: Float(0, 1) for key in names}),
        value=value,
        reference=_TS_RSR_CODE,
        budget=15 + 250,
        optimum=float(values.min()),
        optimal={key: float(ticks[i]) for key, i in zip(names, _where(values), strict=True)},
    )


PROBLEMS: Mapping[str, Factory] = MappingProxyType(
    {
        "gp-se-1d": _se_1d,
        "gp-rbf-2d": _rbf_2d,
        "gp-rbf-2d-code": _rbf_2d_code,
        "gp-rbf-3d": _rbf_3d,
        "gp-rbf-3d-code": _rbf_3d_code,
    }
)
