"""The protocol between the runner and its peers, and what their process does without any package."""

import ast
import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from augury._errors import SpaceError, UnsupportedError
from augury.bench import peers
from augury.bench.driver import Event, NotAvailableError
from augury.bench.experiment import Job, Method, Task
from augury.bench.methods import available, driver
from augury.bench.peers import PEERS, PeerDriver, PeerError, child, find_peer
from augury.bench.peers.libraries import Cmaes, RandomSearch
from augury.bench.peers.turbo import TrustRegion
from augury.bench.problem import Problem
from augury.space import Choice, Float, Int, Pool, Space

FOLDER = Path(peers.__file__).parent
SPACE = Space(
    {"learning rate": Float(1e-4, 1.0, log=True)},
    x=Float(-5.0, 10.0),
    q=Float(0.1, 0.75, step=0.1),
    k=Int(1, 30, log=True),
    m=Int(2, 21, step=5),
    unordered=Choice(["a", None, True, 1, 1.5]),
    ordered=Choice([8, 16, 32], ordered=True),
    fixed=Int(3, 3),
    constant=Choice(["only"]),
    still=Float(0.0, 0.5, step=1.0),
)
AXES = child.Space(SPACE.to_dict()["params"])


def problem(space=SPACE, direction="minimize"):
    return Problem("test", space, lambda params: params["x"], "here", 20, direction=direction)


def job(peer="random", *, seed=0, batch=1, **spec):
    task = Task("test", initial=2, iterations=8, batch=batch)
    return Job("experiment", task, Method(peer, {"peer": peer, **spec}, peer), seed)


@pytest.fixture
def drive():
    """Makes drivers, and ends their processes after the test."""
    made = []

    def make(*args, space=SPACE, **kwargs):
        made.append(PeerDriver(job(*args, **kwargs), problem(space)))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Puts a script in the place of the peer's process."""

    def put(*lines):
        script = tmp_path / "fake.py"
        script.write_text("import json, sys\n" + "\n".join(lines) + "\n", encoding="utf-8")
        monkeypatch.setattr(peers, "CHILD", script)

    return put


def answers(*replies):
    """A script that answers its requests by these in turn."""
    return [f"sys.stdin.readline(); print({json.dumps(json.dumps(r))}, flush=True)" for r in replies]


# The driver


def test_a_peer_is_asked_and_told(drive):
    method = drive(batch=3)
    for number in range(2):
        method.initial(number, SPACE.decode(SPACE.sobol(2, 0)[number]), 1.0)
    asked = [*method.ask(3)]
    for point in asked:
        method.tell(point, point.params["x"])
    asked += method.ask(3)
    assert [point.number for point in asked] == list(range(2, 8))
    assert len({point.params["x"] for point in asked}) == 6
    for point in asked:
        assert SPACE.check(point.params) == point.params
        assert point.info["peak_mib"] > 0


def test_runs_of_a_seed_are_the_same_and_of_two_seeds_differ(drive):
    first, again, other = drive(seed=1), drive(seed=1), drive(seed=2)
    points = [method.ask(4) for method in (first, again, other)]
    assert points[0] == points[1]
    assert points[0] != points[2]


@pytest.mark.parametrize("told", [0, 1, 2])
def test_a_resumed_run_goes_on_as_it_would_have(drive, told):
    start = SPACE.decode(SPACE.sobol(1, 0)[0])
    whole, resumed = drive(batch=2), drive(batch=2)
    whole.initial(0, start, None)
    asked = whole.ask(2)
    events = [Event("initial", 0, start, None), *(Event("ask", p.number, p.params) for p in asked)]
    events += [Event("tell", point.number, None, 0.5) for point in asked[:told]]
    resumed.start(events)
    for point in asked:
        whole.tell(point, 0.5)
    for point in asked[told:]:
        resumed.tell(point, 0.5)
    expected = whole.ask(2)
    got = resumed.ask(2)
    assert [(p.number, p.params) for p in got] == [(p.number, p.params) for p in expected]


def test_the_runner_finds_the_driver():
    method = driver(job(), problem())
    assert isinstance(method, PeerDriver)
    method.close()
    assert available(job().method) is None


def test_closing_ends_the_process_and_removes_its_folder(drive):
    method = drive()
    process, folder = method._child._process, Path(method._child._folder.name)
    assert process.poll() is None
    assert folder.exists()
    method.close()
    method.close()
    assert process.returncode is not None
    assert not folder.exists()


def test_pools_and_wrong_specs_are_refused(drive):
    with pytest.raises(UnsupportedError, match="must search a Space"):
        drive(space=Pool([[0.0], [1.0]]))
    with pytest.raises(UnsupportedError, match=r"got \['kappa'\] too"):
        drive(kappa=1.0)
    with pytest.raises(UnsupportedError, match="kappa"):
        drive(settings={"kappa": 1.0})
    with pytest.raises(UnsupportedError, match="settings of method 'random' must be a table; got 3"):
        drive(settings=3)
    with pytest.raises(UnsupportedError, match="not fixed"):
        drive(space=Space(x=Int(3, 3)))


def test_a_missing_environment_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("AUGURY_PEERS", str(tmp_path))
    assert find_peer("random").environment is None
    for name in PEERS.keys() - {"random"}:
        with pytest.raises(NotAvailableError, match="run make peers"):
            find_peer(name)
        assert "make peers" in (available(job(name).method) or "")
    with pytest.raises(UnsupportedError, match="got 'optuna'"):
        find_peer("optuna")
    python = tmp_path / ".venv-peers" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert find_peer("botorch").python() == python


# A peer that misbehaves


@pytest.mark.parametrize(
    ("reply", "error", "match"),
    [
        ({"error": "unsupported", "message": "numbers only"}, UnsupportedError, "numbers only"),
        ({"error": "missing", "message": "no torch"}, NotAvailableError, "no torch.*run make peers"),
        ({"error": "failed", "message": "ValueError: x"}, PeerError, "ValueError: x"),
    ],
)
def test_errors_of_the_peer_are_raised_here(fake, drive, reply, error, match):
    fake(*answers(reply))
    with pytest.raises(error, match=match):
        drive()


def test_a_peer_that_dies_leaves_its_last_words(fake, drive):
    fake(*answers({"versions": {}}), "print('out of memory', file=sys.stderr)", "sys.exit(3)")
    method = drive()
    with pytest.raises(PeerError, match=r"(?s)exit code 3; its last words:.*out of memory"):
        method.ask(1)
    with pytest.raises(PeerError, match="exit code 3"):
        method.ask(1)


@pytest.mark.parametrize("garbage", ["hello", "[1]", "{", ""])
def test_garbage_is_not_an_answer(fake, drive, garbage):
    fake("sys.stdin.readline()", f"print({garbage!r}, flush=True)", "sys.stdin.readline()")
    with pytest.raises(PeerError, match="must answer with a JSON object"):
        drive()


def test_an_answer_that_is_not_utf8_is_garbage(fake, drive):
    fake("sys.stdin.readline()", "sys.stdout.buffer.write(bytes([123, 34, 255, 34, 125, 10]))")
    with pytest.raises(PeerError, match=r"must answer with a JSON object; got .*xff"):
        drive()


def test_a_peer_that_hangs_is_ended(fake, drive, monkeypatch):
    fake(*answers({"versions": {}}), "sys.stdin.readline()", "import time", "time.sleep(60)")
    method = drive()
    monkeypatch.setattr(peers, "ANSWER_LIMIT", 0.5)
    with pytest.raises(PeerError, match=r"must answer within 0\.5 s"):
        method.ask(1)


@pytest.mark.parametrize("peak", ["12", None, {}])
def test_memory_that_is_no_number_is_none(fake, drive, peak):
    fake(*answers({"versions": 3}, {"points": [{"x": 0.5}], "peak_mib": peak}), "sys.stdin.readline()")
    method = drive(space=Space(x=Float(0.0, 1.0)))
    assert method.versions == {}
    (asked,) = method.ask(1)
    assert asked.info == {"peak_mib": 0}


def test_a_torn_answer_is_a_death(fake, drive):
    fake("sys.stdin.readline()", "print('{}', end='', flush=True)")
    with pytest.raises(PeerError, match="exit code 0"):
        drive()


@pytest.mark.parametrize("reply", [{}, {"points": []}, {"points": 3}])
def test_a_wrong_number_of_points_is_refused(fake, drive, reply):
    fake(*answers({"versions": {}}, reply), "sys.stdin.readline()")
    with pytest.raises(PeerError, match="must answer with 1 points"):
        drive().ask(1)


def test_a_point_outside_the_space_is_refused(fake, drive):
    fake(*answers({"versions": {}}, {"points": [{"x": 2.0}]}), "sys.stdin.readline()")
    with pytest.raises(SpaceError, match="must lie in"):
        drive(space=Space(x=Float(0.0, 1.0))).ask(1)


SLEEPY = f"""
import sys, time, types
sys.path.insert(0, {str(FOLDER)!r})
import child

class Sleepy:
    takes_failures = True
    def __init__(self, setup):
        print("libraries print things")
    def ask(self, n, pending):
        time.sleep(60)

sys.modules["sleepy"] = types.ModuleType("sleepy")
sys.modules["sleepy"].Sleepy = Sleepy
child.ADAPTERS["random"] = ("sleepy", "Sleepy", ())
child.main()
"""


def test_the_process_ends_with_its_input_also_in_the_middle_of_a_suggestion(fake, drive):
    fake(SLEEPY)
    process = drive()._child._process
    process.stdin.write('{"do": "ask", "numbers": [0]}\n')
    process.stdin.close()
    assert process.wait(timeout=20) == 0


def test_errors_are_answered_and_do_not_end_the_process():
    lines = ["nonsense", '{"do": "ask", "numbers": [0]}', '{"do": "start", "peer": "nobody"}']
    command = [sys.executable, "-I", str(FOLDER / "child.py")]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    replies = []
    for line in lines:  # one by one: the process ends with its input, whatever is waiting
        process.stdin.write(line + "\n")
        process.stdin.flush()
        replies.append(json.loads(process.stdout.readline()))
    process.communicate(timeout=20)
    assert [reply["error"] for reply in replies] == ["failed", "unsupported", "unsupported"]
    assert "nobody" in replies[2]["message"]


# Inside the process


def test_the_peers_of_both_sides_are_the_same():
    assert PEERS.keys() == child.ADAPTERS.keys()
    for name, peer in PEERS.items():
        module, made, packages = child.ADAPTERS[name]
        assert set(peer.packages) <= set(packages)
        assert f" {made}(" in (FOLDER / f"{module}.py").read_text(encoding="utf-8") or (
            f"class {made}:" in (FOLDER / f"{module}.py").read_text(encoding="utf-8")
        )


@pytest.mark.parametrize("name", ["child", "libraries", "botorch_peer", "turbo"])
def test_nothing_but_the_standard_library_is_imported_at_the_top(name):
    body = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8")).body
    found = {node.module for node in body if isinstance(node, ast.ImportFrom)}
    found |= {alias.name for node in body if isinstance(node, ast.Import) for alias in node.names}
    assert found
    assert {module.split(".")[0] for module in found} <= sys.stdlib_module_names


def test_codes_and_values_are_each_others_inverse():
    assert [axis.name for axis in AXES.axes] == list(SPACE.names[:7])
    kinds = [axis.kind for axis in AXES.axes]
    assert kinds == ["real", "real", "integer", "integer", "integer", "category", "integer"]
    for row in SPACE.sobol(64, 0):
        params = SPACE.decode(row)
        codes = AXES.codes(params)
        back = AXES.params(codes)
        assert list(back) == list(SPACE.names)
        assert SPACE.check(back) == params
        assert [type(value) for value in back.values()] == [type(value) for value in params.values()]
        assert AXES.codes(back) == codes
        units = AXES.units(codes)
        assert len(units) == AXES.width == 11
        assert min(units) >= 0
        assert max(units) <= 1
        assert AXES.from_units(units) == pytest.approx(codes)


@pytest.mark.parametrize("name", ["q", "k", "m", "unordered", "ordered"])
def test_all_levels_are_valid_and_have_their_share(name):
    axis = next(axis for axis in AXES.axes if axis.name == name)
    param = SPACE.params[name]
    values = [param.check(axis.value(axis.low + level)) for level in range(axis.levels)]
    assert len(values) == param.levels
    drawn = [axis.quantile((i + 0.5) / 10_000) for i in range(10_000)]
    counts = [drawn.count(axis.low + level) / 10_000 for level in range(axis.levels)]
    if axis.log:
        total = math.log(30.5 / 0.5)
        assert counts == pytest.approx(
            [math.log((v + 0.5) / (v - 0.5)) / total for v in values], abs=2e-4
        )
    else:
        assert counts == pytest.approx([1 / axis.levels] * axis.levels, abs=2e-4)


def test_codes_never_leave_their_bounds():
    for axis in AXES.axes:
        for u in (-1e-9, 0.0, 1.0, 1.0 + 1e-9):
            assert axis.low <= axis.nearest(u) <= axis.high
            assert axis.low <= axis.quantile(u) <= axis.high
        SPACE.params[axis.name].check(axis.value(axis.high + 1e-12))


class Listener:
    """A peer that writes down what it is told."""

    def __init__(self, takes_failures):
        self.takes_failures, self.told = takes_failures, []

    def ask(self, n, pending):
        return [(AXES.draw([0.5] * 7), f"handle {len(pending)}")] * n

    def tell(self, codes, handle, loss, *, initial):
        self.told.append((handle, loss, initial))


def session(takes_failures, sign=1.0):
    return child.Session(Listener(takes_failures), AXES, sign)


def test_a_failure_counts_as_the_worst_value_so_far():
    one = session(takes_failures=False)
    params = SPACE.decode(SPACE.sobol(1, 0)[0])
    for number, value in enumerate([None, 3.0, 5.0, None, 1.0]):
        one.answer(
            {"do": "past", "number": number, "params": params, "value": value, "initial": number < 2}
        )
    expected = [(None, 3.0, True), (None, 3.0, True), (None, 5.0, False), (None, 5.0, False)]
    assert one.adapter.told == [*expected, (None, 1.0, False)]


def test_failures_and_directions_are_passed_on():
    one = session(takes_failures=True, sign=-1.0)
    assert len(one.answer({"do": "ask", "numbers": [4, 5]})["points"]) == 2
    one.answer({"do": "tell", "number": 5, "value": 2.0})
    one.answer({"do": "tell", "number": 4, "value": None})
    assert one.adapter.told == [("handle 0", -2.0, False), ("handle 0", None, False)]
    one.answer({"do": "pending", "number": 6, "params": SPACE.decode(SPACE.sobol(1, 0)[0])})
    one.answer({"do": "ask", "numbers": [7]})
    assert one.pending[7][1] == "handle 1"


def test_a_resumed_peer_draws_from_another_stream():
    seeds = {child.Setup(AXES, seed, past, 1, 10).stream for seed in range(20) for past in range(20)}
    assert len(seeds) == 400
    assert child.Setup(AXES, 7, 0, 1, 10).stream == 7
    assert max(seeds) < 2**31


def test_a_peer_is_told_the_device(monkeypatch):
    devices = []

    def seen(setup):
        devices.append(setup.device)
        return RandomSearch(setup)

    monkeypatch.setattr(child.importlib, "import_module", lambda _: SimpleNamespace(RandomSearch=seen))
    one = PeerDriver(job(), problem(SPACE), "gpu")
    try:
        child.start(one._opening)
        child.start(one._opening | {"device": "cpu"})
    finally:
        one.close()
    assert devices == ["gpu", "cpu"]


def test_random_search_is_uniform():
    peer = RandomSearch(child.Setup(AXES, 0, 0, 1, 10))
    xs = [codes[1] for codes, _ in peer.ask(2000, [])]
    assert min(xs) >= -5
    assert max(xs) <= 10
    assert sum(xs) / len(xs) == pytest.approx(2.5, abs=0.4)


def test_cma_es_is_for_numbers():
    with pytest.raises(ValueError, match="choice without an order"):
        Cmaes(child.Setup(AXES, 0, 0, 1, 10))
    line = child.Space(Space(x=Float(0.0, 1.0)).to_dict()["params"])
    with pytest.raises(ValueError, match="at least 2"):
        Cmaes(child.Setup(line, 0, 0, 1, 10))


def test_a_trust_region_grows_shrinks_and_collapses():
    region = TrustRegion(failure_tolerance=2, success_tolerance=3, best=10.0)
    for loss in (9.0, 8.0, 7.0):
        region.update([loss, 20.0])
    assert (region.length, region.best, region.successes) == (1.6, 7.0, 0)
    region.update([6.9999])  # better, but by less than a thousandth
    assert (region.length, region.best, region.failures) == (1.6, 6.9999, 1)
    region.update([5.0])
    assert (region.successes, region.failures) == (1, 0)
    for _ in range(2):
        region.update([5.0])
    assert region.length == 0.8
    for _ in range(14):
        assert not region.collapsed
        region.update([5.0])
    assert region.collapsed
