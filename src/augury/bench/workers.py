"""Processes that run jobs: they end when the process that started them does, however it ends."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from augury._errors import AuguryError


class JobError(AuguryError, RuntimeError):
    """A job raised an error in its process, or its process died."""


class Workers(Executor):
    """Spawned processes, each driven by a thread; one that dies fails its own job only.

    Args:
        count: how many run at a time.
        fresh: whether every job gets a new process, so that the peak of its memory is the job's own.
    """

    def __init__(self, count: int, *, fresh: bool = False) -> None:
        self._threads = ThreadPoolExecutor(count)
        self._fresh = fresh
        self._lock = threading.Lock()
        self._all: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._stopped = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Call `fn` in a process; an error is raised by the future as a JobError with its text."""
        return self._threads.submit(self._call, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes after their last jobs."""
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            self.stop()

    def stop(self) -> None:
        """End the processes now."""
        with self._lock:
            self._stopped = True
            for worker in self._all:
                worker.process.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in list(self._all):
            self._end(worker)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop() if kind is not None else self.shutdown()

    def _call(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        worker = self._take()
        try:
            worker.pipe.send((fn, args, kwargs))
            error, answer = worker.pipe.recv()
        except (EOFError, OSError):
            self._end(worker)
            code = worker.process.exitcode
            raise JobError(
                f"the process of a run must live until its end; it ended with exit code {code}. "
                "The same command continues the run."
            ) from None
        except BaseException:
            self._end(worker)
            raise
        if self._fresh:
            self._end(worker)
        else:
            with self._lock:
                self._idle.append(worker)
        if error is not None:
            raise JobError(error)
        return answer

    def _take(self) -> "_Worker":
        with self._lock:
            if self._stopped:
                raise JobError("a job must begin before the processes are ended. Submit it earlier.")
            if self._idle:
                return self._idle.pop()
            worker = _Worker()
            self._all.add(worker)
            return worker

    def _end(self, worker: "_Worker") -> None:
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()
        with self._lock:
            self._all.discard(worker)


class _Worker:
    """A process and the pipe to it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,))
        # A process inherits what is blocked: Ctrl-C is for the parent, which ends its workers.
        resource_tracker.ensure_running()  # else the start of the first process would unblock it
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()


def _serve(pipe: "Connection[Any, Any]") -> None:
    """Answer calls by (error or None, result) until the parent closes the pipe or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            fn, args, kwargs = pipe.recv()
        except EOFError:
            return
        answer: tuple[str | None, Any]
        try:
            answer = None, fn(*args, **kwargs)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}", None
        pipe.send(answer)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()  # a pipe that the system closes with the parent, also one that is killed
        os._exit(1)
