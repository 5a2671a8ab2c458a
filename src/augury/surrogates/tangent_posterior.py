"""Bayesian linear regression on the tangent features of one network, exact and in the dual.

    f(x) = m(x) + √output · ⟨∇f(x; θ), w⟩,   w ~ N(0, I),   y = f(x) + N(0, noise)

What the papers write with the p × p matrix U = λI + Σ g gᵀ has an exact form with the n × n matrix of
the empirical NTK. A mean or a draw is linear in the tangent features again: one vector of weights, and
one forward derivative per point, whatever the number of observations.
"""

import operator
from dataclasses import fields
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import lapack

from augury._types import Array
from augury.core.data import Data, bucket
from augury.core.keys import KeyArray, fold, generator
from augury.core.linalg import cholesky, inverse_factor, square
from augury.core.precision import computing, jit, public, to_numpy
from augury.surrogates.base import Path, StandardizedPosterior
from augury.surrogates.networks import Network
from augury.surrogates.tangent import Blockwise, Params, Tangent, cast
from augury.surrogates.tangent_draw import standard_normal

LARGEST_COMPILED = 4096  # rows up to which K, L and L⁻¹ are made side by side
ROWS = 512  # of K at a time beyond
JITTER = 1e-10  # the smallest noise, as a fraction of the mean variance at the observations
quietly = np.errstate(divide="ignore", over="ignore", invalid="ignore")  # as compiled code is


class TangentModel(eqx.Module):
    """f before any data, in standardized units; m(x) = √output · f(x; centre), or 0 if that is None."""

    network: Network
    params: Params  # θ of the features
    centre: Params | None
    output: Float[Array, ""]
    noise: Float[Array, ""]
    shift: Float[Array, ""]  # of the values that were standardized
    scale: Float[Array, ""]

    @property
    def rows_at_once(self) -> int | None:
        """Those of the network."""
        return self.network.rows_at_once

    def model(self) -> dict[str, Any]:
        """These fields by name, for what else is made of the same model."""
        return {field.name: getattr(self, field.name) for field in fields(TangentModel)}

    def _centre(self, x: Array) -> Array:
        """m(x)."""
        if self.centre is None:
            return jnp.zeros(x.shape[:-1])
        return jnp.sqrt(self.output) * self.network(self.centre, x)

    def _linear(self, x: Array, weights: Params) -> Array:
        """⟨∇f(x; θ), weights⟩."""
        return jax.jvp(lambda params: self.network(params, x), (self.params,), (weights,))[1]


class TangentPosterior(TangentModel, StandardizedPosterior):
    """The posterior of w."""

    x: Float[Array, "capacity D"]
    residual: Float[Array, " capacity"]  # standardized y − m(x); zero in padded rows
    mask: Bool[Array, " capacity"]
    tangent: Tangent  # at x
    L_inverse: Float[Array, "capacity capacity"]
    weights: Params  # √output · the mean of w
    nugget: Float[Array, ""]

    def _half(self, x: Float[Array, "m D"]) -> tuple[Tangent, Float[Array, "capacity m"]]:
        """The features at x, and L⁻¹k(x)."""
        features = self.network.linearize(self.params, x)[1]
        k = self.output * jnp.where(self.mask[:, None], self.tangent.gram(features), 0.0)
        return features, self.L_inverse @ k

    @public
    def mean(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """μ(x) = m(x) + ⟨∇f(x; θ), output·Jᵀ(output·K + noise·I)⁻¹(y − m)⟩."""
        return self.shift + self.scale * (self._centre(x) + self._linear(x, self.weights))

    @public
    def var(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """σ²(x) = output·‖∇f(x; θ)‖² − ‖L⁻¹k(x)‖²."""
        rows = x if x.ndim == 2 else x[None]
        features, half = self._half(rows)
        prior = self.output * features.diagonal()
        var = self.scale**2 * jnp.maximum(prior - (half * half).sum(0), 1e-12 * prior + 1e-300)
        return var if x.ndim == 2 else var[0]

    @public
    def joint(self, xs: Float[Array, "m D"]) -> tuple[Float[Array, " m"], Float[Array, "m m"]]:
        """Mean and covariance at several points."""
        features, half = self._half(xs)
        covariance = self.output * features.gram(features) - square(half)
        return self.mean(xs), self.scale**2 * covariance

    @quietly
    def sample(self, *, key: KeyArray, scale: float = 1.0) -> "TangentPath":
        """A draw of w by Matheron's rule: a prior draw plus its exact update, one dual solve."""
        prior = jax.tree.map(
            lambda leaf: scale * np.sqrt(self.output) * leaf, standard_normal(self.params, generator(key))
        )
        noise = scale * np.sqrt(self.nugget) * generator(fold(key, 1)).standard_normal(len(self.residual))
        with computing(single_thread=len(self.x) <= LARGEST_COMPILED):
            residual = np.where(self.mask, self.residual - _pushed(self.tangent, prior) - noise, 0.0)
            update = to_numpy(_pulled(self.tangent, self._dual(residual)))
        return TangentPath(**self.model(), weights=jax.tree.map(np.add, prior, update))

    def _dual(self, residual: Float[Array, " capacity"]) -> Float[Array, " capacity"]:
        """output · (output·K + nugget·I)⁻¹ residual; compiled code would copy L⁻¹ first."""
        return self.output * ((self.L_inverse @ residual) @ self.L_inverse) * self.mask

    @quietly
    def condition(self, xs: np.ndarray, ys: np.ndarray | None = None) -> "TangentPosterior":
        """One row of L⁻¹ per new point, O(n²) each; without `ys` the mean is taken as observed."""
        xs, values = self.new_observations(xs, ys)
        if len(xs) == 0:
            return self
        n, p = int(np.sum(self.mask)), self
        # row by row, and with room for one more at a time: then four points together give the same bits
        # as one by one
        half = np.array([self.L_inverse[i, : i + 1] @ self.residual[: i + 1] for i in range(len(self.x))])
        tangent = p.tangent
        with computing(single_thread=bucket(n + len(xs)) <= LARGEST_COMPILED):
            for i, (new, y) in enumerate(zip(xs, values, strict=True), start=n):
                if p is self or i >= len(p.x):
                    p = _with_room(p, bucket(i + 1))
                    half = np.pad(half, (0, len(p.x) - len(half)))
                x, residual, mask, L_inverse = p.x, p.residual, p.mask, p.L_inverse  # written to
                x[i], mask[i] = new, True
                tangent, k, centre = to_numpy(_with_row(p.model(), tangent, x, mask, new, np.asarray(i)))
                known, variance = L_inverse[:i, :i], k[i]
                l = known @ k[:i]  # noqa: E741
                d = np.sqrt(max(variance + p.nugget - l @ l, 1e-10 * variance + 1e-300))
                L_inverse[i, :i], L_inverse[i, i] = -(l @ known) / d, 1.0 / d
                residual[i] = l @ half[:i] if np.isnan(y) else (y - p.shift) / p.scale - centre
                half[i] = L_inverse[i, : i + 1] @ residual[: i + 1]
            weights = to_numpy(_pulled(tangent, p.output * (half @ L_inverse) * mask))
        return eqx.tree_at(lambda q: (q.tangent, q.weights), p, (tangent, weights))

    @quietly
    def information_gain(self) -> float:
        """½ log det(I + K/nugget) = Σ log L_ii − (n/2) log nugget."""
        diagonal = np.diagonal(np.asarray(self.L_inverse))[np.asarray(self.mask)]
        return float(-np.log(diagonal).sum() - 0.5 * len(diagonal) * np.log(self.nugget))


class TangentPath(TangentModel, Path):
    """x ↦ shift + scale · (m(x) + ⟨∇f(x; θ), weights⟩), in float32 where the network is large."""

    weights: Params

    @public
    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The value at one point or at several."""
        own, x = (self, x) if self.rows_at_once is None else cast((self, x), jnp.float32)
        return self.shift + self.scale * (own._linear(x, own.weights) + own._centre(x))


def regress(model: TangentModel, data: Data, *, residuals: bool = True) -> tuple[TangentPosterior, Array]:
    """The posterior given all of `data`, and the jitter that the factorization needed.

    Without `residuals` the mean is m itself, for an m that was trained on the data.
    """
    if len(data.x) > LARGEST_COMPILED:
        posterior = _regress_in_place(model, data, residuals)
        if posterior is not None:
            return posterior, jnp.zeros(())
    return _regress(model, data, residuals)


def _regress_in_place(model: TangentModel, data: Data, residuals: bool) -> TangentPosterior | None:
    """The same with one n × n matrix in memory, which becomes K, L and L⁻¹; None if K is singular."""
    n, mask = len(data.x), np.asarray(data.mask)
    small = Data.of(data.x[:1], data.y[:1], data.groups)  # a posterior of the right structure
    posterior, _ = _regress(model, small, residuals)
    tangent, residual = _observed(model, data, residuals)
    K = np.empty((n, n))
    for start in range(0, n, ROWS):
        rows = data.x[start : start + ROWS]
        K[start : start + ROWS] = _rows_of_gram(model, rows, tangent)
    K[~mask], K[:, ~mask] = 0.0, 0.0
    diagonal = np.einsum("ii->i", K)
    nugget = np.maximum(model.noise, JITTER * diagonal[mask].mean())
    diagonal += np.where(mask, nugget, 1.0)
    upper, failed = lapack.dpotrf(K.T, lower=0, overwrite_a=1, clean=1)  # K.T is K in Fortran's order
    if failed:
        return None
    inverse, _ = lapack.dtrtri(upper, lower=0, overwrite_c=1)
    changed = (data.x, residual, mask, tangent, inverse.T, nugget)
    places = operator.attrgetter("x", "residual", "mask", "tangent", "L_inverse", "nugget")
    return _with_weights(eqx.tree_at(places, posterior, changed))


def at_data(x: Array, mask: Array) -> Array:
    """The rows, those of the padding at the first point or, without any, at one that is nothing special.

    In a corner and in the centre of the cube a user's network may be infinite.
    """
    mask = jnp.asarray(mask)
    return jnp.where(mask[:, None], x, jnp.where(mask[0], x[0], 0.3))


@jit
def _rows_of_gram(model: TangentModel, x: Array, tangent: Tangent) -> Array:
    return model.output * model.network.linearize(model.params, x)[1].gram(tangent)


@jit
def _observed(model: TangentModel, data: Data, residuals: bool) -> tuple[Tangent, Array]:
    """The features at the observations, and what m leaves of the values."""
    x, mask = at_data(data.x, data.mask), jnp.asarray(data.mask)
    rest = (data.y - model.shift) / model.scale - model._centre(x)
    return model.network.linearize(model.params, x)[1], jnp.where(mask & residuals, rest, 0.0)


@jit
def _regress(model: TangentModel, data: Data, residuals: bool) -> tuple[TangentPosterior, Array]:
    x, mask = jnp.asarray(data.x), jnp.asarray(data.mask)
    tangent, residual = _observed(model, data, residuals)
    K = model.output * jnp.where(mask[:, None] & mask[None, :], tangent.own_gram(), 0.0)
    unit = jnp.where(mask, jnp.diagonal(K), 0.0).sum() / jnp.maximum(mask.sum(), 1)
    nugget = jnp.maximum(model.noise, JITTER * unit)
    L, jitter = cholesky(K + jnp.diag(jnp.where(mask, nugget, 1.0)))
    posterior = TangentPosterior(
        **model.model(), x=x, residual=residual, mask=mask, tangent=tangent, L_inverse=inverse_factor(L),
        weights=jax.tree.map(jnp.zeros_like, model.params), nugget=nugget + jitter,
    )  # fmt: skip
    return _with_weights(posterior), jitter


def _with_weights(p: TangentPosterior) -> TangentPosterior:
    return eqx.tree_at(lambda q: q.weights, p, p.tangent.pull(p._dual(p.residual)))


def _with_room(p: TangentPosterior, capacity: int) -> TangentPosterior:
    """The same posterior with room for more observations, in arrays that may be written to."""
    more = max(capacity - len(p.x), 0)
    L_inverse = np.zeros((len(p.x) + more,) * 2)  # whose pages are touched below for the first time
    L_inverse[: len(p.x), : len(p.x)] = p.L_inverse
    np.einsum("ii->i", L_inverse)[len(p.x) :] = 1.0
    x, observed = np.pad(p.x, ((0, more), (0, 0))), (p.residual, p.mask)
    residual, mask = (np.pad(a, (0, more)) for a in observed)
    return eqx.tree_at(
        lambda q: (q.x, q.residual, q.mask, q.L_inverse), p, (x, residual, mask, L_inverse)
    )


@jit
def _with_row(
    model: dict[str, Any], tangent: Tangent, x: Array, mask: Array, new: Array, i: Array
) -> tuple[Tangent, Array, Array]:
    """The features with those of row i, output · their products with it, and m there."""
    own = TangentModel(**model)
    features = own.network.linearize(own.params, new[None])[1]
    if isinstance(tangent, Blockwise) or len(tangent.diagonal()) < len(x):
        tangent = own.network.linearize(own.params, at_data(x, mask))[1]
    else:
        tangent = jax.tree.map(lambda a, b: a.at[i].set(b[0]) if a.ndim else a, tangent, features)
    k = own.output * jnp.where(mask, tangent.gram(features)[:, 0], 0.0)
    return tangent, k, own._centre(new)


@jit
def _pushed(tangent: Tangent, v: Params) -> Array:
    return tangent.push(v)


@jit
def _pulled(tangent: Tangent, c: Array) -> Params:
    return tangent.pull(c)
