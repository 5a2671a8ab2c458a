"""Runs on a real Dask cluster of two processes, and on a real local Ray."""

import os
import sys
import time
import types
from collections import Counter
from pathlib import Path

import numpy as np
import optuna
import pytest

import augury
from augury import Float, Int, Space, UnsupportedError, executors
from augury.studies.mirror import LOST
from augury.trial import State
from test_docs import DOCS, blocks, run

pytestmark = pytest.mark.filterwarnings("ignore")  # of both libraries, about threads and sockets
SPACE = Space(x=Float(-1.0, 2.0), n=Int(1, 8))


@pytest.fixture(scope="module")
def client():
    import distributed  # not by every process that collects tests

    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(**settings, protocol="tcp", host="127.0.0.1") as cluster,
        distributed.Client(cluster) as connected,
    ):
        yield connected


@pytest.fixture(scope="module")
def rays():
    import ray

    here = {"env_vars": {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=here)
    yield
    ray.shutdown()


def value(params):
    return (params["x"] - 0.3) ** 2 + 0.1 * params["n"]


def points(result):
    return [(trial.number, dict(trial.params), trial.value) for trial in result.trials]


@pytest.fixture(params=["dask", "ray"])
def executor(request):
    if request.param == "dask":
        return executors.dask(request.getfixturevalue("client"))
    request.getfixturevalue("rays")
    return executors.ray()


def test_a_cluster_evaluates_the_same_trials(executor, tmp_path):
    settings = {"algorithm": "gp-ei", "seed": 0, "batch": 2, "initial": 2}
    here = augury.minimize(value, SPACE, 6, **settings)
    there = augury.minimize(value, SPACE, 6, executor=executor, storage=tmp_path / "s.db", **settings)
    for mine, theirs in zip(points(here), points(there), strict=True):
        assert mine[1] == pytest.approx(theirs[1])
        assert mine[2] == pytest.approx(theirs[2])
    assert executor._max_workers == 2


def test_replicates_are_evaluated_anew_elsewhere(executor):
    def noisy(params):
        return os.getpid() + np.random.default_rng().random()

    settings = {"algorithm": "random", "duplicates": "allow", "seed": 0, "executor": executor}
    result = augury.minimize(noisy, Space(n=Int(1, 1)), 6, **settings)
    values = [trial.value for trial in result.trials]
    assert len(set(values)) == 6
    assert os.getpid() not in {int(value) for value in values}


def test_errors_are_reasons_and_dead_workers_are_replaced(executor, tmp_path):
    died = str(tmp_path / "died")

    def moody(params):
        if params["n"] > 6:
            raise ValueError("too many")
        if params["n"] > 4 and not Path(died).exists():
            Path(died).touch()
            os._exit(1)
        time.sleep(0.05)
        return float(params["n"])

    settings = {"algorithm": "sobol", "seed": 0, "storage": tmp_path / "s.db"}
    result = augury.minimize(moody, SPACE, 8, executor=executor, **settings)
    assert Path(died).exists()
    study = optuna.load_study(study_name="augury", storage=f"sqlite:///{tmp_path / 's.db'}")
    (lost,) = [trial for trial in study.trials if LOST in trial.system_attrs]  # on record
    assert lost.params["n"] in (5, 6)
    counts = Counter(trial.reason for trial in result.trials)
    assert set(counts) == {None, "ValueError: too many"}
    assert all((trial.state is State.FAILED) == (trial.params["n"] > 6) for trial in result.trials)


def test_a_function_that_the_workers_cannot_load_ends_the_run_before_it_begins(executor, tmp_path):
    module = types.ModuleType("only_here")
    exec("def loss(params): return params['x']", module.__dict__)
    sys.modules["only_here"] = module
    try:
        with pytest.raises(
            UnsupportedError, match="a worker said ModuleNotFoundError: No module named 'only_here'"
        ):
            augury.minimize(module.loss, SPACE, 4, executor=executor, storage=tmp_path / "s.db")
    finally:
        del sys.modules["only_here"]
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize("new", [True, False])
def test_a_worker_that_cannot_load_the_function_ends_the_run_and_gives_its_point_back(
    client, tmp_path, new
):
    """Such a worker may come when the run has begun; of a new study nothing is left."""

    class Fussy:
        def __reduce__(self):
            return __import__, ("only_there",)

        def __call__(self, params):
            return 1.0

    storage = f"sqlite:///{tmp_path / 's.db'}"
    if not new:
        optuna.create_study(study_name="augury", storage=storage)
    executor = executors.dask(client)
    executor.check = lambda function: None
    with pytest.raises(UnsupportedError, match="No module named 'only_there'"):
        augury.minimize(Fussy(), SPACE, 4, executor=executor, storage=tmp_path / "s.db")
    assert optuna.get_all_study_names(storage) == ([] if new else ["augury"])
    if not new:
        study = optuna.load_study(study_name="augury", storage=storage)
        assert {trial.state.name for trial in study.trials} == {"FAIL", "WAITING"}


def test_what_is_no_client_is_said():
    with pytest.raises(UnsupportedError, match=r"dask needs a distributed\.Client; got int"):
        executors.dask(3)


class SLURMCluster:
    """Stands in for that of dask_jobqueue: its jobs are the two processes of a cluster here."""

    here = None

    def __new__(cls, queue: str, cores: int, memory: str, walltime: str):
        return cls.here


def test_the_page_runs(client, rays, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))  # where Ray Tune writes
    stand_in = types.ModuleType("dask_jobqueue")
    stand_in.SLURMCluster, SLURMCluster.here = SLURMCluster, client.cluster
    monkeypatch.setitem(sys.modules, "dask_jobqueue", stand_in)
    monkeypatch.setattr(client.cluster, "scale", lambda jobs: None, raising=False)
    path, names = DOCS / "clusters.md", {"__name__": "__main__"}
    seen = []
    for block in blocks(path, "python"):
        names.pop("result", None)
        run(path, block, names)
        if "result" in names:
            seen.append((type(names["executor"]).__name__, len(names["result"].trials)))
        if "cluster" in names:
            names["executor"]._client.close()
            del names["cluster"]
    assert seen == [("Dask", 8), ("Ray", 8)]
    assert names["best"].metrics["loss"] < 50
    trials = names["search"]._ot_study.trials
    assert len(trials) == 12
    assert augury.AugurySampler.info(trials[-1])["chosen"].startswith("Election")
