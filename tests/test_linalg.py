import jax
import numpy as np
import pytest

from augury.core import linalg
from augury.core.precision import computing

# compiled whole: operation by operation they cost seconds
cholesky = jax.jit(linalg.cholesky)
inverse_factor, square = jax.jit(linalg.inverse_factor), jax.jit(linalg.square)
EPS = np.finfo(np.float64).eps


@pytest.fixture(autouse=True)
def double():
    with computing():
        yield


def covariance(n, seed=0, ridge=0.1):
    A = np.random.default_rng(seed).standard_normal((n, n))
    return A @ A.T / n + ridge * np.eye(n)


def test_a_positive_definite_matrix_gets_no_jitter():
    K = covariance(20)
    L, jitter = cholesky(K)
    assert jitter == 0.0
    np.testing.assert_array_equal(L, np.tril(L))
    np.testing.assert_allclose(L @ L.T, K, atol=20 * EPS * np.abs(K).max())


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_repeated_rows_get_the_smallest_jitter_that_works(unit):
    rows = np.random.default_rng(0).standard_normal((5, 3))[[0, 1, 2, 3, 4, 0, 0, 1]]
    K = unit * rows @ rows.T  # rank 3 of 8
    L, jitter = cholesky(K)
    assert np.isfinite(L).all()
    # relative to the mean of the diagonal: the first one, 1e-10, or a few times tenfold
    assert 1e-10 <= jitter / np.diagonal(K).mean() <= 1e-8
    np.testing.assert_allclose(L @ L.T, K + jitter * np.eye(8), atol=1e-13 * np.abs(K).max())


def test_jitter_ends_at_a_hundredth_of_the_diagonal():
    K = np.array([[1.0, 2.0], [2.0, 1.0]])  # eigenvalue −1: no jitter up to 0.01 helps
    L, jitter = cholesky(K)
    assert np.isnan(L).any()
    assert jitter == pytest.approx(1e-2, rel=1e-6)


def test_nan_does_not_loop_for_ever():
    L, jitter = cholesky(np.array([[np.nan, 0.0], [0.0, 1.0]]))
    assert np.isnan(L).any()
    assert jitter == 0.0


@pytest.mark.parametrize("n", [1, 65, 192])  # one block, and odd and even splits
def test_the_inverse_of_a_factor(n):
    L = np.linalg.cholesky(covariance(n))
    inverse = np.asarray(inverse_factor(L))
    np.testing.assert_array_equal(inverse, np.tril(inverse))
    # entries of L and of its inverse are below 10, sums have n terms
    np.testing.assert_allclose(inverse @ L, np.eye(n), atol=100 * n * EPS)


def test_square():
    A = np.random.default_rng(0).standard_normal((7, 4))
    np.testing.assert_allclose(square(A), A.T @ A, atol=1e-14)


@pytest.mark.parametrize("n", [20, 64, 101])  # whole, in even blocks, and with a smaller last one
def test_a_solver_of_parts_below_the_diagonal(n, monkeypatch):
    monkeypatch.setattr(linalg, "FACTOR_BLOCK", 16)
    K, b, asked = covariance(n), np.random.default_rng(1).standard_normal(n), []

    def part(start, stop):
        asked.append((start, stop))
        return K[start:, start:stop]

    np.testing.assert_allclose(linalg.Solver.lazily(n, part)(b), np.linalg.solve(K, b), rtol=1e-10)
    assert len(asked) == (1 if n == 20 else -(-n // 16))
    np.testing.assert_allclose(linalg.Solver.of(K)(b), np.linalg.solve(K, b), rtol=1e-10)
    L = linalg.factor(K)
    np.testing.assert_allclose(L, np.linalg.cholesky(K), rtol=1e-10, atol=1e-12)


def test_a_solver_of_what_is_not_positive_definite_is_the_identity_if_asked(monkeypatch):
    monkeypatch.setattr(linalg, "FACTOR_BLOCK", 16)
    K, b = covariance(50) - 5.0 * np.eye(50), np.arange(50.0)
    solver = linalg.Solver.of(K)
    assert np.isnan(solver(b)).any()
    np.testing.assert_array_equal(solver.or_identity()(b), b)
