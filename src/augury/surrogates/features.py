"""Random Fourier features: a finite-dimensional stand-in for a stationary kernel.

    φ(x) = √(2·variance/M) [cos ω_1ᵀx, …, cos ω_{M/2}ᵀx, sin ω_1ᵀx, …],   E φ(a)ᵀφ(b) = k(a, b)

Cosine and sine come in pairs: then φ(x)ᵀφ(x) equals the kernel's variance exactly, at every x.
Reference: Rahimi & Recht (2007), "Random features for large-scale kernel machines".
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from augury._types import Array


class Features(eqx.Module):
    """x ↦ φ(x)."""

    frequencies: Float[Array, "pairs D"]
    amplitude: Float[Array, ""]

    @property
    def count(self) -> int:
        """M."""
        return 2 * len(self.frequencies)

    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n M"]:
        """φ(x), for one point or for several."""
        angles = x @ self.frequencies.T
        return self.amplitude * jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=-1)


class FeatureDraw(eqx.Module):
    """x ↦ φ(x)ᵀw: a function drawn from the prior, if w is standard normal."""

    features: Features
    weights: Float[Array, " M"]

    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The value at one point or at several."""
        return self.features(x) @ self.weights
