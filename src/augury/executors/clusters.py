"""Executors of other libraries, for many machines: Dask and Ray.

Their workers need what the function needs, and nothing of Augury.
"""

import contextlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from augury._errors import UnsupportedError
from augury.executors.processes import not_there, packed

LOST = ("KilledWorker", "WorkerCrashedError", "NodeDiedError", "CancelledError", "FutureCancelledError")


class Dask(Executor):
    """Evaluates on the workers of a Dask client.

    Functions are submitted as impure: else the replicates of a noisy function would be answered from
    Dask's cache.

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
        self._inner = client.get_executor(pure=False)

    @property
    def _max_workers(self) -> int:
        return max(1, sum(self._client.nthreads().values()))

    def check(self, fn: Callable[..., Any]) -> None:
        """Raise if the first worker cannot load `fn`; there may be none yet."""
        job = packed(fn, (), {})
        for worker in list(self._client.nthreads())[:1]:
            _loaded(self._client.run(_over_there(only_load=True), job, workers=[worker])[worker])

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Call `fn` on a worker."""
        return _unwrapped(self._inner.submit(_over_there(), packed(fn, args, kwargs)))

    def stop(self) -> None:
        """Cancel what has not begun; Dask does not end what has."""
        self._inner.shutdown(wait=False)
        self._inner = self._client.get_executor(pure=False)  # for another run


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
        _loaded(self._ray.get(self._task(at_once, only_load=True).remote(job)))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Call `fn` as a task."""
        task = self._task(self._options).remote(packed(fn, args, kwargs))
        self._running.add(task)
        future: Future[Any] = task.future()
        future.add_done_callback(lambda _: self._running.discard(task))
        return _unwrapped(future)

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


def _over_there(*, only_load: bool = False) -> Callable[[bytes], tuple[str | None, Any]]:
    """What a worker does: it answers by (why the function cannot be loaded, None) or (None, its result).

    As a function inside another it travels by value, so that workers need not have Augury.
    """

    def answer(job: bytes) -> tuple[str | None, Any]:
        import pickle

        try:
            fn, args, kwargs = pickle.loads(job)
        except Exception as error:
            return f"{type(error).__name__}: {error}", None
        return None, None if only_load else fn(*args, **kwargs)

    return answer


def _loaded(answer: tuple[str | None, Any]) -> Any:
    why, result = answer
    if why is not None:
        raise not_there(why)
    return result


def _unwrapped(inner: "Future[Any]") -> "Future[Any]":
    """A future of what the function returned or raised; an error says whether a worker was lost."""
    outer: Future[Any] = Future()
    outer.set_running_or_notify_cancel()

    def ended(done: "Future[Any]") -> None:
        try:
            outer.set_result(_loaded(done.result()))
        except BaseException as error:
            cause = getattr(error, "cause", None)  # Ray wraps what the function raised
            shown = cause if isinstance(cause, Exception) else error
            if type(error).__name__ in LOST:
                shown = RuntimeError(f"its worker is gone ({type(error).__name__})")
                shown.lost = shown.says_all = True  # type: ignore[attr-defined]
            outer.set_exception(shown)

    inner.add_done_callback(ended)
    return outer
