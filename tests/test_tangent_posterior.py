"""Regression on tangent features against the p × p formulas of the papers."""

import jax
import numpy as np
import pytest

from augury.core.data import Data
from augury.core.keys import fold, root_key
from augury.core.precision import computing, to_numpy
from augury.surrogates import EmpiricalProcess, tangent_posterior
from augury.surrogates.networks import MLP
from augury.surrogates.tangent_posterior import TangentModel, regress
from samples import distance, wave

KEY = root_key(0)
NETWORK = MLP(2, 16)
THETA = NETWORK.init(KEY, 3)
CENTRE = NETWORK.init(fold(KEY, 9), 3)
OUTPUT, NOISE, SHIFT, SCALE = (np.asarray(v) for v in (2.0, 0.05, 10.0, 3.0))
NEW = np.random.default_rng(1).random((5, 3))


def fit(x, y, centre=None, noise=NOISE):
    model = TangentModel(NETWORK, THETA, centre, OUTPUT, noise, SHIFT, SCALE)
    with computing():
        posterior, jitter = to_numpy(regress(model, Data.of(x, y)))
    assert jitter == 0.0
    return posterior


def features(x):
    """√output ∇f(x; θ), one row per point."""
    with computing():
        rows = jax.vmap(jax.grad(NETWORK), (None, 0))(THETA, x)
    flat = [np.asarray(leaf).reshape(len(x), -1) for leaf in jax.tree.leaves(rows)]
    return np.sqrt(OUTPUT) * np.concatenate(flat, axis=1)


def primal(x, y, new, nugget, centre=None):
    """Mean and covariance from U = λI + Σ g gᵀ with all p × p numbers (neural-bo, algorithm 1)."""
    G, g = features(x), features(new)
    with computing():
        offset, at_new = (
            0.0 if centre is None else np.sqrt(OUTPUT) * np.asarray(NETWORK(centre, a)) for a in (x, new)
        )
    U = nugget * np.eye(G.shape[1]) + G.T @ G
    mean = at_new + g @ np.linalg.solve(U, G.T @ ((y - SHIFT) / SCALE - offset))
    return SHIFT + SCALE * mean, SCALE**2 * nugget * g @ np.linalg.solve(U, g.T)


@pytest.mark.parametrize("centre", [None, CENTRE])
def test_the_dual_is_the_primal(centre):
    x, y = wave(20)
    posterior = fit(x, y, centre)
    mean, covariance = primal(x, y, NEW, posterior.nugget, centre)
    np.testing.assert_allclose(posterior.mean(NEW), mean, rtol=1e-8)
    np.testing.assert_allclose(posterior.joint(NEW)[1], covariance, atol=1e-8)
    np.testing.assert_allclose(posterior.var(NEW), np.diagonal(covariance), rtol=1e-8)
    assert posterior.var(NEW[0]) == pytest.approx(posterior.var(NEW)[0])
    assert posterior.mean(NEW[0]) == pytest.approx(posterior.mean(NEW)[0])
    assert posterior.incumbent() == pytest.approx(posterior.mean(x).max())
    assert posterior.noise_std == pytest.approx(SCALE * np.sqrt(NOISE))
    G = features(x)
    gain = 0.5 * np.linalg.slogdet(np.eye(20) + G @ G.T / posterior.nugget)[1]
    assert posterior.information_gain() == pytest.approx(gain)


def test_without_observations_it_is_the_prior():
    posterior = fit(np.empty((0, 3)), np.empty(0))
    np.testing.assert_allclose(posterior.mean(NEW), SHIFT)
    g = features(NEW)
    np.testing.assert_allclose(posterior.joint(NEW)[1], SCALE**2 * g @ g.T, rtol=1e-9)


@pytest.mark.parametrize("n", [0, 20])
def test_draws_have_the_moments_of_the_posterior(n):
    posterior = fit(*wave(n), CENTRE)
    mean, covariance = posterior.joint(NEW)
    draws = np.array([posterior.sample(key=fold(KEY, i), scale=2.0)(NEW) for i in range(400)])
    assert max(distance(draws, mean, 4.0 * covariance)) < 4.5
    np.testing.assert_allclose(posterior.sample(key=KEY, scale=0.0)(NEW), mean, rtol=1e-9)


@pytest.mark.parametrize("n", [5, 31])  # 31 and two more do not fit into one bucket
def test_conditioning_is_a_new_fit(n):
    x, y = wave(n)
    posterior = fit(x, y, CENTRE)
    more, values = NEW[:2], np.array([9.0, 14.0])
    again = posterior.condition(more, values)
    mean, covariance = primal(np.r_[x, more], np.r_[y, values], NEW, posterior.nugget, CENTRE)
    np.testing.assert_allclose(again.mean(NEW), mean, rtol=1e-7)
    np.testing.assert_allclose(again.joint(NEW)[1], covariance, atol=1e-7)
    pending = posterior.condition(more)
    np.testing.assert_allclose(pending.mean(NEW), posterior.mean(NEW), rtol=1e-7)
    np.testing.assert_allclose(pending.joint(NEW)[1], covariance, atol=1e-7)
    assert posterior.condition(np.empty((0, 3))) is posterior


def test_padding_changes_nothing():
    x, y = wave(20)
    posterior = fit(x, y)
    with computing():
        data = Data.of(np.r_[x, x], np.r_[y, y])  # 64 rows
        data = Data(data.x, data.y, np.arange(len(data.x)) < 20, data.groups)
        model = TangentModel(NETWORK, THETA, None, OUTPUT, NOISE, SHIFT, SCALE)
        wide, _ = to_numpy(regress(model, data))
    np.testing.assert_allclose(wide.mean(NEW), posterior.mean(NEW), rtol=1e-10)
    np.testing.assert_allclose(wide.var(NEW), posterior.var(NEW), rtol=1e-8)
    draws = [p.sample(key=KEY, scale=0.0)(NEW) for p in (wide, posterior)]
    np.testing.assert_allclose(*draws, rtol=1e-10)


def test_many_observations_are_factorized_in_place(monkeypatch):
    x, y = wave(50)
    plain = fit(x, y, CENTRE)
    monkeypatch.setattr(tangent_posterior, "LARGEST_COMPILED", 32)
    monkeypatch.setattr(tangent_posterior, "ROWS", 24)
    placed = fit(x, y, CENTRE)
    np.testing.assert_allclose(placed.mean(NEW), plain.mean(NEW), rtol=1e-8)
    np.testing.assert_allclose(placed.joint(NEW)[1], plain.joint(NEW)[1], atol=1e-8)
    np.testing.assert_allclose(placed.L_inverse, plain.L_inverse, atol=1e-8)
    more = placed.condition(NEW[:2], np.array([9.0, 11.0]))
    np.testing.assert_allclose(more.mean(NEW), plain.condition(NEW[:2], [9.0, 11.0]).mean(NEW), rtol=1e-8)
    path = placed.sample(key=KEY)
    np.testing.assert_allclose(path(NEW), plain.sample(key=KEY)(NEW), rtol=1e-6)


def test_every_row_is_appended_by_the_same_program(caplog):
    rng = np.random.default_rng(3)
    x = rng.random((7, 2))
    process = EmpiricalProcess(MLP(1, 8), noise=0.1, output=1.0)
    posterior = process.fit(Data.of(x, x.sum(1)), key=root_key(0)).posterior
    with jax.log_compiles(), caplog.at_level("WARNING"):
        posterior.condition(rng.random((6, 2)), np.zeros(6))
    traced = [m for m in caplog.messages if m.startswith("Finished tracing") and "_with_row" in m]
    assert len(traced) == 1


@pytest.mark.parametrize("given", [True, False])
def test_points_together_give_the_bits_of_points_one_by_one(given):
    """With values and without, across the edge of a bucket."""
    x, y = wave(30)
    more = np.random.default_rng(2).random((5, 3))
    values = np.linspace(9.0, 11.0, 5) if given else None
    together, single = fit(x, y).condition(more, values), fit(x, y)
    for i in range(5):
        single = single.condition(more[i : i + 1], values[i : i + 1] if given else None)
    for one, other in zip(jax.tree.leaves(together), jax.tree.leaves(single), strict=True):
        np.testing.assert_array_equal(one, other)
