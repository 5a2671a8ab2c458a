"""`augury run`: a run that a file describes."""

import shlex
import sys
from pathlib import Path

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
    with Workers(count, timeout=timeout) as executor:  # what is started ends with this process
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
