"""The charts of one problem."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from augury.bench.report import measures
from augury.bench.report.entries import Entry
from augury.bench.report.measures import BEST, CUMULATIVE, PER_ITERATION, SIMPLE
from augury.bench.report.model import Array, Chart, Line

STANDARD_ERROR, QUARTILES = "± standard error", "quartiles"
NONE: Array = np.array([])
LOG_RANGE = 20.0  # largest over smallest value, from which on a logarithmic axis helps


def problem_charts(shown: Sequence[Entry], measure: str) -> Iterator[Chart]:
    """The metric, the other regret, and seconds and memory against the number of evaluations."""
    known = all(measures.regrets(entry.runs) is not None for entry in shown)
    summed = known and all(entry.runs.all_values for entry in shown)
    others = [SIMPLE] * known + [CUMULATIVE] * summed
    wanted = [measure, *(m for m in others if m != measure)]
    if measure == BEST and known:
        wanted = [BEST, SIMPLE]
    if summed and any(entry.runs.task.batch > 1 for entry in shown):
        wanted.append(PER_ITERATION)
    for name in wanted:
        yield _measured(shown, name)
    yield from _stretches(shown, "seconds", "Seconds per suggestion", "seconds")
    for chart in _stretches(shown, "memory", "Peak memory", "MiB"):
        lines = tuple(replace(line, low=NONE, high=NONE) for line in chart.lines)
        yield replace(chart, lines=lines, band="", log=False, zero=True)


def _measured(shown: Sequence[Entry], measure: str) -> Chart:
    lines = tuple(measures.mean_line(e.name, measures.curve(e.runs, measure)) for e in shown)
    lines = tuple(line for line in lines if len(line.x))
    title = {PER_ITERATION: "Cumulative regret per iteration, a batch counting by its best point"}.get(
        measure, measure.capitalize()
    )
    x = "iterations" if measure == PER_ITERATION else "evaluations"
    wide = log(lines) if measure == SIMPLE else "regret" in measure and log(lines, ends=True)
    return Chart(title, x, measure, lines, _band(lines, STANDARD_ERROR), wide)


def _stretches(shown: Sequence[Entry], key: str, title: str, unit: str) -> Iterator[Chart]:
    found = (measures.stretch_line(entry.name, entry.runs, key) for entry in shown)
    lines = tuple(line for line in found if line is not None)
    if any(len(line.x) > 1 for line in lines):
        band = _band(lines, QUARTILES)
        yield Chart(f"{title} against evaluations", "evaluations", unit, lines, band, log(lines))


def _band(lines: Sequence[Line], what: str) -> str:
    return what if any(len(line.low) for line in lines) else ""


def log(lines: Sequence[Line], *, ends: bool = False) -> bool:
    """Whether values are positive and they, or the last ones, spread enough for a logarithmic axis."""
    values = np.concatenate([line.y for line in lines]) if lines else np.array([])
    values = values[~np.isnan(values)]
    if not len(values) or values.min() <= 0.0:
        return False
    if ends:
        values = np.array([line.y[-1] for line in lines])
    return bool(np.nanmax(values) / np.nanmin(values) > LOG_RANGE)
