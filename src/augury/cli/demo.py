"""`augury demo`: a real run on the six-dimensional Hartmann function."""

import pathlib
import time
from typing import Any

import numpy as np

from augury._errors import UnsupportedError
from augury.algorithm import resolve
from augury.run import Result, minimize
from augury.space import Float, Space

# Hartmann-6 (Dixon & Szegő, 1978): four Gaussian wells in [0, 1]^6, minimum −3.32237
WEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
A = np.array(
    [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ]
)
P = np.array(
    [
        [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
        [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
        [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
        [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
    ]
)
MINIMUM = -3.32237
FORMATS = (".html", ".png")


def hartmann6(params: dict[str, Any]) -> float:
    """The function that the demo minimizes."""
    x = np.array([params[f"x{i}"] for i in range(1, 7)])
    return float(-WEIGHTS @ np.exp(-(A * (x - P) ** 2).sum(axis=1)))


def demo(budget: int, algorithm: str, seed: int, plot: str) -> None:
    """Run, print and plot; random search runs beside it for comparison."""
    space = Space({f"x{i}": Float(0.0, 1.0) for i in range(1, 7)})
    resolve(algorithm)  # complain before anything is printed
    file = pathlib.Path(plot)
    if not file.parent.is_dir() or file.suffix not in FORMATS:
        raise UnsupportedError(
            f"the plot must be a file in an existing folder, ending in {', '.join(FORMATS)}; "
            f"got {plot!r}. Use --plot augury-demo.html."
        )
    print(f"Minimizing the 6-dimensional Hartmann function with {algorithm}, {budget} evaluations.")
    print("(The first run on a machine compiles for some seconds; later runs start at once.)")
    started = time.perf_counter()
    result = minimize(hartmann6, space, budget, algorithm=algorithm, seed=seed)
    seconds = time.perf_counter() - started
    random = minimize(hartmann6, space, budget, algorithm="random", seed=seed, progress=False)
    _report(result, random, seconds)
    _plot({algorithm: result, "random search": random}, plot)


def _report(result: Result, random: Result, seconds: float) -> None:
    assert result.best is not None
    assert random.best is not None
    suggestions = [t.info["seconds"]["total"] for t in result.trials if "seconds" in t.info]
    print(f"best value    {result.best.value:.5f}  (trial {result.best.number}; minimum {MINIMUM})")
    print(f"random search {random.best.value:.5f}")
    point = ", ".join(f"{name}={value:.4f}" for name, value in result.best.params.items())
    print(f"best point    {point}")
    median = 1e3 * float(np.median(suggestions))
    print(f"time          {seconds:.1f} s, median suggestion {median:.0f} ms")


def _plot(results: dict[str, Result], file: str) -> None:
    try:
        from augury import plots
    except UnsupportedError as error:
        print(f"plot          {error}")
        return
    plots.save(plots.regret(results, MINIMUM), file)
    print(f"plot          {file}")
