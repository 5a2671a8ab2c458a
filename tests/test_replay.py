"""Asynchronous runs come out again from the order in which their evaluations ended."""

import random
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import optuna
import pytest

import augury
from augury import DataError, Float, Int, Pool, Space
from augury.studies.spaces import distributions_of
from augury.trial import Seen, Trial

SPACE = Space(x=Float(-1.0, 2.0), n=Int(1, 64, log=True))


def value(params):
    return (params["x"] - 0.3) ** 2 + 0.01 * params["n"]


def slowly(params):
    time.sleep(random.uniform(0.0, 0.02))
    if params["n"] == 1:
        raise ValueError("one is too few")
    return value(params)


def points(trials):
    return [(trial.number, dict(trial.params), trial.value, trial.origin) for trial in trials]


def test_numbers_are_kept_in_their_order():
    for numbers, text in (
        ([], ""),
        ([5], "5"),
        ([0, 1, 2, 7, 6, 8, 9], "0-2 7 6 8-9"),
        ([3, 2, 1], "3 2 1"),
    ):
        seen = Seen(9, "me", numbers, numbers[:1], 1, 3)
        assert seen.to_dict()["learnt"] == text
        trial = Trial(9, {}, info={"seen": seen.to_dict()})
        assert Seen.of(trial) == seen
    assert (
        Seen.of(
            Trial(
                0, {}, info={"seen": {"learnt": "a-b", "pending": "", "by": "", "place": 0, "count": 1}}
            )
        )
        is None
    )


@pytest.mark.parametrize("kept", [False, True], ids=["memory", "study"])
@pytest.mark.parametrize(
    "settings",
    [{"algorithm": "gp-ei"}, {"algorithm": "gp-ts", "batch": 3}, {"initial": ("uncertainty", 6)}],
    ids=["asynchronous", "batches", "uncertainty"],
)
def test_a_run_with_many_workers_comes_out_again(tmp_path, kept, settings):
    stored = {"storage": tmp_path / "study.db"} if kept else {}
    with ThreadPoolExecutor(4) as threads:
        result = augury.minimize(
            slowly, SPACE, 14, **{"initial": 5, **settings}, seed=1, executor=threads, **stored
        )
    again = augury.replay(result)
    assert points(again.trials) == points(result.optimizer.trials)
    assert again.order == result.optimizer.order
    number = result.trials[9].number
    then = augury.replay(result, until=number)
    assert dict(then.ask().params) == dict(result.trials[9].params)


def test_the_moment_within_a_batch():
    opt = augury.Optimizer(SPACE, "gp-ei", seed=0, initial=3)
    for trial in opt.ask(3):
        opt.tell(trial, value(trial.params))
    batch = opt.ask(3)
    for place, trial in enumerate(batch):
        then = augury.replay(opt, until=trial.number)
        assert [one.number for one in then.trials] == list(range(3 + place))
        again = then.ask()
        assert again.number == trial.number
        assert again.params["x"] == pytest.approx(trial.params["x"], abs=1e-9)
        assert again.params["n"] == trial.params["n"]


def test_told_enqueued_failed_and_saved_trials(tmp_path):
    opt = augury.Optimizer(SPACE, "gp-ei", seed=3, initial=4)
    first = opt.ask(3)
    opt.tell({"x": 0.5, "n": 8}, 1.0)
    opt.tell(first[2], value(first[2].params))
    opt.enqueue({"x": 0.1, "n": 4})
    queued, more = opt.ask(), opt.ask()
    opt.tell(first[0], failed=True, reason="no")
    opt = augury.Optimizer.from_json(opt.to_json())
    opt.tell(opt.trials[queued.number], value(queued.params))
    opt.ask()
    opt.tell(opt.trials[more.number], value(more.params))
    opt.ask(2)
    again = augury.replay(opt)
    assert points(again.trials) == points(opt.trials)
    assert [trial.state for trial in again.trials] == [trial.state for trial in opt.trials]
    assert again.ask().params == opt.ask().params


def test_a_pool_that_runs_out_comes_out_again(tmp_path):
    pool = Pool([[0.0], [0.4], [1.0], [2.0]])
    sampler = augury.AugurySampler("gp-ei", seed=0, space=pool, initial=2)
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: abs(trial.suggest_int("index", 0, 3) - 1.2), n_trials=7)
    mirror = sampler.mirror(study)
    assert points(augury.replay(mirror).trials) == points(mirror.trials)


def test_what_an_enqueued_trial_left_open_comes_out_again():
    sampler = augury.AugurySampler("gp-ei", seed=0, space=SPACE, initial=3)
    study = optuna.create_study(sampler=sampler)
    for number in range(7):
        if number in (1, 5):
            study.enqueue_trial({"x": 1.5})
        trial = study.ask(distributions_of(SPACE))
        study.tell(trial, value(trial.params))
    assert study.trials[5].params["x"] == 1.5
    assert augury.AugurySampler.info(study.trials[5])["enqueued"] == ["x"]
    mirror = sampler.mirror(study)
    assert points(augury.replay(mirror).trials) == points(mirror.trials)


def test_processes_that_share_a_study_come_out_again(tmp_path):
    code = f"""
        import random, time, augury

        def slowly(params):
            time.sleep(random.uniform(0.0, 0.05))
            return params["x"] ** 2

        space = augury.Space(x=augury.Float(-1.0, 2.0))
        augury.minimize(
            slowly, space, 16, algorithm="gp-ei", seed=0, initial=4, storage={str(tmp_path / "s.db")!r}
        )
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    running = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(300) for process in running] == [0, 0]
    space = Space(x=Float(-1.0, 2.0))
    result = augury.minimize(
        value, space, 16, algorithm="gp-ei", seed=0, initial=4, storage=tmp_path / "s.db"
    )
    suggested = [trial for trial in result.trials if "seen" in trial.info]
    assert len({trial.info["seen"]["by"] for trial in suggested}) == 2
    assert points(augury.replay(result).trials) == points(result.optimizer.trials)


def test_what_does_not_come_out_again_is_said():
    result = augury.minimize(value, SPACE, 8, algorithm="gp-ei", seed=0, initial=3)
    with pytest.raises(DataError, match="number of a suggested trial; got 99"):
        augury.replay(result, until=99)
    with pytest.raises(augury.UnsupportedError, match="a Result or an Optimizer; got list"):
        augury.replay([])
    opt = result.optimizer
    opt.trials[2].value += 1.0  # the model's first point saw another value
    with pytest.raises(DataError, match=r"trial 3 must be at .* again"):
        augury.replay(opt)
    opt.trials[5].info = {}
    opt.trials[2].value -= 1.0
    with pytest.raises(DataError, match="trial 5 does not"):
        augury.replay(opt)
