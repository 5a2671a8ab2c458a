"""What the numbers say, in plain sentences that follow from them by rule."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from augury.bench.experiment import Experiment
from augury.bench.report.comparing import cliques
from augury.bench.report.model import ExperimentReport, MethodRow
from augury.bench.report.numbers import joined, mean_error, p_value, tidy
from augury.bench.report.runs import Runs
from augury.bench.statistics import Comparison, Ranks

LEVEL = 0.05
FEW = 5  # repeats, below which only large differences can be told apart


def subtitle(reports: Sequence[ExperimentReport]) -> str:
    """How much the report is about."""
    runs = sum(report.used for report in reports)
    papers = len({report.paper for report in reports})
    quick = " All are quick variants, smaller than the papers' experiments; each says by how much."
    return (
        f"{len(reports)} experiment{'s' * (len(reports) != 1)} of {papers} paper{'s' * (papers != 1)}, "
        f"{runs} runs. All values are noise-free; in every repeat all methods start from the same points."
        f"{quick if reports and all(report.quick for report in reports) else ''}"
    )


def reduction(small: Experiment, whole: Experiment) -> str:
    """By how much a quick variant is smaller."""
    labels, groups = ({t.label for t in small.tasks}, {m.group for m in small.methods})
    kept = [task for task in whole.tasks if task.label in labels]
    all_groups = dict.fromkeys(method.group for method in whole.methods)
    settings = sum(method.group in groups for method in whole.methods)
    parts = [
        _share(small.repeats, whole.repeats, "repeat"),
        f"{_span(t.iterations for t in small.tasks)} of {_span(t.iterations for t in kept)} iterations",
        _share(len(kept), len(whole.tasks), "problem"),
        _share(sum(name in groups for name in all_groups), len(all_groups), "method"),
    ]
    if len(small.methods) < settings:
        parts.append(f"{len(small.methods)} of {settings} settings of these methods")
    return joined(parts)


def _share(count: int, total: int, noun: str) -> str:
    if count == total:
        return f"all {total} {noun}s" if total > 1 else f"the only {noun}"
    return f"{count} of {total} {noun}s"


def _span(numbers: Iterable[int]) -> str:
    found = sorted(set(numbers))
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"


def quick_remark(small: Experiment, whole: Experiment) -> str:
    """What a quick variant leaves out, and what that means for what follows."""
    text = f"This is the quick variant: {reduction(small, whole)}. What follows is about these short runs"
    if small.repeats < FEW:
        text += f"; with {small.repeats} repeat{'s' * (small.repeats > 1)} " + (
            "only large differences can be told apart" if small.repeats > 1 else "nothing can be tested"
        )
    left = len(whole.claims) - len(small.claims)
    if left:
        text += f". {left} of {len(whole.claims)} claims of the paper are about what is left out"
    return f"{text}."


def quoted(names: Sequence[str]) -> list[str]:
    """Names between backticks."""
    return [f"`{name}`" for name in names]


def winner(
    label: str, measure: str, lower: bool, rows: Sequence[MethodRow], tests: Sequence[Comparison]
) -> str | None:
    """Which method is best on a problem, which is next, and what can be told apart."""
    ranked = [row for row in rows if not np.isnan(row.rank) and not np.isnan(row.final.mean)]
    ranked.sort(key=lambda row: row.final.mean if lower else -row.final.mean)
    if len(ranked) < 2:
        return None
    best = ranked[0]
    tied = [row.name for row in ranked if row.final.mean == best.final.mean]
    most = "lowest" if lower else "highest"
    text = (
        f"On `{label}`, {joined(quoted(tied))} {_have(len(tied))} the {most} {measure} "
        f"({mean_error(best.final)})"
    )
    for second in ranked[len(tied) : len(tied) + 1]:
        text += f"; next is `{second.name}` ({mean_error(second.final)})"
    if "regret" in measure and best.final.mean > 0.0 and len(ranked) > 2:
        last = ranked[-1]
        factor = last.final.mean / best.final.mean
        text += f", and the highest is that of `{last.name}`, {tidy(factor, 2)} times as much"
    text += "."
    return f"{text} {_tested(best.name, lower, tests, 'It' if len(tied) == 1 else f'`{best.name}`')}"


def _tested(best: str, lower: bool, tests: Sequence[Comparison], it: str) -> str:
    if not tests:
        return "With fewer than two common seeds nothing can be tested."
    beaten = [test for test in tests if test.adjusted < LEVEL]
    word = "lower" if lower else "higher"
    others = f"{len(tests)} other method{'s' * (len(tests) > 1)}"
    count = "none of" if not beaten else str(len(beaten)) + " of"
    than = f"all {others}" if len(beaten) == len(tests) > 1 else f"{count} the {others}"
    head = f"{it} is significantly {word} than {than}"
    if tests[0].better != best:  # means over all runs and over the common seeds may differ
        head = f"On the common seeds `{tests[0].better}` is best, significantly {word} than {than}"
    doubtful = sum(not test.normal for test in tests)
    if doubtful:
        return f"{head}; {doubtful} of these tests {_have(doubtful)} a sample that is not normal."
    return f"{head}."


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def ranking(ranks: Ranks | None, measure: str) -> str | None:
    """Who ranks best over the problems, and from whom that can be told apart."""
    if ranks is None:
        return None
    best = min(ranks.mean, key=lambda name: ranks.mean[name])
    text = (
        f"Over {ranks.problems} problems, `{best}` has the best mean rank by {measure} "
        f"({ranks.mean[best]:.2f} among {len(ranks.mean)} methods)"
    )
    if not np.isnan(ranks.p_value):
        verdict = "differ" if ranks.p_value < LEVEL else "cannot be told apart as a whole"
        text += f"; the methods {verdict} (Friedman's p {_equals(ranks.p_value)})"
    near = next((clique for clique in cliques(ranks) if best in clique), [best])
    others = [name for name in near if name != best]
    difference = f"the critical difference of {tidy(ranks.critical_difference)} (Nemenyi, 5 %)"
    if len(others) == len(ranks.mean) - 1:
        return f"{text}. No other mean rank is beyond {difference}."
    if others:
        return f"{text}. Within {difference} of it: {joined(quoted(others))}."
    return f"{text}. All others are beyond {difference}."


def _equals(p: float) -> str:
    text = p_value(p)
    return text if text.startswith("<") else f"= {text}"


def coverage(used: int, expected: int, few: Mapping[str, Sequence[str]], others: int = 0) -> list[str]:
    """Which runs are missing."""
    text = []
    if others:
        text.append(f"{others} runs were made with other settings, and are not used.")
    if used < expected:
        text.append(
            f"{used} of {expected} runs are there; what follows is about these. "
            "Ranks and tests use the seeds that all compared methods have."
        )
    for label, names in few.items():
        text.append(
            f"On `{label}`, {joined(quoted(names))} {'has' if len(names) == 1 else 'have'} too few runs "
            "to be compared."
        )
    return text


def optimum_remark(runs: Sequence[Runs]) -> str:
    """What regret is taken against, and whether runs beat it."""
    optimum = np.concatenate([r.optimum for r in runs])
    if np.isnan(optimum).any():
        way = "smallest" if runs[0].direction == "minimize" else "largest"
        return f"The optimum is not known: shown is the best value, the {way}."
    different = len(np.unique(optimum)) > 1
    exact = all(r.exact for r in runs)
    what = "optimum" if exact else "best known value"
    if runs[0].task.best_of_runs:
        what = "best value of all runs"
    if different:
        text = f"Regret is against each run's own {what}."
    else:
        text = f"Regret is against the {what}, {tidy(float(optimum[0]), 6)}."
    sign = 1.0 if runs[0].direction == "minimize" else -1.0
    beyond = sum(
        int(np.nanmin(sign * row) < sign * best - 1e-9)
        for r in runs
        for row, best in zip(r.values, r.optimum, strict=True)
        if not np.isnan(row).all()
    )
    if beyond:
        text += f" {beyond} runs found a better one; their regret is negative."
    return text
