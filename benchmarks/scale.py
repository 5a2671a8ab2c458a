"""How the time and memory of a suggestion grow with observations, parameters and batch, beside peers.

    python benchmarks/scale.py                  # half an hour; --no-peers for Augury alone
    python benchmarks/scale.py --write-doc      # puts tables and figure into docs/speed.md

Three curves: 50 to 10,000 observations of 10 parameters; 2 to 100 parameters with 100 observations;
batches of 1 to 100 points with 500 observations of 10 parameters. Every point has a process of its own,
and so its memory. Everything is warm: suggestions on two other sets of data of the same size do not
count; then the median of three, each on new data. A peer that takes more than a minute is not asked
for more.

* augury: `ask()` of the default algorithm. "New" is the first suggestion of an optimizer that has been
  told the data, which elects a model; "next" is the mean over the asks after it, each after a value was
  told: what a run pays until it elects again, when the data have grown by 15 %.
* botorch: SingleTaskGP, `fit_gpytorch_mll`, LogExpectedImprovement (batches: qLogExpectedImprovement,
  one point after the other), `optimize_acqf` with 10 restarts of 512 raw samples.
* optuna-gp, optuna-tpe: `Study.ask()` and `suggest_float`, with the samplers' default settings. A batch
  is as many asks; the sampler sees that others are running.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from common import (
    DOCS,
    HALF_WIDTH,
    HERE,
    Array,
    ackley,
    markdown,
    measure_and_show,
    options,
    peak_mib,
    rounded,
)


class Size(NamedTuple):
    """Observations, parameters, and points that are asked for."""

    n: int
    dim: int
    batch: int


CURVES = {
    "observations": [Size(n, 10, 1) for n in (50, 100, 200, 500, 1000, 2000, 5000, 10_000)],
    "parameters": [Size(100, dim, 1) for dim in (2, 5, 10, 20, 50, 100)],
    "batch": [Size(500, 10, batch) for batch in (1, 5, 20, 100)],
}
WARM_UP, ROUNDS = 2, 3
FOLLOWING = 8  # asks after the first
PATIENCE = 60.0  # seconds of a suggestion, after which a peer is not asked for more
LIMIT = 900  # seconds of a process
TITLES = {
    "augury": "Augury",
    "botorch": "BoTorch",
    "optuna-gp": "Optuna GPSampler",
    "optuna-tpe": "Optuna TPE",
}
LIMITS = {(1000, 10, 1): 1.0, (10_000, 10, 1): 3.0, (500, 10, 100): 10.0}  # seconds of ours, at most
MEMORY = 2048.0  # MiB of ours at 10,000 observations, at most
TIMES = 5.0  # as fast as BoTorch and Optuna's GPSampler at least, with 100 observations of 10 parameters

Times = dict[str, float]


def data(size: Size, seed: int) -> tuple[Array, Array]:
    """Uniform points and their values."""
    x = np.random.default_rng(seed).uniform(-HALF_WIDTH, HALF_WIDTH, (size.n, size.dim))
    return x, ackley(x)


def augury(size: Size, seed: int) -> Times:
    from augury import Float, Optimizer, Space

    space = Space({f"x{i}": Float(-HALF_WIDTH, HALF_WIDTH) for i in range(size.dim)})
    optimizer = Optimizer(space, seed=seed)
    for row, value in zip(*data(size, seed), strict=True):
        optimizer.tell(dict(zip(space.names, row.tolist(), strict=True)), float(value))
    seconds = []
    for _ in range(1 + (FOLLOWING if size.batch == 1 else 0)):
        started = time.perf_counter()
        trials = optimizer.ask(size.batch)
        seconds.append(time.perf_counter() - started)
        optimizer.tell(trials[-1], float(ackley(np.array(list(trials[-1].params.values())))))
    return {"new": seconds[0], **({"next": float(np.mean(seconds[1:]))} if seconds[1:] else {})}


def botorch(size: Size, seed: int) -> Times:
    import torch
    from botorch.acquisition import LogExpectedImprovement, qLogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize, Standardize
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(seed)
    x, y = data(size, seed)
    box = torch.tensor([[-HALF_WIDTH], [HALF_WIDTH]], dtype=torch.double).repeat(1, size.dim)
    inputs, targets = torch.tensor(x), -torch.tensor(y)[:, None]
    started = time.perf_counter()
    inner = Normalize(size.dim, bounds=box)
    model = SingleTaskGP(inputs, targets, input_transform=inner, outcome_transform=Standardize(1))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    kind = LogExpectedImprovement if size.batch == 1 else qLogExpectedImprovement
    acquisition = kind(model, best_f=targets.max())
    optimize_acqf(acquisition, box, q=size.batch, num_restarts=10, raw_samples=512, sequential=True)
    return {"new": time.perf_counter() - started}


def optuna(sampler: str) -> Callable[[Size, int], Times]:
    def suggest(size: Size, seed: int) -> Times:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(sampler=getattr(optuna.samplers, sampler)(seed=seed))
        names = [f"x{i}" for i in range(size.dim)]
        interval = optuna.distributions.FloatDistribution(-HALF_WIDTH, HALF_WIDTH)
        box: dict[str, optuna.distributions.BaseDistribution] = dict.fromkeys(names, interval)
        for row, value in zip(*data(size, seed), strict=True):
            params = dict(zip(names, row.tolist(), strict=True))
            study.add_trial(
                optuna.trial.create_trial(params=params, distributions=box, value=float(value))
            )
        started = time.perf_counter()
        for _ in range(size.batch):
            trial = study.ask()
            for name in names:
                trial.suggest_float(name, -HALF_WIDTH, HALF_WIDTH)
        return {"new": time.perf_counter() - started}

    return suggest


LIBRARIES: dict[str, Callable[[Size, int], Times]] = {
    "augury": augury,
    "botorch": botorch,
    "optuna-gp": optuna("GPSampler"),
    "optuna-tpe": optuna("TPESampler"),
}


def here(library: str, size: Size) -> dict[str, float]:
    """Medians of some rounds in this process, after others that do not count, and the peak memory."""
    warnings.simplefilter("ignore")
    rounds: list[Times] = []
    for seed in range(WARM_UP + ROUNDS):
        rounds.append(LIBRARIES[library](size, seed))
        if rounds[-1]["new"] > PATIENCE:
            break
    counted = rounds[WARM_UP:] or rounds[-1:]
    medians = {part: rounded(float(np.median([one[part] for one in counted]))) for part in counted[0]}
    return {**medians, "peak_mib": rounded(peak_mib())}


def apart(python: Path, library: str, size: Size) -> dict[str, float] | None:
    """The same in a process of its own; None where that takes too long."""
    command = [str(python), str(HERE / "scale.py"), "--one", library, *map(str, size)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return None
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Every point of every curve, the libraries in turns."""
    known: dict[tuple[str, Size], dict[str, float] | None] = {}
    tired: set[tuple[str, str]] = set()
    curves: dict[str, list[dict[str, Any]]] = {}
    for curve, sizes in CURVES.items():
        curves[curve] = []
        for size in sizes:
            for library in LIBRARIES if arguments.peers_too else ("augury",):
                if (curve, library) in tired:
                    continue
                if (library, size) not in known:
                    python = arguments.python if library == "augury" else arguments.peers
                    known[library, size] = apart(python, library, size)
                found = known[library, size]
                if library != "augury" and (found is None or found["new"] > PATIENCE):
                    tired.add((curve, library))
                if found is None:
                    continue
                print(curve, library, *size, found, flush=True)
                curves[curve].append({"library": library, **size._asdict(), **found})
    return {"cores": os.cpu_count(), "curves": curves}


def table(results: dict[str, Any]) -> str:
    """One table per curve, ours first."""
    texts = []
    for curve, points in results["curves"].items():
        libraries = [name for name in TITLES if any(p["library"] == name for p in points)]
        batches = curve == "batch"
        head = [curve, "Augury: new", *([] if batches else ["next"]), *(TITLES[n] for n in libraries[1:])]
        head += [f"MiB: {TITLES[name]}" for name in libraries]
        rows = []
        for size in CURVES[curve]:
            by = {p["library"]: p for p in points if (p["n"], p["dim"], p["batch"]) == size}
            if "augury" not in by:
                continue
            keys = [("augury", "new"), *([] if batches else [("augury", "next")])]
            keys += [(name, "new") for name in libraries[1:]]
            keys += [(name, "peak_mib") for name in libraries]
            x = {"observations": size.n, "parameters": size.dim, "batch": size.batch}[curve]
            rows.append([str(x), *(cell(by.get(name), key) for name, key in keys)])
        texts.append(markdown(head, rows, left=0))
    return "\n\n".join(texts)


def cell(point: dict[str, float] | None, key: str) -> str:
    """Seconds with two digits, memory as a whole number; nothing where nothing was measured."""
    if point is None or key not in point:
        return ""
    value = point[key]
    return f"{value:.0f}" if key == "peak_mib" or value >= 10 else f"{value:.2g}"


def verdicts(results: dict[str, Any]) -> str:
    """Whether what is asked for holds."""
    points = [point for curve in results["curves"].values() for point in curve]
    by = {(p["library"], p["n"], p["dim"], p["batch"]): p for p in points}
    lines = []
    for size, limit in LIMITS.items():
        ours = by[("augury", *size)]["new"]
        what = f"{size[0]} observations, {size[2]} point{'s' if size[2] > 1 else ''}"
        lines.append(f"{what}: {ours:.2g} s, at most {limit:g}: {met(ours <= limit)}")
    memory = by["augury", 10_000, 10, 1]["peak_mib"]
    lines.append(
        f"memory at 10,000 observations: {memory:.0f} MiB, at most {MEMORY:.0f}: {met(memory <= MEMORY)}"
    )
    ours = by["augury", 100, 10, 1]
    for library in ("botorch", "optuna-gp"):
        if (library, 100, 10, 1) not in by:
            continue
        theirs = by[library, 100, 10, 1]["new"]
        ratios = theirs / ours["next"], theirs / ours["new"]
        lines.append(
            f"100 observations: {TITLES[library]} takes {ratios[0]:.1f} times as long as ours within "
            f"a run, at least {TIMES:g}: {met(ratios[0] >= TIMES)}; {ratios[1]:.1f} times where a model "
            "is elected"
        )
    return "\n".join(f"* {line}" for line in lines)


def met(holds: bool) -> str:
    """In a word."""
    return "met" if holds else "missed"


def draw(results: dict[str, Any], path: Path) -> None:
    """The three curves, and the memory along the first, side by side."""
    from plotly import graph_objects as go
    from plotly.subplots import make_subplots

    from augury.plots.files import save
    from augury.plots.style import BLUE, GREEN, ORANGE, RED, styled

    colours = {"augury": BLUE, "botorch": ORANGE, "optuna-gp": GREEN, "optuna-tpe": RED}
    axes = {"observations": "n", "parameters": "dim", "batch": "batch"}
    panels = [(curve, "new") for curve in axes] + [("observations", "peak_mib")]
    figure = make_subplots(rows=1, cols=len(panels), horizontal_spacing=0.06)
    for column, (curve, key) in enumerate(panels, start=1):
        for library, title in TITLES.items():
            points = [p for p in results["curves"][curve] if p["library"] == library]
            for part, dash in ((key, "solid"), ("next", "dot")):
                if not points or part not in points[0] or (part == "next" and key != "new"):
                    continue
                figure.add_trace(
                    go.Scatter(
                        x=[p[axes[curve]] for p in points],
                        y=[p[part] for p in points],
                        name=f"{title}, within a run" if part == "next" else title,
                        mode="lines+markers",
                        line={"color": colours[library], "dash": dash},
                        showlegend=column == 1,
                    ),
                    row=1,
                    col=column,
                )
        figure.update_xaxes(type="log", title={"text": curve}, row=1, col=column)
        figure.update_yaxes(
            type="log", title={"text": "seconds" if key == "new" else "MiB"}, row=1, col=column
        )
    styled(figure, "Seconds of a suggestion, and memory", width=1500, height=480)
    save(figure, path)


def show(results: dict[str, Any]) -> str:
    """Tables, verdicts, and where the figure is."""
    return f"![Seconds of a suggestion](speed.png)\n\n{table(results)}\n\n{verdicts(results)}"


def main() -> None:
    """Measure, or show what was measured."""
    parser = options("Time and memory by observations, parameters and batch.", peers=True)
    parser.add_argument("--no-peers", dest="peers_too", action="store_false", help="Augury alone")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)  # one point, in this process
    arguments = parser.parse_args()
    if arguments.one:
        library, *numbers = arguments.one
        print(json.dumps(here(library, Size(*map(int, numbers)))))
        return
    measure_and_show("scale", arguments, measure, show)
    if arguments.write_doc:
        draw(
            json.loads((HERE / "results" / "scale.json").read_text(encoding="utf-8")), DOCS / "speed.png"
        )


if __name__ == "__main__":
    main()
