"""Runs on a real Dask cluster of two processes, and on a real local Ray."""

import os
import sys
import time
from collections import Counter
from pathlib import Path

import distributed
import numpy as np
import optuna
import pytest
import ray

import augury
from augury import Float, Int, Space, UnsupportedError, executors
from augury.trial import State

pytestmark = pytest.mark.filterwarnings("ignore")  # of both libraries, about threads and sockets
SPACE = Space(x=Float(-1.0, 2.0), n=Int(1, 8))


@pytest.fixture(scope="module")
def client():
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(**settings, protocol="tcp", host="127.0.0.1") as cluster,
        distributed.Client(cluster) as connected,
    ):
        yield connected


@pytest.fixture(scope="module")
def rays():
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

    result = augury.minimize(moody, SPACE, 8, algorithm="sobol", seed=0, executor=executor)
    assert Path(died).exists()
    counts = Counter(trial.reason for trial in result.trials)
    assert set(counts) == {None, "ValueError: too many"}
    assert all((trial.state is State.FAILED) == (trial.params["n"] > 6) for trial in result.trials)


def test_what_is_no_client_is_said():
    with pytest.raises(UnsupportedError, match=r"dask needs a distributed\.Client; got int"):
        executors.dask(3)


def test_ray_tune_takes_the_sampler(rays):
    from ray import tune
    from ray.tune.search.optuna import OptunaSearch

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = augury.AugurySampler("gp-ei", seed=0, initial=3)
    space = {"x": tune.uniform(-1.0, 2.0), "n": tune.randint(1, 9)}
    search = OptunaSearch(metric="loss", mode="min", sampler=sampler)
    tuner = tune.Tuner(
        lambda config: {"loss": value(config)},
        param_space=space,
        tune_config=tune.TuneConfig(search_alg=search, num_samples=6, max_concurrent_trials=2),
        run_config=tune.RunConfig(verbose=0),
    )
    results = tuner.fit()
    assert len(results) == 6
    assert not results.errors
    last = search._ot_study.trials[-1]
    assert augury.AugurySampler.info(last)["chosen"].startswith("GaussianProcess")
