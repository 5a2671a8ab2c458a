"""Networks in the NTK parameterization: parameters of unit variance, scales in the forward pass.

    h_0 = 2x − 1,   z_l = σ_W/√fan_in · h_{l−1} W_l + σ_b b_l,   h_l = φ(z_l),   f = z_{depth+1}

so that ‖θ − θ_0‖² is the right regularizer and widths may grow. Points are rows of the unit cube.
Reference: Jacot et al. (2018), "Neural tangent kernel"; Be Greedy, section A.
"""

import itertools
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from augury._checks import check_flags, need_count, one_of
from augury._errors import UnsupportedError
from augury._types import Array
from augury.core.keys import KeyArray, generator
from augury.surrogates.dual_activations import Activation
from augury.surrogates.tangent import Dense, Layer, Layers, Params, Tangent, linearize_any

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "erf": jax.scipy.special.erf,
    "tanh": jnp.tanh,
    "gelu": lambda z: jax.nn.gelu(z, approximate=False),
}


USUAL_STD = 1.5  # σ_W


@jax.custom_jvp
def rounded_relu(z: Array, width: Float[Array, ""]) -> Array:
    """ReLU seen through noise that is uniform in ±ε: (z + ε)²/4ε from −ε to ε; at ε = 0 it is ReLU."""
    return _rounded(z, width)[0]


@rounded_relu.defjvp
def _rounded_slope(primals: tuple[Array, Array], tangents: tuple[Array, Any]) -> tuple[Array, Array]:
    value, slope = _rounded(*primals)
    return value, slope * tangents[0]  # ε is never differentiated


def _rounded(z: Array, width: Array) -> tuple[Array, Array]:
    width = jnp.maximum(width, 1e-30).astype(z.dtype)
    slope = jnp.clip(0.5 + 0.5 * (z / width), 0.0, 1.0)
    return width * slope**2 + jnp.maximum(z - width, 0.0), slope


def as_scalar(value: Any) -> Any:
    """A number as an array, so that no value compiles anew; what is none is left to `check_scale`."""
    if isinstance(value, jax.core.Tracer | bool | str | list | tuple | None):
        return value
    array = np.asarray(value)
    return array.astype(np.float64) if array.dtype.kind in "iuf" else value


def check_scale(name: str, value: Any, *, zero: bool = False) -> None:
    """Refuse what is not one positive, finite number, or 0; traced values are not looked at."""
    if isinstance(value, jax.core.Tracer):
        return
    number = isinstance(value, np.ndarray) and value.shape == ()
    if number and np.isfinite(value) and (value > 0.0 or (zero and value == 0.0)):
        return
    needed = "at least 0" if zero else "positive"
    got = value.tolist() if isinstance(value, np.ndarray) else value
    raise UnsupportedError(f"{name} must be {needed} and finite; got {got!r}. Use a number such as 1.0.")


class Network(eqx.Module):
    """A function f(x; θ) with one value, and how its parameters are drawn."""

    @property
    @abstractmethod
    def knows_last(self) -> bool:
        """Whether `zero_last` is possible."""

    @property
    def rows_at_once(self) -> int | None:
        """How many rows are best taken together, where each needs much memory; None for any number."""
        return None

    @abstractmethod
    def init(self, key: KeyArray, dim: int) -> Params:
        """Parameters θ_0 ~ init(·) for points with `dim` columns."""

    @abstractmethod
    def __call__(self, params: Params, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """f(x; θ) at one point (D,) or at the rows of (n, D)."""

    def linearize(self, params: Params, x: Float[Array, "n D"]) -> tuple[Float[Array, " n"], Tangent]:
        """The values at the rows of `x` and their derivative by the parameters."""
        return linearize_any(self, params, x)

    def rounded(self, width: Float[Array, ""]) -> "Network | None":
        """The network with kinks that are rounded over `width`, for training; None if it has none."""
        return None

    @property
    def smooth(self) -> bool:
        """Whether it is known to have no kinks: then a descent goes on, however slow, if it is steep."""
        return False

    def last_inputs(self, params: Params, x: Float[Array, "*n D"]) -> Float[Array, "*n width"]:
        """What the last layer sees of x, where that layer is known."""
        raise NotImplementedError

    @abstractmethod
    def zero_last(self, params: Params) -> Params:
        """The parameters with the last layer, weights and bias, set to 0 (STO-BNTS, Alg. 1, line 5)."""


class MLP(Network):
    """A fully connected network.

    Args:
        depth: the number of hidden layers.
        width: units of each hidden layer.
        activation: "relu", "erf", "tanh" or "gelu".
        weight_std: σ_W.
        bias_std: σ_b.
        bias: whether layers have biases; a ReLU network without them is 0 where 2x − 1 is.
        zero_output_bias: whether the bias of the output starts at 0 (Be Greedy, F) and not at N(0, 1).
        centred: whether the network sees 2x − 1; without, it sees x itself.
        rounding: the width over which ReLU's kink is rounded, as training does; None leaves it.
    """

    depth: int = eqx.field(static=True, default=2)
    width: int = eqx.field(static=True, default=256)
    activation: Activation = eqx.field(static=True, default="relu")
    weight_std: Float[Array, ""] = eqx.field(converter=as_scalar, default=USUAL_STD)
    bias_std: Float[Array, ""] = eqx.field(converter=as_scalar, default=0.05)
    bias: bool = eqx.field(static=True, default=True)
    zero_output_bias: bool = eqx.field(static=True, default=False)
    centred: bool = eqx.field(static=True, default=True)
    rounding: Float[Array, ""] | None = eqx.field(converter=as_scalar, default=None)

    @property
    def knows_last(self) -> bool:
        """Yes."""
        return True

    def __check_init__(self) -> None:
        check_dense(self)

    def rounded(self, width: Float[Array, ""]) -> "MLP | None":
        """With rounded ReLUs; None for the smooth activations."""
        return replace(self, rounding=width) if self.activation == "relu" else None

    @property
    def smooth(self) -> bool:
        """As its activation."""
        return self.activation != "relu"

    def init(self, key: KeyArray, dim: int) -> tuple[Layer, ...]:
        """Independent N(0, 1) numbers."""
        need_count("dim", dim)
        return draw_dense(self, dim, generator(key))

    def __call__(self, params: tuple[Layer, ...], x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """f(x; θ)."""
        return forward(self, params, seen(x, self.centred))

    def linearize(self, params: tuple[Layer, ...], x: Array) -> tuple[Array, Layers]:
        """The values at the rows of `x`; one forward and one backward pass."""
        values, blocks, _ = backward(self, params, seen(x, self.centred))
        return values, Layers(None, blocks)

    def last_inputs(self, params: tuple[Layer, ...], x: Array) -> Array:
        """h_depth."""
        return hidden(self, params, seen(x, self.centred))

    def zero_last(self, params: tuple[Layer, ...]) -> tuple[Layer, ...]:
        """θ with W_{depth+1} = 0 and b_{depth+1} = 0."""
        return zero_last(params)


def seen(x: Array, centred: bool) -> Array:
    """What a network sees of a point: 2x − 1, or x itself."""
    return 2.0 * x - 1.0 if centred else x


class DenseNetwork(Protocol):
    """The fields of a network with dense layers at its end."""

    depth: int
    width: int
    activation: Activation
    weight_std: Float[Array, ""]
    bias_std: Float[Array, ""]
    bias: bool
    zero_output_bias: bool
    centred: bool
    rounding: Float[Array, ""] | None


def activation(network: DenseNetwork, layer: int) -> Callable[[Array], Array]:
    """φ of that hidden layer, from 1.

    With a σ_W above the usual one, the inputs of a layer are larger by its ratio than those of the layer
    before, and kinks are rounded in proportion.
    """
    if network.rounding is None:
        return ACTIVATIONS[network.activation]
    width = network.rounding * jnp.maximum(network.weight_std / USUAL_STD, 1.0) ** layer
    return lambda z: rounded_relu(z, width)


def check_dense(network: DenseNetwork) -> None:
    """Refuse fields without a meaning."""
    need_count("depth", network.depth)
    need_count("width", network.width)
    one_of("activation", network.activation, tuple(ACTIVATIONS))
    check_scale("weight_std", network.weight_std)
    check_scale("bias_std", network.bias_std, zero=True)
    if network.rounding is not None:
        one_of("activation with rounding", network.activation, ("relu",))
        check_scale("rounding", network.rounding, zero=True)
    check_flags(bias=network.bias, zero_output_bias=network.zero_output_bias, centred=network.centred)


def draw_layer(into: int, out: int, bias: bool, rng: Generator) -> Layer:
    """Independent N(0, 1) numbers; with NumPy, since JAX's generator compiles anew for every shape."""
    return Layer(rng.standard_normal((into, out)), rng.standard_normal(out) if bias else None)


def draw_dense(network: DenseNetwork, into: int, rng: Generator) -> tuple[Layer, ...]:
    """The dense layers, from `into` inputs to one output."""
    sizes = [into, *[network.width] * network.depth, 1]
    layers = [draw_layer(a, b, network.bias, rng) for a, b in itertools.pairwise(sizes)]
    if network.bias and network.zero_output_bias:
        layers[-1] = layers[-1]._replace(bias=np.zeros(1))
    return tuple(layers)


def zero_last(params: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The layers with the last one set to 0."""
    return (*params[:-1], jax.tree.map(lambda leaf: 0.0 * leaf, params[-1]))


def affine(network: DenseNetwork, layer: Layer, h: Array) -> Array:
    """z = σ_W/√fan_in · h W + σ_b b."""
    z = network.weight_std / math.sqrt(layer.weight.shape[0]) * (h @ layer.weight)
    return z if layer.bias is None else z + network.bias_std * layer.bias


def hidden(network: DenseNetwork, layers: tuple[Layer, ...], h: Float[Array, "*n into"]) -> Array:
    """The inputs of the last of the dense layers, whose first has the inputs `h`."""
    for index, layer in enumerate(layers[:-1], start=1):
        h = activation(network, index)(affine(network, layer, h))
    return h


def forward(network: DenseNetwork, layers: tuple[Layer, ...], h: Float[Array, "*n into"]) -> Array:
    """The values of the dense layers at `h`."""
    return affine(network, layers[-1], hidden(network, layers, h))[..., 0]


def backward(
    network: DenseNetwork,
    layers: tuple[Layer, ...],
    h: Float[Array, "n into"],
    *,
    to_inputs: bool = False,
) -> tuple[Array, tuple[Dense, ...], Array | None]:
    """The values, the parts of their Jacobian, and (if asked for) their derivative by `h`.

    D_{L+1} = 1,   D_l = (σ_W/√fan_in · D_{l+1} W_{l+1}ᵀ) ∘ φ'(z_l)
    """
    inputs, curves = [h], []
    for index, layer in enumerate(layers[:-1], start=1):
        z = affine(network, layer, inputs[-1])
        value, slope = jax.jvp(activation(network, index), (z,), (jnp.ones_like(z),))
        inputs.append(value)
        curves.append(slope)
    z = affine(network, layers[-1], inputs[-1])
    D, blocks = None, []
    for index in range(len(layers) - 1, -1, -1):
        weight = layers[index].weight
        scale = network.weight_std / math.sqrt(weight.shape[0])
        bias_scale = None if layers[index].bias is None else network.bias_std
        blocks.append(Dense(inputs[index], D, jnp.asarray(scale), bias_scale))
        if index or to_inputs:
            into = weight.T if D is None else D @ weight.T
            D = scale * jnp.broadcast_to(into, inputs[index].shape)
        if index:
            D = D * curves[index - 1]
    return z[:, 0], tuple(reversed(blocks)), D if to_inputs else None


def stack(trees: Sequence[Params]) -> Params:
    """The parameters of several networks, the networks along a new first axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)
