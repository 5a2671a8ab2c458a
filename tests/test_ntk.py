"""The kernels of wide networks against hand-made formulas, finite networks and finite differences."""

import dataclasses
import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.special import erf, ndtr

from augury._errors import UnsupportedError
from augury.core.keys import fold, root_key
from augury.core.precision import computing
from augury.surrogates.dual_activations import DUALS
from augury.surrogates.ntk import NTK
from samples import distance

WEIGHT_STD, BIAS_STD = 1.4, 0.3
PHI = {
    "relu": jax.nn.relu,
    "erf": jax.lax.erf,
    "tanh": jnp.tanh,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
}
HYPER = ("weight_std", "bias_std", "output")
each_activation = pytest.mark.parametrize("activation", DUALS)


@pytest.fixture(autouse=True)
def double():
    with computing():
        yield


class Kernels(NamedTuple):
    ntk: np.ndarray
    nngp: np.ndarray
    ntk_diagonal: np.ndarray
    nngp_diagonal: np.ndarray


@jax.jit
def _kernels(kernel, a, b):
    nngp, ntk = kernel.both(a, b)
    return ntk, nngp, *(dataclasses.replace(kernel, kind=kind).diagonal(a) for kind in ("ntk", "nngp"))


def kernels(kernel, a, b=None):
    return Kernels(*map(np.asarray, _kernels(kernel, a, a if b is None else b)))


@jax.jit
def gradients(kernel, x, other):
    """k(x, other), its gradient in x and in the kernel, and that of k(x, x) in the kernel."""
    value, slopes = jax.value_and_grad(lambda x, k: k(x, other), argnums=(0, 1))(x, kernel)
    return value, *slopes, jax.grad(lambda k: k.diagonal(x))(kernel)


def make(activation, depth=2, **changes):
    return NTK(depth, activation, **{"weight_std": WEIGHT_STD, "bias_std": BIAS_STD, **changes})


def points(n=16, seed=0):
    """Most tests use 16 points of 4 columns, so that little is compiled."""
    return np.random.default_rng(seed).random((n, 4))


# Formulas by hand


def kappa(c):
    """The arc-cosine kernels of order 0 and 1; known to 1e-8 at c = 1."""
    angle = np.pi - np.arccos(np.clip(c, -1.0, 1.0))
    return angle / np.pi, (np.sqrt(np.maximum(1.0 - c * c, 0.0)) + c * angle) / np.pi


def test_one_hidden_layer_of_relu_by_hand():
    x, w, b = points(), WEIGHT_STD**2, BIAS_STD**2
    z = 2.0 * x - 1.0
    first = w * z @ z.T / 4.0 + b
    lengths = np.sqrt(np.diag(first))
    kappa_0, kappa_1 = kappa(first / np.outer(lengths, lengths))
    nngp = w * 0.5 * np.outer(lengths, lengths) * kappa_1 + b
    ntk = nngp + w * 0.5 * kappa_0 * first
    found = kernels(make("relu", 1), x)
    np.testing.assert_allclose(found.nngp, nngp, atol=1e-7)
    np.testing.assert_allclose(found.ntk, ntk, atol=1e-7)
    np.testing.assert_allclose(kernels(make("relu", 1, output=2.5), x).ntk, 2.5 * ntk, atol=1e-7)


@pytest.mark.parametrize("depth", [2, 8])
def test_hidden_layers_of_erf_by_hand(depth):
    x, w, b = points(), WEIGHT_STD**2, BIAS_STD**2
    z = 2.0 * x - 1.0
    nngp = ntk = w * z @ z.T / 4.0 + b
    for _ in range(depth):
        q = 1.0 + 2.0 * np.diag(nngp)
        slope = 4.0 / np.pi / np.sqrt(np.outer(q, q) - 4.0 * nngp**2)
        nngp = w * 2.0 / np.pi * np.arcsin(2.0 * nngp / np.sqrt(np.outer(q, q))) + b
        ntk = nngp + w * slope * ntk
    found = kernels(make("erf", depth), x)
    np.testing.assert_allclose(found.nngp, nngp, rtol=1e-12)
    np.testing.assert_allclose(found.ntk, ntk, rtol=1e-12)


def test_a_kernel_is_of_one_kind():
    x, both = points(), kernels(make("relu"), points())
    np.testing.assert_allclose(make("relu").gram(x, x), both.ntk, rtol=1e-13)
    np.testing.assert_allclose(make("relu", kind="nngp").gram(x, x), both.nngp, rtol=1e-13)


def test_an_output_bias_of_zero_is_missing_from_the_nngp_only():
    random, zero = (kernels(make("relu", 1, output_bias=start), points()) for start in ("random", "zero"))
    np.testing.assert_allclose(random.nngp - zero.nngp, BIAS_STD**2, atol=1e-14)
    np.testing.assert_array_equal(random.ntk, zero.ntk)


# Finite networks

WIDTH, DRAWS = 800, 8


def empirical(activation, theta, x):
    """⟨∂f(x)/∂θ, ∂f(x')/∂θ⟩, and E f(x)f(x') over the last layer's weights, of one finite network."""

    def network(theta, z):
        for W, b in theta[:-1]:
            z = PHI[activation](WEIGHT_STD / np.sqrt(len(z)) * (W @ z) + BIAS_STD * b)
        W, b = theta[-1]
        return WEIGHT_STD / np.sqrt(len(z)) * (W @ z) + BIAS_STD * b, z

    pairs = [jax.grad(network, has_aux=True)(theta, z) for z in np.float32(2.0 * x - 1.0)]
    leaves = [[np.asarray(leaf).ravel() for leaf in jax.tree.leaves(gradient)] for gradient, _ in pairs]
    ntk = [[sum(map(np.dot, one, other)) for one in leaves] for other in leaves]
    last = np.array([features for _, features in pairs])
    return np.array(ntk), WEIGHT_STD**2 * last @ last.T / WIDTH + BIAS_STD**2


@functools.cache
def samples():
    """Empirical NTK and NNGP of several networks, for every activation and depth."""
    rng, found = np.random.default_rng(0), {}
    x = points(2, seed=3)
    for _ in range(DRAWS):
        shapes = [(WIDTH, 4), (WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH,)]
        theta = [
            tuple(rng.standard_normal(shape, dtype=np.float32) for shape in (weights, weights[:-1]))
            for weights in shapes
        ]
        for activation in DUALS:
            for depth in (1, 2, 3):
                pair = empirical(activation, theta[:depth] + theta[-1:], x)
                found.setdefault((activation, depth), []).append(pair)
    return {key: np.array(values) for key, values in found.items()}


@each_activation
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_wide_networks_have_these_kernels(activation, depth):
    values = samples()[activation, depth]
    x = np.vstack([points(2, seed=3), points(14)])
    for found, expected in zip(values.swapaxes(0, 1), kernels(make(activation, depth), x), strict=False):
        expected, size = expected[:2, :2], expected[:2, :2].max()
        error = found.std(0, ddof=1) / np.sqrt(DRAWS)
        # 5.4: one in a thousand by Student's t of 7 degrees; depth/width: what a finite network is off
        assert (np.abs(found.mean(0) - expected) < 5.4 * error + 2.0 * depth / WIDTH * size).all()
        assert error.max() < 0.08 * size


@each_activation
def test_outputs_of_one_hidden_layer_have_the_nngp_covariance_at_any_width(activation):
    phi = {
        "relu": lambda u: np.maximum(u, 0.0),
        "erf": erf,
        "tanh": np.tanh,
        "gelu": lambda u: u * ndtr(u),
    }[activation]
    rng, count, width, x = np.random.default_rng(5), 50_000, 4, points()
    weights = rng.standard_normal((count, width, 4))
    hidden = WEIGHT_STD / np.sqrt(4.0) * weights @ (2.0 * x[:3] - 1.0).T
    hidden = phi(hidden + BIAS_STD * rng.standard_normal((count, width, 1)))
    f = WEIGHT_STD / np.sqrt(width) * np.einsum("nw,nwp->np", rng.standard_normal((count, width)), hidden)
    products = f[:, :, None] * f[:, None, :]  # without an output bias
    expected = kernels(make(activation, 1), x).nngp[:3, :3] - BIAS_STD**2
    error = products.std(0) / np.sqrt(count)
    assert (np.abs(products.mean(0) - expected) < 4.5 * error).all()
    assert error.max() < 0.03 * expected.max()


@pytest.mark.parametrize("centred", [True, False])
def test_draws_have_the_covariance_of_the_kernel(centred):
    kernel, x = make("relu", 1, output=2.5, centred=centred), points(6)
    value = eqx.filter_jit(lambda drawn: drawn(x))
    draws = np.array([value(kernel.draw(256, 4, key=fold(root_key(0), i))) for i in range(300)])
    expected = np.asarray(kernel.gram(x, x))
    assert max(distance(draws, np.zeros(6), expected)) < 4.5
    other = dataclasses.replace(kernel, centred=not centred).gram(x, x)
    assert max(distance(draws, np.zeros(6), np.asarray(other))) > 8.0  # the two can be told apart


# NeuralBO


def definition_1(z, layers):
    """NeuralBO's Definition 1 as printed, for `layers` weight matrices (its L) and ReLU."""
    H = S = z @ z.T
    for _ in range(layers - 1):
        lengths = np.sqrt(np.diag(S))
        kappa_0, kappa_1 = kappa(S / np.outer(lengths, lengths))  # 2E[φ'φ'], and 2E[φφ]/(‖u‖‖v‖)
        S = np.outer(lengths, lengths) * kappa_1
        H = H * kappa_0 + S
    return (H + S) / 2.0


@pytest.mark.parametrize("layers", [2, 3, 4])
def test_definition_1_is_the_ntk_plus_the_nngp_at_weight_variance_2(layers):
    x, dim = points(), 4
    found = kernels(NTK(layers - 1, "relu", np.sqrt(2.0), 0.0, output=dim / 4), x)
    np.testing.assert_allclose(found.ntk + found.nngp, definition_1(2.0 * x - 1.0, layers), atol=1e-7)


def tangent_kernel(network, theta, z, width):
    rows = np.array([ravel_pytree(jax.grad(network)(theta, point))[0] for point in z])
    return rows @ rows.T / width


def test_the_network_of_neural_bo_has_another_limit_than_its_definition():
    x, m = points(), 40_000
    z, rng = 2.0 * x - 1.0, np.random.default_rng(0)
    lengths = np.linalg.norm(z, axis=1)
    kappa_0, kappa_1 = kappa(z @ z.T / np.outer(lengths, lengths))
    V, S = 0.5 * np.outer(lengths, lengths) * kappa_1, 0.5 * kappa_0  # E[φφ], E[φ'φ']
    limit = kernels(NTK(1, "relu", 1.0, 0.0, output=4.0), x).ntk
    np.testing.assert_allclose(limit, V + z @ z.T * S, atol=1e-7)
    np.testing.assert_allclose(definition_1(z, 2), 2.0 * V + z @ z.T * S, atol=1e-7)
    # A mean of m terms, each with a deviation of about its size: 5 times the error of the largest
    tolerance = 5.0 * limit.max() / np.sqrt(m)
    assert V.max() > 10.0 * tolerance

    def network(theta, point):  # section 7: √m W₂ φ(W₁x), weights N(0, 1/m), no bias
        return np.sqrt(m) * theta[1] @ jax.nn.relu(theta[0] @ point)

    theta = [rng.standard_normal(shape) / np.sqrt(m) for shape in ((m, 4), m)]
    np.testing.assert_allclose(tangent_kernel(network, theta, z[:4], m), limit[:4, :4], atol=tolerance)

    def symmetric(theta, point):  # two halves that cancel, each seeing x/√2 (Zhou et al. 2020)
        return np.sqrt(m) * sum(w @ jax.nn.relu(W @ (point / np.sqrt(2.0))) for W, w in theta)

    W = np.sqrt(4.0 / m) * rng.standard_normal((m // 2, 4))
    w = np.sqrt(2.0 / m) * rng.standard_normal(m // 2)
    theta = [(W, w), (W, -w)]
    assert symmetric(theta, z[0]) == 0.0
    found = tangent_kernel(symmetric, theta, z[:4], m)
    np.testing.assert_allclose(found, definition_1(z, 2)[:4, :4], atol=2.0 * tolerance)


# The matrix


@each_activation
@pytest.mark.parametrize("bias_std", [BIAS_STD, 0.0])
def test_gram_matrices_are_positive_semidefinite_and_have_the_given_diagonal(activation, bias_std):
    x = points()
    x[0] = 0.5  # z = 0
    x[1] = 1.0 - x[2]  # antipodal
    x[8:] = x[:8]
    found = kernels(make(activation, 3, bias_std=bias_std), x)
    for K, diagonal in [(found.ntk, found.ntk_diagonal), (found.nngp, found.nngp_diagonal)]:
        np.testing.assert_allclose(np.diag(K), diagonal, rtol=1e-12)
        np.testing.assert_allclose(K[:8, :8], K[8:, :8], rtol=1e-12, atol=1e-12)  # the same points
        np.testing.assert_allclose(K, K.T, rtol=1e-12, atol=1e-13)
        values = np.linalg.eigvalsh(0.5 * (K + K.T))
        assert values.min() > -1e-12 * values.max()


def test_rounding_of_long_products_is_not_taken_for_an_angle():
    x = np.random.default_rng(0).random((40, 1000))
    found = kernels(make("relu", 3, bias_std=0.05), x)
    np.testing.assert_allclose(np.diag(found.ntk), found.ntk_diagonal, rtol=1e-12)


@each_activation
def test_rows_do_not_depend_on_their_neighbours_nor_on_the_order_of_columns(activation):
    x, other, k = points(), points(seed=1), make(activation, 3)
    K = kernels(k, x, other).ntk
    padded = kernels(k, np.vstack([x[:10], np.zeros((6, 4))]), other).ntk
    np.testing.assert_allclose(padded[:10], K[:10], rtol=1e-12)
    order = [2, 0, 3, 1]
    np.testing.assert_allclose(kernels(k, x[:, order], other[:, order]).ntk, K, rtol=1e-12)
    np.testing.assert_allclose(kernels(k, other, x).ntk, K.T, rtol=1e-12)
    one, *_ = gradients(make(activation), x[3], other[5])
    assert float(one) == pytest.approx(kernels(make(activation), x, other).ntk[3, 5], rel=1e-12)


def test_a_new_value_of_a_hyper_parameter_compiles_nothing():
    traces = []

    @eqx.filter_jit
    def count(kernel):
        traces.append(kernel.depth)
        return kernel.gram(points(), points())

    for weight_std in (1.0, 1.5, np.float64(2.0)):
        count(make("relu", weight_std=weight_std))
    assert traces == [2]


# Gradients


def difference(f, step):
    return (f(step) - f(-step)) / (2.0 * step)


@each_activation
@pytest.mark.parametrize("where", ["far", "same", "near"])
def test_gradients_are_finite_differences(activation, where):
    """Also at x = x', where the cusp of the ReLU's NTK has the mean of its two slopes."""
    k, x = make(activation), points(1, seed=4)[0]
    other = {"far": points(1, seed=7)[0], "same": x, "near": x + np.array([1e-3, -2e-3, 1e-3, 0.0])}[
        where
    ]
    _, in_x, in_kernel, _ = gradients(k, x, other)
    # beside a cusp the kernel goes like |δ|, with a curvature of 1/|δ|
    tolerance = 1e-4 if activation == "relu" and where != "far" else 1e-8
    for column, e in enumerate(np.eye(4)):
        slope = difference(lambda t, e=e: gradients(k, x + t * e, other)[0], 1e-5)
        assert float(in_x[column]) == pytest.approx(float(slope), abs=tolerance)
    for name in HYPER:
        value = float(getattr(k, name))
        changed = [make(activation, **{name: value + t}) for t in (1e-5, -1e-5)]
        slope = (gradients(changed[0], x, other)[0] - gradients(changed[1], x, other)[0]) / 2e-5
        assert float(getattr(in_kernel, name)) == pytest.approx(float(slope), rel=1e-7, abs=1e-8)


@each_activation
def test_hyper_parameter_gradients_at_coincident_points_are_those_of_the_diagonal(activation):
    for x in points(5, seed=9):
        _, _, in_kernel, of_diagonal = gradients(make(activation), x, x.copy())
        for name in HYPER:
            found, exact = (float(getattr(gradient, name)) for gradient in (in_kernel, of_diagonal))
            assert found == pytest.approx(exact, rel=1e-12)


@each_activation
@pytest.mark.parametrize("bias_std", [BIAS_STD, 0.0])
def test_gradients_are_finite_everywhere(activation, bias_std):
    k, x, centre = make(activation, bias_std=bias_std), points(1)[0], np.full(4, 0.5)
    for a, b in [(x, x), (x, 1.0 - x), (centre, x), (x, centre), (centre, centre), (x, x + 1e-9)]:
        for tiny in (0.0, 1e-160, 1e-16, 1e-7):
            assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients(k, a, b + tiny)))


def test_a_relu_network_without_biases_has_the_mean_slope_at_the_centre():
    k, x, centre = make("relu", 1, bias_std=0.0), points(1)[0], np.full(4, 0.5)
    value, in_x, *_ = gradients(k, centre, x)
    assert value == 0.0
    for column, e in enumerate(np.eye(4)):
        slope = difference(lambda t, e=e: gradients(k, centre + t * e, x)[0], 1e-6)
        assert float(in_x[column]) == pytest.approx(float(slope), abs=1e-9)


# What is refused


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"depth": 0}, "depth must be a whole number of at least 1; got 0. Use 1 or more."),
        ({"depth": 1.5}, "depth must be a whole number of at least 1; got 1.5. Use 1 or more."),
        ({"depth": None}, "depth must be a whole number of at least 1; got None. Use 1 or more."),
        ({"activation": "selu"}, "activation must be .*; got 'selu'. Use one of them."),
        ({"kind": "rbf"}, 'kind must be "ntk" or "nngp"; got \'rbf\'. Use one of them.'),
        ({"output_bias": 0}, 'output_bias must be "random" or "zero"; got 0. Use one of them.'),
        ({"weight_std": 0.0}, "weight_std must be positive and finite; got 0.0. Use a number such"),
        ({"weight_std": [1.0]}, r"weight_std must be positive and finite; got \[1.0\]"),
        ({"bias_std": -0.1}, "bias_std must be at least 0 and finite; got -0.1. Use a number such"),
        ({"bias_std": "wide"}, "bias_std must be at least 0 and finite; got 'wide'."),
        ({"output": np.nan}, "output must be positive and finite; got nan."),
    ],
)
def test_what_is_refused(changes, sentence):
    fields = {"depth": 1, "activation": "relu", "weight_std": 1.0, "bias_std": 0.1, **changes}
    with pytest.raises(UnsupportedError, match=sentence):
        NTK(**fields)
