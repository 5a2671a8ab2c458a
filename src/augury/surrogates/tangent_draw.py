"""Functions that are linear in the parameters of a network: ⟨∇f(x; θ), w⟩."""

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from augury._types import Array
from augury.core.keys import KeyArray, fold, generator
from augury.surrogates.networks import Network
from augury.surrogates.tangent import Params


class TangentDraw(eqx.Module):
    """x ↦ scale · ⟨∇f(x; θ), w⟩: with w ~ N(0, I) a draw from the process with the empirical NTK."""

    network: Network
    params: Params
    weights: Params
    scale: Float[Array, ""]

    @classmethod
    def of(cls, network: Network, dim: int, variance: Array, *, key: KeyArray) -> "TangentDraw":
        """A draw whose kernel is `variance` times the empirical NTK at parameters drawn as well."""
        params = network.init(fold(key, 2), dim)
        return cls(network, params, standard_normal(params, generator(key)), np.sqrt(variance))

    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The value at one point or at several, by forward differentiation."""
        slope = jax.jvp(lambda params: self.network(params, x), (self.params,), (self.weights,))[1]
        return self.scale * slope


def standard_normal(params: Params, rng: Generator) -> Params:
    """Independent N(0, 1) numbers in the shape of `params`."""
    return jax.tree.map(lambda leaf: rng.standard_normal(np.shape(leaf)), params)
