"""A run whose trials are kept in a study, together with other processes or after another one."""

import contextlib
import copy
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import optuna
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from augury._errors import AuguryError, StorageError
from augury.algorithm import Algorithm
from augury.ledger import MOST_RETRIES
from augury.maximizers import Domain
from augury.maximizers.sets import exhausted
from augury.optimizer import Direction
from augury.studies import leases, notes
from augury.studies.mirror import GONE, LOST, Mirror, is_lost, is_replaced
from augury.studies.opening import open_study
from augury.studies.repeats import (
    AGAIN,
    INTERRUPTED,
    LATE,
    RETRY_OF,
    Repeats,
    is_superfluous,
    original,
    repeating,
    repetition,
    unrepeated,
    unwritten,
)
from augury.studies.sampler import AugurySampler
from augury.studies.spaces import distributions_of
from augury.studies.storages import (
    Storage,
    close_storage,
    explained,
    file_of,
    may_pass,
    open_storage,
    remove_unused,
)
from augury.trial import State, Trial

logger = logging.getLogger("augury")

REASON = "augury:reason"  # attribute of a trial: why it failed
SPENT = "the budget was spent"
PATIENCE = 60.0  # seconds that a database may be away
T = TypeVar("T")


class Book:
    """The trials of a run in a study of Optuna's, which other processes may run too.

    A trial counts towards the budget if it is complete, pruned, or failed for good; not if it was lost
    with its process, for then another one repeats it.

    Args:
        storage: a path, a URL or a storage of Optuna's.
        name: of the study; it goes on if there is one.
        space, direction, budget, algorithm, seed: as in :func:`augury.minimize`.
        retries: how often an evaluation that failed is made again.
        lease: seconds without a sign after which a process counts as dead.
        settings: the other ones of the sampler.
    """

    def __init__(
        self,
        storage: Storage,
        name: str,
        space: Domain,
        direction: Direction,
        budget: int,
        algorithm: str | Algorithm,
        seed: int | None,
        retries: int = 0,
        lease: float = leases.SECONDS,
        **settings: Any,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise StorageError(f"the name of a study must be a text; got {name!r}. Use 'tuning'.")
        self._retries = retries
        self.budget, self.space, self._distributions = budget, space, distributions_of(space)
        self._url = "" if isinstance(storage, BaseStorage) else str(storage)
        sampler = AugurySampler(algorithm, seed, space=space, budget=budget, **settings)
        file = file_of(storage)
        self._new_file = None if file is None or file.exists() else file
        self._worthless = False  # whether all that was written is taken back
        opened = open_storage(storage)
        with explained(self._url):
            self._study, self._new = open_study(opened, name, space, direction, sampler, seed)
        self._sampler, self._storage = sampler, self._study._storage
        self._holder = leases.Holder(self._storage, lease)
        self._watcher = leases.Watcher(lease)
        self._held: dict[int, int] = {}  # of the trials that this process evaluates: number, identity
        self._unrepeated: Counter[int] = Counter()  # by number, how often a trial was seen to be so

    def __enter__(self) -> "Book":
        self._holder.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            if isinstance(raised[1], StorageError):
                return  # nothing can be written any more
            if isinstance(raised[1], AuguryError) and self._new and self._is_worthless():
                self._storage.delete_study(self._study._study_id)
                self._worthless = True
                return
            for number in list(self._held):  # an interrupt left them
                self._give_up(number, INTERRUPTED)
            if self.done >= self.budget:
                for trial in self._all():
                    if _is_waiting_retry(trial):
                        self._patiently(partial(self._withdraw, trial, SPENT))
        finally:
            self._holder.__exit__(*raised)

    def _is_worthless(self) -> bool:
        """Whether nothing is complete, and no other process has begun anything."""
        mine = [leases.is_of_this_process(leases.lease_of(one)) for one in self._all()]
        return all(mine) and not any(one.state is TrialState.COMPLETE for one in self._all())

    def close(self) -> None:
        """Let go of the connections, if they are ours."""
        if self._worthless and self._new_file is not None:
            remove_unused(self._storage, self._new_file)
        elif self._url:
            close_storage(self._storage)

    # ------------------------------------------------------------------ looking

    @property
    def optimizer(self) -> Mirror:
        """An optimizer that knows the trials."""
        return self._sampler.mirror(self._study)

    @property
    def done(self) -> int:
        """How many trials count towards the budget."""
        return sum(map(_counts, self._all()))

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Those that count or are being evaluated, by number."""
        return tuple(own(one) for one in self._all() if _taken(one))

    def _all(self) -> list[FrozenTrial]:
        return self._patiently(lambda: self._study.get_trials(deepcopy=False))

    # ------------------------------------------------------------------ asking

    def ask(self, wanted: int) -> list[Trial]:
        """So many trials, or fewer where the budget ends; none while others evaluate its last ones."""
        trials = self._all()
        some_left = sum(map(_taken, trials)) < self.budget
        if self._take_back(trials) or (some_left and self._repeat_all(trials)):
            trials = self._all()
        wanted = min(wanted, self._free(trials))
        asked: list[Trial] = []
        self._sampler.together(max(1, wanted))
        while len(asked) < wanted:
            trial = self._ask(self._all() if asked else trials)
            if trial is None:
                break
            asked.append(trial)
        return asked

    def _free(self, trials: Sequence[FrozenTrial]) -> int:
        """How many trials may be asked for now: of the budget, and of a finite space."""
        free = self.budget - sum(map(_taken, trials)) - len(self._promised(trials))
        if free <= 0 or math.isinf(self.space.size):
            return free
        left = self.optimizer.left
        running = sum(_taken(one) and not one.state.is_finished() for one in trials)
        if left <= 0 and not running:
            raise exhausted(self.space)
        return int(min(free, max(0, left - running)))

    def _promised(self, trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
        """The trials in whose place another process is about to put another one."""
        replaced = unrepeated(trials) + unwritten(trials)
        return [one for one in replaced if self._unrepeated[one.number] < 2]

    def _is_too_many(self, trial: FrozenTrial) -> bool:
        """Whether others have taken all that the budget had left before this trial was begun."""
        place = _place(trial)
        if place < self.budget:
            return False
        trials = self._all()
        promised = {one.number for one in self._promised(trials)}
        before = [one for one in trials if _place(one) < place and one.number != trial.number]
        return self.budget <= sum(
            _taken(one) or _is_waiting_retry(one) or one.number in promised for one in before
        )

    def _ask(self, trials: Sequence[FrozenTrial]) -> Trial | None:
        """A trial of this process; None if others have taken all that the budget had left."""
        identity = self._patiently(lambda: self._begin(trials))
        try:
            trial = self._patiently(lambda: optuna.Trial(self._study, identity))
        except StorageError:
            raise
        except BaseException:  # while its point was chosen: it is given back at the end
            self._held[self._storage.get_trial_number_from_id(identity)] = identity
            raise
        number = trial.number
        self._held[number] = identity
        if self._is_too_many(trial._cached_frozen_trial):
            self._patiently(lambda: self._end(number, TrialState.FAIL, {GONE: SPENT}))
            return None
        try:
            for name, distribution in self._distributions.items():
                self._patiently(partial(trial._suggest, name, distribution))
        except (TypeError, ValueError) as error:  # what was enqueued is no value of the parameter
            self._refuse(number, f"the enqueued value of {name!r} must be one of its own; got: {error}")
            return self._ask(trials)
        return own(trial._cached_frozen_trial)

    def _refuse(self, number: int, why: str) -> None:
        """End a trial that cannot be evaluated; it does not count."""
        logger.warning("trial %d is left out: %s", number, why)
        marks = {REASON: why[: notes.LONGEST], GONE: "it cannot be evaluated"}
        self._patiently(lambda: self._end(number, TrialState.FAIL, marks))

    def _begin(self, trials: Sequence[FrozenTrial]) -> int:
        """The identity of a trial that waited, or of a new one; it has a lease from the start."""
        self._study._thread_local.cached_all_trials = list(trials)  # as of just now
        for trial in trials:
            if trial.state is TrialState.WAITING and self._claim(trial, trials):
                return int(trial._trial_id)
        mine = {leases.LEASE: self._holder.lease()}
        new = optuna.create_trial(state=TrialState.RUNNING, system_attrs=mine)
        identity = int(self._storage.create_new_trial(self._study._study_id, template_trial=new))
        self._holder.keep(identity)
        return identity

    def _claim(self, trial: FrozenTrial, trials: Sequence[FrozenTrial]) -> bool:
        """Whether a trial that waited is this process's now."""
        identity = trial._trial_id
        if is_superfluous(trial, trials):
            self._withdraw(trial, "another trial is in its place")
            return False
        try:
            self._holder.claim(identity)  # or, if we die now, nobody would know that a run has begun it
            if not self._storage.set_trial_state_values(identity, TrialState.RUNNING):
                return False
        except UpdateFinishedTrialError:
            return False
        self._holder.take(identity)
        return True

    # ------------------------------------------------------------------ telling

    def tell(self, trial: Trial, value: float | None, reason: str | None = None) -> Trial:
        """Record the value of a trial, or why it has none; as it is recorded."""
        if reason is None and (value is None or not math.isfinite(value)):
            reason = f"the value is {value}"
        state = TrialState.COMPLETE if reason is None else TrialState.FAIL
        attributes = {} if reason is None else {REASON: reason[: notes.LONGEST]}
        values = None if value is None or reason is not None else [float(value)]
        return own(self._patiently(lambda: self._end(trial.number, state, attributes, values)))

    def _end(
        self,
        number: int,
        state: TrialState,
        attributes: Mapping[str, str],
        values: Sequence[float] | None = None,
    ) -> FrozenTrial:
        """A trial that this process holds, ended; if it was taken back meanwhile, see `_late`."""
        identity = self._held[number]
        frozen = self._storage.get_trial(identity)
        if GONE in frozen.system_attrs and not frozen.state.is_finished():
            logger.warning("trial %d came to %s, but %s", number, values, frozen.system_attrs[GONE])
            state, values = TrialState.FAIL, None
        try:
            for key, text in attributes.items():
                self._storage.set_trial_system_attr(identity, key, text)
            self._storage.set_trial_state_values(identity, state, values)
            ended = copy.copy(frozen)
            ended.state, ended.values = state, None if values is None else list(values)
            ended.system_attrs = {**frozen.system_attrs, **attributes}
        except UpdateFinishedTrialError:
            self._late(number, state, values)
            ended = self._storage.get_trial(identity)
        self._sampler.after_trial(self._study, frozen, state, values)
        self._holder.leave(identity)
        self._held.pop(number, None)
        return ended

    def _late(self, number: int, state: TrialState, values: Sequence[float] | None) -> None:
        """A result that comes after its trial was taken back becomes a trial of its own."""
        trials = self._study.get_trials(deepcopy=False)
        trial, first = trials[number], original(trials, number)
        if state is not TrialState.COMPLETE or values is None or trial.state is TrialState.COMPLETE:
            return  # nothing is lost: a failure, or a value that had been recorded
        if GONE in trial.system_attrs:
            logger.warning("trial %d came to %s, but %s", number, values, trial.system_attrs[GONE])
            return
        for one in repeating(trials, first):  # first: it may be about to end with a value itself
            if is_lost(trial) and not one.state.is_finished():
                self._withdraw(one, LATE.format(number))
        others = repeating(self._study.get_trials(deepcopy=False), first)
        complete = [one for one in others if one.state is TrialState.COMPLETE]
        if any(
            Repeats.of(one).number == number and leases.LEASE not in one.system_attrs for one in complete
        ):
            return  # it was recorded before the storage went away
        if complete or not is_lost(trial):
            logger.warning("the value %s of trial %d came too late and is dropped", values[0], number)
            return
        self._study.add_trial(
            optuna.create_trial(
                params=trial.params,
                distributions=trial.distributions,
                value=values[0],
                system_attrs={RETRY_OF: replace(Repeats.of(trial), number=number).text()},
            )
        )

    def _withdraw(self, trial: FrozenTrial, why: str) -> None:
        """End a trial that waits or runs, if it has not ended; its process sees it at its end."""
        with contextlib.suppress(UpdateFinishedTrialError):
            self._storage.set_trial_system_attr(trial._trial_id, GONE, why)
            self._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)

    # ------------------------------------------------------------------ taking back

    def _take_back(self, trials: Sequence[FrozenTrial]) -> bool:
        """End the trials of processes that are gone, and let them be repeated; whether there were any."""
        any_gone = False
        for trial in trials:
            if trial.state is TrialState.RUNNING and trial.number not in self._held:
                why = self._watcher.expired(trial)
                if why is not None:
                    self._patiently(partial(self._lose, trial, why))
                    any_gone = True
        return any_gone

    def _give_up(self, number: int, why: str) -> None:
        identity = self._held.pop(number)
        self._holder.leave(identity)
        self._patiently(lambda: self._lose(self._storage.get_trial(identity), why))

    def lose(self, trial: Trial, reason: str, begin: Callable[[Trial], None]) -> Trial | None:
        """Let another trial repeat one whose worker died, unless that has happened too often."""
        identity = self._held[trial.number]
        self._give_up(trial.number, reason)
        frozen = self._patiently(lambda: self._storage.get_trial(identity))
        return own(frozen) if _counts(frozen) else None

    def _lose(self, trial: FrozenTrial, why: str) -> None:
        """Take a trial back; of several processes that try, one succeeds.

        A point that was lost too often has failed: it may be the function that ends its process.
        """
        again = Repeats.of(trial).after_loss(trial.number, why)
        mark = REASON if again.lost > MOST_RETRIES else LOST
        try:
            self._storage.set_trial_system_attr(trial._trial_id, mark, why)
            self._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
        except UpdateFinishedTrialError:
            return
        logger.warning("trial %d was taken back: %s", trial.number, why)
        self._repeat(trial._trial_id)

    def _repeat(self, identity: int) -> None:
        """Let a trial be evaluated again, if it must be, is not already, and its point is known."""
        trial = self._storage.get_trial(identity)
        again = repetition(trial)
        if again is None or repeating(self._study.get_trials(deepcopy=False), trial.number):
            return
        point = self._sampler.mirror(self._study).values(trial) or trial.system_attrs.get("fixed_params")
        if point:  # of some only what was enqueued
            attributes = {"fixed_params": point, RETRY_OF: again.text()}
            waiting = optuna.create_trial(state=TrialState.WAITING, system_attrs=attributes)
            self._study.add_trial(waiting)

    def _repeat_all(self, trials: Sequence[FrozenTrial]) -> bool:
        """Let those be evaluated again whose process ended just when it had given them up."""
        left = unrepeated(trials)
        self._unrepeated.update(one.number for one in left + unwritten(trials))
        old = [one for one in left if self._unrepeated[one.number] == 2]  # that process has had its time
        for trial in old:
            self._patiently(partial(self._repeat, trial._trial_id))
        return bool(old)

    def retry(self, trial: Trial, reason: str, begin: Callable[[Trial], None]) -> bool:
        """Let another trial repeat one that failed, if that has not happened too often."""
        identity = self._held[trial.number]
        frozen = self._patiently(lambda: self._storage.get_trial(identity))
        if Repeats.of(frozen).failed >= self._retries or frozen.state.is_finished():
            return False
        marks = {REASON: reason[: notes.LONGEST], GONE: AGAIN}
        self._patiently(lambda: self._end(trial.number, TrialState.FAIL, marks))
        self._patiently(lambda: self._repeat(identity))
        return True

    def _patiently(self, call: Callable[[], T]) -> T:
        """The answer of a database that may be away for some time."""
        until, pause = time.monotonic() + PATIENCE, 0.1
        while True:
            try:
                return call()
            except (StorageInternalError, SQLAlchemyError, OSError) as error:
                if time.monotonic() > until or not may_pass(error):
                    with explained(self._url):
                        raise
                logger.warning("the storage does not answer (%s); trying again", type(error).__name__)
                time.sleep(pause)
                pause = min(2 * pause, 2.0)


def own(frozen: FrozenTrial) -> Trial:
    """A trial of a study as a trial of ours."""
    state = {TrialState.COMPLETE: State.COMPLETE, TrialState.RUNNING: State.PENDING}
    noted = notes.read(frozen)
    trial = Trial(frozen.number, dict(frozen.params), state=state.get(frozen.state, State.FAILED))
    if noted:
        trial.info, trial.origin = noted[0].info, noted[0].origin
    if frozen.state is TrialState.COMPLETE:
        trial.value = frozen.value
    elif frozen.state.is_finished():
        trial.reason = str(frozen.system_attrs.get(REASON, f"it is {frozen.state.name}"))
    return trial


def _counts(trial: FrozenTrial) -> bool:
    """Whether a trial counts towards the budget."""
    return trial.state.is_finished() and not is_replaced(trial)


def _taken(trial: FrozenTrial) -> bool:
    """Whether it counts, or will when its run has evaluated it; of Optuna's own nobody knows."""
    return (trial.state is TrialState.RUNNING and leases.lease_of(trial) is not None) or _counts(trial)


def _is_waiting_retry(trial: FrozenTrial) -> bool:
    return trial.state is TrialState.WAITING and RETRY_OF in trial.system_attrs


def _place(trial: FrozenTrial) -> int:
    """Its number in the budget: of a repetition, that of the trial it repeats."""
    repeated = Repeats.of(trial).number
    return trial.number if repeated is None else repeated
