"""Sensitive samples: inputs whose predicted class betrays that a model's weights were changed."""

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from augury._types import Array
from augury.bench import datasets
from augury.bench.kept import kept
from augury.bench.networks import Mlp, Network, Parameters, Schedule, adam, train
from augury.bench.problem import Factory, Params, Problem
from augury.core.precision import computing
from augury.space import Float, Space

FloatArray = npt.NDArray[np.float64]

# Brings the accuracy from 93.0 % down to the paper's 87.73 %.
TAMPER_SCALE = 0.115
_IMAGES, _HIDDEN = 10_000, 32
_SCHEDULE = Schedule(adam(2e-3), batch=64, epochs=5)


def upscale(samples: npt.ArrayLike) -> FloatArray:
    """Images (n, 784) of 28 × 28 pixels from samples (n, 49) of 7 × 7: each pixel becomes 4 × 4."""
    small = np.asarray(samples, dtype=np.float64).reshape(-1, 7, 7)
    return small.repeat(4, axis=1).repeat(4, axis=2).reshape(-1, 784)


@partial(jax.jit, static_argnums=0)
def sensitivity(network: Network, parameters: Parameters, x: Array) -> Array:
    """‖∂f_θ(x)/∂θ‖_F at one input x (d,), f being the class probabilities that a service returns."""
    jacobian = jax.jacrev(lambda p: jax.nn.softmax(network(p, x[None])[0]))(parameters)
    return jnp.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(jacobian)))


def train_classifier(images: npt.NDArray[Any], labels: npt.NDArray[Any], seed: int = 0) -> Parameters:
    """A network of 32 tanh units, trained on images (n, 784) for five epochs, in float64."""
    rng = np.random.default_rng(seed)
    initial = Mlp().initial(images.shape[1], _HIDDEN, rng)
    return train(Mlp(), initial, images, labels, _SCHEDULE, rng)[0]


def classifier() -> Parameters:
    """The classifier of digits, trained on 10,000 images of MNIST; kept in the user's cache folder."""
    mnist = datasets.mnist("sensitive-samples")
    data = datasets.split(mnist["x_train"].reshape(-1, 784), mnist["y_train"], _IMAGES, 0)
    digest = hashlib.sha256(repr((_IMAGES, _HIDDEN, _SCHEDULE)).encode())
    digest.update(data.x.tobytes() + data.y.tobytes())
    name = f"sensitive-samples-{digest.hexdigest()[:16]}"
    return kept(name, lambda: train_classifier(data.x / 255, data.y))


def tampered(parameters: Parameters, scale: float, rng: np.random.Generator) -> Parameters:
    """The parameters with independent N(0, scale²) noise on every weight and bias."""
    return {name: a + scale * rng.standard_normal(a.shape) for name, a in parameters.items()}


def top_class(parameters: Parameters, x: FloatArray) -> npt.NDArray[np.int64]:
    """The most probable classes (n,) of inputs (n, d)."""
    hidden = np.tanh(x @ parameters["hidden"] + parameters["hidden bias"])
    return (hidden @ parameters["output"] + parameters["output bias"]).argmax(axis=1)


def detection_rate(
    samples: npt.ArrayLike,
    parameters: Parameters | None = None,
    *,
    models: int = 1000,
    scale: float = TAMPER_SCALE,
    seed: int = 0,
) -> FloatArray:
    """For k = 1..n, the fraction of tampered models that the first k of samples (n, 49) detect.

    A model is detected when the top class of at least one sample differs from that of the original. The
    models are the original (our classifier by default) with noise added to each weight, as in the paper;
    it does not state the noise, which is Gaussian here, and as large as makes its drop of accuracy.
    """
    original = classifier() if parameters is None else parameters
    images, rng = upscale(samples), np.random.default_rng(seed)
    expected = top_class(original, images)
    differs = np.stack(
        [top_class(tampered(original, scale, rng), images) != expected for _ in range(models)]
    )
    return np.logical_or.accumulate(differs, axis=1).mean(axis=0)


def sensitive_samples(seed: int = 0) -> Problem:
    """The 7 × 7 image, upscaled to 28 × 28, to whose class probabilities the weights matter most.

    :func:`detection_rate` judges a set of such images. The paper does not state the classifier (but its
    accuracy, 93 %), nor the upscaling; ours are a network of 32 tanh units and repeated pixels.
    """
    parameters = classifier()
    names = [f"x{i}" for i in range(49)]

    def value(params: Params) -> float:
        image = upscale([params[name] for name in names])[0]
        with computing():
            return float(sensitivity(Mlp(), parameters, image))

    return Problem(
        name="sensitive-samples",
        space=Space({name: Float(0, 1) for name in names}),
        value=value,
        direction="maximize",
        reference="neural-bo 7.2.1; the classifier is ours (32 tanh units, 93 % accurate)",
        optimum=21.531,  # the best of 600 gradient ascents
        exact=False,
        budget=200,
    )


PROBLEMS: Mapping[str, Factory] = {"sensitive-samples": sensitive_samples}
