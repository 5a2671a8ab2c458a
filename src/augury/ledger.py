"""Where the trials of a run are; in memory, if nobody says otherwise."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from augury.optimizer import Optimizer
from augury.trial import State, Trial

MOST_RETRIES = 3  # of an evaluation whose worker died


class Ledger(Protocol):
    """Where the trials of a run are: in memory, or in a study."""

    @property
    def optimizer(self) -> Optimizer:
        """What suggests, and knows all trials."""

    @property
    def done(self) -> int:
        """How many evaluations have been made."""

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All of them."""

    def ask(self, wanted: int) -> list[Trial]:
        """So many trials, or fewer at the end; none while others evaluate the last ones."""

    def tell(self, trial: Trial, value: float | None, reason: str | None = None) -> Trial:
        """Record a value, or the reason why there is none; as it is recorded."""

    def lose(self, trial: Trial, reason: str, begin: Callable[[Trial], None]) -> Trial | None:
        """Let a trial whose worker died be evaluated again, at most three times; then it has failed."""

    def retry(self, trial: Trial, reason: str, begin: Callable[[Trial], None]) -> bool:
        """Let a trial that failed be evaluated again, if it may be."""

    def __enter__(self) -> Any: ...
    def __exit__(self, *raised: Any) -> None: ...
    def close(self) -> None:
        """Let go of what was opened; nothing is asked of it any more."""


class Memory:
    """The trials of a run that are kept nowhere."""

    def __init__(self, optimizer: Optimizer, budget: int, retries: int) -> None:
        self.optimizer, self._budget, self._retries = optimizer, budget, retries
        self._failed: Counter[int] = Counter()  # how often a trial was evaluated again
        self._lost: Counter[int] = Counter()  # how often a trial's worker died

    @property
    def done(self) -> int:
        """How many evaluations have been made."""
        return sum(trial.state is not State.PENDING for trial in self.optimizer.trials)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All of them."""
        return self.optimizer.trials

    def ask(self, wanted: int) -> list[Trial]:
        """So many trials, or fewer at the end."""
        left = self._budget - len(self.optimizer.trials)
        return self.optimizer.ask(int(min(wanted, left, max(1, self.optimizer.left)))) if left > 0 else []

    def tell(self, trial: Trial, value: float | None, reason: str | None = None) -> Trial:
        """Record a value, or the reason why there is none."""
        if reason is None:
            return self.optimizer.tell(trial, value)
        return self.optimizer.tell(trial, failed=True, reason=reason)

    def lose(self, trial: Trial, reason: str, begin: Callable[[Trial], None]) -> Trial | None:
        """Begin a trial again, at most three times."""
        self._lost[trial.number] += 1
        if self._lost[trial.number] > MOST_RETRIES:
            return self.tell(trial, None, reason)
        begin(trial)
        return None

    def retry(self, trial: Trial, reason: str, begin: Callable[[Trial], None]) -> bool:
        """Begin a trial that failed again, if it may be."""
        if self._failed[trial.number] >= self._retries:
            return False
        self._failed[trial.number] += 1
        begin(trial)
        return True

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *raised: Any) -> None:
        pass

    def close(self) -> None:
        """Nothing was opened."""
