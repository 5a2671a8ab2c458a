"""Experiments declared in TOML: tasks × methods × seeds, as a paper states them."""

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from augury._errors import UnsupportedError

Metric = Literal["cumulative regret", "simple regret", "best value", "detection rate"]
METRICS = ("cumulative regret", "simple regret", "best value", "detection rate")
Pick = Literal["best at the end", "cumulative regret over the last half"]
PICKS = ("best at the end", "cumulative regret over the last half")
Measure = Literal["cumulative regret", "simple regret", "best value", "seconds"]
MEASURES = ("cumulative regret", "simple regret", "best value", "seconds")
KEYS = {"paper", "title", "metric", "repeats", "design", "note", "pick", "published", "claims"}
KEYS |= {"quick", "tasks", "methods"}
QUICK_KEYS = {"repeats", "iterations", "problems", "methods", "defaults"}
TASK_KEYS = {"problem", "initial", "iterations", "batch", "wrap"}
CLAIM_KEYS = {"text", "better", "than", "measure", "problems", "comparable", "carried_over"}


@dataclass(frozen=True)
class Task:
    """A problem with its initial design, iterations and batch."""

    problem: str
    initial: int
    iterations: int
    batch: int = 1
    wrap: tuple[Mapping[str, Any], ...] = ()  # wrappers, the innermost first

    @property
    def evaluations(self) -> int:
        """How many evaluations a run makes."""
        return self.initial + self.iterations * self.batch

    @property
    def label(self) -> str:
        """Its name in results: the problem and its wrappers."""
        return "+".join([self.problem, *(str(wrapper["name"]) for wrapper in self.wrap)])


@dataclass(frozen=True)
class Method:
    """What is compared: an algorithm of ours, its parts with settings, or a peer.

    `group` is the method that a point of a grid of settings belongs to; `setting` tells the points
    apart, and `default` marks the one that the report shows beside the picked one.
    """

    name: str
    spec: Mapping[str, Any]
    group: str
    setting: Mapping[str, Any] = field(default_factory=dict)
    default: bool = True


@dataclass(frozen=True)
class Claim:
    """What the paper says, in words and in a form that results can confirm or contradict."""

    text: str
    better: str  # a method, or the group of a grid
    than: tuple[str, ...]
    measure: Measure
    problems: tuple[str, ...] = ()  # all if empty
    comparable: bool = False  # whether "comparable" is all that the paper says
    carried_over: bool = False  # to methods of which the paper says nothing


@dataclass(frozen=True)
class Experiment:
    """One figure or table of a paper."""

    name: str
    paper: str
    title: str
    metric: Metric
    repeats: int
    tasks: tuple[Task, ...]
    methods: tuple[Method, ...]
    design: Literal["sobol", "random"] = "sobol"
    note: str = ""
    pick: Pick = "best at the end"  # how the paper picks among a grid of settings
    published: Mapping[str, Any] = field(default_factory=dict)  # numbers that the paper prints
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True)
class Job:
    """One run: a task, a method and a seed of an experiment."""

    experiment: str
    task: Task
    method: Method
    seed: int
    design: Literal["sobol", "random"] = "sobol"

    @property
    def key(self) -> str:
        """Its name among the runs of the experiment."""
        return f"{self.task.label}/{self.method.name}/{self.seed}"


def jobs(experiment: Experiment) -> Iterator[Job]:
    """All runs, seed by seed, so that an unfinished experiment has complete comparisons."""
    for seed in range(experiment.repeats):
        for task, method in itertools.product(experiment.tasks, experiment.methods):
            yield Job(experiment.name, task, method, seed, experiment.design)


def read_experiment(path: Path, *, quick: bool = False) -> Experiment:
    """The experiment of a file; `quick` takes its smaller variant, which has a name of its own."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise _wrong(path, f"valid TOML; got {error}") from error
    _only(path, content, KEYS, "the file")
    for key in ("paper", "title", "metric", "repeats", "tasks", "methods", "quick"):
        if key not in content:
            raise _wrong(path, f"{key!r}; got none")
    if content["metric"] not in METRICS:
        raise _wrong(path, f"a metric of {', '.join(METRICS)}; got {content['metric']!r}")
    if content.get("pick", PICKS[0]) not in PICKS:
        raise _wrong(path, f"a pick of {', '.join(PICKS)}; got {content['pick']!r}")
    experiment = Experiment(
        name=path.stem,
        paper=content["paper"],
        title=content["title"],
        metric=content["metric"],
        repeats=content["repeats"],
        tasks=tuple(_task(path, item) for item in content["tasks"]),
        methods=tuple(itertools.chain.from_iterable(_methods(path, m) for m in content["methods"])),
        design=content.get("design", "sobol"),
        note=content.get("note", ""),
        pick=content.get("pick", PICKS[0]),
        published=content.get("published", {}),
        claims=tuple(_claim(path, item) for item in content.get("claims", ())),
    )
    for what, names in (
        ("methods", [method.name for method in experiment.methods]),
        ("tasks", [task.label for task in experiment.tasks]),
    ):
        if len(set(names)) < len(names):
            raise _wrong(path, f"{what} of different names; got {', '.join(names)}")
    _check_claims(path, experiment)
    return _quick(path, experiment, content["quick"]) if quick else experiment


def find_experiments(folder: Path) -> dict[str, Path]:
    """The experiment files of a folder, by name."""
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def _task(path: Path, item: Mapping[str, Any]) -> Task:
    _only(path, item, TASK_KEYS, "a task")
    for key in ("problem", "initial", "iterations"):
        if key not in item:
            raise _wrong(path, f"tasks with {key!r}; got {dict(item)}")
    return Task(**{**item, "wrap": tuple(item.get("wrap", ()))})


def _claim(path: Path, item: Mapping[str, Any]) -> Claim:
    _only(path, item, CLAIM_KEYS, "a claim")
    for key in ("text", "better", "than", "measure"):
        if key not in item:
            raise _wrong(path, f"claims with {key!r}; got {dict(item)}")
    if item["measure"] not in MEASURES:
        raise _wrong(path, f"claims with a measure of {', '.join(MEASURES)}; got {item['measure']!r}")
    than = (item["than"],) if isinstance(item["than"], str) else tuple(item["than"])
    return Claim(**{**item, "than": than, "problems": tuple(item.get("problems", ()))})


def _check_claims(path: Path, experiment: Experiment) -> None:
    methods = {name for method in experiment.methods for name in (method.name, method.group)}
    problems = {name for task in experiment.tasks for name in (task.problem, task.label)}
    for claim in experiment.claims:
        for what, known, named in (
            ("methods", methods, {claim.better, *claim.than}),
            ("problems", problems, set(claim.problems)),
        ):
            if not named <= known:
                unknown = ", ".join(sorted(named - known))
                raise _wrong(path, f"claims about {what} of the file; got {unknown}")


def _methods(path: Path, item: Mapping[str, Any]) -> Iterator[Method]:
    """The method, or one method per point of its grid of settings."""
    if "name" not in item:
        raise _wrong(path, f"methods with a 'name'; got {dict(item)}")
    spec = {key: value for key, value in item.items() if key not in ("name", "grid")}
    grid: Mapping[str, Sequence[Any]] = item.get("grid", {})
    for values in itertools.product(*grid.values()):
        setting = dict(zip(grid, values, strict=True))
        suffix = "".join(f" {key}={value}" for key, value in setting.items())
        default = all(value == options[0] for value, options in zip(values, grid.values(), strict=True))
        yield Method(item["name"] + suffix, _with(spec, setting), item["name"], setting, default)


def _with(spec: Mapping[str, Any], setting: Mapping[str, Any]) -> dict[str, Any]:
    """`spec` with "part.field" keys of `setting` put in their place."""
    merged = {key: dict(value) if isinstance(value, Mapping) else value for key, value in spec.items()}
    for key, value in setting.items():
        part, _, name = key.partition(".")
        if name:
            merged.setdefault(part, {})[name] = value
        else:
            merged[part] = value
    return merged


def _quick(path: Path, experiment: Experiment, small: Mapping[str, Any]) -> Experiment:
    _only(path, small, QUICK_KEYS, "[quick]")
    most = small.get("iterations", max(task.iterations for task in experiment.tasks))
    wanted = small.get("problems", [task.problem for task in experiment.tasks])
    kept = small.get("methods", [method.group for method in experiment.methods])
    defaults_only = small.get("defaults", False)  # of every grid of settings
    tasks = (t for t in experiment.tasks if t.problem in wanted)
    return replace(
        experiment,
        name=f"{experiment.name}-quick",
        repeats=min(experiment.repeats, small.get("repeats", 3)),
        tasks=tuple(replace(t, iterations=min(t.iterations, most)) for t in tasks),
        methods=tuple(
            m for m in experiment.methods if m.group in kept and (m.default or not defaults_only)
        ),
    )


def _only(path: Path, item: Mapping[str, Any], known: set[str], what: str) -> None:
    unknown = sorted(item.keys() - known)
    if unknown:
        raise _wrong(path, f"only {', '.join(sorted(known))} in {what}; got {', '.join(unknown)}")


def _wrong(path: Path, what: str) -> UnsupportedError:
    return UnsupportedError(f"{path.name} must have {what}. Correct the file.")
