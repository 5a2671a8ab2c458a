"""What is known so far: trials in the order they were told, and the data that models are fitted to."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from augury._errors import DataError
from augury.core.data import Data
from augury.maximizers import Domain
from augury.space import Pool
from augury.trial import Origin, State, Trial

LARGEST = 1e150  # values are clipped to it for the model, where their squares must not overflow


class History:
    """Trials by number, the order in which they finished, and their encoded points."""

    def __init__(self, space: Domain, sign: float) -> None:
        self.space = space
        self.sign = sign  # +1 to maximize, −1 to minimize: inside, everything maximizes
        self.trials: dict[int, Trial] = {}  # by number, in the order they came
        self.next_number = 0
        self.order: list[int] = []  # numbers of finished trials, as they were told
        self.params: dict[int, dict[str, Any]] = {}  # as asked or told, whatever happens to the trials
        self._rows: dict[int, np.ndarray] = {}
        self._indices: dict[int, int | None] = {}

    def add(self, trial: Trial) -> None:
        """Register a trial under its number."""
        row = self.space.encode(trial.params)
        self.trials[trial.number] = trial
        self.next_number = trial.number + 1
        self.params[trial.number] = dict(trial.params)
        self._rows[trial.number] = row
        self._indices[trial.number] = self._index(trial.params, row)

    def forget(self, numbers: Iterable[int]) -> None:
        """Drop trials that have not been told."""
        for number in list(numbers):
            for record in (self.trials, self.params, self._rows, self._indices):
                del record[number]

    def saved(self) -> list[dict[str, Any]]:
        """The trials as the JSON state holds them."""
        return [
            trial.to_dict() | {"params": self.params[number]} for number, trial in self.trials.items()
        ]

    def _index(self, params: Mapping[str, Any], row: np.ndarray) -> int | None:
        if isinstance(self.space, Pool):
            return int(params["index"])
        indices = self.space.index_of(row[None])
        return None if indices is None else int(indices[0])

    def finish(self, trial: Trial, value: float | None, reason: str | None) -> None:
        """Record the outcome of a trial; a value that is not finite is a failure."""
        trial.value = value
        trial.reason = reason
        if reason is None and value is not None and not math.isfinite(value):
            trial.reason = f"the value is {value}"
        trial.state = State.COMPLETE if trial.reason is None else State.FAILED
        self.order.append(trial.number)

    @property
    def taken(self) -> frozenset[int]:
        """Indices of all points of a finite space that were asked or told."""
        return frozenset(index for index in self._indices.values() if index is not None)

    @property
    def pending(self) -> Float[np.ndarray, "p D"]:
        """The points that are being evaluated, in the order they were asked."""
        return self._matrix([n for n, trial in self.trials.items() if trial.state is State.PENDING])

    @property
    def asked(self) -> Float[np.ndarray, "n D"]:
        """All points, finished or not."""
        return self._matrix(self.trials)

    def _matrix(self, numbers: Any) -> np.ndarray:
        rows = [self._rows[number] for number in numbers]
        return np.stack(rows) if rows else np.empty((0, self.space.dim))

    def count(self, origin: Origin, *, finished: bool = False) -> int:
        """How many trials have that origin."""
        return sum(
            t.origin is origin and not (finished and t.state is State.PENDING)
            for t in self.trials.values()
        )

    @property
    def observations(self) -> int:
        """Observations that a model can be fitted to; none before the first finite value."""
        return len(self.order) if any(self._is_complete(n) for n in self.order) else 0

    def data(self, first: int | None = None) -> Data:
        """The (first) observations, to be maximized; a failure counts as the worst of their values.

        Left out, a failed point would be proposed again for ever. Without any finite value there is
        no worst, and no data.
        """
        numbers = self.order[:first]
        complete = [n for n in numbers if self._is_complete(n)]
        if not complete:
            return Data.of(np.empty((0, self.space.dim)), np.empty(0), self.space.groups)
        worst = min(self._signed(n) for n in complete)
        y = [self._signed(n) if self._is_complete(n) else worst for n in numbers]
        return Data.of(self._matrix(numbers), np.clip(y, -LARGEST, LARGEST), self.space.groups)

    def top(self, count: int) -> Float[np.ndarray, "k D"]:
        """The points of the best values, at most `count`."""
        ranked = sorted(self.complete, key=lambda t: -self._signed(t.number))
        return self.rows(ranked[:count])

    def improvements(self, meant: Callable[[int], bool]) -> list[bool]:
        """Of some suggestions of the model, in the order they finished: was it the best so far?

        Args:
            meant: whether one counts, by its number among them, from 0.
        """
        modelled = (n for n, trial in self.trials.items() if trial.origin is Origin.MODEL)
        some = {n for i, n in enumerate(modelled) if meant(i)}
        improved, best = [], -math.inf
        for number in self.order:
            value = self._signed(number) if self._is_complete(number) else -math.inf
            if number in some:
                improved.append(value > best)
            best = max(best, value)
        return improved

    def rows(self, trials: list[Trial]) -> Float[np.ndarray, "n D"]:
        """The encoded points of some trials."""
        return self._matrix([t.number for t in trials])

    @property
    def complete(self) -> list[Trial]:
        """The trials that have a finite value, in the order they were told."""
        return [self.trials[n] for n in self.order if self._is_complete(n)]

    def best(self, without: Collection[int] = ()) -> Trial:
        """The best observed trial, but for some numbers; the first of equals."""
        complete = [trial for trial in self.complete if trial.number not in without]
        if not complete:
            raise DataError(
                "best needs at least one finished evaluation with a finite value; got none. "
                "Tell a value first."
            )
        return max(complete, key=lambda t: (self._signed(t.number), -t.number))

    def _is_complete(self, number: int) -> bool:
        return self.trials[number].state is State.COMPLETE

    def _signed(self, number: int) -> float:
        value = self.trials[number].value
        assert value is not None
        return self.sign * value
