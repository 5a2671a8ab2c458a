import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from augury.core.descent import descend
from augury.core.precision import computing

RULES = ("lbfgs", "cg")
D = 3
LANES = 40  # starts per call: one shape, one compilation per function and rule
CUBE = (np.zeros(D), np.ones(D))


@functools.cache
def compiled(function, rule):
    def one(start, args, lower, upper, limit):
        return descend(function, start, lower, upper, args, rule=rule, max_evaluations=limit)

    return jax.jit(jax.vmap(one, in_axes=(0, 0, None, None, None)))


def solve(function, starts, args, rule="lbfgs", box=CUBE, max_evaluations=100):
    """Descents from the rows of `starts`, with one row of `args` each."""
    n = len(starts)

    def fill(rows):
        return np.asarray(rows, dtype=np.float64)[np.minimum(np.arange(LANES), n - 1)]

    starts, args = fill(starts), jax.tree.map(fill, args)
    with computing():
        ends = compiled(function, rule)(starts, args, *box, np.asarray(max_evaluations))
        return jax.tree.map(lambda rows: np.asarray(rows)[:n], ends)


def quadratic(x, args):
    H, c = args
    return 0.5 * x @ H @ x - c @ x


def quadratics(count, condition, seed=0):
    """Problems whose unconstrained minimum lies in [−½, 1½]³: some bounds are active."""
    rng = np.random.default_rng(seed)
    H = np.empty((count, D, D))
    for i in range(count):
        Q, _ = np.linalg.qr(rng.standard_normal((D, D)))
        H[i] = Q * np.exp(rng.uniform(0.0, np.log(condition), D)) @ Q.T
    centres = rng.uniform(-0.5, 1.5, (count, D))
    return rng.random((count, D)), (H, np.einsum("nij,nj->ni", H, centres))


def reference(start, H, c):
    def value_and_gradient(x):
        return 0.5 * x @ H @ x - c @ x, H @ x - c

    options = {"ftol": 1e-15, "gtol": 1e-10}
    return scipy.optimize.minimize(
        value_and_gradient, start, jac=True, bounds=[(0, 1)] * D, method="L-BFGS-B", options=options
    )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("condition", [10.0, 1e3])
def test_quadratics_in_a_box_against_scipy(rule, condition):
    starts, (H, c) = quadratics(40, condition, seed=23)  # one of them has a valley as below
    ends = solve(quadratic, starts, (H, c), rule)
    references = [reference(*problem) for problem in zip(starts, H, c, strict=True)]
    bounds_met = 0
    for start, end, value, h, b, ref in zip(starts, ends.x, ends.value, H, c, references, strict=True):
        gained = quadratic(start, (h, b)) - ref.fun
        # stops when a step gains less than 1e-9 of the whole: what is left is of that order
        assert value - ref.fun <= 1e-7 * gained
        np.testing.assert_allclose(end, ref.x, atol=1e-3)  # the root of the above, at condition 10³
        bounds_met += np.isin(end, [0.0, 1.0]).sum()
    assert ends.converged.all()
    assert bounds_met > 20  # the bounds matter, and are met exactly
    scipy_evaluations = np.mean([ref.nfev for ref in references])
    assert ends.evaluations.mean() < (1.5 if rule == "lbfgs" else 3.0) * scipy_evaluations
    assert ends.evaluations.max() < 60


def test_a_valley_that_runs_into_a_bound():
    # x₁ = x₀ along the valley, which leaves the box at x₀ = 0 before its minimum at −1
    H = np.array([[1000.0, -1000.0, 0.0], [-1000.0, 1001.0, 0.0], [0.0, 0.0, 1.0]])
    c = H @ np.array([-1.0, -1.0, 0.3])
    for rule in RULES:
        end = solve(quadratic, [[0.9, 0.1, 0.9]], (H[None], c[None]), rule)
        # from 320 down to −0.045, where the last steps may gain 1e-9 of that
        assert end.value[0] == pytest.approx(-0.045, abs=1e-6)
        np.testing.assert_allclose(end.x[0], [0.0, 0.0, 0.3], atol=1e-3)
        assert end.evaluations[0] < 30


def rosenbrock(x, scale):
    z = 4.0 * x - 2.0  # the box is [−2, 2]³, the minimum lies at z = 1
    return scale * jnp.sum(100.0 * (z[1:] - z[:-1] ** 2) ** 2 + (1.0 - z[:-1]) ** 2)


@pytest.mark.parametrize("rule", RULES)
def test_rosenbrock(rule):
    starts = np.array([[0.2, 0.8, 0.5], [0.1, 0.1, 0.1], [0.9, 0.3, 0.6], [0.5, 0.5, 0.5]])
    ends = solve(rosenbrock, starts, np.ones(4), rule, max_evaluations=300)
    before = solve(rosenbrock, starts, np.ones(4), rule, max_evaluations=1).value
    assert (ends.value < 1e-6 * before).all()  # a step may gain 1e-9 of it and be the last
    np.testing.assert_allclose(ends.x, 0.75, atol=1e-2)  # along the flat bottom of the valley


def bowl_with_a_hill(x, args):
    """Concave in x₀ where it starts: no curvature is known for the first steps."""
    factor, offset = args
    return factor * (jnp.cos(3.0 * x[0]) + (x[1] - 0.3) ** 2 + x[2] ** 2) + offset


@pytest.mark.parametrize("rule", RULES)
def test_the_unit_of_the_values_does_not_matter(rule):
    factors = np.array([1.0, 1e8, 1e-8, 1e-30, 1.0])
    offsets = np.array([0.0, 0.0, 0.0, 0.0, 1e6])
    starts = np.tile([0.05, 0.35, 0.0], (5, 1))
    ends = solve(bowl_with_a_hill, starts, (factors, offsets), rule)
    assert ends.converged.all()
    np.testing.assert_allclose(ends.x[0], [1.0, 0.3, 0.0], atol=1e-5)
    for i in (1, 2, 3):
        np.testing.assert_allclose(ends.x[i], ends.x[0], atol=1e-9)
        assert ends.evaluations[i] == ends.evaluations[0]
    # with an offset, values are known to 1e-10 and so the minimizer to 1e-5
    np.testing.assert_allclose(ends.x[4], ends.x[0], atol=1e-4)


@pytest.mark.parametrize("rule", RULES)
def test_equal_bounds_hold_a_coordinate(rule):
    starts, (H, c) = quadratics(4, 10.0)
    box = np.array([0.0, 0.25, 0.0]), np.array([1.0, 0.25, 1.0])
    starts[:, 1] = 0.25
    ends = solve(quadratic, starts, (H, c), rule, box)
    np.testing.assert_array_equal(ends.x[:, 1], 0.25)
    free = [0, 2]
    for x, h, b in zip(ends.x, H, c, strict=True):
        gradient = (h @ x - b)[free]
        stationary = np.where(x[free] == 0.0, np.minimum(gradient, 0), gradient)
        stationary = np.where(x[free] == 1.0, np.maximum(gradient, 0), stationary)
        np.testing.assert_allclose(stationary, 0.0, atol=1e-3)


def test_a_start_outside_is_moved_inside():
    starts, (H, c) = quadratics(2, 10.0)
    ends = solve(quadratic, 5.0 * starts - 2.0, (H, c))
    assert ((ends.x >= 0.0) & (ends.x <= 1.0)).all()


def with_a_cliff(x, edge):
    """NaN beyond the edge; the minimum of the rest is at the edge's left."""
    return jnp.where(x[0] > edge, jnp.nan, (x[0] - 0.55) ** 2 + jnp.sum((x[1:] - 0.3) ** 2))


@pytest.mark.parametrize("rule", RULES)
def test_nan_is_a_value_that_is_too_large(rule):
    starts = np.array([[0.05, 0.9, 0.9], [0.9, 0.3, 0.3]])
    ends = solve(with_a_cliff, starts, np.full(2, 0.6), rule)
    np.testing.assert_allclose(ends.x[0], [0.55, 0.3, 0.3], atol=1e-4)
    np.testing.assert_array_equal(ends.x[1], starts[1])  # nothing is known there: it stays
    assert ends.value[1] == np.inf
    assert not ends.converged[1]
    assert ends.evaluations[1] == 1


@pytest.mark.parametrize("rule", RULES)
def test_a_stationary_start_is_done_at_once(rule):
    H, c = np.eye(D)[None], np.array([[0.5, -1.0, 2.0]])  # the minimum in the box: (½, 0, 1)
    ends = solve(quadratic, [[0.5, 0.0, 1.0]], (H, c), rule)
    np.testing.assert_array_equal(ends.x[0], [0.5, 0.0, 1.0])
    assert ends.converged[0]
    assert ends.evaluations[0] == 1


def test_starts_together_are_the_starts_alone():
    starts, (H, c) = quadratics(8, 1e3, seed=1)
    together = solve(quadratic, starts, (H, c))
    assert len(set(together.evaluations.tolist())) > 1  # some end early, and must then stay put
    for i in range(8):
        alone = solve(quadratic, starts[i : i + 1], (H[i : i + 1], c[i : i + 1]))
        np.testing.assert_allclose(alone.x[0], together.x[i], atol=1e-9)
        assert alone.evaluations[0] == together.evaluations[i]


@pytest.mark.parametrize("rule", RULES)
def test_evaluations_are_limited_and_never_wasted(rule):
    starts = np.random.default_rng(0).random((4, D))
    values = []
    for limit in (1, 7, 20):
        ends = solve(rosenbrock, starts, np.ones(4), rule, max_evaluations=limit)
        np.testing.assert_array_equal(ends.evaluations, limit)
        assert not ends.converged.any()
        values.append(ends.value)
    assert (np.diff(values, axis=0) < 0.0).all()
