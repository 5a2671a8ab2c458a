"""Every maximizer on easy scores whose optimum is known."""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from augury import Choice, Float, Int, Pool, Space, SpaceExhausted, UnsupportedError
from augury.core.keys import root_key
from augury.core.score import Score
from augury.maximizers import (
    Exhaustive,
    FewColumns,
    Gradient,
    Mixed,
    MultiStart,
    NelderMead,
    RandomGrid,
    Rounding,
    accuracy,
    few_columns,
    multistart,
)
from augury.maximizers.scoring import values

BOX = Space(a=Float(0.0, 1.0), b=Float(1e-3, 10.0, log=True))
LATTICE = Space(i=Int(0, 30), c=Choice([8, 16, 32, 64], ordered=True))
MIXED = Space(x=Float(-1.0, 1.0), i=Int(0, 10), c=Choice(["p", "q", "r"]))
POOL = Pool(np.random.default_rng(0).random((60, 2)))
KEY = root_key(3)


class Hills(Score):
    """shift − Σ scale·(x − centre)² + Σ waves·sin(25x) + a spike at 1/4; NaN where x_0 > limit.

    One class for all scores, so that they share compiled code.
    """

    centre: np.ndarray
    scale: np.ndarray
    shift: np.ndarray
    waves: np.ndarray
    spike: np.ndarray
    limit: np.ndarray

    def __call__(self, x):
        value = self.shift - jnp.sum(self.scale * (x - self.centre) ** 2)
        value += self.waves * jnp.sum(jnp.sin(25.0 * x))
        value += self.spike * jnp.exp(-jnp.sum((x - 0.25) ** 2) / (2.0 * 0.04**2))
        return jnp.where(x[0] > self.limit, jnp.nan, value)


class LogHills(Hills):
    """The same numbers, taken for the logarithm of what is positive by nature."""

    logarithmic: ClassVar[bool] = True


def hills(space, scale=1.0, shift=0.0, waves=0.0, spike=0.0, limit=2.0, centre=None, kind=Hills):
    centre = np.linspace(0.3, 0.8, space.dim) if centre is None else np.array(centre)
    scale = np.broadcast_to(np.asarray(scale, dtype=float), space.dim).copy()
    return kind(centre, scale, *(np.asarray(float(a)) for a in (shift, waves, spike, limit)))


def bumpy(space):
    """Many local maxima."""
    return hills(space, scale=0.1, waves=1.0)


def best_value(score, space):
    """The true maximum of a score without waves: at its centre, or at the best of many valid points."""
    if isinstance(space, Space) and space.continuous.all():
        return float(score.shift)
    if space.is_finite:
        return values(score, space.rows(0, int(space.size))).max()
    rows, _ = space.draw(4096, np.random.default_rng(0))
    rows[:, space.continuous] = np.asarray(score.centre)[space.continuous]
    return values(score, rows).max()


def maximize(maximizer, score, space, key=KEY, t=1, **settings):
    return maximizer(score, space, t=t, key=key, **settings)


CONTRACT = {
    "random-grid": (RandomGrid(size=3000), BOX, 1e-2),
    "sobol-grid": (RandomGrid(size=1024, points="sobol"), BOX, 1e-2),
    "grid-of-a-lattice": (RandomGrid(size=2000), LATTICE, 1e-12),
    "grid-of-a-pool": (RandomGrid(size=60), POOL, 1e-12),
    "grid-of-a-mixed-space": (RandomGrid(size=3000), MIXED, 5e-2),
    "multistart": (MultiStart(), BOX, 1e-10),
    "multistart-fresh": (MultiStart(raw=16, fresh=True), BOX, 1e-10),
    "cg": (MultiStart(method="cg"), BOX, 1e-8),
    "gradient": (Gradient(), BOX, 1e-4),
    "nelder-mead": (NelderMead(), BOX, 1e-6),
    "exhaustive": (Exhaustive(), LATTICE, 1e-12),
    "exhaustive-pool": (Exhaustive(), POOL, 1e-12),
    "mixed": (Mixed(), MIXED, 1e-10),
    "mixed-lattice": (Mixed(), LATTICE, 1e-12),
    "mixed-box": (Mixed(), BOX, 1e-10),
    "few-columns": (FewColumns(), BOX, 1e-10),
    "few-columns-mixed": (FewColumns(Mixed()), MIXED, 1e-10),
    "rounding": (Rounding(), MIXED, 1e-10),
    "rounding-lattice": (Rounding(), LATTICE, 1e-12),
    "rounding-nelder-mead": (Rounding(NelderMead()), LATTICE, 1e-12),
}


@pytest.mark.parametrize(("maximizer", "space", "tolerance"), CONTRACT.values(), ids=CONTRACT.keys())
def test_contract(maximizer, space, tolerance):
    score = hills(space)
    best = maximize(maximizer, score, space)
    assert best.value >= best_value(score, space) - tolerance
    assert best.value == pytest.approx(values(score, best.x[None])[0], rel=1e-9, abs=1e-12)
    assert 0.0 <= best.eta <= 1.0
    assert best.eta > 0.9
    assert best.info["evaluations"] > 0
    assert best.info["seconds"] > 0
    assert best.info["eta_seconds"] >= 0
    assert best.info["flat"] is False
    if isinstance(space, Pool):
        np.testing.assert_array_equal(best.x, space.rows_at([best.index])[0])
    else:
        np.testing.assert_array_equal(best.x, space.snap(best.x[None])[0])
        assert best.index == (None if not space.is_finite else space.index_of(best.x[None])[0])
    again = maximize(maximizer, score, space)
    np.testing.assert_array_equal(again.x, best.x)
    assert (again.index, again.value, again.eta) == (best.index, best.value, best.eta)


@pytest.mark.parametrize(
    ("maximizer", "space"),
    [
        (RandomGrid(size=5), BOX),
        (RandomGrid(size=5, points="sobol"), BOX),
        (RandomGrid(size=5), POOL),
        (MultiStart(raw=1, starts=1, max_evaluations=1), BOX),
        (Gradient(starts=1, steps=1), BOX),
        (NelderMead(starts=1, max_iterations=1), BOX),
        (Mixed(raw=1, starts=1), MIXED),
        (FewColumns(RandomGrid(size=5), raw=5), MIXED),
        (Rounding(RandomGrid(size=5)), LATTICE),
    ],
)
def test_other_keys_look_elsewhere(maximizer, space):
    found = [maximize(maximizer, bumpy(space), space, root_key(seed)).x for seed in range(4)]
    assert len({tuple(x) for x in found}) > 1


def test_a_second_search_of_the_same_dimension_compiles_nothing(caplog):
    def compilations(work):
        caplog.clear()
        with jax.log_compiles():
            work()
        return sum(record.message.startswith("Compiling") for record in caplog.records)

    assert compilations(lambda: jax.jit(lambda x: x * 3)(1.0)) > 0
    maximize(MultiStart(), hills(BOX), BOX)
    other = Space(p=Float(5.0, 6.0), q=Float(-1, 1))
    assert compilations(lambda: maximize(MultiStart(), hills(other, 3.0), other, root_key(2), t=5)) == 0


# ------------------------------------------------------------------------- random grids


def test_grids_have_c_t_to_the_a_points():
    assert [RandomGrid().count(t) for t in (1, 2, 7)] == [100, 200, 700]
    assert RandomGrid(c=10, a=0.5).count(9) == 30
    assert RandomGrid(c=0.1).count(1) == 1
    assert RandomGrid(size=7).count(1000) == 7
    assert maximize(RandomGrid(c=3), hills(BOX), BOX, t=5).info["evaluations"] == 15


def test_a_sobol_grid_has_a_point_in_every_interval():
    for seed in range(10):
        centre = (seed + 0.5) / 10
        score = hills(BOX, scale=[1.0, 0.0], centre=[centre, 0.0])
        best = maximize(RandomGrid(size=64, points="sobol"), score, BOX, root_key(seed))
        assert abs(best.x[0] - centre) <= 1 / 64


# ----------------------------------------------------------------------------- accuracy


def test_a_grid_of_ten_points_is_inaccurate():
    etas = [maximize(RandomGrid(size=10), hills(BOX), BOX, root_key(s)).eta for s in range(10)]
    assert all(0.0 <= eta < 1.0 for eta in etas)
    assert np.mean(etas) < 0.97
    larger = [maximize(RandomGrid(size=400), hills(BOX), BOX, root_key(s)).eta for s in range(10)]
    assert np.mean(etas) < np.mean(larger) < 1.0


def test_accuracy_is_its_definition():
    score = hills(BOX, 2.0, 5.0)
    best = maximize(RandomGrid(size=10), score, BOX)
    rows, _ = BOX.draw(100_000, np.random.default_rng(1))
    reference = np.median(values(score, rows))
    assert best.eta == pytest.approx((best.value - reference) / (5.0 - reference), abs=0.02)


def test_accuracy_of_a_logarithmic_score_is_a_ratio():
    best = maximize(RandomGrid(size=10), hills(BOX, scale=20.0, kind=LogHills), BOX)
    assert best.eta == pytest.approx(math.exp(best.value), rel=1e-4)
    assert best.eta < 1.0


@pytest.mark.parametrize(
    ("value", "largest", "reference", "logarithmic", "eta", "flat"),
    [
        (3.0, 5.0, 1.0, False, 0.5, False),
        (5.0, 5.0, 1.0, False, 1.0, False),
        (0.0, 5.0, 1.0, False, 0.0, False),
        (1e6 + 1.0, 1e6 + 2.0, 1e6, False, 0.5, False),
        (2.0, 2.0, 2.0, False, 1.0, True),
        (2.0, 2.0, 3.0, False, 1.0, True),
        (-math.inf, -math.inf, -math.inf, False, 1.0, True),
        (-math.inf, 1.0, 0.0, False, 0.0, False),
        (math.log(2.0), math.log(8.0), -50.0, True, 0.25, False),
        (-900.0, -900.0, 0.0, True, 1.0, False),
        (-math.inf, -math.inf, 0.0, True, 1.0, True),
    ],
)
def test_accuracy_of_numbers(value, largest, reference, logarithmic, eta, flat):
    estimate = accuracy.accuracy(value, largest, reference, logarithmic)
    assert estimate.eta == pytest.approx(eta)
    assert estimate.flat is flat


@pytest.mark.parametrize("space", [BOX, LATTICE, MIXED, POOL])
def test_a_flat_score_is_said_to_be_flat(space):
    best = maximize(RandomGrid(size=10), hills(space, scale=0.0, shift=4.0), space)
    assert (best.value, best.eta, best.info["flat"]) == (4.0, 1.0, True)


def test_exhaustive_search_is_exact():
    assert maximize(Exhaustive(), bumpy(LATTICE), LATTICE).eta == 1.0
    assert maximize(Exhaustive(), hills(POOL), POOL).eta == 1.0


@pytest.mark.parametrize("space", [LATTICE, POOL, MIXED])
def test_a_grid_of_ten_points_is_inaccurate_on_other_spaces(space):
    etas = [maximize(RandomGrid(size=10), bumpy(space), space, root_key(s)).eta for s in range(5)]
    assert all(0.0 <= eta <= 1.0 for eta in etas)
    assert min(etas) < 1.0


def test_an_audit_looks_harder():
    cheap, audited = (
        maximize(MultiStart(raw=8, starts=1, audit=audit), bumpy(BOX), BOX, root_key(1))
        for audit in (False, True)
    )
    np.testing.assert_array_equal(cheap.x, audited.x)
    assert audited.eta < 1.0
    assert audited.eta <= cheap.eta + 1e-3


# ---------------------------------------------------------------------------- invariance


@pytest.mark.parametrize(("scale", "shift"), [(1e-8, 0.0), (1e8, 0.0), (1.0, 1e6), (1.0, -1e6)])
@pytest.mark.parametrize("maximizer", [MultiStart(), MultiStart(method="cg"), Gradient()])
def test_the_unit_of_the_score_does_not_matter(maximizer, scale, shift):
    plain = maximize(maximizer, hills(BOX), BOX)
    changed = maximize(maximizer, hills(BOX, scale, shift), BOX)
    np.testing.assert_allclose(changed.x, plain.x, atol=1e-4)
    assert changed.eta == pytest.approx(plain.eta, abs=1e-4)


# ------------------------------------------------------------------------- finite spaces


@pytest.mark.parametrize("space", [LATTICE, POOL])
def test_excluded_points_are_not_chosen(space):
    score = hills(space)
    scores = values(score, space.rows(0, int(space.size)))
    order = np.argsort(-scores, kind="stable").tolist()
    fitting = [RandomGrid(size=5000), Exhaustive()]
    fitting += [Mixed()] if isinstance(space, Space) else []
    for maximizer in fitting:
        exclude = frozenset(order[:7])
        best = maximize(maximizer, score, space, exclude=exclude)
        assert best.index not in exclude
        assert best.value == pytest.approx(scores[order[7]])


@pytest.mark.parametrize(
    "maximizer", [RandomGrid(size=2), Exhaustive(), Mixed(raw=2, starts=1), Rounding(MultiStart(raw=2))]
)
def test_the_last_point_left_is_found_and_then_none(maximizer):
    everything = frozenset(range(124))
    best = maximize(maximizer, hills(LATTICE), LATTICE, exclude=everything - {17})
    assert best.index == 17
    with pytest.raises(SpaceExhausted, match="124 have been asked"):
        maximize(maximizer, hills(LATTICE), LATTICE, exclude=everything)


def test_rounding_takes_a_neighbour_of_an_excluded_point():
    score = hills(LATTICE)
    free = maximize(Rounding(), score, LATTICE)
    taken = maximize(Rounding(), score, LATTICE, exclude={free.index})
    around = LATTICE.neighbours(free.x)
    assert taken.value == pytest.approx(values(score, around).max())
    assert tuple(taken.x) in {tuple(row) for row in around}


def test_the_value_of_rounding_is_that_of_the_rounded_point():
    levels = Space(i=Int(0, 3), j=Int(0, 3))
    score = hills(levels, centre=[0.4, 0.0])
    best = maximize(Rounding(), score, levels)
    assert levels.decode(best.x) == {"i": 1, "j": 0}
    assert best.value == pytest.approx(-((0.4 - 1 / 3) ** 2))


def test_what_rounding_loses_shows_in_its_accuracy():
    tenths = Space(i=Int(0, 10), j=Int(0, 10))  # the spike stands between their levels
    score = hills(tenths, scale=1.0, spike=2.0, centre=[0.9, 0.9])
    rounded, searched = (maximize(m, score, tenths) for m in (Rounding(), Mixed()))
    assert rounded.value < -0.2
    assert searched.value == pytest.approx(0.0, abs=1e-6)
    assert rounded.eta < 0.6
    assert searched.eta == pytest.approx(1.0)


# ------------------------------------------------------------------------------ few columns


class Kept(Score):
    """How many columns are equal to the target's, and one tenth of what an ascent can find."""

    target: np.ndarray

    def __call__(self, x):
        """The number of equal columns, less a tenth of the squared distance to the cube's centre."""
        return jnp.sum(jnp.abs(x - self.target) < 1e-9) - 0.1 * jnp.sum((x - 0.5) ** 2)


def test_points_that_keep_most_of_a_good_one_are_found():
    space = Space({f"x{i}": Float(0.0, 1.0) for i in range(12)})
    rng = np.random.default_rng(0)
    target = rng.random(12)
    parts = rng.random((2, 12))  # each of two known points has its half of the target
    parts[0, :6], parts[1, 6:] = target[:6], target[6:]
    score = Kept(target)
    ascended = maximize(MultiStart(), score, space, near=parts)
    found = maximize(FewColumns(), score, space, near=parts)
    assert ascended.value < 7.0 < 7.5 < found.value
    alone = maximize(FewColumns(), score, space)  # nothing is known: the inner maximizer's point
    np.testing.assert_allclose(alone.x, maximize(MultiStart(), score, space).x)


def test_choices_move_as_a_whole():
    space = Space(a=Choice(list("uvwxyz")), b=Choice(list("uvwxyz")), c=Choice(list("uvwxyz")))
    near, _ = space.draw(1, np.random.default_rng(0))
    moved = few_columns._moved(space, near, None, 500, np.random.default_rng(1))
    before, after = space.decode(near[0]), [space.decode(row) for row in moved]
    assert {params["a"] for params in after} == set("uvwxyz")
    changed = np.array([sum(params[name] != before[name] for name in "abc") for params in after])
    assert np.mean(changed == 0) < 0.2  # the option that it had was drawn again
    assert np.mean(changed == 1) > 0.3


def test_excluded_points_are_not_returned():
    near, _ = LATTICE.draw(3, np.random.default_rng(0))
    free = maximize(FewColumns(Mixed()), hills(LATTICE), LATTICE, near=near)
    taken = maximize(FewColumns(Mixed()), hills(LATTICE), LATTICE, near=near, exclude={free.index})
    assert taken.index != free.index
    assert taken.value <= free.value


# ------------------------------------------------------------------------------ the rest


@pytest.mark.parametrize(
    ("maximizer", "space"),
    [
        (RandomGrid(), BOX),
        (MultiStart(), BOX),
        (MultiStart(method="cg", fresh=True), BOX),
        (Gradient(steps=100), BOX),
        (NelderMead(), BOX),
        (Exhaustive(), LATTICE),
        (Mixed(), LATTICE),
        (Mixed(raw=4), MIXED),
        (FewColumns(Mixed(), raw=100), MIXED),
        (Rounding(RandomGrid()), LATTICE),
    ],
)
def test_places_where_the_score_is_not_a_number_are_avoided(maximizer, space):
    best = maximize(maximizer, hills(space, centre=np.ones(space.dim), limit=0.5), space)
    assert best.x[0] <= 0.5
    assert np.isfinite(best.value)
    assert 0.0 <= best.eta <= 1.0


def test_all_starts_ascend_in_one_call(monkeypatch):
    calls = []

    def counted(score, starts, **settings):
        calls.append(len(starts))
        return original(score, starts, **settings)

    original = multistart.ascend
    monkeypatch.setattr(multistart, "ascend", counted)
    maximize(MultiStart(starts=8), hills(BOX), BOX)
    assert calls == [8]


def test_costs_are_counted():
    evaluations = {
        "gradient": maximize(Gradient(starts=10, steps=500), hills(BOX), BOX).info["evaluations"],
        "exhaustive": maximize(Exhaustive(), hills(LATTICE), LATTICE).info["evaluations"],
        "grid": maximize(RandomGrid(size=123), hills(BOX), BOX).info["evaluations"],
    }
    assert evaluations == {"gradient": 10 * 501, "exhaustive": 124, "grid": 123}


@pytest.mark.parametrize(
    ("maximizer", "space"),
    [
        (MultiStart(), MIXED),
        (MultiStart(), LATTICE),
        (MultiStart(), POOL),
        (Gradient(), MIXED),
        (NelderMead(), MIXED),
        (NelderMead(), POOL),
        (Exhaustive(), BOX),
        (Exhaustive(), MIXED),
        (Mixed(), POOL),
        (FewColumns(RandomGrid()), POOL),
        (FewColumns(), MIXED),
        (Rounding(), POOL),
    ],
)
def test_a_space_that_does_not_fit_is_refused(maximizer, space):
    assert maximizer.fits(space) is not None
    with pytest.raises(UnsupportedError, match=r"needs .*; got .*\. Use"):
        maximize(maximizer, bumpy(space), space)


@pytest.mark.parametrize(
    "build",
    [
        lambda: RandomGrid(c=0),
        lambda: RandomGrid(c=math.nan),
        lambda: RandomGrid(a=-1),
        lambda: RandomGrid(size=0),
        lambda: RandomGrid(size=2.5),
        lambda: RandomGrid(points="halton"),
        lambda: MultiStart(raw=0),
        lambda: MultiStart(starts=1.5),
        lambda: MultiStart(method="newton"),
        lambda: Gradient(rate=0.0),
        lambda: Gradient(rate=math.inf),
        lambda: Gradient(steps=0),
        lambda: NelderMead(tolerance=0.0),
        lambda: NelderMead(tolerance=math.inf),
        lambda: NelderMead(starts=True),
        lambda: Mixed(raw=0),
        lambda: FewColumns(raw=0),
        lambda: FewColumns(rounds=1.5),
        lambda: FewColumns("multistart"),
        lambda: Rounding(Exhaustive()),
        lambda: Rounding("multistart"),
    ],
)
def test_wrong_settings_are_refused_at_once(build):
    with pytest.raises(UnsupportedError, match=r"; got .*\. [A-Z]"):
        build()


class NoGradient(Score):
    """A hill whose value is a number everywhere, and whose gradient nowhere."""

    def __call__(self, x):
        return -jnp.sum((x - 0.3) ** 2) + jnp.sqrt(jnp.sum((x - x) ** 2))


def test_a_score_without_a_usable_gradient_is_not_called_accurate():
    etas = [maximize(RandomGrid(size=10), NoGradient(), BOX, root_key(s)).eta for s in range(5)]
    assert max(etas) < 1.0
    assert max(etas) > 0.5
