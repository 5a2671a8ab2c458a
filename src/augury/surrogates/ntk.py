"""The kernels of infinitely wide networks: NNGP and NTK, in closed form.

A network of `depth` hidden layers in the NTK parameterization (every weight ~ N(0, 1)),

    h¹(z) = σ_W/√D W¹z + σ_b b¹,   hˡ⁺¹(z) = σ_W/√width Wˡ⁺¹φ(hˡ(z)) + σ_b bˡ⁺¹,   f = h^{depth+1}

becomes, as its layers widen, a Gaussian process with covariance Σ (NNGP) whose training is kernel
regression with Θ (NTK):

    Σ¹ = Θ¹ = σ_W²⟨z, z'⟩/D + σ_b²
    Σˡ⁺¹ = σ_W² E[φ(u)φ(v)] + σ_b²,   Θˡ⁺¹ = Σˡ⁺¹ + σ_W² E[φ'(u)φ'(v)] Θˡ,   (u, v) ~ N(0, Σˡ)

References: Jacot, Gabriel & Hongler (2018), "Neural tangent kernel", propositions 1 and 2; Lee et al.
(2018), "Deep neural networks as Gaussian processes"; sto-bnts section 2; be-greedy appendix A.
"""

import math
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from augury._checks import need_count, one_of
from augury._types import Array
from augury.core.keys import KeyArray
from augury.surrogates.dual_activations import DUALS, Activation, expectations
from augury.surrogates.kernels import Kernel
from augury.surrogates.networks import MLP, as_scalar, check_scale, seen
from augury.surrogates.tangent_draw import TangentDraw


class NTK(Kernel):
    """The covariance of functions of points x in the unit cube, which the network sees as z = 2x − 1.

    Fields:
        depth: hidden layers, at least 1; the output layer is linear.
        activation: "relu", "erf", "tanh" or "gelu".
        weight_std: σ_W, positive.
        bias_std: σ_b; with 0 there are no biases, and a ReLU kernel vanishes at the cube's centre.
        output: what multiplies the kernel, a variance.
        kind: "ntk" is Θ; "nngp" is Σ, the covariance of the outputs at initialization.
        output_bias: "zero" if the output's bias starts at zero and is trained all the same (be-greedy,
            appendix F.2): Σ has no σ_b² of the output layer then, and Θ does not change.
        centred: whether the network sees z = 2x − 1; without, z = x.
    """

    depth: int = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)
    weight_std: Float[Array, ""] = eqx.field(converter=as_scalar)
    bias_std: Float[Array, ""] = eqx.field(converter=as_scalar)
    output: Float[Array, ""] = eqx.field(converter=as_scalar, default=1.0)
    kind: Literal["ntk", "nngp"] = eqx.field(static=True, default="ntk")
    output_bias: Literal["random", "zero"] = eqx.field(static=True, default="random")
    centred: bool = eqx.field(static=True, default=True)

    def __check_init__(self) -> None:
        need_count("depth", self.depth)
        one_of("activation", self.activation, tuple(DUALS))
        one_of("kind", self.kind, ("ntk", "nngp"))
        one_of("output_bias", self.output_bias, ("random", "zero"))
        check_scale("weight_std", self.weight_std)
        check_scale("bias_std", self.bias_std, zero=True)
        check_scale("output", self.output)

    def __call__(self, a: Float[Array, " D"], b: Float[Array, " D"]) -> Float[Array, ""]:
        """The covariance of the function values at one pair of points."""
        return self.gram(a[None], b[None])[0, 0]

    def gram(self, a: Float[Array, "m D"], b: Float[Array, "n D"]) -> Float[Array, "m n"]:
        """All pairs at once: one matrix product, then elementwise operations."""
        sigma, theta = self.both(a, b)
        return theta if self.kind == "ntk" else sigma

    def both(
        self, a: Float[Array, "m D"], b: Float[Array, "n D"]
    ) -> tuple[Float[Array, "m n"], Float[Array, "m n"]]:
        """NNGP and NTK of all pairs, whatever the kind.

        The draws that plain training of a wide network makes have a covariance of both (be-greedy,
        appendices A and C; Lee et al. 2019).
        """
        a, b, m = seen(a, self.centred), seen(b, self.centred), len(a)
        q = self._first(jnp.concatenate([(a * a).sum(1), (b * b).sum(1)]), a)  # variances of all rows
        k = self._first(a @ b.T, a)

        def layer(state: tuple[Array, ...], _: None) -> tuple[tuple[Array, ...], None]:
            q, k, theta = state
            return (self._next(q, q, q, q)[0], *self._next(q[:m, None], q[None, m:], k, theta)), None

        # a loop: it compiles fast at any depth, and gradients of layers written out take 4 times as long
        (_, k, theta), _ = jax.lax.scan(layer, (q, k, k), None, length=self.depth)
        return self._output(k), self.output * theta

    def diagonal(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The prior variance at each point, as on the diagonal of `gram`."""
        z = seen(x, self.centred)
        q = self._first((z * z).sum(-1), z)

        def layer(state: tuple[Array, ...], _: None) -> tuple[tuple[Array, ...], None]:
            q, theta = state
            return self._next(q, q, q, theta), None

        (q, theta), _ = jax.lax.scan(layer, (q, q), None, length=self.depth)
        return self.output * theta if self.kind == "ntk" else self._output(q)

    def unit(self, dim: int) -> Float[Array, ""]:
        """k(x, x) in the corners of the cube."""
        return self.at_norm(1.0)

    def at_norm(self, norm: float) -> Float[Array, ""]:
        """k(x, x) where ‖z‖² = norm · D."""
        root = math.sqrt(norm)
        return self.diagonal(
            jnp.full(1, 0.5 + 0.5 * root if self.centred else root)
        )  # the same for every D

    def draw(self, count: int, dim: int, *, key: KeyArray) -> TangentDraw:
        """⟨∇f(x; θ), w⟩, w ~ N(0, I), of a network of width `count`.

        Its covariance, given θ, is the empirical NTK of that network, whose limit is this kernel.
        """
        network = MLP(
            self.depth, count, self.activation, self.weight_std, self.bias_std, centred=self.centred
        )
        return TangentDraw.of(network, dim, self.output, key=key)

    def _first(self, products: Array, z: Array) -> Array:
        """Σ¹ = Θ¹ from inner products."""
        return self.weight_std**2 / max(z.shape[-1], 1) * products + self.bias_std**2

    def _next(self, q_a: Array, q_b: Array, k: Array, theta: Array) -> tuple[Array, Array]:
        """Σ and Θ of the next layer."""
        V, S = expectations(self.activation, q_a, q_b, k)
        sigma = self.weight_std**2 * V + self.bias_std**2
        return sigma, sigma + self.weight_std**2 * S * theta

    def _output(self, sigma: Array) -> Array:
        """The NNGP from Σ of the output layer."""
        return self.output * (sigma - self.bias_std**2 if self.output_bias == "zero" else sigma)
