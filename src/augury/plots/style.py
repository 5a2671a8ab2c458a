"""What all figures have in common."""

import html
from collections.abc import Mapping
from typing import Any

from plotly import graph_objects as go

from augury.trial import State, Trial

BLUE, ORANGE, GREEN, RED = "#1b6ca8", "#d9730d", "#2e8b57", "#c1272d"
GREY, LIGHT, DARK = "#8a8f98", "#e4e7eb", "#22262b"
COLOURS = (BLUE, ORANGE, GREEN, "#7b5ea7", "#b5651d", GREY)
BAND = "rgba(27, 108, 168, 0.16)"
SHOWN_PARAMETERS = 12  # in a hover text
FAILED = {"symbol": "x", "size": 8, "color": RED}
STAR = {"symbol": "star", "size": 15, "color": ORANGE, "line": {"color": "white", "width": 1}}


def styled(figure: go.Figure, title: str, subtitle: str = "", **layout: Any) -> go.Figure:
    """A figure with a title, and its legend between title and data, where it covers nothing."""
    axis = {
        "showgrid": True,
        "gridcolor": LIGHT,
        "zeroline": False,
        "linecolor": GREY,
        "exponentformat": "e",  # not the prefixes of units
        "ticks": "outside",
        "tickcolor": GREY,
        "title": {"standoff": 10},
        "automargin": True,
    }
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    figure.update_layout(
        template="plotly_white",
        title={
            "text": title,
            "subtitle": {"text": subtitle, "font": {"size": 13, "color": GREY}},
            "x": 0.0,
            "xref": "paper",
            "y": 1.0,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 18},
            "font": {"size": 19},
        },
        font={"family": "system-ui, Helvetica, Arial, sans-serif", "size": 13, "color": DARK},
        legend={"orientation": "h", "x": 0.0, "y": 1.02, "xanchor": "left", "yanchor": "bottom"},
        margin={"l": 70, "r": 30, "t": 120 if subtitle else 100, "b": 60},
        hoverlabel={"align": "left"},
    )
    return figure.update_layout(**layout)


def log_scale(low: float, high: float) -> dict[str, Any]:
    """A logarithmic axis; with two decades or more, it has ticks at powers of ten alone."""
    return {"type": "log", **({"dtick": 1} if high >= 100.0 * low else {})}


def number(value: Any) -> str:
    """A value in few characters."""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def described(params: Mapping[str, Any], most: int) -> str:
    """Some parameters in one line, at most so many of them."""
    texts = [f"{name}={number(value)}" for name, value in list(params.items())[:most]]
    return html.escape(", ".join(texts)) + (", …" if len(params) > most else "")


def hover(trial: Trial) -> str:
    """What a trial says when the pointer is on it: its outcome, its point, and why that."""
    info = trial.info
    outcome = f": {number(trial.value)}" if trial.state is State.COMPLETE else f" ({trial.state})"
    lines = [f"<b>trial {trial.number}</b>{outcome}"]
    if trial.reason:
        lines.append(html.escape(trial.reason[:80]))
    shown = list(trial.params.items())[:SHOWN_PARAMETERS]
    lines += [html.escape(f"{name} = {number(value)}") for name, value in shown]
    if len(trial.params) > len(shown):
        lines.append("…")
    lines.append(f"<i>{html.escape(str(info.get('chosen', trial.origin)))}</i>")
    if "mean" in info:
        lines.append(f"predicted {number(float(info['mean']))} ± {number(float(info['std']))}")
    if "eta" in info:
        lines.append(f"η = {number(float(info['eta']))}")
    for why in ("explored", "fallback"):
        if why in info:
            lines.append(html.escape(str(info[why])))
    return "<br>".join(lines)


def hovering(trials: list[Trial]) -> dict[str, Any]:
    """The hover texts of a trace of trials."""
    return {"hovertext": [hover(trial) for trial in trials], "hoverinfo": "text"}
