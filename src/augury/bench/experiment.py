"""Experiments: tasks × methods × seeds, as a paper states them."""

import functools
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Design = Literal["sobol", "random", "ts-rsr code"]
DESIGNS: tuple[Design, ...] = ("sobol", "random", "ts-rsr code")
Metric = Literal["cumulative regret", "simple regret", "best value", "detection rate"]
METRICS = ("cumulative regret", "simple regret", "best value", "detection rate")
Pick = Literal["best at the end", "cumulative regret over the last half"]
PICKS = ("best at the end", "cumulative regret over the last half")
Measure = Literal["cumulative regret", "simple regret", "best value", "seconds", "memory"]
MEASURES = ("cumulative regret", "simple regret", "best value", "seconds", "memory")


@dataclass(frozen=True)
class Task:
    """A problem with its initial design, iterations and batch."""

    problem: str
    initial: int
    iterations: int
    batch: int = 1
    wrap: tuple[Mapping[str, Any], ...] = ()  # wrappers, the innermost first
    functions: int | None = None  # that a random problem has: the seeds take them in turn; None for any
    keep: Literal["values", "best"] = "values"  # of all evaluations, or only the best so far
    noise_free: bool = True  # whether a noisy problem also tells its value without noise
    best_of_runs: bool = False  # whether regret is against the best value of all runs

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
    problems: tuple[str, ...] = ()  # labels of tasks, or names of problems; all if empty
    comparable: bool = False  # whether "comparable" is all that the paper says
    different: bool = False  # whether "different" is all that it says, in whichever direction
    carried_over: str = ""  # to what, of which the paper says nothing: other methods, other problems

    def tasks(self, listed: Sequence[Task]) -> list[Task]:
        """Those it is about; a name that is the label of a task stands for that task alone."""
        labels = {task.label for task in listed}
        return [
            task
            for task in listed
            if not self.problems
            or task.label in self.problems
            or task.problem in set(self.problems) - labels
        ]


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
    design: Design = "sobol"
    note: str = ""
    pick: Pick = "best at the end"  # how the paper picks among a grid of settings
    published: Mapping[str, Any] = field(default_factory=dict)  # numbers that the paper prints
    claims: tuple[Claim, ...] = ()
    fresh: bool = False  # a new process for every run, so that peak memory is the run's own
    suite: str = ""  # experiments of one suite are groups of problems, ranked together too
    shares: tuple[str, ...] = ()  # experiments whose runs count as its own, where they are the same


@dataclass(frozen=True)
class Job:
    """One run: a task, a method and a seed of an experiment."""

    experiment: str
    task: Task
    method: Method
    seed: int
    design: Design = "sobol"

    @property
    def key(self) -> str:
        """Its name among the runs of the experiment."""
        return f"{self.task.label}/{self.method.name}/{self.seed}"

    @functools.cached_property
    def digest(self) -> str:
        """Of all that decides the run but its seed: results with another one are of another run."""
        task = self.task
        decides = {
            "problem": task.problem,
            "wrap": task.wrap,
            "initial": task.initial,
            "iterations": task.iterations,
            "batch": task.batch,
            "design": self.design,
            "method": self.method.spec,
        }
        if task.functions is not None:
            decides["functions"] = task.functions
        if not task.noise_free:
            decides["noise_free"] = False
        text = json.dumps(decides, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def jobs(experiment: Experiment) -> Iterator[Job]:
    """All runs, seed by seed, so that an unfinished experiment has complete comparisons."""
    for seed in range(experiment.repeats):
        for task, method in itertools.product(experiment.tasks, experiment.methods):
            yield Job(experiment.name, task, method, seed, experiment.design)
