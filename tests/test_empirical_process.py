"""The process of a finite network's tangent kernel, draws of users' networks, and bad networks."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from augury import Algorithm, DataError, Float, Optimizer, Pool, Space, UnsupportedError
from augury.core.data import Data
from augury.core.keys import fold, root_key
from augury.core.precision import computing
from augury.surrogates import (
    CNN,
    MLP,
    EmpiricalProcess,
    ModuleNetwork,
    SampleThenOptimize,
    Status,
    UserNetwork,
)
from augury.surrogates.ntk_process import DEVIATION, LOWER, MEAN, UPPER
from augury.surrogates.sample_then_optimize import simple_smb
from augury.surrogates.spectral_density import JITTER, SpectralDensity
from augury.surrogates.tangent import ntk
from samples import distance

KEY = root_key(0)
WIDTH = 1024
X = np.array([[0.15], [0.3], [0.35], [0.8]])
Y = np.array([0.5, -0.4, -0.6, 0.7])
NEW = np.linspace(0.0, 1.0, 9)[:, None]
NOISE = 0.01


def draw(key):
    """A hidden layer for one column, in the NTK parameterization."""
    a, b, c = jax.random.split(key, 3)
    return {
        "w": jax.random.normal(a, (1, WIDTH)),
        "b": jax.random.normal(b, (WIDTH,)),
        "v": jax.random.normal(c, (WIDTH,)),
    }


def fixed(_key):
    return draw(KEY)


def apply(params, z):
    return jnp.tanh(1.5 * z @ params["w"] + params["b"]) @ params["v"] / np.sqrt(WIDTH)


def process(which=draw, **options):
    return EmpiricalProcess((which, apply), noise=NOISE, output=1.0, standardize=False, **options)


def test_the_density_is_that_of_the_dense_formula_and_so_is_its_gradient():
    rng = np.random.default_rng(0)
    root, y = rng.standard_normal((6, 4)), rng.standard_normal(6)
    K = root @ root.T
    density = SpectralDensity(K, y, *((b[2:] - MEAN[2:]) / DEVIATION[2:] for b in (LOWER, UPPER)))

    def dense(z):
        v, noise = np.exp(MEAN[2:] + DEVIATION[2:] * z)
        covariance = v * (K + JITTER * np.eye(6)) + noise * np.eye(6)
        log = scipy.stats.multivariate_normal(cov=covariance).logpdf(y) + 3.0 * np.log(2.0 * np.pi)
        return -log + 0.5 * z @ z

    for z in (np.array([0.3, 1.0]), np.array([-1.0, 2.5])):
        value, gradient = density.loss_and_gradient(z)
        assert value == pytest.approx(dense(z), rel=1e-9)
        steps = [1e-5 * np.eye(2)[i] for i in range(2)]
        slopes = [(dense(z + step) - dense(z - step)) / 2e-5 for step in steps]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-5)


@pytest.mark.parametrize("noise", [0.5, 0.01])
def test_scale_and_noise_are_found_in_the_users_units(noise):
    model, rng = EmpiricalProcess(MLP(2, 64, bias_std=0.5)), np.random.default_rng(1)
    x = rng.random((120, 4))
    K = ntk(model.network, model.network.init(KEY, 4), x)
    K = K / np.diagonal(K).mean()
    y = np.linalg.cholesky(K + noise * np.eye(120)) @ rng.standard_normal(120)
    found, larger = (model.fit(Data.of(x, values), key=KEY).info for values in (y, 3.0 + 10.0 * y))
    assert found["noise"] == pytest.approx(noise, rel=0.7)
    assert 0.3 < found["variance"] < 3.0
    assert found["tuning_converged"]
    assert larger["noise"] == pytest.approx(100.0 * found["noise"], rel=1e-3)
    assert larger["output"] == pytest.approx(100.0 * found["output"], rel=1e-3)


def test_a_network_times_a_number_is_the_same_process():
    def tenfold(params, z):
        return 10.0 * apply(params, z)

    plain, larger = (
        EmpiricalProcess((draw, f)).fit(Data.of(X, 3.0 * Y), key=KEY) for f in (apply, tenfold)
    )
    network = process().network
    K = ntk(network, network.init(KEY, 1), X)
    assert plain.info["output"] * np.diagonal(K).mean() == pytest.approx(plain.info["variance"])
    assert larger.info["output"] == pytest.approx(plain.info["output"] / 100.0, rel=1e-4)
    np.testing.assert_allclose(larger.posterior.mean(NEW), plain.posterior.mean(NEW), atol=1e-4)
    np.testing.assert_allclose(larger.posterior.joint(NEW)[1], plain.posterior.joint(NEW)[1], atol=1e-4)


def test_what_the_user_fixed_stays():
    model = EmpiricalProcess(MLP(1, 16), noise=0.3, output=2.0)
    info = model.fit(Data.of(X, 5.0 * Y), key=KEY).info
    assert info["noise"] == pytest.approx(0.3)
    assert info["output"] == pytest.approx(2.0)
    assert EmpiricalProcess(MLP(), noise=0.0).fit(Data.of(X, Y), key=KEY).info["noise"] == 0.0
    empty = EmpiricalProcess(MLP(1, 16)).fit(Data.of(np.empty((0, 1)), np.empty(0)), key=KEY)
    assert empty.status is Status.OK
    assert empty.info["variance"] == pytest.approx(1.0)


def test_the_posterior_is_the_formula_at_parameters_fixed_by_the_key():
    model = process()
    posterior = model.fit(Data.of(X, Y), key=KEY).posterior
    theta0 = model.network.init(KEY, 1)
    k, A = ntk(model.network, theta0, NEW, X), ntk(model.network, theta0, X) + NOISE * np.eye(4)
    np.testing.assert_allclose(posterior.mean(NEW), k @ np.linalg.solve(A, Y), rtol=1e-5)
    covariance = ntk(model.network, theta0, NEW) - k @ np.linalg.solve(A, k.T)
    np.testing.assert_allclose(posterior.joint(NEW)[1], covariance, atol=1e-6)
    fewer = model.fit(Data.of(X[:3], Y[:3]), key=KEY).posterior
    np.testing.assert_allclose(fewer.condition(X[3:], Y[3:]).mean(NEW), posterior.mean(NEW), rtol=1e-5)
    other = model.fit(Data.of(X, Y), key=fold(KEY, 1)).posterior
    assert np.abs(other.mean(NEW) - posterior.mean(NEW)).max() > 1e-4


def draws(model, count=256):
    posterior = model.fit(Data.of(X, Y), key=KEY).posterior
    made = posterior.draws(keys=[fold(KEY, i) for i in range(count)])
    assert all(draw.info["training"]["converged"] for draw in made)
    return np.array([draw.path(NEW) for draw in made])


def test_draws_of_a_network_without_a_known_last_layer_match_the_posterior_of_its_tangent_kernel():
    model = SampleThenOptimize(process(fixed))
    fit = model.fit(Data.of(X, Y), key=KEY)
    moments = fit.belief.joint(NEW)
    of_mean, of_covariance = distance(draws(model), *moments)
    assert of_mean < 5.0
    assert of_covariance < 5.0
    plain = distance(draws(SampleThenOptimize(process(fixed), correction=False), 64), *moments)
    assert max(plain) > 5.0  # the two can be told apart
    fewer = SampleThenOptimize(process(fixed), perturb_targets=False)
    assert draws(fewer, 64)[:, [1, 3]].std() < draws(model, 64)[:, [1, 3]].std()


def test_a_draw_is_the_exact_update_of_its_prior_draw():
    model = SampleThenOptimize(process(fixed))
    posterior = model.fit(Data.of(X, Y), key=KEY).posterior
    network, theta0 = model.process.network, posterior.network.init(KEY, 1)
    w, targets = posterior._direction(fold(KEY, 2), 1), posterior._targets(fold(KEY, 1), 1.0)[:4]
    numbers = np.concatenate([leaf.ravel() for leaf in w.values()])
    assert abs(numbers.mean()) < 0.1
    assert numbers.std() == pytest.approx(1.0, abs=0.06)
    assert np.abs(targets - Y).max() < 5.0 * np.sqrt(NOISE)
    with computing():
        prior = np.asarray(network.linearize(theta0, np.concatenate([NEW, X]))[1].push(w))
    gain = ntk(network, theta0, NEW, X) @ np.linalg.inv(ntk(network, theta0, X) + NOISE * np.eye(4))
    expected = prior[:9] + gain @ (targets - prior[9:])
    np.testing.assert_allclose(posterior.sample(key=KEY)(NEW), expected, atol=0.05 * expected.std())


def test_a_known_last_layer_gives_the_draws_of_the_paper():
    known = UserNetwork(draw, apply, last=lambda params: {**params, "v": 0.0 * params["v"]})
    model = SampleThenOptimize(EmpiricalProcess(known, NOISE, 1.0, standardize=False))
    posterior = model.fit(Data.of(X, Y), key=KEY).posterior
    assert not np.any(posterior._direction(KEY, 1)["v"])
    fits = [process().fit(Data.of(X, Y), key=fold(KEY, i)).posterior.joint(NEW) for i in range(8)]
    mean, covariance = (np.mean(parts, axis=0) for parts in zip(*fits, strict=True))
    of_mean, of_covariance = distance(draws(model), mean, covariance)
    assert of_mean < 6.0  # the width is finite
    assert of_covariance < 6.0


LINE = Pool(np.linspace(0.0, 1.0, 30)[:, None])
BOX = Space(x=Float(0.0, 1.0))


def told(opt, values=(0.1, 0.6, 0.3, 0.2)):
    for value in values:
        opt.tell(opt.ask(), value)
    return opt


def small(key):
    return jax.random.normal(key, (2, 8))


def small_apply(params, z):
    return jnp.tanh(z[0] * params[0] + 0.5) @ params[1] / np.sqrt(8.0)


@pytest.mark.parametrize(
    "network",
    [(small, small_apply), eqx.nn.MLP(1, "scalar", 8, 1, jnp.tanh, key=jax.random.key(0))],
    ids=["pair", "module"],
)
def test_a_study_with_a_network_of_ones_own_and_its_restored_state(network):
    mine = Algorithm(SampleThenOptimize(EmpiricalProcess(network)), "thompson")
    opt = told(Optimizer(LINE, mine, seed=3, initial=4))
    restored = Optimizer.from_json(opt.to_json(), LINE, mine)
    a, b = opt.ask(), restored.ask()
    assert a.params == b.params
    assert a.info["mean"] == b.info["mean"]
    assert a.info["training"]["converged"]
    assert opt.recommend() in opt.trials
    other = Algorithm(SampleThenOptimize(EmpiricalProcess(MLP(1, 8))), "thompson")
    with pytest.raises(DataError, match="must be the saved one"):
        Optimizer.from_json(opt.to_json(), LINE, other)


def test_a_list_of_two_functions_is_a_pair():
    assert EmpiricalProcess([draw, apply]) == EmpiricalProcess((draw, apply))


def test_the_process_alone_is_a_surrogate():
    mine = Algorithm(EmpiricalProcess((small, small_apply)), "ei")
    opt = told(Optimizer(LINE, mine, seed=0, initial=4))
    assert np.isfinite(opt.ask().info["std"])


def test_users_networks_see_images_where_the_pool_has_them():
    def at(key):
        return jax.random.normal(key, (3, 4))

    def inner(params, z):
        assert z.shape == (3, 4)
        return jnp.sum(params * z)

    pool = Pool(np.random.default_rng(0).random((5, 3, 4)))
    opt = Optimizer(pool, Algorithm(EmpiricalProcess((at, inner)), "ei"), seed=0)
    assert opt.algorithm.surrogate.network.shape == (3, 4)
    module = EmpiricalProcess(eqx.nn.MLP(12, "scalar", 4, 1, key=jax.random.key(0)))
    with pytest.raises(UnsupportedError, match="must accept one row"):
        Optimizer(pool, Algorithm(module, "ei"))
    flat = EmpiricalProcess(ModuleNetwork(eqx.nn.MLP(12, "scalar", 4, 1, key=jax.random.key(0)), (12,)))
    assert Optimizer(pool, Algorithm(flat, "ei")).algorithm.surrogate == flat


BAD = {
    "one number": (lambda key: jnp.ones(1), lambda p, z: p * z),
    "floating-point": (lambda key: {"w": jnp.ones(1), "n": jnp.arange(3)}, lambda p, z: z @ p["w"]),
    "must be finite": (lambda key: jnp.ones(1), lambda p, z: jnp.sqrt(jnp.sum(p * z))),
    "must accept one row": (lambda key: jnp.ones(7), lambda p, z: z @ p),
    r"draw must be a function": (None, lambda p, z: 0.0),
}


@pytest.mark.parametrize("sentence", BAD)
def test_a_bad_network_is_refused_with_a_sentence_before_anything_is_asked(sentence):
    with pytest.raises(UnsupportedError, match=sentence):
        Optimizer(BOX, Algorithm(SampleThenOptimize(EmpiricalProcess(BAD[sentence])), "thompson"))
    if BAD[sentence][0] is not None and sentence != "must be finite":
        with pytest.raises(UnsupportedError, match=sentence):  # also without an optimizer
            EmpiricalProcess(BAD[sentence]).fit(Data.of(X, Y), key=KEY)


def test_a_gradient_that_is_nan_at_some_points_leaves_the_optimizer_going():
    def broken(params, z):
        return jnp.sqrt(0.2 - z[0]) * jnp.sum(params) / 4.0  # NaN beyond the middle

    surrogate = SampleThenOptimize(EmpiricalProcess((small, broken)))
    opt = told(Optimizer(BOX, Algorithm(surrogate, "thompson"), seed=0, initial=4))
    with pytest.warns(UserWarning, match="random point"):
        trial = opt.ask()
    assert "fallback" in trial.info
    opt.tell(trial, 0.5)
    assert opt.recommend() in opt.trials
    assert told(Optimizer(BOX, "gp-ei", seed=0, initial=4)).ask().info["score"] is not None


def test_bad_settings_are_refused():
    for make, sentence in (
        (lambda: EmpiricalProcess(MLP(), noise=-1.0), "noise must be at least 0"),
        (lambda: EmpiricalProcess(MLP(), output=0.0), "output must be positive"),
        (lambda: EmpiricalProcess(MLP(), tuning_points=0), "tuning_points"),
        (lambda: EmpiricalProcess(MLP(), standardize="no"), "standardize"),
        (lambda: EmpiricalProcess("cnn"), "a network must be"),
        (lambda: EmpiricalProcess((draw, apply, apply)), "a network must be"),
        (lambda: EmpiricalProcess([draw]), "a network must be"),
        (lambda: EmpiricalProcess(MLP(depth=0)), "depth"),
        (lambda: EmpiricalProcess(CNN((8, 8, 1), width=0)), "width"),
        (lambda: SampleThenOptimize(process(), zero_output_bias=True), "zero_output_bias"),
        (lambda: SampleThenOptimize(process="ntk"), "process must be"),
    ):
        with pytest.raises(UnsupportedError, match=sentence):
            make()
    assert not simple_smb(process=process()).zero_output_bias  # be-greedy with a network of one's own
    network = SampleThenOptimize(EmpiricalProcess(CNN((8, 8, 1))), zero_output_bias=True)
    posterior = network.fit(Data.of(np.random.default_rng(0).random((3, 64)), Y[:3]), key=KEY).posterior
    assert posterior.network.zero_output_bias


@pytest.mark.parametrize("corner", [0.0, 1.0])
def test_a_network_that_is_infinite_in_a_corner_or_in_the_centre_has_a_prior(corner):
    def infinite(params, z):
        return jnp.sum(params / (z + corner))

    surrogate = EmpiricalProcess((lambda key: jax.random.normal(key, (2,)), infinite), 0.1, 1.0)
    posterior = surrogate.fit(Data.of(np.empty((0, 2)), np.empty(0)), key=root_key(0)).posterior
    np.testing.assert_array_equal(posterior.mean(np.array([[0.6, 0.8], [1.0, 0.2]])), 0.0)
