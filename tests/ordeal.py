"""Runs whose processes are killed at random moments, and what must hold of their studies then.

make ordeal     20 kills of each run; the tests make 3
"""

import contextlib
import logging
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

import augury
from augury.studies.mirror import GONE, LOST, is_replaced
from augury.studies.repeats import RETRY_OF, Repeats
from augury.studies.storages import close_storage, open_storage

SPACE = augury.Space(x=augury.Float(0.0, 1.0), y=augury.Float(0.0, 1.0))
NAME = "ordeal"
DEADLINE = 600.0  # seconds


def value(x: float, y: float) -> float:
    """What is minimized."""
    return (x - 0.3) ** 2 + (y - 0.6) ** 2


def evaluate(diary: Path, longest: float, hold: int) -> Callable[[dict], float]:
    """The function, which takes a moment and writes down where it began and ended.

    Once `hold` evaluations have begun, each waits until the diary says that all kills are done: a
    run cannot end before.  It needs nothing of this file, so that a worker need not import it.
    """
    place = str(diary)

    def note(line: str) -> None:
        """One line, whole even if many processes write, and there when this one is killed."""
        end = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(end, f"{line}\n".encode())
        os.close(end)

    def function(params: dict) -> float:
        x, y = params["x"], params["y"]
        note(f"begin {x!r} {y!r}")
        time.sleep(random.uniform(0.0, longest))
        while (lines := Path(place).read_text()).count("begin") >= hold and "over" not in lines:
            time.sleep(0.005)
        note(f"end {x!r} {y!r}")
        return (x - 0.3) ** 2 + (y - 0.6) ** 2

    return function


def begun(diary: Path) -> int:
    """How many evaluations have begun."""
    return diary.read_text().count("begin") if diary.exists() else 0


def over(diary: Path) -> None:
    """Write down that nobody is killed any more."""
    with diary.open("a") as end:
        end.write("over - -\n")


def take_part(
    storage: str, budget: int, diary: Path, workers: int, longest: float, hold: int = sys.maxsize
) -> None:
    """One process of a run."""
    augury.minimize(
        evaluate(diary, longest, hold),
        SPACE,
        budget,
        algorithm="sobol",
        seed=0,
        storage=storage,
        name=NAME,
        workers=workers,
        progress=False,
    )


def _quietly(*arguments: Any) -> None:
    logging.disable()
    take_part(*arguments)


def begin(*arguments: object) -> multiprocessing.Process:
    """Start a process of a run; what it imports is there already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["augury.studies.book", "augury.run", "scipy.stats"])
    one = context.Process(target=_quietly, args=arguments)
    one.start()
    return one


# -------------------------------------------------------------------- many processes, one study


def members(
    storage: str, diary: Path, *, processes: int, budget: int, kills: int, seed: int, longest: float = 0.2
) -> int:
    """Several processes share a study, and some are killed and replaced; how many were."""
    chance = random.Random(seed)
    hold = budget - 2 * processes

    def start() -> multiprocessing.Process:
        return begin(storage, budget, diary, 1, longest, hold)

    until, killed = time.monotonic() + DEADLINE, 0
    crew = [start() for _ in range(processes)]
    try:
        for moment in sorted(chance.uniform(0, hold) for _ in range(kills)):
            while begun(diary) < moment:
                assert time.monotonic() < until, "the run takes too long"
                assert any(one.is_alive() for one in crew), "every process has ended"
                time.sleep(0.005)
            time.sleep(chance.uniform(0.0, longest))
            victim = chance.choice([one for one in crew if one.is_alive()])
            victim.kill()
            victim.join()
            killed += victim.exitcode == -signal.SIGKILL
            crew[crew.index(victim)] = start()
        over(diary)
        for one in crew:
            one.join(max(0.0, until - time.monotonic()))
            assert one.exitcode == 0, f"a process ended with {one.exitcode}"
    finally:
        for one in crew:
            one.kill()
    return killed


# -------------------------------------------------------------------- a driver with workers


def drivers(
    storage: str, diary: Path, *, workers: int, budget: int, kills: int, seed: int, longest: float = 0.2
) -> int:
    """One process with workers is killed and started again; how often it was."""
    chance = random.Random(seed)
    hold = budget - 2 * workers
    killed = 0
    for moment in sorted(chance.uniform(0, hold) for _ in range(kills)):
        driver = begin(storage, budget, diary, workers, longest, hold)
        while begun(diary) < moment and driver.is_alive():
            time.sleep(0.005)
        time.sleep(chance.uniform(0.0, 5 * longest))
        children = _children(driver.pid)
        driver.kill()
        driver.join()
        killed += driver.exitcode == -signal.SIGKILL
        _gone(children)
    over(diary)
    driver = begin(storage, budget, diary, workers, longest, hold)
    driver.join(DEADLINE)
    assert driver.exitcode == 0, f"the run ended with {driver.exitcode}"
    return killed


def _children(pid: int) -> list[int]:
    """The processes that a process has started, in any of its threads."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, thread.read_text().split())
    return found


def _gone(pids: list[int]) -> None:
    """Wait for processes to end by themselves."""
    until = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < until, "workers outlive their driver"
        time.sleep(0.02)


# -------------------------------------------------------------------- what must hold


def check(storage: str, diary: Path, budget: int, most: int) -> dict[str, int]:
    """What must hold of a study and of what was evaluated; counts of what happened.

    Args:
        most: evaluations that may have been begun.
    """
    opened = open_storage(storage)
    trials = optuna.load_study(study_name=NAME, storage=opened).trials
    close_storage(opened)
    lines = [line.split() for line in diary.read_text().splitlines()]
    begins = Counter((float(x), float(y)) for what, x, y in lines if what == "begin")
    ends = Counter((float(x), float(y)) for what, x, y in lines if what == "end")

    assert [one.number for one in trials] == list(range(len(trials)))
    assert all(one.state.is_finished() for one in trials), "a trial has no final state"
    assert sum(not is_replaced(one) for one in trials) == budget

    chains: dict[tuple[float, float], list[FrozenTrial]] = defaultdict(list)
    for one in trials:
        if one.params.keys() == {"x", "y"}:
            chains[one.params["x"], one.params["y"]].append(one)
        else:  # killed before it had all of its parameters, or one too many
            assert LOST in one.system_attrs or GONE in one.system_attrs
    assert begins.keys() <= chains.keys(), "a point was evaluated of which no trial knows"
    for point, chain in chains.items():
        last = [one for one in chain if not is_replaced(one)]
        assert len(last) == 1, f"{len(last)} results of one point"
        assert last[0].state is TrialState.COMPLETE
        assert last[0].value == value(*point)
        assert ends[point] >= 1
        for one in chain:
            reason = one.system_attrs.get(LOST) or one.system_attrs.get(GONE)
            assert one is last[0] or reason, "a trial was repeated without a reason"
            repeated = Repeats.of(one).number
            assert RETRY_OF not in one.system_attrs or is_replaced(trials[repeated])
        assert begins[point] <= len(chain), "evaluated more often than there are trials"
    assert sum(begins.values()) <= most, "more was repeated than was under way"
    return {
        "trials": len(trials),
        "evaluations": sum(begins.values()),
        "taken back": sum(LOST in one.system_attrs for one in trials),
    }


@contextlib.contextmanager
def storages() -> Iterator[dict[str, str]]:
    """A database of each kind."""
    import postgres

    with postgres.server() as server, tempfile.TemporaryDirectory() as folder:
        yield {
            "postgresql": server.url,
            "sqlite": f"sqlite:///{folder}/study.db",
            "driver": f"sqlite:///{folder}/driver.db",
            "journal": f"journal:///{folder}/study.journal",
        }


def main() -> None:
    """All of it in full."""
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.randrange(1000)
    print(f"seed {seed}", flush=True)
    with storages() as made, tempfile.TemporaryDirectory() as folder:
        for kind, processes, budget in (("postgresql", 8, 400), ("sqlite", 4, 400), ("journal", 4, 100)):
            diary, begin = Path(folder) / kind, time.monotonic()
            settings = {"processes": processes, "budget": budget, "kills": 20, "seed": seed}
            killed = members(made[kind], diary, **settings)
            found = check(made[kind], diary, budget, budget + killed)
            print(f"{kind}: {processes} processes, {killed} killed; {found}", end="; ")
            print(f"{time.monotonic() - begin:.0f} s", flush=True)
        diary, begin = Path(folder) / "driver", time.monotonic()
        killed = drivers(made["driver"], diary, workers=2, budget=100, kills=20, seed=seed)
        found = check(made["driver"], diary, 100, 100 + 2 * killed)
        print(f"driver of 2 workers: killed {killed} times; {found}; {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
