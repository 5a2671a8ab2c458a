"""What is measured in runs: regrets, best values, seconds and memory, per seed and along the run."""

from typing import NamedTuple

import numpy as np

from augury.bench import statistics
from augury.bench.report.model import Line
from augury.bench.report.runs import Array, Runs
from augury.bench.statistics import Summary

CUMULATIVE, SIMPLE, BEST = "cumulative regret", "simple regret", "best value"
PER_ITERATION = "cumulative regret per iteration"
SECONDS, MEMORY = "seconds", "memory"


class Curve(NamedTuple):
    """One row per seed over x, in evaluations or iterations."""

    x: Array
    y: Array


def regrets(runs: Runs) -> Array | None:
    """The regret of every evaluation; None where an optimum is not known."""
    if np.isnan(runs.optimum).any():
        return None
    return statistics.instant_regret(runs.values, runs.optimum[:, None], runs.direction)


def usable(metric: str, runs: Runs) -> str:
    """The metric, or the best value where the metric needs an optimum that is not known."""
    if metric in (SECONDS, MEMORY):
        return metric
    return BEST if metric not in (CUMULATIVE, SIMPLE) or np.isnan(runs.optimum).any() else metric


def lower_is_better(measure: str, runs: Runs) -> bool:
    """Whether a method with a lower measure is the better one."""
    return measure != BEST or runs.direction == "minimize"


def curve(runs: Runs, measure: str) -> Curve:
    """The measure after every evaluation (or iteration) from the end of the initial design on."""
    start, total = runs.initial, runs.values.shape[1]
    if measure == BEST:
        best = statistics.best_so_far(runs.values, runs.direction)
        return _from(start, best)
    regret = regrets(runs)
    if regret is None:
        raise ValueError(f"{measure} needs an optimum")
    if measure == SIMPLE:
        return _from(start, statistics.simple_regret(regret, 0.0, "minimize"))
    batch = runs.task.batch if measure == PER_ITERATION else 1
    summed = statistics.cumulative_regret(regret, 0.0, "minimize", skip=start, batch=batch)
    if measure == PER_ITERATION:
        return Curve(np.arange(1.0, summed.shape[1] + 1.0), summed)
    return Curve(np.arange(start + 1.0, total + 1.0), summed)


def _from(start: int, rows: Array) -> Curve:
    first = max(start, 1)
    return Curve(np.arange(float(first), rows.shape[1] + 1.0), rows[:, first - 1 :])


def final(runs: Runs, measure: str) -> Array:
    """The measure of each run as a whole; NaN where every evaluation failed."""
    if measure == SECONDS:
        return np.array([np.median(r["seconds"]) if r["seconds"] else np.nan for r in runs.records])
    if measure == MEMORY:
        return np.array([record["peak_mib"] for record in runs.records], dtype=np.float64)
    rows = curve(runs, measure).y
    if rows.shape[1] == 0:
        return np.full(len(rows), np.nan)
    empty = np.isnan(runs.values).all(axis=1)
    return np.where(empty, np.nan, rows[:, -1])


def scores(runs: Runs, measure: str) -> Array:
    """The final measure with the sign that makes lower better."""
    return final(runs, measure) * (1.0 if lower_is_better(measure, runs) else -1.0)


def summary(numbers: Array) -> Summary:
    """Of the runs that have a number; all NaN if none has."""
    known = numbers[~np.isnan(numbers)]
    if len(known) == 0:
        nan = float("nan")
        return Summary(nan, nan, nan, (nan, nan), 0)
    return statistics.summary(known)


def mean_line(name: str, curves: Curve) -> Line:
    """Mean ± standard error over the seeds."""
    known = (~np.isnan(curves.y)).sum(axis=0)
    filled = np.where(np.isnan(curves.y), 0.0, curves.y)
    mean = filled.sum(axis=0) / np.maximum(known, 1)
    mean = np.where(known > 0, mean, np.nan)
    squares = np.where(np.isnan(curves.y), 0.0, (curves.y - mean) ** 2).sum(axis=0)
    error = np.where(known > 1, np.sqrt(squares / np.maximum(known - 1, 1) / np.maximum(known, 1)), 0.0)
    if len(curves.y) < 2:
        return Line(name, curves.x, mean, np.array([]), np.array([]))
    return Line(name, curves.x, mean, mean - error, mean + error)


def stretch_line(name: str, runs: Runs, key: str) -> Line | None:
    """Seconds per suggestion, or memory, against the number of evaluations: median and quartiles."""
    rows = [r[key] for r in runs.records if r.get(key)]
    rows = [row for row in rows if len(row) == len(rows[0]) and max(row) > 0]
    if not rows:
        return None
    y = np.array(rows, dtype=np.float64)
    suggestions = runs.records[0]["suggestions"]
    width = suggestions / y.shape[1]
    middle = 0.5 if key == "seconds" else 1.0  # a peak is reached by the end of its stretch
    x = runs.initial + width * (np.arange(y.shape[1]) + middle)
    if len(y) < 2:
        return Line(name, x, y[0], np.array([]), np.array([]))
    low, median, high = np.quantile(y, [0.25, 0.5, 0.75], axis=0)
    return Line(name, x, median, low, high)


def filled_with_worst(values: Array, sign: float) -> Array:
    """`sign * values`, with failures as bad as the worst value: they improve nothing."""
    signed = sign * values
    if np.isnan(signed).all():
        return np.zeros_like(signed)
    return np.where(np.isnan(signed), np.nanmax(signed), signed)


def log_efficiency(runs: Runs, baseline: Runs) -> float:
    """log₂ of how many times fewer evaluations reach what the baseline has in the end."""
    own, other = (filled_with_worst(*_signed(r)) for r in (runs, baseline))
    return float(statistics.log_efficiency(own, other, "minimize")[-1])


def _signed(runs: Runs) -> tuple[Array, float]:
    regret = regrets(runs)
    if regret is not None:
        return regret, 1.0
    return runs.values, 1.0 if runs.direction == "minimize" else -1.0
