"""The finished runs of one method on one problem, as arrays with one row per seed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from augury._errors import AuguryError
from augury.bench.experiment import Method, Task
from augury.bench.records import Record, rounding
from augury.bench.runner import make_problem
from augury.bench.statistics import Direction

Array = npt.NDArray[np.float64]
SLACK = 1.01  # on the rounding of values, for that of the computation


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of equal length, in the order of their seeds."""

    method: Method
    task: Task
    seeds: tuple[int, ...]
    values: Array  # (seeds, evaluations), noise-free; NaN where an evaluation failed
    observed: Array  # what the method saw
    initial: int
    direction: Direction
    optimum: Array  # (seeds,); NaN where it is not known
    exact: bool
    records: tuple[Record, ...]

    @property
    def all_values(self) -> bool:
        """Whether the values are those of all evaluations, not the best so far."""
        return all(record.get("keep", "values") == "values" for record in self.records)

    def only(self, seeds: Sequence[int]) -> "Runs":
        """The runs of these seeds."""
        rows = [self.seeds.index(seed) for seed in seeds]
        return Runs(
            self.method,
            self.task,
            tuple(seeds),
            self.values[rows],
            self.observed[rows],
            self.initial,
            self.direction,
            self.optimum[rows],
            self.exact,
            tuple(self.records[row] for row in rows),
        )


class Goals:
    """Direction and optimum of a run: of its record, or of the problem, made anew and kept."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Mapping[str, Any]] = {}

    def __call__(self, task: Task, record: Record) -> Mapping[str, Any]:
        """The keys direction, optimum and exact."""
        if "direction" in record:
            return record
        key = (task.label, record["seed"])
        if key not in self._known:
            self._known[key] = _goal(task, record["seed"])
        return self._known[key]


def _goal(task: Task, seed: int) -> Mapping[str, Any]:
    try:
        problem = make_problem(task, seed)
    except AuguryError as error:
        raise type(error)(
            f"results of {task.label} must say the direction, or its problem must be there; got neither. "
            f"{error}"
        ) from error
    return {"direction": problem.direction, "optimum": problem.optimum, "exact": problem.exact}


def gather(
    tasks: Iterable[Task], methods: Iterable[Method], records: Sequence[Record], goals: Goals
) -> dict[tuple[str, str], Runs]:
    """The runs by problem and method; runs of another length than the task's are left out."""
    found: dict[tuple[str, str], dict[int, Record]] = {}
    for record in records:
        found.setdefault((record["problem"], record["method"]), {})[record["seed"]] = record
    methods = list(methods)
    table = {}
    for task in tasks:
        for method in methods:
            kept = [
                record
                for _, record in sorted(found.get((task.label, method.name), {}).items())
                if len(record["values"]) == task.evaluations
            ]
            if kept:
                table[task.label, method.name] = _runs(task, method, kept, goals)
        if task.best_of_runs:
            own = {key: runs for key, runs in table.items() if key[0] == task.label}
            table |= dict(zip(own, _against_the_best(list(own.values())), strict=True))
    return table


def _against_the_best(runs: Sequence[Runs]) -> list[Runs]:
    """The same, the best value of all of them in the place of the optimum."""
    best = {"minimize": np.nanmin, "maximize": np.nanmax}
    found = [best[each.direction](each.values) for each in runs]
    return [
        replace(each, optimum=np.full(len(each.seeds), best[each.direction](found)), exact=False)
        for each in runs
    ]


def _runs(task: Task, method: Method, records: Sequence[Record], goals: Goals) -> Runs:
    known = [goals(task, record) for record in records]
    optimum = [np.nan if goal["optimum"] is None else float(goal["optimum"]) for goal in known]
    return Runs(
        method=method,
        task=task,
        seeds=tuple(record["seed"] for record in records),
        values=np.array([_values(*both) for both in zip(records, optimum, strict=True)]),
        observed=np.array([r.get("observed", r["values"]) for r in records], dtype=np.float64),
        initial=min(record["initial"] for record in records),
        direction=known[0]["direction"],
        optimum=np.array(optimum),
        exact=all(goal["exact"] for goal in known),
        records=tuple(records),
    )


def _values(record: Record, optimum: float) -> Array:
    """The values of a run: the optimum itself where it is the same in the digits that the line has."""
    values = np.array(record["values"], dtype=np.float64)
    same = np.abs(values - optimum) <= SLACK * rounding(record, optimum)
    return np.where(same, optimum, values)
