"""Descent in a box, for many starts at once: projected L-BFGS and conjugate gradients.

SciPy's L-BFGS-B treats one start at a time and calls back into Python for every value. Here each loop
iteration evaluates the function and its gradient once; then every start on its own either accepts
the step and chooses a new direction, or shortens the step. Under `vmap` no start waits for another's
line search, and the whole search is one compiled call.

References: Bertsekas (1982), "Projected Newton methods for optimization problems with simple
constraints"; Nocedal & Wright (2006), "Numerical optimization", chapters 5 and 7.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from augury._types import Array

MEMORY = 8  # curvature pairs kept by L-BFGS
SUFFICIENT_DECREASE = 1e-4
SLOPE_LEFT = 0.1  # conjugate directions need a nearly exact line search: the slope must fall so far,
TRIALS = 3  # or so many trials must have been made
FIRST_MOVE = 0.1  # the largest change of a coordinate where nothing is known about the curvature
SHORTEST_MOVE = 1e-10
TOUCHING = 1e-12  # a coordinate so near its bound, in widths of the box, is on it
TINY = 1e-300  # keeps divisions by zero finite

Rule = Literal["lbfgs", "cg"]


class Descent(NamedTuple):
    """Where a descent ended: point, value, evaluations, and whether it met its stopping rule."""

    x: Float[Array, " D"]
    value: Float[Array, ""]
    evaluations: Int[Array, ""]
    converged: Bool[Array, ""]


class _State(NamedTuple):
    x: Array
    value: Array
    gradient: Array
    direction: Array
    step: Array  # length of the next trial along the direction
    trials: Array  # made along the direction
    s: Array  # L-BFGS memory: differences of points (newest last), and of gradients
    y: Array
    evaluations: Array
    start_value: Array
    start_slope: Array
    done: Array
    converged: Array


def descend(
    function: Callable[[Array, Any], Array],
    start: Float[Array, " D"],
    lower: Float[Array, " D"],
    upper: Float[Array, " D"],
    args: Any = None,
    *,
    rule: Rule = "lbfgs",
    max_evaluations: int | Int[Array, ""] = 100,
    gradient_tolerance: float = 1e-6,
    value_tolerance: float = 1e-9,
) -> Descent:
    """Minimize `function(x, args)` over lower <= x <= upper from one start.

    A coordinate whose bounds coincide stays where it is. It stops when the gradient of the free
    coordinates falls below `gradient_tolerance` times that of the start, when an accepted step gains
    less than `value_tolerance` times what was gained so far (and met no bound), when no step along the
    direction decreases the value, or after `max_evaluations`. None of this depends on the unit of the
    function's values. A NaN counts as a value that is too large.
    """
    value_and_gradient = jax.value_and_grad(function)

    def free(x: Array, gradient: Array) -> Array:
        """Coordinates that can move along the negative gradient without leaving the box."""
        return ~(((x <= lower) & (gradient > 0.0)) | ((x >= upper) & (gradient < 0.0)))

    def length(vector: Array) -> Array:
        return jnp.abs(vector).max(initial=0.0)

    def project(x: Array) -> Array:
        touching = TOUCHING * (upper - lower)
        return jnp.where(x - lower <= touching, lower, jnp.where(upper - x <= touching, upper, x))

    def on_bound(x: Array) -> Array:
        return (x <= lower) | (x >= upper)

    def next_direction(old: _State, x: Array, gradient: Array, s: Array, y: Array) -> Array:
        moving = free(x, gradient)
        reduced = gradient * moving
        if rule == "lbfgs":
            steepest = -FIRST_MOVE * reduced / jnp.maximum(length(reduced), TINY)
            direction = _two_loop(steepest, -reduced, s * moving, y * moving)
        else:  # Polak–Ribière with restarts, Nocedal & Wright eq. 5.45
            steepest, before = -reduced, old.gradient * moving
            beta = reduced @ (reduced - before) / jnp.maximum(before @ before, TINY)
            direction = steepest + jnp.maximum(beta, 0.0) * old.direction
        # on its bound, a coordinate whose direction points outward would be clipped at every step
        outward = ((x <= lower) & (direction < 0.0)) | ((x >= upper) & (direction > 0.0))
        direction = direction * (moving & ~outward)
        return jnp.where(direction @ gradient < 0.0, direction, steepest)

    def iterate(state: _State) -> _State:
        target = state.x + state.step * state.direction
        x = project(target)
        value, gradient = value_and_gradient(x, args)
        first = state.evaluations == 0
        moved = x - state.x
        slope = state.gradient @ moved
        decreased = value <= state.value + SUFFICIENT_DECREASE * slope
        accepted = decreased & jnp.isfinite(gradient).all()

        # the minimizer of the parabola through the two values and the slope, kept within bounds
        curvature = value - state.value - slope
        factor = jnp.where(curvature > 0.0, -0.5 * slope / curvature, 0.25)
        factor = jnp.where(jnp.isfinite(factor), jnp.clip(factor, 0.1, 0.5), 0.1)
        # A clipped step is not shortened past the first bound on its way: a valley that runs into a
        # bound would otherwise be followed in ever smaller steps.
        room = jnp.where(state.direction < 0.0, lower, upper) - state.x
        edge = jnp.where(state.direction != 0.0, room / state.direction, jnp.inf).min(initial=jnp.inf)
        retry = jnp.maximum(state.step * factor, jnp.where(state.step > edge, edge, 0.0))

        s, y = state.s, state.y
        if rule == "lbfgs":
            pair_s, pair_y = moved, gradient - state.gradient
            curved = pair_s @ pair_y > 1e-12 * jnp.sqrt((pair_s @ pair_s) * (pair_y @ pair_y))
            keep = accepted & curved
            s = jnp.where(keep, jnp.roll(s, -1, axis=0).at[-1].set(pair_s), s)
            y = jnp.where(keep, jnp.roll(y, -1, axis=0).at[-1].set(pair_y), y)
        else:
            before, after = state.gradient @ state.direction, gradient @ state.direction
            exact = jnp.abs(after) <= SLOPE_LEFT * jnp.abs(before)
            enough = exact | (x != target).any() | (state.trials + 1 >= TRIALS)
            secant = jnp.where(after > before, before / jnp.minimum(before - after, -TINY), 10.0)
            retry = jnp.where(accepted, state.step * jnp.clip(secant, 0.1, 10.0), retry)
            accepted = accepted & enough

        slope_left = length(gradient * free(x, gradient))
        start_value = jnp.where(first, value, state.start_value)
        start_slope = jnp.where(first, slope_left, state.start_slope)
        small = state.value - value <= value_tolerance * (start_value - value)
        small = small & (on_bound(x) == on_bound(state.x)).all()  # a step to a bound may be short
        flat = slope_left <= gradient_tolerance * start_slope
        converged = accepted & jnp.where(first, slope_left == 0.0, flat | small)
        stuck = ~accepted & (retry * length(state.direction) < SHORTEST_MOVE)
        direction = next_direction(state, x, gradient, s, y)
        if rule == "lbfgs":
            first_step = jnp.ones(())
        else:  # the length that would repeat the last first-order decrease
            ratio = before / jnp.minimum(gradient @ direction, -TINY)
            reach = jnp.maximum(length(direction), TINY)
            guess = jnp.where(first, FIRST_MOVE / reach, state.step * ratio)
            first_step = jnp.clip(guess, SHORTEST_MOVE / reach, 0.5 / reach)
        new = _State(
            x=jnp.where(accepted, x, state.x),
            value=jnp.where(accepted, value, state.value),
            gradient=jnp.where(accepted, gradient, state.gradient),
            direction=jnp.where(accepted, direction, state.direction),
            step=jnp.where(accepted, first_step, retry),
            trials=jnp.where(accepted, 0, state.trials + 1),
            s=s,
            y=y,
            evaluations=state.evaluations + 1,
            start_value=start_value,
            start_slope=start_slope,
            done=converged | stuck,
            converged=converged,
        )
        return jax.tree.map(lambda old, fresh: jnp.where(state.done, old, fresh), state, new)

    def unfinished(state: _State) -> Array:
        return ~state.done & (state.evaluations < max_evaluations)

    # The loop's first evaluation is that of the start itself, an empty step that anything finite
    # improves on: one copy of the function in the compiled program instead of two.
    start = project(start)
    nothing = jnp.zeros_like(start)
    memory = jnp.zeros((MEMORY if rule == "lbfgs" else 0, len(start)))
    never = jnp.zeros((), dtype=bool)
    state = _State(
        x=start,
        value=jnp.full((), jnp.inf),
        gradient=nothing,
        direction=nothing,
        step=jnp.zeros(()),
        trials=jnp.zeros((), dtype=int),
        s=memory,
        y=memory,
        evaluations=jnp.zeros((), dtype=int),
        start_value=jnp.full((), jnp.inf),
        start_slope=jnp.zeros(()),
        done=never,
        converged=never,
    )
    end = jax.lax.while_loop(unfinished, iterate, state)
    return Descent(end.x, end.value, end.evaluations, end.converged)


def _two_loop(steepest: Array, vector: Array, s: Array, y: Array) -> Array:
    """The L-BFGS approximation of H⁻¹·vector (Nocedal & Wright, algorithm 7.4); empty pairs are 0.

    Pairs that lost their curvature to the active bounds drop out, since their rho is 0; if none is
    left, the answer is `steepest`.
    """
    products = jnp.einsum("md,md->m", s, y)
    curved = products > 0.0
    rho = jnp.where(curved, 1.0 / jnp.where(curved, products, 1.0), 0.0)

    def backward(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        q, alphas = carry
        j = MEMORY - 1 - i
        alpha = rho[j] * (s[j] @ q)
        return q - alpha * y[j], alphas.at[j].set(alpha)

    q, alphas = jax.lax.fori_loop(0, MEMORY, backward, (vector, jnp.zeros(MEMORY)))
    newest = MEMORY - 1 - jnp.argmax(curved[::-1])
    scale = products[newest] / jnp.where(curved.any(), y[newest] @ y[newest], 1.0)

    def forward(j: Array, r: Array) -> Array:
        return r + s[j] * (alphas[j] - rho[j] * (y[j] @ r))

    direction = jax.lax.fori_loop(0, MEMORY, forward, scale * q)
    return jnp.where(curved.any(), direction, steepest)
