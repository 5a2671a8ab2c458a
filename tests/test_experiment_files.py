"""Every experiment file of the project can be read, and names what exists or is said to be missing."""

from pathlib import Path

import pytest

from augury.bench.experiment import jobs
from augury.bench.experiment_files import find_experiments, read_experiment
from augury.bench.methods import available

FILES = find_experiments(Path(__file__).parents[1] / "experiments")
PAPERS = {"sto-bnts", "be-greedy", "ts-rsr", "neural-bo", "random-grid", "auto", "kinds"}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("quick", [False, True], ids=["whole", "quick"])
def test_an_experiment_names_what_exists(name, quick):
    experiment = read_experiment(FILES[name], quick=quick)
    assert experiment.paper in PAPERS
    assert name.startswith(experiment.paper)
    assert list(jobs(experiment))
    for method in experiment.methods:
        reason = available(method)
        known = ("is not offered",)
        assert reason is None or reason.endswith(known) or "make peers" in reason


CLAIMING = [
    name
    for name in FILES
    if name.startswith(("sto-bnts", "be-greedy", "neural-bo"))
    and not name.endswith("-code")
    and "-ours" not in name
]


@pytest.mark.parametrize("name", CLAIMING)
def test_what_a_paper_says_of_a_figure_can_be_judged_by_quick_runs(name):
    experiment = read_experiment(FILES[name], quick=True)
    assert experiment.claims
    for claim in experiment.claims:
        shifted = {"+shifted" in task.label for task in claim.tasks(experiment.tasks)}
        assert len(shifted) == 1, "a claim is about printed functions or about shifted ones"
        assert shifted == {claim.carried_over == "shifted functions"}
    moved = [task for task in experiment.tasks if "+shifted" in task.label]
    assert not moved or any(claim.carried_over for claim in experiment.claims)


@pytest.mark.parametrize("name", CLAIMING)
def test_functions_with_their_optimum_at_the_centre_run_as_printed_and_shifted(name):
    tasks = read_experiment(FILES[name], quick=True).tasks
    centred = {task.problem for task in tasks if task.problem.startswith(("ackley", "levy", "rastrigin"))}
    for problem in centred:
        kinds = {"+shifted" in task.label for task in tasks if task.problem == problem}
        assert kinds == {False, True}, f"{problem} must run as printed and shifted"
