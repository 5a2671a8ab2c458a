"""What the runner of `augury bench` adds to a run whose evaluations take 0.1 s: the limit is 1 %.

Everything that is neither an evaluation nor a suggestion counts: the journal, the bookkeeping, the line
of results.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from augury.bench import runner
from augury.bench.experiment import Job, Method, Task
from augury.bench.journal import read_lines
from augury.bench.problem import Problem
from augury.bench.problems import problem as find_problem

SECONDS = 0.1
LIMIT = 0.01


def slow(name: str, seed: int = 0) -> Problem:
    """A problem whose evaluations take as long as they should."""
    problem = find_problem(name, seed)

    def value(params: Mapping[str, Any]) -> float:
        time.sleep(SECONDS)
        return problem.value(params)

    return replace(problem, value=value)


def measure(algorithm: str) -> float:
    """The share of a run that is neither evaluation nor suggestion."""
    job = Job(
        "harness", Task("branin", 20, 60), Method(algorithm, {"algorithm": algorithm}, algorithm), 0
    )
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        runner.run_job(job, Path(folder))
        total = time.perf_counter() - started
        lines = list(read_lines(runner.journal_path(job, Path(folder))))
    evaluations = sum(line.get("evaluation", 0.0) for line in lines)
    suggestions = sum(line.get("seconds", 0.0) * len(line.get("ask", ())) for line in lines)
    return (total - evaluations - suggestions) / total


def main() -> None:
    """Measure twice, the second time with everything imported and compiled."""
    for algorithm in ("random", "gp-ei"):
        with patch("augury.bench.runner.find_problem", slow):
            measure(algorithm)
            share = measure(algorithm)
        verdict = "met" if share < LIMIT else "missed"
        print(f"{algorithm}: {100 * share:.2f} % of a run ({verdict}: the limit is {100 * LIMIT:.0f} %)")


if __name__ == "__main__":
    main()
