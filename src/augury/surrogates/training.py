"""Training of a batch of networks to convergence, by Levenberg–Marquardt in the dual (`levenberg.py`).

The method depends on the number of rows alone: up to `LARGEST_MATRIX` the n × n systems are factorized
("dual"), beyond they are solved by conjugate gradients ("dual-cg"). Products with the Jacobian are
computed in float32 where λ and the tolerance allow it, which halves the time and changes the loss by a
few percent at most; factorizations, sums and results are in float64.

Kinks are where a descent gets stuck: a step is judged by a linear model that ends at the next kink. A
ReLU network is therefore trained in stages (graduated optimization): first with its activation seen
through noise of width ε and with a larger λ, then with less and less of both, and last as it is.
"""

import threading
import time
from collections.abc import Hashable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from augury._types import Array
from augury.core.precision import computing, jit, side_by_side, to_numpy
from augury.surrogates.levenberg import REASONS, TINY, Outcome, Problem, State, descend
from augury.surrogates.networks import MLP, Network
from augury.surrogates.tangent import MEMORY, Params, cast, ntk

TOLERANCE = 1e-3  # of the gradient's norm, as a fraction of what it was at θ_0
CONTINUED = 1e-2  # the same for a training that goes on from one with other observations
INTERPOLATING = 1e-6  # the same where λ is to be 0: the loss has no other scale
MAX_STEPS = 100
LARGEST_LEVEL = 1024  # rows beyond which some of them come first
LARGEST_MATRIX = 2048  # rows up to which K is formed and factorized at every step
LARGEST_APART = 1024  # rows up to which a training leaves cores idle, and others run beside it
Stage = tuple[float, float, float]
STAGES: tuple[Stage, ...] = (  # ε of the rounded kinks, and the factors of λ and of the tolerance
    (0.5, 100.0, 10.0),
    (0.1, 1.0, 10.0),
    (0.0, 1.0, 1.0),
)
FINE_STAGES: tuple[Stage, ...] = (
    (0.5, 100.0, 10.0),
    (0.3, 10.0, 10.0),
    (0.2, 1.0, 1.0),
    (0.1, 1.0, 1.0),
    (0.05, 1.0, 1.0),
    (0.0, 1.0, 1.0),
)
FEW_COLUMNS = 5  # up to which the stages are the fine ones: kinks are met again and again there
FINE_TOLERANCE = 1e-4  # with them, since the loss goes on falling where the gradient is small
FINE_STEPS = 1000  # the most with them, up to
FEW_ROWS = 128  # so many rows; beyond, fewer in proportion
DAMPING = 4.0  # of the first step of a stage after the first, in units of λ
SHORTER = 4  # times fewer steps are the most of a stage before the last
PROGRAMS = 64  # that are kept compiled
SINGLE_LAM = 2.5e-6  # the smallest λ for which products are computed in float32, in units of K's diagonal
SINGLE_TOLERANCE = 1e-4  # and the smallest tolerance
SINGLE_UNIT = 1e12  # and the largest such unit, or its inverse: beyond, products leave float32's range
NO_LAM = 2.5e-9  # below which λ is to be 0, in the same units
FEW_POINTS = 8  # that show the scale of a network
BATCH_MEMORY = 4 * 2**30  # bytes for the networks that are trained side by side on an accelerator


Start = tuple[Params, Array]  # networks, and the damping of the first step in units of √φ


class Trained(NamedTuple):
    """Trained networks, and how the training went; arrays have one entry per network."""

    params: Params
    loss: Float[np.ndarray, " B"]  # φ
    misfit: Float[np.ndarray, " B"]  # ‖t − f‖²
    gradient_norm: Float[np.ndarray, " B"]  # ‖½∇φ‖, as a fraction of what it was at θ_0
    damping: Float[np.ndarray, " B"]  # that another training may begin with, in units of √φ
    steps: Int[np.ndarray, " B"]  # with those on a part of the observations
    converged: Bool[np.ndarray, " B"]
    reasons: tuple[str, ...]
    method: str
    seconds: float


def train(
    network: Network,
    theta0: Params,
    x: Float[Array, "n D"],
    mask: Bool[Array, " n"],
    targets: Float[Array, "B n"],
    *,
    lam: float | Array,
    offset: Float[Array, "B n"] | None = None,
    begin: Trained | None = None,
    tolerance: float | None = None,
    max_steps: int | None = None,
) -> Trained:
    """B networks, each trained from its own θ_0 on its own targets; never raises because of the data.

    Args:
        network: the network.
        theta0: its initial parameters, stacked along a first axis of length B.
        x: points, padded to a bucket.
        mask: which rows of `x` are points.
        targets: y, for every network.
        lam: λ; below 1e-10 times the mean of K's diagonal it is raised to that, which interpolates.
        offset: fixed values that are added to the network's before the comparison with the targets.
        begin: where the descent begins: at the end of another training of these networks. None is θ_0
            itself or, with many points, the training on every second of them (the fourth, … where a half
            is too many for a factorization): its steps cost a fraction, and what follows needs fewer.
        tolerance: the gradient's norm at which a network has converged, as a fraction of that at θ_0;
            None is TOLERANCE, CONTINUED where the descent goes on in one stage, or less where λ is tiny
            or many kinks have to be passed.
        max_steps: the most steps of a descent; of a stage before the last, a quarter of them.
    """
    started = time.perf_counter()
    stages: tuple[Stage, ...] = ()
    unit = _unit(network, theta0, np.asarray(x))
    small, earlier = float(lam) / unit, np.asarray(0)
    at_once = begin is None and len(x) <= LARGEST_LEVEL
    few = at_once and np.shape(x)[1] <= FEW_COLUMNS
    fine = few and _kinks(network)
    if max_steps is None:
        many = FINE_STEPS * FEW_ROWS // max(len(x), FEW_ROWS)
        max_steps = max(many, MAX_STEPS) if fine else MAX_STEPS
    if at_once:
        stages = FINE_STAGES if few else STAGES
    elif begin is None:
        every = max(2, 1 << (-(-len(x) // LARGEST_MATRIX) - 1).bit_length())  # a power of two
        apart = None if offset is None else np.asarray(offset)[:, ::every]
        some = np.asarray(x)[::every], np.asarray(mask)[::every], np.asarray(targets)[:, ::every]
        coarse = train(
            network, theta0, *some, lam=lam, offset=apart, tolerance=tolerance, max_steps=max_steps
        )
        begin, stages = coarse, STAGES[1:] if len(x) <= LARGEST_MATRIX else ()
        earlier = coarse.steps
    if tolerance is None:
        if small < SINGLE_LAM:
            tolerance = INTERPOLATING if small < NO_LAM else TOLERANCE
        elif fine:
            tolerance = FINE_TOLERANCE
        else:
            tolerance = TOLERANCE if begin is None or stages else CONTINUED
    x, mask = np.asarray(x, dtype=np.float64), np.asarray(mask, dtype=bool)
    goal = np.asarray(targets, dtype=np.float64)
    goal = np.where(mask, goal if offset is None else goal - np.asarray(offset), 0.0)
    lam = np.asarray(lam, dtype=np.float64)
    single = small >= SINGLE_LAM and tolerance >= SINGLE_TOLERANCE
    single = single and 1.0 / SINGLE_UNIT <= unit <= SINGLE_UNIT
    method = "dual" if len(x) <= LARGEST_MATRIX else "dual-cg"
    with computing():
        problem = Problem(network, theta0, x, mask.astype(np.float64), goal, lam)
        limits = np.asarray(tolerance, dtype=np.float64), np.asarray(max_steps)
        first = None if begin is None else (begin.params, begin.damping)
        params, loss, state = to_numpy(_train_all(problem, first, *limits, single, method, stages))
    with np.errstate(over="ignore"):  # as in compiled code
        misfit = np.sum(state.r**2, axis=1)
    outcomes = [Outcome(int(outcome)) for outcome in state.outcome]
    return Trained(
        params=params,
        loss=loss,
        misfit=misfit,
        gradient_norm=state.gradient,
        damping=np.where(state.outcome == Outcome.CONVERGED, state.mu / np.sqrt(loss + TINY), 0.0),
        steps=state.steps + earlier,
        converged=np.array([outcome in (Outcome.CONVERGED, Outcome.SETTLED) for outcome in outcomes]),
        reasons=tuple(REASONS[outcome] for outcome in outcomes),
        method=f"{method}, float32 products" if single else method,
        seconds=time.perf_counter() - started,
    )


def _unit(network: Network, theta0: Params, x: Float[np.ndarray, "n D"]) -> float:
    """The mean of K's diagonal at a few points; 1 where that is not a number."""
    first = jax.tree.map(lambda leaf: np.asarray(leaf)[0], theta0)
    unit = float(np.mean(np.diagonal(ntk(network, first, x[:FEW_POINTS]))))
    return unit if unit > 0.0 else 1.0  # infinity stays: float32 is not for it


def _train_all(
    problem: Problem,
    begin: Start | None,
    tolerance: Array,
    max_steps: Array,
    single: bool,
    method: str,
    stages: tuple[Stage, ...],
) -> tuple[Params, Array, State]:
    """On an accelerator all networks together, as many as its memory holds.

    On a CPU one at a time in each of a few threads, whatever their number: other batches compile nothing.
    """
    together, (count, n) = _together(problem), problem.target.shape
    if together is not None:
        return _train(problem, begin, tolerance, max_steps, single, method, stages, together)

    def arguments(i: int) -> tuple[Any, ...]:
        each = problem.theta0, problem.target, begin
        theta0, target, first = jax.tree.map(lambda leaf: np.asarray(leaf)[i : i + 1], each)
        own = problem._replace(theta0=theta0, target=target)
        return own, first, tolerance, max_steps, single, method, stages, 1

    program = _program(arguments(0))

    def one(i: int) -> tuple[Params, Array, State]:
        return to_numpy(program(*arguments(i)))

    done = side_by_side(one, count) if n <= LARGEST_APART else list(map(one, range(count)))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *done)


_programs: dict[Hashable, Any] = {}
_compiling = threading.Lock()


def _program(arguments: tuple[Any, ...]) -> Any:
    """`_train` compiled for such arguments, before threads need it.

    Two threads that find at the same time that a program is missing, and read it from the compilation
    cache, have crashed the process.
    """
    arrays, others = eqx.partition(arguments, eqx.is_array)
    fixed, structure = jax.tree.flatten(others)
    kinds = tuple((leaf.shape, leaf.dtype.str) for leaf in jax.tree.leaves(arrays))
    key = structure, tuple(fixed), kinds
    with _compiling:
        if key not in _programs:
            while len(_programs) >= PROGRAMS:
                del _programs[next(iter(_programs))]  # the oldest
            _programs[key] = _train.lower(*arguments).compile()  # type: ignore[attr-defined]
        return _programs[key]


def _together(problem: Problem) -> int | None:
    """How many networks an accelerator trains together; None on a CPU."""
    if next(iter(jnp.zeros(()).devices())).platform == "cpu":
        return None
    count, n = problem.target.shape
    each = 48 * min(n, LARGEST_MATRIX) ** 2 + (0 if isinstance(problem.network, MLP) else 4 * MEMORY)
    return int(np.clip(BATCH_MEMORY // each, 1, count))


@jit
def _train(
    problem: Problem,
    begin: Start | None,
    tolerance: Array,
    max_steps: Array,
    single: bool,
    method: str,
    stages: tuple[Stage, ...],
    together: int,
) -> tuple[Params, Array, State]:
    dtype = jnp.float32 if single else jnp.float64
    x = jnp.where(problem.mask[:, None] > 0.0, problem.x, problem.x[0])  # padding at a harmless point
    network, x = cast((problem.network, x), dtype)

    def one(item: tuple[Params, Array, Start | None]) -> tuple[Params, Array, State]:
        theta0, target, first = item
        own = Problem(network, cast(theta0, dtype), x, problem.mask, target, problem.lam)
        delta = None if first is None else cast(_change(theta0, first[0]), dtype)
        limits = tolerance, max_steps, method == "dual"
        if staged:
            loss, end = _by_stages(own, stages, *limits, delta)
        else:
            loss, end = descend(own, *limits, delta, (0.0, 0.0 if first is None else first[1]))
        params = jax.tree.map(lambda a, b: a + b.astype(a.dtype), theta0, end.delta)
        return params, loss, _slim(end)._replace(delta=None)

    staged = stages and _kinks(network)
    stacked = (problem.theta0, problem.target, begin)
    return jax.lax.map(one, stacked, batch_size=None if together == 1 else together)


def _by_stages(
    problem: Problem,
    stages: tuple[Stage, ...],
    tolerance: Array,
    max_steps: Array,
    direct: bool,
    begin: Params | None,
) -> tuple[Array, State]:
    """Descents on less and less rounded networks, each from where the last one ended; one program."""

    def stage(before: tuple[Array, State], now: tuple[Array, Array]) -> tuple[tuple[Array, State], None]:
        (width, factor, loose), is_last = now
        network, used = problem.network.rounded(width), before[1].steps
        assert network is not None
        own = problem._replace(network=network, lam=factor * problem.lam)
        limit = jnp.where(is_last, max_steps, -(-max_steps // SHORTER))
        is_first = (used == 0) & (begin is None)
        damping = jnp.where(is_first, 0.0, DAMPING), 0.0
        loss, end = descend(own, loose * tolerance, limit, direct, before[1].delta, damping)
        return (loss, _slim(end)._replace(steps=end.steps + used)), None

    def plainly() -> tuple[Array, State]:
        loss, end = descend(problem, tolerance, max_steps, direct)
        return loss, _slim(end)

    loss, start = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(plainly))
    start = start if begin is None else start._replace(delta=begin)
    is_last = jnp.arange(len(stages)) == len(stages) - 1
    return jax.lax.scan(stage, (loss, start), (jnp.asarray(stages), is_last))[0]


def _kinks(network: Network) -> bool:
    """Whether it is known to have kinks, which can be rounded."""
    return network.rounded(jnp.zeros(())) is not None


def _slim(state: State) -> State:
    return state._replace(tangent=None, K=None, near=None)  # type: ignore[arg-type]


def _change(theta0: Params, first: Params) -> Params:
    """δ, or 0 if a training before has not ended at numbers."""
    finite = jnp.all(jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(first)]))
    return jax.tree.map(lambda a, b: jnp.where(finite, b - a, 0.0), theta0, first)
