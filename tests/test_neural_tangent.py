"""neural-bo, neural-ucb, neural-ts: exact variances, draws that are functions, rows appended."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from augury import Algorithm, Float, Optimizer, Pool, Space, UnsupportedError
from augury.core.data import Data
from augury.core.keys import fold, root_key
from augury.core.precision import computing
from augury.surrogates import (
    CNN,
    Capability,
    EmpiricalProcess,
    Ensemble,
    NeuralTangent,
    NTKProcess,
    TangentProcess,
)
from augury.surrogates.networks import stack
from augury.surrogates.training import train
from samples import distance

KEY = root_key(5)
NEW = np.random.default_rng(1).random((6, 2))
# the paper's own network: no biases, weights of variance 1/m, λ = 0.01
LETTER = NTKProcess(depth=1, weight_std="1/m", bias=False, noise=0.01, output=1.0, standardize=False)
SETTINGS = NTKProcess(depth=2, weight_std=1.4, bias_std=0.5, noise=0.02, output=0.8, standardize=False)


def observations(n, seed=0):
    x = np.random.default_rng(seed).random((n, 2))
    return x, np.sin(5.0 * x[:, 0]) + x[:, 1]


def network_of(model, data):
    realized = model.process.realize(model.tune(data, key=KEY).settings, 1.0, width=model.width)
    theta0 = realized.network.init(fold(KEY, 0), data.dim)
    lam = np.asarray(realized.noise / realized.output)
    y = np.where(data.mask, data.y, 0.0) / np.sqrt(realized.output)
    trained = train(realized.network, stack([theta0]), data.x, data.mask, y[None], lam=lam)
    return realized, theta0, jax.tree.map(lambda leaf: np.asarray(leaf[0], np.float64), trained.params)


def gradients(network, params, x):
    """∇h(x; θ), all p numbers of it."""
    with computing():
        rows = jax.vmap(jax.grad(network), (None, 0))(params, x)
    return np.concatenate(
        [np.asarray(leaf).reshape(len(x), -1) for leaf in jax.tree.leaves(rows)], axis=1
    )


@pytest.mark.parametrize("process", [LETTER, SETTINGS], ids=["letter", "biases"])
@pytest.mark.parametrize("features", ["initial", "current"])
def test_the_variance_is_that_of_the_p_by_p_inverse(process, features):
    x, y = observations(15)
    data = Data.of(x, y)
    model = NeuralTangent(process, width=12, features=features)
    posterior = model.fit(data, key=KEY).posterior
    realized, theta0, theta = network_of(model, data)
    at = theta0 if features == "initial" else theta
    G, g = gradients(realized.network, at, x), gradients(realized.network, at, NEW)
    lam = float(realized.noise / realized.output)
    U = lam * np.eye(G.shape[1]) + G.T @ G
    expected = float(realized.output) * lam * np.einsum("ij,ji->i", g, np.linalg.solve(U, g.T))
    np.testing.assert_allclose(posterior.var(NEW), expected, rtol=1e-8)
    with computing():
        h = np.sqrt(realized.output) * np.asarray(realized.network(theta, NEW))
    np.testing.assert_allclose(posterior.mean(NEW), h, rtol=1e-6)


def test_between_two_tunings_values_are_standardized_as_at_the_last_one():
    x, y = observations(9)
    y[6:] *= 10.0
    model = NeuralTangent(replace(SETTINGS, relative=True, standardize=True), width=12)
    tuned = model.tune(Data.of(x[:6], y[:6]), key=KEY)
    posterior = model.fit(Data.of(x, y), key=KEY, tuned=tuned).posterior
    network, scale, lam = posterior.network, y[:6].std(), 0.02 / 0.8
    G, g = (gradients(network, network.init(fold(KEY, 0), 2), rows) for rows in (x, NEW))
    U = lam * np.eye(G.shape[1]) + G.T @ G
    expected = scale**2 * 0.8 * lam * np.einsum("ij,ji->i", g, np.linalg.solve(U, g.T))
    np.testing.assert_allclose(posterior.var(NEW), expected, rtol=1e-8)
    with computing():
        h = np.sqrt(0.8) * np.asarray(network(posterior.centre, NEW))
    np.testing.assert_allclose(posterior.mean(NEW), y[:6].mean() + scale * h, rtol=1e-6)


def test_draws_are_functions_with_the_posterior_variance():
    data = Data.of(*observations(10))
    posterior = NeuralTangent(SETTINGS, width=64).fit(data, key=KEY).posterior
    drawn = np.array([posterior.sample(key=fold(KEY, i), scale=2.0)(NEW) for i in range(400)])
    mean, covariance = posterior.joint(NEW)
    assert max(distance(drawn, mean, 4.0 * covariance)) < 5.0
    path = posterior.sample(key=KEY)
    np.testing.assert_allclose(path(NEW[2]), path(NEW)[2], rtol=1e-9)


def test_a_new_observation_adds_a_row_and_changes_nothing_else():
    x, y = observations(200)
    model = NeuralTangent(SETTINGS, width=16)
    tuned = model.tune(Data.of(x[:195], y[:195]), key=KEY)
    grown = [model.fit(Data.of(x[:n], y[:n]), key=KEY, tuned=tuned) for n in range(195, 201)][-1]
    anew = NeuralTangent(SETTINGS, width=16).fit(Data.of(x, y), key=KEY, tuned=tuned)
    assert np.array_equal(grown.posterior.L_inverse, anew.posterior.L_inverse)  # bit for bit
    at_once = NeuralTangent(SETTINGS, width=16).fit(Data.of(x, y), key=KEY)
    np.testing.assert_allclose(grown.posterior.var(NEW), at_once.posterior.var(NEW), rtol=1e-6)
    assert np.array_equal(grown.posterior.mean(NEW), anew.posterior.mean(NEW))
    assert np.abs(grown.posterior.mean(NEW) - at_once.posterior.mean(NEW)).max() < 0.3  # another minimum
    other = model.fit(Data.of(x[::-1], y[::-1]), key=KEY, tuned=tuned)  # another history
    np.testing.assert_allclose(other.posterior.var(NEW), at_once.posterior.var(NEW), rtol=1e-5)


def test_what_a_diagonal_keeps_between_fits_changes_nothing():
    x, y = observations(12)

    def model():
        return NeuralTangent(SETTINGS, width=8, features="current", covariance="diagonal")

    grown, tuned = model(), model().tune(Data.of(x[:8], y[:8]), key=KEY)
    fits = [grown.fit(Data.of(x[:n], y[:n]), key=KEY, tuned=tuned) for n in range(8, 13)]
    anew = model().fit(Data.of(x, y), key=KEY, tuned=tuned)
    assert np.array_equal(fits[-1].posterior.var(NEW), anew.posterior.var(NEW))
    assert np.array_equal(fits[-1].posterior.mean(NEW), anew.posterior.mean(NEW))


def test_the_diagonal_of_u_accumulates_the_features_of_its_time():
    x, y = observations(6)
    model = NeuralTangent(SETTINGS, width=8, features="current", covariance="diagonal")
    posterior = model.fit(Data.of(x, y), key=KEY).posterior
    realized, _, _ = network_of(model, Data.of(x, y))
    lam = float(realized.noise / realized.output)
    U = np.full(gradients(realized.network, posterior.params, x[:1]).shape[1], lam)
    for n in range(1, 7):
        theta = network_of(model, Data.of(x[:n], y[:n]))[2]
        U += gradients(realized.network, theta, x[n - 1 : n])[0] ** 2
    g = gradients(realized.network, theta, NEW)
    np.testing.assert_allclose(posterior.var(NEW), float(realized.noise) * (g**2 / U).sum(1), rtol=1e-6)
    drawn = np.array([posterior.sample(key=fold(KEY, i))(NEW) for i in range(400)])
    ratio = drawn.var(0) / posterior.var(NEW)
    assert np.abs(ratio - 1.0).max() < 5.0 * np.sqrt(2.0 / 400)
    assert np.all(posterior.condition(NEW).var(NEW) < posterior.var(NEW))
    assert Capability.JOINT not in model.capabilities


def test_pointwise_draws_are_independent_and_for_finite_sets_only():
    data = Data.of(*observations(10))
    model = NeuralTangent(SETTINGS, width=32, draw="pointwise")
    posterior = model.fit(data, key=KEY).posterior
    near = np.array([[0.5, 0.5], [0.5, 0.5 + 1e-9]])  # one place, for all that a function can do
    drawn = np.array([posterior.sample(key=fold(KEY, i), scale=3.0)(near) for i in range(300)])
    correlation = np.corrcoef(drawn.T)[0, 1]
    assert abs(correlation) < 0.25
    deviation = 3.0 * np.sqrt(posterior.var(near))
    np.testing.assert_allclose(drawn.std(0), deviation, rtol=0.2)
    path = posterior.sample(key=KEY)
    np.testing.assert_allclose(path(near[1]), path(near)[1], rtol=1e-9)
    with pytest.raises(UnsupportedError, match="finite"):
        Optimizer(Space(x=Float(0.0, 1.0)), Algorithm(model, "thompson"))
    Optimizer(Pool(NEW), Algorithm(model, "thompson"), seed=0)


@pytest.mark.parametrize(
    "bad", [{"width": 0}, {"features": "old"}, {"covariance": "full"}, {"draw": "normal"}]
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(UnsupportedError, match=next(iter(bad))):
        NeuralTangent(**bad)


@pytest.mark.parametrize("covariance", ["exact", "diagonal"])
def test_a_study_goes_on_after_it_is_restored(covariance):
    def algorithm():
        surrogate = NeuralTangent(NTKProcess(depth=1), width=16, covariance=covariance)
        return Algorithm(surrogate, "thompson")

    space = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))
    opt = Optimizer(space, algorithm(), seed=1, initial=4)
    for _ in range(7):
        trial = opt.ask()
        opt.tell(trial, (trial.params["x"] - 0.3) ** 2 + (trial.params["y"] - 0.6) ** 2)
    again = Optimizer.from_json(opt.to_json(), algorithm=algorithm())
    assert opt.ask().params == again.ask().params
    assert {"training", "parameters", "noise"} <= set(opt.trials[-1].info["fit"])
    assert opt.recommend().params == again.recommend().params


def from_origin(params, z):
    """A network that is not a number at x = 0, where no observation is."""
    h = (z + 1.0) @ params["w"]
    return (h / jnp.linalg.norm(h)) @ params["v"]


def two_arrays(key):
    a, b = jax.random.split(key)
    return {"w": jax.random.normal(a, (2, 8)), "v": jax.random.normal(b, (8,))}


@pytest.mark.parametrize("surrogate", [NeuralTangent, TangentProcess])
def test_padding_does_not_reach_the_model(surrogate):
    model = surrogate(EmpiricalProcess((two_arrays, from_origin)))
    opt = Optimizer(
        Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0)), Algorithm(model, "thompson"), seed=3, initial=1
    )
    for x, y in 0.2 + 0.7 * np.random.default_rng(0).random((6, 2)):
        opt.tell({"x": x, "y": y}, (x - 0.3) ** 2 + (y - 0.4) ** 2)
    info = opt.ask().info
    assert all(np.isfinite(info[key]) for key in ("mean", "std", "score"))


def test_images_are_scored_a_few_at_a_time():
    network = CNN((6, 6, 1), channels=(4,), pool=2, width=8)
    data = Data.of(np.random.default_rng(0).random((5, 36)), np.arange(5.0))
    rows = network.rows_at_once
    for options in ({"covariance": "diagonal"}, {"draw": "pointwise"}, {}):
        model = NeuralTangent(EmpiricalProcess(network, noise=0.01), **options)
        posterior = model.fit(data, key=KEY).posterior
        assert posterior.rows_at_once == posterior.sample(key=KEY).rows_at_once == rows
    ensemble = Ensemble(EmpiricalProcess(network, noise=0.01), members=2).fit(data, key=KEY).posterior
    assert ensemble.sample(key=KEY).rows_at_once == rows  # one member
    assert ensemble.rows_at_once == ensemble.sample(key=KEY, scale=2.0).rows_at_once == rows // 2


def test_a_diagonal_needs_noise():
    with pytest.raises(UnsupportedError, match="noise"):
        NeuralTangent(NTKProcess(noise=0.0), covariance="diagonal")


@pytest.mark.parametrize("covariance", ["exact", "diagonal"])
def test_what_is_kept_of_other_observations_is_not_used(covariance):
    model, new = (NeuralTangent(SETTINGS, width=16, covariance=covariance) for _ in range(2))
    data = Data.of(*observations(6))
    tuned = model.tune(data, key=KEY)
    model.fit(Data.of(*observations(6, seed=3)), key=KEY, tuned=tuned)
    again, fresh = (m.fit(data, key=KEY, tuned=tuned).posterior for m in (model, new))
    np.testing.assert_array_equal(again.mean(NEW), fresh.mean(NEW))
    np.testing.assert_array_equal(again.var(NEW), fresh.var(NEW))
