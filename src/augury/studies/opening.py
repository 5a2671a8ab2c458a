"""The study of a run: a new one, or one that is there, if it is of the same space and direction."""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import optuna
from optuna.exceptions import DuplicatedStudyError
from optuna.storages import BaseStorage
from optuna.study import Study

from augury._errors import DataError
from augury.maximizers import Domain
from augury.optimizer import Direction
from augury.state import describe_space
from augury.studies import notes
from augury.studies.sampler import AugurySampler, check_unconstrained
from augury.studies.spaces import distributions_of

ABOUT = "augury:study"  # attribute of a study: its space and its seed
MOMENT = 1.0  # seconds that a process has to write it into a study that it has created


def open_study(
    storage: BaseStorage,
    name: str,
    space: Domain,
    direction: Direction,
    sampler: AugurySampler,
    seed: int | None,
) -> tuple[Study, bool]:
    """The study of that name, and whether it is new. Without a seed, the sampler takes the study's."""
    new = False
    with _quietly():
        if not _is_there(storage, name):
            with contextlib.suppress(DuplicatedStudyError):  # another process was quicker
                optuna.create_study(storage=storage, study_name=name, direction=direction)
                new = True
        study = optuna.load_study(storage=storage, study_name=name, sampler=sampler)
    about = {} if new else _about(study, space, direction)
    if about and seed is None:
        sampler.seed = int(about["seed"])
    if not about:
        about = {"version": 1, "space": describe_space(space), "seed": sampler.seed}
        for key, piece in notes.pieces(ABOUT, json.dumps(about)):
            storage.set_study_system_attr(study._study_id, key, piece)
    return study, new


def _is_there(storage: BaseStorage, name: str) -> bool:
    try:
        storage.get_study_id_from_name(name)
    except KeyError:
        return False
    return True


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without what Optuna logs of its own affairs."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _about(study: Study, space: Domain, direction: Direction) -> Mapping[str, Any]:
    """What a study says about itself, which is nothing if no run has begun it; an error of another's."""
    directions = [one.name.lower() for one in study.directions]
    if directions != [direction]:
        raise _another(study, f"one to {direction}", f"one to {' and '.join(directions)}")
    trials = study.get_trials(deepcopy=False)
    check_unconstrained(trials)
    text = _text(study)
    until = time.monotonic() + MOMENT
    while text is None and not trials and time.monotonic() < until:  # another process may be creating it
        time.sleep(MOMENT / 20)
        text = _text(study)
    if text is None:
        known = distributions_of(space)
        for trial in trials:
            if any(known.get(name) != one for name, one in trial.distributions.items()):
                raise _another(study, "one of this space", f"trial {trial.number} of another")
        return {}
    about = json.loads(text)
    if about["space"] != json.loads(json.dumps(describe_space(space))):
        raise _another(study, "one of this space", "one of another")
    return dict(about)


def _text(study: Study) -> str | None:
    return notes.joined(ABOUT, study._storage.get_study_system_attrs(study._study_id))


def _another(study: Study, wanted: str, got: str) -> DataError:
    name = study.study_name
    return DataError(f"the study {name!r} must be {wanted}; got {got}. Give this run another name.")
