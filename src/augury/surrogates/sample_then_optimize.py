"""Sample, then optimize: a network trained from random parameters is a draw from a posterior.

    f̃(x; θ) = f(x; θ) + ⟨∇f(x; θ_0), θ_0'⟩,   θ_0, θ_0' ~ N(0, I), the last layer of θ_0' set to 0
    θ = argmin Σ_i (y_i + ε_i − β f̃(x_i; θ))² + β²σ²‖θ − θ_0‖²,   ε_i ~ N(0, β²σ²)      (Eq. 1)

A network whose last layer is not known (a user's) has, with all of w ~ N(0, I),

    f̃(x; θ) = f(x; θ) − f(x; θ_0) + ⟨∇f(x; θ_0), w⟩

instead, whose prior has the same kernel. In the limit of infinite width β f̃(·; θ) is drawn from the
posterior of the process with the neural tangent kernel (Eqs. 2 and 3), its standard deviation multiplied
by β. Without the term of θ_0' (the correction) it is the draw of Be Greedy's Proposition 1; without
correction, noise and penalty, a member of a deep ensemble.

References: Dai et al. (2022), "Sample-then-optimize batch neural Thompson sampling" (sto-bnts),
algorithm 1; Paria et al. (2022), "Be Greedy" (be-greedy), algorithms 2 and 3; He, Lakshminarayanan & Teh
(2020), "Bayesian deep ensembles via the neural tangent kernel". That the targets are perturbed is
be-greedy's; sto-bnts leaves it out, and its draws are too narrow then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from augury._checks import check_count, check_flags
from augury._errors import UnsupportedError
from augury._types import Array
from augury.core.data import Data
from augury.core.keys import KeyArray, fold, generator
from augury.core.precision import computing, jit, public
from augury.surrogates.base import Capability, Draw, Fit, Path, Posterior
from augury.surrogates.empirical_process import EmpiricalProcess, check_output_bias
from augury.surrogates.gp import standardization
from augury.surrogates.networks import Network, stack
from augury.surrogates.process import NeuralSurrogate
from augury.surrogates.tangent import Params, cast
from augury.surrogates.tangent_draw import standard_normal
from augury.surrogates.training import Trained, train

WIDTH = 256  # units of a hidden layer, at least


@dataclass(frozen=True)
class SampleThenOptimize(NeuralSurrogate):
    """Draws functions by training networks, and can do nothing else.

    Pending points do not enter: the draws are independent, which makes a batch diverse.

    Example: ``SampleThenOptimize(EmpiricalProcess((draw, apply)))`` trains a network of your own.

    Args:
        process: the network and its settings. An :class:`NTKProcess` chooses depth, σ_W, σ_b and noise
            of an MLP by marginal likelihood, or fixes them; an :class:`EmpiricalProcess` has a network
            of any kind. None is a CNN for images and an MLP for everything else.
        width: units of each hidden layer of an MLP; other networks have their own. None is 256, and
            beyond 1,024 observations a quarter of them, rounded up to a power of two: a narrower network
            is far from the limit then, and takes longer to train.
        correction: whether ⟨∇f(x; θ_0), θ_0'⟩ is added; without it draws are those of SimpleSMB.
        perturb_targets: whether ε is added; sto-bnts to the letter has False.
        penalty: whether λ‖θ − θ_0‖² is added; without it the network interpolates.
        zero_output_bias: whether the output's bias starts at 0 (be-greedy, appendix F).
    """

    width: int | None = None
    correction: bool = True
    perturb_targets: bool = True
    penalty: bool = True
    zero_output_bias: bool = False

    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.PATH, Capability.GRADIENT})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("width", self.width)
        check_flags(correction=self.correction, perturb_targets=self.perturb_targets)
        check_flags(penalty=self.penalty, zero_output_bias=self.zero_output_bias)
        if isinstance(self.process, EmpiricalProcess) and self.zero_output_bias:
            check_output_bias(self.process.network)

    def fit(self, data: Data, *, key: KeyArray, tuned: Any = None) -> Fit:
        """What draws are made from; each is trained when it is drawn."""
        if tuned is None:
            tuned = self.tune(data, key=key)
        limit = self._process.fit(data, key=key, tuned=tuned)
        shift, scale = standardization(data, self._process.standardize)
        network, output, noise = self._process.realize(
            tuned,
            scale,
            width=self.width or width_for(len(data.x)),
            zero_output_bias=self.zero_output_bias,
        )
        y = np.where(data.mask, (data.y - shift) / scale, 0.0)
        posterior = TrainedDraws(
            network=network, x=data.x, y=y, mask=data.mask, output=output, noise=noise,
            shift=np.asarray(shift), scale=np.asarray(scale), correction=self.correction,
            perturb_targets=self.perturb_targets, penalty=self.penalty,
            gain=np.asarray(limit.posterior.information_gain()),
        )  # fmt: skip
        return Fit(posterior, limit.status, limit.info, belief=limit.posterior)


def width_for(rows: int) -> int:
    """Units of a hidden layer for a buffer of so many rows."""
    return max(WIDTH, 1 << (rows // 4 - 1).bit_length())


def simple_smb(**settings: Any) -> SampleThenOptimize:
    """Be Greedy's SimpleSMB (algorithm 2): no tangent term, and an output bias that starts at 0."""
    return posterior_smb(**{"correction": False, **settings})


def posterior_smb(**settings: Any) -> SampleThenOptimize:
    """Be Greedy's PosteriorSMB (algorithm 3), whose draws are those of the posterior.

    A network of the user's own starts as its `init` says.
    """
    network = getattr(settings.get("process"), "network", None)
    own = network is not None and not hasattr(network, "zero_output_bias")
    return SampleThenOptimize(**{"zero_output_bias": not own, **settings})


class TrainedDraws(Posterior):
    """A posterior that is known only through draws, each of which trains a network."""

    network: Network
    x: Float[Array, "capacity D"]
    y: Float[Array, " capacity"]  # standardized
    mask: Bool[Array, " capacity"]
    output: Float[Array, ""]  # the variance that multiplies the network's kernel
    noise: Float[Array, ""]
    shift: Float[Array, ""]
    scale: Float[Array, ""]
    gain: Float[Array, ""]  # the information that the data have given about the limit
    correction: bool = eqx.field(static=True)
    perturb_targets: bool = eqx.field(static=True)
    penalty: bool = eqx.field(static=True)

    def information_gain(self) -> float:
        """That of the limit."""
        return float(self.gain)

    def sample(self, *, key: KeyArray, scale: float = 1.0) -> "NetworkPath":
        """One trained network."""
        return self.draws(keys=[key], scale=scale)[0].path  # type: ignore[return-value]

    def draws(self, *, keys: Sequence[KeyArray], scale: float = 1.0) -> list[Draw]:
        """One network per key, all trained together (sto-bnts, algorithm 1, lines 4-7).

        With s = β√output the loss is s²(‖(y + ε)/s − f̃‖² + (σ²/output)‖θ − θ_0‖²).
        """
        if not scale > 0.0:
            raise UnsupportedError(
                f"networks that are trained as draws must have β > 0; got {scale}. "
                "Use a small one for draws close to the mean."
            )
        dim, total = self.x.shape[1], scale * float(np.sqrt(self.output))
        starts = stack([self.network.init(fold(key, 0), dim) for key in keys])
        targets = np.stack([self._targets(fold(key, 1), scale) for key in keys]) / total
        directions = None
        if self.correction:
            directions = stack([self._direction(fold(key, 2), dim) for key in keys])
        with computing():
            offset = None
            if directions is not None:
                offset = np.asarray(_offsets(self.network, starts, directions, self.x))
            lam = self.noise / self.output if self.penalty else 0.0
            trained = train(
                self.network, starts, self.x, self.mask, targets, lam=np.asarray(lam), offset=offset
            )
        # a network that is no number at the observations knows nothing of them: nor shall its draw
        ends = jax.tree.map(lambda leaf: _where(np.isfinite(trained.loss), leaf), trained.params)
        return [
            Draw(self._path(i, ends, starts, directions, total), described(trained, i))
            for i in range(len(keys))
        ]

    def _direction(self, key: KeyArray, dim: int) -> Params:
        """θ_0', without its last layer where that is known."""
        params = self.network.init(key, dim)
        if self.network.knows_last:
            zeroed = self.network.zero_last(params)
            if getattr(self.network, "zero_output_bias", False) and zeroed[-1].bias is not None:
                # what θ_0 leaves out of the prior, the kernel of PosteriorSMB's Proposition 2 has
                bias = generator(fold(key, 0)).standard_normal(1)
                zeroed = (*zeroed[:-1], zeroed[-1]._replace(bias=bias))
            return zeroed
        return standard_normal(params, generator(fold(key, 0)))

    def _targets(self, key: KeyArray, scale: float) -> np.ndarray:
        """y, or y + ε."""
        if not self.perturb_targets:
            return np.asarray(self.y)
        epsilon = generator(key).standard_normal(len(self.y)) * scale * np.sqrt(self.noise)
        return np.where(self.mask, self.y + epsilon, 0.0)

    def _path(
        self, i: int, params: Params, starts: Params, directions: Params | None, total: float
    ) -> "NetworkPath":
        def one(tree: Params) -> Params:
            return jax.tree.map(lambda leaf: np.asarray(leaf[i], dtype=np.float64), tree)

        correction = None if directions is None else (one(starts), one(directions))
        factor = np.asarray(total * self.scale)
        return NetworkPath(self.network, one(params), correction, self.shift, factor)


class NetworkPath(Path):
    """x ↦ shift + scale · f̃(x; θ) of a trained network, in float32 where it is large."""

    network: Network
    params: Params
    correction: tuple[Params, Params] | None  # θ_0 and θ_0'
    shift: Float[Array, ""]
    scale: Float[Array, ""]

    @property
    def rows_at_once(self) -> int | None:
        """Those of the network."""
        return self.network.rows_at_once

    @public
    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The value at one point or at several."""
        dtype = jnp.float64 if self.rows_at_once is None else jnp.float32
        network, params, x = cast((self.network, self.params, x), dtype)
        value = network(params, x)
        if self.correction is not None:
            start, direction = cast(self.correction, dtype)
            value = value + _offset(network, start, direction, x)
        return self.shift + self.scale * value


def _where(which: np.ndarray, leaf: np.ndarray) -> np.ndarray:
    """The parameters of some networks, and NaN for the others."""
    return np.where(which.reshape(-1, *[1] * (np.ndim(leaf) - 1)), leaf, np.nan)


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


def _offset(network: Network, start: Params, direction: Params, x: Array) -> Array:
    """⟨∇f(x; θ_0), θ_0'⟩, less f(x; θ_0) where the last layer is not known."""
    value, slope = jax.jvp(lambda params: network(params, x), (start,), (direction,))
    return slope if network.knows_last else slope - value


@jit
def _offsets(network: Network, starts: Params, directions: Params, x: Array) -> Array:
    """The same at the rows of `x`, for every network."""
    return jax.vmap(lambda start, direction: _offset(network, start, direction, x))(starts, directions)
