"""Runs the jobs of an experiment: resumable, in any executor, with paired initial designs.

Every job has a journal, to which each ask and each evaluation is appended as it ends; when the job is
done, one line of results takes its place. Killed at any moment, a job continues after its last
finished evaluation: the method is restored from the journal, and what an evaluation draws is decided
by the seed and the number of the evaluation.
"""

import functools
import importlib.metadata
import os
import resource
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, ProcessPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from augury import __version__
from augury.bench.driver import Asked, Driver, Event
from augury.bench.experiment import Experiment, Job, Task, jobs
from augury.bench.journal import Journal, finite, read_lines
from augury.bench.methods import available, driver
from augury.bench.problem import Problem
from augury.bench.problems import problem as find_problem
from augury.bench.wrappers import wrapper
from augury.space import Pool

DIGITS = 8  # significant, of the values in a line of results
STRETCHES = 20  # of a run, for each of which the seconds per suggestion and the memory are kept
PACKAGES = ("jax", "numpy", "scipy")

Record = dict[str, Any]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """How a call of :func:`run_experiment` ended."""

    finished: int  # runs made now
    known: int  # runs that were there before
    unavailable: Mapping[str, str]  # methods that cannot run here, and why
    failed: Mapping[str, str]  # jobs that raised, and what


def run_experiment(
    experiment: Experiment,
    folder: Path,
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> Outcome:
    """Run the jobs of the experiment that have no results yet; results go to `folder`/name.jsonl.

    Args:
        experiment: what to run.
        folder: for results and journals.
        executor: where jobs run; None starts a pool of spawned processes.
        workers: processes of that pool; all cores by default.
        progress: True shows a bar, False none; None shows one on a terminal.
    """
    path = folder / f"{experiment.name}.jsonl"
    unavailable = {
        method.name: reason for method in experiment.methods if (reason := available(method)) is not None
    }
    failed: dict[str, str] = {}
    with ExitStack() as stack:
        results = stack.enter_context(Journal(path))
        known = {line["key"] for line in results.lines}
        left = [j for j in jobs(experiment) if j.key not in known and j.method.name not in unavailable]
        if executor is None and left:
            pool = ProcessPoolExecutor(
                min(workers or os.cpu_count() or 1, len(left)), get_context("spawn")
            )
            executor = stack.enter_context(pool)
        shown = sys.stderr.isatty() if progress is None else progress
        evaluations = sum(job.task.evaluations for job in left)
        bar = stack.enter_context(
            tqdm(total=evaluations, unit="eval", disable=not shown, smoothing=0.05, desc=experiment.name)
        )
        journals = folder / experiment.name
        running = {} if executor is None else {executor.submit(run_job, j, journals): j for j in left}
        done = 0
        while running:
            finished, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in finished:
                job = running.pop(future)
                done += job.task.evaluations
                try:
                    results.append(future.result())
                    journal_path(job, journals).unlink(missing_ok=True)
                except Exception as error:  # the other jobs go on; its journal stays
                    failed[job.key] = f"{type(error).__name__}: {error}"
            bar.update(done + _under_way(running.values(), journals) - bar.n)
    return Outcome(len(left) - len(failed), len(known), unavailable, failed)


def _under_way(running: Iterable[Job], folder: Path) -> int:
    """Evaluations made by jobs that are not finished."""
    paths = (journal_path(job, folder) for job in running)
    return sum(path.read_bytes().count(b'"value":') for path in paths if path.exists())


def read_results(folder: Path, name: str) -> list[Record]:
    """The finished runs of an experiment."""
    return list(read_lines(folder / f"{name}.jsonl"))


def journal_path(job: Job, folder: Path) -> Path:
    """Where a job's journal lies."""
    return folder / f"{job.key.replace('/', '--').replace(' ', '_')}.journal"


def run_job(job: Job, folder: Path) -> Record:
    """Run one job, or what is left of it; the line of its results."""
    problem = make_problem(job.task, job.seed)
    _reset_peak_memory()
    with Journal(journal_path(job, folder)) as journal:
        method = driver(job, problem)
        try:
            _play(job, problem, method, journal)
            record = _record(job, problem, journal.lines)
            record["versions"] |= method.versions
        finally:
            method.close()
    return record


def make_problem(task: Task, seed: int) -> Problem:
    """The task's problem with its wrappers, drawn for a seed."""
    problem = find_problem(task.problem, seed)
    for number, spec in enumerate(task.wrap):
        problem = wrapper(spec)(problem, 1000 * (number + 1) + seed)
    return problem


def initial_points(task: Task, problem: Problem, design: str, seed: int) -> list[Mapping[str, Any]]:
    """The initial design of a seed, the same for all methods."""
    space, rng = problem.space, np.random.default_rng([seed, zlib.crc32(task.label.encode())])
    if isinstance(space, Pool):
        count = min(task.initial, int(space.size))
        return [space.decode(int(i)) for i in rng.choice(int(space.size), count, replace=False)]
    if design == "sobol":
        return [space.decode(row) for row in space.sobol(task.initial, int(rng.integers(2**31)))]
    return [space.decode(row) for row in space.draw(task.initial, rng)[0]]


def _play(job: Job, problem: Problem, method: Driver, journal: Journal) -> None:
    task = job.task
    _restore(method, journal.lines)
    evaluated = sum("value" in line for line in journal.lines)
    points = initial_points(task, problem, job.design, job.seed)
    for number in range(evaluated, len(points)):
        line = _evaluate(job, problem, number, points[number])
        method.initial(number, points[number], line["value"])
        journal.append({"initial": number, "params": points[number], **line})
    asked = _unanswered(journal.lines)
    while True:
        for point in asked:
            line = _evaluate(job, problem, point.number, point.params)
            method.tell(point, line["value"])
            journal.append({"tell": point.number, **line})
        left = task.evaluations - sum("value" in line for line in journal.lines)
        if left <= 0:
            return
        started = time.perf_counter()
        asked = list(method.ask(min(task.batch, left)))
        seconds = round((time.perf_counter() - started) / len(asked), 6)
        batch = [{"number": p.number, "params": dict(p.params), **_noted(p.info)} for p in asked]
        # one line: half a batch would go on otherwise
        journal.append({"ask": batch, "seconds": seconds, "peak_mib": _peak_mib()})


def _noted(info: Mapping[str, Any]) -> dict[str, Any]:
    """What a journal keeps of a point's diagnostics."""
    return {key: info[key] for key in ("eta", "peak_mib") if key in info}


def _restore(method: Driver, lines: Sequence[Mapping[str, Any]]) -> None:
    events = []
    for line in lines:
        events += [Event("ask", point["number"], point["params"]) for point in line.get("ask", ())]
        for kind in ("initial", "tell"):
            if kind in line:
                events.append(Event(kind, line[kind], line.get("params"), line["value"]))
    if events:
        method.start(events)


def _unanswered(lines: Sequence[Mapping[str, Any]]) -> list[Asked]:
    told = {line["tell"] for line in lines if "tell" in line}
    points = (point for line in lines for point in line.get("ask", ()))
    return [Asked(p["number"], p["params"], {}) for p in points if p["number"] not in told]


def _evaluate(job: Job, problem: Problem, number: int, params: Mapping[str, Any]) -> Record:
    """The observed value (None for a failure) and, if it differs, the noise-free one."""
    rng = np.random.default_rng([job.seed, number, zlib.crc32(job.task.label.encode())])
    started = time.perf_counter()
    try:
        value = finite(problem(params, rng))
    except Exception as error:
        return {"value": None, "error": f"{type(error).__name__}: {error}"}
    line: Record = {"value": value, "evaluation": round(time.perf_counter() - started, 6)}
    if problem.observe is not None:
        line["exact"] = finite(problem.value(params))
    return line


def _record(job: Job, problem: Problem, lines: Sequence[Mapping[str, Any]]) -> Record:
    evaluations = [line for line in lines if "value" in line]
    initial = [line["params"] for line in lines if "initial" in line]
    asked = [(point, line["seconds"]) for line in lines for point in line.get("ask", ())]
    points = initial + [point["params"] for point, _ in asked]
    values = [line.get("exact", line["value"]) for line in evaluations]
    record: Record = {
        "key": job.key,
        "problem": job.task.label,
        "method": job.method.name,
        "seed": job.seed,
        "initial": len(initial),
        "batch": job.task.batch,
        "values": [None if v is None else float(f"{v:.{DIGITS}g}") for v in values],
        "points": zlib.crc32(repr([sorted(p.items()) for p in points]).encode()),
        "best": _best(problem, points, values),
        "suggestions": len(asked),
        "seconds": _medians([seconds for _, seconds in asked]),
        "peak_mib": _peak_mib(),
        "memory": _running_peaks(lines),
        "direction": problem.direction,
        "optimum": problem.optimum,
        "exact": problem.optimum is not None and problem.exact,
        "versions": {"augury": __version__} | {n: importlib.metadata.version(n) for n in PACKAGES},
        "commit": _commit(),
    }
    if problem.observe is not None:
        observed = (line["value"] for line in evaluations)
        record["observed"] = [None if v is None else float(f"{v:.{DIGITS}g}") for v in observed]
    record["peak_mib"] = max(record["peak_mib"], *record["memory"], 0)
    etas = [point["eta"] for point, _ in asked if "eta" in point]
    if etas:
        record["eta"] = float(f"{np.mean(etas):.5g}")
        record["inaccuracy"] = float(f"{np.sum(1.0 - np.array(etas)):.5g}")  # M_T
    return record


def _best(problem: Problem, points: Sequence[Mapping[str, Any]], values: Sequence[float | None]) -> Any:
    """The point of the best noise-free value; None if every evaluation failed."""
    sign = 1.0 if problem.direction == "minimize" else -1.0
    scored = [(sign * value, i) for i, value in enumerate(values) if value is not None]
    return dict(points[min(scored)[1]]) if scored else None


def _medians(seconds: Sequence[float]) -> list[float]:
    """The median over each of at most STRETCHES equal stretches of a run."""
    return [float(f"{np.median(part):.3g}") for part in _stretches(seconds)]


def _running_peaks(lines: Sequence[Mapping[str, Any]]) -> list[int]:
    """The most memory occupied up to the end of each stretch, by this process and the peer's."""
    peaks = [
        max(line.get("peak_mib", 0), *((point.get("peak_mib") or 0) for point in line["ask"]))
        for line in lines
        for _ in line.get("ask", ())
    ]
    return [int(part[-1]) for part in _stretches(np.maximum.accumulate(peaks) if peaks else ())]


def _stretches(numbers: Sequence[float] | FloatArray) -> list[FloatArray]:
    parts = np.array_split(np.asarray(numbers, dtype=np.float64), min(STRETCHES, len(numbers)) or 1)
    return [part for part in parts if len(part)]


def _reset_peak_memory() -> None:
    """Forget the peak of jobs that this process ran before, where the system allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def _peak_mib() -> int:
    """The most memory that this process has occupied since :func:`_reset_peak_memory`."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        kib = int(status.split("VmHWM:")[1].split()[0])
    except (OSError, IndexError):
        kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(kib / 2**10)


@functools.cache
def _commit() -> str | None:
    """The commit of the working tree that Augury runs from, if it is one."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
