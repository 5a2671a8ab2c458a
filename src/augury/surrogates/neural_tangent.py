"""A trained network for the mean, the tangent features of a network for the variance.

    θ_t  = argmin Σ_i (y_i − h(x_i; θ))² + λ‖θ − θ_0‖²              (neural-bo, algorithm 2, TrainNN)
    U_t  = λI + Σ_i g(x_i) g(x_i)ᵀ                                  (algorithm 1, line 7)
    σ_t² = λ g(x)ᵀU_t⁻¹g(x)                           (line 3, where it is that of t − 1)
    f̃(x) = h(x; θ_t) + ν⟨g(x), ξ⟩,   ξ ~ N(0, λU_t⁻¹)

The features g(x) = ∇h(x; θ) are those of the initial parameters θ_0 (neural-bo) or of the current θ_t
(NeuralUCB and NeuralTS). The p × p matrix U is never made: all is exact through the n × n matrix of the
empirical NTK (:mod:`augury.surrogates.tangent_posterior`). A draw is a function, where the papers draw
independent normals at the candidates, whose maximum grows with the number of candidates.

References: Phan-Trong, Tran-The & Gupta (2023), "NeuralBO" (neural-bo); Zhou, Li & Gu (2020), "Neural
contextual bandits with UCB-based exploration"; Zhang, Zhou, Li & Gu (2021), "Neural Thompson sampling".
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt32

from augury._checks import need_count, one_of
from augury._errors import UnsupportedError
from augury._types import Array
from augury.core.data import Data
from augury.core.keys import KeyArray, fold
from augury.core.precision import computing, public, to_numpy
from augury.surrogates.base import Capability, Fit, Path, Posterior, Status
from augury.surrogates.diagonal_posterior import DiagonalPosterior, diagonal
from augury.surrogates.gp import fit_status, standardization
from augury.surrogates.networks import Network, stack
from augury.surrogates.process import NeuralSurrogate
from augury.surrogates.sample_then_optimize import described
from augury.surrogates.tangent import Params, parameter_count
from augury.surrogates.tangent_posterior import TangentModel, TangentPosterior, regress
from augury.surrogates.training import Trained, train


class NeuralTuned(NamedTuple):
    """The process's settings, and the number of observations they were learnt from."""

    settings: Any
    n: int


class Kept(NamedTuple):
    """What the next observation is added to; it can be computed anew from the data."""

    recipe: tuple[Any, ...]
    x: Float[np.ndarray, "n D"]
    y: Float[np.ndarray, " n"]
    posterior: Posterior


class Beginning(NamedTuple):
    """The training on the observations of the last tuning; it can be made anew from the data."""

    recipe: tuple[Any, ...]
    x: Float[np.ndarray, "capacity D"]
    y: Float[np.ndarray, " capacity"]
    trained: Trained

    def of(self, first: Data) -> bool:
        """Whether it was made with these observations."""
        return np.array_equal(self.x, first.x) and np.array_equal(self.y, first.y)


@dataclass(frozen=True)
class NeuralTangent(NeuralSurrogate):
    """Mean by training, variance by tangent features; θ_0 is fixed by the study's seed.

    Between two tunings of the settings the values are standardized as at the last one, so that a new
    observation adds one row to the factor of the n × n matrix, and the training goes on from the network
    of the last tuning, itself trained from θ_0.

    Args:
        process: the network and its settings; None is a CNN for images and an MLP for everything else,
            with settings by marginal likelihood.
        width: units of each hidden layer.
        features: "initial" are those at θ_0, which never change; "current" those at θ_t, of all data.
        covariance: "exact", or "diagonal": U has only its diagonal, to which every observation adds
            g∘g at the parameters that were trained on the observations up to it, as in NeuralUCB's and
            NeuralTS's code.
        draw: "function", or "pointwise" for independent normals at the candidates, as in the papers;
            on finite sets only.
    """

    width: int = 256
    features: Literal["initial", "current"] = "initial"
    covariance: Literal["exact", "diagonal"] = "exact"
    draw: Literal["function", "pointwise"] = "function"

    def __post_init__(self) -> None:
        super().__post_init__()
        need_count("width", self.width)
        one_of("features", self.features, ("initial", "current"))
        one_of("covariance", self.covariance, ("exact", "diagonal"))
        one_of("draw", self.draw, ("function", "pointwise"))
        if self.covariance == "diagonal" and self.process is not None and self.process.noise == 0.0:
            raise UnsupportedError(
                'covariance="diagonal" must have noise, since U begins as λI; got noise=0. '
                "Give a small one, such as 1e-6."
            )
        object.__setattr__(self, "_kept", None)
        object.__setattr__(self, "_beginning", None)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_kept": None, "_beginning": None}

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All; without joint covariances where U is diagonal."""
        lacking = {Capability.JOINT} if self.covariance == "diagonal" else set()
        return frozenset(Capability) - lacking

    def on(self, shape: tuple[int, ...], *, finite: bool) -> Self:
        """The surrogate for inputs of that shape; an error if there must be finitely many and are not."""
        if self.draw == "pointwise" and not finite:
            raise UnsupportedError(
                'draw="pointwise" must have a finite set of candidates; got a continuous space, where '
                'independent normals have no largest value. Use draw="function", or a Pool.'
            )
        return super().on(shape, finite=finite)

    def tune(self, data: Data, *, key: KeyArray) -> NeuralTuned:
        """Depth, σ_W, σ_b and noise by the marginal likelihood of the limit."""
        return NeuralTuned(super().tune(data, key=key), data.n)

    def fit(self, data: Data, *, key: KeyArray, tuned: NeuralTuned | None = None) -> Fit:
        """The network trained on all of `data`, and the posterior of its tangent features."""
        if tuned is None:
            tuned = self.tune(data, key=key)
        shift, scale = standardization(data.take(slice(0, tuned.n)), self._process.standardize)
        network, output, noise = self._process.realize(tuned.settings, scale, width=self.width)
        theta0 = network.init(fold(key, 0), data.dim)
        model = _Model(network, theta0, output, noise, np.asarray(shift), np.asarray(scale))
        recipe = (tuned, np.asarray(jax.random.key_data(key)).tobytes())
        trained = self._trained(model, data, recipe)
        with computing(single_thread=False):
            posterior, status = self._posterior(model, data, recipe, model.last(trained))
        if not np.isfinite(trained.loss).all():
            status = Status.FAILED
        info = self._process.describe(tuned.settings, scale) | described(trained, 0)
        info |= {"parameters": parameter_count(theta0)}
        return Fit(Pointwise(posterior) if self.draw == "pointwise" else posterior, status, info)

    def _trained(self, model: "_Model", data: Data, recipe: tuple[Any, ...]) -> Trained:
        """On all of `data`, from where the training on those of the last tuning ended."""
        tuned, first = recipe[0], data.take(slice(0, recipe[0].n))
        known: Beginning | None = self._beginning  # type: ignore[attr-defined]
        if known is None or known.recipe != recipe or not known.of(first):
            known = Beginning(recipe, first.x, first.y, model.train(first))
            object.__setattr__(self, "_beginning", known)
        return known.trained if data.n == tuned.n else model.train(data, known.trained)

    def _posterior(
        self, model: "_Model", data: Data, recipe: tuple[Any, ...], theta: Params
    ) -> tuple[TangentPosterior | DiagonalPosterior, Status]:
        if self.covariance == "diagonal":
            posterior = self._accumulated(model, data, recipe, theta)
            return posterior, fit_status(np.ones(1), float(model.scale), 0.0)
        if self.features == "current":
            current, jitter = to_numpy(model.regress(data, theta))
            return current, _status(current, jitter)
        known = self._known(recipe, data)
        if known is None:
            first = data.take(slice(0, recipe[0].n))
            known, jitter = to_numpy(model.regress(first, model.theta0))
            if _status(known, jitter) is not Status.OK:  # nothing is built on it
                known, jitter = to_numpy(model.regress(data, model.theta0))
                return replace(known, centre=theta), _status(known, jitter)
        n = int(np.sum(known.mask))
        known = known.condition(data.x[n : data.n])
        self._keep(recipe, data, known)
        return replace(known, centre=theta), Status.OK

    def _accumulated(
        self, model: "_Model", data: Data, recipe: tuple[Any, ...], theta: Params
    ) -> DiagonalPosterior:
        """U after every observation, each with the features of its time (NeuralUCB, algorithm 1)."""
        posterior = self._known(recipe, data)
        if posterior is None:
            posterior = diagonal(model.network, model.theta0, *model[2:], dim=data.dim)
        for n in range(int(np.sum(posterior.mask)), data.n):
            then = theta
            if n + 1 < data.n and self.features == "current":
                some = data.take(slice(0, n + 1))
                is_early = n + 1 < recipe[0].n  # before the last tuning
                then = model.last(model.train(some) if is_early else self._trained(model, some, recipe))
            features = model.theta0 if self.features == "initial" else then
            posterior = replace(posterior, params=features, centre=then).condition(data.x[n])
        self._keep(recipe, data, posterior)
        features = model.theta0 if self.features == "initial" else theta
        return replace(posterior, params=features, centre=theta)

    def _known(self, recipe: tuple[Any, ...], data: Data) -> Any:
        """What is kept of a beginning of this data, if anything is."""
        kept: Kept | None = self._kept  # type: ignore[attr-defined]
        if kept is None or kept.recipe != recipe or len(kept.x) > data.n:
            return None
        n = len(kept.x)
        same = np.array_equal(kept.x, data.x[:n]) and np.array_equal(kept.y, data.y[:n])
        return kept.posterior if same else None

    def _keep(self, recipe: tuple[Any, ...], data: Data, posterior: Posterior) -> None:
        n = data.n
        object.__setattr__(self, "_kept", Kept(recipe, data.x[:n], data.y[:n], posterior))


class _Model(NamedTuple):
    """A network with its settings, in standardized units."""

    network: Network
    theta0: Params
    output: np.ndarray
    noise: np.ndarray
    shift: np.ndarray
    scale: np.ndarray

    def train(self, data: Data, begin: Trained | None = None) -> Trained:
        """TrainNN: √output·h is fitted to the values, with λ = σ²/output."""
        y = np.where(data.mask, (data.y - self.shift) / self.scale, 0.0) / np.sqrt(self.output)
        lam = np.asarray(self.noise / self.output)
        starts = stack([self.theta0])
        return train(self.network, starts, data.x, data.mask, y[None], lam=lam, begin=begin)

    def last(self, trained: Trained) -> Params:
        """θ_t."""
        return jax.tree.map(lambda leaf: np.asarray(leaf[0], dtype=np.float64), trained.params)

    def regress(self, data: Data, features: Params) -> tuple[TangentPosterior, Array]:
        """The posterior around the network with parameters `features`."""
        model = TangentModel(self.network, features, features, *self[2:])
        return regress(model, data, residuals=False)


def _status(posterior: TangentPosterior, jitter: Any) -> Status:
    solution = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(posterior.weights)])
    whole = np.append(solution, np.diagonal(posterior.L_inverse))
    return fit_status(whole, float(posterior.scale), jitter)


class Pointwise(Posterior):
    """A posterior whose draws are independent normals at the candidates."""

    inner: TangentPosterior | DiagonalPosterior
    x: Float[Array, "capacity D"]

    def __init__(self, inner: TangentPosterior | DiagonalPosterior) -> None:
        self.inner, self.x = inner, inner.x

    @property
    def rows_at_once(self) -> int | None:
        """Those of the network."""
        return self.inner.rows_at_once

    def sample(self, *, key: KeyArray, scale: float = 1.0) -> "PointwisePath":
        """N(μ(x), scale²σ²(x)) at every point, whatever its value is at another."""
        return PointwisePath(self.inner, np.asarray(jax.random.key_data(key)), np.asarray(scale))

    @public
    def mean(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """μ(x)."""
        return self.inner.mean(x)

    @public
    def var(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """σ²(x)."""
        return self.inner.var(x)

    def joint(self, xs: Any) -> Any:
        """Mean and covariance, if the posterior has them."""
        return self.inner.joint(xs)

    def condition(self, xs: np.ndarray, ys: np.ndarray | None = None) -> "Pointwise":
        """As of the posterior."""
        return Pointwise(self.inner.condition(xs, ys))

    def incumbent(self) -> float:
        """As of the posterior."""
        return self.inner.incumbent()

    @property
    def observations(self) -> int:
        """As of the posterior."""
        return self.inner.observations

    def information_gain(self) -> float:
        """As of the posterior."""
        return self.inner.information_gain()

    @property
    def noise_std(self) -> float:
        """As of the posterior."""
        return self.inner.noise_std


class PointwisePath(Path):
    """μ(x) + scale·σ(x)·ε(x), the normals ε(x) independent of each other and a function of x's bits."""

    posterior: TangentPosterior | DiagonalPosterior
    key: UInt32[Array, " 2"]
    scale: Float[Array, ""]

    @property
    def rows_at_once(self) -> int | None:
        """Those of the network."""
        return self.posterior.rows_at_once

    @public
    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The value at one point or at several."""
        if x.ndim == 2:
            return jax.vmap(self.__call__)(x)
        bits = jax.lax.bitcast_convert_type(x.astype(jnp.float64), jnp.uint32).ravel()
        key = jax.random.wrap_key_data(self.key)
        odd = jax.random.bits(key, (2, len(bits)), jnp.uint32) | 1
        hashed = jnp.sum(bits * odd, axis=1, dtype=jnp.uint32)
        normal = jax.random.normal(jax.random.wrap_key_data(self.key ^ hashed))
        return self.posterior.mean(x) + self.scale * jnp.sqrt(self.posterior.var(x)) * normal
