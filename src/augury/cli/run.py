"""`augury run`: a run that a file describes."""

import contextlib
import logging
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from augury import run
from augury.cli.spec import read_spec
from augury.executors.processes import Workers
from augury.studies.storages import without_password
from augury.trial import State


def run_spec(path: Path) -> int:
    """Run what is left of it; the exit status."""
    spec = read_spec(path)
    call = run.maximize if spec.direction == "maximize" else run.minimize
    settings = dict(spec.settings)
    timeout, count = settings.pop("trial_timeout", None), settings.pop("workers", 1)
    with _heard(), Workers(count, timeout=timeout) as executor:  # what is started ends with this process
        settings |= {"executor": executor, "workers": count}
        result = call(spec.function, spec.space, spec.budget, **settings)
    failed = sum(trial.state is State.FAILED for trial in result.trials)
    done = sum(trial.state is not State.PENDING for trial in result.trials)
    print(f"{done} of {spec.budget} evaluations, {failed} failed; {result.stopped_because}.")
    if result.best is not None:
        print(f"best value  {result.best.value!r}  (trial {result.best.number})")
        for name, value in result.best.params.items():
            print(f"  {name} = {value!r}")
    name = settings.get("name", "augury")
    print(f"study       {name!r} in {without_password(settings['storage'])}")
    if result.stopped_because == "it was interrupted":
        print(f"go on with  augury run {shlex.quote(str(path))}", file=sys.stderr)
        return 130
    return 0 if result.best is not None else 1


@contextlib.contextmanager
def _heard() -> Iterator[None]:
    """Warnings of failed and lost trials, and of an interrupt, on standard error."""
    logger, handler = logging.getLogger("augury"), _Lines()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Lines(logging.Handler):
    """A line for each warning, above the bar of progress."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write it."""
        tqdm.write(f"augury: {record.getMessage()}", file=sys.stderr)
