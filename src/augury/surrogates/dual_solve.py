"""The linear systems (K + sI) a = b of training, K = JJᵀ: by factorization, or by conjugate gradients."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from augury._types import Array
from augury.core.linalg import Solver
from augury.surrogates.tangent import Linearizable, Params, Tangent

LARGEST_FACTOR = 8192  # rows up to which the preconditioner is a factor of the whole matrix
LANDMARKS = 1024  # rows that it is made of beyond
MAX_ITERATIONS = 100
PATIENCE = 32  # iterations after which a preconditioner is made anew
RANGE = 10.0  # factor by which s may change before it is
ROUNDING = 1e-7  # the smallest s of a factor in float32, as a fraction of K's trace
JITTER = 1e-6  # of the landmarks' kernel matrix, as a fraction of the mean of its diagonal


class Solution(NamedTuple):
    """a, the residual b − (K + sI) a, and the iterations it took."""

    a: Float[Array, " n"]
    rest: Float[Array, " n"]
    iterations: Int[Array, ""]


Enough = Callable[[Array, Array], Array]  # whether a will do, given what rests
Solve = Callable[[Array, Enough], Solution]


def factorized(K: Float[Array, "n n"], s: Float[Array, ""]) -> Solve:
    """By Cholesky, in float64; nothing rests."""
    inverse = Solver.of(K.astype(s.dtype) + s * jnp.eye(len(K)))

    def solve(b: Array, enough: Enough) -> Solution:
        return Solution(inverse(b), jnp.zeros_like(b), jnp.asarray(1))

    return solve


class Preconditioner(NamedTuple):
    """An approximation of (K + sI)⁻¹ from an earlier K and s; `B` is None, or the sketch of K.

    Either L is the factor of the whole K + sI, or BBᵀ = K_nS K_SS⁻¹ K_Sn has the rank of the landmarks S
    (Nyström), L is the factor of sI + BᵀB, and (BBᵀ + sI)⁻¹ v = (v − B(sI + BᵀB)⁻¹Bᵀv) / s.
    Reference: Frangella, Tropp & Udell (2023), "Randomized Nyström preconditioning".
    """

    inverse: Solver
    B: Float[Array, "n m"] | None
    s: Float[Array, ""]

    def __call__(self, v: Float[Array, " n"]) -> Float[Array, " n"]:
        """Nearly (K + sI)⁻¹v."""
        low = v.astype(self.inverse.inverses[0].dtype)
        if self.B is None:
            return self.inverse(low).astype(v.dtype)
        inner = self.inverse(low @ self.B)
        return (low - self.B @ inner).astype(v.dtype) / self.s


def precondition(
    network: Linearizable, params: Params, tangent: Tangent, x: Array, mask: Array, s: Array
) -> Preconditioner:
    """Made at the parameters where J is `tangent`, in the precision of `x`."""
    m, n = mask.astype(x.dtype), len(x)
    s = jnp.maximum(s, (ROUNDING if x.dtype == jnp.float32 else 0.0) * jnp.sum(mask * tangent.diagonal()))
    low = s.astype(x.dtype)
    if n <= LARGEST_FACTOR:

        def part(start: int, stop: int) -> Array:
            K = tangent.rows(start, n).gram(tangent.rows(start, stop)) * (m[start:, None] * m[start:stop])
            return K + low * jnp.eye(n - start, stop - start, dtype=K.dtype)

        return Preconditioner(Solver.lazily(n, part).or_identity(), None, s)
    order = jnp.argsort(mask == 0.0, stable=True)  # data first, padding last
    rows = order[jnp.floor(jnp.arange(LANDMARKS) * (jnp.sum(mask) / LANDMARKS)).astype(int)]
    C = m[:, None] * tangent.gram(network.linearize(params, x[rows])[1])
    eye = jnp.eye(LANDMARKS, dtype=x.dtype)
    inner = _finite(jnp.linalg.cholesky(C[rows] + JITTER * jnp.trace(C[rows]) / LANDMARKS * eye))
    B = jax.scipy.linalg.solve_triangular(inner, C.T, lower=True).T
    return Preconditioner(Solver.of(B.T @ B + low * eye).or_identity(), B, s)


def _finite(L: Array) -> Array:
    return jnp.where(jnp.isfinite(L[-1, -1]), L, jnp.eye(len(L), dtype=L.dtype))


def is_stale(near: Preconditioner, iterations: Int[Array, ""], s: Float[Array, ""]) -> Array:
    """Whether a new preconditioner is worth its cost."""
    return (iterations > PATIENCE) | (s > RANGE * near.s) | (s * RANGE < near.s)


def conjugate(tangent: Tangent, mask: Array, near: Preconditioner, s: Float[Array, ""]) -> Solve:
    """By preconditioned conjugate gradients with the products Jᵀv and Jv."""

    def product(v: Array) -> Array:
        pulled = tangent.pull((mask * v).astype(near.inverse.inverses[0].dtype))
        return mask * tangent.push(pulled).astype(v.dtype) + s * v

    def solve(b: Array, enough: Enough) -> Solution:
        def going(state: tuple[Array, ...]) -> Array:
            a, e, _, _, iteration = state
            return ~enough(a, e) & (iteration < MAX_ITERATIONS)

        def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
            a, e, direction, size, iteration = state
            image = product(direction)
            length = size / (direction @ image)
            a, e = a + length * direction, e - length * image
            z = near(e)
            new = e @ z
            return a, e, z + (new / size) * direction, new, iteration + 1

        z = near(b)
        start = (jnp.zeros_like(b), b, z, b @ z, jnp.asarray(0))
        a, e, _, _, iterations = jax.lax.while_loop(going, step, start)
        return Solution(a, e, iterations)

    return solve
