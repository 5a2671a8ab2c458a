"""The numbers that a paper prints, beside ours.

`[published]` of an experiment has, for the experiment or below the name of a problem, a table for each
method with `mean` and `deviation`, times an optional `unit`: at the end of the run, or lists with
`iterations`. `runs` says of how many runs they are, if the experiment has another number.
`observed = true` says that the paper's are best observed, not noise-free, values.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from augury.bench import statistics
from augury.bench.experiment import Experiment, Task
from augury.bench.report.entries import Entry, find
from augury.bench.report.measures import curve, final, scores, summary, usable
from augury.bench.report.model import Agreement, PaperTest, Published
from augury.bench.report.numbers import mean_error, tidy, with_error
from augury.bench.report.runs import Array, Runs
from augury.bench.statistics import Summary

TESTS = ("ks_p_values", "t_test")
WHOLE = {
    "unit",
    "iterations",
    "quantity",
    "reevaluated",
    "observed",
    "runs",
}  # keys of no method or problem


def published_numbers(
    experiment: Experiment, task: Task, shown: Sequence[Entry], whole: Experiment
) -> Iterator[Published]:
    """The paper's numbers on a problem; `whole` is the experiment as the paper has it.

    Numbers of the end are compared only with runs as long as the paper's.
    """
    as_long = any(task.label == t.label and task.evaluations == t.evaluations for t in whole.tasks)
    table = _of_problem(experiment, task)
    for name, numbers in table.items():
        if name in WHOLE or not isinstance(numbers, Mapping) or "mean" not in numbers:
            continue
        entry = find(shown, name)
        settings = {**table, **numbers}
        for iteration, mean, deviation in _points(settings, float(table.get("unit", 1.0))):
            ours = None if entry is None else _ours(entry.runs, experiment.metric, settings, iteration)
            error = deviation / np.sqrt(table.get("runs", whole.repeats))
            what = "at the end" if iteration is None else f"after {iteration} iterations"
            comparable = as_long or iteration is not None
            agreement = _agreement(ours, mean, error) if comparable else "not compared"
            if iteration is None or iteration <= task.iterations:
                shown_name = name if entry is None else entry.name
                yield Published(task.label, shown_name, what, ours, mean, error, agreement)
        if entry is not None and "reevaluated" in numbers and as_long:
            yield _reevaluated(task, entry, float(numbers["reevaluated"]))


def _of_problem(experiment: Experiment, task: Task) -> Mapping[str, Any]:
    if _moved(task):
        return {}
    published = experiment.published
    for name in (task.label, task.problem):
        if isinstance(published.get(name), Mapping):
            return published[name]
    return published


def _moved(task: Task) -> bool:
    """Whether the optimum is elsewhere than in the paper."""
    return any(wrapper["name"] == "shifted" for wrapper in task.wrap)


def _points(settings: Mapping[str, Any], unit: float) -> Iterator[tuple[int | None, float, float]]:
    """Iteration (None for the end), mean and standard deviation, in the units of the problem."""
    mean, deviation = settings["mean"], settings.get("deviation", np.nan)
    if not isinstance(mean, list):
        yield None, mean * unit, deviation * unit
        return
    for place, iteration in enumerate(settings["iterations"]):
        if isinstance(deviation, Mapping):
            spread = deviation.get(str(iteration), np.nan)
        else:
            spread = deviation[place] if isinstance(deviation, list) else np.nan
        yield iteration, mean[place] * unit, spread * unit


def _ours(runs: Runs, metric: str, settings: Mapping[str, Any], iteration: int | None) -> Summary | None:
    measure = usable(metric, runs)
    if iteration is None:
        return summary(final(runs, measure))
    evaluations = runs.initial + iteration * runs.task.batch
    if evaluations > runs.values.shape[1]:
        return None
    if settings.get("observed"):
        best = statistics.best_so_far(runs.observed, runs.direction)
        return summary(best[:, evaluations - 1])
    x, y = curve(runs, measure)
    place = int(np.searchsorted(x, evaluations))
    return summary(y[:, place])


def _reevaluated(task: Task, entry: Entry, paper: float) -> Published:
    """The noise-free value of the best observed point, as the paper evaluates its best point anew."""
    runs, nan = entry.runs, float("nan")
    sign = 1.0 if runs.direction == "minimize" else -1.0
    seen = np.where(np.isnan(runs.observed), np.inf, sign * runs.observed)
    ours = summary(runs.values[np.arange(len(seen)), seen.argmin(axis=1)])
    what = "best point, evaluated anew"
    return Published(task.label, entry.name, what, ours, paper, nan, _agreement(ours, paper, nan))


def _agreement(ours: Summary | None, paper: float, paper_error: float) -> Agreement:
    """Whether the means differ by at most two standard errors of their difference."""
    if ours is None or np.isnan(ours.mean) or np.isnan([ours.error, paper_error]).all():
        return "not compared"
    error = float(np.hypot(*np.nan_to_num([ours.error, paper_error])))
    if abs(ours.mean - paper) <= 2.0 * error:
        return "agrees"
    return "lower here" if ours.mean < paper else "higher here"


def published_tests(experiment: Experiment, task: Task, shown: Sequence[Entry]) -> Iterator[PaperTest]:
    """The paper's tests on a problem, and ours: normality, and one-sided t-tests against its method."""
    normal, tests = (experiment.published.get(key, {}).get(task.problem, {}) for key in TESTS)
    own = None if _moved(task) else next((name for name in normal if name not in tests), None)
    reference = None if own is None else find(shown, own)
    if reference is None:
        return
    found = {name: entry for name in normal if (entry := find(shown, name)) is not None}
    measure = usable(experiment.metric, reference.runs)
    table = {entry.name: _known(scores(entry.runs, measure)) for entry in found.values()}
    ours = {}
    if all(len(row) > 1 for row in table.values()):
        comparisons = statistics.one_sided_tests(reference.name, table, paired=False)
        ours = {comparison.worse: comparison for comparison in comparisons}
    for name, entry in found.items():
        test, paper = ours.get(entry.name), tests.get(name, {})
        yield PaperTest(
            task.label,
            entry.name,
            statistics.normality(table[entry.name]),
            normal[name],
            test.p_value if test else float("nan"),
            test.adjusted < 0.05 if test else None,
            paper.get("p", float("nan")),
            paper.get("rejected"),
        )


def _known(numbers: Array) -> Array:
    return numbers[~np.isnan(numbers)]


def quantity(experiment: Experiment) -> str:
    """What the paper's numbers are, if the file says it."""
    known = [experiment.published.get(key) for key in ("quantity", "reevaluated")]
    told = [text for text in known if isinstance(text, str)]
    if not told:
        return ""
    ours = (
        " Ours beside them are best observed values too." if experiment.published.get("observed") else ""
    )
    return f"The paper's numbers: {'; evaluated anew: '.join(told)}.{ours}"


def test_sentence(tests: Sequence[PaperTest]) -> str | None:
    """How many of the paper's tests come out the same here."""
    judged = [test for test in tests if test.rejected is not None and test.paper_rejected is not None]
    if not judged:
        return None
    same = sum(test.rejected == test.paper_rejected for test in judged)
    return f"{same} of the {len(judged)} t-tests that the paper prints come out the same here."


def also_printed(experiment: Experiment) -> Iterator[str]:
    """What the paper prints of no method: facts about its data and models."""
    names = {name for method in experiment.methods for name in (method.name, method.group)}
    names |= {name for task in experiment.tasks for name in (task.problem, task.label)}
    for name, facts in experiment.published.items():
        if name in WHOLE | names or name in TESTS or not isinstance(facts, Mapping) or "mean" in facts:
            continue
        listed = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in facts.items())
        yield f"{name}: {listed}"


def sentence(numbers: Sequence[Published]) -> str | None:
    """What agrees with the paper and what does not."""
    judged = [item for item in numbers if item.agreement != "not compared"]
    if not judged:
        return None
    agreeing = sum(item.agreement == "agrees" for item in judged)
    text = f"{agreeing} of {len(judged)} printed means agree with ours within two standard errors"
    differing = [item for item in judged if item.agreement != "agrees"]
    if not differing:
        return f"{text}."
    listed = "; ".join(
        f"`{item.method}` {item.what} is {item.agreement} ({mean_error(item.ours)}, paper {_paper(item)})"
        for item in differing[:4]
    )
    more = f"; and {len(differing) - 4} more, in the table" if len(differing) > 4 else ""
    return f"{text}. Not so: {listed}{more}."


def _paper(item: Published) -> str:
    return tidy(item.paper) if np.isnan(item.paper_error) else with_error(item.paper, item.paper_error)


def order_sentence(numbers: Sequence[Published]) -> str | None:
    """How far the paper's order of the methods is ours."""
    ends = [item for item in numbers if item.what == "at the end" and item.agreement != "not compared"]
    ends = [item for item in ends if item.ours is not None]
    if len(ends) < 4:
        return None
    ours = [item.ours.mean for item in ends if item.ours is not None]
    tau = float(stats.kendalltau([item.paper for item in ends], ours).statistic)
    if np.isnan(tau):
        return None
    return f"Kendall's τ of the paper's order of these {len(ends)} methods and ours is {tau:.2f}."
