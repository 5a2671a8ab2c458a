"""Array types shared by all layers."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # The same code runs on NumPy arrays, JAX arrays and tracers, which no static type describes;
    # the shapes beside it are for people (and for jaxtyping at run time).
    Array = Any
else:
    from jax import Array

__all__ = ["Array"]
