"""Seconds of warm suggestions of the neural algorithms, and how they and their memory grow.

    python benchmarks/neural.py               # sto-bnts and sto-bnts-linear
    python benchmarks/neural.py --figure6     # neural-bo from 2000 to 6000 observations, beside a GP

The first suggestion compiles and is not counted; the second is asked for after its value was told, as in
a run. Figure 6 of NeuralBO draws memory against iterations of a run on robot pushing with 14 parameters;
here every number of observations has a process of its own, and a made-up function of 14 parameters.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import numpy as np

from augury import Algorithm, Float, Optimizer, Space
from augury.surrogates import NeuralTangent, NTKProcess
from common import markdown, peak_mib, write_results

ALGORITHMS: dict[str, Any] = {
    "sto-bnts": "sto-bnts",
    "sto-bnts-linear": "sto-bnts-linear",
    "gp-ts": "gp-ts",
    # one hidden layer of 500 units, as in the paper
    "neural-bo": Algorithm(NeuralTangent(NTKProcess(depth=1), width=500), "thompson", name="neural-bo"),
}
# name, observations, parameters, batch, and what must hold
FIGURES = (
    ("sto-bnts", 500, 12, 1, 3.0),
    ("sto-bnts", 500, 12, 16, None),
    ("sto-bnts", 2000, 12, 4, 20.0),
    ("sto-bnts-linear", 2000, 12, 1, 5.0),
)
GROWTH = (2000, 3000, 4000, 5000, 6000)


def measure(name: str, observations: int, dimension: int, batch: int) -> dict[str, float]:
    """Seconds of the second suggestion, and the process's peak memory."""
    rng = np.random.default_rng(0)

    def value(row: np.ndarray) -> float:
        return float(np.sin(3.0 * row).sum() + 5.0 * row[0] * row[1] + 0.05 * rng.standard_normal())

    names = [f"x{i}" for i in range(dimension)]
    space = Space({name: Float(0.0, 1.0) for name in names})
    optimizer = Optimizer(space, ALGORITHMS[name], "maximize", seed=0)
    for row in rng.random((observations - batch, dimension)):
        optimizer.tell(dict(zip(names, row.tolist(), strict=True)), value(row))
    for trial in optimizer.ask(batch):
        optimizer.tell(trial, value(np.array([trial.params[name] for name in names])))
    started = time.perf_counter()
    trials = optimizer.ask(batch)
    seconds = time.perf_counter() - started
    fit = trials[0].info["fit"]
    training = trials[0].info.get("training") or fit.get("training", {"seconds": 0.0, "steps": 0})
    return {
        "seconds": seconds,
        "training": training["seconds"],
        "steps": training["steps"],
        "peak_mib": peak_mib(),
    }


def apart(name: str, observations: int, dimension: int, batch: int) -> dict[str, Any]:
    """The same in a process of its own, whose memory nothing else has touched."""
    arguments = [name, str(observations), str(dimension), str(batch)]
    command = [sys.executable, __file__, "--one", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Print the tables and keep the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure6", action="store_true")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], *map(int, options.one[1:]))))
        return
    wanted: list[tuple[str, int, int, int, float | None]] = list(FIGURES)
    if options.figure6:
        wanted = [(name, n, 14, 1, None) for n in GROWTH for name in ("neural-bo", "gp-ts")]
    results: list[dict[str, Any]] = []
    rows = []
    for name, observations, dimension, batch, limit in wanted:
        found = apart(name, observations, dimension, batch)
        case = {"algorithm": name, "observations": observations, "batch": batch}
        results.append(case | found)
        cells = f"{found['seconds']:.2f}", f"{found['training']:.2f}", f"{found['peak_mib']:.0f}"
        rows.append((name, str(observations), str(batch), *cells, "" if limit is None else f"{limit:g}"))
        print(*rows[-1], flush=True)
    write_results("neural_growth" if options.figure6 else "neural", {"rows": results})
    print(markdown(("algorithm", "n", "batch", "seconds", "training", "peak MiB", "at most"), rows))
    if not options.figure6:
        one, sixteen = results[0]["seconds"], results[1]["seconds"]
        print(f"a batch of 16 takes {sixteen / one:.1f} times as long as one (at most 10)")


if __name__ == "__main__":
    main()
