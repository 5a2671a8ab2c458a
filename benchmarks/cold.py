"""What a newcomer waits for: imports, the command line, the first suggestion, and compilations.

Each time is that of a whole new process, from the start of Python to its end, or of the import alone
where so said. The first suggestion of the default algorithm (100 observations, 10 parameters) is
measured with an empty compilation cache and with the cache that an earlier process has filled, and for
the peers likewise in a second process. Compilations are those of a second study of the same dimension and
algorithm in one process, with another function, other bounds and another seed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from common import HERE, Compilations, markdown, measure_and_show, options, rounded

IMPORT = """
import time
started = time.perf_counter()
{statement}
print(time.perf_counter() - started)
"""
STUDY_BUDGET = 40
FIRST_SUGGESTION_LIMITS = {"augury": 4.0, "augury, empty cache": 15.0}


def count_compilations() -> dict[str, int]:
    """How many programs XLA compiles in a first and in a second study."""
    import augury

    compilations = Compilations()
    counts = []
    for width, power, seed in ((1.0, 2, 0), (3.0, 4, 1)):

        def function(point: dict[str, float], power: int = power) -> float:
            return sum(value**power for value in point.values())

        space = augury.Space({name: augury.Float(-width, 2 * width) for name in "abcde"})
        before = compilations.count
        augury.minimize(function, space, STUDY_BUDGET, seed=seed, progress=False)
        counts.append(compilations.count - before)
    return {"first": counts[0], "second": counts[1]}


def new_process(
    command: list[str], environment: dict[str, str] | None = None, given: str = ""
) -> tuple[float, str]:
    """Seconds of a process from start to end, and what it printed."""
    inherited = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    started = time.perf_counter()
    finished = subprocess.run(
        command,
        input=given,
        env={**inherited, **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return time.perf_counter() - started, finished.stdout


def import_seconds(python: Path, statement: str, repeats: int) -> float:
    """Median seconds of an import statement in new processes, after one that does not count."""
    code = IMPORT.format(statement=statement)
    times = [float(new_process([str(python), "-c", code])[1]) for _ in range(repeats + 1)]
    return rounded(float(np.median(times[1:])))


def process_seconds(command: list[str], repeats: int, **options: Any) -> float:
    """Median seconds of whole processes, after one that does not count."""
    times = [new_process(command, **options)[0] for _ in range(repeats + 1)]
    return rounded(float(np.median(times[1:])))


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything."""
    ours, peers, repeats = arguments.python, arguments.peers, arguments.repeats
    imports = {
        "augury": import_seconds(ours, "import augury", repeats),
        "augury.Optimizer": import_seconds(ours, "import augury; augury.Optimizer", repeats),
        "optuna": import_seconds(peers, "import optuna", repeats),
        "botorch": import_seconds(peers, "import botorch", repeats),
    }
    command_line = process_seconds([str(ours), "-m", "augury", "--help"], repeats)
    script = str(HERE / "one_suggestion.py")
    with tempfile.TemporaryDirectory() as folder:
        cache = {"XDG_CACHE_HOME": folder}
        command = [str(ours), script, "augury-first"]
        empty, _ = new_process(command, cache, "0\n")
        first = {
            "augury, empty cache": rounded(empty),
            "augury": process_seconds(command, repeats, environment=cache, given="0\n"),
        }
        counting = [str(ours), str(HERE / "cold.py"), "--count"]
        compilations = json.loads(new_process(counting, cache)[1].splitlines()[-1])
    for peer in ("optuna", "botorch"):
        first[peer] = process_seconds([str(peers), script, peer], repeats, given="0\n")
    return {
        "repeats": repeats,
        "cores": os.cpu_count(),
        "imports": imports,
        "help": command_line,
        "first_suggestion": first,
        "compilations": compilations,
    }


def table(results: dict[str, Any]) -> str:
    """Seconds of Augury and of its peers."""
    imports, first = results["imports"], results["first_suggestion"]
    rows = [
        ["`import`", imports["augury"], imports["optuna"], imports["botorch"]],
        ["… and `Optimizer`", imports["augury.Optimizer"], None, None],
        ["`augury --help`, whole process", results["help"], None, None],
        ["first suggestion, whole process", first["augury"], first["optuna"], first["botorch"]],
        ["… with an empty compilation cache", first["augury, empty cache"], None, None],
    ]
    cells = [[name, *("–" if v is None else f"{v:.2f}" for v in values)] for name, *values in rows]
    return markdown(("seconds", "Augury", "Optuna", "BoTorch"), cells)


def summary(results: dict[str, Any]) -> str:
    """Targets."""
    first, again = results["first_suggestion"], results["compilations"]["second"]
    warm, empty = (
        f"{'met' if first[which] < limit else 'missed'} (target: under {limit:g} s)"
        for which, limit in FIRST_SUGGESTION_LIMITS.items()
    )
    return (
        f"Medians of {results['repeats']} processes on {results['cores']} cores. The first suggestion "
        f"with a filled cache: {warm}; with an empty one: {empty}. "
        f"A first study of {STUDY_BUDGET} evaluations compiles {results['compilations']['first']} "
        f"programs, a second one {again}: {'met' if again == 0 else 'missed'} (target: 0)."
    )


def main() -> None:
    """Measure, or show what was measured."""
    parser = options("Imports, first suggestion, compilations.", peers=True)
    parser.add_argument("--repeats", type=int, default=5, help="processes per number (default 5)")
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)  # in this process
    arguments = parser.parse_args()
    if arguments.count:
        print(json.dumps(count_compilations()))
        return
    measure_and_show("cold", arguments, measure, lambda r: f"{table(r)}\n\n{summary(r)}")


if __name__ == "__main__":
    main()
