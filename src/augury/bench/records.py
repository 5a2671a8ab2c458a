"""What a line of results holds, and which lines belong to an experiment as it is now."""

import functools
import importlib.metadata
import itertools
import math
import subprocess
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from augury import __version__
from augury._errors import DataError
from augury.bench.experiment import Experiment, Job
from augury.bench.journal import RESTORE, read_lines
from augury.bench.problem import Problem
from augury.bench.statistics import best_so_far

DIGITS = 12  # significant, of the values in a line of results
OLD_DIGITS = 8  # in lines that do not say how many
STRETCHES = 20  # of a run, for each of which the seconds per suggestion and the memory are kept
PACKAGES = ("jax", "numpy", "scipy")
NUMBER = (int, float)
FIELDS: Mapping[str, Any] = {
    "key": str,
    "problem": str,
    "method": str,
    "seed": int,
    "initial": int,
    "values": list,
    "seconds": list,
    "peak_mib": NUMBER,
}

Record = dict[str, Any]
FloatArray = npt.NDArray[np.float64]


def read_results(folder: Path, name: str) -> list[Record]:
    """The finished runs of an experiment, whatever settings they were made with."""
    path = folder / f"{name}.jsonl"
    return check_records(path, read_lines(path))


def read_runs(folder: Path, experiment: Experiment) -> list[Record]:
    """The finished runs of an experiment, after those of the experiments that it shares them with."""
    return [run for name in (*experiment.shares, experiment.name) for run in read_results(folder, name)]


def check_records(path: Path, lines: Iterable[Record]) -> list[Record]:
    """The lines, each of which must be a line of results."""
    checked = list(map(_whole, lines))
    for number, line in enumerate(checked, start=1):
        wrong = [name for name, kind in FIELDS.items() if not _is(line.get(name), kind)]
        if not wrong:
            wrong = [
                name
                for name in ("values", "observed", "seconds", "memory")
                if not all(value is None or _is(value, NUMBER) for value in line.get(name, ()))
            ]
        if wrong:
            raise DataError(
                f"every line of {path} must be the results of a run; line {number} has no valid "
                f"{', '.join(wrong)}. {RESTORE}"
            )
    return checked


def _whole(line: Record) -> Record:
    """A line that keeps the best so far alone has it for every evaluation again."""
    if line.get("keep") != "best" or not isinstance(line.get("values"), list):
        return line
    try:
        return line | {"values": [value for value, times in line["values"] for _ in range(times)]}
    except (TypeError, ValueError):
        return line | {"values": None}  # refused with the line's number


def _is(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def current(experiment: Experiment, records: Iterable[Record]) -> tuple[dict[str, Record], int]:
    """The last line of every run with the experiment's settings, by key; how many have other settings.

    Lines of tasks and methods that the experiment does not have count as neither. A line of an older
    version names no settings; it is taken if it has the right number of values.
    """
    planned = {
        (task.label, method.name): Job(experiment.name, task, method, 0, experiment.design)
        for task in experiment.tasks
        for method in experiment.methods
    }
    kept: dict[str, Record] = {}
    others = 0
    for record in records:
        job = planned.get((record["problem"], record["method"]))
        if job is None:
            continue
        digest, length = record.get("digest", job.digest), len(record["values"])
        if digest == job.digest and length == job.task.evaluations:
            kept[record["key"]] = record
        else:
            others += 1
    return kept, others


def make_record(job: Job, problem: Problem, lines: Sequence[Mapping[str, Any]], peak_mib: int) -> Record:
    """The line of a run, from the lines of its journal."""
    evaluations = [line for line in lines if "value" in line]
    initial = [line["params"] for line in lines if "initial" in line]
    asked = [(point, line["seconds"]) for line in lines for point in line.get("ask", ())]
    points = initial + [point["params"] for point, _ in asked]
    # a failure has no value, whatever the function's noise-free value is there
    values = [None if line["value"] is None else line.get("exact", line["value"]) for line in evaluations]
    memory = _running_peaks(lines)
    elsewhere = any("peak_mib" in point for point, _ in asked)  # the process of a peer
    record: Record = {
        "key": job.key,
        "digest": job.digest,
        "problem": job.task.label,
        "method": job.method.name,
        "seed": job.seed,
        "initial": len(initial),
        "batch": job.task.batch,
        "digits": DIGITS,
        "values": [_short(value) for value in values],
        "points": zlib.crc32(repr([sorted(p.items()) for p in points]).encode()),
        "best": _best(problem, points, values),
        "suggestions": len(asked),
        "seconds": _medians([seconds for _, seconds in asked]),
        "peak_mib": memory[-1] if elsewhere else max([peak_mib, *memory]),
        "memory": memory,
        "direction": problem.direction,
        "optimum": problem.optimum,
        "exact": problem.optimum is not None and problem.exact,
        "versions": {"augury": __version__} | versions((*PACKAGES, *problem.packages)),
        "commit": commit(),
    }
    if job.task.keep == "best":
        best = best_so_far(np.array(values, dtype=np.float64), problem.direction)
        record["keep"] = "best"
        short = [None if np.isnan(value) else _short(float(value)) for value in best]
        record["values"] = [[value, len(list(times))] for value, times in itertools.groupby(short)]
    elif problem.observe is not None:
        record["observed"] = [_short(line["value"]) for line in evaluations]
    etas = [point["eta"] for point, _ in asked if "eta" in point]
    if etas:
        record["eta"] = float(f"{np.mean(etas):.5g}")
        record["inaccuracy"] = float(f"{np.sum(1.0 - np.array(etas)):.5g}")  # M_T
    return record


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")


def rounding(record: Record, value: float) -> float:
    """By how much the digits of a line may be off about a value: half a unit of the last one."""
    if value == 0.0 or not math.isfinite(value):
        return 0.0
    return 0.5 * 10.0 ** (math.floor(math.log10(abs(value))) + 1 - record.get("digits", OLD_DIGITS))


def _best(problem: Problem, points: Sequence[Mapping[str, Any]], values: Sequence[float | None]) -> Any:
    """The point of the best noise-free value; None if every evaluation failed."""
    sign = 1.0 if problem.direction == "minimize" else -1.0
    scored = [(sign * value, i) for i, value in enumerate(values) if value is not None]
    return dict(points[min(scored)[1]]) if scored else None


def _medians(seconds: Sequence[float]) -> list[float]:
    """The median over each of at most STRETCHES equal stretches of a run."""
    return [float(f"{np.median(part):.3g}") for part in _stretches(seconds)]


def _running_peaks(lines: Sequence[Mapping[str, Any]]) -> list[int]:
    """The most memory occupied up to the end of each stretch, by the peer's process or by this one."""
    peaks = [
        point["peak_mib"] if _is(point.get("peak_mib"), NUMBER) else line.get("peak_mib", 0)
        for line in lines
        for point in line.get("ask", ())
    ]
    return [int(part[-1]) for part in _stretches(np.maximum.accumulate(peaks) if peaks else ())]


def _stretches(numbers: Sequence[float] | FloatArray) -> list[FloatArray]:
    parts = np.array_split(np.asarray(numbers, dtype=np.float64), min(STRETCHES, len(numbers)) or 1)
    return [part for part in parts if len(part)]


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of packages by the names under which they are installed, from those to import."""
    listed = _distributions()
    names = {name for package in packages for name in listed.get(package, ())}
    return {name: importlib.metadata.version(name) for name in sorted(names)}


@functools.cache
def _distributions() -> Mapping[str, Sequence[str]]:
    return importlib.metadata.packages_distributions()


@functools.cache
def commit() -> str | None:
    """The commit of the working tree that Augury runs from, if that is Augury's own."""
    package = Path(__file__).resolve().parents[1]
    top = _git(package, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() / "src" / "augury" != package:
        return None  # not in a repository, or installed inside somebody else's
    return _git(package, "describe", "--always", "--dirty", "--abbrev=12")


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
