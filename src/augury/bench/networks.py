"""Small classifiers of images, and their training, in JAX alone."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from augury._types import Array
from augury.core.precision import computing

Parameters = dict[str, Any]
Network = Callable[[Parameters, Array], Array]  # logits (n, classes) of inputs (n, ...); hashable

CLASSES = 10
# Batches are summed from chunks of this many rows, and widths are padded to one maximum, so that not
# every batch size and width is a program of its own to compile.
_CHUNK = 64
_PREDICT = 500


# Networks


@dataclass(frozen=True)
class Cnn:
    """Convolution (zero-padded, stride 1), max pooling, dense layer, output layer, of grey images.

    Units whose weights, in and out, are zero get zero gradients: they stay, and count as absent.
    """

    kernel: int = 3
    pool: int = 3
    relu: bool = True

    def __call__(self, parameters: Parameters, images: Array) -> Array:
        """The logits (n, 10) of images (n, h, w)."""
        activation = jax.nn.relu if self.relu else jnp.tanh
        x = _patches(images, self.kernel) @ parameters["convolution"] + parameters["convolution bias"]
        x = activation(_max_pool(x, self.pool))  # as after the activation, which is monotone
        x = x.reshape(len(images), -1)
        x = activation(x @ parameters["dense"] + parameters["dense bias"])
        return x @ parameters["output"] + parameters["output bias"]

    def initial(
        self, side: int, channels: int, hidden: int, rng: Generator, padded: tuple[int, int] | None = None
    ) -> Parameters:
        """Weights uniform in ±1/√(inputs) and zero biases, for images of side × side pixels.

        With `padded` = (channels, hidden) there are so many units, of which the further ones are zero.
        """
        cells = (side // self.pool) ** 2
        all_channels, all_hidden = padded or (channels, hidden)
        convolution = np.zeros((self.kernel**2, all_channels), np.float32)
        dense = np.zeros((cells, all_channels, all_hidden), np.float32)
        output = np.zeros((all_hidden, CLASSES), np.float32)
        convolution[:, :channels] = _uniform(rng, self.kernel**2, (self.kernel**2, channels))
        dense[:, :channels, :hidden] = _uniform(rng, cells * channels, (cells, channels, hidden))
        output[:hidden] = _uniform(rng, hidden, (hidden, CLASSES))
        return {
            "convolution": convolution,
            "convolution bias": np.zeros(all_channels, np.float32),
            "dense": dense.reshape(-1, all_hidden),
            "dense bias": np.zeros(all_hidden, np.float32),
            "output": output,
            "output bias": np.zeros(CLASSES, np.float32),
        }


@dataclass(frozen=True)
class Mlp:
    """One hidden layer of tanh units."""

    def __call__(self, parameters: Parameters, x: Array) -> Array:
        """The logits (n, classes) of inputs (n, d)."""
        hidden = jnp.tanh(x @ parameters["hidden"] + parameters["hidden bias"])
        return hidden @ parameters["output"] + parameters["output bias"]

    def initial(self, inputs: int, hidden: int, rng: Generator, classes: int = CLASSES) -> Parameters:
        """Weights uniform in ±1/√(inputs) and zero biases, in float64."""
        return {
            "hidden": _uniform(rng, inputs, (inputs, hidden)),
            "hidden bias": np.zeros(hidden),
            "output": _uniform(rng, hidden, (hidden, classes)),
            "output bias": np.zeros(classes),
        }


def _uniform(rng: Generator, inputs: int, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    return rng.uniform(-1, 1, shape) / np.sqrt(inputs)


def _patches(images: Array, kernel: int) -> Array:
    """The kernel × kernel neighbours (n, h, w, kernel²) of every pixel: a convolution is a product."""
    _, height, width = images.shape
    before = (kernel - 1) // 2
    margin = (before, kernel - 1 - before)
    wide = jnp.pad(images, ((0, 0), margin, margin))
    shifts = [wide[:, i : i + height, j : j + width] for i in range(kernel) for j in range(kernel)]
    return jnp.stack(shifts, axis=-1)


def _max_pool(x: Array, size: int) -> Array:
    """The largest of each size × size square; an incomplete one at the border is left out."""
    n, height, width, channels = x.shape
    rows, columns = height // size, width // size
    whole = x[:, : rows * size, : columns * size]
    return whole.reshape(n, rows, size, columns, size, channels).max(axis=(2, 4))


# Training


class Optimizer(NamedTuple):
    """Adam and RMSprop as one rule: with moments m and v of the gradient, θ -= rate · m / (√v + ε).

    `decay` times the weights is added to the gradient.
    """

    rate: float
    decay: float
    beta1: float
    beta2: float
    corrected: bool  # whether m and v are divided by 1 - β^t


class Schedule(NamedTuple):
    """How a network is trained."""

    optimizer: Optimizer
    batch: int
    epochs: int


def adam(rate: float, decay: float = 0.0) -> Optimizer:
    """Adam with its usual constants."""
    return Optimizer(rate, decay, 0.9, 0.999, True)


def rmsprop(rate: float, decay: float = 0.0) -> Optimizer:
    """RMSprop with the averaging constant 0.99."""
    return Optimizer(rate, decay, 0.0, 0.99, False)


def cross_entropy(logits: Array, labels: Array, weights: Array) -> Array:
    """The weighted sum of -log p(label)."""
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)[:, 0]
    return -(weights * chosen).sum()


@partial(jax.jit, static_argnums=0)
def _gradient(network: Network, parameters: Parameters, x: Array, y: Array, weights: Array) -> Any:
    return jax.value_and_grad(lambda p: cross_entropy(network(p, x), y, weights))(parameters)


@jax.jit
def _update(
    parameters: Parameters, gradient: Parameters, moments: Any, t: Array, optimizer: Optimizer
) -> Any:
    rate, decay, beta1, beta2, corrected = optimizer
    g = jax.tree.map(lambda a, p: a + decay * p, gradient, parameters)
    m = jax.tree.map(lambda old, a: beta1 * old + (1 - beta1) * a, moments[0], g)
    v = jax.tree.map(lambda old, a: beta2 * old + (1 - beta2) * a * a, moments[1], g)
    first = jnp.where(corrected, 1 - beta1**t, 1)
    second = jnp.where(corrected, 1 - beta2**t, 1)
    moved = jax.tree.map(
        lambda p, a, b: (p - rate * (a / first) / (jnp.sqrt(b / second) + 1e-8)).astype(p.dtype),
        parameters,
        m,
        v,
    )
    return moved, (m, v)


@partial(jax.jit, static_argnums=0)
def _logits(network: Network, parameters: Parameters, x: Array) -> Array:
    return network(parameters, x)


def train(
    network: Network,
    parameters: Parameters,
    x: npt.NDArray[Any],
    y: npt.NDArray[Any],
    schedule: Schedule,
    rng: Generator,
) -> tuple[Parameters, list[float]]:
    """The trained parameters, and the mean loss of each epoch; in the precision of the parameters."""
    dtype = next(iter(parameters.values())).dtype
    rule: Any = jax.tree.map(
        lambda a: a if isinstance(a, bool) else np.asarray(a, dtype), schedule.optimizer
    )
    zeros = {name: np.zeros_like(a) for name, a in parameters.items()}
    moments: Any = (zeros, zeros)
    losses, t = [], 0
    with computing():
        for _ in range(schedule.epochs):
            total = 0.0
            for rows in _batches(len(x), schedule.batch, rng):
                loss, gradient = _batch_gradient(network, parameters, x, y, rows, dtype)
                t += 1
                step = np.asarray(t, dtype)
                parameters, moments = _update(parameters, gradient, moments, step, rule)
                total += loss * len(rows)
            losses.append(total / len(x))
        return {name: np.asarray(a) for name, a in parameters.items()}, losses


def predict(network: Network, parameters: Parameters, x: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The logits (n, classes) of inputs (n, ...)."""
    dtype = next(iter(parameters.values())).dtype
    with computing():
        parts = [
            np.asarray(_logits(network, parameters, _fill(x[start : start + _PREDICT], _PREDICT, dtype)))
            for start in range(0, len(x), _PREDICT)
        ]
    return np.concatenate(parts)[: len(x)].astype(np.float64)


def _batches(n: int, size: int, rng: Generator) -> Iterator[npt.NDArray[np.int64]]:
    order = rng.permutation(n)
    for start in range(0, n, size):
        yield order[start : start + size]


def _batch_gradient(
    network: Network, parameters: Parameters, x: Any, y: Any, rows: npt.NDArray[np.int64], dtype: Any
) -> tuple[float, Parameters]:
    """The mean loss of a batch and its gradient, summed over chunks."""
    loss = 0.0
    gradient = {name: np.zeros_like(a) for name, a in parameters.items()}
    for start in range(0, len(rows), _CHUNK):
        chunk = rows[start : start + _CHUNK]
        weights = _fill(np.full(len(chunk), 1 / len(rows)), _CHUNK, dtype)
        part, g = _gradient(
            network,
            parameters,
            _fill(x[chunk], _CHUNK, dtype),
            _fill(y[chunk], _CHUNK, np.int32),
            weights,
        )
        loss += float(part)
        gradient = jax.tree.map(jnp.add, gradient, g)
    return loss, gradient


def _fill(rows: npt.NDArray[Any], length: int, dtype: Any) -> npt.NDArray[Any]:
    """Rows, with zero rows after them up to the length."""
    full = np.zeros((length, *rows.shape[1:]), dtype)
    full[: len(rows)] = rows
    return full
