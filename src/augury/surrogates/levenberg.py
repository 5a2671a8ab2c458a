"""Levenberg–Marquardt in the dual.

A network minimizes φ(θ) = ‖t − f(X; θ)‖² + λ‖θ − θ_0‖², with t the targets less a fixed offset. At
θ = θ_0 + δ let r = t − f(X; θ) be the residuals and J their Jacobian. The step d minimizes the linearized

    ‖r − Jd‖² + λ‖δ + d‖² + μ‖d‖²,   so that   (JᵀJ + sI) d = Jᵀr − λδ,   s = λ + μ.

Since p is much larger than n, this is solved through K = JJᵀ, the empirical NTK at θ (n × n):

    (K + sI) a = r + (λ/s) Jδ,   d = Jᵀa − (λ/s) δ.                                       (step)

Then r − Jd = s·a: what the linear model expects of the residuals, and of φ, costs nothing more, and

    ‖½∇φ‖² = ‖Jᵀr − λδ‖² = rᵀKr − 2λ rᵀJδ + λ²‖δ‖².                                        (gradient)

One linearization, one product with J and two with Jᵀ make a step. The second corrects for the curvature:
where the residuals at θ + d are r_1 and not s·a, Jᵀ(K + sI)⁻¹(r_1 − s·a) is added to d, with the matrix
already factorized. Without it a step along the manifold of equal fit leaves the manifold (the Maratos
effect), and small λ would mean small steps. The damping μ follows the gain ratio of actual and expected
decrease (Nielsen), and grows faster after a step whose error, which is of second order in its length, was
many times what it should have gained. For λ → 0 the first term of d is the step of least norm, and the
limit is the interpolation nearest to θ_0.

Where n is large, K is not formed: the systems are solved by conjugate gradients (`dual_solve.py`), with
residuals e = b − (K + sI) a that enter the linear model: r − Jd = s·a + e. The decrease that it expects
of d costs no product, since ‖Jᵀa‖² = aᵀ(b − e − s·a), and that of the exact d is larger by
eᵀK(K + sI)⁻¹e < ‖e‖²: the iterations end when ‖e‖² is a small part of the decrease.

References: Nielsen (1999), "Damping parameter in Marquardt's method"; Nocedal & Wright (2006),
"Numerical optimization", section 18.3.
"""

import enum
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from augury._types import Array
from augury.surrogates.dual_solve import Preconditioner, conjugate, factorized, is_stale, precondition
from augury.surrogates.networks import Network
from augury.surrogates.tangent import Params, Tangent

GAIN = 20.0  # the decrease that is expected of a last step, as a fraction of the loss, in tolerances
EXACT = 1e-8  # or as a fraction of the loss at θ_0, since for λ → 0 the loss itself vanishes
WINDOW = 8  # steps that together lower the loss by less than `SETTLED` tolerances are the last
SETTLED = 10.0  # and a gradient of so many, where no step lowers the loss, is that of a kink
LEAST_LAM = 1e-10  # the smallest λ, as a fraction of the mean of K's diagonal at θ_0
SMALLEST_RATIO = 1e-4  # of actual and expected decrease, for a step to be taken
LINEAR = 0.9  # the ratio above which steps need no damping
INEXACT = 0.1  # of the decrease that is expected of a step by conjugate gradients may be missing
ROUGH = 0.1  # and of what is corrected after it, as squared norms
TINY = 1e-300
LARGEST_DAMPING = 1e10  # in units of the mean of K's diagonal
FIRST_DAMPING = 1e-4  # the least after a refused step, in the same units; λ may be nothing
LARGEST_GROWTH = 100.0  # of the damping at a refused step, also where the loss was no number
STEEP = 500.0  # the same where steps lower the loss by little, if the network is known to have kinks,
STEEPEST, FLAT = 0.03, 1e-4  # but at most and, for any network, at least this;
BALANCED = 0.3  # or where, at kinks, Jᵀr and λδ cancel but for such a part of their norms
PROMISED = 0.9  # of a loss may an undamped step promise at the end: kinks promise what nothing keeps


class Outcome(enum.IntEnum):
    """How the training of one network ended."""

    RUNNING = 0
    CONVERGED = 1
    OUT_OF_STEPS = 2
    SETTLED = 3
    STALLED = 4
    NOT_FINITE = 5


REASONS = {
    Outcome.CONVERGED: "The gradient vanished.",
    Outcome.OUT_OF_STEPS: "The number of steps was used up before the gradient vanished.",
    Outcome.SETTLED: "The loss settled before the gradient vanished, as at kinks of an activation.",
    Outcome.STALLED: (
        "Steps lowered the loss by little or nothing, though there is a lower one: perhaps at kinks of "
        "an activation."
    ),
    Outcome.NOT_FINITE: "The network or its gradient is not finite at its initial parameters.",
}


class State(NamedTuple):
    """Where the training of one network is."""

    delta: Params
    tangent: Tangent
    K: Float[Array, "n n"] | None
    r: Float[Array, " n"]
    along: Float[Array, " n"]  # Jδ
    length: Float[Array, ""]  # ‖δ‖²
    gradient: Float[Array, ""]  # ‖½∇φ‖
    mu: Float[Array, ""]
    growth: Float[Array, ""]  # by which μ grows at the next refused step
    steps: Int[Array, ""]
    outcome: Int[Array, ""]
    near: Preconditioner | None  # of conjugate gradients, and the iterations of the last solution
    iterations: Int[Array, ""]
    mark: Float[Array, ""]  # the loss when it was last looked at


class Problem(NamedTuple):
    """What one network is trained on; x and θ_0 are in the precision of the products."""

    network: Network
    theta0: Params
    x: Float[Array, "n D"]
    mask: Float[Array, " n"]
    target: Float[Array, " n"]
    lam: Float[Array, ""]

    def loss(self, r: Array, length: Array) -> Array:
        """φ."""
        return r @ r + self.lam * length


def descend(
    problem: Problem,
    tolerance: Array,
    max_steps: Array,
    direct: bool,
    begin: Params | None = None,
    damping: tuple[float | Array, float | Array] = (0.0, 0.0),
) -> tuple[Array, State]:
    """Loss and state at the end, from δ = `begin` or 0; the gradient is relative to that at θ_0.

    `damping` is that of the first step, in units of λ and of √φ.
    """
    origin = _linearized(problem, None, direct and begin is None)
    unit = jnp.sum(problem.mask * origin[0].diagonal()) / jnp.maximum(jnp.sum(problem.mask), 1.0)
    problem = problem._replace(lam=jnp.maximum(problem.lam, LEAST_LAM * unit))
    zero, none = jnp.zeros(()), jax.tree.map(jnp.zeros_like, problem.theta0)
    scale = _gradient(problem, origin, none, zero)
    worst = origin[2] @ origin[2]
    if begin is None:
        start, delta, length, gradient = origin, none, zero, scale
    else:
        start, delta, length = _linearized(problem, begin, direct), begin, _squared(begin)
        gradient = _gradient(problem, start, delta, length)
    mu = damping[0] * problem.lam + damping[1] * jnp.sqrt(problem.loss(start[2], length))
    finite = jnp.isfinite(scale) & jnp.isfinite(worst)
    outcome = jnp.where(
        finite, jnp.where(scale > 0.0, Outcome.RUNNING, Outcome.CONVERGED), Outcome.NOT_FINITE
    )
    kinks = problem.network.rounded(jnp.zeros(())) is not None
    steepest = jnp.clip((STEEP if kinks else SETTLED) * tolerance, FLAT, STEEPEST) * scale
    near = None if direct else _precondition(problem, delta, start[0], problem.lam + mu)
    count = jnp.asarray(0)
    first = State(
        *(delta, *start, length, gradient, mu, jnp.asarray(2.0)),
        *(count, outcome, near, count, worst),
    )

    def step(s: State) -> State:
        s, best, expected = _step(problem, s)
        loss = problem.loss(s.r, s.length)
        ratio = (loss - best.loss) / jnp.maximum(expected, TINY)
        taken = ratio > SMALLEST_RATIO

        def move() -> tuple[Any, ...]:
            parts = _linearized(problem, best.delta, direct)
            gradient = _gradient(problem, parts, best.delta, best.length)
            mu = s.mu * jnp.maximum(1.0 / 3.0, 1.0 - (2.0 * ratio - 1.0) ** 3)  # Nielsen (1999), eq. 2.4
            mu = jnp.where(ratio < LINEAR, jnp.maximum(mu, problem.lam), mu)
            return best.delta, *parts, best.length, gradient, mu, jnp.asarray(2.0)

        def stay() -> tuple[Any, ...]:
            wrong = jnp.where(jnp.isfinite(ratio), jnp.sqrt(jnp.maximum(-ratio, 0.0)), LARGEST_GROWTH)
            growth = jnp.maximum(s.growth, jnp.minimum(wrong, LARGEST_GROWTH))
            least = jnp.maximum(problem.lam, FIRST_DAMPING * unit)
            return *s[:7], growth * jnp.maximum(s.mu, least), 2.0 * s.growth

        place = jax.lax.cond(taken, move, stay)
        kept = s._replace(**dict(zip(State._fields, place, strict=False)))
        little = expected <= jnp.maximum(GAIN * tolerance * loss, EXACT * worst)
        steps, now = s.steps + 1, problem.loss(kept.r, kept.length)
        look, stuck = steps % WINDOW == 0, kept.mu > LARGEST_DAMPING * unit
        steep = (kept.gradient > steepest) & ~(
            kinks & (kept.gradient <= BALANCED * _forces(problem, kept))
        )
        slow = look & (now > (1.0 - SETTLED * tolerance) * s.mark)
        outcome = jnp.select(
            [
                (kept.gradient <= tolerance * scale) & little,
                stuck & (kept.gradient <= SETTLED * tolerance * scale),
                stuck | (slow & steep & ~jnp.asarray(problem.network.smooth)),
                slow & ~steep,
                steps >= max_steps,
            ],
            [
                Outcome.CONVERGED,
                Outcome.SETTLED,  # in a kink
                Outcome.STALLED,
                Outcome.SETTLED,
                Outcome.OUT_OF_STEPS,
            ],
            Outcome.RUNNING,
        )
        return kept._replace(steps=steps, outcome=outcome, mark=jnp.where(look, now, s.mark))

    end = jax.lax.while_loop(lambda s: s.outcome == Outcome.RUNNING, step, first)
    if direct and kinks:  # by conjugate gradients another solution would cost as much as a step
        ended = (end.outcome == Outcome.CONVERGED) | (end.outcome == Outcome.SETTLED)
        misfit = end.r @ end.r > 0.5 * problem.loss(end.r, end.length)  # is most of the loss
        far = misfit & (_promise(problem, end) > PROMISED) & (problem.lam > LEAST_LAM * unit)
        end = end._replace(outcome=jnp.where(ended & far, Outcome.STALLED, end.outcome))
    relative = end.gradient / jnp.where(scale > 0.0, scale, 1.0)
    return problem.loss(end.r, end.length), end._replace(gradient=relative)


Parts = tuple[Tangent, Array | None, Array, Array]  # J, K, r, Jδ


def _linearized(problem: Problem, delta: Params | None, direct: bool) -> Parts:
    """At θ_0 + δ; δ = 0 is None, since products with a constant 0 are miscompiled in batches."""
    theta = problem.theta0 if delta is None else _plus(problem.theta0, delta)
    values, tangent = problem.network.linearize(theta, problem.x)
    m = problem.mask
    K = tangent.own_gram() * (m[:, None] * m).astype(values.dtype) if direct else None
    along = jnp.zeros_like(m) if delta is None else m * tangent.push(delta).astype(m.dtype)
    return tangent, K, m * (problem.target - values.astype(m.dtype)), along


class Trial(NamedTuple):
    """A point that was tried."""

    delta: Params
    length: Float[Array, ""]
    linear: Float[Array, " n"]  # the residuals expected there
    r: Float[Array, " n"]
    loss: Float[Array, ""]


def _try(problem: Problem, delta: Params, linear: Array) -> Trial:
    values = problem.network(_plus(problem.theta0, delta), problem.x)
    r, length = problem.mask * (problem.target - values.astype(linear.dtype)), _squared(delta)
    return Trial(delta, length, linear, r, problem.loss(r, length))


def _step(problem: Problem, s: State) -> tuple[State, Trial, Array]:
    """The better one of θ + d and its correction, and the decrease that the linear model expects of d."""
    total = problem.lam + s.mu
    share = problem.lam / total
    dtype = problem.x.dtype
    if s.K is not None:
        solve = factorized(s.K, total)
    else:
        assert s.near is not None
        near = jax.lax.cond(
            is_stale(s.near, s.iterations, total),
            lambda: _precondition(problem, s.delta, s.tangent, total),
            lambda: s.near,
        )
        s = s._replace(near=near)
        solve = conjugate(s.tangent, problem.mask, near, total)
    b = s.r + share * s.along

    def decrease(a: Array, e: Array) -> Array:
        pulled, along = a @ (b - e - total * a), a @ s.along  # ‖Jᵀa‖², ⟨Jᵀa, δ⟩
        linear = total * a + e
        length = pulled + 2.0 * (1.0 - share) * along + (1.0 - share) ** 2 * s.length
        return problem.loss(s.r, s.length) - problem.loss(linear, length)

    a, e, iterations = solve(b, lambda a, e: e @ e <= INEXACT * decrease(a, e))
    rest = (1.0 - share).astype(dtype)
    delta = jax.tree.map(lambda u, v: u + rest * v, s.tangent.pull(a.astype(dtype)), s.delta)  # (step)
    plain = _try(problem, delta, total * a + e)
    surprise = plain.r - plain.linear
    correction = solve(surprise, lambda _, e: e @ e <= ROUGH * (surprise @ surprise)).a
    change = s.tangent.pull(correction.astype(dtype))
    corrected = _try(problem, _plus(delta, change), plain.linear)
    better = (corrected.loss < plain.loss) | ~jnp.isfinite(plain.loss)
    best: Trial = jax.tree.map(lambda u, v: jnp.where(better, u, v), corrected, plain)
    # with the length that the loss is computed from: what products round off is in both
    expected = problem.loss(s.r, s.length) - problem.loss(plain.linear, plain.length)
    return s._replace(iterations=iterations), best, expected


def _promise(problem: Problem, s: State) -> Array:
    """The part of the loss by which an undamped step would lower it if the network were linear.

    The linear model's minimum is λ bᵀ(K + λI)⁻¹b, b = r + Jδ.
    """
    assert s.K is not None
    b = s.r + s.along
    a = factorized(s.K, problem.lam)(b, lambda _, e: e @ e <= 0.0).a
    return 1.0 - problem.lam * (a @ b) / jnp.maximum(problem.loss(s.r, s.length), TINY)


def _precondition(problem: Problem, delta: Params, tangent: Tangent, total: Array) -> Preconditioner:
    theta = _plus(problem.theta0, delta)
    return precondition(problem.network, theta, tangent, problem.x, problem.mask, total)


def _gradient(problem: Problem, parts: Parts, delta: Params, length: Array) -> Array:
    """‖Jᵀr − λδ‖."""
    tangent, K, r, along = parts
    if K is None:
        low = problem.lam.astype(problem.x.dtype)
        pulled = tangent.pull(r.astype(problem.x.dtype))
        return jnp.sqrt(_squared(jax.tree.map(lambda u, v: u - low * v, pulled, delta)))
    inner = r @ (K @ r.astype(K.dtype)).astype(r.dtype)
    square = inner - 2.0 * problem.lam * (r @ along) + problem.lam**2 * length  # (gradient)
    return jnp.sqrt(jnp.maximum(square, 0.0))


def _forces(problem: Problem, s: State) -> Array:
    """‖Jᵀr‖ + ‖λδ‖, of which ‖½∇φ‖ is the rest that does not cancel."""
    square = s.gradient**2 + 2.0 * problem.lam * (s.r @ s.along) - problem.lam**2 * s.length  # (gradient)
    return jnp.sqrt(jnp.maximum(square, 0.0)) + problem.lam * jnp.sqrt(s.length)


def _plus(a: Params, b: Params) -> Params:
    return jax.tree.map(jnp.add, a, b)


def _squared(tree: Any) -> Array:
    parts = [jnp.sum(leaf.astype(jnp.float64) ** 2) for leaf in jax.tree.leaves(tree)]
    return functools.reduce(jnp.add, parts)
