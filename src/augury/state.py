"""The saved state of an optimizer: JSON text, checked when it is read.

JSON has no NaN and no infinity; they are written as {"$float": "nan"}.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from augury._errors import DataError, UnsupportedError
from augury.algorithm import TABLE, Algorithm, resolve
from augury.maximizers import Domain
from augury.space import Pool, Space
from augury.trial import State, Trial

FORMAT = "augury-optimizer"
VERSION = 1
SETTINGS = {"direction", "seed", "initial", "budget", "duplicates", "device"}
NOT_FINITE = "$float"


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
    trials: Sequence[Mapping[str, Any]],
    order: Sequence[int],
    queue: Sequence[Mapping[str, Any]],
) -> str:
    """The state as text."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "space": describe_space(space),
        "algorithm": algorithm.describe(),
        "settings": dict(settings),
        "identity": identity,
        "trials": list(trials),
        "order": list(order),
        "queue": [dict(params) for params in queue],
    }
    return json.dumps(to_json(content), allow_nan=False)


def to_json(value: Any) -> Any:
    """What strict JSON can hold; of the parts' diagnostics, arrays become lists and objects text."""
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return to_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return {NOT_FINITE: str(value)}
    return value if isinstance(value, None | bool | int | float | str) else str(value)


def from_json(item: dict[str, Any]) -> Any:
    """What `to_json` wrote for a number that is not finite; anything else as it is."""
    return float(item[NOT_FINITE]) if item.keys() == {NOT_FINITE} else item


def load(text: str, space: Domain | None, algorithm: str | Algorithm | None) -> Saved:
    """The state that `dump` wrote."""
    try:
        content = json.loads(text, object_hook=from_json)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise corrupt("it is not the state of an optimizer")
        version, identity = content["version"], content["identity"]
        if type(version) is not int or version < 1 or not isinstance(identity, str):
            raise corrupt(f"the version is {version!r} and the identity {identity!r}")
        if version > VERSION:
            raise DataError(
                f"a state must have version {VERSION} or lower; got {version}. "
                "Install a newer Augury to read it."
            )
        settings = dict(content["settings"])
        if settings.keys() != SETTINGS or settings["seed"] is None:
            raise corrupt(f"the settings are {settings}")
        settings["initial"] = tuple(settings["initial"])
        trials = [Trial.from_dict(item, identity) for item in content["trials"]]
        domain = _matching_space(content["space"], space)
        saved = Saved(
            space=domain,
            algorithm=_matching_algorithm(content["algorithm"], algorithm, domain),
            settings=settings,
            identity=identity,
            trials=trials,
            order=list(content["order"]),
            queue=[dict(params) for params in content["queue"]],
        )
    except (DataError, UnsupportedError):
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise corrupt(f"{type(error).__name__}: {error}") from error
    if not all(_consistent(trial) for trial in trials):
        raise corrupt("the value, the reason or the info of a trial does not fit its state")
    finished = [trial.number for trial in trials if trial.state is not State.PENDING]
    whole = all(type(number) is int for number in saved.order)
    if (
        [t.number for t in trials] != list(range(len(trials)))
        or not whole
        or sorted(saved.order) != finished
    ):
        raise corrupt("its trials and their order do not belong together")
    return saved


def _consistent(trial: Trial) -> bool:
    eta = trial.info.get("eta", 1.0)
    if not isinstance(trial.reason, str | None) or not isinstance(eta, int | float):
        return False
    if trial.state is State.COMPLETE:
        return trial.value is not None and math.isfinite(trial.value)
    return trial.state is State.FAILED or trial.value is None


def corrupt(what: str) -> DataError:
    """The error for a text that cannot be read."""
    return DataError(
        f"a state must be text that to_json() wrote; got one where {what.rstrip('.')}. Use a backup."
    )


def describe_space(space: Domain) -> dict[str, Any]:
    """A space for JSON; of a pool its fingerprint."""
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


def _matching_algorithm(
    described: Mapping[str, Any], given: str | Algorithm | None, space: Domain
) -> Algorithm:
    """The given algorithm, or that of the saved name, if it has the parts that the text describes."""
    name = described["name"]
    if given is None and name not in TABLE:
        raise DataError(
            f"this state was made with an algorithm of its own parts, {dict(described)}; got none. "
            "Pass it as from_json(text, algorithm=...)."
        )
    algorithm = resolve(name if given is None else given)
    try:
        actual = to_json(algorithm.on(space).describe())
    except UnsupportedError as error:
        actual = str(error)
    if to_json(described) != actual:
        raise DataError(
            f"the algorithm must be the saved one, {dict(described)}; got {actual}. "
            "Pass that one as from_json(text, algorithm=...)."
        )
    return algorithm
