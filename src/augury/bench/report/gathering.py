"""Gathers the results of an experiment into a report."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from augury.bench.experiment import Experiment, Task, jobs
from augury.bench.methods import available
from augury.bench.records import Record, current
from augury.bench.report import claims, comparing, measures, published, sentences
from augury.bench.report.charts import problem_charts
from augury.bench.report.entries import Entry, Grid, comparable, entries, find, setting_text
from augury.bench.report.measures import PER_ITERATION, SIMPLE
from augury.bench.report.model import Chart, ExperimentReport, MethodRow, ProblemReport, Published, Table
from augury.bench.report.numbers import mean_error, tidy
from augury.bench.report.profiles import at, detection_chart, runtime_profiles
from augury.bench.report.runs import Array, Goals, Runs, gather

MANY = 12  # problems, beyond which single problems get no charts
QUARTERS = (0.25, 0.5, 0.75, 1.0)


def build_report(
    experiment: Experiment, records: Sequence[Record], whole: Experiment | None = None
) -> ExperimentReport:
    """The report of some results; `whole` is what the experiment is the quick variant of."""
    kept, others = current(experiment, records)
    table = gather(experiment.tasks, experiment.methods, list(kept.values()), Goals())
    shown: dict[str, list[Entry]] = {}
    grids: dict[str, list[Grid]] = {}
    for task in experiment.tasks:
        runs = {m: r for (label, m), r in table.items() if label == task.label}
        if runs:
            shown[task.label], grids[task.label] = entries(experiment, runs)
    tasks = [task for task in experiment.tasks if task.label in shown]
    baseline = _baseline(shown)
    problems = [_problem(experiment, t, shown[t.label], grids[t.label], baseline) for t in tasks]
    ranks = comparing.ranks_over_problems([comparing.means(p) for p in problems])
    numbers = [
        number
        for t in tasks
        for number in published.published_numbers(experiment, t, shown[t.label], whole or experiment)
    ]
    tests = [test for t in tasks for test in published.published_tests(experiment, t, shown[t.label])]
    judged = [claims.judge(claim, experiment.tasks, shown) for claim in experiment.claims]
    charts, remarks = _overall(experiment, shown)
    missing, unavailable = _missing(experiment, table)
    used = sum(len(runs.seeds) for runs in table.values())
    alone: tuple[str, ...] = ()
    if len(problems) == 1:  # what is said of the only problem is said of the experiment
        alone, problems = problems[0].sentences, [replace(problems[0], sentences=())]
    told: list[str | None] = [
        None if whole is None else sentences.quick_remark(experiment, whole),
        *sentences.coverage(used, used + missing, _few(shown), others),
        *alone,
        sentences.ranking(ranks, _common_measure(problems)),
        *remarks,
        *(claims.sentence(claim, quick=whole is not None) for claim in judged),
        *_published_sentences(numbers, whole is not None),
        published.test_sentence(tests),
    ]
    return ExperimentReport(
        name=experiment.name,
        title=experiment.title,
        paper=experiment.paper,
        note=" ".join(experiment.note.split()),
        metric=experiment.metric,
        baseline=baseline,
        facts=tuple(_facts(experiment, table, grids, whole)),
        used=used,
        missing=missing,
        others=others,
        unavailable=unavailable,
        problems=tuple(problems),
        sentences=tuple(text for text in told if text),
        ranks=ranks,
        charts=charts,
        claims=tuple(judged),
        published=tuple(numbers),
        tests=tuple(tests),
        quantity=published.quantity(experiment),
        also_printed=tuple(published.also_printed(experiment)),
        names=tuple(dict.fromkeys(entry.name for listed in shown.values() for entry in listed)),
        quick=whole is not None,
        suite=experiment.suite,
        shares=bool((whole or experiment).shares),
        against=comparing.against(problems, baseline) if experiment.suite else None,
    )


def _few(shown: Mapping[str, Sequence[Entry]]) -> dict[str, list[str]]:
    few = {}
    for label, listed in shown.items():
        kept, _ = comparable(listed)
        left = [entry.name for entry in listed if entry.compared and entry not in kept]
        if left:
            few[label] = left
    return few


def _published_sentences(numbers: Sequence[Published], quick: bool) -> list[str]:
    texts = [published.sentence(numbers), published.order_sentence(numbers)]
    if quick and any(item.agreement == "not compared" and item.ours is not None for item in numbers):
        texts.append("The paper's numbers are of longer runs than these quick ones, and not compared.")
    return [text for text in texts if text]


def _common_measure(problems: Sequence[ProblemReport]) -> str:
    names = {problem.measure for problem in problems}
    return names.pop() if len(names) == 1 else "metric"


def _baseline(shown: Mapping[str, Sequence[Entry]]) -> str:
    names = [entry.name for listed in shown.values() for entry in listed]
    return "random" if "random" in names else next(iter(names), "")


def _problem(
    experiment: Experiment, task: Task, shown: Sequence[Entry], grids: Sequence[Grid], baseline: str
) -> ProblemReport:
    first = shown[0].runs
    measure = measures.usable(experiment.metric, first)
    table, seeds = comparing.paired_scores(shown, measure)
    ranks = comparing.seed_ranks(table)
    tests = comparing.best_against_others(table)
    lower = measures.lower_is_better(measure, first)
    reference = find(shown, baseline)
    rows = tuple(_row(entry, measure, ranks.get(entry.name, np.nan), reference) for entry in shown)
    many = len(experiment.tasks) > MANY
    sentence = None if many else sentences.winner(task.label, measure, lower, rows, tests)
    return ProblemReport(
        label=task.label,
        measure=measure,
        lower=lower,
        remark=sentences.optimum_remark([entry.runs for entry in shown]),
        seeds=len(seeds),
        rows=rows,
        charts=() if many else tuple(problem_charts(shown, measure)),
        tests=tuple(tests),
        settings=()
        if len(shown) == len(grids)
        else tuple(_settings(experiment, g, measure) for g in grids),
        sentences=(sentence,) if sentence else (),
        scores=table if seeds else {},
    )


def _row(entry: Entry, measure: str, rank: float, baseline: Entry | None) -> MethodRow:
    runs, nan = entry.runs, float("nan")
    known = measures.regrets(runs) is not None
    efficiency = nan
    if baseline is not None and baseline is not entry:
        seeds = sorted(set(runs.seeds) & set(baseline.runs.seeds))
        if seeds:
            efficiency = measures.log_efficiency(runs.only(seeds), baseline.runs.only(seeds))
    batches = known and runs.task.batch > 1 and runs.all_values
    return MethodRow(
        name=entry.name,
        setting=entry.setting,
        repeats=len(runs.seeds),
        final=measures.summary(measures.final(runs, measure)),
        simple=measures.summary(measures.final(runs, SIMPLE)) if known and measure != SIMPLE else None,
        per_iteration=measures.summary(measures.final(runs, PER_ITERATION)) if batches else None,
        rank=rank,
        efficiency=efficiency,
        seconds=_median(measures.final(runs, measures.SECONDS)),
        last_seconds=_median([r["seconds"][-1] for r in runs.records if r["seconds"]]),
        eta=_mean(runs, "eta"),
        inaccuracy=_mean(runs, "inaccuracy"),
        peak_mib=_median([r["peak_mib"] for r in runs.records]),
        failures=int(np.isnan(runs.values).sum()),
        path=_path(runs, measure),
    )


def _median(numbers: Sequence[float] | Array) -> float:
    known = [number for number in numbers if not np.isnan(number)]
    return float(np.median(known)) if known else float("nan")


def _mean(runs: Runs, key: str) -> float:
    known = [record[key] for record in runs.records if key in record]
    return float(np.mean(known)) if known else float("nan")


def _path(runs: Runs, measure: str) -> tuple[float, ...]:
    """The mean of the measure at quarters of the evaluations after the initial design."""
    line = measures.mean_line("", measures.curve(runs, measure))
    if not len(line.x):
        return ()
    wanted = [runs.initial + share * (runs.values.shape[1] - runs.initial) for share in QUARTERS]
    return tuple(float(line.y[np.abs(line.x - at).argmin()]) for at in wanted)


def _settings(experiment: Experiment, grid: Grid, measure: str) -> Table:
    rows, best = [], set()
    for place, (point, value) in enumerate(zip(grid.points, grid.criteria, strict=True)):
        marks = ["picked"] * (point is grid.picked) + ["default"] * point.method.default
        final = measures.summary(measures.final(point, measure))
        rows.append(
            (setting_text(point), mean_error(final), tidy(value), str(final.repeats), ", ".join(marks))
        )
        if point is grid.picked:
            best.add((place, 0))
    criterion = f"criterion: {experiment.pick}"
    columns = ("setting", measure, criterion, "runs", "")
    note = "Picked on these same runs, which flatters the picked setting."
    return Table(columns, tuple(rows), f"Settings of `{grid.group}`", frozenset(best), note)


def _overall(
    experiment: Experiment, shown: Mapping[str, Sequence[Entry]]
) -> tuple[tuple[Chart, ...], list[str]]:
    """Charts over all problems, and what they say."""
    charts = runtime_profiles(shown)
    remarks: list[str] = []
    for chart in charts:
        if chart.lines:
            ends = sorted(((float(line.y[-1]), line.name) for line in chart.lines), reverse=True)
            text = f"{chart.title}: `{ends[0][1]}` reaches {ends[0][0]:.0%} of the pairs"
            more = f", `{ends[1][1]}` {ends[1][0]:.0%}" if len(ends) > 1 else ""
            remarks.append(f"{text}{more} at the end.")
    first = next(iter(shown.values()), [])
    detection = detection_chart(experiment, first)
    if isinstance(detection, str):
        remarks.append(detection)
    elif detection is not None and detection.lines:
        charts.append(detection)
        remarks += _detected(experiment, detection, first)
    return tuple(charts), remarks


def _detected(experiment: Experiment, chart: Chart, shown: Sequence[Entry]) -> list[str]:
    remarks = []
    for name, facts in experiment.published.items():
        entry = find(shown, name)
        if entry is not None and isinstance(facts, Mapping) and "detection_rate" in facts:
            rate = at(chart, entry.name, float(facts["samples"]))
            ours = "has fewer runs here" if rate is None else f"detects {rate:.0%} here"
            remarks.append(
                f"With {facts['samples']} samples `{entry.name}` {ours}; the paper prints "
                f"{facts['detection_rate']:.0%}."
            )
    return remarks


def _missing(experiment: Experiment, table: Mapping[tuple[str, str], Runs]) -> tuple[int, dict[str, str]]:
    """How many runs are not there, and which methods cannot run here and have no results."""
    present = {name for _, name in table}
    unavailable = {
        method.name: reason
        for method in experiment.methods
        if method.name not in present and (reason := available(method)) is not None
    }
    missing = 0
    for job in jobs(experiment):
        runs = table.get((job.task.label, job.method.name))
        done = runs is not None and job.seed in runs.seeds
        missing += not done and job.method.name not in unavailable
    return missing, unavailable


def _facts(
    experiment: Experiment,
    table: Mapping[tuple[str, str], Runs],
    grids: Mapping[str, Sequence[Grid]],
    whole: Experiment | None,
) -> list[tuple[str, str]]:
    records = [record for runs in table.values() for record in runs.records]
    facts = [("Metric", experiment.metric), ("Repeats", str(experiment.repeats))]
    if whole is not None:
        facts.append(("Variant", f"quick, {sentences.reduction(experiment, whole)}"))
    if any(grids.values()):
        facts.append(("Picked by", f"{experiment.pick}, on each problem"))
    versions: dict[str, set[str]] = {}
    for record in records:
        for name, version in record.get("versions", {}).items():
            versions.setdefault(name, set()).add(version)
    listed = (f"{name} {' and '.join(sorted(found))}" for name, found in sorted(versions.items()))
    facts.append(("Versions", ", ".join(listed) or "not recorded"))
    commits = Counter(record.get("commit") or "not recorded" for record in records)
    facts.append(("Commits", ", ".join(f"{name} ({count} runs)" for name, count in commits.items())))
    return facts
