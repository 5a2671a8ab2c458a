"""Asynchronous and synchronous asks in simulated time: 8 workers, evaluations of exponential length.

    python benchmarks/asynchronous.py

The mean evaluation takes 1. Synchronous workers ask for 8 points together and wait for the slowest one;
an asynchronous worker asks for one point as soon as it is free, while 7 others run. Suggestions take no
simulated time, and a value counts from the end of its own evaluation on, whoever waits. Printed is the
mean simple regret over the seeds at several times, and how often the asynchronous run is at least as good
at the end.
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Mapping
from typing import Any

import numpy as np

from augury import Optimizer
from augury.bench.problem import Problem
from augury.bench.problems import problem as find_problem
from common import markdown, rounded, write_results

WORKERS = 8
ALGORITHMS = ("ts-rsr", "gp-ei", "gp-ts", "bucb")
PROBLEMS = ("hartmann-6", "ackley-3", "branin")
TIMES = (3.0, 6.0, 9.0, 12.0)
SEEDS = 8


class Simulation:
    """The regret of every evaluation, and when it ended."""

    def __init__(self, problem: Problem, algorithm: str, seed: int) -> None:
        self.problem = problem
        self.optimizer = Optimizer(problem.space, algorithm, problem.direction, seed=seed, initial=8)
        self.durations = np.random.default_rng([seed, 8])
        self.ended: list[tuple[float, float]] = []

    def regret(self, params: Mapping[str, Any]) -> float:
        assert self.problem.optimum is not None
        return abs(self.problem.value(params) - self.problem.optimum)

    def tell(self, time: float, trial: Any) -> None:
        self.optimizer.tell(trial, self.problem.value(trial.params))
        self.ended.append((time, self.regret(trial.params)))

    def best_at(self, time: float) -> float:
        return min(regret for when, regret in self.ended if when <= time)


def synchronous(simulation: Simulation, until: float) -> None:
    """All workers start together."""
    now = 0.0
    while now < until:
        batch = simulation.optimizer.ask(WORKERS)
        ends = now + simulation.durations.exponential(size=WORKERS)
        for trial, end in zip(batch, ends, strict=True):
            simulation.tell(float(end), trial)
        now = float(ends.max())


def asynchronous(simulation: Simulation, until: float) -> None:
    """A worker that is free asks at once."""
    running: list[tuple[float, int, Any]] = []

    def start(now: float) -> None:
        trial = simulation.optimizer.ask()
        heapq.heappush(running, (now + float(simulation.durations.exponential()), trial.number, trial))

    for _ in range(WORKERS):
        start(0.0)
    while running[0][0] < until:
        now, _, trial = heapq.heappop(running)
        simulation.tell(now, trial)
        start(now)


def main() -> None:
    """Simulate and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    arguments = parser.parse_args()
    rows, results = [], []
    for name in PROBLEMS:
        for algorithm in ALGORITHMS:
            regrets: dict[str, list[list[float]]] = {}
            for mode in (synchronous, asynchronous):
                for seed in range(arguments.seeds):
                    simulation = Simulation(find_problem(name, seed), algorithm, seed)
                    mode(simulation, TIMES[-1])
                    at = [simulation.best_at(time) for time in TIMES]
                    regrets.setdefault(mode.__name__, []).append(at)
            sync, free = (np.array(regrets[mode.__name__]) for mode in (synchronous, asynchronous))
            wins = int((free[:, -1] <= sync[:, -1]).sum())
            results.append({"problem": name, "algorithm": algorithm, **regrets})
            for label, values in (("synchronous", sync), ("asynchronous", free)):
                means = [f"{rounded(v, 3):g}" for v in values.mean(axis=0)]
                won = f"{wins} of {len(free)}" if label == "asynchronous" else ""
                rows.append([name, algorithm, label, *means, won])
            print(" ".join(rows[-2]), "|", " ".join(rows[-1]), flush=True)
    write_results("asynchronous", {"times": TIMES, "workers": WORKERS, "regrets": results})
    head = ("problem", "algorithm", "asks", *(f"at {t:g}" for t in TIMES), "as good at the end")
    print(markdown(head, rows, left=3))


if __name__ == "__main__":
    main()
