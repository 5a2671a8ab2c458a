"""A batch of 256 networks on a GPU and on the CPU of the same machine: one ask of sto-bnts.

The study has 1000 observations of Ackley's function in 12 dimensions; each of the 256 draws trains a
ReLU network with two hidden layers of 256 units to convergence, and its maximum is searched with the
random-grid maximizer. Every device is asked twice, for the same batch by two optimizers that know the
same: the difference is compilation, of which the second has none.

    python benchmarks/gpu.py [--networks 256] [--observations 1000] [--devices gpu cpu]
"""

from __future__ import annotations

import argparse
import platform
import time
from typing import Any

import jax
import numpy as np

from augury import Algorithm, Float, Optimizer, Space
from augury.surrogates import NTKProcess, SampleThenOptimize
from common import ackley, write_results

DIMENSION, HALF_WIDTH = 12, 8.192


def ask(device: Any, networks: int, observations: int) -> dict[str, float]:
    """Seconds of a whole ask and of its training, and how the networks ended."""
    surrogate = SampleThenOptimize(NTKProcess(depth=2), width=256)
    space = Space({f"x{i}": Float(0.0, 1.0) for i in range(DIMENSION)})
    optimizer = Optimizer(space, Algorithm(surrogate, "thompson", "random-grid"), seed=0, device=device)
    x = np.random.default_rng(0).uniform(size=(observations, DIMENSION))
    for row, value in zip(x, ackley((2.0 * x - 1.0) * HALF_WIDTH), strict=True):
        optimizer.tell({f"x{i}": float(v) for i, v in enumerate(row)}, float(value))
    started = time.perf_counter()
    trials = optimizer.ask(networks)
    seconds = time.perf_counter() - started
    training = [trial.info["training"] for trial in trials]
    return {
        "seconds": seconds,
        "training": training[0]["seconds"],
        "loss": float(np.mean([one["loss"] for one in training])),
        "steps": float(np.mean([one["steps"] for one in training])),
        "converged": float(np.mean([one["converged"] for one in training])),
        "fit": sum(trial.info["seconds"]["fit"] for trial in trials),
    }


def main() -> None:
    """Print a table and keep the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=int, default=256)
    parser.add_argument("--observations", type=int, default=1000)
    parser.add_argument("--devices", nargs="+", default=["gpu", "cpu"])
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for device in options.devices:
        first, second = (ask(device, options.networks, options.observations) for _ in range(2))
        compiling = 1.0 - second["seconds"] / first["seconds"]
        results[device] = {"first": first, "second": second, "compiling": compiling}
        print(
            f"{device}: {second['seconds']:.1f} s warm ({second['training']:.1f} s training, mean loss "
            f"{second['loss']:.3f}, {second['steps']:.0f} steps, {second['converged']:.0%} converged); "
            f"{first['seconds']:.1f} s the first time, {compiling:.0%} of it compilation",
            flush=True,
        )
    if len(results) == 2:
        one, other = (results[device]["second"] for device in options.devices)
        whole, training = (other[key] / one[key] for key in ("seconds", "training"))
        print(f"ratio: {whole:.1f} for the whole ask, {training:.1f} for the training")
    names = {device: jax.devices(device)[0].device_kind for device in options.devices}
    machine = {"devices": names, "processor": platform.processor(), "jax": jax.__version__}
    write_results("gpu", {"machine": machine, **vars(options), "results": results})


if __name__ == "__main__":
    main()
