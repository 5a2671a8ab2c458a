"""Leases: who evaluates a trial, and whether it still does.

A lease names a host, a process and a number that its holder raises. It has expired when a watcher's own
clock has seen no change for its length, or at once when the process is known to be dead. Clocks of other
machines do not matter.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial

LEASE = "augury:lease"
CLAIM = "augury:claim"  # the lease of who tries to begin a trial that waits; several may
UNKNOWN = "running"  # of a process that is there, the start
SECONDS = 60.0  # without a change, after which a lease has expired


class Holder:
    """Holds the leases of the trials that a process evaluates, and raises their numbers.

    Args:
        storage: where the trials are.
        seconds: the length of a lease.
    """

    def __init__(self, storage: BaseStorage, seconds: float = SECONDS) -> None:
        self._storage, self._seconds = storage, seconds
        self._held: set[int] = set()
        self._count = 0
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._raise, name="augury-leases", daemon=True)

    def __enter__(self) -> "Holder":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def claim(self, trial_id: int) -> None:
        """Say who will hold the lease of a trial, if we are the one that begins it."""
        self._storage.set_trial_system_attr(trial_id, CLAIM, self.lease())

    def take(self, trial_id: int) -> None:
        """Hold the lease of a trial."""
        self._write(trial_id)
        self.keep(trial_id)

    def keep(self, trial_id: int) -> None:
        """Hold the lease of a trial that was made with it."""
        with self._lock:
            self._held.add(trial_id)

    def lease(self) -> str:
        """The text of a lease as of now."""
        return json.dumps([host(), os.getpid(), started(os.getpid()), self._count])

    def leave(self, trial_id: int) -> None:
        """Let it go; the trial has ended."""
        with self._lock:
            self._held.discard(trial_id)

    def _raise(self) -> None:
        while not self._ended.wait(self._seconds / 4):
            self._count += 1
            with self._lock:
                held = tuple(self._held)
            for trial_id in held:
                try:
                    self._write(trial_id)
                except Exception:  # it ended meanwhile, or the database is away: the next time
                    continue

    def _write(self, trial_id: int) -> None:
        self._storage.set_trial_system_attr(trial_id, LEASE, self.lease())


class Watcher:
    """Sees which leases of others have expired.

    Args:
        seconds: the length of a lease.
        clock: of this process alone.
    """

    def __init__(self, seconds: float = SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._seen: dict[int, tuple[object, float]] = {}  # by trial: the lease, and since when

    def expired(self, trial: FrozenTrial) -> str | None:
        """Why a running trial's lease is no longer held; None while it may be, or of a trial without one.

        No run has begun that one, but Optuna, whose processes give no sign.
        """
        lease, now = lease_of(trial), self._clock()
        if lease is None:
            return None
        before, since = self._seen.get(trial._trial_id, (None, now))
        if trial._trial_id not in self._seen or before != lease:
            self._seen[trial._trial_id] = lease, now
            since = now
        if is_dead(lease):
            return "its process died"
        if now - since >= self._seconds:
            return f"its process gave no sign for {self._seconds:g} seconds"
        return None


def lease_of(trial: FrozenTrial) -> object:
    """The lease of a trial that a run has begun, or may have; None of Optuna's own."""
    return trial.system_attrs.get(LEASE, trial.system_attrs.get(CLAIM))


def is_of_this_process(lease: object) -> bool:
    """Whether this process holds a lease."""
    return str(lease).startswith(json.dumps([host(), os.getpid(), started(os.getpid())])[:-1])


def is_dead(lease: object) -> bool:
    """Whether the process that a lease names is known to be dead: on this host, and not there."""
    try:
        where, pid, start, _ = json.loads(lease)  # type: ignore[arg-type]
        return where == host() and started(int(pid)) not in (start, UNKNOWN)
    except (TypeError, ValueError):
        return False


def host() -> str:
    """A name of this machine that another start of it does not have, nor a container on it.

    The processes of a container have numbers of their own, though its host name may be the machine's.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        processes = os.readlink("/proc/self/ns/pid")
    except OSError:
        boot = processes = ""
    return f"{socket.gethostname()} {boot} {processes}".strip()


def started(pid: int) -> str | None:
    """When a process started, as text; None if there is no such process, UNKNOWN of a hidden one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return UNKNOWN
