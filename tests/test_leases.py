"""Leases of trials, trials that are taken back and repeated, and results that come late."""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import optuna
import pytest
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.trial import TrialState

import augury
from augury.studies import leases
from augury.studies.book import REASON, SPENT, Book
from augury.studies.mirror import GONE, LOST, Mirror
from augury.studies.repeats import AGAIN, RETRY_OF
from augury.studies.spaces import distributions_of
from augury.studies.storages import open_storage
from augury.trial import State
from known_study import LINE, SPACE, value


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def test_a_lease_of_a_dead_process_has_expired_at_once_and_a_silent_one_later():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    lease = json.dumps([leases.host(), child.pid, leases.started(child.pid), 0])
    assert not leases.is_dead(lease)
    now = [0.0]
    watcher = leases.Watcher(10.0, lambda: now[0])
    study = optuna.create_study()
    study.ask()
    trial = study.trials[0]

    def seen(text, at):
        now[0] = at
        trial.system_attrs = {} if text is None else {leases.LEASE: text}
        return watcher.expired(trial)

    assert seen(lease, 0.0) is None
    assert seen(lease, 9.0) is None
    assert seen(lease.replace(" 0]", " 1]"), 11.0) is None  # raised meanwhile
    assert "no sign for 10 seconds" in seen(lease.replace(" 0]", " 1]"), 21.5)
    elsewhere = json.dumps(["another host", child.pid, "0", 0])
    assert seen(elsewhere, 22.0) is None
    assert "no sign" in seen(elsewhere, 33.0)
    assert seen(None, 34.0) is None
    assert seen(None, 99.0) is None  # no run has begun it
    child.communicate()
    assert seen(lease, 46.0) == "its process died"
    assert leases.is_dead(json.dumps([leases.host(), os.getpid(), "0", 0]))  # it has a number again
    for broken in ("", "x", "[1]", 7):
        assert not leases.is_dead(broken)


def test_a_process_of_a_container_is_not_dead_because_its_number_is_not_here():
    inside = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    code = "from augury.studies.leases import Holder; print(Holder(None).lease(), flush=True); input()"
    try:
        subprocess.run([*inside, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no containers can be made here")
    command, pipe = [*inside, sys.executable, "-c", code], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        lease = child.stdout.readline()
        dead = leases.is_dead(lease)
        child.communicate("\n")
    assert json.loads(lease)[1] == 1  # its number, which is another process's here
    assert not dead


def test_a_process_that_is_hidden_from_us_is_not_dead(monkeypatch):
    """As with hidepid=2, which hides those of other users below /proc."""

    def refused(pid, number):
        raise PermissionError

    lease = json.dumps([leases.host(), 1, "77", 0])
    hidden_path, whole = "/proc/1/stat", leases.Path
    monkeypatch.setattr(leases, "Path", lambda path: whole("/none" if path == hidden_path else path))
    monkeypatch.setattr(os, "kill", refused)
    assert not leases.is_dead(lease)


def test_a_lease_is_raised_while_its_trial_runs(tmp_path):
    storage = open_storage(tmp_path / "s.db")
    study = optuna.create_study(storage=storage)
    trial = study.ask()
    with leases.Holder(storage, seconds=0.2) as holder:
        holder.take(trial._trial_id)
        counts = set()
        until = time.monotonic() + 20.0
        while len(counts) < 3 and time.monotonic() < until:
            counts.add(json.loads(study.trials[0].system_attrs[leases.LEASE])[3])
        study.tell(trial, 1.0)  # a finished trial cannot be changed, and that is no error
        time.sleep(0.2)
        holder.leave(trial._trial_id)
    assert len(counts) == 3


def book(tmp_path, budget=10, **settings):
    settings = {"algorithm": "random", "seed": 0, **settings}
    return Book(tmp_path / "s.db", "s", LINE, "minimize", budget, **settings)


def dead_lease():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = leases.started(child.pid)  # while it is there
    child.communicate(b"\n")
    return json.dumps([leases.host(), child.pid, started, 0])


def abandon(owner, number):
    """As if the process that evaluates a trial had been killed."""
    identity = owner._held[number]
    owner._holder.leave(identity)
    owner._storage.set_trial_system_attr(identity, leases.LEASE, dead_lease())


def test_a_trial_of_a_dead_process_is_repeated_at_most_three_times(tmp_path):
    numbers = []
    with book(tmp_path) as one, book(tmp_path) as two:
        (trial,) = one.ask(1)
        point = dict(trial.params)
        for _ in range(4):
            numbers.append(trial.number)
            abandon(one, trial.number)
            (trial,) = two.ask(1)
            one, two = two, one  # the other one holds it now
            if len(numbers) < 4:
                assert dict(trial.params) == point
        assert dict(trial.params) != point
        frozen = one._study.trials
        assert [LOST in one.system_attrs for one in frozen] == [True] * 3 + [False] * 2
        repeats = [json.loads(trial.system_attrs[RETRY_OF]) for trial in frozen[1:4]]
        assert repeats == [[0, 1, 0], [1, 2, 0], [2, 3, 0]]
        assert one.done == 1  # after three repetitions it has failed
        one.tell(trial, 1.0)
        assert one.done == 2
        for owner in (one, two):
            owner._held.clear()


def late(tmp_path):
    """Two processes: the first is slow, and the second has taken its trial back."""
    slow, quick = book(tmp_path), book(tmp_path)
    (trial,) = slow.ask(1)
    quick._lose(quick._study.trials[0], "its process gave no sign")
    return slow, quick, trial


def test_a_late_result_withdraws_a_retry_that_waits(tmp_path):
    slow, quick, trial = late(tmp_path)
    assert quick._study.trials[1].state is TrialState.WAITING
    slow.tell(trial, 0.5)
    lost, retry, own = slow._study.trials
    assert (lost.state, retry.state, own.state) == (
        TrialState.FAIL, TrialState.FAIL, TrialState.COMPLETE)  # fmt: skip
    assert GONE in retry.system_attrs
    assert json.loads(own.system_attrs["augury:retry_of"]) == [0, 0, 0]  # the trial, losses, failures
    assert own.params == trial.params
    assert slow.done == 1
    assert quick.optimizer.best.value == 0.5


def test_a_late_result_replaces_a_retry_that_runs(tmp_path, caplog):
    slow, quick, trial = late(tmp_path)
    (retry,) = quick.ask(1)
    assert retry.params == trial.params
    slow.tell(trial, 0.5)
    with caplog.at_level(logging.WARNING, "augury"):
        quick.tell(retry, 0.75)
    assert "came to [0.75], but the value of trial 0 came late" in caplog.text
    assert [t.state.name for t in slow._study.trials] == ["FAIL", "FAIL", "COMPLETE"]
    assert slow.done == quick.done == 1


def test_a_late_result_replaces_the_repetition_of_a_repetition(tmp_path):
    slow, quick, trial = late(tmp_path)
    (retry,) = quick.ask(1)
    quick._give_up(retry.number, "its worker died")
    (again,) = quick.ask(1)
    assert (again.number, again.params) == (2, trial.params)
    slow.tell(trial, 0.5)
    quick.tell(again, 0.75)
    assert [t.state.name for t in slow._study.trials] == ["FAIL", "FAIL", "FAIL", "COMPLETE"]
    assert slow.done == 1


def test_a_result_that_comes_after_its_retry_is_dropped(tmp_path, caplog):
    slow, quick, trial = late(tmp_path)
    (retry,) = quick.ask(1)
    quick.tell(retry, 0.75)
    with caplog.at_level(logging.WARNING, "augury"):
        slow.tell(trial, 0.5)
    assert "came too late and is dropped" in caplog.text
    assert [t.state.name for t in slow._study.trials] == ["FAIL", "COMPLETE"]
    assert slow.done == 1


@pytest.mark.parametrize("first", ["late", "repetition"])
def test_of_a_late_result_and_a_repetition_that_ends_with_it_one_counts(tmp_path, monkeypatch, first):
    """One process has looked at the trials, and the other one writes before it does."""
    slow, quick, trial = late(tmp_path)
    (retry,) = quick.ask(1)
    looks, others = (quick._storage, slow) if first == "late" else (slow._study, quick)
    name = "get_trial" if first == "late" else "get_trials"
    whole = getattr(looks, name)

    def look_then_wait(*arguments, **settings):
        monkeypatch.undo()
        seen = whole(*arguments, **settings)
        others.tell(trial if first == "late" else retry, 0.5)
        return seen

    monkeypatch.setattr(looks, name, look_then_wait)
    (slow if first == "repetition" else quick).tell(trial if first == "repetition" else retry, 0.75)
    assert slow.done == 1
    assert [t.value for t in slow._study.trials if t.state is TrialState.COMPLETE] == [0.5]


def test_of_two_late_results_of_one_point_one_counts(tmp_path, caplog):
    slow, slower, trial = late(tmp_path)
    (retry,) = slower.ask(1)
    with book(tmp_path) as quick:
        quick._lose(quick._study.trials[1], "its process gave no sign")
        slow.tell(trial, 0.5)
        slower.tell(retry, 0.75)
        assert quick.done == 1
    assert "the value 0.75 of trial 1 came too late and is dropped" in caplog.text


def test_the_place_of_a_late_result_is_kept_while_it_is_written(tmp_path):
    slow, quick, trial = late(tmp_path)
    quick.ask(1)
    with book(tmp_path, budget=1) as other:
        asked = []

        def add_slowly(new):
            asked.extend(other.ask(1))
            type(slow._study).add_trial(slow._study, new)

        slow._study.add_trial = add_slowly
        slow.tell(trial, 0.5)
        assert asked == other.ask(1) == []


def test_a_late_result_that_was_never_written_is_not_waited_for(tmp_path):
    slow, quick, trial = late(tmp_path)
    quick.ask(1)

    def killed(new):
        raise SystemExit

    slow._study.add_trial = killed
    with pytest.raises(SystemExit):
        slow.tell(trial, 0.5)
    with book(tmp_path, budget=1) as other:
        assert len(other.ask(1) + other.ask(1)) == 1


def test_a_value_of_a_trial_that_failed_for_good_is_logged(tmp_path, caplog):
    with book(tmp_path) as slow:
        (trial,) = slow.ask(1)
        slow._storage.set_trial_system_attr(slow._held[0], REASON, "its process died too often")
        slow._storage.set_trial_state_values(slow._held[0], TrialState.FAIL)
        with caplog.at_level(logging.WARNING, "augury"):
            assert slow.tell(trial, 0.5).state is State.FAILED
        assert "the value 0.5 of trial 0 came too late and is dropped" in caplog.text
        assert slow.done == 1


def test_trials_of_optunas_own_processes_are_left_alone(tmp_path):
    """They have no lease, and no run waits for them or takes them back."""
    storage = open_storage(tmp_path / "s.db")
    study = optuna.create_study(storage=storage, study_name="s")
    study.enqueue_trial({"x": 0.25})
    theirs = [study.ask(distributions_of(LINE)) for _ in range(2)]
    with book(tmp_path, budget=2, lease=0.05) as one:
        for _ in range(2):
            (trial,) = one.ask(1)
            one.tell(trial, 1.0)
            time.sleep(0.1)
        assert one.ask(1) == []
        assert one.done == 2
    assert [trial.state.name for trial in study.trials] == ["RUNNING"] * 2 + ["COMPLETE"] * 2
    study.tell(theirs[0], 0.5)
    assert study.best_value == 0.5


def test_a_trial_that_waits_is_claimed_before_it_runs(tmp_path):
    """A process that is killed in between leaves none that nobody takes back."""
    with book(tmp_path) as one, book(tmp_path) as two:
        one._study.enqueue_trial({"x": 0.25})
        waiting = one._study.trials[0]

        def killed(identity, state, values=None):
            raise SystemExit

        whole, one._storage.set_trial_state_values = one._storage.set_trial_state_values, killed
        with pytest.raises(SystemExit):
            one.ask(1)
        one._storage.set_trial_state_values = whole
        assert leases.CLAIM in one._study.trials[0].system_attrs
        whole(waiting._trial_id, TrialState.RUNNING)
        one._storage.set_trial_system_attr(waiting._trial_id, leases.CLAIM, dead_lease())
        (again,) = two.ask(1)
        assert again.params == {"x": 0.25}
        two._storage.set_trial_system_attr(two._held[1], leases.CLAIM, dead_lease())
        assert one._watcher.expired(one._study.trials[1]) is None  # of who did not begin it


@pytest.mark.parametrize("mark", [{LOST: "its process died"}, {REASON: "no", GONE: AGAIN}])
def test_what_a_process_gave_up_before_it_ended_is_repeated_once(tmp_path, mark):
    """The process was killed, or the storage went away, between the end of a trial and its repetition."""
    with book(tmp_path) as one, book(tmp_path) as two, book(tmp_path) as three:
        (trial,) = one.ask(1)
        identity = one._held.pop(trial.number)
        for key, text in mark.items():
            one._storage.set_trial_system_attr(identity, key, text)
        one._storage.set_trial_state_values(identity, TrialState.FAIL)
        asked = [owner.ask(1)[0] for owner in (two, three, two, three)]
        assert [one.params == trial.params for one in asked] == [False, False, True, False]
        lost = LOST in mark
        repeats = [t.system_attrs[RETRY_OF] for t in one._study.trials if RETRY_OF in t.system_attrs]
        assert repeats == [json.dumps([0, int(lost), int(not lost)])]


@pytest.mark.parametrize("begun", [False, True])
def test_the_place_of_a_trial_that_is_taken_back_is_kept_for_its_repetition(tmp_path, monkeypatch, begun):
    """Another process asks for a trial, or has just begun one, before the repetition is enqueued."""
    with book(tmp_path, budget=2) as one, book(tmp_path, budget=2) as two:
        (first,) = one.ask(1)
        (second,) = one.ask(1)
        free, whole, others = two._free, one._repeat, []
        monkeypatch.setattr(two, "_free", lambda trials: 1 if begun else free(trials))

        def ask_before(identity):
            others.extend(two.ask(1))
            whole(identity)

        monkeypatch.setattr(one, "_repeat", ask_before)
        one._give_up(second.number, "its worker died")
        assert others == []
        (again,) = two.ask(1)
        assert again.params == second.params
        two.tell(again, 1.0)
        one.tell(first, 1.0)
        assert one.done == 2


def test_a_repetition_that_was_enqueued_twice_is_evaluated_once(tmp_path):
    with book(tmp_path, budget=1) as one:
        (trial,) = one.ask(1)
        one._give_up(trial.number, "its worker died")
        waiting = one._study.trials[1]
        attributes = dict(waiting.system_attrs)
        for _ in range(2):
            one._study.add_trial(optuna.create_trial(state=TrialState.WAITING, system_attrs=attributes))
        (again,) = one.ask(1)
        assert again.number == 1
        one.tell(again, 1.0)
    assert [t.state.name for t in one._study.trials] == ["FAIL", "COMPLETE", "FAIL", "FAIL"]
    assert [t.system_attrs.get(GONE) for t in one._study.trials[2:]] == [SPENT] * 2
    with book(tmp_path, budget=2) as two:  # the same with some of the budget left
        one._study.add_trial(optuna.create_trial(state=TrialState.WAITING, system_attrs=attributes))
        (other,) = two.ask(1)
        assert other.params != trial.params
        assert one._study.trials[4].system_attrs[GONE] == "another trial is in its place"


@pytest.mark.parametrize("which", ["repetition", "late value"])
def test_what_the_storage_did_not_confirm_is_not_written_twice(tmp_path, which):
    """The storage goes away when it has added a trial, before it answers."""
    slow, quick, trial = late(tmp_path)
    added = []

    def add_and_fail(new):
        type(slow._study).add_trial(slow._study, new)
        added.append(new)
        raise StorageInternalError("gone")

    slow._study.add_trial = add_and_fail
    if which == "late value":
        slow.tell(trial, 0.5)
        assert [t.state.name for t in quick._study.trials] == ["FAIL", "FAIL", "COMPLETE"]
    else:
        (retry,) = slow.ask(1)
        slow._give_up(retry.number, "its worker died")
        assert [t.state.name for t in quick._study.trials] == ["FAIL", "FAIL", "WAITING"]
    assert len(added) == 1
    assert slow.done == (which == "late value")


@pytest.mark.parametrize("begins", [True, False], ids=["begin", "end"])
def test_of_several_that_begin_or_end_a_trial_one_succeeds(tmp_path, begins):
    """SQLite has no SELECT … FOR UPDATE, on which Optuna relies."""
    places = [open_storage(tmp_path / "s.db") for _ in range(3)]
    study = optuna.create_study(storage=places[0])
    state = TrialState.WAITING if begins else TrialState.RUNNING
    trials = [
        places[0].create_new_trial(study._study_id, optuna.create_trial(state=state)) for _ in range(60)
    ]
    together = threading.Barrier(len(places))

    def change(place):
        won = []
        for trial in trials:
            together.wait(30)
            try:
                if place.set_trial_state_values(trial, TrialState.RUNNING if begins else TrialState.FAIL):
                    won.append(trial)
            except UpdateFinishedTrialError:
                assert not begins
        return won

    with ThreadPoolExecutor(len(places)) as threads:
        won = [trial for mine in threads.map(change, places) for trial in mine]
    assert sorted(won) == trials


def test_the_best_of_a_run_is_one_of_its_complete_trials(tmp_path):
    """The model knows pruned trials too, and what was told after the run has looked."""
    study = optuna.create_study(storage=open_storage(tmp_path / "s.db"), study_name="augury")
    pruned = study.ask(distributions_of(LINE))
    pruned.report(-5.0, 1)
    study.tell(pruned, state=TrialState.PRUNED)
    result = augury.minimize(lambda p: p["x"], LINE, 3, storage=tmp_path / "s.db", algorithm="sobol")
    assert result.best.value == min(
        trial.value for trial in result.trials if trial.state is State.COMPLETE
    )


def test_an_interrupt_while_a_point_is_chosen_leaves_no_trial_behind(tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(Mirror, "suggest", interrupted)
        result = augury.minimize(value, SPACE, 1, storage=tmp_path / "s.db", algorithm="sobol", seed=0)
    assert result.stopped_because == "it was interrupted"
    assert result.trials == ()
    begun = time.monotonic()
    result = augury.minimize(value, SPACE, 1, storage=tmp_path / "s.db", algorithm="sobol", seed=0)
    assert len(result.trials) == 1
    assert time.monotonic() - begun < 30.0  # no lease had to run out


def test_interrupts_say_nothing_about_a_point(tmp_path):
    for _ in range(6):
        with Book(tmp_path / "s.db", "augury", LINE, "minimize", 1, "sobol", 0) as book:
            (trial,) = book.ask(1)
        book.close()
    result = augury.minimize(
        lambda p: p["x"], LINE, 1, storage=tmp_path / "s.db", algorithm="sobol", seed=0
    )
    assert [one.state for one in result.trials] == [State.COMPLETE]
    assert result.best.params == trial.params
