"""Hyper-parameters of a Gaussian process by posterior density."""

import numpy as np
import pytest
import scipy.optimize

from augury._errors import DataError, UnsupportedError
from augury.core.data import Data
from augury.surrogates import GaussianProcess, Status
from augury.surrogates.gp import subset
from augury.surrogates.likelihood import BASE_JITTER
from known_gp import KEY, NEW, NOISE, VARIANCE, assert_predicts, dense, fit, matern52
from samples import observations


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
    model = GaussianProcess(tuning_points=20, noise=4.0)
    fitted = fit(model, x, y)
    assert fitted.status is Status.OK
    assert fitted.info["noise"] == pytest.approx(4.0)
    assert fitted.posterior.mask.sum() == 32  # the posterior has all of them
    chosen = subset(Data.of(x, y), 20, KEY)
    assert chosen.n == 20
    assert set(np.sort(y)[-10:]) <= set(chosen.y[:20])
    assert len(set(chosen.y[:20])) == 20
    again = fit(model, x, y)
    assert again.info == fitted.info  # the key decides


def test_the_subset_is_tuned_in_the_units_of_all_data():
    x, y = observations(32)
    y = np.where(np.arange(32) < 12, y - 50.0, y)  # half of the tuning points are the best, far above
    noisy = GaussianProcess(tuning_points=20)
    tuned = noisy.tune(Data.of(x, y), key=KEY)
    chosen = subset(Data.of(x, y), 20, KEY)
    scale = y.std()
    log_lengthscale, log_variance, log_noise, *_ = tuned.hyper
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


def test_values_without_noise_are_believed_where_that_is_wanted():
    x, _ = observations(40)
    y = np.sin(3.0 * x[:, 0]) + x[:, 1] ** 2  # smooth, and exact
    usual, faint = (fit(GaussianProcess(faint=faint), x, y) for faint in (False, True))
    least, less = 1e-6 * y.var(), 1e-10 * y.var()
    assert usual.info["noise"] >= 0.99 * least
    assert 0.99 * less <= faint.info["noise"] < 0.5 * least
    new = np.random.default_rng(5).random((200, x.shape[1]))
    truth = np.sin(3.0 * new[:, 0]) + new[:, 1] ** 2
    errors = [np.sqrt(np.mean((f.posterior.mean(new) - truth) ** 2)) for f in (usual, faint)]
    assert errors[1] < errors[0]
    variance = faint.info["variance"]
    assert faint.info["jitter"] == pytest.approx(1e-10 * variance, rel=1e-3)
    with pytest.raises(UnsupportedError, match="faint"):
        GaussianProcess(faint="yes")


def test_noise_is_found_also_where_little_is_expected():
    x, _ = observations(60)
    y = np.sin(3.0 * x[:, 0]) + 0.2 * np.random.default_rng(1).standard_normal(60)
    found = fit(GaussianProcess(faint=True), x, y).info["noise"]
    assert 0.5 * 0.04 < found < 2.0 * 0.04


def test_a_posterior_may_be_made_of_some_of_the_observations():
    x, y = observations(60)
    model = GaussianProcess(points=24)
    fitted = fit(model, x, y)
    assert fitted.posterior.mask.sum() == 24
    rows = fitted.posterior.x[:24]
    best = x[np.argsort(-y)[:12]]
    assert {tuple(row) for row in best} <= {tuple(row) for row in rows}
    assert len({tuple(row) for row in rows}) == 24
    assert fit(GaussianProcess(points=60), x, y).posterior.mask.sum() == 60
    with pytest.raises(UnsupportedError, match="points must be a whole number"):
        GaussianProcess(points=0)
