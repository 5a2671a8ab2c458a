"""Studies: trials per second in one SQLite file, suggestions through the sampler, and large studies.

    python benchmarks/studies.py

Printed are
* trials per second of a function that returns at once, 1,000 of them: `augury.minimize` with `sobol` in
  four worker processes, and in four processes of their own, beside Optuna's QMCSampler in four processes
  of `study.optimize`, all with one SQLite file;
* seconds per suggestion at 500 observations, asked of the core and through Optuna, in turn;
* a study of 10,000 finished trials in an SQLite file: seconds until it is open and has its first
  suggestion, seconds of the next ones, and peak memory, each algorithm in a process of its own.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import optuna

import augury
from augury.studies.spaces import distributions_of
from augury.studies.storages import close_storage, open_storage

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


def throughput() -> None:
    """Print trials per second."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        theirs = together("optuna", folder)
        ours = {"workers": with_workers(folder), "runs": together("augury", folder)}
    print(f"QMCSampler, {PROCESSES} processes of study.optimize: {theirs:.0f} trials per second")
    for kind, rate in ours.items():
        said = f"augury.minimize with sobol, {PROCESSES} {kind}: {rate:.0f}"
        print(f"{said} ({rate / theirs:.2f} times as many)")


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


def suggestions(algorithm: str = "gp-ei", n: int = 500, repeats: int = 20) -> None:
    """Print the seconds of the core and of the sampler."""
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
    core, sampler = (float(np.median(times[2:])) for times in seconds.values())
    times = f"core {core:.3f} s, sampler {sampler:.3f} s"
    print(f"{algorithm} at n = {n}: {times} ({sampler / core:.2f} times)")


def write(path: Path) -> None:
    """A study of many finished trials."""
    storage = open_storage(path)
    told(optuna.create_study(storage=storage, study_name="large"), observed(LARGE))
    close_storage(storage)  # what the log holds is in the file then


def large(algorithm: str, path: Path) -> None:
    """Print how a study of many trials opens and suggests."""
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
    first, *others = seconds
    times = f"open after {opened:.1f} s, first suggestion {first:.1f} s, then {max(others):.1f} s"
    print(f"{algorithm}: {times}; peak {peak:.2f} GiB", flush=True)


def main() -> None:
    """Run all of it, or one algorithm of the last part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--large", nargs="*", help="only these algorithms with 10,000 trials")
    parser.add_argument("--study", type=Path, help="an SQLite file that has them")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if options.study is not None:
        (algorithm,) = options.large
        large(algorithm, options.study)
        return
    if options.large is None:
        throughput()
        suggestions()
    print(f"{LARGE} finished trials:", flush=True)
    with tempfile.TemporaryDirectory() as name:
        whole = Path(name) / "whole.db"
        write(whole)
        for algorithm in options.large or LARGE_ALGORITHMS:
            copy = shutil.copy(whole, Path(name) / f"{algorithm}.db")
            command = [sys.executable, __file__, "--large", algorithm, "--study", str(copy)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
