"""Ask and tell: what is asked, what counts, what is remembered."""

import copy
import math
import pickle
import threading
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import jax
import numpy as np
import pytest
import scipy.sparse

from augury import Algorithm, Choice, Float, Int, Optimizer, Pool, Space, SpaceExhausted
from augury.maximizers import RandomGrid
from augury.policies import UCB
from augury.surrogates import Fit, GaussianProcess, Status
from augury.trial import Origin, State

BOX = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))
FINITE = Space(x=Int(0, 3), y=Int(0, 3))
LATTICE = Space(i=Int(0, 4), j=Int(0, 3))
MODELS = ["gp-ei", "gp-ucb", "gp-ts"]


def hill(params):
    """To be maximized; the largest at (0.3, 0.6)."""
    a, b = (float(value) for value in params.values())
    return -((a - 0.3) ** 2) - (b - 0.6) ** 2


def run(opt, steps, function=hill):
    for _ in range(steps):
        trial = opt.ask()
        opt.tell(trial, function(trial.params))
    return [trial.params for trial in opt.trials]


def warm(opt, count, seed=0):
    for x, y in np.random.default_rng(seed).random((count, 2)):
        opt.tell({"x": x, "y": y}, hill({"x": x, "y": y}))
    return opt


class Spy:
    """A Gaussian process that remembers the data it was fitted to."""

    capabilities = GaussianProcess.capabilities

    def __init__(self):
        self.process = GaussianProcess()
        self.seen = []

    def tune(self, data, *, key):
        return self.process.tune(data, key=key)

    def fit(self, data, *, key, tuned=None):
        self.seen.append(data)
        return self.process.fit(data, key=key, tuned=tuned)


# --------------------------------------------------------------------------- purity


@pytest.mark.parametrize("name", [*MODELS, "ts-rsr", "qei", "ucb-pe"])
def test_four_together_are_four_one_by_one(name):
    together, single = (warm(Optimizer(BOX, name, "maximize", seed=5), 30) for _ in range(2))
    batch = together.ask(4)  # 30 observations and 4 points: across the edge of the first bucket
    assert [trial.params for trial in batch] == [single.ask().params for _ in range(4)]
    assert [trial.info["score"] for trial in batch] == [t.info["score"] for t in single.trials[30:]]
    assert len({tuple(trial.params.values()) for trial in batch}) == 4


@pytest.mark.parametrize("name", MODELS)
def test_the_seed_decides_everything(name):
    first, same, other = (run(Optimizer(BOX, name, seed=seed), 8) for seed in (3, 3, 4))
    assert first == same
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_a_drawn_seed_is_recorded():
    first, other = Optimizer(BOX, "random"), Optimizer(BOX, "random")
    assert first.seed != other.seed
    assert run(Optimizer(BOX, "random", seed=first.seed), 5) == run(first, 5)


@pytest.mark.parametrize("name", MODELS)
def test_maximizing_is_minimizing_the_negative(name):
    up, down = (Optimizer(BOX, name, direction, seed=2) for direction in ("maximize", "minimize"))
    assert run(up, 9) == run(down, 9, lambda params: -hill(params))
    assert up.best.value == -down.best.value
    assert up.recommend().number == down.recommend().number
    mean_up, mean_down = (opt.trials[8].info["mean"] for opt in (up, down))
    assert mean_up == -mean_down
    assert up.trials[8].info["std"] == down.trials[8].info["std"]


@pytest.mark.parametrize("unit", [2.0**-60, 2.0**40])
def test_the_unit_of_the_values_does_not_matter(unit):
    plain, scaled = (Optimizer(BOX, "gp-ucb", "maximize", seed=0, initial=4) for _ in range(2))
    assert run(plain, 8) == run(scaled, 8, lambda params: unit * hill(params))
    assert scaled.trials[7].info["std"] == unit * plain.trials[7].info["std"]


def test_the_order_of_telling_belongs_to_the_history_and_the_hour_does_not(monkeypatch):
    def suggestion(order):
        opt = Optimizer(BOX, "gp-ei", "maximize", seed=0, initial=4)
        trials = opt.ask(4)
        for i in order:
            opt.tell(trials[i], hill(trials[i].params))
        return opt.ask()

    plain = suggestion([0, 1, 2, 3])
    monkeypatch.setattr("time.perf_counter", lambda: 1e9)
    assert suggestion([0, 1, 2, 3]).params == plain.params
    np.testing.assert_allclose(
        list(suggestion([2, 0, 3, 1]).params.values()), list(plain.params.values()), atol=1e-3
    )


def test_looking_changes_nothing():
    quiet, curious = (warm(Optimizer(BOX, "gp-ei", "maximize", seed=1), 6) for _ in range(2))
    for _ in range(3):
        curious.recommend(), curious.best, curious.trials, repr(curious), curious.to_json()
        assert quiet.ask().params == curious.ask().params
        quiet.tell(quiet.trials[-1], 0.1)
        curious.tell(curious.trials[-1], 0.1)


def test_a_second_study_of_the_same_dimension_compiles_nothing(caplog):
    run(Optimizer(BOX, "gp-ei", "maximize", seed=0, initial=4), 6)
    caplog.clear()
    other = Space(lr=Float(1e-4, 1.0, log=True), momentum=Float(0.5, 2.0))
    with jax.log_compiles():
        run(Optimizer(other, "gp-ei", seed=9, initial=3), 8)
    assert not [record for record in caplog.records if record.message.startswith("Compiling")]


# ---------------------------------------------------------------- counting and designs


def test_warm_start_counts_toward_the_initial_design():
    opt = warm(Optimizer(BOX, "gp-ucb", seed=0, initial=5), 3)
    origins = [opt.ask().origin for _ in range(2)]
    assert origins == [Origin.DESIGN, Origin.DESIGN]
    assert opt.ask().origin is Origin.MODEL
    assert warm(Optimizer(BOX, "gp-ucb", seed=0, initial=5), 5).ask().origin is Origin.MODEL


def test_t_counts_the_finished_suggestions_of_the_model():
    seen = []

    def schedule(t, posterior):
        seen.append(t)
        return 2.0

    opt = warm(Optimizer(BOX, Algorithm("gp", UCB(schedule)), seed=0, initial=3), 2)
    run(opt, 1)  # the design's last point
    first, second = opt.ask(), opt.ask()
    opt.tell(first, 1.0)
    opt.enqueue({"x": 0.5, "y": 0.5})
    opt.tell(opt.ask(), 0.0)
    opt.ask()
    opt.tell(second, failed=True)
    opt.ask()
    assert seen == [1, 1, 2, 3]


@pytest.mark.parametrize(
    ("space", "settings", "design"),
    [
        (BOX, {}, ("sobol", 6)),
        (Space(x=Float(0, 1), fixed=Int(2, 2)), {}, ("sobol", 5)),
        (Space({str(i): Float(0, 1) for i in range(30)}), {}, ("sobol", 20)),
        (BOX, {"budget": 9}, ("sobol", 3)),
        (BOX, {"budget": 2}, ("sobol", 1)),
        (BOX, {"initial": 7}, ("sobol", 7)),
        (BOX, {"initial": ("random", 2), "budget": 3}, ("random", 2)),
    ],
)
def test_the_size_of_the_initial_design(space, settings, design):
    initial = Optimizer(space, seed=0, **settings).initial
    assert (initial.kind, initial.count) == design


@pytest.mark.parametrize("kind", ["sobol", "random", "uncertainty"])
def test_an_initial_design_does_not_depend_on_values_or_on_batches(kind):
    together = Optimizer(BOX, "gp-ei", seed=4, initial=(kind, 5))
    batch = together.ask(5)
    single = Optimizer(BOX, "gp-ei", seed=4, initial=(kind, 5))
    assert run(single, 5) == [trial.params for trial in batch]
    assert [trial.origin for trial in batch] == [Origin.DESIGN] * 5
    assert single.trials[4].info["chosen"] == f"{kind} design"
    rows = np.array([BOX.encode(trial.params) for trial in batch])
    gaps = np.linalg.norm(rows[:, None] - rows[None], axis=2)[np.triu_indices(5, 1)]
    assert gaps.min() > {"sobol": 0.1, "random": 0.0, "uncertainty": 0.4}[kind]


def test_asking_on_without_values_falls_back_to_random_points():
    opt = Optimizer(BOX, "gp-ei", seed=0, initial=3)
    trials = opt.ask(6)
    assert [trial.info.get("fallback") for trial in trials[:3]] == [None] * 3
    assert all("no finite value" in trial.info["fallback"] for trial in trials[3:])
    assert len({tuple(trial.params.values()) for trial in trials}) == 6


def test_enqueued_points_come_first_and_in_order():
    opt = Optimizer(LATTICE, "sobol", seed=0)
    first, second = {"i": 2, "j": 1}, {"i": 0, "j": 0}
    opt.tell(first, 3.0)
    for extra in (first, {"i": np.int64(2), "j": 1}, second):
        opt.enqueue(extra)
    asked = opt.ask(4)
    assert [trial.params for trial in asked[:3]] == [first, first, second]
    assert [trial.origin for trial in asked[:3]] == [Origin.ENQUEUED] * 3
    assert asked[3].params not in (first, second)


def test_a_pending_point_keeps_others_away():
    opt = warm(Optimizer(BOX, "gp-ucb", "maximize", seed=0), 8)
    rows = np.array([list(trial.params.values()) for trial in opt.ask(3)])
    gaps = np.linalg.norm(rows[:, None] - rows[None], axis=2)[np.triu_indices(3, 1)]
    assert gaps.min() > 0.05


# ------------------------------------------------------------------------ finite spaces


@pytest.mark.parametrize("name", ["random", "sobol", "gp-ei", "gp-ts"])
def test_no_point_of_a_finite_space_is_asked_twice(name):
    opt = Optimizer(LATTICE, name, seed=0, initial=4)
    opt.tell({"i": 0, "j": 0}, 1.0)
    for _ in range(6):
        run(opt, 3)
    assert len({tuple(trial.params.values()) for trial in opt.trials}) == 19
    assert opt.left == 1
    with pytest.warns(UserWarning, match="5 points were asked for, and 1 is left in the space"):
        last = opt.ask(5)
    assert len(last) == 1
    assert opt.left == 0
    with pytest.raises(SpaceExhausted, match=r"all 20 have been asked.*duplicates=\"allow\""):
        opt.ask()
    with pytest.raises(SpaceExhausted):
        opt.ask(3)
    opt.tell(last[0], -50.0)
    assert opt.best is last[0]
    opt.enqueue({"i": 1, "j": 1})
    assert opt.ask().params == {"i": 1, "j": 1}


@pytest.mark.filterwarnings("error")
def test_where_warnings_are_errors_a_short_batch_leaves_nothing_pending():
    opt = Optimizer(LATTICE, "random", seed=0)
    opt.enqueue({"i": 1, "j": 1})
    with pytest.raises(UserWarning, match="30 points were asked for, and 20 are left"):
        opt.ask(30)
    assert opt.trials == ()
    assert opt.ask().params == {"i": 1, "j": 1}
    assert len(opt.ask(19)) == 19


@pytest.mark.parametrize("name", ["gp-ei", "gp-ts", "ts-rsr", "qei", "ucb-pe", "sp"])
def test_the_points_of_a_batch_are_different(name):
    together, single = (Optimizer(LATTICE, name, "maximize", seed=0, initial=4) for _ in range(2))
    run(together, 5)
    run(single, 5)
    with pytest.warns(UserWarning, match="30 points were asked for, and 15 are left"):
        batch = [trial.params for trial in together.ask(30)]
    assert len({tuple(params.values()) for params in batch}) == len(batch) == 15
    assert batch[:8] == [single.ask().params for _ in range(8)]


@pytest.mark.parametrize("name", ["random", "gp-ucb"])
def test_duplicates_are_asked_where_they_are_allowed(name):
    space = Space(i=Int(0, 1), j=Int(0, 1))
    opt = Optimizer(space, name, "maximize", seed=0, initial=3, duplicates="allow")
    points = run(opt, 9, lambda params: params["i"] + params["j"])
    assert len(points) == 9
    assert opt.best.params == {"i": 1, "j": 1}
    assert len(opt.ask(6)) == 6


def test_a_pool_with_equal_rows_and_one_as_a_sparse_matrix():
    features = np.array([[0.0, 1.0], [0.5, 0.5], [0.5, 0.5], [1.0, 0.0], [0.2, 0.1]])
    dense, sparse = (
        Optimizer(Pool(data), "gp-ei", "maximize", seed=0, initial=2)
        for data in (features, scipy.sparse.csr_array(features))
    )
    asked = run(dense, 5, lambda params: features[params["index"]].sum())
    assert sorted(params["index"] for params in asked) == [0, 1, 2, 3, 4]
    assert asked == run(sparse, 5, lambda params: features[params["index"]].sum())
    with pytest.raises(SpaceExhausted):
        dense.ask()


def test_fixed_parameters_are_part_of_every_point():
    space = Space(x=Float(0, 1), y=Float(0, 1), n=Int(3, 3), mode=Choice(["only"]))
    opt = Optimizer(space, "gp-ei", seed=0, initial=3)
    for _ in range(5):
        trial = opt.ask()
        assert (trial.params["n"], trial.params["mode"]) == (3, "only")
        opt.tell(trial, trial.params["x"])


@pytest.mark.parametrize("name", ["random", "sobol", "gp-ei"])
def test_a_space_of_one_point(name):
    space = Space(n=Int(3, 3), mode=Choice(["only"]))
    opt = Optimizer(space, name, seed=0)
    run(opt, 1, lambda params: 1.0)
    with pytest.raises(SpaceExhausted, match="all 1 have been asked"):
        opt.ask()
    noisy = Optimizer(space, name, seed=0, initial=4, duplicates="allow")
    assert run(noisy, 4, lambda params: len(noisy.trials)) == [{"n": 3, "mode": "only"}] * 4


# ------------------------------------------------------------------------------ failures


def test_failures_enter_the_model_at_the_worst_finite_value():
    spy = Spy()
    opt = Optimizer(BOX, Algorithm(spy, "ei"), "minimize", seed=0, initial=6)
    outcomes = [math.nan, 3.0, math.inf, -1.0, -math.inf]
    for value in outcomes:
        opt.tell(opt.ask(), value)
    opt.tell(opt.ask(), 7.0, failed=True, reason="the room was on fire")
    opt.ask()
    data = spy.seen[-1]
    np.testing.assert_array_equal(data.y[: data.n], [-3.0, -3.0, -3.0, 1.0, -3.0, -3.0])
    states = [trial.state for trial in opt.trials[:6]]
    assert states == [State.FAILED, State.COMPLETE, State.FAILED, State.COMPLETE, *[State.FAILED] * 2]
    assert opt.trials[0].reason == "the value is nan"
    assert opt.trials[5].reason == "the room was on fire"
    assert opt.best.value == -1.0
    assert opt.recommend().state is State.COMPLETE


def test_half_of_the_space_fails():
    opt = Optimizer(BOX, "gp-ei", seed=1, initial=6)
    for _ in range(24):
        trial = opt.ask()
        if trial.params["x"] > 0.5:
            opt.tell(trial, failed=True)
        else:
            opt.tell(trial, 1.0 - trial.params["x"] + abs(trial.params["y"] - 0.3))
    failed = [trial.state is State.FAILED for trial in opt.trials]
    assert sum(failed[:6]) >= 2, "the design must meet the half that fails"
    assert sum(failed[15:]) <= 4
    assert opt.best.value < 0.65  # the best is 0.5, on the edge


def test_where_everything_fails_new_points_are_still_asked():
    opt = Optimizer(LATTICE, "gp-ei", seed=0, initial=3)
    for _ in range(20):
        opt.tell(opt.ask(), math.nan)
    assert len({tuple(trial.params.values()) for trial in opt.trials}) == 20
    with pytest.raises(SpaceExhausted):
        opt.ask()
    later = Optimizer(BOX, "gp-ucb", seed=0, initial=2)
    for _ in range(4):
        later.tell(later.ask(), failed=True)
    run(later, 1)
    assert later.ask().origin is Origin.MODEL


@pytest.mark.parametrize(
    "values",
    [
        [1e308, -1e308, 1.0, 2.0],
        [1e308] * 4,
        [5e-324, 0.0, 1e-320, 0.0],
        [0.0] * 4,
        [1e15, 1e15 + 1.0, 1e15 + 2.0, 1e15],
        [1.0, 2.0, 1e160, 3.0],
    ],
)
def test_no_finite_value_breaks_the_model(values):
    opt = Optimizer(BOX, "gp-ei", seed=0, initial=3)
    for value in values:
        opt.tell(opt.ask(), value)
    trial = opt.ask()
    assert trial.origin is Origin.MODEL
    assert math.isfinite(trial.info["mean"])
    assert opt.recommend().value in values
    assert opt.best.value == min(values)


class Broken(Spy):
    """A surrogate whose fits fail."""

    def fit(self, data, *, key, tuned=None):
        return Fit(super().fit(data, key=key, tuned=tuned).posterior, Status.FAILED)


def test_a_failed_fit_suggests_a_random_point_and_says_so():
    opt = warm(Optimizer(BOX, Algorithm(Broken(), "ei"), "maximize", seed=0), 8)
    with pytest.warns(UserWarning, match="are not finite. A random point is suggested instead"):
        trial = opt.ask()
    assert trial.info["fallback"] == str(Status.FAILED)
    assert BOX.check(trial.params) == trial.params
    assert opt.recommend() is opt.best
    with pytest.warns(UserWarning, match="A random point"):
        assert len(opt.ask(3)) == 3


class Lost(Spy):
    """A surrogate whose `lost` numbers are NaN, although nothing failed."""

    lost = "shift"

    def fit(self, data, *, key, tuned=None):
        fit = super().fit(data, key=key, tuned=tuned)
        return replace(fit, posterior=replace(fit.posterior, **{self.lost: np.full((), np.nan)}))


@pytest.mark.parametrize("space", [BOX, FINITE], ids=["box", "finite"])
@pytest.mark.parametrize("policy", ["ei", "ucb", "thompson"])
def test_scores_of_nan_suggest_random_points_and_say_so(space, policy):
    opt = Optimizer(space, Algorithm(Lost(), policy), "maximize", seed=0, initial=3)
    run(opt, 3)
    seen = [trial.params for trial in opt.trials]
    with pytest.warns(UserWarning, match="no finite score to any point. A random point") as warned:
        batch = opt.ask(4)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    for trial in batch:
        assert "no finite score" in trial.info["fallback"]
        assert trial.info["eta"] == 0.0
        assert trial.params not in seen
        seen.append(trial.params)
    opt.tell(batch[0], 5.0)
    assert opt.recommend() is opt.best
    again = Optimizer.from_json(opt.to_json(), algorithm=Algorithm(Lost(), policy))
    with pytest.warns(UserWarning, match="A random point"):
        assert again.ask().params == opt.ask().params


def test_uncertainty_of_nan_suggests_random_points_and_says_so(monkeypatch):
    monkeypatch.setattr(Lost, "lost", "scale")
    opt = Optimizer(FINITE, Algorithm(Lost(), "ei"), seed=0, initial=("uncertainty", 3))
    with pytest.warns(UserWarning, match="no finite score to any point. A random point"):
        batch = opt.ask(3)
    assert all("no finite score" in trial.info["fallback"] for trial in batch)
    assert len({tuple(trial.params.values()) for trial in batch}) == 3


# ------------------------------------------------------------------------------- looking


def test_info_says_what_the_model_believed():
    opt = warm(Optimizer(BOX, "gp-ucb", "maximize", seed=0), 12)
    first, second = opt.ask(2)
    for info in (first.info, second.info):
        assert info["chosen"] == "GaussianProcess × UCB × MultiStart"
        assert info["std"] > 0
        assert info["noise"] > 0
        assert 0 <= info["eta"] <= 1
        assert info["flat"] is False
        assert info["evaluations"] > 512
        assert info["status"] == Status.OK
        assert len(info["fit"]["lengthscale"]) == 2
        seconds = info["seconds"]
        assert all(seconds[part] >= 0 for part in ("fit", "choose", "eta"))
        assert seconds["total"] == pytest.approx(seconds["fit"] + seconds["choose"] + seconds["eta"])
    # the first of the batch has no pending points: its score is its upper confidence bound
    info = first.info
    assert info["score"] == pytest.approx(info["mean"] + info["beta"] * info["std"], rel=1e-6)
    assert info["mean"] == pytest.approx(hill(first.params), abs=4.0 * info["std"])
    assert opt.trials[3].info == {}, "a told point was not suggested"


def test_recommend_is_not_taken_in_by_a_lucky_value():
    opt = Optimizer(BOX, "gp-ei", "maximize", seed=0)
    for value in (0.0, 0.1, -0.1, 0.05, 5.0):
        opt.tell({"x": 0.8, "y": 0.8}, value)
    for value in (2.0, 2.1, 1.9, 2.05, 1.95):
        opt.tell({"x": 0.2, "y": 0.2}, value)
    assert opt.best.value == 5.0
    assert opt.recommend().params == {"x": 0.2, "y": 0.2}


def test_without_a_model_the_best_is_recommended():
    opt = warm(Optimizer(BOX, "random", "maximize", seed=0), 5)
    assert opt.recommend() is opt.best
    assert opt.best.value == max(trial.value for trial in opt.trials)


def test_the_first_of_equal_values_is_the_best():
    opt = Optimizer(BOX, "random", seed=0)
    a, b, c = opt.ask(3)
    for trial in (c, b, a):
        opt.tell(trial, 1.0)
    assert opt.best is a


def test_inaccuracy_accumulates():
    coarse, exact = (
        Optimizer(space, Algorithm("gp", "ucb", maximizer), "maximize", seed=0, initial=3)
        for space, maximizer in ((BOX, RandomGrid(size=10)), (LATTICE, "exhaustive"))
    )
    run(coarse, 8)
    run(exact, 8)
    etas = [trial.info["eta"] for trial in coarse.trials if trial.origin is Origin.MODEL]
    assert len(etas) == 5
    assert min(etas) < 1.0
    assert coarse.accumulated_inaccuracy == pytest.approx(sum(1.0 - eta for eta in etas))
    assert exact.accumulated_inaccuracy == 0.0


def test_telling_returns_the_trial_and_twice_is_two_observations():
    opt = Optimizer(BOX, "random", seed=0)
    told = [opt.tell({"x": np.float32(0.5), "y": 1}, value) for value in (1, np.float64(2.0))]
    assert [trial.number for trial in told] == [0, 1]
    assert [trial.value for trial in told] == [1.0, 2.0]
    assert [trial.origin for trial in told] == [Origin.TOLD] * 2
    assert told[0].params == {"x": 0.5, "y": 1.0}
    assert opt.tell(opt.ask(), np.array([3.0])).value == 3.0
    assert repr(opt) == "Optimizer(random, minimize, seed=0: 3 evaluated, 0 pending)"


def test_it_finds_the_optimum():
    opt = Optimizer(BOX, "gp-ei", "maximize", seed=0, initial=5)
    run(opt, 16)
    assert opt.best.value > -1e-3


@pytest.mark.parametrize("algorithm", ["gp-ei", "gp-ucb", "gp-ts"])
def test_a_best_point_in_a_corner_is_not_asked_for_again(algorithm):
    square = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))
    opt = Optimizer(square, algorithm, seed=0, initial=5)
    for _ in range(14):
        trial = opt.ask()
        opt.tell(trial, trial.params["x"] + trial.params["y"])
    together = opt.ask(5)
    points = np.array([list(t.params.values()) for t in opt.trials])
    distances = np.abs(points[:, None] - points[None]).max(-1) + np.eye(len(points))
    assert distances.min() > 1e-6
    assert opt.best.value < 1e-3
    assert any("explored" in trial.info for trial in (*opt.trials, *together))


def test_noisy_functions_may_be_asked_at_a_point_again():
    opt = Optimizer(Space(x=Float(0.0, 1.0)), "gp-ei", seed=0, initial=3, duplicates="allow")
    for _ in range(12):
        trial = opt.ask()
        opt.tell(trial, trial.params["x"])
    asked = [trial.params["x"] for trial in opt.trials]
    assert len(set(asked)) < len(asked)


def test_threads_may_share_an_optimizer():
    opt = Optimizer(Space(x=Float(0.0, 1.0)), "gp-ei", seed=0, initial=4)

    def work():
        for _ in range(4):
            trial = opt.ask()
            opt.tell(trial, trial.params["x"])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [trial.number for trial in opt.trials] == list(range(16))
    assert Optimizer.from_json(opt.to_json()).ask().params == opt.ask().params


def test_a_point_enqueued_while_an_ask_fails_is_not_lost(monkeypatch):
    opt = warm(Optimizer(BOX, "gp-ei", "maximize", seed=0), 8)
    other = threading.Thread(target=opt.enqueue, args=({"x": 0.5, "y": 0.5},))

    def fails(self):
        other.start()
        other.join(timeout=0.2)
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(type(opt.model), "fitted", fails)
        with pytest.raises(MemoryError):
            opt.ask()
    other.join()
    assert opt.ask().params == {"x": 0.5, "y": 0.5}


def test_an_optimizer_can_be_pickled_and_copied():
    opt = Optimizer(Space(x=Float(0.0, 1.0)), "gp-ei", seed=0, initial=2)
    for trial in opt.ask(3):
        opt.tell(trial, trial.params["x"])
    others = [pickle.loads(pickle.dumps(opt)), copy.deepcopy(opt)]
    expected = opt.ask().params
    assert [other.ask().params for other in others] == [expected, expected]


def test_numbers_of_every_kind_can_be_told():
    opt = Optimizer(Space(x=Float(0.0, 1.0)), "random", seed=0)
    told = [2**70, Fraction(1, 4), Decimal("0.5"), np.float32(0.5), np.int8(3), np.array([2.0])]
    values = [opt.tell({"x": 0.5}, value).value for value in told]
    assert values == [2.0**70, 0.25, 0.5, 0.5, 3.0, 2.0]
