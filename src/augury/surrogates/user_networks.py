"""Networks that the user brings: a pair of functions, or an Equinox module."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from augury._errors import AuguryError, DataError, UnsupportedError
from augury._types import Array
from augury.core.keys import KeyArray, fold, generator
from augury.core.precision import computing, jit, to_numpy
from augury.surrogates.cnn import CNN
from augury.surrogates.networks import Network
from augury.surrogates.tangent import MEMORY, Params, parameter_count

IMAGES = 16  # that are scored together
LARGEST_ROWS = 4096  # that are ever scored together


class UserNetwork(Network):
    """Any differentiable network, as `draw(key) -> params` and `apply(params, z) -> scalar`.

    `apply` sees one row z = 2x − 1, every column in [−1, 1], in the shape `shape` if that is given. The
    regularizer is ‖θ − θ_0‖² in the parameters as they are: draw them with unit variance and scale them
    in `apply` (the NTK parameterization), or give an Equinox module to :class:`ModuleNetwork`.

    Args:
        draw: the parameters, a pytree of floating-point arrays, from a JAX key.
        apply: the value of the network at one row. Functions of a module are compiled once; a new
            lambda for every network is compiled every time.
        shape: the shape of one input, (H, W) or (H, W, C) for images; None for a flat row.
        last: maps the parameters to those with the last layer set to 0; None if that is not known.
    """

    draw: Callable[[Any], Params] = eqx.field(static=True)
    apply: Callable[[Params, Array], Array] = eqx.field(static=True)
    shape: tuple[int, ...] | None = eqx.field(static=True, default=None)
    last: Callable[[Params], Params] | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        for name in ("draw", "apply"):
            if not callable(getattr(self, name)):
                raise UnsupportedError(
                    f"{name} must be a function; got {getattr(self, name)!r}. "
                    "Pass the pair draw(key) -> params and apply(params, row) -> number."
                )
        if self.last is not None and not callable(self.last):
            raise UnsupportedError(
                f"last must be a function; got {self.last!r}. "
                "Pass last(params) -> params that sets the parameters of the last layer to 0."
            )

    @property
    def rows_at_once(self) -> int | None:
        """Few where it sees images, of which its layers may make many, or has many parameters."""
        return _rows_at_once(self.shape, _drawn_count(Held(self.draw)))

    @property
    def knows_last(self) -> bool:
        """Whether `last` was given."""
        return self.last is not None

    def init(self, key: KeyArray, dim: int) -> Params:
        """What `draw` returns, in float64."""
        _check_shape(self.shape, dim)
        with computing():
            return _as_parameters(self.draw(key))

    def __call__(self, params: Params, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """f(x; θ)."""
        return _by_rows(lambda row: self.apply(params, row), self.shape, x)

    def zero_last(self, params: Params) -> Params:
        """What `last` returns."""
        if self.last is None:
            raise UnsupportedError(
                "the last layer of a user's network must be known here; got a network without `last`. "
                "Pass last=, a function that sets the parameters of the last layer to 0."
            )
        return self.last(params)


class Held:
    """A value that compiled code treats as a constant; two are equal if they hold the same object."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class ModuleNetwork(Network):
    """An Equinox module, called with one row z = 2x − 1 and returning one number.

    Its arrays are drawn anew for every network: θ = scale · u with u ~ N(0, 1) and `scale` the root mean
    square of the array in `module`; arrays of zeros (biases, say) start at 0, with scale 1. The
    parameters are the u: a module in the usual parameterization is trained in the NTK parameterization.
    Numbers that are no arrays stay as they are, and dropout is left out (inference mode).
    """

    scales: Params  # one number for each array of the module
    starts: Params  # 1, or 0 for an array that starts at 0
    module: Held = eqx.field(static=True)
    shape: tuple[int, ...] | None = eqx.field(static=True, default=None)

    def __init__(self, module: Any, shape: tuple[int, ...] | None = None) -> None:
        if not callable(module):
            raise UnsupportedError(
                f"a module must be callable; got {type(module).__name__}. Give it a method __call__."
            )
        arrays = _as_parameters(eqx.filter(module, _is_array))
        sizes = jax.tree.map(lambda a: np.sqrt(np.mean(a**2)), arrays)
        self.scales = jax.tree.map(lambda s: s if s > 0.0 else np.ones(()), sizes)
        self.starts = jax.tree.map(lambda s: np.asarray(s > 0.0, dtype=np.float64), sizes)
        self.module = Held(module)
        self.shape = shape

    @property
    def rows_at_once(self) -> int | None:
        """Few where it sees images, of which its layers may make many, or has many parameters."""
        return _rows_at_once(self.shape, parameter_count(eqx.filter(self.module.value, _is_array)))

    @property
    def knows_last(self) -> bool:
        """The order of a module's layers is not known."""
        return False

    def init(self, key: KeyArray, dim: int) -> Params:
        """u ~ N(0, 1), or 0 where the module has zeros."""
        _check_shape(self.shape, dim)
        rng = generator(key)
        arrays = eqx.filter(self.module.value, _is_array)
        return jax.tree.map(lambda a, s: s * rng.standard_normal(a.shape), arrays, self.starts)

    def __call__(self, params: Params, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """f(x; θ)."""
        theta = jax.tree.map(jnp.multiply, self.scales, params)
        module = eqx.combine(theta, eqx.filter(self.module.value, _is_array, inverse=True))
        return _by_rows(eqx.nn.inference_mode(module), self.shape, x)

    def zero_last(self, params: Params) -> Params:
        """Not known."""
        raise UnsupportedError(
            "the last layer of a user's network must be known here; got an Equinox module. "
            "Use UserNetwork with last=, a function that sets the parameters of the last layer to 0."
        )


def _rows_at_once(shape: tuple[int, ...] | None, parameters: int) -> int | None:
    """So few that their gradients take no more memory than a Jacobian may; None for as many as wanted."""
    if shape is not None and len(shape) > 1:
        return IMAGES
    rows = max(1, MEMORY // (2 * 8 * parameters))
    return None if rows >= LARGEST_ROWS else rows


@functools.lru_cache(maxsize=256)
def _drawn_count(draw: Held) -> int:
    """The number of parameters; 1 if that is not known, because it cannot be drawn."""
    try:
        return max(1, parameter_count(jax.eval_shape(draw.value, jax.random.key(0))))
    except Exception:  # what is wrong is said where parameters are drawn in earnest
        return 1


def as_network(given: Any) -> Network:
    """A network, a pair `(draw, apply)` or an Equinox module as a network."""
    if isinstance(given, Network):
        return given
    if isinstance(given, tuple | list) and len(given) == 2:
        return UserNetwork(*given)
    if isinstance(given, eqx.Module):
        return ModuleNetwork(given)
    raise UnsupportedError(
        f"a network must be a pair (draw, apply), an Equinox module or a Network; got {given!r}. "
        "Pass the functions draw(key) -> params and apply(params, row) -> number."
    )


def shaped(network: Network, shape: tuple[int, ...]) -> Network:
    """The network for inputs of that shape, which one of the user's may have left open."""
    wanted = network.image if isinstance(network, CNN) else getattr(network, "shape", None)
    if wanted and len(wanted) > 1 and len(shape) > 1 and (*wanted, 1)[:3] != (*shape, 1)[:3]:
        raise DataError(
            f"images must have the shape {wanted} of the network; got images of shape {shape}. "
            "Give the network the shape of the images."
        )
    if not isinstance(network, UserNetwork | ModuleNetwork) or network.shape or len(shape) == 1:
        return network
    if isinstance(network, ModuleNetwork):
        return ModuleNetwork(network.module.value, shape)
    return replace(network, shape=shape)


def draw_params(network: Network, dim: int, key: KeyArray) -> Params:
    """Parameters drawn with `key`, for a network that gives one number for one row."""
    try:
        params = network.init(key, dim)
    except AuguryError:
        raise
    except Exception as error:
        raise UnsupportedError(
            f"draw must accept a JAX key; got {_named(error)}. "
            "Return the parameters, a pytree of floating-point arrays."
        ) from error
    try:
        with computing():
            out = jax.eval_shape(network, params, np.full(dim, 0.5))
    except AuguryError:
        raise
    except Exception as error:
        raise UnsupportedError(
            f"a network must accept one row of shape {(dim,)}; got {_named(error)}. Use "
            "jax.numpy, pass shape= if it wants images, and draw parameters for that many columns."
        ) from error
    if getattr(out, "shape", None) != ():
        got = f"shape {out.shape}" if hasattr(out, "shape") else type(out).__name__
        raise UnsupportedError(f"a network must return one number for one row; got {got}. Return out[0].")
    if not jnp.issubdtype(out.dtype, jnp.floating):
        raise UnsupportedError(
            f"a network must return a floating-point number; got {out.dtype}. "
            "Return what it computes, unrounded, and the real part of complex numbers."
        )
    return params


def _named(error: Exception) -> str:
    """An error in the middle of a sentence."""
    first = str(error).partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {first}"


def check_network(network: Network, dim: int, key: KeyArray) -> Params:
    """Parameters drawn with `key`, after trying the network and its gradient on one row."""
    params = draw_params(network, dim, key)
    with computing():
        value, gradient = to_numpy(_value_and_gradient(network, params, np.full(dim, 0.5)))
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((value, gradient))):
        raise UnsupportedError(
            f"a network and its gradient must be finite; got NaN or infinity at the centre of the space "
            f"(value {value}). Avoid roots, logarithms and divisions at 0."
        )
    if isinstance(network, UserNetwork):
        if _shapes(network.init(fold(key, 1), dim)) != _shapes(params):
            raise UnsupportedError(
                "draw must return parameters of the same structure and shapes for every key; got others "
                "for another key. Let only their values depend on the key."
            )
        if network.last is not None:
            _check_last(network.last, params)
    return params


def _shapes(params: Params) -> Any:
    return jax.tree.map(np.shape, params)


def _check_last(last: Callable[[Params], Params], params: Params) -> None:
    """Refuse what does not give parameters of the same shapes."""
    try:
        same = _shapes(last(params)) == _shapes(params)
    except Exception as error:
        raise UnsupportedError(
            f"last must accept the parameters that draw returns; got {_named(error)}. "
            "Return the same parameters with those of the last layer set to 0."
        ) from error
    if not same:
        raise UnsupportedError(
            "last must return parameters of the same structure and shapes as draw; got others. "
            "Return the same parameters with those of the last layer set to 0."
        )


@jit
def _value_and_gradient(network: Network, params: Params, row: Array) -> tuple[Array, Params]:
    return jax.value_and_grad(network.__call__)(params, row)


def _check_shape(shape: tuple[int, ...] | None, dim: int) -> None:
    if shape is not None and int(np.prod(shape)) != dim:
        raise DataError(
            f"inputs must have the shape {shape} of the network; got points with {dim} columns, "
            f"not {int(np.prod(shape))}. Use inputs of one shape, and a network with that shape."
        )


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


def _as_parameters(tree: Any) -> Params:
    leaves = jax.tree.leaves(tree)
    if not leaves:
        raise UnsupportedError("a network must have parameters; got none. Return at least one array.")
    for leaf in leaves:
        dtype = getattr(leaf, "dtype", None)
        if dtype is None or not jnp.issubdtype(dtype, jnp.floating):
            got = type(leaf).__name__ if dtype is None else f"one of {dtype}"
            raise UnsupportedError(
                f"parameters must be floating-point arrays; got {got}. "
                "Keep integers, keys and functions out of the parameters."
            )
    return jax.tree.map(lambda leaf: np.asarray(leaf, dtype=np.float64), tree)


def _by_rows(function: Callable[[Array], Array], shape: tuple[int, ...] | None, x: Array) -> Array:
    z = 2.0 * x - 1.0
    z = z if shape is None else z.reshape(*x.shape[:-1], *shape)
    for _ in range(x.ndim - 1):
        function = jax.vmap(function)
    return function(z)
