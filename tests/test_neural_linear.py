"""The Bayesian linear head against dense algebra."""

import jax
import numpy as np
import pytest
from scipy import stats

from augury import Algorithm, Float, Optimizer, Space, UnsupportedError
from augury.core.data import Data
from augury.core.keys import fold, root_key
from augury.core.precision import computing
from augury.surrogates import Capability, NeuralLinear, NTKProcess
from augury.surrogates.cnn import CNN
from augury.surrogates.networks import MLP
from augury.surrogates.neural_linear import Head, dngo
from augury.surrogates.ntk_process import DEVIATION, LOWER, MEAN, UPPER
from augury.surrogates.spectral_density import JITTER, SpectralDensity
from augury.surrogates.tangent import Layers
from samples import distance, observations, wave

KEY = root_key(0)
PROCESS = NTKProcess(depth=2, activation="tanh", weight_std=1.5, bias_std=0.5, noise=0.01)
MODEL = NeuralLinear(PROCESS, width=24, prior_variance=2.0, noise=0.3)
NEW = np.random.default_rng(1).random((5, 3))


def fit(model=MODEL, n=20):
    return model.fit(Data.of(*wave(n)), key=KEY)


def phi(posterior, x):
    """(φ(x), 1) of an MLP by hand."""
    network, params = posterior.network.network, posterior.network.params
    h = 2.0 * x - 1.0
    for weight, bias in params[:-1]:
        h = np.tanh(network.weight_std / np.sqrt(len(weight)) * h @ weight + network.bias_std * bias)
    return np.c_[h, np.ones(len(x))]


def dense(posterior, n=20):
    """Mean and covariance of Bayesian linear regression, in the primal."""
    x, y = wave(n)
    scale = float(posterior.scale)
    gamma, noise = 2.0, float(posterior.nugget) * scale**2
    P, p = phi(posterior, x), phi(posterior, NEW)
    A = np.linalg.inv(P.T @ P / noise + np.eye(P.shape[1]) / gamma)
    return y.mean() + p @ A @ P.T @ (y - y.mean()) / noise, p @ A @ p.T


def test_the_head_is_bayesian_linear_regression_on_the_last_hidden_layer():
    posterior = fit().posterior
    mean, covariance = dense(posterior)
    np.testing.assert_allclose(posterior.mean(NEW), mean, rtol=1e-8)
    np.testing.assert_allclose(posterior.var(NEW), np.diagonal(covariance), rtol=1e-8)
    np.testing.assert_allclose(posterior.joint(NEW)[1], covariance, atol=1e-8)
    assert posterior.noise_std == pytest.approx(np.sqrt(0.3))
    assert float(posterior.nugget * posterior.scale**2) == pytest.approx(0.3, rel=1e-4)
    assert posterior.mean(NEW[0]) == pytest.approx(mean[0])


def test_draws_have_its_moments():
    posterior = fit().posterior
    mean, covariance = dense(posterior)
    draws = np.array([posterior.sample(key=fold(KEY, i))(NEW) for i in range(400)])
    assert max(distance(draws, mean, covariance)) < 4.5


def test_pending_points_shrink_the_variance_and_leave_the_mean():
    posterior = fit().posterior
    pending = posterior.condition(NEW[:2])
    np.testing.assert_allclose(pending.mean(NEW), posterior.mean(NEW), rtol=1e-7)
    assert (pending.var(NEW) < posterior.var(NEW)).all()


def test_it_is_differentiable():
    posterior = fit().posterior
    step = 1e-6 * np.eye(3)[0]
    with computing():
        slope = jax.grad(posterior.mean)(NEW[0])[0]
        assert np.isfinite(jax.grad(posterior.var)(NEW[0])).all()
    differences = (posterior.mean(NEW[0] + step) - posterior.mean(NEW[0] - step)) / 2e-6
    assert slope == pytest.approx(differences, rel=1e-5)


@pytest.mark.parametrize(
    "network", [MLP(1, 8), CNN((4, 4, 1), (2,), pool=2, width=8)], ids=["mlp", "cnn"]
)
def test_the_network_itself_is_a_head_on_its_features(network):
    params = network.init(KEY, 16)
    x = np.random.default_rng(0).random((3, 16))
    head, last = Head(network, params), params[-1]
    own = last._replace(
        weight=network.weight_std / np.sqrt(8) * last.weight, bias=network.bias_std * last.bias
    )
    with computing():
        np.testing.assert_allclose(head(own, x), network(params, x), rtol=1e-9)
        np.testing.assert_allclose(head.linearize(own, x)[0], network(params, x), rtol=1e-9)
        assert head(own, x[0]) == pytest.approx(float(network(params, x[0])))
        assert head(head.zero_last(head.init(KEY, 16)), x[0]) == 0.0


def test_a_jacobian_that_is_not_held_in_memory_is_not_needed(monkeypatch):
    monkeypatch.setattr("augury.surrogates.tangent.MEMORY", 0)
    network = CNN((3, 3, 1), (2,), pool=3, width=4)
    x = np.random.default_rng(0).random((6, 9))
    head = Head(network, network.init(KEY, 9))
    with computing():
        assert not isinstance(network.linearize(head.params, x)[1], Layers)
        assert head.linearize(head.zeros(), x)[1].inputs.shape == (6, 4)
    assert head.rows_at_once == network.rows_at_once


def test_the_evidence_is_that_of_the_gaussian():
    x, y = wave()
    K, y = x @ x.T + 1.0, (y - 10.0) / 3.0
    bounds = ((bound[2:] - MEAN[2:]) / DEVIATION[2:] for bound in (LOWER, UPPER))
    evidence, z = SpectralDensity(K, y, *bounds), np.array([0.3, 2.5])
    v, noise = np.exp(MEAN[2:] + DEVIATION[2:] * z)
    density = stats.multivariate_normal(np.zeros(20), v * (K + JITTER * np.eye(20)) + noise * np.eye(20))
    loss, gradient = evidence.loss_and_gradient(z)
    constant = 10.0 * np.log(2.0 * np.pi)
    assert loss == pytest.approx(-density.logpdf(y) - constant + 0.5 * z @ z, rel=1e-6)
    for i, step in enumerate(1e-5 * np.eye(2)):
        ends = [evidence.loss_and_gradient(z + sign * step)[0] for sign in (1.0, -1.0)]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5)


def test_what_is_not_given_is_learnt():
    rng = np.random.default_rng(0)
    x = rng.random((60, 3))
    y = 100.0 * np.sin(4.0 * x[:, 0]) + 20.0 * rng.standard_normal(60)
    data = Data.of(x, y)
    process = NTKProcess(depth=1, activation="tanh")
    both = NeuralLinear(process, width=16).fit(data, key=KEY).info
    assert 10.0 < np.sqrt(both["noise"]) < 30.0
    one = NeuralLinear(process, width=16, noise=0.0).fit(data, key=KEY)
    assert one.info["noise"] == 0.0
    assert np.isfinite(one.posterior.mean(NEW)).all()
    assert one.info["prior_variance"] > both["prior_variance"]
    other = NeuralLinear(process, width=16, prior_variance=7.0).fit(data, key=KEY).info
    assert other["prior_variance"] == pytest.approx(7.0)
    assert both["training"]["converged"]


def test_what_is_learnt_has_the_largest_density_whatever_the_size_of_the_features():
    x, y = observations(40)
    fitted = NeuralLinear(PROCESS, width=16).fit(Data.of(x, y), key=KEY)
    P = phi(fitted.posterior, x)
    unit = (P**2).sum(1).mean()
    assert unit > 3.0
    bounds = ((bound[2:] - MEAN[2:]) / DEVIATION[2:] for bound in (LOWER, UPPER))
    density = SpectralDensity(P @ P.T / unit, (y - y.mean()) / y.std(), *bounds)
    found = np.array([unit * fitted.info["prior_variance"], fitted.info["noise"]]) / y.var()
    _, gradient = density.loss_and_gradient((np.log(found) - MEAN[2:]) / DEVIATION[2:])
    np.testing.assert_allclose(gradient, 0.0, atol=0.05)


@pytest.mark.parametrize("n", [0, 1])
def test_few_observations_leave_the_prior(n):
    posterior = fit(NeuralLinear(PROCESS, width=16), n).posterior
    assert np.isfinite(posterior.mean(NEW)).all()
    assert (posterior.var(NEW) > 0.0).all()


def test_the_key_decides():
    one, same, other = (
        MODEL.fit(Data.of(*wave()), key=key).posterior.mean(NEW) for key in (KEY, KEY, fold(KEY, 1))
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).all()


@pytest.mark.parametrize(
    "bad",
    [{"width": 0}, {"process": "ntk"}, {"prior_variance": 0.0}, {"prior_variance": -1.0}, {"noise": -0.1},
     {"noise": float("nan")}, {"noise": "low"}],
)  # fmt: skip
def test_bad_settings_are_refused(bad):
    with pytest.raises(UnsupportedError, match=r"must be .* [A-Z]"):
        NeuralLinear(**bad)


@pytest.mark.parametrize("policy", ["thompson", "ei"])
def test_a_restored_study_goes_on_as_it_would_have(policy):
    space = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))
    algorithm = Algorithm(NeuralLinear(NTKProcess(depth=1), width=16), policy)
    opt = Optimizer(space, algorithm, seed=0, initial=4)
    for _ in range(5):
        trial = opt.ask()
        opt.tell(trial, trial.params["x"] - trial.params["y"] ** 2)
    pending = opt.ask()
    again = Optimizer.from_json(opt.to_json(), algorithm=algorithm)
    assert again.ask().params == opt.ask().params
    assert pending.info["fit"]["training"]["converged"]


def test_what_it_can_do():
    assert NeuralLinear.capabilities == frozenset(Capability)
    assert dngo().process.activation == "tanh"
