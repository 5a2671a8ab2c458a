"""Suggestions near the best point."""

import jax
import numpy as np
import pytest

import augury
from augury import Algorithm, Choice, Float, Int, Optimizer, Pool, Space, UnsupportedError
from augury.locality import FEWEST, HALVINGS, LARGEST_BOX, MOST_POINTS, ROUGH, SUCCESSES, Locality, nearby
from augury.policies import EI
from augury.surrogates import GaussianProcess
from known_gp import KEY
from samples import observations

BOX = Space(x=Float(0.0, 1.0), y=Float(1e-3, 1e3, log=True), z=Float(-1.0, 1.0))
LOCAL = Algorithm(GaussianProcess(), "ei", locality=Locality())


def loss(params):
    return (params["x"] - 0.3) ** 2 + (np.log10(params["y"]) / 3.0 - 0.2) ** 2 + params["z"] ** 4


def study(space=BOX, algorithm=LOCAL, evaluations=17, value=loss):
    opt = Optimizer(space, algorithm, seed=3, initial=6)
    for _ in range(evaluations):
        trial = opt.ask()
        opt.tell(trial, value(trial.params))
    return opt


def test_the_box_is_halved_after_failures_and_doubled_after_successes():
    locality = Locality(width=0.4, patience=0.6)
    failed, improved = [False] * 6, [True] * SUCCESSES  # six failures in ten columns
    assert locality.box_width([], 10) == 0.4
    assert locality.box_width(failed[:5], 10) == 0.4
    assert locality.box_width(failed, 10) == 0.2
    assert locality.box_width([*failed[:5], True, *failed[:5]], 10) == 0.4  # in a row
    assert locality.box_width(failed * 2 + improved, 10) == 0.2
    assert locality.box_width(improved * 5, 10) == LARGEST_BOX
    assert locality.box_width([False] * (FEWEST - 1), 1) == 0.4  # never after fewer
    assert locality.box_width([False] * FEWEST, 1) == 0.2
    assert locality.box_width(failed * HALVINGS, 10) == 0.4 / 2**HALVINGS
    assert locality.box_width(failed * (HALVINGS + 1), 10) == 0.4  # begun anew


def test_the_model_of_the_box_is_made_of_what_is_nearby():
    x = np.random.default_rng(0).random((400, 2))
    center = np.array([0.5, 0.5])
    rows = nearby(x, center, 0.2)
    assert np.array_equal(rows, np.flatnonzero(np.abs(x - center).max(axis=1) <= 0.2))
    few = nearby(x, center, 1e-3)
    assert len(few) == 6  # coefficients of a quadratic function
    assert np.abs(x[few] - center).max() <= np.sort(np.abs(x - center).max(axis=1))[5]
    assert len(nearby(x, center, 2.0)) == MOST_POINTS
    assert len(nearby(x[:3], center, 0.1)) == 3


def test_of_many_dimensions_fewer_suggestions_are_global():
    """One of two up to 14 columns, then one of three, …"""
    rounds = {dim: [not Locality().is_local(i, dim) for i in range(40)] for dim in (1, 5, 14, 15, 50)}
    for dim, every in ((1, 2), (5, 2), (14, 2), (15, 3), (50, 10)):
        assert np.array_equal(np.flatnonzero(rounds[dim]), np.arange(0, 40, every))


def test_in_many_dimensions_points_keep_most_columns_of_good_ones():
    """The model of the box has effects there, and the points are those of few columns."""
    space = Space({f"x{i}": Float(0.0, 1.0) for i in range(ROUGH)})

    def ripples(params):
        x = np.array(list(params.values()))
        return float(((x - 0.4) ** 2).sum() + 0.2 * np.sin(300.0 * x).sum())

    opt = study(space, Algorithm(GaussianProcess(faint=True), "ei", locality=Locality()), 40, ripples)
    local = [trial for trial in opt.trials if "local" in trial.info]
    assert all(trial.info["chosen"] == "GaussianProcess × EI × FewColumns" for trial in local)
    assert all(trial.info["fit"]["effects"]["white"] > 0.0 for trial in local)
    everywhere = [trial for trial in opt.trials[6:] if "local" not in trial.info]
    assert all(trial.info["chosen"] == "GaussianProcess × EI × MultiStart" for trial in everywhere)
    rows = space.encode_all([trial.params for trial in opt.trials])
    kept = [np.max(np.sum(np.abs(rows[:i] - rows[i]) < 1e-6, axis=1)) for i in range(1, len(rows))]
    assert np.median([kept[trial.number - 1] for trial in local]) > ROUGH / 2


def test_with_less_than_twenty_columns_there_are_no_effects():
    opt = study()
    assert not any("FewColumns" in trial.info.get("chosen", "") for trial in opt.trials)
    assert not Locality().is_rough(ROUGH - 1)
    assert Locality().is_rough(ROUGH)


def test_only_continuous_columns_count_as_dimensions():
    choices = {f"c{i}": Choice(["a", "b", "c"]) for i in range(6)}
    opt = study(Space(**{"x": Float(0.0, 1.0), **choices}), value=lambda p: p["x"], evaluations=12)
    assert ["local" in trial.info for trial in opt.trials[6:]] == [False, True] * 3


def test_every_second_suggestion_is_in_the_box():
    opt = study()
    modelled = opt.trials[6:]
    assert ["local" in trial.info for trial in modelled] == [False, True] * 5 + [False]
    for trial in modelled[1::2]:
        before = opt.trials[: trial.number]
        best = min(before, key=lambda t: t.value)
        width = trial.info["local"]["width"]
        # without noise, the point of the best mean is the best one, or has nearly its value
        centers = [t for t in before if t.value <= best.value + 1e-3]
        away = [np.abs(BOX.encode(trial.params) - BOX.encode(t.params)).max() for t in centers]
        assert min(away) <= 0.5 * width + 1e-9
        assert 6 <= trial.info["local"]["observations"] <= trial.number
        assert 0.0 <= trial.info["eta"] <= 1.0


def test_the_box_follows_the_second_suggestions_alone():
    opt = study()
    values = [trial.value for trial in opt.trials]
    improved = [values[n] < min(values[:n]) for n in range(7, 17, 2)]
    assert any(improved)
    assert not all(improved)
    assert opt.ask().info["local"]["width"] == Locality().box_width(improved, 3)


def test_four_points_together_are_four_points_one_by_one():
    together, alone = study(), study()
    batch = together.ask(5)
    assert [t.params for t in batch] == [alone.ask().params for _ in range(5)]
    assert ["local" in t.info for t in batch] == [True, False, True, False, True]
    assert len({tuple(t.params.values()) for t in batch}) == 5


def test_more_observations_compile_nothing_while_they_fit_the_buffers(caplog):
    opt = study(evaluations=12)
    opt.recommend()
    caplog.clear()
    with jax.log_compiles():
        for _ in range(8):
            trial = opt.ask()
            opt.tell(trial, loss(trial.params))
            opt.recommend()
    assert any("local" in trial.info for trial in opt.trials[12:])
    assert [record.message for record in caplog.records if record.message.startswith("Compiling")] == []


def test_a_study_goes_on_exactly():
    opt = study()
    opt.ask(2)
    again = Optimizer.from_json(opt.to_json(), algorithm=LOCAL)
    assert [t.params for t in again.ask(3)] == [t.params for t in opt.ask(3)]


def test_the_box_is_a_unit_cube_to_its_model():
    """A function and the same one in a tenth of the space: one model, in one box's coordinates."""

    def fit_of(size):
        opt = Optimizer(Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0)), LOCAL, seed=0, initial=12)
        for u, v in np.random.default_rng(1).random((12, 2)):
            params = {"x": 0.5 + size * (u - 0.5), "y": 0.5 + size * (v - 0.5)}
            value = (u - 0.5) ** 2 + np.sin(5.0 * v) * (u - 0.4)
            opt.tell(params, float(value))
        opt.ask()
        place = opt._model._near(opt._model.fitted())
        return place

    large, small = fit_of(1.0), fit_of(0.1)
    assert len(large.fit.posterior.x) == len(small.fit.posterior.x)
    assert large.about["local"]["observations"] <= 12
    inside = large.inside(np.array([[0.4, 0.6]]))
    np.testing.assert_allclose(large.outside(inside), [[0.4, 0.6]], atol=1e-12)


def test_only_continuous_parameters_are_narrowed():
    space = Space(x=Float(0.0, 1.0), k=Int(0, 50), c=Choice(["a", "b", "c"]))

    def value(params):
        return (params["x"] - 0.3) ** 2 + abs(params["k"] - 20) / 50 + (params["c"] != "b")

    opt = study(space, Algorithm("gp", "ei", locality=Locality(width=0.05)), 30, value)
    local = [trial for trial in opt.trials if "local" in trial.info]
    assert len(local) == 12
    assert {trial.params["c"] for trial in local} <= {"a", "b", "c"}
    assert max(abs(trial.params["k"] - opt.best.params["k"]) for trial in local) > 3
    assert opt.best.params["c"] == "b"


def test_spaces_without_continuous_parameters_have_no_box():
    finite = Space(i=Int(0, 30), j=Int(0, 20))
    pool = Pool(np.random.default_rng(0).random((40, 3)))
    large = Space({f"i{n}": Int(0, 100) for n in range(4)})
    for space in (finite, pool, large):
        assert LOCAL.on(space).locality is None
    assert LOCAL.on(BOX).locality == Locality()
    trial = study(finite, LOCAL, 8, lambda p: p["i"] + p["j"]).ask()
    assert "local" not in trial.info


def test_what_cannot_be_local_is_refused():
    with pytest.raises(UnsupportedError, match="locality needs a surrogate with a mean; got Sample"):
        Algorithm("sto", "thompson", locality=Locality())
    with pytest.raises(UnsupportedError, match="locality must be a Locality"):
        Algorithm("gp", "ei", locality="box")
    for width in (0.0, -1.0, 0.9, float("nan")):
        with pytest.raises(UnsupportedError, match="width must be above 0"):
            Locality(width=width)
    with pytest.raises(UnsupportedError, match="width must be a number"):
        Locality(width="wide")
    for patience in (0.0, float("inf"), float("nan")):
        with pytest.raises(UnsupportedError, match="patience must be positive and finite"):
            Locality(patience=patience)


def test_any_policy_can_be_local():
    for policy in ("ts-rsr", "thompson", "ucb"):
        opt = study(BOX, Algorithm("gp", policy, locality=Locality()), 9)
        batch = opt.ask(4)
        assert ["local" in t.info for t in batch] == [True, False, True, False]


def test_pending_points_may_be_in_the_posterior_that_ei_is_given():
    """What `EI.believes` promises: the same score either way."""
    x, y = observations(12)
    posterior = GaussianProcess().fit(augury.core.data.Data.of(x, y), key=KEY).posterior
    pending = np.random.default_rng(2).random((3, x.shape[1]))
    scores = []

    def maximize(score, *, key, without=(), anew=True, judged=True):
        scores.append(score)
        return None

    def choose(belief, points):
        EI().choose(
            belief, points, belief.incumbent(), t=1, maximize=maximize, candidates=None, keys=[KEY]
        )

    choose(posterior, pending)
    choose(posterior.condition(pending), pending[:0])
    apart, together = (np.asarray(score(np.full(x.shape[1], 0.3))) for score in scores)
    np.testing.assert_allclose(apart, together, rtol=1e-9)
