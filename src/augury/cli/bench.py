"""`augury bench`: list and run the experiments."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from augury._errors import UnsupportedError
from augury.bench.experiment import Experiment, Method, jobs
from augury.bench.experiment_files import find_experiments, read_experiment
from augury.bench.methods import available
from augury.bench.peers import PEERS
from augury.bench.problems import problems
from augury.bench.runner import run_experiment
from augury.core.precision import Device


def list_experiments(folder: Path) -> None:
    """Every experiment: its runs, its title, and what is not available."""
    found = known_experiments(folder)
    width = max(map(len, found))
    for name, path in found.items():
        experiment = read_experiment(path)
        missing = sorted({m.group for m in experiment.methods if available(m) is not None})
        print(f"{name:{width}}  {len(list(jobs(experiment))):5} runs  {experiment.title}")
        if missing:
            print(f"{'':{width + 14}}not available: {', '.join(missing)}")


def list_problems() -> None:
    """The names of all problems; the 144 of BBOB in one line."""
    names = [name for name in problems() if not name.startswith("bbob-")]
    print("\n".join([*names, "bbob-f{1..24}-d{2,3,5,10,20,40}"]))


def run(
    names: list[str],
    folder: Path,
    results: Path,
    *,
    quick: bool,
    workers: int | None,
    repeats: int | None,
    methods: list[str] | None = None,
    peers: list[str] | None = None,
    device: Device = "cpu",
) -> int:
    """Run what is not finished of some experiments; the number of runs that failed."""
    found = known_experiments(folder, names)
    failures = 0
    for name in names:
        experiment = read_experiment(found[name], quick=quick)
        if repeats is not None:
            experiment = replace(experiment, repeats=repeats)
        if methods is not None:
            experiment = only(experiment, methods)
        if peers is not None:
            experiment = with_peers(experiment, peers or list(PEERS))
        failures += _run(experiment, results, workers, device)
    return failures


def only(experiment: Experiment, names: Iterable[str]) -> Experiment:
    """The experiment with some of its methods."""
    kept = tuple(method for method in experiment.methods if {method.name, method.group} & set(names))
    known = {name for method in kept for name in (method.name, method.group)}
    unknown = sorted(set(names) - known)
    if unknown:
        raise UnsupportedError(
            f"the methods of {experiment.name} must be among "
            f"{', '.join(dict.fromkeys(method.group for method in experiment.methods))}; got "
            f"{', '.join(unknown)}. Use these names."
        )
    return replace(experiment, methods=kept)


def with_peers(experiment: Experiment, names: Iterable[str]) -> Experiment:
    """The experiment with other libraries as further methods, with their own default settings."""
    known = {method.name for method in experiment.methods}
    unknown = sorted(set(names) - set(PEERS))
    if unknown:
        raise UnsupportedError(
            f"a peer must be one of {', '.join(PEERS)}; got {', '.join(unknown)}. Use these names."
        )
    more = [Method(name, {"peer": name}, name) for name in PEERS if name in names and name not in known]
    return replace(experiment, methods=(*experiment.methods, *more))


def _run(experiment: Experiment, results: Path, workers: int | None, device: Device) -> int:
    outcome = run_experiment(experiment, results, workers=workers, device=device)
    print(f"{experiment.name}: {outcome.finished} runs made, {outcome.known} were there before.")
    for name, reason in outcome.unavailable.items():
        print(f"  {name}: {reason}")
    for key, reason in outcome.failed.items():
        print(f"  {key} failed: {reason}")
    if outcome.others:
        print(f"  {outcome.others} older runs were made with other settings, and do not count")
    count = outcome.finished + outcome.known
    print(f"  results: {results / experiment.name}.jsonl ({count} runs)")
    return len(outcome.failed)


def known_experiments(folder: Path, names: Sequence[str] = ()) -> dict[str, Path]:
    """The experiments of a folder, among which all of `names` must be."""
    found = find_experiments(folder)
    if not found:
        raise UnsupportedError(
            f"the folder of experiments must hold TOML files; got none in {folder}. "
            "Run it where the project's experiments/ is, or name a folder with --experiments."
        )
    unknown = sorted(set(names) - set(found))
    if unknown:
        raise UnsupportedError(
            f"an experiment must be one of {', '.join(found)}; got {', '.join(unknown)}. "
            "augury bench list shows them."
        )
    return found
