"""Where a GPU pays: the same asks on a GPU and on the CPU of the same machine.

The data are values of Ackley's function in 12 dimensions. Four curves:

* networks: a batch of so many points of sto-bnts at 1000 observations. Every draw trains a ReLU network
  with two hidden layers of 256 units to convergence, and its maximum is searched with the random-grid
  maximizer.
* width: the same with 4 networks of wider layers.
* observations: one point of gp-ei, which is exact, of so many observations.
* batch: so many points of the default algorithm at 500 observations.

Every device is asked twice, for the same points by two optimizers that know the same: the difference is
compilation, of which the second has none. Points that have been measured are kept; the others are added.

    python benchmarks/gpu.py [--curves networks …] [--devices gpu cpu] [--again]
    python benchmarks/gpu.py --table
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from typing import Any, NamedTuple

import jax
import numpy as np

from augury import Algorithm, Float, Optimizer, Space
from augury.surrogates import NTKProcess, SampleThenOptimize
from common import RESULTS, ackley, markdown, read_results, write_results

DIMENSION, HALF_WIDTH = 12, 8.192


class Size(NamedTuple):
    """An ask."""

    algorithm: str
    n: int
    batch: int
    width: int = 0


CURVES = {
    "networks": [Size("sto-bnts", 1000, batch, 256) for batch in (256, 64, 16, 4, 1)],
    "width": [Size("sto-bnts", 1000, 4, width) for width in (1024, 4096)],
    "observations": [Size("gp-ei", n, 1) for n in (1000, 4000, 10_000)],
    "batch": [Size("auto", 500, batch) for batch in (1, 100)],
}


def algorithm(size: Size) -> Algorithm | str:
    """What is asked."""
    if size.algorithm != "sto-bnts":
        return size.algorithm
    surrogate = SampleThenOptimize(NTKProcess(depth=2), width=size.width)
    return Algorithm(surrogate, "thompson", "random-grid")


def ask(device: Any, size: Size) -> dict[str, float]:
    """Seconds of a whole ask and of its training, and how the networks ended."""
    space = Space({f"x{i}": Float(0.0, 1.0) for i in range(DIMENSION)})
    optimizer = Optimizer(space, algorithm(size), seed=0, device=device)
    x = np.random.default_rng(0).uniform(size=(size.n, DIMENSION))
    for row, value in zip(x, ackley((2.0 * x - 1.0) * HALF_WIDTH), strict=True):
        optimizer.tell(dict(zip(space.names, row.tolist(), strict=True)), float(value))
    started = time.perf_counter()
    trials = optimizer.ask(size.batch)
    found = {"seconds": time.perf_counter() - started}
    training = [trial.info["training"] for trial in trials if "training" in trial.info]
    if training:
        found["training"] = training[0]["seconds"]
        for name in ("loss", "steps", "converged"):
            found[name] = float(np.mean([one[name] for one in training]))
    return found


def measured(device: Any, size: Size) -> dict[str, Any]:
    """The ask twice, and how much of the first one was compilation."""
    first, second = (ask(device, size) for _ in range(2))
    compiling = 1.0 - second["seconds"] / first["seconds"]
    return {**size._asdict(), "device": device, "first": first, "second": second, "compiling": compiling}


def table(results: dict[str, Any]) -> str:
    """Both devices, their ratios, and how long a GPU's first ask takes."""
    head = ("algorithm", "observations", "points", "width", "GPU, s", "CPU, s", "CPU / GPU", "training")
    rows = []
    for size in (size for sizes in CURVES.values() for size in sorted(sizes)):
        gpu, cpu = (find(results["points"], device, size) for device in ("gpu", "cpu"))
        if gpu is None or cpu is None:
            continue
        one, other = gpu["second"], cpu["second"]
        training = f"{other['training'] / one['training']:.1f}" if "training" in one else ""
        first = f"{gpu['first']['seconds']:.0f} s, {gpu['compiling']:.0%}"
        seconds = (f"{one['seconds']:.2f}", f"{other['seconds']:.2f}")
        ratio = f"{other['seconds'] / one['seconds']:.2g}"
        name = f"`{size.algorithm}`"
        about = (name, str(size.n), str(size.batch), str(size.width or ""))
        rows.append((*about, *seconds, ratio, training, first))
    return markdown((*head, "first on the GPU, of it compilation"), rows)


def find(points: list[dict[str, Any]], device: str, size: Size) -> dict[str, Any] | None:
    """What was measured there."""
    wanted = {**size._asdict(), "device": device}
    return next((p for p in points if wanted.items() <= p.items()), None)


def main() -> None:
    """Measure what is not there yet, keep the numbers, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--curves", nargs="+", choices=list(CURVES), default=list(CURVES))
    parser.add_argument("--devices", nargs="+", default=["gpu", "cpu"])
    parser.add_argument("--again", action="store_true", help="forget what was measured before")
    parser.add_argument("--table", action="store_true", help="print the last results and stop")
    options = parser.parse_args()
    kept = (RESULTS / "gpu.json").exists() and not options.again
    points: list[dict[str, Any]] = read_results("gpu")["points"] if kept else []
    for size in () if options.table else [size for name in options.curves for size in CURVES[name]]:
        for device in options.devices:
            if find(points, device, size) is not None:
                continue
            points.append(measured(device, size))
            print(json.dumps(points[-1]), flush=True)
            names = {name: jax.devices(name)[0].device_kind for name in options.devices}
            machine = {"devices": names, "processor": platform.processor(), "jax": jax.__version__}
            write_results("gpu", {"machine": machine, "points": points})
    print(table(read_results("gpu")))


if __name__ == "__main__":
    main()
