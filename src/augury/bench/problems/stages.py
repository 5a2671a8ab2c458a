"""Choices alone: what to do at each of 25 stages against contamination of food, or against pests.

Each value is a mean over 100 simulated courses, whose random numbers are drawn once and for all.

References: Hu, Hu, Xu, Wang & Cao (2010), "Contamination control in food supply chain"; Oh, Tomczak,
Gavves & Welling (2019), "Combinatorial Bayesian optimization using the graph Cartesian product".
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from augury.bench.problem import Factory, Params, Problem
from augury.space import Choice, Space

FloatArray = npt.NDArray[np.float64]

STAGES, COURSES = 25, 100
LIMIT = 0.1  # of the share of food that is contaminated, or of plants that have pests
START, SPREAD = (
    30.0,
    17.0 / 3.0,
)  # b of the shares Beta(1, b) at the beginning, and that catch it at a stage


def beta(u: FloatArray, b: float) -> FloatArray:
    """Numbers with the distribution Beta(1, b), of uniform ones: its quantiles 1 − (1 − u)^(1/b)."""
    return np.asarray(1.0 - (1.0 - u) ** (1.0 / b))


class Courses(NamedTuple):
    """Uniform random numbers of the simulated courses."""

    start: FloatArray  # (courses,)
    spread: FloatArray  # (stages, courses)
    cure: FloatArray  # (stages, courses)

    @classmethod
    def drawn(cls, seed: int) -> "Courses":
        """Those of a seed."""
        rng = np.random.default_rng(seed)
        stages = rng.random((2, STAGES, COURSES))
        return cls(rng.random(COURSES), *stages)


# Contamination control

CLEANING = 3.0 / 7.0  # b of the share that is made clean
EXCEPTIONS = 0.05  # share of the courses that may be above the limit
PREFERENCE = 0.01  # for few stages, beside their cost of 1


def contamination(cleaned: npt.NDArray[np.bool_], courses: Courses) -> float:
    """The cost of cleaning at these stages, less how much more often than asked for the limit is kept.

    Z_i = (1 − x_i) Λ_i (1 − Z_{i−1}) + (1 − x_i Γ_i) Z_{i−1}
    f(x) = Σ_i [1.01 x_i − (P(Z_i < 0.1) − 0.95)]
    """
    z = beta(courses.start, START)
    total = (1.0 + PREFERENCE) * cleaned.sum()
    for x, spread, cure in zip(cleaned, courses.spread, courses.cure, strict=True):
        caught = 0.0 if x else beta(spread, SPREAD) * (1.0 - z)
        z = caught + (1.0 - x * beta(cure, CLEANING)) * z
        total -= np.mean(z < LIMIT) - (1.0 - EXCEPTIONS)
    return float(total)


# Pest control


class Pesticide(NamedTuple):
    """What a pesticide costs, and how well it works."""

    price: float
    discount: float  # on its price if it is used at all stages
    weakness: float  # b of the share that it kills: small is good
    tolerance: float  # by which the weakness has grown if it is used at all stages


NOTHING = "none"
PESTICIDES = {
    "A": Pesticide(1.0, 0.2, 2.0 / 7.0, 1.0 / 7.0),
    "B": Pesticide(0.8, 0.3, 3.0 / 7.0, 2.5 / 7.0),
    "C": Pesticide(0.7, 0.3, 3.0 / 7.0, 2.0 / 7.0),
    "D": Pesticide(0.5, 0.0, 5.0 / 7.0, 0.5 / 7.0),
}


def pests(used: list[str], courses: Courses) -> float:
    """The price of the pesticides used, and at how many stages there are pests above the limit.

    Without a pesticide pests catch a share of what is free of them. A pesticide kills a share of them, a
    smaller one the more often it has been used, and is the cheaper the more often it is used.
    """
    share, total = beta(courses.start, START), 0.0
    weakness = {name: one.weakness for name, one in PESTICIDES.items()}
    for name, spread, cure in zip(used, courses.spread, courses.cure, strict=True):
        total += float(np.mean(share > LIMIT))
        if name == NOTHING:
            share = share + beta(spread, SPREAD) * (1.0 - share)
            continue
        one = PESTICIDES[name]
        share = share * (1.0 - beta(cure, weakness[name]))
        weakness[name] += one.tolerance / STAGES
        total += one.price * (1.0 - one.discount * used.count(name) / STAGES)
    return total


NAMES = [f"stage{i + 1}" for i in range(STAGES)]


def contamination_25(seed: int = 0) -> Problem:
    """At which of 25 stages food is cleaned."""
    courses = Courses.drawn(0)

    def value(params: Params) -> float:
        return contamination(np.array([params[name] for name in NAMES], dtype=bool), courses)

    options: list[Any] = [False, True]
    return _problem("contamination-25", options, value, "Hu et al. (2010); Oh et al. (2019), section 4.1")


def pest_control_25(seed: int = 0) -> Problem:
    """Which of four pesticides is used at each of 25 stages, or none."""
    courses = Courses.drawn(0)

    def value(params: Params) -> float:
        return pests([params[name] for name in NAMES], courses)

    return _problem("pest-control-25", [NOTHING, *PESTICIDES], value, "Oh et al. (2019), section 4.2")


def _problem(name: str, options: list[Any], value: Any, reference: str) -> Problem:
    space = Space({stage: Choice(options) for stage in NAMES})
    return Problem(name=name, space=space, value=value, reference=reference, budget=250)


PROBLEMS: Mapping[str, Factory] = {
    "contamination-25": contamination_25,
    "pest-control-25": pest_control_25,
}
