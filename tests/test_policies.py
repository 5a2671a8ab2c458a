"""Policies for single points against transcriptions of their papers, on a grid of the unit interval."""

import math

import jax
import numpy as np
import pytest
from scipy import integrate, stats

from augury import AuguryError
from augury.core.data import Data
from augury.core.keys import fold
from augury.core.precision import computing
from augury.maximizers.scoring import values
from augury.policies import EI, UCB, Constant, InformationGain, SqrtLog, Thompson
from augury.policies.ei import LogEIScore, log_h
from augury.surrogates import GaussianProcess
from known_line import (
    GRID,
    KEY,
    LENGTHSCALE,
    NOISE,
    PROCESS,
    VARIANCE,
    X,
    Y,
    choose,
    fitted,
    hallucinate,
    k,
    predict,
    rows,
)


@pytest.fixture(scope="module")
def posterior():
    return fitted()


# ---------------------------------------------------------------------------------- UCB


def beta_of_theorem_3(B, R, delta, c):
    K = k(X, X)
    gain = 0.5 * np.linalg.slogdet(np.eye(len(X)) + K / NOISE)[1]
    return B + R * math.sqrt(2.0 * (gain + 1.0 + math.log(c / delta)))


@pytest.mark.parametrize(
    ("schedule", "t", "beta"),
    [
        (0.0, 1, 0.0),
        (Constant(2.5), 9, 2.5),
        (SqrtLog(), 1, math.sqrt(math.log(3.0))),
        (SqrtLog(), 40, math.sqrt(math.log(42.0))),
        (InformationGain(B=1.5, R=0.4, delta=0.05, c=2.0), 3, beta_of_theorem_3(1.5, 0.4, 0.05, 2.0)),
    ],
)
def test_ucb_is_algorithm_1(posterior, schedule, t, beta):
    mean, var = predict(X, Y, GRID)
    score = mean + beta * np.sqrt(var)
    indices, picks = choose(UCB(schedule), posterior, t=t)
    assert indices == [np.argmax(score)]
    assert picks.points[0].value == pytest.approx(score.max(), rel=1e-6)
    assert picks.info[0]["beta"] == pytest.approx(beta, rel=1e-6)


def test_information_gain_grows_with_the_data(posterior):
    schedule = InformationGain()
    more = PROCESS.fit(Data.of(rows(np.append(X, 0.5)), np.append(Y, 0.0)), key=KEY).posterior
    assert schedule(1, more) > schedule(1, posterior)
    nothing = PROCESS.fit(Data.of(np.empty((0, 2)), np.empty(0)), key=KEY).posterior
    assert schedule(1, nothing) == pytest.approx(1.0 + 0.1 * math.sqrt(2.0 * (1.0 + math.log(10.0))))


def test_a_ucb_batch_takes_the_means_of_its_points_as_observed(posterior):
    expected = hallucinate(X, Y, [], lambda mean, var: mean + 2.0 * np.sqrt(var))
    indices, _ = choose(UCB(2.0), posterior, count=3)
    assert indices == expected
    assert np.diff(sorted(indices)).min() > 5, "the batch must not be three neighbours"


def test_pending_points_shrink_the_variance_around_them(posterior):
    first, _ = choose(UCB(2.0), posterior)
    after = posterior.condition(rows(GRID[first]))
    np.testing.assert_allclose(after.mean(rows(GRID)), posterior.mean(rows(GRID)), atol=1e-6)
    assert after.var(rows(GRID[first]))[0] < 0.1 * posterior.var(rows(GRID[first]))[0]
    again, _ = choose(UCB(2.0), posterior, pending=GRID[first])
    assert abs(GRID[again[0]] - GRID[first[0]]) > 0.05
    batch, _ = choose(UCB(2.0), posterior, count=2)
    assert batch == first + again


# ----------------------------------------------------------------------------------- EI


def tail(z):
    """log h(z) and its derivative by quadrature: h(−u) = φ(u)/u² ∫ v exp(−v − v²/2u²) dv over v > 0."""
    u = -z
    bell = [
        integrate.quad(lambda v, p=p: v**p * math.exp(-v - v * v / (2.0 * u * u)), 0, 200, epsabs=0)[0]
        for p in (0, 1)
    ]
    log_phi = -0.5 * u * u - 0.5 * math.log(2.0 * math.pi)
    return log_phi - 2.0 * math.log(u) + math.log(bell[1]), u * bell[0] / bell[1]


def body(z):
    h = stats.norm.pdf(z) + z * stats.norm.cdf(z)
    return math.log(h), stats.norm.cdf(z) / h


@jax.jit
def log_h_and_derivative(z):
    return jax.vmap(jax.value_and_grad(log_h))(z)


def check_log_h(z, reference, rtol):
    with computing():
        values, derivatives = log_h_and_derivative(np.array(z))
    for i, point in enumerate(z):
        value, derivative = reference(point)
        assert values[i] == pytest.approx(value, rel=rtol, abs=1e-13), point
        assert derivatives[i] == pytest.approx(derivative, rel=1e-10), point


def test_log_h_in_the_tail():
    check_log_h([-1e10, -1e6, -1e4, -300.0, -40.0, -12.0, -5.1, -5.0, -4.9, -3.0, -1.0], tail, 1e-13)


def test_log_h_where_nothing_cancels():
    check_log_h([-2.0, -0.5, 0.0, 0.3, 2.0, 10.0, 50.0, 1e3, 1e4, 1e6, 1e100], body, 1e-12)


def test_the_derivative_of_log_h_is_that_of_its_values():
    z = np.array([-4000.0, -50.0, -6.0, -5.0, -4.9999, -4.0, -1.0, 0.0, 1.0, 3.0, 30.0])
    step = 1e-5 * np.maximum(1.0, np.abs(z))
    with computing():
        below, above = (np.asarray(log_h_and_derivative(z + s)[0]) for s in (-step, step))
        derivatives = log_h_and_derivative(z)[1]
    np.testing.assert_allclose(derivatives, (above - below) / (2.0 * step), rtol=1e-6)


def test_log_h_extends_to_the_far_tail():
    with computing():
        values, derivatives = log_h_and_derivative(np.full(11, -1e150))
    assert np.isfinite(values[0])
    assert derivatives[0] == pytest.approx(1e150)


@pytest.mark.parametrize("incumbent", [-1.0, 0.9, 3.0])
def test_ei_is_the_expected_improvement(posterior, incumbent):
    places = rows(np.array([0.0, 0.31, 0.5]))
    scores = values(LogEIScore(posterior, np.asarray(incumbent)), places)
    for row, score in zip(places, scores, strict=True):
        normal = stats.norm(posterior.mean(row), np.sqrt(posterior.var(row)))
        upper = max(incumbent, float(normal.mean())) + 20.0 * float(normal.std())
        expected, _ = integrate.quad(
            lambda f, normal=normal: (f - incumbent) * normal.pdf(f), incumbent, upper, epsabs=0
        )
        assert math.exp(score) == pytest.approx(expected, rel=1e-6)


def test_ei_is_algorithm_ego_with_believed_values_of_pending_points(posterior):
    incumbent = predict(X, Y, X)[0].max()
    believed = []

    def expected_improvement(mean, var):
        best = max([incumbent, *mean[believed]])
        z = (mean - best) / np.sqrt(var)
        score = np.sqrt(var) * (stats.norm.pdf(z) + z * stats.norm.cdf(z))
        score[believed] = -np.inf
        believed.append(int(np.argmax(score)))
        return score

    expected = hallucinate(X, Y, [], expected_improvement)
    indices, picks = choose(EI(), posterior, count=3)
    assert indices == expected
    assert picks.info[0]["incumbent"] == pytest.approx(incumbent, rel=1e-6)
    mean, _ = predict(X, Y, GRID)
    largest = max([incumbent, *mean[expected[:2]]])
    assert picks.info[2]["incumbent"] == pytest.approx(largest, rel=1e-6)
    rest, _ = choose(EI(), posterior, count=1, pending=GRID[expected[:2]])
    assert rest == expected[2:]
    _, picks = choose(EI(), posterior, pending=GRID[[np.argmax(mean)]])
    assert picks.info[0]["incumbent"] == pytest.approx(mean.max(), rel=1e-6)
    assert mean.max() > incumbent + 1e-3


def test_the_incumbent_is_a_mean_and_not_a_noisy_value():
    lucky = np.array([0.0, 0.0, 3.0, 0.0])  # one of four observations of the same point
    noisy = PROCESS.fit(Data.of(rows(np.full(4, 0.5)), lucky), key=KEY).posterior
    _, picks = choose(EI(), noisy)
    assert picks.info[0]["incumbent"] == pytest.approx(0.75, rel=0.05)


# ----------------------------------------------------------------------------- Thompson


def drawn(policy, posterior, numbers):
    """The scores that Thompson sampling maximizes, one per number."""
    scores = []

    def maximize(score, *, key, without=()):
        scores.append(score)

    keys = [fold(KEY, number) for number in numbers]
    nobody = np.empty((0, 2))
    policy.choose(posterior, nobody, None, t=1, maximize=maximize, candidates=None, keys=keys)
    return scores


def at(score, x):
    return values(score, np.array([[x, 0.0]]))[0]


def test_thompson_maximizes_a_draw_of_its_own_for_every_point(posterior):
    scores = drawn(Thompson(), posterior, range(3))
    on_grid = np.array([values(score, rows(GRID)) for score in scores])
    assert np.abs(on_grid[0] - on_grid[1]).max() > 0.1
    assert np.abs(on_grid[1] - on_grid[2]).max() > 0.1
    indices, picks = choose(Thompson(), posterior, count=3)
    assert indices == on_grid.argmax(1).tolist()
    np.testing.assert_allclose([point.value for point in picks.points], on_grid.max(1), rtol=1e-9)


def test_thompson_draws_do_not_depend_on_the_batch_or_on_pending_points(posterior):
    together, _ = choose(Thompson(), posterior, count=4)
    pending, _ = choose(Thompson(), posterior, count=4, pending=[0.1, 0.5])
    assert together == pending
    assert len(set(together)) == 4


def test_thompson_picks_a_point_as_often_as_it_is_the_best(posterior):
    corners = np.array([0.0, 0.2, 0.4, 0.6, 0.85, 1.0])
    draws = 200
    counts = np.zeros(len(corners))
    for number in range(draws):
        path = posterior.sample(key=fold(KEY, 100, number))
        counts[np.argmax(path(rows(corners)))] += 1
    mean, covariance = posterior.joint(rows(corners))
    exact = np.random.default_rng(0).multivariate_normal(mean, covariance, size=100_000)
    p = np.bincount(exact.argmax(1), minlength=len(corners)) / 100_000
    error = np.sqrt(p * (1 - p) / draws) + 1.0 / draws
    assert np.all(np.abs(counts / draws - p) < 4.0 * error)


def test_a_draw_of_larger_deviation_is_the_same_draw_further_from_the_mean(posterior):
    (plain,), (wide,) = (drawn(policy, posterior, [5]) for policy in (Thompson(), Thompson(beta=2.0)))
    mean, _ = predict(X, Y, GRID)
    for i in (0, 31, 50, 99):
        near, far = at(plain, GRID[i]) - mean[i], at(wide, GRID[i]) - mean[i]
        assert far == pytest.approx(2.0 * near, abs=1e-5)


def test_the_enlarged_draw_is_its_formula(posterior):
    policy = Thompson(beta=SqrtLog(), eta=0.8, B=3.0)
    (score,) = drawn(policy, posterior, [5])
    (plain,) = drawn(Thompson(), posterior, [5])
    beta, v = math.sqrt(math.log(3.0)), (1.0 / 0.8 - 1.0) * 3.0
    mean, var = predict(X, Y, GRID)
    for i in (0, 31, 50, 99):
        f = at(plain, GRID[i])
        deviation = (f - mean[i]) / math.sqrt(var[i] + 1e-9 * NOISE)
        expected = mean[i] + (beta * math.sqrt(var[i]) + v) * deviation
        assert at(score, GRID[i]) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_enlarged_draws_have_the_standard_deviation_of_theorem_4(posterior):
    draws = [at(score, 0.5) for score in drawn(Thompson(2.0, eta=0.5, B=1.0), posterior, range(200))]
    mean, var = predict(X, Y, np.array([0.5]))
    deviation = 2.0 * math.sqrt(var[0]) + 1.0
    assert np.mean(draws) == pytest.approx(mean[0], abs=4.0 * deviation / math.sqrt(200))
    assert np.std(draws) == pytest.approx(deviation, rel=0.2)


def test_an_enlarged_draw_does_not_depend_on_the_unit_of_the_values(posterior):
    unit = 1e-9
    small = GaussianProcess(
        lengthscale=LENGTHSCALE,
        variance=VARIANCE * unit**2,
        noise=NOISE * unit**2,
        standardize=False,
    ).fit(Data.of(rows(X), Y * unit), key=KEY)
    (here,) = drawn(Thompson(2.0, eta=0.5, B=1.0), posterior, [3])
    (there,) = drawn(Thompson(2.0, eta=0.5, B=unit), small.posterior, [3])
    for x in (0.31, 0.5):
        assert at(there, x) / unit == pytest.approx(at(here, x), rel=1e-6)


# ---------------------------------------------------------------------------- arguments


def test_enlarged_thompson_needs_mean_and_variance():
    assert Thompson().requires == {"path"}
    assert Thompson(beta=2.0).requires == {"path"}
    assert Thompson(eta=0.5, B=1.0).requires == {"path", "mean", "var"}
    assert UCB().requires == EI().requires == {"mean", "var"}


def test_a_schedule_may_be_any_function(posterior):
    _, picks = choose(UCB(lambda t, posterior: 3.0 * t), posterior, t=2)
    assert picks.info[0]["beta"] == 6.0


@pytest.mark.parametrize(
    "build",
    [
        lambda: Constant(-1.0),
        lambda: Constant(math.nan),
        lambda: UCB("2"),
        lambda: UCB(SqrtLog),
        lambda: UCB(-1.0),
        lambda: InformationGain(delta=2.0),
        lambda: InformationGain(B=-1.0),
        lambda: Thompson(eta=0.5),
        lambda: Thompson(B=1.0),
        lambda: Thompson(eta=0.0, B=1.0),
        lambda: Thompson(eta=0.5, B=-1.0),
        lambda: Thompson(beta="1"),
        lambda: Thompson(epsilon=0.0),
        lambda: Thompson(epsilon=math.inf),
    ],
)
def test_wrong_settings_are_refused_at_once(build):
    with pytest.raises(AuguryError, match=r"; got .*\. [A-Z]"):
        build()
