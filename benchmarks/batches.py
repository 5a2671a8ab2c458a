"""Seconds per batch against its size, beside BoTorch's sequential batches of qLogEI.

    python benchmarks/batches.py --peers .venv-peers/bin/python     # without --peers: Augury alone

250 observations of a function of 6 parameters; learning the hyper-parameters and choosing the whole
batch, warm. Every size is measured in turn with the others, three times, on the data of another seed each
time, and the median counts. BoTorch runs in a process of its own, with the defaults of its tutorials
(SingleTaskGP, 10 restarts of 512 raw samples).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from common import Array, markdown, rounded, write_results

OBSERVATIONS, DIMENSION = 250, 6
SIZES = (1, 5, 20, 100)
ALGORITHMS = ("ts-rsr", "qei", "gp-ei", "bucb", "ucb-pe", "gp-ts", "dpp-ts", "sp", "ntk-ts-rsr")
ROUNDS = 3
LIMIT, FASTER = 10.0, 5.0  # seconds for 100 points, and how many times faster than BoTorch
LINEAR = 1.1  # growth from 20 to 100 points per point, with a tenth for the noise of the machine
PEER = "botorch"


def data(seed: int) -> tuple[Array, Array]:
    """Random points and their values, which have a little noise; to be maximized."""
    rng = np.random.default_rng(seed)
    x = rng.random((OBSERVATIONS, DIMENSION))
    return x, np.sin(3.0 * x).sum(1) + 5.0 * x[:, 0] * x[:, 1] + 0.05 * rng.standard_normal(len(x))


def ours(algorithm: str, size: int, seed: int) -> float:
    """Seconds of one ask."""
    from augury import Float, Optimizer, Space

    space = Space({f"x{i}": Float(0.0, 1.0) for i in range(DIMENSION)})
    optimizer = Optimizer(space, algorithm, "maximize", seed=seed)
    for row, value in zip(*data(seed), strict=True):
        optimizer.tell(dict(zip(space.names, row.tolist(), strict=True)), float(value))
    started = time.perf_counter()
    batch = optimizer.ask(size)
    seconds = time.perf_counter() - started
    assert len(batch) == size
    return seconds


def theirs(size: int, seed: int) -> float:
    """Seconds of one sequential batch of BoTorch."""
    import torch
    from botorch.acquisition import qLogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(seed)
    x, y = (torch.tensor(a, dtype=torch.double) for a in data(seed))
    started = time.perf_counter()
    model = SingleTaskGP(x, y[:, None])
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    bounds = torch.tensor([[0.0] * DIMENSION, [1.0] * DIMENSION], dtype=torch.double)
    acquisition = qLogExpectedImprovement(model, best_f=y.max())
    optimize_acqf(acquisition, bounds, q=size, num_restarts=10, raw_samples=512, sequential=True)
    return time.perf_counter() - started


def peer(python: Path, size: int, seed: int) -> float:
    """The same in the peers' environment; importing and a first small batch do not count."""
    command = [str(python), __file__, "--theirs", str(size), str(seed)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(algorithms: list[str], python: Path | None) -> dict[str, dict[int, list[float]]]:
    """Seconds by algorithm and size, a number per round."""
    results: dict[str, dict[int, list[float]]] = {name: {m: [] for m in SIZES} for name in algorithms}
    if python is not None:
        results[PEER] = {m: [] for m in (5, 20)}
    for name in algorithms:
        for size in SIZES:
            ours(name, size, 0)
    for seed in range(1, ROUNDS + 1):
        for name, by_size in results.items():
            for size, seconds in by_size.items():
                if name == PEER:
                    assert python is not None
                    seconds.append(peer(python, size, seed))
                else:
                    seconds.append(ours(name, size, seed))
            print(seed, name, {m: rounded(s[-1], 3) for m, s in by_size.items()}, flush=True)
    return results


def report(results: dict[str, dict[int, list[float]]]) -> None:
    """Print a table, and which limits hold."""
    median = {name: {m: float(np.median(s)) for m, s in by.items()} for name, by in results.items()}
    head = (
        "algorithm",
        *(f"{m} points, s" for m in SIZES),
        "per point: 100 / 20",
        "BoTorch ÷ it: 5",
        "20",
    )
    rows = []
    for name, by_size in median.items():
        cells = [f"{by_size[m]:.2f}" if m in by_size else "" for m in SIZES]
        growth = f"{grown(by_size):.2f}" if 100 in by_size else ""
        times = [f"{median[PEER][m] / by_size[m]:.1f}" if PEER in median else "" for m in (5, 20)]
        rows.append([name, *cells, growth, *times])
    print(markdown(head, rows))
    for name, by_size in median.items():
        if name == PEER:
            continue
        said = [f"100 points in {by_size[100]:.1f} s, limit {LIMIT:g} s: {met(by_size[100] <= LIMIT)}"]
        said.append(f"growth {grown(by_size):.2f} times linear: {met(grown(by_size) <= LINEAR)}")
        for m in (5, 20) if PEER in median else ():
            ratio = median[PEER][m] / by_size[m]
            said.append(
                f"{m} points {ratio:.1f} times as fast, at least {FASTER:g}: {met(ratio >= FASTER)}"
            )
        print(f"{name}: {'; '.join(said)}")


def grown(by_size: dict[int, float]) -> float:
    """Seconds per point of the largest batch, as a multiple of those of 20 points."""
    return by_size[100] / 100 / (by_size[20] / 20)


def met(holds: bool) -> str:
    """In a word."""
    return "met" if holds else "MISSED"


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("algorithms", nargs="*", default=list(ALGORITHMS))
    parser.add_argument("--peers", type=Path, help="the Python that has BoTorch")
    parser.add_argument("--theirs", nargs=2, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.theirs:
        theirs(2, 0)
        sys.stdout.write(str(theirs(*arguments.theirs)))
        return
    results = measure(arguments.algorithms, arguments.peers)
    write_results("batches", {"seconds": results})
    report(results)


if __name__ == "__main__":
    main()
