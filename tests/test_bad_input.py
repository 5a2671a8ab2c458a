"""Bad input gets a sentence and loses nothing: afterwards the optimizer is as it was, and works."""

import math

import numpy as np
import pytest

import augury
from augury import (
    AuguryError,
    Choice,
    DataError,
    Float,
    Int,
    Optimizer,
    Pool,
    Space,
    SpaceError,
    UnsupportedError,
)
from augury.core.data import Data
from augury.maximizers import Gradient, NelderMead, RandomGrid
from augury.policies import UCB, Thompson
from augury.policies.schedules import Constant, InformationGain
from augury.surrogates import GaussianProcess
from augury.trial import State, Trial

SPACE = Space(lr=Float(1e-3, 1.0, log=True), depth=Int(1, 4), act=Choice(["relu", "tanh"]))
POINT = {"lr": 0.1, "depth": 2, "act": "tanh"}
SENTENCE = r"(must|needs|need) .*; got .*\. [A-Z]"


@pytest.fixture
def opt():
    optimizer = Optimizer(SPACE, "random", seed=0)
    done, _ = optimizer.ask(2)
    optimizer.tell(done, 1.5)
    optimizer.enqueue(POINT)
    return optimizer


def pending(opt):
    return opt.trials[1]


class Rude:
    """An object that cannot even be looked at, such as a tensor on a device."""

    def __array__(self, *args, **kwargs):
        raise RuntimeError("I am elsewhere")


BAD_CALLS = {
    # what is told
    "tell nothing": (lambda o: o.tell(pending(o)), DataError),
    "tell None": (lambda o: o.tell(pending(o), None), DataError),
    "tell a reason alone": (lambda o: o.tell(pending(o), reason="why"), DataError),
    "tell a string": (lambda o: o.tell(pending(o), "0.5"), DataError),
    "tell a bool": (lambda o: o.tell(pending(o), True), DataError),
    "tell a complex": (lambda o: o.tell(pending(o), 1j), DataError),
    "tell a dict": (lambda o: o.tell(pending(o), {"loss": 1.0}), DataError),
    "tell two values": (lambda o: o.tell(pending(o), [1.0, 2.0]), DataError),
    "tell no values": (lambda o: o.tell(pending(o), []), DataError),
    "tell a matrix": (lambda o: o.tell(pending(o), np.zeros((2, 2))), DataError),
    "tell a ragged list": (lambda o: o.tell(pending(o), [[1.0], [1.0, 2.0]]), DataError),
    "tell an object": (lambda o: o.tell(pending(o), object()), DataError),
    "tell what cannot be read": (lambda o: o.tell(pending(o), Rude()), DataError),
    "tell a huge int": (lambda o: o.tell(pending(o), 10**400), DataError),
    # to whom
    "tell a number's value": (lambda o: o.tell(0, 1.0), DataError),
    "tell to None": (lambda o: o.tell(None, 1.0), DataError),
    "tell a list of trials": (lambda o: o.tell(list(o.trials), [1.0, 2.0]), DataError),
    "tell another value": (lambda o: o.tell(o.trials[0], 1.6), DataError),
    "tell a failure after a value": (lambda o: o.tell(o.trials[0], failed=True), DataError),
    "tell NaN after a value": (lambda o: o.tell(o.trials[0], math.nan), DataError),
    "a trial of another optimizer": (
        lambda o: o.tell(Optimizer(SPACE, "random", seed=0).ask(), 1.0),
        DataError,
    ),
    "a trial of one's own making": (lambda o: o.tell(Trial(1, POINT), 1.0), DataError),
    # points
    "a missing name": (lambda o: o.tell({"lr": 0.1, "depth": 2}, 1.0), SpaceError),
    "an unknown name": (lambda o: o.tell({**POINT, "width": 3}, 1.0), SpaceError),
    "a value below": (lambda o: o.tell({**POINT, "lr": 1e-9}, 1.0), SpaceError),
    "a value above": (lambda o: o.tell({**POINT, "depth": 5}, 1.0), SpaceError),
    "NaN as a parameter": (lambda o: o.tell({**POINT, "lr": math.nan}, 1.0), SpaceError),
    "a float for an int": (lambda o: o.tell({**POINT, "depth": 2.0}, 1.0), SpaceError),
    "a string for a float": (lambda o: o.tell({**POINT, "lr": "0.1"}, 1.0), SpaceError),
    "an unknown option": (lambda o: o.tell({**POINT, "act": "gelu"}, 1.0), SpaceError),
    "an empty dict": (lambda o: o.tell({}, 1.0), SpaceError),
    "a good point and a bad value": (lambda o: o.tell(POINT, "x"), DataError),
    "enqueue a bad point": (lambda o: o.enqueue({**POINT, "lr": 2.0}), SpaceError),
    "enqueue a list": (lambda o: o.enqueue([POINT]), SpaceError),
    "enqueue None": (lambda o: o.enqueue(None), SpaceError),
    # how many
    "ask for none": (lambda o: o.ask(0), UnsupportedError),
    "ask for fewer": (lambda o: o.ask(-1), UnsupportedError),
    "ask for a half": (lambda o: o.ask(0.5), UnsupportedError),
    "ask for True": (lambda o: o.ask(True), UnsupportedError),
    "ask for a word": (lambda o: o.ask("two"), UnsupportedError),
}


@pytest.mark.parametrize(("call", "kind"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_a_bad_call_changes_nothing(opt, call, kind):
    before = opt.to_json()
    with pytest.raises(kind, match=SENTENCE):
        call(opt)
    assert opt.to_json() == before
    opt.tell(pending(opt), 0.5)
    assert opt.best is opt.trials[1]
    enqueued, next_one = opt.ask(2)
    assert enqueued.params == POINT
    opt.tell(next_one, failed=True)
    assert opt.trials[3].state is State.FAILED


@pytest.mark.parametrize("value", [1.5, math.nan, math.inf, None])
def test_telling_the_same_twice_is_ignored(opt, value):
    outcome = {"failed": True, "reason": "x"} if value is None else {"value": value}
    trial = opt.tell(pending(opt), **outcome)
    before = opt.to_json()
    assert opt.tell(trial, **outcome) is trial
    assert opt.to_json() == before


def test_no_outcome_yet():
    empty = Optimizer(SPACE, "gp-ei", seed=0)
    for look in (lambda: empty.best, empty.recommend):
        with pytest.raises(DataError, match=SENTENCE):
            look()
    empty.tell(empty.ask(), math.nan)
    with pytest.raises(DataError, match="at least one finished evaluation with a finite value"):
        _ = empty.best


def test_a_failure_may_be_told_with_an_exception_as_its_reason(opt):
    opt.tell(pending(opt), failed=True, reason=ValueError("out of memory"))
    assert opt.trials[1].reason == "out of memory"
    assert Optimizer.from_json(opt.to_json()).trials[1].reason == "out of memory"


def f(params):
    return params["x"]


LINE = Space(x=Float(0, 1))
BAD_CONSTRUCTIONS = {
    "low > high": (lambda: Float(1.0, 0.1), SpaceError),
    "low > high for an int": (lambda: Int(3, 2), SpaceError),
    "log of zero": (lambda: Float(0.0, 1.0, log=True), SpaceError),
    "log of a negative int": (lambda: Int(-1, 4, log=True), SpaceError),
    "an infinite bound": (lambda: Float(0.0, math.inf), SpaceError),
    "an empty choice": (lambda: Choice([]), SpaceError),
    "equal options": (lambda: Choice(["a", "a"]), SpaceError),
    "an empty space": (lambda: Space(), SpaceError),
    "a name twice": (lambda: Space({"x": Float(0, 1)}, x=Float(0, 1)), SpaceError),
    "no parameter": (lambda: Space(x=(0, 1)), SpaceError),
    "a pool with NaN": (lambda: Pool([[0.0, math.nan], [1.0, 2.0]]), SpaceError),
    "an empty pool": (lambda: Pool(np.empty((0, 3))), SpaceError),
    "a pool of words": (lambda: Pool([["a"], ["b"]]), SpaceError),
    "no space": (lambda: Optimizer({"x": Float(0, 1)}), UnsupportedError),
    "sideways": (lambda: Optimizer(LINE, direction="sideways"), UnsupportedError),
    "a seed of text": (lambda: Optimizer(LINE, seed="0"), UnsupportedError),
    "a negative seed": (lambda: Optimizer(LINE, seed=-1), UnsupportedError),
    "a seed that is True": (lambda: Optimizer(LINE, seed=True), UnsupportedError),
    "no initial points": (lambda: Optimizer(LINE, initial=0), UnsupportedError),
    "an unknown design": (lambda: Optimizer(LINE, initial=("grid", 4)), UnsupportedError),
    "half a design": (lambda: Optimizer(LINE, initial="sobol"), UnsupportedError),
    "no budget": (lambda: Optimizer(LINE, budget=0), UnsupportedError),
    "duplicates maybe": (lambda: Optimizer(LINE, duplicates="maybe"), UnsupportedError),
    "an abacus": (lambda: Optimizer(LINE, device="abacus"), UnsupportedError),
    "an unknown algorithm": (lambda: Optimizer(LINE, "gp-pi"), UnsupportedError),
    "a noise per point": (lambda: GaussianProcess(noise=[0.1, 0.2]), UnsupportedError),
    "ard of text": (lambda: GaussianProcess(ard="no"), UnsupportedError),
    "a grid of text": (lambda: RandomGrid(c="a"), UnsupportedError),
    "a rate of text": (lambda: Gradient(rate="x"), UnsupportedError),
    "no iterations": (lambda: NelderMead(max_iterations=0), UnsupportedError),
    "epsilon of text": (lambda: Thompson(epsilon="a"), UnsupportedError),
    "a schedule of text": (lambda: Constant("a"), UnsupportedError),
    "a bound of text": (lambda: InformationGain(B="x"), UnsupportedError),
    "too few groups": (lambda: Data.of(np.ones((2, 2)), np.ones(2), groups=[0]), DataError),
    "no function": (lambda: augury.minimize(3.0, LINE, 5), UnsupportedError),
    "budget None": (lambda: augury.minimize(f, LINE, None), UnsupportedError),
    "budget 2.5": (lambda: augury.minimize(f, LINE, 2.5), UnsupportedError),
    "batch 0": (lambda: augury.minimize(f, LINE, 5, batch=0), UnsupportedError),
    "batch True": (lambda: augury.minimize(f, LINE, 5, batch=True), UnsupportedError),
    "no workers": (lambda: augury.minimize(f, LINE, 5, workers=0), UnsupportedError),
    "a target of text": (lambda: augury.minimize(f, LINE, 5, target="low"), UnsupportedError),
    "a target of NaN": (lambda: augury.minimize(f, LINE, 5, target=math.nan), UnsupportedError),
    "seconds of text": (lambda: augury.minimize(f, LINE, 5, max_seconds="9"), UnsupportedError),
    "a bare callback": (lambda: augury.minimize(f, LINE, 5, callbacks=print), UnsupportedError),
    "callbacks of text": (lambda: augury.minimize(f, LINE, 5, callbacks=["x"]), UnsupportedError),
}


@pytest.mark.parametrize(("build", "kind"), BAD_CONSTRUCTIONS.values(), ids=BAD_CONSTRUCTIONS)
def test_a_bad_construction_gets_a_sentence(build, kind):
    with pytest.raises(kind, match=SENTENCE):
        build()


def test_a_schedule_that_gives_no_number_gets_a_sentence():
    algorithm = augury.Algorithm("gp", UCB(beta=lambda t, posterior: math.nan))
    opt = Optimizer(LINE, algorithm, seed=0, initial=1)
    opt.tell(opt.ask(), 1.0)
    with pytest.raises(UnsupportedError, match=SENTENCE):
        opt.ask()
    assert len(opt.trials) == 1


def test_a_trial_with_a_wrong_number_is_refused(opt):
    trial = pending(opt)
    trial.number = -1
    with pytest.raises(DataError, match=SENTENCE):
        opt.tell(trial, 1.0)


def test_all_errors_have_one_base():
    assert issubclass(SpaceError, AuguryError)
    assert issubclass(SpaceError, ValueError)
    assert issubclass(DataError, ValueError)
    assert issubclass(UnsupportedError, TypeError)
    assert issubclass(augury.NumericsError, RuntimeError)
    assert issubclass(augury.StorageError, RuntimeError)
    assert issubclass(augury.SpaceExhausted, AuguryError)
