"""Whether the model is as uncertain as it should be."""

import numpy as np
from plotly import graph_objects as go

from augury._errors import DataError
from augury.plots.leaving_out import leave_one_out
from augury.plots.source import Modelled, Source
from augury.plots.style import BLUE, GREY, styled
from augury.trial import State

LEVELS = np.linspace(0.05, 0.95, 19)


def calibration(source: Source) -> go.Figure:
    """Leave-one-out coverage: how many observations lie where the others say.

    For each nominal level, the part of the observations inside the central interval of the model that
    knows all the others. On the diagonal the model is calibrated, below it overconfident, above it too
    cautious; the shade is where 95 of 100 calibrated models are, if observations were independent.

    Hyper-parameters are held at their fit to all observations. Of a Gaussian process the predictions are
    exact; any other model is fitted anew without each observation, which takes as many fits. Failed
    evaluations are known to the model, but none of those that are counted.
    """
    modelled = Modelled.of(source, "calibration")
    history = modelled.optimizer.model.history
    complete = np.array([history.trials[n].state is State.COMPLETE for n in history.order])
    count = int(complete.sum())
    if count < 2:
        raise DataError(
            f"calibration needs at least 2 finished evaluations; got {count}. Tell more values first."
        )
    from scipy.stats import binom, norm  # takes a second to import

    data = history.data()
    mean, std = leave_one_out(modelled)
    error = np.abs(data.y[: data.n] - mean)[complete] / std[complete]
    coverage = (error[:, None] <= norm.ppf((1.0 + LEVELS) / 2.0)).mean(axis=0)
    low, high = (np.asarray(binom.ppf(tail, count, LEVELS)) / count for tail in (0.025, 0.975))
    figure = go.Figure()
    figure.add_scatter(
        x=[*LEVELS, *LEVELS[::-1]], y=[*high, *low[::-1]], mode="lines", fill="toself",
        fillcolor="rgba(138, 143, 152, 0.18)", line={"width": 0}, name="by chance", hoverinfo="skip",
    )  # fmt: skip
    figure.add_scatter(
        x=[0.0, 1.0], y=[0.0, 1.0], mode="lines", name="calibrated", hoverinfo="skip",
        line={"color": GREY, "dash": "dash", "width": 1.5},
    )  # fmt: skip
    figure.add_scatter(
        x=LEVELS, y=coverage, mode="lines+markers", name="coverage", marker={"size": 7},
        line={"color": BLUE, "width": 2.5},
        hovertemplate="%{y:.0%} of the observations in the %{x:.0%} interval<extra></extra>",
    )  # fmt: skip
    axis = {"range": [-0.02, 1.02], "tickformat": ".0%", "dtick": 0.2}
    figure.update_xaxes(title_text="nominal level", constrain="domain", **axis)
    figure.update_yaxes(title_text="observations inside", scaleanchor="x", constrain="domain", **axis)
    said = f"{modelled.name}: each of {count} observations predicted from the others"
    return styled(figure, "Leave-one-out calibration", said, width=640, height=640)
