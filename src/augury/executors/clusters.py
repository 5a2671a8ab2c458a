"""Executors of other libraries, for many machines: Dask and Ray.

Their workers need what the function needs, and nothing of Augury.
"""

import contextlib
import uuid
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from augury._errors import UnsupportedError
from augury.executors.processes import not_there, packed

LOST = ("KilledWorker", "WorkerCrashedError", "NodeDiedError", "CancelledError", "FutureCancelledError")
Answer = tuple[str, Any]  # "result" and that, "missing" and why the function cannot be loaded, or "lost"


class Dask(Executor):
    """Evaluates on the workers of a Dask client.

    Functions are submitted as impure: else the replicates of a noisy function would be answered from
    Dask's cache. What was lost with a worker, also a result, Dask begins again by itself; here it ends at
    once then, as lost, so that the run records it and decides.

    Args:
        client: a `distributed.Client`.
    """

    def __init__(self, client: Any) -> None:
        if not callable(getattr(client, "submit", None)) or not hasattr(client, "nthreads"):
            raise UnsupportedError(
                f"dask needs a distributed.Client; got {type(client).__name__}. Write "
                "dask(distributed.Client(address))."
            )
        self._client = client
        self._running: set[Any] = set()

    @property
    def _max_workers(self) -> int:
        return max(1, sum(self._client.nthreads().values()))

    def check(self, fn: Callable[..., Any]) -> None:
        """Raise if the first worker cannot load `fn`; there may be none yet."""
        job = packed(fn, (), {})
        for worker in list(self._client.nthreads())[:1]:
            _result(self._client.run(_over_there(only_load=True), job, workers=[worker])[worker])

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Call `fn` on a worker."""
        name = f"augury-{uuid.uuid4().hex}"
        inner = self._client.submit(_once(_over_there(), name), packed(fn, args, kwargs), pure=False)
        self._running.add(inner)
        return _unwrapped(inner, lambda: self._leave(inner, name))

    def _leave(self, inner: Any, name: str) -> None:
        """Let go of a result: Dask would compute it again if the worker died that holds it."""
        import distributed

        event: Any = distributed.Event
        self._running.discard(inner)
        inner.release()
        event(name, self._client).clear()

    def stop(self) -> None:
        """Cancel what has not begun; Dask does not end what has."""
        self._client.cancel(list(self._running))


class Ray(Executor):
    """Evaluates as tasks of Ray, which is started here if it is not running.

    Args:
        options: of the tasks, such as `num_cpus` or `num_gpus`.
    """

    def __init__(self, **options: Any) -> None:
        try:
            import ray
        except ImportError as error:
            raise UnsupportedError(
                'ray needs the package of that name; got none. Install it with pip install "augury[ray]".'
            ) from error
        self._ray: Any = ray
        if not ray.is_initialized():
            ray.init(log_to_driver=False)
        # a worker that dies is our affair: the trial is marked, and made again
        self._options = {"max_retries": 0, **options}
        self._running: set[Any] = set()

    @property
    def _max_workers(self) -> int:
        each = float(self._options.get("num_cpus", 1.0)) or 1.0
        return max(1, int(self._ray.cluster_resources().get("CPU", 1.0) / each))

    def check(self, fn: Callable[..., Any]) -> None:
        """Raise if a worker cannot load `fn`."""
        job = packed(fn, (), {})
        at_once = {**self._options, "num_cpus": 0, "num_gpus": 0}
        _result(self._ray.get(self._task(at_once, only_load=True).remote(job)))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Call `fn` as a task."""
        task = self._task(self._options).remote(packed(fn, args, kwargs))
        self._running.add(task)
        return _unwrapped(task.future(), lambda: self._running.discard(task))

    def _task(self, options: dict[str, Any], *, only_load: bool = False) -> Any:
        return self._ray.remote(_over_there(only_load=only_load)).options(**options)

    def stop(self) -> None:
        """End what is running."""
        for task in list(self._running):
            with contextlib.suppress(Exception):
                self._ray.cancel(task, force=True)


def dask(client: Any) -> Dask:
    """An executor over the workers of a `distributed.Client`."""
    return Dask(client)


def ray(**options: Any) -> Ray:
    """An executor over Ray; `options` are those of its tasks, such as `num_cpus`."""
    return Ray(**options)


def _over_there(*, only_load: bool = False) -> Callable[[bytes], Answer]:
    """What a worker does. As a function inside another it travels by value: no worker needs Augury."""

    def answer(job: bytes) -> Answer:
        import pickle

        try:
            fn, args, kwargs = pickle.loads(job)
        except Exception as error:
            return "missing", f"{type(error).__name__}: {error}"
        return "result", None if only_load else fn(*args, **kwargs)

    return answer


def _once(answer: Callable[[bytes], Answer], name: str) -> Callable[[bytes], Answer]:
    """What a worker of Dask's does; it does not begin what another one had begun when it died."""

    def begin(job: bytes) -> Answer:
        import distributed

        event: Any = distributed.Event
        begun = event(name)  # the scheduler's
        if begun.is_set():
            return "lost", None
        begun.set()
        return answer(job)

    return begin


def _result(answer: Answer) -> Any:
    kind, content = answer
    if kind == "missing":
        raise not_there(content)
    if kind == "lost":
        raise _lost("it died")
    return content


def _lost(why: str) -> RuntimeError:
    error = RuntimeError(f"its worker is gone ({why})")
    error.lost = error.says_all = True  # type: ignore[attr-defined]
    return error


def _unwrapped(inner: Any, leave: Callable[[], object]) -> "Future[Any]":
    """A future of what the function returned or raised; an error says whether a worker was lost."""
    outer: Future[Any] = Future()
    outer.set_running_or_notify_cancel()

    def ended(done: Any) -> None:
        try:
            outer.set_result(_result(done.result()))
        except BaseException as error:
            cause = getattr(error, "cause", None)  # Ray wraps what the function raised
            shown = cause if isinstance(cause, Exception) else error
            outer.set_exception(_lost(type(error).__name__) if type(error).__name__ in LOST else shown)
        finally:
            with contextlib.suppress(Exception):  # the cluster may have gone
                leave()

    inner.add_done_callback(ended)
    return outer
