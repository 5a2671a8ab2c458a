"""A Bayesian linear head on the features that a network has learnt.

    f(x) = ⟨w, (φ(x), 1)⟩,   w ~ N(0, γI),   y = f(x) + N(0, σ²)

φ are the outputs of the last hidden layer of a network that was trained on the same data; they are held
fixed, and the posterior of w is exact.

References: Riquelme, Tucker & Snoek (2018), "Deep Bayesian bandits showdown" (neural linear); Be Greedy,
appendix F (NeuralLinTS); Snoek et al. (2015), "Scalable Bayesian optimization using deep neural networks"
(DNGO).
"""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from augury._checks import check_real
from augury._errors import UnsupportedError
from augury._types import Array
from augury.core.data import Data, bucket, pad
from augury.core.keys import KeyArray, fold, generator
from augury.core.precision import computing, to_numpy
from augury.surrogates.base import Capability, Fit
from augury.surrogates.gp import fit_status, standardization
from augury.surrogates.networks import MLP, Network, draw_layer, stack
from augury.surrogates.ntk_process import (
    DEVIATION,
    LOWER,
    MAX_EVALUATIONS,
    MEAN,
    NOISY,
    SMALLEST_NOISE,
    UPPER,
    NTKProcess,
    NTKTuned,
    evenly,
)
from augury.surrogates.sample_then_optimize import described
from augury.surrogates.search import Search
from augury.surrogates.tangent import Dense, Layer, Layers, Params, ntk
from augury.surrogates.tangent_posterior import regress
from augury.surrogates.training import train


@dataclass(frozen=True)
class NeuralLinear:
    """Bayesian linear regression on the last hidden layer of a trained network.

    The network is trained to convergence from a θ_0 that the study's seed fixes. The two settings of the
    head follow from its marginal likelihood unless they are given; DNGO integrates them by MCMC, and
    has a quadratic prior mean.

    Args:
        process: chooses depth, σ_W, σ_b and the noise of the training by marginal likelihood, or fixes
            them.
        width: units of each hidden layer, hence features.
        prior_variance: γ, of each weight of the head, in squared units of y; None learns it.
        noise: σ² of the head, in squared units of y, 0 for none; None learns it. Both are relative to the
            variance of the values if the process's noise is.
    """

    process: NTKProcess = field(default_factory=NTKProcess)
    width: int = 256
    prior_variance: float | None = None
    noise: float | None = None

    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)
    steady: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.process, NTKProcess):
            raise UnsupportedError(
                f"process must be an NTKProcess; got {self.process!r}. Use NTKProcess(depth=2)."
            )
        MLP(1, self.width)  # its checks
        for name in ("prior_variance", "noise"):
            value = getattr(self, name)
            if value is None:
                continue
            check_real(name, value)
            if not (0.0 < value < np.inf or (name == "noise" and value == 0.0)):
                raise UnsupportedError(
                    f"{name} must be {'at least 0' if name == 'noise' else 'positive'} and finite; "
                    f"got {value!r}. Give such a number, or None to learn it."
                )

    def tune(self, data: Data, *, key: KeyArray) -> NTKTuned:
        """Depth, σ_W, σ_b and noise by the marginal likelihood of the infinitely wide network."""
        return self.process.tune(data, key=key)

    def fit(self, data: Data, *, key: KeyArray, tuned: NTKTuned | None = None) -> Fit:
        """The posterior of a head on a network trained on all of `data`."""
        if tuned is None:
            tuned = self.tune(data, key=key)
        shift, scale = standardization(data, self.process.standardize)
        network, output, noise = self.process.realize(tuned, scale, width=self.width)
        y = np.where(data.mask, (data.y - shift) / scale, 0.0)
        theta0 = stack([network.init(fold(key, 0), data.dim)])
        lam = noise / output
        trained = train(network, theta0, data.x, data.mask, (y / np.sqrt(output))[None], lam=lam)
        head = Head(network, jax.tree.map(lambda leaf: np.asarray(leaf[0]), trained.params))
        found = self._settings(head, data, y, scale)
        with computing():
            posterior, jitter = to_numpy(
                regress(
                    head, head.zeros(), None, found.prior_variance, found.noise,
                    data, np.asarray(shift), np.asarray(scale),
                )
            )  # fmt: skip
        info = {
            **self.process.describe(tuned, scale),
            "prior_variance": float(found.prior_variance * scale**2),
            "noise": float(found.noise * scale**2),
            **described(trained, 0),
        }
        return Fit(posterior, fit_status(posterior.weights.weight, scale, jitter), info)

    def _settings(self, head: "Head", data: Data, y: np.ndarray, scale: float) -> "HeadSettings":
        """Of the head, in standardized units; what is learnt is learnt at evenly chosen points."""
        fixed = [
            None if v is None else v / self.process.unit(scale) for v in (self.prior_variance, self.noise)
        ]
        chosen = evenly(data.n, self.process.tuning_points)
        unit = 1.0
        z = np.zeros(2)
        if len(chosen) and None in fixed:
            rows = pad(data.x[chosen], bucket(len(chosen)))
            K = ntk(head, head.zeros(), rows)[: len(chosen), : len(chosen)]
            unit = float(np.diagonal(K).mean())
            if np.isfinite(K).all():
                evidence = Evidence(K / unit, y[chosen], *_bounds(fixed, unit))
                starts = (z, np.array([0.0, NOISY]))
                ends = [
                    Search(evidence, np.clip(start, evidence.lower, evidence.upper)) for start in starts
                ]
                z = min((end.run(MAX_EVALUATIONS) for end in ends), key=lambda end: end.loss).z
        learnt = np.exp(MEAN[2:] + DEVIATION[2:] * z) / (unit, 1.0)
        both = (given if given is not None else value for given, value in zip(fixed, learnt, strict=True))
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

    def features(self, x: Float[Array, "*n D"]) -> Float[Array, "*n width"]:
        """φ(x)."""
        tangent = self.network.linearize(self.params, x if x.ndim == 2 else x[None])[1]
        assert isinstance(tangent, Layers)
        inputs = tangent.dense[-1].inputs
        return inputs if x.ndim == 2 else inputs[0]

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


class Evidence:
    """The posterior density of (log γ‖φ‖², log σ²) at z = (log setting − mean) / deviation.

    With K = U diag(s) Uᵀ and c = Uᵀy, −log N(y; 0, vK + σ²I) = ½ Σ c_i²/d_i + log d_i, d_i = v s_i + σ²:
    one factorization, then O(n) operations.
    """

    def __init__(
        self,
        K: Float[np.ndarray, "n n"],
        y: Float[np.ndarray, " n"],
        lower: np.ndarray,
        upper: np.ndarray,
    ) -> None:
        self.lower, self.upper = lower, upper
        with computing():
            s, U = np.linalg.eigh(K)
        self._s, self._c2 = np.maximum(s, 0.0), (U.T @ y) ** 2

    def loss_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """The negative logarithm of the density, up to a constant, and its gradient."""
        v, noise = np.exp(MEAN[2:] + DEVIATION[2:] * z)
        d = v * self._s + noise
        value = 0.5 * float(np.sum(self._c2 / d + np.log(d))) + 0.5 * float(z @ z)
        slope = 0.5 * (1.0 - self._c2 / d) / d
        return value, DEVIATION[2:] * (v * slope @ self._s, noise * slope.sum()) + z


def _bounds(fixed: list[float | None], unit: float) -> tuple[np.ndarray, np.ndarray]:
    """Of z; a setting that the user fixed has equal ones."""
    lower, upper = LOWER[2:].copy(), UPPER[2:].copy()
    for i, (value, factor) in enumerate(zip(fixed, (unit, 1.0), strict=True)):
        if value is not None:
            lower[i] = upper[i] = np.log(max(value * factor, SMALLEST_NOISE))
    return (lower - MEAN[2:]) / DEVIATION[2:], (upper - MEAN[2:]) / DEVIATION[2:]


def dngo() -> NeuralLinear:
    """Three hidden layers of 50 tanh units, which is what neural-bo compares with."""
    return NeuralLinear(NTKProcess(depth=3, activation="tanh"), width=50)
