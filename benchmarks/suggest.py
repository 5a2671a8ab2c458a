"""How long one suggestion takes: Augury, BoTorch and Optuna on the same data, in turns.

100 observations of a function of 10 parameters; fit and acquisition together, one point, warm; of Augury
the mean over a run from one election of a model to the next. Each
library runs in a process of its own (see one_suggestion.py), with its own default settings. In every
round each gets the same new data; the first rounds, in which programs are compiled and caches filled,
do not count. The whole is done twice: on an idle computer, and beside processes that keep all cores
but one busy with matrix products.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from common import HERE, markdown, measure_and_show, options, rounded
from one_suggestion import LIBRARIES

TITLES = {"augury": "Augury", "botorch": "BoTorch", "optuna": "Optuna"}
TARGET = 5.0
BUSY = """
import os
import numpy as np
parent = os.getppid()
a = np.ones((256, 256))
while os.getppid() == parent:
    a @ a
"""


class Worker:
    """A process that times suggestions of one library."""

    def __init__(self, python: Path, library: str, n: int) -> None:
        command = [str(python), str(HERE / "one_suggestion.py"), library, "--n", str(n)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def suggestion(self, seed: int) -> dict[str, Any]:
        """Seconds of one suggestion on the data of that seed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a worker ended; its last words are above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def busy(python: Path, processes: int) -> Iterator[None]:
    """Other processes at work."""
    one_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, **one_thread}
    started = [subprocess.Popen([str(python), "-c", BUSY], env=environment) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def interleaved(workers: dict[str, Worker], rounds: int, first_seed: int) -> dict[str, Any]:
    """The seconds of every round and their parts, by library."""
    answers: dict[str, list[dict[str, Any]]] = {library: [] for library in workers}
    for seed in range(first_seed, first_seed + rounds):
        for library, worker in workers.items():
            answers[library].append(worker.suggestion(seed))
    results: dict[str, Any] = {}
    for library, rows in answers.items():
        seconds = [row["seconds"] for row in rows]
        parts = {
            part: float(np.median([row["parts"][part] for row in rows])) for part in rows[0]["parts"]
        }
        results[library] = {
            "version": rows[0]["version"],
            "median": rounded(float(np.median(seconds))),
            "parts": {part: rounded(value) for part, value in parts.items()},
            "seconds": [rounded(value) for value in seconds],
        }
    return results


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """All rounds, without and with other load."""
    pythons = dict.fromkeys(LIBRARIES, arguments.peers) | {"augury": arguments.python}
    load = arguments.load or max(1, (os.cpu_count() or 2) - 1)
    with ExitStack() as stack:
        workers = {
            library: stack.enter_context(Worker(python, library, arguments.n))
            for library, python in pythons.items()
        }
        interleaved(workers, arguments.warm_up, first_seed=0)
        idle = interleaved(workers, arguments.rounds, first_seed=1_000)
        with busy(arguments.python, load):
            loaded = interleaved(workers, arguments.rounds, first_seed=2_000)
    return {
        "n": arguments.n,
        "rounds": arguments.rounds,
        "cores": os.cpu_count(),
        "busy_processes": load,
        "idle": idle,
        "loaded": loaded,
    }


def table(results: dict[str, Any]) -> str:
    """Median seconds, and how many times Augury's they are."""
    rows = []
    for library, title in TITLES.items():
        cells = [f"{title} {results['idle'][library]['version']}"]
        for condition in ("idle", "loaded"):
            seconds = results[condition][library]["median"]
            ratio = seconds / results[condition]["augury"]["median"]
            cells += [f"{1000 * seconds:.0f}", f"{ratio:.1f}"]
        rows.append(cells)
    head = ("", "ms, idle", "× Augury", "ms, other cores busy", "× Augury")
    return markdown(head, rows)


def summary(results: dict[str, Any]) -> str:
    """What Augury's time is made of, and whether the target is met."""
    ratios = [
        results[condition][peer]["median"] / results[condition]["augury"]["median"]
        for condition in ("idle", "loaded")
        for peer in ("botorch", "optuna")
    ]
    parts = results["idle"]["augury"]["parts"]
    shares = ", ".join(f"{part} {1000 * seconds:.0f} ms" for part, seconds in parts.items())
    verdict = "met" if min(ratios) >= TARGET else "missed"
    return (
        f"Medians of {results['rounds']} rounds, {results['n']} observations of 10 parameters, "
        f"{results['cores']} cores. Augury, idle: {shares}. "
        f"The target, {TARGET:g} times as fast as either peer, is {verdict}: "
        f"the smallest ratio is {min(ratios):.1f}."
    )


def main() -> None:
    """Measure, or show what was measured."""
    parser = options("Seconds per suggestion, beside BoTorch and Optuna.", peers=True)
    parser.add_argument("--n", type=int, default=100, help="observations (default 100)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds that count (default 15)")
    parser.add_argument("--warm-up", type=int, default=3, help="rounds that do not (default 3)")
    parser.add_argument("--load", type=int, help="busy processes (default: all cores but one)")
    measure_and_show("suggest", parser.parse_args(), measure, lambda r: f"{table(r)}\n\n{summary(r)}")


if __name__ == "__main__":
    main()
