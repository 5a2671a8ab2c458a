"""Every experiment file of the project can be read, and names what exists or is said to be missing."""

from pathlib import Path

import pytest

from augury.bench.experiment import jobs
from augury.bench.experiment_files import find_experiments, read_experiment
from augury.bench.methods import available

FILES = find_experiments(Path(__file__).parents[1] / "experiments")
PAPERS = {"sto-bnts", "be-greedy", "ts-rsr", "neural-bo", "random-grid"}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("quick", [False, True], ids=["whole", "quick"])
def test_an_experiment_names_what_exists(name, quick):
    experiment = read_experiment(FILES[name], quick=quick)
    assert experiment.paper in PAPERS
    assert name.startswith(experiment.paper)
    assert list(jobs(experiment))
    for method in experiment.methods:
        reason = available(method)
        known = ("is not available yet", "is not offered")
        assert reason is None or reason.endswith(known) or "make peers" in reason
