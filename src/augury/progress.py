"""A progress bar: evaluations, best value, seconds per suggestion."""

from types import TracebackType
from typing import Protocol, Self

from tqdm import tqdm

from augury._errors import DataError
from augury.optimizer import Optimizer


class Run(Protocol):
    """What has an optimizer; to look at it may take some time."""

    @property
    def optimizer(self) -> Optimizer:
        """What knows the best value."""


class Progress:
    """A bar on standard error, or nothing at all."""

    def __init__(self, total: int, shown: bool, done: int = 0) -> None:
        self._bar = tqdm(total=total, initial=done, unit="eval", dynamic_ncols=True) if shown else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def catch_up(self, done: int) -> None:
        """So many evaluations have been made, also by others."""
        if self._bar is not None and done > self._bar.n:
            self._bar.update(done - self._bar.n)

    def update(self, run: Run, seconds: float) -> None:
        """One more evaluation, whose point took `seconds` to suggest."""
        if self._bar is None:
            return
        try:
            best = f"{run.optimizer.best.value:.6g}"
        except DataError:
            best = "none yet"
        self._bar.set_postfix_str(f"best {best}, {seconds:.2f} s/suggestion", refresh=False)
        self._bar.update()
