"""Bad networks, settings and pools get a sentence from every neural algorithm, or the search goes on."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from augury import Algorithm, Float, Optimizer, Pool, Space, SpaceExhausted, UnsupportedError
from augury.surrogates import (
    EmpiricalProcess,
    Ensemble,
    NeuralLinear,
    NeuralTangent,
    NTKProcess,
    RandomForest,
    SampleThenOptimize,
    TangentProcess,
    tangent,
)
from augury.surrogates.user_networks import ModuleNetwork, UserNetwork

SENTENCE = r"(must|needs) .*; got .*\. [A-Z]"
BOX = Space(a=Float(0.0, 1.0), b=Float(0.0, 1.0))
# the surrogate of every algorithm with a process and more settings, and its policy
ALGORITHMS = {
    "sto-bnts": (SampleThenOptimize, {}, "thompson"),
    "sto-bnts-linear": (TangentProcess, {}, "thompson"),
    "neural-greedy": (SampleThenOptimize, {"correction": False}, "thompson"),
    "neural-bo": (NeuralTangent, {}, "thompson"),
    "neural-ucb": (NeuralTangent, {"features": "current"}, "ucb"),
    "neural-ts": (NeuralTangent, {"features": "current"}, "thompson"),
    "neural-linear-ts": (NeuralLinear, {}, "thompson"),
    "dngo": (NeuralLinear, {}, "ei"),
    "deep-ensemble": (Ensemble, {"members": 2}, "thompson"),
    "ensemble-ei": (Ensemble, {"members": 2}, "ei"),
}
HEADS = ("neural-linear-ts", "dngo")  # which refuse users' networks
TRAINED = [name for name in ALGORITHMS if name not in HEADS]


def algorithm(name, process, **settings):
    surrogate, own, policy = ALGORITHMS[name]
    return Algorithm(surrogate(process, **own, **settings), policy)


def draw(key):
    a, b = jax.random.split(key)
    return jax.random.normal(a, (2, 8)), jax.random.normal(b, (8,))


def good(params, z):
    return jnp.tanh(z @ params[0]) @ params[1] / 3.0


def undefined(params, z):
    """NaN where the first column is in the upper half."""
    return jnp.where(z[0] > 0.0, jnp.nan, 1.0) * good(params, z)


BAD = {
    "two numbers": (draw, lambda p, z: jnp.stack([good(p, z)] * 2)),
    "a pair": (draw, lambda p, z: (good(p, z), good(p, z))),
    "an integer": (draw, lambda p, z: jnp.round(good(p, z)).astype(int)),
    "a complex number": (draw, lambda p, z: good(p, z) + 1j),
    "integers among the parameters": (lambda key: (*draw(key), jnp.arange(3)), good),
    "a gradient of NaN": (draw, lambda p, z: good(p, z) + jnp.sqrt(jnp.abs(z[0] * p[0][0, 0]))),
    "another number of columns": (lambda key: jnp.ones(7), lambda p, z: z @ p),
    "other shapes for another key": (
        lambda key: jnp.ones(1 + int(jax.random.randint(key, (), 0, 1000))),
        lambda p, z: p.sum() * z[0],
    ),
    "NumPy": (draw, lambda p, z: np.tanh(z @ p[0]) @ p[1]),
}


@pytest.mark.parametrize("name", [*ALGORITHMS, "ntk-ei"])
@pytest.mark.parametrize("what", BAD)
def test_a_bad_network_gets_a_sentence_before_anything_is_asked(name, what):
    process = EmpiricalProcess(BAD[what])
    with pytest.raises(UnsupportedError, match=SENTENCE):
        Optimizer(BOX, Algorithm(process, "ei") if name == "ntk-ei" else algorithm(name, process))


@pytest.mark.parametrize("name", [*ALGORITHMS, "ntk-ei", "rf-ei"])
def test_sizes_of_nothing_and_negative_noise_get_a_sentence(name):
    def build(width=8, **settings):
        if name == "rf-ei":
            return RandomForest(width, settings.get("depth", 3), settings.get("noise", 0.5))
        process = NTKProcess(**settings, **({"width": width} if name == "ntk-ei" else {}))
        return process if name == "ntk-ei" else algorithm(name, process, width=width)

    for bad in ({"width": 0}, {"depth": 0}, {"noise": -1.0}, {"noise": [0.1]}, {"noise": True}):
        with pytest.raises(UnsupportedError, match=SENTENCE):
            build(**bad)


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("known", [4, 6])
def test_a_network_that_is_nan_at_some_points_leaves_the_search_going(name, known):
    """At all candidates that are left, and also at observed ones."""
    rows = np.random.default_rng(0).random((10, 2))
    rows[:4, 0] /= 2.1
    rows[4:, 0] = 1.0 - rows[4:, 0] / 2.1
    rows[:2] = [[0.0, 0.0], [0.0, 1.0]]
    rows[-2:] = [[1.0, 0.0], [1.0, 1.0]]
    opt = Optimizer(Pool(rows), algorithm(name, EmpiricalProcess((draw, undefined))), seed=0, initial=1)
    for index in range(known):
        opt.tell({"index": index}, float(index))
    asked = []
    for _ in range(2):
        with pytest.warns(UserWarning, match="A random point is suggested instead") as warned:
            asked += opt.ask(1)
        assert len(warned) == 1
        assert warned[0].filename == __file__
        assert "fallback" in asked[-1].info
        opt.tell(asked[-1], 0.5)
    assert len({trial.params["index"] for trial in asked} - set(range(known))) == 2
    assert opt.recommend() in opt.trials


@pytest.mark.parametrize("name", ["sto-bnts", "neural-bo", "neural-ts", "deep-ensemble"])
def test_a_network_that_is_nan_at_observations_is_not_taken_for_a_trained_one(name):
    """Its gradients are numbers, and candidates elsewhere have finite scores."""

    def half(params, z):
        return jnp.where(z[0] > 0.0, jnp.nan, good(params, z))

    rows = np.random.default_rng(0).random((10, 2))
    rows[:2] = [[0.0, 0.0], [1.0, 1.0]]
    rows[2:6, 0] = 0.9
    rows[6:, 0] = 0.1
    opt = Optimizer(Pool(rows), algorithm(name, EmpiricalProcess((draw, half))), seed=0, initial=1)
    for index in range(6):
        opt.tell({"index": index}, float(index))
    with pytest.warns(UserWarning, match="A random point is suggested instead"):
        trial = opt.ask()
    assert "fallback" in trial.info


@pytest.mark.parametrize("name", ["sto-bnts", "sto-bnts-linear", "neural-bo", "ntk-ei"])
@pytest.mark.filterwarnings("ignore:.* A random point is suggested instead:UserWarning")
def test_a_network_whose_squares_overflow_gives_no_warnings_of_numpy(name):
    process = EmpiricalProcess((draw, lambda params, z: 1e200 * good(params, z)))
    mine = Algorithm(process, "ei") if name == "ntk-ei" else algorithm(name, process)
    opt = Optimizer(Pool(np.random.default_rng(0).random((10, 2))), mine, seed=0, initial=1)
    for index in range(3):
        opt.tell({"index": index}, float(index))
    trials = opt.ask(2)
    assert len({trial.params["index"] for trial in trials} - {0, 1, 2}) == 2
    assert all("fallback" in trial.info for trial in trials)
    assert opt.recommend() in opt.trials


@pytest.mark.parametrize("name", [*ALGORITHMS, "ntk-ei", "rf-ei"])
def test_a_pool_of_one_item_is_asked_once(name):
    opt = Optimizer(Pool(np.ones((1, 3))), name, seed=0, initial=1)
    opt.tell(opt.ask(), 1.0)
    with pytest.raises(SpaceExhausted, match="all 1 have been asked"):
        opt.ask()


@pytest.mark.parametrize("name", ["sto-bnts", "neural-bo", "rf-ei"])  # a draw, a posterior, a forest
def test_a_pool_of_one_item_is_asked_again_and_again(name):
    opt = Optimizer(Pool(np.ones((1, 3))), name, seed=0, initial=1, duplicates="allow")
    opt.tell(opt.ask(), 1.0)
    assert opt.ask().params == {"index": 0}


@pytest.mark.parametrize(
    "last",
    [3, lambda params: params[0], lambda params: (params[0], params[1][:1]), lambda params: params["w"]],
    ids=["no function", "another structure", "other shapes", "an error"],
)
def test_a_last_layer_that_is_none_is_refused(last):
    with pytest.raises(UnsupportedError, match=SENTENCE):
        Optimizer(BOX, algorithm("sto-bnts", EmpiricalProcess(UserNetwork(draw, good, last=last))))


@pytest.mark.parametrize("wrong", [lambda: jnp.ones(2), lambda key: 1 / 0], ids=["no key", "an error"])
def test_what_is_wrong_with_draw_is_not_said_of_apply(wrong):
    with pytest.raises(UnsupportedError, match="draw must accept a JAX key; got "):
        Optimizer(BOX, algorithm("sto-bnts", EmpiricalProcess((wrong, good))))
    with pytest.raises(UnsupportedError, match="a network must accept one row"):
        Optimizer(BOX, algorithm("sto-bnts", EmpiricalProcess((draw, lambda params, z: 1 / 0))))


@pytest.mark.parametrize("name", HEADS)
def test_a_head_needs_the_inputs_of_the_last_layer(name):
    network = UserNetwork(draw, good, last=lambda params: (params[0], 0.0 * params[1]))
    with pytest.raises(UnsupportedError, match=SENTENCE):
        algorithm(name, EmpiricalProcess(network))


def test_large_networks_are_scored_at_few_points_at_a_time():
    def wide(key):
        a, b = jax.random.split(key)
        return jax.random.normal(a, (500, 100)), jax.random.normal(b, (100,))

    module = eqx.nn.MLP(500, "scalar", 100, 1, key=jax.random.key(0))
    for network in (UserNetwork(wide, good), ModuleNetwork(module)):
        assert (
            256 <= network.rows_at_once < 1024
        )  # their gradients fill at most half of what a Jacobian may
    assert UserNetwork(draw, good).rows_at_once is None


def test_functions_of_a_network_need_not_be_hashable():
    class Function:
        __hash__ = None

        def __init__(self, inner):
            self.inner = inner

        def __call__(self, *args):
            return self.inner(*args)

    process = EmpiricalProcess((Function(draw), Function(good)))
    opt = Optimizer(Pool(np.eye(4)[:, :2]), algorithm("sto-bnts", process), seed=0, initial=1)
    opt.tell({"index": 0}, 1.0)
    assert opt.ask().info["training"]["converged"]


@pytest.mark.parametrize("name", ["sto-bnts", "neural-ucb"])  # a draw, a posterior that is conditioned
def test_a_network_whose_jacobian_does_not_fit_into_memory_suggests_the_same(name, monkeypatch):
    rows = np.random.default_rng(0).random((12, 2))

    def asked():
        # functions of its own, so that nothing is used that was compiled for another memory
        process = EmpiricalProcess((lambda key: draw(key), lambda params, z: good(params, z)))
        opt = Optimizer(Pool(rows), algorithm(name, process), seed=0, initial=1)
        for index in range(6):
            opt.tell({"index": index}, float(np.sin(5.0 * rows[index, 0])))
        return opt.ask(2)

    whole = asked()
    monkeypatch.setattr(tangent, "MEMORY", 8 * 24 * 8)  # of 32 rows of 24 numbers, 8 in float64
    for kept, blockwise in zip(whole, asked(), strict=True):
        assert blockwise.params == kept.params
        assert blockwise.info["mean"] == pytest.approx(kept.info["mean"], rel=1e-6)
        assert blockwise.info["std"] == pytest.approx(kept.info["std"], rel=1e-6)
