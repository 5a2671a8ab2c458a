"""Saving an optimizer as JSON and going on as if nothing had happened."""

import json
import math

import numpy as np
import pytest

from augury import Algorithm, Choice, DataError, Float, Int, Optimizer, Pool, Space
from augury.maximizers import RandomGrid
from augury.policies import UCB, Picks
from augury.trial import State

BOX = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))
MIXED = Space(lr=Float(1e-5, 1.0, log=True), n=Int(1, 9), act=Choice(["a", None, 2.5, True]))
POOL = Pool(np.random.default_rng(0).random((40, 2)))


def strict(text):
    """What a strict JSON parser reads, which knows no NaN."""

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def timeless(text):
    """The state without the seconds that were measured."""
    content = strict(text)
    for trial in content["trials"]:
        trial["info"].pop("seconds", None)
    return content


def value(params):
    return sum(float(v) for v in params.values() if isinstance(v, int | float))


def busy(space, algorithm, **settings):
    """An optimizer in the middle of everything: told, failed, pending, enqueued."""
    opt = Optimizer(space, algorithm, seed=11, initial=3, **settings)
    first, second, third, fourth = opt.ask(4)
    opt.tell(third, value(third.params))
    opt.tell(first, math.nan)
    opt.tell(second, failed=True, reason="no luck")
    opt.tell(fourth.params, value(fourth.params))
    opt.tell(opt.ask(), -math.inf)
    opt.tell(opt.ask(), 0.25)
    opt.ask()
    opt.enqueue(first.params)
    return opt


def go_on(opt):
    """Further steps, from the queue, from pending trials and from the model."""
    asked = opt.ask(3)
    opt.tell(opt.trials[3], 0.75)
    for trial in asked:
        opt.tell(trial, value(trial.params))
    asked += [opt.ask(), *opt.ask(2)]
    return [(trial.number, trial.params) for trial in asked]


@pytest.mark.parametrize(
    ("space", "algorithm", "settings"),
    [
        (BOX, "gp-ei", {}),
        (BOX, "gp-ts", {"direction": "maximize"}),
        (BOX, Algorithm("gp", UCB(beta=3.0), RandomGrid(size=200)), {}),
        (POOL, "gp-ucb", {"duplicates": "allow"}),
        (MIXED, "random", {"budget": 30}),
        (MIXED, "sobol", {"direction": "maximize"}),
    ],
)
def test_a_restored_optimizer_continues_as_the_original(space, algorithm, settings):
    opt = busy(space, algorithm, **settings)
    text = opt.to_json()
    assert {trial.state for trial in opt.trials} == set(State)
    given = {
        "space": space if isinstance(space, Pool) else None,
        "algorithm": algorithm if isinstance(algorithm, Algorithm) else None,
    }
    restored = Optimizer.from_json(text, **given)
    assert restored.to_json() == text
    assert restored.seed == 11
    assert restored.space == opt.space
    assert go_on(restored) == go_on(opt)
    assert timeless(restored.to_json()) == timeless(opt.to_json())
    assert restored.best.params == opt.best.params
    assert restored.recommend().number == opt.recommend().number


def test_the_text_is_strict_json_and_says_what_happened():
    content = strict(busy(BOX, "gp-ei").to_json())
    assert (content["format"], content["version"]) == ("augury-optimizer", 1)
    assert content["algorithm"]["name"] == "gp-ei"
    assert content["order"] == [2, 0, 1, 4, 5, 6]
    assert content["trials"][0]["value"] == {"$float": "nan"}
    assert content["trials"][1]["reason"] == "no luck"
    assert content["queue"] == [content["trials"][0]["params"]]


def test_a_drawn_seed_is_saved():
    opt = Optimizer(BOX, "random")
    assert Optimizer.from_json(opt.to_json()).ask(3)[2].params == opt.ask(3)[2].params


def test_values_come_back_as_they_were():
    opt = Optimizer(BOX, "random", seed=0)
    told = [0.1 + 0.2, 5e-324, -0.0, 1e308, math.nan, math.inf, -math.inf]
    for number in told:
        opt.tell(opt.ask(), number)
    back = [trial.value for trial in Optimizer.from_json(opt.to_json()).trials]
    np.testing.assert_array_equal(back, told)
    assert math.copysign(1.0, back[2]) == -1.0


def test_options_and_names_of_any_kind():
    space = Space(
        {"norm.p": Choice([1.0, math.inf, "inf", None, True, 1]), "größe": Choice(["\ud800", 'a"b'])}
    )
    opt = Optimizer(space, "random", seed=0)
    opt.enqueue({"norm.p": math.inf, "größe": "\ud800"})
    opt.ask(6)
    restored = Optimizer.from_json(opt.to_json())
    assert restored.space == space
    assert [trial.params for trial in restored.trials] == [trial.params for trial in opt.trials]


def test_a_trial_of_before_is_known_after():
    opt = Optimizer(BOX, "random", seed=0)
    trial = opt.ask()
    restored = Optimizer.from_json(opt.to_json())
    told = restored.tell(trial, 2.0)
    assert told is restored.trials[0]
    assert (told.value, told.state) == (2.0, State.COMPLETE)
    assert opt.trials[0] is trial
    assert trial.state is State.PENDING  # the original has not been told
    opt.tell(trial, 2.0)
    assert opt.best is trial
    assert opt.to_json() == restored.to_json()
    later = opt.ask()
    with pytest.raises(DataError, match="must come from this optimizer"):
        restored.tell(later, 1.0)
    restored.enqueue({"x": 0.5, "y": 0.5})
    restored.ask()
    with pytest.raises(DataError, match="must have the params it was asked with"):
        restored.tell(later, 1.0)
    assert restored.trials[1].state is State.PENDING


class Talkative(UCB):
    """A policy whose diagnostics are no plain numbers."""

    def choose(self, *args, **kwargs):
        picks = super().choose(*args, **kwargs)
        extra = {"array": np.arange(3), "count": np.int64(4), "object": UCB, "bad": [math.nan]}
        return Picks(picks.points, [extra])


def test_diagnostics_of_any_kind_are_saved():
    algorithm = Algorithm("gp", Talkative())
    opt = Optimizer(BOX, algorithm, seed=0, initial=1)
    opt.tell(opt.ask(), 1.0)
    opt.ask()
    info = Optimizer.from_json(opt.to_json(), algorithm=algorithm).trials[1].info
    assert info["array"] == [0, 1, 2]
    assert info["count"] == 4
    assert math.isnan(info["bad"][0])
    assert "UCB" in info["object"]


# ---------------------------------------------------------------------------- mismatches


def test_a_pool_must_be_given_again():
    text = Optimizer(POOL, "random", seed=0).to_json()
    with pytest.raises(DataError, match=r"needs the pool it was made with.*space=pool"):
        Optimizer.from_json(text)
    other = np.random.default_rng(0).random((40, 2))
    other[0, 0] += 1e-9
    with pytest.raises(DataError, match="needs the pool"):
        Optimizer.from_json(text, space=Pool(other))
    with pytest.raises(DataError, match="needs the pool"):
        Optimizer.from_json(text, space=BOX)
    assert Optimizer.from_json(text, space=POOL).space is POOL


def test_a_given_space_must_be_the_saved_one():
    text = Optimizer(BOX, "random", seed=0).to_json()
    assert Optimizer.from_json(text, space=BOX).space == BOX
    with pytest.raises(DataError, match="must be the saved one"):
        Optimizer.from_json(text, space=Space(x=Float(0.0, 1.0), y=Float(0.0, 2.0)))


def test_an_algorithm_of_own_parts_must_be_given_again():
    mine = Algorithm("gp", UCB(beta=3.0), RandomGrid(size=200))
    text = Optimizer(BOX, mine, seed=0).to_json()
    with pytest.raises(DataError, match=r"own parts.*algorithm="):
        Optimizer.from_json(text)
    for other in (
        "gp-ucb",
        Algorithm("gp", UCB(beta=4.0), RandomGrid(size=200)),
        Algorithm("gp", UCB(beta=3.0), RandomGrid(size=201)),
        Algorithm("gp", UCB(beta=3.0), "exhaustive"),
        Algorithm("gp", UCB(beta=3.0)),
    ):
        with pytest.raises(DataError, match="must be the saved one"):
            Optimizer.from_json(text, algorithm=other)
    assert Optimizer.from_json(text, algorithm=mine).algorithm == mine


def test_a_name_of_the_table_does_not_hide_other_parts():
    text = Optimizer(BOX, Algorithm("gp", UCB(beta=3.0), name="gp-ucb"), seed=0).to_json()
    with pytest.raises(DataError, match="must be the saved one"):
        Optimizer.from_json(text)
    named = Optimizer(BOX, "gp-ucb", seed=0).to_json()
    assert Optimizer.from_json(named, algorithm="gp-ucb").algorithm.name == "gp-ucb"


# ---------------------------------------------------------------------------- corruption


def change(path, replacement):
    """A damage: the item at `path` replaced, or removed where the replacement is `...`."""

    def damage(content):
        *way, last = path
        for step in way:
            content = content[step]
        if replacement is ...:
            del content[last]
        else:
            content[last] = replacement

    return damage


DAMAGES = [
    change(["format"], "optuna"),
    change(["format"], ...),
    change(["version"], ...),
    change(["version"], "one"),
    change(["space"], {"params": []}),
    change(["space"], {"params": [{"name": "x", "type": "float", "low": 1, "high": 0}]}),
    change(["space"], []),
    change(["algorithm"], ...),
    change(["algorithm", "name"], 5),
    change(["settings"], {}),
    change(["settings", "seed"], None),
    change(["settings", "seed"], -1),
    change(["settings", "direction"], "sideways"),
    change(["settings", "initial"], 3),
    change(["settings", "extra"], 1),
    change(["identity"], ...),
    change(["trials"], {}),
    change(["trials", 0, "number"], 1),
    change(["trials", 0, "params"], {"x": 0.5}),
    change(["trials", 0, "params", "x"], 7.0),
    change(["trials", 0, "params", "x"], "0.5"),
    change(["trials", 0, "value"], None),
    change(["trials", 0, "value"], "zero"),
    change(["trials", 0, "value"], {"$float": "nan"}),
    change(["trials", 0, "state"], "sleeping"),
    change(["trials", 0, "origin"], ...),
    change(["trials", 0, "info"], None),
    change(["trials", 0], ...),
    change(["trials", 1, "value"], 3.0),
    change(["trials", 0, "info"], {"eta": "x"}),
    change(["trials", 0, "reason"], 5),
    change(["order"], [0.0]),
    change(["order"], []),
    change(["order"], [0, 0]),
    change(["order"], [1]),
    change(["order"], [7]),
    change(["queue"], [{"z": 1}]),
    change(["queue"], 3),
]


def saved():
    opt = Optimizer(BOX, "random", seed=0)
    opt.tell(opt.ask(), 1.0)
    opt.ask()
    opt.enqueue({"x": 0.5, "y": 0.5})
    return opt.to_json()


@pytest.mark.parametrize("damage", DAMAGES, ids=range(len(DAMAGES)))
def test_a_damaged_state_is_refused_with_a_sentence(damage):
    content = json.loads(saved())
    damage(content)
    with pytest.raises(DataError, match=r"; got .*\. [A-Z]"):
        Optimizer.from_json(json.dumps(content))


NO_STATES = [
    "",
    "{",
    "null",
    "[]",
    "5",
    '"augury"',
    "NaN",
    saved()[:-20],
    "[" * 100_000,
    None,
    7,
    b"\xff",
]


@pytest.mark.parametrize("text", NO_STATES, ids=range(len(NO_STATES)))
def test_what_is_no_state_is_refused_with_a_sentence(text):
    with pytest.raises(DataError, match="a state must be text that to_json"):
        Optimizer.from_json(text)


def test_a_newer_state_asks_for_a_newer_augury():
    content = json.loads(saved())
    content["version"] = 2
    with pytest.raises(DataError, match=r"version 1 or lower; got 2\. Install a newer Augury"):
        Optimizer.from_json(json.dumps(content))


def test_what_a_user_does_to_the_params_of_a_trial_does_not_reach_the_state():
    opt = Optimizer(BOX, "random", seed=0)
    first, second = opt.ask(2)
    asked = dict(first.params)
    opt.tell(first, 1.0)
    first.params["x"] = 0.123
    del first.params["y"]
    second.params["x"] = 0.5
    with pytest.raises(DataError, match="must have the params it was asked with"):
        opt.tell(second, 1.0)
    assert Optimizer.from_json(opt.to_json()).trials[0].params == asked
