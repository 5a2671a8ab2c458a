"""What is compared in an experiment, driven by ask and tell: our algorithms and the peers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from augury._errors import UnsupportedError
from augury.algorithm import MAXIMIZERS, POLICIES, SURROGATES, TABLE, Algorithm
from augury.bench.driver import Asked, Driver, Event, NotAvailableError
from augury.bench.experiment import Job, Method
from augury.bench.peers import PeerDriver, find_peer
from augury.bench.problem import Problem
from augury.optimizer import Optimizer
from augury.policies.schedules import Constant, InformationGain, SqrtLog

SCHEDULES = {"constant": Constant, "sqrt-log": SqrtLog, "information-gain": InformationGain}


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


def driver(job: Job, problem: Problem) -> Driver:
    """What drives the job's method on the problem."""
    if "peer" in job.method.spec:
        return PeerDriver(job, problem)
    return OwnDriver(job, problem)


class OwnDriver:
    """Drives an :class:`Optimizer`."""

    versions: Mapping[str, str] = {}

    def __init__(self, job: Job, problem: Problem) -> None:
        self._algorithm = algorithm(job.method)
        self._space = problem.space
        self._optimizer = Optimizer(
            problem.space,
            self._algorithm,
            problem.direction,
            seed=job.seed,
            initial=max(1, job.task.initial),
            budget=job.task.evaluations,
        )

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
    if name is not None and name not in TABLE:
        raise NotAvailableError(f"{name} is not available yet")
    if name is not None and spec:
        raise UnsupportedError(
            f"method {method.name!r} must have an algorithm or parts of one; got {sorted(spec)} too. "
            "Give surrogate, policy and maximizer instead."
        )
    if name is not None:
        return TABLE[name].build()
    known = ("surrogate", "policy", "maximizer", "design")
    unknown = sorted(spec.keys() - set(known))
    if unknown:
        raise UnsupportedError(
            f"method {method.name!r} must have only {', '.join(known)}; got {', '.join(unknown)}. "
            "Correct the experiment."
        )
    tables: tuple[Mapping[str, Any], ...] = (SURROGATES, POLICIES, MAXIMIZERS)
    parts = {
        kind: _part(spec[kind], table) for kind, table in zip(known, tables, strict=False) if kind in spec
    }
    return Algorithm(**parts, design=spec.get("design", "sobol"), name=method.name)


def _part(spec: str | Mapping[str, Any], table: Mapping[str, Any]) -> Any:
    """A part from its name, or from a table with its name and settings."""
    settings = {} if isinstance(spec, str) else dict(spec)
    name = spec if isinstance(spec, str) else settings.pop("name", None)
    if name not in table:
        raise NotAvailableError(f"{name} is not available yet")
    for key, value in settings.items():
        if key == "beta" and isinstance(value, str | Mapping):
            settings[key] = _schedule(value)
        elif isinstance(value, list):
            settings[key] = tuple(value)
        elif key in ("inner", "process") and isinstance(value, str | Mapping):
            settings[key] = _part(value, MAXIMIZERS if key == "inner" else SURROGATES)
    try:
        return table[name](**settings)
    except TypeError as error:
        raise UnsupportedError(
            f"the settings of {name} must be those of its class; got {settings}: {error}. Correct them."
        ) from error


def _schedule(spec: str | Mapping[str, Any]) -> Any:
    settings = {} if isinstance(spec, str) else dict(spec)
    name = spec if isinstance(spec, str) else settings.pop("name", None)
    if name not in SCHEDULES:
        raise NotAvailableError(f"the schedule {name} is not available yet")
    return SCHEDULES[name](**settings)
