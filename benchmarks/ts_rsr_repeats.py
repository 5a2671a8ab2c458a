"""TS-RSR's columns as the code has them, with four runs from each of the paper's ten starts.

    augury bench run NAME ... --methods ts-rsr --repeats 40 --results results/more
    python benchmarks/ts_rsr_repeats.py

NAME are the ten experiments ts-rsr-table2-* to ts-rsr-table4-* ending in -code. A repeat of the paper is
one run from one start (a problem and its 15 initial points); what TS-RSR draws then is luck. More runs
from the same starts tell its mean more exactly. Of the two GP priors, which have 100 and 50 runs, the
results in results/ are taken.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from augury.bench.experiment_files import find_experiments, read_experiment
from augury.bench.records import current, read_results
from common import markdown

ROOT = Path(__file__).resolve().parent.parent
METHOD = "ts-rsr"


def regrets(name: str, folder: Path) -> np.ndarray:
    """The simple regret at the end of every run."""
    experiment = read_experiment(ROOT / "experiments" / f"{name}.toml")
    records, _ = current(experiment, read_results(folder, name))
    runs = [record for record in records.values() if record["method"] == METHOD]
    return np.array([min(record["values"]) - record["optimum"] for record in runs])


def mean_error(values: np.ndarray) -> str:
    """The mean and its standard error."""
    return f"{values.mean():.3g} ± {values.std(ddof=1) / np.sqrt(len(values)):.1g}"


def main() -> None:
    """Print the table, and in how many columns the mean is within the limit."""
    rows, within = [], np.zeros(2, dtype=int)
    names = [name for name in find_experiments(ROOT / "experiments") if name.endswith("-code")]
    for name in (name for name in names if name.startswith("ts-rsr-table")):
        experiment = read_experiment(ROOT / "experiments" / f"{name}.toml")
        printed, unit = experiment.published[METHOD], experiment.published.get("unit", 1.0)
        error = printed["deviation"] / np.sqrt(experiment.repeats)
        limit = unit * (printed["mean"] + error)
        once = regrets(name, ROOT / "results")
        more = regrets(name, ROOT / "results" / "more") if experiment.starts else once
        reached = [values.mean() <= limit for values in (once, more)]
        within += reached
        rows.append(
            (
                experiment.tasks[0].problem,
                f"{unit * printed['mean']:.3g} ± {unit * error:.1g}",
                mean_error(once),
                f"{mean_error(more)} ({len(more)} runs)",
                "yes" if reached[1] else "no",
            )
        )
    head = ("column", "paper", "a run from each start", "with more runs", "within the paper's + 1 s.e.")
    print(markdown(head, rows))
    print(f"\nWithin the limit: {within[0]} columns of {len(rows)} before, {within[1]} with more runs.")


if __name__ == "__main__":
    main()
