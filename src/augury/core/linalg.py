"""Linear algebra that survives repeated points and reports what it had to do."""

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
    n = len(K)
    if n <= 2 * FACTOR_BLOCK or jax.default_backend() != "cpu":
        return jnp.linalg.cholesky(K)
    columns: list[tuple[int, Array]] = []
    for start in range(0, n, FACTOR_BLOCK):
        stop = min(start + FACTOR_BLOCK, n)
        column = K[start:, start:stop]
        if columns:
            known = jnp.concatenate([done[start - first :] for first, done in columns], axis=1)
            column = column - known @ known[: stop - start].T
        L = jnp.linalg.cholesky(column[: stop - start])
        inverse = jax.scipy.linalg.solve_triangular(L, jnp.eye(len(L), dtype=K.dtype), lower=True)
        columns.append((start, jnp.concatenate([L, column[stop - start :] @ inverse.T])))
    return jnp.concatenate([jnp.pad(done, ((first, 0), (0, 0))) for first, done in columns], axis=1)


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
