"""A replica of the synthetic experiment of the random-grid paper, with its own GP and solvers.

The paper is "Bayesian Optimization with Inexact Acquisition: Is Random Grid Search Sufficient?",
section 5.1; what it leaves unstated follows the settings of its authors' published script:

* GP: scikit-learn, isotropic Matérn 3/2 of unit variance, alpha = 1e-4, raw inputs and outputs,
  lengthscale by one likelihood maximization from 1.0 at every iteration; observations exact.
* UCB with β = √log(i + 2), i = 0, 1, …; values from `predict(return_std=True)`, one call for the
  grid, one call per point in the local solvers, whose gradients are finite differences.
* grid: the best of 100·(i + 1) uniform points; L-BFGS-B, Nelder–Mead, CG: 10 uniform starts.
* Initial design: scrambled Sobol points, the same for the four solvers.

Differences, all deliberate: the authors re-seed the grid with i alone, so that every repeat uses
the same grids; here every repeat and iteration draws a new one. Where no L-BFGS-B or CG run
reports success the authors' script fails; here all runs then count (`fallbacks` counts the
iterations). Budgets are those of the main text, the script has smaller ones.

The accuracy of an acquisition solution is η = (α(x) − α₀)/(α* − α₀), clipped to [0, 1]: α₀ the
median UCB of 512 uniform points, α* the best of the value reached, one more ascent from it and
ascents from 4 new uniform points, with exact gradients. It is an upper estimate, as α* is a lower
one. M_T = Σ(1 − η). Neither its seconds nor its random numbers touch the optimization.

Run with `python benchmarks/random_grid_paper.py --seeds 5`; an interrupted run continues where it
stopped. `--table` prints the results.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg.lapack import dtrtrs
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.stats import qmc
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern
from threadpoolctl import threadpool_limits

from common import Array
from problems import PROBLEMS, Problem

SOLVERS = ("grid", "lbfgsb", "nelder-mead", "cg")
DEFAULT_OUT = Path(__file__).parent / "results" / "random_grid_paper.jsonl"
SOBOL_SEED = 20252026
GRID_GROWTH = 100
STARTS = 10
CURVE_SEEDS = 5  # per-iteration curves are kept for the first repeats only, to keep the file small
GRID_STREAM, START_STREAM, ETA_STREAM = range(3)

Score = Callable[[Array], float]


class Posterior:
    """The posterior of a fitted regressor, with gradients; it equals the regressor's `predict`."""

    def __init__(self, regressor: GaussianProcessRegressor) -> None:
        self.X = np.asarray(regressor.X_train_)
        self.weights = np.asarray(regressor.alpha_).ravel()
        self.L = np.asfortranarray(regressor.L_)
        self.lengthscale = float(regressor.kernel_.length_scale)

    def ucb(self, points: Array, beta: float) -> Array:
        """The UCB of every row."""
        scaled = math.sqrt(3) / self.lengthscale * cdist(points, self.X)
        K = (1 + scaled) * np.exp(-scaled)
        V = dtrtrs(self.L, K.T, lower=1)[0]
        variance = np.maximum(1 - np.einsum("ij,ij->j", V, V), 0)
        return np.asarray(K @ self.weights + beta * np.sqrt(variance))

    def ucb_gradient(self, x: Array, beta: float) -> tuple[float, Array]:
        """The UCB of one point and its gradient."""
        difference = x - self.X
        rate = math.sqrt(3) / self.lengthscale
        scaled = rate * np.sqrt(np.einsum("ij,ij->i", difference, difference))
        decay = np.exp(-scaled)
        k = (1 + scaled) * decay
        slopes = -(rate**2) * decay[:, None] * difference
        v = dtrtrs(self.L, k, lower=1)[0]
        deviation = math.sqrt(max(1 - float(v @ v), 0.0))
        gradient = self.weights @ slopes
        if deviation > 0:
            solution = dtrtrs(self.L, v, lower=1, trans=1)[0]
            gradient = gradient - beta / deviation * (solution @ slopes)
        return float(k @ self.weights) + beta * deviation, gradient


def stream(problem: Problem, seed: int, iteration: int, purpose: int) -> np.random.Generator:
    """Random numbers that depend on nothing but these four."""
    return np.random.default_rng([zlib.crc32(problem.name.encode()), seed, iteration, purpose])


def uniform(problem: Problem, rng: np.random.Generator, count: int) -> Array:
    """Uniform points of the box."""
    return rng.uniform(problem.lower, problem.upper, (count, problem.dimension))


def initial_design(problem: Problem, seed: int) -> Array:
    """Scrambled Sobol points."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the count is no power of two
        sequence = qmc.Sobol(problem.dimension, scramble=True, seed=SOBOL_SEED + seed)
        unit = sequence.random(problem.initial)
    return np.asarray(qmc.scale(unit, problem.lower, problem.upper))


def fit(X: Array, y: Array) -> GaussianProcessRegressor:
    """The paper's GP on the data so far."""
    kernel = Matern(length_scale=1.0, length_scale_bounds=(1e-5, 1e5), nu=1.5)
    return GaussianProcessRegressor(kernel=kernel, alpha=1e-4).fit(X, y)


def ascend(problem: Problem, solver: str, score: Score, starts: Array) -> tuple[Array, bool]:
    """The best end point of the local runs, and whether none of those had reported success."""

    def inside(x: Array) -> Array:
        return np.clip(x, problem.lower, problem.upper)

    def loss(x: Array) -> float:
        return -score(x)

    def clipped_loss(x: Array) -> float:
        return -score(inside(x))

    box = list(zip(problem.lower, problem.upper, strict=True))
    options: Any = {"gtol": 0.01, "maxiter": 200 * problem.dimension}
    if solver == "nelder-mead":
        options = {"xatol": 0.01, "fatol": 0.01}
    results: list[Any] = []
    for start in starts:
        if solver == "lbfgsb":
            result = minimize(loss, start, method="L-BFGS-B", bounds=box, options=options)
        elif solver == "nelder-mead":
            result = minimize(clipped_loss, start, method="Nelder-Mead", options=options)
        else:
            result = minimize(clipped_loss, start, method="CG", options=options)
        results.append(result)
    counted = [r for r in results if r.success or solver == "nelder-mead"]
    best = min(counted or results, key=lambda r: float(r.fun))
    return inside(best.x), not counted


def accuracy(
    problem: Problem, posterior: Posterior, beta: float, x: Array, rng: np.random.Generator
) -> float:
    """The estimate of η for the point chosen."""
    base = float(np.median(posterior.ucb(uniform(problem, rng, 512), beta)))
    reached = float(posterior.ucb(x[None], beta)[0])
    box = list(zip(problem.lower, problem.upper, strict=True))

    def loss(z: Array) -> tuple[float, Array]:
        value, gradient = posterior.ucb_gradient(z, beta)
        return -value, -gradient

    best = reached
    for start in (x, *uniform(problem, rng, 4)):
        result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=box)
        best = max(best, -float(result.fun))
    if best - base <= 1e-12 * max(1.0, abs(best)):
        return 1.0
    return min(max((reached - base) / (best - base), 0.0), 1.0)


def run(problem: Problem, solver: str, seed: int, predict: str) -> dict[str, Any]:
    """One repeat of the experiment."""
    X = initial_design(problem, seed)
    y = problem.function(X)
    regrets: list[float] = []
    etas: list[float] = []
    suggestion_seconds = cpu_seconds = loop_seconds = 0.0
    fallbacks = 0
    posterior = None
    for i in range(problem.iterations):
        beta = math.sqrt(math.log(i + 2))
        starts = uniform(problem, stream(problem, seed, i, START_STREAM), STARTS)
        grid_rng = stream(problem, seed, i, GRID_STREAM)

        begun, cpu_begun = time.perf_counter(), time.process_time()
        regressor = fit(X, y)
        if predict == "numpy":
            fast = Posterior(regressor)

        def ucb(points: Array) -> Array:
            if predict == "numpy":
                return fast.ucb(points, beta)  # noqa: B023
            mean, deviation = regressor.predict(points, return_std=True)  # noqa: B023
            return np.asarray(mean + beta * deviation)  # noqa: B023

        def ucb_at(point: Array) -> float:
            return float(ucb(point.reshape(1, -1))[0])

        if solver == "grid":
            grid = uniform(problem, grid_rng, GRID_GROWTH * (i + 1))
            x = grid[np.argmax(ucb(grid))]
        else:
            x, failed = ascend(problem, solver, ucb_at, starts)
            fallbacks += failed
        spent = time.perf_counter() - begun
        cpu_seconds += time.process_time() - cpu_begun
        suggestion_seconds += spent

        begun = time.perf_counter()
        value = problem.function(x[None])
        X, y = np.vstack([X, x]), np.append(y, value)
        loop_seconds += spent + time.perf_counter() - begun

        posterior = Posterior(regressor)
        etas.append(accuracy(problem, posterior, beta, x, stream(problem, seed, i, ETA_STREAM)))
        regrets.append(-float(value[0]))

    assert posterior is not None
    record: dict[str, Any] = {
        "problem": problem.name,
        "solver": solver,
        "seed": seed,
        "predict": predict,
        "iterations": problem.iterations,
        "cumulative_regret": significant(sum(regrets), 8),
        "simple_regret": significant(-float(y.max()), 8),
        "initial_regret": significant(-float(y[: problem.initial].max()), 8),
        "loop_seconds": significant(loop_seconds),
        "suggestion_seconds": significant(suggestion_seconds / problem.iterations),
        "suggestion_cpu_seconds": significant(cpu_seconds / problem.iterations),
        "mean_eta": significant(float(np.mean(etas)), 6),
        "accumulated_inaccuracy": significant(float(np.sum(1 - np.array(etas))), 6),
        "fallbacks": fallbacks,
        "final_lengthscale": significant(posterior.lengthscale),
    }
    if seed < CURVE_SEEDS:
        record["regret"] = [significant(value) for value in regrets]
        record["eta"] = [round(value, 4) for value in etas]
    return record


def significant(value: float, digits: int = 4) -> float | int:
    """The value rounded to significant digits, an integer where it is one."""
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded


def read(path: Path) -> list[dict[str, Any]]:
    """The finished repeats; a line cut short by an interruption is passed over."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def repair(path: Path) -> None:
    """Drop a last line cut short by an interruption."""
    if path.exists():
        content = path.read_bytes()
        os.truncate(path, content.rfind(b"\n") + 1)


def append(path: Path, record: dict[str, Any]) -> None:
    """Add one line and make sure that it is on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, separators=(",", ":")) + "\n")
        file.flush()
        os.fsync(file.fileno())


def table(records: list[dict[str, Any]]) -> str:
    """A markdown table of means (± standard errors) over the repeats."""
    lines = [
        "| problem | solver | repeats | cumulative regret | simple regret | s / suggestion "
        "| CPU s / suggestion | mean η | M_T |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name in PROBLEMS:
        for solver in SOLVERS:
            rows = [r for r in records if (r["problem"], r["solver"]) == (name, solver)]
            if not rows:
                continue
            columns = {
                key: np.array([row[key] for row in rows], dtype=float)
                for key in (
                    "cumulative_regret",
                    "simple_regret",
                    "suggestion_seconds",
                    "suggestion_cpu_seconds",
                    "mean_eta",
                    "accumulated_inaccuracy",
                )
            }
            regret = columns["cumulative_regret"]
            error = "–"
            if len(rows) > 1:
                error = f"{regret.std(ddof=1) / math.sqrt(len(rows)):.1f}"
            lines.append(
                f"| {name} | {solver} | {len(rows)} | {regret.mean():.1f} ± {error} "
                f"| {columns['simple_regret'].mean():.3g} "
                f"| {columns['suggestion_seconds'].mean():.3f} "
                f"| {columns['suggestion_cpu_seconds'].mean():.3f} "
                f"| {columns['mean_eta'].mean():.3f} "
                f"| {columns['accumulated_inaccuracy'].mean():.1f} |"
            )
    return "\n".join(lines)


def unfinished(
    arguments: argparse.Namespace, records: list[dict[str, Any]]
) -> Iterator[tuple[int, str, str]]:
    """The repeats that were asked for and are not on record: seed, problem, solver."""
    repair(arguments.out)
    finished = {(r["seed"], r["problem"], r["solver"]) for r in records}
    repeats = itertools.product(range(arguments.seeds), arguments.problems, arguments.solvers)
    return (repeat for repeat in repeats if repeat not in finished)


def keep(path: Path, record: dict[str, Any]) -> None:
    """Append a repeat to the file, and say so."""
    append(path, record)
    print(
        f"seed {record['seed']} {record['problem']} {record['solver']}: regret "
        f"{record['cumulative_regret']}, η {record['mean_eta']}, {record['loop_seconds']} s",
        flush=True,
    )


def main() -> None:
    """Run what is not finished yet, or print the table."""
    parser = argparse.ArgumentParser(description="The random-grid paper's experiment.")
    parser.add_argument("--seeds", type=int, default=5, help="repeats (default 5)")
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=list(SOLVERS))
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument(
        "--predict",
        choices=("sklearn", "numpy"),
        default="sklearn",
        help="posterior used by the solvers: scikit-learn's own, or an equal one without its "
        "per-call checks, which flatters the seconds of the local solvers",
    )
    parser.add_argument("--table", action="store_true", help="print the results and stop")
    arguments = parser.parse_args()

    records = read(arguments.out)
    if arguments.table:
        print(table(records))
        return
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", message="Predicted variances smaller than 0")
    with threadpool_limits(1):
        for seed, name, solver in unfinished(arguments, records):
            keep(arguments.out, run(PROBLEMS[name], solver, seed, arguments.predict))


if __name__ == "__main__":
    main()
