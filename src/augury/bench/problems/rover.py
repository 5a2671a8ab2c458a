"""Rover: points through which a rover's path goes from corner to corner around obstacles.

The two domains of EBO (Wang, Gehring, Kohli, Jegelka 2018): small with 10 points, large with 30. The
path is a smoothing spline of the points; at SciPy's default smoothing it is one cubic in nearly all
cases, so that only 4 (small) or 8 (large) directions of the space matter.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.interpolate import BSpline, splprep

from augury.bench.problem import Factory, Params, Problem
from augury.space import Float, Space
from augury.space.axes import FloatArray

START, GOAL = np.array([0.05, 0.05]), np.array([0.95, 0.95])
OFFSET = 5.0
GROUND, CRASH = 0.05, 20.0  # costs per length, everywhere and also within obstacles or off the map
MISS = 10.0  # the cost per distance from start and goal, of a path that need not go through them
NOISE = 1e-4


@dataclass(frozen=True)
class Domain:
    """A map.

    Args:
        obstacles: the name of their list in the data file.
        half: half the width of an obstacle.
        points: the number of points of a path.
        forced: whether paths begin at the start and end at the goal; others pay for missing them.
    """

    obstacles: str
    half: float
    points: int
    forced: bool


SMALL = Domain("small", 0.05, 10, forced=True)
LARGE = Domain("large", 0.025, 30, forced=False)

# The best points known. A search over cubic curves (differential evolution, with obstacles 1e-4 wider)
# found the paths, and least squares the points that give them.
BEST_SMALL = (
    0.22507, 0.1663, 0.25917, 0.28706, 0.41988, 0.2154, 0.51373, 0.21245, 0.46194, 0.30195,
    0.64374, 0.24799, 0.71493, 0.3729, 0.76154, 0.37034, 0.8332, 0.57185, 0.83557, 0.71345,
)  # fmt: skip
BEST_LARGE = (
    0.07282, 0.18285, 0.21937, 0.24262, 0.29736, 0.42539, 0.34655, 0.40126, 0.37654, 0.64909,
    0.5143, 0.60785, 0.55212, 0.79907, 0.44084, 0.75372, 0.52766, 0.78539, 0.49281, 0.8217,
    0.4998, 0.78272, 0.42924, 0.95006, 0.60147, 0.81864, 0.42532, 0.90225, 0.61878, 0.89326,
    0.62467, 0.86198, 0.95882, 0.82569, 0.64867, 0.74096, 0.56966, 0.79512, 0.61906, 0.80052,
    0.66545, 0.76994, 0.70201, 0.71505, 0.62998, 0.98142, 0.74286, 0.66579, 0.70138, 0.699,
    0.73702, 0.78706, 0.82342, 0.77903, 0.7135, 0.86374, 0.8675, 0.85964, 0.94277, 0.88637,
)  # fmt: skip


@cache
def centres(obstacles: str) -> FloatArray:
    """The centres (n, 2) of the obstacles."""
    data = files(__package__).joinpath("rover_obstacles.json").read_text(encoding="utf-8")
    array = np.array(json.loads(data)[obstacles])
    array.setflags(write=False)
    return array


def path(domain: Domain, points: FloatArray) -> FloatArray:
    """The path (1000, 2) along points (n, 2)."""
    if domain.forced:
        points = np.vstack([START, points, GOAL])
    # Points that repeat are kept apart by a hair: the spline needs increasing parameters.
    chords = np.maximum(np.linalg.norm(np.diff(points, axis=0), axis=1), 1e-6)
    u = np.concatenate([[0.0], np.cumsum(chords)]) / chords.sum()
    spline: Any = splprep(list(points.T), u=u, k=3)[0]
    knots, coefficients = spline[0], np.stack(spline[1], axis=1)
    if domain.forced:
        coefficients[[0, -1]] = START, GOAL
    return np.asarray(BSpline(knots, coefficients, 3)(np.linspace(0.0, 1.0, 1000)))


def density(domain: Domain, places: FloatArray) -> FloatArray:
    """The cost per length (n,) at places (n, 2)."""
    # Compared with the rounded edges, as the original does, not |place - centre| with the half-width.
    left, bottom = (centres(domain.obstacles) - domain.half).T
    right, top = (centres(domain.obstacles) + domain.half).T
    x, y = places[:, :1], places[:, 1:]
    crash = ((left <= x) & (x < right) & (bottom <= y) & (y < top)).any(axis=1)
    outside = ((places < 0.0) | (places >= 1.0)).any(axis=1)
    return np.where(crash | outside, GROUND + CRASH, GROUND)


def reward(domain: Domain, points: FloatArray) -> float:
    """What a path along points (n, 2) is worth."""
    way = path(domain, points)
    lengths = np.linalg.norm(np.diff(way, axis=0), axis=1)
    costs = density(domain, way)
    cost = float(lengths @ (costs[1:] + costs[:-1]) / 2)
    if not domain.forced:
        cost += MISS * float(np.abs(way[0] - START).sum() + np.abs(way[-1] - GOAL).sum())
    return OFFSET - cost


def _rover(name: str, domain: Domain, budget: int, best: float, at: Sequence[float]) -> Factory:
    names = [f"u{i}" for i in range(2 * domain.points)]

    def points(params: Params) -> FloatArray:
        return -0.1 + 1.2 * np.array([params[n] for n in names]).reshape(-1, 2)

    def value(params: Params) -> float:
        return reward(domain, points(params))

    def observe(params: Params, rng: Generator) -> float:
        exact = points(params)
        return reward(domain, exact + rng.normal(0.0, NOISE, exact.shape))

    def build(seed: int) -> Problem:
        return Problem(
            name,
            Space({n: Float(0.0, 1.0) for n in names}),
            value,
            reference=f"EBO (Wang, Gehring, Kohli, Jegelka 2018), {domain.obstacles} domain",
            budget=budget,
            direction="maximize",
            optimum=best,
            exact=False,
            optimal=dict(zip(names, at, strict=True)),
            observe=observe,
            noise="N(0, (1e-4)²) on each coordinate",
        )

    return build


PROBLEMS: Mapping[str, Factory] = MappingProxyType(
    {
        "rover-20": _rover("rover-20", SMALL, 500, 4.927996, BEST_SMALL),
        "rover-60": _rover("rover-60", LARGE, 1000, 4.924727, BEST_LARGE),
    }
)
