"""What several experiments say together: the columns of a paper's tables, or the groups of a suite."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy import stats

from augury.bench.report import comparing, sentences
from augury.bench.report.entries import LEAST_SHARE
from augury.bench.report.model import ExperimentReport, MethodRow, Published, Table
from augury.bench.report.numbers import NONE, mean_error, p_value, with_error
from augury.bench.statistics import Ranks


@dataclass(frozen=True)
class Overall:
    """Mean ranks over all problems, what they say, and tables that show where they come from."""

    ranks: Ranks
    sentences: tuple[str, ...]
    tables: tuple[Table, ...]


def overall(reports: Sequence[ExperimentReport]) -> Overall | None:
    """None unless all experiments have one problem, or some are a suite, and two methods are in common.

    Where papers print numbers, the methods that have some are ranked, and the others stand beside them.
    Experiments of a suite that have runs of others are left out: they would count twice.
    """
    suite = [report for report in reports if report.suite and not report.shares]
    if len(suite) > 1 and len({report.suite for report in suite}) == 1:
        return _suite(suite)
    if len(reports) < 2 or any(len(report.problems) != 1 for report in reports):
        return None
    scores = [_scores(report) for report in reports]
    printed = {name for report in reports for name in _ends(report)}
    ranked = [{name: own[name] for name in own if name in printed or not printed} for own in scores]
    ranks = comparing.ranks_over_problems(ranked)
    if ranks is None:
        return None
    measures = {report.problems[0].measure for report in reports}
    said = [sentences.ranking(ranks, measures.pop() if len(measures) == 1 else "metric")]
    said += [_reached(reports, name) for name in ranks.mean if name in {r.paper for r in reports}]
    ordered = sorted(ranks.mean, key=lambda name: ranks.mean[name])
    ordered += [name for name in scores[0] if name not in ordered and all(name in own for own in scores)]
    return Overall(ranks, tuple(text for text in said if text), (_table(reports, ordered),))


def _suite(reports: Sequence[ExperimentReport]) -> Overall | None:
    """Ranks over the problems of all groups, beside those of each."""
    problems = [problem for report in reports for problem in report.problems]
    ranks = comparing.ranks_over_problems([comparing.means(problem) for problem in problems])
    if ranks is None:
        return None
    measures = {problem.measure for problem in problems}
    said = sentences.ranking(ranks, measures.pop() if len(measures) == 1 else "metric")
    against = comparing.against(problems, reports[0].baseline)
    tables = (_groups(reports, ranks), against)
    return Overall(ranks, (said,) if said else (), tuple(table for table in tables if table is not None))


def _groups(reports: Sequence[ExperimentReport], ranks: Ranks) -> Table:
    """Mean ranks of the methods, group by group."""
    names = sorted(ranks.mean, key=lambda name: ranks.mean[name])
    columns: list[tuple[str, Mapping[str, float]]] = [(f"all ({ranks.problems})", ranks.mean)]
    for report in reports:
        found = comparing.ranks_over_problems(
            [{n: v for n, v in comparing.means(p).items() if n in ranks.mean} for p in report.problems]
        )
        columns.append((f"{report.name} ({len(report.problems)})", found.mean if found else {}))
    rows = tuple(
        (f"`{name}`", *(f"{mean[name]:.2f}" if name in mean else NONE for _, mean in columns))
        for name in names
    )
    best = {
        (names.index(name), j)
        for j, (_, mean) in enumerate(columns, start=1)
        for name in mean
        if mean[name] == min(mean.values())
    }
    note = "In brackets the number of problems; the lowest mean rank of each column is stressed."
    title = "Mean ranks by group of problems"
    return Table(("method", *(name for name, _ in columns)), rows, title, frozenset(best), note)


def _scores(report: ExperimentReport) -> dict[str, float]:
    """Mean metrics, lower better; methods with few runs are not compared."""
    problem = report.problems[0]
    sign = 1.0 if problem.lower else -1.0
    most = max(row.repeats for row in problem.rows)
    return {row.name: sign * row.final.mean for row in problem.rows if row.repeats >= LEAST_SHARE * most}


def _ends(report: ExperimentReport) -> dict[str, Published]:
    return {item.method: item for item in report.published if item.what == "at the end"}


def _reached(reports: Sequence[ExperimentReport], name: str) -> str | None:
    """In how many experiments the paper's own method does as well as it prints."""
    found = [(report, _ends(report)[name]) for report in reports if name in _ends(report)]
    found = [(r, item) for r, item in found if item.ours is not None and not math.isnan(item.paper_error)]
    if not found:
        return None

    def well(report: ExperimentReport, item: Published) -> bool:
        assert item.ours is not None
        sign = 1.0 if report.problems[0].lower else -1.0
        return sign * item.ours.mean <= sign * item.paper + item.paper_error

    missed = [report.problems[0].label for report, item in found if not well(report, item)]
    text = (
        f"`{name}`'s mean is at or below the paper's plus one standard error of the paper's "
        f"in {len(found) - len(missed)} of {len(found)} experiments"
    )
    text += f"; not in {', '.join(missed)}." if missed else "."
    chance = _by_chance([item for _, item in found])
    return text if chance is None else f"{text} {chance}"


def _by_chance(items: Sequence[Published]) -> str | None:
    """What to expect of two methods that are the same, and whether all differences tell them apart."""
    both = [(i.ours.mean - i.paper, i.ours.error, i.paper_error) for i in items if i.ours is not None]
    if not both or any(math.isnan(ours) or ours + papers == 0.0 for _, ours, papers in both):
        return None
    expected = sum(stats.norm.cdf(papers / math.hypot(ours, papers)) for _, ours, papers in both)
    total = sum(gap**2 / (ours**2 + papers**2) for gap, ours, papers in both)
    p = p_value(float(stats.chi2.sf(total, len(both))))
    return (
        f"Were the two methods the same, it would be so in {expected:.1f} on average; all differences "
        f"together are χ² = {total:.1f} on {len(both)} degrees of freedom "
        f"(p {p if p.startswith('<') else f'= {p}'})."
    )


def _table(reports: Sequence[ExperimentReport], names: Sequence[str]) -> Table:
    rows, best = [], set()
    for i, report in enumerate(reports):
        problem = report.problems[0]
        own = {row.name: row for row in problem.rows}
        ends = _ends(report)
        rows.append((problem.label, *(_cell(own[name], ends.get(name)) for name in names)))
        means = [own[name].final.mean for name in names]
        top = min(means) if problem.lower else max(means)
        best |= {(i, j + 1) for j, mean in enumerate(means) if mean == top}
    columns = ("problem", *(f"`{name}`" for name in names))
    paper = any(_ends(report) for report in reports)
    note = "Mean ± standard error" + ("; in brackets what the paper prints." if paper else ".")
    return Table(columns, tuple(rows), "All experiments", frozenset(best), note)


def _cell(row: MethodRow, item: Published | None) -> str:
    ours = mean_error(row.final) if row.repeats else NONE
    return ours if item is None else f"{ours} [{with_error(item.paper, item.paper_error)}]"
