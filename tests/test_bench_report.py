import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from augury.bench import statistics
from augury.bench.experiment import Claim, Method, Task, jobs
from augury.bench.problem import MissingError
from augury.bench.report import html, markdown, numbers, profiles, sentences, tables
from augury.bench.report.comparing import cliques
from augury.bench.report.gathering import build_report
from augury.bench.report.rank_diagram import rank_diagram
from augury.bench.report.svg import POINTS, Scale, draw, log_ticks, styles, ticks
from augury.cli import main
from made_up import TASK, experiment, method, record

A = [[9.0, 8.0, 3.0, 4.0, 1.0], [9.0, 7.0, 2.0, 2.0, 2.0], [9.0, 6.0, 5.0, 3.0, 0.5]]
B = [[9.0, 8.0, 6.0, 6.0, 6.0], [9.0, 7.0, 6.0, 6.0, 5.0], [9.0, 6.0, 7.0, 7.0, 7.0]]


def runs(name, rows, problem="branin", **more):
    return [record(problem, name, seed, row, **more) for seed, row in enumerate(rows)]


def two_methods(**more):
    return build_report(experiment("good", "random", **more), runs("good", A) + runs("random", B))


def rows_of(report, problem=0):
    return {row.name: row for row in report.problems[problem].rows}


def test_the_numbers_of_a_table_are_those_computed_by_hand():
    report = two_methods()
    good, random = rows_of(report).values()
    sums = [3.0 + 4.0 + 1.0, 2.0 + 2.0 + 2.0, 5.0 + 3.0 + 0.5]  # after the initial design
    assert good.final.mean == pytest.approx(np.mean(sums))
    assert good.final.error == pytest.approx(np.std(sums, ddof=1) / math.sqrt(3))
    assert good.final.median == 8.0
    assert good.final.quartiles == tuple(np.quantile(sums, [0.25, 0.75]))
    assert good.simple.mean == pytest.approx(np.mean([1.0, 2.0, 0.5]))
    assert (good.rank, random.rank) == (1.0, 2.0)
    assert good.seconds == pytest.approx(0.2)
    assert good.last_seconds == pytest.approx(0.3)
    assert good.peak_mib == 101.0
    assert good.repeats == 3
    assert math.isnan(good.eta)
    assert good.path[-1] == pytest.approx(np.mean(sums))
    # random's median best value at the end, 6, is reached by good's third of five evaluations
    assert good.efficiency == pytest.approx(math.log2(5 / 3))
    assert math.isnan(random.efficiency)
    assert report.baseline == "random"
    assert (report.used, report.missing) == (6, 0)


def test_diagnostics_are_averaged_where_they_are_recorded():
    records = runs("good", A, eta=0.9, inaccuracy=0.3) + runs("random", B)
    report = build_report(experiment("good", "random"), records)
    assert rows_of(report)["good"].eta == pytest.approx(0.9)
    table = tables.results(report.problems[0], report)
    assert table.rows[0][table.columns.index("mean η")] == "0.900"
    assert table.rows[1][table.columns.index("M_T")] == "–"
    plain = two_methods()
    assert "M_T" not in tables.results(plain.problems[0], plain).columns


def test_the_sentence_says_who_is_best_and_what_is_significant():
    (sentence,) = two_methods().sentences
    assert sentence.startswith("On `branin`, `good` has the lowest cumulative regret (7.50 ± 0.76)")
    p = stats.ttest_rel([8.0, 6.0, 8.5], [18.0, 17.0, 21.0], alternative="less").pvalue
    assert p < 0.05
    assert "It is significantly lower than 1 of the 1 other method." in sentence


def test_batches_have_a_regret_per_iteration():
    task = Task("branin", 1, 2, batch=2)
    values = [[9.0, 4.0, 3.0, 2.0, 5.0]]
    report = build_report(experiment("a", tasks=(task,)), runs("a", values, initial=1, batch=2))
    row = rows_of(report)["a"]
    assert row.final.mean == 14.0
    assert row.per_iteration.mean == 3.0 + 2.0
    titles = [chart.title for chart in report.problems[0].charts]
    assert any(title.startswith("Cumulative regret per iteration") for title in titles)


def test_without_an_optimum_the_best_value_counts_in_its_direction():
    unknown = {"optimum": None, "exact": False, "direction": "maximize"}
    report = build_report(
        experiment("good", "random"), runs("good", B, **unknown) + runs("random", A, **unknown)
    )
    problem = report.problems[0]
    assert (problem.measure, problem.lower) == ("best value", False)
    assert "not known" in problem.remark
    assert rows_of(report)["good"].final.mean == 9.0
    assert rows_of(report)["good"].simple is None
    assert all("egret" not in chart.title for chart in problem.charts)


def test_each_run_has_its_own_optimum_and_better_values_are_told():
    records = [
        record("branin", "a", 0, [5.0, 4.0, 3.0], optimum=3.0, exact=False),
        record("branin", "a", 1, [5.0, 4.0, 3.0], optimum=3.5, exact=False),
    ]
    report = build_report(
        experiment("a", metric="simple regret", tasks=(Task("branin", 2, 1),), repeats=2), records
    )
    assert rows_of(report)["a"].final.mean == pytest.approx((0.0 - 0.5) / 2)
    assert "each run's own best known value" in report.problems[0].remark
    assert "1 runs found a better one" in report.problems[0].remark
    for item in records:
        item["optimum"] = 3.0000000274  # results have eight digits
    report = build_report(experiment("a", tasks=(Task("branin", 2, 1),), repeats=2), records)
    assert "better one" not in report.problems[0].remark


BIRD = -106.76453674926472  # the minimum, which eight digits round to a lower number


def at_the_minimum(values, problem="bird", optimum=BIRD, **more):
    """The report of runs of `a`, `b` and `c` that end at a value each, on two seeds."""
    records = [
        record(problem, name, seed, [0.0, 0.0, value], optimum=optimum, **more)
        for name, value in zip("abc", values, strict=True)
        for seed in range(2)
    ]
    tasks = (Task(problem, 2, 1),)
    return build_report(experiment(*"abc", metric="simple regret", tasks=tasks, repeats=2), records)


def test_a_regret_that_is_negative_by_rounding_is_zero_and_shared():
    report = at_the_minimum([-106.76454, -106.76454, -106.76453])
    finals = [row.final.mean for row in report.problems[0].rows]
    assert finals == [0.0, 0.0, pytest.approx(6.75e-6, rel=1e-3)]
    assert report.sentences[0] == (
        "On `bird`, `a` and `b` have the lowest simple regret (0 ± 0); next is `c` (6.75e−6 ± 0). "
        "`a` is significantly lower than 1 of the 2 other methods; 2 of these tests have a sample that "
        "is not normal."
    )
    assert "better one" not in report.problems[0].remark
    assert "−3.25" not in markdown.page([report])
    above = at_the_minimum([106.76454, 106.76453, 0.0], optimum=-BIRD, direction="maximize")
    assert [row.final.mean for row in above.problems[0].rows[:2]] == [0.0, finals[2]]
    whole = at_the_minimum([-106.764536749, -106.764536748, -106.76454], digits=12)
    assert [row.final.mean for row in whole.problems[0].rows] == pytest.approx(
        [0.0, 1.26e-9, -3.2507e-6], rel=1e-2
    )
    assert "2 runs found a better one" in whole.problems[0].remark


def test_methods_that_are_all_at_the_optimum_are_named_together():
    report = at_the_minimum([0.0, 0.0, 0.0], "ackley-2", 0.0)
    assert "`a`, `b` and `c` have the lowest simple regret (0 ± 0). `a` is" in report.sentences[0]


def test_failures_count_and_a_run_without_a_success_ranks_last():
    failed = [[None] * 5, *A[1:]]
    report = build_report(experiment("good", "random"), runs("good", failed) + runs("random", B))
    good = rows_of(report)["good"]
    assert good.failures == 5
    assert good.final.mean == pytest.approx(np.mean([6.0, 8.5]))  # of the runs that have a value
    # on the first seed it counts as the worst run, a tie with none, so it is behind random there
    assert good.rank == pytest.approx((2 + 1 + 1) / 3)


GRID = [
    Method(f"g x={x}", {"algorithm": "random"}, "g", {"part.x": x}, default=x == 1) for x in (1, 2, 3)
]
EARLY, LATE = [9.0, 9.0, 1.0, 1.0, 2.0, 2.0], [9.0, 9.0, 9.0, 9.0, 9.0, 0.5]
PLAIN = [9.0, 9.0, 8.0, 8.0, 8.0, 8.0]


@pytest.mark.parametrize(
    ("pick", "winner"),
    [("best at the end", "x = 3"), ("cumulative regret over the last half", "x = 2")],
)
def test_a_grid_is_shown_by_its_picked_and_its_default_setting(pick, winner):
    tasks = (Task("branin", 2, 4),)
    records = [
        item
        for name, values in (("g x=1", PLAIN), ("g x=2", EARLY), ("g x=3", LATE), ("random", PLAIN))
        for item in runs(name, [values, values])
    ]
    report = build_report(
        experiment(*GRID, "random", tasks=tasks, metric="best value", pick=pick, repeats=2), records
    )
    rows = rows_of(report)
    assert list(rows) == ["g, picked", "g, default", "random"]
    assert rows["g, picked"].setting == winner
    assert rows["g, default"].setting == "x = 1"
    assert math.isnan(rows["g, default"].rank)  # only the picked one is compared
    (settings,) = report.problems[0].settings
    marks = {row[0]: row[-1] for row in settings.rows}
    assert marks[winner] == "picked"
    assert marks["x = 1"] == "default"
    assert pick in settings.columns[2]


def test_a_picked_default_is_one_row_and_a_lone_grid_is_shown_whole():
    records = runs("g x=1", A) + runs("g x=2", B) + runs("random", B)
    report = build_report(experiment(*GRID, "random"), records)
    assert [row.name for row in report.problems[0].rows] == ["g, picked", "random"]
    assert rows_of(report)["g, picked"].setting == "x = 1 (the default)"
    lone = build_report(experiment(*GRID), runs("g x=1", B) + runs("g x=2", A))
    assert {row.name: row.setting for row in lone.problems[0].rows} == {
        "g x=1": "default",
        "g x=2": "picked",
    }


def claimed(rows, *, comparable=False, measure="cumulative regret", **more):
    claim = Claim("good beats random", "good", ("random",), measure, comparable=comparable)
    report = build_report(
        experiment("good", "random", claims=(claim,)), runs("good", rows, **more) + runs("random", B)
    )
    return report.claims[0].judged[0], report.sentences[-1]


def test_claims_hold_or_not_or_cannot_be_told_apart():
    judged, sentence = claimed(A)
    assert judged.verdict == "holds"
    assert judged.ratio == pytest.approx(7.5 / (56.0 / 3))
    assert sentence.startswith("The paper says: good beats random. The results here agree")
    worse = [[9.0, 8.0, 9.0, 9.0, 9.0 + i] for i in range(3)]
    judged, sentence = claimed(worse)
    assert judged.verdict == "does not hold"
    assert "contradict it" in sentence
    judged, sentence = claimed([B[1], B[0], B[2]])
    assert judged.verdict == "cannot be told apart"
    assert "do not confirm it" in sentence
    assert "do not contradict it" in claimed([B[1], B[0], B[2]], comparable=True)[1]


def test_claims_about_seconds_and_without_results():
    seconds = {"seconds": [0.01, 0.02, 0.01]}
    records = [
        {**item, "seconds": [s + 0.001 * item["seed"] for s in seconds["seconds"]]}
        for item in runs("good", B)
    ]
    claim = Claim("fast", "good", ("random", "later"), "seconds", carried_over="Augury's own model")
    report = build_report(
        experiment("good", "random", "later", claims=(claim,)), records + runs("random", B)
    )
    assert [judged.verdict for judged in report.claims[0].judged] == ["holds", "no results yet"]
    assert "Carried over to Augury's own model: fast." in report.sentences[-1]
    assert "takes less time in 1; 1 more has no results yet." in report.sentences[-1]


def test_a_claim_of_a_difference_has_no_direction():
    claim = Claim("the method matters", "random", ("good",), "cumulative regret", different=True)
    told = experiment("good", "random", claims=(claim,))
    worse = build_report(told, runs("good", A) + runs("random", B))
    assert worse.claims[0].judged[0].verdict == "does not hold"
    assert "The results here agree: of 1 comparison, `random` is higher in 1." in worse.sentences[-1]
    same = build_report(told, runs("good", [B[1], B[0], B[2]]) + runs("random", B))
    assert "do not confirm it" in same.sentences[-1]


def test_a_claim_names_tasks_by_their_labels_or_by_their_problem():
    shifted = Task("branin", 2, 3, wrap=({"name": "shifted"},))
    noisy = Task("levy-5", 2, 3, wrap=({"name": "noisy"},))
    tasks = (TASK, shifted, noisy)

    def about(*problems):
        return [t.label for t in Claim("", "good", ("random",), "seconds", problems).tasks(tasks)]

    assert about() == ["branin", "branin+shifted", "levy-5+noisy"]
    assert about("branin") == ["branin"]  # not its shifted twin
    assert about("branin+shifted", "levy-5") == ["branin+shifted", "levy-5+noisy"]


def test_a_claim_carried_over_to_other_problems_says_so():
    claim = Claim("good is best", "good", ("random",), "simple regret", carried_over="shifted functions")
    report = build_report(experiment("good", "random", claims=(claim,)), runs("good", A))
    assert report.sentences[-1].startswith(
        "Carried over to shifted functions: good is best. There are no"
    )


def test_claims_about_memory_and_from_one_run():
    claim = Claim("good is small", "good", ("random",), "memory")
    compared = experiment("good", "random", claims=(claim,))
    small = [{**item, "peak_mib": 50 + item["seed"] ** 2} for item in runs("good", B)]
    report = build_report(compared, small + runs("random", B))
    assert report.claims[0].judged[0].verdict == "holds"
    assert report.claims[0].judged[0].ratio == pytest.approx((155 / 3) / 101)
    assert "`good` needs less in 1." in report.sentences[-1]
    once = build_report(compared, small[:1] + runs("random", B))
    assert once.claims[0].judged[0].verdict == "too few runs"
    assert once.claims[0].judged[0].ratio == pytest.approx(0.5)
    assert once.sentences[-1].endswith("There are too few runs to test it.")
    assert "too few runs, 0.50×" in markdown.page([once])


def test_a_quick_report_says_how_small_it_is_and_who_judges_the_claims():
    claim = Claim("good beats random", "good", ("random",), "cumulative regret")
    other = Claim("good beats later", "good", ("later",), "cumulative regret")
    small = experiment("good", "random", claims=(claim,))
    tasks = (Task("branin", 2, 30), Task("levy-5", 2, 50))
    whole = experiment("good", "random", "later", tasks=tasks, repeats=20, claims=(claim, other))
    report = build_report(small, runs("good", A) + runs("random", B), whole)
    size = "3 of 20 repeats, 3 of 30 iterations, 1 of 2 problems and 2 of 3 methods"
    assert report.sentences[0] == (
        f"This is the quick variant: {size}. What follows is about these short runs; with 3 repeats only "
        "large differences can be told apart. 1 of 2 claims of the paper are about what is left out."
    )
    assert ("Variant", f"quick, {size}") in report.facts
    assert "The quick runs here agree" in report.sentences[-1]
    for page in (markdown.page([report]), html.page([report])):
        assert "All are quick variants" in page
        assert "The quick runs here agree" in page
    assert "quick" not in markdown.page([build_report(small, runs("good", A))])
    shorter = sentences.reduction(small, replace(small, tasks=(replace(TASK, iterations=9),)))
    assert shorter == "all 3 repeats, 3 of 9 iterations, the only problem and all 2 methods"


def test_published_numbers_stand_beside_ours():
    published = {
        "unit": 0.1,
        "good": {"mean": 70.0, "deviation": 10.0},
        "random": {"mean": 100.0, "deviation": 1.0},
        "absent": {"mean": 1.0, "deviation": 1.0},
    }
    report = two_methods(published=published)
    found = {item.method: item for item in report.published}
    assert found["good"].paper == pytest.approx(7.0)
    assert found["good"].paper_error == pytest.approx(1.0 / math.sqrt(3))
    assert found["good"].agreement == "agrees"
    assert found["random"].agreement == "higher here"
    assert found["absent"].agreement == "not compared"
    assert any("1 of 2 printed means agree" in sentence for sentence in report.sentences)
    table = tables.results(report.problems[0], report)
    assert table.rows[0][table.columns.index("paper, mean ± s.e.")] == "7.00 ± 0.58"
    quick = build_report(
        experiment("good", "random", published=published),
        runs("good", A) + runs("random", B),
        experiment("good", "random", tasks=(Task("branin", 2, 30),), repeats=25),
    )
    assert quick.published[0].paper_error == pytest.approx(1.0 / 5.0)
    assert {item.agreement for item in quick.published} == {"not compared"}
    assert any("longer runs" in sentence for sentence in quick.sentences)


def test_published_numbers_along_the_run_may_be_of_observed_values():
    observed = [[9.0, 8.0, 3.5, 2.5, 2.6], [9.0, 7.0, 2.5, 3.0, 2.7]]
    records = [{**item, "observed": row} for item, row in zip(runs("good", A[:2]), observed, strict=True)]
    published = {
        "observed": True,
        "iterations": [0, 2, 40],
        "good": {"mean": [7.5, 1.0, 0.0], "deviation": [0.5, math.nan, 0.0], "reevaluated": 3.0},
    }
    report = build_report(
        experiment("good", "random", metric="best value", published=published, repeats=2), records
    )
    start, later, anew = report.published
    assert start.ours.mean == pytest.approx((8.0 + 7.0) / 2)
    assert later.ours.mean == pytest.approx((2.5 + 2.5) / 2)
    assert (start.agreement, later.agreement) == ("agrees", "higher here")
    assert anew.ours.mean == pytest.approx((4.0 + 2.0) / 2)  # noise-free values of the best observed
    (table,) = tables.published(report.published)
    assert table.rows[0][:3] == ("`good`", "ours", "7.50 ± 0.50")
    assert (0, 2) in table.best


def test_the_papers_tests_are_repeated_on_our_results():
    rng = np.random.default_rng(0)
    good, other = rng.normal(5.0, 0.5, 10), rng.normal(9.0, 0.5, 10)
    published = {
        "ks_p_values": {"branin": {"good": 0.9, "other": 0.8}},
        "t_test": {"branin": {"other": {"p": 0.4, "rejected": False}}},
    }
    report = build_report(
        experiment("good (paper)", "other (x)", metric="best value", published=published, repeats=10),
        runs("good (paper)", [[20.0] * 4 + [v] for v in good])
        + runs("other (x)", [[20.0] * 4 + [v] for v in other]),
    )
    own, test = report.tests
    assert own.normality == pytest.approx(statistics.normality(good))
    expected = stats.ttest_ind(good, other, alternative="less").pvalue
    assert test.p_value == pytest.approx(expected)
    assert (test.rejected, test.paper_rejected) == (True, False)
    assert report.sentences[-1].startswith("0 of the 1 t-tests")


def test_partial_results_are_compared_on_common_seeds_only():
    records = runs("good", A) + runs("random", B)[:2] + runs("slow", B)[:1]
    report = build_report(experiment("good", "random", "slow"), records)
    assert (report.used, report.missing) == (6, 3)
    assert report.problems[0].seeds == 2
    assert "6 of 9 runs are there" in report.sentences[0]
    assert "`slow` has too few runs" in report.sentences[1]
    assert math.isnan(rows_of(report)["slow"].rank)
    (test,) = report.problems[0].tests  # of [8, 6] against [18, 17], the third seed being good's alone
    expected = stats.ttest_rel([8.0, 6.0], [18.0, 17.0], alternative="less").pvalue
    assert test.p_value == pytest.approx(expected)


def test_runs_of_another_length_are_left_out():
    records = runs("good", A) + runs("random", B)
    records[0] = record("branin", "good", 0, A[0][:4])
    report = build_report(experiment("good", "random"), records)
    assert (report.used, report.missing) == (5, 1)


def test_runs_of_other_settings_are_not_used():
    made = experiment("good", "random")
    digest = next(jobs(made)).digest
    fitting = runs("good", A, digest=digest) + runs("random", B)  # the latter of an older version
    report = build_report(made, [*fitting, *runs("good", B, digest="another")])
    assert (report.used, report.missing, report.others) == (6, 0, 3)
    assert report.sentences[0] == "3 runs were made with other settings, and are not used."
    assert rows_of(report)["good"].final.mean == rows_of(two_methods())["good"].final.mean


def test_methods_that_do_not_exist_yet_are_named():
    frozen = {"algorithm": "sto-bnts", "settings": {"draws": "frozen"}}
    later = Method("later", frozen, "later")
    report = build_report(experiment("good", "random", later), runs("good", A) + runs("random", B))
    assert report.missing == 0
    assert tables.not_available(report) == "Not available yet: `later`."
    assert "Not available yet: <code>later</code>." in html.page([report])


def test_ranks_over_problems_and_their_diagram():
    problems = ("branin", "hartmann-3", "levy-5")
    tasks = tuple(Task(name, 2, 3) for name in problems)
    records = [
        item
        for name in problems
        for m, rows in (("good", A), ("random", B), ("same", B))
        for item in runs(m, rows, name)
    ]
    report = build_report(experiment("good", "random", "same", tasks=tasks), records)
    assert report.ranks.mean == {"good": 1.0, "random": 2.5, "same": 2.5}
    assert report.ranks.problems == 3
    assert any("best mean rank by cumulative regret (1.00 among 3" in s for s in report.sentences)
    assert cliques(report.ranks) == [["good", "random", "same"]]  # CD is 1.91
    drawing = rank_diagram(report.ranks)
    assert "good 1.00" in drawing
    assert "critical difference 1.91" in drawing
    assert "| `good` | 1.00 | a |" in markdown.page([report])


def test_bbob_problems_get_a_runtime_profile():
    tasks = tuple(Task(f"bbob-f{f}-d2", 1, 2) for f in (1, 2))
    records = [
        item
        for task in tasks
        for name, values in (("good", [1e3, 1.0, 1e-9]), ("random", [1e3, 1e3, 1e3]))
        for item in runs(name, [values], task.label, initial=1)
    ]
    report = build_report(
        experiment("good", "random", tasks=tasks, metric="simple regret", repeats=1), records
    )
    (chart,) = report.charts
    lines = {line.name: line for line in chart.lines}
    assert lines["good"].x.tolist() == [0.5, 1.0, 1.5]
    # a regret of 1 reaches the targets from 100 down to 1, 11 of 51; 1e-9 reaches all
    assert lines["good"].y.tolist() == pytest.approx([0.0, 11 / 51, 1.0])
    assert lines["random"].y.tolist() == [0.0, 0.0, 0.0]
    assert "`good` reaches 100% of the pairs" in " ".join(report.sentences)


def test_the_detection_rate_is_that_of_the_best_points(monkeypatch):
    asked = []

    def rate(samples):
        asked.append(samples)
        return np.array([0.5, 0.75, 0.9])[: len(samples)]

    monkeypatch.setattr(profiles, "detection_rate", rate)
    published = {"good": {"samples": 2, "detection_rate": 0.8}}
    report = two_methods(metric="detection rate", published=published)
    assert asked[0] == [[0.0, 0.0]] * 3
    assert report.charts[0].lines[0].y.tolist() == [0.5, 0.75, 0.9]
    assert "With 2 samples `good` detects 75% here; the paper prints 80%." in report.sentences

    def missing(samples):
        raise MissingError("no data")

    monkeypatch.setattr(profiles, "detection_rate", missing)
    report = two_methods(metric="detection rate")
    assert report.charts == ()
    assert "The detection rate cannot be computed: no data" in report.sentences


def test_names_are_escaped_in_both_pages():
    nasty = "a|b <i> & *c*"
    report = build_report(
        experiment(nasty, "random", note="<script>alert(1)</script> a_b"),
        runs(nasty, A) + runs("random", B),
    )
    page = html.page([report])
    assert "<i>" not in page
    assert "a|b &lt;i&gt; &amp; *c*" in page
    assert "alert(1)</script>" not in page
    text = markdown.page([report])
    assert "| `a\\|b <i> & *c*` |" in text
    assert "\\<script\\>alert(1)\\</script\\> a\\_b" in text
    for line in text.splitlines():
        if line.startswith("| `a"):
            assert line.replace("\\|", "").count("|") == len(line.replace("\\|", "").split(" | ")) + 1


def test_the_page_is_self_contained_and_small():
    names = [f"method-{i}" for i in range(11)]
    problems = ("branin", "rastrigin-3", "hartmann-3", "hartmann-4", "levy-5", "hartmann-6")
    rng = np.random.default_rng(0)
    tasks = tuple(Task(p, 20, 200) for p in problems)
    records = [
        record(p, n, seed, np.round(rng.exponential(size=220), 6).tolist(), initial=20)
        for p in problems
        for n in names
        for seed in (0, 1)
    ]
    page = html.page([build_report(experiment(*names, tasks=tasks, repeats=2), records)])
    assert len(page.encode()) < 375_000
    for outside in ("://", "src=", "url(", "@import", "<link"):
        assert outside not in page


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0123456, "0.0123"),
        (540.0, "540"),
        (12345.6, "12300"),
        (1.5e-7, "1.5e−7"),
        (-2.0, "−2"),
        (math.nan, "–"),
    ],
)
def test_numbers_are_tidy(number, text):
    assert numbers.tidy(number) == text


def test_errors_decide_the_digits():
    assert numbers.with_error(12.3456, 0.4321) == "12.35 ± 0.43"
    assert numbers.with_error(1872.3, 114.2) == "1872 ± 114"
    assert numbers.with_error(5.8e-5, 3.3e-5) == "(5.8 ± 3.3)e−5"
    assert numbers.with_error(1.0, math.nan) == "1"
    assert numbers.duration(0.00054) == "540 µs"
    assert numbers.p_value(1e-5) == "< 0.001"
    assert numbers.times(-math.inf) == "not reached"
    assert numbers.times(2.0) == "+2.0 (4×)"
    assert numbers.joined(["a", "b", "c"]) == "a, b and c"


def test_ticks_are_round_numbers_within_the_range():
    assert ticks(0.0, 4.2) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert ticks(20.0, 100.0) == [20.0, 40.0, 60.0, 80.0, 100.0]
    assert log_ticks(0.001, 10.0) == pytest.approx([0.001, 0.01, 0.1, 1.0, 10.0])
    assert log_ticks(0.015, 0.7) == pytest.approx([0.02, 0.05, 0.1, 0.2, 0.5])


def test_tick_labels_tell_neighbours_apart():
    assert [name for _, name in Scale(279.2, 280.1, 0, 100).ticks()][:2] == ["279.2", "279.4"]
    assert [name for _, name in Scale(0.0, 2000.0, 0, 100).ticks()][-1] == "2000"
    labels = [name for _, name in Scale(1e-9, 5e-9, 0, 100).ticks()]
    assert len(set(labels)) == len(labels)


def test_methods_have_distinct_styles_and_variants_share_a_colour():
    names = ["uniform (code)", "lbfgs (code)", "uniform", "random", *(f"m{i}" for i in range(12))]
    chosen = styles(names)
    assert len(set(chosen.values())) == len(names)
    assert chosen["uniform (code)"][0] == chosen["uniform"][0] != chosen["lbfgs (code)"][0]
    assert all(chosen["random"][0] != chosen[name][0] for name in names if name != "random")


def test_lines_are_thinned_and_keep_their_ends():
    values = [[float(1000 - i) for i in range(500)] for _ in range(2)]
    task = Task("branin", 2, 498)
    report = build_report(experiment("a", tasks=(task,), repeats=2), runs("a", values))
    chart = report.problems[0].charts[0]
    drawing = draw(chart, {"a": (0, 0)}, {"a": 0})
    path = drawing.split('<path class="l')[1].split(' d="')[1].split('"')[0]
    steps = path.split("l")[1].replace("-", " -").split()
    assert len(steps) == 2 * (POINTS - 1)
    start = float(path[1:].split()[0])
    assert start + sum(map(float, steps[::2])) == pytest.approx(460 - 14, abs=0.5)
    assert 'role="img" aria-label="Cumulative regret' in drawing


TEXT = """
paper = "random-grid"
title = "A test"
metric = "simple regret"
repeats = 2
tasks = [{ problem = "branin", initial = 2, iterations = 3 }]
methods = [{ name = "good", algorithm = "random" }, { name = "random", algorithm = "random" }]
quick = { repeats = 1 }
"""


@pytest.fixture
def folders(tmp_path):
    (tmp_path / "small.toml").write_text(TEXT, encoding="utf-8")
    (tmp_path / "other.toml").write_text(TEXT, encoding="utf-8")
    results = tmp_path / "results"
    results.mkdir()
    lines = [json.dumps(item) for item in runs("good", A[:2]) + runs("random", B[:1])]
    (results / "small.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["--experiments", str(tmp_path), "--results", str(results)], results


def test_the_report_is_written_from_the_command_line(folders, capsys):
    where, results = folders
    assert main(["bench", "report", *where]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        "small: 3 runs used, 1 missing",
        str(results / "report.html"),
        str(results / "report.md"),
    ]
    text = (results / "report.md").read_text(encoding="utf-8")
    assert "[report.html](report.html)" in text
    assert "| `good` | " in text
    assert "3 of 4 runs are there" in text
    assert (results / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_names_and_the_path_can_be_given(folders, capsys, tmp_path):
    where, _ = folders
    out = tmp_path / "pages" / "v1.2"
    assert main(["bench", "report", "other", "small", "--out", str(out), *where]) == 0
    assert "other: no results in" in capsys.readouterr().out
    assert (tmp_path / "pages" / "v1.2.html").exists()
    assert (tmp_path / "pages" / "v1.2.md").exists()
    assert main(["bench", "report", "other", *where]) == 1
    assert "No results in" in capsys.readouterr().out
    assert main(["bench", "report", "unknown", *where]) == 2
    assert "must be one of other, small; got unknown" in capsys.readouterr().err
    assert main(["bench", "report", "--quick", *where]) == 1


def test_records_without_a_direction_take_it_from_the_problem():
    bare = [
        {key: value for key, value in item.items() if key not in ("direction", "optimum", "exact")}
        for item in runs("good", A)
    ]
    report = build_report(experiment("good", "random"), bare)
    expected = np.mean([sum(row[2:]) for row in A]) - 3 * 0.39788736
    assert rows_of(report)["good"].final.mean == pytest.approx(expected)
    assert method("x").group == "x"


def test_peers_run_beside_any_experiment_and_are_in_its_report(folders, capsys, tmp_path):
    text = TEXT.replace(
        '{ name = "random", algorithm = "random" }', '{ name = "worse", algorithm = "random" }'
    )
    (tmp_path / "beside.toml").write_text(text, encoding="utf-8")
    where, results = folders
    wanted = ["bench", "run", "beside", "--repeats", "1", "--workers", "1", *where]
    assert main([*wanted, "--peers", "random"]) == 0
    assert "beside: 3 runs made" in capsys.readouterr().out
    assert main(["bench", "report", "beside", *where]) == 0
    page = (results / "report.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` | " in page for name in ("good", "worse", "random"))
    assert main([*wanted, "--peers", "optuna-tpe", "nobody"]) == 2
    assert "a peer must be one of random, optuna-tpe" in capsys.readouterr().err


def test_results_of_other_settings_only_are_told(folders, capsys, tmp_path):
    where, results = folders
    path = tmp_path / "small.toml"
    path.write_text(TEXT.replace("iterations = 3", "iterations = 4"), encoding="utf-8")
    assert main(["bench", "report", *where]) == 1
    assert "small: 3 runs with other settings only in" in capsys.readouterr().out
    (results / "small.jsonl").write_text('{"key": 1}\n', encoding="utf-8")
    assert main(["bench", "report", *where]) == 2
    assert "small.jsonl must be the results of a run; line 1" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_gets_a_sentence(folders, capsys, tmp_path):
    where, _ = folders
    assert main(["bench", "report", *where, "--out", str(tmp_path / "small.toml" / "page")]) == 2
    assert "page.html must be a file that can be written; got:" in capsys.readouterr().err
