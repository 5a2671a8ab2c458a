import pytest

from augury._errors import UnsupportedError
from augury.bench.experiment import PICKS, jobs
from augury.bench.experiment_files import find_experiments, read_experiment

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
wrap = [{ name = "noisy", deviation = 0.1 }]

[[methods]]
name = "ucb"
surrogate = { name = "gp", kernel = "matern32" }
policy = { name = "ucb" }
grid = { "policy.beta" = [2.0, 1.0, 0.5] }

[[methods]]
name = "later"
algorithm = "neural-bo"
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


def test_an_experiment_may_share_runs_with_others_of_the_folder(tmp_path):
    write(tmp_path, name="first.toml")
    path = write(tmp_path, 'suite = "all"\nshares = ["first"]\n' + TEXT)
    experiment = read_experiment(path)
    assert (experiment.suite, experiment.shares) == ("all", ("first",))
    assert read_experiment(path, quick=True).shares == ()  # quick runs are others
    for shares, got in (('["fig0"]', "'fig0'"), ('["none"]', "'none'"), ("true", "True")):
        write(tmp_path, f"shares = {shares}\n" + TEXT)
        with pytest.raises(UnsupportedError, match=f"fig0.toml: shares must .*; got {got}"):
            read_experiment(path)


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
        ('paper = "random-grid"', "", "'paper' must be given; got none"),
        ('metric = "cumulative regret"', 'metric = "luck"', "metric must be one of .*; got 'luck'"),
        ("repeats = 4", "repeats = 4\ncolour = 1", "keys must be among .*; got colour"),
        ("initial = 4", "", r"tasks\[1\] 'initial' must be given"),
        ('name = "later"', 'name = "ucb policy.beta=1.0"', "methods must have different names"),
        ('title = "Figure 0"', "title = ", "valid TOML"),
        ("repeats = 4", 'repeats = 4\npick = "luck"', "pick must be one of .*; got 'luck'"),
        ("repeats = 4", 'repeats = 4\ndesign = "halton"', "design must be one of sobol, random"),
        ("repeats = 4", "repeats = 0", "repeats must be a whole number of at least 1; got 0"),
        ("repeats = 4", "repeats = 4.5", "repeats must be a whole number of at least 1; got 4.5"),
        ("repeats = 4", "repeats = true", "repeats must be a whole number"),
        ("repeats = 4", "repeats = 4\nfresh = 1", "fresh must be true or false; got 1"),
        ("repeats = 4", 'repeats = 4\npublished = "x"', "published must be a table; got 'x'"),
        ("repeats = 4", "repeats = 4\nclaims = 1", "claims must be a list of tables; got 1"),
        ('title = "Figure 0"', "title = 1", "title must be a text; got 1"),
        ("initial = 4", "initial = -1", r"tasks\[1\] initial must be a whole number of at least 0"),
        ("iterations = 10", 'iterations = "10"', "iterations must be a whole number"),
        ("batch = 2", "batch = 0", r"tasks\[2\] batch must be a whole number of at least 1; got 0"),
        ('problem = "branin"', 'problem = "brannin"', "problem must be a name of .*; got 'brannin'"),
        ('problem = "branin"', "problem = 3", "problem must be a text; got 3"),
        ('[{ name = "noisy", deviation = 0.1 }]', '"noisy"', "wrap must be a list of tables"),
        ('name = "noisy", ', "", r"tasks\[2\] wrap\[1\]: a wrapper must be one of .*; got None"),
        ('"noisy"', '"nosy"', "a wrapper must be one of .*; got 'nosy'"),
        ("deviation", "std", "the settings of noisy must be those of its class"),
        ("deviation = 0.1", 'deviation = "a"', "the settings of noisy"),
        ('["branin"]', '["levy-5"]', r"\[quick\] problems must name what the file has; got levy-5"),
        ('problems = ["branin"]', 'methods = ["ucp"]', r"methods must name what the file has; got ucp"),
        ('problems = ["branin"]', 'methods = "ucb"', r"\[quick\] methods must be a list of texts"),
        ("iterations = 5", "iterations = -5", r"\[quick\] iterations must be a whole number"),
        ('name = "later"', "name = 7", r"methods\[2\] name must be a text; got 7"),
        ('grid = { "policy.beta" = [2.0, 1.0, 0.5] }', "grid = 1", "grid must be a table; got 1"),
        ("[2.0, 1.0, 0.5]", "2.0", "grid 'policy.beta' must be a list of at least one value; got 2.0"),
        ("[2.0, 1.0, 0.5]", "[]", "grid 'policy.beta' must be a list of at least one value"),
        ('policy = { name = "ucb" }', "policy = 3", "policy must be a table, or the name of a part"),
        ('"neural-bo"', '"sto-bnt"', "fig0.toml: the algorithm of .*; got 'sto-bnt'"),
        ('"neural-bo"', "[1]", r"the algorithm of method 'later' must be one of .*; got \[1\]"),
        ('"neural-bo"', '"neural-bo"\nmaximizer = "gradiend"', "a maximizer must be .*'gradiend'"),
        ('"neural-bo"', '"neural-bo"\nsettings = 1', "settings of method 'later' must be a table"),
        ('algorithm = "neural-bo"', 'algorthm = "gp-ei"', "must have only .*; got algorthm"),
        ('algorithm = "neural-bo"', 'peer = "smack"', "peer must be one of .*; got 'smack'"),
        ('algorithm = "neural-bo"', "peer = 1", "peer must be one of .*; got 1"),
        ('algorithm = "neural-bo"', 'peer = "smac"\nsettings = 1', "must be a table; got 1"),
        ('"gp", kernel', '"gpp", kernel', "a surrogate must be one of .*'gpp'"),
        ('{ name = "ucb" }', '{ name = "ucp" }', "a policy must be one of .*'ucp'"),
        ("[2.0, 1.0, 0.5]", '["sqrt-lok"]', "a schedule must be one of .*'sqrt-lok'"),
    ],
)
def test_wrong_files_get_a_sentence(tmp_path, old, new, sentence):
    with pytest.raises(UnsupportedError, match=sentence):
        read_experiment(write(tmp_path, TEXT.replace(old, new, 1)))


def test_files_that_are_not_text_get_a_sentence(tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(b'paper = "\xff"')
    with pytest.raises(UnsupportedError, match=r"a.toml must be UTF-8; got"):
        read_experiment(path)
    with pytest.raises(UnsupportedError, match=r"must be a file that can be read; got: Is a directory"):
        read_experiment(tmp_path)
    for key in ("tasks", "methods"):
        start = 'paper = "x"\ntitle = "x"\nmetric = "best value"\nrepeats = 1\nquick = {}\n'
        lists = {"tasks": "[]", "methods": "[]"} | {key: '["branin"]'}
        path.write_text(start + "".join(f"{name} = {text}\n" for name, text in lists.items()))
        with pytest.raises(UnsupportedError, match=f"a.toml: {key} must be a list of tables"):
            read_experiment(path)


def test_a_grid_may_go_into_a_part_that_is_named_only(tmp_path):
    text = TEXT.replace('policy = { name = "ucb" }', 'policy = "ucb"')
    methods = read_experiment(write(tmp_path, text)).methods
    assert methods[1].spec["policy"] == {"name": "ucb", "beta": 1.0}


def test_settings_and_sizes_make_another_digest_and_seeds_do_not(tmp_path):
    listed = list(jobs(read_experiment(write(tmp_path))))
    assert len({job.digest for job in listed}) == 2 * 4
    for old, new in (
        ("iterations = 10", "iterations = 11"),
        ("2.0, 1.0", "3.0, 1.0"),
        ("= 0.1", "= 0.2"),
    ):
        changed = list(jobs(read_experiment(write(tmp_path, TEXT.replace(old, new)))))
        assert {job.digest for job in changed} != {job.digest for job in listed}, new


CLAIM = """
[[claims]]
text = "ucb is the best"
better = "ucb"
than = "later"
measure = "cumulative regret"
problems = ["branin"]
comparable = true
"""


def test_a_claim_may_be_carried_over_to_something(tmp_path):
    for value, meant in (("true", "Augury's own model"), ("false", ""), ('"B = 4"', "B = 4")):
        text = TEXT + CLAIM + f"carried_over = {value}\n"
        (claim,) = read_experiment(write(tmp_path, text)).claims
        assert claim.carried_over == meant


def test_quick_claims_are_about_what_the_quick_variant_runs(tmp_path):
    several = CLAIM.replace('"later"', '["later", "random"]')
    elsewhere = CLAIM.replace('"later"', '"random"').replace('"branin"', '"hartmann-6"')
    text = TEXT.replace("[quick]", '[quick]\nmethods = ["ucb", "random"]')
    text += '[[methods]]\nname = "random"\nalgorithm = "random"\n'
    text += several + CLAIM + elsewhere
    assert len(read_experiment(write(tmp_path, text)).claims) == 3
    (claim,) = read_experiment(write(tmp_path, text), quick=True).claims
    assert claim.than == ("random",)


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
        ('better = "ucb"', "", r"claims\[1\] 'better' must be given"),
        ('better = "ucb"', 'better = "ucb"\nworse = "x"', "keys must be among .*; got worse"),
        ('"later"', '["later", "never"]', "be about methods of the file; got never"),
        ('["branin"]', '["levy-5"]', "be about problems of the file; got levy-5"),
        ('"cumulative regret"', '"luck"', r"claims\[1\] measure must be one of .*; got 'luck'"),
        ("comparable = true", "carried_over = 1", "carried_over must be true, false or a text; got 1"),
    ],
)
def test_wrong_claims_get_a_sentence(tmp_path, old, new, sentence):
    with pytest.raises(UnsupportedError, match=sentence):
        read_experiment(write(tmp_path, TEXT + CLAIM.replace(old, new, 1)))


def test_experiments_are_found_by_name(tmp_path):
    write(tmp_path)
    write(tmp_path, name="a.toml")
    assert list(find_experiments(tmp_path)) == ["a", "fig0"]
