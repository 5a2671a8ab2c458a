"""How much a policy explores at step t: the factor β_t of the standard deviation."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from augury import theory
from augury._checks import check_count, check_real
from augury._errors import UnsupportedError
from augury.surrogates.base import Posterior


@runtime_checkable
class Schedule(Protocol):
    """β_t as a function of the step and of what has been observed."""

    def __call__(self, t: int, posterior: Posterior) -> float:
        """β_t."""


@dataclass(frozen=True)
class Constant:
    """β_t = value."""

    value: float

    def __post_init__(self) -> None:
        check_real("β", self.value)
        if not 0.0 <= self.value < float("inf"):
            raise UnsupportedError(f"β must be finite and >= 0; got {self.value}. Use about 2.")

    def __call__(self, t: int, posterior: Posterior) -> float:
        """The value."""
        return self.value


@dataclass(frozen=True)
class SqrtLog:
    """β_t = √log(t + 2), as in the experiments of the random-grid paper (section 5.1)."""

    def __call__(self, t: int, posterior: Posterior) -> float:
        """√log(t + 2)."""
        return theory.beta_sqrt_log(t)


@dataclass(frozen=True)
class InformationGain:
    """β_t = B + R √(2(γ_{t−1} + 1 + log(c/δ))), with the information gain of the observed points.

    The theorems take a kernel with k(x, x) <= 1: B (a bound on the norm of f) and R (the noise's
    sub-Gaussian constant) are in units of the prior standard deviation. γ is computed from the data,
    ½ log det(I + K/τ), a lower bound of the maximum information gain.

    Args:
        B: bound on the norm of the function.
        R: sub-Gaussian constant of the noise.
        delta: probability with which the confidence bound may fail.
        c: 1 in Theorem 3 (GP-UCB), 2 in Theorem 7 (random grid GP-UCB) and algorithm 2 (GP-TS), 3 in
            Theorem 8 (random grid GP-TS).

    Reference: Chowdhury & Gopalan (2017), Theorem 2; Kim, Liu & Chen (2025), algorithms 1 and 2.
    """

    B: float = 1.0
    R: float = 0.1
    delta: float = 0.1
    c: float = theory.C_GP_UCB

    def __post_init__(self) -> None:
        theory.beta_chowdhury_gopalan(0.0, self.B, self.R, self.delta, self.c)  # its checks

    def __call__(self, t: int, posterior: Posterior) -> float:
        """β_t with the gain of the posterior's observations."""
        gain = posterior.information_gain()
        return theory.beta_chowdhury_gopalan(max(gain, 0.0), self.B, self.R, self.delta, self.c)


@dataclass(frozen=True)
class UnionBound:
    """β_t = 2 log(π²t²|𝒳|/(3δ)), the schedule of STO-BNTS's theorems (its experiments set β_t = 1).

    Args:
        size: |𝒳|, the number of candidates of a finite set.
        dimension: of a continuous space instead, which a grid of spacing 1/√horizon stands for.
        horizon: T, the total number of evaluations; needed with `dimension`.
        delta: probability with which the regret bound may fail.
        finite_width: the doubled argument of Theorem 2 (STO-BNTS-Linear).

    Reference: Dai et al. (2022), Theorems 1 and 2, appendix E.
    """

    size: int | None = None
    dimension: int | None = None
    horizon: int | None = None
    delta: float = 0.1
    finite_width: bool = False

    def __post_init__(self) -> None:
        if (self.size is None) == (self.dimension is None) or (
            (self.dimension is None) != (self.horizon is None)
        ):
            raise UnsupportedError(
                "a union bound must have either size, or dimension and horizon; got "
                f"size={self.size}, dimension={self.dimension}, horizon={self.horizon}. "
                "Give the number of candidates, or the space's dimension and the evaluations."
            )
        for name in ("size", "dimension", "horizon"):
            check_count(name, getattr(self, name))
        self._beta(1)  # its checks

    def __call__(self, t: int, posterior: Posterior) -> float:
        """β_t."""
        return self._beta(t)

    def _beta(self, t: int) -> float:
        if self.size is not None:
            log_size = float(np.log(self.size))
        else:
            assert self.dimension is not None
            assert self.horizon is not None
            log_size = theory.log_grid_size(self.horizon, self.dimension)
        rule = theory.beta_sto_bnts_finite_width if self.finite_width else theory.beta_sto_bnts
        return rule(t, log_size, self.delta)


@dataclass(frozen=True)
class Desautels:
    """β_t = √(s · 2 log(|D|t²π²/(6δ))) · exp(C), which multiplies σ: that of GP-BUCB.

    Args:
        size: |D|, the number of points of a finite set; a continuous space is taken for a random grid.
        delta: probability with which the confidence bound may fail.
        scale: s; 1 is the theory, and 1/5 is what Srinivas et al. found better in their experiments.
        C: a bound on what the pending points tell about any other point, in nats; 0 for single points.
            Uncertainty sampling makes it small (`initial=("uncertainty", n)`).

    Reference: Desautels, Krause & Burdick (2014), "Parallelizing exploration-exploitation tradeoffs in
    Gaussian process bandit optimization", Theorem 2; Srinivas et al. (2010), Theorem 1 and section 6.
    """

    size: int = 1000
    delta: float = 0.1
    scale: float = 0.2
    C: float = 0.0

    def __post_init__(self) -> None:
        check_count("size", self.size)
        for name in ("scale", "C"):
            value = getattr(self, name)
            check_real(name, value)
            if not 0.0 <= value < float("inf"):
                raise UnsupportedError(f"{name} must be finite and >= 0; got {value}. Leave it out.")
        theory.beta_srinivas(1, float(np.log(self.size)), self.delta)  # its checks

    def __call__(self, t: int, posterior: Posterior) -> float:
        """β_t."""
        squared = self.scale * theory.beta_srinivas(t, float(np.log(self.size)), self.delta)
        return float(np.sqrt(squared) * np.exp(self.C))


@dataclass(frozen=True)
class NeuralBOTheory:
    """ν_t = √2·B + (R/√λ)√(2 log(1/α)), the same for every t: NeuralBO's Theorem 1.

    B bounds the norm of the function and R is the noise's sub-Gaussian constant, both in units of the
    prior standard deviation; α is the probability of failure. Its experiments choose ν from a grid.
    """

    B: float = 1.0
    R: float = 0.1
    regularization: float = 0.01
    alpha: float = 0.1

    def __post_init__(self) -> None:
        theory.nu_neural_bo(self.B, self.R, self.regularization, self.alpha)  # its checks

    def __call__(self, t: int, posterior: Posterior) -> float:
        """ν."""
        return theory.nu_neural_bo(self.B, self.R, self.regularization, self.alpha)


@dataclass(frozen=True)
class NeuralBOAdaptive:
    """ν_t = √(g log(1 + t g)), g = t/log(t + 1): what NeuralBO's published settings mean by ν = 0."""

    def __call__(self, t: int, posterior: Posterior) -> float:
        """ν_t."""
        return theory.nu_neural_bo_adaptive(t)


def beta_at(beta: "float | Schedule", t: int, posterior: Posterior) -> float:
    """β_t, which must be a number of at least 0."""
    value = as_schedule(beta)(t, posterior)
    if not 0.0 <= value < float("inf"):
        raise UnsupportedError(f"β must be finite and >= 0; got {value} at t={t}. Correct the schedule.")
    return value


def as_schedule(beta: "float | Schedule") -> Schedule:
    """A number is a constant schedule."""
    if isinstance(beta, int | float | np.integer | np.floating) and not isinstance(beta, bool):
        return Constant(float(beta))
    if callable(beta) and not isinstance(beta, type):
        return beta
    raise UnsupportedError(f"beta must be a number or a schedule; got {beta!r}. Use about 2.")
