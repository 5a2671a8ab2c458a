"""Minimize or maximize a function."""

import contextlib
import logging
import math
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from augury._checks import check_count, check_limit, check_retries, check_value
from augury._errors import DataError, SpaceExhausted, UnsupportedError
from augury.algorithm import Algorithm
from augury.core.precision import Device
from augury.executors.crew import Crew, Outcome
from augury.executors.processes import MistakeError
from augury.ledger import Ledger, Memory
from augury.maximizers import Domain
from augury.maximizers.base import check_domain
from augury.model import Duplicates
from augury.optimizer import Direction, Optimizer
from augury.progress import Progress
from augury.trial import State, Trial

logger = logging.getLogger("augury")

WAIT = 0.2  # seconds between two looks at what other processes evaluate
Function = Callable[[dict[str, Any]], float]
Callback = Callable[[Optimizer, Trial], object]


@dataclass(frozen=True)
class Result:
    """How a run ended. `best` is None if no evaluation succeeded."""

    best: Trial | None
    trials: tuple[Trial, ...]
    optimizer: Optimizer
    stopped_because: str

    def __repr__(self) -> str:
        if self.best is None:
            return f"Result(no evaluation succeeded; {self.stopped_because})"
        return (
            f"Result(value={self.best.value!r}, params={dict(self.best.params)!r}, "
            f"{len(self.trials)} trials; {self.stopped_because})"
        )


class Settings(TypedDict, total=False):
    """The keyword arguments of :func:`minimize` and :func:`maximize`."""

    algorithm: str | Algorithm
    seed: int | None
    batch: int | None
    workers: int | None
    executor: Executor | None
    trial_timeout: float | None
    initial: int | tuple[str, int] | None
    callbacks: Iterable[Callback]
    target: float | None
    max_seconds: float | None
    duplicates: Duplicates
    device: Device
    progress: bool | None
    retries: int
    storage: Any
    name: str


def minimize(function: Function, space: Domain, budget: int, **settings: Unpack[Settings]) -> Result:
    """Find parameters where `function` is small, with `budget` evaluations.

    `function` receives the parameters as one dict and returns a number. An exception or a value that
    is not finite is a failed evaluation: the run goes on and avoids the place. Ctrl-C ends the run
    and returns what was found.

    Args:
        function: the function to minimize.
        space: a :class:`Space` or a :class:`Pool`.
        budget: the number of evaluations.
        algorithm: a name or an :class:`Algorithm`; "auto" by default.
        seed: decides the result; None draws one.
        batch: points asked together; the next ones are asked when all are told, so that the result
            does not depend on the number of workers. None asks for a point whenever a worker is free;
            the order in which evaluations end then matters.
        workers: how many evaluations run at a time: 1 in this process, more in processes of their own;
            with an `executor`, how many it is given at a time.
        executor: evaluates the function instead, any of `concurrent.futures`. Threads are for functions
            that wait.
        trial_timeout: seconds after which an evaluation is ended and counts as failed; the function then
            always runs in another process.
        initial: initial design, as in :class:`Optimizer`.
        callbacks: called with the optimizer and the finished trial after each evaluation; one that
            returns True ends the run.
        target: stop when a value as good as this is found; the rest of its batch is still evaluated. A
            study that has one already is not gone on with.
        max_seconds: ask for nothing after so many seconds; what was asked is evaluated.
        duplicates: "avoid" or "allow", as in :class:`Optimizer`.
        device: "cpu" or "gpu".
        progress: True shows a bar, False none; None shows one on a terminal.
        retries: how often an evaluation that failed is made again, before it counts as failed.
        storage: keep the trials in a study of Optuna's: the path of an SQLite file, `journal:///path`, or
            the URL of a database. The same call again goes on where the last one ended, and several
            processes that make it at the same time share the budget.
        name: of the study in the storage.
    """
    return _checked(function, space, budget, "minimize", settings)


def maximize(function: Function, space: Domain, budget: int, **settings: Unpack[Settings]) -> Result:
    """Find parameters where `function` is large; the arguments are those of :func:`minimize`."""
    return _checked(function, space, budget, "maximize", settings)


def _checked(
    function: Function, space: Domain, budget: int, direction: Direction, settings: Settings
) -> Result:
    unknown = sorted(settings.keys() - Settings.__annotations__.keys())
    if unknown:
        raise UnsupportedError(
            f"a run takes the settings {', '.join(Settings.__annotations__)}; got "
            f"{', '.join(unknown)}. Leave it out, or correct its name."
        )
    return _run(function, space, budget, direction=direction, **settings)


def _run(
    function: Function,
    space: Domain,
    budget: int,
    *,
    direction: Direction,
    algorithm: str | Algorithm = "auto",
    seed: int | None = None,
    batch: int | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    trial_timeout: float | None = None,
    initial: int | tuple[str, int] | None = None,
    callbacks: Iterable[Callback] = (),
    target: float | None = None,
    max_seconds: float | None = None,
    duplicates: Duplicates = "avoid",
    device: Device = "cpu",
    progress: bool | None = None,
    retries: int = 0,
    storage: Any = None,
    name: str = "augury",
) -> Result:
    if not callable(function):
        raise UnsupportedError(
            f"function must be callable with a dict of parameters; got {type(function).__name__}. "
            "Pass the function itself, without calling it."
        )
    check_domain(space)
    if budget is None:
        raise UnsupportedError(
            "budget must be a whole number of at least 1; got None. Say how many evaluations to make."
        )
    batch = check_count("batch", batch)
    workers = check_count("workers", workers)
    callbacks = _check_callbacks(callbacks)
    check_limit("target", target)
    check_limit("max_seconds", max_seconds)
    check_limit("trial_timeout", trial_timeout, positive=True)
    check_retries(retries)
    until = math.inf if max_seconds is None else time.monotonic() + max_seconds
    ending = Ending(until, f"max_seconds={max_seconds} have passed", target, direction, callbacks)
    crew = Crew.of(function, workers, executor, trial_timeout)  # of one that cannot be, no study is made
    ledger = _ledger(
        storage, name, space, algorithm, direction, seed, initial, budget, duplicates, device, retries
    )
    shown = _on_terminal() if progress is None else progress
    with contextlib.closing(ledger):
        with (
            ledger,
            Progress(budget, shown, ledger.done) as bar,
            crew,
        ):
            try:
                reason = _work(ledger, crew, bar, batch, budget, ending)
            except SpaceExhausted:
                reason = f"all {space.size} points of the space have been evaluated"
            except KeyboardInterrupt:
                reason = "it was interrupted"
                crew.stop()
            except BrokenExecutor as error:  # what was found must not be lost with it
                reason = f"its executor is broken: {error}".rstrip(".")
                warnings.warn(f"the run ends: {reason}. Use workers=, which replaces them.", stacklevel=3)
        return _result(ledger, reason)


def _ledger(
    storage: Any,
    name: str,
    space: Domain,
    algorithm: str | Algorithm,
    direction: Direction,
    seed: int | None,
    initial: int | tuple[str, int] | None,
    budget: int,
    duplicates: Duplicates,
    device: Device,
    retries: int,
) -> Ledger:
    if storage is None:
        optimizer = Optimizer(
            space, algorithm, direction, seed, initial, budget, duplicates=duplicates, device=device
        )
        return Memory(optimizer, budget, retries)
    from augury.studies.book import Book  # what nobody needs without a storage is not imported

    check_count("budget", budget)
    return Book(
        storage,
        name,
        space,
        direction,
        budget,
        algorithm,
        seed,
        retries=retries,
        initial=initial,
        duplicates=duplicates,
        device=device,
    )


@dataclass(frozen=True)
class Ending:
    """When a run ends before its budget."""

    until: float
    because: str  # of a run that came so far
    target: float | None
    direction: Direction
    callbacks: tuple[Callback, ...]

    def after(self, ledger: Ledger, trial: Trial) -> str | None:
        """Why the run should end after this trial, if it should."""
        try:
            asked_to_stop = [callback(ledger.optimizer, trial) is True for callback in self.callbacks]
        except Exception as error:  # what was found must not be lost with it
            warnings.warn(f"a callback raised {error!r}; the run ends here.", stacklevel=6)
            return f"a callback raised {error!r}"
        if any(asked_to_stop):
            return "a callback asked to stop"
        return self._reached([trial])

    def before(self, ledger: Ledger) -> str | None:
        """Why the run should not begin, if it should not: an earlier one has found what it looks for."""
        return None if self.target is None else self._reached(ledger.trials)

    def _reached(self, trials: Iterable[Trial]) -> str | None:
        if self.target is None:
            return None
        sign = 1.0 if self.direction == "maximize" else -1.0
        reached = any(sign * float(t.value or 0.0) >= sign * self.target for t in _complete(trials))
        return f"the target {self.target} was reached" if reached else None


def _work(
    ledger: Ledger, crew: Crew, bar: Progress, batch: int | None, budget: int, ending: Ending
) -> str:
    """Ask, evaluate and tell until the end; why it ended."""
    stop = ending.before(ledger)
    spent = f"the budget of {budget} evaluations is spent"
    while True:
        if stop is None and time.monotonic() >= ending.until:
            stop = ending.because if ledger.done < budget else spent
        try:
            if stop is None:
                _ask(ledger, crew, batch)
            finished = crew.wait(ordered=batch is not None)
            with _interrupts_wait():
                for trial, outcome in finished:
                    told = _tell(ledger, crew, trial, outcome)
                    if told is not None:
                        bar.update(ledger, crew.seconds)
                        stop = ending.after(ledger, told) or stop
        except KeyboardInterrupt as error:  # what runs elsewhere goes on, unless it comes again
            if crew.here or stop is not None or not crew.running or isinstance(error, _SecondInterrupt):
                raise
            stop = "it was interrupted"
            logger.warning("interrupted: %d evaluations are finished first", len(crew.running))
            continue
        if not crew.running:
            if stop is not None:
                return stop
            if not finished:  # others evaluate the last ones, if any
                done = ledger.done
                bar.catch_up(done)
                if done >= budget:
                    return spent
                time.sleep(WAIT)


class _SecondInterrupt(KeyboardInterrupt):
    """Ctrl-C for the second time, while the first one waits."""


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Let Ctrl-C interrupt what comes after this; for the second time it interrupts this too."""
    whole = signal.getsignal(signal.SIGINT)
    here = threading.current_thread() is threading.main_thread()  # the only one that is interrupted
    if not here or whole is not signal.default_int_handler:
        yield
        return
    first: list[int] = []

    def handle(number: int, _: object) -> None:
        if first:
            raise _SecondInterrupt
        first.append(number)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, whole)
    if first:
        raise KeyboardInterrupt


def _result(ledger: Ledger, reason: str) -> Result:
    trials = ledger.trials
    complete = _complete(trials)
    failed = [t for t in trials if t.state is State.FAILED]
    if failed and not complete:
        warnings.warn(
            f"none of {len(failed)} evaluations succeeded; the last said: {failed[-1].reason}.",
            stacklevel=5,
        )
    optimizer = ledger.optimizer
    sign = -1.0 if optimizer.direction == "maximize" else 1.0
    # of these trials: the optimizer may know pruned ones, and what others have told since
    best = min(complete, key=lambda t: (sign * float(t.value or 0.0), t.number), default=None)
    return Result(best, trials, optimizer, reason)


def _complete(trials: Iterable[Trial]) -> list[Trial]:
    return [t for t in trials if t.state is State.COMPLETE and t.value is not None]


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()  # a service may have none


def _check_callbacks(callbacks: Iterable[Callback]) -> tuple[Callback, ...]:
    given = tuple(callbacks) if isinstance(callbacks, Iterable) else (None,)
    if not all(callable(callback) for callback in given):
        raise UnsupportedError(
            f"callbacks must be a list of functions; got {callbacks!r}. Write callbacks=[function]."
        )
    return given


def _ask(ledger: Ledger, crew: Crew, batch: int | None) -> None:
    """Hand over what there is room for: a batch after the last one, else a point per free worker."""
    if batch is not None and crew.running:
        return
    while crew.free if batch is None else not crew.running:
        asked_at = time.monotonic()
        try:
            trials = ledger.ask(batch or 1)
        except SpaceExhausted:
            if not crew.running:
                raise
            return
        if not trials:
            return
        crew.seconds = (time.monotonic() - asked_at) / len(trials)
        for trial in trials:
            crew.begin(trial)


def _tell(ledger: Ledger, crew: Crew, trial: Trial, outcome: Outcome) -> Trial | None:
    """Record how an evaluation ended; None if its worker died and it is made again."""
    mistake = outcome.error
    if isinstance(mistake, MistakeError) and (mistake.always or not _complete(ledger.trials)):
        raise mistake
    if outcome.lost and outcome.reason is not None:
        logger.warning("trial %d lost its worker: %s", trial.number, outcome.reason)
        return ledger.lose(trial, outcome.reason, crew.begin)
    if outcome.reason is None:
        try:
            value = check_value(outcome.value)
            bad = None if math.isfinite(value) else f"the value is {value}"
            again = bad is not None and ledger.retry(trial, bad, crew.begin)
            return None if again else ledger.tell(trial, value)
        except DataError as error:  # what the function returned is no number
            outcome = Outcome(reason=str(error))
    shown = None if getattr(outcome.error, "says_all", False) else outcome.error
    logger.warning("trial %d failed: %s", trial.number, outcome.reason, exc_info=shown)
    assert outcome.reason is not None
    if ledger.retry(trial, outcome.reason, crew.begin):
        return None
    return ledger.tell(trial, None, outcome.reason)
