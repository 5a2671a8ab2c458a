"""Processes are killed, and the database goes away: nothing is lost. `make ordeal` kills more of them."""

import threading
import time
from pathlib import Path

import optuna
import pytest
import sqlalchemy
from optuna.trial import TrialState

import augury
import ordeal
import postgres
from augury import StorageError
from augury.studies.storages import close_storage, may_pass, open_storage

KILLS = 3


@pytest.fixture(scope="module")
def database():
    with postgres.server() as server:
        yield server


@pytest.mark.parametrize(
    ("kind", "processes", "budget"),
    [("postgresql", 8, 40), ("sqlite", 4, 24)],
    ids=["postgresql", "sqlite"],
)
def test_processes_that_share_a_study_are_killed(database, tmp_path, kind, processes, budget):
    storage = database.url if kind == "postgresql" else f"sqlite:///{tmp_path}/study.db"
    settings = {"processes": processes, "budget": budget, "kills": KILLS, "seed": processes}
    killed = ordeal.members(storage, tmp_path / "diary", **settings)
    assert killed == KILLS
    ordeal.check(storage, tmp_path / "diary", budget, budget + KILLS)


def test_a_driver_is_killed_and_its_workers_end_with_it(tmp_path):
    storage = f"sqlite:///{tmp_path}/study.db"
    settings = {"workers": 2, "budget": 20, "kills": KILLS, "seed": 0}
    killed = ordeal.drivers(storage, tmp_path / "diary", **settings)
    assert killed == KILLS
    ordeal.check(storage, tmp_path / "diary", 20, 20 + 2 * KILLS)


def test_the_database_is_away_for_ten_seconds(database, caplog):
    away = []

    def interrupt():
        database.stop()
        away.append(time.monotonic())
        time.sleep(10.0)
        away.append(time.monotonic())
        database.start()

    def function(params):
        if not away and params["x"] >= 0.0:
            thread.start()
            while not away:
                time.sleep(0.01)
        return ordeal.value(**params)

    thread = threading.Thread(target=interrupt)
    result = augury.minimize(
        function, ordeal.SPACE, 8, algorithm="sobol", seed=0, storage=database.url, name="away"
    )
    thread.join()
    assert away[1] - away[0] >= 10.0
    assert [trial.value for trial in result.trials] == [
        ordeal.value(**trial.params) for trial in result.trials
    ]
    assert len({tuple(trial.params.values()) for trial in result.trials}) == 8
    opened = open_storage(database.url)
    study = optuna.load_study(study_name="away", storage=opened)
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE] * 8
    close_storage(opened)
    assert "does not answer" in caplog.text
    assert postgres.PASSWORD not in caplog.text


def test_a_password_is_said_nowhere(database, caplog):
    wrong = database.url.replace(postgres.PASSWORD, "an0ther-one")
    with pytest.raises(StorageError, match="password authentication failed") as caught:
        augury.minimize(lambda p: 0.0, ordeal.SPACE, 1, storage=wrong)
    assert "an0ther-one" not in f"{caught.value}{caught.value.__cause__}{caplog.text}"


def test_which_errors_of_the_database_may_pass(database):
    url = database.url.replace("postgresql://", "postgresql+psycopg://")
    port = sqlalchemy.make_url(url).port
    for bad, passes in (
        (url.replace(postgres.PASSWORD, "an0ther-one"), False),
        (f"{url}s", False),  # no such database
        (url.replace(f":{port}/", ":1/"), True),  # nobody answers
    ):
        engine = sqlalchemy.create_engine(bad)
        with pytest.raises(sqlalchemy.exc.SQLAlchemyError) as caught:
            engine.connect()
        assert may_pass(caught.value) == passes
    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection, pytest.raises(sqlalchemy.exc.SQLAlchemyError) as caught:
        connection.exec_driver_sql("SELECT * FROM none_such")
    assert not may_pass(caught.value)
    engine.dispose()


def test_the_check_finds_what_is_wrong(tmp_path):
    """A point that is evaluated twice without a reason, and one that no trial knows."""
    storage, diary = f"sqlite:///{tmp_path}/study.db", tmp_path / "diary"
    ordeal.take_part(storage, 5, diary, 1, 0.0)
    ordeal.check(storage, diary, 5, 5)
    lines = diary.read_text()
    for wrong, words in (
        (lines + lines.splitlines()[0] + "\n", "more often"),
        (lines + "begin 0.125 0.5\n", "no trial knows"),
    ):
        Path(diary).write_text(wrong)
        with pytest.raises(AssertionError, match=words):
            ordeal.check(storage, diary, 5, 99)
    diary.write_text(lines)
    with pytest.raises(AssertionError):
        ordeal.check(storage, diary, 6, 99)
    optuna.load_study(study_name=ordeal.NAME, storage=storage).ask()
    with pytest.raises(AssertionError, match="final state"):
        ordeal.check(storage, diary, 5, 99)
