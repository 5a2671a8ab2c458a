"""What the sampler notes on a trial of a study: its point, at once, and why it is that point."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from optuna.study import Study
from optuna.trial import FrozenTrial

from augury.state import from_json, to_json
from augury.trial import Origin

KEY = "augury"
LONGEST = 2000  # characters of an attribute; some databases hold 2045


@dataclass(frozen=True)
class Note:
    """A suggestion: Optuna's numbers of its parameters, where it came from, what the model believed."""

    numbers: Mapping[str, float]
    origin: Origin
    info: Mapping[str, Any] = field(default_factory=dict)


def write(study: Study, trial: FrozenTrial, note: Note, part: int) -> None:
    """Note a suggestion for some parameters; others see it before the objective asks for them."""
    content = {"params": note.numbers, "origin": str(note.origin), "info": note.info}
    text = json.dumps(to_json(content), allow_nan=False)
    for key, piece in pieces(f"{KEY}:{part}", text):
        study._storage.set_trial_system_attr(trial._trial_id, key, piece)
        trial.system_attrs[key] = piece


def pieces(key: str, text: str) -> list[tuple[str, str]]:
    """A text as attributes of bounded length; the first comes last: with it, all are there."""
    parts = [text[i : i + LONGEST] for i in range(0, len(text), LONGEST)]
    return [(f"{key}:{i}", f"{len(parts)} {parts[i]}") for i in reversed(range(len(parts)))]


def joined(key: str, attributes: Mapping[str, Any]) -> str | None:
    """The text of such attributes; None if there is none."""
    if f"{key}:0" not in attributes:
        return None
    count, first = attributes[f"{key}:0"].split(" ", 1)
    others = (attributes[f"{key}:{i}"].split(" ", 1)[1] for i in range(1, int(count)))
    return "".join([first, *others])


def read(trial: FrozenTrial) -> list[Note]:
    """All notes of a trial; one that is not complete, or not understood, is none."""
    notes: list[Note] = []
    while f"{KEY}:{len(notes)}:0" in trial.system_attrs:
        try:
            notes.append(_note(trial.system_attrs, f"{KEY}:{len(notes)}"))
        except (KeyError, TypeError, ValueError, AttributeError):
            break
    return notes


def _note(attributes: Mapping[str, Any], key: str) -> Note:
    content = json.loads(joined(key, attributes) or "", object_hook=from_json)
    params = {str(name): float(number) for name, number in content["params"].items()}
    return Note(params, Origin(content["origin"]), dict(content["info"]))
