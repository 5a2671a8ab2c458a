"""Processes that call functions: they end when the process that started them does, however it ends.

A process is a Python of its own that imports nothing of the caller's script: functions and arguments
travel by cloudpickle, so that lambdas, notebooks and scripts without a `__main__` guard work.
"""

import contextlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle

from augury._errors import AuguryError, UnsupportedError

START = "from augury.executors.processes import serve; serve()"
BEGUN = b""  # what a process says when it has loaded a function and calls it
LOADING = 300.0  # seconds that loading a function may take, if its job has a limit
DAY = 86_400.0  # seconds; the system waits for no more than some weeks at a time


class JobError(AuguryError, RuntimeError):
    """A job raised an error in its process; its text is that error's."""

    says_all = True  # the text is enough of a reason
    lost = False  # whether the process died


class JobTimeoutError(JobError):
    """A job took longer than it may, and its process was ended."""


class JobLostError(JobError):
    """A job's process died."""

    lost = True


class MistakeError(JobError, UnsupportedError):
    """What is wrong with a function at whatever point: a run that nothing has come of ends with it."""

    always = False  # whether any run does


class NotThereError(MistakeError):
    """A worker cannot load the function, and no worker will."""

    always = True


class Workers(Executor):
    """Processes, each driven by a thread; one that dies fails its own job only.

    Args:
        count: how many run at a time.
        fresh: whether every job gets a new process, so that the peak of its memory is the job's own.
        timeout: seconds after which a job's process is ended, from when its function is loaded, which may
            take as long, and at least 300 seconds; None for any number.
    """

    def __init__(self, count: int, *, fresh: bool = False, timeout: float | None = None) -> None:
        if timeout is not None and not timeout > 0.0:
            raise UnsupportedError(
                f"trial_timeout must be a positive number; got {timeout!r}. Leave it out for no limit."
            )
        self._threads = ThreadPoolExecutor(count)
        self._fresh, self._timeout = fresh, timeout
        self._loading = None if timeout is None else max(timeout, LOADING)
        self._lock = threading.Lock()
        self._all: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._stopped = False

    def check(self, fn: Callable[..., Any]) -> None:
        """Raise if `fn` cannot travel, or a process cannot load it; that process will be used."""
        self._call(packed(callable, (fn,), {}), None)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Call `fn` in a process; an error is raised by the future as a JobError with its text."""
        return self._threads.submit(self._call, packed(fn, args, kwargs), self._timeout)

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
                worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in list(self._all):
            self._end(worker)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop() if kind is not None else self.shutdown()

    def _call(self, job: bytes, timeout: float | None) -> Any:
        worker = self._take()
        try:
            worker.pipe.send_bytes(job)
            if self._loading is not None and not _in_time(worker.pipe, self._loading):
                raise JobTimeoutError(
                    f"loading a function must take at most {self._loading:g} seconds in a worker; it "
                    "took longer. Let the modules that it needs do less when they are imported."
                )
            said = worker.pipe.recv_bytes()
            if said == BEGUN:
                if timeout is not None and not _in_time(worker.pipe, timeout):
                    raise JobTimeoutError(f"it took longer than {timeout:g} seconds")
                said = worker.pipe.recv_bytes()
            error, answer = pickle.loads(said)
        except (EOFError, OSError):
            self._end(worker)
            raise JobLostError(
                "the process of a job must live until its end; it ended with exit code "
                f"{worker.process.returncode}. Repeat the job."
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
            raise error(answer)
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
        worker.end()
        with self._lock:
            self._all.discard(worker)


class _Worker:
    """A process, the pipe to it, and another one whose end tells it that we are gone."""

    def __init__(self) -> None:
        if os.name != "posix":
            raise UnsupportedError(
                f"worker processes need a POSIX system; got {os.name!r}. Pass an executor of "
                "concurrent.futures instead."
            )
        self.pipe, theirs = multiprocessing.Pipe()
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, str(theirs.fileno()), *sys.argv],
                stdin=subprocess.PIPE,
                env={"JAX_PLATFORMS": "cpu", **os.environ, "PYTHONPATH": paths},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C in a terminal is for us, who end our workers
            )
        finally:
            theirs.close()

    def kill(self) -> None:
        """End the process and those that it has started."""
        with contextlib.suppress(ProcessLookupError):
            if self.process.returncode is None:
                os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Now."""
        self.kill()
        self.process.wait()
        self.pipe.close()
        assert self.process.stdin is not None
        self.process.stdin.close()


def _in_time(pipe: "Connection[Any, Any]", seconds: float) -> bool:
    """Whether something comes through a pipe in so many seconds."""
    until = time.monotonic() + seconds
    while not pipe.poll(min(seconds, DAY)):
        seconds = until - time.monotonic()
        if seconds <= 0.0:
            return False
    return True


def packed(fn: Callable[..., Any], args: Any, kwargs: Any) -> bytes:
    """A call as it travels; of a function that cannot, a sentence."""
    try:
        return bytes(cloudpickle.dumps((fn, args, kwargs)))
    except Exception as error:
        raise UnsupportedError(
            f"a function for worker processes must be one that cloudpickle can send; got {fn!r}: "
            f"{str(error).rstrip('.')}. Open files, locks and connections inside of it."
        ) from error


def unpacked(job: bytes, *more: Any) -> Any:
    """What a packed call comes to, with more arguments."""
    fn, args, kwargs = _loaded(job)
    return fn(*args, *more, **kwargs)


def _loaded(job: bytes) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    try:
        fn, args, kwargs = pickle.loads(job)
    except Exception as error:
        raise not_there(f"{type(error).__name__}: {error}") from error
    return fn, args, kwargs


def not_there(why: str) -> NotThereError:
    """The error of a worker that cannot load a function."""
    return NotThereError(
        f"a function for workers must be one that they can load; a worker said {why.rstrip('.')}. "
        "Install what it needs where the workers are, or define it in the script that you start."
    )


def serve() -> None:
    """Answer calls by (None, result) or (an error's class, its text), until the parent ends.

    Before a function is called that could be loaded, BEGUN is sent: what it imports is not its own time.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe: Connection[Any, Any] = Connection(int(sys.argv[1]))
    sys.argv = sys.argv[2:]  # the caller's
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            job = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        pipe.send_bytes(_answer(job, pipe))


def _answer(job: bytes, pipe: "Connection[Any, Any]") -> bytes:
    try:
        fn, args, kwargs = _loaded(job)
        pipe.send_bytes(BEGUN)
        return bytes(cloudpickle.dumps((None, fn(*args, **kwargs))))
    except MistakeError as error:
        return pickle.dumps((type(error), str(error)))
    except Exception as error:
        return pickle.dumps((JobError, f"{type(error).__name__}: {error}"))


def _end_with_parent() -> None:
    """End this process when the other end of its standard input is closed: when the parent ends."""
    while os.read(0, 1024):
        pass
    os.killpg(0, signal.SIGKILL)  # and the processes that it has started
