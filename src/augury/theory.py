"""What the theorems ask for: information gain, β_t and ν_t, the initial design, M_T.

Plain numbers in, plain numbers out; nothing here knows a surrogate or a policy. The papers write
β_t for different things, so each schedule is a function of its own, named after its source, and
says whether it multiplies σ itself or stands under a root. Logarithms of sizes (`log_size` =
log |𝒳|) are taken as arguments, since |𝒳| = T^{d/2} overflows long before its logarithm does.

The five papers: random-grid (Kim, Liu and Chen), sto-bnts (Dai et al.), be-greedy (Paria et al.),
neural-bo (Phan-Trong et al.), ts-rsr (Ren and Li). Their symbols are mapped in docs/notation.md.
"""

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from jaxtyping import Float, Int

from augury._checks import check_real
from augury._errors import DataError

# c in log(c/δ) of `beta_chowdhury_gopalan`: the number of events that share the probability δ.
C_GP_UCB: Final = 1.0  # random-grid Algorithm 1, Theorem 3: also with inexact maximization
C_GP_TS: Final = 2.0  # random-grid Algorithm 2
C_RANDOM_GRID_UCB: Final = 2.0  # random-grid Theorem 7
C_RANDOM_GRID_TS: Final = 3.0  # random-grid Theorem 8

GREEDY_RATIO: Final = 1.0 - 1.0 / math.e  # Nemhauser, Wolsey and Fisher 1978

# Where a user has no wish: sto-bnts starts from 20 points on its 12-dimensional task, ts-rsr from
# 15 everywhere, while the bare rules of `t_init` ask for hundreds.
INITIAL_CAP: Final = 20


def information_gain(K: Float[np.ndarray, "n n"], tau: float) -> float:
    """What n observations with noise variance τ tell about f ~ GP(0, k), in nats.

    I(y; f) = ½ log det(I + K/τ), with K the Gram matrix of the n points.

    Reference: random-grid section 2.2 (there τ), neural-bo section 3.3 (there λ).
    """
    K = _gram(K)
    _positive("tau", tau, "Pass the noise variance.")
    try:
        L = np.linalg.cholesky(np.eye(len(K)) + K / tau)
    except np.linalg.LinAlgError:
        raise DataError(
            f"K must be positive semi-definite; got an eigenvalue below -tau = {-tau!r}. "
            "Pass the Gram matrix of a kernel, or a larger tau."
        ) from None
    return float(np.log(np.diagonal(L)).sum())  # ½ log det(L Lᵀ)


@dataclass(frozen=True, eq=False)
class GreedyGain:
    """The outcome of `greedy_information_gain`.

    Fields:
        chosen: the candidates in the order of choice; an index may occur more than once.
        gains: γ̂_1 … γ̂_T, the gain of the first 1 … T of them.
    """

    chosen: Int[np.ndarray, " T"]
    gains: Float[np.ndarray, " T"]

    @property
    def upper(self) -> Float[np.ndarray, " T"]:
        """γ̂_t/(1 − 1/e): with `gains` the bracket γ̂_t ≤ γ_t ≤ upper_t of the maximum gain.

        γ_t is the maximum over t observations at the *candidates*, repetitions allowed.
        """
        return self.gains / GREEDY_RATIO


def greedy_information_gain(K: Float[np.ndarray, "N N"], steps: int, tau: float) -> GreedyGain:
    """Choose `steps` observations of N candidates, each adding most to the information gain.

    I(y_{1:t}; f) = I(y_{1:t−1}; f) + ½ log(1 + σ²_{t−1}(x_t)/τ), so the greedy choice is the point
    of largest posterior variance: uncertainty sampling (sto-bnts App. B, ts-rsr Lemma B.2). The
    gain is monotone and submodular, hence greedy reaches (1 − 1/e) of the maximum γ_t. A point may
    be chosen again, since observations are noisy. Of equal candidates the first is taken.

    Row s of the factor below is Cov(f, y_s | y_{1:s−1})/√Var(y_s | y_{1:s−1}); a step costs O(N·s)
    and reads one column of K.
    """
    K = _gram(K)
    _positive("tau", tau, "Pass the noise variance.")
    _integer("steps", steps, 1, "Ask for one step or more.")
    if len(K) == 0:
        raise DataError("K must hold one candidate or more; got shape (0, 0). Pass a larger set.")
    factor = np.zeros((steps, len(K)))
    variance = np.diagonal(K).copy()
    chosen = np.zeros(steps, dtype=np.int64)
    added = np.zeros(steps)
    for s in range(steps):
        i = int(np.argmax(variance))
        chosen[s] = i
        added[s] = 0.5 * math.log1p(variance[i] / tau)
        covariance = K[:, i] - factor[:s, i] @ factor[:s]
        factor[s] = covariance / math.sqrt(variance[i] + tau)
        variance = np.maximum(variance - factor[s] ** 2, 0.0)
    return GreedyGain(chosen=chosen, gains=np.cumsum(added))


def beta_sqrt_log(t: float) -> float:
    """β_t = √log(t + 2), which multiplies σ.

    Reference: random-grid section 5.1. Its published code counts t from 0, so 0 is allowed.
    """
    _at_least("t", t, 0.0, "Count iterations from 0 or 1.")
    return math.sqrt(math.log(t + 2.0))


def beta_chowdhury_gopalan(gain: float, B: float, R: float, delta: float, c: float = C_GP_UCB) -> float:
    """β_t = B + R·√(2(γ_{t−1} + 1 + log(c/δ))), which multiplies σ.

    Arguments:
        gain: γ_{t−1}, the maximum information gain of t − 1 observations; `GreedyGain.gains` is
            below it, `GreedyGain.upper` above it.
        B: a bound of the RKHS norm of f.
        R: the sub-Gaussian parameter of the noise (a standard deviation).
        delta: the probability with which the bound may fail.
        c: `C_GP_UCB`, `C_GP_TS`, `C_RANDOM_GRID_UCB` or `C_RANDOM_GRID_TS`.

    Reference: random-grid Algorithms 1 and 2, Theorems 3, 7 and 8, after Chowdhury and Gopalan
    2017. Theorem 4 prints no β_t of its own; Algorithm 2 holds there.
    """
    _at_least("gain", gain, 0.0, "Pass an information gain.")
    _at_least("B", B, 0.0, "Pass a bound of the RKHS norm.")
    _at_least("R", R, 0.0, "Pass the standard deviation of the noise.")
    _probability("delta", delta)
    _at_least("c", c, 1.0, "Pass one of the constants C_... of this module.")
    return B + R * math.sqrt(2.0 * (gain + 1.0 + math.log(c / delta)))


def enlargement(eta: float, B: float) -> float:
    """ṽ_t = (1/η̃_t − 1)·B, added to β_t σ when a path is drawn for an inexact maximizer.

    The path has the standard deviation s_{t−1}(x) = β_t σ_{t−1}(x) + ṽ_t.

    Reference: random-grid Theorem 4.
    """
    if not 0.0 < eta <= 1.0:
        raise DataError(f"'eta' must satisfy 0 < eta <= 1; got {eta!r}. Pass a worst-case ratio.")
    _at_least("B", B, 0.0, "Pass a bound of the RKHS norm.")
    return (1.0 / eta - 1.0) * B


def accumulated_inaccuracy(etas: Float[np.ndarray, " T"]) -> float:
    """M_T = Σ_t (1 − η_t), between 0 and T, of the accuracies η_t = α_t(x_t)/α_t*.

    Reference: random-grid section 3.1.
    deviation: the paper sums worst cases η̃_t; measured η_t give a lower estimate of that M_T.
    """
    etas = np.asarray(etas, dtype=np.float64)
    if etas.ndim != 1 or not bool(((etas >= 0.0) & (etas <= 1.0)).all()):
        raise DataError(
            f"'etas' must be a vector of numbers in [0, 1]; got {etas!r}. "
            "Clip the measured ratios and leave out steps without one."
        )
    return float((1.0 - etas).sum())


def beta_sto_bnts(t: float, log_size: float, delta: float) -> float:
    """β_t = 2 log(π²t²|𝒳|/(3δ)), infinite width; multiplies σ (and the network's output).

    t counts evaluations, not batches (App. C), and log_size = log |𝒳|.

    Reference: sto-bnts section 3, Theorem 1 and App. C. Its experiments set β_t = 1.
    deviation: App. A prints 2 log(π²t²|𝒳|/δ), without the 3; Theorem 1 is followed. Lemma 1 uses
    β_t where Lemma 5.1 of Srinivas et al. 2010 has √β_t: valid, since β_t > 1, but wider.
    """
    return 2.0 * _log_union(t, log_size, delta, math.pi**2 / 3.0)


def beta_sto_bnts_finite_width(t: float, log_size: float, delta: float) -> float:
    """β_t = 2 log(2π²t²|𝒳|/(3δ)), finite width; multiplies σ.

    The 2 pays for the event that the empirical NTK is close to the NTK (δ/4 instead of δ/2).

    Reference: sto-bnts Theorem 2 and App. D (STO-BNTS-Linear).
    """
    return 2.0 * _log_union(t, log_size, delta, 2.0 * math.pi**2 / 3.0)


def log_grid_size(T: float, dimension: int) -> float:
    """log |𝒳̃| = (d/2)·log T: the grid of spacing 1/√T that stands for [0, 1]^d.

    The `log_size` of the two schedules above on a continuous space, for a horizon of T.

    Reference: sto-bnts App. E.
    """
    _at_least("T", T, 1.0, "Pass the number of evaluations.")
    _integer("dimension", dimension, 1, "Pass the dimension of the space.")
    return 0.5 * dimension * math.log(T)


def nu_be_greedy(gain: float, B: float, noise_std: float, delta: float) -> float:
    """ν_t = B + σ_*·√(2(I_{t−1} + 1 + log(2/δ))), which multiplies σ.

    The same as `beta_chowdhury_gopalan` with R = σ_*, the true noise (`noise_std`),
    and c = 2: both rest on Chowdhury and Gopalan 2017. Take `gain` with τ = `sigma2_be_greedy`.

    Reference: be-greedy Theorem 3. Its experiments set ν = 1.
    deviation: the paper defines I_t with noise σ²ν_t² beside the prior Θ, which makes ν_t depend
    on itself; network and noise are both scaled by ν_t, so Θ goes with σ².
    """
    return beta_chowdhury_gopalan(gain, B, noise_std, delta, C_GP_TS)


def sigma2_be_greedy(T: float) -> float:
    """σ² = 1 + 2/T, the noise variance of the model over a horizon of T.

    Reference: be-greedy Theorem 3. Its experiments set σ² = 0.
    """
    _at_least("T", T, 1.0, "Pass the number of evaluations.")
    return 1.0 + 2.0 / T


def nu_neural_bo(B: float, R: float, regularization: float, alpha: float) -> float:
    """ν_t = √2·B + (R/√λ)·√(2 log(1/α)), which multiplies σ; the same for every t.

    α is the probability of failure (δ elsewhere), λ the `regularization`.

    Reference: neural-bo Theorem 1 and App. A. Its experiments choose ν from {0.1, 1, 10}.
    deviation: section 4 prints √2·log(1/α); Theorem 1 and the proof have √(2 log(1/α)).
    """
    _at_least("B", B, 0.0, "Pass a bound of the RKHS norm.")
    _at_least("R", R, 0.0, "Pass the standard deviation of the noise.")
    _positive("regularization", regularization, "Pass the weight of the penalty.")
    _probability("alpha", alpha)
    return math.sqrt(2.0) * B + R / math.sqrt(regularization) * math.sqrt(2.0 * -math.log(alpha))


def nu_neural_bo_adaptive(t: float) -> float:
    """ν_t = √(g·log(1 + t·g)) with g = t/log(t + 1), which multiplies σ.

    Reference: none in the paper; what the published configurations of neural-bo mean by ν = 0.
    """
    _at_least("t", t, 1.0, "Count iterations from 1.")
    growth = t / math.log(t + 1.0)
    return math.sqrt(growth * math.log(1.0 + t * growth))


def lambda_neural_bo(T: float) -> float:
    """λ = 1 + 1/T, the regularization over a horizon of T.

    Reference: neural-bo Theorem 1. Its experiments set λ = 0.01.
    """
    _at_least("T", T, 1.0, "Pass the number of evaluations.")
    return 1.0 + 1.0 / T


def beta_srinivas(t: float, log_size: float, delta: float) -> float:
    """β_t = 2 log(|D|t²π²/(6δ)), which stands under a root: μ + √β_t·σ.

    For BUCB and UCB-PE on a finite set D; log_size = log |D|.

    Reference: Srinivas et al. 2010 Theorem 1; Desautels et al. 2014 start from it for BUCB. ts-rsr
    compares with both baselines and prints no β_t for either. In a batch the interval holds after
    widening √β_t by the bound of σ_fb[t]/σ_{t−1}, which is `UncertaintyDesign.bound`.
    """
    return 2.0 * _log_union(t, log_size, delta, math.pi**2 / 6.0)


def beta_ts_rsr_code(t: float, log_size: float, delta: float = 0.01) -> float:
    """β_t = 0.2·log(N t²π²/(6δ)), which multiplies σ itself, N the number of candidates.

    Reference: the published code of ts-rsr, for BUCB and UCB-PE; a tenth of `beta_srinivas`.
    deviation: that code begins with t = 0, where β_t = −∞; here t begins with 1.
    """
    return 0.1 * beta_srinivas(t, log_size, delta)


def beta_ts_rsr(T: float, batch: int, log_size: float, delta: float) -> float:
    """√(2 log(2|𝒳|mT/δ)), which multiplies σ: holds every draw of T batches of m at once.

    TS-RSR itself needs no β; its proof needs this one. Times ρ_m it bounds every regret-to-sigma
    ratio Ψ that the algorithm meets.

    Reference: ts-rsr Lemma 5.4; with batch = 1 the interval of Lemma 5.6 for f.
    deviation: (5.3) prints log(D/δ); its proof (5.4) and all that follows have log(2D/δ).
    """
    _at_least("T", T, 1.0, "Pass the number of batches.")
    _integer("batch", batch, 1, "Pass the batch size.")
    _at_least("log_size", log_size, 0.0, "Pass the logarithm of the number of points.")
    _probability("delta", delta)
    return math.sqrt(2.0 * (math.log(2.0 * batch * T / delta) + log_size))


@dataclass(frozen=True)
class UncertaintyDesign:
    """The outcome of `t_init`.

    Fields:
        points: how many points to choose by uncertainty sampling: the smallest of `needed`, the
            cap and the number of gains given.
        needed: how many the rule asks for; None if more than the number of gains given.
        bound: exp(m·γ_T/T) at T = `points`, which bounds ρ_m = max σ(x)/σ(x | m more points)
            (ts-rsr Lemma B.2); inf where it overflows.
    """

    points: int
    needed: int | None
    bound: float


def t_init(
    gains: Float[np.ndarray, " T"],
    batch: int,
    constant: float = 1.0,
    cap: int | None = INITIAL_CAP,
    rule: Literal["sto-bnts", "ts-rsr"] = "sto-bnts",
) -> UncertaintyDesign:
    """The length of the uncertainty sampling that makes batches as good as single points.

    The smallest T with

        (B − 1)·γ_T/T ≤ C   for rule "sto-bnts" (section 4.1), B the `batch`, C the `constant`;
        m·γ_T/T ≤ C         for rule "ts-rsr" (Lemma B.2; C = 1 is its T ≥ m·γ_T), m the `batch`.

    `gains` are γ_1, γ_2, …: the greedy ones. They suffice although they are below the maximum,
    since the proof of Lemma B.2 only needs the information in the design itself, and that design
    is the greedy one.

    The result is at least 1, also for batch 1, where the first rule asks for nothing: γ_T/T has no
    value at T = 0, and a model needs an observation. `cap` limits it (None: no limit), since the
    rules ask for hundreds of points at the usual noise; what the cap costs is in `bound`.
    """
    gains = np.asarray(gains, dtype=np.float64)
    if gains.ndim != 1 or len(gains) == 0 or not (np.isfinite(gains) & (gains >= 0.0)).all():
        raise DataError(
            f"'gains' must be a vector of one or more finite numbers >= 0; got {gains!r}. "
            "Pass the gains of greedy_information_gain."
        )
    _integer("batch", batch, 1, "Pass the batch size.")
    _positive("constant", constant, "Pass the bound of the information in a batch.")
    if cap is not None:
        _integer("cap", cap, 1, "Pass None for no limit.")
    if rule not in ("sto-bnts", "ts-rsr"):
        raise DataError(f"'rule' must be 'sto-bnts' or 'ts-rsr'; got {rule!r}. Choose one.")
    others = batch - 1 if rule == "sto-bnts" else batch
    rates = gains / np.arange(1, len(gains) + 1)  # γ_T/T, falling in T
    enough = np.flatnonzero(others * rates <= constant)
    needed = int(enough[0]) + 1 if len(enough) else None
    points = len(gains) if needed is None else needed
    if cap is not None:
        points = min(points, cap)
    with np.errstate(over="ignore"):
        bound = float(np.exp(batch * rates[points - 1]))
    return UncertaintyDesign(points=points, needed=needed, bound=bound)


def _log_union(t: float, log_size: float, delta: float, constant: float) -> float:
    """log(constant·t²·|𝒳|/δ): a union bound over the points and over all t."""
    _at_least("t", t, 1.0, "Count evaluations from 1.")
    _at_least("log_size", log_size, 0.0, "Pass the logarithm of the number of points.")
    _probability("delta", delta)
    return math.log(constant / delta) + 2.0 * math.log(t) + log_size


def _gram(K: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    K = np.asarray(K, dtype=np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise DataError(f"K must be a square matrix; got shape {K.shape}. Pass a Gram matrix.")
    if not np.isfinite(K).all():
        raise DataError("K must be finite; got NaN or infinity. Leave such points out.")
    scale = float(np.abs(K).max(initial=0.0))
    if not np.allclose(K, K.T, rtol=0.0, atol=1e-8 * scale):
        raise DataError("K must be symmetric; got K != K.T. Pass a Gram matrix.")
    if (np.diagonal(K) < 0.0).any():
        lowest = float(np.diagonal(K).min())
        raise DataError(f"K must have a diagonal of variances >= 0; got {lowest!r}. Pass a Gram matrix.")
    return K


def _positive(name: str, value: float, advice: str) -> None:
    if not 0.0 < value < math.inf:
        raise DataError(f"'{name}' must be > 0 and finite; got {value!r}. {advice}")


def _at_least(name: str, value: float, low: float, advice: str) -> None:
    check_real(f"'{name}'", value)
    if not low <= value < math.inf:
        raise DataError(f"'{name}' must be >= {low:g} and finite; got {value!r}. {advice}")


def _integer(name: str, value: int, low: int, advice: str) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < low:
        raise DataError(f"'{name}' must be an integer >= {low}; got {value!r}. {advice}")


def _probability(name: str, value: float) -> None:
    check_real(f"'{name}'", value)
    if not 0.0 < value < 1.0:
        raise DataError(f"'{name}' must satisfy 0 < {name} < 1; got {value!r}. Pass, say, 0.1.")
