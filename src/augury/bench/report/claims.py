"""Claims of a paper, held against the results."""

from collections.abc import Mapping, Sequence

import numpy as np

from augury.bench import statistics
from augury.bench.experiment import Claim, Task
from augury.bench.report.entries import Entry, find
from augury.bench.report.measures import BEST, SECONDS, final, scores, usable
from augury.bench.report.model import ClaimReport, Judged, Verdict
from augury.bench.report.numbers import joined

LEVEL = 0.05


def judge(claim: Claim, tasks: Sequence[Task], shown: Mapping[str, Sequence[Entry]]) -> ClaimReport:
    """The claim on each problem against each rival: paired one-sided t-tests in both directions.

    The p-values of each direction are adjusted over all tests of the claim (Benjamini and Hochberg).
    """
    wanted = [
        task.label
        for task in tasks
        if not claim.problems or task.label in claim.problems or task.problem in claim.problems
    ]
    pairs = [(label, rival) for label in wanted for rival in claim.than]
    tests = {pair: _tests(claim, shown.get(pair[0], ()), pair[1]) for pair in pairs}
    known = {pair: test for pair, test in tests.items() if test is not None}
    lower = statistics.benjamini_hochberg([test[0] for test in known.values()])
    higher = statistics.benjamini_hochberg([test[1] for test in known.values()])
    verdicts = {
        pair: _verdict(float(low), float(high))
        for pair, low, high in zip(known, lower, higher, strict=True)
    }
    judged = tuple(
        Judged(label, rival, verdicts[label, rival], known[label, rival][2])
        if (label, rival) in known
        else Judged(label, rival, "no results yet", float("nan"))
        for label, rival in pairs
    )
    return ClaimReport(
        claim.text, claim.better, claim.measure, claim.comparable, claim.carried_over, judged
    )


def _tests(claim: Claim, shown: Sequence[Entry], rival: str) -> tuple[float, float, float] | None:
    """p-values of better and of worse, and the ratio of the means; None without two common seeds."""
    own, other = find(shown, claim.better), find(shown, rival)
    if own is None or other is None:
        return None
    seeds = sorted(set(own.runs.seeds) & set(other.runs.seeds))
    pair = [own.runs.only(seeds), other.runs.only(seeds)]
    measure = SECONDS if claim.measure == SECONDS else usable(claim.measure, own.runs)
    a, b = (scores(runs, measure) for runs in pair)
    both = ~(np.isnan(a) | np.isnan(b))
    if both.sum() < 2:
        return None
    table = {"own": a[both], "other": b[both]}
    better = statistics.one_sided_tests("own", table)[0].p_value
    worse = statistics.one_sided_tests("other", table)[0].p_value
    means = [float(np.mean(final(runs, measure)[both])) for runs in pair]
    ratio = means[0] / means[1] if measure != BEST and min(means) > 0.0 else float("nan")
    return better, worse, ratio


def _verdict(better: float, worse: float) -> Verdict:
    if better < LEVEL:
        return "holds"
    return "does not hold" if worse < LEVEL else "cannot be told apart"


def sentence(claim: ClaimReport) -> str:
    """What becomes of the claim, in words."""
    counts = dict.fromkeys(("holds", "does not hold", "cannot be told apart"), 0)
    missing = 0
    for item in claim.judged:
        if item.verdict == "no results yet":
            missing += 1
        else:
            counts[item.verdict] += 1
    total = sum(counts.values())
    said = f"{introduction(claim)}: {claim.text.rstrip('.')}."
    if total == 0:
        return f"{said} There are no results to judge it by yet."
    parts = [
        f"{phrase} in {counts[verdict]}"
        for verdict, phrase in _phrases(claim.measure).items()
        if counts[verdict]
    ]
    of = f"{total} comparison{'s' if total > 1 else ''}"
    text = (
        f"{said} {_opinion(claim.comparable, counts, total)}: of {of}, `{claim.better}` {joined(parts)}"
    )
    return f"{text}; {missing} more have no results yet." if missing else f"{text}."


def introduction(claim: ClaimReport) -> str:
    """Who says it, and of what."""
    return "Carried over to Augury's own model" if claim.carried_over else "The paper says"


def _phrases(measure: str) -> Mapping[str, str]:
    better, worse = "is lower", "is higher"
    if measure == SECONDS:
        better, worse = "takes less time", "takes more time"
    elif measure == BEST:
        better, worse = "is better", "is worse"
    return {"holds": better, "does not hold": worse, "cannot be told apart": "cannot be told apart"}


def _opinion(comparable: bool, counts: Mapping[str, int], total: int) -> str:
    """Whether the results agree; "comparable" is contradicted only by what is significantly worse."""
    if counts["does not hold"] == total:
        return "The results here contradict it"
    if comparable:
        if counts["does not hold"] == 0:
            return (
                "The results here agree" if counts["holds"] else "The results here do not contradict it"
            )
        return "The results here agree in part"
    if counts["holds"] == total:
        return "The results here agree"
    return "The results here agree in part" if counts["holds"] else "The results here do not confirm it"
