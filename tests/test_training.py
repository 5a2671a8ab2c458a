"""Training against closed forms: ridge regression, least-norm interpolation, gradient descent."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from augury.core.data import Data, pad
from augury.core.keys import fold, root_key
from augury.core.precision import computing
from augury.surrogates import NTKProcess, SampleThenOptimize, training
from augury.surrogates import dual_solve as dual
from augury.surrogates.cnn import CNN
from augury.surrogates.networks import MLP, rounded_relu, stack
from augury.surrogates.training import train
from augury.surrogates.user_networks import ModuleNetwork, UserNetwork

KEY = root_key(7)
QUICK = {"tolerance": training.TOLERANCE, "max_steps": training.MAX_STEPS}  # also with few columns
SMOOTH = MLP(1, 32, "tanh", 1.5, 0.5)


def _features(z):
    """Twenty fixed features of two columns: a network that is linear in its parameters."""
    frequencies = jnp.asarray(np.random.default_rng(0).standard_normal((20, 2)), dtype=z.dtype)
    return jnp.cos(3.0 * frequencies @ z + jnp.arange(20, dtype=z.dtype))


LINEAR = UserNetwork(lambda key: jax.random.normal(key, (20,)), lambda p, z: p @ _features(z))


def draws(network, dim=2, count=2):
    return stack([network.init(fold(KEY, i), dim) for i in range(count)])


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 2))
    return x, np.sin(6.0 * x[:, 0]) + x[:, 1] * x[:, 0] + 0.1 * rng.standard_normal(n)


def fit(network, theta0, x, y, *, offset=0.0, capacity=32, **options):
    """Two networks on the same data, padded so that the tests share compiled code."""
    n, count = len(x), len(jax.tree.leaves(theta0)[0])
    targets = np.pad(np.broadcast_to(y, (count, n)), ((0, 0), (0, capacity - n)))
    shift = np.pad(np.broadcast_to(offset, (count, n)), ((0, 0), (0, capacity - n)))
    return train(
        network, theta0, pad(x, capacity), np.arange(capacity) < n, targets, offset=shift, **options
    )


def features_at(x):
    with computing():
        return np.asarray(jax.vmap(_features)(jnp.asarray(2 * x - 1)))


@pytest.mark.parametrize("n", [8, 30])
def test_a_network_linear_in_its_parameters_is_ridge_regression_in_one_step(n):
    x, y = data(n)
    theta0, Phi, lam = draws(LINEAR), features_at(x), 0.03
    offset = np.stack([np.zeros(n), np.cos(x[:, 0])])
    result = fit(LINEAR, theta0, x, y, offset=offset, lam=lam, tolerance=1e-9)
    once = fit(LINEAR, theta0, x, y, offset=offset, lam=lam, tolerance=1e-9, max_steps=1)
    for b in range(2):
        goal = y - offset[b] - Phi @ theta0[b]
        theta = theta0[b] + np.linalg.solve(Phi.T @ Phi + lam * np.eye(20), Phi.T @ goal)
        np.testing.assert_allclose(once.params[b], theta, atol=1e-10)
        np.testing.assert_allclose(result.params[b], theta, atol=1e-10)
        rest = y - offset[b] - Phi @ theta
        assert result.misfit[b] == pytest.approx(rest @ rest)
        assert result.loss[b] == pytest.approx(rest @ rest + lam * np.sum((theta - theta0[b]) ** 2))
    assert result.converged.all()
    assert result.steps.max() <= 2
    assert result.method == "dual"


def test_without_regularization_the_interpolation_nearest_to_the_start_is_found():
    x, y = data(12)
    theta0, Phi = draws(LINEAR), features_at(x)
    result = fit(LINEAR, theta0, x, y, lam=0.0)
    theta = theta0[0] + np.linalg.pinv(Phi) @ (y - Phi @ theta0[0])
    np.testing.assert_allclose(result.params[0], theta, atol=1e-5)
    assert result.misfit.max() < 1e-12


def test_repeated_points_with_different_values_are_fitted_by_their_mean():
    x, y = data(10)
    x, y = np.concatenate([x, x[:3]]), np.concatenate([y, y[:3] + 0.5])
    theta0, Phi = draws(LINEAR), features_at(x)
    result = fit(LINEAR, theta0, x, y, lam=0.0)
    theta = theta0[0] + np.linalg.pinv(Phi) @ (y - Phi @ theta0[0])
    np.testing.assert_allclose(Phi @ result.params[0], Phi @ theta, atol=1e-6)
    np.testing.assert_allclose(result.params[0], theta, atol=1e-4)
    deep = fit(SMOOTH, draws(SMOOTH), x, y, lam=0.0)
    np.testing.assert_allclose(deep.misfit, 3 * 2 * 0.25**2, rtol=1e-3)
    assert deep.converged.all()


def test_a_smooth_network_reaches_a_stationary_point_and_no_worse_than_gradient_descent():
    lam, (x, y) = 1.0, data(15)
    theta0 = draws(SMOOTH)
    result = fit(SMOOTH, theta0, x, y, lam=lam, tolerance=1e-9)
    assert result.gradient_norm.max() < 1e-6
    start, ours = (jax.tree.map(lambda leaf: leaf[0], tree) for tree in (theta0, result.params))

    def loss(theta):
        moved = jax.tree.leaves(jax.tree.map(lambda a, b: jnp.sum((a - b) ** 2), theta, start))
        return jnp.sum((y - SMOOTH(theta, jnp.asarray(x))) ** 2) + lam * sum(moved)

    slope = jax.grad(loss)

    @jax.jit
    def compare(start, ours):
        def descend(_, theta):
            return jax.tree.map(lambda a, g: a - 0.01 * g, theta, slope(theta))

        slow = jax.lax.fori_loop(0, 20000, descend, start)
        return slow, loss(slow), loss(ours), slope(ours)

    with computing():
        slow, slow_loss, our_loss, gradient = compare(start, ours)
    assert result.loss[0] == pytest.approx(float(our_loss), rel=1e-9)
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(gradient)) < 1e-5
    assert float(our_loss) <= float(slow_loss) * (1.0 + 1e-6)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(slow), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3)


def test_single_precision_products_reach_the_loss_of_double_precision():
    x, y = data(25)
    single = fit(SMOOTH, draws(SMOOTH), x, y, lam=1e-2)
    double = fit(SMOOTH, draws(SMOOTH), x, y, lam=1e-2, tolerance=1e-9)
    assert "float32" in single.method
    assert "float32" not in double.method
    np.testing.assert_allclose(single.loss, double.loss, rtol=0.06)
    assert jax.tree.leaves(single.params)[0].dtype == np.float64


@pytest.mark.parametrize(("factor", "single"), [(1.0, True), (1e3, False)])
def test_single_precision_is_a_matter_of_the_network_s_own_scale(factor, single):
    network = UserNetwork(
        lambda key: jax.random.normal(key, (20,)), lambda p, z: factor * (p @ _features(z))
    )
    x, y = data(25)
    result = fit(network, draws(network), x, y, lam=1e-2, max_steps=1)
    assert ("float32" in result.method) == single


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_a_network_of_any_scale_is_trained(factor):
    network = UserNetwork(
        lambda key: jax.random.normal(key, (20,)), lambda p, z: factor * (p @ _features(z))
    )
    x, y = data(25)
    plain = fit(LINEAR, draws(LINEAR), x, y, lam=1e-2)
    scaled = fit(network, draws(network), x, factor * y, lam=1e-2 * factor**2)
    assert scaled.converged.all()
    np.testing.assert_allclose(scaled.loss / factor**2, plain.loss, rtol=1e-3)


def test_padding_does_not_matter_and_the_result_is_deterministic():
    x, y = data(25)
    theta0, options = draws(SMOOTH), {"lam": 1e-2, "tolerance": 1e-9}
    padded, again, full = (fit(SMOOTH, theta0, x, y, capacity=c, **options) for c in (32, 32, 25))
    np.testing.assert_allclose(padded.loss, full.loss, rtol=1e-9)
    for a, b, c in zip(*(jax.tree.leaves(r.params) for r in (padded, again, full)), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, atol=1e-5)


def test_a_batch_is_its_networks_one_by_one_also_side_by_side(monkeypatch):
    x, y = data(25)
    theta0, targets = draws(SMOOTH), np.stack([y, y + 1.0])
    both = fit(SMOOTH, theta0, x, targets, lam=1e-2, tolerance=1e-9)
    alone = fit(SMOOTH, jax.tree.map(lambda a: a[1:], theta0), x, y + 1.0, lam=1e-2, tolerance=1e-9)
    assert alone.steps[0] == both.steps[1]
    np.testing.assert_allclose(alone.params[0].weight[0], both.params[0].weight[1], atol=1e-9)
    monkeypatch.setattr(training, "_together", lambda problem: 2)
    together = fit(SMOOTH, theta0, x, targets, lam=1e-2, tolerance=1e-9)
    np.testing.assert_allclose(together.loss, both.loss, rtol=1e-9)
    np.testing.assert_allclose(together.params[0].weight, both.params[0].weight, atol=1e-6)


def test_other_batches_compile_nothing(monkeypatch):
    x, y = data(25)
    lower, compiled = training._train.lower, []
    monkeypatch.setattr(training, "_programs", {})
    monkeypatch.setattr(training, "PROGRAMS", 2)
    counted = SimpleNamespace(lower=lambda *arguments: compiled.append(1) or lower(*arguments))
    monkeypatch.setattr(training, "_train", counted)
    for count, capacity, programs in ((2, 32, 1), (1, 32, 1), (2, 31, 2), (2, 30, 3), (1, 32, 4)):
        theta0 = jax.tree.map(lambda a, n=count: a[:n], draws(SMOOTH))
        fit(SMOOTH, theta0, x, y, lam=1e-2, capacity=capacity, max_steps=1)
        assert len(compiled) == programs
    assert len(training._programs) == 2


@pytest.mark.parametrize("landmarks", [None, 24])
def test_conjugate_gradients_reach_the_same_minimum(landmarks, monkeypatch):
    # λ is large enough for one minimum, and the tolerance too small for solutions that stay rough
    x, y = data(33 if landmarks is None else 34)  # capacities of their own, for code of their own
    options = {"lam": 1.0, "tolerance": 1e-8}
    direct = fit(SMOOTH, draws(SMOOTH), x[:30], y[:30], **options)
    monkeypatch.setattr(training, "LARGEST_MATRIX", 16)
    if landmarks is not None:
        monkeypatch.setattr(dual, "LARGEST_FACTOR", 16)
        monkeypatch.setattr(dual, "LANDMARKS", landmarks)
    iterative = fit(SMOOTH, draws(SMOOTH), x[:30], y[:30], capacity=len(x), **options)
    assert iterative.method.startswith("dual-cg")
    assert iterative.converged.all()
    assert iterative.gradient_norm.max() < 1e-5
    np.testing.assert_allclose(iterative.loss, direct.loss, rtol=1e-6)


def test_a_training_goes_on_with_the_damping_that_the_last_one_ended_with():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(108, 6))
    y = np.sin(9.0 * x).sum(1)
    network = MLP(2, 64)
    theta0 = draws(network, dim=6)
    options = {"lam": 1e-3, "capacity": 128}
    first = fit(network, theta0, x[:100], y[:100], **options)
    undamped = first._replace(damping=np.zeros(2))
    damped, wild = (fit(network, theta0, x, y, begin=start, **options) for start in (first, undamped))
    assert damped.converged.all()
    assert np.all(2 * damped.steps < wild.steps)
    assert np.all(damped.loss < 1.2 * wild.loss)


def test_a_part_of_many_points_that_can_be_factorized_comes_first(monkeypatch):
    monkeypatch.setattr(training, "LARGEST_LEVEL", 16)
    monkeypatch.setattr(training, "LARGEST_MATRIX", 32)
    inner, rows = training.train, []

    def counted(network, theta0, x, *args, **options):
        rows.append(len(x))
        return inner(network, theta0, x, *args, **options)

    monkeypatch.setattr(training, "train", counted)
    x, y = data(120)
    trained = fit(SMOOTH, draws(SMOOTH), x, y, capacity=128, lam=1.0)
    assert rows == [32, 16]  # every fourth, and every second of those
    assert trained.steps.min() > 3  # those of all three
    assert trained.converged.all()


def test_the_part_that_comes_first_is_trained_around_its_offset(monkeypatch):
    monkeypatch.setattr(training, "LARGEST_LEVEL", 16)
    inner, parts = training.train, []

    def kept(*args, **options):
        parts.append(inner(*args, **options))
        return parts[-1]

    monkeypatch.setattr(training, "train", kept)
    x, y = data(30)
    offset, lam = np.stack([np.cos(x[:, 0]), 3.0 * x[:, 1]]), 0.03
    fit(LINEAR, draws(LINEAR), x, y, offset=offset, lam=lam, tolerance=1e-9)
    [coarse], Phi = parts, features_at(x[::2])
    for b, theta0 in enumerate(draws(LINEAR)):
        goal = (y - offset[b])[::2] - Phi @ theta0
        theta = theta0 + np.linalg.solve(Phi.T @ Phi + lam * np.eye(20), Phi.T @ goal)
        np.testing.assert_allclose(coarse.params[b], theta, atol=1e-10)


def adam(network, theta0, x, y, lam, steps=4000, fastest=1e-2):
    """The loss after many small steps, the last of them smaller."""
    x, y = jnp.asarray(x), jnp.asarray(y)

    def loss(theta):
        moved = jax.tree.map(lambda a, b: jnp.sum((a - b) ** 2), theta, theta0)
        return jnp.sum((y - network(theta, x)) ** 2) + lam * sum(jax.tree.leaves(moved))

    def step(i, carry):
        theta, first, second = carry
        slope, rate = jax.grad(loss)(theta), fastest * jnp.where(i < 0.8 * steps, 1.0, 0.1)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slope)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, second, slope)

        def move(a, m, v):
            m, v = m / (1.0 - 0.9 ** (i + 1.0)), v / (1.0 - 0.999 ** (i + 1.0))
            return a - rate * m / (jnp.sqrt(v) + 1e-8)

        return jax.tree.map(move, theta, first, second), first, second

    zero = jax.tree.map(jnp.zeros_like, theta0)
    return jax.jit(lambda: loss(jax.lax.fori_loop(0, steps, step, (theta0, zero, zero))[0]))()


@pytest.mark.parametrize(("dim", "n", "lam"), [(1, 16, 1e-3), (2, 64, 1e-3)])
def test_kinks_do_not_keep_a_network_far_above_what_many_small_steps_reach(dim, n, lam):
    # without the stages both losses are above this bound
    network = MLP(2, 128)
    x = np.random.default_rng(0).uniform(size=(n, dim))
    y = np.sin(6.0 * x[:, 0]) + np.cos(4.0 * x.sum(1))
    theta0 = draws(network, dim)
    result = fit(network, theta0, x, y, lam=lam, capacity=n)
    with computing():
        first = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), theta0)
        assert result.loss[0] < 1.3 * float(adam(network, first, x, y, lam))
    assert result.converged.all()


def test_rough_values_of_one_parameter_are_met_with_learnt_settings():
    # where a training ends at the first small gradient, draws miss them by up to 0.3 of their deviation
    x = np.random.default_rng(0).random((20, 1))
    y = np.sin(20.0 * x[:, 0])
    fitted = SampleThenOptimize().fit(Data.of(x, y), key=root_key(1))
    keys = [fold(root_key(2), i) for i in range(10)]
    paths = [drawn.path for drawn in fitted.posterior.draws(keys=keys)]
    missed = [np.sqrt(np.mean((np.asarray(path(x)) - y) ** 2)) / y.std() for path in paths]
    assert np.mean(missed) < 0.08
    assert max(missed) < 0.15


@pytest.mark.parametrize(
    ("depth", "scale", "noise", "missed"), [(3, 5.0, 1e-4, 0.02), (1, 5.0, 0.0, 1e-4)]
)
def test_a_large_prior_does_not_end_a_training_early(depth, scale, noise, missed):
    """K is 1e5 times the noise's usual multiple: kinks are rounded, and λ is small, in proportion."""
    rng = np.random.default_rng(0)
    x, y = rng.random((64, 6)), rng.normal(size=64)
    process = NTKProcess(depth=depth, weight_std=scale, bias_std=scale, noise=noise, standardize=False)
    fitted = SampleThenOptimize(process, correction=False).fit(Data.of(x, y), key=root_key(0))
    for drawn in fitted.posterior.draws(keys=[root_key(4), root_key(5)]):
        assert np.sqrt(np.mean((drawn.path(x) - y) ** 2)) < missed
        assert drawn.info["training"]["converged"]


def test_a_loss_that_an_undamped_step_would_lower_by_far_has_not_converged():
    """A tangent model that fits much better than the network, and kinks in between."""
    rng = np.random.default_rng(0)
    x, y = rng.random((64, 6)), rng.normal(size=64)
    network = MLP(2, 256, weight_std=2.0**0.5, bias_std=2.0**0.5)
    result = fit(network, draws(network, 6, 6), x, (y - y.mean()) / y.std(), lam=1e-4, capacity=64)
    met = result.misfit < 1e-3 * 64  # λ is a hundred times smaller
    assert met.any()
    assert not result.converged[result.misfit > 0.1].any()
    assert result.converged[met].all()


@pytest.mark.parametrize("factor", [1.0, 100.0])
def test_a_network_with_kinks_has_converged_only_where_small_steps_reach_little_less(factor):
    # values a hundred deviations of the prior away, with noise that the penalty lets it fit
    rng = np.random.default_rng(1)
    x = rng.uniform(size=(60, 3))
    y = factor * (np.sin(5.0 * x).sum(1) + 0.3 * rng.standard_normal(60))
    network = MLP(2, 256)
    theta0 = draws(network, 3)
    result = fit(network, theta0, x, y, lam=0.01, capacity=64, **QUICK)
    with computing():
        first = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), theta0)
        small = float(adam(network, first, x, y, 0.01, fastest=1e-2 * np.sqrt(factor)))
    assert (result.loss[0] < 1.3 * small) == result.converged[0] == (factor == 1.0)


def folded(key):
    return jax.random.normal(key, (3, 16)), jax.random.normal(jax.random.fold_in(key, 1), (16,))


FOLDED = UserNetwork(folded, lambda params, z: jnp.abs(jnp.abs(z @ params[0]) - 1.0) @ params[1] / 4.0)


@pytest.mark.parametrize(
    ("network", "factor", "lam"),
    [(FOLDED, 1.0, 1e-6), (MLP(2, 64, "tanh", 1.5, 0.1), 300.0, 1e-3)],
    ids=["kinks that training does not know", "a long valley"],
)
def test_a_network_that_is_far_from_its_minimum_says_so(network, factor, lam):
    # many small steps lower the losses of these networks by factors of 10 and more
    x = np.random.default_rng(0).random((60, 3))
    y = np.sin(5.0 * x).sum(1)
    y = factor * (y - y.mean()) / y.std()
    result = fit(network, draws(network, 3, 6), x, y, lam=lam, capacity=64)
    steep = result.gradient_norm > 10.0 * training.TOLERANCE
    assert steep.any()
    assert not result.converged[steep].any()


def test_without_regularization_a_relu_network_interpolates_noise_too():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(60, 2))
    y = np.sin(6.0 * x[:, 0]) + 0.2 * rng.standard_normal(60)
    network = MLP(2, 256, bias_std=0.5)
    result = fit(network, draws(network), x, y, lam=0.0, capacity=64)
    assert result.converged.all()
    assert result.misfit.max() < 1e-6
    hard = fit(MLP(2, 256), draws(network), x, y, lam=0.0, capacity=64)  # nearly no biases
    assert np.all(hard.converged == (hard.misfit < 1e-3))


@pytest.mark.parametrize("lam", [0.0, 1e-9])
def test_a_training_that_goes_on_interpolates_the_new_value_too(lam):
    # the tolerance of other trainings that go on would leave a misfit of 0.03
    x, y = data(120)
    network = MLP(1, 256, "erf", 1.5, 0.5)
    theta0 = draws(network)
    before = fit(network, theta0, x[:-1], y[:-1], lam=lam, capacity=128)
    after = fit(network, theta0, x, y, lam=lam, begin=before, capacity=128)
    assert after.converged.all()
    assert after.misfit.max() < 1e-6


def test_large_values_do_not_stop_an_interpolation_before_its_first_step():
    x, y = data(30)
    network = MLP(2, 64, "tanh")
    large = 1000.0 * y
    result = fit(network, draws(network, count=6), x, large, lam=0.0)
    assert result.steps.min() > 8
    assert np.all(result.loss < 0.9 * np.sum(large**2))


@pytest.mark.parametrize(
    "apply",
    [
        lambda p, z: jnp.exp(6.0 * (p @ _features(z))),  # overflows
        lambda p, z: jnp.log(3.0 + 0.2 * (p @ _features(z))),  # not a number beyond some step
    ],
)
def test_a_step_to_where_the_network_is_no_number_is_only_refused(apply):
    x, y = data(16)
    network = UserNetwork(lambda key: 0.1 * jax.random.normal(key, (20,)), apply)
    result = fit(network, draws(network, count=6), x, 1.5 + 0.5 * y, lam=1e-4)
    assert result.converged.all()
    assert result.gradient_norm.max() < 0.01


def test_a_rounded_relu_is_relu_seen_through_noise():
    z = np.linspace(-1.0, 1.0, 18)
    noise = (np.arange(4000) + 0.5) / 2000.0 - 1.0
    with computing():
        at = [rounded_relu(jnp.asarray(z), jnp.asarray(width)) for width in (0.5, 0.0)]
        slope = jax.vmap(jax.grad(lambda z: rounded_relu(z, jnp.asarray(0.5))))(jnp.asarray(z))
        steps = jnp.asarray(z) + np.array([[1e-6], [-1e-6]])
        above, below = np.asarray(rounded_relu(steps, jnp.asarray(0.5)))
    expected = np.maximum(z[:, None] + 0.5 * noise, 0.0).mean(1)
    np.testing.assert_allclose(at[0], expected, atol=1e-6)
    np.testing.assert_allclose(at[1], np.maximum(z, 0.0), atol=1e-29)
    np.testing.assert_allclose(slope, (above - below) / 2e-6, atol=1e-8)


def test_other_networks_are_trained_too():
    x = np.random.default_rng(0).uniform(size=(12, 36))
    y = x[:, :18].mean(1) * 4.0
    for network in (
        CNN((6, 6, 1), channels=(4,), pool=2, width=8),
        ModuleNetwork(eqx.nn.MLP(36, "scalar", 16, 1, key=jax.random.key(0))),
    ):
        result = fit(network, draws(network, 36), x, y, lam=1e-3, capacity=12)
        assert result.converged.all()
        assert (result.misfit < 0.05 * np.sum((y - y.mean()) ** 2)).all()


def test_what_does_not_converge_says_so():
    x, y = data(30)
    short = fit(SMOOTH, draws(SMOOTH), x, y, lam=1e-2, max_steps=1)
    assert not short.converged.any()
    assert short.steps.tolist() == [1, 1]
    assert "steps" in short.reasons[0]
    broken = UserNetwork(lambda key: jnp.ones(3), lambda p, z: jnp.log(-jnp.sum(p**2)) * z[0])
    result = fit(broken, draws(broken), x, y, lam=1e-2)
    assert not result.converged.any()
    assert "not finite" in result.reasons[0]
    np.testing.assert_array_equal(result.params, 1.0)


def test_a_loss_that_hardly_falls_at_a_steep_gradient_has_not_converged():
    rng = np.random.default_rng(1)
    x = rng.uniform(size=(60, 3))
    y = 1000.0 * (np.sin(5.0 * x).sum(1) + 0.3 * rng.standard_normal(60))
    network = MLP(2, 256)
    result = fit(network, draws(network, dim=3, count=4), x, y, lam=0.01, capacity=64, **QUICK)
    assert np.all(result.gradient_norm[result.converged] <= 0.03)
    steep = result.gradient_norm > 0.03
    assert steep.any()
    assert all("by little or nothing" in result.reasons[i] for i in np.flatnonzero(steep))


def test_nothing_to_learn_takes_no_step():
    theta0, (x, _) = draws(SMOOTH), data(5)
    empty = fit(SMOOTH, theta0, x[:0], np.zeros(0), lam=1e-2)
    assert empty.converged.all()
    assert empty.steps.tolist() == [0, 0]
    np.testing.assert_array_equal(empty.params[0].weight, theta0[0].weight)
    with computing():
        met = np.asarray(jax.vmap(lambda p: SMOOTH(p, jnp.asarray(x)))(theta0))
    assert fit(SMOOTH, theta0, x, met, lam=1e-6).misfit.max() < 1e-20


@jax.custom_jvp
def flipped(z):
    return z


flipped.defjvp(lambda primals, tangents: (primals[0], -tangents[0]))


@pytest.mark.parametrize("lam", [1e-4, 1e-2])
def test_a_network_that_never_moves_has_not_converged(lam):
    # its derivative points the wrong way, so that every step is refused
    def draw(key):
        return {"w": jax.random.normal(key, (2, 16))}

    network = UserNetwork(draw, lambda p, x: flipped(jnp.tanh(x @ p["w"]).sum() / 4.0))
    x = np.random.default_rng(0).random((8, 2))
    y = np.random.default_rng(1).standard_normal((1, 8))
    start = stack([network.init(root_key(0), 2)])
    ended = train(network, start, x, np.ones(8, dtype=bool), y, lam=lam)
    assert not ended.converged[0]
    assert "by little or nothing" in ended.reasons[0]
