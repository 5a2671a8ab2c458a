"""Reads experiments from TOML files, and says in one sentence what is wrong with one."""

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from augury._errors import AuguryError, UnsupportedError
from augury.bench.experiment import (
    DESIGNS,
    MEASURES,
    METRICS,
    PICKS,
    Claim,
    Experiment,
    Method,
    Task,
)
from augury.bench.methods import check_method
from augury.bench.problems import problems
from augury.bench.wrappers import wrapper

KEYS = {"paper", "title", "metric", "repeats", "design", "note", "pick", "published", "claims", "fresh"}
KEYS |= {"quick", "tasks", "methods", "suite", "shares"}
QUICK_KEYS = {"repeats", "iterations", "problems", "methods", "defaults"}
TASK_KEYS = {"problem", "initial", "iterations", "batch", "wrap", "functions", "keep", "noise_free"}
TASK_KEYS |= {"best_of_runs"}
CLAIM_KEYS = {"text", "better", "than", "measure", "problems", "comparable", "different", "carried_over"}
KINDS = {str: "a text", bool: "true or false", dict: "a table", (bool, str): "true, false or a text"}
OWN_MODEL = "Augury's own model"  # to which `carried_over = true` carries a claim


def find_experiments(folder: Path) -> dict[str, Path]:
    """The experiment files of a folder, by name."""
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read_experiment(path: Path, *, quick: bool = False) -> Experiment:
    """The experiment of a file; `quick` takes its smaller variant, which has a name of its own."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UnsupportedError(
            f"{path.name} must be valid TOML; got {error}. Correct the file."
        ) from error
    except UnicodeDecodeError as error:
        raise UnsupportedError(f"{path.name} must be UTF-8; got {error}. Save it as UTF-8.") from error
    except OSError as error:
        raise UnsupportedError(
            f"{path} must be a file that can be read; got: {error.strerror}. Correct its name or rights."
        ) from error
    file = _Table(path, content, "")
    file.only(KEYS, "paper", "title", "metric", "repeats", "tasks", "methods", "quick")
    experiment = Experiment(
        name=path.stem,
        paper=file.of(str, "paper"),
        title=file.of(str, "title"),
        metric=file.option("metric", METRICS),
        repeats=file.count("repeats", 1),
        tasks=tuple(map(_task, file.tables("tasks"))),
        methods=tuple(itertools.chain.from_iterable(map(_methods, file.tables("methods")))),
        design=file.option("design", DESIGNS),
        note=file.of(str, "note", ""),
        pick=file.option("pick", PICKS),
        published=file.of(dict, "published", {}),
        claims=tuple(map(_claim, file.tables("claims"))),
        fresh=file.of(bool, "fresh", False),
        suite=file.of(str, "suite", ""),
        shares=_shared(file),
    )
    for what, names in (
        ("methods", [method.name for method in experiment.methods]),
        ("tasks", [task.label for task in experiment.tasks]),
    ):
        if not names:
            raise file.wrong(what, "have at least one table", "none")
        if len(set(names)) < len(names):
            raise file.wrong(what, "have different names", ", ".join(names))
    _check_claims(file, experiment)
    small = _quick(_Table(path, file.of(dict, "quick"), "[quick] "), experiment)
    return small if quick else experiment


def _shared(file: "_Table") -> tuple[str, ...]:
    names = file.names("shares")
    for name in names:
        if name == file.path.stem or not file.path.with_name(f"{name}.toml").exists():
            raise file.wrong("shares", "name other experiments of the folder", repr(name))
    return names


class _Table:
    """A table of a file; every way to look at it refuses what is wrong, naming the file and the key."""

    def __init__(self, path: Path, content: Mapping[str, Any], place: str) -> None:
        self.path, self.content, self.place = path, content, place

    def wrong(self, key: str, rule: str, got: object) -> UnsupportedError:
        """The error that says what must hold for a key."""
        return UnsupportedError(
            f"{self.path.name}: {self.place}{key} must {rule}; got {got}. Correct the file."
        )

    def only(self, known: set[str], *needed: str) -> None:
        """Refuse keys that are not known, and the lack of those that are needed."""
        unknown = sorted(self.content.keys() - known)
        if unknown:
            raise self.wrong("keys", f"be among {', '.join(sorted(known))}", ", ".join(unknown))
        for key in needed:
            if key not in self.content:
                raise self.wrong(repr(key), "be given", "none")

    def of(self, kind: Any, key: str, default: Any = None) -> Any:
        """A value of one type; the default if there is none."""
        value = self.content.get(key, default)
        if not isinstance(value, kind):
            raise self.wrong(key, f"be {KINDS[kind]}", repr(value))
        return value

    def option(self, key: str, options: tuple[str, ...]) -> Any:
        """One of some texts; the first by default."""
        value = self.content.get(key, options[0])
        if value not in options:
            raise self.wrong(key, f"be one of {', '.join(options)}", repr(value))
        return value

    def count(self, key: str, least: int, default: int | None = None) -> int:
        """A whole number."""
        value = self.content.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.wrong(key, f"be a whole number of at least {least}", repr(value))
        return value

    def names(self, key: str, known: Sequence[str] | None = None) -> tuple[str, ...]:
        """A list of texts, all of them known; all that are known if there is no such list."""
        values = self.content.get(key, list(known or ()))
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise self.wrong(key, "be a list of texts", repr(values))
        unknown = [] if known is None else [value for value in values if value not in known]
        if unknown:
            raise self.wrong(key, "name what the file has", ", ".join(unknown))
        return tuple(values)

    def tables(self, key: str) -> list["_Table"]:
        """A list of tables."""
        values = self.content.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise self.wrong(key, "be a list of tables", repr(values))
        places = (f"{self.place}{key}[{number}] " for number in range(1, len(values) + 1))
        return [_Table(self.path, value, place) for value, place in zip(values, places, strict=True)]


def _task(table: _Table) -> Task:
    table.only(TASK_KEYS, "problem", "initial", "iterations")
    problem = table.of(str, "problem")
    if problem not in problems():
        raise table.wrong("problem", "be a name of `augury bench list --problems`", repr(problem))
    wrap = table.tables("wrap")
    for spec in wrap:
        try:
            wrapper(spec.content)
        except AuguryError as error:
            raise UnsupportedError(f"{spec.path.name}: {spec.place.strip()}: {error}") from error
    return Task(
        problem=problem,
        initial=table.count("initial", 0),
        iterations=table.count("iterations", 0),
        batch=table.count("batch", 1, 1),
        wrap=tuple(spec.content for spec in wrap),
        functions=table.count("functions", 1) if "functions" in table.content else None,
        keep=_kept(table),
        noise_free=table.of(bool, "noise_free", True),
        best_of_runs=table.of(bool, "best_of_runs", False),
    )


def _kept(table: _Table) -> Literal["values", "best"]:
    keep = table.of(str, "keep", "values")
    if keep not in ("values", "best"):
        raise table.wrong("keep", 'be "values" or "best"', repr(keep))
    return "best" if keep == "best" else "values"


def _claim(table: _Table) -> Claim:
    table.only(CLAIM_KEYS, "text", "better", "than", "measure")
    than = table.content["than"]
    carried = table.of((bool, str), "carried_over", False)
    return Claim(
        text=table.of(str, "text"),
        better=table.of(str, "better"),
        than=(than,) if isinstance(than, str) else table.names("than"),
        measure=table.option("measure", MEASURES),
        problems=table.names("problems"),
        comparable=table.of(bool, "comparable", False),
        different=table.of(bool, "different", False),
        carried_over=carried if isinstance(carried, str) else OWN_MODEL if carried else "",
    )


def _check_claims(file: _Table, experiment: Experiment) -> None:
    methods = {name for method in experiment.methods for name in (method.name, method.group)}
    named = {name for task in experiment.tasks for name in (task.problem, task.label)}
    for number, claim in enumerate(experiment.claims, start=1):
        for what, known, wanted in (
            ("methods", methods, {claim.better, *claim.than}),
            ("problems", named, set(claim.problems)),
        ):
            if not wanted <= known:
                unknown = ", ".join(sorted(wanted - known))
                raise file.wrong(f"claims[{number}]", f"be about {what} of the file", unknown)


def _methods(table: _Table) -> Iterator[Method]:
    """The method, or one method per point of its grid of settings."""
    if "name" not in table.content:
        raise table.wrong("'name'", "be given", "none")
    name = table.of(str, "name")
    spec = {key: value for key, value in table.content.items() if key not in ("name", "grid")}
    grid = table.of(dict, "grid", {})
    for key, options in grid.items():
        if not isinstance(options, list) or not options:
            raise table.wrong(f"grid {key!r}", "be a list of at least one value", repr(options))
    for values in itertools.product(*grid.values()):
        setting = dict(zip(grid, values, strict=True))
        suffix = "".join(f" {key}={value}" for key, value in setting.items())
        default = all(value == options[0] for value, options in zip(values, grid.values(), strict=True))
        method = Method(name + suffix, _with(table, spec, setting), name, setting, default)
        try:
            check_method(method)
        except AuguryError as error:
            raise UnsupportedError(f"{table.path.name}: {error}") from error
        yield method


def _with(table: _Table, spec: Mapping[str, Any], setting: Mapping[str, Any]) -> dict[str, Any]:
    """`spec` with "part.field" keys of `setting` put in their place."""
    merged = {key: dict(value) if isinstance(value, Mapping) else value for key, value in spec.items()}
    for key, value in setting.items():
        part, _, name = key.partition(".")
        if not name:
            merged[part] = value
            continue
        given = merged.get(part, {})
        if isinstance(given, str):  # the name of a part, with its default settings
            given = {"name": given}
        if not isinstance(given, dict):
            raise table.wrong(part, f"be a table, or the name of a part, for grid {key!r}", repr(given))
        merged[part] = given | {name: value}
    return merged


def _quick(table: _Table, experiment: Experiment) -> Experiment:
    table.only(QUICK_KEYS)
    most = table.count("iterations", 0, max(task.iterations for task in experiment.tasks))
    wanted = table.names("problems", [task.problem for task in experiment.tasks])
    kept = table.names("methods", [method.group for method in experiment.methods])
    defaults_only = table.of(bool, "defaults", False)  # of every grid of settings
    tasks = tuple(t for t in experiment.tasks if t.problem in wanted)
    methods = tuple(m for m in experiment.methods if m.group in kept and (m.default or not defaults_only))
    return replace(
        experiment,
        name=f"{experiment.name}-quick",
        repeats=min(experiment.repeats, table.count("repeats", 1, 3)),
        tasks=tuple(replace(t, iterations=min(t.iterations, most)) for t in tasks),
        methods=methods,
        claims=tuple(_claims_left(experiment.claims, tasks, methods)),
        shares=(),  # runs of the whole variants
    )


def _claims_left(
    claims: Sequence[Claim], tasks: Sequence[Task], methods: Sequence[Method]
) -> Iterator[Claim]:
    """Claims without the rivals that do not run; none where nothing is left to compare."""
    names = {name for method in methods for name in (method.name, method.group)}
    for claim in claims:
        rivals = tuple(rival for rival in claim.than if rival in names)
        if rivals and claim.better in names and claim.tasks(tasks):
            yield replace(claim, than=rivals)
