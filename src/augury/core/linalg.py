"""Linear algebra that survives repeated points and reports what it had to do."""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from augury._types import Array

FIRST_JITTER = 1e-10
LARGEST_JITTER = 1e-2
SMALLEST_BLOCK = 32


def safe_sqrt(x: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """√max(x, 0) whose derivative at and below zero is 0 instead of infinite."""
    positive = x > 0.0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)


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
        return jnp.linalg.cholesky(K + jitter * jnp.eye(len(K))), jitter

    return jax.lax.while_loop(failed, more, (jnp.linalg.cholesky(K), jnp.zeros(())))


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


@jax.custom_vjp
def gaussian_nll(K: Float[Array, "n n"], y: Float[Array, " n"]) -> Float[Array, ""]:
    """½ yᵀK⁻¹y + ½ log det K, without the constant; NaN where K is not positive definite.

    The derivative ½(K⁻¹ − K⁻¹y yᵀK⁻¹) needs one triangular inverse; differentiating through the
    Cholesky factorization would cost several times as much.
    """
    L = jnp.linalg.cholesky(K)
    z = jax.scipy.linalg.solve_triangular(L, y, lower=True)
    return 0.5 * z @ z + jnp.log(jnp.diagonal(L)).sum()


def _nll_forward(K: Array, y: Array) -> tuple[Array, tuple[Array, Array]]:
    L = jnp.linalg.cholesky(K)
    L_inverse = inverse_factor(L)
    z = L_inverse @ y
    return 0.5 * z @ z + jnp.log(jnp.diagonal(L)).sum(), (L_inverse, L_inverse.T @ z)


def _nll_backward(saved: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    L_inverse, alpha = saved
    return 0.5 * g * (square(L_inverse) - jnp.outer(alpha, alpha)), g * alpha


gaussian_nll.defvjp(_nll_forward, _nll_backward)
