"""The evaluations of a run that are under way, here or elsewhere."""

import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from augury._errors import UnsupportedError
from augury.executors.processes import Workers, packed, unpacked
from augury.trial import Trial

LOOK = 1.0  # seconds after which a run looks around, though no evaluation has ended


@dataclass(frozen=True)
class Outcome:
    """How an evaluation ended: with a value, or for a reason; `lost` if its worker died."""

    value: Any = None
    reason: str | None = None
    lost: bool = False
    error: BaseException | None = None


class Crew:
    """Evaluates a function: in this process, one point after the other.

    Args:
        function: of a dict of parameters.
    """

    here = True  # an interrupt is the function's

    def __init__(self, function: Callable[[dict[str, Any]], Any]) -> None:
        self.function = function
        self.running: list[Trial] = []  # in the order they were begun
        self.seconds = 0.0  # that the last suggestion took

    @staticmethod
    def of(
        function: Callable[[dict[str, Any]], Any],
        workers: int | None,
        executor: Executor | None,
        timeout: float | None,
    ) -> "Crew":
        """What evaluates a function with these settings of a run."""
        if executor is not None:
            if not callable(getattr(executor, "submit", None)):
                raise UnsupportedError(
                    "executor must be one of concurrent.futures, with a submit method; got "
                    f"{type(executor).__name__}. Use workers=4 for local processes."
                )
            if timeout is not None:
                raise UnsupportedError(
                    "trial_timeout needs processes that can be ended; got an executor, whose cannot. "
                    "Use workers= without executor=, or end the evaluation inside the function."
                )
            if isinstance(executor, ProcessPoolExecutor):
                function = _Travelling(function)
            getattr(executor, "check", lambda function: None)(function)
            return Elsewhere(function, executor, workers, own=False)
        if (workers or 1) == 1 and timeout is None:
            return Crew(function)
        local = Workers(workers or 1, timeout=timeout)
        try:
            local.check(function)  # one that cannot travel is said at once
        except BaseException:
            local.stop()
            raise
        return Elsewhere(function, local, workers or 1, own=True)

    @property
    def free(self) -> bool:
        """Whether another evaluation may begin."""
        return not self.running

    def begin(self, trial: Trial) -> None:
        """Evaluate a trial."""
        self.running.append(trial)

    def wait(self, *, ordered: bool) -> list[tuple[Trial, Outcome]]:
        """Evaluations that have ended, as they did, or in the order they were begun.

        None if none is under way, or for a second none has ended.
        """
        if not self.running:
            return []
        trial = self.running[0]
        try:
            outcome = Outcome(self.function(dict(trial.params)))
        except Exception as error:
            outcome = Outcome(reason=f"{type(error).__name__}: {error}", error=error)
        return [(self.running.pop(0), outcome)]

    def stop(self) -> None:
        """End what is under way, where that can be done."""

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        pass


class Elsewhere(Crew):
    """Evaluates a function by an executor.

    Args:
        function: of a dict of parameters.
        executor: what evaluates.
        count: how many evaluations it is given at a time; None for as many as it has workers.
        own: whether it ends with the run.
    """

    here = False

    def __init__(
        self,
        function: Callable[[dict[str, Any]], Any],
        executor: Executor,
        count: int | None,
        *,
        own: bool,
    ) -> None:
        super().__init__(function)
        self._executor, self._count, self._own = executor, count, own
        self._futures: dict[int, Future[Any]] = {}  # by number
        self._ended: dict[int, int] = {}  # by number: the how-manieth to end
        self._count_ended, self._some_ended = itertools.count(), threading.Event()

    @property
    def free(self) -> bool:
        """Whether another evaluation may begin."""
        return len(self.running) < (self._count or _size(self._executor))

    def begin(self, trial: Trial) -> None:
        """Hand a trial over."""
        future = self._executor.submit(self.function, dict(trial.params))
        self.running.append(trial)
        self._futures[trial.number] = future
        future.add_done_callback(lambda _: self._end(trial.number))

    def _end(self, number: int) -> None:
        """Called where an evaluation ends, in whichever thread."""
        self._ended[number] = next(self._count_ended)
        self._some_ended.set()

    def wait(self, *, ordered: bool) -> list[tuple[Trial, Outcome]]:
        """Evaluations that have ended, as they did, or in the order they were begun."""
        if not self.running:
            return []
        self._some_ended.wait(timeout=LOOK)
        self._some_ended.clear()
        if ordered:
            ended = list(itertools.takewhile(lambda t: t.number in self._ended, self.running))
        else:
            ended = [trial for trial in self.running if trial.number in self._ended]
            ended.sort(key=lambda trial: self._ended[trial.number])
        return [self._outcome(trial) for trial in ended]

    def _outcome(self, trial: Trial) -> tuple[Trial, Outcome]:
        self.running.remove(trial)
        future = self._futures.pop(trial.number)
        del self._ended[trial.number]
        try:
            return trial, Outcome(future.result())
        except (CancelledError, BrokenExecutor) as error:
            return trial, Outcome(reason=f"its worker is gone ({type(error).__name__})", lost=True)
        except Exception as error:
            own = getattr(error, "says_all", False)
            reason = str(error) if own else f"{type(error).__name__}: {error}"
            return trial, Outcome(reason=reason, lost=getattr(error, "lost", False), error=error)

    def stop(self) -> None:
        """End what is under way: at once in processes of our own, else what has not begun."""
        for future in self._futures.values():
            future.cancel()
        getattr(self._executor, "stop", lambda: None)()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.stop()
        if self._own:
            self._executor.shutdown()


class _Travelling:
    """A function that goes to other processes by cloudpickle, as those of notebooks must."""

    def __init__(self, function: Callable[[dict[str, Any]], Any]) -> None:
        self._job = packed(function, (), {})

    def __call__(self, params: dict[str, Any]) -> Any:
        return unpacked(self._job, params)


def _size(executor: Executor) -> int:
    """How many evaluations an executor makes at a time now, if it says so."""
    return int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1)
