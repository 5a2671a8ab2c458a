"""Dual activations: what a layer of infinitely many neurons does to a covariance.

For an activation φ and jointly Gaussian pre-activations u, v of mean zero, variances q_a, q_b and
covariance k, these are

    V = E[φ(u)φ(v)]  and  S = E[φ'(u)φ'(v)] = ∂V/∂k      (Price's theorem)

in closed form, elementwise, for arrays that broadcast. So are their derivatives, which are finite
everywhere: at k = ±√(q_a q_b) (coincident and antipodal points), and at variances of zero.
"""

import functools
import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from augury._types import Array

Activation = Literal["relu", "erf", "tanh", "gelu"]

# Correlations within so many roundings of ±1 are ±1: the angle between two points is a square root of
# what rounding leaves of 1 − c, so that the angle of a point with itself would come out as 1e-8.
ROUNDINGS = 64
SCALES = 9  # error functions that make a hyperbolic tangent


class Moments(NamedTuple):
    """V, S, and the derivatives of both in q_a, q_b, k; that of V in k is S."""

    V: Array
    S: Array
    V_a: Array
    V_b: Array
    S_a: Array
    S_b: Array
    S_k: Array


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def expectations(activation: Activation, q_a: Array, q_b: Array, k: Array) -> tuple[Array, Array]:
    """E[φ(u)φ(v)] and E[φ'(u)φ'(v)]."""
    m = DUALS[activation](q_a, q_b, k)
    return m.V, m.S


@expectations.defjvp
def _expectations_jvp(
    activation: Activation, at: tuple[Array, ...], towards: tuple[Array, ...]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    m = DUALS[activation](*at)
    a, b, k = towards
    return (m.V, m.S), (m.V_a * a + m.V_b * b + m.S * k, m.S_a * a + m.S_b * b + m.S_k * k)


def relu(q_a: Array, q_b: Array, k: Array) -> Moments:
    """φ(u) = max(u, 0): the arc-cosine kernels of order 1 and 0, with c = k/√(q_a q_b).

        V = ½√(q_a q_b) κ₁(c),   S = ½κ₀(c);   κ₀(c) = 1 − arccos(c)/π,   κ₁(c) = c κ₀(c) + √(1 − c²)/π

    S has a cusp at c = ±1, where its derivative is taken as zero. That is the mean of the two slopes
    along a line through x', and exact where c stays 1: for hyper-parameters at x = x'. Beside a
    variance of zero, c is taken as 0.

    Reference: Cho & Saul (2009), "Kernel methods for deep learning", eqs. 3-6.
    """
    r_a, r_b = (jax.lax.rsqrt(jnp.where(q > 0.0, q, 1.0)) for q in (q_a, q_b))
    c = k * r_a * r_b
    c = jnp.where(jnp.abs(c) > 1.0 - ROUNDINGS * _epsilon(c), jnp.sign(c), c)
    s = jnp.sqrt((1.0 - c) * (1.0 + c))
    inside = s > 0.0
    kappa_0 = 0.5 + _arcsin(c) / np.pi
    kappa_1 = c * kappa_0 + s / np.pi
    root_a, root_b = q_a * r_a, q_b * r_b
    fourth = s / (4.0 * np.pi)
    S_c = jnp.where(inside, 0.5 / (np.pi * jnp.where(inside, s, 1.0)), 0.0)
    half = -0.5 * c * S_c  # ∂c/∂q_a = −c/(2q_a)
    return Moments(
        V=0.5 * root_a * root_b * kappa_1,
        S=0.5 * kappa_0,
        V_a=fourth * root_b * r_a,
        V_b=fourth * root_a * r_b,
        S_a=half * r_a * r_a,
        S_b=half * r_b * r_b,
        S_k=S_c * r_a * r_b,
    )


def erf(q_a: Array, q_b: Array, k: Array) -> Moments:
    """φ(u) = erf(u): the arc-sine kernel, with y = 2k/√((1 + 2q_a)(1 + 2q_b)).

        V = (2/π) arcsin(y),   S = (4/π)/√((1 + 2q_a)(1 + 2q_b) − 4k²)

    Reference: Williams (1997), "Computing with infinite networks", eq. 11.
    """
    return _erf_pair(_steepness(1.0, q_a), _steepness(1.0, q_b), k, 2.0 / np.pi)


def tanh(q_a: Array, q_b: Array, k: Array) -> Moments:
    """φ(u) = tanh(u) = Σ_s p_s erf(s u): the arc-sine kernels of all pairs of scales, summed.

    Gauss–Hermite quadrature of the two expectations would need hundreds of nodes per axis where the
    variance is large: with 32 it errs by 5e-5 at variance 1 and by 2e-2 at variance 5. The sum over
    `SCALES` scales errs by at most 3e-11 at every variance, and is itself the kernel of an activation.
    """
    dtype = jnp.result_type(q_a, q_b, k)
    s, p = tanh_scales()
    pairs = (np.repeat(s, SCALES), np.tile(s, SCALES), (2.0 / np.pi) * np.outer(p, p).ravel())

    def add(sums: Moments, pair: tuple[Array, ...]) -> tuple[Moments, None]:
        s, t, p = pair
        terms = _erf_pair(_steepness(s, q_a), _steepness(t, q_b), k, p)
        return Moments(*(total + term for total, term in zip(sums, terms, strict=True))), None

    zero = jnp.zeros(jnp.broadcast_shapes(q_a.shape, q_b.shape, k.shape), dtype)
    columns = tuple(column.astype(dtype) for column in pairs)
    # a loop, so that memory does not grow; the compiler leaves out the sums that are not used
    return jax.lax.scan(add, Moments(*[zero] * 7), columns, unroll=3)[0]


def gelu(q_a: Array, q_b: Array, k: Array) -> Moments:
    """φ(u) = uΦ(u), with Φ the normal distribution function (the exact GELU).

        V = k T + n m,   S = T + k n L;   m = q_a q_b − e k²,   L = 1 − 2e + m/D

    with D = (1 + q_a)(1 + q_b) − k², T = E[Φ(u)Φ(v)] = ¼ + arcsin(k/√((1 + q_a)(1 + q_b)))/2π,
    n = E[Φ'(u)Φ'(v)] = 1/(2π√D) and e = 1 − 1/(1 + q_a) − 1/(1 + q_b), by Gaussian integration by parts.
    Reference: Tsuchida et al. (2021), "Avoiding kernel fixed points: computing with ELU and GELU
    infinite networks".
    """
    A, B = 1.0 / (1.0 + q_a), 1.0 / (1.0 + q_b)
    y = k * jnp.sqrt(A * B)
    d = A * B / _cosine_squared(y)  # 1/D
    n = jnp.sqrt(d) / (2.0 * np.pi)
    T = 0.25 + _arcsin(y) / (2.0 * np.pi)
    e, kk = 1.0 - A - B, k * k
    m = q_a * q_b - e * kk
    L = 1.0 - 2.0 * e + m * d
    m_a, m_b = q_b - kk * A * A, q_a - kk * B * B
    d_a, d_b = d / B, d / A  # −D·∂(1/D)/∂q
    return Moments(
        V=k * T + n * m,
        S=T + k * n * L,
        V_a=n * (m_a - 0.5 * (A * kk + m * d_a)),
        V_b=n * (m_b - 0.5 * (B * kk + m * d_b)),
        S_a=k * n * (m_a * d - 2.0 * A * A - m * d * d_a - 0.5 * (A + L * d_a)),
        S_b=k * n * (m_b * d - 2.0 * B * B - m * d * d_b - 0.5 * (B + L * d_b)),
        S_k=n * (1.0 + L + kk * d * (L - 2.0 * e + 2.0 * m * d)),
    )


DUALS: dict[str, Callable[[Array, Array, Array], Moments]] = {
    "relu": relu,
    "erf": erf,
    "tanh": tanh,
    "gelu": gelu,
}


@functools.cache
def tanh_scales(count: int = SCALES) -> tuple[np.ndarray, np.ndarray]:
    """Scales s and probabilities p with tanh(u) ≈ Σ p erf(s u).

    The logistic distribution is a scale mixture of normal ones:

        tanh(u) = ∫ erf(s u) p(s) ds,   p(s) = Σ_j (−1)^{j+1} 4j² s⁻³ exp(−j²/s²)

    and this is the Gauss quadrature rule of that measure in log s (Golub & Welsch), from the Lanczos
    recursion on a fine grid. Reference: Stefanski (1991), "A normal scale mixture representation of the
    logistic distribution".
    """
    x = np.linspace(-2.0, 1.5, 2001)
    j = np.arange(1, 60)[:, None]
    p = ((-1.0) ** (j + 1) * 4.0 * j**2 * np.exp(-((j * np.exp(-x)) ** 2) - 2.0 * x)).sum(0)
    basis = [np.sqrt(np.maximum(p, 0.0) / np.maximum(p, 0.0).sum())]
    jacobi = np.zeros((count + 1, count + 1))
    for i in range(count):
        vector = x * basis[-1]
        jacobi[i, i] = vector @ basis[-1]
        for known in basis * 2:  # once more, for what rounding left of the first time
            vector = vector - (vector @ known) * known
        jacobi[i, i + 1] = jacobi[i + 1, i] = np.linalg.norm(vector)
        basis.append(vector / jacobi[i, i + 1])
    nodes, vectors = np.linalg.eigh(jacobi[:-1, :-1])
    return np.exp(nodes), vectors[0] ** 2


def _steepness(s: Array | float, q: Array) -> Array:
    """A = √2 s/√(1 + 2s²q), for which ∂A/∂q = −½A³."""
    return (math.sqrt(2.0) * s) * jax.lax.rsqrt(1.0 + (2.0 * s * s) * q)


def _erf_pair(A: Array, B: Array, k: Array, p: Array | float) -> Moments:
    """p times arcsin(y), y = A B k, which is ½π E[erf(s u) erf(t v)]; its derivative in k; and so on."""
    AB = A * B
    y = AB * k
    square = _cosine_squared(y)
    g = p * AB * jax.lax.rsqrt(square)
    h = g / square
    a, b = -0.5 * A * A, -0.5 * B * B
    return Moments(
        V=p * _arcsin(y), S=g, V_a=a * k * g, V_b=b * k * g, S_a=a * h, S_b=b * h, S_k=AB * y * h
    )


def _cosine_squared(y: Array) -> Array:
    """1 − y², at least a rounding error."""
    return jnp.maximum((1.0 - y) * (1.0 + y), _epsilon(y))


# of arcsin(√t)/√t, highest power first; what follows is below 1e-16 for t ≤ ¼
_TAYLOR = [math.comb(2 * n, n) / 4**n / (2 * n + 1) for n in range(22, -1, -1)]


def _arcsin(y: Array) -> Array:
    """arcsin(y) for |y| ≤ 1 by its Taylor series: an order of magnitude faster than the compiler's.

    arcsin(y) = π/2 − 2 arcsin √((1 − y)/2) brings arguments above ½ below it.
    """
    size = jnp.abs(y)
    large = size > 0.5
    t = jnp.where(large, 0.5 - 0.5 * size, y * y)
    angle = jnp.sqrt(jnp.maximum(t, 0.0)) * functools.reduce(lambda total, a: total * t + a, _TAYLOR)
    return jnp.copysign(jnp.where(large, 0.5 * np.pi - 2.0 * angle, angle), y)


def _epsilon(x: Array) -> float:
    return float(np.finfo(jnp.result_type(x)).eps)
