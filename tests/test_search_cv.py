"""AugurySearchCV: hyper-parameter search in scikit-learn's way."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from augury import AugurySearchCV, Choice, Float, Int, Space, SpaceError, UnsupportedError
from augury.adapters.search_cv import _space
from augury.trial import State

X, Y = make_classification(120, 6, random_state=0)


def search(estimator=None, distributions=None, **settings):
    settings = {"n_iter": 6, "algorithm": "gp-ei", "random_state": 0, **settings}
    distributions = {"C": stats.loguniform(1e-4, 1e2)} if distributions is None else distributions
    return AugurySearchCV(estimator or LogisticRegression(), distributions, **settings)


def checks():
    """Those of scikit-learn, but for arrays of libraries that are not here."""
    for estimator, name in ((LogisticRegression(), "C"), (Ridge(), "alpha")):
        options = {name: [0.1, 1.0]}
        settings = {"n_iter": 2, "algorithm": "sobol", "cv": 2, "error_score": "raise"}
        for made, check in estimator_checks_generator(search(estimator, options, **settings)):
            name = check.func.__name__
            if "array_api" in name:
                continue
            if name == "check_supervised_y_2d" and isinstance(estimator, Ridge):
                continue  # as of RandomizedSearchCV
            yield pytest.param(made, check, id=f"{type(estimator).__name__}-{name}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("made", "check"), list(checks()))
def test_the_checks_of_scikit_learn(made, check):
    check(made)


def test_it_finds_what_it_searches_for():
    found = search(n_iter=8).fit(X, Y)
    assert len(found.cv_results_["params"]) == 8
    assert found.best_score_ == max(found.cv_results_["mean_test_score"])
    assert found.predict(X).shape == Y.shape
    assert found.optimizer_.best.value == pytest.approx(found.best_score_)
    trials = found.optimizer_.trials
    assert [t.value for t in trials] == pytest.approx(list(found.cv_results_["mean_test_score"]))
    assert trials[-1].info["chosen"].startswith("GaussianProcess")
    again = search(n_iter=8).fit(X, Y)
    assert again.cv_results_["params"] == found.cv_results_["params"]


def test_batches_keep_the_processes_busy():
    sizes = []

    class Counted(AugurySearchCV):
        def _run_search(self, evaluate_candidates, *, callback_ctx=None):
            def counted(candidates):
                sizes.append(len(candidates))
                return evaluate_candidates(candidates)

            super()._run_search(counted)

    distributions = {"C": stats.loguniform(1e-4, 1e2)}
    Counted(LogisticRegression(), distributions, n_iter=5, algorithm="sobol", batch=2).fit(X, Y)
    assert sizes == [2, 2, 1]
    sizes.clear()
    Counted(LogisticRegression(), distributions, n_iter=4, algorithm="sobol", n_jobs=2, cv=2).fit(X, Y)
    assert sizes == [1, 1, 1, 1]


def test_distributions_become_parameters():
    space, decode = _space({
        "uniform": stats.uniform(2.0, 3.0),
        "log": stats.loguniform(1e-3, 1e3),
        "normal": stats.norm(10.0, 1.0),
        "integer": stats.randint(3, 9),
        "poisson": stats.poisson(4.0),
        "counts": stats.rv_discrete(values=([1, 3, 4], [0.2, 0.5, 0.3])),
        "rising": [1, 10, 100],
        "any": ["a", None, (1, 2)],
        "array": np.array([0.5, 0.25, 0.125]),
        "own": Float(0.0, 1.0),
    })  # fmt: skip
    assert space.params["integer"] == Int(3, 8)
    assert space.params["rising"] == Choice(range(3), ordered=True)
    assert space.params["any"] == Choice(range(3))
    assert space.params["array"].ordered
    assert decode["any"](2) == (1, 2)
    assert decode["uniform"](0.5) == pytest.approx(3.5)
    assert decode["log"](0.5) == pytest.approx(1.0)
    low, high = (decode["normal"](u) for u in (space.params["normal"].low, space.params["normal"].high))
    assert 6.5 < low < high < 13.5
    counts = [decode["poisson"](u) for u in (0.0, 0.5, space.params["poisson"].high)]
    assert counts == sorted(counts)
    assert all(type(count) is int for count in counts)
    assert counts[0] == 0
    counts = [decode["counts"](u) for u in (0.0, 0.5, 1.0)]
    assert counts == [1, 3, 4]
    assert all(type(count) is int for count in counts)


def test_pipelines_spaces_and_options_of_any_kind():
    pipeline = make_pipeline(StandardScaler(), KNeighborsClassifier())
    options = {
        "standardscaler": [StandardScaler(), MinMaxScaler(), "passthrough"],
        "kneighborsclassifier__n_neighbors": stats.randint(1, 20),
    }
    found = search(pipeline, options, cv=KFold(3)).fit(X, Y)
    assert 1 <= found.best_params_["kneighborsclassifier__n_neighbors"] < 20
    space = Space(n_neighbors=Int(1, 3), weights=Choice(["uniform", "distance"]))
    few = search(KNeighborsClassifier(), space, n_iter=10, batch=4).fit(X, Y)
    assert len(few.cv_results_["params"]) == 6  # all there are


def test_failed_fits_are_failures_and_several_scores_need_a_name():
    class Fails(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            if self.C > 1.0:
                raise ValueError("too large")
            return super().fit(X, y, sample_weight)

    found = search(Fails(), n_iter=10, algorithm="sobol").fit(X, Y)
    failed = [trial for trial in found.optimizer_.trials if trial.state is State.FAILED]
    assert 0 < len(failed) < 10
    assert len(found.cv_results_["params"]) == 10 - len(failed)
    assert found.best_params_["C"] <= 1.0
    with pytest.warns(Warning, match="fits failed|non-finite"):
        whole = search(Fails(), n_iter=10, algorithm="sobol", batch=10).fit(X, Y)
    assert len(whole.cv_results_["params"]) == 10
    with pytest.raises(ValueError, match="fits failed"):
        search(Fails(), {"C": [2.0, 3.0]}, n_iter=2).fit(X, Y)
    with pytest.raises(ValueError, match="too large"):
        search(Fails(), {"C": [2.0, 3.0]}, n_iter=2, error_score="raise").fit(X, Y)
    both = search(scoring=["accuracy", "f1"], refit="f1", n_iter=3).fit(X, Y)
    assert [t.value for t in both.optimizer_.trials] == pytest.approx(
        list(both.cv_results_["mean_test_f1"])
    )


def test_several_scores_need_the_name_of_one_before_anything_is_fitted():
    fitted = []

    class Counted(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            fitted.append(self.C)
            return super().fit(X, y, sample_weight)

    for scoring in (["accuracy", "f1"], {"f1": "f1", "accuracy": "accuracy"}):
        with pytest.raises(
            UnsupportedError, match="refit must name the one to maximize, of accuracy, f1"
        ):
            search(Counted(), scoring=scoring, refit=False, n_iter=3).fit(X, Y)
    assert not fitted
    both = search(scoring=lambda e, x, y: {"a": e.score(x, y), "b": 0.0}, refit=False, n_iter=3)
    with pytest.raises(UnsupportedError, match="refit must name the one to maximize, of a, b"):
        both.fit(X, Y)
    one = search(scoring=["f1"], refit=False, n_iter=3, algorithm="sobol").fit(X, Y)
    assert len(one.cv_results_["mean_test_f1"]) == 3


def test_what_is_wrong_is_said():
    for bad, words in (
        ({}, "must have at least one parameter"),
        ({"C": 3.0}, "the parameter 'C' must have a SciPy distribution"),
        ({"C": []}, "the parameter 'C' must have"),
        ({"C": "abc"}, "the parameter 'C' must have"),
    ):
        with pytest.raises(SpaceError, match=words):
            search(distributions=bad).fit(X, Y)
    with pytest.raises(ValueError, match="n_iter"):
        search(n_iter=0).fit(X, Y)
    copied = clone(search())
    assert copied.get_params()["algorithm"] == "gp-ei"
