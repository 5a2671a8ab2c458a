"""Trials that are evaluated again: what repeats which, and how often that has happened."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from optuna.trial import FrozenTrial, TrialState

from augury.studies.mirror import GONE, LOST

RETRY_OF = "augury:retry_of"  # attribute of a trial that repeats another one: see `Repeats`
INTERRUPTED = "its run was interrupted"  # why a trial was taken back; it says nothing about the point
LATE = "the value of trial {} came late, but it came"  # why a repetition was withdrawn
AGAIN = "it is tried again"  # why a trial that failed does not count


@dataclass(frozen=True)
class Repeats:
    """Which trial another one repeats, and how often it was lost or failed before."""

    number: int | None = None
    lost: int = 0
    failed: int = 0

    @staticmethod
    def of(trial: FrozenTrial) -> "Repeats":
        """What a trial says."""
        try:
            return Repeats(*map(int, json.loads(trial.system_attrs[RETRY_OF])))
        except (KeyError, TypeError, ValueError):
            return Repeats()

    def text(self) -> str:
        """As an attribute."""
        return json.dumps([self.number, self.lost, self.failed])

    def after_loss(self, number: int, why: str) -> "Repeats":
        """What repeats trial `number`, which says this, after it was taken back."""
        return replace(self, number=number, lost=self.lost + (why != INTERRUPTED))


def repetition(trial: FrozenTrial) -> Repeats | None:
    """What must repeat a trial that has ended; None of most."""
    if trial.state is not TrialState.FAIL:
        return None
    before, gone = Repeats.of(trial), trial.system_attrs.get(GONE)
    if gone == AGAIN:
        return replace(before, number=trial.number, failed=before.failed + 1)
    if gone is None and LOST in trial.system_attrs:
        return before.after_loss(trial.number, trial.system_attrs[LOST])
    return None


def repeating(trials: Sequence[FrozenTrial], number: int) -> list[FrozenTrial]:
    """The trials that repeat one, or a repetition of it; by number, as they must be given."""
    chain, found = {number}, []
    for one in trials:
        if RETRY_OF in one.system_attrs and Repeats.of(one).number in chain:
            chain.add(one.number)
            found.append(one)
    return found


def original(trials: Sequence[FrozenTrial], number: int) -> int:
    """The number of the trial that one repeats, directly or not; its own of most."""
    repeated = Repeats.of(trials[number]).number
    return number if repeated is None or repeated >= number else original(trials, repeated)


def unrepeated(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Those that nothing repeats, though something must: a process ended when it had taken them back."""
    done = {Repeats.of(one).number for one in trials if RETRY_OF in one.system_attrs}
    return [one for one in trials if one.number not in done and repetition(one) is not None]


def unwritten(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Those that were withdrawn for a late value that is not there: it is being written."""
    gone = [one for one in trials if GONE in one.system_attrs]
    reasons = [re.fullmatch(LATE.format(r"(\d+)"), str(one.system_attrs[GONE])) for one in gone]
    found = zip(gone, reasons, strict=True)
    return [one for one, late in found if late and not _is_there(trials, int(late[1]))]


def _is_there(trials: Sequence[FrozenTrial], number: int) -> bool:
    """Whether a trial was repeated with a value."""
    return any(one.state is TrialState.COMPLETE for one in repeating(trials, number))


def is_superfluous(trial: FrozenTrial, trials: Sequence[FrozenTrial]) -> bool:
    """Whether an earlier trial repeats the same one, or its value has come after all."""
    number = Repeats.of(trial).number
    others = [] if number is None else repeating(trials, number)
    return any(one.number < trial.number or one.state is TrialState.COMPLETE for one in others)
