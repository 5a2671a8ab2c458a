import itertools
import math

import numpy as np
import pytest

from augury import theory
from augury._errors import DataError

RATIO = 1 - 1 / math.e


def gram(n, seed=0, lengthscale=0.3, dimension=2):
    """A Gaussian kernel on random points, with unequal variances so that greedy has few ties."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, dimension))
    scale = 0.5 + rng.random(n)
    squares = ((x[:, None] - x[None]) ** 2).sum(-1)
    return scale[:, None] * np.exp(-0.5 * squares / lengthscale**2) * scale


def direct(K, chosen, tau):
    """½ log det(I + K/τ) from eigenvalues, another way than the code's."""
    chosen = list(chosen)
    return 0.5 * np.log1p(np.linalg.eigvalsh(K[np.ix_(chosen, chosen)]) / tau).sum()


# Information gain


def test_information_gain_by_hand():
    K = np.array([[1.0, 0.5], [0.5, 1.0]])  # eigenvalues 1.5 and 0.5
    expected = 0.5 * (math.log(1 + 1.5 / 0.25) + math.log(1 + 0.5 / 0.25))
    assert theory.information_gain(K, 0.25) == pytest.approx(expected, rel=1e-13)
    assert theory.information_gain(np.zeros((0, 0)), 0.1) == 0.0
    assert theory.information_gain([[3.0]], 1.0) == pytest.approx(math.log(2))


def test_information_gain_of_repeated_points_and_tiny_noise():
    K = np.ones((40, 40))  # one point observed 40 times: one eigenvalue, 40
    assert theory.information_gain(K, 1e-6) == pytest.approx(0.5 * math.log(1 + 40e6), rel=1e-9)


def test_information_gain_does_not_overflow():
    K = 1e3 * np.eye(400)  # the determinant is 1e2400 and more
    assert theory.information_gain(K, 1e-3) == pytest.approx(200 * math.log1p(1e6), rel=1e-12)


@pytest.mark.parametrize(
    ("K", "tau", "sentence"),
    [
        (np.ones((2, 3)), 1.0, r"K must be a square matrix; got shape \(2, 3\)"),
        (np.ones(3), 1.0, r"K must be a square matrix; got shape \(3,\)"),
        (np.array([[np.nan]]), 1.0, "K must be finite"),
        (np.array([[1.0, 0.2], [0.1, 1.0]]), 1.0, "K must be symmetric"),
        (np.array([[-1.0]]), 2.0, r"K must have a diagonal of variances >= 0; got -1\.0"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), 0.5, "K must be positive semi-definite"),
        (np.eye(2), 0.0, r"'tau' must be > 0 and finite; got 0\.0"),
        (np.eye(2), -1.0, "'tau' must be > 0"),
        (np.eye(2), math.nan, "'tau' must be > 0"),
        (np.eye(2), math.inf, "'tau' must be > 0"),
    ],
)
def test_information_gain_refuses(K, tau, sentence):
    with pytest.raises(DataError, match=sentence):
        theory.information_gain(K, tau)


@pytest.mark.parametrize("tau", [1.0, 1e-2, 1e-6])
def test_greedy_gains_are_the_gains_of_the_chosen_points(tau):
    K = gram(30, seed=1)
    greedy = theory.greedy_information_gain(K, 45, tau)
    for t in (1, 2, 7, 20, 45):  # more steps than candidates: some are repeated
        chosen = greedy.chosen[:t]
        expected = theory.information_gain(K[np.ix_(chosen, chosen)], tau)
        assert greedy.gains[t - 1] == pytest.approx(expected, rel=1e-8)
        assert greedy.gains[t - 1] == pytest.approx(direct(K, chosen, tau), rel=1e-7)
    assert len(set(greedy.chosen.tolist())) < 45


def test_greedy_is_uncertainty_sampling():
    K, tau, chosen = gram(12, seed=2), 0.05, []
    for _ in range(18):
        k = K[:, chosen]
        noisy = K[np.ix_(chosen, chosen)] + tau * np.eye(len(chosen))
        variance = np.diag(K) - np.einsum("ij,ij->i", k, np.linalg.solve(noisy, k.T).T)
        chosen.append(int(np.argmax(variance)))
    assert theory.greedy_information_gain(K, 18, tau).chosen.tolist() == chosen


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tau", [0.5, 0.01])
def test_greedy_brackets_the_maximum_over_all_multisets(seed, tau):
    K, steps = gram(5, seed=seed, lengthscale=0.6), 4
    greedy = theory.greedy_information_gain(K, steps, tau)
    for t in range(1, steps + 1):
        multisets = itertools.combinations_with_replacement(range(5), t)
        best = max(direct(K, chosen, tau) for chosen in multisets)
        assert RATIO * best - 1e-12 <= greedy.gains[t - 1] <= best + 1e-9
        assert best <= greedy.upper[t - 1]
    assert greedy.upper == pytest.approx(greedy.gains / RATIO)


def test_greedy_is_exact_at_first_and_not_always_later():
    # The middle point knows most alone; the two outer points know more together.
    K = np.array([[1.0, 0.8, 0.28], [0.8, 1.01, 0.8], [0.28, 0.8, 1.0]])
    greedy = theory.greedy_information_gain(K, 2, 0.1)
    assert greedy.chosen[0] == 1
    assert greedy.gains[0] == pytest.approx(0.5 * math.log1p(10.1))
    assert greedy.gains[1] < direct(K, [0, 2], 0.1) <= greedy.upper[1]


def test_greedy_gains_rise_and_are_concave():
    gains = theory.greedy_information_gain(gram(25, seed=4), 60, 0.02).gains
    added = np.diff(gains, prepend=0.0)
    assert (added > 0).all()
    assert (np.diff(added) <= 1e-12).all()


def test_greedy_of_one_point_repeats_it():
    greedy = theory.greedy_information_gain([[2.0]], 5, 0.5)
    assert greedy.chosen.tolist() == [0] * 5
    assert greedy.gains == pytest.approx([0.5 * math.log(1 + 4 * t) for t in range(1, 6)])


def test_greedy_of_equal_points_takes_the_first_and_of_nothing_gains_nothing():
    assert theory.greedy_information_gain(np.eye(3), 4, 1.0).chosen.tolist() == [0, 1, 2, 0]
    assert theory.greedy_information_gain(np.zeros((3, 3)), 2, 1.0).gains.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("K", "steps", "tau", "sentence"),
    [
        (np.eye(2), 0, 1.0, "'steps' must be an integer >= 1; got 0"),
        (np.eye(2), 1.5, 1.0, r"'steps' must be an integer >= 1; got 1\.5"),
        (np.eye(2), 1, -1.0, r"'tau' must be > 0 and finite; got -1\.0"),
        (np.zeros((0, 0)), 1, 1.0, "K must hold one candidate or more"),
        (np.ones((1, 2)), 1, 1.0, "K must be a square matrix"),
    ],
)
def test_greedy_refuses(K, steps, tau, sentence):
    with pytest.raises(DataError, match=sentence):
        theory.greedy_information_gain(K, steps, tau)


# Schedules


def test_beta_sqrt_log():
    assert theory.beta_sqrt_log(0) == pytest.approx(0.8325546111576977)  # √0.693147…
    assert theory.beta_sqrt_log(math.e**4 - 2) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("c", "value"),
    [  # B = 2, R = 0.5, γ = 3, δ = 0.1: 2 + 0.5·√(2(4 + log(10c)))
        (theory.C_GP_UCB, 2 + 0.5 * math.sqrt(2 * (4 + 2.302585092994046))),
        (theory.C_GP_TS, 2 + 0.5 * math.sqrt(2 * (4 + 2.995732273553991))),
        (theory.C_RANDOM_GRID_UCB, 2 + 0.5 * math.sqrt(2 * (4 + 2.995732273553991))),
        (theory.C_RANDOM_GRID_TS, 2 + 0.5 * math.sqrt(2 * (4 + 3.4011973816621555))),
    ],
)
def test_beta_chowdhury_gopalan(c, value):
    beta = theory.beta_chowdhury_gopalan(gain=3.0, B=2.0, R=0.5, delta=0.1, c=c)
    assert beta == pytest.approx(value, rel=1e-14)


def test_beta_chowdhury_gopalan_defaults_to_theorem_3_and_without_noise_is_the_norm():
    assert theory.beta_chowdhury_gopalan(0.0, 1.0, 1.0, 1 / math.e) == pytest.approx(3.0)
    assert theory.beta_chowdhury_gopalan(7.0, 1.5, 0.0, 0.1) == 1.5


def test_enlargement():
    assert theory.enlargement(1.0, 5.0) == 0.0
    assert theory.enlargement(0.8, 2.0) == pytest.approx(0.5)


def test_accumulated_inaccuracy():
    assert theory.accumulated_inaccuracy([1.0, 0.75, 0.5, 0.0]) == pytest.approx(1.75)
    assert theory.accumulated_inaccuracy([]) == 0.0


def test_beta_sto_bnts():
    # π²·9·1000/(3·0.1) = 296088.132… and twice that, log 12.598413… and 13.291560…
    assert theory.beta_sto_bnts(3, math.log(1000), 0.1) == pytest.approx(
        2 * math.log(math.pi**2 * 9 * 1000 / 0.3), rel=1e-14
    )
    assert theory.beta_sto_bnts(3, math.log(1000), 0.1) == pytest.approx(25.1968, abs=1e-3)
    assert theory.beta_sto_bnts_finite_width(3, math.log(1000), 0.1) == pytest.approx(
        2 * math.log(2 * math.pi**2 * 9 * 1000 / 0.3), rel=1e-14
    )


def test_beta_sto_bnts_on_a_continuous_space():
    size = theory.log_grid_size(100, 6)
    assert size == pytest.approx(math.log(100.0**3))
    expected = 2 * math.log(math.pi**2 * 25 * 100.0**3 / (3 * 0.05))
    assert theory.beta_sto_bnts(5, size, 0.05) == pytest.approx(expected, rel=1e-14)
    huge = theory.log_grid_size(10_000, 1000)  # 10^2000 points
    assert theory.beta_sto_bnts(1, huge, 0.05) == pytest.approx(
        2 * (2000 * math.log(10) + math.log(math.pi**2 / 0.15)), rel=1e-14
    )


def test_be_greedy():
    expected = 1.5 + 0.2 * math.sqrt(2 * (2.5 + 1 + math.log(2 / 0.05)))
    nu = theory.nu_be_greedy(gain=2.5, B=1.5, noise_std=0.2, delta=0.05)
    assert nu == pytest.approx(expected, rel=1e-14)
    assert theory.sigma2_be_greedy(50) == pytest.approx(1.04)


def test_neural_bo():
    assert theory.lambda_neural_bo(4) == 1.25
    # α = e⁻²: √(2·2) = 2, and the misprint √2·log(1/α) would give 2.83
    nu = theory.nu_neural_bo(B=3.0, R=0.5, regularization=0.25, alpha=math.exp(-2))
    assert nu == pytest.approx(3 * math.sqrt(2) + 0.5 / 0.5 * 2.0)


def test_neural_bo_adaptive():
    assert theory.nu_neural_bo_adaptive(1) == pytest.approx(
        math.sqrt((1 / math.log(2)) * math.log(1 + 1 / math.log(2)))
    )
    t = 100
    expected = math.sqrt(t / math.log(t + 1) * math.log(1 + t * t / math.log(t + 1)))
    assert theory.nu_neural_bo_adaptive(t) == pytest.approx(expected)


def test_srinivas_and_the_code_of_ts_rsr():
    beta = theory.beta_srinivas(2, math.log(1001), 0.01)
    assert beta == pytest.approx(2 * math.log(1001 * 4 * math.pi**2 / 0.06), rel=1e-14)
    assert theory.beta_ts_rsr_code(2, math.log(1001)) == pytest.approx(
        0.2 * math.log(1001 * 4 * math.pi**2 / 0.06), rel=1e-14
    )


def test_sto_bnts_is_srinivas_with_half_and_a_quarter_of_delta():
    beta = theory.beta_srinivas
    assert theory.beta_sto_bnts(7, 5.0, 0.2) == pytest.approx(beta(7, 5.0, 0.1))
    assert theory.beta_sto_bnts_finite_width(7, 5.0, 0.2) == pytest.approx(beta(7, 5.0, 0.05))


def test_beta_ts_rsr_holds_all_draws():
    beta = theory.beta_ts_rsr(T=3, batch=2, log_size=math.log(50), delta=0.2)
    assert beta == pytest.approx(math.sqrt(2 * math.log(2 * 50 * 2 * 3 / 0.2)))
    draws = np.random.default_rng(0).standard_normal((2000, 6 * 50))
    assert (np.abs(draws).max(1) > beta).mean() <= 0.2


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: theory.beta_sqrt_log(-1), "'t' must be >= 0 and finite; got -1"),
        (lambda: theory.beta_sto_bnts(0, 1.0, 0.1), "'t' must be >= 1 and finite; got 0"),
        (lambda: theory.beta_ts_rsr_code(0, 1.0), "'t' must be >= 1 and finite; got 0"),
        (lambda: theory.beta_srinivas(1, -1.0, 0.1), "'log_size' must be >= 0"),
        (
            lambda: theory.beta_sto_bnts(1, 1.0, 0.0),
            r"'delta' must satisfy 0 < delta < 1; got 0\.0",
        ),
        (lambda: theory.beta_sto_bnts(1, 1.0, 1.0), "'delta' must satisfy"),
        (lambda: theory.beta_chowdhury_gopalan(-1.0, 1, 1, 0.1), "'gain' must be >= 0"),
        (lambda: theory.beta_chowdhury_gopalan(1.0, -1, 1, 0.1), "'B' must be >= 0"),
        (lambda: theory.beta_chowdhury_gopalan(1.0, 1, math.nan, 0.1), "'R' must be >= 0"),
        (lambda: theory.beta_chowdhury_gopalan(1.0, 1, 1, 0.1, c=0), "'c' must be >= 1"),
        (lambda: theory.nu_be_greedy(1.0, 1, 1, 2.0), "'delta' must satisfy"),
        (lambda: theory.nu_neural_bo(1, 1, 0.0, 0.1), "'regularization' must be > 0"),
        (lambda: theory.nu_neural_bo(1, 1, 1, 0.0), "'alpha' must satisfy 0 < alpha < 1"),
        (lambda: theory.nu_neural_bo_adaptive(0), "'t' must be >= 1"),
        (lambda: theory.sigma2_be_greedy(0), "'T' must be >= 1"),
        (lambda: theory.lambda_neural_bo(0), "'T' must be >= 1"),
        (lambda: theory.log_grid_size(10, 0), "'dimension' must be an integer >= 1"),
        (lambda: theory.beta_ts_rsr(1, 0, 1.0, 0.1), "'batch' must be an integer >= 1"),
        (lambda: theory.enlargement(0.0, 1.0), r"'eta' must satisfy 0 < eta <= 1; got 0\.0"),
        (lambda: theory.enlargement(1.1, 1.0), "'eta' must satisfy"),
        (lambda: theory.accumulated_inaccuracy([0.5, 1.5]), r"'etas' must be .* in \[0, 1\]"),
        (lambda: theory.accumulated_inaccuracy([math.nan]), r"'etas' must be .* in \[0, 1\]"),
        (lambda: theory.accumulated_inaccuracy([[0.5]]), "'etas' must be a vector"),
    ],
)
def test_schedules_refuse(call, sentence):
    with pytest.raises(DataError, match=sentence):
        call()


# The initial design


def smallest(gains, factor, constant):
    for T in range(1, len(gains) + 1):
        if factor * gains[T - 1] / T <= constant:
            return T
    return None


GAINS = theory.greedy_information_gain(gram(40, seed=5), 400, 0.1).gains


@pytest.mark.parametrize("batch", [1, 2, 5, 20])
@pytest.mark.parametrize("constant", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("rule", ["sto-bnts", "ts-rsr"])
def test_t_init_is_the_smallest_that_satisfies_the_rule(batch, constant, rule):
    design = theory.t_init(GAINS, batch, constant, cap=None, rule=rule)
    expected = smallest(GAINS, batch - 1 if rule == "sto-bnts" else batch, constant)
    assert design.needed == expected
    assert design.points == (len(GAINS) if expected is None else expected)
    rate = GAINS[design.points - 1] / design.points
    assert design.bound == pytest.approx(math.exp(batch * rate))
    if rule == "ts-rsr" and expected is not None:
        assert design.bound <= math.exp(constant) * (1 + 1e-12)


def test_t_init_by_hand():
    gains = [2.0, 3.0, 3.6, 4.0]  # γ_T/T = 2, 1.5, 1.2, 1
    assert theory.t_init(gains, 2, 1.2).points == 3
    assert theory.t_init(gains, 2, 1.2, rule="ts-rsr").needed is None
    assert theory.t_init(gains, 2, 2.0, rule="ts-rsr") == theory.UncertaintyDesign(
        points=4, needed=4, bound=math.exp(2.0)
    )


def test_t_init_is_capped_and_says_what_that_costs():
    design = theory.t_init(GAINS, 10, cap=15)
    assert design.needed > 15
    assert design.points == 15
    assert design.bound == pytest.approx(math.exp(10 * GAINS[14] / 15))
    assert theory.t_init(GAINS, 10).points == theory.INITIAL_CAP


def test_t_init_beyond_the_gains_given():
    design = theory.t_init(GAINS[:6], 10, cap=15)
    assert design.needed is None
    assert design.points == 6


def test_t_init_of_single_points_is_one():
    design = theory.t_init(GAINS, 1)
    assert (design.points, design.needed) == (1, 1)
    assert design.bound == pytest.approx(math.exp(GAINS[0]))


def test_t_init_bound_overflows_to_infinity():
    assert theory.t_init([10.0], 1000).bound == math.inf


@pytest.mark.parametrize("points", [3, 8, 16])
def test_bound_holds_for_the_shrinkage_of_the_standard_deviation(points):
    """ts-rsr Lemma B.2: ρ_m ≤ exp(m·γ̂_T/T) with the greedy gain, over all pairs of extra points."""
    K, tau, batch = gram(8, seed=6), 0.1, 2
    greedy = theory.greedy_information_gain(K, points, tau)

    def deviation(seen):
        k = K[:, seen]
        noisy = K[np.ix_(seen, seen)] + tau * np.eye(len(seen))
        return np.sqrt(np.diag(K) - np.einsum("ij,ij->i", k, np.linalg.solve(noisy, k.T).T))

    design = greedy.chosen.tolist()
    before = deviation(design)
    pairs = itertools.combinations_with_replacement(range(8), batch)
    rho = max((before / deviation(design + list(pair))).max() for pair in pairs)
    bound = theory.t_init(greedy.gains, batch, constant=1e-9, cap=points, rule="ts-rsr").bound
    assert 1.0 < rho <= bound


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"gains": []}, "'gains' must be a vector of one or more"),
        ({"gains": [1.0, math.nan]}, "'gains' must be a vector"),
        ({"gains": [-1.0]}, "'gains' must be a vector"),
        ({"gains": [[1.0]]}, "'gains' must be a vector"),
        ({"batch": 0}, "'batch' must be an integer >= 1; got 0"),
        ({"batch": True}, "'batch' must be an integer >= 1; got True"),
        ({"constant": 0.0}, r"'constant' must be > 0 and finite; got 0\.0"),
        ({"cap": 0}, "'cap' must be an integer >= 1; got 0"),
        ({"rule": "mine"}, "'rule' must be 'sto-bnts' or 'ts-rsr'; got 'mine'"),
    ],
)
def test_t_init_refuses(arguments, sentence):
    with pytest.raises(DataError, match=sentence):
        theory.t_init(**{"gains": [1.0], "batch": 2, **arguments})
