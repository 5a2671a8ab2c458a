"""Random sequences of operations, against a model of what an optimizer must remember."""

import json
import math
import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from augury import AuguryError, Choice, DataError, Float, Int, Optimizer, Space, SpaceExhausted
from augury.trial import Origin, State

# two columns each, so that they share compiled code with other tests
FINITE = Space(i=Int(0, 3), c=Choice(["a", "b", None], ordered=True))
MIXED = Space(x=Float(1e-3, 1.0, log=True), c=Choice([True, 1, "1"], ordered=True), n=Int(7, 7))
VALUES = st.floats(allow_nan=True, allow_infinity=True)
SEEDS = st.integers(0, 2**63 - 1)


def ask(opt, count):
    """So many points, or fewer with one warning."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        trials = opt.ask(count)
    short = [f"{count} points were asked for, and" in str(warning.message) for warning in said]
    assert short == [True] * (len(trials) < count)
    return trials


class Session(RuleBasedStateMachine):
    """Ask, tell, fail, enqueue and save in any order; `expected` is what must be remembered."""

    algorithms = st.sampled_from(["random", "sobol"])
    warm_start = ()

    @initialize(
        data=st.data(),
        space=st.sampled_from([FINITE, MIXED]),
        direction=st.sampled_from(["minimize", "maximize"]),
        duplicates=st.sampled_from(["avoid", "avoid", "allow"]),
        seed=SEEDS,
    )
    def start(self, data, space, direction, duplicates, seed):
        self.opt = Optimizer(
            space, data.draw(self.algorithms), direction, seed=seed, initial=3, duplicates=duplicates
        )
        self.points = []  # of all trials, by number
        self.outcomes = {}  # what was told, by number; a failure is None
        self.queue = []
        for value in self.warm_start:
            self.tell_from_elsewhere(seed, value)

    def point(self, seed):
        """Some valid point."""
        rows, _ = self.opt.space.draw(1, np.random.default_rng(seed))
        return self.opt.space.decode(rows[0])

    def room(self):
        """How many points can still be asked beside the queue."""
        if self.opt.duplicates == "allow" or not self.opt.space.is_finite:
            return math.inf
        return self.opt.space.size - len({tuple(p.values()) for p in self.points})

    def check_asked(self, trials, count):
        queued = self.queue[:count]
        self.queue = self.queue[count:]
        assert [trial.params for trial in trials[: len(queued)]] == queued
        for trial in trials:
            assert trial.number == len(self.points)
            assert trial.state is State.PENDING
            assert self.opt.space.check(trial.params) == trial.params
            fresh = trial.origin is not Origin.ENQUEUED
            if fresh and self.opt.duplicates == "avoid" and self.opt.space.is_finite:
                assert trial.params not in self.points
            self.points.append(dict(trial.params))

    @rule(count=st.integers(1, 4))
    def ask(self, count):
        before = self.room()
        try:
            trials = ask(self.opt, count)
        except SpaceExhausted:
            assert not self.queue
            assert before == 0
            return
        self.check_asked(trials, count)
        assert len(trials) == count or self.room() == 0

    @precondition(lambda self: len(self.outcomes) < len(self.points))
    @rule(data=st.data(), value=VALUES)
    def tell(self, data, value):
        waiting = [number for number in range(len(self.points)) if number not in self.outcomes]
        number = data.draw(st.sampled_from(waiting))
        told = self.opt.tell(self.opt.trials[number], value)
        assert told is self.opt.trials[number]
        self.outcomes[number] = value if math.isfinite(value) else None
        self.opt.tell(told, value)  # once more: ignored
        with pytest.raises(DataError):
            self.opt.tell(told, 0.123456789)

    @precondition(lambda self: len(self.outcomes) < len(self.points))
    @rule(data=st.data())
    def fail(self, data):
        waiting = [number for number in range(len(self.points)) if number not in self.outcomes]
        number = data.draw(st.sampled_from(waiting))
        self.opt.tell(self.opt.trials[number], failed=True, reason="it did")
        self.outcomes[number] = None

    @rule(seed=SEEDS, value=VALUES)
    def tell_from_elsewhere(self, seed, value):
        params = self.point(seed)
        trial = self.opt.tell(params, value)
        assert trial.number == len(self.points)
        self.points.append(params)
        self.outcomes[trial.number] = value if math.isfinite(value) else None

    @rule(seed=SEEDS)
    def enqueue(self, seed):
        self.queue.append(self.point(seed))
        self.opt.enqueue(self.queue[-1])

    @rule(bad=st.sampled_from([{}, {"i": 99}, None, 3, {"x": "0.5", "n": 7, "c": True}]))
    def mistakes_change_nothing(self, bad):
        before = self.opt.to_json()
        for mistake in (lambda: self.opt.tell(bad, 1.0), lambda: self.opt.enqueue(bad)):
            with pytest.raises(AuguryError):
                mistake()
        assert self.opt.to_json() == before

    @rule()
    def save_and_go_on(self):
        text = self.opt.to_json()
        restored = Optimizer.from_json(text)
        assert restored.to_json() == text
        json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))
        try:
            asked = ask(self.opt, 2)
        except SpaceExhausted:
            with pytest.raises(SpaceExhausted):
                ask(restored, 2)
        else:
            assert [t.params for t in ask(restored, 2)] == [t.params for t in asked]
            self.opt = restored
            self.check_asked(restored.trials[-len(asked) :], 2)
        self.opt = restored
        if any(value is not None for value in self.outcomes.values()):
            assert restored.recommend().state is State.COMPLETE

    @invariant()
    def everything_is_remembered(self):
        trials = self.opt.trials
        assert [trial.number for trial in trials] == list(range(len(self.points)))
        assert [dict(trial.params) for trial in trials] == self.points
        pending = [trial.number for trial in trials if trial.state is State.PENDING]
        assert pending == [n for n in range(len(self.points)) if n not in self.outcomes]
        for number, value in self.outcomes.items():
            assert (trials[number].state is State.FAILED) == (value is None)
            assert value is None or trials[number].value == value

    @invariant()
    def the_best_is_the_best(self):
        finite = [value for value in self.outcomes.values() if value is not None]
        if not finite:
            with pytest.raises(DataError):
                _ = self.opt.best
            return
        best = min(finite) if self.opt.direction == "minimize" else max(finite)
        assert self.opt.best.value == best


class ModelSession(Session):
    """The same with a model, which is slower."""

    algorithms = st.just("gp-ei")
    warm_start = (1.0, -2.0, 0.5)


QUICK = {"deadline": None, "suppress_health_check": list(HealthCheck)}
Session.TestCase.settings = settings(max_examples=30, stateful_step_count=25, **QUICK)
ModelSession.TestCase.settings = settings(max_examples=4, stateful_step_count=10, **QUICK)
TestSession = Session.TestCase
TestModelSession = ModelSession.TestCase
