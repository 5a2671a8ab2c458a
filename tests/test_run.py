"""minimize and maximize: batches, callbacks, limits, failures and the progress bar."""

import logging
import math

import pytest

import augury
from augury import Choice, Float, Int, Optimizer, Space
from augury.trial import State

BOX = Space(x=Float(-1.0, 1.0), y=Float(-1.0, 1.0))
LATTICE = Space(i=Int(0, 2), c=Choice(["a", "b"]))


def bowl(params):
    return (params["x"] - 0.3) ** 2 + (params["y"] + 0.2) ** 2


def points(result):
    return [trial.params for trial in result.trials]


def test_minimize_finds_the_minimum_and_maximize_the_maximum():
    low = augury.minimize(bowl, BOX, 20, seed=0)
    assert low.best.value < 1e-3
    assert low.best.value == min(trial.value for trial in low.trials)
    assert low.stopped_because == "the budget of 20 evaluations is spent"
    assert [trial.number for trial in low.trials] == list(range(20))
    assert low.optimizer.best is low.best
    assert low.optimizer.budget == 20
    assert "20 trials" in repr(low)
    high = augury.maximize(lambda params: -bowl(params), BOX, 20, seed=0)
    assert points(high) == points(low)
    assert high.best.value == -low.best.value


@pytest.mark.parametrize("algorithm", ["random", "gp-ucb"])
def test_a_batch_is_asked_together_and_told_together(algorithm):
    result = augury.minimize(bowl, BOX, 10, seed=3, batch=4, algorithm=algorithm, initial=4)
    opt = Optimizer(BOX, algorithm, seed=3, initial=4, budget=10)
    for size in (4, 4, 2):
        trials = opt.ask(size)
        for trial in trials:
            opt.tell(trial, bowl(trial.params))
    assert points(result) == [trial.params for trial in opt.trials]


def test_no_batch_is_a_batch_of_one():
    runs = [augury.minimize(bowl, BOX, 6, seed=1, initial=4, batch=batch) for batch in (None, 1)]
    assert points(runs[0]) == points(runs[1])


def test_the_function_receives_a_dict_of_its_own():
    def greedy(params):
        value = params.pop("x")
        params.clear()
        return value

    result = augury.minimize(greedy, BOX, 3, algorithm="random", seed=0)
    assert all(trial.params.keys() == {"x", "y"} for trial in result.trials)


def test_callbacks_see_every_trial_and_may_stop():
    seen = []

    def watch(optimizer, trial):
        seen.append((trial.number, trial.value, len(optimizer.trials)))
        return "not True"

    def stop_at_fifth(optimizer, trial):
        return trial.number == 4

    result = augury.minimize(bowl, BOX, 9, algorithm="random", seed=0, callbacks=[watch, stop_at_fifth])
    assert result.stopped_because == "a callback asked to stop"
    assert [(number, size) for number, _, size in seen] == [(i, i + 1) for i in range(5)]
    assert [value for _, value, _ in seen] == [trial.value for trial in result.trials]


def test_a_batch_that_was_begun_is_finished():
    result = augury.minimize(
        bowl, BOX, 12, algorithm="random", seed=0, batch=4, callbacks=[lambda o, t: t.number == 1]
    )
    assert len(result.trials) == 4
    assert all(trial.state is State.COMPLETE for trial in result.trials)


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_a_target_ends_the_run(direction):
    sign = 1.0 if direction == "minimize" else -1.0
    search = getattr(augury, direction)
    result = search(lambda p: sign * p["x"], BOX, 100, algorithm="random", seed=0, target=-0.5 * sign)
    assert result.stopped_because == f"the target {-0.5 * sign} was reached"
    assert sign * result.best.value <= -0.5
    assert all(sign * trial.value > -0.5 for trial in result.trials[:-1])
    assert len(result.trials) < 100


def test_max_seconds(monkeypatch):
    none = augury.minimize(bowl, BOX, 5, algorithm="random", max_seconds=0)
    assert none.trials == ()
    assert none.best is None
    assert none.stopped_because == "max_seconds=0 have passed"
    clock = iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    some = augury.minimize(bowl, BOX, 50, algorithm="random", max_seconds=10)
    assert 1 <= len(some.trials) < 10
    assert some.stopped_because == "max_seconds=10 have passed"


def test_exceptions_and_wrong_types_are_failed_trials(caplog):
    answers = iter([1.0, ZeroDivisionError("by zero"), "text", None, [1.0, 2.0], math.nan, 0.5])

    def function(params):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with caplog.at_level(logging.WARNING, logger="augury"):
        result = augury.minimize(function, BOX, 7, algorithm="random", seed=0)
    states = [trial.state for trial in result.trials]
    assert states == [State.COMPLETE, *[State.FAILED] * 5, State.COMPLETE]
    reasons = [trial.reason for trial in result.trials[1:6]]
    assert reasons[0] == "ZeroDivisionError: by zero"
    assert "must be one real number; got str" in reasons[1]
    assert "needs a value; got None" in reasons[2]
    assert "shape (2,)" in reasons[3]
    assert reasons[4] == "the value is nan"
    assert result.best.value == 0.5
    assert sum("failed" in record.message for record in caplog.records) == 4


def test_an_infinite_value_is_a_failure_and_no_target():
    with pytest.warns(UserWarning, match="none of 4 evaluations succeeded"):
        result = augury.minimize(lambda p: -math.inf, BOX, 4, algorithm="random", seed=0, target=0.0)
    assert len(result.trials) == 4


def test_if_nothing_succeeds_the_user_hears_why():
    def broken(params):
        raise OSError("disk full")

    with pytest.warns(UserWarning, match="none of 3 evaluations succeeded; the last said: OSError: disk"):
        result = augury.minimize(broken, BOX, 3, algorithm="gp-ei", initial=2, seed=0)
    assert result.best is None
    assert repr(result).startswith("Result(no evaluation succeeded")


@pytest.mark.parametrize("before", [0, 3])
def test_an_interrupt_returns_what_was_found(before):
    def function(params):
        if len(values) == before:
            raise KeyboardInterrupt
        values.append(bowl(params))
        return values[-1]

    values = []
    result = augury.minimize(function, BOX, 10, algorithm="random", seed=0)
    assert result.stopped_because == "it was interrupted"
    assert len(result.trials) == before + 1
    assert result.trials[-1].state is State.PENDING
    assert (result.best is None) == (before == 0)
    trial = result.optimizer.ask()
    result.optimizer.tell(trial, -1.0)
    assert result.optimizer.best is trial


@pytest.mark.parametrize("batch", [None, 4])
def test_an_exhausted_space_ends_the_run(batch):
    result = augury.minimize(lambda p: p["i"], LATTICE, 50, algorithm="random", seed=0, batch=batch)
    assert result.stopped_because == "all 6 points of the space have been evaluated"
    assert len(result.trials) == 6
    again = augury.minimize(
        lambda p: p["i"], LATTICE, 50, algorithm="random", seed=0, batch=batch, duplicates="allow"
    )
    assert len(again.trials) == 50


def test_progress_shows_evaluations_best_and_seconds(capsys):
    augury.minimize(bowl, BOX, 3, algorithm="random", seed=0, progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "3/3" in captured.err
    assert "s/suggestion" in captured.err
    best = augury.minimize(bowl, BOX, 3, algorithm="random", seed=0).best.value
    assert f"best {best:.6g}" in captured.err


def test_progress_before_the_first_success(capsys):
    with pytest.warns(UserWarning, match="none of 2"):
        augury.minimize(lambda p: math.nan, BOX, 2, algorithm="random", seed=0, progress=True)
    assert "best none yet" in capsys.readouterr().err


@pytest.mark.parametrize("progress", [None, False])
def test_without_a_terminal_it_is_quiet(capsys, progress):
    augury.minimize(bowl, BOX, 3, algorithm="random", seed=0, progress=progress)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_on_a_terminal_it_is_not_quiet(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    augury.minimize(bowl, BOX, 3, algorithm="random", seed=0)
    assert "3/3" in capsys.readouterr().err


def test_a_process_without_standard_error_runs(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    result = augury.minimize(lambda p: p["x"], Space(x=Float(0.0, 1.0)), 2, algorithm="random", seed=0)
    assert len(result.trials) == 2
