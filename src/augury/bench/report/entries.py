"""Which methods a problem's table shows: of a grid of settings, the picked one and the default."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from augury.bench.experiment import Experiment, Pick
from augury.bench.report.measures import filled_with_worst, summary
from augury.bench.report.runs import Array, Runs

PICKED, DEFAULT = ", picked", ", default"  # after the name of a grid
LEAST_SHARE = 0.5  # of the runs of the method that has most, for a method to be compared


@dataclass(frozen=True, eq=False)
class Entry:
    """A method as it is shown."""

    name: str
    group: str
    runs: Runs
    setting: str = ""
    compared: bool = True  # in ranks and tests; not the default beside a picked setting


@dataclass(frozen=True, eq=False)
class Grid:
    """The points of a method's grid of settings that have results, and which is picked."""

    group: str
    points: tuple[Runs, ...]
    criteria: tuple[float, ...]  # lower is better
    picked: Runs


def entries(experiment: Experiment, runs: Mapping[str, Runs]) -> tuple[list[Entry], list[Grid]]:
    """What is shown of a problem, from its runs by method.

    If an experiment compares nothing but the settings of one method, all of them are shown.
    """
    groups: dict[str, list[str]] = {}
    for method in experiment.methods:
        groups.setdefault(method.group, []).append(method.name)
    shown: list[Entry] = []
    grids: list[Grid] = []
    for group, names in groups.items():
        points = [runs[name] for name in names if name in runs]
        if len(names) == 1:
            shown += [Entry(point.method.name, group, point) for point in points]
        elif points:
            grid = _grid(group, points, experiment.pick)
            shown += _all(grid) if len(groups) == 1 else _picked_and_default(grid)
            grids.append(grid)
    return shown, grids


def _grid(group: str, points: Sequence[Runs], pick: Pick) -> Grid:
    seeds = set(points[0].seeds).intersection(*(point.seeds for point in points))
    paired = [point.only(sorted(seeds)) if seeds else point for point in points]
    criteria = tuple(summary(criterion(point, pick)).mean for point in paired)
    known = [np.inf if np.isnan(value) else value for value in criteria]
    return Grid(group, tuple(points), criteria, points[int(np.argmin(known))])


def criterion(runs: Runs, pick: Pick) -> Array:
    """By which a setting is picked, per seed, lower being better."""
    sign = 1.0 if runs.direction == "minimize" else -1.0
    offset = np.where(np.isnan(runs.optimum), 0.0, sign * runs.optimum)
    signed = filled_with_worst(runs.values, sign) - offset[:, None]
    if pick == "best at the end":
        return np.asarray(signed.min(axis=1))
    return np.asarray(signed[:, signed.shape[1] // 2 :].sum(axis=1))


def setting_text(runs: Runs) -> str:
    """The point of a grid in words."""
    return ", ".join(f"{key.split('.')[-1]} = {value}" for key, value in runs.method.setting.items())


def _all(grid: Grid) -> list[Entry]:
    marks = {True: "picked", False: ""}
    return [
        Entry(
            point.method.name,
            grid.group,
            point,
            ", ".join(filter(None, [marks[point is grid.picked], "default" * point.method.default])),
        )
        for point in grid.points
    ]


def _picked_and_default(grid: Grid) -> list[Entry]:
    picked = grid.picked
    text = setting_text(picked) + (" (the default)" if picked.method.default else "")
    shown = [Entry(grid.group + PICKED, grid.group, picked, text)]
    for point in grid.points:
        if point.method.default and point is not picked:
            default = Entry(grid.group + DEFAULT, grid.group, point, setting_text(point), False)
            shown.append(default)
    return shown


def comparable(shown: Sequence[Entry]) -> tuple[list[Entry], list[int]]:
    """The entries with enough runs to be compared, and the seeds that all of them have."""
    candidates = [entry for entry in shown if entry.compared]
    most = max((len(entry.runs.seeds) for entry in candidates), default=0)
    kept = [entry for entry in candidates if len(entry.runs.seeds) >= LEAST_SHARE * most]
    if not kept:
        return [], []
    common = set(kept[0].runs.seeds).intersection(*(entry.runs.seeds for entry in kept))
    return kept, sorted(common)


def find(shown: Sequence[Entry], name: str) -> Entry | None:
    """The entry that a name stands for: a method's, a grid's (the picked one), or without "(paper)"."""
    for entry in shown:
        if name in (entry.name, entry.runs.method.name):
            return entry
    compared = [entry for entry in shown if entry.compared]
    for wanted in (name, f"{name} (paper)"):
        for entry in compared:
            if entry.group == wanted:
                return entry
    return next((entry for entry in compared if entry.group.startswith(f"{name} (")), None)
