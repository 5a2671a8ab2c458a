"""Charts over all problems of an experiment: COCO's runtime profile, and the detection rate."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from augury.bench.experiment import Experiment
from augury.bench.problem import MissingError
from augury.bench.problems.bbob import runtime_profile
from augury.bench.problems.sensitive import detection_rate
from augury.bench.report.entries import DEFAULT, LEAST_SHARE, PICKED, Entry
from augury.bench.report.measures import regrets
from augury.bench.report.model import Chart, Line
from augury.bench.report.runs import Array, Runs

POINTS = 80  # of a profile
NO_BAND: Array = np.array([])


def runtime_profiles(shown: Mapping[str, Sequence[Entry]]) -> list[Chart]:
    """For each dimension of BBOB functions, the fraction of (function, target) pairs by budget."""
    dimensions: dict[int, dict[str, dict[tuple[str, int], Array]]] = {}
    for label, entries in shown.items():
        if not label.startswith("bbob-"):
            continue
        dimension = int(label.split("+")[0].rsplit("-d", 1)[1])
        for name, runs in _with_defaults(entries):
            regret = regrets(runs)
            if regret is None:
                continue
            mine = dimensions.setdefault(dimension, {}).setdefault(name, {})
            mine |= {(label, seed): row for seed, row in zip(runs.seeds, regret, strict=True)}
    return [_profile(dimension, runs) for dimension, runs in sorted(dimensions.items())]


def _with_defaults(entries: Sequence[Entry]) -> Iterator[tuple[str, Runs]]:
    """Names and runs; a picked setting that is the default stands for the default too."""
    for entry in entries:
        yield entry.name, entry.runs
        if entry.name.endswith(PICKED) and entry.runs.method.default:
            yield entry.name.removesuffix(PICKED) + DEFAULT, entry.runs


def _profile(dimension: int, runs: Mapping[str, Mapping[tuple[str, int], Array]]) -> Chart:
    """On the functions and instances that all methods have, but for those with too few runs."""
    most = max(len(mine) for mine in runs.values())
    kept = {name: mine for name, mine in runs.items() if len(mine) >= LEAST_SHARE * most}
    first = next(iter(kept.values()))
    common = [pair for pair in first if all(pair in mine for mine in kept.values())]
    if not common:
        kept, common = {}, []
    lines = []
    for name, mine in kept.items():
        rows = [mine[pair] for pair in common]
        longest = max(len(row) for row in rows)
        budgets = np.unique(np.linspace(1, longest, min(POINTS, longest)).round().astype(int))
        fraction = runtime_profile(rows, budgets)
        lines.append(Line(name, budgets / dimension, fraction, NO_BAND, NO_BAND))
    functions = len({label for label, _ in common})
    title = (
        f"Runtime profile, dimension {dimension} ({functions} functions, {len(common)} runs per method)"
    )
    return Chart(title, "evaluations / dimension", "fraction of function, target pairs", tuple(lines))


def detection_chart(experiment: Experiment, entries: Sequence[Entry]) -> Chart | str | None:
    """The fraction of tampered models that the best points of the first N runs detect.

    None if the experiment does not ask for it, a sentence if the classifier is not there.
    """
    if experiment.metric != "detection rate":
        return None
    lines = []
    try:
        for entry in entries:
            best = [record["best"] for record in entry.runs.records if record["best"] is not None]
            if best:
                rate = detection_rate([list(point.values()) for point in best])
                x = np.arange(1.0, len(rate) + 1.0)
                lines.append(Line(entry.name, x, np.asarray(rate), NO_BAND, NO_BAND))
    except MissingError as error:
        return f"The detection rate cannot be computed: {error}"
    title = "Detection of 1000 tampered models by the best points of the first N runs"
    return Chart(title, "samples N", "detection rate", tuple(lines))


def at(chart: Chart, name: str, x: float) -> float | None:
    """The value of a line at one of its points."""
    for line in chart.lines:
        if line.name == name and x in line.x:
            return float(line.y[line.x == x][0])
    return None
