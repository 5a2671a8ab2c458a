"""Maximizers that take a fixed kind of step from random starts: projected gradient, Nelder–Mead."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from augury._checks import check_real
from augury._errors import UnsupportedError
from augury._types import Array
from augury.core.keys import KeyArray, generator
from augury.core.precision import jit
from augury.maximizers.base import Domain, Found, Maximizer, Rows, Score, continuous_only
from augury.maximizers.multistart import check_counts
from augury.maximizers.scoring import best_of


@dataclass(frozen=True)
class Gradient(Maximizer):
    """A fixed number of projected gradient steps from random starts; the best point visited wins.

    Args:
        starts: random starts.
        steps: steps of each.
        rate: step length in the unit cube.

    deviation: Be Greedy (appendix F.2) takes 500 plain gradient steps of rate 0.01 from 10 starts. A
    plain step depends on the unit of the objective, so ours are Adam's, which do not.
    """

    starts: int = 10
    steps: int = 500
    rate: float = 0.01

    needs_gradient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_counts("gradient", starts=self.starts, steps=self.steps)
        check_real("rate", self.rate)
        if not 0.0 < self.rate < np.inf:
            raise UnsupportedError(f"rate must be positive and finite; got {self.rate}. Use about 0.01.")

    def fits(self, space: Domain) -> str | None:
        """Spaces of continuous Floats."""
        return continuous_only(self, space)

    def search(
        self, score: Score, space: Domain, *, t: int, key: KeyArray, near: Rows, exclude: Collection[int]
    ) -> Found:
        """The best point visited."""
        starts, _ = space.draw(self.starts, generator(key))
        rows, scores = _gradient_steps(score, starts, np.asarray(self.rate), self.steps)
        return _winner(rows, scores, self.starts * (self.steps + 1))


@dataclass(frozen=True)
class NelderMead(Maximizer):
    """The simplex method from random starts, vectorized: it needs no gradient.

    Args:
        starts: random starts.
        tolerance: a simplex stops when it is smaller than this in the unit cube.
        max_iterations: per start; None is 200 per dimension.

    deviation: points are clipped to the box; the paper's code does so inside the objective, which
    makes the score constant outside of it. Each iteration scores all candidate points of all
    simplices at once, needed or not, since that is one compiled call.

    Reference: Nelder & Mead (1965), "A simplex method for function minimization".
    """

    starts: int = 10
    tolerance: float = 1e-4
    max_iterations: int | None = None

    def __post_init__(self) -> None:
        limit = {} if self.max_iterations is None else {"max_iterations": self.max_iterations}
        check_counts("nelder-mead", starts=self.starts, **limit)
        check_real("tolerance", self.tolerance)
        if not 0.0 < self.tolerance < np.inf:
            raise UnsupportedError(
                f"tolerance must be positive and finite; got {self.tolerance}. Use 1e-4."
            )

    def fits(self, space: Domain) -> str | None:
        """Spaces of continuous Floats."""
        return continuous_only(self, space)

    def search(
        self, score: Score, space: Domain, *, t: int, key: KeyArray, near: Rows, exclude: Collection[int]
    ) -> Found:
        """The best vertex of all simplices."""
        starts, _ = space.draw(self.starts, generator(key))
        limit = self.max_iterations or 200 * space.dim
        rows, scores, iterations = _simplex(score, starts, np.asarray(self.tolerance), np.asarray(limit))
        per_iteration = 4 + space.dim
        first = self.starts * (space.dim + 1)
        return _winner(rows, scores, first + int(np.asarray(iterations).sum()) * per_iteration)


def _winner(rows: Array, scores: Array, evaluations: int) -> Found:
    rows, scores = np.array(rows), np.asarray(scores)
    found = best_of(rows, np.where(np.isnan(scores), -np.inf, scores), None, frozenset())
    assert found is not None
    return replace(found, evaluations=evaluations)


@jit
def _gradient_steps(score: Score, starts: Array, rate: Array, steps: int) -> tuple[Array, Array]:
    """Adam (Kingma & Ba, 2015), projected to the unit cube."""
    value_and_gradient = jax.value_and_grad(lambda x: score(x))

    def one(start: Array) -> tuple[Array, Array]:
        def step(i: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
            x, m, v, best_x, best = state
            value, g = value_and_gradient(x)
            better = value > best
            best_x, best = jnp.where(better, x, best_x), jnp.where(better, value, best)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            m_hat, v_hat = m / (1.0 - 0.9 ** (i + 1.0)), v / (1.0 - 0.999 ** (i + 1.0))
            moved = x + rate * m_hat / (jnp.sqrt(v_hat) + 1e-30)
            return jnp.clip(moved, 0.0, 1.0), m, v, best_x, best

        zero = jnp.zeros_like(start)
        state = (start, zero, zero, start, -jnp.inf * jnp.ones(()))
        *_, best_x, best = jax.lax.fori_loop(0, steps + 1, step, state)
        return best_x, best

    return jax.vmap(one)(starts)


@jit
def _simplex(score: Score, starts: Array, tolerance: Array, limit: Array) -> tuple[Array, Array, Array]:
    evaluate: Callable[[Array], Array] = jax.vmap(lambda x: score(x))

    def one(start: Array) -> tuple[Array, Array, Array]:
        dim = len(start)
        # steps of 0.1 away from the nearer bound, so that no vertex is clipped onto another
        steps = jnp.where(start < 0.5, 0.1, -0.1)
        vertices = jnp.concatenate([start[None], start + jnp.diag(steps)])

        def iterate(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            vertices, scores, iterations = state
            order = jnp.argsort(-scores)
            vertices, scores = vertices[order], scores[order]
            centroid = vertices[:-1].mean(0)
            worst = vertices[-1]
            # reflection, expansion, outside and inside contraction; then the shrunken simplex
            factors = jnp.array([1.0, 2.0, 0.5, -0.5])[:, None]
            tried = jnp.clip(centroid + factors * (centroid - worst), 0.0, 1.0)
            shrunk = vertices[0] + 0.5 * (vertices[1:] - vertices[0])
            all_scores = evaluate(jnp.concatenate([tried, shrunk]))
            r, e, outside, inside = all_scores[0], all_scores[1], all_scores[2], all_scores[3]
            choice = jnp.where(
                r > scores[0],
                jnp.where(e > r, 1, 0),
                jnp.where(
                    r > scores[-2],
                    0,
                    jnp.where(
                        r > scores[-1],
                        jnp.where(outside >= r, 2, 4),
                        jnp.where(inside > scores[-1], 3, 4),
                    ),
                ),
            )
            picked = jnp.minimum(choice, 3)
            replaced = vertices.at[-1].set(tried[picked])
            replaced_scores = scores.at[-1].set(all_scores[picked])
            shrink = choice == 4
            return (
                jnp.where(shrink, vertices.at[1:].set(shrunk), replaced),
                jnp.where(shrink, scores.at[1:].set(all_scores[4:]), replaced_scores),
                iterations + 1,
            )

        def unfinished(state: tuple[Array, Array, Array]) -> Array:
            vertices, _, iterations = state
            size = jnp.abs(vertices - vertices.mean(0)).max(initial=0.0)
            return (size > tolerance) & (iterations < limit) & (dim > 0)

        state = (vertices, evaluate(vertices), jnp.zeros((), dtype=int))
        vertices, scores, iterations = jax.lax.while_loop(unfinished, iterate, state)
        best = jnp.argmax(jnp.where(jnp.isnan(scores), -jnp.inf, scores))
        return vertices[best], scores[best], iterations

    return jax.vmap(one)(starts)
