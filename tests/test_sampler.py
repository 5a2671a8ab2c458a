"""Augury's algorithms in Optuna studies."""

import pickle
import warnings

import numpy as np
import optuna
import pytest
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)
from optuna.trial import TrialState

from augury import AugurySampler, Choice, DataError, Float, Int, Optimizer, Pool, Space, UnsupportedError
from augury.studies import notes
from augury.studies.mirror import LOST, Mirror
from augury.studies.spaces import distributions_of
from augury.trial import State

BRANCHES = "ignore:not all trials have the parameter"
MIXED = Space(
    x=Float(-1.0, 2.0),
    rate=Float(1e-4, 1.0, log=True),
    depth=Int(1, 64, log=True),
    half=Float(0.0, 5.0, step=0.5),
    size=Choice(["small", "medium", "large"], ordered=True),
    kind=Choice(["a", None, 3]),
)
LINE = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)


@pytest.mark.filterwarnings(BRANCHES)
class TestConformance(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    """Optuna's own suite for samplers."""

    @pytest.fixture
    def sampler(self):
        return lambda: AugurySampler("gp-ei", seed=0, initial=4)


def value(params):
    score = (params["x"] - 0.7) ** 2 + np.log10(params["rate"]) ** 2 + 0.1 * params["depth"]
    return float(score + params["half"] + (params["kind"] == "a") - (params["size"] == "large"))


def suggest(trial, space=MIXED):
    asked = {}
    for name, distribution in distributions_of(space).items():
        asked[name] = trial._suggest(name, distribution)
    return asked


@pytest.mark.parametrize("algorithm", ["gp-ei", "ts-rsr", "sobol", "random"])
def test_a_study_has_the_points_of_the_optimizer(algorithm):
    opt = Optimizer(MIXED, algorithm, seed=3, initial=5)
    study = optuna.create_study(sampler=AugurySampler(algorithm, seed=3, space=MIXED, initial=5))
    for _ in range(7):
        trial, own = study.ask(), opt.ask()
        asked = suggest(trial)
        assert asked == pytest.approx(dict(own.params))
        study.tell(trial, value(asked))
        opt.tell(own, value(own.params))
        info = AugurySampler.info(study.trials[-1])
        assert info["chosen"] == own.info["chosen"]
        assert info.get("mean") == pytest.approx(own.info.get("mean"))


def test_running_trials_are_pending_points_in_every_process(tmp_path):
    url = f"sqlite:///{tmp_path / 'study.db'}"

    def opened():
        sampler = AugurySampler("gp-ei", seed=0, space=LINE, initial=3)
        return optuna.create_study(storage=url, sampler=sampler, study_name="s", load_if_exists=True)

    one, two = opened(), opened()
    opt = Optimizer(LINE, "gp-ei", seed=0, initial=3)
    for _ in range(4):
        trial, own = one.ask(), opt.ask()
        asked = suggest(trial, LINE)
        one.tell(trial, asked["x"] ** 2 + asked["y"])
        opt.tell(own, own.params["x"] ** 2 + own.params["y"])
    first = one.ask()  # its objective has asked for nothing
    (seen,) = notes.read(two.trials[first.number])
    assert two.trials[first.number].params == {}
    second = two.ask()
    for trial, own in zip((first, second), (opt.ask(), opt.ask()), strict=True):
        assert suggest(trial, LINE) == pytest.approx(dict(own.params))
    assert dict(seen.numbers) == pytest.approx(dict(first.params))


def test_processes_that_know_the_same_draw_other_points():
    points = []
    for number in range(3):
        study = optuna.create_study(sampler=AugurySampler("sobol", seed=0, space=LINE))
        for _ in range(number):
            study.add_trial(optuna.create_trial(value=1.0))
        points.append(suggest(study.ask(), LINE)["x"])
    assert len(set(points)) == 3


@pytest.mark.filterwarnings("error")
def test_each_branch_has_a_model_of_its_own_when_it_has_enough_trials():
    def objective(trial):
        common = trial.suggest_float("common", 0.0, 1.0)
        if trial.number % 2:
            a, b = trial.suggest_float("a", -1.0, 1.0), trial.suggest_int("b", 1, 9)
            return common + a**2 + 0.1 * b
        return common + trial.suggest_float("slope", 0.0, 1.0)

    study = optuna.create_study(sampler=AugurySampler("gp-ei", seed=1, initial=4))
    with pytest.warns(UserWarning, match="not all trials have the parameter") as caught:
        study.optimize(objective, n_trials=14)
    assert len(caught) == 1
    for names in ("a, b", "slope"):
        branch = [
            AugurySampler.info(trial)["branches"][names]["chosen"]
            for trial in study.trials
            if names in AugurySampler.info(trial).get("branches", {})
        ]
        assert branch[0] == "sobol design"
        assert branch[-1].startswith("GaussianProcess")
    shared = AugurySampler.info(study.trials[-1])["chosen"]
    assert shared.startswith("GaussianProcess")


def test_the_points_of_two_branches_do_not_follow_each_other():
    def objective(trial):
        if trial.number % 2:
            return trial.suggest_float("a", 0.0, 1.0)
        return trial.suggest_float("b", 0.0, 1.0)

    study = optuna.create_study(sampler=AugurySampler("sobol", seed=0))
    with pytest.warns(UserWarning, match="not all trials"):
        study.optimize(objective, n_trials=12)
    values = [trial.value for trial in study.trials[2:]]
    assert not np.allclose(values[::2], values[1::2])


def mirror_of(study, direction="minimize"):
    mirror = Mirror(distributions_of(LINE), LINE, "gp-ei", direction, 0, initial=3)
    mirror.learn(study.trials)
    return mirror


def finished(value=None, state=TrialState.COMPLETE, x=0.5, **more):
    return optuna.create_trial(
        params={"x": x, "y": x}, distributions=distributions_of(LINE), value=value, state=state, **more
    )


@pytest.mark.parametrize(("direction", "reports", "expected"), [
    ("minimize", {0: 9.0, 3: 7.0}, 7.0),
    ("minimize", {0: 1.0}, 4.0),  # no better than the median
    ("maximize", {0: 1.0}, 1.0),
    ("maximize", {0: 9.0}, 4.0),
    ("minimize", {}, None),
])  # fmt: skip
def test_what_a_pruned_trial_counts(direction, reports, expected):
    study = optuna.create_study(direction=direction)
    for known in (2.0, 4.0, 6.0):
        study.add_trial(finished(known, x=known / 10.0))
    study.add_trial(finished(state=TrialState.PRUNED, intermediate_values=reports))
    pruned = mirror_of(study, direction).trials[3]
    assert pruned.value == expected
    assert pruned.state is (State.FAILED if expected is None else State.COMPLETE)


def test_a_pruned_trial_is_never_the_best_and_no_measure_for_others():
    study = optuna.create_study()
    for number, (value, reports) in enumerate(
        [(None, {0: -1e9}), (4.0, {}), (None, {0: 9.0}), (None, {0: 8.0}), (None, {0: 1.0})]
    ):
        state = TrialState.PRUNED if value is None else TrialState.COMPLETE
        study.add_trial(finished(value, state, x=number / 10.0, intermediate_values=reports))
    mirror = mirror_of(study)
    assert [trial.value for trial in mirror.trials] == [None, 4.0, 9.0, 8.0, 4.0]
    assert mirror.trials[0].state is State.FAILED  # nothing was complete before it
    late = optuna.create_study()
    for _ in range(2):
        late.ask(distributions_of(LINE))
    late.tell(1, 4.0)
    late._storage.set_trial_intermediate_value(late.trials[0]._trial_id, 0, -1e9)
    late.tell(0, state=TrialState.PRUNED)
    mirror = mirror_of(late)
    assert mirror.trials[0].value == 4.0
    assert mirror.best.number == 1


def test_failed_trials_count_and_lost_ones_do_not():
    study = optuna.create_study()
    study.add_trial(finished(1.0, x=0.1))
    study.add_trial(finished(state=TrialState.FAIL, x=0.2))
    study.add_trial(finished(state=TrialState.FAIL, x=0.3, system_attrs={LOST: "the worker is gone"}))
    study.add_trial(
        optuna.create_trial(
            state=TrialState.FAIL, params={"x": 0.4}, distributions={"x": distributions_of(LINE)["x"]}
        )
    )  # failed before it had all parameters
    mirror = mirror_of(study)
    assert [trial.number for trial in mirror.trials] == [0, 1]
    np.testing.assert_array_equal(mirror._history.data().y[:2], [-1.0, -1.0])


def test_trials_are_learnt_once_in_the_order_of_their_completion():
    study = optuna.create_study()
    for number in range(3):
        trial = study.ask(distributions_of(LINE))
        assert trial.number == number
    for number in (2, 0, 1):
        study.tell(number, float(number))
    mirror = mirror_of(study)
    mirror.learn(study.trials)
    assert mirror._history.order == [2, 0, 1]


def test_what_was_enqueued_is_asked_and_known():
    study = optuna.create_study(sampler=AugurySampler("gp-ei", seed=0, space=LINE, initial=3))
    study.enqueue_trial({"x": 0.25, "y": 0.75})
    study.enqueue_trial({"y": 0.125})
    whole, half = study.ask(), study.ask()
    assert dict(notes.read(study.trials[0])[0].numbers) == {"x": 0.25, "y": 0.75}
    assert suggest(whole, LINE) == {"x": 0.25, "y": 0.75}
    asked = suggest(half, LINE)
    assert asked["y"] == 0.125
    assert dict(notes.read(study.trials[1])[0].numbers) == asked


def test_a_point_outside_of_the_space_is_no_observation():
    study = optuna.create_study(sampler=AugurySampler("gp-ei", seed=0, initial=3))
    study.enqueue_trial({"x": 7.0, "y": 0.5})
    with pytest.warns(UserWarning, match="out of range"):
        study.optimize(lambda trial: sum(suggest(trial, LINE).values()), n_trials=6)
    assert [trial.number for trial in mirror_of(study).trials] == [1, 2, 3, 4, 5]


def test_a_finite_space_that_is_used_up_is_asked_again():
    study = optuna.create_study(sampler=AugurySampler("gp-ei", seed=0, initial=2))
    study.optimize(lambda t: t.suggest_int("n", 0, 3) + t.suggest_categorical("c", [0, 1]), n_trials=12)
    points = [tuple(trial.params.values()) for trial in study.trials]
    assert len(set(points[1:9])) >= 7  # the first is chosen without the space
    assert len(points) == 12


def test_options_of_any_kind_and_huge_numbers():
    options = [True, 1, 1.0, None, "a", 2.5]

    def objective(trial):
        assert trial.suggest_categorical("c", options) in options
        assert isinstance(trial.suggest_int("huge", 0, 2**62), int)
        return trial.suggest_float("x", 0.0, 1.0)

    study = optuna.create_study(sampler=AugurySampler("gp-ei", seed=0, initial=2))
    with pytest.warns(UserWarning, match="'huge'"):
        study.optimize(objective, n_trials=5)
    assert "GaussianProcess" in AugurySampler.info(study.trials[-1])["chosen"]


def test_the_seed_decides_and_a_pickled_sampler_goes_on():
    def run(sampler, trials):
        study = optuna.create_study(sampler=sampler)
        study.optimize(lambda trial: value(suggest(trial)), n_trials=trials)
        return [trial.params for trial in study.trials]

    made = AugurySampler("gp-ts", seed=5, initial=3)
    first = run(made, 6)
    assert run(made, 6) == first  # another study
    assert run(pickle.loads(pickle.dumps(made)), 6) == first
    assert run(AugurySampler("gp-ts", seed=6, initial=3), 3) != first[:3]


def test_a_pool_is_searched_by_the_numbers_of_its_candidates():
    features = np.random.default_rng(0).random((12, 3))
    pool = Pool(features)
    opt = Optimizer(pool, "gp-ei", seed=0, initial=3)
    study = optuna.create_study(sampler=AugurySampler("gp-ei", seed=0, space=pool, initial=3))
    for _ in range(6):
        trial, own = study.ask(), opt.ask()
        index = trial.suggest_int("index", 0, 11)
        assert index == own.params["index"]
        study.tell(trial, float(features[index].sum()))
        opt.tell(own, float(features[index].sum()))


def test_threads_share_a_sampler():
    study = optuna.create_study(sampler=AugurySampler("gp-ei", seed=0, initial=4, space=LINE))
    study.optimize(lambda trial: sum(suggest(trial, LINE).values()), n_trials=12, n_jobs=3)
    points = {tuple(trial.params.values()) for trial in study.trials}
    assert len(points) == 12
    assert not study.sampler._asked


def test_what_is_not_supported_is_said():
    two = optuna.create_study(directions=["minimize", "maximize"], sampler=AugurySampler(seed=0))
    with pytest.raises(DataError, match="one objective; got a study of 2 directions"):
        two.ask()
    bounded = optuna.create_study(sampler=AugurySampler("gp-ei", seed=0, space=LINE))
    trial = bounded.ask()
    trial.set_constraint("heat", 1.0)
    suggest(trial, LINE)
    bounded.tell(trial, 1.0)
    with pytest.raises(DataError, match="knows no constraints; got some in trial 0"):
        bounded.ask()
    with pytest.raises(UnsupportedError, match="must be a Space, a Pool or None; got list"):
        AugurySampler(space=[Float(0.0, 1.0)])
    with pytest.raises(UnsupportedError, match="initial must be"):
        AugurySampler(space=LINE, initial=0)
    with pytest.raises(UnsupportedError):
        AugurySampler("no such algorithm")


@pytest.mark.parametrize("algorithm", ["gp-ei", "sobol", "random"])
def test_a_study_with_constraints_is_refused_each_time_and_no_trial_runs_on(algorithm):
    study = optuna.create_study(sampler=AugurySampler(algorithm, seed=0, space=LINE))
    study.add_trial(finished(1.0, constraints={"heat": -1.0}))
    for _ in range(2):
        with pytest.raises(DataError, match="knows no constraints; got some in trial 0"):
            study.optimize(lambda trial: 1.0, n_trials=1)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "FAIL", "FAIL"]
    with pytest.raises(DataError, match="knows no constraints"):
        study.sampler.mirror(study)


def test_long_notes_are_kept_whole_and_broken_ones_are_none():
    study = optuna.create_study()
    frozen = study._storage.get_trial(study.ask()._trial_id)
    note = notes.Note({"x": 0.5}, notes.Origin.MODEL, {"text": "ä" * 5000, "nan": float("nan")})
    notes.write(study, frozen, note, 0)
    trial = study.trials[0]
    assert max(len(text) for text in trial.system_attrs.values()) <= 2045
    (again,) = notes.read(trial)
    assert again.info["text"] == note.info["text"]
    assert np.isnan(again.info["nan"])
    for broken in ("1 {", "x", "2 {}", '1 {"params": {"x": 1}}', 7):
        study._storage.set_trial_system_attr(frozen._trial_id, "augury:0:0", broken)
        assert notes.read(study.trials[0]) == []
    assert AugurySampler.info(study.trials[0]) == {}


def test_another_samplers_trials_are_learnt_from():
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda trial: sum(suggest(trial, LINE).values()), n_trials=5)
    study.sampler = AugurySampler("gp-ei", seed=0, initial=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        study.optimize(lambda trial: sum(suggest(trial, LINE).values()), n_trials=3)
    assert study.best_value < min(trial.value for trial in study.trials[:5])
