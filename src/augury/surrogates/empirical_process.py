"""The Gaussian process of a finite network's tangent kernel, its settings chosen by marginal likelihood.

For networks whose infinitely wide limit has no kernel at hand (convolutions, users' networks) the
empirical NTK at parameters θ_0 takes its place:

    f(x) = √output · ⟨∇f(x; θ_0), w⟩,   w ~ N(0, I),   y = f(x) + N(0, noise)

Two numbers are left to learn: the mean prior variance at the data, and the noise
(:mod:`augury.surrogates.spectral_density`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from augury._checks import check_fixed, check_flags, need_count
from augury._errors import UnsupportedError
from augury._types import Array
from augury.core.data import Data, bucket
from augury.core.keys import KeyArray, root_key
from augury.core.precision import computing, to_numpy
from augury.surrogates.base import Capability, Fit
from augury.surrogates.gp import fit_status, standardization, without_repeats
from augury.surrogates.networks import Network
from augury.surrogates.ntk_process import NO_NOISE, Realized, evenly
from augury.surrogates.spectral_density import Likeliest, likeliest
from augury.surrogates.tangent import Params, ntk
from augury.surrogates.tangent_posterior import TangentModel, regress
from augury.surrogates.user_networks import as_network, check_network, draw_params, shaped


class EmpiricalTuned(NamedTuple):
    """The settings found, in standardized units, and how the search went."""

    output: float  # what multiplies the network's tangent kernel
    found: Likeliest


@dataclass(frozen=True)
class EmpiricalProcess:
    """A Gaussian process with the tangent kernel of any network, at parameters fixed by the key.

    Args:
        network: a pair `(draw, apply)` with `draw(key) -> params` and `apply(params, row) -> number`;
            an Equinox module that maps a row to a number; or a network of Augury's, such as
            :class:`CNN`. Rows are in [−1, 1], and have the shape of an image on a pool of images. More
            can be said with :class:`UserNetwork` and :class:`ModuleNetwork`.
        noise: fixed noise variance in squared units of y, 0 for none; None learns it.
        output: what multiplies the kernel, in squared units of y; None learns it.
        standardize: whether y is standardized; False takes a prior mean of zero.
        tuning_points: settings are learnt from at most so many observations, evenly spaced in time.
    """

    network: Network
    noise: float | None = None
    output: float | None = None
    standardize: bool = True
    tuning_points: int = 256

    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)
    steady: ClassVar[bool] = True  # every fit of a study gets the same key, hence the same θ_0

    def __init__(
        self,
        network: Network
        | tuple[Callable[[Any], Params], Callable[[Params, Array], Array]]
        | list[Callable[..., Any]]
        | eqx.Module,
        noise: float | None = None,
        output: float | None = None,
        standardize: bool = True,
        tuning_points: int = 256,
    ) -> None:
        need_count("tuning_points", tuning_points)
        check_fixed("noise", noise, zero=True)
        check_fixed("output", output)
        check_flags(standardize=standardize)
        fields = {
            "network": as_network(network),
            "noise": noise,
            "output": output,
            "standardize": standardize,
            "tuning_points": tuning_points,
        }
        for name, field in fields.items():
            object.__setattr__(self, name, field)

    def on(self, shape: tuple[int, ...], *, finite: bool = True) -> "EmpiricalProcess":
        """The process for inputs of that shape; an error if its network does not take them."""
        network = shaped(self.network, shape)
        check_network(network, int(np.prod(shape)), root_key(0))
        return replace(self, network=network)

    def unit(self, scale: float) -> float:
        """Of `noise` and `output`, in standardized units."""
        return scale**2

    def tune(self, data: Data, *, key: KeyArray, finite: bool = True) -> EmpiricalTuned:
        """Output scale and noise of largest posterior density, at parameters drawn with `key`."""
        shift, scale = standardization(data, self.standardize)
        chosen = evenly(data.n, self.tuning_points)
        rows, y = data.x[chosen], (data.y[chosen] - shift) / scale
        if self.noise is not None and self.noise / scale**2 < NO_NOISE:
            rows, y = without_repeats(rows, y)
        rows = rows if len(rows) else np.full((1, data.dim), 0.5)
        K = self._kernel(rows, key)
        unit = float(np.mean(np.diagonal(K)))
        if not (np.isfinite(unit) and unit > 0.0):
            K, unit = np.full_like(K, np.nan), 1.0
        v = None if self.output is None else self.output * unit / scale**2
        found = likeliest(K / unit, y, v, None if self.noise is None else self.noise / scale**2)
        return EmpiricalTuned(found.v / unit, found)

    def fit(self, data: Data, *, key: KeyArray, tuned: EmpiricalTuned | None = None) -> Fit:
        """The posterior given all of `data`; the key decides θ_0."""
        if tuned is None:
            tuned = self.tune(data, key=key)
        shift, scale = standardization(data, self.standardize)
        network, output, noise = self.realize(tuned, scale)
        params = draw_params(network, data.dim, key)
        model = TangentModel(network, params, None, output, noise, np.asarray(shift), np.asarray(scale))
        with computing():
            posterior, jitter = to_numpy(regress(model, data))
        # of an infinite K, L⁻¹ is 0 and only the noise tells
        status = fit_status(np.append(posterior.L_inverse, posterior.nugget), scale, float(jitter))
        return Fit(posterior, status, self.describe(tuned, scale))

    def realize(
        self,
        tuned: EmpiricalTuned,
        scale: float,
        *,
        width: int | None = None,
        zero_output_bias: bool = False,
    ) -> Realized:
        """The network with its settings; its width is its own."""
        output = tuned.output if self.output is None else self.output / scale**2
        noise = tuned.found.noise if self.noise is None else self.noise / scale**2
        network: Any = self.network
        if zero_output_bias:
            network = replace(network, zero_output_bias=True)
        return Realized(network, np.asarray(output), np.asarray(noise))

    def describe(self, tuned: EmpiricalTuned, scale: float) -> dict[str, Any]:
        """What a fit found, in the units of the data."""
        _, output, noise = self.realize(tuned, scale)
        return {
            "network": type(self.network).__name__,
            "output": float(output) * scale**2,
            "variance": tuned.found.v * scale**2,
            "noise": float(noise) * scale**2,
            "log_posterior": tuned.found.log_posterior,
            "tuning_evaluations": tuned.found.evaluations,
            "tuning_converged": tuned.found.converged,
        }

    def _kernel(self, rows: Float[np.ndarray, "n D"], key: KeyArray) -> Float[np.ndarray, "n n"]:
        """The empirical NTK; rows are padded to a bucket, so that few numbers of them are compiled."""
        n = len(rows)
        params = draw_params(self.network, rows.shape[1], key)
        padded = np.concatenate([rows, np.repeat(rows[:1], bucket(n) - n, axis=0)])
        return np.asarray(ntk(self.network, params, padded))[:n, :n]


def check_output_bias(network: Network) -> None:
    """Refuse a network without an output bias that could start at 0."""
    if not hasattr(network, "zero_output_bias"):
        raise UnsupportedError(
            f"zero_output_bias needs a network with that field; got {type(network).__name__}. "
            "Let the network draw its bias as 0, and leave zero_output_bias out."
        )
