"""Networks: the forward pass against NumPy, the statistics of the initial parameters, and bad input."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from augury._errors import DataError, UnsupportedError
from augury.core.keys import fold, root_key
from augury.core.precision import computing
from augury.surrogates import EmpiricalProcess, NeuralLinear, NTKProcess
from augury.surrogates.cnn import CNN
from augury.surrogates.networks import MLP, stack
from augury.surrogates.user_networks import ModuleNetwork, UserNetwork, check_network

KEY = root_key(3)
NUMPY = {
    "relu": lambda z: np.maximum(z, 0.0),
    "erf": scipy.special.erf,
    "tanh": np.tanh,
    "gelu": lambda z: z * scipy.special.ndtr(z),
}


@eqx.filter_jit
def evaluate(network, params, x):
    return network(params, x)


def values(network, params, x):
    with computing():
        return np.asarray(evaluate(network, params, x))


@pytest.mark.parametrize("activation", NUMPY)
def test_the_forward_pass_is_the_formula(activation):
    network = MLP(depth=2, width=7, activation=activation, weight_std=1.3, bias_std=0.4)
    params, x = network.init(KEY, 3), np.random.default_rng(0).uniform(size=(5, 3))
    h = 2.0 * x - 1.0
    for index, (weight, bias) in enumerate(params):
        z = 1.3 / np.sqrt(weight.shape[0]) * h @ weight + 0.4 * bias
        h = NUMPY[activation](z) if index < 2 else z
    np.testing.assert_allclose(values(network, params, x), h[:, 0], rtol=1e-12)
    assert values(network, params, x[0]) == pytest.approx(h[0, 0])


def test_initial_parameters_are_standard_normal_and_values_have_the_variance_of_the_limit():
    network = MLP(depth=1, width=400, activation="relu", weight_std=1.5, bias_std=0.5)
    draws = stack([network.init(fold(KEY, i), 4) for i in range(300)])
    for leaf in jax.tree.leaves(draws)[:3]:
        assert abs(leaf.mean()) < 0.02
        assert leaf.std() == pytest.approx(1.0, abs=0.02)
    with computing():
        x = jnp.asarray([0.9, 0.2, 0.7, 0.4])
        f = np.asarray(jax.vmap(lambda p: network(p, x))(draws))
    first = 1.5**2 * np.mean((2 * np.asarray(x) - 1) ** 2) + 0.5**2
    assert f.var() == pytest.approx(1.5**2 * first / 2 + 0.5**2, rel=0.25)  # E relu(z)² = var(z)/2


def test_options_of_the_biases():
    assert MLP(bias=False).init(KEY, 2)[0].bias is None
    assert MLP(width=4, bias=False).init(KEY, 2)[0].weight.shape == (2, 4)
    assert MLP(zero_output_bias=True).init(KEY, 2)[-1].bias == 0.0
    assert MLP(zero_output_bias=True).init(KEY, 2)[0].bias.std() > 0.5
    centre = np.full(2, 0.5)
    assert values(MLP(bias=False), MLP(bias=False).init(KEY, 2), centre) == 0.0


def test_zero_last_leaves_the_other_layers():
    for network, dim in ((MLP(2, 5), 3), (CNN((6, 6, 1), channels=(2,), width=3), 36)):
        params = network.init(KEY, dim)
        zeroed = network.zero_last(params)
        assert network.knows_last
        assert not np.any(zeroed[-1].weight)
        assert not np.any(zeroed[-1].bias)
        assert all(a is b for a, b in zip(params[:-1], zeroed[:-1], strict=True))


def test_other_values_of_the_scales_compile_nothing_new():
    traces = []

    @eqx.filter_jit
    def counted(network, params, x):
        traces.append(1)
        return network(params, x)

    with computing():
        for scale in (1.0, 1.5):
            network = MLP(1, 4, weight_std=scale)
            counted(network, network.init(KEY, 2), np.ones(2))
    assert len(traces) == 1


@pytest.mark.parametrize("pooling", ["max", "average"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_convolution_is_the_sum_over_its_window(pooling, activation):
    phi = NUMPY[activation]
    network = CNN(
        (7, 8, 2), channels=(3,), kernel=3, pool=2, pooling=pooling, width=4, weight_std=1.2,
        activation=activation, bias_std=1.0,
    )  # fmt: skip
    front, *dense = network.init(KEY, 112)
    params = (front._replace(bias=front.bias - 2.0), *dense)  # most of its outputs are negative
    x = np.random.default_rng(1).uniform(size=112)
    image = np.pad((2 * x - 1).reshape(7, 8, 2), ((1, 1), (1, 1), (0, 0)))
    z = np.zeros((7, 8, 3))
    for i in range(7):
        for j in range(8):
            window = image[i : i + 3, j : j + 3].reshape(-1)  # rows, columns, channels
            z[i, j] = 1.2 / np.sqrt(18) * window @ params[0].weight + 1.0 * params[0].bias
    cells = phi(z[:6]).reshape(3, 2, 4, 2, 3)
    h = cells.max((1, 3)) if pooling == "max" else cells.mean((1, 3))
    h = h.reshape(-1)
    for index, (weight, bias) in enumerate(params[1:]):
        z = 1.2 / np.sqrt(weight.shape[0]) * h @ weight + 1.0 * bias
        h = phi(z) if index == 0 else z
    assert values(network, params, x) == pytest.approx(h[0])
    np.testing.assert_allclose(values(network, params, np.stack([x, x])), h[0] * np.ones(2))


def test_pooling_windows_may_overlap():
    network = CNN((7, 8, 1), channels=(2,), kernel=1, pool=3, stride=2, bias=False, weight_std=1.0)
    params = network.init(KEY, 56)
    x = np.random.default_rng(1).uniform(size=56)
    z = (2 * x - 1).reshape(7, 8, 1) * params[0].weight[0]
    windows = [z[i : i + 3, j : j + 3].max((0, 1)) for i in (0, 2, 4) for j in (0, 2, 4)]
    hidden = np.maximum(np.maximum(windows, 0.0).ravel() @ params[1].weight / np.sqrt(18), 0.0)
    assert values(network, params, x) == pytest.approx((hidden @ params[2].weight / 8.0)[0])
    with pytest.raises(UnsupportedError, match="stride must be a whole number"):
        CNN((7, 8, 1), stride=0)


def test_wide_rows_of_word_counts_work():
    network = MLP(2, 16)
    x = np.random.default_rng(0).poisson(0.05, size=(6, 500)) / 3.0
    assert np.isfinite(values(network, check_network(network, 500, KEY), x)).all()


def test_the_users_pair_of_functions():
    def draw(key):
        return {"w": jax.random.normal(key, (3,)), "b": jnp.zeros(())}

    def apply(params, z):
        return jnp.tanh(z @ params["w"]) + params["b"]

    network = UserNetwork(draw, apply)
    params = check_network(network, 3, KEY)
    x = np.random.default_rng(0).uniform(size=(4, 3))
    np.testing.assert_allclose(values(network, params, x), np.tanh((2 * x - 1) @ params["w"]))
    assert params["w"].dtype == np.float64
    assert not network.knows_last
    with pytest.raises(UnsupportedError, match="last"):
        network.zero_last(params)
    known = UserNetwork(draw, apply, last=lambda p: {**p, "b": 0.0 * p["b"]})
    assert known.knows_last
    assert known.zero_last({"w": np.ones(3), "b": np.ones(())})["b"] == 0.0


def test_an_equinox_module_is_drawn_anew_at_its_own_scales():
    module = eqx.nn.MLP(3, "scalar", 64, 1, key=jax.random.key(0))
    network = ModuleNetwork(module)
    params = check_network(network, 3, KEY)
    leaves = jax.tree.leaves(params)
    assert [leaf.shape for leaf in leaves] == [(64, 3), (64,), (1, 64), (1,)]
    assert leaves[0].std() == pytest.approx(1.0, abs=0.15)
    scale = np.sqrt(np.mean(np.asarray(module.layers[0].weight) ** 2))
    w, b, v, c = leaves
    scales = jax.tree.leaves(network.scales)
    assert scales[0] == pytest.approx(scale)
    x = np.array([0.1, 0.9, 0.4])
    hidden = np.maximum((scales[0] * w) @ (2 * x - 1) + scales[1] * b, 0.0)
    assert values(network, params, x) == pytest.approx(((scales[2] * v) @ hidden + scales[3] * c)[0])


class Dropping(eqx.Module):
    """A module with numbers that are no arrays, some of NumPy, and dropout."""

    first: eqx.nn.Linear
    drop: eqx.nn.Dropout
    last: np.ndarray
    gain: float = 2.0
    times: int = 3

    def __call__(self, z):
        return self.gain * self.times * self.drop(jnp.tanh(self.first(z))) @ self.last


def test_dropout_is_left_out_and_numbers_of_a_module_stay():
    module = Dropping(eqx.nn.Linear(3, 8, key=jax.random.key(0)), eqx.nn.Dropout(0.5), np.ones(8))
    network = ModuleNetwork(module)
    params = check_network(network, 3, KEY)
    w, b, v = jax.tree.leaves(params)
    sw, sb, sv = jax.tree.leaves(network.scales)
    x = np.array([0.1, 0.9, 0.4])
    expected = 6.0 * np.tanh(sw * w @ (2 * x - 1) + sb * b) @ (sv * v)
    assert values(network, params, x) == pytest.approx(expected)


def test_integers_of_a_module_are_refused():
    class Chosen(eqx.Module):
        weight: jax.Array
        columns: jax.Array

        def __call__(self, z):
            return z[self.columns] @ self.weight

    with pytest.raises(UnsupportedError, match="floating-point arrays; got one of int"):
        ModuleNetwork(Chosen(jnp.ones(2), jnp.arange(2)))


def test_a_users_network_may_want_images():
    network = UserNetwork(lambda key: jnp.ones((4, 5)), lambda p, z: jnp.sum(p * z), shape=(4, 5))
    assert values(network, check_network(network, 20, KEY), np.ones(20)) == 20.0
    with pytest.raises(DataError, match=r"shape \(4, 5\)"):
        network.init(KEY, 21)


BAD = [
    (lambda key: jnp.ones(2), lambda p, z: p * z[:2], "one number"),
    (lambda key: {"w": jnp.ones(2), "n": jnp.arange(3)}, lambda p, z: z @ p["w"], "floating-point"),
    (lambda key: [jnp.ones(2), 3], lambda p, z: z @ p[0], "floating-point"),
    (lambda key: (), lambda p, z: z.sum(), "must have parameters"),
    (lambda key: jnp.ones(2), lambda p, z: jnp.sqrt(jnp.sum(p * z)), "finite"),
    (lambda key: jnp.ones(3), lambda p, z: z @ p, "must accept one row"),
    (lambda key: jnp.ones(2), lambda p, z: jnp.round(z @ p).astype(int), "got int"),
    (lambda key: jnp.ones(2), lambda p, z: z @ p > 0.0, "got bool"),
    (lambda key: jnp.ones(2), lambda p, z: 1j * (z @ p), "got complex"),
    (lambda key: jnp.ones(2), lambda p, z: None, "got NoneType"),
]


@pytest.mark.parametrize(("draw", "apply", "sentence"), BAD)
def test_bad_networks_of_users_are_refused(draw, apply, sentence):
    with pytest.raises(UnsupportedError, match=sentence):
        check_network(UserNetwork(draw, apply), 2, KEY)


def test_bad_fields_are_refused():
    for make in (
        lambda: MLP(depth=0),
        lambda: MLP(width=0),
        lambda: MLP(activation="swish"),
        lambda: MLP(weight_std=0.0),
        lambda: MLP(weight_std=np.nan),
        lambda: MLP(bias_std=-1.0),
        lambda: CNN((28, 28)),
        lambda: CNN((28, 28, 0)),
        lambda: CNN((28, 28, 1), channels=()),
        lambda: CNN((28, 28, 1), kernel=2),
        lambda: CNN((28, 28, 1), pooling="min"),
        lambda: CNN((2, 2, 1), pool=3),
        lambda: CNN((28, 28, 1), depth=0),
        lambda: UserNetwork(None, None),
        lambda: ModuleNetwork(3),
    ):
        with pytest.raises(UnsupportedError):
            make()
    for bad in ([1.0, 2.0], [[1.0], [1.0, 2.0]], np.ones(2), "1.5", "wide", True, None, 1j, np.inf, -1.0):
        for make in (MLP, lambda **std: CNN((8, 8, 1), **std), NTKProcess):
            for name in ("weight_std", "bias_std"):
                if make is NTKProcess and bad is None:
                    continue  # learns it
                with pytest.raises(UnsupportedError, match=f"{name} must be .*; got .*[.] [A-Z]"):
                    make(**{name: bad})
        if bad is not None:
            for make in (NTKProcess, NeuralLinear, lambda **noise: EmpiricalProcess(MLP(), **noise)):
                with pytest.raises(UnsupportedError, match=r"noise must be .*; got .*[.] [A-Z]"):
                    make(noise=bad)
    with pytest.raises(UnsupportedError, match="bias must be True or False"):
        MLP(bias="no")
    with pytest.raises(UnsupportedError, match="activation must be"):
        NTKProcess(activation=np.array(["relu", "erf"]))
    with pytest.raises(DataError, match="images must have the shape"):
        CNN((28, 28, 1)).init(KEY, 27 * 27)
