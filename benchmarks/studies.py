"""Studies: trials per second in one SQLite file, suggestions through the sampler, and large studies.

    python benchmarks/studies.py
    python benchmarks/studies.py --large sto-bnts  # some algorithms of the last part alone

Measured, and kept in `results/studies.json`, are
* trials per second of a function that returns at once, 1,000 of them: `augury.minimize` with `sobol` in
  four worker processes, and in four processes of their own, beside Optuna's QMCSampler in four processes
  of `study.optimize`, all with one SQLite file;
* seconds per suggestion at 500 observations, asked of the core and through Optuna, in turn;
* a study of 10,000 finished trials in an SQLite file: seconds until it is open and has its first
  suggestion, seconds of the next ones, and peak memory, each algorithm in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import optuna

import augury
from augury.studies.spaces import distributions_of
from augury.studies.storages import close_storage, open_storage
from common import markdown, read_results, write_results

SPACE = augury.Space({f"x{i}": augury.Float(0.0, 1.0) for i in range(6)})
DISTRIBUTIONS = distributions_of(SPACE)
TRIALS, PROCESSES = 1000, 4
LARGE = 10_000
LARGE_ALGORITHMS = (
    "gp-ts-rff", "sto-bnts", "sto-bnts-linear", "neural-greedy", "neural-bo", "neural-ucb", "dngo",
)  # fmt: skip


def value(params: dict[str, float]) -> float:
    """A function that returns at once."""
    return sum((x - 0.3) ** 2 for x in params.values())


def objective(trial: optuna.Trial) -> float:
    """The same for Optuna."""
    return value({name: trial.suggest_float(name, 0.0, 1.0) for name in DISTRIBUTIONS})


# ---------------------------------------------------------------- throughput


def one_process(kind: str, url: str, trials: int) -> None:
    """What each of several processes does."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if kind == "augury":
        augury.minimize(value, SPACE, trials, algorithm="sobol", seed=0, storage=url)
        return
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    sampler = optuna.samplers.QMCSampler(seed=0, warn_independent_sampling=False)
    study = optuna.create_study(storage=url, study_name="optuna", sampler=sampler, load_if_exists=True)
    stop = optuna.study.MaxTrialsCallback(trials, states=(optuna.trial.TrialState.COMPLETE,))
    study.optimize(objective, callbacks=[stop])


def together(kind: str, folder: Path) -> float:
    """Trials per second of several processes, imports not counted."""
    url = f"sqlite:///{folder / kind}.db"
    if kind == "optuna":  # several processes that create the tables at once fail
        optuna.create_study(storage=url, study_name=kind)
    ready = "print('ready', flush=True); input()"
    code = f"import studies; {ready}; studies.one_process({kind!r}, {url!r}, {TRIALS})"
    command, here = [sys.executable, "-c", code], str(Path(__file__).parent)
    children = [
        subprocess.Popen(command, cwd=here, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    started = time.perf_counter()
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.close()
    for child in children:
        if child.wait() != 0:
            raise SystemExit(f"a process of {kind} failed")
    seconds = time.perf_counter() - started
    (summary,) = optuna.get_all_study_summaries(url)
    return summary.n_trials / seconds


def with_workers(folder: Path) -> float:
    """Trials per second of one run with several workers."""
    started = time.perf_counter()
    url = f"sqlite:///{folder / 'workers'}.db"
    augury.minimize(value, SPACE, TRIALS, algorithm="sobol", seed=0, storage=url, workers=PROCESSES)
    return TRIALS / (time.perf_counter() - started)


def throughput() -> dict[str, float]:
    """Trials per second: Optuna's, and ours with workers and in several runs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        optunas = together("optuna", folder)
        return {"optuna": optunas, "workers": with_workers(folder), "runs": together("augury", folder)}


# ---------------------------------------------------------------- suggestions


def observed(n: int) -> list[tuple[dict[str, float], float]]:
    """Random points and their values."""
    points = np.random.default_rng(0).random((n, len(DISTRIBUTIONS)))
    named = [dict(zip(DISTRIBUTIONS, row.tolist(), strict=True)) for row in points]
    return [(point, value(point)) for point in named]


def told(study: optuna.Study, known: list[tuple[dict[str, float], float]]) -> None:
    """Add finished trials."""
    make = optuna.create_trial
    study.add_trials([make(params=p, distributions=DISTRIBUTIONS, value=y) for p, y in known])


def suggestions(algorithm: str = "gp-ei", n: int = 500, repeats: int = 20) -> dict[str, float]:
    """The seconds of the core and of the sampler."""
    optimizer = augury.Optimizer(SPACE, algorithm, seed=0)
    study = optuna.create_study(sampler=augury.AugurySampler(algorithm, seed=0, space=SPACE))
    known = observed(n)
    for point, y in known:
        optimizer.tell(point, y)
    told(study, known)
    seconds: dict[str, list[float]] = {"core": [], "sampler": []}
    for _ in range(repeats):
        started = time.perf_counter()
        own = optimizer.ask()
        seconds["core"].append(time.perf_counter() - started)
        started = time.perf_counter()
        trial = study.ask(DISTRIBUTIONS)
        seconds["sampler"].append(time.perf_counter() - started)
        optimizer.tell(own, value(dict(own.params)))
        study.tell(trial, value(trial.params))
    return {kind: float(np.median(times[2:])) for kind, times in seconds.items()}


def write(path: Path) -> None:
    """A study of many finished trials."""
    storage = open_storage(path)
    told(optuna.create_study(storage=storage, study_name="large"), observed(LARGE))
    close_storage(storage)  # what the log holds is in the file then


def large(algorithm: str, path: Path) -> dict[str, float]:
    """How a study of many trials opens and suggests."""
    started = time.perf_counter()
    sampler = augury.AugurySampler(algorithm, seed=0)
    study = optuna.load_study(storage=open_storage(path), study_name="large", sampler=sampler)
    study.get_trials(deepcopy=False)
    opened, seconds = time.perf_counter() - started, []
    for _ in range(3):
        started = time.perf_counter()
        trial = study.ask(DISTRIBUTIONS)
        seconds.append(time.perf_counter() - started)
        study.tell(trial, value(trial.params))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"open": opened, "first": seconds[0], "next": max(seconds[1:]), "peak_gib": peak}


def table(results: dict[str, Any]) -> str:
    """What was measured, as the page on studies has it."""
    rates, times = results["throughput"], results["suggestions"]
    rows = [("QMCSampler, 4 processes of `study.optimize`", f"{rates['optuna']:.0f}", "1")]
    for kind in ("workers", "runs"):
        name = f"`augury.minimize`, `sobol`, 4 {kind}"
        rows.append((name, f"{rates[kind]:.0f}", f"{rates[kind] / rates['optuna']:.2f}"))
    text = markdown(("1,000 trials in one SQLite file", "trials a second", "times"), rows) + "\n\n"
    core, sampler = times["core"], times["sampler"]
    text += f"A suggestion of `gp-ei` at 500 observations: {1e3 * core:.0f} ms of the core, "
    text += f"{1e3 * sampler:.0f} ms through the sampler ({sampler / core:.2f} times).\n\n"
    large = [
        (
            f"`{name}`",
            *(f"{found[key]:.1f}" for key in ("open", "first", "next")),
            f"{found['peak_gib']:.2f}",
        )
        for name, found in results["large"].items()
    ]
    head = ("10,000 finished trials", "open, s", "first suggestion, s", "next ones, s", "peak GiB")
    return text + markdown(head, large)


def main() -> None:
    """Run all of it, or one algorithm of the last part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--large", nargs="*", help="only these algorithms with 10,000 trials")
    parser.add_argument("--study", type=Path, help="an SQLite file that has them")
    parser.add_argument("--table", action="store_true", help="print the last results again")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if options.table:
        print(table(read_results("studies")))
        return
    if options.study is not None:
        (algorithm,) = options.large
        print(json.dumps(large(algorithm, options.study)))
        return
    if options.large is None:
        results: dict[str, Any] = {"throughput": throughput(), "suggestions": suggestions(), "large": {}}
    else:
        results = read_results("studies")
    with tempfile.TemporaryDirectory() as name:
        whole = Path(name) / "whole.db"
        write(whole)
        for algorithm in options.large or LARGE_ALGORITHMS:
            copy = shutil.copy(whole, Path(name) / f"{algorithm}.db")
            command = [sys.executable, __file__, "--large", algorithm, "--study", str(copy)]
            said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            results["large"][algorithm] = json.loads(said)
            write_results("studies", results)
            print(f"{algorithm}: {said.strip()}", flush=True)
    print(table(results))


if __name__ == "__main__":
    main()
