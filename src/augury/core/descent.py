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
FIRST_MOVE = 0.1  # the largest change of a coordinate in the first step
SHORTEST_MOVE = 1e-10

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
    max_evaluations: int = 100,
    gradient_tolerance: float = 1e-6,
    value_tolerance: float = 1e-9,
) -> Descent:
    """Minimize `function(x, args)` over lower <= x <= upper from one start.

    A coordinate whose bounds coincide stays where it is. It stops when the gradient of the free
    coordinates falls below `gradient_tolerance` times that of the start, when an accepted step gains
    less than `value_tolerance` times what was gained so far, when no step along the direction
    decreases the value, or after `max_evaluations`. None of this depends on the unit of the
    function's values. A NaN counts as a value that is too large.
    """
    value_and_gradient = jax.value_and_grad(function)

    def free(x: Array, gradient: Array) -> Array:
        """Coordinates that can move along the negative gradient without leaving the box."""
        return ~(((x <= lower) & (gradient > 0.0)) | ((x >= upper) & (gradient < 0.0)))

    def length(vector: Array) -> Array:
        return jnp.abs(vector).max(initial=0.0)

    def next_direction(old: _State, x: Array, gradient: Array, s: Array, y: Array) -> Array:
        moving = free(x, gradient)
        if rule == "lbfgs":
            direction = -_two_loop(gradient * moving, s * moving, y * moving)
        else:  # Polak–Ribière with restarts, Nocedal & Wright eq. 5.45
            reduced, before = gradient * moving, old.gradient * moving
            beta = reduced @ (reduced - before) / jnp.maximum(before @ before, 1e-300)
            direction = -reduced + jnp.maximum(beta, 0.0) * old.direction
        direction = direction * moving
        descending = direction @ gradient < 0.0
        return jnp.where(descending, direction, -gradient * moving)

    def iterate(state: _State) -> _State:
        x = jnp.clip(state.x + state.step * state.direction, lower, upper)
        value, gradient = value_and_gradient(x, args)
        moved = x - state.x
        decrease = SUFFICIENT_DECREASE * state.gradient @ moved
        first = state.evaluations == 0
        accepted = (value <= state.value + decrease) & jnp.isfinite(gradient).all()

        pair_s, pair_y = moved, gradient - state.gradient
        curved = pair_s @ pair_y > 1e-12 * jnp.sqrt((pair_s @ pair_s) * (pair_y @ pair_y))
        keep = accepted & curved
        s = jnp.where(keep, jnp.roll(state.s, -1, axis=0).at[-1].set(pair_s), state.s)
        y = jnp.where(keep, jnp.roll(state.y, -1, axis=0).at[-1].set(pair_y), state.y)

        # the minimizer of the parabola through the two values and the slope, kept within bounds
        slope = state.gradient @ moved
        curvature = value - state.value - slope
        shrink = jnp.where(curvature > 0.0, -0.5 * slope / curvature, 0.25)
        shrink = jnp.where(jnp.isfinite(shrink), jnp.clip(shrink, 0.1, 0.5), 0.1)

        slope_left = length(gradient * free(x, gradient))
        start_value = jnp.where(first, value, state.start_value)
        start_slope = jnp.where(first, slope_left, state.start_slope)
        small = state.value - value <= value_tolerance * (start_value - value)
        flat = slope_left <= gradient_tolerance * start_slope
        converged = accepted & jnp.where(first, slope_left == 0.0, flat | small)
        stuck = ~accepted & (state.step * shrink * length(state.direction) < SHORTEST_MOVE)
        direction = next_direction(state, x, gradient, s, y)
        if rule == "cg":  # the length that would repeat the last first-order decrease
            ratio = (state.gradient @ state.direction) / jnp.minimum(gradient @ direction, -1e-300)
            reach = jnp.maximum(length(direction), 1e-300)
            first_step = jnp.clip(state.step * ratio, SHORTEST_MOVE / reach, 0.5 / reach)
        else:
            first_step = jnp.ones(())
        first_step = jnp.where(first, FIRST_MOVE / jnp.maximum(start_slope, 1e-300), first_step)
        new = _State(
            x=jnp.where(accepted, x, state.x),
            value=jnp.where(accepted, value, state.value),
            gradient=jnp.where(accepted, gradient, state.gradient),
            direction=jnp.where(accepted, direction, state.direction),
            step=jnp.where(accepted, first_step, state.step * shrink),
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
    start = jnp.clip(start, lower, upper)
    nothing = jnp.zeros_like(start)
    memory = jnp.zeros((MEMORY if rule == "lbfgs" else 0, len(start)))
    never = jnp.zeros((), dtype=bool)
    state = _State(
        x=start,
        value=jnp.full((), jnp.inf),
        gradient=nothing,
        direction=nothing,
        step=jnp.zeros(()),
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


def _two_loop(gradient: Array, s: Array, y: Array) -> Array:
    """The L-BFGS approximation of H⁻¹·gradient (Nocedal & Wright, algorithm 7.4); empty pairs are 0."""
    products = jnp.einsum("md,md->m", s, y)
    rho = jnp.where(products > 0.0, 1.0 / jnp.where(products > 0.0, products, 1.0), 0.0)
    # pairs that lost their curvature to the active bounds drop out, since their rho is 0

    def backward(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        q, alphas = carry
        j = MEMORY - 1 - i
        alpha = rho[j] * (s[j] @ q)
        return q - alpha * y[j], alphas.at[j].set(alpha)

    q, alphas = jax.lax.fori_loop(0, MEMORY, backward, (gradient, jnp.zeros(MEMORY)))
    newest = y[-1] @ y[-1]
    scale = jnp.where(rho[-1] > 0.0, products[-1] / jnp.where(newest > 0.0, newest, 1.0), 1.0)

    def forward(j: Array, r: Array) -> Array:
        return r + s[j] * (alphas[j] - rho[j] * (y[j] @ r))

    return jax.lax.fori_loop(0, MEMORY, forward, scale * q)
