"""The points before the model's: exploration phases and uncertainty sampling."""

import numpy as np
import pytest

from augury import Algorithm, Float, Optimizer, Pool, Space, UnsupportedError
from augury.core.data import Data
from augury.core.keys import root_key
from augury.core.precision import computing
from augury.design import explored, prior_given
from augury.maximizers import RandomGrid
from augury.policies.schedules import NeuralBOAdaptive, NeuralBOTheory, UnionBound
from augury.surrogates import GaussianProcess, NTKProcess, RandomForest, SampleThenOptimize
from augury.trial import Origin

BOX = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))
NTK = NTKProcess(depth=1, weight_std=1.5, bias_std=0.5, noise=0.1, output=1.0, standardize=False)


@pytest.mark.parametrize(
    ("points", "budget", "expected"),
    [(10, None, 10), (10, 1000, 25), (10, 200, 10), (50, 100, 7), (10, 10, 1), (5, 1, 1)],
)
def test_an_exploration_phase_is_a_share_of_the_budget(points, budget, expected):
    assert explored(points, budget) == expected


def test_greedy_networks_explore_five_points_per_parameter():
    opt = Optimizer(BOX, "neural-greedy", seed=0)
    assert (opt.initial.kind, opt.initial.count) == ("random", 10)
    assert Optimizer(BOX, "neural-greedy", seed=0, budget=100).initial.count == 7
    assert Optimizer(BOX, "neural-greedy", seed=0, initial=3).initial.count == 3
    pool = Pool(np.random.default_rng(0).random((50, 90)))
    assert Optimizer(pool, "neural-greedy").initial.count == 20
    assert Optimizer(pool, "neural-greedy", budget=2000).initial.count == 150
    with pytest.raises(UnsupportedError, match="exploration"):
        Algorithm("gp", "ei", exploration=0)


@pytest.mark.parametrize("algorithm", ["random", "sobol"])
def test_uncertainty_sampling_needs_a_model(algorithm):
    with pytest.raises(UnsupportedError, match=rf"must have a model; got {algorithm}, which has none\."):
        Optimizer(BOX, algorithm, initial=("uncertainty", 4))
    for initial in (4, ("sobol", 4), ("random", 4)):  # what all methods of a comparison may be given
        opt = Optimizer(BOX, algorithm, seed=0, initial=initial)
        assert opt.ask().info["chosen"] == f"{algorithm} design"


def test_uncertainty_sampling_is_greedy_in_the_surrogates_prior():
    surrogate = SampleThenOptimize(NTK, width=16)
    opt = Optimizer(BOX, Algorithm(surrogate, "thompson"), seed=0, initial=("uncertainty", 4))
    rows = np.array([BOX.encode(trial.params) for trial in opt.ask(4)])
    grid = np.stack(np.meshgrid(*2 * [np.linspace(0.0, 1.0, 41)]), axis=-1).reshape(-1, 2)
    kernel = NTK.fit(Data.of(np.empty((0, 2)), np.empty(0)), key=root_key(0)).posterior.kernel
    for i, row in enumerate(rows):  # Eq. 4: σ² given the points before
        with computing():
            K = np.asarray(kernel.gram(rows[:i], rows[:i])) + 0.1 * np.eye(i)
            k, prior = np.asarray(kernel.gram(grid, rows[:i])), np.asarray(kernel.diagonal(grid))
            own, at = np.asarray(kernel.gram(row[None], rows[:i])), float(kernel.diagonal(row[None])[0])
        var = prior - np.einsum("ij,ji->i", k, np.linalg.solve(K, k.T))
        mine = at - float((own @ np.linalg.solve(K, own.T))[0, 0])
        assert mine >= var.max() - 1e-6


def test_uncertainty_sampling_ends_by_the_information_in_a_batch_or_by_its_number():
    loud = NTKProcess(depth=1, weight_std=1.5, bias_std=0.5, noise=4.0, output=1.0, standardize=False)
    algorithm = Algorithm(SampleThenOptimize(loud, width=16), "thompson", "random-grid")
    belief = prior_given(algorithm.surrogate, BOX, np.empty((0, 2)), key=root_key(0))
    assert belief.information_gain() == pytest.approx(0.0, abs=1e-12)

    def run(batch, most):
        opt = Optimizer(BOX, algorithm, seed=0, initial=("uncertainty", most))
        while not any(trial.origin is Origin.MODEL for trial in opt.trials):
            for trial in opt.ask(batch):
                opt.tell(trial, float(trial.params["x"]))
        return opt

    early = run(4, 60)
    points = sum(trial.origin is Origin.DESIGN for trial in early.trials)
    assert 1 <= points < 60
    asked = np.array([BOX.encode(trial.params) for trial in early.trials[:points]])
    gains = [
        prior_given(algorithm.surrogate, BOX, asked[:n], key=root_key(0)).information_gain() / n
        for n in (points, points - 1)
        if n
    ]
    assert 3.0 * gains[0] <= 1.0  # ((B − 1)γ_T)/T ≤ C, and not before
    assert len(gains) == 1 or 3.0 * gains[1] > 1.0
    said = next(trial.info["initialization"] for trial in early.trials if trial.origin is Origin.MODEL)
    assert f"T = {points}" in said
    late = run(1, 5)
    assert sum(trial.origin is Origin.DESIGN for trial in late.trials) == 5
    assert late.trials[5].info["initialization"] == "the number of points, 5"


def test_points_that_are_being_evaluated_count_as_a_batch():
    algorithm = Algorithm(GaussianProcess(lengthscale=0.4, variance=1.0, noise=4.0), "ts-rsr")
    ends = []
    for together in (True, False):
        opt = Optimizer(BOX, algorithm, seed=0, initial=("uncertainty", 60))
        waiting = opt.ask(4) if together else [opt.ask() for _ in range(4)]
        while not any(trial.origin is Origin.MODEL for trial in opt.trials):
            opt.tell(waiting.pop(0), 0.5)
            waiting.append(opt.ask())
        ends.append(next(trial for trial in opt.trials if trial.origin is Origin.MODEL))
    assert ends[0].info["initialization"] == ends[1].info["initialization"]
    assert ends[0].number == ends[1].number < 60


def test_uncertainty_sampling_goes_on_until_a_value_is_told():
    """The rule would end it after one point, when the model knows no value yet."""
    process = GaussianProcess(lengthscale=0.4, variance=1.0, noise=4.0, standardize=False)
    opt = Optimizer(BOX, Algorithm(process, "ts-rsr"), seed=0, initial=("uncertainty", 6))
    first = opt.ask(4)
    assert [trial.info["chosen"] for trial in first] == ["uncertainty design"] * 4
    for trial in first:
        opt.tell(trial, float(trial.params["x"]))
    for _ in range(3):  # one at a time: the rule says nothing
        opt.tell(opt.ask(), 0.5)
    assert opt.trials[6].info["initialization"] == "the number of points, 6"


def test_a_batch_narrows_the_posterior_within_the_bound_of_lemma_b2():
    surrogate = GaussianProcess(lengthscale=0.4, variance=1.0, noise=4.0, standardize=False)
    for policy, rule in (("ts-rsr", "Bγ_T/T"), ("thompson", "(B−1)γ_T/T")):
        algorithm = Algorithm(surrogate, policy, RandomGrid(size=64))
        opt = Optimizer(BOX, algorithm, seed=0, initial=("uncertainty", 60))
        while not any(trial.origin is Origin.MODEL for trial in opt.trials):
            for trial in opt.ask(4):
                opt.tell(trial, float(trial.params["x"]))
        batch = opt.ask(4)
        waiting = np.array([BOX.encode(trial.params) for trial in batch])
        rho = batch[0].info["rho"]
        assert rho["batch"] == 4
        design = [trial for trial in opt.trials if trial.origin is Origin.DESIGN]
        told = np.array([BOX.encode(trial.params) for trial in opt.trials[: -len(batch)]])
        asked = np.array([BOX.encode(trial.params) for trial in design])
        gain = prior_given(surrogate, BOX, asked, key=root_key(0)).information_gain()
        assert rho["bound"] == pytest.approx(np.exp(4.0 * gain / len(design)))
        before = prior_given(surrogate, BOX, told, key=root_key(0))
        places = np.random.default_rng(5).random((4096, 2))
        most = np.sqrt((before.var(places) / before.condition(waiting).var(places)).max())
        assert 1.0 < rho["realized"] <= rho["bound"]
        assert rho["realized"] == pytest.approx(most, rel=0.05)
        first = next(trial for trial in opt.trials if trial.origin is Origin.MODEL)
        assert first.info["initialization"].startswith(rule)


def test_narrowing_counts_pending_points_and_takes_the_learnt_settings():
    algorithm = Algorithm(GaussianProcess(), "ts-rsr", RandomGrid(size=64))
    opt = Optimizer(BOX, algorithm, seed=0, initial=("uncertainty", 6))
    for trial in opt.ask(6):
        opt.tell(trial, float(np.sin(9.0 * trial.params["x"])))
    other = Optimizer.from_json(opt.to_json(), algorithm=algorithm)
    together, single = opt.ask(4), [other.ask() for _ in range(4)]
    assert [trial.info["rho"]["batch"] for trial in single] == [1, 2, 3, 4]
    assert single[3].info["rho"] == pytest.approx(together[0].info["rho"])
    assert single[0].info["rho"]["realized"] < single[3].info["rho"]["realized"]
    rows = np.array([BOX.encode(trial.params) for trial in opt.trials[:6]])
    gain, unlearnt = (
        prior_given(algorithm.surrogate, BOX, rows, key=root_key(0), settings=settings).information_gain()
        for settings in (opt.model.settings, None)
    )
    assert together[0].info["rho"]["bound"] == pytest.approx(np.exp(4.0 * gain / 6))
    assert gain != pytest.approx(unlearnt, rel=0.01)


def test_surrogates_without_a_prior_variance_take_a_gaussian_process():
    for surrogate in (None, RandomForest()):
        belief = prior_given(surrogate, BOX, np.full((1, 2), 0.5), key=root_key(0))
        assert type(belief) is type(
            GaussianProcess().fit(Data.of(np.zeros((1, 2)), np.zeros(1)), key=root_key(0)).posterior
        )


def test_the_papers_schedules():
    posterior = None
    # sto-bnts, Theorem 1: 2 log(π²t²|𝒳|/(3δ))
    expected = 2.0 * np.log(np.pi**2 * 9.0 * 50.0 / 0.3)
    assert UnionBound(size=50)(3, posterior) == pytest.approx(expected)
    grid = 2.0 * np.log(np.pi**2 * 9.0 * 100.0 / 0.3)  # |𝒳| = T^{d/2}
    assert UnionBound(dimension=2, horizon=100)(3, posterior) == pytest.approx(grid)
    wider = UnionBound(size=50, finite_width=True)(3, posterior)
    assert wider == pytest.approx(expected + 2.0 * np.log(2.0))
    theory = NeuralBOTheory(B=2.0, R=0.1, regularization=0.04, alpha=0.1)
    assert theory(7, posterior) == pytest.approx(2.0 * np.sqrt(2.0) + 0.5 * np.sqrt(2.0 * np.log(10.0)))
    assert NeuralBOAdaptive()(5, posterior) > NeuralBOAdaptive()(4, posterior)
    for bad in ({}, {"size": 0}, {"size": 5, "dimension": 2}, {"dimension": 2}):
        with pytest.raises(UnsupportedError, match="must"):
            UnionBound(**bad)
