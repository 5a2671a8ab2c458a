"""The Lunar-Lander runs of sto-bnts beside the authors' results: best seen, and evaluated anew.

    augury bench run sto-bnts-lunar-lander-ours
    augury bench run sto-bnts-lunar-lander-ours-batch
    python benchmarks/lunar_lander.py

The best of noisy observations flatters. Of every run the best observed point and the one that
`recommend()` gives are therefore flown on 100 episodes that no run has seen, the same for all points.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from augury.bench.experiment_files import read_experiment
from augury.bench.problems import lunar
from augury.bench.records import current, read_results
from common import markdown, write_results

ROOT = Path(__file__).resolve().parent.parent
EPISODES = range(2**31, 2**31 + 100)  # beyond the seeds that an evaluation draws
# authors-settings 1.6: the mean best seen, and of B = 1 the mean over 100 new episodes
RUNS = (
    ("sto-bnts-lunar-lander-ours", "sto-bnts", "B = 1, 500 iterations", 277.1, 260.7),
    ("sto-bnts-lunar-lander-ours", "sto-bnts, on a grid", "the same, on a grid", 277.1, 260.7),
    ("sto-bnts-lunar-lander-ours", "sto-bnts, ascents", "the same, ascents", 277.1, 260.7),
    ("sto-bnts-lunar-lander-ours-batch", "sto-bnts", "B = 4, 200 iterations", 278.9, None),
    ("sto-bnts-lunar-lander-ours-batch", "sto-bnts, ascents", "the same, ascents", 278.9, None),
)


def anew(params: dict[str, float]) -> float:
    """The mean reward on the new episodes."""
    return float(np.mean(lunar.rewards([params[f"w{i}"] for i in range(12)], EPISODES)))


def error(values: list[float]) -> float:
    """The standard error of the mean."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def measure(name: str, method: str) -> dict[str, Any]:
    """What the runs of a method have seen, and what it is worth."""
    experiment = read_experiment(ROOT / "experiments" / f"{name}.toml")
    records, _ = current(experiment, read_results(ROOT / "results", name))
    runs = []
    for record in sorted(records.values(), key=lambda r: r["seed"]):
        if record["method"] != method:
            continue
        seen = max(value for value in record["values"] if value is not None)
        best, recommended = anew(record["best"]), anew(record["recommended"])
        runs.append({"seed": record["seed"], "seen": seen, "best": best, "recommended": recommended})
        print(
            f"{name}, {method}, seed {record['seed']}: best seen {seen:.1f}, anew {best:.1f}; "
            f"recommended {recommended:.1f}",
            flush=True,
        )
    columns = {key: [run[key] for run in runs] for key in ("seen", "best", "recommended")}
    means = {key: float(np.mean(values)) for key, values in columns.items()}
    return {"runs": runs, "means": means, "errors": {k: error(v) for k, v in columns.items()}}


def main() -> None:
    """Print the table and keep the numbers."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    results, rows = {}, []
    for name, method, what, published, reevaluated in RUNS:
        found = results[f"{name}: {method}"] = measure(name, method)
        means, errors = found["means"], found["errors"]
        cells = [f"{means[key]:.1f} ± {errors[key]:.1f}" for key in ("seen", "best", "recommended")]
        runs, theirs = str(len(found["runs"])), "" if reevaluated is None else str(reevaluated)
        rows.append((what, runs, str(published), cells[0], theirs, *cells[1:]))
    head = ("task", "runs", "authors: seen", "seen", "authors: anew", "best, anew", "recommended, anew")
    write_results("lunar_lander", results)
    print(markdown(head, rows))


if __name__ == "__main__":
    main()
