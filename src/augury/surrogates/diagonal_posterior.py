"""The tangent posterior of papers that keep only the diagonal of U = λI + Σ g gᵀ.

    σ²(x) = λ Σ_j g_j(x)² / U_jj,   f̃(x) = h(x; θ) + ⟨g(x), ξ⟩,   ξ_j ~ N(0, λ/U_jj)

An approximation, which is here to compare with: it forgets that features go together, and its variance
falls faster than that of the exact posterior. References: Zhou, Li & Gu (2020); Zhang et al. (2021).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from augury._types import Array
from augury.core.data import bucket, pad
from augury.core.keys import KeyArray, generator
from augury.core.precision import computing, jit, public, to_numpy
from augury.surrogates.base import StandardizedPosterior
from augury.surrogates.networks import Network
from augury.surrogates.tangent import Params
from augury.surrogates.tangent_draw import standard_normal
from augury.surrogates.tangent_posterior import TangentModel, TangentPath


class DiagonalPosterior(TangentModel, StandardizedPosterior):
    """Mean √output·h(x; centre), features at `params`; all in standardized units but for the results."""

    U: Params  # its diagonal, in the shape of the parameters; λ is noise/output
    x: Float[Array, "capacity D"]
    mask: Bool[Array, " capacity"]

    @public
    def mean(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """μ(x) = √output·h(x; θ_t)."""
        return self.shift + self.scale * jnp.sqrt(self.output) * self.network(self.centre, x)

    @public
    def var(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """σ²(x) = noise Σ_j g_j(x)² / U_jj."""
        rows = x if x.ndim == 2 else x[None]
        tangent = self.network.linearize(self.params, rows)[1]
        var = self.scale**2 * self.noise * tangent.weighted(jax.tree.map(lambda u: 1.0 / u, self.U))
        return var if x.ndim == 2 else var[0]

    def sample(self, *, key: KeyArray, scale: float = 1.0) -> TangentPath:
        """One vector ξ, hence a function."""
        normal = standard_normal(self.params, generator(key))
        size = scale * float(np.sqrt(self.noise))
        weights = jax.tree.map(lambda z, u: size * z / np.sqrt(u), normal, self.U)
        return TangentPath(**self.model(), weights=weights)

    def condition(self, xs: np.ndarray, ys: np.ndarray | None = None) -> "DiagonalPosterior":
        """U + g∘g for every new point; the mean stays, whatever the values are."""
        xs, _ = self.new_observations(xs, ys)
        if len(xs) == 0:
            return self
        with computing():
            U = to_numpy(_accumulate(self.network, self.params, self.U, xs))
        seen = np.concatenate([np.asarray(self.x)[np.asarray(self.mask)], xs])
        capacity = bucket(len(seen))
        changed = U, pad(seen, capacity), np.arange(capacity) < len(seen)
        return eqx.tree_at(lambda p: (p.U, p.x, p.mask), self, changed)

    def information_gain(self) -> float:
        """½ log det(U/λ)."""
        lam = float(self.noise / self.output)
        return float(sum(0.5 * np.log(np.asarray(u) / lam).sum() for u in jax.tree.leaves(self.U)))


def diagonal(
    network: Network, params: Params, output: Any, noise: Any, shift: Any, scale: Any, *, dim: int
) -> DiagonalPosterior:
    """The prior, U = λI."""
    U = jax.tree.map(lambda leaf: np.full(np.shape(leaf), float(noise / output)), params)
    room = bucket(0)
    return DiagonalPosterior(
        network=network, params=params, centre=params, output=output, noise=noise, U=U,
        x=np.zeros((room, dim)), mask=np.zeros(room, dtype=bool), shift=shift, scale=scale,
    )  # fmt: skip


@jit
def _accumulate(network: Network, params: Params, U: Params, xs: Array) -> Params:
    def add(U: Params, x: Array) -> tuple[Params, None]:
        g = jax.grad(lambda p: network(p, x))(params)
        return jax.tree.map(lambda u, slope: u + slope**2, U, g), None

    return jax.lax.scan(add, U, xs)[0]
