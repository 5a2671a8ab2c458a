"""The saved state of an optimizer: JSON text, checked when it is read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from augury._errors import AuguryError, DataError
from augury.algorithms import TABLE, Algorithm, resolve
from augury.maximizers import Domain
from augury.space import Pool, Space
from augury.trial import State, Trial

FORMAT = "augury-optimizer"
VERSION = 1


@dataclass(frozen=True)
class Saved:
    """What a saved state holds."""

    space: Domain
    algorithm: Algorithm
    settings: Mapping[str, Any]
    identity: str
    trials: list[Trial]
    order: list[int]
    queue: list[Mapping[str, Any]]


def dump(
    *,
    space: Domain,
    algorithm: Algorithm,
    settings: Mapping[str, Any],
    identity: str,
    trials: Sequence[Trial],
    order: Sequence[int],
    queue: Sequence[Mapping[str, Any]],
) -> str:
    """The state as text."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "space": _describe_space(space),
        "algorithm": algorithm.describe(),
        "settings": dict(settings),
        "identity": identity,
        "trials": [trial.to_dict() for trial in trials],
        "order": list(order),
        "queue": [dict(params) for params in queue],
    }
    return json.dumps(content, allow_nan=False)


def load(text: str, space: Domain | None, algorithm: str | Algorithm | None) -> Saved:
    """The state that `dump` wrote."""
    try:
        content = json.loads(text)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise corrupt("it is not the state of an optimizer")
        if content["version"] > VERSION:
            raise DataError(
                f"a state must have version {VERSION} or lower; got {content['version']}. "
                "Install a newer Augury to read it."
            )
        settings = dict(content["settings"])
        settings["initial"] = tuple(settings["initial"])
        identity = str(content["identity"])
        trials = [Trial.from_dict(item, identity) for item in content["trials"]]
        saved = Saved(
            space=_matching_space(content["space"], space),
            algorithm=_matching_algorithm(content["algorithm"], algorithm),
            settings=settings,
            identity=identity,
            trials=trials,
            order=[int(number) for number in content["order"]],
            queue=[dict(params) for params in content["queue"]],
        )
    except AuguryError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise corrupt(f"{type(error).__name__}: {error}") from error
    finished = [trial.number for trial in trials if trial.state is not State.PENDING]
    if [t.number for t in trials] != list(range(len(trials))) or sorted(saved.order) != finished:
        raise corrupt("its trials and their order do not belong together")
    return saved


def corrupt(what: str) -> DataError:
    """The error for a text that cannot be read."""
    return DataError(f"a state must be text that to_json() wrote; got one where {what}. Use a backup.")


def _describe_space(space: Domain) -> dict[str, Any]:
    if isinstance(space, Pool):
        return {"pool": space.fingerprint()}
    return space.to_dict()


def _matching_space(described: Mapping[str, Any], given: Domain | None) -> Domain:
    if "pool" not in described:
        space = Space.from_dict(described)
        if given is not None and given != space:
            raise DataError(
                f"the given space must be the saved one, {space!r}; got {given!r}. Leave it out."
            )
        return space
    if not isinstance(given, Pool) or given.fingerprint() != described["pool"]:
        raise DataError(
            f"this state needs the pool it was made with, of shape {described['pool']['shape']}; "
            f"got {given!r}. Pass it as from_json(text, space=pool)."
        )
    return given


def _matching_algorithm(described: Mapping[str, Any], given: str | Algorithm | None) -> Algorithm:
    name = described["name"]
    if given is None:
        if name in TABLE:
            return resolve(name)
        raise DataError(
            f"this state was made with an algorithm of its own parts, {dict(described)}; got none. "
            "Pass it as from_json(text, algorithm=...)."
        )
    algorithm = resolve(given)
    expected = {key: value for key, value in described.items() if key != "maximizer"}
    actual = {key: value for key, value in algorithm.describe().items() if key != "maximizer"}
    if expected != actual:
        raise DataError(
            f"the given algorithm must be the saved one, {expected}; got {actual}. Pass that one."
        )
    return algorithm
