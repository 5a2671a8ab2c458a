"""The table: every row once, every part once on a mixed space, and wrong pairs refused."""

import json
import math

import jax
import numpy as np
import pytest

import augury
from augury import Algorithm, Choice, Float, Int, Optimizer, Pool, Space, UnsupportedError
from augury.algorithm import MAXIMIZERS, POLICIES, POLISHED, SURROGATES, default_maximizer, resolve
from augury.maximizers import Exhaustive, Mixed, MultiStart, RandomGrid
from augury.policies import (
    EI,
    QEI,
    TSRSR,
    UCB,
    UCBPE,
    Desautels,
    DPPThompson,
    SqrtLog,
    StochasticPolicy,
    Thompson,
)
from augury.surrogates import (
    Capability,
    Election,
    Ensemble,
    Fit,
    FourierProcess,
    GaussianProcess,
    NeuralLinear,
    NeuralTangent,
    NTKProcess,
    Path,
    Posterior,
    RandomForest,
    SampleThenOptimize,
    Status,
    TangentProcess,
)
from augury.trial import Origin

MIXED = Space(
    lr=Float(1e-5, 1.0, log=True),
    depth=Int(1, 8),
    act=Choice(["relu", "tanh", "gelu"]),
    width=Choice([16, 32, 64], ordered=True),
    bias=Choice([False, True]),
)
BOX = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))
LATTICE = Space(i=Int(0, 200), j=Int(0, 99))
SMALL = Space(i=Int(0, 30), j=Int(0, 20))


def firsts():
    """The rows that have a surrogate or a policy which no row before them has."""
    seen = set()
    for name, row in augury.algorithms().items():
        parts = {("surrogate", row.surrogate), ("policy", row.policy)}
        if not parts <= seen:
            yield name
        seen |= parts


def loss(params):
    if "i" in params:
        return (params["i"] - 11) ** 2 + (params["j"] - 5) ** 2
    far = (math.log10(params["lr"]) + 2.0) ** 2 + abs(params["depth"] - 4)
    return far + (params["act"] != "tanh") + params["width"] / 64 - params["bias"]


def study(space, name):
    opt = Optimizer(space, name, seed=1, initial=4, budget=7)
    for _ in range(5):
        trial = opt.ask()
        opt.tell(trial, loss(trial.params))
    return opt, opt.ask(2)


@pytest.mark.parametrize("name", augury.algorithms())
def test_every_row_runs_and_a_second_time_compiles_nothing(name, caplog):
    space = MIXED if name in set(firsts()) else SMALL
    opt, pending = study(space, name)
    assert [trial.number for trial in opt.trials] == list(range(7))
    assert pending[0].params != pending[1].params
    for trial in opt.trials:
        assert trial.params == space.check(trial.params)
    modelled = [trial for trial in opt.trials if trial.origin is Origin.MODEL]
    assert len(modelled) == (0 if augury.algorithms()[name].surrogate is None else 3)
    for trial in modelled:
        assert all(math.isfinite(trial.info[key]) for key in ("mean", "std", "noise", "score"))
        assert 0.0 <= trial.info["eta"] <= 1.0
    assert opt.recommend().value is not None

    caplog.clear()
    with jax.log_compiles():
        _, asked = study(space, name)
    assert [trial.params for trial in asked] == [trial.params for trial in pending]
    assert [record.message for record in caplog.records if record.message.startswith("Compiling")] == []


@pytest.mark.parametrize("name", MAXIMIZERS)
def test_every_maximizer_serves_an_algorithm(name):
    space = LATTICE if name in ("exhaustive", "mixed", "rounding") else BOX
    opt = Optimizer(space, Algorithm("gp", "ucb", name), direction="maximize", seed=0, initial=4)
    for _ in range(6):
        trial = opt.ask()
        x, y = space.encode(trial.params)
        opt.tell(trial, -((x - 0.3) ** 2) - (y - 0.7) ** 2)
    assert [trial.origin for trial in opt.trials[4:]] == [Origin.MODEL, Origin.MODEL]
    assert opt.trials[5].info["chosen"].startswith("GaussianProcess × UCB × ")
    assert space.check(opt.trials[5].params) == opt.trials[5].params


def test_the_table_names_parts_that_exist():
    for name, row in augury.algorithms().items():
        assert row.name == name
        assert row.surrogate is None or row.surrogate in SURROGATES
        assert row.policy is None or row.policy in POLICIES
        assert row.reference
        assert resolve(name).name == name
    with pytest.raises(TypeError):
        augury.algorithms()["mine"] = None


# what makes a row the algorithm that its paper describes: fields of its surrogate, and its policy
LEARNT = {"lengthscale": None, "variance": None, "noise": None, "ard": True, "points": None}
DRAWN = {"process": None, "perturb_targets": True, "penalty": True}
MEMBERS = {"process": None, "members": 10, "penalty": True, "warm_start": False}
EXACT = {"process": None, "covariance": "exact", "draw": "function"}
HEAD = {"prior_variance": None, "noise": None}
NTK = {"depth": None, "weight_std": None, "bias_std": None, "noise": None, "bias": True}
PARTS = {
    "auto": (Election, {}, EI()),
    "gp-ei": (GaussianProcess, LEARNT, EI()),
    "gp-ucb": (GaussianProcess, LEARNT, UCB(SqrtLog())),
    "gp-ts": (GaussianProcess, LEARNT, Thompson(1.0)),
    "ts-rsr": (GaussianProcess, LEARNT, TSRSR()),
    "bucb": (GaussianProcess, LEARNT, UCB(Desautels())),
    "ucb-pe": (GaussianProcess, LEARNT, UCBPE(Desautels(), region=True)),
    "qei": (GaussianProcess, LEARNT, QEI()),
    "sp": (GaussianProcess, LEARNT, StochasticPolicy()),
    "dpp-ts": (GaussianProcess, LEARNT, DPPThompson()),
    "gp-ucb-rff": (FourierProcess, {"features": 1000}, UCB(SqrtLog())),
    "gp-ts-rff": (FourierProcess, {"features": 1000}, Thompson(1.0)),
    "sto-bnts": (
        SampleThenOptimize,
        {**DRAWN, "correction": True, "zero_output_bias": False},
        Thompson(1.0),
    ),
    "sto-bnts-linear": (TangentProcess, {"process": None, "redraw": True}, Thompson(1.0)),
    "neural-greedy": (
        SampleThenOptimize,
        {**DRAWN, "correction": False, "zero_output_bias": True},
        Thompson(1.0),
    ),
    "neural-greedy-posterior": (
        SampleThenOptimize,
        {**DRAWN, "correction": True, "zero_output_bias": True},
        Thompson(1.0),
    ),
    "neural-bo": (NeuralTangent, {**EXACT, "features": "initial"}, Thompson(1.0)),
    "neural-ucb": (NeuralTangent, {**EXACT, "features": "current"}, UCB(SqrtLog())),
    "neural-ts": (NeuralTangent, {**EXACT, "features": "current"}, Thompson(1.0)),
    "neural-linear-ts": (NeuralLinear, {**HEAD, "process": None, "width": 256}, Thompson(1.0)),
    "dngo": (
        NeuralLinear,
        {**HEAD, "process": NTKProcess(depth=3, activation="tanh"), "width": 50},
        EI(),
    ),
    "deep-ensemble": (Ensemble, MEMBERS, Thompson(1.0)),
    "ensemble-ei": (Ensemble, MEMBERS, EI()),
    "ntk-ei": (NTKProcess, NTK, EI()),
    "ntk-ucb": (NTKProcess, NTK, UCB(SqrtLog())),
    "ntk-ts": (NTKProcess, NTK, Thompson(1.0)),
    "ntk-ts-rsr": (NTKProcess, NTK, TSRSR()),
    "rf-ei": (RandomForest, {}, EI()),
    "random": (type(None), {}, None),
    "sobol": (type(None), {}, None),
}


@pytest.mark.parametrize("name", augury.algorithms())
def test_every_row_is_the_algorithm_of_its_paper(name):
    made = resolve(name)
    surrogate, settings, policy = PARTS[name]
    assert type(made.surrogate) is surrogate
    assert {field: getattr(made.surrogate, field) for field in settings} == settings
    assert made.policy == policy
    assert made.exploration == (5 if name.startswith("neural-greedy") else None)
    assert (made.locality is not None) == (name == "auto")
    assert made.design == ("random" if name == "random" else "sobol")
    assert made.maximizer is None  # the space decides


def test_the_default_maximizer_fits_the_space():
    assert default_maximizer(BOX) == MultiStart()
    assert default_maximizer(MIXED) == Mixed()
    assert default_maximizer(Space(i=Int(0, 9999))) == Exhaustive()
    assert default_maximizer(Space(i=Int(0, 10_000))) == Mixed()
    assert default_maximizer(Pool([[0.0], [1.0]])) == Exhaustive()
    assert default_maximizer(BOX, gradient=False) == RandomGrid()
    assert default_maximizer(BOX, trained=True) == POLISHED
    assert default_maximizer(MIXED, trained=True) == Mixed()
    assert resolve("sto-bnts").on(BOX).maximizer == resolve("neural-greedy").on(BOX).maximizer == POLISHED
    assert (
        resolve("deep-ensemble").on(BOX).maximizer
        == resolve("neural-bo").on(BOX).maximizer
        == MultiStart()
    )


class PathsOnly:
    """A surrogate that can draw functions and nothing else."""

    capabilities = frozenset({Capability.PATH})

    def tune(self, data, *, key):
        return None

    def fit(self, data, *, key, tuned=None):
        return Fit(OnePath(data.x), Status.OK)


class OnePath(Posterior):
    """What :class:`PathsOnly` believes: one function, in NumPy, without a gradient."""

    x: np.ndarray

    def sample(self, *, key, scale=1.0):
        return Bowl()


class Bowl(Path):
    def __call__(self, x):
        shape = jax.ShapeDtypeStruct((), np.float64)
        return jax.pure_callback(lambda x: -((x - 0.3) ** 2).sum(), shape, x, vmap_method="sequential")


def test_a_surrogate_of_paths_without_gradients_can_be_asked():
    opt = Optimizer(BOX, Algorithm(PathsOnly(), "thompson", RandomGrid(size=30)), seed=0, initial=1)
    opt.tell(opt.ask(), 1.0)
    trial = opt.ask()
    assert 0.0 < trial.info["eta"] < 1.0
    assert "mean" not in trial.info
    assert opt.recommend() is opt.trials[0]


@pytest.mark.parametrize("look", ["mean", "var", "predict", "joint", "condition"])
def test_what_a_posterior_lacks_is_said(look):
    with pytest.raises(UnsupportedError, match=r"a posterior with \w+; got OnePath, which has none"):
        getattr(OnePath(np.zeros((1, 2))), look)(np.zeros((1, 2)))


def test_parts_that_do_not_fit_are_refused_when_they_are_joined():
    with pytest.raises(UnsupportedError, match="UCB needs a surrogate with mean, var; got"):
        Algorithm(PathsOnly(), "ucb")
    with pytest.raises(UnsupportedError, match="MultiStart needs gradients; got PathsOnly"):
        Algorithm(PathsOnly(), "thompson", "multistart")
    assert Algorithm(PathsOnly(), "thompson").on(BOX).maximizer == RandomGrid()
    assert Algorithm(PathsOnly(), "thompson").on(Space(i=Int(0, 9))).maximizer == Exhaustive()


@pytest.mark.parametrize(
    "build",
    [
        lambda: Algorithm("gp"),
        lambda: Algorithm(policy="ei"),
        lambda: Algorithm("kriging", "ei"),
        lambda: Algorithm("gp", "pi"),
        lambda: Algorithm("gp", "ei", "simplex"),
        lambda: Algorithm("gp", UCB),
        lambda: Algorithm(GaussianProcess, "ei"),
        lambda: Algorithm(3, "ei"),
        lambda: Algorithm(design="halton"),
        lambda: Optimizer(BOX, "gp-pi"),
        lambda: Optimizer(BOX, None),
        lambda: Optimizer(BOX, UCB()),
        lambda: Optimizer(MIXED, Algorithm("gp", "ei", "multistart")),
        lambda: Optimizer(BOX, Algorithm("gp", "ei", "exhaustive")),
        lambda: Optimizer(Pool([[0.0], [1.0]]), Algorithm("gp", "ei", "mixed")),
    ],
)
def test_wrong_algorithms_are_refused(build):
    with pytest.raises(UnsupportedError, match=r"\. [A-Z]"):
        build()


def test_a_description_holds_no_address():
    class Schedule:
        def __call__(self, t, posterior):
            return 1.0

    for beta in (2.0, lambda t, posterior: 1.0, Schedule()):
        text = json.dumps(Algorithm("gp", UCB(beta), RandomGrid(c=10)).describe())
        assert "0x" not in text
        assert '"c": 10' in text
