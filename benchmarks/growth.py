"""How the time and memory of a suggestion grow with observations, parameters and batch, beside peers.

    python benchmarks/growth.py                 # half an hour; --no-peers for Augury alone
    python benchmarks/growth.py --write-doc     # puts tables and figure into docs/speed.md

Three curves: 50 to 10,000 observations of 10 parameters; 2 to 100 parameters with 100 observations;
batches of 1 to 100 points with 500 observations of 10 parameters. Every point has a process of its own,
and so its memory. Everything is warm: suggestions on other data of the same size do not count; then the
median of three, each on new data. A library that takes more than half a minute is not asked for more.

* augury, gp-ei: `ask()` of the default algorithm, and of that one. "New" is the first suggestion of an
  optimizer that has been told the data (the default elects a model then); "next" is the mean over the
  asks after it, each after a value was told: what a run pays until it elects again, when the data have
  grown by 20 %.
* botorch: SingleTaskGP, `fit_gpytorch_mll`, LogExpectedImprovement (batches: qLogExpectedImprovement,
  one point after the other), `optimize_acqf` with 10 restarts of 512 raw samples.
* optuna-gp, optuna-tpe: `Study.ask()` and `suggest_float`, with the samplers' default settings. A batch
  is as many asks; the sampler sees that others are running.

And a long run of the default: 200 suggestions one after the other, beginning with 100 observations, after
asking once for every buffer length that it will meet; its memory must stay.
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
    Compilations,
    ackley,
    markdown,
    measure_and_show,
    options,
    peak_mib,
    resident_mib,
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
ROUNDS = 3
FOLLOWING, SLOW = 8, 2.0  # asks after the first, unless that took so many seconds
PATIENCE = 30.0  # seconds of a suggestion, after which a library is not asked for more
LIMIT = 900  # seconds of a process
FIRST, SUGGESTIONS = 100, 200  # observations at the beginning of the long run, and its length
FLAT = 0.05  # the change of the resident memory that still counts as none
TITLES = {
    "augury": "Augury",
    "gp-ei": "gp-ei",
    "botorch": "BoTorch",
    "optuna-gp": "Optuna GPSampler",
    "optuna-tpe": "Optuna TPE",
}
LIMITS = {(1000, 10, 1): 1.0, (10_000, 10, 1): 3.0, (500, 10, 100): 10.0}  # seconds of ours, at most
MEMORY = 2048.0  # MiB of ours at 10,000 observations, at most
TIMES = 5.0  # as fast as BoTorch and Optuna's GPSampler at least, with 100 observations of 10 parameters

OURS = ("augury", "gp-ei")

Times = dict[str, float]


def data(size: Size, seed: int) -> tuple[Array, Array]:
    """Uniform points and their values."""
    x = np.random.default_rng(seed).uniform(-HALF_WIDTH, HALF_WIDTH, (size.n, size.dim))
    return x, ackley(x)


def told(size: Size, seed: int, algorithm: str = "auto") -> Any:
    """An optimizer that knows the data."""
    from augury import Float, Optimizer, Space

    space = Space({f"x{i}": Float(-HALF_WIDTH, HALF_WIDTH) for i in range(size.dim)})
    optimizer = Optimizer(space, algorithm, seed=seed)
    for row, value in zip(*data(size, seed), strict=True):
        optimizer.tell(dict(zip(space.names, row.tolist(), strict=True)), float(value))
    return optimizer


def asked(optimizer: Any, batch: int = 1) -> float:
    """Seconds of one ask, after which one of its points is told."""
    started = time.perf_counter()
    trials = optimizer.ask(batch)
    seconds = time.perf_counter() - started
    optimizer.tell(trials[-1], float(ackley(np.array(list(trials[-1].params.values())))))
    return seconds


def ours(algorithm: str) -> Callable[[Size, int], Times]:
    def suggest(size: Size, seed: int) -> Times:
        optimizer = told(size, seed, algorithm)
        new = asked(optimizer, size.batch)
        if size.batch > 1 or new > SLOW:
            return {"new": new}
        return {"new": new, "next": float(np.mean([asked(optimizer) for _ in range(FOLLOWING)]))}

    return suggest


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
    "augury": ours("auto"),
    "gp-ei": ours("gp-ei"),
    "botorch": botorch,
    "optuna-gp": optuna("GPSampler"),
    "optuna-tpe": optuna("TPESampler"),
}


def here(library: str, size: Size) -> dict[str, float]:
    """Medians of some rounds in this process, after others that do not count, and the peak memory."""
    warnings.simplefilter("ignore")
    rounds: list[Times] = []
    before = 2 if library in OURS else 1  # ours compile programs
    for seed in range(before + ROUNDS):
        rounds.append(LIBRARIES[library](size, seed))
        if rounds[-1]["new"] > PATIENCE:
            break
    counted = rounds[before:] or rounds[-1:]
    medians = {part: rounded(float(np.median([one[part] for one in counted]))) for part in counted[0]}
    return {**medians, "peak_mib": rounded(peak_mib())}


def long_run() -> dict[str, Any]:
    """Seconds, memory and compilations of many suggestions in a row, in this process."""
    compilations = Compilations()
    for n in range(FIRST, FIRST + SUGGESTIONS + 32, 32):  # no two buffer lengths lie closer
        optimizer = told(Size(min(n, FIRST + SUGGESTIONS), 10, 1), seed=n)
        for _ in range(4):
            asked(optimizer)
    optimizer = told(Size(FIRST, 10, 1), seed=0)
    compiled, resident, seconds = compilations.count, [resident_mib()], []
    for step in range(1, SUGGESTIONS + 1):
        seconds.append(asked(optimizer))
        if step % (SUGGESTIONS // 10) == 0:
            resident.append(resident_mib())
    return {
        "seconds": rounded(float(np.mean(seconds))),
        "compilations": compilations.count - compiled,
        "resident_mib": [rounded(value) for value in resident],
        "change": rounded(resident[-1] / resident[0] - 1.0),
    }


def apart(python: Path, library: str, size: Size) -> dict[str, float] | None:
    """The same in a process of its own; None where that takes too long."""
    command = [str(python), str(HERE / "growth.py"), "--one", library, *map(str, size)]
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
            for library in LIBRARIES if arguments.peers_too else OURS:
                if (curve, library) in tired:
                    continue
                if (library, size) not in known:
                    python = arguments.python if library in OURS else arguments.peers
                    known[library, size] = apart(python, library, size)
                found = known[library, size]
                if library != "augury" and (found is None or found["new"] > PATIENCE):
                    tired.add((curve, library))
                if found is None:
                    continue
                print(curve, library, *size, found, flush=True)
                curves[curve].append({"library": library, **size._asdict(), **found})
    command = [str(arguments.python), str(HERE / "growth.py"), "--run"]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT)
    return {"cores": os.cpu_count(), "curves": curves, "run": json.loads(run.stdout.splitlines()[-1])}


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
    run = results["run"]
    before, after = run["resident_mib"][0], run["resident_mib"][-1]
    lines.append(
        f"{SUGGESTIONS} suggestions in a row from {FIRST} observations on: "
        f"{1000 * run['seconds']:.0f} ms each, elections among them, {run['compilations']} compilations, "
        f"memory {before:.0f} to {after:.0f} MiB, {100 * run['change']:+.1f} %, at most "
        f"{100 * FLAT:.0f}: {met(abs(run['change']) <= FLAT)}"
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
    from augury.plots.style import BLUE, GREEN, GREY, ORANGE, RED, styled

    colours = {"augury": BLUE, "gp-ei": GREY, "botorch": ORANGE, "optuna-gp": GREEN, "optuna-tpe": RED}
    axes = {"observations": "n", "parameters": "dim", "batch": "batch"}
    panels = [(curve, "new") for curve in axes] + [("observations", "peak_mib")]
    figure = make_subplots(rows=1, cols=len(panels), horizontal_spacing=0.06)
    for column, (curve, key) in enumerate(panels, start=1):
        for library, title in TITLES.items():
            for part, dash in ((key, "solid"), ("next", "dot")):
                if part == "next" and (key != "new" or library != "augury"):
                    continue
                points = [p for p in results["curves"][curve] if p["library"] == library and part in p]
                if not points:
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
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)  # the long run, likewise
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(long_run()))
        return
    if arguments.one:
        library, *numbers = arguments.one
        print(json.dumps(here(library, Size(*map(int, numbers)))))
        return
    measure_and_show("growth", arguments, measure, show)
    if arguments.write_doc:
        draw(
            json.loads((HERE / "results" / "growth.json").read_text(encoding="utf-8")), DOCS / "speed.png"
        )


if __name__ == "__main__":
    main()
