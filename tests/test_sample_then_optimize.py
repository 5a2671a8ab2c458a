"""Trained networks as draws from posteriors known in closed form."""

import numpy as np
import pytest

from augury import Algorithm, Float, Optimizer, Pool, Space, UnsupportedError
from augury.core.data import Data
from augury.core.keys import fold, generator, root_key
from augury.core.precision import computing
from augury.policies import InformationGain, Thompson
from augury.surrogates import Capability, Ensemble, NTKProcess, SampleThenOptimize
from augury.surrogates.networks import MLP
from augury.surrogates.ntk import NTK
from augury.surrogates.sample_then_optimize import posterior_smb, simple_smb
from computing import optimized  # noqa: F401 - a fixture for all tests here
from samples import distance

KEY = root_key(0)
X = np.array([[0.15], [0.3], [0.35], [0.8]])
Y = np.array([0.5, -0.4, -0.6, 0.7])
NEW = np.linspace(0.0, 1.0, 9)[:, None]
NOISE = 0.01
PROCESS = NTKProcess(depth=1, weight_std=1.5, bias_std=0.5, noise=NOISE, standardize=False)


def draws(model, count=128, scale=1.0, at=NEW):
    posterior = model.fit(Data.of(X, Y), key=KEY).posterior
    made = posterior.draws(keys=[fold(KEY, i) for i in range(count)], scale=scale)
    assert all(draw.info["training"]["converged"] for draw in made)
    return np.array([draw.path(at) for draw in made])


def limits(model):
    """The prior covariance at initialization and the NTK, both with the model's output scale."""
    fitted = model.process.fit(Data.of(X, Y), key=KEY).posterior.kernel
    theta = fitted
    nngp = NTK(1, "relu", fitted.weight_std, fitted.bias_std, fitted.output, "nngp",
               "zero" if model.zero_output_bias else "random")  # fmt: skip

    def gram(kernel, a, b):
        with computing():
            return np.asarray(kernel.gram(a, b))

    return lambda a, b: gram(theta, a, b), lambda a, b: gram(nngp, a, b)


def posterior_moments(model):
    """sto-bnts, appendix A; be-greedy, Proposition 2."""
    theta, _ = limits(model)
    A = theta(X, X) + NOISE * np.eye(len(X))
    k = theta(NEW, X)
    return k @ np.linalg.solve(A, Y), theta(NEW, NEW) - k @ np.linalg.solve(A, k.T)


def simple_moments(model):
    """be-greedy, Proposition 1: the draw starts from the NNGP and is trained by the NTK."""
    theta, nngp = limits(model)
    A = theta(X, X) + NOISE * np.eye(len(X))
    back = theta(NEW, X) @ np.linalg.inv(A)
    inner = nngp(X, X) + NOISE * np.eye(len(X))
    cross = back @ nngp(X, NEW)
    return back @ Y, nngp(NEW, NEW) - cross - cross.T + back @ inner @ back.T


def test_posterior_draws_match_the_limit():
    model = SampleThenOptimize(PROCESS, width=2048)
    mean, covariance = posterior_moments(model)
    of_mean, of_covariance = distance(draws(model), mean, covariance)
    assert of_mean < 5.0
    assert of_covariance < 5.0


def test_a_larger_beta_widens_the_draws_and_leaves_the_mean():
    model = SampleThenOptimize(PROCESS, width=2048)
    mean, covariance = posterior_moments(model)
    of_mean, of_covariance = distance(draws(model, scale=2.0), mean, 4.0 * covariance)
    assert of_mean < 5.0
    assert of_covariance < 5.0


def test_simple_draws_match_proposition_1():
    model = SampleThenOptimize(PROCESS, width=2048, correction=False, zero_output_bias=True)
    sample = draws(model)
    of_mean, of_covariance = distance(sample, *simple_moments(model))
    assert of_mean < 5.0
    assert of_covariance < 5.0
    assert distance(sample, *posterior_moments(model))[1] > 5.0  # the two can be told apart


def test_posterior_smb_matches_proposition_2():
    # a large σ_b: the output's bias, which starts at 0 in θ_0, is a large part of the kernel
    process = NTKProcess(depth=1, weight_std=1.5, bias_std=1.5, noise=NOISE, standardize=False)
    model = posterior_smb(process=process, width=2048)
    sample = draws(model)
    of_mean, of_covariance = distance(sample, *posterior_moments(model))
    assert of_mean < 5.0
    assert of_covariance < 5.0
    assert distance(sample, *simple_moments(model))[1] > 5.0


def test_without_noise_on_the_targets_draws_are_too_narrow():
    noisy = NTKProcess(depth=1, weight_std=1.5, bias_std=0.5, noise=0.3, standardize=False)
    spreads = [
        draws(SampleThenOptimize(noisy, width=512, perturb_targets=perturb)).std(0).mean()
        for perturb in (True, False)
    ]
    assert spreads[1] < 0.9 * spreads[0]


def test_draws_spread_in_gaps_and_shrink_at_data_and_ensembles_spread_less():
    """sto-bnts, figure 1; in the limit 0.09 to 0.10 at data, 0.38 in the gap, and 0.18 of an ensemble."""
    at = np.concatenate([X, [[0.575]]])
    *at_data, gap = draws(SampleThenOptimize(PROCESS, width=512), 64, at=at).std(0)
    assert max(at_data) < 0.5 * gap
    ensemble = Ensemble(PROCESS, width=512, members=64).fit(Data.of(X, Y), key=KEY).posterior
    assert ensemble.members(at)[:, -1].std() < 0.7 * gap


def test_what_it_can_do():
    assert SampleThenOptimize.capabilities == {Capability.PATH, Capability.GRADIENT}
    for bad in ({"width": 0}, {"process": "ntk"}):
        with pytest.raises(UnsupportedError, match="must be"):
            SampleThenOptimize(**bad)
    posterior = SampleThenOptimize(PROCESS, width=32).fit(Data.of(X, Y), key=KEY).posterior
    one, (two,) = posterior.sample(key=KEY), posterior.draws(keys=[KEY])
    np.testing.assert_allclose(one(NEW), two.path(NEW), rtol=1e-6)


SMALL = Algorithm(SampleThenOptimize(NTKProcess(depth=1), width=32), "thompson")


@pytest.mark.parametrize(
    ("algorithm", "space"),
    [(SMALL, Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))), (SMALL, Pool(np.eye(8)))],
    ids=["box", "pool"],
)
def test_a_study(algorithm, space):
    opt = Optimizer(space, algorithm, seed=0, initial=4)
    for number in range(4):
        opt.tell(opt.ask(), float(number))
    for trial in opt.ask(2):
        assert trial.info["training"]["converged"]
        assert np.isfinite(trial.info["mean"])
    assert opt.recommend() in opt.trials


def test_networks_follow_their_limit_where_large_biases_would_be_likeliest():
    # Ackley's function far from its centre: without a bound on σ_b the training does not come to an end
    x = np.random.default_rng(0).random((120, 12))
    z = 8.0 * (2.0 * x - 1.0)
    y = 20.0 * np.exp(-0.2 * np.sqrt((z**2).mean(1))) + np.exp(np.cos(2.0 * np.pi * z).mean(1))
    fitted = SampleThenOptimize(NTKProcess(depth=2), width=256).fit(Data.of(x, y), key=KEY)
    assert fitted.info["bias_std"] <= 1.0
    for draw in fitted.posterior.draws(keys=[fold(KEY, i) for i in range(2)]):
        assert draw.info["training"]["converged"]
        assert np.abs(draw.path(x) - y).max() < 0.3 * y.std()


def prior_function(kernel, width, key, at):
    """f(x; θ_0) + ⟨∇f(x; θ_0), θ_0'⟩ of one hidden layer, the last layer of θ_0' being 0."""
    network = MLP(1, width, "relu", kernel.weight_std, kernel.bias_std)
    (W, b), (v, c) = network.init(fold(key, 0), 1)
    (dW, db), _ = network.init(fold(key, 2), 1)
    s, t, z = float(kernel.weight_std), float(kernel.bias_std), 2.0 * at - 1.0
    h, slope = s * z @ W + t * b, s * z @ dW + t * db
    values = s / np.sqrt(width) * (np.maximum(h, 0.0) + (h > 0.0) * slope) @ v + t * c
    return np.sqrt(kernel.output) * values[:, 0]


@pytest.mark.parametrize("beta", [1.0, 2.0])
def test_a_draw_is_that_of_the_limit_and_the_closer_the_wider(beta):
    """Of the limit: β g + k(K + σ²I)⁻¹(y + ε − β g(X)), with the same prior function g and noise ε."""
    noise = 0.3
    process = NTKProcess(depth=1, weight_std=1.5, bias_std=0.5, noise=noise, standardize=False)
    kernel = process.fit(Data.of(X, Y), key=KEY).posterior.kernel
    with computing():
        K, k = np.asarray(kernel.gram(X, X)), np.asarray(kernel.gram(NEW, X))

    def error(width):
        posterior = SampleThenOptimize(process, width=width).fit(Data.of(X, Y), key=KEY).posterior
        errors, keys = [], [fold(KEY, i) for i in range(16)]
        for key, draw in zip(keys, posterior.draws(keys=keys, scale=beta), strict=True):
            epsilon = beta * np.sqrt(noise) * generator(fold(key, 1)).standard_normal(len(X))
            g, g_new = (prior_function(kernel, width, key, at) for at in (X, NEW))
            update = k @ np.linalg.solve(K + noise * np.eye(len(X)), Y + epsilon - beta * g)
            errors.append(np.square(draw.path(NEW) - beta * g_new - update).mean())
        return float(np.sqrt(np.mean(errors))) / beta

    narrow, wide = error(256), error(4096)
    assert wide < 0.5 * narrow
    assert wide < 0.02


def test_a_theoretical_schedule_and_one_without_a_meaning():
    space = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))
    surrogate = SampleThenOptimize(NTKProcess(depth=1), width=16)

    def asked(beta):
        opt = Optimizer(space, Algorithm(surrogate, Thompson(beta)), seed=1, initial=1)
        for x in (0.2, 0.5, 0.9):
            opt.tell({"x": x, "y": 1.0 - x}, x**2)
        return opt.ask().info["beta"]

    assert asked(InformationGain(c=2.0)) > 1.0
    for bad in (lambda t, posterior: float("nan"), lambda t, posterior: -1.0, lambda t, posterior: 0.0):
        with pytest.raises(UnsupportedError, match="β"):
            asked(bad)
    with pytest.raises(UnsupportedError, match="Thompson needs a surrogate with mean"):
        Algorithm(surrogate, Thompson(0.0))
    for name in ("correction", "penalty", "perturb_targets"):
        with pytest.raises(UnsupportedError, match=name):
            SampleThenOptimize(**{name: "no"})


@pytest.mark.parametrize(("make", "kind"), [(posterior_smb, "ntk"), (simple_smb, "nngp")])
def test_the_prior_of_greedy_networks_has_the_kernel_of_its_proposition(make, kind):
    # a large σ_b: the output's bias, which starts at 0, is a quarter of the variance
    process = NTKProcess(1, weight_std=1.0, bias_std=2.0, noise=0.1, output=1.0, standardize=False)
    posterior = (
        make(process=process, width=128).fit(Data.of(np.empty((0, 1)), np.empty(0)), key=KEY).posterior
    )
    x = np.array([[0.1], [0.7]])
    paths = posterior.draws(keys=[fold(KEY, i) for i in range(400)])
    drawn = np.array([draw.path(x) for draw in paths])
    kernel = NTK(1, "relu", 1.0, 2.0, kind=kind, output_bias="random" if kind == "ntk" else "zero")
    with computing():
        expected = np.asarray(kernel.gram(x, x))
    np.testing.assert_allclose(drawn.T @ drawn / 400, expected, rtol=0.2)
