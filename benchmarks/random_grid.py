"""The random-grid paper's experiment with Augury's GP and maximizers.

The same six functions, initial designs and iterations as in random_grid_paper.py (section 5.1 of
"Bayesian Optimization with Inexact Acquisition: Is Random Grid Search Sufficient?"), UCB with
β_t = √log(t + 2) and t from 1, but Augury's default Gaussian process (Matérn 5/2 with one lengthscale per
input, standardized outputs, all hyper-parameters learnt) and its solvers, which use exact gradients:

* random-grid: the best of 100·t uniform points;
* multistart: L-BFGS from the best 8 of 512 points, a quarter of them around the best so far (the
  default);
* multistart-fresh: L-BFGS from 10 uniform points, as in the paper;
* nelder-mead, cg: simplex and conjugate gradients from 10 uniform points, as in the paper;
* gradient: 500 projected Adam steps from 10 uniform points (only when asked for).

All solvers of a repeat share the initial design (scrambled Sobol points); this is checked. Seconds per
suggestion are those of fit and choice; the estimate of the accuracy η has its own. Suggestions during
which a program was compiled are left out of the seconds and of nothing else.

Run with `python benchmarks/random_grid.py --seeds 5`; an interrupted run continues where it stopped.
`--table` prints the results, `--both` the paper's too, `--write-doc` puts both into docs/random-grid.md.
"""

from __future__ import annotations

import argparse
import math
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import random_grid_paper as paper
from augury import Algorithm, Float, Optimizer, Space, Trial
from augury.maximizers import Gradient, Maximizer, MultiStart, NelderMead, RandomGrid
from augury.policies import UCB
from augury.policies.schedules import SqrtLog
from augury.surrogates import GaussianProcess
from common import DOCS, RESULTS, Compilations, markdown, put
from problems import PROBLEMS, Problem
from random_grid_paper import CURVE_SEEDS, keep, read, significant, unfinished

PAGE = DOCS / "random-grid.md"
DEFAULT_OUT = RESULTS / "random_grid.jsonl"
SOLVERS: dict[str, Maximizer] = {
    "random-grid": RandomGrid(c=100.0, a=1.0),
    "multistart": MultiStart(),
    "multistart-fresh": MultiStart(raw=1, starts=10, fresh=True),
    "nelder-mead": NelderMead(starts=10),
    "cg": MultiStart(raw=1, starts=10, fresh=True, method="cg"),
    "gradient": Gradient(),
}
DEFAULT_SOLVERS = [name for name in SOLVERS if name != "gradient"]
GRIDS = ("grid", "random-grid")  # the names of grid search in the two experiments
PARTS = ("fit", "choose", "eta")

Record = dict[str, Any]


def run(problem: Problem, solver: str, seed: int, iterations: int, compilations: Compilations) -> Record:
    """One repeat of the experiment."""
    names = [f"x{i}" for i in range(problem.dimension)]
    bounds = zip(problem.lower.tolist(), problem.upper.tolist(), strict=True)
    optimizer = Optimizer(
        Space({name: Float(low, high) for name, (low, high) in zip(names, bounds, strict=True)}),
        Algorithm(GaussianProcess(), UCB(beta=SqrtLog()), SOLVERS[solver]),
        direction="maximize",
        seed=seed,
        initial=("sobol", problem.initial),
    )

    def evaluate(trial: Trial) -> float:
        value = float(problem.function([trial.params[name] for name in names]))
        optimizer.tell(trial, value)
        return -value

    initial = [optimizer.ask() for _ in range(problem.initial)]
    design = zlib.crc32(np.array([[t.params[name] for name in names] for t in initial]).tobytes())
    initial_regrets = [evaluate(trial) for trial in initial]
    regrets: list[float] = []
    etas: list[float] = []
    seconds: list[list[float]] = []
    started = time.perf_counter()
    for _ in range(iterations):
        compiled = compilations.count
        trial = optimizer.ask()
        if compilations.count == compiled:
            seconds.append([trial.info["seconds"][part] for part in PARTS])
        etas.append(trial.info["eta"])
        regrets.append(evaluate(trial))
    loop_seconds = time.perf_counter() - started
    fit, choose, eta = np.mean(seconds, axis=0) if seconds else np.full(len(PARTS), math.nan)
    record: Record = {
        "problem": problem.name,
        "solver": solver,
        "seed": seed,
        "design": design,
        "iterations": iterations,
        "cumulative_regret": significant(sum(regrets), 8),
        "simple_regret": significant(min(regrets + initial_regrets), 8),
        "initial_regret": significant(min(initial_regrets), 8),
        "loop_seconds": significant(loop_seconds),
        "timed_suggestions": len(seconds),
        "suggestion_seconds": significant(float(fit + choose)),
        "fit_seconds": significant(float(fit)),
        "choose_seconds": significant(float(choose)),
        "eta_seconds": significant(float(eta)),
        "mean_eta": significant(float(np.mean(etas)), 6),
        "accumulated_inaccuracy": significant(optimizer.accumulated_inaccuracy, 6),
    }
    if seed < CURVE_SEEDS:
        record["regret"] = [significant(value) for value in regrets]
        record["eta"] = [round(value, 4) for value in etas]
    return record


def check_design(records: list[Record]) -> None:
    """All solvers must have begun with the same points."""
    designs: dict[tuple[str, int], int] = {}
    for record in records:
        repeat = (record["problem"], record["seed"])
        if designs.setdefault(repeat, record["design"]) != record["design"]:
            raise SystemExit(f"the initial designs of {repeat} differ between solvers")


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
    head = ("function", "solver", "repeats", "cumulative regret", "simple regret", "ms fit",
            "ms choose", "ms η", "mean η", "M_T")  # fmt: skip
    rows = []
    for problem in PROBLEMS:
        for solver in SOLVERS:
            chosen = [r for r in records if (r["problem"], r["solver"]) == (problem, solver)]
            if not chosen:
                continue
            columns = {key: [r[key] for r in chosen] for key in chosen[0] if key.endswith("_seconds")}
            rows.append(
                [
                    problem,
                    solver,
                    str(len(chosen)),
                    mean_and_error([r["cumulative_regret"] for r in chosen]),
                    mean_and_error([r["simple_regret"] for r in chosen]),
                    *(f"{1000 * np.nanmean(columns[f'{part}_seconds']):.0f}" for part in PARTS),
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


def sentences(papers: list[Record], ours: list[Record]) -> str:
    """One sentence per function."""
    lines = []
    for problem in PROBLEMS:
        found = [
            f"with {setting}, {text}"
            for setting, records in (("the paper's GP and solvers", papers), ("Augury's", ours))
            if (text := compare(records, problem)) is not None
        ]
        if found:
            lines.append(f"* **{problem}**: {'; '.join(found)}.")
    return "\n".join(lines)


def show(papers: list[Record], ours: list[Record]) -> str:
    """Both tables and what they say."""
    missing = "No repeat has finished; `make bench-grid` runs them."
    return "\n\n".join(
        [
            "### The paper's GP and solvers",
            paper.table(papers) if papers else missing,
            "### Augury's GP and solvers",
            table(ours) if ours else missing,
            "### Function by function",
            sentences(papers, ours) or "There are not enough repeats to compare.",
        ]
    )


def main() -> None:
    """Run what is not finished yet, or show the results."""
    parser = argparse.ArgumentParser(description="The random-grid experiment with Augury.")
    parser.add_argument("--seeds", type=int, default=5, help="repeats (default 5)")
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--solvers", nargs="+", choices=list(SOLVERS), default=DEFAULT_SOLVERS)
    parser.add_argument("--iterations", type=int, help="fewer than the paper's; use it with --out")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--table", action="store_true", help="print the results and stop")
    parser.add_argument("--both", action="store_true", help="print the paper's results too and stop")
    parser.add_argument("--write-doc", action="store_true", help="put both into docs/random-grid.md")
    arguments = parser.parse_args()

    records = read(arguments.out)
    check_design(records)
    if arguments.table:
        print(table(records))
    if arguments.both or arguments.write_doc:
        text = show(read(paper.DEFAULT_OUT), records)
        print(text)
        if arguments.write_doc:
            put(PAGE, "results", text)
    if arguments.table or arguments.both or arguments.write_doc:
        return
    compilations = Compilations()
    for seed, name, solver in unfinished(arguments, list(records)):
        iterations = arguments.iterations or PROBLEMS[name].iterations
        records.append(run(PROBLEMS[name], solver, seed, iterations, compilations))
        check_design(records)
        keep(arguments.out, records[-1])


if __name__ == "__main__":
    main()
