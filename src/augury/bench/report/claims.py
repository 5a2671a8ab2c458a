"""Claims of a paper, held against the results."""

from collections.abc import Mapping, Sequence

import numpy as np

from augury.bench import statistics
from augury.bench.experiment import Claim, Task
from augury.bench.report.entries import Entry, find
from augury.bench.report.measures import BEST, MEMORY, SECONDS, final, scores, usable
from augury.bench.report.model import ClaimReport, Judged, Verdict
from augury.bench.report.numbers import joined

LEVEL = 0.05


def judge(claim: Claim, tasks: Sequence[Task], shown: Mapping[str, Sequence[Entry]]) -> ClaimReport:
    """The claim on each problem against each rival: paired one-sided t-tests in both directions.

    The p-values of each direction are adjusted over all tests of the claim (Benjamini and Hochberg).
    """
    pairs = [(task.label, rival) for task in claim.tasks(tasks) for rival in claim.than]
    tests = {pair: _tests(claim, shown.get(pair[0], ()), pair[1]) for pair in pairs}
    known = {pair: test for pair, test in tests.items() if not np.isnan(test[0])}
    lower = statistics.benjamini_hochberg([test[0] for test in known.values()])
    higher = statistics.benjamini_hochberg([test[1] for test in known.values()])
    verdicts = {
        pair: _verdict(float(low), float(high))
        for pair, low, high in zip(known, lower, higher, strict=True)
    }
    judged = tuple(
        Judged(*pair, verdicts.get(pair, "too few runs" if runs else "no results yet"), ratio)
        for pair, (_, _, ratio, runs) in tests.items()
    )
    return ClaimReport(
        text=claim.text,
        better=claim.better,
        measure=claim.measure,
        comparable=claim.comparable,
        different=claim.different,
        carried_over=claim.carried_over,
        judged=judged,
    )


def _tests(claim: Claim, shown: Sequence[Entry], rival: str) -> tuple[float, float, float, int]:
    """p-values of better and of worse, the ratio of the means, and the number of common seeds.

    Numbers that the seeds do not suffice for are NaN.
    """
    own, other = find(shown, claim.better), find(shown, rival)
    nan = float("nan")
    if own is None or other is None:
        return nan, nan, nan, 0
    seeds = sorted(set(own.runs.seeds) & set(other.runs.seeds))
    pair = [own.runs.only(seeds), other.runs.only(seeds)]
    measure = usable(claim.measure, own.runs)
    a, b = (scores(runs, measure) for runs in pair)
    both = ~(np.isnan(a) | np.isnan(b))
    count = int(both.sum())
    if count == 0:
        return nan, nan, nan, 0
    means = [float(np.mean(final(runs, measure)[both])) for runs in pair]
    ratio = means[0] / means[1] if measure != BEST and min(means) > 0.0 else nan
    if count == 1:
        return nan, nan, ratio, 1
    table = {"own": a[both], "other": b[both]}
    better = statistics.one_sided_tests("own", table)[0].p_value
    worse = statistics.one_sided_tests("other", table)[0].p_value
    return better, worse, ratio, count


def _verdict(better: float, worse: float) -> Verdict:
    if better < LEVEL:
        return "holds"
    return "does not hold" if worse < LEVEL else "cannot be told apart"


def sentence(claim: ClaimReport, *, quick: bool = False) -> str:
    """What becomes of the claim, in words; `quick` says that only runs of a small variant judge it."""
    verdicts = [item.verdict for item in claim.judged]
    few, missing = (verdicts.count(verdict) for verdict in ("too few runs", "no results yet"))
    counts = {v: verdicts.count(v) for v in ("holds", "does not hold", "cannot be told apart")}
    total = sum(counts.values())
    said = f"{introduction(claim)}: {claim.text.rstrip('.')}."
    if total == 0:
        what = "There are too few runs to test it" if few else "There are no results to judge it by yet"
        return f"{said} {what}."
    parts = [
        f"{phrase} in {counts[verdict]}"
        for verdict, phrase in _phrases(claim.measure).items()
        if counts[verdict]
    ]
    of = f"{total} comparison{'s' if total > 1 else ''}"
    who = "The quick runs here" if quick else "The results here"
    opinion = _opinion(claim, counts, total)
    text = f"{said} {who} {opinion}: of {of}, `{claim.better}` {joined(parts)}"
    for count, what in ((few, "too few runs"), (missing, "no results yet")):
        text += f"; {count} more {'has' if count == 1 else 'have'} {what}" if count else ""
    return f"{text}."


def introduction(claim: ClaimReport) -> str:
    """Who says it, and of what."""
    return f"Carried over to {claim.carried_over}" if claim.carried_over else "The paper says"


def _phrases(measure: str) -> Mapping[str, str]:
    better, worse = "is lower", "is higher"
    if measure == SECONDS:
        better, worse = "takes less time", "takes more time"
    elif measure == MEMORY:
        better, worse = "needs less", "needs more"
    elif measure == BEST:
        better, worse = "is better", "is worse"
    return {"holds": better, "does not hold": worse, "cannot be told apart": "cannot be told apart"}


def _opinion(claim: ClaimReport, counts: Mapping[str, int], total: int) -> str:
    """Whether the results agree; "comparable" is contradicted only by what is significantly worse."""
    if claim.different:
        told_apart = total - counts["cannot be told apart"]
        part = "agree in part" if told_apart else "do not confirm it"
        return "agree" if told_apart == total else part
    if counts["does not hold"] == total:
        return "contradict it"
    if claim.comparable:
        if counts["does not hold"] == 0:
            return "agree" if counts["holds"] else "do not contradict it"
        return "agree in part"
    if counts["holds"] == total:
        return "agree"
    return "agree in part" if counts["holds"] else "do not confirm it"
