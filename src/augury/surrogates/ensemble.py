"""Deep ensembles: networks that were trained on the same data from different initial parameters.

    θ_i = argmin ‖y − f(X; θ)‖² + λ‖θ − θ_i0‖²,   θ_i0 ~ N(0, I),   i = 1, …, members

Their values at a point are taken for draws from a posterior: μ and σ² are the mean and the variance over
the members. They spread less than draws from the posterior of the tangent kernel (STO-BNTS, Fig. 1), for
which the term ⟨∇f(x; θ_0), θ_0'⟩ and perturbed targets are missing.

References: Lakshminarayanan, Pritzel & Blundell (2017), "Simple and scalable predictive uncertainty
estimation using deep ensembles"; Kim et al. (2021), "Deep learning for Bayesian optimization of
scientific problems with high-dimensional structure" (with EI); Be Greedy, appendix F (NeuralEnsembles).
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from augury._checks import check_flags, need_count
from augury._types import Array
from augury.core.data import Data, bucket, pad
from augury.core.keys import KeyArray, fold, generator
from augury.core.precision import public
from augury.surrogates.base import Capability, Fit, Path, StandardizedPosterior
from augury.surrogates.empirical_process import EmpiricalProcess, check_output_bias
from augury.surrogates.gp import fit_status, standardization
from augury.surrogates.networks import Network, stack
from augury.surrogates.ntk_process import NTKTuned, Realized
from augury.surrogates.process import NeuralSurrogate
from augury.surrogates.sample_then_optimize import NetworkPath
from augury.surrogates.tangent import Params
from augury.surrogates.training import Trained, train

SMALLEST_DEVIATION = 1e-6  # of the values' own: members may agree, a score divides by σ
LINKS = 4  # states of chains that an ensemble keeps


@dataclass(frozen=True)
class Ensemble(NeuralSurrogate):
    """Networks trained on the same targets, each from a θ_0 of its own that the study's seed fixes.

    Pending points join the data at the mean predicted without them, and the members are trained anew.

    With `warm_start` every training begins, and is penalized, at the parameters that it had with one
    observation less, as be-greedy has it. Then the members depend on the order of the observations: they
    are the end of a chain of trainings with 1, 2, …, n of them, with settings that are learnt where the
    number is a power of two, and from θ_0 again where the depth changes. A study that goes on pays one
    training per observation; a restored one replays the chain.

    Args:
        process: the network and its settings; None is a CNN for images and an MLP for everything else,
            with settings by marginal likelihood.
        width: units of each hidden layer.
        members: how many networks.
        penalty: whether λ‖θ − θ_0‖² with λ = noise / output is added, as in STO-BNTS, of which a deep
            ensemble is what remains without ⟨∇f(x; θ_0), θ_0'⟩. False interpolates, also noise, as
            be-greedy and Lakshminarayanan et al. have it.
        warm_start: whether trainings go on from the last one.
        zero_output_bias: whether the output's bias starts at 0 (be-greedy, appendix F).
    """

    width: int = 256
    members: int = 10
    penalty: bool = True
    warm_start: bool = False
    zero_output_bias: bool = False

    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.MEAN, Capability.VAR, Capability.PATH, Capability.GRADIENT}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        need_count("width", self.width)
        need_count("members", self.members)
        if isinstance(self.process, EmpiricalProcess) and self.zero_output_bias:
            check_output_bias(self.process.network)
        check_flags(
            penalty=self.penalty, warm_start=self.warm_start, zero_output_bias=self.zero_output_bias
        )
        object.__setattr__(self, "_links", OrderedDict())  # what is kept can be computed anew

    def tune(self, data: Data, *, key: KeyArray) -> Any:
        """Depth, σ_W, σ_b and noise by marginal likelihood; those of a chain belong to the fit."""
        return None if self.warm_start else super().tune(data, key=key)

    def fit(self, data: Data, *, key: KeyArray, tuned: Any = None) -> Fit:
        """The members, trained on all of `data`."""
        if self.warm_start:
            link = self._chained(data, key)
            starts = link.trained.params
        else:
            if tuned is None:
                tuned = self.tune(data, key=key)
            link, starts = self._trained(data, tuned, None, key)
        tuned, trained, realized = link
        shift, scale = standardization(data, self._process.standardize)
        posterior = EnsemblePosterior(
            model=self, network=realized.network, params=trained.params, believed=trained.params,
            starts=starts, x=data.x, y=data.y, mask=data.mask, output=realized.output,
            noise=realized.noise, shift=np.asarray(shift), scale=np.asarray(scale),
        )  # fmt: skip
        info = {**self._process.describe(tuned, scale), **_described(trained)}
        return Fit(posterior, fit_status(trained.loss, scale, 0.0), info)

    def _trained(
        self, data: Data, tuned: Any, starts: Params | None, key: KeyArray
    ) -> tuple["Link", Params]:
        """The members after a training from `starts`, or from θ_0, and where it began."""
        shift, scale = standardization(data, self._process.standardize)
        realized = self._process.realize(
            tuned, scale, width=self.width, zero_output_bias=self.zero_output_bias
        )
        if starts is None:
            keys = [fold(key, i) for i in range(self.members)]
            starts = stack([realized.network.init(own, data.dim) for own in keys])
        targets = np.where(data.mask, (data.y - shift) / scale, 0.0)
        return Link(tuned, self.train(realized, starts, data.x, data.mask, targets), realized), starts

    def train(
        self, realized: Realized, starts: Params, x: np.ndarray, mask: np.ndarray, y: np.ndarray
    ) -> Trained:
        """All members, from `starts` on the standardized values `y`."""
        network, output, noise = realized
        targets = np.tile(y / np.sqrt(output), (self.members, 1))
        lam = noise / output if self.penalty else np.zeros(())
        return train(network, starts, x, mask, targets, lam=lam)

    def _chained(self, data: Data, key: KeyArray) -> "Link":
        """The end of the chain of trainings, from the longest beginning of it that is known."""
        names = _names(data, key)
        known: OrderedDict[bytes, Link] = self._links  # type: ignore[attr-defined]
        n = max(data.n, 1)  # without observations there is one training, of nothing
        done = next((k for k in range(n, 0, -1) if names[k] in known), 0)
        link = known.get(names[done])
        for k in range(done + 1, n + 1):
            tuned = None if link is None else link.tuned
            if tuned is None or k & (k - 1) == 0:
                tuned = self._process.tune(data.take(slice(k)), key=key, finite=True)
            same = link is not None and _depth(link.tuned) == _depth(tuned)
            starts = link.trained.params if link is not None and same else None
            link, _ = self._trained(data.take(slice(k)), tuned, starts, key)
        assert link is not None
        known[names[n]] = link
        known.move_to_end(names[n])
        while len(known) > LINKS:
            known.popitem(last=False)
        return link


def _depth(tuned: Any) -> int | None:
    """Of an MLP; another network has its own."""
    return tuned.hyper.depth if isinstance(tuned, NTKTuned) else None


class Link(NamedTuple):
    """Trained members and their settings."""

    tuned: Any
    trained: Trained
    realized: Realized


def _names(data: Data, key: KeyArray) -> list[bytes]:
    """What the chain after 0, 1, …, n observations depends on beside the model, in short."""
    digest = hashlib.sha256(np.asarray(jax.random.key_data(key)).tobytes())
    digest.update(np.asarray(data.x.shape[1]).tobytes())
    names = [b"", digest.digest()]  # no training; one of nothing
    for k in range(data.n):
        digest.update(data.x[k].tobytes() + data.y[k].tobytes())
        names[k + 1 :] = [digest.digest()]
    return names


class EnsemblePosterior(StandardizedPosterior):
    """The moments of the members' values."""

    model: Ensemble = eqx.field(static=True)
    network: Network
    params: Params  # of all members, along a first axis
    believed: Params  # those without pending points, whose mean stands for their values
    starts: Params  # where a training with more observations begins
    x: Float[Array, "capacity D"]
    y: Float[Array, " capacity"]
    mask: Bool[Array, " capacity"]
    output: Float[Array, ""]
    noise: Float[Array, ""]
    shift: Float[Array, ""]
    scale: Float[Array, ""]

    @property
    def factor(self) -> Array:
        """What a network's value is multiplied with."""
        return self.scale * self.output**0.5

    @property
    def rows_at_once(self) -> int | None:
        """Those of the network, shared by the members."""
        rows = self.network.rows_at_once
        return None if rows is None else max(1, rows // self.model.members)

    @public
    def members(self, x: Float[Array, "*n D"]) -> Float[Array, "..."]:
        """The value of every member, one row for each."""
        return self.shift + self.factor * jax.vmap(lambda p: self.network(p, x))(self.params)

    @public
    def mean(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The mean over the members."""
        return self.members(x).mean(0)

    @public
    def var(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The variance over the members."""
        return jnp.maximum(self.members(x).var(0), (SMALLEST_DEVIATION * self.scale) ** 2)

    def sample(self, *, key: KeyArray, scale: float = 1.0) -> Path:
        """One of the members."""
        number = int(generator(key).integers(self.model.members))
        if scale == 1.0:
            own = jax.tree.map(lambda leaf: leaf[number], self.params)
            return NetworkPath(self.network, own, None, self.shift, np.asarray(self.factor))
        return MemberPath(self, np.asarray(number), np.asarray(scale))

    def condition(self, xs: np.ndarray, ys: np.ndarray | None = None) -> "EnsemblePosterior":
        """The members trained with more observations; without `ys`, at the mean of those without them."""
        xs, values = self.new_observations(xs, ys)
        if len(xs) == 0:
            return self
        n, capacity = int(np.sum(self.mask)), bucket(int(np.sum(self.mask)) + len(xs))
        if ys is None:
            believed = eqx.tree_at(lambda p: p.params, self, self.believed)
            # row by row: rounded the same however many come together
            values = np.concatenate([believed.mean(row[None]) for row in xs])
        x, y = pad(np.r_[self.x[:n], xs], capacity), pad(np.r_[self.y[:n], values], capacity)
        mask = np.arange(capacity) < n + len(xs)
        targets = np.where(mask, (y - self.shift) / self.scale, 0.0)
        realized = Realized(self.network, np.asarray(self.output), np.asarray(self.noise))
        params = self.model.train(realized, self.starts, x, mask, targets).params
        believed = self.believed if ys is None else params
        return eqx.tree_at(
            lambda p: (p.params, p.believed, p.x, p.y, p.mask), self, (params, believed, x, y, mask)
        )


class MemberPath(Path):
    """μ(x) + scale·(member(x) − μ(x))."""

    posterior: EnsemblePosterior
    number: Array
    scale: Float[Array, ""]

    @property
    def rows_at_once(self) -> int | None:
        """Those of the ensemble, whose mean is needed too."""
        return self.posterior.rows_at_once

    @public
    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The value at one point or at several."""
        values = self.posterior.members(x)
        mean = values.mean(0)
        return mean + self.scale * (values[self.number] - mean)


def _described(trained: Trained) -> dict[str, Any]:
    """How the training of the members went; `converged` says that all of them have."""
    return {
        "training": {
            "method": trained.method,
            "members": len(trained.loss),
            "converged": bool(trained.converged.all()),
            "converged_members": int(trained.converged.sum()),
            "loss": float(trained.loss.mean()),
            "gradient_norm": float(trained.gradient_norm.max()),
            "steps": int(trained.steps.max()),
            "reasons": sorted(set(trained.reasons)),
            "seconds": trained.seconds,
        }
    }
