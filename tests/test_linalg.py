import jax
import jax.numpy as jnp
import numpy as np
import pytest

from augury.core import linalg
from augury.core.linalg import safe_sqrt
from augury.core.precision import computing

# compiled whole: operation by operation they cost seconds
cholesky, gaussian_nll = jax.jit(linalg.cholesky), jax.jit(linalg.gaussian_nll)
inverse_factor, square = jax.jit(linalg.inverse_factor), jax.jit(linalg.square)
EPS = np.finfo(np.float64).eps


@pytest.fixture(autouse=True)
def double():
    with computing():
        yield


def covariance(n, seed=0, ridge=0.1):
    A = np.random.default_rng(seed).standard_normal((n, n))
    return A @ A.T / n + ridge * np.eye(n)


def test_safe_sqrt_and_its_derivative():
    x = jnp.array([4.0, 2.0, 0.0, -1.0])
    np.testing.assert_allclose(safe_sqrt(x), [2.0, np.sqrt(2.0), 0.0, 0.0], rtol=1e-15)
    slopes = jax.jit(jax.vmap(jax.grad(safe_sqrt)))(x)
    np.testing.assert_allclose(slopes, [0.25, 0.5 / np.sqrt(2.0), 0.0, 0.0], rtol=1e-15)


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


def dense_nll(K, y):
    return 0.5 * y @ np.linalg.solve(K, y) + 0.5 * np.linalg.slogdet(K)[1]


def test_gaussian_nll_is_the_dense_one():
    K, y = covariance(20), np.random.default_rng(1).standard_normal(20)
    assert gaussian_nll(K, y) == pytest.approx(dense_nll(K, y), rel=1e-12)
    # det 12, K⁻¹ = [3 0; 0 4]/12: by hand
    assert gaussian_nll(np.diag([4.0, 3.0]), np.array([2.0, 3.0])) == pytest.approx(
        0.5 * (1.0 + 3.0) + 0.5 * np.log(12.0), rel=1e-15
    )


def test_the_gradient_of_gaussian_nll_is_its_finite_difference():
    K, y = covariance(6), np.random.default_rng(1).standard_normal(6)
    in_K, in_y = jax.jit(jax.grad(gaussian_nll, argnums=(0, 1)))(K, y)
    step = 1e-5  # truncation 1e-10, rounding 1e-16/1e-5
    for i in range(6):
        e = np.eye(6)[i]
        slope = (dense_nll(K, y + step * e) - dense_nll(K, y - step * e)) / (2 * step)
        assert in_y[i] == pytest.approx(slope, abs=1e-7)
        for j in range(i + 1):
            E = step * np.outer(e, np.eye(6)[j])
            E = 0.5 * (E + E.T)  # K stays symmetric
            slope = (dense_nll(K + E, y) - dense_nll(K - E, y)) / (2 * step)
            assert 0.5 * (in_K[i, j] + in_K[j, i]) == pytest.approx(slope, abs=1e-7)
    np.testing.assert_allclose(in_K, in_K.T, atol=1e-12)


def test_gaussian_nll_is_nan_where_the_matrix_is_not_positive_definite():
    y = np.ones(2)
    assert np.isnan(gaussian_nll(np.array([[1.0, 2.0], [2.0, 1.0]]), y))
    assert np.isnan(gaussian_nll(np.array([[-1.0, 0.0], [0.0, 1.0]]), y))
