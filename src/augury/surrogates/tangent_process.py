"""Sample, then optimize, for the linear model on the tangent features of a network, solved exactly.

    f(x; θ) = ⟨∇f(x; θ_0'), θ⟩,   θ_0' ~ init(·),   θ_0 ~ N(0, I)
    θ = argmin Σ_i (y_i + ε_i − β f(x_i; θ))² + β²σ²‖θ − θ_0‖²,   ε_i ~ N(0, β²σ²)      (Eq. 1)

A least-squares problem: instead of by gradient descent it is solved in the dual, by one factorization of
the n × n matrix of the empirical NTK at θ_0' (:mod:`augury.surrogates.tangent_posterior`). Given θ_0' the
draw is exact; with θ_0' redrawn for every draw, as the paper does, it is one of the limit up to the error
of finite width.

Reference: Dai et al. (2022), "Sample-then-optimize batch neural Thompson sampling" (sto-bnts),
algorithm 2.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from augury._checks import check_flags, need_count
from augury._types import Array
from augury.core.data import Data
from augury.core.keys import KeyArray, fold
from augury.core.precision import computing, to_numpy
from augury.surrogates.base import Capability, Fit, Posterior
from augury.surrogates.gp import fit_status, standardization
from augury.surrogates.gp_posterior import LARGEST_SMALL_MATRIX
from augury.surrogates.networks import Network
from augury.surrogates.process import NeuralSurrogate
from augury.surrogates.tangent import Params
from augury.surrogates.tangent_posterior import TangentModel, TangentPath, TangentPosterior, regress


@dataclass(frozen=True)
class TangentProcess(NeuralSurrogate):
    """Exact draws of the linear model on tangent features.

    Args:
        process: the network and its settings; None is a CNN for images and an MLP for everything else,
            with settings by marginal likelihood.
        width: units of each hidden layer.
        redraw: whether every draw has features of its own, as in the paper. Without, θ_0' is fixed by
            the study's seed: mean, variance and all else exist then, exact for that network.
    """

    width: int = 256
    redraw: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        need_count("width", self.width)
        check_flags(redraw=self.redraw)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Draws; all, if the features are fixed."""
        return frozenset({Capability.PATH, Capability.GRADIENT} if self.redraw else Capability)

    def fit(self, data: Data, *, key: KeyArray, tuned: Any = None) -> Fit:
        """What draws are made from; with fixed features, the posterior itself."""
        if tuned is None:
            tuned = self.tune(data, key=key)
        shift, scale = standardization(data, self._process.standardize)
        network, output, noise = self._process.realize(tuned, scale, width=self.width)
        model = Linear(network, output, noise, data, np.asarray(shift), np.asarray(scale))
        if self.redraw:
            limit = self._process.fit(data, key=key, tuned=tuned)
            gain = np.asarray(limit.posterior.information_gain())
            posterior = LinearDraws(x=data.x, model=model, gain=gain)
            return Fit(posterior, limit.status, limit.info, belief=limit.posterior)
        exact, jitter = model.posterior(network.init(fold(key, 2), data.dim))
        status = fit_status(np.diagonal(exact.L_inverse), scale, float(jitter))
        return Fit(exact, status, self._process.describe(tuned, scale))


class Linear(eqx.Module):
    """The linear model and its data; its features come with θ_0'."""

    network: Network
    output: Float[Array, ""]
    noise: Float[Array, ""]
    data: Data
    shift: Float[Array, ""]
    scale: Float[Array, ""]

    def posterior(self, features: Params) -> tuple[TangentPosterior, Float[Array, ""]]:
        """Given θ_0'; and the jitter that the factorization needed."""
        settings = self.output, self.noise, self.shift, self.scale
        model = TangentModel(self.network, features, None, *settings)
        with computing(single_thread=len(self.data.x) <= LARGEST_SMALL_MATRIX):
            return to_numpy(regress(model, self.data))


class LinearDraws(Posterior):
    """Draws, each with features of its own (sto-bnts, algorithm 2)."""

    model: Linear
    x: Float[Array, "capacity D"]
    gain: Float[Array, ""]  # the information that the data have given about the limit

    @property
    def rows_at_once(self) -> int | None:
        """Those of the network."""
        return self.model.network.rows_at_once

    def information_gain(self) -> float:
        """That of the limit."""
        return float(self.gain)

    def sample(self, *, key: KeyArray, scale: float = 1.0) -> TangentPath:
        """θ_0' and θ_0 from the key, and the least-squares solution."""
        features = self.model.network.init(fold(key, 2), self.x.shape[1])
        return self.model.posterior(features)[0].sample(key=key, scale=scale)
