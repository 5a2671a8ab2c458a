"""How accurately the score of each suggestion was maximized, and how long suggestions took."""

import numpy as np
from plotly import graph_objects as go
from plotly.subplots import make_subplots

from augury._errors import DataError
from augury.plots.source import Run, Source
from augury.plots.style import BLUE, DARK, GREEN, GREY, ORANGE, hovering, log_scale, styled

PARTS = {"fit": ("fit", BLUE), "choose": ("choose", ORANGE), "eta": ("estimate η", GREEN)}


def accuracy(source: Source) -> go.Figure:
    """The accuracy η_t of every suggestion of the model, and the accumulated inaccuracy M_T.

    η_t = α_t(x_t)/α_t* is the score at the suggested point as a part of the largest score, and
    M_T = Σ_{t≤T} (1 − η_t). Both are of the random-grid paper, section 3.1, which sums worst cases:
    measured accuracies give a lower estimate.
    """
    known = [trial for trial in Run.of(source).trials if "eta" in trial.info]
    if not known:
        raise DataError(
            "accuracy needs at least one point that a model suggested; got none. Ask for more points "
            "than the initial design has."
        )
    numbers, etas = [t.number for t in known], np.array([t.info["eta"] for t in known])
    figure = make_subplots(rows=2, shared_xaxes=True, vertical_spacing=0.08)
    figure.add_scatter(
        x=numbers, y=etas, mode="markers", marker={"color": BLUE, "size": 7}, name="η_t",
        row=1, col=1, **hovering(known),
    )  # fmt: skip
    figure.add_scatter(
        x=numbers, y=np.cumsum(1.0 - etas), mode="lines", line={"shape": "hv", "color": DARK, "width": 2},
        name="M_T", row=2, col=1, hovertemplate="trial %{x}: M = %{y:.4g}<extra></extra>",
    )  # fmt: skip
    figure.update_yaxes(title_text="accuracy η<sub>t</sub>", range=[-0.05, 1.05], row=1)
    figure.update_yaxes(title_text="inaccuracy M<sub>T</sub>", rangemode="tozero", row=2)
    figure.update_xaxes(title_text="trial", row=2)
    total = float(np.sum(1.0 - etas))
    subtitle = f"M<sub>T</sub> = Σ (1 − η<sub>t</sub>) = {total:.3g} after T = {len(known)} suggestions"
    return styled(figure, "Accuracy of the maximizer", subtitle, showlegend=False)


def seconds(source: Source) -> go.Figure:
    """The seconds that each suggestion took, and which part of it: fit, choice, estimate of η."""
    known = [trial for trial in Run.of(source).trials if "seconds" in trial.info]
    if not known:
        raise DataError(
            "seconds needs at least one point that was asked for; got none. Points that were told or "
            "enqueued take none."
        )
    figure = go.Figure()
    figure.add_scatter(
        x=[t.number for t in known], y=[t.info["seconds"]["total"] for t in known],
        mode="lines+markers", line={"color": GREY, "width": 1.5}, marker={"color": DARK, "size": 6},
        name="total", hovertemplate="trial %{x}: %{y:.3g} s<extra></extra>",
    )  # fmt: skip
    for part, (name, colour) in PARTS.items():
        some = [t for t in known if t.info["seconds"].get(part, 0.0) > 0.0]
        if some:
            figure.add_scatter(
                x=[t.number for t in some], y=[t.info["seconds"][part] for t in some], mode="markers",
                marker={"color": colour, "size": 5}, name=name,
                hovertemplate="trial %{x}: %{y:.3g} s<extra>" + name + "</extra>",
            )  # fmt: skip
    spent = [t.info["seconds"]["total"] for t in known]
    figure.update_yaxes(**log_scale(min(spent), max(spent)))
    return styled(
        figure,
        "Seconds per suggestion",
        f"median {np.median(spent):.3g} s",
        xaxis_title="trial",
        yaxis_title="seconds",
    )
