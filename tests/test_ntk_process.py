"""The process of an infinitely wide network: closed forms, its draws, and how its settings are found."""

import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from augury import Algorithm, Optimizer, Pool, UnsupportedError
from augury.core.data import Data
from augury.core.keys import fold, root_key
from augury.core.precision import computing
from augury.surrogates import Capability, NTKProcess, Status
from augury.surrogates.ntk import NTK
from augury.surrogates.ntk_process import DEVIATION, LOWER, MEAN, UPPER, Density, Shape, evenly
from augury.surrogates.tangent import ntk

KEY = root_key(0)
NEW = np.random.default_rng(5).random((6, 3))
FIXED = NTKProcess(depth=2, weight_std=1.4, bias_std=0.4, noise=0.01, standardize=False)


def observations(n, d=3, noise=0.0):
    rng = np.random.default_rng(n)
    x = rng.random((n, d))
    return x, np.sin(4.0 * x[:, 0]) + x[:, 1] + noise * rng.standard_normal(n)


def fit(model, x, y):
    return model.fit(Data.of(x, y), key=KEY)


@pytest.mark.parametrize("n", [0, 1, 20])
def test_the_posterior_is_dense_algebra(n):
    x, y = observations(n)
    fitted = fit(FIXED, x, y)
    posterior, kernel = fitted.posterior, fitted.posterior.kernel
    with computing():
        K, k, prior = (np.asarray(kernel.gram(*pair)) for pair in ((x, x), (NEW, x), (NEW, NEW)))
    A = K + posterior.nugget * np.eye(n)
    np.testing.assert_allclose(posterior.mean(NEW), k @ np.linalg.solve(A, y), atol=1e-9)
    expected = prior - k @ np.linalg.solve(A, k.T)
    np.testing.assert_allclose(posterior.joint(NEW)[1], expected, atol=1e-9)
    np.testing.assert_allclose(posterior.var(NEW), np.diagonal(expected), atol=1e-9)
    assert fitted.status is Status.OK


def test_the_density_is_that_of_the_data_and_the_priors():
    x, y = observations(15)
    bounds = ((LOWER - MEAN) / DEVIATION, (UPPER - MEAN) / DEVIATION)
    shape = Shape(2, "erf", bias=True, centred=True, normalized=True)
    density = Density(shape, x, y, bounds)
    z = np.array([0.3, -0.5, 0.2, 1.0])
    with computing():
        value, gradient = density.loss_and_gradient(z)
        steps = 1e-5 * np.eye(4)
        pairs = [[density.loss_and_gradient(z + s)[0] for s in (step, -step)] for step in steps]
    weight, bias, v, noise = np.exp(MEAN + DEVIATION * z)
    with computing():
        plain = NTK(2, "erf", weight, bias, 1.0)
        typical = np.full((1, 3), 0.5 + 0.5 / np.sqrt(3.0))  # z² = 1/3 in every column
        unit = float(plain.diagonal(typical)[0])
        K = v / unit * np.asarray(plain.gram(x, x))
        jitter = 1e-8 * v / unit * float(plain.diagonal(np.ones((1, 3)))[0])
    expected = -multivariate_normal(np.zeros(15), K + (noise + jitter) * np.eye(15)).logpdf(y)
    constant = 0.5 * 15 * np.log(2.0 * np.pi)
    assert value == pytest.approx(expected - constant + 0.5 * z @ z, rel=1e-8)
    slopes = [(up - down) / 2e-5 for up, down in pairs]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-5)


def test_the_search_ends_where_the_density_is_flat():
    x, y = observations(40, noise=0.1)
    tuned = NTKProcess(activation="erf", depth=1).tune(Data.of(x, y), key=KEY)
    shift, scale = y.mean(), y.std()
    bounds = ((LOWER - MEAN) / DEVIATION, (UPPER - MEAN) / DEVIATION)
    density = Density(Shape(1, "erf", True, True, True), x, (y - shift) / scale, bounds)
    with computing():
        loss, gradient = density.loss_and_gradient((np.array(tuned.hyper[1:]) - MEAN) / DEVIATION)
    assert tuned.converged
    assert loss == pytest.approx(-tuned.log_posterior)
    assert np.abs(gradient).max() < 0.2
    assert 0.03 < np.sqrt(np.exp(tuned.hyper.log_noise)) * scale < 0.3


def test_the_depth_is_the_one_of_largest_density():
    x, y = observations(30)
    data = Data.of(x, y)
    each = [NTKProcess(depth=d).tune(data, key=KEY).log_posterior for d in (1, 2, 3)]
    chosen = NTKProcess().tune(data, key=KEY)
    assert chosen.log_posterior == pytest.approx(max(each), abs=0.2)
    assert each[chosen.hyper.depth - 1] == pytest.approx(max(each), abs=0.2)


def test_what_the_user_fixes_stays_and_is_in_his_units():
    x, y = observations(25)
    for name, value in (("weight_std", 0.9), ("bias_std", 0.7), ("noise", 5.0), ("depth", 3)):
        info = fit(NTKProcess(**{name: value}), x, 100.0 * y).info
        assert info[name] == pytest.approx(value)
    small, large = (fit(NTKProcess(depth=1), x, unit * y).info for unit in (1.0, 100.0))
    assert large["variance"] == pytest.approx(1e4 * small["variance"], rel=1e-4)
    assert large["bias_std"] == pytest.approx(small["bias_std"], rel=1e-4)


def test_settings_are_learnt_from_points_that_n_alone_decides():
    np.testing.assert_array_equal(evenly(5, 10), np.arange(5))
    chosen = evenly(1000, 256)
    assert len(set(chosen)) == 256
    assert (chosen[0], chosen[-1]) == (0, 999)


def test_paths_have_the_moments_of_the_posterior():
    x, y = observations(12)
    model = NTKProcess(depth=1, weight_std=1.4, bias_std=0.4, noise=0.01, standardize=False, width=2048)
    posterior = fit(model, x, y).posterior
    mean, covariance = posterior.joint(NEW)
    draws = np.array([posterior.sample(key=fold(KEY, i))(NEW) for i in range(300)])
    variances = np.diagonal(covariance)
    assert (np.abs(draws.mean(0) - mean) < 4.5 * np.sqrt(variances / 300)).all()
    error = np.sqrt((np.outer(variances, variances) + covariance**2) / 300)
    assert (np.abs(np.cov(draws.T) - covariance) < 4.5 * error + 0.02 * variances.max()).all()


def test_a_path_can_be_differentiated():
    x, y = observations(10)
    path = fit(FIXED, x, y).posterior.sample(key=KEY)
    with computing():
        gradient = jax.grad(lambda point: path(point))(NEW[0])
    step = 1e-6 * np.eye(3)
    slopes = [(path(NEW[0] + s) - path(NEW[0] - s)) / 2e-6 for s in step]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("y", [np.zeros(8), np.full(8, 1e9), np.r_[np.zeros(7), 1e6]])
def test_hard_values(y):
    x = np.random.default_rng(0).random((8, 2))
    x[3] = x[2]  # a repeated point
    fitted = fit(NTKProcess(depth=1), x, y)
    assert fitted.status is not Status.FAILED
    mean, var = fitted.posterior.predict(np.r_[x, np.full((1, 2), 0.5)])
    assert np.isfinite(mean).all()
    assert (var > 0.0).all()


def test_a_study_of_a_pool():
    opt = Optimizer(Pool(np.eye(6)), Algorithm(NTKProcess(depth=1), "thompson"), seed=3, initial=4)
    for number in range(4):
        opt.tell(opt.ask(), float(number))
    for trial in opt.ask(2):
        assert np.isfinite(trial.info["mean"])
        assert 0.0 <= trial.info["eta"] <= 1.0
    assert opt.recommend() in opt.trials


def test_what_is_refused():
    assert NTKProcess.capabilities == frozenset(Capability)
    bad = ({"depth": 0}, {"activation": "sigmoid"}, {"noise": -1.0}, {"width": 0}, {"bias_std": np.nan},
           {"weight_std": 0.0}, {"tuning_points": 0})  # fmt: skip
    for settings in bad:
        with pytest.raises(UnsupportedError, match="must be"):
            NTKProcess(**settings)


def test_a_fixed_output_multiplies_the_plain_kernel():
    x, y = observations(12)
    process = NTKProcess(
        depth=1, weight_std=1.5, bias_std=0.05, noise=0.01, output=1.0, centred=False, standardize=False
    )
    kernel = fit(process, x, y).posterior.kernel
    with computing():
        plain = NTK(1, "relu", 1.5, 0.05, 1.0, centred=False)
        np.testing.assert_allclose(kernel.gram(x, NEW), plain.gram(x, NEW), rtol=1e-12)
    assert fit(process, x, y).info["tuning_evaluations"] <= 4


@pytest.mark.parametrize("centred", [True, False])
def test_a_wide_network_has_the_kernel_of_the_process(centred):
    process = NTKProcess(depth=1, weight_std=1.5, bias_std=0.3, noise=0.01, output=2.0, centred=centred)
    x, y = observations(12)
    tuned = process.tune(Data.of(x, y), key=KEY)
    network, output, _ = process.realize(tuned, 0.5, width=8192)
    with computing():
        limit = np.asarray(process.kernel(tuned.hyper, 0.5)[0].gram(NEW, NEW))
        plain = np.asarray(NTK(1, "relu", 1.5, 0.3, 8.0, centred=centred).gram(NEW, NEW))
    np.testing.assert_allclose(limit, plain, rtol=1e-12)
    empirical = output * ntk(network, network.init(KEY, 3), NEW)
    np.testing.assert_allclose(empirical, limit, atol=0.05 * limit.max())


@pytest.mark.parametrize("relative", [False, True])
def test_info_shows_the_output_in_use_between_tunings(relative):
    x, y = observations(12)
    process = NTKProcess(depth=1, output=2.0, noise=0.1, relative=relative)
    tuned = process.tune(Data.of(x[:6], y[:6]), key=KEY)
    later = Data.of(x, 10.0 * y)
    fit = process.fit(later, key=KEY, tuned=tuned)
    posterior, info = fit.posterior, fit.info
    assert info["output"] == pytest.approx(posterior.kernel.output * posterior.scale**2)
    assert info["output"] == pytest.approx(2.0 * (later.y[:12].var() if relative else 1.0))
    assert info["noise"] == pytest.approx(0.05 * info["output"])


def test_weights_of_variance_1_over_m_are_those_of_neural_bo():
    # √m·W₂φ(W₁z), all weights from N(0, 1/m), gradients by W divided by √m (section 4, section 7)
    d, m = 5, 40
    x = np.random.default_rng(0).random((7, d))
    process = NTKProcess(depth=1, weight_std="1/m", bias=False, noise=0.0, output=1.0, standardize=False)
    data = Data.of(x, np.zeros(7))
    realized = process.realize(process.tune(data, key=KEY), 1.0, width=m)
    params = realized.network.init(KEY, d)
    W1, W2 = (np.asarray(layer.weight) / np.sqrt(m) for layer in params)
    z = 2.0 * x - 1.0
    h = z @ W1
    by_W2 = np.sqrt(m) * np.maximum(h, 0.0)
    by_W1 = np.sqrt(m) * (W2[:, 0] * (h > 0.0))[:, None, :] * z[:, :, None]
    g = np.concatenate([by_W2, by_W1.reshape(7, -1)], axis=1) / np.sqrt(m)
    with computing():
        np.testing.assert_allclose(
            realized.network(params, x), np.sqrt(m) * np.maximum(h, 0.0) @ W2[:, 0], rtol=1e-12
        )
    np.testing.assert_allclose(ntk(realized.network, params, x), g @ g.T, rtol=1e-12)
    assert realized.noise == 0.0


def test_settings_without_a_meaning_are_refused():
    for settings in ({"noise": -1e-3}, {"output": 0.0}, {"weight_std": "2/m"}, {"bias": 1}, {"depth": 0}):
        with pytest.raises(UnsupportedError, match=next(iter(settings))):
            NTKProcess(**settings)


@pytest.mark.parametrize("fixed", [0.0, 1e-10])
def test_without_noise_different_values_at_one_point_do_not_decide_the_settings(fixed):
    x = np.array([[0.1], [0.1], [0.1], [0.4], [0.7], [0.7]])
    y = np.array([1.0, 2.0, 3.0, 0.0, -1.0, -1.0])
    model = NTKProcess(noise=fixed)
    fitted = fit(model, x, y)
    assert fitted.info["variance"] < 10.0 * y.var()
    posterior = fitted.posterior
    assert posterior.mean(x[:1]) == pytest.approx(2.0, abs=1e-3)
    assert np.sqrt(posterior.var(np.linspace(0.0, 1.0, 11)[:, None])).max() < 5.0 * y.std()
