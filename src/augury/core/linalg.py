"""Linear algebra that survives repeated points and reports what it had to do."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from augury._types import Array

FIRST_JITTER = 1e-10
LARGEST_JITTER = 1e-2
SMALLEST_BLOCK = 32
FACTOR_BLOCK = 256


def cholesky(K: Float[Array, "n n"]) -> tuple[Float[Array, "n n"], Float[Array, ""]]:
    """The factor L of K + jitter·I and the jitter: 0 if K itself has one, else the first that works.

    The jitter starts at 1e-10 times the mean of the diagonal and grows tenfold up to 1e-2 times it.
    """
    unit = jnp.mean(jnp.diagonal(K))

    def failed(state: tuple[Array, Array]) -> Array:
        L, jitter = state
        return jnp.isnan(L).any() & (jitter < LARGEST_JITTER * unit)

    def more(state: tuple[Array, Array]) -> tuple[Array, Array]:
        _, jitter = state
        jitter = jnp.where(jitter == 0.0, FIRST_JITTER * unit, 10.0 * jitter)
        return factor(K + jitter * jnp.eye(len(K))), jitter

    return jax.lax.while_loop(failed, more, (factor(K), jnp.zeros(())))


def factor(K: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """L with LLᵀ = K; NaN where K is not positive definite.

    Large matrices are factorized in columns of blocks: nearly all operations are matrix products then,
    which use all cores and, unlike the threads of a BLAS, do not stumble over other processes.
    """
    n, size = len(K), _block(len(K))
    if n <= 2 * size or _on_accelerator():
        return jnp.linalg.cholesky(K)
    columns: list[tuple[int, Array]] = []
    for start in range(0, n, size):
        stop = min(start + size, n)
        column = K[start:, start:stop]
        if columns:
            known = jnp.concatenate([done[start - first :] for first, done in columns], axis=1)
            column = column - known @ known[: stop - start].T
        L = jnp.linalg.cholesky(column[: stop - start])
        inverse = jax.scipy.linalg.solve_triangular(L, jnp.eye(len(L), dtype=K.dtype), lower=True)
        columns.append((start, jnp.concatenate([L, column[stop - start :] @ inverse.T])))
    return jnp.concatenate([jnp.pad(done, ((first, 0), (0, 0))) for first, done in columns], axis=1)


class Solver(NamedTuple):
    """(LLᵀ)⁻¹ as two sweeps over blocks: products of blocks are faster than a triangular solve."""

    L: Float[Array, "n n"]
    inverses: list[Float[Array, "m m"]]  # of the blocks on the diagonal

    @classmethod
    def of(cls, L: Float[Array, "n n"]) -> "Solver":
        """From the factor."""
        n, size = len(L), _block(len(L))
        blocks = [L[i : i + size, i : i + size] for i in range(0, n, size)]
        eyes = [jnp.eye(len(block), dtype=L.dtype) for block in blocks]
        solve = jax.scipy.linalg.solve_triangular
        return cls(L, [solve(block, eye, lower=True) for block, eye in zip(blocks, eyes, strict=True)])

    def __call__(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        """(LLᵀ)⁻¹b."""
        size, half = len(self.inverses[0]), jnp.zeros_like(b)
        for i, inverse in enumerate(self.inverses):
            rows = slice(i * size, i * size + len(inverse))
            half = half.at[rows].set(inverse @ (b[rows] - self.L[rows, : i * size] @ half[: i * size]))
        x = jnp.zeros_like(b)
        for i in range(len(self.inverses) - 1, -1, -1):
            rows, inverse = slice(i * size, i * size + len(self.inverses[i])), self.inverses[i]
            rest = x[rows.stop :] @ self.L[rows.stop :, rows]
            x = x.at[rows].set((half[rows] - rest) @ inverse)
        return x


def _block(n: int) -> int:
    """The side of the blocks of a matrix with n rows: an eighth, and at least FACTOR_BLOCK."""
    return max(FACTOR_BLOCK, -(-n // 8))


def _on_accelerator() -> bool:
    """Whether this computation is for a device that has its own, faster ways."""
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    return device is not None and device.platform != "cpu"


def inverse_factor(L: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """L⁻¹ of a lower-triangular L: then solves are products, fast in batches and gradients.

    [A 0; B C]⁻¹ = [A⁻¹ 0; −C⁻¹BA⁻¹  C⁻¹], down to blocks of an eighth: matrix products are several
    times faster than a triangular solve of the same number of operations.
    """
    return _inverse_blocks(L, max(SMALLEST_BLOCK, len(L) // 8))


def _inverse_blocks(L: Array, smallest: int) -> Array:
    n = len(L)
    if n <= smallest:
        return jax.scipy.linalg.solve_triangular(L, jnp.eye(n), lower=True)
    m = n // 2
    A, C = _inverse_blocks(L[:m, :m], smallest), _inverse_blocks(L[m:, m:], smallest)
    return jnp.block([[A, jnp.zeros((m, n - m))], [-(C @ (L[m:, :m] @ A)), C]])


def square(A: Float[Array, "m n"]) -> Float[Array, "n n"]:
    """AᵀA; the barrier keeps the compiler from reading A along its columns, which is slower."""
    return jax.lax.optimization_barrier(A.T) @ A  # type: ignore[no-untyped-call]
