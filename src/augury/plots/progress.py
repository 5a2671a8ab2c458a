"""The values of a run, the best so far, and its distance from the optimum."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from plotly import graph_objects as go

from augury._checks import check_flags, check_real
from augury._errors import DataError
from augury.plots.source import Run, Source
from augury.plots.style import (
    BLUE,
    COLOURS,
    DARK,
    FAILED,
    GREEN,
    GREY,
    ORANGE,
    hovering,
    log_scale,
    styled,
)
from augury.trial import Origin, State, Trial

ORIGINS = {
    Origin.DESIGN: ("initial design", GREY),
    Origin.MODEL: ("model", BLUE),
    Origin.ENQUEUED: ("enqueued", ORANGE),
    Origin.TOLD: ("told", GREEN),
}
Sources = Source | Mapping[str, Source]


def progress(source: Sources) -> go.Figure:
    """The value of every trial, and the best so far as steps.

    Bars are what the model expected of its points: ± 2 standard deviations of an observation. A failed
    trial is marked at the worst value, as which the model counts it.

    Args:
        source: a run, or several by name, of which the best so far are compared.
    """
    runs = _runs(source)
    figure = go.Figure()
    for (name, run), colour in zip(runs.items(), _colours(runs), strict=True):
        complete = _complete(run)
        if name is None:
            _add_expected(figure, run)
            _add_values(figure, run, complete)
        best = _best([_value(t) for t in complete], run.sign)
        _add_steps(figure, complete, best, name or "best so far", DARK if name is None else colour)
    direction = next(iter(runs.values())).direction
    better = "lower" if direction == "minimize" else "higher"
    return styled(
        figure,
        "Progress",
        f"{better} is better",
        xaxis_title="trial",
        yaxis_title="value" if None in runs else "best value so far",
    )


def regret(source: Sources, optimum: float, *, cumulative: bool = False) -> go.Figure:
    """How far the best value so far is from the optimum, or the distances of all values, added up.

    Failed trials have no value and add nothing. Simple regret that is positive has a logarithmic axis.

    Args:
        source: a run, or several by name.
        optimum: the best value that the function has.
        cumulative: the sum of all distances so far instead of the smallest; noise may make some negative.
    """
    check_real("optimum", optimum)
    if not np.isfinite(optimum):
        raise DataError(f"optimum must be finite; got {optimum!r}. Pass the best value there is.")
    check_flags(cumulative=cumulative)
    runs = _runs(source)
    figure = go.Figure()
    everything: list[float] = []
    for (name, run), colour in zip(runs.items(), _colours(runs), strict=True):
        complete = _complete(run)
        gaps = run.sign * (optimum - np.array([_value(t) for t in complete]))
        line = np.cumsum(gaps) if cumulative else np.minimum.accumulate(gaps)
        if not cumulative:
            points = {"color": colour, "size": 5, "opacity": 0.35}
            figure.add_scatter(
                x=[t.number for t in complete], y=gaps, mode="markers", marker=points,
                name="each trial", showlegend=name is None, legendgroup=name, **hovering(complete),
            )  # fmt: skip
        _add_steps(figure, complete, line, name or ("sum" if cumulative else "best so far"), colour)
        everything += gaps.tolist()
    kind = "cumulative" if cumulative else "simple"
    if not cumulative and min(everything) > 0.0:
        figure.update_yaxes(**log_scale(min(everything), max(everything)))
    return styled(
        figure,
        f"{kind.capitalize()} regret",
        f"distance from the optimum, {optimum:.6g}",
        xaxis_title="trial",
        yaxis_title=f"{kind} regret",
    )


def _runs(source: Sources) -> dict[str | None, Run]:
    """The runs by name; a single one has none."""
    if not isinstance(source, Mapping):
        return {None: Run.of(source)}
    runs: dict[str | None, Run] = {str(name): Run.of(one) for name, one in source.items()}
    if len({run.direction for run in runs.values()}) != 1:
        raise DataError(
            f"runs that are compared must be one or more of one direction; got {len(runs)} of "
            f"{len({run.direction for run in runs.values()})}. Plot them apart."
        )
    return runs


def _colours(runs: Mapping[str | None, Run]) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(len(runs))]


def _complete(run: Run) -> list[Trial]:
    complete = [trial for trial in run.trials if trial.state is State.COMPLETE]
    if not complete:
        raise DataError(
            "progress and regret need at least one finished evaluation with a finite value; got none. "
            "Tell a value first."
        )
    return complete


def _value(trial: Trial) -> float:
    assert trial.value is not None
    return trial.value


def _best(values: list[float], sign: float) -> np.ndarray:
    return sign * np.maximum.accumulate(sign * np.array(values))


def _add_steps(figure: go.Figure, trials: list[Trial], best: np.ndarray, name: str, colour: str) -> None:
    # one text per level: where the line goes down, the trial that did it
    leaders = [trials[0]]
    for trial, (before, now) in zip(trials[1:], pairwise(best), strict=True):
        leaders.append(trial if now != before else leaders[-1])
    figure.add_scatter(
        x=[t.number for t in trials], y=best, mode="lines", name=name, legendgroup=name,
        line={"shape": "hv", "color": colour, "width": 2.5}, **hovering(leaders),
    )  # fmt: skip


def _add_expected(figure: go.Figure, run: Run) -> None:
    known = [t for t in run.trials if "mean" in t.info and t.state is not State.PENDING]
    if not known:
        return
    spread = [2.0 * float(np.hypot(t.info["std"], t.info["noise"])) for t in known]
    figure.add_scatter(
        x=[t.number for t in known], y=[t.info["mean"] for t in known], mode="markers",
        marker={"symbol": "line-ew", "size": 7, "line": {"color": BLUE, "width": 1.5}}, opacity=0.35,
        error_y={"array": spread, "color": BLUE, "thickness": 1.5, "width": 0},
        name="expected, ± 2 std", hoverinfo="skip",
    )  # fmt: skip


def _add_values(figure: go.Figure, run: Run, complete: list[Trial]) -> None:
    for origin, (name, colour) in ORIGINS.items():
        some = [trial for trial in complete if trial.origin is origin]
        if some:
            figure.add_scatter(
                x=[t.number for t in some], y=[t.value for t in some], mode="markers", name=name,
                marker={"color": colour, "size": 8, "line": {"color": "white", "width": 1}},
                **hovering(some),
            )  # fmt: skip
    failed = [trial for trial in run.trials if trial.state is State.FAILED]
    if failed:
        worst = -run.sign * max(-run.sign * _value(trial) for trial in complete)
        figure.add_scatter(
            x=[t.number for t in failed], y=[worst] * len(failed), mode="markers", name="failed",
            marker=FAILED, **hovering(failed),
        )  # fmt: skip
