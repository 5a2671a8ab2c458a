import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from augury.surrogates import hyperfit
from augury.surrogates.hyperfit import DEFAULT_LOWER, DEFAULT_UPPER, Density, Hyper, Limits
from augury.surrogates.kernels import KERNELS
from augury.surrogates.likelihood import BASE_JITTER, BLOCK, Likelihood, invert_triangular
from augury.surrogates.search import Search

each_kernel = pytest.mark.parametrize("name", KERNELS)
GROUPS = np.array([0, 1, 1, 1, 2])  # three one-hot columns share a lengthscale


def observations(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.random((n, 5))
    x[:, 1:4] = np.eye(3)[rng.integers(3, size=n)]
    return x, np.sin(5.0 * x[:, 0]) + x[:, 2] - x[:, 4] + 0.1 * rng.standard_normal(n)


def some_theta(seed=0):
    return np.append(np.random.default_rng(seed).normal(-0.5, 0.5, 4), -3.0)


def dense(name, x, y, theta):
    """−log N(y; 0, K), without its constant, by SciPy."""
    lengthscale, variance = np.exp(theta[:-2])[GROUPS], np.exp(theta[-2])
    s = (((x[:, None] - x[None]) / lengthscale) ** 2).sum(-1)
    K = variance * KERNELS[name].value_and_slope(s)[0]
    K += (np.exp(theta[-1]) + BASE_JITTER * variance) * np.eye(len(x))
    return -multivariate_normal(np.zeros(len(x)), K).logpdf(y) - 0.5 * len(x) * np.log(2.0 * np.pi)


@each_kernel
@pytest.mark.parametrize("n", [1, 2, 30, 150])  # 150: blocks of rows, and of the triangular inverse
def test_the_likelihood_is_the_dense_one(name, n):
    assert BLOCK < 150**2
    x, y = observations(n)
    likelihood = Likelihood(KERNELS[name], x, y, GROUPS)
    for seed in range(3):  # buffers are used again
        theta = some_theta(seed)
        expected = dense(name, x, y, theta)
        assert likelihood.value(theta) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert likelihood.value_and_gradient(theta)[0] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@each_kernel
@pytest.mark.parametrize("n", [1, 30, 150])
def test_its_gradient_is_its_finite_difference(name, n):
    x, y = observations(n)
    x[n // 2 :] = x[: n - n // 2]  # also at coincident points, where √s has no derivative
    likelihood = Likelihood(KERNELS[name], x, y, GROUPS)
    theta, step = some_theta(), 1e-5
    _, gradient = likelihood.value_and_gradient(theta)
    for i, e in enumerate(step * np.eye(len(theta))):
        slope = (likelihood.value(theta + e) - likelihood.value(theta - e)) / (2.0 * step)
        assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_it_is_infinite_where_the_covariance_is_not_positive_definite():
    x, y = np.zeros((3, 5)), np.arange(3.0)
    likelihood = Likelihood(KERNELS["se"], x, y, GROUPS, jitter=0.0)
    theta = np.array([0.0, 0.0, 0.0, 0.0, -200.0])  # three equal rows and no noise
    assert likelihood.value(theta) == np.inf
    value, gradient = likelihood.value_and_gradient(theta)
    assert value == np.inf
    assert not gradient.any()


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 127, 200])
def test_a_triangular_inverse_in_place(n):
    L = np.asfortranarray(np.tril(np.random.default_rng(n).standard_normal((n, n))) + 9.0 * np.eye(n))
    inverse = L.copy(order="F")
    invert_triangular(inverse)
    np.testing.assert_allclose(inverse @ L, np.eye(n), atol=1e-12)
    assert not np.triu(inverse, 1).any()


def density(x, y, **fixed):
    lower, upper = (
        Hyper(np.full(5, low), v, noise) for low, v, noise, _ in (DEFAULT_LOWER, DEFAULT_UPPER)
    )
    limits = Limits(lower._replace(**fixed), upper._replace(**fixed))
    return Density(Likelihood(KERNELS["matern52"], x, y, GROUPS), 3, limits)


def test_the_density_is_the_likelihood_times_normal_priors():
    x, y = observations(20)
    rng = np.random.default_rng(0)
    posterior = density(x, y)
    for z in rng.normal(size=(3, 5)):
        theta = posterior.theta(z)
        mean = np.append(np.full(3, np.sqrt(2.0) - 3.0 + 0.5 * np.log(3)), [0.0, -8.0])
        prior = 0.5 * ((theta - mean) ** 2 / [3.0, 3.0, 3.0, 1.0, 4.0]).sum()
        expected = dense("matern52", x, y, theta) + prior
        assert posterior.loss(z) == pytest.approx(expected, rel=1e-9)
        value, gradient = posterior.loss_and_gradient(z)
        assert value == pytest.approx(expected, rel=1e-9)
        for i, e in enumerate(1e-5 * np.eye(5)):
            slope = (posterior.loss(z + e) - posterior.loss(z - e)) / 2e-5
            assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_a_descent_finds_what_scipy_finds():
    x, y = observations(40)
    posterior = density(x, y)
    bounds = np.stack([posterior.lower, posterior.upper], axis=1)
    for start in hyperfit.starts(3).reshape(-1, 5):
        start = np.clip(start, posterior.lower, posterior.upper)
        end = Search(posterior, start).run(200)
        best = minimize(posterior.loss_and_gradient, start, jac=True, method="L-BFGS-B", bounds=bounds)
        assert end.converged
        assert end.loss < best.fun + 0.02
        assert end.evaluations <= 60


def test_a_descent_stays_within_the_limits_and_leaves_what_is_fixed():
    x, y = observations(40)
    posterior = density(x, y, log_variance=0.25, log_noise=np.log(1e-6))
    start = np.clip(np.ones(5), posterior.lower, posterior.upper)
    end = Search(posterior, start).run(60)
    np.testing.assert_allclose(posterior.theta(end.z)[-2:], [0.25, np.log(1e-6)], rtol=1e-15)
    assert (posterior.lower <= end.z).all()
    assert (end.z <= posterior.upper).all()
    assert end.converged
    assert end.loss < posterior.loss(start)


def test_a_descent_can_be_left_and_taken_up_again():
    x, y = observations(40)
    whole = Search(density(x, y), np.zeros(5)).run(60)
    parts = Search(density(x, y), np.zeros(5))
    while not parts.done:
        before = parts.evaluations
        parts.run(before + 4)
        assert parts.evaluations <= before + 4
    np.testing.assert_allclose(parts.z, whole.z, atol=0.05)  # steps cut short were tried again
    assert parts.loss == pytest.approx(whole.loss, abs=0.02)


def test_a_descent_slides_along_a_bound():
    class Bowl:  # its minimum, (2, −2), lies outside; in the box it is (1, −1)
        lower, upper = -np.ones(2), np.ones(2)

        def loss_and_gradient(self, z):
            return float(((z - [2.0, -2.0]) ** 2).sum()), 2.0 * (z - [2.0, -2.0])

    end = Search(Bowl(), np.array([0.3, 0.9])).run(50)
    np.testing.assert_array_equal(end.z, [1.0, -1.0])
    assert end.converged


def test_starts_are_of_two_kinds():
    starts = hyperfit.starts(3)
    assert starts.shape == (2, 3, 5)
    assert (starts[0, :, -1] < starts[1, :, -1]).all()
    np.testing.assert_array_equal(starts[0, :, :-1], starts[1, :, :-1])


def test_numbers_too_large_for_a_likelihood_do_not_stop_the_search():
    x, _ = observations(5)
    end = Search(density(x, np.full(5, 1e200)), np.zeros(5)).run(20)
    assert np.isfinite(end.z).all()
    assert end.loss == np.inf
    assert not end.converged


def test_a_start_is_made_of_the_input_along_which_values_vary_smoothly():
    x, _ = observations(60)
    starts = hyperfit.single_inputs(x, np.sin(20.0 * x[:, 4]), GROUPS)
    assert starts.shape == (2, 5)
    np.testing.assert_array_equal(starts[0], [1.5, 1.5, -1.0, 0.0, 0.0])  # of the third group


@pytest.mark.parametrize("seed", range(4))
def test_an_oscillation_along_one_input_of_many_is_not_taken_for_noise(seed):
    x = np.random.default_rng(seed).random((60, 8))
    y = np.sin(20.0 * x[:, 3])
    limits = Limits(
        *(Hyper(np.full(8, low), v, noise) for low, v, noise, _ in (DEFAULT_LOWER, DEFAULT_UPPER))
    )
    tuned = hyperfit.tune(KERNELS["matern52"], x, y / y.std(), np.arange(8), 8, limits)
    lengthscales = np.exp(tuned.hyper.log_lengthscale)
    assert lengthscales[3] < 0.5
    assert np.delete(lengthscales, 3).min() > 2.0
    assert np.exp(tuned.hyper.log_noise) < 1e-2
