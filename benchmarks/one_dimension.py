"""Figures 1 (a-c) of sto-bnts and 1 of be-greedy: how far draws spread from fixed data in one dimension.

The data are nine values, without noise, of a function drawn from a Gaussian process with a
squared-exponential kernel of lengthscale 0.1 (sto-bnts, appendix F.1), with a gap between 0.2 and 0.4 and
nothing beyond 0.8. The papers print neither their data nor their functions. Networks have the settings
of the experiments sto-bnts-synthetic and be-greedy-noiseless, whose γ is 1 by default and up to 5 in its
grid; 3 is taken too. Be-greedy has σ² = 0, so its networks interpolate. Standard deviations are averaged
over the observations, over the points at a distance of 0.01 from them, over the gap and over the outside.
That of neural-ucb is its σ, before it is multiplied by β. Beside: the posterior of the process of the
infinitely wide network, in closed form.

`--out FOLDER` writes one-dimension-sto-bnts.png and one-dimension-be-greedy.png there. The tables are
printed as a Markdown page that shows them.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from augury.bench.paper_settings import parts
from augury.bench.problems import problem
from augury.core.data import Data
from augury.core.keys import fold, root_key
from augury.surrogates import Ensemble
from common import Array, markdown

X = np.array([0.05, 0.1, 0.15, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8])
GRID = np.linspace(0.0, 1.0, 201)
NEAR = 0.01  # from an observation
CLOSE, GAP = f"{NEAR} from data", "gap [0.25, 0.35]"
REGIONS: Mapping[str, Array] = {
    "at data": X,
    CLOSE: np.concatenate([X - NEAR, X + NEAR]),
    GAP: np.linspace(0.25, 0.35, 21),
    "outside [0.9, 1]": np.linspace(0.9, 1.0, 21),
}
DRAWN = 100  # functions in a panel, as in sto-bnts
COUNTS = (10, 30, 100)  # draws, of which the deviation in the gap is told
TOGETHER = 50  # networks that are trained together
FUNCTION = 3  # the seed of the function
PLACES = np.concatenate([GRID, *REGIONS.values()])

STO_BNTS = {
    "width": 64, "depth": 8, "activation": "erf", "weight_std": 1.5, "bias_std": 0.05, "noise": 0.01,
    "inputs": [0, 1], "standardize": False,
}  # fmt: skip
GREEDY = {"noise": 0.0, "depth": 1, "width": 5000, "activation": "tanh"}
NEURAL_UCB = {
    "gamma": 1.0, "depth": 2, "width": 20, "activation": "tanh", "regularization": 1e-3,
}  # fmt: skip
NEURAL_LINEAR = {
    "gamma": 1.0, "depth": 1, "width": 500, "activation": "tanh", "prior_variance": 100.0, "noise": 0.01,
}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A paper's figure: methods with their settings; the process of one of them is shown beside."""

    paper: str
    title: str
    methods: Mapping[str, tuple[str, dict[str, Any]]]  # by label: the name and the settings
    limit: tuple[str, str]  # its label, and that of the method that it is the limit of
    bands: bool  # whether bands are drawn, or single functions


FIGURES = (
    Figure(
        "sto-bnts",
        "Figure 1 (a-c) of sto-bnts: acquisition functions",
        {
            "deep-ensemble": ("deep-ensemble", {**STO_BNTS, "penalty": True}),
            "sto-bnts": ("sto-bnts", STO_BNTS),
            "sto-bnts-linear": ("sto-bnts-linear", STO_BNTS),
        },
        limit=("limit of infinite width", "sto-bnts"),
        bands=False,
    ),
    Figure(
        "be-greedy",
        "Figure 1 of be-greedy: confidence bands",
        {
            "neural-greedy, γ = 1": ("neural-greedy", {**GREEDY, "gamma": 1.0}),
            "neural-greedy, γ = 3": ("neural-greedy", {**GREEDY, "gamma": 3.0}),
            "neural-greedy-posterior, γ = 3": ("neural-greedy-posterior", {**GREEDY, "gamma": 3.0}),
            "neural-ucb": ("neural-ucb", NEURAL_UCB),
            "neural-linear-ts": ("neural-linear-ts", NEURAL_LINEAR),
        },
        limit=("limit of infinite width, γ = 3", "neural-greedy-posterior, γ = 3"),
        bands=True,
    ),
)


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of a method at PLACES, and its draws, if it is known by draws."""

    mean: Array
    deviation: Array
    draws: Array | None = None
    unfinished: int = 0  # trainings that did not converge

    @classmethod
    def of(cls, draws: Array, unfinished: int = 0) -> Spread:
        """The moments of draws, one in each row."""
        return cls(draws.mean(0), draws.std(0, ddof=1), draws, unfinished)

    def regions(self) -> list[float]:
        """The mean deviation in each region."""
        ends = np.cumsum([len(GRID), *map(len, REGIONS.values())])
        return [float(part.mean()) for part in np.split(self.deviation, ends[:-1])[1:]]


def observations() -> tuple[Array, Array]:
    """The values at X and on GRID."""
    function = problem("gp-se-1d", FUNCTION)
    at, on = (np.array([function.value({"x": float(x)}) for x in xs]) for xs in (X, GRID))
    return at, on


def spread(name: str, settings: dict[str, Any], y: Array, count: int) -> Spread:
    """A method's belief after the data: its draws, or its moments where it has them in closed form."""
    members = {"members": count} if name == "deep-ensemble" else {}
    model = parts(name, {**settings, **members})["surrogate"]
    posterior = model.fit(Data.of(X[:, None], y), key=root_key(0)).posterior
    points = PLACES[:, None]
    if isinstance(model, Ensemble):
        return Spread.of(np.asarray(posterior.members(points)))
    if name in ("neural-ucb", "neural-linear-ts"):
        mean, variance = posterior.predict(points)
        return Spread(mean, np.sqrt(variance))
    keys = [fold(root_key(0), i) for i in range(count)]
    blocks = (keys[start : start + TOGETHER] for start in range(0, count, TOGETHER))
    made = [draw for block in blocks for draw in posterior.draws(keys=block)]
    unfinished = sum(not draw.info["training"]["converged"] for draw in made if "training" in draw.info)
    return Spread.of(np.array([draw.path(points) for draw in made]), unfinished)


def limit(figure: Figure, y: Array) -> Spread:
    """The posterior of the infinitely wide network."""
    process = parts(*figure.methods[figure.limit[1]])["surrogate"].process
    posterior = process.fit(Data.of(X[:, None], y), key=root_key(0)).posterior
    mean, variance = posterior.predict(PLACES[:, None])
    return Spread(mean, np.sqrt(np.maximum(variance, 0.0)))


def tables(found: Mapping[str, Spread], count: int) -> str:
    """Deviations by region, and in the gap by the number of draws."""
    near, gap = (list(REGIONS).index(name) for name in (CLOSE, GAP))
    rows = []
    for name, item in found.items():
        values = item.regions()
        rows.append([f"`{name}`", *(f"{v:.3f}" for v in values), f"{values[near] / values[gap]:.2f}"])
    text = markdown(("standard deviation", *REGIONS, "close / gap"), rows)
    by_count = [
        [f"`{name}`", *(f"{Spread.of(item.draws[:n]).regions()[gap]:.3f}" for n in (*COUNTS, count))]
        for name, item in found.items()
        if item.draws is not None
    ]
    head = ("in the gap, by draws", *map(str, (*COUNTS, count)))
    text += f"\n\n{markdown(head, by_count)}"
    for name, item in found.items():
        if item.unfinished:
            text += f"\n\n{item.unfinished} of the {count} networks of `{name}` used up their steps "
            text += "before they converged."
    return text


def draw(figure: Figure, found: Mapping[str, Spread], y: Array, truth: Array, path: Path) -> None:
    """One panel per method."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from PIL import Image

    columns = 2 if len(found) == 4 else 3
    lines = -(-len(found) // columns)
    size = (3.6 * columns, 2.5 * lines)
    page, axes = pyplot.subplots(
        lines, columns, figsize=size, sharex=True, sharey=True, layout="constrained"
    )
    on = slice(len(GRID))
    for panel, (name, item) in zip(axes.flat, found.items(), strict=True):
        panel.axvspan(0.2, 0.4, color="#f3efe2", linewidth=0)
        panel.axvspan(0.8, 1.0, color="#f3efe2", linewidth=0)
        if item.draws is not None and not figure.bands:
            curves = panel.plot(GRID, item.draws[:DRAWN, on].T, color="#1b6ca8", alpha=0.2, linewidth=0.6)
            curves[0].set_label(f"{DRAWN} draws")
        else:
            low, high = (item.mean + sign * 2.0 * item.deviation for sign in (-1.0, 1.0))
            shade = {"color": "#1b6ca8", "alpha": 0.25, "linewidth": 0}
            panel.fill_between(GRID, low[on], high[on], label="± 2 standard deviations", **shade)
            panel.plot(GRID, item.mean[on], color="#1b6ca8", linewidth=1.2, label="mean")
        panel.plot(GRID, truth, color="#555555", linewidth=0.9, linestyle="--", label="function")
        panel.plot(X, y, "*", color="#c1272d", markersize=7, markeredgewidth=0, label="observed")
        panel.set_title(name, fontsize="medium")
    room = 2.2 * np.abs(truth).max()
    axes.flat[0].set(xlim=(0.0, 1.0), ylim=(-room, room))
    entries = {
        label: handle
        for panel in axes.flat
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    legend = page.legend(
        list(entries.values()),
        list(entries),
        loc="outside lower center",
        ncols=len(entries),
        frameon=False,
    )
    for handle in legend.get_lines():
        handle.set(alpha=1.0)
    picture = io.BytesIO()
    page.savefig(picture, dpi=110)
    pyplot.close(page)
    Image.open(picture).convert("RGB").quantize(64).save(path, optimize=True)


def page(out: Path | None, count: int) -> str:
    """Everything, as Markdown."""
    y, truth = observations()
    text = [
        "# Draws in one dimension",
        f"After {len(X)} observations of a function, {count} draws of each method that draws; made by",
        "    python benchmarks/one_dimension.py --out docs/reports > docs/reports/one-dimension.md",
        "whose first lines say what the data and the settings are. Gap and outside are shaded.",
    ]
    for figure in FIGURES:
        found = {label: spread(*method, y, count) for label, method in figure.methods.items()}
        found[figure.limit[0]] = limit(figure, y)
        text.append(f"## {figure.title}")
        if out is not None:
            name = f"one-dimension-{figure.paper}.png"
            draw(figure, found, y, truth, out / name)
            text.append(f"![{figure.title}]({name})")
        text.append(tables(found, count))
    return "\n\n".join(text)


def main() -> None:
    """Print the page, and write the figures beside it."""
    parser = argparse.ArgumentParser(description="Draws in one dimension, as the papers' figures 1.")
    parser.add_argument("--out", type=Path, help="folder for the figures (default: none are drawn)")
    parser.add_argument("--draws", type=int, default=200, help="of each method (default 200)")
    arguments = parser.parse_args()
    if arguments.draws <= max(COUNTS):
        parser.error(f"--draws must be more than {max(COUNTS)}")
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            parser.error("figures need matplotlib: pip install matplotlib, or leave out --out")
    print(page(arguments.out, arguments.draws))


if __name__ == "__main__":
    main()
