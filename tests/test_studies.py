"""Runs whose trials are kept in studies: resumed, shared, and interrupted."""

import contextlib
import json
import sqlite3
import threading
import time
from collections import Counter

import numpy as np
import optuna
import pytest
import sqlalchemy
from optuna.exceptions import StorageInternalError
from optuna.trial import TrialState

import augury
from augury import DataError, Float, Int, Pool, Space, StorageError
from augury.state import describe_space
from augury.studies import notes
from augury.studies.book import Book
from augury.studies.opening import ABOUT
from augury.studies.spaces import distributions_of
from augury.studies.storages import hidden, may_pass, open_storage, without_password
from augury.trial import State
from known_study import LINE, SPACE, storages, value


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def points(result):
    return [(trial.number, dict(trial.params), trial.value) for trial in result.trials]


@pytest.mark.parametrize("which", [0, 1], ids=["sqlite", "journal"])
@pytest.mark.parametrize("batch", [None, 3])
def test_a_study_has_the_trials_of_a_run_without_one_and_goes_on(tmp_path, which, batch):
    settings = {"algorithm": "gp-ei", "seed": 0, "batch": batch, "initial": 3}
    whole = augury.minimize(value, SPACE, 9, **settings)
    storage = storages(tmp_path)[which]

    def some(params, left=[5]):  # noqa: B006 - how many evaluations are left
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return value(params)

    first = augury.minimize(some, SPACE, 9, storage=storage, **settings)
    assert first.stopped_because == "it was interrupted"
    assert len([t for t in first.trials if t.state is State.COMPLETE]) == 5
    second = augury.minimize(value, SPACE, 9, storage=storage, **settings)
    assert second.stopped_because == "the budget of 9 evaluations is spent"
    made = {trial.number: dict(trial.params) for trial in second.trials}
    assert len(made) == 9
    if batch is None:  # what was interrupted is repeated, under another number
        assert [made[n] for n in range(5)] == [dict(t.params) for t in whole.trials[:5]]
        assert made[6] == dict(whole.trials[5].params)
    again = augury.minimize(value, SPACE, 9, storage=storage, **settings)
    assert points(again) == points(second)
    assert again.best.value == pytest.approx(second.best.value)


@pytest.mark.parametrize("batch", [None, 4])
def test_uninterrupted_it_is_exactly_the_run_without_one(tmp_path, batch):
    settings = {"algorithm": "ts-rsr", "seed": 1, "batch": batch, "initial": 4}
    whole = augury.minimize(value, SPACE, 12, **settings)
    kept = augury.minimize(value, SPACE, 12, storage=tmp_path / "s.db", **settings)
    for (_, mine, y), (_, theirs, z) in zip(points(whole), points(kept), strict=True):
        assert mine == pytest.approx(theirs)
        assert y == pytest.approx(z)
    assert kept.best.params == pytest.approx(whole.best.params)
    assert kept.trials[-1].info["chosen"] == whole.trials[-1].info["chosen"]
    assert kept.best.info["chosen"] == whole.best.info["chosen"]
    assert kept.optimizer.recommend().params["kind"] in ("a", "b", None)


def test_the_seed_is_kept(tmp_path):
    storage = tmp_path / "s.db"
    first = augury.minimize(value, SPACE, 3, algorithm="random", storage=storage)
    more = augury.minimize(value, SPACE, 6, algorithm="random", storage=storage)
    seed = more.optimizer.seed
    assert first.optimizer.seed == seed
    whole = augury.minimize(value, SPACE, 6, algorithm="random", seed=seed)
    assert [t.params for t in more.trials] == [pytest.approx(dict(t.params)) for t in whole.trials]


def test_a_run_with_nothing_left_says_so(tmp_path):
    settings = {"algorithm": "sobol", "seed": 0, "storage": tmp_path / "s.db"}
    few = augury.minimize(lambda p: p["x"], LINE, 1, max_seconds=0, **settings)
    assert (few.stopped_because, few.trials) == ("max_seconds=0 have passed", ())
    augury.minimize(lambda p: p["x"], LINE, 1, **settings)
    again = augury.minimize(lambda p: p["x"], LINE, 1, max_seconds=0, **settings)
    assert again.stopped_because == "the budget of 1 evaluations is spent"


def test_a_run_whose_target_was_reached_before_does_not_go_on(tmp_path):
    settings = {"algorithm": "sobol", "seed": 0, "storage": tmp_path / "s.db", "target": 0.1}
    first = augury.minimize(lambda p: p["x"], LINE, 40, **settings)
    again = augury.minimize(lambda p: p["x"], LINE, 40, **settings)
    assert points(again) == points(first)
    assert again.stopped_because == "the target 0.1 was reached"
    more = augury.minimize(lambda p: p["x"], LINE, 40, **{**settings, "target": -1.0})
    assert len(more.trials) == 40


def test_failures_count_and_are_explained(tmp_path):
    def broken(params):
        if params["x"] < 0.5:
            raise ValueError("too small")
        return float("nan") if params["x"] < 0.75 else params["x"]

    result = augury.minimize(broken, LINE, 12, algorithm="sobol", seed=0, storage=tmp_path / "s.db")
    reasons = {trial.reason for trial in result.trials}
    assert reasons == {None, "ValueError: too small", "the value is nan"}
    with pytest.warns(UserWarning, match="none of 2 evaluations succeeded"):
        augury.minimize(lambda p: None, LINE, 2, storage=tmp_path / "s.db", name="none", seed=0)


@pytest.mark.parametrize("kept", [False, True])
def test_failed_evaluations_are_made_again(tmp_path, kept):
    calls = Counter()

    def moody(params):
        calls[params["x"]] += 1
        if calls[params["x"]] < 3:
            raise ValueError("not now")
        return params["x"]

    storage = {"storage": tmp_path / "s.db"} if kept else {}
    settings = {"algorithm": "sobol", "seed": 0, **storage}
    result = augury.minimize(moody, LINE, 4, retries=2, **settings)
    assert [trial.state for trial in result.trials] == [State.COMPLETE] * 4
    assert set(calls.values()) == {3}
    assert len(result.optimizer.trials) == 4  # what was made again is one observation
    with pytest.raises(augury.UnsupportedError, match="retries must be"):
        augury.minimize(moody, LINE, 4, retries=-1)
    calls.clear()
    with pytest.warns(UserWarning, match="none of 2 evaluations succeeded"):
        failed = augury.minimize(moody, LINE, 2, retries=1, **settings | {"name": "one"})
    assert [trial.reason for trial in failed.trials] == ["ValueError: not now"] * 2


def test_a_pool_and_a_space_that_runs_out(tmp_path):
    features = np.random.default_rng(0).random((6, 2))
    settings = {"algorithm": "gp-ei", "seed": 0, "storage": tmp_path / "s.db"}
    result = augury.minimize(lambda p: features[p["index"]].sum(), Pool(features), 10, **settings)
    assert result.stopped_because == "all 6 points of the space have been evaluated"
    assert sorted(trial.params["index"] for trial in result.trials) == list(range(6))
    few = augury.minimize(lambda p: p["n"], Space(n=Int(1, 3)), 5, name="few", **settings)
    assert len(few.trials) == 3
    again = augury.minimize(lambda p: p["n"], Space(n=Int(1, 3)), 5, name="few", **settings)
    assert len(again.trials) == 3


def test_points_that_others_evaluate_are_not_left_in_a_space(tmp_path):
    few = Pool([[0.0], [0.5], [1.0]])
    settings = {"algorithm": "random", "seed": 0}
    with (
        Book(tmp_path / "s.db", "s", few, "minimize", 9, **settings) as one,
        Book(tmp_path / "s.db", "s", few, "minimize", 9, **settings) as two,
    ):
        assert len({trial.params["index"] for trial in one.ask(3)}) == 3
        assert two.ask(1) == []


def test_another_study_under_the_name_is_refused_and_untouched(tmp_path):
    storage = tmp_path / "s.db"
    augury.minimize(value, SPACE, 2, algorithm="random", seed=0, storage=storage)
    for call, error in (
        (
            lambda: augury.maximize(value, SPACE, 3, storage=storage),
            "must be one to maximize; got one to",
        ),
        (
            lambda: augury.minimize(value, LINE, 3, storage=storage),
            "must be one of this space; got one of",
        ),
    ):
        with pytest.raises(DataError, match=error):
            call()
    study = optuna.create_study(storage=f"sqlite:///{storage}", study_name="plain")
    study.optimize(lambda trial: trial.suggest_float("x", 5.0, 6.0), n_trials=1)
    with pytest.raises(DataError, match="trial 0 of another"):
        augury.minimize(value, LINE, 3, storage=storage, name="plain")
    bounded = optuna.create_trial(
        value=1.0, params={"x": 0.5}, distributions=distributions_of(LINE), constraints={"heat": 1.0}
    )
    study = optuna.create_study(storage=f"sqlite:///{storage}", study_name="bounded")
    study.add_trial(bounded)
    with pytest.raises(DataError, match="knows no constraints; got some in trial 0"):
        augury.minimize(value, LINE, 3, storage=storage, name="bounded", algorithm="sobol")
    assert len(study.trials) == 1
    names = optuna.get_all_study_names(f"sqlite:///{storage}")
    assert sorted(names) == ["augury", "bounded", "plain"]
    assert len(optuna.load_study(storage=f"sqlite:///{storage}", study_name="augury").trials) == 2


def test_a_study_that_another_process_is_creating_is_its_own(tmp_path):
    """It has created the study, and says what it is about a moment later."""
    storage = open_storage(tmp_path / "s.db")
    about = json.dumps({"version": 1, "space": describe_space(LINE), "seed": 77})

    def create(name):
        study = optuna.create_study(storage=storage, study_name=name)
        ((key, text),) = notes.pieces(ABOUT, about)
        threading.Timer(0.3, storage.set_study_system_attr, (study._study_id, key, text)).start()

    create("one")
    one = Book(tmp_path / "s.db", "one", LINE, "minimize", 1, "sobol", None)
    assert one.optimizer.seed == 77
    create("two")
    with pytest.raises(DataError, match="must be one of this space; got one of another"):
        Book(tmp_path / "s.db", "two", SPACE, "minimize", 1, "sobol", None)


def test_a_study_of_optunas_goes_on(tmp_path):
    storage = f"sqlite:///{tmp_path / 's.db'}"
    study = optuna.create_study(storage=storage, study_name="plain")
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=4)
    result = augury.minimize(lambda p: p["x"], LINE, 7, algorithm="gp-ei", storage=storage, name="plain")
    assert len(result.trials) == 7
    assert result.trials[-1].info["chosen"].startswith("GaussianProcess")


@pytest.mark.parametrize(("make", "words"), [
    (lambda folder: "", "must be a path, a URL"),
    (lambda folder: folder / "none" / "s.db", "does not exist"),
    (lambda folder: folder, "directory"),
    (lambda folder: folder / "text.db", "not a database"),
    (lambda folder: f"journal:///{folder / 'text.db'}", "Expecting value"),
    (lambda folder: f"journal:///{folder / 'other.json'}", "it is no journal of Optuna's"),
    (lambda folder: f"journal:///{folder / 'list.json'}", "it is no journal of Optuna's"),
    (lambda folder: "sqlite:///:memory:", "got a database in memory"),
    (lambda folder: "sqlite://", "got a database in memory"),
    (lambda folder: "nonsense://x", "no URL"),
    (lambda folder: "postgresql://me:s3cret@localhost:1/x", "driver|refused"),
])  # fmt: skip
def test_a_storage_that_cannot_be_used_is_one_sentence(tmp_path, make, words):
    (tmp_path / "text.db").write_text("no database\n" * 200, encoding="ascii")
    (tmp_path / "other.json").write_text('{"a": 1}\n', encoding="ascii")
    (tmp_path / "list.json").write_text("[1]\n", encoding="ascii")
    before = set(tmp_path.iterdir())
    with pytest.raises(StorageError, match=words) as caught:
        augury.minimize(value, SPACE, 2, storage=make(tmp_path))
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert set(tmp_path.iterdir()) == before


def test_tables_of_another_version_of_optuna_are_one_sentence(tmp_path):
    augury.minimize(value, SPACE, 1, algorithm="random", storage=tmp_path / "s.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'v2.4.0.a'")
        connection.commit()
    for only_read in (False, True):
        with pytest.raises(StorageError, match="its tables are of another version of Optuna"):
            open_storage(tmp_path / "s.db", only_read=only_read)


def test_a_study_needs_a_name(tmp_path):
    for name in ("", None, 3):
        with pytest.raises(StorageError, match="the name of a study must be a text"):
            augury.minimize(value, SPACE, 2, storage=tmp_path / "s.db", name=name)


def test_passwords_are_hidden():
    url = "postgresql+psycopg://someone:p4ss:w@example:5432/db"
    assert without_password(url) == "postgresql+psycopg://someone:***@example:5432/db"
    assert hidden(url, "cannot connect with p4ss:w") == "cannot connect with ***"
    assert without_password("sqlite:///x.db") == "sqlite:///x.db"
    for url, said in (
        ("postgresql://bob:s3c@ret@host:1/db", "no host ret@host, nor s3c@ret"),
        ("postgresql://host:1/db?user=bob&password=s3c%40ret", "s3c@ret and s3c%40ret are wrong"),
        ("postgresql:/bob:s3cret@host/db", "no such file: postgresql:/bob:s3cret@host/db"),
        ("postgresql://bob@corp:s3cret@host/db", "s3cret is wrong"),
        ("postgresql://host/db?sslpassword=s3cret", "s3cret is wrong"),
        ("mysql://host/db?user=bob&PASSWD=s3cret", "s3cret is wrong"),
    ):
        assert "ret" not in without_password(url)
        assert "ret" not in hidden(url, said)


def test_sqlite_files_are_shared_patiently(tmp_path):
    storage = open_storage(tmp_path / "s.db")
    with storage.engine.connect() as connection:
        mode, patience, synchronous = (
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "busy_timeout", "synchronous")
        )
    assert (mode, patience, synchronous) == ("wal", 60_000, 1)


def test_errors_of_a_storage_that_do_not_pass_end_the_run_at_once(tmp_path, caplog):
    def drops(params):
        with contextlib.closing(sqlite3.connect(tmp_path / "s.db")) as connection:
            connection.execute("DROP TABLE trial_values")
        return 1.0

    begun = time.monotonic()
    with pytest.raises(StorageError, match="no such table: trial_values"):
        augury.minimize(drops, LINE, 3, algorithm="random", storage=tmp_path / "s.db")
    assert time.monotonic() - begun < 20.0
    assert "does not answer" not in caplog.text


def test_which_errors_of_a_storage_may_pass(tmp_path):
    locked = sqlite3.connect(tmp_path / "s.db")
    locked.execute("CREATE TABLE t (x)")
    locked.execute("BEGIN EXCLUSIVE")
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 's.db'}", connect_args={"timeout": 0})

    def error_of(statement):
        with engine.connect() as connection, pytest.raises(sqlalchemy.exc.SQLAlchemyError) as caught:
            connection.exec_driver_sql(statement)
        return caught.value

    assert may_pass(error_of("SELECT * FROM t"))
    locked.close()
    assert not may_pass(error_of("SELECT * FROM none"))
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
    assert not may_pass(error_of("INSERT INTO t VALUES (1)"))
    engine.dispose()
    assert may_pass(StorageInternalError("of unknown cause"))
    assert may_pass(ConnectionResetError("reset"))
    assert not may_pass(PermissionError("not yours"))


def test_an_enqueued_trial_of_wrong_values_is_left_out_and_said(tmp_path, caplog):
    study = optuna.create_study(storage=f"sqlite:///{tmp_path / 's.db'}", study_name="augury")
    for bad in ({"x": "abc"}, {"x": None}, {"x": 0.25}):
        study.enqueue_trial(bad)
    settings = {"algorithm": "gp-ei", "seed": 0, "storage": tmp_path / "s.db"}
    result = augury.minimize(lambda p: p["x"], LINE, 2, **settings)
    assert [trial.number for trial in result.trials] == [2, 3]
    assert result.trials[0].params == {"x": 0.25}
    assert "trial 0 is left out: the enqueued value of 'x' must be one of its own" in caplog.text
    assert [trial.state for trial in study.trials[:2]] == [TrialState.FAIL] * 2
    sampled = optuna.create_study(sampler=augury.AugurySampler("random", space=LINE))
    sampled.enqueue_trial({"x": "abc"})
    with pytest.raises(ValueError, match="abc"):
        sampled.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=1)
    assert sampled.trials[0].state is TrialState.FAIL  # as with other samplers


@pytest.mark.parametrize("bad", [{"x": Float(0.0, 1.0)}, None, 3])
def test_what_is_no_space_is_said(tmp_path, bad):
    write = r"Space\(\{\.\.\.\}\)" if isinstance(bad, dict) else r"Space\(x="
    for storage in (None, tmp_path / "s.db"):
        with pytest.raises(augury.UnsupportedError, match=rf"must be a Space or a Pool.*augury\.{write}"):
            augury.minimize(value, bad, 2, storage=storage)
    assert not (tmp_path / "s.db").exists()
