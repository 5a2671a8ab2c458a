"""Transformed values: the transformations, and the process of them in the units of the values."""

import numpy as np
import pytest

import augury
from augury._errors import UnsupportedError
from augury.core.data import Data
from augury.core.keys import fold
from augury.surrogates import GaussianProcess
from augury.surrogates.warps import Log, YeoJohnson
from known_gp import KEY, NEW
from samples import observations

WARPS = [Log(0.1), Log(0.001), YeoJohnson()]
each_warp = pytest.mark.parametrize("warp", WARPS)


def heavy(n=20):
    """Values of which a few are thousands of times as bad as most."""
    x, y = observations(n, noise=0.0)
    return x, -np.exp(6.0 * y)


@each_warp
def test_the_inverse_and_the_slope_are_those_of_the_transformation(warp):
    y = heavy()[1]
    warped = warp.on(y)
    w = warped(y)
    assert (np.argsort(w) == np.argsort(y)).all()
    np.testing.assert_allclose(warped.inverse(w), y, rtol=1e-9)
    step = 1e-6 * np.abs(y)
    inside = y < y.max()
    slope = (warped(y[inside] + step[inside]) - warped(y[inside] - step[inside])) / (2.0 * step[inside])
    np.testing.assert_allclose(warped.slope(y[inside]), slope, rtol=1e-5)


@each_warp
@pytest.mark.parametrize("y", [[], [3.0], [2.0, 2.0, 2.0], [0.0, 0.0, 0.0, 5.0], [-1e150, 1e150]])
def test_few_and_equal_values(warp, y):
    y = np.array(y)
    w = warp.on(y)(y)
    assert np.isfinite(w).all()
    np.testing.assert_allclose(warp.on(y).inverse(w), y, rtol=1e-9, atol=1e-12)


@each_warp
def test_a_process_of_transformed_values_is_the_process_of_these_values(warp):
    x, y = heavy()
    plain = GaussianProcess().fit(Data.of(x, warp.on(y)(y)), key=KEY)
    fit = GaussianProcess(warp=warp).fit(Data.of(x, y), key=KEY)
    np.testing.assert_allclose(fit.posterior.mean(NEW), plain.posterior.mean(NEW))
    median = warp.on(y).inverse(plain.posterior.mean(NEW))
    mean, var = fit.belief.predict(NEW)
    np.testing.assert_allclose(mean, median)
    np.testing.assert_allclose(var, plain.posterior.var(NEW) / warp.on(y).slope(median) ** 2)
    path = fit.posterior.sample(key=fold(KEY, 1))
    np.testing.assert_allclose(fit.belief.sample(key=fold(KEY, 1))(NEW), fit.value(path(NEW)))
    left_out, deviations = plain.posterior.leave_one_out()
    values, spread = fit.belief.leave_one_out()
    np.testing.assert_allclose(values, warp.on(y).inverse(left_out))
    np.testing.assert_allclose(spread, deviations / warp.on(y).slope(values))
    assert fit.belief.incumbent() == pytest.approx(fit.value(fit.posterior.incumbent()))
    assert "warp" in fit.info


def test_models_are_compared_by_the_density_of_the_values_in_their_own_units():
    x, y = heavy()
    for warp in (None, *WARPS):
        model = GaussianProcess(warp=warp)
        one, other = (model.tune(Data.of(x, a * y + 3.0), key=KEY) for a in (1.0, 100.0))
        assert other.left_out == pytest.approx(one.left_out - 20 * np.log(100.0), abs=1e-3)
    warp = Log(0.1)
    w = warp.on(y)(y)
    plain = GaussianProcess().tune(Data.of(x, w), key=KEY)
    warped = GaussianProcess(warp=warp).tune(Data.of(x, y), key=KEY)
    jacobian = np.log(warp.on(y).slope(y)).sum()
    assert warped.left_out == pytest.approx(plain.left_out + jacobian, rel=1e-9)


def test_the_transformation_that_the_values_have_predicts_them_best():
    rng = np.random.default_rng(0)
    x = rng.random((40, 3))
    smooth = np.sin(5 * x[:, 0]) + x[:, 1] ** 2
    for y, prefers_log in ((smooth, False), (-np.exp(-6.0 * smooth), True)):
        none, log = (GaussianProcess(warp=w).tune(Data.of(x, y), key=KEY).left_out for w in (None, Log()))
        assert bool(log > none) is prefers_log


def test_what_a_user_reads_is_in_the_units_of_the_values():
    space = augury.Space(a=augury.Float(0.0, 1.0), b=augury.Float(0.0, 1.0), c=augury.Float(0.0, 1.0))
    algorithm = augury.Algorithm(GaussianProcess(warp=Log()), policy="ei")
    opt = augury.Optimizer(space, algorithm, seed=0)
    rng = np.random.default_rng(0)
    points = rng.random((20, 3))
    for row in points:
        opt.tell(dict(zip("abc", row, strict=True)), float(np.exp(8.0 * row[0])))
    best = float(np.exp(8.0 * points[:, 0].min()))
    info = opt.ask().info
    assert 0.0 < info["mean"] < 10.0 * best
    assert info["incumbent"] == pytest.approx(best, rel=0.2)
    assert info["std"] < 10.0 * best
    assert opt.recommend().value == pytest.approx(best)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"warp": "log"}, "warp must be a Log, a YeoJohnson or None; got 'log'"),
        ({"warp": Log(), "noise": 0.1}, "must be learnt, or relative"),
    ],
)
def test_arguments_are_checked(arguments, sentence):
    with pytest.raises(UnsupportedError, match=sentence):
        GaussianProcess(**arguments)
    with pytest.raises(UnsupportedError, match="offset must be positive and finite; got 0"):
        Log(0)
