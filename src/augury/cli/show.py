"""`augury show`: what a study has found."""

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from augury._errors import DataError, StorageError, UnsupportedError
from augury.cli.tables import table
from augury.studies.book import REASON
from augury.studies.mirror import LOST
from augury.studies.storages import explained, open_storage, without_password

FORMATS = (".csv", ".json")
PREFIX = "params_"  # of a parameter's column, as Optuna has it: one may be called "value"


def show(url: str, name: str | None, last: int, export: str | None) -> None:
    """Print a study, or write its trials to a file."""
    if export is not None and Path(export).suffix not in FORMATS:
        raise UnsupportedError(f"an export must end in .csv or .json; got {export!r}. Name it so.")
    storage = open_known(url, only_read=True)
    with explained(url):
        identity, name = _study(storage, url, name)
        directions = storage.get_study_directions(identity)
        trials = storage.get_all_trials(identity, deepcopy=False)
    if export is not None:
        _write(Path(export), [_row(trial) for trial in trials])
        print(f"{len(trials)} trials of {name!r} are in {export}")
        return
    counts = {state: sum(trial.state is state for trial in trials) for state in TrialState}
    said = ", ".join(f"{count} {state.name.lower()}" for state, count in counts.items() if count)
    print(f"study {name!r}: {said or 'no trials'}")
    complete = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    if complete and len(directions) == 1:
        sign = -1.0 if directions[0] is StudyDirection.MAXIMIZE else 1.0
        best = min(complete, key=lambda trial: sign * float(trial.value or 0.0))
        print(f"best value  {best.value!r}  (trial {best.number})")
        for parameter, value in best.params.items():
            print(f"  {parameter} = {value!r}")
    shown = trials[-last:]
    if shown:
        names = sorted({parameter for trial in shown for parameter in trial.params})
        rows = [_cells(trial, names) for trial in shown]
        print(table(("trial", "state", "value", *names, "reason"), rows))


def open_known(url: str, *, only_read: bool = False) -> BaseStorage:
    """A storage that is there; looking at studies creates none."""
    path = re.sub(r"^(sqlite|journal):///", "", url)
    if "://" not in path and not Path(path).exists():
        where = without_password(url)
        raise StorageError(f"{where} must be a file with studies; got none. Correct its name.")
    return open_storage(url, only_read=only_read)


def _study(storage: BaseStorage, url: str, name: str | None) -> tuple[int, str]:
    """The study of that name, or the only one."""
    names = {study.study_name: study._study_id for study in storage.get_all_studies()}
    where = without_password(url)
    if name is None and len(names) == 1:
        name = next(iter(names))
    if name is None:
        got = f"{len(names)}: {', '.join(sorted(names))}" if names else "none"
        raise DataError(f"{where} must have one study, or --name says which; got {got}. Add --name.")
    if name not in names:
        known = ", ".join(sorted(names)) or "none"
        raise DataError(f"{where} must have the study; got {name!r}, of {known}. Correct --name.")
    return names[name], name


def _reason(trial: FrozenTrial) -> str:
    attributes = trial.system_attrs
    lost = f"taken back: {attributes[LOST]}" if LOST in attributes else ""
    return str(attributes.get(REASON, lost))


def _cells(trial: FrozenTrial, names: list[str]) -> list[str]:
    value = "" if trial.values is None else ", ".join(f"{one:.6g}" for one in trial.values)
    cells = (trial.params.get(name, "") for name in names)
    texts = [f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in cells]
    reason = " ".join(_reason(trial).split())[:60]  # in one line
    return [str(trial.number), trial.state.name.lower(), value, *texts, reason]


def _row(trial: FrozenTrial) -> dict[str, Any]:
    def moment(at: Any) -> str | None:
        return None if at is None else at.isoformat()

    return {
        "number": trial.number,
        "state": trial.state.name.lower(),
        "value": trial.values[0] if trial.values is not None and len(trial.values) == 1 else trial.values,
        "begun": moment(trial.datetime_start),
        "ended": moment(trial.datetime_complete),
        "reason": _reason(trial) or None,
        "params": dict(trial.params),
    }


def _strict(value: Any) -> Any:
    """What JSON can hold: infinite numbers as text, and NaN as null."""
    if isinstance(value, dict):
        return {key: _strict(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_strict(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    names = sorted({name for row in rows for name in row["params"]})
    columns = [PREFIX + name for name in names]
    try:
        if path.suffix == ".json":
            text = json.dumps(_strict(rows), indent=1, default=str, allow_nan=False)
            path.write_text(text + "\n", encoding="utf-8")
            return
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            fixed = ["number", "state", "value", "begun", "ended", "reason"]
            writer.writerow([*fixed, *columns])
            for row in rows:
                writer.writerow([*(row[key] for key in fixed), *(row["params"].get(n) for n in names)])
    except OSError as error:
        raise StorageError(f"{path} must be writable; got: {error.strerror}. Choose another.") from error
