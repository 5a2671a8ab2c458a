import jax
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from augury import theory
from augury._errors import DataError, UnsupportedError
from augury.core import linalg
from augury.core.data import Data, pad
from augury.core.keys import fold, generator, root_key
from augury.surrogates import Capability, GaussianProcess, Status, gp_posterior
from augury.surrogates.hyperfit import Hyper, Tuned
from augury.surrogates.likelihood import BASE_JITTER

KEY = root_key(0)
LENGTHSCALE, VARIANCE, NOISE = np.array([0.3, 0.5, 0.9]), 2.0, 0.01
FIXED = GaussianProcess(
    lengthscale=tuple(LENGTHSCALE), variance=VARIANCE, noise=NOISE, standardize=False, features=2048
)
NOTHING = np.zeros(())
UNTUNED = Tuned(Hyper(np.zeros(3), NOTHING, NOTHING), NOTHING, NOTHING, NOTHING)
# Dimension 3 and at most 32 observations almost everywhere: then all tests share their compilations.
NEW = np.random.default_rng(99).random((6, 3))


def observations(n=20, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    x = rng.random((n, 3))
    return x, np.sin(5 * x[:, 0]) + x[:, 1] ** 2 + noise * rng.standard_normal(n)


def fit(model, x, y, **kwargs):
    # what is fixed need not be searched for, which saves a compilation for every number of rows
    return model.fit(Data.of(x, y, **kwargs), key=KEY, tuned=UNTUNED if model is FIXED else None)


def matern52(a, b, lengthscale=LENGTHSCALE, variance=VARIANCE):
    r = np.sqrt(5.0 * (((a[:, None] - b[None]) / lengthscale) ** 2).sum(-1))
    return variance * (1.0 + r + r**2 / 3.0) * np.exp(-r)


def dense(x, y, new=NEW, shift=0.0, lengthscale=LENGTHSCALE, variance=VARIANCE, noise=NOISE):
    """Mean and covariance at `new` by linear solves, Rasmussen & Williams eq. 2.25 and 2.26."""
    K = matern52(x, x, lengthscale, variance) + (noise + BASE_JITTER * variance) * np.eye(len(x))
    k = matern52(x, new, lengthscale, variance)
    mean = shift + k.T @ np.linalg.solve(K, y - shift)
    return mean, matern52(new, new, lengthscale, variance) - k.T @ np.linalg.solve(K, k)


def assert_predicts(posterior, expected, new=NEW, tolerance=1e-9):
    """Against dense algebra: K has condition 1e4, so 1e-9 leaves room for rounding only."""
    mean, covariance = expected
    np.testing.assert_allclose(posterior.mean(new), mean, atol=tolerance)
    np.testing.assert_allclose(posterior.var(new), np.diagonal(covariance), atol=tolerance)
    for got, want in zip(posterior.joint(new), expected, strict=True):
        np.testing.assert_allclose(got, want, atol=tolerance)
    np.testing.assert_allclose(posterior.predict(new), (mean, np.diagonal(covariance)), atol=tolerance)


# The posterior at given hyper-parameters


def test_the_posterior_is_the_dense_one():
    x, y = observations()
    fitted = fit(FIXED, x, y)
    assert fitted.status is Status.OK
    assert fitted.info["jitter"] == pytest.approx(1e-8 * fitted.info["variance"])
    assert_predicts(fitted.posterior, dense(x, y))


def test_standardization_moves_the_mean_and_keeps_units():
    x, y = observations()
    y = 100.0 + 7.0 * y
    model = GaussianProcess(lengthscale=tuple(LENGTHSCALE), variance=VARIANCE, noise=NOISE)
    fitted = fit(model, x, y)
    assert_predicts(fitted.posterior, dense(x, y, shift=y.mean()))
    assert fitted.posterior.noise_std == pytest.approx(np.sqrt(NOISE), rel=1e-12)


@pytest.mark.parametrize("n", [31, 32, 33])
def test_full_and_barely_filled_buffers(n):
    x, y = observations(n)
    posterior = fit(FIXED, x, y).posterior
    assert len(posterior.x) == (32 if n <= 32 else 64)
    assert_predicts(posterior, dense(x, y))


def test_more_padding_changes_nothing():
    x, y = observations()
    data = Data.of(x, y)
    wide = Data(pad(data.x, 64), pad(data.y, 64), pad(data.mask, 64), data.groups)
    narrow, wide = (FIXED.fit(d, key=KEY, tuned=UNTUNED).posterior for d in (data, wide))
    np.testing.assert_allclose(wide.predict(NEW), narrow.predict(NEW), rtol=1e-12)
    assert wide.incumbent() == pytest.approx(narrow.incumbent(), rel=1e-12)
    assert wide.information_gain() == pytest.approx(narrow.information_gain(), rel=1e-12)
    paths = [posterior.sample(key=KEY)(NEW) for posterior in (narrow, wide)]
    np.testing.assert_allclose(paths[0], paths[1], rtol=1e-9)


@settings(max_examples=10, deadline=None)
@given(st.permutations(range(20)))
def test_the_order_of_the_data_does_not_matter(order):
    x, y = observations()
    expected = fit(FIXED, x, y).posterior
    shuffled = fit(FIXED, x[order], y[order]).posterior
    np.testing.assert_allclose(shuffled.predict(NEW), expected.predict(NEW), atol=1e-11)
    assert shuffled.incumbent() == pytest.approx(expected.incumbent(), abs=1e-11)
    assert shuffled.information_gain() == pytest.approx(expected.information_gain(), abs=1e-10)


def test_no_observations_leave_the_prior():
    fitted = fit(FIXED, np.empty((0, 3)), [])
    assert_predicts(fitted.posterior, (np.zeros(6), matern52(NEW, NEW)))
    assert fitted.posterior.incumbent() == 0.0
    assert fitted.posterior.information_gain() == 0.0
    learnt = fit(GaussianProcess(), np.empty((0, 3)), [])
    centre = np.exp(np.sqrt(2) - 3 + 0.5 * np.log(3))
    np.testing.assert_allclose(learnt.info["lengthscale"], centre)  # the prior's
    assert learnt.info["variance"] == pytest.approx(1.0)


def test_one_observation():
    x, y = observations(1)
    assert_predicts(fit(FIXED, x, y).posterior, dense(x, y))
    posterior = fit(GaussianProcess(), x, [42.0]).posterior
    np.testing.assert_allclose(posterior.mean(NEW), 42.0)
    assert (posterior.var(NEW) > 0.1).all()
    assert (posterior.var(x) < 0.01).all()


def test_repeated_points_average_their_values():
    x = np.tile([[0.2, 0.4, 0.6]], (12, 1))
    y = np.array([1.0, 3.0] * 6)
    posterior = fit(FIXED, x, y).posterior
    nugget = NOISE + BASE_JITTER * VARIANCE
    assert posterior.mean(x[0]) == pytest.approx(2.0 * VARIANCE / (VARIANCE + nugget / 12), rel=1e-9)
    assert posterior.var(x[0]) == pytest.approx(1 / (1 / VARIANCE + 12 / nugget), rel=1e-6)
    learnt = fit(GaussianProcess(), x, y)
    assert learnt.status is Status.OK
    assert learnt.posterior.noise_std == pytest.approx(1.0, rel=0.2)  # the spread of the values
    assert learnt.posterior.mean(x[0]) == pytest.approx(2.0)


def test_the_variance_is_never_negative_where_it_vanishes():
    x, y = observations(30)
    model = GaussianProcess(lengthscale=50.0, variance=1.0, noise=1e-12, standardize=False)
    posterior = fit(model, x, y).posterior
    assert (posterior.var(x) > 0.0).all()
    assert (posterior.var(x) < 1e-6).all()


# What a posterior says about its data


def test_the_incumbent_is_the_largest_mean_at_the_data():
    x, y = observations(30)
    for model in (FIXED, GaussianProcess()):
        posterior = fit(model, x, y).posterior
        assert posterior.incumbent() == pytest.approx(posterior.mean(x).max(), abs=1e-9)
    conditioned = posterior.condition(NEW, [10.0] * 6)
    everything = np.concatenate([x, NEW])
    assert conditioned.incumbent() == pytest.approx(conditioned.mean(everything).max(), abs=1e-8)


def test_the_information_gain_is_the_theory_s():
    x, y = observations()
    posterior = fit(FIXED, x, 5.0 * y + 3.0).posterior
    expected = theory.information_gain(matern52(x, x), NOISE)
    # the jitter of 1e-8 beside a noise of 0.01 changes each of 20 logarithms by 1e-6
    assert posterior.information_gain() == pytest.approx(expected, abs=1e-4)
    more = posterior.condition(NEW).information_gain()
    together = np.concatenate([x, NEW])
    assert more == pytest.approx(theory.information_gain(matern52(together, together), NOISE), abs=1e-4)


def test_the_information_gain_of_repeated_points_with_hardly_any_noise():
    # One point seen 20 times: its gain is ½ log(1 + 20·variance/noise). The jitter stands for the noise
    # where that is smaller still; counted for one of the two only, it would add log(100) a point.
    x = np.tile([[0.2, 0.4, 0.6]], (20, 1))
    model = GaussianProcess(lengthscale=0.5, variance=VARIANCE, noise=1e-10, standardize=False)
    gain = fit(model, x, np.ones(20)).posterior.information_gain()
    assert gain == pytest.approx(0.5 * np.log1p(20 / BASE_JITTER), rel=1e-2)


# Conditioning


def test_conditioning_on_values_is_a_refit():
    x, y = observations(29)
    ys = np.linspace(-1, 1, 6)
    conditioned = fit(FIXED, x, y).posterior.condition(NEW, ys)  # 35: past the first bucket
    together = np.concatenate([x, NEW]), np.concatenate([y, ys])
    probes = np.random.default_rng(5).random((6, 3))
    assert_predicts(conditioned, dense(*together, new=probes), new=probes)
    refitted = fit(FIXED, *together).posterior
    np.testing.assert_allclose(conditioned.predict(probes), refitted.predict(probes), atol=1e-10)
    assert conditioned.information_gain() == pytest.approx(refitted.information_gain(), abs=1e-8)
    path, other = (posterior.sample(key=KEY) for posterior in (conditioned, refitted))
    np.testing.assert_allclose(path(probes), other(probes), atol=1e-9)


@pytest.mark.parametrize("n", [0, 10, 31])
def test_conditioning_without_values_keeps_the_mean_and_shrinks_the_variance(n):
    x, y = observations(n)
    posterior = fit(FIXED, x, y).posterior
    pending = NEW[:4]
    conditioned = posterior.condition(pending)
    mean, _ = dense(x, y)
    _, covariance = dense(np.concatenate([x, pending]), np.zeros(n + 4))  # y does not matter for it
    np.testing.assert_allclose(conditioned.mean(NEW), mean, atol=1e-9)
    np.testing.assert_allclose(conditioned.var(NEW), np.diagonal(covariance), atol=1e-9)
    assert (conditioned.var(pending) < NOISE).all()


def test_several_points_together_are_several_points_one_at_a_time():
    x, y = observations(30)
    posterior = fit(GaussianProcess(), x, y).posterior  # 30 + 6: across the bucket's edge
    for values in (None, np.arange(6.0)):
        together = alone = posterior.condition(NEW, values)
        alone = posterior
        for i in range(6):
            alone = alone.condition(NEW[i], None if values is None else values[i : i + 1])
        leaves = zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True)
        assert all(np.array_equal(a, b) for a, b in leaves)  # bit for bit


def test_conditioning_on_nothing_and_on_nonsense():
    posterior = fit(FIXED, *observations(5)).posterior
    assert posterior.condition(np.empty((0, 3))) is posterior
    with pytest.raises(DataError, match="as many rows; got 2 and 1"):
        posterior.condition(NEW[:2], [1.0])
    with pytest.raises(DataError, match="ys must be finite"):
        posterior.condition(NEW[:1], [np.nan])


def test_conditioning_on_observed_points_again():
    x, y = observations(20)
    model = GaussianProcess(lengthscale=0.5, variance=1.0, noise=1e-12, standardize=False)
    posterior = fit(model, x, y).posterior
    again = posterior.condition(x[:6], y[:6])
    np.testing.assert_allclose(again.mean(NEW), posterior.mean(NEW), atol=1e-5)
    assert (again.var(NEW) <= posterior.var(NEW) + 1e-9).all()


# Draws


def assert_moments(draws, mean, covariance):
    """Mean and covariance of Gaussian draws (count, m) within 4.5 of their standard errors."""
    count, variances = len(draws), np.diagonal(covariance)
    assert (np.abs(draws.mean(0) - mean) < 4.5 * np.sqrt(variances / count)).all()
    error = np.sqrt((np.outer(variances, variances) + covariance**2) / count)
    assert (np.abs(np.cov(draws.T) - covariance) < 4.5 * error).all()


def test_the_scale_of_a_path_is_that_of_its_distance_from_the_mean():
    x, y = observations(20)
    posterior = fit(FIXED, x, 5.0 + y).posterior
    path, wide = (posterior.sample(key=KEY, scale=scale)(NEW) for scale in (1.0, 3.0))
    mean = posterior.mean(NEW)
    np.testing.assert_allclose(wide - mean, 3.0 * (path - mean), atol=1e-8)
    np.testing.assert_allclose(posterior.sample(key=KEY, scale=0.0)(NEW), mean, atol=1e-8)
    first, second = posterior.draws(keys=[KEY, fold(KEY, 1)], scale=3.0)
    np.testing.assert_array_equal(first.path(NEW), wide)
    assert (second.path(NEW) != wide).all()


@pytest.mark.parametrize("n", [0, 20])
def test_paths_have_the_moments_of_the_joint_posterior(n):
    x, y = observations(n)
    posterior = fit(FIXED, x, y).posterior
    draws = np.array([posterior.sample(key=fold(KEY, i))(NEW) for i in range(400)])
    assert_moments(draws, *dense(x, y))


def test_paths_of_standardized_and_conditioned_posteriors():
    x, y = observations(20)
    y = 100.0 + 7.0 * y
    model = GaussianProcess(lengthscale=0.5, variance=80.0, noise=1.0, features=2048)
    posterior = fit(model, x, y).posterior.condition(NEW[:2])
    draws = np.array([posterior.sample(key=fold(KEY, i))(NEW) for i in range(400)])
    assert_moments(draws, *posterior.joint(NEW))


def test_paths_pass_through_the_data_when_there_is_no_noise():
    x, y = observations(20, noise=0.0)
    model = GaussianProcess(lengthscale=0.5, variance=1.0, noise=1e-10, standardize=False)
    posterior = fit(model, x, y).posterior
    for i in range(3):
        path = posterior.sample(key=fold(KEY, i))
        np.testing.assert_allclose(path(x), y, atol=5e-4)  # 5 deviations of a nugget of 1e-8
        assert np.abs(path(NEW) - posterior.mean(NEW)).max() > 0.01


def test_a_path_is_a_function_of_its_key():
    posterior = fit(FIXED, *observations(20)).posterior
    path = posterior.sample(key=KEY)
    np.testing.assert_array_equal(path(NEW), posterior.sample(key=KEY)(NEW))
    assert (path(NEW) != posterior.sample(key=fold(KEY, 1))(NEW)).all()
    np.testing.assert_allclose(path(NEW[::-1]), path(NEW)[::-1], rtol=1e-12)  # one function, everywhere


def test_joint_draws_have_the_joint_moments():
    x, y = observations(20)
    posterior = fit(FIXED, x, y).posterior
    draws = posterior.sample_at(NEW, 4000, key=KEY)
    assert draws.shape == (4000, 6)
    assert_moments(draws, *dense(x, y))
    repeated = posterior.sample_at(np.repeat(NEW[:3], 2, axis=0), 3, key=KEY)  # a singular covariance
    np.testing.assert_allclose(repeated[:, ::2], repeated[:, 1::2], atol=1e-4)


def test_joint_draws_are_limited():
    posterior = fit(FIXED, *observations(5)).posterior
    with pytest.raises(DataError, match="at most 5000 points; got 5001"):
        posterior.sample_at(np.zeros((5001, 3)), key=KEY)


# Hyper-parameters


def negative_log_posterior(x, y):
    """The documented density of (log lengthscales, log variance, log noise), in NumPy."""
    y = (y - y.mean()) / y.std()
    centre = np.append(np.full(3, np.sqrt(2) - 3 + 0.5 * np.log(3)), [0.0, -8.0])
    width = np.sqrt([3, 3, 3, 1, 4])

    def value(theta):
        *log_lengthscale, log_variance, log_noise = theta
        variance, noise = np.exp(log_variance), np.exp(log_noise)
        K = matern52(x, x, np.exp(log_lengthscale), variance)
        K += (noise + BASE_JITTER * variance) * np.eye(len(x))
        prior = 0.5 * (((theta - centre) / width) ** 2).sum()
        return 0.5 * y @ np.linalg.solve(K, y) + 0.5 * np.linalg.slogdet(K)[1] + prior

    return value, centre, width


LIMITS = np.log([[5e-3, 1e3]] * 3 + [[1e-3, 1e3], [1e-6, 1.0]])


def theta_of(fitted, y):
    info, scale = fitted.info, y.var()
    return np.log([*info["lengthscale"], info["variance"] / scale, info["noise"] / scale])


@pytest.mark.parametrize("noise", [0.0, 0.1, 1.0])
def test_hyper_parameters_are_the_most_probable_ones(noise):
    x, y = observations(30, seed=3, noise=noise)
    fitted = fit(GaussianProcess(), x, y)
    value, centre, width = negative_log_posterior(x, y)
    theta = theta_of(fitted, y)
    assert fitted.info["tuning_converged"]
    assert -fitted.info["log_posterior"] == pytest.approx(value(theta), abs=1e-6)

    # a stationary point: what a Newton step along each coordinate could gain, slope²/2·curvature
    step = 1e-3
    for i in range(5):
        e = step * np.eye(5)[i]
        ahead, here, behind = value(theta + e), value(theta), value(theta - e)
        slope, curvature = (ahead - behind) / (2 * step), (ahead + behind - 2 * here) / step**2
        at_limit = np.isclose(theta[i], LIMITS[i]).any()
        assert at_limit or (curvature > 0 and slope**2 / (2 * curvature) < 1e-2)

    # and no worse than the best of several searches by SciPy
    rng = np.random.default_rng(0)
    starts = centre + width * rng.standard_normal((6, 5)) * 0.7
    starts[::2, -1] = np.log(0.1)
    found = [
        scipy.optimize.minimize(value, np.clip(z, *LIMITS.T), bounds=LIMITS, method="L-BFGS-B").fun
        for z in starts
    ]
    assert value(theta) < min(found) + 1e-2


def one_variable(seed, n=30):
    """Points that differ in the first column only; the others are constant and tell nothing."""
    rng = np.random.default_rng(seed)
    x = np.full((n, 3), 0.5)
    x[:, 0] = (np.arange(n) + rng.random(n)) / n
    return x, rng


@pytest.mark.parametrize("seed", [0, 3, 6])
def test_a_known_process_is_recognized(seed):
    x, rng = one_variable(seed)
    K = matern52(x, x, np.array([0.15, 1.0, 1.0]), 1.0)
    y = np.linalg.cholesky(K + 1e-10 * np.eye(30)) @ rng.standard_normal(30)
    info = fit(GaussianProcess(), x, y + 0.1 * rng.standard_normal(30)).info
    assert 0.15 / 2 < info["lengthscale"][0] < 0.15 * 2
    assert 0.01 / 3 < info["noise"] < 0.01 * 3
    prior = np.exp(np.sqrt(2) - 3 + 0.5 * np.log(3))
    np.testing.assert_allclose(info["lengthscale"][1:], prior, rtol=1e-2)


@pytest.mark.parametrize("seed", [3, 9, 11])
def test_noisy_data_are_not_taken_for_a_wild_function(seed):
    # Searches that start with little noise end in the mode of lengthscales below 0.02 and no noise.
    x, rng = one_variable(seed)
    y = np.sin(6 * x[:, 0]) + 0.5 * rng.standard_normal(30)
    fitted = fit(GaussianProcess(), x, y)
    assert 0.25 < fitted.posterior.noise_std < 1.0
    assert fitted.info["lengthscale"][0] > 0.05


def test_irrelevant_columns_get_long_lengthscales():
    x, y = observations(30, noise=0.0)
    first, second, third = fit(GaussianProcess(), x, y).info["lengthscale"]
    assert first < second < third / 3


@pytest.mark.parametrize(
    ("a", "b", "tolerance"),
    [(1e-8, 0.0, 1e-8), (1e8, 0.0, 1e-8), (-1.0, 0.0, 1e-8), (1e-100, 0.0, 1e-8), (3.0, 1e6, 1e-5)],
)
def test_an_affine_change_of_the_values_changes_nothing_else(a, b, tolerance):
    """Up to rounding of the values (1e-16·b/a), through the search for hyper-parameters."""
    x, y = observations(30)
    base, moved = fit(GaussianProcess(), x, y), fit(GaussianProcess(), x, a * y + b)
    np.testing.assert_allclose(moved.info["lengthscale"], base.info["lengthscale"], rtol=tolerance)
    mean, var = base.posterior.predict(NEW)
    scale = abs(a) * y.std()
    np.testing.assert_allclose(moved.posterior.mean(NEW), a * mean + b, atol=tolerance * scale)
    np.testing.assert_allclose(moved.posterior.var(NEW) / a**2, var, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e8])
def test_constant_values(value):
    x, _ = observations(30)
    fitted = fit(GaussianProcess(), x, np.full(30, value))
    assert fitted.status is Status.OK
    np.testing.assert_allclose(fitted.posterior.mean(NEW), value, rtol=1e-12)
    assert (fitted.posterior.var(NEW) > 0.0).all()
    assert fitted.posterior.incumbent() == pytest.approx(value, rel=1e-12)


def test_values_whose_squares_are_not_numbers():
    x, y = observations(10)
    assert fit(GaussianProcess(), x, 1e160 * y).status is Status.FAILED
    tiny = fit(GaussianProcess(), x, 1e-160 * y)  # as good as constant
    assert tiny.status is Status.OK
    assert (tiny.posterior.var(NEW) > 0.0).all()


def test_given_hyper_parameters_are_kept_exactly():
    x, y = observations(20)
    y = 50.0 * y
    fixed = {"lengthscale": (0.2, 0.4, 8.0), "variance": 1234.5, "noise": 7e-9}
    for name, value in fixed.items():
        info = fit(GaussianProcess(**{name: value}), x, y).info
        np.testing.assert_allclose(info[name], value, rtol=1e-12)
        others = set(fixed) - {name}
        assert all(not np.allclose(info[other], fixed[other], rtol=1e-3) for other in others)
    everything = fit(GaussianProcess(**fixed), x, y).info
    for name, value in fixed.items():
        np.testing.assert_allclose(everything[name], value, rtol=1e-12)


def test_one_lengthscale_for_all():
    x, y = observations(20)
    fitted = fit(GaussianProcess(ard=False), x, y)
    (shared,) = fitted.info["lengthscale"]
    np.testing.assert_allclose(fitted.posterior.kernel.lengthscale, shared)
    # its prior is that of three parameters, not of one: distances are those of three columns
    (prior,) = fit(GaussianProcess(ard=False), np.empty((0, 3)), []).info["lengthscale"]
    assert prior == pytest.approx(np.exp(np.sqrt(2) - 3 + 0.5 * np.log(3)))
    with pytest.raises(DataError, match="one number or 1, one per parameter; got 3"):
        fit(GaussianProcess(ard=False, lengthscale=(1.0, 2.0, 3.0)), x, y)


def test_columns_of_one_choice_share_a_lengthscale():
    rng = np.random.default_rng(0)
    option = rng.integers(2, size=20)
    x = np.column_stack([rng.random(20), np.eye(2)[option]])
    y = np.sin(5 * x[:, 0]) + option
    new = np.column_stack([rng.random(6), np.eye(2)[[0, 1] * 3]])
    model = GaussianProcess(lengthscale=(0.3, 0.7), variance=VARIANCE, noise=NOISE, standardize=False)
    posterior = fit(model, x, y, groups=[0, 1, 1]).posterior
    assert_predicts(posterior, dense(x, y, new=new, lengthscale=np.array([0.3, 0.7, 0.7])), new=new)
    learnt = fit(GaussianProcess(), x, y, groups=[0, 1, 1])
    assert len(learnt.info["lengthscale"]) == 2
    np.testing.assert_allclose(
        learnt.posterior.kernel.lengthscale, np.array(learnt.info["lengthscale"])[[0, 1, 1]], rtol=1e-14
    )
    with pytest.raises(DataError, match="one number or 2, one per parameter; got 3"):
        fit(GaussianProcess(lengthscale=(1.0, 2.0, 3.0)), x, y, groups=[0, 1, 1])


def test_large_data_are_tuned_on_a_subset():
    x, y = observations(32)
    y[-1] = -1000.0  # one bad value, in the subset or not: the scale is that of all data
    subset = GaussianProcess(tuning_points=20, noise=4.0)
    fitted = fit(subset, x, y)
    assert fitted.status is Status.OK
    assert fitted.info["noise"] == pytest.approx(4.0)
    assert fitted.posterior.mask.sum() == 32  # the posterior has all of them
    chosen = subset._subset(Data.of(x, y), np.random.default_rng(0))
    assert chosen.n == 20
    assert set(np.sort(y)[-10:]) <= set(chosen.y[:20])
    assert len(set(chosen.y[:20])) == 20
    again = fit(subset, x, y)
    assert again.info == fitted.info  # the key decides


def test_the_subset_is_tuned_in_the_units_of_all_data():
    x, y = observations(32)
    y = np.where(np.arange(32) < 12, y - 50.0, y)  # half of the tuning points are the best, far above
    noisy = GaussianProcess(tuning_points=20)
    tuned = noisy.tune(Data.of(x, y), key=KEY)
    chosen = noisy._subset(Data.of(x, y), generator(KEY))
    scale = y.std()
    (log_lengthscale, log_variance, log_noise) = tuned.hyper
    targets = (chosen.y[:20] - y.mean()) / scale
    K = matern52(chosen.x[:20], chosen.x[:20], np.exp(log_lengthscale), np.exp(log_variance))
    K += (np.exp(log_noise) + BASE_JITTER * np.exp(log_variance)) * np.eye(20)
    theta = np.array([*log_lengthscale, log_variance, log_noise])
    _, centre, width = negative_log_posterior(x, y)
    prior = 0.5 * (((theta - centre) / width) ** 2).sum()
    nll = 0.5 * targets @ np.linalg.solve(K, targets) + 0.5 * np.linalg.slogdet(K)[1]
    assert -tuned.log_posterior == pytest.approx(nll + prior, abs=1e-6)


def test_fifty_dimensions():
    rng = np.random.default_rng(0)
    x = rng.random((30, 50))
    y = 3.0 * x[:, 0] + np.sin(4 * x[:, 1])
    fitted = fit(GaussianProcess(), x, y)
    assert fitted.status is Status.OK
    lengthscale = np.array(fitted.info["lengthscale"])
    assert np.isfinite(lengthscale).all()
    # the prior's centre is 1.4; the two columns that matter are shorter than any other
    assert (lengthscale > 0.1).all()
    assert (lengthscale < 100.0).all()
    assert lengthscale[:2].max() < lengthscale[2:].min()
    mean, var = fitted.posterior.predict(rng.random((4, 50)))
    assert np.isfinite(mean).all()
    assert (var > 0).all()


# Arguments


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"kernel": "rbf"}, "kernel must be one of"),
        ({"lengthscale": 0.0}, "lengthscale must be positive and finite; got 0.0"),
        ({"lengthscale": (1.0, np.nan)}, "lengthscale must be positive and finite"),
        ({"variance": -1.0}, "variance must be positive"),
        ({"noise": np.inf}, "noise must be positive"),
        ({"features": 7}, "features must be an even number"),
        ({"features": 0}, "features must be an even number"),
        ({"tuning_points": 0}, "tuning_points must be at least 1"),
    ],
)
def test_arguments_are_checked(arguments, sentence):
    with pytest.raises(UnsupportedError, match=sentence):
        GaussianProcess(**arguments)


def test_points_of_another_dimension_get_a_sentence():
    posterior = fit(GaussianProcess(), *observations(5)).posterior
    for look in (posterior.mean, posterior.var, posterior.predict, posterior.joint, posterior.condition):
        with pytest.raises(DataError, match=r"points must have shape \(3,\) or \(n, 3\); got \(2, 4\)"):
            look(np.ones((2, 4)))


def test_a_process_can_do_everything():
    assert GaussianProcess.capabilities == frozenset(Capability)
    assert GaussianProcess(lengthscale=[0.1, 0.2]) == GaussianProcess(lengthscale=(0.1, 0.2))


# Compilations


@pytest.fixture
def traces(monkeypatch):
    """The calls that JAX has traced of a function that fitting uses once."""
    happened = []

    def counted(L):
        happened.append(L.shape)
        return linalg.inverse_factor(L)

    monkeypatch.setattr(gp_posterior, "inverse_factor", counted)
    return happened


@pytest.fixture
def compilations():
    """The compilations of this process, of whatever size, as they happen."""
    happened = []

    def listen(event, _seconds, **_details):
        if event == "/jax/core/compile/backend_compile_duration":
            happened.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield happened
    jax.monitoring.unregister_event_duration_listener(listen)


def test_growing_data_compile_once_per_bucket(traces, compilations):
    rng = np.random.default_rng(0)

    def study(sizes, **fixed):  # 13 columns, which no other test of the whole suite has
        for n in sizes:
            x = rng.random((n, 13))
            model = GaussianProcess(**fixed)
            model.fit(Data.of(x, 100.0 * rng.random() * x[:, 0]), key=fold(KEY, n))

    study([1, 2, 3, 10, 31, 32])
    assert traces == [(32, 32)]
    study([33, 34, 50, 60])
    assert traces == [(32, 32), (64, 64)]
    assert len(compilations) >= 2
    compilations.clear()
    study([1, 7, 40], variance=2.0 + rng.random())  # another study, also with other settings
    study([5, 60], noise=rng.random(), lengthscale=tuple(0.1 + rng.random(13)))
    assert len(traces) == 2
    assert compilations == []
