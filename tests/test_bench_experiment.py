import pytest

from augury._errors import UnsupportedError
from augury.bench.experiment import PICKS, find_experiments, jobs, read_experiment

TEXT = """
paper = "random-grid"
title = "Figure 0"
metric = "cumulative regret"
repeats = 4

[quick]
repeats = 2
iterations = 5
problems = ["branin"]

[[tasks]]
problem = "branin"
initial = 4
iterations = 10

[[tasks]]
problem = "hartmann-6"
initial = 6
iterations = 3
batch = 2
wrap = [{ name = "noisy", std = 0.1 }]

[[methods]]
name = "ucb"
surrogate = { name = "gp", kernel = "matern32" }
policy = { name = "ucb" }
grid = { "policy.beta" = [2.0, 1.0, 0.5] }

[[methods]]
name = "later"
algorithm = "sto-bnts"
"""


def write(folder, text=TEXT, name="fig0.toml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_an_experiment_is_read(tmp_path):
    experiment = read_experiment(write(tmp_path))
    assert experiment.name == "fig0"
    assert [task.label for task in experiment.tasks] == ["branin", "hartmann-6+noisy"]
    assert [task.evaluations for task in experiment.tasks] == [14, 12]
    names = ["ucb policy.beta=2.0", "ucb policy.beta=1.0", "ucb policy.beta=0.5", "later"]
    assert [method.name for method in experiment.methods] == names
    assert [method.default for method in experiment.methods] == [True, False, False, True]
    assert experiment.methods[1].spec["policy"] == {"name": "ucb", "beta": 1.0}
    assert experiment.methods[1].group == "ucb"


def test_the_quick_variant_is_smaller_and_has_its_own_name(tmp_path):
    quick = read_experiment(write(tmp_path), quick=True)
    assert quick.name == "fig0-quick"
    assert quick.repeats == 2
    assert [(task.problem, task.iterations) for task in quick.tasks] == [("branin", 5)]


def test_the_quick_variant_may_take_the_defaults_of_grids_only(tmp_path):
    path = write(
        tmp_path,
        TEXT.replace(
            "[quick]", 'pick = "cumulative regret over the last half"\n[quick]\ndefaults = true'
        ),
    )
    assert read_experiment(path).pick == "cumulative regret over the last half" == PICKS[1]
    methods = read_experiment(path, quick=True).methods
    assert [method.name for method in methods] == ["ucb policy.beta=2.0", "later"]


def test_jobs_are_paired_and_go_seed_by_seed(tmp_path):
    experiment = read_experiment(write(tmp_path))
    listed = list(jobs(experiment))
    assert len(listed) == 4 * 2 * 4
    assert [job.seed for job in listed] == sorted(job.seed for job in listed)
    assert len({job.key for job in listed}) == len(listed)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('paper = "random-grid"', "", "must have 'paper'; got none"),
        ('metric = "cumulative regret"', 'metric = "luck"', "a metric of .*; got 'luck'"),
        ("repeats = 4", "repeats = 4\ncolour = 1", "only .* in the file; got colour"),
        ("initial = 4", "", "tasks with 'initial'"),
        ('name = "later"', 'name = "ucb policy.beta=1.0"', "methods of different names"),
        ('title = "Figure 0"', "title = ", "valid TOML"),
        ("repeats = 4", 'repeats = 4\npick = "luck"', "a pick of .*; got 'luck'"),
    ],
)
def test_wrong_files_get_a_sentence(tmp_path, old, new, sentence):
    with pytest.raises(UnsupportedError, match=sentence):
        read_experiment(write(tmp_path, TEXT.replace(old, new, 1)))


CLAIM = """
[[claims]]
text = "ucb is the best"
better = "ucb"
than = "later"
measure = "cumulative regret"
problems = ["branin"]
comparable = true
"""


def test_claims_are_read(tmp_path):
    (claim,) = read_experiment(write(tmp_path, TEXT + CLAIM)).claims
    assert (claim.better, claim.than, claim.problems) == ("ucb", ("later",), ("branin",))
    assert claim.comparable
    assert not claim.carried_over
    several = CLAIM.replace('"later"', '["later", "ucb policy.beta=1.0"]')
    (claim,) = read_experiment(write(tmp_path, TEXT + several), quick=True).claims
    assert claim.than == ("later", "ucb policy.beta=1.0")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('better = "ucb"', "", "claims with 'better'"),
        ('better = "ucb"', 'better = "ucb"\nworse = "x"', "only .* in a claim; got worse"),
        ('"later"', '["later", "never"]', "claims about methods of the file; got never"),
        ('["branin"]', '["levy-5"]', "claims about problems of the file; got levy-5"),
        ('"cumulative regret"', '"luck"', "claims with a measure of .*; got 'luck'"),
    ],
)
def test_wrong_claims_get_a_sentence(tmp_path, old, new, sentence):
    with pytest.raises(UnsupportedError, match=sentence):
        read_experiment(write(tmp_path, TEXT + CLAIM.replace(old, new, 1)))


def test_experiments_are_found_by_name(tmp_path):
    write(tmp_path)
    write(tmp_path, name="a.toml")
    assert list(find_experiments(tmp_path)) == ["a", "fig0"]
