"""What the model believes, along one parameter or over two."""

import html
from collections.abc import Mapping
from typing import Any

from plotly import graph_objects as go
from plotly.subplots import make_subplots

from augury._errors import DataError, UnsupportedError
from augury.plots.axes import Axis, space_of
from augury.plots.cut import Cut
from augury.plots.source import Modelled, Run, Source
from augury.plots.style import (
    BAND,
    BLUE,
    DARK,
    FAILED,
    GREY,
    STAR,
    described,
    hover,
    hovering,
    number,
    styled,
)
from augury.trial import State, Trial

POINTS, SIDE = 201, 48  # of a line, and of a side of a square
TITLE_PARAMETERS = 5  # that a title names


def belief(
    source: Source,
    x: str | None = None,
    y: str | None = None,
    *,
    at: Mapping[str, Any] | None = None,
    draws: int = 3,
) -> go.Figure:
    """The model's mean ± 2 standard deviations of the function, the data, and the next point.

    With `x` alone, a line, with functions that were drawn from the posterior; with `y` too, mean and
    standard deviation over both. The other parameters are fixed at the best point. Observations and the
    next point are projected onto the slice; open circles lie off it. Failed evaluations are where the
    model takes them to be, at the worst value. Nothing about the source changes.

    Args:
        source: a run.
        x: the parameter of the axis; it may be left out where there is only one.
        y: a second one.
        at: where the slice is: values of other parameters than those of the best point.
        draws: how many functions are drawn, if the model can and there is no `y`.
    """
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 0:
        raise UnsupportedError(
            f"draws must be a whole number of at least 0; got {draws!r}. Use 0 for none."
        )
    modelled = Modelled.of(source, "belief")
    names = (_only_parameter(modelled) if x is None else x,) if y is None else (x, y)
    if len(set(names)) < len(names) or None in names:
        raise DataError(
            f"x and y must be two parameters; got {x!r} and {y!r}. Leave y out, or change it."
        )
    axes = [Axis.of(modelled, str(name), POINTS if y is None else SIDE) for name in names]
    cut = Cut.of(modelled, axes, Run.of(source), at or {})
    figure = _line(cut, axes[0], draws) if y is None else _plane(cut, axes[0], axes[1])
    fixed = {name: value for name, value in modelled.outside(cut.point).items() if name not in names}
    where = f", at {described(fixed, TITLE_PARAMETERS)}" if fixed else ""
    legend = {} if y is None else {"legend_y": 1.08, "margin_t": 150}  # panels have titles of their own
    return styled(
        figure, f"Belief after {len(cut.seen)} evaluations", f"{modelled.name}{where}", **legend
    )


def _line(cut: Cut, axis: Axis, draws: int) -> go.Figure:
    figure = go.Figure()
    rows, xs = cut.rows(), axis.shown(axis.values)
    mean, std = cut.predict(rows)
    if axis.labels is not None:
        bars = {"array": 2.0 * std, "color": BLUE, "thickness": 2, "width": 12}
        figure.add_scatter(
            x=xs, y=mean, mode="markers", error_y=bars, name="mean ± 2 std",
            marker={"symbol": "line-ew", "size": 24, "line": {"color": BLUE, "width": 3}},
            hovertemplate="%{x}: %{y:.5g}<extra>mean</extra>",
        )  # fmt: skip
    else:
        mode = "lines+markers" if axis.discrete and len(xs) <= 40 else "lines"
        low, high = mean - 2.0 * std, mean + 2.0 * std
        figure.add_scatter(
            x=[*xs, *xs[::-1]], y=[*high, *low[::-1]], mode="lines", fill="toself", fillcolor=BAND,
            line={"width": 0, "simplify": False}, name="± 2 std", hoverinfo="skip",
        )  # fmt: skip
        figure.add_scatter(
            x=xs, y=mean, mode=mode, line={"color": BLUE, "width": 2.5, "simplify": False},
            marker={"size": 5}, name="mean", customdata=2.0 * std,
            hovertemplate="%{x:.5g}: %{y:.5g} ± %{customdata:.3g}<extra>mean</extra>",
        )  # fmt: skip
    for i, drawn in enumerate(cut.drawn(rows, draws)):
        figure.add_scatter(
            x=xs, y=drawn, mode="lines" if axis.labels is None else "markers", name="drawn functions",
            legendgroup="draws", showlegend=i == 0, hoverinfo="skip", opacity=0.7,
            line={"color": GREY, "width": 1, "dash": "dot", "simplify": False},
            marker={"color": GREY, "symbol": "circle-open", "size": 6},
        )  # fmt: skip
    _add_observed(figure, cut)
    _add_expected(figure, cut)
    figure.update_xaxes(**axis.layout())
    return figure.update_yaxes(title_text="value")


def _kinds(cut: Cut) -> dict[str, tuple[dict[str, Any], list[int]]]:
    """The trials that the model was fitted to: for each kind, its marker and which of them it has."""
    kinds = {
        "observed": {"color": DARK, "size": 8},
        "observed off the slice": {"color": DARK, "size": 7, "symbol": "circle-open", "opacity": 0.6},
        "failed": FAILED,
    }
    observed, off, failed = kinds
    which = [
        failed if trial.state is not State.COMPLETE else observed if cut.on_it(trial) else off
        for trial in cut.seen
    ]
    places = {name: [i for i, kind in enumerate(which) if kind == name] for name in kinds}
    return {name: (marker, places[name]) for name, marker in kinds.items() if places[name]}


def _add_observed(figure: go.Figure, cut: Cut) -> None:
    for name, (marker, which) in _kinds(cut).items():
        trials = [cut.seen[i] for i in which]
        figure.add_scatter(
            x=cut.places(trials)[0], y=[cut.values[i] for i in which], mode="markers",
            marker=marker, name=name, **hovering(trials),
        )  # fmt: skip


def _add_expected(figure: go.Figure, cut: Cut) -> None:
    """The points without a value, at the mean that the model predicts for them."""
    pending = {"symbol": "diamond-open", "size": 9, "color": GREY}
    for name, trials, marker in (
        ("being evaluated", cut.waiting, pending),
        ("next point", cut.coming, STAR),
    ):
        if trials:
            mean, std = cut.predict(cut.encoded([cut.inside[trial.number] for trial in trials]))
            figure.add_scatter(
                x=cut.places(trials)[0], y=mean, mode="markers", marker=marker, name=name,
                error_y={"array": 2.0 * std, "color": marker["color"], "thickness": 1.5, "width": 4},
                hovertext=[_expected(*one) for one in zip(trials, mean, std, strict=True)],
                hoverinfo="text",
            )  # fmt: skip


def _plane(cut: Cut, x: Axis, y: Axis) -> go.Figure:
    figure = make_subplots(
        cols=2,
        subplot_titles=("mean", "standard deviation"),
        shared_xaxes="all",
        shared_yaxes="all",
        horizontal_spacing=0.16,
    )
    shape = len(x.values), len(y.values)
    mean, std = (part.reshape(shape).T for part in cut.predict(cut.rows()))
    best_is_bright = cut.modelled.optimizer.direction == "minimize"
    for column, (name, z, colours) in enumerate((("mean", mean, "Viridis"), ("std", std, "Blues")), 1):
        figure.add_heatmap(
            x=x.shown(x.values), y=y.shown(y.values), z=z, row=1, col=column, colorscale=colours,
            reversescale=best_is_bright and column == 1,
            colorbar={"x": 0.43 if column == 1 else 1.01, "thickness": 12, "outlinewidth": 0},
            hovertemplate=f"{html.escape(x.name)} %{{x}}<br>{html.escape(y.name)} %{{y}}<br>"
            f"{name} %{{z:.5g}}<extra></extra>",
        )  # fmt: skip
        _add_places(figure, cut, column)
    figure.update_xaxes(**x.layout(cells=True))
    figure.update_yaxes(**y.layout(cells=True))
    figure.update_yaxes(title_text="", col=2)
    return figure


def _add_places(figure: go.Figure, cut: Cut, column: int) -> None:
    edge = {"line": {"color": "white", "width": 1}}
    groups = {name: (marker, [cut.seen[i] for i in i_s]) for name, (marker, i_s) in _kinds(cut).items()}
    groups["being evaluated"] = ({"symbol": "diamond", "size": 9, "color": GREY}, cut.waiting)
    groups["next point"] = (STAR, cut.coming)
    for name, (marker, trials) in groups.items():
        if trials:
            xs, ys = cut.places(trials)
            figure.add_scatter(
                x=xs, y=ys, mode="markers", marker=edge | marker, name=name, legendgroup=name,
                showlegend=column == 1, row=1, col=column, **hovering(trials),
            )  # fmt: skip


def _expected(trial: Trial, mean: float, std: float) -> str:
    return f"{hover(trial)}<br>mean {number(float(mean))} ± {number(float(2.0 * std))}"


def _only_parameter(modelled: Modelled) -> str:
    names = [name for name, param in space_of(modelled).params.items() if param.width]
    if len(names) != 1:
        raise DataError(f"x must be one of the parameters {', '.join(names)}; got None. Name one.")
    return names[0]
