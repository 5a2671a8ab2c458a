"""The derivative of a network's values with respect to its parameters, and the empirical NTK.

At the rows x_1, …, x_n the Jacobian J has the rows ∇_θ f(x_i; θ). It is kept in a form that makes

    Jv (`push`),   Jᵀc (`pull`),   K = JJᵀ (`gram`, the empirical NTK)

cheap. A dense layer z = s_W A W + s_b b whose inputs are the rows of A, with D the derivatives of the
value by z, has ∂f_i/∂W = s_W A_i D_iᵀ and ∂f_i/∂b = s_b D_i: its part of K is

    (s_W² A Aᵀ + s_b²) ∘ (D Dᵀ),

O(n² · width) operations, and no n × p matrix is ever made. Other layers keep their rows of J, or, where
those would be larger than `MEMORY`, nothing: their products are computed in blocks of rows.
"""

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from augury._types import Array
from augury.core.precision import computing, is_traced, jit, to_numpy

MEMORY = 256 * 2**20  # bytes of a Jacobian, or of a block of one, that are held at a time

SMALLEST_HALF = 256  # rows up to which K is computed as a whole

Params = Any  # a pytree of floating-point arrays
Apply = Callable[[Params, Array], Array]


class Layer(NamedTuple):
    """The parameters of one layer; without biases `bias` is None."""

    weight: Float[Array, "..."]
    bias: Float[Array, " out"] | None


class Tangent(eqx.Module):
    """J, at n rows."""

    @abstractmethod
    def push(self, v: Params) -> Float[Array, " n"]:
        """Jv: the directional derivatives ⟨∇f(x_i; θ), v⟩."""

    @abstractmethod
    def pull(self, c: Float[Array, " n"]) -> Params:
        """Jᵀc = Σ_i c_i ∇f(x_i; θ)."""

    @abstractmethod
    def gram(self, other: "Tangent") -> Float[Array, "n m"]:
        """JJ'ᵀ, with the rows of `other` as columns; they have the same parameters."""

    @abstractmethod
    def diagonal(self) -> Float[Array, " n"]:
        """‖∇f(x_i; θ)‖²."""

    @abstractmethod
    def weighted(self, v: Params) -> Float[Array, " n"]:
        """Σ_j v_j (∂f(x_i; θ)/∂θ_j)²."""

    def own_gram(self) -> Float[Array, "n n"]:
        """K = JJᵀ."""
        return self.gram(self)

    def rows(self, start: int, stop: int) -> Self:
        """J at some of the rows."""
        return jax.tree.map(lambda leaf: leaf[start:stop] if leaf.ndim else leaf, self)


class Linearizable(Protocol):
    """What this module asks of a network."""

    def linearize(self, params: Params, x: Float[Array, "n D"]) -> tuple[Float[Array, " n"], Tangent]:
        """The values at the rows of `x` and their Jacobian."""


def transposed(a: Array) -> Array:
    """aᵀ as an array of its own: products that read their left side along columns are slower."""
    return jax.lax.optimization_barrier(a.T)  # type: ignore[no-untyped-call]


class Dense(Tangent):
    """The part of J of one dense layer; `slopes` is D, and None stands for the 1 of the output layer."""

    inputs: Float[Array, "n into"]
    slopes: Float[Array, "n out"] | None
    weight_scale: Float[Array, ""]
    bias_scale: Float[Array, ""] | None

    def push(self, v: Layer) -> Float[Array, " n"]:
        """Σ_out D ∘ (s_W A V + s_b b)."""
        change = self.weight_scale * (self.inputs @ v.weight)
        if self.bias_scale is not None:
            change = change + self.bias_scale * v.bias
        return change[:, 0] if self.slopes is None else jnp.sum(change * self.slopes, axis=1)

    def pull(self, c: Float[Array, " n"]) -> Layer:
        """s_W Aᵀ(c ∘ D), s_b Dᵀc."""
        weighted = c[:, None] if self.slopes is None else c[:, None] * self.slopes
        weight = self.weight_scale * (transposed(self.inputs) @ weighted)
        return Layer(weight, None if self.bias_scale is None else self.bias_scale * weighted.sum(0))

    def gram(self, other: "Dense") -> Float[Array, "n m"]:  # type: ignore[override]
        """(s_W² A A'ᵀ + s_b²) ∘ (D D'ᵀ)."""
        inner = self.weight_scale**2 * (self.inputs @ other.inputs.T)
        if self.bias_scale is not None:
            inner = inner + self.bias_scale**2
        if self.slopes is None or other.slopes is None:
            return inner
        return inner * (self.slopes @ other.slopes.T)

    def diagonal(self) -> Float[Array, " n"]:
        """The same for every row with itself."""
        inner = self.weight_scale**2 * (self.inputs**2).sum(1)
        if self.bias_scale is not None:
            inner = inner + self.bias_scale**2
        return inner if self.slopes is None else inner * (self.slopes**2).sum(1)

    def weighted(self, v: Layer) -> Float[Array, " n"]:
        """Σ_out D² ∘ (s_W² A² V + s_b² v)."""
        inner = self.weight_scale**2 * (self.inputs**2 @ v.weight)
        if self.bias_scale is not None:
            inner = inner + self.bias_scale**2 * v.bias
        return inner[:, 0] if self.slopes is None else jnp.sum(inner * self.slopes**2, axis=1)


class Rows(Tangent):
    """J itself: for every array of the parameters one with n rows in front."""

    jacobian: Params

    def push(self, v: Params) -> Float[Array, " n"]:
        """Jv."""
        parts = jax.tree.map(lambda j, a: _flat(j) @ a.ravel(), self.jacobian, v)
        return _total(parts)

    def pull(self, c: Float[Array, " n"]) -> Params:
        """Jᵀc."""
        return jax.tree.map(lambda j: jnp.tensordot(c, j, axes=1), self.jacobian)

    def gram(self, other: "Rows | Blockwise") -> Float[Array, "n m"]:  # type: ignore[override]
        """JJ'ᵀ."""
        if isinstance(other, Blockwise):
            return other.gram(self).T
        return _total(jax.tree.map(lambda a, b: _flat(a) @ _flat(b).T, self.jacobian, other.jacobian))

    def diagonal(self) -> Float[Array, " n"]:
        """The squared norms of the rows."""
        return _total(jax.tree.map(lambda j: jnp.sum(_flat(j) ** 2, axis=1), self.jacobian))

    def weighted(self, v: Params) -> Float[Array, " n"]:
        """The squares of the rows, times v."""
        return _total(jax.tree.map(lambda j, a: _flat(j) ** 2 @ a.ravel(), self.jacobian, v))


class Layers(Tangent):
    """The sum over layers: what stands in front of the dense ones has its rows of J."""

    front: Rows | None
    dense: tuple[Dense, ...]

    def push(self, v: tuple[Layer, ...]) -> Float[Array, " n"]:
        """Jv."""
        first = len(v) - len(self.dense)
        parts = [block.push(layer) for block, layer in zip(self.dense, v[first:], strict=True)]
        return _total(parts if self.front is None else [self.front.push(v[:first]), *parts])

    def pull(self, c: Float[Array, " n"]) -> tuple[Layer, ...]:
        """Jᵀc."""
        front: tuple[Layer, ...] = () if self.front is None else self.front.pull(c)
        return (*front, *(block.pull(c) for block in self.dense))

    def gram(self, other: "Layers | Blockwise") -> Float[Array, "n m"]:  # type: ignore[override]
        """Σ_layers of the layers' parts of K."""
        if isinstance(other, Blockwise):
            return other.gram(self).T
        parts = [a.gram(b) for a, b in zip(self.dense, other.dense, strict=True)]
        if self.front is not None and other.front is not None:
            parts.append(self.front.gram(other.front))
        return _total(parts)

    def own_gram(self, halvings: int = 2) -> Float[Array, "n n"]:
        """K; of what is beside the diagonal one half is the transpose of the other."""
        n = len(self.dense[0].inputs)
        if n <= SMALLEST_HALF or halvings == 0:
            return self.gram(self)
        first, second = self.rows(0, n // 2), self.rows(n // 2, n)
        corners = first.own_gram(halvings - 1), second.own_gram(halvings - 1)
        beside = second.gram(first)
        return jnp.block([[corners[0], beside.T], [beside, corners[1]]])

    def diagonal(self) -> Float[Array, " n"]:
        """Σ_layers of the layers' parts."""
        parts = [block.diagonal() for block in self.dense]
        return _total(parts if self.front is None else [self.front.diagonal(), *parts])

    def weighted(self, v: tuple[Layer, ...]) -> Float[Array, " n"]:
        """Σ_layers of the layers' parts."""
        first = len(v) - len(self.dense)
        parts = [block.weighted(layer) for block, layer in zip(self.dense, v[first:], strict=True)]
        return _total(parts if self.front is None else [self.front.weighted(v[:first]), *parts])


class Blockwise(Tangent):
    """J of any network whose rows would fill more than `MEMORY`: none is kept."""

    apply: Apply  # a module, whose arrays are part of this pytree; its bound method would not be
    params: Params
    x: Float[Array, "n D"]

    def push(self, v: Params) -> Float[Array, " n"]:
        """Jv, by forward differentiation."""
        return jax.jvp(self._values, (self.params,), (v,))[1]

    def pull(self, c: Float[Array, " n"]) -> Params:
        """Jᵀc, by reverse differentiation."""
        return jax.vjp(self._values, self.params)[1](c)[0]

    def gram(self, other: Tangent) -> Float[Array, "n m"]:
        """JJ'ᵀ, a block of rows at a time on either side; one at a time of a J' that is kept."""
        if not isinstance(other, Blockwise):
            like = other.diagonal()
            return jax.lax.map(lambda c: self.push(other.pull(c)), jnp.eye(len(like), dtype=like.dtype)).T
        left, right = self._blocks(self.x), self._blocks(other.x)

        def row(a: Array) -> Array:
            rows = self._rows(self.params, a)
            return jax.lax.map(lambda b: rows.gram(self._rows(other.params, b)), right)

        tiles = jax.lax.map(row, left)  # (left blocks, right blocks, size, size)
        full = tiles.transpose(0, 2, 1, 3).reshape(left.shape[0] * left.shape[1], -1)
        return full[: len(self.x), : len(other.x)]

    def diagonal(self) -> Float[Array, " n"]:
        """‖∇f(x_i; θ)‖²."""
        blocks = self._blocks(self.x)
        return jax.lax.map(lambda a: self._rows(self.params, a).diagonal(), blocks).ravel()[: len(self.x)]

    def weighted(self, v: Params) -> Float[Array, " n"]:
        """Σ_j v_j (∂f(x_i; θ)/∂θ_j)²."""
        blocks = self._blocks(self.x)
        parts = jax.lax.map(lambda a: self._rows(self.params, a).weighted(v), blocks)
        return parts.ravel()[: len(self.x)]

    def rows(self, start: int, stop: int) -> "Blockwise":
        """J at some of the rows."""
        return Blockwise(self.apply, self.params, self.x[start:stop])

    def _values(self, params: Params) -> Array:
        return jax.vmap(self.apply, (None, 0))(params, self.x)

    def _rows(self, params: Params, x: Array) -> Rows:
        return Rows(jax.vmap(jax.grad(self.apply), (None, 0))(params, x))

    def _blocks(self, x: Array) -> Array:
        size = int(np.clip(MEMORY // (2 * _bytes(self.params)), 1, len(x)))
        count = -(-len(x) // size)
        return jnp.pad(x, ((0, count * size - len(x)), (0, 0)), mode="edge").reshape(count, size, -1)


def linearize_any(apply: Apply, params: Params, x: Float[Array, "n D"]) -> tuple[Array, Tangent]:
    """The values of any differentiable network at the rows of `x`, and their Jacobian."""
    if not fits_memory(len(x), params):
        return jax.vmap(apply, (None, 0))(params, x), Blockwise(apply, params, x)
    values, jacobian = jax.vmap(jax.value_and_grad(apply), (None, 0))(params, x)
    return values, Rows(jacobian)


def fits_memory(rows: int, params: Params) -> bool:
    """Whether so many rows of J may be held."""
    return rows * _bytes(params) <= MEMORY


def cast(tree: Any, dtype: Any) -> Any:
    """`tree` with its floating-point arrays in that precision."""

    def one(leaf: Any) -> Any:
        return leaf.astype(dtype) if eqx.is_inexact_array(leaf) or _is_float(leaf) else leaf

    return jax.tree.map(one, tree)


def parameter_count(params: Params) -> int:
    """p, the number of parameters of one network."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(params))


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f"


def _bytes(params: Params) -> int:
    return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(params))


def _flat(rows: Array) -> Array:
    return rows.reshape(len(rows), -1)


def _total(parts: Any) -> Array:
    return functools.reduce(jnp.add, jax.tree.leaves(parts))


def _anywhere(function: Callable[..., Any]) -> Callable[..., Any]:
    """Plain JAX on tracers; compiled, in a context of its own and with NumPy results elsewhere."""
    program = jit(function)

    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        if is_traced(args):
            return function(*args)
        with computing():
            return to_numpy(program(*args))

    return wrapper


def _tangent_of(network: Linearizable, params: Params, x: Array) -> Tangent:
    dtype = jax.tree.leaves(params)[0].dtype
    return cast(network, dtype).linearize(params, jnp.asarray(x, dtype))[1]


@_anywhere
def ntk(network: Linearizable, params: Params, a: Array, b: Array | None = None) -> Array:
    """K(a, b) = ⟨∇f(a; θ), ∇f(b; θ)⟩ of rows of `a` and of `b` (or `a`), in the parameters' precision."""
    left = _tangent_of(network, params, a)
    return left.gram(left if b is None else _tangent_of(network, params, b))
