"""Runs whose function is evaluated elsewhere: processes, threads, executors of others."""

import importlib
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor

import optuna
import pytest

import augury
from augury import Float, Int, Space, UnsupportedError
from augury.executors import processes
from augury.executors.processes import JobError, JobLostError, JobTimeoutError, Workers
from augury.trial import State

SPACE = Space(x=Float(-1.0, 2.0), n=Int(1, 8))


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def value(params):
    return (params["x"] - 0.3) ** 2 + 0.1 * params["n"]


def points(result):
    return [(trial.number, dict(trial.params), trial.value) for trial in result.trials]


def test_workers_answer_raise_die_and_end():
    with Workers(2, timeout=20.0) as workers:
        assert workers.submit(os.getpid).result() != os.getpid()
        assert workers.submit(lambda x: x + 1, 6).result() == 7
        with pytest.raises(JobError, match=r"^ValueError: invalid literal"):
            workers.submit(int, "x").result()
        with pytest.raises(JobError, match="cannot pickle"):
            workers.submit(threading.Lock).result()
        with pytest.raises(JobLostError, match="exit code 3"):
            workers.submit(os._exit, 3).result()
        with pytest.raises(UnsupportedError, match="must be one that cloudpickle can send"):
            workers.submit(print, threading.Lock())
    with Workers(1, timeout=0.5) as workers:
        with pytest.raises(JobTimeoutError, match=r"longer than 0\.5 seconds"):
            workers.submit(time.sleep, 60).result()
        assert workers.submit(int, "7").result() == 7


def test_a_batch_has_the_same_trials_whatever_the_number_of_workers():
    settings = {"algorithm": "gp-ei", "seed": 0, "batch": 3, "initial": 3}
    here = points(augury.minimize(value, SPACE, 9, **settings))
    factor = 1.0  # functions that know other values travel too

    def later(params):
        time.sleep(0.02 * params["n"])
        return factor * value(params)

    assert points(augury.minimize(later, SPACE, 9, workers=3, **settings)) == here
    with ThreadPoolExecutor(2) as threads:
        assert points(augury.minimize(later, SPACE, 9, executor=threads, **settings)) == here


def test_points_are_asked_as_soon_as_workers_are_free(tmp_path):
    most, under_way = 0, 0
    lock = threading.Lock()

    def waits(params):
        nonlocal most, under_way
        with lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.05)
        with lock:
            under_way -= 1
        return value(params)

    with ThreadPoolExecutor(4) as threads:
        result = augury.minimize(waits, SPACE, 12, algorithm="gp-ts", seed=0, executor=threads)
        assert not threads._shutdown  # it is the user's
    assert len(result.trials) == 12
    assert most == 4
    assert all(trial.state is State.COMPLETE for trial in result.trials)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as processes:
        settings = {"algorithm": "random", "seed": 0, "executor": processes, "workers": 1}
        few = augury.minimize(lambda params: params["x"], SPACE, 4, **settings)
        with pytest.raises(UnsupportedError, match="cloudpickle can send"):
            augury.minimize(lambda params: lock.locked(), SPACE, 4, storage=tmp_path / "s.db", **settings)
    assert [trial.value for trial in few.trials] == [trial.params["x"] for trial in few.trials]
    assert not (tmp_path / "s.db").exists()


def test_an_evaluation_that_takes_too_long_is_ended_and_has_failed():
    def sleeps(params):
        time.sleep(60.0 if params["n"] > 4 else 0.0)
        return params["n"]

    result = augury.minimize(sleeps, SPACE, 6, algorithm="sobol", seed=0, trial_timeout=2.0, workers=2)
    slow = [trial for trial in result.trials if trial.params["n"] > 4]
    assert slow
    assert all(trial.reason == "it took longer than 2 seconds" for trial in slow)
    assert len(result.trials) == 6


def test_what_a_function_imports_is_not_its_own_time(tmp_path, monkeypatch):
    (tmp_path / "heavy.py").write_text("import time; time.sleep(1.2)\ndef f(p): return p['x']\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    settings = {"algorithm": "sobol", "seed": 0, "workers": 2}
    function = importlib.import_module("heavy").f
    result = augury.minimize(function, SPACE, 4, trial_timeout=1.0, **settings)
    assert [trial.reason for trial in result.trials] == [None] * 4


def test_a_function_that_takes_too_long_to_load_is_said(tmp_path, monkeypatch):
    code = "import os, time\nif 'LOADS' not in os.environ: time.sleep(60)\ndef f(p): return p['x']\n"
    (tmp_path / "hangs.py").write_text(code, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(processes, "LOADING", 0.5)
    with monkeypatch.context() as here:
        here.setenv("LOADS", "")
        function = importlib.import_module("hangs").f
    with pytest.raises(JobTimeoutError, match=r"loading a function must take at most 0\.5 seconds"):
        augury.minimize(function, SPACE, 2, trial_timeout=0.25, storage=tmp_path / "s.db")
    assert not (tmp_path / "s.db").exists()
    with (
        Workers(1, timeout=0.75) as workers,
        pytest.raises(JobTimeoutError, match=r"loading a function must take at most 0\.75 seconds"),
    ):
        workers.submit(function, {"x": 0.5}).result()


@pytest.mark.parametrize("seconds", [1e7, float("inf")])
def test_an_evaluation_may_take_months(seconds):
    result = augury.minimize(value, SPACE, 1, algorithm="sobol", seed=0, trial_timeout=seconds)
    assert [trial.reason for trial in result.trials] == [None]


@pytest.mark.parametrize("kept", [False, True])
def test_a_worker_that_dies_is_replaced_and_its_point_evaluated_again(tmp_path, kept):
    died = tmp_path / "died"

    def dies_once(params):
        if params["n"] > 4 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return float(params["n"])

    storage = {"storage": tmp_path / "s.db"} if kept else {}
    result = augury.minimize(dies_once, SPACE, 6, algorithm="sobol", seed=0, workers=2, **storage)
    assert died.exists()
    assert [trial.state for trial in result.trials] == [State.COMPLETE] * 6
    if kept:
        trials = optuna.load_study(storage=f"sqlite:///{tmp_path / 's.db'}", study_name="augury").trials
        (lost,) = [trial for trial in trials if trial.state.name == "FAIL"]
        assert "exit code -9" in lost.system_attrs["augury:lost"]


@pytest.mark.parametrize("kept", [False, True])
def test_a_function_that_always_ends_its_process_ends_the_run(tmp_path, kept):
    storage = {"storage": tmp_path / "s.db"} if kept else {}
    with pytest.warns(UserWarning, match="none of 2 evaluations succeeded; the last said: the process"):
        result = augury.minimize(
            lambda params: os._exit(1), SPACE, 2, algorithm="sobol", seed=0, workers=2, **storage
        )
    assert [trial.state for trial in result.trials] == [State.FAILED] * 2


def test_errors_in_workers_are_reasons():
    def fails(params):
        raise ValueError("no luck")

    with pytest.warns(UserWarning, match="ValueError: no luck"):
        augury.minimize(fails, SPACE, 2, algorithm="sobol", seed=0, workers=2)


@pytest.mark.parametrize("pool", [False, True])
def test_a_function_that_workers_cannot_load_ends_the_run_and_leaves_no_study(tmp_path, pool):
    module = types.ModuleType("only_here")
    exec("def loss(params): return params['x']", module.__dict__)
    sys.modules["only_here"] = module
    settings = {"algorithm": "sobol", "storage": tmp_path / "s.db", "workers": 1 if pool else 2}
    spawn = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(1, mp_context=spawn) as processes:
            settings |= {"executor": processes} if pool else {}
            with pytest.raises(UnsupportedError, match="a worker said ModuleNotFoundError: No module na"):
                augury.minimize(module.loss, SPACE, 40, **settings)
    finally:
        del sys.modules["only_here"]
    assert not (tmp_path / "s.db").exists()


def test_a_broken_pool_ends_the_run_and_what_was_found_is_there():
    spawn = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(1, mp_context=spawn) as processes,
        pytest.warns(UserWarning, match="the run ends: its executor is broken"),
    ):
        result = augury.minimize(
            lambda p: os._exit(1) if p["n"] > 6 else p["n"], SPACE, 30, algorithm="sobol",
            seed=0, executor=processes, workers=1,
        )  # fmt: skip
    assert result.stopped_because.startswith("its executor is broken")
    assert result.best.value == min(trial.value for trial in result.trials if trial.value is not None)


def test_a_lost_future_of_another_executor_is_made_again():
    class Loses(ThreadPoolExecutor):
        lost = 0

        def submit(self, fn, /, *args, **kwargs):
            if self.lost < 2:
                self.lost += 1
                future = Future()
                future.cancel()
                future.set_running_or_notify_cancel()
                return future
            return super().submit(fn, *args, **kwargs)

    with Loses(1) as executor:
        result = augury.minimize(value, SPACE, 3, algorithm="sobol", seed=0, executor=executor)
    assert [trial.state for trial in result.trials] == [State.COMPLETE] * 3


def test_what_cannot_be_is_said():
    lock = threading.Lock()
    for bad, words in (
        ({"workers": 0}, "workers must be"),
        ({"executor": 3}, "executor must be one of concurrent.futures"),
        ({"trial_timeout": "x"}, "trial_timeout must be a positive number"),
    ):
        with pytest.raises(UnsupportedError, match=words):
            augury.minimize(value, SPACE, 2, **bad)
    with pytest.raises(UnsupportedError, match="cloudpickle can send"):
        augury.minimize(lambda params: lock.locked(), SPACE, 2, workers=2)
    with ThreadPoolExecutor(1) as threads, pytest.raises(UnsupportedError, match="trial_timeout needs"):
        augury.minimize(value, SPACE, 2, executor=threads, trial_timeout=1.0)
    for bad in (0, -1.0, float("nan")):
        with pytest.raises(UnsupportedError, match="trial_timeout must be a positive number"):
            augury.minimize(value, SPACE, 2, trial_timeout=bad)
        with pytest.raises(UnsupportedError, match="trial_timeout must be a positive number"):
            Workers(1, timeout=bad)


SCRIPT = """
    import sys, time, augury
    def f(p):
        print("begun", flush=True)
        time.sleep(float(sys.argv[1]))
        return p["x"]
    space = augury.Space(x=augury.Float(0.0, 1.0))
    result = augury.minimize(f, space, 50, algorithm="sobol", seed=0, workers=2, storage=sys.argv[2])
    print(result.stopped_because, len(result.trials), flush=True)
"""


def script(tmp_path, seconds, **settings):
    (tmp_path / "work.py").write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    command = [sys.executable, str(tmp_path / "work.py"), str(seconds), str(tmp_path / "s.db")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **settings)


def test_an_interrupt_lets_evaluations_finish_and_a_second_one_does_not(tmp_path):
    with script(tmp_path, 1.0) as child:  # without a guard for __main__
        assert child.stdout.readline() == "begun\n"
        assert child.stdout.readline() == "begun\n"
        child.send_signal(signal.SIGINT)
        (last,) = child.communicate(timeout=60)[0].splitlines()
    assert last == "it was interrupted 2"
    with script(tmp_path, 30.0) as child:
        assert child.stdout.readline() == "begun\n"
        assert child.stdout.readline() == "begun\n"
        child.send_signal(signal.SIGINT)
        time.sleep(1.0)
        child.send_signal(signal.SIGINT)
        (last,) = child.communicate(timeout=20)[0].splitlines()
    assert last == "it was interrupted 2"  # those that ended before; the others will be repeated


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_while_a_value_is_recorded_lets_evaluations_finish_too(times):
    def interrupts(optimizer, trial):
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)

    def waits(params):
        time.sleep(1.0 if next(calls) else 0.0)
        return params["x"]

    calls = itertools.count()
    settings = {"algorithm": "sobol", "seed": 0, "callbacks": [interrupts]}
    with ThreadPoolExecutor(2) as threads:
        result = augury.minimize(waits, SPACE, 9, executor=threads, **settings)
    assert result.stopped_because == "it was interrupted"
    assert {trial.state for trial in result.trials[:2]} == (
        {State.COMPLETE} if times == 1 else {State.COMPLETE, State.PENDING}
    )


def test_workers_end_with_a_killed_driver(tmp_path):
    with script(tmp_path, 60.0) as child:
        assert child.stdout.readline() == "begun\n"
        child.kill()
        child.communicate(timeout=20)  # the workers hold the pipe too: it ends when they do
