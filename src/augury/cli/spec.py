"""The file of `augury run`: what is searched, by what, and how it is evaluated."""

import importlib
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from augury._checks import check_limit, check_retries, check_seed, one_of
from augury._errors import AuguryError, UnsupportedError
from augury.algorithm import resolve
from augury.cli.command import MODES, Command, variable_of
from augury.space import Space
from augury.space.params import Param, param_from_dict

TOP: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "storage": (str,),
    "direction": (str,),
    "budget": (int,),
    "algorithm": (str,),
    "batch": (int,),
    "workers": (int,),
    "seed": (int,),
    "initial": (int,),
    "target": (int, float),
    "max_seconds": (int, float),
    "trial_timeout": (int, float),
    "retries": (int,),
    "duplicates": (str,),
    "space": (dict,),
    "objective": (dict,),
}
OBJECTIVE: dict[str, tuple[type, ...]] = {
    "function": (str,),
    "command": (list,),
    "parameters": (str,),
    "folder": (str,),
}
CHECKS: dict[str, Callable[[Any], object]] = {  # of values, beyond their types
    "direction": lambda value: one_of("direction", value, ("minimize", "maximize")),
    "algorithm": resolve,
    "seed": check_seed,
    "target": lambda value: check_limit("target", value),
    "max_seconds": lambda value: check_limit("max_seconds", value),
    "trial_timeout": lambda value: check_limit("trial_timeout", value, positive=True),
    "retries": check_retries,
    "duplicates": lambda value: one_of("duplicates", value, ("avoid", "allow")),
}
KINDS = {str: "a text", int: "a whole number", float: "a number", dict: "a table", list: "a list"}
FIELDS = {  # that a parameter must have, and may have
    "float": (("low", "high"), ("log", "step")),
    "int": (("low", "high"), ("log", "step")),
    "choice": (("options",), ("ordered",)),
}
EXAMPLE = 'lr = { type = "float", low = 1e-5, high = 1.0, log = true }'


@dataclass(frozen=True)
class Spec:
    """What `augury run` does."""

    space: Space
    budget: int
    direction: str
    function: Callable[[dict[str, Any]], Any]
    settings: Mapping[str, Any]


def read_spec(path: Path) -> Spec:
    """The run that a file describes."""
    file = _File(path)
    top = file.content
    file.check(top, TOP, "")
    for key in ("space", "budget", "objective"):
        if key not in top:
            raise file.wrong("", key, "be given", "none")
    for key in ("budget", "workers", "batch", "initial"):
        if key in top and top[key] < 1:
            raise file.wrong("", key, "be at least 1", str(top[key]))
    for key in ("name", "storage"):
        if top.get(key) == "":
            raise file.wrong("", key, "have at least one character", "none")
    for key, check in CHECKS.items():
        with file.explained("", key):
            if key in top:
                check(top[key])
    settings = {k: v for k, v in top.items() if k not in ("space", "objective", "budget", "direction")}
    if "storage" not in settings:
        raise file.wrong("", "storage", 'be given, for example storage = "study.db"', "none")
    params = {name: _param(file, name, one) for name, one in top["space"].items()}
    with file.explained("", "space"):
        space = Space(params)
    direction = top.get("direction", "minimize")
    function = _objective(file, top["objective"])
    if isinstance(function, Command):
        _check_receives(file, function, list(params))
    return Spec(space, top["budget"], direction, function, settings)


class _File:
    """A TOML file, and sentences about what is wrong in it, with the line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8")
            self.content = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            raise UnsupportedError(
                f"{path} must be valid TOML; got: {error}. Correct the file."
            ) from error
        except UnicodeDecodeError as error:
            raise UnsupportedError(f"{path} must be UTF-8; got {error}. Save it as UTF-8.") from error
        except OSError as error:
            raise UnsupportedError(
                f"{path} must be a file that can be read; got: {error.strerror}. Correct its name."
            ) from error

    def line(self, table: str, key: str, field: str | None = None) -> int | None:
        """Where a key of a table is written, or a field of it that has a line of its own."""
        if field is not None:
            found = self.line(f"{table}.{key}", field) or self.line(table, f"{key}.{field}")
            return found or self.line(table, key)
        inside, name = "", rf"[\"']?{re.escape(key)}[\"']?"
        above = rf"\s*{re.escape(table)}\s*[=.].*\b{re.escape(key)}\b"
        for number, line in enumerate(self.text.splitlines(), 1):
            header = re.match(r"\s*\[+\s*([^\[\]]+?)\s*\]", line)
            if header:
                inside = re.sub("[\"']", "", header.group(1))
            if inside == (f"{table}.{key}" if table else key):
                return number
            if inside == table and re.match(rf"\s*{name}\s*[=.]", line):
                return number
            if not inside and table and re.match(above, line):
                return number
        return None

    def wrong(
        self, table: str, key: str, rule: str, got: str, field: str | None = None
    ) -> UnsupportedError:
        """The error for a key, or a field of it."""
        place = self.place(table, key, field)
        return UnsupportedError(f"{place} must {rule}; got {got}. Correct the file.")

    def place(self, table: str, key: str, field: str | None = None) -> str:
        """The file, the line and the name of a key."""
        line = self.line(table, key, field)
        where = f"{self.path}" if line is None else f"{self.path}, line {line}"
        return f"{where}: {table}.{key}" if table else f"{where}: {key}"

    @contextmanager
    def explained(self, table: str, key: str, fields: Collection[str] = ()) -> Iterator[None]:
        """Errors about the value of a key, with its place: that of the field that is named first."""
        try:
            yield
        except AuguryError as error:
            named = next((word for word in re.findall(r"\w+", str(error)) if word in fields), None)
            place = self.place(table, key, named)
            said = str(error).removeprefix(f"{key} ")  # the place has the name
            between = ": " if said == str(error) else " "
            raise UnsupportedError(f"{place}{between}{said}") from error

    def check(self, content: Mapping[str, Any], known: Mapping[str, Any], table: str) -> None:
        """Refuse unknown keys and values of the wrong type."""
        for key, value in content.items():
            if key not in known:
                raise self.wrong(table, key, f"be one of {', '.join(known)}", "an unknown key")
            if not isinstance(value, known[key]) or isinstance(value, bool):
                raise self.wrong(table, key, f"be {KINDS[known[key][-1]]}", repr(value))


def _param(file: _File, name: str, described: Any) -> Param:
    if not isinstance(described, dict):
        raise file.wrong("space", name, f"be a table such as {EXAMPLE}", repr(described))
    kind = described.get("type")
    if not isinstance(kind, str) or kind not in FIELDS:
        raise file.wrong("space", name, f"have a type, one of {', '.join(FIELDS)}", repr(kind), "type")
    needed, others = FIELDS[kind]
    unknown = sorted(described.keys() - {"type", *needed, *others})
    missing = [field for field in needed if field not in described]
    if unknown or missing:
        got, field = (f"no {missing[0]}", None) if missing else (f"{unknown[0]!r}", unknown[0])
        rule = f"have {', '.join(needed)}, and may have {', '.join(others)}"
        raise file.wrong("space", name, rule, got, field)
    with file.explained("space", name, described):
        return param_from_dict(described)


def _objective(file: _File, table: Mapping[str, Any]) -> Callable[[dict[str, Any]], Any]:
    file.check(table, OBJECTIVE, "objective")
    if ("function" in table) == ("command" in table):
        got = ", ".join(table) or "none"
        raise file.wrong("", "objective", "have either a function or a command", got)
    if "function" in table:
        return _function(file, table["function"])
    command, mode = table["command"], table.get("parameters", "arguments")
    if not command or not all(isinstance(part, str) for part in command):
        raise file.wrong("objective", "command", "be a list of texts", repr(command))
    if mode not in MODES:
        raise file.wrong("objective", "parameters", f"be one of {', '.join(MODES)}", repr(mode))
    folder = table.get("folder")
    if folder is not None and not Path(folder).is_dir():
        raise file.wrong("objective", "folder", "be a folder that is there", repr(folder))
    if "{" not in command[0] and not _is_program(command[0], folder):
        raise file.wrong("objective", "command", "begin with a program", repr(command[0]))
    return Command(tuple(command), mode, folder)


def _check_receives(file: _File, command: Command, names: list[str]) -> None:
    """Refuse names of parameters that would not reach the program."""
    if command.parameters == "arguments":
        missing = command.without_place(names)
        if missing and len(missing) < len(names):
            got = f"none for {', '.join(missing)}"
            raise file.wrong("objective", "command", "have a placeholder for all parameters or none", got)
    if command.parameters == "environment":
        known: dict[str, str] = {}
        for name in names:
            variable = variable_of(name)
            got = variable if variable not in known else f"{variable}, as of {known[variable]}"
            if variable in known or "=" in name or "\0" in name:
                raise file.wrong("space", name, "give a variable of the environment of its own", got)
            known[variable] = name


def _is_program(name: str, folder: str | None) -> bool:
    """Whether a program is on the path, or where a name with a slash says, seen from where it runs."""
    try:
        return shutil.which(Path(folder or ".", name).absolute() if "/" in name else name) is not None
    except ValueError:  # a name with a null character
        return False


def _function(file: _File, name: str) -> Callable[[dict[str, Any]], Any]:
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise file.wrong("objective", "function", 'be "module:function"', repr(name))
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # a script may end its process
        got = f"{name!r}, which raised {type(error).__name__}: {error}"
        raise file.wrong("objective", "function", "be one that can be imported", got) from error
    if not callable(found):
        raise file.wrong("objective", "function", "be a function", f"{name!r}, {type(found).__name__}")
    function: Callable[[dict[str, Any]], Any] = found
    return function
