"""The tables of a report: the same cells for every format."""

import math
from collections.abc import Callable, Sequence

from augury.bench.report.comparing import cliques
from augury.bench.report.entries import DEFAULT, PICKED
from augury.bench.report.model import (
    Chart,
    ClaimReport,
    ExperimentReport,
    MethodRow,
    PaperTest,
    ProblemReport,
    Published,
    Table,
)
from augury.bench.report.numbers import (
    NONE,
    duration,
    joined,
    mean_error,
    median_quartiles,
    p_value,
    tidy,
    times,
    with_error,
)
from augury.bench.statistics import Ranks

Cell = Callable[[MethodRow], str]


def results(problem: ProblemReport, report: ExperimentReport) -> Table:
    """Every method on a problem; columns without a number are left out."""
    ends = {
        n.method: n for n in report.published if n.problem == problem.label and n.what == "at the end"
    }
    columns: list[tuple[str, Cell]] = [
        ("setting", lambda row: row.setting),
        (f"{problem.measure}, mean ± s.e.", lambda row: mean_error(row.final)),
        ("median [quartiles]", lambda row: median_quartiles(row.final)),
        ("paper, mean ± s.e.", lambda row: _paper(ends[row.name]) if row.name in ends else NONE),
        ("simple regret", lambda row: mean_error(row.simple)),
        ("cumulative per iteration", lambda row: mean_error(row.per_iteration)),
        ("mean rank", lambda row: tidy(row.rank)),
        (f"log₂ efficiency against {report.baseline}", lambda row: times(row.efficiency)),
        ("per suggestion", lambda row: duration(row.seconds)),
        ("at the end", lambda row: duration(row.last_seconds)),
        ("mean η", lambda row: NONE if math.isnan(row.eta) else f"{row.eta:.3f}"),
        ("M_T", lambda row: tidy(row.inaccuracy)),
        ("peak MiB", lambda row: tidy(row.peak_mib, 4)),
        ("failed", lambda row: str(row.failures) if row.failures else NONE),
        ("runs", lambda row: str(row.repeats)),
    ]
    kept = [
        (name, cell) for name, cell in columns if any(cell(row) not in ("", NONE) for row in problem.rows)
    ]
    rows = tuple((f"`{row.name}`", *(cell(row) for _, cell in kept)) for row in problem.rows)
    return Table(("method", *(name for name, _ in kept)), rows, best=_best(problem, [n for n, _ in kept]))


def _best(problem: ProblemReport, columns: Sequence[str]) -> frozenset[tuple[int, int]]:
    means = [row.final.mean for row in problem.rows]
    known = [mean for mean in means if not math.isnan(mean)]
    if not known:
        return frozenset()
    best = min(known) if problem.lower else max(known)
    column = next(i for i, name in enumerate(columns) if name.startswith(problem.measure)) + 1
    return frozenset((i, column) for i, mean in enumerate(means) if mean == best)


def _paper(item: Published) -> str:
    return tidy(item.paper) if math.isnan(item.paper_error) else with_error(item.paper, item.paper_error)


def progress(problem: ProblemReport) -> Table | None:
    """The mean metric along the run."""
    rows = tuple((f"`{r.name}`", *map(tidy, r.path)) for r in problem.rows if len(r.path) == 4)
    if not rows:
        return None
    columns = ("method", "25 %", "50 %", "75 %", "100 %")
    return Table(columns, rows, f"Mean {problem.measure} along the run, by the share of the budget")


def tests(problem: ProblemReport) -> Table | None:
    """The best method against the others."""
    if not problem.tests:
        return None
    word = "lower" if problem.lower else "higher"
    rows = tuple(
        (f"`{t.worse}`", p_value(t.p_value), p_value(t.adjusted), _yes(t.adjusted < 0.05), _yes(t.normal))
        for t in problem.tests
    )
    columns = ("against", "p", "adjusted p", f"significantly {word}", "normal")
    title = (
        f"One-sided paired t-tests that `{problem.tests[0].better}` is {word}, on {problem.seeds} seeds"
    )
    note = (
        "Adjusted by Benjamini and Hochberg. Normal: Kolmogorov and Smirnov's test rejects "
        "neither sample at 5 %."
    )
    return Table(columns, rows, title, note=note)


def _yes(answer: bool | None) -> str:
    return NONE if answer is None else "yes" if answer else "no"


def ranks(found: Ranks) -> Table:
    """Mean ranks over problems, and the groups that cannot be told apart."""
    groups = cliques(found)
    ordered = sorted(found.mean, key=lambda name: found.mean[name])
    rows = tuple(
        (
            f"`{name}`",
            f"{found.mean[name]:.2f}",
            " ".join(chr(ord("a") + i) for i, group in enumerate(groups) if name in group) or NONE,
        )
        for name in ordered
    )
    note = f"{rank_note(found)} Methods that share a letter cannot be told apart."
    return Table(("method", "mean rank", "group"), rows, "Mean ranks over problems", note=note)


def rank_note(found: Ranks) -> str:
    """The tests behind mean ranks."""
    friedman = "" if math.isnan(found.p_value) else f"Friedman's p {p_value(found.p_value)}; "
    difference = f"critical difference {tidy(found.critical_difference)} (Nemenyi, 5 %)."
    return f"{found.problems} problems; {friedman}{difference}"


def matrix(report: ExperimentReport) -> Table:
    """Problems against methods: the mean metric, for experiments with many problems."""
    rows, best = [], set()
    for i, problem in enumerate(report.problems):
        cells = {row.name: row for row in problem.rows}
        for row in problem.rows:  # a picked setting that is the default stands for both
            if row.setting.endswith("(the default)"):
                cells[row.name.removesuffix(PICKED) + DEFAULT] = row
        rows.append(
            (problem.label, *(tidy(cells[n].final.mean) if n in cells else NONE for n in report.names))
        )
        means = [row.final.mean for row in problem.rows if not math.isnan(row.final.mean)]
        extreme = (min if problem.lower else max)(means, default=math.nan)
        places = enumerate(report.names, start=1)
        best |= {(i, j) for j, n in places if n in cells and cells[n].final.mean == extreme}
    columns = ("problem", *(f"`{name}`" for name in report.names))
    return Table(columns, tuple(rows), f"Mean {report.metric} at the end", frozenset(best))


CLAIM_NOTE = (
    "Paired one-sided t-tests in both directions, each adjusted over a claim's comparisons (Benjamini "
    "and Hochberg, 5 %); × is the ratio of the two means."
)


def ratio_text(ratio: float) -> str:
    """How many times as much."""
    return f"{ratio:.2f}×" if 0.1 <= ratio < 100.0 else f"{tidy(ratio, 2)}×"


def claim(item: ClaimReport) -> Table:
    """A claim by problem and rival."""
    problems = list(dict.fromkeys(judged.problem for judged in item.judged))
    rivals = list(dict.fromkeys(judged.rival for judged in item.judged))
    cells = {(judged.problem, judged.rival): judged for judged in item.judged}

    def cell(problem: str, rival: str) -> str:
        judged = cells[problem, rival]
        ratio = "" if math.isnan(judged.ratio) else f", {ratio_text(judged.ratio)}"
        return judged.verdict + ratio

    rows = tuple((problem, *(cell(problem, rival) for rival in rivals)) for problem in problems)
    compared = {
        "best value": "better best value",
        "seconds": "fewer seconds per suggestion",
        "memory": "less peak memory",
    }
    title = f"`{item.better}`: {compared.get(item.measure, f'lower {item.measure}')} than"
    return Table(("problem", *(f"`{rival}`" for rival in rivals)), rows, title)


def published(numbers: Sequence[Published]) -> list[Table]:
    """The paper's numbers beside ours; those along the run by method and iteration."""
    ends = [item for item in numbers if item.what == "at the end"]
    others = [item for item in numbers if item.what != "at the end"]
    problems = dict.fromkeys(item.problem for item in others)
    along = [_along([item for item in others if item.problem == problem]) for problem in problems]
    return [*([_at_the_end(ends)] if ends else []), *along]


def _along(numbers: Sequence[Published]) -> Table:
    """Two rows per method, ours and the paper's, by iteration; what agrees is stressed."""
    places = list(dict.fromkeys(item.what for item in numbers))
    rows: list[tuple[str, ...]] = []
    best = set()
    for method in dict.fromkeys(item.method for item in numbers):
        known = {item.what: item for item in numbers if item.method == method}
        best |= {
            (len(rows), column)
            for column, what in enumerate(places, start=2)
            if what in known and known[what].agreement == "agrees"
        }
        ours = (mean_error(known[what].ours) if what in known else NONE for what in places)
        paper = (_paper(known[what]) if what in known else NONE for what in places)
        rows += [(f"`{method}`", "ours", *ours), ("", "paper", *paper)]
    title = f"The paper's numbers beside ours, on {numbers[0].problem}"
    note = (
        "Mean ± standard error. Stressed: the means differ by at most two standard errors of their "
        "difference."
    )
    return Table(("method", "whose", *places), tuple(rows), title, frozenset(best), note)


def _at_the_end(numbers: Sequence[Published]) -> Table:
    several = len({item.problem for item in numbers}) > 1
    rows = tuple(
        (
            f"`{item.method}`",
            *([item.problem] if several else []),
            mean_error(item.ours),
            _paper(item),
            item.agreement,
        )
        for item in numbers
    )
    columns = ("method", *(["problem"] if several else []), "ours", "paper", "")
    note = (
        "Mean ± standard error. Agrees: the means differ by at most two standard errors of their "
        "difference."
    )
    return Table(columns, rows, "The paper's numbers beside ours, at the end", note=note)


def paper_tests(tests: Sequence[PaperTest]) -> Table:
    """The paper's tests beside ours."""
    rows = tuple(
        (
            f"`{t.method}`",
            t.problem,
            p_value(t.normality),
            p_value(t.paper_normality),
            p_value(t.p_value),
            p_value(t.paper_p_value),
            _yes(t.rejected),
            _yes(t.paper_rejected),
            _same(t),
        )
        for t in tests
    )
    columns = ("method", "problem", "normality p", "paper", "t-test p", "paper", "rejected", "paper", "")
    note = (
        "Normality: Kolmogorov and Smirnov. t-tests: one-sided, of the paper's method against each "
        "other; rejected after Benjamini and Hochberg's correction at 5 %."
    )
    return Table(columns, rows, "The paper's own tests", note=note)


def _same(test: PaperTest) -> str:
    if test.rejected is None or test.paper_rejected is None:
        return NONE
    return "agrees" if test.rejected == test.paper_rejected else "differs"


def not_available(report: ExperimentReport) -> str:
    """The methods that have no results and cannot run here."""
    if not report.unavailable:
        return ""
    return f"Not available yet: {joined([f'`{name}`' for name in report.unavailable])}."


def chart(item: Chart) -> Table:
    """A chart's lines at quarters of its axis, for a page without curves."""
    low, high = (float(f(float(f(line.x)) for line in item.lines)) for f in (min, max))
    places = [low + share * (high - low) for share in (0.25, 0.5, 0.75, 1.0)]
    rows = tuple(
        (f"`{line.name}`", *(tidy(float(line.y[abs(line.x - place).argmin()])) for place in places))
        for line in item.lines
    )
    columns = ("method", *(f"{item.x} {tidy(place)}" for place in places))
    return Table(columns, rows, f"{item.title}: {item.y}")
