"""Changes to a problem that make a harder one, or a fairer comparison.

A wrapper holds its settings; called with a problem and a seed it gives a new problem, so wrappers
compose: ``Noisy(0.1)(Shifted()(problem, seed), seed)``. Discretized comes after Shifted and Rotated,
and before Failing. What is known of the optimum is kept where it stays right, and otherwise becomes
None. Shifted and Rotated act on the columns of [0, 1] in which a space encodes its continuous
parameters (logarithms where these are searched), and leave discrete parameters as they are.
"""

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from augury._checks import check_count, one_of
from augury._errors import UnsupportedError
from augury.bench.problem import Params, Problem
from augury.space import Choice, Float, Param, Pool, Scalar, Space

Array = npt.NDArray[np.float64]
Wrapper = Callable[[Problem, int], Problem]
Point = dict[str, Scalar]
Label = tuple[type, Scalar]

_FIXED_SEED = 0


@dataclass(frozen=True)
class Noisy:
    """Adds Gaussian noise to what an optimizer sees; `value`, and so regret, stay without it.

    Args:
        deviation: the standard deviation of the noise.
        relative: whether it is a multiple of the standard deviation of the function over uniform
            points, always the same ones, which are evaluated once before the first observation.
        points: how many these are.
    """

    deviation: float
    relative: bool = False
    points: int = 10_000

    def __post_init__(self) -> None:
        if not (math.isfinite(self.deviation) and self.deviation >= 0):
            raise UnsupportedError(
                f"Noisy must satisfy deviation >= 0; got deviation={self.deviation}. Use 0 for no noise."
            )
        check_count("Noisy points", self.points)

    def __call__(self, problem: Problem, seed: int) -> Problem:
        """The problem with noise; the seed changes nothing."""

        @cache
        def deviation() -> float:
            if not self.relative:
                return self.deviation
            points = _uniform(problem.space, self.points, np.random.default_rng(_FIXED_SEED))
            return self.deviation * float(np.std([problem.value(point) for point in points]))

        def observe(params: Params, rng: Generator) -> float:
            return problem(params, rng) + deviation() * float(rng.standard_normal())

        unit = " of the function's" if self.relative else ""
        noise = f"Gaussian, standard deviation {self.deviation:g}{unit}"
        if problem.noise != "none":
            noise = f"{problem.noise}; {noise}"
        return replace(problem, name=f"{problem.name}+noisy", observe=observe, noise=noise)


@dataclass(frozen=True)
class Shifted:
    """Moves the optimum to a uniform point of the middle of the box; points outside are reflected back.

    A point u of the new problem has the value of the old one at u - t + u*, where u* is the old
    optimum and t the new one. Where u* is not known, the centre of the box moves, and the optimum is no
    longer known. The seed and the problem's name decide where the optimum moves.

    Args:
        middle: the share of every side in which the optimum may lie.
    """

    middle: float = 0.8

    def __post_init__(self) -> None:
        if not 0 <= self.middle <= 1:
            raise UnsupportedError(
                f"Shifted must satisfy 0 <= middle <= 1; got middle={self.middle}. Use a share."
            )

    def __call__(self, problem: Problem, seed: int) -> Problem:
        """The problem with its optimum elsewhere."""
        space, columns = _continuous(problem, "Shifted")
        target = 0.5 + self.middle * (
            _generator("shifted", seed, problem.name).random(len(columns)) - 0.5
        )
        anchor = _anchor(problem, columns)
        return _moved(problem, "shifted", space, columns, lambda u: u - target + anchor, target)


@dataclass(frozen=True)
class Rotated:
    """Rotates the box about the optimum, or its centre where that is not known, and may mirror it.

    A point u has the value of the old problem at c + Q (u - c), reflected back into the box, with Q
    uniform among the orthogonal matrices. About an optimum, this stays where it is; about the centre,
    the optimum is no longer known.
    """

    def __call__(self, problem: Problem, seed: int) -> Problem:
        """The problem on turned axes."""
        space, columns = _continuous(problem, "Rotated")
        center = _anchor(problem, columns)
        normal = _generator("rotated", seed).standard_normal((len(columns), len(columns)))
        q, r = np.linalg.qr(normal)
        q = q * np.sign(np.diag(r))  # uniform only with the signs of r (Mezzadri, 2007)
        return _moved(problem, "rotated", space, columns, lambda u: center + q @ (u - center), center)


@dataclass(frozen=True)
class Discretized:
    """Gives every continuous Float evenly spaced levels; a logarithmic one becomes an ordered Choice.

    An optimum that lies on a level is kept. Otherwise the best point that is found by a descent over
    neighbouring levels from the one nearest to it is the best known, and not exact.

    Args:
        levels: how many, at least 2.
    """

    levels: int = 11

    def __post_init__(self) -> None:
        if (check_count("Discretized levels", self.levels) or 0) < 2:
            raise UnsupportedError("Discretized must have at least 2 levels; got 1. Use a larger number.")

    def __call__(self, problem: Problem, seed: int) -> Problem:
        """The problem on a grid; the seed changes nothing."""
        old, _ = _continuous(problem, "Discretized")
        space = Space({name: self._levelled(param) for name, param in old.params.items()})
        grid = replace(problem, name=f"{problem.name}+discretized", space=space)
        if problem.optimal is None:
            return replace(grid, optimum=None)
        row = old.encode(problem.optimal)
        nearest = space.decode(row)
        if np.abs(space.encode(nearest) - row).max() < 1e-12:
            return replace(grid, optimal=nearest)
        best = _descent(grid, space, nearest)
        return replace(grid, optimal=best, optimum=problem.value(best), exact=False)

    def _levelled(self, param: Param) -> Param:
        if not isinstance(param, Float) or not param.continuous:
            return param
        if param.log:
            columns = np.linspace(0.0, 1.0, self.levels)[:, None]
            return Choice(param.decode(columns), ordered=True)
        return Float(param.low, param.high, step=(param.high - param.low) / (self.levels - 1))


@dataclass(frozen=True)
class Permuted:
    """Permutes the parameters, and the labels of every unordered choice. The optimum moves with them."""

    def __call__(self, problem: Problem, seed: int) -> Problem:
        """The problem with another order of parameters and other labels."""
        old = _space(problem, "Permuted")
        rng = _generator("permuted", seed)
        space = Space({old.names[i]: old.params[old.names[i]] for i in rng.permutation(len(old.names))})
        swaps = {
            name: _swaps(param.options, rng)
            for name, param in old.params.items()
            if isinstance(param, Choice) and not param.ordered
        }

        def back(params: Params) -> Point:
            return _relabelled(params, swaps)

        optimal: Point | None = None
        if problem.optimal is not None:
            forth = {
                name: {_label(old_label): label for (_, label), old_label in swap.items()}
                for name, swap in swaps.items()
            }
            optimal = _relabelled(problem.optimal, forth)
        return _through(
            replace(problem, name=f"{problem.name}+permuted", space=space, optimal=optimal), back
        )


@dataclass(frozen=True)
class Failing:
    """Makes a fraction of the evaluations fail.

    Args:
        fraction: how many fail: of the evaluations, or of the space.
        where: "random": any evaluation may fail, drawn from its generator; "region": always the points
            beyond a hyperplane with a random direction, which spares the optimum where it is known and
            can be. Where it cannot, or is not known, the optimum becomes None.
        how: "raise" a RuntimeError, or return "nan".
    """

    fraction: float
    where: Literal["random", "region"] = "random"
    how: Literal["raise", "nan"] = "raise"

    def __post_init__(self) -> None:
        if not 0 <= self.fraction <= 1:
            raise UnsupportedError(
                f"Failing must satisfy 0 <= fraction <= 1; got fraction={self.fraction}. Use a share."
            )
        one_of("Failing where", self.where, ("random", "region"))
        one_of("Failing how", self.how, ("raise", "nan"))

    def __call__(self, problem: Problem, seed: int) -> Problem:
        """The problem with failures."""
        if self.where == "random":
            failing = replace(problem, name=f"{problem.name}+failing")
            return self._with(failing, problem, lambda params, rng: bool(rng.random() < self.fraction))
        beyond = _half_space(problem, self.fraction, _generator("failing", seed))
        known = problem.optimal is not None and not beyond(problem.optimal)
        failing = replace(
            problem,
            name=f"{problem.name}+failing",
            optimum=problem.optimum if known else None,
            optimal=problem.optimal if known else None,
        )
        return self._with(failing, problem, lambda params, rng: beyond(params))

    def _with(
        self, failing: Problem, problem: Problem, fails: Callable[[Params, Generator], bool]
    ) -> Problem:
        def observe(params: Params, rng: Generator) -> float:
            if not fails(params, rng):
                return problem(params, rng)
            if self.how == "nan":
                return math.nan
            raise RuntimeError(f"{failing.name} failed at {dict(params)}, as it is meant to")

        return replace(failing, observe=observe)


def _generator(name: str, seed: int, problem: str = "") -> Generator:
    """A stream that no other user of the same seed shares; nor another problem, where one is named."""
    stream = [zlib.crc32(problem.encode())] if problem else []
    return np.random.default_rng([seed, *name.encode(), *stream])


def _through(problem: Problem, back: Callable[[Params], Params]) -> Problem:
    """The problem, evaluated at another point than the given one."""
    value, observe = problem.value, problem.observe
    return replace(
        problem,
        value=lambda params: value(back(params)),
        observe=None if observe is None else lambda params, rng: observe(back(params), rng),
    )


def _moved(
    problem: Problem,
    verb: str,
    space: Space,
    columns: npt.NDArray[np.intp],
    move: Callable[[Array], Array],
    target: Array,
) -> Problem:
    """The problem whose continuous columns are moved; a known optimum is now at `target`."""

    def back(params: Params) -> Point:
        row = space.encode(params)
        row[columns] = _reflected(move(row[columns]))
        return space.decode(row)

    optimal: Point | None = None
    if problem.optimal is not None:
        row = space.encode(problem.optimal)
        row[columns] = target
        optimal = space.decode(row)
    optimum = None if optimal is None else problem.optimum
    return _through(
        replace(problem, name=f"{problem.name}+{verb}", optimum=optimum, optimal=optimal), back
    )


def _reflected(u: Array) -> Array:
    """The point of [0, 1] that mirrors at 0 and 1 show: 1.2 is 0.8, -0.3 is 0.3, 2.1 is 0.1."""
    return 1 - np.abs(1 - u % 2)


def _anchor(problem: Problem, columns: npt.NDArray[np.intp]) -> Array:
    """The continuous columns of the optimum, or those of the centre."""
    if problem.optimal is None:
        return np.full(len(columns), 0.5)
    return problem.space.encode(problem.optimal)[columns]


def _space(problem: Problem, wrapper: str) -> Space:
    if isinstance(problem.space, Pool):
        raise UnsupportedError(
            f"{wrapper} must be given a problem with parameters; got the pool of {problem.name}. "
            "Use Noisy or Failing, or another problem."
        )
    return problem.space


def _continuous(problem: Problem, wrapper: str) -> tuple[Space, npt.NDArray[np.intp]]:
    """The space and the columns of its continuous parameters, of which there is at least one."""
    space = _space(problem, wrapper)
    columns = np.flatnonzero(space.continuous)
    if not len(columns):
        raise UnsupportedError(
            f"{wrapper} must be given a problem with a continuous parameter; {problem.name} has none. "
            f"Apply {wrapper} before Discretized, or leave it out."
        )
    return space, columns


def _uniform(space: Space | Pool, count: int, rng: Generator) -> Sequence[Params]:
    """Uniform points of a space, or distinct candidates of a pool."""
    if isinstance(space, Pool):
        return [space.decode(int(index)) for index in space.draw(count, rng)[1]]
    return space.decode_all(space.draw(count, rng)[0])


def _half_space(problem: Problem, fraction: float, rng: Generator) -> Callable[[Params], bool]:
    """Whether a point lies in the given fraction of the space, cut off by a random hyperplane."""
    space = problem.space
    direction = rng.standard_normal(space.dim)
    heights = space.draw(10_000, np.random.default_rng(_FIXED_SEED))[0] @ direction
    if problem.optimal is not None and space.encode(problem.optimal) @ direction > np.median(heights):
        direction, heights = -direction, -heights
    # Just above all heights for a fraction of 0, below all for 1.
    ordered = np.concatenate([[-np.inf], np.sort(heights)])
    threshold = np.inf if fraction == 0 else ordered[round((1 - fraction) * (len(ordered) - 1))]
    return lambda params: bool(space.encode(params) @ direction > threshold)


def _descent(problem: Problem, space: Space, start: Params) -> Point:
    """The best point that single steps to neighbouring levels lead to."""
    sign = 1 if problem.direction == "minimize" else -1
    best, least = dict(start), sign * problem.value(start)
    while True:
        steps = space.decode_all(space.neighbours(space.encode(best)))
        values = [sign * problem.value(step) for step in steps]
        if not values or min(values) >= least:
            return best
        least = min(values)
        best = steps[values.index(least)]


def _relabelled(params: Params, swaps: Mapping[str, Mapping[Label, Scalar]]) -> Point:
    return {name: swaps[name][_label(v)] if name in swaps else v for name, v in params.items()}


def _swaps(options: Sequence[Scalar], rng: Generator) -> dict[Label, Scalar]:
    """For every label, the one whose meaning it takes."""
    order = rng.permutation(len(options))
    return {_label(option): options[j] for option, j in zip(options, order, strict=True)}


def _label(option: Scalar) -> Label:
    """An option with its type, so that 1 and True differ."""
    return type(option), option


WRAPPERS: Mapping[str, Callable[..., Wrapper]] = {
    "noisy": Noisy,
    "shifted": Shifted,
    "rotated": Rotated,
    "discretized": Discretized,
    "permuted": Permuted,
    "failing": Failing,
}


def wrapper(spec: Mapping[str, Any]) -> Wrapper:
    """The wrapper that a table of an experiment describes: its name and its settings."""
    settings = dict(spec)
    name = settings.pop("name", None)
    if not isinstance(name, str) or name not in WRAPPERS:
        raise UnsupportedError(f"a wrapper must be one of {', '.join(WRAPPERS)}; got {name!r}. Use one.")
    try:
        return WRAPPERS[name](**settings)
    except TypeError as error:
        raise UnsupportedError(
            f"the settings of {name} must be those of its class; got {settings}: {error}. Correct them."
        ) from error
