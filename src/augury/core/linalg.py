"""Linear algebra that survives repeated points and reports what it had to do."""

from collections.abc import Callable
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
    """L with LLᵀ = K; NaN where K is not positive definite."""
    if not _in_blocks(len(K)):
        return jnp.linalg.cholesky(K)
    columns, n = _columns(len(K), _parts(K)), len(K)
    whole = [jnp.concatenate([column.L, column.below]) for column in columns]
    return jnp.concatenate([jnp.pad(part, ((n - len(part), 0), (0, 0))) for part in whole], axis=1)


class Column(NamedTuple):
    """A column of blocks of a lower-triangular matrix: the block on the diagonal, and those below."""

    L: Float[Array, "m m"]
    inverse: Float[Array, "m m"]
    below: Float[Array, "k m"]


Part = Callable[[int, int], Array]  # of (start, stop): the rows K[start:, start:stop]


def _parts(K: Float[Array, "n n"]) -> Part:
    return lambda start, stop: K[start:, start:stop]


def _columns(n: int, part: Part) -> list[Column]:
    """The factor of the n × n matrix K, of which parts are asked for from left to right.

    Large matrices are factorized in columns of blocks: nearly all operations are matrix products then,
    which use all cores and, unlike the threads of a BLAS, do not stumble over other processes.
    """
    size, columns = _block(n), list[Column]()
    whole = None if _in_blocks(n) else jnp.linalg.cholesky(part(0, n))
    for start in range(0, n, size):
        stop = min(start + size, n)
        if whole is not None:
            L, below = whole[start:stop, start:stop], whole[stop:, start:stop]
            columns.append(Column(L, _inverse(L), below))
            continue
        rest = part(start, stop)
        if columns:
            known = jnp.concatenate([done.below[start - n :] for done in columns], axis=1)
            rest = rest - known @ known[: stop - start].T
        L = jnp.linalg.cholesky(rest[: stop - start])
        inverse = _inverse(L)
        columns.append(Column(L, inverse, rest[stop - start :] @ inverse.T))
    return columns


class Solver(NamedTuple):
    """K⁻¹ as two sweeps over the columns of its factor: products are faster than a triangular solve.

    The blocks are kept apart, since a product with a part of a matrix would copy the part every time.
    """

    inverses: list[Float[Array, "m m"]]  # of the blocks on the diagonal
    below: list[Float[Array, "k m"]]

    @classmethod
    def of(cls, K: Float[Array, "n n"]) -> "Solver":
        """By factorization; its results are NaN where K is not positive definite."""
        return cls.lazily(len(K), _parts(K))

    @classmethod
    def lazily(cls, n: int, part: Part) -> "Solver":
        """The same for a matrix that is never there as a whole, nor above its diagonal."""
        columns = _columns(n, part)
        return cls([column.inverse for column in columns], [column.below for column in columns])

    def or_identity(self) -> "Solver":
        """Itself, or the identity if its results are NaN."""
        works = jnp.isfinite(self.inverses[-1][-1, -1])
        inverses = [jnp.where(works, a, jnp.eye(len(a), dtype=a.dtype)) for a in self.inverses]
        return Solver(inverses, [jnp.where(works, a, 0.0) for a in self.below])

    def __call__(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        """K⁻¹b."""
        parts: list[Array] = []
        for inverse, below in zip(self.inverses, self.below, strict=True):
            parts.append(inverse @ b[: len(inverse)])
            b = b[len(inverse) :] - below @ parts[-1]
        x = b
        for inverse, below in zip(self.inverses[::-1], self.below[::-1], strict=True):
            x = jnp.concatenate([(parts.pop() - x @ below) @ inverse, x])
        return x


def _inverse(L: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """Of a block on the diagonal."""
    return jax.scipy.linalg.solve_triangular(L, jnp.eye(len(L), dtype=L.dtype), lower=True)


def _in_blocks(n: int) -> bool:
    """Whether a matrix with n rows is factorized in columns of blocks."""
    return n > 2 * _block(n) and not _on_accelerator()


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
