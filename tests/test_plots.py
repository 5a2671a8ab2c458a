import subprocess
import sys

import numpy as np
import optuna
import pytest

import augury
from augury import plots
from augury.core.keys import Purpose, fold, root_key
from augury.plots import leaving_out
from augury.plots.leaving_out import leave_one_out
from augury.plots.source import Modelled
from augury.surrogates import GaussianProcess
from augury.trial import State
from chromium import browser
from known_gp import FIXED, LENGTHSCALE, NOISE, VARIANCE, matern52

RATES = (1e-4, 3e-3, 0.02, 0.1, 0.7, 1e-3, 0.3, 0.05)
SPACE = augury.Space(
    rate=augury.Float(1e-4, 1.0, log=True),
    depth=augury.Int(1, 6),
    kind=augury.Choice(["plain", "<fancy>"]),
)


def loss(p):
    return (np.log10(p["rate"]) + 2.0) ** 2 + (p["depth"] - 4) ** 2 / 5 + (p["kind"] == "plain")


def told(direction="minimize", sign=1.0):
    opt = augury.Optimizer(SPACE, "gp-ei", direction, seed=3, initial=4)
    for i, rate in enumerate(RATES):
        point = {"rate": rate, "depth": 1 + i % 6, "kind": SPACE.params["kind"].options[i % 2]}
        opt.tell(point, sign * loss(point))
    opt.tell({"rate": 0.9, "depth": 6, "kind": "plain"}, failed=True, reason="out of <memory>")
    return opt


@pytest.fixture(scope="module")
def opt():
    opt = told()
    for _ in range(3):
        trial = opt.ask()
        opt.tell(trial, loss(trial.params))
    return opt


@pytest.fixture(scope="module")
def study():
    def objective(trial):
        rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
        depth, kind = trial.suggest_int("depth", 1, 6), trial.suggest_categorical("kind", [None, "b"])
        if trial.number == 2:
            raise ValueError
        return -((np.log10(rate) + 2.0) ** 2) - (depth - 4) ** 2 / 5 - (kind is None)

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    sampler = augury.AugurySampler("gp-ei", seed=0, initial=5)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(objective, n_trials=8, catch=ValueError)
    optuna.logging.set_verbosity(before)
    return study


def named(figure, name):
    found = [trace for trace in figure.data if trace.name == name]
    assert found, f"{name} is not among {[trace.name for trace in figure.data]}"
    return found[0]


def predicted(opt, points):
    """Mean and standard deviation, asked of the posterior one by one."""
    posterior = opt.model.fitted().posterior
    sign = 1.0 if opt.direction == "maximize" else -1.0
    rows = [SPACE.encode(point) for point in points]
    pairs = [(sign * float(posterior.mean(row)), float(np.sqrt(posterior.var(row)))) for row in rows]
    return np.array(pairs).T


# ---------------------------------------------------------------------- progress and regret


def test_progress_shows_the_best_so_far_and_every_trial(opt):
    figure = plots.progress(opt)
    complete = [t for t in opt.trials if t.state is State.COMPLETE]
    best = named(figure, "best so far")
    np.testing.assert_array_equal(best.y, np.minimum.accumulate([t.value for t in complete]))
    assert list(best.x) == [t.number for t in complete]
    assert best.line.shape == "hv"
    assert list(named(figure, "model").x) == [9, 10, 11]
    assert list(named(figure, "told").y) == [t.value for t in complete[:8]]
    expected = named(figure, "expected, ± 2 std")
    infos = [opt.trials[i].info for i in (9, 10, 11)]
    np.testing.assert_allclose(expected.y, [info["mean"] for info in infos])
    noisy = [2.0 * np.hypot(info["std"], info["noise"]) for info in infos]
    np.testing.assert_allclose(expected.error_y.array, noisy)


def test_a_failed_trial_is_marked_at_the_worst_value_and_says_why(opt):
    failed = named(plots.progress(opt), "failed")
    assert list(failed.x) == [8]
    assert failed.y[0] == max(t.value for t in opt.trials if t.state is State.COMPLETE)
    assert "out of &lt;memory&gt;" in failed.hovertext[0]


def test_hovering_shows_the_trial_its_parameters_and_why_it_was_chosen(opt):
    text = named(plots.progress(opt), "model").hovertext[0]
    assert "trial 9" in text
    assert f"depth = {opt.trials[9].params['depth']}" in text
    assert "GaussianProcess × EI × Mixed" in text
    assert "η = " in text


def test_maximizing_is_the_mirror_image():
    up = told("maximize", -1.0)
    values = [t.value for t in up.trials[:8]]
    np.testing.assert_array_equal(
        named(plots.progress(up), "best so far").y, np.maximum.accumulate(values)
    )
    assert named(plots.progress(up), "failed").y[0] == min(values)
    np.testing.assert_allclose(
        named(plots.regret(up, 0.5), "best so far").y, 0.5 - np.maximum.accumulate(values)
    )


def test_regret_is_the_distance_from_the_optimum(opt):
    values = np.array([t.value for t in opt.trials if t.state is State.COMPLETE])
    figure = plots.regret(opt, -1.0)
    np.testing.assert_allclose(named(figure, "best so far").y, np.minimum.accumulate(values) + 1.0)
    assert figure.layout.yaxis.type == "log"
    summed = plots.regret(opt, -1.0, cumulative=True)
    np.testing.assert_allclose(named(summed, "sum").y, np.cumsum(values + 1.0))
    assert plots.regret(opt, values.min()).layout.yaxis.type is None  # a regret of 0 has no logarithm
    with pytest.raises(augury.DataError, match="optimum must be finite; got nan"):
        plots.regret(opt, float("nan"))


def test_runs_are_compared_by_name(opt):
    random = augury.minimize(loss, SPACE, budget=5, algorithm="random", seed=0)
    figure = plots.progress({"ours": opt, "random": random})
    assert [trace.name for trace in figure.data] == ["ours", "random"]
    np.testing.assert_array_equal(
        named(figure, "random").y, np.minimum.accumulate([t.value for t in random.trials])
    )
    with pytest.raises(augury.DataError, match="of one direction; got 2 of 2"):
        plots.regret({"up": told("maximize"), "down": opt}, 0.0)


# ---------------------------------------------------------------------- belief


def test_the_band_is_mean_and_two_deviations_along_a_log_axis(opt):
    figure = plots.belief(opt, "rate", draws=2)
    mean, band = named(figure, "mean"), named(figure, "± 2 std")
    best = opt.best.params
    some = [0, 57, 200]
    points = [{**best, "rate": mean.x[i]} for i in some]
    mu, sigma = predicted(opt, points)
    np.testing.assert_allclose(np.array(mean.y)[some], mu, rtol=1e-9, atol=1e-9)
    high, low = np.split(np.array(band.y), 2)
    np.testing.assert_allclose(high[some], mu + 2 * sigma, rtol=1e-7)
    np.testing.assert_allclose(low[::-1][some], mu - 2 * sigma, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(np.diff(np.log(mean.x)), np.log(1e4) / 200)
    assert figure.layout.xaxis.type == "log"
    assert f"depth={best['depth']}" in figure.layout.title.subtitle.text


def test_drawn_functions_are_draws_from_the_posterior(opt):
    figure = plots.belief(opt, "rate", draws=2)
    drawn = [trace for trace in figure.data if trace.name == "drawn functions"]
    assert len(drawn) == 2
    path = opt.model.fitted().posterior.sample(key=fold(root_key(3), Purpose.PICTURE, 1))
    row = SPACE.encode({**opt.best.params, "rate": drawn[1].x[33]})
    assert drawn[1].y[33] == pytest.approx(-float(path(row)), abs=1e-9)
    assert not [t for t in plots.belief(opt, "rate", draws=0).data if t.name == "drawn functions"]


def test_the_next_point_is_what_ask_gives_and_nothing_changes():
    opt = told()
    pending = opt.ask()
    before = opt.to_json()
    figure = plots.belief(opt, "rate", "depth")
    line = plots.belief(opt, "depth")
    assert opt.to_json() == before
    asked = opt.ask()
    star, waiting = named(figure, "next point"), named(figure, "being evaluated")
    assert (star.x[0], star.y[0]) == (asked.params["rate"], asked.params["depth"])
    assert (waiting.x[0], waiting.y[0]) == (pending.params["rate"], pending.params["depth"])
    mean, std = predicted(opt, [asked.params])
    next_point = named(line, "next point")
    np.testing.assert_allclose([next_point.y[0], next_point.error_y.array[0]], [mean[0], 2 * std[0]])


def test_observations_on_and_off_the_slice_are_told_apart(opt):
    figure = plots.belief(opt, "rate", at={"depth": 1, "kind": "plain"})
    on = named(figure, "observed")
    kept = [t for t in opt.trials if (t.params["depth"], t.params["kind"]) == (1, "plain")]
    kept = [t for t in kept if t.state is State.COMPLETE]
    assert list(on.x) == [t.params["rate"] for t in kept]
    assert list(on.y) == [t.value for t in kept]
    complete = sum(t.state is State.COMPLETE for t in opt.trials)
    assert len(on.x) + len(named(figure, "observed off the slice").x) == complete
    assert named(figure, "failed").y[0] == max(t.value for t in opt.trials if t.value is not None)


def test_int_and_choice_axes(opt):
    depth = plots.belief(opt, "depth")
    assert list(named(depth, "mean").x) == [1, 2, 3, 4, 5, 6]
    kind = plots.belief(opt, "kind")
    bars = named(kind, "mean ± 2 std")
    assert list(bars.x) == ["plain", "<fancy>"]
    mean, std = predicted(opt, [{**opt.best.params, "kind": option} for option in bars.x])
    np.testing.assert_allclose([bars.y, bars.error_y.array], [mean, 2 * std], rtol=1e-7)
    assert kind.layout.xaxis.type == "category"


def test_a_plane_has_mean_and_deviation_in_their_places(opt):
    figure = plots.belief(opt, "rate", "kind", at={"depth": 2})
    mean, std = (trace for trace in figure.data if trace.type == "heatmap")
    assert mean.z.shape == (2, len(mean.x))
    expected = predicted(opt, [{"rate": mean.x[7], "depth": 2, "kind": mean.y[1]}])
    np.testing.assert_allclose([mean.z[1, 7], std.z[1, 7]], expected[:, 0], rtol=1e-7)
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "category")


def test_what_cannot_be_drawn_is_said(opt):
    with pytest.raises(augury.UnsupportedError, match="must be one of the parameters rate, depth, kind"):
        plots.belief(opt, "lr")
    with pytest.raises(augury.DataError, match=r"x must be one of the parameters rate.*got None"):
        plots.belief(opt)
    with pytest.raises(augury.DataError, match="two parameters; got 'rate' and 'rate'"):
        plots.belief(opt, "rate", "rate")
    with pytest.raises(augury.DataError, match=r"'at' must have some of the parameters .*; got width"):
        plots.belief(opt, "rate", at={"width": 3})
    with pytest.raises(augury.SpaceError, match="'depth' must lie in"):
        plots.belief(opt, "rate", at={"depth": 30})
    with pytest.raises(augury.UnsupportedError, match="draws must be a whole number"):
        plots.belief(opt, "rate", draws=-1)
    with pytest.raises(augury.DataError, match="belief needs at least one finished evaluation"):
        plots.belief(augury.Optimizer(SPACE), "rate")
    with pytest.raises(augury.UnsupportedError, match="has a model; got 'random'"):
        plots.belief(augury.Optimizer(SPACE, "random"), "rate")
    with pytest.raises(augury.UnsupportedError, match=r"Result, an Optimizer or a study.*got int"):
        plots.progress(3)
    with pytest.raises(augury.DataError, match="need at least one finished evaluation"):
        plots.progress(augury.Optimizer(SPACE))


def test_a_pool_has_calibration_but_no_slices():
    opt = augury.Optimizer(augury.Pool(np.random.default_rng(0).random((9, 4))), "gp-ei", seed=0)
    for i in range(4):
        opt.tell({"index": i}, float(i))
    with pytest.raises(augury.UnsupportedError, match=r"slices of a Space .*; got a Pool"):
        plots.belief(opt, "index")
    assert len(named(plots.calibration(opt), "coverage").y) == 19


# ---------------------------------------------------------------------- calibration


def from_the_model(seed, count=30):
    """An optimizer that was told values drawn from the very process that it believes in."""
    rng = np.random.default_rng(seed)
    x = rng.random((count, 3))
    K = matern52(x, x, LENGTHSCALE, VARIANCE) + NOISE * np.eye(count)
    space = augury.Space(a=augury.Float(0, 1), b=augury.Float(0, 1), c=augury.Float(0, 1))
    opt = augury.Optimizer(space, augury.Algorithm(FIXED, "ei"), "maximize", seed=0)
    for row, y in zip(x, np.linalg.cholesky(K) @ rng.standard_normal(count), strict=True):
        opt.tell(dict(zip("abc", row.tolist(), strict=True)), y)
    return opt


def test_leaving_one_out_equals_fits_without_each_observation(monkeypatch):
    opt = from_the_model(0, 12)
    exact = leave_one_out(Modelled.of(opt, "calibration"))
    data = opt.model.history.data()
    x, y = data.x[:12], data.y[:12]
    for i in range(12):
        others = np.delete(np.arange(12), i)
        K = matern52(x[others], x[others]) + NOISE * np.eye(11)
        k = matern52(x[others], x[i : i + 1])[:, 0]
        assert exact[0][i] == pytest.approx(k @ np.linalg.solve(K, y[others]), abs=1e-5)
        var = VARIANCE + NOISE - k @ np.linalg.solve(K, k)
        assert exact[1][i] == pytest.approx(np.sqrt(var), rel=1e-4)
    monkeypatch.setattr(leaving_out, "GPPosterior", GaussianProcess)  # any other model is fitted anew
    anew = leave_one_out(Modelled.of(opt, "calibration"))
    np.testing.assert_allclose(anew, exact, rtol=1e-5, atol=1e-6)


def test_coverage_is_nominal_where_the_model_is_true():
    figures = [plots.calibration(from_the_model(seed)) for seed in range(1, 7)]
    levels = np.array(named(figures[0], "coverage").x)
    coverage = np.mean([named(figure, "coverage").y for figure in figures], axis=0)
    assert np.abs(coverage - levels).max() < 0.1  # 180 observations: two to three deviations
    diagonal = named(figures[0], "calibrated")
    np.testing.assert_array_equal(diagonal.x, diagonal.y)


def test_coverage_counts_the_observations_and_not_the_failures(opt):
    figure = plots.calibration(opt)
    modelled = Modelled.of(opt, "calibration")
    data, (mean, std) = opt.model.history.data(), leave_one_out(modelled)
    kept = np.array([opt.trials[n].state is State.COMPLETE for n in opt.model.history.order])
    inside = np.abs(data.y[: data.n] - mean)[kept] <= 0.6744897501960817 * std[kept]  # half of a normal
    coverage = named(figure, "coverage")
    assert coverage.y[9] == pytest.approx(inside.mean())
    assert coverage.x[9] == pytest.approx(0.5)
    assert "each of 11 observations" in figure.layout.title.subtitle.text


def test_calibration_needs_two_observations():
    opt = augury.Optimizer(SPACE, "gp-ei", seed=0)
    opt.tell({"rate": 0.1, "depth": 1, "kind": "plain"}, 1.0)
    with pytest.raises(augury.DataError, match="at least 2 finished evaluations; got 1"):
        plots.calibration(opt)


# ---------------------------------------------------------------------- suggestions


def test_accuracy_ends_at_the_accumulated_inaccuracy(opt):
    eta, total = plots.accuracy(opt).data
    known = [t for t in opt.trials if "eta" in t.info]
    assert list(eta.x) == [9, 10, 11]
    assert list(eta.y) == [t.info["eta"] for t in known]
    np.testing.assert_allclose(total.y, np.cumsum([1.0 - t.info["eta"] for t in known]))
    assert total.y[-1] == pytest.approx(opt.accumulated_inaccuracy)
    with pytest.raises(augury.DataError, match="accuracy needs at least one point that a model"):
        plots.accuracy(told())


def test_seconds_are_those_of_the_suggestions(opt):
    figure = plots.seconds(opt)
    spent = [opt.trials[i].info["seconds"] for i in (9, 10, 11)]
    assert list(named(figure, "total").y) == [one["total"] for one in spent]
    assert list(named(figure, "fit").y) == [one["fit"] for one in spent]
    assert figure.layout.yaxis.type == "log"
    with pytest.raises(augury.DataError, match="seconds needs at least one point"):
        plots.seconds(told())


# ---------------------------------------------------------------------- studies


def test_a_study_is_a_source(study):
    best = named(plots.progress(study), "best so far")
    values = [t.value for t in study.trials if t.value is not None]
    np.testing.assert_array_equal(best.y, np.maximum.accumulate(values))
    assert list(named(plots.progress(study), "failed").x) == [2]
    assert len(plots.accuracy(study).data[0].x) == sum(
        "eta" in augury.AugurySampler.info(trial) for trial in study.trials
    )
    assert len(named(plots.seconds(study), "total").x) >= 7  # the first was not Augury's to suggest
    assert len(named(plots.calibration(study), "coverage").y) == 19


def test_the_belief_of_a_study_has_its_options_and_its_next_point(study):
    running = study.ask()
    figure = plots.belief(study, "rate", "kind", at={"depth": 3})
    mean = next(trace for trace in figure.data if trace.type == "heatmap")
    assert list(mean.y) == ["None", "b"]
    waiting, star = named(figure, "being evaluated"), named(figure, "next point")
    suggested = running.relative_params
    assert (waiting.x[0], waiting.y[0]) == (suggested["rate"], str(suggested["kind"]))
    following = study.ask().relative_params
    assert (star.x[0], star.y[0]) == (following["rate"], str(following["kind"]))
    assert f"kind = {following['kind']}" in star.hovertext[0]
    fixed = plots.belief(study, "rate", at={"kind": "b"}, draws=0)
    assert "kind=b" in fixed.layout.title.subtitle.text
    with pytest.raises(augury.DataError, match="'kind' must be one of"):
        plots.belief(study, "rate", at={"kind": "c"})


def test_studies_that_cannot_be_plotted_are_refused(study):
    other = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    with pytest.raises(augury.UnsupportedError, match="study with an AugurySampler; got RandomSampler"):
        plots.belief(other, "rate")
    empty = optuna.create_study(sampler=augury.AugurySampler())
    with pytest.raises(augury.DataError, match="parameters that all its trials have; got none"):
        plots.belief(empty, "rate")
    with pytest.raises(augury.DataError, match="one objective; got 2"):
        plots.progress(optuna.create_study(directions=["minimize", "maximize"]))


# ---------------------------------------------------------------------- files


def test_a_page_works_offline(opt, tmp_path):
    path = tmp_path / "belief.html"
    plots.save(plots.belief(opt, "rate", "depth"), path)
    with browser() as page:
        page.view(1100, 700)
        page.open(path.as_uri())
        assert page.complaints == []
        assert [url for url in page.requests if not url.startswith(("data:", "blob:"))] == [path.as_uri()]
        assert page.evaluate("document.querySelectorAll('.hm image').length") == 2
        assert page.evaluate("document.querySelectorAll('.scatterlayer .point').length") > 20
        assert "Belief after 12 evaluations" in page.evaluate("document.body.textContent")


def test_a_picture(opt, tmp_path):
    path = tmp_path / "progress.png"
    plots.save(plots.progress(opt), str(path))
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    size = [int.from_bytes(content[i : i + 4], "big") for i in (16, 20)]
    assert size == [2000, 1200]
    assert len(content) > 20_000


def test_files_that_cannot_be_written(opt, tmp_path, monkeypatch):
    figure = plots.seconds(opt)
    with pytest.raises(augury.UnsupportedError, match=r"must end in .html or .png; got 'a.pdf'"):
        plots.save(figure, "a.pdf")
    with pytest.raises(augury.StorageError, match="must be writable"):
        plots.save(figure, tmp_path / "nowhere" / "a.html")
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "no-browser"))
    with pytest.raises(augury.UnsupportedError, match="needs Chromium or Chrome; got none"):
        plots.save(figure, tmp_path / "a.png")


def test_what_is_not_installed_is_named(opt, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "kaleido", None)
    with pytest.raises(augury.UnsupportedError, match=r'Kaleido; .* pip install "augury\[plots'):
        plots.save(plots.seconds(opt), tmp_path / "a.png")
    code = "import sys; sys.modules['plotly'] = None; import augury; augury.plots"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    ).stderr
    assert "UnsupportedError: augury.plots needs Plotly; it is not installed." in said
    assert 'pip install "augury[plots]"' in said
