"""Dual activations against quadrature, hand-made closed forms and finite differences."""

import functools

import jax
import numpy as np
import pytest
from scipy.special import erf
from scipy.stats import norm

from augury.core.precision import computing
from augury.surrogates.dual_activations import DUALS, SCALES, _arcsin, expectations, tanh_scales

ACTIVATIONS = {  # φ and φ'
    "relu": (lambda u: np.maximum(u, 0.0), lambda u: (u > 0.0) + 0.5 * (u == 0.0)),
    "erf": (erf, lambda u: 2.0 / np.sqrt(np.pi) * np.exp(-u * u)),
    "tanh": (np.tanh, lambda u: 1.0 / np.cosh(u) ** 2),
    "gelu": (lambda u: u * norm.cdf(u), lambda u: norm.cdf(u) + u * norm.pdf(u)),
}
SMOOTH = ("erf", "tanh", "gelu")
each_activation = pytest.mark.parametrize("name", ACTIVATIONS)


@pytest.fixture(autouse=True)
def double():
    with computing():
        yield


@functools.cache
def compiled(name):
    return jax.jit(lambda *at: DUALS[name](*at))


def moments(name, q_a, q_b, k):
    """All seven, for up to 64 elements: arrays of one size compile once."""
    at = np.broadcast_arrays(*map(np.float64, (q_a, q_b, k)))
    padded = [np.append(a.ravel(), np.ones(64 - a.size)) for a in at]
    return [np.asarray(m)[: at[0].size].reshape(at[0].shape) for m in compiled(name)(*padded)]


def integrate(name, q_a, q_b, c, nodes, weights):
    """E[φφ], E[φ'φ'] by a product rule in ξ, η with u = √q_a ξ, v = √q_b (c ξ + √(1 − c²) η)."""
    u = np.sqrt(q_a) * nodes[:, None]
    v = np.sqrt(q_b) * (c * nodes[:, None] + np.sqrt(1.0 - c * c) * nodes[None, :])
    return tuple(weights @ (f(u) * f(v)) @ weights for f in ACTIVATIONS[name])


def gauss_hermite(name, q_a, q_b, c, count):
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return integrate(name, q_a, q_b, c, nodes, weights / weights.sum())


def trapezoid(name, q_a, q_b, c, step=0.03):
    """The error of this rule is exp(−2π d/step) with d ≥ π/(2√q) the distance of φ's poles."""
    nodes = np.arange(-8.5, 8.5, step)
    weights = np.exp(-0.5 * nodes**2)
    return integrate(name, q_a, q_b, c, nodes, weights / weights.sum())


def test_every_activation_is_tested():
    assert set(ACTIVATIONS) == set(DUALS)


@pytest.mark.parametrize("c", [-1.0, -0.4, 0.0, 0.7, 0.99, 1.0])
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_activations_are_their_integrals(name, c):
    for q_a, q_b in [(1e-3, 2.0), (0.3, 0.3), (1.0, 1.0), (5.0, 3.0), (40.0, 50.0)]:
        V, S, *_ = moments(name, q_a, q_b, c * np.sqrt(q_a * q_b))
        expected = trapezoid(name, q_a, q_b, c)
        np.testing.assert_allclose((V, S), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "nodes", "tolerance"),
    [("erf", 64, 1e-7), ("gelu", 64, 1e-9), ("tanh", 64, 1e-7), ("relu", 200, 3e-3)],  # relu: a kink
)
def test_gauss_hermite_quadrature_agrees(name, nodes, tolerance):
    for q_a, q_b, c in [(0.5, 0.5, 0.6), (1.0, 0.3, -0.5), (1.0, 1.0, 0.9)]:
        V, S, *_ = moments(name, q_a, q_b, c * np.sqrt(q_a * q_b))
        V_gh, S_gh = gauss_hermite(name, q_a, q_b, c, nodes)
        assert abs(V - V_gh) < tolerance
        assert abs(S - S_gh) < (0.02 if name == "relu" else tolerance)  # of a step, for ReLU


@pytest.mark.parametrize(("variance", "error"), [(1.0, 5e-5), (5.0, 2e-2)])
def test_gauss_hermite_quadrature_would_not_do_for_large_variances(variance, error):
    exact = trapezoid("tanh", variance, variance, 1.0)
    rough = gauss_hermite("tanh", variance, variance, 1.0, 32)
    assert np.abs(np.subtract(rough, exact)).max() == pytest.approx(error, rel=0.1)


def test_relu_is_the_arc_cosine_kernel():
    """Cho & Saul (2009): E[φφ] = ‖x‖‖y‖ J₁(θ)/2π, E[φ'φ'] = J₀(θ)/2π."""
    rng = np.random.default_rng(0)
    theta, lengths = rng.uniform(0.0, np.pi, 50), rng.uniform(0.1, 3.0, (2, 50))
    V, S, *_ = moments("relu", *lengths**2, lengths.prod(0) * np.cos(theta))
    J_1 = np.sin(theta) + (np.pi - theta) * np.cos(theta)
    np.testing.assert_allclose(V, lengths.prod(0) * J_1 / (2.0 * np.pi), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(S, (np.pi - theta) / (2.0 * np.pi), atol=1e-13)


def test_erf_is_williams_kernel():
    rng = np.random.default_rng(0)
    q_a, q_b = rng.uniform(0.0, 10.0, (2, 50))
    k = rng.uniform(-1.0, 1.0, 50) * np.sqrt(q_a * q_b)
    V, S, *_ = moments("erf", q_a, q_b, k)
    product = (1.0 + 2.0 * q_a) * (1.0 + 2.0 * q_b)
    np.testing.assert_allclose(V, 2.0 / np.pi * np.arcsin(2.0 * k / np.sqrt(product)), rtol=1e-13)
    np.testing.assert_allclose(S, 4.0 / np.pi / np.sqrt(product - 4.0 * k * k), rtol=1e-12)


def test_the_hyperbolic_tangent_is_a_mixture_of_error_functions():
    u = np.linspace(0.0, 25.0, 2001)
    errors = []
    for count in (SCALES, 24):
        s, p = tanh_scales(count)
        assert p.min() > 0.0
        assert p.sum() == pytest.approx(1.0, abs=1e-14)
        errors.append(np.abs(erf(np.outer(u, s)) @ p - np.tanh(u)).max())
    assert errors[0] < 1e-7  # oscillates, and averages out below 3e-11 in the moments
    assert errors[1] < 1e-13


def test_few_scales_are_as_good_as_many():
    grids = np.meshgrid(np.logspace(-3, 3, 8), [-0.9, -0.3, 0.0, 0.5, 0.9, 1.0])
    q_a, c = (grid.ravel() for grid in grids)
    for ratio in (1.0, 0.3, 0.01):
        q_b, k = ratio * q_a, c * np.sqrt(ratio) * q_a
        s, p = tanh_scales(24)
        A, B = (np.sqrt(2.0 / (1.0 + 2.0 * s**2 * q[:, None])) * s for q in (q_a, q_b))
        y = A[:, :, None] * B[:, None, :] * k[:, None, None]
        V = 2.0 / np.pi * np.einsum("nst,s,t->n", np.arcsin(y), p, p)
        S = 2.0 / np.pi * np.einsum("nst,ns,nt->n", 1.0 / np.sqrt(1.0 - y * y), p * A, p * B)
        np.testing.assert_allclose(moments("tanh", q_a, q_b, k)[:2], (V, S), rtol=0.0, atol=3e-11)


def test_the_arcsine_is_exact_to_rounding():
    y = np.concatenate([np.linspace(-1.0, 1.0, 10_001), [1e-200, -1e-9, 0.5, 1.0 - 1e-16]])
    np.testing.assert_allclose(_arcsin(y), np.arcsin(y), rtol=1e-15, atol=5e-16)


@each_activation
def test_derivatives_are_finite_differences(name):
    rng = np.random.default_rng(1)
    q_a, q_b = rng.uniform(0.05, 4.0, (2, 40))
    k = rng.uniform(-0.95, 0.95, 40) * np.sqrt(q_a * q_b)
    _, S, V_a, V_b, S_a, S_b, S_k = moments(name, q_a, q_b, k)
    h = 1e-5

    def difference(a, b, c):
        ahead, behind = (moments(name, q_a + t * a, q_b + t * b, k + t * c) for t in (h, -h))
        return [(x - y) / (2.0 * h) for x, y in zip(ahead[:2], behind[:2], strict=True)]

    for direction, expected in [((1, 0, 0), (V_a, S_a)), ((0, 1, 0), (V_b, S_b)), ((0, 0, 1), (S, S_k))]:
        np.testing.assert_allclose(difference(*direction), expected, rtol=1e-6, atol=1e-7)


@each_activation
def test_forward_and_reverse_derivatives_use_them(name):
    at = np.array([0.8, 1.3, -0.4])
    _, S, V_a, V_b, S_a, S_b, S_k = moments(name, *at)
    for derivative in (jax.jacfwd, jax.jacrev):
        rows = jax.jit(derivative(lambda p: jax.numpy.stack(expectations(name, *p))))(at)
        np.testing.assert_allclose(rows, [[V_a, V_b, S], [S_a, S_b, S_k]], rtol=1e-13)


@each_activation
@pytest.mark.parametrize("at", [(2.0, 2.0, 2.0), (2.0, 0.5, -1.0), (0.0, 1.0, 0.0), (0.0, 0.0, 0.0)])
def test_everything_is_finite_at_the_edges(name, at):
    for wobble in (0.0, 1e-16, -1e-16):
        q_a, q_b, k = at
        assert np.isfinite(moments(name, q_a, q_b, k * (1.0 + wobble))).all()
