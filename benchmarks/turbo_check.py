"""Repeats the run of BoTorch's tutorial on TuRBO with our TuRBO-1: Ackley in 20 dimensions.

`.venv-peers/bin/python benchmarks/turbo_check.py [--seed 0]`, one thread: OMP_NUM_THREADS=1.

As there: minimize Ackley over [-5, 10]^20, whose minimum 0 lies off the middle of the box, from 2d = 40
Sobol points in batches of 4, until the trust region collapses for the first time. The run that the
tutorial prints (seed 0) had a best value of 8.04 after 120 evaluations, 4.59 after 200, 2.20 after 300,
and collapsed at 396 with 1.15; its qLogEI was at 3.54 then. Ours with
seed 0 had 6.41 after 120, 2.92 after 200, and collapsed at 372 with 0.46.
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

PEERS = Path(__file__).resolve().parents[1] / "src" / "augury" / "bench" / "peers"
DIMENSION, BATCH = 20, 4
INITIAL = 2 * DIMENSION
MOST = 2000  # evaluations, if no restart comes


def ackley(point: Sequence[float]) -> float:
    d = len(point)
    bowl = -20 * math.exp(-0.2 * math.sqrt(sum(x * x for x in point) / d))
    return bowl - math.exp(sum(math.cos(2 * math.pi * x) for x in point) / d) + 20 + math.e


def main() -> None:
    """Print the best value against evaluations."""
    parser = argparse.ArgumentParser(description="TuRBO-1 on Ackley in 20 dimensions.")
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    warnings.simplefilter("ignore")
    sys.path.append(str(PEERS))  # without Augury, which is not in the peers' environment
    child, turbo = importlib.import_module("child"), importlib.import_module("turbo")
    box = {"type": "float", "low": -5.0, "high": 10.0, "log": False, "step": None}
    space = child.Space([{"name": f"x{i}", **box} for i in range(DIMENSION)])
    method = turbo.Turbo(child.Setup(space, seed, past=0, batch=BATCH, evaluations=MOST))
    best, evaluations, started = math.inf, 0, time.perf_counter()
    while method.restarts == 0 and evaluations < MOST:
        for codes, handle in method.ask(BATCH, ()):
            value = ackley(codes)
            best = min(best, value)
            method.tell(codes, handle, value, initial=False)
            evaluations += 1
        if evaluations % INITIAL == 0 or method.restarts:
            state = "collapsed" if method.restarts else f"length {method.region.length:.4f}"
            seconds = time.perf_counter() - started
            print(f"{evaluations:5d} evaluations  best {best:.4f}  {state}  {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
