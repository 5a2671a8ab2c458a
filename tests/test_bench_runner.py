import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from augury._errors import DataError, StorageError, UnsupportedError
from augury.bench import records, runner
from augury.bench.designs import initial_points
from augury.bench.experiment import Experiment, Job, Method, Task
from augury.bench.journal import Journal, read_lines
from augury.bench.memory import Meter
from augury.bench.records import read_results
from augury.executors.processes import JobError, Workers

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
LATER = Method("later", {"algorithm": "sto-bnts", "settings": {"draws": "frozen"}}, "later")
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
    exact = runner.make_problem(job().task, 1).value(record["best"])
    assert exact == pytest.approx(min(record["values"]), rel=1e-11)
    assert record["digits"] == 12
    assert record["suggestions"] == len(record["seconds"]) == 5
    assert 0.0 <= record["eta"] <= 1.0
    assert record["inaccuracy"] == pytest.approx(5.0 * (1.0 - record["eta"]), abs=1e-3)
    assert record["initial"] == 4
    assert record["peak_mib"] >= record["memory"][-1] > 10
    assert len(record["memory"]) == 5
    assert record["memory"] == sorted(record["memory"])  # the most so far
    assert record["digest"] == job(wrap=noisy).digest
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


POOL = """
import sys
from pathlib import Path
import test_bench_runner as tests
from augury.bench import runner

if __name__ == "__main__":
    runner.run_experiment(tests.slow_experiment(), Path(sys.argv[1]), workers=2)
"""


def slow_experiment():
    """Two runs that take long enough to be cut off."""
    return experiment(EI, iterations=80)


def start(script, folder, tmp_path):
    """A script in a process of its own, with a process group of its own."""
    path = tmp_path / "script.py"
    path.write_text(script, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    return subprocess.Popen(
        [sys.executable, str(path), str(folder)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def both_work(folder):
    """Whether two runs have begun and none is near its end; one of them has a model already."""
    counts = evaluations(folder)
    return len(counts) == 2 and max(counts) > 5 and all(0 < count < 80 for count in counts)


def wait_for(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(group):
    """Whether a process of the group lives; one that has ended but is not waited for does not."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] not in "ZX":
            return True
    return False


def evaluations(folder):
    return [path.read_bytes().count(b"tell") for path in folder.glob("test/*.journal")]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_workers_end_with_a_killed_parent_and_the_experiment_continues(tmp_path):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = start(POOL, killed, tmp_path)
    wait_for(lambda: both_work(killed))
    os.kill(process.pid, signal.SIGKILL)  # the parent alone
    process.communicate()
    wait_for(lambda: not alive(process.pid), 20)
    assert both_work(killed)
    with ThreadPoolExecutor(1) as pool:
        resumed = runner.run_experiment(slow_experiment(), killed, executor=pool)
        runner.run_experiment(slow_experiment(), whole, executor=pool)
    assert (resumed.finished, resumed.failed) == (2, {})
    ours, theirs = ({r["key"]: r for r in read_results(f, "test")} for f in (killed, whole))
    assert ours.keys() == theirs.keys()
    assert all(same(ours[key], theirs[key]) for key in ours)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_ctrl_c_ends_the_run_and_the_workers(tmp_path):
    script = POOL.replace(
        "    runner.run_experiment(tests.slow_experiment(), Path(sys.argv[1]), workers=2)",
        "    from unittest.mock import patch\n"
        "    from augury.cli import main\n"
        "    run = lambda options: runner.run_experiment("
        "tests.slow_experiment(), Path(sys.argv[1]), workers=2)\n"
        "    with patch('augury.cli._bench', run):\n"
        "        sys.exit(main(['bench', 'run', 'test']))",
    )
    process = start(script, tmp_path / "cut", tmp_path)
    wait_for(lambda: both_work(tmp_path / "cut"))
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors == (
        "augury: interrupted; the same command continues after the last finished evaluation.\n"
    )
    wait_for(lambda: not alive(process.pid), 20)
    assert both_work(tmp_path / "cut")


def test_two_processes_do_not_run_the_same_experiment(tmp_path):
    with (
        Journal(tmp_path / "test.jsonl"),
        pytest.raises(StorageError, match="another process is running"),
    ):
        runner.run_experiment(experiment(RANDOM), tmp_path)
    path = runner.journal_path(job(RANDOM), tmp_path)
    with Journal(path), pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "PATIENCE", 0.2)
        with pytest.raises(StorageError, match="another process is running"):
            runner.run_job(job(RANDOM), tmp_path)
    runner.run_job(job(RANDOM), tmp_path)  # closed, it is free again


def test_workers_answer_raise_and_die_alone():
    with Workers(2) as workers:
        good = workers.submit(os.getpid)
        wrong = workers.submit(int, "x")
        assert good.result() != os.getpid()
        with pytest.raises(JobError, match="ValueError: invalid literal"):
            wrong.result()
        with pytest.raises(JobError, match=r"ended with exit code 3\. Repeat the job"):
            workers.submit(os._exit, 3).result()
        assert workers.submit(int, "7").result() == 7


def test_a_fresh_worker_runs_one_job():
    for fresh in (False, True):
        with Workers(1, fresh=fresh) as workers:
            found = {workers.submit(os.getpid).result() for _ in range(2)}
        assert len(found) == 1 + fresh


def test_only_a_few_jobs_are_handed_over_and_looked_at(tmp_path, monkeypatch):
    most, looked = 0, Counter()

    class Pool(ThreadPoolExecutor):
        def submit(self, *args):
            nonlocal most
            most = max(most, self._work_queue.qsize() + 1)
            return super().submit(*args)

    see = runner._Seen.evaluations
    monkeypatch.setattr(
        runner._Seen, "evaluations", lambda self, j: (looked.update([j.key]), see(self, j))[1]
    )
    with Pool(1) as pool:
        small = experiment(RANDOM, repeats=12, iterations=1)
        runner.run_experiment(small, tmp_path, executor=pool, workers=1, progress=False)
        assert not looked
        assert most <= 2
    assert len(read_results(tmp_path, "test")) == 12


def test_a_growing_journal_is_read_on_from_where_it_was(tmp_path):
    seen, path = runner._Seen(tmp_path), runner.journal_path(job(), tmp_path)
    assert seen.evaluations(job()) == 0
    path.write_bytes(b'{"initial": 0, "value": 1}\n{"initial": 1, "val')
    assert seen.evaluations(job()) == 1
    with path.open("ab") as file:
        file.write(b'ue": 2}\n{"tell": 2, "value": 1}\n')
    assert seen.evaluations(job()) == 3
    assert seen._known[path][0] == path.stat().st_size


def test_runs_of_another_experiment_are_not_made_again(tmp_path):
    first = experiment(RANDOM)
    second = replace(first, name="second", shares=("test",), methods=(RANDOM, GRID), repeats=1)
    with ThreadPoolExecutor(1) as pool:
        runner.run_experiment(first, tmp_path, executor=pool)
        made = runner.run_experiment(second, tmp_path, executor=pool)
        assert (made.finished, made.known) == (1, 1)
        assert len(read_results(tmp_path, "second")) == 1  # they stay where they are
        both = records.read_runs(tmp_path, second)
        assert {run["key"] for run in both} == {"branin/random/0", "branin/random/1", "branin/grid/0"}
        longer = replace(second, tasks=(replace(first.tasks[0], iterations=6),))
        made = runner.run_experiment(longer, tmp_path, executor=pool)
        assert (made.finished, made.known) == (2, 0)  # another run, whatever its name


def test_results_of_other_settings_do_not_count(tmp_path):
    def run(**task):
        with ThreadPoolExecutor(1) as pool:
            made = runner.run_experiment(experiment(RANDOM, repeats=1, **task), tmp_path, executor=pool)
        return made.finished, made.known, made.others

    assert run() == (1, 0, 0)
    assert run() == (0, 1, 0)
    assert run(iterations=6) == (1, 0, 1)
    noisy = {"name": "noisy", "deviation": 0.1}
    assert run(wrap=(noisy,)) == (1, 0, 0)
    assert run(wrap=(noisy | {"deviation": 0.2},)) == (1, 0, 1)
    assert run(wrap=(noisy,)) == (0, 1, 1)  # nothing is lost
    lines = read_results(tmp_path, "test")
    assert len(lines) == 4
    for line in lines:  # as an older version wrote them
        del line["digest"]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run() == (0, 1, 1)  # the other one is of another length


def test_a_journal_of_other_settings_is_begun_anew(tmp_path):
    old, new = job(iterations=3), job(Method("gp-ei", {"algorithm": "random"}, "gp-ei"), iterations=3)
    record = runner.run_job(old, tmp_path)
    assert runner.journal_path(old, tmp_path) == runner.journal_path(new, tmp_path)
    again = runner.run_job(new, tmp_path)
    assert again["points"] != record["points"]
    assert again["points"] == runner.run_job(new, tmp_path / "alone")["points"]
    path = runner.journal_path(new, tmp_path)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    assert json.loads(lines[0]) == {"digest": new.digest}
    path.write_text("".join(lines[1:4]), encoding="utf-8")  # of an older version
    assert runner.run_job(new, tmp_path)["points"] == again["points"]
    assert path.read_text(encoding="utf-8").splitlines(keepends=True)[:3] == lines[1:4]


@pytest.mark.parametrize("change", [[1, 1], [1, 2, 2], [6, 6], [2], [5, 7]], ids=str)
def test_a_journal_that_is_no_run_is_named(tmp_path, change):
    whole = job(RANDOM)
    runner.run_job(whole, tmp_path)
    path = runner.journal_path(whole, tmp_path)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join([lines[0], *(lines[i] for i in change)]), encoding="utf-8")
    with pytest.raises(DataError, match=rf"{path} must hold one run .* Delete the file: its run then"):
        runner.run_job(whole, tmp_path)


@pytest.mark.parametrize("line", ['{"ask": 1}', '{"ask": [1]}', '{"x": 1}', '{"tell": [], "value": 1}'])
def test_a_strange_line_of_a_journal_is_named(tmp_path, line):
    runner.journal_path(job(), tmp_path).write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"line 1 does not follow .* Delete the file"):
        runner.run_job(job(), tmp_path)


def test_journals_of_different_runs_have_different_names(tmp_path):
    names = ("a b", "a_b", "A b", "a--b", "a/b", "é" * 300, "é" * 301)
    jobs = [job(Method(name, {"algorithm": "random"}, name)) for name in names]
    paths = {runner.journal_path(one, tmp_path).name.lower() for one in jobs}
    assert len(paths) == len(names)
    for path in paths:
        (tmp_path / path).touch()


def test_an_experiment_runs_once_and_says_what_is_not_available(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        first = runner.run_experiment(experiment(RANDOM, GRID, LATER), tmp_path, executor=pool)
        again = runner.run_experiment(experiment(RANDOM, GRID, LATER), tmp_path, executor=pool)
    assert (first.finished, first.known, first.failed) == (4, 0, {})
    assert first.unavailable == {
        "later": "sto-bnts with the same random numbers in every draw is not offered"
    }
    assert (again.finished, again.known) == (0, 4)
    records = read_results(tmp_path, "test")
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


def test_a_problem_that_cannot_be_evaluated_is_no_run(tmp_path):
    failing = ({"name": "failing", "fraction": 1.0, "how": "raise"},)
    for _ in range(2):  # nothing of the first one is left
        with pytest.raises(DataError, match=r"4 initial points, the last: RuntimeError"):
            runner.run_job(job(RANDOM, wrap=failing), tmp_path)


def test_methods_compute_on_the_device_that_is_named(tmp_path):
    with pytest.raises(UnsupportedError, match=r"device must be .*abacus"):
        runner.run_job(job(), tmp_path, "abacus")


def test_a_failure_has_no_value_even_where_the_noise_free_one_is_known(tmp_path):
    failing = ({"name": "failing", "fraction": 1.0, "how": "nan"},)
    record = runner.run_job(job(RANDOM, wrap=failing), tmp_path)
    assert record["values"] == record["observed"] == [None] * 9
    assert record["best"] is None
    assert b"exact" not in runner.journal_path(job(RANDOM, wrap=failing), tmp_path).read_bytes()


def test_the_packages_that_decide_values_are_recorded(tmp_path):
    record = runner.run_job(job(RANDOM, problem="bbob-f1-d2"), tmp_path)
    assert "coco-experiment" in record["versions"]
    assert {"augury", "jax", "numpy", "scipy"} <= record["versions"].keys()
    forest = runner.run_job(job(Method("rf", {"algorithm": "rf-ei"}, "rf"), iterations=1), tmp_path)
    assert "scikit-learn" in forest["versions"]
    listed = records.versions(("sklearn", "xgboost", "gymnasium", "Box2D", "no_such_package"))
    assert {"scikit-learn", "gymnasium"} <= listed.keys()
    assert any(name.startswith("xgboost") for name in listed)
    assert any(name.lower().startswith("box2d") for name in listed)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks cannot be reset")
def test_the_memory_of_a_run_is_not_that_of_the_runs_before_it():
    mib = 2**20 // 8
    before = Meter().peak_mib()
    left = np.ones(200 * mib)  # by an earlier run
    meter = Meter()
    assert meter.peak_mib() < before + 100
    added = np.ones(150 * mib)
    del added
    assert before + 100 < meter.peak_mib() < before + 200
    del left


def test_the_memory_of_a_peer_is_that_of_its_own_process(tmp_path):
    held = np.ones(100 * 2**20 // 8)
    record = runner.run_job(job(Method("peer", {"peer": "random"}, "peer")), tmp_path)
    assert 0 < record["peak_mib"] == record["memory"][-1] < 100
    del held


def test_the_commit_of_a_foreign_repository_is_not_recorded(tmp_path, monkeypatch):
    for place in ("lib/python/augury", "src/augury"):
        (tmp_path / place / "bench").mkdir(parents=True)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    for place, known in (("lib/python/augury", False), ("src/augury", True)):
        monkeypatch.setattr(records, "__file__", str(tmp_path / place / "bench" / "records.py"))
        assert (records.commit.__wrapped__() is not None) == known


def test_bad_results_are_named(tmp_path):
    path = tmp_path / "test.jsonl"
    with ThreadPoolExecutor(1) as pool:
        runner.run_experiment(experiment(RANDOM, repeats=1), tmp_path, executor=pool)
    (record,) = read_results(tmp_path, "test")
    for wrong, name in (
        ({"values": ["x"]}, "values"),
        ({"seed": "1"}, "seed"),
        ({"memory": [{}]}, "memory"),
    ):
        path.write_text(json.dumps(record | wrong) + "\n", encoding="utf-8")
        with pytest.raises(DataError, match=rf"{path} must be the results of a run; line 1 .* {name}"):
            read_results(tmp_path, "test")
    for text, what in (("{}", "no valid key, problem"), ("[1]", "must be a JSON object"), ("x", "JSON")):
        path.write_text(f"{text}\n", encoding="utf-8")
        with pytest.raises(DataError, match=what):
            runner.run_experiment(experiment(RANDOM), tmp_path)
    path.write_bytes(b'{"a": "\xff"}\n')
    with pytest.raises(DataError, match="line 1 is not"):
        read_results(tmp_path, "test")


def test_a_last_line_torn_inside_a_character_is_dropped(tmp_path):
    path = tmp_path / "x.journal"
    path.write_bytes(b'{"a": 1}\n' + '{"name": "é'.encode()[:-1])
    with Journal(path) as journal:
        assert journal.lines == [{"a": 1}]
        journal.append({"b": "é"})
    assert list(read_lines(path)) == [{"a": 1}, {"b": "é"}]


def test_a_folder_that_cannot_be_written_gets_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"must be a file that can be written; got: .* results folder"):
        runner.run_experiment(experiment(RANDOM), tmp_path / "file")
    (tmp_path / "test.jsonl").mkdir()
    with pytest.raises(StorageError, match="can be written; got: Is a directory"):
        runner.run_experiment(experiment(RANDOM), tmp_path)
    with pytest.raises(StorageError, match="can be read; got: Is a directory"):
        read_results(tmp_path, "test")


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
    first, again, other = (initial_points(task, problem, "sobol", s) for s in (0, 0, 1))
    assert first == again != other
    uniform = initial_points(task, problem, "random", 0)
    assert uniform != first
    assert np.array([list(p.values()) for p in uniform]).shape == (4, 2)
