"""The random forest against scikit-learn's own predictions."""

import builtins

import numpy as np
import pytest

from augury import Algorithm, Choice, Float, Int, Optimizer, Pool, Space, UnsupportedError
from augury.core.data import Data
from augury.core.keys import fold, root_key
from augury.surrogates import Capability, RandomForest, forest

KEY = root_key(0)


def observations(n, d=3):
    rng = np.random.default_rng(n)
    x = rng.random((n, d))
    return x, np.sin(4.0 * x[:, 0]) + 10.0 * (x[:, 1] > 0.5)


def fit(model, x, y):
    return model.fit(Data.of(x, y), key=KEY).posterior


@pytest.fixture
def grown(monkeypatch):
    """Every forest that scikit-learn has grown."""
    found = []

    class Kept(forest._forest_class()):
        def fit(self, *arguments):
            found.append(super().fit(*arguments))
            return found[-1]

    monkeypatch.setattr(forest, "_forest_class", lambda: Kept)
    return found


@pytest.mark.parametrize("n", [1, 2, 40])
def test_mean_and_variance_are_those_of_the_trees(grown, n):
    x, y = observations(n)
    posterior = fit(RandomForest(trees=20), x, y)
    new = np.random.default_rng(9).random((50, 3))
    trees = grown[0].estimators_
    means = np.array([tree.predict(new) for tree in trees])
    within = np.array([tree.tree_.impurity[tree.apply(new)] for tree in trees])
    np.testing.assert_allclose(posterior.mean(new), grown[0].predict(new), rtol=1e-12)
    total = np.maximum(within.mean(0) + means.var(0), (1e-6 * (y.std() or 1.0)) ** 2)
    np.testing.assert_allclose(posterior.var(new), total, rtol=1e-9)
    assert posterior.mean(new[0]) == pytest.approx(posterior.mean(new)[0])
    if n == 40:
        assert np.ptp(posterior.mean(new)) > 5.0
        assert posterior.var(new).max() > 100.0 * posterior.var(new).min()


def test_all_columns_may_be_said_as_an_integer(grown):
    x, y = observations(40)
    whole, fraction = (fit(RandomForest(trees=5, features=f), x, y) for f in (1, 1.0))
    np.testing.assert_array_equal(whole.mean(x), fraction.mean(x))
    assert grown[0].max_features == 1.0


def test_a_draw_is_a_tree_at_its_distance_from_the_mean(grown):
    x, y = observations(40)
    posterior = fit(RandomForest(trees=20), x, y)
    new = np.random.default_rng(9).random((50, 3))
    trees = np.array([tree.predict(new) for tree in grown[0].estimators_])
    paths = [posterior.sample(key=fold(KEY, i)) for i in range(30)]
    which = [int(np.abs(trees - path(new)).max(axis=1).argmin()) for path in paths]
    for path, tree in zip(paths, which, strict=True):
        np.testing.assert_allclose(path(new), trees[tree], rtol=1e-12)
    assert len(set(which)) > 5
    mean, wide = posterior.mean(new), posterior.sample(key=fold(KEY, 0), scale=2.0)(new)
    np.testing.assert_allclose(wide - mean, 2.0 * (paths[0](new) - mean), atol=1e-9)


def test_pending_points_join_at_the_mean(grown):
    x, y = observations(20)
    posterior = fit(RandomForest(trees=10), x, y)
    pending = np.array([[0.4, 0.4, 0.4], [0.45, 0.4, 0.35]])
    posterior.condition(pending)
    known = posterior.mean(pending)
    again = forest.grow(RandomForest(trees=10), np.r_[x, pending], np.r_[y, known], int(posterior.seed))
    np.testing.assert_array_equal(posterior.condition(pending).mean(x), again.mean(x))
    one_by_one = posterior.condition(pending[0]).condition(pending[1])  # as `ask(2)` does it
    np.testing.assert_array_equal(one_by_one.mean(x), again.mean(x))
    assert posterior.condition(np.empty((0, 3))) is posterior
    raised = posterior.condition(np.full((3, 3), 0.9), np.full(3, 100.0))
    assert raised.mean(np.full(3, 0.9)) > posterior.mean(np.full(3, 0.9)) + 20.0


def test_without_observations_it_knows_nothing():
    posterior = fit(RandomForest(trees=4), np.empty((0, 2)), np.empty(0))
    assert posterior.incumbent() == posterior.mean(np.zeros(2)) == 0.0
    assert posterior.var(np.zeros(2)) == 1.0


@pytest.mark.parametrize(
    "space",
    [
        Space(x=Float(-1.0, 1.0), n=Int(0, 20), kind=Choice(["a", "b", "c"])),
        Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0)),
        Pool(np.random.default_rng(0).random((60, 4))),
    ],
)
def test_a_study_with_a_forest(space):
    opt = Optimizer(space, "rf-ei", seed=1, initial=5)
    for _ in range(3):
        for trial in opt.ask(3):
            opt.tell(trial, float(trial.number % 4))
    assert all(np.isfinite(trial.info["std"]) for trial in opt.trials[5:])
    restored = Optimizer.from_json(opt.to_json(), space)
    assert [t.params for t in opt.ask(2)] == [t.params for t in restored.ask(2)]


def test_it_finds_the_better_half_of_a_step():
    space = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0), z=Float(0.0, 1.0))
    opt = Optimizer(space, "rf-ei", seed=0, initial=10)
    for _ in range(25):
        trial = opt.ask()
        opt.tell(trial, abs(trial.params["x"] - 0.7) + (trial.params["y"] > 0.3))
    late = [trial.params for trial in opt.trials[15:]]
    assert np.mean([params["y"] <= 0.3 for params in late]) > 0.7
    assert opt.best.value < 0.05


def test_what_it_can_do_and_what_it_refuses():
    assert RandomForest.capabilities == {Capability.MEAN, Capability.VAR, Capability.PATH}
    counts = [{"trees": 0}, {"trees": None}, {"leaf": 1.5}, {"leaf": None}]
    fractions = [{"features": f} for f in (0.0, 2.0, "all", "sqrt", None, True, np.nan, [0.5])]
    for bad in counts + fractions:
        with pytest.raises(UnsupportedError, match=r"must be .*; got .*\. [A-Z]"):
            RandomForest(**bad)
    with pytest.raises(UnsupportedError, match="MultiStart needs gradients; got RandomForest"):
        Algorithm("forest", "ei", "multistart")


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def missing(name, *arguments, **named):
        if name.startswith("sklearn"):
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(UnsupportedError, match=r'pip install "augury\[sklearn\]"'):
        RandomForest()
