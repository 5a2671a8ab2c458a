"""What a report consists of: plain numbers, tables, charts and sentences, without any markup.

In sentences, names stand between backticks; each writer turns these into its own markup.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from augury.bench.statistics import Comparison, Ranks, Summary

Array = npt.NDArray[np.float64]
Agreement = Literal["agrees", "lower here", "higher here", "not compared"]
Verdict = Literal["holds", "does not hold", "cannot be told apart", "too few runs", "no results yet"]


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column names the row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    best: frozenset[tuple[int, int]] = frozenset()  # (row, column) of cells to stress
    note: str = ""


@dataclass(frozen=True, eq=False)
class Line:
    """A curve with its band; `low` and `high` are empty where there is none."""

    name: str
    x: Array
    y: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Chart:
    """Curves of methods over a common axis."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    band: str = ""  # what the shaded bands are
    log: bool = False
    zero: bool = False  # whether the axis must start at 0


@dataclass(frozen=True)
class Published:
    """A number that the paper prints, beside ours."""

    problem: str
    method: str
    what: str  # "at the end", "after 50 iterations"
    ours: Summary | None
    paper: float
    paper_error: float  # the standard error of the paper's mean; NaN if it is not known
    agreement: Agreement


@dataclass(frozen=True)
class PaperTest:
    """A test that the paper prints, beside ours of the same kind."""

    problem: str
    method: str
    normality: float  # p-values; NaN where there is none
    paper_normality: float
    p_value: float
    rejected: bool | None
    paper_p_value: float
    paper_rejected: bool | None


@dataclass(frozen=True)
class Judged:
    """A claim of the paper on one problem, against one rival."""

    problem: str
    rival: str
    verdict: Verdict
    ratio: float  # of the two means; NaN where it says nothing


@dataclass(frozen=True)
class ClaimReport:
    """A claim of the paper, judged."""

    text: str
    better: str
    measure: str
    comparable: bool
    different: bool
    carried_over: str
    judged: tuple[Judged, ...]

    @property
    def known(self) -> bool:
        """Whether there are results to judge it by."""
        return any(item.verdict != "no results yet" for item in self.judged)


@dataclass(frozen=True)
class MethodRow:
    """One method on one problem."""

    name: str
    setting: str  # which point of a grid, and whether it is picked or the default
    repeats: int
    final: Summary
    simple: Summary | None  # the simple regret at the end
    per_iteration: Summary | None  # the cumulative regret of batches, each counting by its best point
    rank: float  # the mean over seeds; NaN if not compared
    efficiency: float  # log2; NaN if not known, -inf if the baseline's value is not reached
    seconds: float  # the median over runs of a run's median
    last_seconds: float  # of the last twentieth of the run
    eta: float
    inaccuracy: float  # M_T
    peak_mib: float
    failures: int  # failed evaluations
    path: tuple[float, ...] = ()  # the mean metric at 25, 50, 75 and 100 % of the budget


@dataclass(frozen=True)
class ProblemReport:
    """One problem of an experiment."""

    label: str
    measure: str
    lower: bool  # whether lower is better
    remark: str  # what is known of the optimum
    seeds: int  # those that all compared methods have
    rows: tuple[MethodRow, ...]
    charts: tuple[Chart, ...]
    tests: tuple[Comparison, ...]
    settings: tuple[Table, ...] = ()  # all points of every grid
    sentences: tuple[str, ...] = ()
    scores: Mapping[str, Array] = field(default_factory=dict)  # of compared methods, lower better


@dataclass(frozen=True)
class ExperimentReport:
    """One experiment."""

    name: str
    title: str
    paper: str
    note: str
    metric: str
    baseline: str
    facts: tuple[tuple[str, str], ...]
    used: int
    missing: int
    unavailable: Mapping[str, str]
    problems: tuple[ProblemReport, ...]
    sentences: tuple[str, ...]
    ranks: Ranks | None
    charts: tuple[Chart, ...] = ()  # over all problems
    claims: tuple[ClaimReport, ...] = ()
    published: tuple[Published, ...] = ()
    tests: tuple[PaperTest, ...] = ()
    quantity: str = ""  # what the paper's numbers are, where that needs saying
    also_printed: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # of all that is drawn, in order
    others: int = 0  # runs made with other settings, which are not used
    quick: bool = False  # whether it is about the small variant
    suite: str = ""  # the experiments that it is ranked together with
    shares: bool = False  # whether it has runs of other experiments
    against: Table | None = None  # every method against the baseline, over all problems

    @property
    def detailed(self) -> bool:
        """Whether problems are few enough to be shown one by one."""
        return any(problem.charts for problem in self.problems)
