"""Comparisons of methods: on the seeds that all of them have, and over problems."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from augury.bench import statistics
from augury.bench.report.entries import Entry, comparable
from augury.bench.report.measures import scores
from augury.bench.report.model import ProblemReport, Table
from augury.bench.report.numbers import NONE
from augury.bench.report.runs import Array
from augury.bench.statistics import Comparison, Ranks


def paired_scores(shown: Sequence[Entry], measure: str) -> tuple[dict[str, Array], list[int]]:
    """Scores (lower is better) of the compared methods on their common seeds.

    A run without a single success counts as the worst run of all.
    """
    kept, seeds = comparable(shown)
    table = {entry.name: scores(entry.runs.only(seeds), measure) for entry in kept}
    known = [row[~np.isnan(row)] for row in table.values()]
    worst = max((float(row.max()) for row in known if len(row)), default=np.nan)
    return {name: np.where(np.isnan(row), worst, row) for name, row in table.items()}, seeds


def seed_ranks(table: Mapping[str, Array]) -> dict[str, float]:
    """The mean over seeds of each method's rank, 1 the best."""
    if len(table) < 2 or not len(next(iter(table.values()))):
        return {}
    ranks = stats.rankdata(list(table.values()), axis=0).mean(axis=1)
    return dict(zip(table, ranks.tolist(), strict=True))


def best_against_others(table: Mapping[str, Array]) -> list[Comparison]:
    """Tests that the method with the lowest mean is lower than each other; none with a single seed."""
    if len(table) < 2 or len(next(iter(table.values()))) < 2:
        return []
    best = min(table, key=lambda name: float(table[name].mean()))
    return statistics.one_sided_tests(best, table)


def ranks_over_problems(means: Sequence[Mapping[str, float]]) -> Ranks | None:
    """Mean ranks of the methods that every problem has; None with fewer than two of either."""
    means = [problem for problem in means if problem]
    if len(means) < 2:
        return None
    names = [name for name in means[0] if all(name in problem for problem in means)]
    if len(names) < 2:
        return None
    table = {name: [problem[name] for problem in means] for name in names}
    if np.isnan(list(table.values())).any():
        return None
    return statistics.mean_ranks(table)


def means(problem: ProblemReport) -> dict[str, float]:
    """The mean score of each compared method."""
    return {name: float(row.mean()) for name, row in problem.scores.items()}


def against(problems: Sequence[ProblemReport], baseline: str) -> Table | None:
    """On how many problems each method is told apart from the baseline; None with fewer than two.

    Paired one-sided t-tests in both directions, each adjusted over the problems of a method.
    """
    listed = [problem for problem in problems if baseline in problem.scores]
    names = dict.fromkeys(name for problem in listed for name in problem.scores if name != baseline)
    rows = []
    for name in names:
        pairs = [(p.label, p.scores[name], p.scores[baseline]) for p in listed if name in p.scores]
        better = statistics.significant([(own, base) for _, own, base in pairs])
        worse = statistics.significant([(base, own) for _, own, base in pairs])
        where = [label for (label, _, _), is_worse in zip(pairs, worse, strict=True) if is_worse]
        cells = (len(pairs), sum(better), len(pairs) - sum(better) - sum(worse), sum(worse))
        rows.append((f"`{name}`", *map(str, cells), ", ".join(where) or NONE))
    if len(listed) < 2 or not rows:
        return None
    columns = ("method", "problems", "better", "not told apart", "worse", "worse on")
    note = (
        "Paired one-sided t-tests on the seeds that the compared methods share, in both directions, each "
        "adjusted over a method's problems (Benjamini and Hochberg, 5 %)."
    )
    return Table(columns, tuple(rows), f"Every method against `{baseline}`", note=note)


def cliques(ranks: Ranks) -> list[list[str]]:
    """The largest sets of methods whose mean ranks do not differ by more than the critical difference."""
    ordered = sorted(ranks.mean, key=lambda name: ranks.mean[name])
    found: list[list[str]] = []
    for i, first in enumerate(ordered):
        reach = ranks.mean[first] + ranks.critical_difference
        last = max(j for j, name in enumerate(ordered) if ranks.mean[name] <= reach)
        clique = ordered[i : last + 1]
        if len(clique) > 1 and not any(set(clique) <= set(other) for other in found):
            found.append(clique)
    return found
