import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from augury._errors import DataError
from augury.bench import runner
from augury.bench.experiment import Experiment, Job, Method, Task
from augury.bench.journal import Journal, read_lines

EI = Method("gp-ei", {"algorithm": "gp-ei"}, "gp-ei")
GRID = Method(
    "grid",
    {
        "surrogate": "gp",
        "policy": {"name": "ucb", "beta": "sqrt-log"},
        "maximizer": {"name": "random-grid"},
    },
    "grid",
)
RANDOM = Method("random", {"algorithm": "random"}, "random")
LATER = Method("later", {"algorithm": "sto-bnts"}, "later")
SAME = ("key", "values", "observed", "points", "initial")


def job(method=EI, **task):
    settings = {"problem": "branin", "initial": 4, "iterations": 5} | task
    return Job("test", Task(**settings), method, seed=1)


def same(a, b):
    return all(a.get(key) == b.get(key) for key in SAME)


def experiment(*methods, repeats=2, **task):
    return Experiment(
        "test", "none", "A test", "simple regret", repeats, (job(**task).task,), tuple(methods)
    )


def test_a_record_holds_the_run(tmp_path):
    noisy = ({"name": "noisy", "deviation": 0.1},)
    record = runner.run_job(job(wrap=noisy), tmp_path)
    assert record["key"] == "branin+noisy/gp-ei/1"
    assert len(record["values"]) == len(record["observed"]) == 9
    assert record["values"] != record["observed"]
    assert runner.make_problem(job().task, 1).value(record["best"]) == pytest.approx(
        min(record["values"])
    )
    assert record["suggestions"] == len(record["seconds"]) == 5
    assert 0.0 <= record["eta"] <= 1.0
    assert record["inaccuracy"] == pytest.approx(5.0 * (1.0 - record["eta"]), abs=1e-3)
    assert record["initial"] == 4
    assert record["peak_mib"] >= record["memory"][-1] > 10
    assert len(record["memory"]) == 5
    assert record["memory"] == sorted(record["memory"])  # the most so far
    assert record["direction"] == "minimize"
    assert record["optimum"] == pytest.approx(0.397887, abs=1e-6)
    assert record["exact"]
    assert "numpy" in record["versions"]
    json.dumps(record, allow_nan=False)


@pytest.mark.parametrize("method", [EI, GRID, RANDOM], ids=lambda m: m.name)
@pytest.mark.parametrize("batch", [1, 2])
def test_a_run_cut_off_anywhere_continues_as_if_nothing_had_happened(tmp_path, method, batch):
    whole = job(method, batch=batch, iterations=4, wrap=({"name": "noisy", "deviation": 0.1},))
    record = runner.run_job(whole, tmp_path / "whole")
    text = runner.journal_path(whole, tmp_path / "whole").read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for cut in range(0, len(lines), 3):
        folder = tmp_path / str(cut)
        folder.mkdir()
        torn = "".join(lines[:cut]) + lines[cut][: len(lines[cut]) // 2]
        runner.journal_path(whole, folder).write_text(torn, encoding="utf-8")
        assert same(runner.run_job(whole, folder), record), cut


SCRIPT = """
import sys, time
from pathlib import Path
import test_bench_runner as tests
from augury.bench import problems, runner

branin = problems.problem

def slow(name, seed=0):
    problem = branin(name, seed)
    value = problem.value
    object.__setattr__(problem, "value", lambda params: (time.sleep(0.05), value(params))[1])
    return problem

runner.find_problem = slow
runner.run_job(tests.job(iterations=40), Path(sys.argv[1]))
"""


def test_a_killed_run_continues_with_the_same_points_and_values(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path / "killed")], env=environment)
    path = runner.journal_path(job(iterations=40), tmp_path / "killed")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (path.exists() and path.read_bytes().count(b"tell") > 5):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = path.read_bytes().count(b'"value"')
    assert 5 < done < 44
    resumed = runner.run_job(job(iterations=40), tmp_path / "killed")
    assert same(resumed, runner.run_job(job(iterations=40), tmp_path / "whole"))


def test_an_experiment_runs_once_and_says_what_is_not_available(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        first = runner.run_experiment(experiment(RANDOM, GRID, LATER), tmp_path, executor=pool)
        again = runner.run_experiment(experiment(RANDOM, GRID, LATER), tmp_path, executor=pool)
    assert (first.finished, first.known, first.failed) == (4, 0, {})
    assert first.unavailable == {"later": "sto-bnts is not available yet"}
    assert (again.finished, again.known) == (0, 4)
    records = runner.read_results(tmp_path, "test")
    assert len(records) == 4
    assert not list((tmp_path / "test").glob("*.journal"))
    # paired: in every seed all methods see the same initial points
    by_seed = [{tuple(r["values"][:4]) for r in records if r["seed"] == seed} for seed in (0, 1)]
    assert [len(values) for values in by_seed] == [1, 1]
    assert by_seed[0] != by_seed[1]


def test_a_job_that_fails_does_not_stop_the_others(tmp_path):
    broken = Method("broken", {"surrogate": "gp", "policy": "ucb", "maximizer": "exhaustive"}, "broken")
    with ThreadPoolExecutor(1) as pool:
        outcome = runner.run_experiment(experiment(broken, RANDOM, repeats=1), tmp_path, executor=pool)
    assert outcome.finished == 1
    assert list(outcome.failed) == ["branin/broken/0"]
    assert "UnsupportedError" in outcome.failed["branin/broken/0"]


def test_failed_evaluations_are_part_of_a_run(tmp_path):
    failing = ({"name": "failing", "fraction": 0.4},)
    record = runner.run_job(job(RANDOM, iterations=20, wrap=failing), tmp_path)
    assert None in record["values"]
    assert any(value is not None for value in record["values"])


def test_a_journal_with_a_broken_line_is_refused(tmp_path):
    path = tmp_path / "x.journal"
    path.write_text('{"a": 1}\n{"b"\n{"c": 2}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"line 2 is not"):
        list(read_lines(path))
    path.write_text('{"a": 1}\n{"b"', encoding="utf-8")
    with Journal(path) as journal:
        journal.append({"c": 2})
    assert list(read_lines(path)) == [{"a": 1}, {"c": 2}]


def test_the_initial_design_is_that_of_the_seed():
    task = job().task
    problem = runner.make_problem(task, 0)
    first, again, other = (runner.initial_points(task, problem, "sobol", s) for s in (0, 0, 1))
    assert first == again != other
    uniform = runner.initial_points(task, problem, "random", 0)
    assert uniform != first
    assert np.array([list(p.values()) for p in uniform]).shape == (4, 2)
