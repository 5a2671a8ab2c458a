"""Any program as a function: it receives parameters, and prints the value last."""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from augury.executors.processes import MistakeError

MODES = ("arguments", "stdin", "environment")
PREFIX = "AUGURY_"  # of environment variables


class NoNumberError(MistakeError):
    """A program has printed no number."""


@dataclass(frozen=True)
class Command:
    """A program that is started for every evaluation.

    Args:
        command: its name and arguments; no shell is involved. `{name}` stands for a parameter's value.
        parameters: how it receives them: as further arguments `--name value` (unless the command has
            placeholders), as a JSON object on standard input, or as variables `AUGURY_NAME` of the
            environment.
        folder: where it runs; None for here.

    The last line that it prints is the value, or a JSON object whose "value" is the value.
    """

    command: tuple[str, ...]
    parameters: str = "arguments"
    folder: str | None = None

    def __call__(self, params: Mapping[str, Any]) -> float:
        """The value of a point."""
        texts = {name: _text(value) for name, value in params.items()}
        command, given, environment = list(self.command), None, dict(os.environ)
        if self.parameters == "stdin":
            given = json.dumps(dict(params))
        elif self.parameters == "environment":
            environment |= {variable_of(name): text for name, text in texts.items()}
        else:
            for name, text in texts.items():
                command = [part.replace(f"{{{name}}}", text) for part in command]
            if self.without_place(texts) == list(texts):
                command += [text for name in params for text in (f"--{name}", texts[name])]
        ended = subprocess.run(
            command,
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            env=environment,
            cwd=self.folder,
            text=True,
            errors="replace",  # only the number matters
            check=False,
        )
        if ended.returncode != 0:
            said = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
            raise RuntimeError(f"exit code {ended.returncode}" + (f": {said[-1]}" if said else ""))
        return value_of(ended.stdout)

    def without_place(self, names: Iterable[str]) -> list[str]:
        """The parameters that the command has no placeholders for."""
        return [name for name in names if not any(f"{{{name}}}" in part for part in self.command)]


def variable_of(name: str) -> str:
    """The variable of the environment that a parameter is in."""
    return PREFIX + name.upper()


def value_of(printed: str) -> float:
    """The number at the end of what a program printed."""
    lines = printed.strip().splitlines()
    last = lines[-1].strip() if lines else ""
    try:
        found = json.loads(last)
        value = found["value"] if isinstance(found, dict) else found
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError
        return float(value)
    except (ValueError, TypeError, KeyError):
        pass
    try:
        return float(last)  # also "nan", ".5" and "+1"
    except ValueError:
        raise NoNumberError(
            'a program must print its value last, a number or a JSON object with "value"; got '
            f"{last[:80]!r}. Print the number on a line of its own, or nan where there is none."
        ) from None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
