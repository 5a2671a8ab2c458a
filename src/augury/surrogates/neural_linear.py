"""A Bayesian linear head on the features that a network has learnt.

    f(x) = ⟨w, (φ(x), 1)⟩,   w ~ N(0, γI),   y = f(x) + N(0, σ²)

φ are the outputs of the last hidden layer of a network that was trained on the same data; they are held
fixed, and the posterior of w is exact.

References: Riquelme, Tucker & Snoek (2018), "Deep Bayesian bandits showdown" (neural linear); Be Greedy,
appendix F (NeuralLinTS); Snoek et al. (2015), "Scalable Bayesian optimization using deep neural networks"
(DNGO).
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from augury._checks import check_fixed, need_count
from augury._errors import UnsupportedError
from augury._types import Array
from augury.core.data import Data, bucket, pad
from augury.core.keys import KeyArray, fold, generator
from augury.core.precision import computing, to_numpy
from augury.surrogates.base import Capability, Fit
from augury.surrogates.cnn import CNN
from augury.surrogates.empirical_process import EmpiricalProcess
from augury.surrogates.gp import fit_status, standardization
from augury.surrogates.networks import MLP, Network, draw_layer, stack
from augury.surrogates.ntk_process import NTKProcess, evenly
from augury.surrogates.process import NeuralSurrogate
from augury.surrogates.sample_then_optimize import described
from augury.surrogates.spectral_density import likeliest
from augury.surrogates.tangent import Dense, Layer, Params, ntk
from augury.surrogates.tangent_posterior import TangentModel, regress
from augury.surrogates.training import train


@dataclass(frozen=True)
class NeuralLinear(NeuralSurrogate):
    """Bayesian linear regression on the last hidden layer of a trained network.

    The network is trained to convergence from a θ_0 that the study's seed fixes. The two settings of the
    head follow from its marginal likelihood unless they are given; DNGO integrates them by MCMC, and
    has a quadratic prior mean. The features were learnt from the same data and are taken as known, so
    σ is too small; with fewer features than observations and without noise it all but vanishes.

    Args:
        process: the network and its settings, among them the noise of the training; None is a CNN for
            images and an MLP for everything else, with settings by marginal likelihood.
        width: units of each hidden layer, hence features.
        prior_variance: γ, of each weight of the head, in squared units of y; None learns it.
        noise: σ² of the head, in squared units of y, 0 for none; None learns it. Both are relative to the
            variance of the values if the process's noise is.
    """

    width: int = 256
    prior_variance: float | None = None
    noise: float | None = None

    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.process, EmpiricalProcess) and not isinstance(self.process.network, MLP | CNN):
            raise UnsupportedError(
                "a linear head needs a network whose last layer is known; got "
                f"{type(self.process.network).__name__}. Use an MLP or a CNN."
            )
        need_count("width", self.width)
        check_fixed("prior_variance", self.prior_variance)
        check_fixed("noise", self.noise, zero=True)

    def fit(self, data: Data, *, key: KeyArray, tuned: Any = None) -> Fit:
        """The posterior of a head on a network trained on all of `data`."""
        if tuned is None:
            tuned = self.tune(data, key=key)
        shift, scale = standardization(data, self._process.standardize)
        network, output, noise = self._process.realize(tuned, scale, width=self.width)
        y = np.where(data.mask, (data.y - shift) / scale, 0.0)
        theta0 = stack([network.init(fold(key, 0), data.dim)])
        lam = noise / output
        trained = train(network, theta0, data.x, data.mask, (y / np.sqrt(output))[None], lam=lam)
        head = Head(network, jax.tree.map(lambda leaf: np.asarray(leaf[0]), trained.params))
        found = self._settings(head, data, y, scale)
        model = TangentModel(head, head.zeros(), None, *found, np.asarray(shift), np.asarray(scale))
        with computing():
            posterior, jitter = to_numpy(regress(model, data))
        info = {
            **self._process.describe(tuned, scale),
            "prior_variance": float(found.prior_variance * scale**2),
            "noise": float(found.noise * scale**2),
            **described(trained, 0),
        }
        return Fit(posterior, fit_status(posterior.weights.weight, scale, jitter), info)

    def _settings(self, head: "Head", data: Data, y: np.ndarray, scale: float) -> "HeadSettings":
        """Of the head, in standardized units; what is learnt is learnt at evenly chosen points."""
        fixed = [
            None if v is None else v / self._process.unit(scale)
            for v in (self.prior_variance, self.noise)
        ]
        chosen = evenly(data.n, self._process.tuning_points)
        rows = pad(data.x[chosen], bucket(len(chosen)))
        K = ntk(head, head.zeros(), rows)[: len(chosen), : len(chosen)]
        unit = float(np.diagonal(K).mean()) if len(chosen) else 1.0
        gamma, noise = fixed
        found = likeliest(K / unit, y[chosen], None if gamma is None else gamma * unit, noise)
        both = (found.v / unit if gamma is None else gamma, found.noise if noise is None else noise)
        return HeadSettings(*(np.asarray(value, dtype=np.float64) for value in both))


class HeadSettings(NamedTuple):
    """γ and σ², in standardized units."""

    prior_variance: np.ndarray
    noise: np.ndarray


class Head(Network):
    """x ↦ ⟨w, (φ(x), 1)⟩: a last layer whose inputs are those of another network's, which stays as it is.

    It is linear in its parameters, so tangent features are (φ(x), 1) whatever the parameters.
    """

    network: Network
    params: Params

    @property
    def knows_last(self) -> bool:
        """Yes: there is nothing else."""
        return True

    @property
    def rows_at_once(self) -> int | None:
        """Those of the network."""
        return self.network.rows_at_once

    def features(self, x: Float[Array, "*n D"]) -> Float[Array, "*n width"]:
        """φ(x)."""
        return self.network.last_inputs(self.params, x)

    def init(self, key: KeyArray, dim: int) -> Layer:
        """Independent N(0, 1) numbers."""
        return draw_layer(len(self.params[-1].weight), 1, True, generator(key))

    def zeros(self) -> Layer:
        """Parameters that are 0, in the shape of others."""
        return Layer(np.zeros((len(self.params[-1].weight), 1)), np.zeros(1))

    def __call__(self, params: Layer, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """⟨w, (φ(x), 1)⟩."""
        return (self.features(x) @ params.weight + params.bias)[..., 0]

    def linearize(self, params: Layer, x: Float[Array, "n D"]) -> tuple[Array, Dense]:
        """The values at the rows of `x`, and the features."""
        phi = self.features(x)
        one = jnp.ones((), phi.dtype)
        return (phi @ params.weight + params.bias)[:, 0], Dense(phi, None, one, one)

    def zero_last(self, params: Layer) -> Layer:
        """0."""
        return self.zeros()


def dngo() -> NeuralLinear:
    """Three hidden layers of 50 tanh units, which is what neural-bo compares with."""
    return NeuralLinear(NTKProcess(depth=3, activation="tanh"), width=50)
