import functools

import jax
import numpy as np
import pytest

from augury._errors import UnsupportedError
from augury.core.precision import computing
from augury.surrogates.kernels import KERNELS, kernel_class

LENGTHSCALE, VARIANCE = np.array([0.3, 0.7, 2.0]), 1.7
PROFILES = {  # of the scaled distance r = √s
    "se": lambda r: np.exp(-0.5 * r**2),
    "matern32": lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
    "matern52": lambda r: (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
}
each_kernel = pytest.mark.parametrize("name", PROFILES)


@pytest.fixture(autouse=True)
def double():
    with computing():
        yield


def kernel(name):
    return kernel_class(name)(LENGTHSCALE, np.asarray(VARIANCE))


@functools.cache
def compiled(name):
    """Value and gradient in the first point, for all pairs of rows."""
    return jax.jit(jax.vmap(jax.value_and_grad(kernel(name).__call__)))


def dense(name, a, b):
    distances = np.sqrt((((a[:, None] - b[None]) / LENGTHSCALE) ** 2).sum(-1))
    return VARIANCE * PROFILES[name](distances)


def points(n, seed=0):
    return np.random.default_rng(seed).random((n, 3))


def test_every_kernel_is_tested_and_unknown_names_are_refused():
    assert set(PROFILES) == set(KERNELS)
    with pytest.raises(UnsupportedError, match=r"one of se, matern32, matern52; got 'rbf'"):
        kernel_class("rbf")


@each_kernel
def test_the_profile_is_its_formula(name):
    r = np.array([0.0, 1e-9, 1e-3, 0.1, 1.0, 3.0, 30.0])
    np.testing.assert_allclose(kernel(name).profile(r**2), PROFILES[name](r), rtol=1e-13)


@each_kernel
def test_the_gram_matrix_is_all_pairs(name):
    a, b = points(8), points(8, seed=1)
    b[3] = a[5]  # a coincident pair
    gram = np.asarray(kernel(name).gram(a, b))
    np.testing.assert_allclose(gram, dense(name, a, b), rtol=1e-12)
    pairs, _ = compiled(name)(np.repeat(a, 8, axis=0), np.tile(b, (8, 1)))
    np.testing.assert_allclose(gram, pairs.reshape(8, 8), rtol=1e-12)


@each_kernel
def test_the_gram_matrix_survives_short_lengthscales(name):
    # s is a difference of numbers of size ‖a/lengthscale‖² = 1e5, hence known to 1e-10
    x = points(20)
    short = kernel_class(name)(np.full(3, 5e-3), np.asarray(1.0))
    K = np.asarray(short.gram(x, x))
    np.testing.assert_allclose(np.diagonal(K), 1.0, atol=1e-9)
    assert np.linalg.eigvalsh(0.5 * (K + K.T)).min() > -1e-9  # a tenth of the jitter that is added


@each_kernel
def test_gram_matrices_are_positive_semidefinite(name):
    x = points(40)
    x[20:] = x[:20]  # rank 20
    K = np.asarray(kernel(name).gram(x, x))
    np.testing.assert_allclose(K, K.T, atol=1e-14)
    values = np.linalg.eigvalsh(K)
    assert values.min() > -1e-12 * values.max()


@each_kernel
def test_the_gradient_is_the_finite_difference_and_zero_at_coincident_points(name):
    a, b = np.repeat(points(8), 8, axis=0), np.tile(points(8, seed=1), (8, 1))
    a[0] = b[0]
    _, gradient = compiled(name)(a, b)
    assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(gradient[0], 0.0)  # the kernel's maximum
    step = 1e-6
    for column in range(3):
        e = step * np.eye(3)[column]
        ahead, behind = compiled(name)(a + e, b)[0], compiled(name)(a - e, b)[0]
        # truncation 1e-12 · third derivative (~100), rounding 1e-16/1e-6
        np.testing.assert_allclose(gradient[:, column], (ahead - behind) / (2 * step), atol=1e-8)


@each_kernel
def test_lengthscale_gradients_of_a_gram_matrix_are_finite(name):
    x = np.repeat(points(4), 2, axis=0)  # every point twice

    @jax.jit
    @jax.value_and_grad
    def total(lengthscale):
        return kernel_class(name)(lengthscale, np.asarray(VARIANCE)).gram(x, x).sum()

    _, gradient = total(LENGTHSCALE)
    step = 1e-6
    for column in range(3):
        e = step * np.eye(3)[column]
        difference = (total(LENGTHSCALE + e)[0] - total(LENGTHSCALE - e)[0]) / (2 * step)
        assert float(gradient[column]) == pytest.approx(float(difference), abs=1e-7)


@each_kernel
def test_frequencies_have_the_kernel_as_their_characteristic_function(name):
    draws = 200_000
    omega = kernel(name).frequencies(draws, np.random.default_rng(0))
    assert omega.shape == (draws, 3)
    shifts = np.random.default_rng(1).uniform(-1, 1, (10, 3)) * LENGTHSCALE
    estimates = np.cos(omega @ shifts.T)
    expected = dense(name, shifts, np.zeros((1, 3)))[:, 0] / VARIANCE
    error = estimates.std(axis=0) / np.sqrt(draws)
    assert (np.abs(estimates.mean(axis=0) - expected) < 4.5 * error).all()  # 10 tests at 1e-5
    assert error.max() < 0.002  # sharp enough to tell the three kernels apart
    others = [f(np.sqrt(((shifts / LENGTHSCALE) ** 2).sum(1))) for n, f in PROFILES.items() if n != name]
    assert all(np.abs(other - expected).max() > 0.01 for other in others)


@each_kernel
def test_the_diagonal_is_that_of_the_gram_matrix(name):
    x = points(6)
    np.testing.assert_allclose(kernel(name).diagonal(x), np.diagonal(dense(name, x, x)), rtol=1e-12)
    assert kernel(name).diagonal(x[0]).shape == ()


@each_kernel
def test_features_have_the_kernel_as_their_expected_product(name):
    features = kernel(name).features(20_000, np.random.default_rng(0))
    assert features.count == 20_000
    x = points(6)
    phi = np.asarray(features(x))
    np.testing.assert_allclose((phi**2).sum(axis=1), VARIANCE, rtol=1e-12)  # exact at every point
    # 10,000 pairs, each a cosine of deviation at most 1/√2
    np.testing.assert_allclose(phi @ phi.T, dense(name, x, x), atol=4.5 * VARIANCE / np.sqrt(2 * 10_000))
    np.testing.assert_allclose(features(x[0]), phi[0], atol=1e-14)
