"""Convolutional networks for images, in the NTK parameterization."""

import itertools
import math
from dataclasses import replace
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from augury._checks import check_count, need_count, one_of
from augury._errors import DataError, UnsupportedError
from augury._types import Array
from augury.core.keys import KeyArray, generator
from augury.surrogates.dual_activations import Activation
from augury.surrogates.networks import (
    Network,
    activation,
    as_scalar,
    backward,
    check_dense,
    draw_dense,
    draw_layer,
    forward,
    hidden,
    seen,
    zero_last,
)
from augury.surrogates.tangent import Layer, Layers, Rows, Tangent, fits_memory, linearize_any

CACHED = 2**16  # numbers of a layer's output that are computed together in scoring
FEWEST, MOST = 64, 512  # images of which that may be; with fewer, reading the dense weights takes longest


class CNN(Network):
    """Convolutions with pooling, then dense layers, for images.

    Points are flattened images: rows with height · width · channels columns, the channels innermost.
    Convolutions keep the size (zero padding, stride 1); pooling leaves out what remains at the right
    and lower edge. What is pooled are the outputs of the activation. The defaults are the network of
    STO-BNTS, F.4.

    Args:
        image: (height, width, channels) of one image.
        channels: output channels of each convolution.
        kernel: side of the convolutions' windows, an odd number.
        pool: side of the pooling windows; 1 pools nothing.
        stride: from one window to the next; None is `pool`, windows side by side.
        pooling: "max" or "average".
        depth: the number of hidden dense layers.
        width: units of each hidden dense layer.
        activation: "relu", "erf", "tanh" or "gelu".
        weight_std: σ_W.
        bias_std: σ_b.
        bias: whether layers have biases.
        zero_output_bias: whether the bias of the output starts at 0.
        centred: whether the network sees 2x − 1; without, it sees x itself.
        rounding: the width over which ReLU's kink is rounded, as training does; None leaves it.
    """

    image: tuple[int, int, int] = eqx.field(static=True)
    channels: tuple[int, ...] = eqx.field(static=True, default=(64,))
    kernel: int = eqx.field(static=True, default=3)
    pool: int = eqx.field(static=True, default=3)
    pooling: Literal["max", "average"] = eqx.field(static=True, default="max")
    depth: int = eqx.field(static=True, default=1)
    width: int = eqx.field(static=True, default=64)
    activation: Activation = eqx.field(static=True, default="relu")
    weight_std: Float[Array, ""] = eqx.field(converter=as_scalar, default=1.5)
    bias_std: Float[Array, ""] = eqx.field(converter=as_scalar, default=0.05)
    bias: bool = eqx.field(static=True, default=True)
    zero_output_bias: bool = eqx.field(static=True, default=False)
    centred: bool = eqx.field(static=True, default=True)
    stride: int | None = eqx.field(static=True, default=None)
    rounding: Float[Array, ""] | None = eqx.field(converter=as_scalar, default=None)

    @property
    def knows_last(self) -> bool:
        """Yes."""
        return True

    @property
    def rows_at_once(self) -> int:
        """As many as leave the layers in the processor's cache, within limits; a power of two."""
        widest = max(
            np.prod(side) * count for side, count in zip(self._sides()[1:], self.channels, strict=True)
        )
        return 1 << int(np.clip(CACHED // widest, FEWEST, MOST)).bit_length() - 1

    def __check_init__(self) -> None:
        check_dense(self)
        need_count("kernel", self.kernel)
        need_count("pool", self.pool)
        check_count("stride", self.stride)
        if not isinstance(self.channels, tuple) or not self.channels:
            raise UnsupportedError(
                f"channels must be a tuple with one number per convolution; got {self.channels!r}. "
                "Use (64,) for one convolution."
            )
        for count in self.channels:
            need_count("channels", count)
        if not isinstance(self.image, tuple) or len(self.image) != 3:
            raise UnsupportedError(
                f"image must be (height, width, channels); got {self.image!r}. "
                "Use (28, 28, 1) for grey images of 28 × 28 pixels."
            )
        for side in self.image:
            need_count("image", side)
        if self.kernel % 2 == 0:
            raise UnsupportedError(f"kernel must be odd; got {self.kernel}. Use 3 or 5.")
        one_of("pooling", self.pooling, ("max", "average"))
        if min(self._sides()[-1]) < 1:
            raise UnsupportedError(
                f"image must be at least as large as the pooling; got {self.image} pooled "
                f"{len(self.channels)} times by {self.pool}. Use a smaller pool or fewer convolutions."
            )

    def rounded(self, width: Float[Array, ""]) -> "CNN | None":
        """With rounded ReLUs; None for the smooth activations."""
        return replace(self, rounding=width) if self.activation == "relu" else None

    @property
    def smooth(self) -> bool:
        """As its activation and its pooling."""
        return self.activation != "relu" and (self.pooling == "average" or self.pool == 1)

    def _sides(self) -> list[tuple[int, int]]:
        """Height and width before the first convolution and after each pooling."""
        sides = [self.image[:2]]
        for _ in self.channels:
            height, width = ((side - self.pool) // self._stride + 1 for side in sides[-1])
            sides.append((height, width))
        return sides

    @property
    def _stride(self) -> int:
        return self.stride or self.pool

    def init(self, key: KeyArray, dim: int) -> tuple[Layer, ...]:
        """Independent N(0, 1) numbers."""
        if dim != np.prod(self.image):
            raise DataError(
                f"images must have the shape {self.image} of the network; got points with {dim} columns, "
                f"not {np.prod(self.image)}. Use images of one shape, and a CNN with that shape."
            )
        rng = generator(key)
        counts = [self.image[2], *self.channels]
        front = [
            draw_layer(self.kernel**2 * into, out, self.bias, rng)
            for into, out in itertools.pairwise(counts)
        ]
        cells = int(np.prod(self._sides()[-1])) * self.channels[-1]
        return (*front, *draw_dense(self, cells, rng))

    def __call__(self, params: tuple[Layer, ...], x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """f(x; θ)."""
        h = self._convolve(params[: len(self.channels)], x)
        return forward(self, params[len(self.channels) :], h)

    def linearize(self, params: tuple[Layer, ...], x: Array) -> tuple[Array, Tangent]:
        """The values at the rows of `x`; dense layers as in an MLP, the rows of J for convolutions."""
        front, dense = params[: len(self.channels)], params[len(self.channels) :]
        if not fits_memory(len(x), front):
            return linearize_any(self, params, x)
        values, blocks, back = backward(self, dense, self._convolve(front, x), to_inputs=True)

        def gradient(row: Array, slope: Array) -> tuple[Layer, ...]:
            return jax.vjp(lambda p: self._convolve(p, row), front)[1](slope)[0]

        return values, Layers(Rows(jax.vmap(gradient)(x, back)), blocks)

    def _convolve(self, layers: tuple[Layer, ...], x: Float[Array, "*n D"]) -> Float[Array, "*n cells"]:
        """The inputs of the first dense layer."""
        lead = x.shape[:-1]
        h = seen(x, self.centred).reshape(*lead, *self.image)
        for layer, sides in zip(layers, self._sides()[1:], strict=True):
            h = self._pooled(layer, self._regions(h, sides))
        return h.reshape(*lead, -1)

    def _regions(self, h: Float[Array, "*n H W C"], sides: tuple[int, int]) -> Array:
        """All that the kernel sees within each pooling window, (*n, rows, columns, side² · C)."""
        margin, side = self.kernel // 2, self.pool + self.kernel - 1
        padded = jnp.pad(h, [(0, 0)] * (h.ndim - 3) + [(margin, margin)] * 2 + [(0, 0)])

        def at(i: int, j: int) -> Array:
            down = slice(i, i + (sides[0] - 1) * self._stride + 1, self._stride)
            right = slice(j, j + (sides[1] - 1) * self._stride + 1, self._stride)
            return padded[..., down, right, :]

        return jnp.concatenate([at(i, j) for i in range(side) for j in range(side)], axis=-1)

    def _pooled(self, layer: Layer, regions: Array) -> Array:
        """Convolution, activation and pooling.

        A maximum is taken before the activation where that is the same (a monotone one) and cheaper.
        One place of the pooling windows after the other, each a product with the kernel moved to that
        place: the output of the whole convolution, larger than anything else here, is never made.
        """
        side, out = self.pool + self.kernel - 1, layer.weight.shape[1]
        moved = np.zeros((self.pool**2, side, side, self.kernel**2))
        for i, j in np.ndindex(self.pool, self.pool):
            for a, b in np.ndindex(self.kernel, self.kernel):
                moved[i * self.pool + j, i + a, j + b, a * self.kernel + b] = 1.0
        scale = self.weight_std / math.sqrt(layer.weight.shape[0])
        kernel = scale * layer.weight.reshape(self.kernel**2, -1, out)
        kernels = jnp.einsum("pijk,kco->pijco", jnp.asarray(moved, kernel.dtype), kernel)
        shift = 0.0 if layer.bias is None else self.bias_std * layer.bias
        phi = activation(self, 1)
        late = self.pooling == "max" and self.activation != "gelu"  # which is not monotone

        def place(pooled: Array, kernel: Array) -> tuple[Array, None]:
            z = regions @ kernel + shift
            h = z if late else phi(z)
            return jnp.maximum(pooled, h) if self.pooling == "max" else pooled + h / self.pool**2, None

        empty = -jnp.inf if self.pooling == "max" else 0.0
        start = jnp.full((*regions.shape[:-1], out), empty, regions.dtype)
        pooled, _ = jax.lax.scan(place, start, kernels.reshape(self.pool**2, -1, out))
        return phi(pooled) if late else pooled

    def last_inputs(self, params: tuple[Layer, ...], x: Array) -> Array:
        """The outputs of the last hidden layer."""
        h = self._convolve(params[: len(self.channels)], x)
        return hidden(self, params[len(self.channels) :], h)

    def zero_last(self, params: tuple[Layer, ...]) -> tuple[Layer, ...]:
        """θ with the output layer set to 0."""
        return zero_last(params)


def cnn_for(shape: tuple[int, ...]) -> CNN | None:
    """The default network for images of that shape; None for vectors, and images too small to pool.

    It is that of STO-BNTS, with more convolutions where the sides would still be longer than 12 after
    one: the first dense layer would have millions of weights.
    """
    if len(shape) == 1 or min(shape[:2]) < 3:
        return None
    height, width, channels = (*shape, 1)[:3]
    count = 1
    while max(height, width) // 3**count > 12 and min(height, width) // 3 ** (count + 1) > 0:
        count += 1
    return CNN((height, width, channels), channels=(64,) * count)
