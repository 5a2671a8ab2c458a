"""Searches for the best value of a benchmark problem: `python benchmarks/best_known.py NAME`.

The problem's noise-free value is optimized by `gp-ei`; what is found goes into the problem's `optimum`.
"""

from __future__ import annotations

import argparse

from augury import Optimizer
from augury.bench.problems import problem as find


def main() -> None:
    """Search, and print every better value."""
    parser = argparse.ArgumentParser(description="Search for the best value of a benchmark problem.")
    parser.add_argument("name")
    parser.add_argument("--budget", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    problem = find(arguments.name, 0)
    optimizer = Optimizer(problem.space, "gp-ei", problem.direction, arguments.seed)
    best = None
    for number in range(arguments.budget):
        trial = optimizer.ask()
        optimizer.tell(trial, problem.value(dict(trial.params)))
        if optimizer.best.value != best:
            best = optimizer.best.value
            print(f"{number + 1}: {best!r} at {dict(optimizer.best.params)}", flush=True)
    print(f"{arguments.name}: {best!r} after {arguments.budget} evaluations; known: {problem.optimum}")


if __name__ == "__main__":
    main()
