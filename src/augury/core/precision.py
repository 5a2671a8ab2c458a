"""Where and how numbers are computed: float64, on the CPU unless asked otherwise, with tame threads.

JAX defaults to float32, to whatever accelerator it finds, and to one BLAS thread per core; each of
the three is wrong for small kernel matrices. Nothing here changes a global setting of the user's:
every computation of Augury runs inside :func:`computing` and leaves the process as it found it. There
are two exceptions: the persistent compilation cache is switched on, once, for a process that has
configured none, and compiled programs are forgotten before a process has too many
(:func:`forget_programs`).
"""

import functools
import os
import pathlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, TypeVar

import equinox as eqx
import jax
import numpy as np
from threadpoolctl import ThreadpoolController

from augury._errors import UnsupportedError

Device = Literal["cpu", "gpu"]

_state = threading.local()
_setup_lock = threading.Lock()
_blas_owner = threading.RLock()  # held by the thread that has set the number of BLAS threads


@functools.cache
def _blas() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401 - loads the BLAS whose threads JAX's LAPACK calls run on

    return ThreadpoolController().select(user_api="blas")


def _threads() -> int:
    """How many threads BLAS uses now."""
    return max((library["num_threads"] for library in _blas().info()), default=1)


@contextmanager
def _blas_threads(limit: int) -> Iterator[None]:
    """Limit BLAS to so many threads, unless another Python thread has just done so.

    The setting belongs to the whole process. Contexts of two Python threads may overlap without being
    nested: if each restored what it found, the process would be left with the limit of the other.
    """
    before = getattr(_state, "limit", None)
    if limit == before or not _blas_owner.acquire(blocking=False):
        yield
        return
    _state.limit = limit
    try:
        with _blas().limit(limits=limit):
            yield
    finally:
        _state.limit = before
        _blas_owner.release()


@functools.cache
def _device(name: Device) -> jax.Device:
    try:
        return jax.devices(name)[0]
    except RuntimeError:
        raise UnsupportedError(
            f"device must be one that JAX can use here; got {name!r}. "
            'Install a JAX with support for it, or use device="cpu".'
        ) from None


@functools.cache
def _use_compilation_cache() -> None:
    """Keep compiled programs between processes, unless the user has configured a cache."""
    config: Any = jax.config
    if config.jax_compilation_cache_dir is not None or not config.jax_enable_compilation_cache:
        return
    try:
        root = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
        folder = pathlib.Path(root) / "augury" / "xla"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (OSError, RuntimeError):
        return  # no home, or a read-only one, costs compile time, nothing else
    config.update("jax_compilation_cache_dir", str(folder))
    config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


@contextmanager
def computing(device: Device = "cpu", *, single_thread: bool = True) -> Iterator[None]:
    """Compute in float64 on `device`; nested contexts keep the outermost device.

    `single_thread` limits BLAS to one thread: on matrices below about 1000×1000 its threads only
    wait for each other (a 128×128 Cholesky took 128 ms instead of 0.4 ms beside a busy process).
    """
    if getattr(_state, "entered", False):
        with _blas_threads(1 if single_thread else _state.threads):
            yield
        return
    with _setup_lock:
        _use_compilation_cache()
    _state.entered, _state.threads = True, _threads()
    try:
        with (
            _blas_threads(1 if single_thread else _state.threads),
            jax.default_device(_device(device)),
            jax.enable_x64(True),
            jax.numpy_rank_promotion("allow"),  # a user's stricter settings are for the user's code
            jax.numpy_dtype_promotion("standard"),
            # not TensorFloat-32, in which the training of networks ends at larger losses
            nullcontext() if device == "cpu" else jax.default_matmul_precision("float32"),
        ):
            yield
    finally:
        _state.entered = False


MOST_PROGRAMS = 256  # in a process; each takes about 110 mappings of memory, and Linux allows 65,530
_programs = 0  # compiled, or read from the cache, since they were forgotten last


def _count_programs(event: str, duration_secs: float, **kwargs: str | int) -> None:
    global _programs
    if event == "/jax/core/compile/backend_compile_duration":
        _programs += 1


jax.monitoring.register_event_duration_secs_listener(_count_programs)


def forget_programs() -> None:
    """Let go of compiled programs once there are more than `MOST_PROGRAMS`.

    Those for fewer observations, or for other spaces, are not needed again, and a process with some
    600 of them cannot compile another: LLVM ends it. What is needed again comes from the
    persistent cache.
    """
    global _programs
    if _programs > MOST_PROGRAMS:
        jax.clear_caches()  # type: ignore[no-untyped-call]
        _programs = 0


Result = TypeVar("Result")


def side_by_side(compute: Callable[[int], Result], count: int) -> list[Result]:
    """compute(0), compute(1), … on the CPU, in as many threads as this process may use cores."""
    known = getattr(os, "sched_getaffinity", None)  # Linux
    cores = len(known(0)) if known else os.cpu_count() or 1

    def one(i: int) -> Result:
        with computing():
            return compute(i)

    if min(count, cores) <= 1:
        return [one(i) for i in range(count)]
    with ThreadPoolExecutor(min(count, cores)) as pool:
        return list(pool.map(one, range(count)))


def is_traced(*trees: Any) -> bool:
    """Whether any array in `trees` belongs to a computation that JAX is tracing."""
    return any(isinstance(leaf, jax.core.Tracer) for tree in trees for leaf in jax.tree.leaves(tree))


def to_numpy(tree: Any) -> Any:
    """Every array of `tree` as a NumPy array; a scalar stays a zero-dimensional one."""
    return jax.tree.map(lambda leaf: np.asarray(leaf) if eqx.is_array(leaf) else leaf, tree)


F = TypeVar("F", bound=Callable[..., Any])

# XLA's newer code generator for the CPU takes longer to compile, and its programs are no faster.
# An option that a version of XLA does not know is an error, so it is given to those that do.
_OPTIONS = {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__[:2] == (0, 10) else None


def jit(function: F) -> F:
    """Compile a function of arrays; everything else in its arguments is fixed, as in `eqx.filter_jit`.

    Called with tracers it is the plain function: options belong to the outermost program.
    """
    program = eqx.filter_jit(function, compiler_options=_OPTIONS)  # type: ignore[call-overload]

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return (function if is_traced(args, kwargs) else program)(*args, **kwargs)

    wrapper.lower = program.lower  # type: ignore[attr-defined]
    return wrapper  # type: ignore[return-value]


def public(method: F) -> F:
    """Let a method written in JAX be called with ordinary arrays, outside any context.

    Called with tracers (inside `jit`, `grad` or `vmap`) it is the plain method. Called with ordinary
    arrays it is compiled, runs in float64 inside :func:`computing`, and returns NumPy arrays. If the
    object has a method `check_points`, it sees the arrays first.
    """
    program = jit(method)

    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_traced(self, args, kwargs):
            return method(self, *args, **kwargs)
        points = [np.asarray(a, dtype=np.float64) for a in args]
        named = {name: np.asarray(a, dtype=np.float64) for name, a in kwargs.items()}
        check: Callable[[np.ndarray], None] = getattr(self, "check_points", lambda _: None)
        for array in (*points, *named.values()):
            check(array)
        with computing():
            return to_numpy(program(self, *points, **named))

    return wrapper  # type: ignore[return-value]
