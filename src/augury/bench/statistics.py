"""Statistics of runs: regret, summaries over seeds, tests between methods, efficiency.

Everything is computed from arrays of noise-free values, one row per seed, so that each function can
be checked by hand. Failed evaluations are NaN: they cost an evaluation and improve nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from scipy import stats

from augury._errors import DataError

Direction = Literal["minimize", "maximize"]
Array = npt.NDArray[np.float64]
Curves = Float[np.ndarray, "seeds evaluations"]
Optimum = float | Float[np.ndarray, "seeds 1"]


def best_so_far(values: Curves, direction: Direction) -> Curves:
    """The best value up to each evaluation; NaN before the first success."""
    sign = 1.0 if direction == "minimize" else -1.0
    filled = np.where(np.isnan(values), np.inf, sign * values)
    best = sign * np.minimum.accumulate(filled, axis=-1)
    return np.where(np.isinf(best), np.nan, best)


def instant_regret(values: Curves, optimum: Optimum, direction: Direction) -> Curves:
    """|f(x_t) − f*|, on the right side of it."""
    return values - optimum if direction == "minimize" else optimum - values


def simple_regret(values: Curves, optimum: Optimum, direction: Direction) -> Curves:
    """The regret of the best point up to each evaluation."""
    return instant_regret(best_so_far(values, direction), optimum, direction)


def cumulative_regret(
    values: Curves, optimum: Optimum, direction: Direction, *, skip: int = 0, batch: int = 1
) -> Curves:
    """Σ of the regret over the evaluations after the first `skip`.

    A failure counts as the worst of its run, the first `skip` evaluations included; a run without a
    success is NaN.

    With `batch`, one entry per iteration, whose regret is that of the batch's best point.
    """
    regret = instant_regret(values, optimum, direction)
    worst = np.where(np.isnan(regret), -np.inf, regret).max(axis=-1, keepdims=True, initial=-np.inf)
    worst = np.where(np.isinf(worst), np.nan, worst)
    regret = np.where(np.isnan(regret), worst, regret)[:, skip:]
    if batch > 1:
        whole = regret.shape[-1] // batch * batch
        regret = regret[:, :whole].reshape(len(regret), -1, batch).min(axis=-1)
    return np.cumsum(regret, axis=-1)


@dataclass(frozen=True)
class Summary:
    """Of one number per seed."""

    mean: float
    error: float  # the standard error of the mean
    median: float
    quartiles: tuple[float, float]
    repeats: int


def summary(numbers: Float[np.ndarray, " seeds"]) -> Summary:
    """Mean ± standard error, median and quartiles."""
    numbers = np.asarray(numbers, dtype=np.float64)
    if len(numbers) == 0:
        raise DataError("a summary needs at least one number; got none. Run the experiment first.")
    error = float(numbers.std(ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 else np.nan
    low, median, high = np.quantile(numbers, [0.25, 0.5, 0.75])
    return Summary(float(numbers.mean()), error, float(median), (float(low), float(high)), len(numbers))


@dataclass(frozen=True)
class Ranks:
    """Mean ranks of methods over problems, 1 the best, and the difference that counts."""

    mean: Mapping[str, float]
    critical_difference: float
    p_value: float  # of Friedman's test that all methods are equal
    problems: int


def mean_ranks(scores: Mapping[str, Sequence[float]], alpha: float = 0.05) -> Ranks:
    """Ranks of methods on each problem (lower scores are better), and Nemenyi's critical difference.

    CD = q_α √(k(k + 1)/(6N)) for k methods on N problems: mean ranks that differ by more are told
    apart at level α.

    Reference: Demšar (2006), "Statistical comparisons of classifiers over multiple data sets".
    """
    table = np.array([list(column) for column in scores.values()], dtype=np.float64)
    k, n = table.shape
    if k < 2 or n < 1:
        raise DataError(f"ranks need at least 2 methods and 1 problem; got {k} and {n}. Run more.")
    ranks = stats.rankdata(table, axis=0).mean(axis=1)
    q = stats.studentized_range.ppf(1.0 - alpha, k, np.inf) / np.sqrt(2.0)
    difference = float(q * np.sqrt(k * (k + 1) / (6.0 * n)))
    p = float(stats.friedmanchisquare(*table).pvalue) if k > 2 and n > 1 else np.nan
    return Ranks(dict(zip(scores, ranks.tolist(), strict=True)), difference, p, n)


@dataclass(frozen=True)
class Comparison:
    """A one-sided test that a method has lower scores than another."""

    better: str
    worse: str
    p_value: float
    adjusted: float  # by Benjamini & Hochberg, over all comparisons of the call
    normal: bool  # neither sample is rejected as normal by Kolmogorov and Smirnov at 5 %


def one_sided_tests(
    method: str, scores: Mapping[str, Float[np.ndarray, " seeds"]], *, paired: bool = True
) -> list[Comparison]:
    """t-tests that `method` scores lower than each other method, adjusted for their number.

    Reference: neural-bo, section 7; Benjamini & Hochberg (1995), "Controlling the false discovery rate".
    """
    own = np.asarray(scores[method], dtype=np.float64)
    rows = []
    for name, other in scores.items():
        if name == method:
            continue
        other = np.asarray(other, dtype=np.float64)
        p = _t_test(own, other, paired=paired)
        rows.append((name, p, is_normal(own) and is_normal(other)))
    adjusted = benjamini_hochberg([p for _, p, _ in rows])
    return [
        Comparison(method, name, p, float(q), normal)
        for (name, p, normal), q in zip(rows, adjusted, strict=True)
    ]


def significant(pairs: Sequence[tuple[Array, Array]], alpha: float = 0.05) -> list[bool]:
    """Of each pair, whether the first is lower: paired t-tests, adjusted for the number of pairs."""
    p_values = [_t_test(np.asarray(own), np.asarray(other), paired=True) for own, other in pairs]
    return [bool(q < alpha) for q in benjamini_hochberg(p_values)]


def _t_test(own: Array, other: Array, *, paired: bool) -> float:
    """The p-value that `own` is lower; samples without spread are told apart by their means alone."""
    if len(own) < 2 or np.array_equal(own, other):
        return 1.0
    spread = np.ptp(own - other) if paired else max(np.ptp(own), np.ptp(other))
    scale = max(float(np.abs(own).max()), float(np.abs(other).max()))
    if spread <= 1e-12 * scale:
        return 0.0 if own.mean() < other.mean() else 1.0
    if paired:
        return float(stats.ttest_rel(own, other, alternative="less").pvalue)
    return float(stats.ttest_ind(own, other, alternative="less").pvalue)


def is_normal(numbers: Float[np.ndarray, " seeds"], alpha: float = 0.05) -> bool:
    """Whether Kolmogorov–Smirnov does not reject a normal of the sample's mean and deviation."""
    return normality(numbers) > alpha


def normality(numbers: Float[np.ndarray, " seeds"]) -> float:
    """The p-value of Kolmogorov–Smirnov for a normal of the sample's mean and deviation; 0 without one.

    With estimated parameters the test is lenient; it is the papers' own.
    """
    spread = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else 0.0
    if spread == 0.0:
        return 0.0
    return float(stats.kstest((numbers - np.mean(numbers)) / spread, "norm").pvalue)


def benjamini_hochberg(p_values: Sequence[float]) -> Float[np.ndarray, " tests"]:
    """Adjusted p-values: the smallest false discovery rate at which each test would be accepted."""
    p = np.asarray(p_values, dtype=np.float64)
    if len(p) == 0:
        return p
    order = np.argsort(p)
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted


def log_efficiency(
    values: Curves, baseline: Curves, direction: Direction
) -> Float[np.ndarray, " evaluations"]:
    """log₂ of how many times fewer evaluations than the baseline reach the same median best value.

    Entry i compares with what the baseline has after i + 1 evaluations; infinite where the method
    never gets there, NaN where the baseline has nothing yet.
    """
    sign = 1.0 if direction == "minimize" else -1.0
    own, other = (
        sign * np.nanmedian(best_so_far(curves, direction), axis=0) for curves in (values, baseline)
    )
    out = np.full(len(other), np.nan)
    for i, level in enumerate(other):
        if np.isnan(level):
            continue
        reached = np.flatnonzero(own <= level)
        out[i] = np.log2((i + 1) / (reached[0] + 1)) if len(reached) else -np.inf
    return out
