"""Seconds of warm suggestions of the neural algorithms, and how they and their memory grow.

    python benchmarks/neural.py               # sto-bnts, sto-bnts-linear, and the default on images
    python benchmarks/neural.py --figure6     # neural-bo from 2000 to 6000 observations, beside a GP
    python benchmarks/neural.py --draw        # docs/figure6.png, of what was measured

Seconds are the mean over the asks for the last 16 of n points (with 500 the last 64, four batches of
16; in figure 6 the last), each after the values of those before were told, as in a run: some of them
learn the settings anew. A first study compiles everything and is not counted; "begun" is the first ask
of the second one, which learns the settings and trains from the start, as that of a resumed study does.
In figure 6, "learning" is the last ask of a run up to n that learns the settings, its slowest.

Figure 6 of NeuralBO draws memory against iterations of a run on robot pushing with 14 parameters; here
every number of observations has a process of its own, and a made-up function of 14 parameters.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np

from augury import Algorithm, Float, Optimizer, Pool, Space
from augury.model import last_tuning
from augury.surrogates import NeuralTangent, NTKProcess
from common import DOCS, markdown, peak_mib, read_results, write_results

ALGORITHMS: dict[str, Any] = {
    "images": "auto",
    "sto-bnts": "sto-bnts",
    "sto-bnts-linear": "sto-bnts-linear",
    "gp-ts": "gp-ts",
    # one hidden layer of 500 units, as in the paper
    "neural-bo": Algorithm(NeuralTangent(NTKProcess(depth=1), width=500), "thompson", name="neural-bo"),
}
# name, observations, parameters, batch, and what must hold
FIGURES = (
    ("sto-bnts", 500, 12, 1, 3.0),
    ("sto-bnts", 500, 12, 16, None),
    ("sto-bnts", 2000, 12, 4, 20.0),
    ("sto-bnts-linear", 2000, 12, 1, 5.0),
    ("images", 100, 784, 1, None),
)
IMAGES = 10_000
POINTS = {500: 64}  # that are asked for, by the number of observations; elsewhere
USUAL_POINTS = 16
COLUMNS = ("seconds", "training", "slowest", "begun")
GROWTH_COLUMNS = ("seconds", "training", "learning", "begun")
GROWTH = (2000, 3000, 4000, 5000, 6000)


def box(dimension: int) -> tuple[Space, Iterator[dict[str, Any]], Callable[[Mapping[str, Any]], float]]:
    """Parameters between 0 and 1, random points, and a function with a little noise."""
    rng = np.random.default_rng(0)
    space = Space({f"x{i}": Float(0.0, 1.0) for i in range(dimension)})

    def value(params: Mapping[str, Any]) -> float:
        row = np.array([params[name] for name in space.names])
        return float(np.sin(3.0 * row).sum() + 5.0 * row[0] * row[1] + 0.05 * rng.standard_normal())

    points = (dict(zip(space.names, rng.random(dimension).tolist(), strict=True)) for _ in count())
    return space, points, value


def images() -> tuple[Pool, Iterator[dict[str, Any]], Callable[[Mapping[str, Any]], float]]:
    """Spots in images of 28 × 28, of which the one nearest to a place is sought."""
    rng = np.random.default_rng(0)
    at, grid = rng.uniform(6.0, 22.0, (IMAGES, 2)), np.arange(28.0)
    across = np.exp(-((grid - at[:, :, None]) ** 2) / 8.0)
    pool = Pool(across[:, 0, :, None] * across[:, 1, None, :])
    points = ({"index": int(i)} for i in rng.permutation(IMAGES))
    return pool, points, lambda params: -float(np.sum((at[params["index"]] - 16.0) ** 2))


def known(name: str, observations: int, dimension: int) -> tuple[Optimizer, Callable[..., float]]:
    """A study with so many observations, and its function."""
    space, others, value = images() if name == "images" else box(dimension)
    optimizer = Optimizer(space, ALGORITHMS[name], "maximize", seed=0)
    for params in islice(others, observations):
        optimizer.tell(params, value(params))
    return optimizer, value


def learning(name: str, observations: int, dimension: int) -> dict[str, float]:
    """Seconds of the last ask up to so many observations that learns the settings, warm."""
    seconds = 0.0
    for _ in range(2):
        optimizer, _ = known(name, last_tuning(observations), dimension)
        started = time.perf_counter()
        optimizer.ask()
        seconds = time.perf_counter() - started
    return {"learning": seconds}


def measure(name: str, observations: int, dimension: int, batch: int, points: int) -> dict[str, float]:
    """Mean seconds of the asks for so many points, the slowest, the first, and the peak memory."""
    rounds: list[float] = []
    training: list[float] = []
    for _ in range(2):
        optimizer, value = known(name, observations - points, dimension)
        rounds.clear()
        training.clear()
        for _ in range(1 + points // batch):
            started = time.perf_counter()
            trials = optimizer.ask(batch)
            rounds.append(time.perf_counter() - started)
            info = trials[0].info
            training.append((info.get("training") or info["fit"].get("training", {})).get("seconds", 0.0))
            for trial in trials:
                optimizer.tell(trial, value(trial.params))
    return {
        "seconds": float(np.mean(rounds[1:])),
        "slowest": max(rounds[1:]),
        "training": float(np.mean(training[1:])),
        "begun": rounds[0],
        "peak_mib": peak_mib(),
    }


def apart(name: str, *numbers: int) -> dict[str, Any]:
    """The same in a process of its own, whose memory nothing else has touched."""
    command = [sys.executable, __file__, "--one", name, *map(str, numbers)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Seconds and memory against observations, as in figure 6 of the paper."""
    from plotly import graph_objects as go
    from plotly.subplots import make_subplots

    from augury.plots.files import save
    from augury.plots.style import BLUE, GREY, styled

    panels = (
        ("seconds", "seconds of a suggestion"),
        ("learning", "seconds where it learns"),
        ("peak_mib", "MiB"),
    )
    figure = make_subplots(rows=1, cols=len(panels), horizontal_spacing=0.08)
    for column, (key, title) in enumerate(panels, start=1):
        for name, colour in (("neural-bo", BLUE), ("gp-ts", GREY)):
            points = [row for row in results["rows"] if row["algorithm"] == name]
            x, y = ([row[part] for row in points] for part in ("observations", key))
            line = go.Scatter(
                x=x, y=y, name=name, mode="lines+markers", line={"color": colour}, showlegend=column == 1
            )
            figure.add_trace(line, row=1, col=column)
        figure.update_xaxes(title={"text": "observations"}, row=1, col=column)
        figure.update_yaxes(title={"text": title}, rangemode="tozero", row=1, col=column)
    styled(figure, "14 parameters, 500 units, exact", width=1200, height=400)
    save(figure, path)


def main() -> None:
    """Print the tables and keep the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure6", action="store_true")
    parser.add_argument("--draw", action="store_true", help="the figure of what was measured")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, *numbers = options.one[0], *map(int, options.one[1:])
        print(json.dumps(measure(name, *numbers) if numbers[-1] else learning(name, *numbers[:2])))
        return
    if options.draw:
        draw(read_results("neural_growth"), DOCS / "figure6.png")
        return
    wanted: list[tuple[str, int, int, int, float | None]] = list(FIGURES)
    if options.figure6:
        wanted = [(name, n, 14, 1, None) for n in GROWTH for name in ("neural-bo", "gp-ts")]
    columns = GROWTH_COLUMNS if options.figure6 else COLUMNS
    results: list[dict[str, Any]] = []
    rows = []
    for name, observations, dimension, batch, limit in wanted:
        points = 1 if options.figure6 else POINTS.get(observations, USUAL_POINTS)
        found = apart(name, observations, dimension, batch, points)
        if options.figure6:
            found |= apart(name, observations, dimension, batch, 0)
        case = {"algorithm": name, "observations": observations, "batch": batch}
        results.append(case | found)
        cells = [f"{found[column]:.2f}" for column in columns]
        cells.append(f"{found['peak_mib']:.0f}")
        rows.append((name, str(observations), str(batch), *cells, "" if limit is None else f"{limit:g}"))
        print(*rows[-1], flush=True)
    write_results("neural_growth" if options.figure6 else "neural", {"rows": results})
    print(markdown(("algorithm", "n", "batch", *columns, "peak MiB", "at most"), rows))
    if not options.figure6:
        mean, first = (results[1][column] / results[0][column] for column in ("seconds", "begun"))
        print(f"a batch of 16 takes {mean:.1f} times as long as one (at most 10), begun {first:.1f}")


if __name__ == "__main__":
    main()
