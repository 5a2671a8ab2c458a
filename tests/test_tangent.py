"""The layer-wise and blockwise empirical NTK against the product of the full Jacobian."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from augury.core.keys import root_key
from augury.core.precision import computing
from augury.surrogates import tangent
from augury.surrogates.cnn import CNN
from augury.surrogates.networks import MLP, zero_last
from augury.surrogates.user_networks import UserNetwork

KEY = root_key(5)
NETWORKS = {
    **{f"{name}-{depth}": (MLP(depth, 9, name, 1.4, 0.3), 3)
       for name in ("relu", "erf", "tanh", "gelu") for depth in (1, 2, 4)},
    "no bias": (MLP(2, 9, bias=False), 3),
    "wide input": (MLP(1, 4), 500),
    "cnn": (CNN((7, 8, 2), channels=(3,), width=5), 112),
    "deep cnn": (CNN((9, 8, 1), channels=(3, 2), pool=2, pooling="average", depth=2, width=4), 72),
    "user": (UserNetwork(lambda key: (jax.random.normal(key, (6, 3)), jnp.ones(6)),
                         lambda p, z: p[1] @ jnp.tanh(p[0] @ z) / 6.0), 3),
}  # fmt: skip


@eqx.filter_jit
def gradients(network, params, x):
    return jax.vmap(jax.grad(network.__call__), (None, 0))(params, x)


def jacobian(network, params, x):
    with computing():
        rows = gradients(network, params, x)
        return np.concatenate([np.asarray(a).reshape(len(x), -1) for a in jax.tree.leaves(rows)], axis=1)


def flat(params):
    return np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(params)])


def case(name, n=6):
    network, dim = NETWORKS[name]
    params = network.init(KEY, dim)
    x = np.random.default_rng(1).uniform(size=(n, dim))
    return network, params, x, jacobian(network, params, x)


def test_a_gram_matrix_by_halves_is_the_whole_one(monkeypatch):
    monkeypatch.setattr(tangent, "SMALLEST_HALF", 4)
    network = CNN((3, 3, 1), (2,), pool=3, width=4)
    with computing():
        of = network.linearize(network.init(KEY, 9), np.random.default_rng(0).random((11, 9)))[1]
        np.testing.assert_allclose(of.own_gram(), of.gram(of), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_empirical_ntk_is_the_product_of_jacobians(name):
    network, params, x, J = case(name)
    K = tangent.ntk(network, params, x)
    assert K.dtype == np.float64
    np.testing.assert_allclose(K, J @ J.T, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["relu-2", "no bias", "cnn", "user"])
def test_products_with_the_jacobian_and_its_transpose(name):
    network, params, x, J = case(name)
    rng = np.random.default_rng(2)
    v = jax.tree.map(lambda a: rng.standard_normal(a.shape), params)
    c = rng.standard_normal(len(x))
    with computing():
        at_x = network.linearize(params, x)[1]
        np.testing.assert_allclose(at_x.push(v), J @ flat(v), rtol=1e-10)
        np.testing.assert_allclose(flat(at_x.pull(c)), J.T @ c, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(at_x.diagonal(), np.sum(J**2, axis=1), rtol=1e-10)
        np.testing.assert_allclose(at_x.rows(1, 4).push(v), J[1:4] @ flat(v), rtol=1e-10)
    np.testing.assert_allclose(
        tangent.ntk(network, params, x, x[:4]), J @ J[:4].T, rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("name", ["cnn", "user"])
def test_blocks_of_rows_give_the_same_under_a_small_memory(name, monkeypatch):
    network, params, x, J = case(name, n=7)
    monkeypatch.setattr(tangent, "MEMORY", 5 * tangent._bytes(params))  # two rows a side
    rng = np.random.default_rng(2)
    v, c = jax.tree.map(lambda a: rng.standard_normal(a.shape), params), rng.standard_normal(7)

    @eqx.filter_jit
    def products(params, x):
        J_, other = (tangent.linearize_any(network.__call__, params, z)[1] for z in (x, x[:2]))
        assert isinstance(J_, tangent.Blockwise)
        assert isinstance(other, tangent.Rows)
        return J_.gram(J_), J_.diagonal(), J_.push(v), J_.pull(c), J_.rows(2, 6).gram(J_)

    with computing():
        gram, diagonal, pushed, pulled, part = products(params, x)
    np.testing.assert_allclose(part, J[2:6] @ J.T, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gram, J @ J.T, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(diagonal, np.sum(J**2, axis=1), rtol=1e-10)
    np.testing.assert_allclose(pushed, J @ flat(v), rtol=1e-9)
    np.testing.assert_allclose(flat(pulled), J.T @ c, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["cnn", "user"])
def test_few_rows_that_are_kept_go_with_many_that_are_not(name, monkeypatch):
    network, params, x, J = case(name, n=7)
    front = params[: len(network.channels)] if name == "cnn" else params
    monkeypatch.setattr(tangent, "MEMORY", 5 * tangent._bytes(front))

    @eqx.filter_jit
    def products(params, x):
        many, few = (network.linearize(params, z)[1] for z in (x, x[:2]))
        assert isinstance(many, tangent.Blockwise)
        assert not isinstance(few, tangent.Blockwise)
        many = jax.lax.cond(x[0, 0] < 2.0, lambda: many, lambda: many)  # arrays and nothing else
        return many.gram(few), few.gram(many)

    with computing():
        beside, below = products(params, x)
    np.testing.assert_allclose(beside, J @ J[:2].T, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(below, J[:2] @ J.T, rtol=1e-10, atol=1e-12)


def test_float32_parameters_give_float32():
    network, params, x, J = case("relu-2")
    K = tangent.ntk(network, tangent.cast(params, np.float32), x)
    assert K.dtype == np.float32
    np.testing.assert_allclose(K, J @ J.T, rtol=1e-4)


def test_the_part_of_the_last_layer_is_what_zeroing_it_removes():
    network, params, x, _ = case("tanh-2")
    v = jax.tree.map(np.ones_like, params)
    with computing():
        full, rest = (network.linearize(params, x)[1].push(u) for u in (v, zero_last(v)))
        z = jnp.asarray(2 * x - 1)
        for layer in params[:-1]:
            z = jnp.tanh(1.4 / np.sqrt(len(layer.weight)) * z @ layer.weight + 0.3 * layer.bias)
        np.testing.assert_allclose(full - rest, 1.4 / 3.0 * z.sum(1) + 0.3, rtol=1e-10)


def test_batches_of_networks_inside_a_compiled_function():
    network, _, x, _ = case("relu-2")
    params = [network.init(root_key(seed), 3) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *params)
    with computing():
        K = jax.jit(jax.vmap(lambda p: tangent.ntk(network, p, jnp.asarray(x))))(stacked)
    for one, expected in zip(K, params, strict=True):
        np.testing.assert_allclose(one, tangent.ntk(network, expected, x), rtol=1e-10)
