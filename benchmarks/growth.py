"""How time and memory grow with the number of observations, and that a long run keeps its memory.

Every number of observations has a process of its own, which asks once to compile (or to load what an
earlier run compiled) and then times new optimizers with new data of the same size. All of these tune
their hyper-parameters; in a study that happens at every observation up to 127 of them and ever more
rarely then, so the mean over consecutive suggestions is given too.

The long run asks and tells 200 times, beginning with 100 observations, after asking once for every
buffer length that it will meet.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from common import (
    HALF_WIDTH,
    HERE,
    NAMES,
    Compilations,
    ackley,
    markdown,
    measure_and_show,
    observations,
    options,
    parameters,
    peak_mib,
    resident_mib,
    rounded,
)

SIZES = (50, 99, 100, 101, 200, 500, 1000, 2000)
FIRST = 100  # observations at the beginning of the long run
LIMIT = 1800  # seconds after which a part counts as hung
FLAT = 0.05  # the change of the resident memory that still counts as none


def time_size(n: int, rounds: int) -> dict[str, Any]:
    """Median seconds of a suggestion with `n` observations, and the memory of this process."""
    from augury import Algorithm, Float, Optimizer, Space
    from augury.core.data import Data
    from augury.core.keys import KeyArray
    from augury.model import last_tuning
    from augury.surrogates import GaussianProcess
    from augury.surrogates.hyperfit import Tuned

    tuning: list[float] = []

    @dataclass(frozen=True)
    class Timed(GaussianProcess):
        def tune(self, data: Data, *, key: KeyArray) -> Tuned:
            started = time.perf_counter()
            tuned = super().tune(data, key=key)
            tuning.append(time.perf_counter() - started)
            return tuned

    space = Space({name: Float(-HALF_WIDTH, HALF_WIDTH) for name in NAMES})
    seconds: list[float] = []
    parts: list[dict[str, float]] = []
    for seed in range(rounds + 1):
        optimizer = Optimizer(space, Algorithm(Timed(), "ei"), seed=seed, initial=1)
        for row, value in zip(*observations(n, seed), strict=True):
            optimizer.tell(parameters(row), float(value))
        started = time.perf_counter()
        trial = optimizer.ask()
        seconds.append(time.perf_counter() - started)
        parts.append(dict(trial.info["seconds"]))
    total, tune = np.array(seconds[1:]), np.array(tuning[1:])
    ahead = range(n, n + max(1, n // 4))
    tunings = len({last_tuning(m) for m in ahead}) / len(ahead)  # per observation, from here on
    return {
        "n": n,
        "first": rounded(seconds[0]),
        "seconds": rounded(float(np.median(total))),
        "tuning": rounded(float(np.median(tune))),
        "choose": rounded(float(np.median([part["choose"] for part in parts[1:]]))),
        "eta": rounded(float(np.median([part["eta"] for part in parts[1:]]))),
        "mean_in_a_study": rounded(float(np.median(total - (1.0 - tunings) * tune))),
        "resident_mib": rounded(resident_mib()),
        "peak_mib": rounded(peak_mib()),
    }


def time_run(suggestions: int) -> dict[str, Any]:
    """Memory and compilations of many suggestions in a row."""
    from augury import Float, Optimizer, Space

    compilations = Compilations()
    space = Space({name: Float(-HALF_WIDTH, HALF_WIDTH) for name in NAMES})

    def started_with(n: int, seed: int) -> Optimizer:
        optimizer = Optimizer(space, "gp-ei", seed=seed)
        for row, value in zip(*observations(n, seed), strict=True):
            optimizer.tell(parameters(row), float(value))
        return optimizer

    for n in range(FIRST, FIRST + suggestions + 32, 32):  # no two buffer lengths lie closer
        optimizer = started_with(min(n, FIRST + suggestions), seed=n)
        optimizer.tell(optimizer.ask(), 0.0)
        optimizer.ask()
    optimizer = started_with(FIRST, seed=0)
    compiled, resident, seconds = compilations.count, [resident_mib()], []
    for step in range(1, suggestions + 1):
        started = time.perf_counter()
        trial = optimizer.ask()
        seconds.append(time.perf_counter() - started)
        optimizer.tell(trial, float(ackley(np.array([trial.params[name] for name in NAMES]))))
        if step % max(1, suggestions // 10) == 0:
            resident.append(resident_mib())
    return {
        "suggestions": suggestions,
        "first_n": FIRST,
        "seconds": rounded(float(np.median(seconds))),
        "compilations": compilations.count - compiled,
        "resident_mib": [rounded(value) for value in resident],
        "change": rounded(resident[-1] / resident[0] - 1.0),
    }


def apart(*options: str) -> dict[str, Any]:
    """What this script prints when it is run with these options."""
    command = [sys.executable, str(HERE / "growth.py"), *options]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT)
    result: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return result


def table(results: dict[str, Any]) -> str:
    """Milliseconds and MiB by number of observations."""
    head = ("observations", "ms / suggestion", "of it tuning", "choosing", "η", "mean ms in a study",
            "resident MiB", "peak MiB")  # fmt: skip
    rows = [
        [
            str(row["n"]),
            *(f"{1000 * row[key]:.0f}" for key in ("seconds", "tuning", "choose", "eta")),
            f"{1000 * row['mean_in_a_study']:.0f}",
            *(f"{row[key]:.0f}" for key in ("resident_mib", "peak_mib")),
        ]
        for row in results["sizes"]
    ]
    return markdown(head, rows)


def summary(results: dict[str, Any]) -> str:
    """The long run in one paragraph."""
    run = results["run"]
    verdict = "flat" if abs(run["change"]) <= FLAT else "not flat"
    memory = " → ".join(f"{value:.0f}" for value in (run["resident_mib"][0], run["resident_mib"][-1]))
    return (
        f"Medians of {results['rounds']} suggestions on {results['cores']} cores. "
        f"{run['suggestions']} suggestions in a row from {run['first_n']} observations on: "
        f"{1000 * run['seconds']:.0f} ms each, {run['compilations']} compilations, resident memory "
        f"{memory} MiB ({100 * run['change']:+.1f} %, {verdict}: the limit is ±{100 * FLAT:.0f} %)."
    )


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Every size, and the long run, each in a process of its own."""
    rounds = str(arguments.rounds)
    return {
        "rounds": arguments.rounds,
        "cores": os.cpu_count(),
        "sizes": [apart("--size", str(n), "--rounds", rounds) for n in arguments.sizes],
        "run": apart("--run", str(arguments.suggestions)),
    }


def main() -> None:
    """Measure, or show what was measured."""
    parser = options("Time and memory by number of observations.")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=7, help="suggestions per size (default 7)")
    parser.add_argument("--suggestions", type=int, default=200, help="in a row (default 200)")
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)  # one part, in this process
    parser.add_argument("--run", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.size is not None:
        print(json.dumps(time_size(arguments.size, arguments.rounds)))
        return
    if arguments.run is not None:
        print(json.dumps(time_run(arguments.run)))
        return
    measure_and_show("growth", arguments, measure, lambda r: f"{table(r)}\n\n{summary(r)}")


if __name__ == "__main__":
    main()
