"""Sample, then optimize: a network trained from random parameters is a draw from a posterior.

    f̃(x; θ) = f(x; θ) + ⟨∇f(x; θ_0), θ_0'⟩,   θ_0, θ_0' ~ N(0, I), the last layer of θ_0' set to 0
    θ = argmin Σ_i (y_i + ε_i − β f̃(x_i; θ))² + β²σ²‖θ − θ_0‖²,   ε_i ~ N(0, β²σ²)

In the limit of infinite width β f̃(·; θ) is drawn from the posterior of the process with the neural
tangent kernel, its standard deviation multiplied by β. Without the term of θ_0' (the correction) it is
the draw of Be Greedy's Proposition 1; without correction, noise and penalty, a member of a deep ensemble.

References: Dai et al. (2022), "Sample-then-optimize batch neural Thompson sampling" (sto-bnts),
algorithm 1; Paria et al. (2022), "Be Greedy" (be-greedy), algorithms 2 and 3; He, Lakshminarayanan & Teh
(2020), "Bayesian deep ensembles via the neural tangent kernel". That the targets are perturbed is
be-greedy's; sto-bnts leaves it out, and its draws are too narrow then.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float

from augury._errors import UnsupportedError
from augury._types import Array
from augury.core.data import Data
from augury.core.keys import KeyArray, fold, generator
from augury.core.precision import computing, public
from augury.surrogates.base import Capability, Draw, Fit, Path, Posterior
from augury.surrogates.gp import standardization
from augury.surrogates.networks import MLP, Network, stack
from augury.surrogates.ntk_process import NTKProcess, NTKTuned
from augury.surrogates.tangent import Params
from augury.surrogates.tangent_draw import TangentDraw
from augury.surrogates.training import Trained, train


@dataclass(frozen=True)
class SampleThenOptimize:
    """Draws functions by training networks, and can do nothing else.

    Pending points do not enter: the draws are independent, which makes a batch diverse.

    Args:
        process: chooses depth, σ_W, σ_b and noise by marginal likelihood, or fixes them.
        width: units of each hidden layer.
        correction: whether ⟨∇f(x; θ_0), θ_0'⟩ is added; without it draws are those of SimpleSMB.
        perturb_targets: whether ε is added; sto-bnts to the letter has False.
        penalty: whether λ‖θ − θ_0‖² is added; without it the network interpolates.
        zero_output_bias: whether the output's bias starts at 0 (be-greedy, appendix F).
    """

    process: NTKProcess = field(default_factory=NTKProcess)
    width: int = 256
    correction: bool = True
    perturb_targets: bool = True
    penalty: bool = True
    zero_output_bias: bool = False

    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.PATH, Capability.GRADIENT})

    def __post_init__(self) -> None:
        if not isinstance(self.process, NTKProcess):
            raise UnsupportedError(
                f"process must be an NTKProcess; got {self.process!r}. Use NTKProcess(depth=2)."
            )
        MLP(1, self.width)  # its checks

    def tune(self, data: Data, *, key: KeyArray) -> NTKTuned:
        """Depth, σ_W, σ_b and noise by the marginal likelihood of the limit."""
        return self.process.tune(data, key=key)

    def fit(self, data: Data, *, key: KeyArray, tuned: NTKTuned | None = None) -> Fit:
        """What draws are made from; each is trained when it is drawn."""
        if tuned is None:
            tuned = self.tune(data, key=key)
        limit = self.process.fit(data, key=key, tuned=tuned)
        shift, scale = standardization(data, self.process.standardize)
        network, output, noise = self.process.realize(
            tuned, scale, width=self.width, zero_output_bias=self.zero_output_bias
        )
        y = np.where(data.mask, (data.y - shift) / scale, 0.0)
        posterior = TrainedDraws(
            model=self, network=network, x=data.x, y=y, mask=data.mask,
            output=output, noise=noise,
            shift=np.asarray(shift), scale=np.asarray(scale),
        )  # fmt: skip
        return Fit(posterior, limit.status, limit.info, belief=limit.posterior)


def simple_smb(**settings: Any) -> SampleThenOptimize:
    """Be Greedy's SimpleSMB (algorithm 2): no tangent term, and an output bias that starts at 0."""
    return SampleThenOptimize(**{"correction": False, "zero_output_bias": True, **settings})


def posterior_smb(**settings: Any) -> SampleThenOptimize:
    """Be Greedy's PosteriorSMB (algorithm 3), whose draws are those of the posterior."""
    return SampleThenOptimize(**{"zero_output_bias": True, **settings})


class TrainedDraws(Posterior):
    """A posterior that is known only through draws, each of which trains a network."""

    model: SampleThenOptimize = eqx.field(static=True)
    network: Network
    x: Float[Array, "capacity D"]
    y: Float[Array, " capacity"]  # standardized
    mask: Bool[Array, " capacity"]
    output: Float[Array, ""]  # the variance that multiplies the network's kernel
    noise: Float[Array, ""]
    shift: Float[Array, ""]
    scale: Float[Array, ""]

    def sample(self, *, key: KeyArray, scale: float = 1.0) -> "NetworkPath":
        """One trained network."""
        return self.draws(keys=[key], scale=scale)[0].path  # type: ignore[return-value]

    def draws(self, *, keys: Sequence[KeyArray], scale: float = 1.0) -> list[Draw]:
        """One network per key, all trained together (sto-bnts, algorithm 1, lines 4-7).

        With s = β√output the loss is s²(‖(y + ε)/s − f̃‖² + (σ²/output)‖θ − θ_0‖²).
        """
        dim, total = self.x.shape[1], scale * float(np.sqrt(self.output))
        theta0 = [self.network.init(fold(key, 0), dim) for key in keys]
        targets = np.stack([self._targets(fold(key, 1), scale) for key in keys]) / total
        corrections = None
        if self.model.correction:
            theirs = [self.network.zero_last(self.network.init(fold(key, 2), dim)) for key in keys]
            corrections = stack(theirs)
        with computing():
            starts = stack(theta0)
            offset = None
            if corrections is not None:
                offset = np.asarray(_corrections(self.network, starts, corrections, self.x))
            lam = self.noise / self.output if self.model.penalty else 0.0
            trained = train(
                self.network, starts, self.x, self.mask, targets, lam=np.asarray(lam), offset=offset
            )
        return [
            Draw(self._path(i, trained.params, starts, corrections, total), described(trained, i))
            for i in range(len(keys))
        ]

    def _targets(self, key: KeyArray, scale: float) -> np.ndarray:
        """y, or y + ε."""
        if not self.model.perturb_targets:
            return np.asarray(self.y)
        epsilon = generator(key).standard_normal(len(self.y)) * scale * np.sqrt(self.noise)
        return np.where(self.mask, self.y + epsilon, 0.0)

    def _path(
        self, i: int, params: Params, starts: Params, corrections: Params | None, total: float
    ) -> "NetworkPath":
        def one(tree: Params) -> Params:
            return jax.tree.map(lambda leaf: np.asarray(leaf[i], dtype=np.float64), tree)

        correction = None
        if corrections is not None:
            correction = TangentDraw(self.network, one(starts), one(corrections), np.ones(()))
        factor = np.asarray(total * self.scale)
        return NetworkPath(self.network, one(params), correction, self.shift, factor)


class NetworkPath(Path):
    """x ↦ shift + scale · f̃(x; θ) of a trained network."""

    network: Network
    params: Params
    correction: TangentDraw | None
    shift: Float[Array, ""]
    scale: Float[Array, ""]

    @public
    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The value at one point or at several."""
        value = self.network(self.params, x)
        if self.correction is not None:
            value = value + self.correction(x)
        return self.shift + self.scale * value


def described(trained: Trained, i: int) -> dict[str, Any]:
    """How the training of one network went; the seconds are those of all of them together."""
    return {
        "training": {
            "method": trained.method,
            "loss": float(trained.loss[i]),
            "gradient_norm": float(trained.gradient_norm[i]),
            "steps": int(trained.steps[i]),
            "converged": bool(trained.converged[i]),
            "reason": trained.reasons[i],
            "seconds": trained.seconds,
        }
    }


@eqx.filter_jit
def _corrections(network: Network, starts: Params, directions: Params, x: Array) -> Array:
    """⟨∇f(x_i; θ_0), θ_0'⟩ at the rows of `x`, for every network."""

    def one(params: Params, direction: Params) -> Array:
        return jax.jvp(lambda p: network(p, x), (params,), (direction,))[1]

    return jax.vmap(one)(starts, directions)
