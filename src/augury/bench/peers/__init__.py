"""Other libraries as methods of experiments, each in a process and an environment of its own."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from augury._errors import AuguryError, UnsupportedError
from augury.bench.driver import Asked, Event, NotAvailableError
from augury.bench.experiment import Job
from augury.bench.problem import Problem
from augury.core.precision import Device
from augury.space import Pool

CHILD = Path(__file__).with_name("child.py")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
KEPT = 2000  # characters of a peer's standard error that an error message quotes
ANSWER_LIMIT = 3600.0  # seconds in which a peer must answer


class PeerError(AuguryError, RuntimeError):
    """A peer's process broke down, or did not speak the protocol."""


@dataclass(frozen=True)
class Peer:
    """A library that can be a method: `environment` is the folder that `make peers` makes for it."""

    name: str
    title: str
    packages: tuple[str, ...] = ()
    environment: str | None = None  # None: it needs nothing but Python

    def python(self) -> Path:
        """The interpreter that has its packages."""
        if self.environment is None:
            return Path(sys.executable)
        for folder in _folders():
            python = folder / self.environment / "bin" / "python"
            if python.exists():
                return python.absolute()
        raise NotAvailableError(
            f"{self.name} needs {', '.join(self.packages)} in {self.environment}, which is not in "
            f"{' or '.join(map(str, _folders()))}: run make peers"
        )


MAIN, BAYESOPT, HEBO = ".venv-peers", ".venv-bayesopt", ".venv-hebo"
PEERS = {
    peer.name: peer
    for peer in (
        Peer("random", "uniform points"),
        Peer("optuna-tpe", "Optuna, TPESampler", ("optuna",), MAIN),
        Peer("optuna-gp", "Optuna, GPSampler", ("optuna", "torch"), MAIN),
        Peer("botorch", "BoTorch, SingleTaskGP and qLogEI", ("botorch", "torch"), MAIN),
        Peer("turbo", "TuRBO-1 (ours, on BoTorch's process)", ("botorch", "torch"), MAIN),
        Peer("smac", "SMAC3, HyperparameterOptimizationFacade", ("smac",), MAIN),
        Peer("cmaes", "CMA-ES (cmaes)", ("cmaes",), MAIN),
        Peer("nevergrad", "Nevergrad, NGOpt", ("nevergrad",), MAIN),
        Peer("bayes-opt", "bayesian-optimization 3", ("bayesian-optimization",), BAYESOPT),
        Peer("hebo", "HEBO", ("HEBO", "torch"), HEBO),
    )
}


def _folders() -> list[Path]:
    """Where environments may lie: the folder AUGURY_PEERS, or here, or beside the sources."""
    if "AUGURY_PEERS" in os.environ:
        return [Path(os.environ["AUGURY_PEERS"])]
    return [Path(), Path(__file__).resolve().parents[4]]


def find_peer(name: str) -> Peer:
    """The peer of a name, if its environment is there."""
    if name not in PEERS:
        raise UnsupportedError(f"peer must be one of {', '.join(PEERS)}; got {name!r}. Correct it.")
    PEERS[name].python()
    return PEERS[name]


def check_peer(method: str, spec: Mapping[str, Any]) -> None:
    """Refuse a method's table that does not describe a peer; its environment need not be there."""
    name, settings = spec["peer"], spec.get("settings", {})
    if not isinstance(name, str) or name not in PEERS:
        raise UnsupportedError(f"peer must be one of {', '.join(PEERS)}; got {name!r}. Correct it.")
    more = sorted(spec.keys() - {"peer", "settings"})
    if more:
        raise UnsupportedError(
            f"method {method!r} must have peer and settings only; got {more} too. Put them into settings."
        )
    if not isinstance(settings, Mapping):
        raise UnsupportedError(
            f"the settings of method {method!r} must be a table; got {settings!r}. "
            "Write settings = { name = value }."
        )


class PeerDriver:
    """Drives a peer by ask and tell in lines of JSON; see :mod:`augury.bench.peers.child`.

    The method's table has the name as `peer`, and may have `settings` that the peer's class takes.
    A resumed run is a new peer that is told the past.
    """

    def __init__(self, job: Job, problem: Problem, device: Device = "cpu") -> None:
        check_peer(job.method.name, job.method.spec)
        self._peer = find_peer(job.method.spec["peer"])
        if isinstance(problem.space, Pool):
            raise UnsupportedError(
                f"peers must search a Space; got the {problem.space!r} of {problem.name}. "
                "Use a method of Augury on pools."
            )
        self._space = problem.space
        self._opening = {
            "do": "start",
            "peer": self._peer.name,
            "space": problem.space.to_dict()["params"],
            "direction": problem.direction,
            "seed": job.seed,
            "past": 0,
            "batch": job.task.batch,
            "evaluations": job.task.evaluations,
            "device": device,
            "settings": dict(job.method.spec.get("settings", {})),
        }
        self._next = 0
        self._child = Child(self._peer)
        try:
            answer = self._child.request(self._opening)
        except AuguryError:
            self.close()
            raise
        versions = answer.get("versions")  # of the peer's packages
        self.versions: Mapping[str, str] = versions if isinstance(versions, dict) else {}

    def start(self, events: Sequence[Event]) -> None:
        """Begin anew, and tell the past."""
        self._child.request(self._opening | {"past": len(events)})
        asked = {event.number: event.params for event in events if event.kind == "ask"}
        for event in events:
            self._next = max(self._next, event.number + 1)
            if event.kind != "ask":
                params = asked.pop(event.number) if event.kind == "tell" else event.params
                self._past(event.number, params or {}, event.value, initial=event.kind == "initial")
        for number, params in asked.items():
            self._child.request({"do": "pending", "number": number, "params": dict(params or {})})

    def initial(self, number: int, params: Mapping[str, Any], value: float | None) -> None:
        """Tell a point that the peer was not asked for."""
        self._next = max(self._next, number + 1)
        self._past(number, params, value, initial=True)

    def ask(self, n: int) -> Sequence[Asked]:
        """The next n points."""
        numbers = range(self._next, self._next + n)
        answer = self._child.request({"do": "ask", "numbers": list(numbers)})
        points = answer.get("points")
        if not isinstance(points, list) or len(points) != n:
            raise PeerError(f"{self._peer.name} must answer with {n} points; got {answer}. Correct it.")
        self._next += n
        peak = answer.get("peak_mib")
        info = {"peak_mib": peak if isinstance(peak, int | float) else 0}
        return [
            Asked(number, self._space.check(point), info)
            for number, point in zip(numbers, points, strict=True)
        ]

    def tell(self, asked: Asked, value: float | None) -> None:
        """Tell the value of a point."""
        self._child.request({"do": "tell", "number": asked.number, "value": value})

    def recommend(self) -> None:
        """The peers are compared by the values they find."""

    def close(self) -> None:
        """End the process."""
        self._child.close()

    def _past(
        self, number: int, params: Mapping[str, Any], value: float | None, *, initial: bool
    ) -> None:
        point = {"number": number, "params": dict(params), "value": value, "initial": initial}
        self._child.request({"do": "past", **point})


class Child:
    """The process of a peer, in a temporary folder of its own."""

    def __init__(self, peer: Peer) -> None:
        self._name = peer.name
        self._folder = tempfile.TemporaryDirectory(prefix="augury-peer-", ignore_cleanup_errors=True)
        self._errors = Path(self._folder.name, "stderr.txt")
        with self._errors.open("wb") as errors:
            # -I: neither variables nor folders of this process decide what the other one imports.
            self._process = subprocess.Popen(
                [str(peer.python()), "-I", str(CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self._folder.name,
                env=dict.fromkeys(THREADS, "1") | os.environ,
                encoding="utf-8",
                errors="backslashreplace",  # what is not UTF-8 is no JSON either, and gets its error
            )

    def request(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer to a request."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        limit = threading.Timer(ANSWER_LIMIT, end)
        limit.daemon = True
        limit.start()
        try:
            process.stdin.write(json.dumps(request, allow_nan=False) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            limit.cancel()
        if not line and late.is_set():
            raise PeerError(
                f"{self._name} must answer within {ANSWER_LIMIT:g} s; it did not, and was ended. "
                f"Its last words:\n{self._last_words()}"
            )
        if not line.endswith("\n"):
            raise PeerError(f"{self._name} must answer; its process ended with {self._end()}")
        try:
            answer = json.loads(line)
        except json.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict):
            raise PeerError(f"{self._name} must answer with a JSON object; got {line[:KEPT]!r}")
        if "error" in answer:
            raise self._error(answer["error"], str(answer.get("message")))
        return answer

    def _error(self, kind: str, message: str) -> AuguryError:
        if kind == "unsupported":
            return UnsupportedError(f"{message}. Use another peer or another problem.")
        if kind == "missing":
            return NotAvailableError(f"{self._name} misses a package ({message}): run make peers")
        return PeerError(f"{self._name} failed with {message}; its last words:\n{self._last_words()}")

    def _end(self) -> str:
        code = self._process.wait()
        return f"exit code {code}; its last words:\n{self._last_words()}"

    def _last_words(self) -> str:
        return self._errors.read_text(encoding="utf-8", errors="replace")[-KEPT:].strip() or "(none)"

    def close(self) -> None:
        """End the process and remove its folder."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._folder.cleanup()
