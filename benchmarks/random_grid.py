"""The random-grid paper's comparison of solvers, with the paper's model and with Augury's, side by side.

The paper's own GP and solvers are run by random_grid_paper.py. Augury's are those of the experiment
random-grid-synthetic (`augury bench run random-grid-synthetic`): the same six functions, initial designs
and iterations, UCB with β_t = √log(t + 2), the default Gaussian process, and exact gradients:

* uniform: the best of 100·t uniform points;
* default: L-BFGS from the best 8 of 512 points, a quarter of them around the best so far;
* lbfgs, nelder-mead, cg: from 10 uniform points, as in the paper.

Run with `python benchmarks/random_grid.py`, which prints both tables and a sentence per function;
`--write-doc` puts them into docs/random-grid.md.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import random_grid_paper as paper
from augury.bench.records import read_results
from augury.bench.statistics import cumulative_regret, simple_regret
from common import DOCS, markdown, put
from problems import EXPERIMENT, PROBLEMS

PAGE = DOCS / "random-grid.md"
FOLDER = EXPERIMENT.parents[1] / "results"
SOLVERS = ("uniform", "default", "lbfgs", "nelder-mead", "cg")
GRIDS = ("grid", "uniform")  # the names of grid search in the two experiments

Record = dict[str, Any]


def ours(folder: Path) -> list[Record]:
    """The finished runs of Augury's model, as the paper's are recorded."""
    records = []
    for line in read_results(folder, EXPERIMENT.stem):
        name = line["problem"].replace("-", "")
        if line["method"] not in SOLVERS:
            continue
        problem = PROBLEMS[name].problem
        assert problem.optimum is not None
        values = np.array([line["values"]], dtype=np.float64)
        cumulative = cumulative_regret(values, problem.optimum, problem.direction, skip=line["initial"])
        records.append(
            {
                "problem": name,
                "solver": line["method"],
                "seed": line["seed"],
                "cumulative_regret": float(cumulative[0, -1]),
                "simple_regret": float(simple_regret(values, problem.optimum, problem.direction)[0, -1]),
                "suggestion_seconds": float(np.mean(line["seconds"])),
                "mean_eta": line["eta"],
                "accumulated_inaccuracy": line["inaccuracy"],
            }
        )
    return records


def mean_and_error(values: Sequence[float]) -> str:
    """The mean ± its standard error, with the digits that the error leaves."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return f"{mean:.3g}"
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    digits = 0 if error == 0 else max(0, 1 - math.floor(math.log10(error)))
    return f"{mean:.{digits}f} ± {error:.{digits}f}" if digits <= 4 else f"{mean:.2e} ± {error:.0e}"


def table(records: list[Record]) -> str:
    """Means over the repeats, with standard errors of the regrets."""
    head = ("function", "solver", "repeats", "cumulative regret", "simple regret", "ms / suggestion",
            "mean η", "M_T")  # fmt: skip
    rows = []
    for problem in PROBLEMS:
        for solver in SOLVERS:
            chosen = [r for r in records if (r["problem"], r["solver"]) == (problem, solver)]
            if not chosen:
                continue
            rows.append(
                [
                    problem,
                    solver,
                    str(len(chosen)),
                    mean_and_error([r["cumulative_regret"] for r in chosen]),
                    mean_and_error([r["simple_regret"] for r in chosen]),
                    f"{1000 * np.mean([r['suggestion_seconds'] for r in chosen]):.0f}",
                    f"{np.mean([r['mean_eta'] for r in chosen]):.3f}",
                    f"{np.mean([r['accumulated_inaccuracy'] for r in chosen]):.1f}",
                ]
            )
    return markdown(head, rows, left=2)


def compare(records: list[Record], problem: str) -> str | None:
    """Grid search against the best of the other solvers on one function, repeat by repeat."""
    regrets: dict[str, dict[int, float]] = {}
    seconds: dict[str, list[float]] = {}
    for r in records:
        if r["problem"] == problem:
            regrets.setdefault(r["solver"], {})[r["seed"]] = r["cumulative_regret"]
            seconds.setdefault(r["solver"], []).append(r["suggestion_seconds"])
    grid = next((name for name in GRIDS if name in regrets), None)
    others = [name for name in regrets if name != grid]
    if grid is None or not others:
        return None
    best = min(others, key=lambda name: float(np.mean(list(regrets[name].values()))))
    seeds = sorted(regrets[grid].keys() & regrets[best].keys())
    if len(seeds) < 3:
        return None
    ours, theirs = (np.array([regrets[name][seed] for seed in seeds]) for name in (grid, best))
    gap = ours - theirs
    error = float(gap.std(ddof=1)) / math.sqrt(len(seeds))
    if abs(gap.mean()) <= 2 * error:
        verdict = f"not to be told from that of {best}, the best other solver, with {len(seeds)} repeats"
    else:
        sign = "above" if gap.mean() > 0 else "below"
        percent = 100 * abs(gap.mean()) / theirs.mean()
        verdict = f"{percent:.0f} % {sign} that of {best}, the best other solver"
    faster = float(np.nanmean(seconds[best]) / np.nanmean(seconds[grid]))
    return (
        f"the grid's cumulative regret ({mean_and_error(ours.tolist())}) is {verdict} "
        f"({mean_and_error(theirs.tolist())}), whose suggestions take {faster:.1f} times as long"
    )


def sentences(papers: list[Record], own: list[Record]) -> str:
    """One sentence per function."""
    lines = []
    for problem in PROBLEMS:
        found = [
            f"with {setting}, {text}"
            for setting, records in (("the paper's GP and solvers", papers), ("Augury's", own))
            if (text := compare(records, problem)) is not None
        ]
        if found:
            lines.append(f"* **{problem}**: {'; '.join(found)}.")
    return "\n".join(lines)


def show(papers: list[Record], own: list[Record]) -> str:
    """Both tables and what they say."""
    missing = "No repeat has finished; `make bench-grid` runs them."
    return "\n\n".join(
        [
            "### The paper's GP and solvers",
            paper.table(papers) if papers else missing,
            "### Augury's GP and solvers",
            table(own) if own else missing,
            "### Function by function",
            sentences(papers, own) or "There are not enough repeats to compare.",
        ]
    )


def main() -> None:
    """Print the results, and put them into the page if wanted."""
    parser = argparse.ArgumentParser(description="The random-grid comparison, the paper's and Augury's.")
    parser.add_argument("--results", type=Path, default=FOLDER, help="of augury bench run")
    parser.add_argument("--write-doc", action="store_true", help="put them into docs/random-grid.md")
    arguments = parser.parse_args()
    text = show(paper.read(paper.DEFAULT_OUT), ours(arguments.results))
    print(text)
    if arguments.write_doc:
        put(PAGE, "results", text)


if __name__ == "__main__":
    main()
