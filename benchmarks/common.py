"""What the benchmarks share: test data, memory, result files, tables, and the pages that show them."""

from __future__ import annotations

import argparse
import json
import os
import resource
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
DOCS = HERE.parent / "docs"
SPEED_PAGE = DOCS / "speed.md"

DIMENSION = 10
HALF_WIDTH = 8.192  # of the box on which Ackley is sampled
NAMES = tuple(f"x{i}" for i in range(DIMENSION))


def ackley(points: Array) -> Array:
    """Ackley's function, to be minimized."""
    bowl = -20 * np.exp(-0.2 * np.sqrt(np.mean(points**2, axis=-1)))
    return np.asarray(bowl - np.exp(np.mean(np.cos(2 * np.pi * points), axis=-1)) + 20 + np.e)


def observations(n: int, seed: int) -> tuple[Array, Array]:
    """`n` uniform points and their exact values; another set for every seed."""
    x = np.random.default_rng(seed).uniform(-HALF_WIDTH, HALF_WIDTH, (n, DIMENSION))
    return x, ackley(x)


def parameters(row: Array) -> dict[str, float]:
    """A point as named parameters."""
    return dict(zip(NAMES, row.tolist(), strict=True))


class Compilations:
    """Counts the programs that XLA compiles, or loads from its cache, from now on."""

    def __init__(self) -> None:
        from jax import monitoring  # the peers' environment has no JAX

        self.count = 0
        monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        self.count += event == "/jax/core/compile/backend_compile_duration"


def resident_mib() -> float:
    """The memory that this process occupies now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def peak_mib() -> float:
    """The most that this process has occupied."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def write_results(name: str, results: dict[str, Any]) -> None:
    """Keep the results of one benchmark."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(results, indent=1, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def read_results(name: str) -> dict[str, Any]:
    """What :func:`write_results` kept."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        raise SystemExit(f"there are no results yet: run python benchmarks/{name}.py first")
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return results


def options(description: str, *, peers: bool = False) -> argparse.ArgumentParser:
    """The options that all benchmarks of speed share."""
    parser = argparse.ArgumentParser(description=description)
    if peers:
        python, others = Path(".venv/bin/python"), Path(".venv-peers/bin/python")
        parser.add_argument("--python", type=Path, default=python, help="has Augury")
        parser.add_argument("--peers", type=Path, default=others, help="has BoTorch and Optuna")
    parser.add_argument("--table", action="store_true", help="print the last results and stop")
    parser.add_argument("--write-doc", action="store_true", help="put the results into docs/speed.md")
    return parser


def measure_and_show(
    name: str,
    arguments: argparse.Namespace,
    measure: Callable[[argparse.Namespace], dict[str, Any]],
    show: Callable[[dict[str, Any]], str],
) -> None:
    """Measure, unless the last results are asked for, and print the results or also write them down."""
    if not (arguments.table or arguments.write_doc):
        write_results(name, measure(arguments))
    text = show(read_results(name))
    print(text)
    if arguments.write_doc:
        put(SPEED_PAGE, name, text)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table whose first columns are left-aligned and the others right-aligned."""
    rule = [*["---"] * left, *["--:"] * (len(header) - left)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def put(page: Path, section: str, text: str) -> None:
    """Replace what stands between the two marker comments of a section of a page."""
    begin, end = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"docs/{page.name} must contain {begin} and {end}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def rounded(value: float, digits: int = 4) -> float:
    """The value with so many significant digits."""
    return float(f"{value:.{digits}g}")
