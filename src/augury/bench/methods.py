"""What is compared in an experiment, driven by ask and tell: our algorithms and the peers."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from augury._errors import UnsupportedError
from augury.algorithm import MAXIMIZERS, POLICIES, SURROGATES, TABLE, Algorithm
from augury.bench.driver import Asked, Driver, Event, NotAvailableError
from augury.bench.experiment import Job, Method, Task
from augury.bench.paper_settings import METHODS, parts
from augury.bench.peers import PeerDriver, check_peer, find_peer
from augury.bench.problem import Problem
from augury.bench.records import versions
from augury.core.precision import Device
from augury.design import parse_initial
from augury.maximizers import Domain
from augury.optimizer import Optimizer
from augury.policies.schedules import (
    Constant,
    InformationGain,
    NeuralBOAdaptive,
    NeuralBOTheory,
    SqrtLog,
    UnionBound,
)
from augury.surrogates import RandomForest

SCHEDULES = {
    "constant": Constant,
    "sqrt-log": SqrtLog,
    "information-gain": InformationGain,
    "union-bound": UnionBound,
    "neural-bo": NeuralBOTheory,
    "neural-bo-adaptive": NeuralBOAdaptive,
}
PARTS = ("surrogate", "policy", "maximizer")


def available(method: Method) -> str | None:
    """None if the method can run here, else the reason why not."""
    try:
        if "peer" in method.spec:
            find_peer(method.spec["peer"])
        else:
            algorithm(method)
    except NotAvailableError as error:
        return str(error)
    return None


def check_method(method: Method) -> None:
    """Refuse a method whose names or settings are wrong; one that is not available here is right."""
    if "peer" in method.spec:
        check_peer(method.name, method.spec)
        return
    with contextlib.suppress(NotAvailableError):
        algorithm(method)


def driver(job: Job, problem: Problem, device: Device = "cpu") -> Driver:
    """What drives the job's method on the problem."""
    if "peer" in job.method.spec:
        return PeerDriver(job, problem, device)
    return OwnDriver(job, problem, device)


class OwnDriver:
    """Drives an :class:`Optimizer`."""

    def __init__(self, job: Job, problem: Problem, device: Device = "cpu") -> None:
        self._algorithm = algorithm(job.method)
        forest = isinstance(self._algorithm.surrogate, RandomForest)
        self.versions: Mapping[str, str] = versions(("sklearn",) if forest else ())
        self._space = problem.space
        self._optimizer = Optimizer(
            problem.space,
            self._algorithm,
            problem.direction,
            seed=job.seed,
            initial=self._initial(job.task, problem.space),
            budget=job.task.evaluations,
            device=device,
        )

    def _initial(self, task: Task, space: Domain) -> int | tuple[str, int]:
        """The points before the model's; an exploration phase goes on after the experiment's own."""
        if self._algorithm.exploration is None:
            return max(1, task.initial)
        phase = parse_initial(None, space, task.evaluations, self._algorithm.exploration)
        return phase.kind, max(1, task.initial, phase.count)

    def start(self, events: Sequence[Event]) -> None:
        """Restore the optimizer that made these events: asking again would cost what it cost then."""
        content = json.loads(self._optimizer.to_json())
        for event in events:
            if event.kind == "tell":
                trial = content["trials"][event.number]
                trial |= _outcome(event.value)
                content["order"].append(event.number)
                continue
            trial = {"number": event.number, "params": dict(event.params or {}), "info": {}}
            if event.kind == "initial":
                content["trials"].append(trial | _outcome(event.value) | {"origin": "told"})
                content["order"].append(event.number)
            else:
                content["trials"].append(trial | PENDING)
        text = json.dumps(content)
        self._optimizer = Optimizer.from_json(text, self._space, self._algorithm)

    def initial(self, number: int, params: Mapping[str, Any], value: float | None) -> None:
        """Tell it as an evaluation made elsewhere."""
        self._optimizer.tell(params, value, failed=value is None)

    def ask(self, n: int) -> Sequence[Asked]:
        """The next n points."""
        return [
            Asked(t.number, t.params, {k: t.info[k] for k in ("eta", "seconds") if k in t.info})
            for t in self._optimizer.ask(n)
        ]

    def tell(self, asked: Asked, value: float | None) -> None:
        """Tell the value of a point."""
        self._optimizer.tell(self._optimizer.trials[asked.number], value, failed=value is None)

    def recommend(self) -> Mapping[str, Any] | None:
        """The evaluated point of best posterior mean."""
        return dict(self._optimizer.recommend().params)

    def close(self) -> None:
        """Nothing to release."""


PENDING = {"value": None, "state": "pending", "reason": None, "origin": "model"}


def _outcome(value: float | None) -> dict[str, Any]:
    if value is None:
        return {"value": None, "state": "failed", "reason": "told as failed"}
    return {"value": value, "state": "complete", "reason": None}


def algorithm(method: Method) -> Algorithm:
    """The algorithm that a method of an experiment describes."""
    spec = dict(method.spec)
    name = spec.pop("algorithm", None)
    if name is not None and (not isinstance(name, str) or name not in TABLE):
        raise UnsupportedError(
            f"the algorithm of method {method.name!r} must be one of {', '.join(TABLE)}; got {name!r}. "
            "Correct the experiment."
        )
    if name is not None:
        return _named_algorithm(method, name, spec)
    known = (*PARTS, "design")
    _only(method, spec, known)
    if not spec:
        raise UnsupportedError(
            f"method {method.name!r} must have an algorithm, a peer or parts; got none. "
            "Correct the experiment."
        )
    return Algorithm(**_parts(spec), design=spec.get("design", "sobol"), name=method.name)


def _named_algorithm(method: Method, name: str, spec: Mapping[str, Any]) -> Algorithm:
    """A row of the table, with a paper's settings and another maximizer if they are given."""
    _only(method, spec, (*PARTS, "settings"))
    if not isinstance(spec.get("settings", {}), Mapping):
        raise UnsupportedError(
            f"the settings of method {method.name!r} must be a table; got {spec['settings']!r}. "
            "Correct the experiment."
        )
    settings, given = spec.get("settings", {}), _parts(spec)
    if settings and name not in METHODS:
        raise UnsupportedError(
            f"method {method.name!r} must have settings only with one of {', '.join(METHODS)}; got them "
            f"with {name}. Give surrogate, policy and maximizer instead."
        )
    if not settings and not given:
        return TABLE[name].build()
    if not settings:
        return replace(TABLE[name].build(), **given, name=method.name)
    return Algorithm(**(parts(name, settings) | given), name=method.name)


def _only(method: Method, spec: Mapping[str, Any], known: Sequence[str]) -> None:
    unknown = sorted(spec.keys() - set(known))
    if unknown:
        raise UnsupportedError(
            f"method {method.name!r} must have only {', '.join(known)}; got {', '.join(unknown)}. "
            "Correct the experiment."
        )


def _parts(spec: Mapping[str, Any]) -> dict[str, Any]:
    tables: tuple[Mapping[str, Any], ...] = (SURROGATES, POLICIES, MAXIMIZERS)
    return {
        kind: _part(kind, spec[kind], table)
        for kind, table in zip(PARTS, tables, strict=True)
        if kind in spec
    }


def _part(kind: str, spec: Any, table: Mapping[str, Any]) -> Any:
    """A part from its name, or from a table with its name and settings."""
    name, settings = _named(kind, spec, table)
    for key, value in settings.items():
        if key == "beta" and isinstance(value, str | Mapping):
            settings[key] = _build(*_named("schedule", value, SCHEDULES), SCHEDULES)
        elif isinstance(value, list):
            settings[key] = tuple(value)
        elif key in ("inner", "process") and isinstance(value, str | Mapping):
            settings[key] = _part(key, value, MAXIMIZERS if key == "inner" else SURROGATES)
    return _build(name, settings, table)


def _named(kind: str, spec: Any, table: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name, which must be in the table, and the settings."""
    settings = dict(spec) if isinstance(spec, Mapping) else {}
    name = settings.pop("name", None) if isinstance(spec, Mapping) else spec
    if not isinstance(name, str) or name not in table:
        raise UnsupportedError(
            f"a {kind} must be one of {', '.join(table)}, or a table with such a name; got {spec!r}. "
            "Correct the experiment."
        )
    return name, settings


def _build(name: str, settings: Mapping[str, Any], table: Mapping[str, Any]) -> Any:
    try:
        return table[name](**settings)
    except TypeError as error:
        raise UnsupportedError(
            f"the settings of {name} must be those of its class; got {dict(settings)}: {error}. "
            "Correct them."
        ) from error
