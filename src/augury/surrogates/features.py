"""Random Fourier features: a finite-dimensional stand-in for a stationary kernel.

    φ(x) = √(2·variance/M) [cos ω_1ᵀx, …, cos ω_{M/2}ᵀx, sin ω_1ᵀx, …],   E φ(a)ᵀφ(b) = k(a, b)

Cosine and sine come in pairs: then φ(x)ᵀφ(x) equals the kernel's variance exactly, at every x.
Reference: Rahimi & Recht (2007), "Random features for large-scale kernel machines".
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from augury._types import Array
from augury.surrogates.kernels import Kernel


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


def draw_features(kernel: Kernel, count: int, rng: Generator) -> Features:
    """`count` random features of the kernel (an even number).

    Drawn with NumPy: JAX's generator, compiled for every shape, would cost seconds at the first use.
    """
    amplitude = np.sqrt(2.0 * np.asarray(kernel.variance) / count)
    return Features(kernel.frequencies(count // 2, rng), amplitude)
