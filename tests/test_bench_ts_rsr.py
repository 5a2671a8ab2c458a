"""What TS-RSR's code does otherwise, and experiments of many long runs."""

import json
import math

import numpy as np
import pytest

from augury import Algorithm, Float, Optimizer, Space
from augury.bench import runner
from augury.bench.designs import initial_points, of_ts_rsr_code, sequence_of_ts_rsr_code
from augury.bench.experiment import Experiment, Job, Method, Task
from augury.bench.problems.pushing import TSRSR_GOALS_3D, TSRSR_GOALS_4D
from augury.bench.records import check_records
from augury.bench.report import html, markdown
from augury.bench.report.gathering import build_report
from augury.bench.report.overall import overall
from augury.bench.ts_rsr_code import (
    LogCandidates,
    OnCandidates,
    OnRows,
    RedrawnNoise,
    adam,
    jitter_in_single_precision,
)
from augury.core.data import Data
from augury.core.keys import fold
from augury.core.precision import computing
from augury.policies import TSRSR, Thompson
from augury.surrogates import GaussianProcess
from known_line import GRID, KEY, NOISE, PROCESS, X, Y, fitted, predict, rows

SETTINGS = {
    "kernel": "matern52",
    "lengthscale": 0.2,
    "variance": 0.7,
    "noise": 1e-6,
    "relative": True,
    "redrawn_noise": 1e-3,
    "candidates": 64,
    "box": [15.0, 15.0],
    "ascend_mean": True,
}


class Rows:
    def __init__(self, places):
        self.rows = rows(places)


def choose(policy, posterior, count, places=GRID[::4]):
    return policy.choose(
        posterior,
        rows(()),
        None,
        t=1,
        maximize=None,
        candidates=lambda n, key, *, without=(): Rows(places),
        keys=[fold(KEY, i) for i in range(count)],
    )


def test_runs_begin_with_the_points_of_the_code():
    # the goals of the pushing problems are known, and come right before the points
    for problem, goals in (
        ("robot-push-3-tsrsr", TSRSR_GOALS_3D),
        ("robot-push-4-tsrsr-code", TSRSR_GOALS_4D),
    ):
        drawn = sequence_of_ts_rsr_code(problem).uniform(-5.0, 5.0, (10, 2))
        np.testing.assert_allclose(drawn, goals, atol=1e-4)
        numbers = sequence_of_ts_rsr_code(problem)
        after = numbers.uniform(size=20 + 2 * 15 * 3)[20:].reshape(2, 15, 3)
        runs = [of_ts_rsr_code(problem, run, 15, 3) for run in range(2)]
        np.testing.assert_array_equal(runs, after)
    task = Task("rosenbrock-2", 15, 50, 5)
    problem = runner.make_problem(task, 1)
    x, y = np.random.RandomState(0).uniform((-2.0, -1.0), (2.0, 3.0), (30, 2))[15]
    first = initial_points(task, problem, "ts-rsr code", 1)[0]
    np.testing.assert_allclose(list(first.values()), [x, y])


def test_a_batch_is_chosen_from_one_set_of_candidates():
    posterior = fitted()
    policy = OnCandidates(Thompson(), 26, ascend_mean=False, box=(1.0, 1.0))
    points = choose(policy, posterior, 4).points
    assert {point.x[0] for point in points} <= set(GRID[::4])
    refined = choose(OnCandidates(TSRSR(), 26, False, 10, box=(1.0, 1.0)), posterior, 4).points
    assert refined[0].x[0] in set(GRID[::4])
    assert any(point.x[0] not in set(GRID) for point in refined[1:])


def test_draws_at_the_candidates_have_the_posteriors_covariance():
    posterior, places = fitted(), np.array([0.1, 0.31, 0.5, 0.9])
    policy = OnCandidates(Thompson(), 4, ascend_mean=False, box=(1.0, 1.0))
    wins = np.zeros(4)
    for seed in range(400):
        picks = policy.choose(
            posterior, rows(()), None, t=1, maximize=None,
            candidates=lambda n, key, *, without=(): Rows(places), keys=[fold(KEY, 9, seed)],
        )  # fmt: skip
        wins[int(np.argmin(np.abs(places - picks.points[0].x[0])))] += 1
    mean, covariance = posterior.joint(rows(places))
    exact = np.random.default_rng(0).multivariate_normal(mean, covariance, 100_000).argmax(1)
    p = np.bincount(exact, minlength=4) / 100_000
    assert np.all(np.abs(wins / 400 - p) < 4.0 * np.sqrt(p * (1.0 - p) / 400) + 1.0 / 400)


def test_redrawn_functions_are_known_at_the_candidates_alone_too():
    places = rows(np.array([0.1, 0.31, 0.5, 0.9]))
    drawing = OnRows(fitted(), places, places[:0])
    path = drawing.sample(key=KEY, scale=2.0)
    (same,) = drawing.draws(keys=[KEY], scale=2.0)
    np.testing.assert_array_equal([path(x) for x in places], same.path.values)
    assert path(np.array([0.2, 0.0])) == -np.inf


def test_jitter_is_what_gpytorch_adds_in_single_precision():
    """By its warnings (GPyTorch 1.15): 50 or 300 points, half of them in a cluster beside the centre."""
    process = GaussianProcess(
        lengthscale=math.log(2) / 12, variance=math.log(2), noise=1e-6, relative=True
    )
    for n, spread, known in ((50, 0.3, 0.0), (50, 0.03, 1e-5), (300, 0.3, 1e-5), (300, 0.01, 1e-4)):
        for seed in range(3):
            rng = np.random.RandomState(seed)
            far, near = (
                rng.uniform(-6, 6, (n // 2, 2)),
                (4.7, 3.1) + spread * rng.normal(size=(n // 2, 2)),
            )
            x = (np.concatenate([far, near]) + 6.0) / 12.0
            assert jitter_in_single_precision(process, x) == known
    data = Data.of(x, np.sin(x[:, 0]))
    noise = [
        RedrawnNoise(process, 1e-3, single).fit(data, key=KEY).info["noise"] for single in (False, True)
    ]
    assert noise[1] == pytest.approx((1e-6 + 1e-4) * np.var(data.y[:n]), rel=0.05)
    assert noise[0] == pytest.approx(1e-6 * np.var(data.y[:n]), rel=0.05)


def test_maxima_of_the_mean_are_candidates():
    posterior = fitted()
    mean, _ = predict(X, Y, GRID)
    few = np.array([0.0, 0.6, 1.0])  # far from the largest mean, beside an observation of 1
    policy = OnCandidates(TSRSR(redraws=1), 3, box=(1.0, 1.0))
    rises = policy._maxima(posterior, rows(few))
    top = GRID[np.argmax(mean)]
    assert np.min(np.abs(rises[:, 0] - top)) < 0.03
    many = fitted(np.linspace(0.3, 0.6, 20), np.linspace(1.0, 1.2, 20))
    worse = rows(np.array([0.0, 1.0]))
    assert len(policy._maxima(many, worse)) == 21  # every observation that is better and far away
    narrow = OnCandidates(TSRSR(), 3, box=(0.1, 0.1))  # no observation is 0.1 away from a candidate
    assert len(narrow._maxima(posterior, rows(few))) == 1


def test_adam_climbs_and_stays_in_the_cube():
    from augury.policies.ts_rsr import MeanScore

    rate = np.full((2, 2), 0.01)
    starts = rows(np.array([0.2, 0.99]))
    with computing():
        score, mean = MeanScore(fitted()), np.asarray(fitted().mean(starts))
        ends, best, top = (np.asarray(a) for a in adam(score, starts, rate, rate / 100, 100, mean))
        one, after, _ = (np.asarray(a) for a in adam(score, starts, rate, rate / 100, 1, mean - 1.0))
        _, same, _ = (np.asarray(a) for a in adam(score, starts, rate, rate / 100, 1, mean))
    assert np.all((ends >= 0.0) & (ends <= 1.0))
    assert np.all(top >= mean)
    assert top[0] > mean[0] + 0.1
    assert np.abs(best[0] - starts[0]).max() > 0.01
    np.testing.assert_array_equal(after[0], one[0])  # the point after the one whose score counts
    np.testing.assert_array_equal(same[0], starts[0])  # whose score is not above that of the start


def test_noise_is_other_noise_in_every_fit():
    data = Data.of(rows(X), Y)
    noisy = RedrawnNoise(PROCESS, 0.1)
    tuned = noisy.tune(data, key=KEY)
    values = np.array(
        [noisy.fit(data, key=fold(KEY, i), tuned=tuned).posterior.y[:5] for i in range(200)]
    )
    assert values.mean(0) == pytest.approx(Y, abs=4.0 * 0.1 * Y.std() / math.sqrt(200))
    assert values.std(0) == pytest.approx(np.full(5, 0.1 * Y.std()), rel=0.25)
    assert noisy.fits(3) is None


def test_relative_settings_are_multiples_of_the_values_variance():
    data = Data.of(rows(X), 100.0 * Y)
    fit = GaussianProcess(lengthscale=0.2, variance=0.5, noise=1e-3, relative=True).fit(data, key=KEY)
    assert fit.info["variance"] == pytest.approx(0.5 * (100.0 * Y).var())
    assert fit.info["noise"] == pytest.approx(1e-3 * (100.0 * Y).var())
    plain = GaussianProcess(lengthscale=0.2, variance=0.5, noise=NOISE).fit(data, key=KEY)
    assert plain.info["variance"] == pytest.approx(0.5)


def test_beta_counts_batches():
    beta = LogCandidates(1000, 0.2, 0.01, batch=5)
    assert beta(1, None) == beta(5, None) == pytest.approx(0.2 * math.log(1000 * math.pi**2 / 0.06))
    assert beta(6, None) == pytest.approx(0.2 * math.log(1000 * 4 * math.pi**2 / 0.06))


def test_a_paper_setting_drives_an_optimizer():
    space = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))
    surrogate = RedrawnNoise(GaussianProcess(lengthscale=0.2, variance=0.7, noise=1e-6, relative=True))
    algorithm = Algorithm(surrogate, OnCandidates(TSRSR(), 64, True, 10, box=(1.0, 1.0)))
    opt = Optimizer(space, algorithm, seed=0, initial=5)
    for _ in range(4):
        for trial in opt.ask(3):
            opt.tell(trial, (trial.params["x"] - 0.3) ** 2 + trial.params["y"])
    assert len({tuple(trial.params.values()) for trial in opt.trials}) == 12


# ----------------------------------------------------------------- functions, and what is kept


def job(method="random", **settings):
    task = Task("branin", 4, 3, 5, **settings)
    spec = {"algorithm": method} if method == "random" else {"algorithm": method, "settings": SETTINGS}
    return Job("test", task, Method(method, spec, method), 1)


def test_repeats_take_the_functions_in_turn():
    def task(functions):
        return Task("gp-rbf-2d-code", 1, 1, functions=functions)

    def there(task, seed):
        return runner.make_problem(task, seed).value({"x1": 0.0, "x2": 0.0})

    ten = task(10)
    assert there(ten, 3) == there(ten, 13) == there(task(None), 3)
    assert there(ten, 3) != there(ten, 4)
    assert there(task(None), 13) != there(ten, 13)
    digests = {Job("e", t, Method("m", {}, "m"), 0).digest for t in (ten, task(None))}
    assert len(digests) == 2


def test_the_best_so_far_is_all_that_simple_regret_needs(tmp_path):
    whole, short = (runner.run_job(job(keep=keep), tmp_path / keep) for keep in ("values", "best"))
    assert whole["points"] == short["points"]
    line = json.loads(json.dumps(short))
    assert len(line["values"]) < len(whole["values"]) == 19
    (read,) = check_records(tmp_path, [line])
    np.testing.assert_allclose(read["values"], np.minimum.accumulate(whole["values"]))
    for broken in ([1.0, 2.0], [[1.0]], "x"):
        with pytest.raises(Exception, match="line 1 has no valid values"):
            check_records(tmp_path, [{**line, "values": broken}])


def test_a_report_of_the_best_so_far_sums_nothing(tmp_path):
    def charts(keep):
        run = job(keep=keep)
        experiment = Experiment(
            "test", "ts-rsr", "A test", "simple regret", 1, (run.task,), (run.method,)
        )
        (line,) = check_records(tmp_path, [json.loads(json.dumps(runner.run_job(run, tmp_path / keep)))])
        problem = build_report(experiment, [line | {"seed": 0}]).problems[0]
        return {chart.title for chart in problem.charts}, problem.rows[0]

    (summed, whole), (titles, row) = charts("values"), charts("best")
    assert summed - titles
    assert all("umulative" in title for title in summed - titles)
    assert not any("umulative" in title for title in titles)
    assert whole.per_iteration is not None
    assert row.per_iteration is None
    assert row.final == whole.final


def page(name, better, rival, published=None, **settings):
    """The report of an experiment with one problem, three methods and three seeds."""
    task = Task("branin", 1, 1, **settings)
    methods = tuple(Method(m, {"algorithm": "random"}, m) for m in ("ts-rsr", "random", "rival"))
    experiment = Experiment(
        name, "ts-rsr", name, "simple regret", 3, (task,), methods, published=published or {}
    )
    records = [
        {
            "key": f"branin/{method}/{seed}", "problem": "branin", "method": method, "seed": seed,
            "initial": 1, "values": [9.0, value + 0.1 * seed], "seconds": [0.1], "peak_mib": 1,
            "direction": "minimize", "optimum": 0.0, "exact": True, "suggestions": 1,
        }
        for method, value in (("ts-rsr", better), ("rival", rival), ("random", 5.0))
        for seed in range(3)
    ]  # fmt: skip
    return build_report(experiment, records)


def test_experiments_of_one_problem_are_ranked_together():
    printed = {"ts-rsr": {"mean": 1.0, "deviation": 0.3}, "rival": {"mean": 9.0}, "unit": 1.0, "runs": 9}
    reports = [page("a", 1.0, 2.0, printed), page("b", 1.2, 3.0, printed), page("c", 2.0, 1.5)]
    together = overall(reports)
    assert together.ranks.mean == {"ts-rsr": pytest.approx(4 / 3), "rival": pytest.approx(5 / 3)}
    assert together.ranks.problems == 3
    # 1.1 ± … is within 1.0 + 0.3/√9 = 1.1 in "a" alone
    assert "plus one standard error of the paper's in 1 of 2 experiments; not in branin" in str(
        together.sentences
    )
    # Φ(0.1 / √(0.01/3 + 0.01)) for each of the two, and (0.1² + 0.3²) / (0.01/3 + 0.01)
    chance = "in 1.6 on average; all differences together are χ² = 7.5 on 2 degrees of freedom "
    chance += "(p = 0.024)"
    assert chance in str(together.sentences)
    assert together.tables[0].rows[0][1].endswith("[1.00 ± 0.10]")
    assert together.tables[0].best == {(0, 1), (1, 1), (2, 2)}
    assert together.tables[0].columns[1:] == ("`ts-rsr`", "`rival`", "`random`")  # which is not ranked
    for text in (markdown.page(reports), html.page(reports)):
        assert "All experiments together" in text
    assert overall(reports[:1]) is None
    assert "together" not in markdown.page(reports[:1])


def group(name, finals, shares=(), suite="all"):
    """The report of an experiment of a suite, with one problem for each table of final values."""
    tasks = tuple(Task(problem, 1, 1) for problem in finals)
    methods = tuple(Method(m, {"algorithm": "random"}, m) for m in ("ours", "random", "rival"))
    experiment = Experiment(
        name, "auto", name, "simple regret", 3, tasks, methods, suite=suite, shares=shares
    )
    records = [
        {
            "key": f"{problem}/{method}/{seed}", "problem": problem, "method": method, "seed": seed,
            "initial": 1, "values": [9.0, value + noise], "seconds": [0.1], "peak_mib": 1,
            "direction": "minimize", "optimum": 0.0, "exact": True, "suggestions": 1,
        }
        for problem, values in finals.items()
        for method, value in zip(("ours", "rival", "random"), values, strict=True)
        for seed, noise in enumerate((0.0, 0.01, 0.03 if method == "ours" else 0.02))
    ]  # fmt: skip
    return build_report(experiment, records)


def test_groups_of_problems_are_ranked_together_and_against_random():
    first = group("first", {"branin": (1.0, 2.0, 3.0), "bird": (1.0, 2.0, 1.5)})
    second = group("second", {"ackley-2": (2.0, 1.0, 1.5), "hartmann-3": (1.0, 3.0, 3.0)})
    again = group("again", {"branin": (9.0, 2.0, 3.0)}, shares=("first",))
    together = overall([first, second, again])
    assert together.ranks.problems == 4  # not those that are counted already
    assert together.ranks.mean == {"ours": 1.5, "random": 2.375, "rival": 2.125}
    groups, against = together.tables
    assert groups.columns == ("method", "all (4)", "first (2)", "second (2)")
    assert groups.rows[0] == ("`ours`", "1.50", "1.00", "2.00")
    assert groups.best == {(0, 1), (0, 2), (1, 3)}
    # ours differs from random by more than its spread on all problems, and is worse on one of them;
    # the rival equals it on hartmann-3
    assert against.rows == (
        ("`ours`", "4", "3", "0", "1", "ackley-2"),
        ("`rival`", "4", "2", "1", "1", "bird"),
    )
    assert first.against.rows[0] == ("`ours`", "2", "2", "0", "0", "–")
    assert again.against is None  # one problem
    for text in (markdown.page([first, second]), html.page([first, second])):
        assert "Mean ranks by group of problems" in text
        assert text.count("Every method against") == 3
    alone = group("first", {"branin": (1.0, 2.0, 3.0), "bird": (1.0, 2.0, 1.5)}, suite="")
    assert alone.against is None
    assert overall([alone, second]) is None


def test_regret_may_be_against_the_best_of_all_runs():
    (problem,) = page("a", 1.0, 2.0, best_of_runs=True).problems
    finals = {row.name: row.final.mean for row in problem.rows}
    assert finals == {
        "ts-rsr": pytest.approx(0.1),
        "rival": pytest.approx(1.1),
        "random": pytest.approx(4.1),
    }
    assert problem.remark == "Regret is against the best value of all runs, 1."


def test_a_method_of_the_paper_runs(tmp_path):
    record = runner.run_job(job("ts-rsr"), tmp_path)
    assert len(record["values"]) == 19
