"""Runs the jobs of an experiment: resumable, in any executor, with paired initial designs.

Every job has a journal, to which each ask and each evaluation is appended as it ends; when the job is
done, one line of results takes its place. Killed at any moment, a job continues after its last
finished evaluation: the method is restored from the journal, and what an evaluation draws is decided
by the seed and the number of the evaluation.
"""

import hashlib
import itertools
import os
import re
import sys
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from augury._errors import DataError, SpaceError
from augury.bench.designs import initial_points
from augury.bench.driver import Asked, Driver, Event
from augury.bench.experiment import Experiment, Job, Task, jobs
from augury.bench.journal import BEGIN_ANEW, Journal, finite
from augury.bench.memory import Meter, baseline
from augury.bench.methods import available, driver
from augury.bench.problem import Problem
from augury.bench.problems import problem as find_problem
from augury.bench.records import Record, check_records, current, make_record, read_results
from augury.bench.wrappers import wrapper
from augury.core.precision import Device
from augury.executors.processes import JobError, Workers

AHEAD = 2  # jobs handed to the executor per worker, running ones included
PATIENCE = 20.0  # seconds for which a job waits for a process that still has its journal open


@dataclass(frozen=True)
class Outcome:
    """How a call of :func:`run_experiment` ended."""

    finished: int  # runs made now
    known: int  # runs that were there before
    unavailable: Mapping[str, str]  # methods that cannot run here, and why
    failed: Mapping[str, str]  # jobs that raised, and what
    others: int = 0  # lines of results made with other settings, which do not count


def run_experiment(
    experiment: Experiment,
    folder: Path,
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: bool | None = None,
    device: Device = "cpu",
) -> Outcome:
    """Run the jobs of the experiment that have no results yet; results go to `folder`/name.jsonl.

    Args:
        experiment: what to run.
        folder: for results and journals.
        executor: where jobs run; None starts spawned processes, which end with this one.
        workers: how many of them; all cores by default.
        progress: True shows a bar, False none; None shows one on a terminal.
        device: where Augury's own methods and TuRBO-1 compute, "cpu" or "gpu".
    """
    unavailable = {
        method.name: reason for method in experiment.methods if (reason := available(method)) is not None
    }
    count = workers or os.cpu_count() or 1
    with ExitStack() as stack:
        # locked from here on: what is finished is read, and stays as it is
        results = stack.enter_context(Journal(folder / f"{experiment.name}.jsonl"))
        shared = [run for name in experiment.shares for run in read_results(folder, name)]
        known, others = current(experiment, [*shared, *check_records(results.path, results.lines)])
        planned = list(jobs(experiment))
        left = [j for j in planned if j.key not in known and j.method.name not in unavailable]
        if executor is None and left:
            executor = stack.enter_context(Workers(min(count, len(left)), fresh=experiment.fresh))
        shown = sys.stderr.isatty() if progress is None else progress
        evaluations = sum(job.task.evaluations for job in left)
        bar = stack.enter_context(
            tqdm(total=evaluations, unit="eval", disable=not shown, smoothing=0.05, desc=experiment.name)
        )
        failed = {} if executor is None else _run_all(left, executor, AHEAD * count, results, bar, device)
    there = sum(job.key in known for job in planned)
    return Outcome(len(left) - len(failed), there, unavailable, failed, others)


def _run_all(
    left: Iterable[Job],
    executor: Executor,
    ahead: int,
    results: Journal,
    bar: "tqdm[Any]",
    device: Device,
) -> dict[str, str]:
    """Run jobs, a few handed over at a time; those that failed, and why."""
    journals = results.path.with_suffix("")
    waiting, seen = iter(left), _Seen(journals)
    running: dict[Future[Record], Job] = {}
    failed: dict[str, str] = {}
    done = 0
    try:
        while True:
            for job in itertools.islice(waiting, ahead - len(running)):
                running[executor.submit(run_job, job, journals, device)] = job
            if not running:
                return failed
            timeout = None if bar.disable else 1.0
            finished, _ = wait(running, timeout=timeout, return_when=FIRST_COMPLETED)
            for future in finished:
                job = running.pop(future)
                done += job.task.evaluations
                try:
                    results.append(future.result())
                    journal_path(job, journals).unlink(missing_ok=True)
                except JobError as error:
                    failed[job.key] = str(error)
                except Exception as error:  # the other jobs go on; its journal stays
                    failed[job.key] = f"{type(error).__name__}: {error}"
            if not bar.disable:
                under_way = sum(seen.evaluations(j) for f, j in running.items() if f.running())
                bar.update(done + under_way - bar.n)
    finally:
        for future in running:
            future.cancel()


class _Seen:
    """Counts the evaluations in growing journals, reading what is new only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, tuple[int, int]] = {}  # how far it was read, and how many it has

    def evaluations(self, job: Job) -> int:
        """Those that an unfinished job has made."""
        path = journal_path(job, self._folder)
        offset, count = self._known.get(path, (0, 0))
        try:
            with path.open("rb") as file:
                file.seek(offset)
                new = file.read()
        except OSError:
            return count
        whole = new[: new.rfind(b"\n") + 1]
        self._known[path] = offset + len(whole), count + whole.count(b'"value":')
        return self._known[path][1]


def journal_path(job: Job, folder: Path) -> Path:
    """Where a job's journal lies; jobs of different keys have different ones, in any file system."""
    readable = re.sub(r"[^\w.+=-]+", "_", job.key)[:80]
    return folder / f"{readable}-{hashlib.sha256(job.key.encode()).hexdigest()[:12]}.journal"


def run_job(job: Job, folder: Path, device: Device = "cpu") -> Record:
    """Run one job, or what is left of it; the line of its results."""
    baseline()
    problem = make_problem(job.task, job.seed)
    meter = Meter()
    path = journal_path(job, folder)
    with Journal(path, patience=PATIENCE, remedy=BEGIN_ANEW) as journal:
        if journal.lines and journal.lines[0].get("digest", job.digest) != job.digest:
            journal.clear()  # of a run with other settings
        if not journal.lines:
            journal.append({"digest": job.digest})
        _check(journal)
        method = driver(job, problem, device)
        try:
            _play(job, problem, method, journal, meter)
            record = make_record(job, problem, journal.lines, meter.peak_mib())
            record["versions"] |= method.versions
            if device != "cpu":
                record["device"] = device
            if problem.observe is not None and record["best"] is not None:
                record["recommended"] = method.recommend()
        finally:
            method.close()
    return record


def make_problem(task: Task, seed: int) -> Problem:
    """The task's problem with its wrappers, drawn for a seed."""
    problem = find_problem(task.problem, seed % task.functions if task.functions else seed)
    for number, spec in enumerate(task.wrap):
        problem = wrapper(spec)(problem, 1000 * (number + 1) + seed)
    return problem


def _play(job: Job, problem: Problem, method: Driver, journal: Journal, meter: Meter) -> None:
    task = job.task
    try:
        _restore(method, journal.lines)
    except (DataError, SpaceError) as error:
        raise _broken(journal, f"{error}") from error
    evaluated = sum("value" in line for line in journal.lines)
    points = initial_points(task, problem, job.design, job.seed)
    for number in range(evaluated, len(points)):
        line = _evaluate(job, problem, number, points[number])
        method.initial(number, points[number], line["value"])
        journal.append({"initial": number, "params": points[number], **line})
    begun = [line for line in journal.lines if "initial" in line]
    if begun and all("error" in line for line in begun):  # the problem is broken, and no method to blame
        journal.clear()
        raise DataError(
            f"the problem {task.label} must be one that can be evaluated here; got an error at each of "
            f"{len(begun)} initial points, the last: {begun[-1]['error']}. Correct what it says."
        )
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
        journal.append({"ask": batch, "seconds": seconds, "peak_mib": meter.peak_mib()})


def _noted(info: Mapping[str, Any]) -> dict[str, Any]:
    """What a journal keeps of a point's diagnostics."""
    return {key: info[key] for key in ("eta", "peak_mib") if key in info}


def _check(journal: Journal) -> None:
    """Refuse a journal that two processes have written to, or somebody has changed."""
    made = 0
    pending: set[Any] = set()
    for number, line in enumerate(journal.lines, start=1):
        try:
            made, good = _follows(line, made, pending, first=number == 1)
        except (AttributeError, KeyError, TypeError):
            good = False
        if not good:
            raise _broken(journal, f"line {number} does not follow from those before it")


def _follows(line: Mapping[str, Any], made: int, pending: set[Any], *, first: bool) -> tuple[int, bool]:
    """How many points there are with this line, and whether it is a right one; updates `pending`."""
    if "ask" in line:
        numbers = [point["number"] for point in line["ask"]]
        pending |= set(numbers)
        good = all(isinstance(point["params"], dict) for point in line["ask"]) and "seconds" in line
        return made + len(numbers), good and numbers == list(range(made, made + len(numbers)))
    valued = "value" in line and isinstance(line["value"], int | float | None)
    if "tell" in line:
        good = valued and line["tell"] in pending
        pending -= {line["tell"]}
        return made, good
    if "initial" in line:
        return made + 1, valued and line["initial"] == made and isinstance(line["params"], dict)
    return made, first and "digest" in line


def _broken(journal: Journal, reason: str) -> DataError:
    return DataError(f"{journal.path} must hold one run in its order; got: {reason}. {BEGIN_ANEW}")


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
    if job.task.noise_free and problem.observe is not None and value is not None:
        line["exact"] = finite(problem.value(params))
    return line
