"""A peer in a process of its own, which knows nothing of Augury.

Run as `python -I child.py`, it answers each line of JSON on standard input by one on standard output:

* ``{"do": "start", "peer", "space", "direction", "seed", "past", "batch", "evaluations", "device",
  "settings"}`` -> ``{"versions": {package: version}}``; a second one begins anew
* ``{"do": "past", "number", "params", "value", "initial"}``, a point that this process was not asked
  for, and ``{"do": "pending", "number", "params"}``, one whose value will be told -> ``{}``
* ``{"do": "ask", "numbers"}`` -> ``{"points": [params, ...], "peak_mib"}``
* ``{"do": "tell", "number", "value"}`` -> ``{}``; the value of a failed evaluation is null

What goes wrong is answered by ``{"error": "unsupported" | "missing" | "failed", "message"}``. The
process ends when its standard input does, also in the middle of a suggestion.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import math
import os
import queue
import random
import resource
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol

Code = float | int
Params = dict[str, Any]

# The module beside this one that has the peer, what makes it, and the packages that it needs.
ADAPTERS = {
    "random": ("libraries", "RandomSearch", ()),
    "optuna-tpe": ("libraries", "optuna_tpe", ("optuna",)),
    "optuna-gp": ("libraries", "optuna_gp", ("optuna", "torch")),
    "smac": ("libraries", "Smac", ("smac", "ConfigSpace")),
    "cmaes": ("libraries", "Cmaes", ("cmaes",)),
    "nevergrad": ("libraries", "Nevergrad", ("nevergrad",)),
    "bayes-opt": ("libraries", "BayesOpt", ("bayesian-optimization",)),
    "hebo": ("libraries", "Hebo", ("HEBO", "torch")),
    "botorch": ("botorch_peer", "BotorchEI", ("botorch", "gpytorch", "torch")),
    "turbo": ("turbo", "Turbo", ("botorch", "gpytorch", "torch")),
}


class Unsupported(Exception):  # noqa: N818 - an answer, not a mistake
    """The peer cannot search this space, or has no such setting."""


@dataclass(frozen=True)
class Axis:
    """A parameter that is not fixed, searched by its *code*.

    The code of a "real" is its value; that of an "integer" is its value or, for one with a step, a
    Float with a step or an ordered choice, the number of its level; that of a "category" is the
    number of its option. `low` and `high` bound the codes.
    """

    name: str
    kind: str  # "real", "integer" or "category"
    low: Code
    high: Code
    log: bool = False
    options: Sequence[Any] = ()  # of a choice
    start: Code = 0  # of levels numbered from 0: start + code · step
    step: Code | None = None

    def code(self, value: Any) -> Code:
        """The code of a value."""
        if self.options:
            return [(type(o), o) for o in self.options].index((type(value), value))
        if self.step is not None:
            return round((value - self.start) / self.step)
        return float(value) if self.kind == "real" else int(value)

    def value(self, code: Any) -> Any:
        """The value of a code; codes out of bounds by rounding are moved onto them."""
        code = min(max(code, self.low), self.high)
        if self.kind == "real":
            return float(code)
        return self._level(round(code))

    def _level(self, code: int) -> Any:
        if self.options:
            return self.options[code]
        return code if self.step is None else self.start + code * self.step

    @property
    def levels(self) -> int | None:
        """How many codes there are; None for a real."""
        return None if self.kind == "real" else int(self.high - self.low) + 1

    def unit(self, code: Code) -> float:
        """The code's place in [0, 1], on its scale."""
        low, high = self._scale(self.low), self._scale(self.high)
        return (self._scale(code) - low) / (high - low)

    def nearest(self, unit: float) -> Code:
        """The code nearest to a place in [0, 1]."""
        low, high = self._scale(self.low), self._scale(self.high)
        return self._clipped(low + min(max(unit, 0.0), 1.0) * (high - low))

    def quantile(self, u: float) -> Code:
        """The code at a quantile: every level has its share, on a log scale by its width."""
        margin = 0.0 if self.kind == "real" else 0.5
        low, high = self._scale(self.low - margin), self._scale(self.high + margin)
        return self._clipped(low + u * (high - low))

    def _scale(self, code: Code) -> float:
        return math.log(code) if self.log else float(code)

    def _clipped(self, scaled: float) -> Code:
        code = math.exp(scaled) if self.log else scaled
        if self.kind != "real":
            code = math.floor(code + 0.5)
        return min(max(code, self.low), self.high)


def axis_of(param: Mapping[str, Any]) -> Axis | None:
    """The axis of a stored parameter; None if it is fixed."""
    name, kind = param["name"], param["type"]
    if kind == "choice":
        last = len(param["options"]) - 1
        code = "integer" if param["ordered"] else "category"
        return Axis(name, code, 0, last, options=param["options"]) if last else None
    low, high, step = param["low"], param["high"], param["step"]
    if kind == "float" and step is None:
        return Axis(name, "real", low, high, param["log"]) if low < high else None
    if kind == "int" and step == 1:
        return Axis(name, "integer", low, high, param["log"]) if low < high else None
    last = math.floor((high - low) / step + 1e-9)
    return Axis(name, "integer", 0, last, start=low, step=step) if last else None


class Space:
    """The parameters of a problem: axes to search, and fixed ones that are added to every point."""

    def __init__(self, params: Sequence[Mapping[str, Any]]) -> None:
        self.names = [param["name"] for param in params]
        axes = [axis_of(param) for param in params]
        self.axes = [axis for axis in axes if axis is not None]
        self.fixed = {p["name"]: _only(p) for p, axis in zip(params, axes, strict=True) if axis is None}

    def codes(self, params: Mapping[str, Any]) -> list[Code]:
        """The codes of a point."""
        return [axis.code(params[axis.name]) for axis in self.axes]

    def params(self, codes: Sequence[Any]) -> Params:
        """The point of codes, in the order of the problem."""
        free = {axis.name: axis.value(code) for axis, code in zip(self.axes, codes, strict=True)}
        return {name: free[name] if name in free else self.fixed[name] for name in self.names}

    def draw(self, quantiles: Sequence[float]) -> list[Code]:
        """The codes at quantiles, one per axis."""
        return [axis.quantile(u) for axis, u in zip(self.axes, quantiles, strict=True)]

    @property
    def width(self) -> int:
        """The columns of :meth:`units`."""
        return sum(self._width(axis) for axis in self.axes)

    def units(self, codes: Sequence[Code]) -> list[float]:
        """Columns in [0, 1]: one per axis, but one per option of a category."""
        columns: list[float] = []
        for axis, code in zip(self.axes, codes, strict=True):
            if axis.kind == "category":
                columns += [float(code == option) for option in range(self._width(axis))]
            else:
                columns.append(axis.unit(code))
        return columns

    def from_units(self, columns: Sequence[float]) -> list[Code]:
        """The codes nearest to columns."""
        codes: list[Code] = []
        start = 0
        for axis in self.axes:
            end = start + self._width(axis)
            part = list(columns[start:end])
            codes.append(part.index(max(part)) if axis.kind == "category" else axis.nearest(part[0]))
            start = end
        return codes

    @staticmethod
    def _width(axis: Axis) -> int:
        return int(axis.high) + 1 if axis.kind == "category" else 1


def _only(param: Mapping[str, Any]) -> Any:
    """The value of a fixed parameter."""
    return param["options"][0] if param["type"] == "choice" else param["low"]


@dataclass(frozen=True)
class Setup:
    """What a peer knows of its run; every peer minimizes."""

    space: Space
    seed: int
    past: int  # events before this process
    batch: int
    evaluations: int
    device: str = "cpu"  # or "gpu": where a peer that can compute there does

    @property
    def stream(self) -> int:
        """A seed for generators, another one after a resume: the first draws are not made again."""
        return (self.seed + 1_000_003 * self.past) % 2**31


class Adapter(Protocol):
    """A peer, asked and told codes. A handle is what the peer's library needs to know a point again."""

    takes_failures: ClassVar[bool]  # else a failure is told as the worst value so far

    def ask(self, n: int, pending: Sequence[list[Code]]) -> Sequence[tuple[list[Code], Any]]:
        """The next n points and their handles, while others are being evaluated."""

    def tell(self, codes: list[Code], handle: Any, loss: float | None, *, initial: bool) -> None:
        """The loss of a point; the handle is None for one that was not asked for here."""


@dataclass
class Session:
    """Answers requests."""

    adapter: Adapter
    space: Space
    sign: float
    pending: dict[int, tuple[list[Code], Any]] = field(default_factory=dict)
    worst: float | None = None
    held: list[tuple[list[Code], Any, bool]] = field(default_factory=list)  # failures before a success

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request other than "start"."""
        do = request["do"]
        if do == "ask":
            return self._ask(request["numbers"])
        if do == "pending":
            self.pending[request["number"]] = self.space.codes(request["params"]), None
        elif do == "past":
            self._tell((self.space.codes(request["params"]), None), request["value"], request["initial"])
        elif do == "tell":
            self._tell(self.pending.pop(request["number"]), request["value"])
        else:
            raise Unsupported(f"a request must be ask, tell, past or pending; got {do!r}")
        return {}

    def _ask(self, numbers: Sequence[int]) -> dict[str, Any]:
        pending = [codes for codes, _ in self.pending.values()]
        points = self.adapter.ask(len(numbers), pending)
        self.pending |= zip(numbers, points, strict=True)
        return {"points": [self.space.params(codes) for codes, _ in points], "peak_mib": _peak_mib()}

    def _tell(self, point: tuple[list[Code], Any], value: float | None, initial: bool = False) -> None:
        loss = None if value is None else self.sign * value
        if loss is None and not self.adapter.takes_failures:
            if self.worst is None:
                self.held.append((*point, initial))
                return
            loss = self.worst
        if loss is not None:
            self.worst = loss if self.worst is None else max(loss, self.worst)
            for codes, handle, first in self.held:
                self.adapter.tell(codes, handle, self.worst, initial=first)
            self.held = []
        self.adapter.tell(*point, loss, initial=initial)


def start(request: Mapping[str, Any]) -> tuple[Session, dict[str, str]]:
    """The session that a "start" request asks for, and the versions of the peer's packages."""
    if request["do"] != "start":
        raise Unsupported(f"the first request must be start; got {request['do']!r}")
    if request["peer"] not in ADAPTERS:
        raise Unsupported(f"there is no peer {request['peer']!r}")
    space = Space(request["space"])
    if not space.axes:
        raise Unsupported("a space must have a parameter that is not fixed")
    module, name, packages = ADAPTERS[request["peer"]]
    versions = {package: importlib.metadata.version(package) for package in packages}
    known = ("seed", "past", "batch", "evaluations", "device")
    setup = Setup(space, *(request[key] for key in known))
    random.seed(setup.stream)
    build = getattr(importlib.import_module(module), name)
    try:
        adapter = build(setup, **request["settings"])
    except (TypeError, ValueError) as error:
        raise Unsupported(f"{error} (peer {request['peer']}, settings {request['settings']})") from error
    sign = 1.0 if request["direction"] == "minimize" else -1.0
    return Session(adapter, space, sign), versions


def _peak_mib() -> int:
    """The most memory that this process has occupied; getrusage would count the parent's share too."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) // 2**10
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 2**10


def serve(requests: queue.SimpleQueue[str], answers: IO[str]) -> None:
    """Answer requests for ever; :func:`listen` ends the process."""
    session = None
    while True:
        try:
            request = json.loads(requests.get())
            if session is None or request["do"] == "start":
                session, versions = start(request)
                answer: dict[str, Any] = {"versions": versions}
            else:
                answer = session.answer(request)
        except Exception as error:
            traceback.print_exc()
            answer = _error(error)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _error(error: Exception) -> dict[str, str]:
    if isinstance(error, Unsupported):
        return {"error": "unsupported", "message": str(error)}
    kind = "missing" if isinstance(error, ImportError) else "failed"
    return {"error": kind, "message": f"{type(error).__name__}: {error}"}


def listen(requests: queue.SimpleQueue[str], lines: IO[str]) -> None:
    """Pass on the lines, and end the process with them."""
    for line in lines:
        requests.put(line)
    os._exit(0)


def main() -> None:
    """Serve standard input and output; what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    sys.path.append(str(Path(__file__).resolve().parent))
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(requests, sys.stdin), daemon=True).start()
    serve(requests, answers)


if __name__ == "__main__":
    main()
