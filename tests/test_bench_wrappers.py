import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augury._errors import UnsupportedError
from augury.bench.problem import Problem
from augury.bench.problems.synthetic import PROBLEMS
from augury.bench.wrappers import Discretized, Failing, Noisy, Permuted, Rotated, Shifted
from augury.space import Choice, Float, Int, Pool, Space

RNG = np.random.default_rng
MOVES = (Shifted(), Rotated())
NAMES = ("ackley-2", "branin", "hartmann-6", "levy-10")


def mixed():
    """A linear, a logarithmic, an integer and two categorical parameters; the optimum is 0."""
    penalty = {("str", "a"): 2.0, ("int", 1): 0.0, ("bool", True): 3.0}

    def value(params):
        kind = params["kind"]
        return (
            (params["x"] - 0.25) ** 2
            + (math.log10(params["rate"]) + 3) ** 2
            + abs(params["depth"] - 4)
            + penalty[type(kind).__name__, kind]
            + ["low", "middle", "high"].index(params["size"])
        )

    return Problem(
        name="mixed",
        space=Space(
            x=Float(0, 1),
            rate=Float(1e-5, 1, log=True),
            depth=Int(1, 9),
            kind=Choice(["a", 1, True]),
            size=Choice(["low", "middle", "high"], ordered=True),
        ),
        value=value,
        reference="here",
        budget=10,
        optimum=0.0,
        optimal={"x": 0.25, "rate": 1e-3, "depth": 4, "kind": 1, "size": "low"},
    )


def pool():
    return Problem(
        name="pool",
        space=Pool(np.linspace(0, 1, 50)[:, None]),
        value=lambda params: float(params["index"]),
        reference="here",
        budget=10,
        direction="maximize",
        optimum=49.0,
        optimal={"index": 49},
    )


def points(problem, count=100, seed=0):
    return problem.space.decode_all(problem.space.draw(count, RNG(seed))[0])


# Shifted and Rotated


@pytest.mark.parametrize("move", MOVES, ids=repr)
@pytest.mark.parametrize("name", NAMES)
def test_a_move_keeps_the_optimum(move, name):
    problem = PROBLEMS[name](0)
    for seed in range(5):
        moved = move(problem, seed)
        assert moved.space == problem.space
        assert moved.space.check(moved.optimal) == moved.optimal
        assert moved.value(moved.optimal) == pytest.approx(problem.optimum, abs=1e-6)
        assert moved.optimum == problem.optimum
        assert min(map(moved.value, points(moved))) >= problem.optimum - 1e-9


def test_shifted_moves_the_optimum_uniformly_within_the_middle():
    problem = PROBLEMS["ackley-2"](0)
    places = np.array([problem.space.encode(Shifted()(problem, s).optimal) for s in range(300)])
    assert places.min() >= 0.1
    assert places.max() <= 0.9
    np.testing.assert_allclose(places.mean(axis=0), 0.5, atol=0.05)
    np.testing.assert_allclose(places.std(axis=0), 0.8 / math.sqrt(12), atol=0.03)
    center = Shifted(middle=0)(replace(problem, optimal={"x1": 1.0, "x2": -4.0}), 0).optimal
    assert center == {"x1": 0.0, "x2": 0.0}


def test_two_problems_are_shifted_differently():
    problem = PROBLEMS["ackley-2"](0)
    places = [
        Shifted()(replace(problem, name=name), seed).optimal for name in ("a", "b") for seed in (0, 0, 1)
    ]
    assert places[0] == places[1] == Shifted()(replace(problem, name="a"), 0).optimal
    assert len({tuple(place.values()) for place in places}) == 4


def test_shifted_is_a_translation_with_mirrors_at_the_bounds():
    seen = []
    problem = Problem(
        name="line", space=Space(x=Float(0, 10)), value=lambda p: seen.append(p["x"]) or p["x"],
        reference="here", budget=1, optimum=0.0, optimal={"x": 0.0},
    )  # fmt: skip
    moved = Shifted()(problem, 0)
    target = moved.optimal["x"]
    assert moved.value({"x": target + 0.5}) == pytest.approx(0.5)
    assert moved.value({"x": target - 0.5}) == pytest.approx(0.5)
    assert all(0 <= x <= 10 for x in seen)


@given(offset=st.floats(-20, 20))
@settings(max_examples=50, deadline=None)
def test_reflection(offset):
    from augury.bench.wrappers import _reflected

    mirrored = float(_reflected(np.array([offset]))[0])
    assert 0 <= mirrored <= 1
    assert math.cos(math.pi * mirrored) == pytest.approx(math.cos(math.pi * offset), abs=1e-9)


def test_rotated_keeps_distances_near_the_optimum():
    problem = replace(
        PROBLEMS["ackley-3"](0),
        value=lambda p: (p["x1"] / 10) ** 2 + (p["x2"] / 10) ** 2 + (p["x3"] / 10) ** 2,
    )
    rotated = Rotated()(problem, 0)
    for point in points(rotated):
        small = {name: 0.4 * x for name, x in point.items()}  # inside the ball in the box
        assert rotated.value(small) == pytest.approx(problem.value(small), abs=1e-12)
    different = Rotated()(PROBLEMS["rastrigin-3"](0), 0)
    assert different.value({"x1": 0.5, "x2": 0.0, "x3": 0.0}) != pytest.approx(20.25, abs=1e-3)


def test_rotations_are_uniform():
    """The image of a unit vector has mean 0 and variance 1/d in each coordinate."""
    problem = replace(PROBLEMS["ackley-2"](0), value=lambda p: p["x1"])
    images = [Rotated()(problem, seed).value({"x1": 1.0, "x2": 0.0}) for seed in range(400)]
    assert np.mean(images) == pytest.approx(0, abs=0.12)
    assert np.var(images) == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("move", MOVES, ids=repr)
def test_a_move_without_a_known_place_forgets_the_optimum(move):
    moved = move(replace(PROBLEMS["branin"](0), optimal=None), 0)
    assert moved.optimum is None
    assert moved.optimal is None
    assert math.isfinite(moved.value({"x1": -5.0, "x2": 15.0}))


@pytest.mark.parametrize("move", MOVES, ids=repr)
def test_a_move_leaves_discrete_parameters(move):
    problem = mixed()
    moved = move(problem, 1)
    assert moved.value(moved.optimal) == pytest.approx(0, abs=1e-9)
    assert {k: moved.optimal[k] for k in ("depth", "kind", "size")} == {
        "depth": 4,
        "kind": 1,
        "size": "low",
    }
    deeper = moved.optimal | {"depth": 9, "kind": True}
    assert moved.value(deeper) == pytest.approx(8, abs=1e-9)


# Discretized


def test_discretized_keeps_an_optimum_on_a_level():
    grid = Discretized(levels=11)(PROBLEMS["ackley-2"](0), 0)
    assert grid.space.size == 121
    assert grid.space.params["x1"] == Float(-5, 5, step=1.0)
    assert grid.optimal == {"x1": 0.0, "x2": 0.0}
    assert grid.exact
    assert grid.optimum == 0


@pytest.mark.parametrize("name", ["branin", "ackley-2", "rosenbrock-2"])
@pytest.mark.parametrize("levels", [2, 8, 30])
def test_discretized_finds_a_point_of_the_grid(name, levels):
    problem = PROBLEMS[name](0)
    grid = Discretized(levels)(problem, 0)
    values = [grid.value(point) for point in grid.space.decode_all(grid.space.rows(0, levels**2))]
    assert grid.space.check(grid.optimal) == grid.optimal
    assert grid.value(grid.optimal) == grid.optimum
    assert not grid.exact
    assert min(values) <= grid.optimum <= np.quantile(values, 0.3)


def test_discretized_spaces_logarithmic_levels_evenly():
    grid = Discretized(levels=6)(mixed(), 0)
    assert grid.space.params["rate"].options == pytest.approx((1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1))
    assert grid.space.params["rate"].ordered
    assert grid.space.size == 6 * 6 * 9 * 3 * 3
    assert grid.optimal["rate"] == pytest.approx(1e-3)
    assert grid.optimum == pytest.approx(0.05**2)  # x = 0.2 is nearest to 0.25


def test_discretized_maximizes_where_the_problem_does():
    down = PROBLEMS["branin"](0)
    up = replace(down, value=lambda p: -down.value(p), direction="maximize", optimum=-down.optimum)
    assert Discretized(8)(up, 0).optimum == -Discretized(8)(down, 0).optimum


# Permuted


def test_permuted_keeps_the_values():
    problem = mixed()
    orders, labels = set(), set()
    for seed in range(20):
        permuted = Permuted()(problem, seed)
        orders.add(permuted.space.names)
        labels.add(repr(permuted.optimal["kind"]))
        assert dict(permuted.space.params) == dict(problem.space.params)
        assert permuted.value(permuted.optimal) == permuted.optimum == 0
        assert permuted.optimal["size"] == "low"
        base = {k: v for k, v in problem.optimal.items() if k != "kind"}
        kinds = ["a", 1, True]
        assert sorted(permuted.value({**base, "kind": k}) for k in kinds) == [0, 2, 3]
    assert len(orders) > 10
    assert labels == {"'a'", "1", "True"}


# Noisy


def test_noise_is_only_observed():
    problem = PROBLEMS["branin"](0)
    noisy = Noisy(0.5)(problem, 0)
    point = {"x1": 1.0, "x2": 2.0}
    rng = RNG(0)
    seen = np.array([noisy(point, rng) for _ in range(2000)])
    assert noisy.value(point) == problem.value(point)
    assert seen.mean() == pytest.approx(problem.value(point), abs=0.05)
    assert seen.std() == pytest.approx(0.5, rel=0.1)
    assert noisy(point, RNG(3)) == noisy(point, RNG(3)) != noisy(point, RNG(4))
    assert (noisy.optimum, noisy.optimal) == (problem.optimum, problem.optimal)
    assert "0.5" in noisy.noise


def test_relative_noise_and_two_noises():
    problem = PROBLEMS["branin"](0)
    spread = np.std([problem.value(point) for point in points(problem, 20_000)])
    noisy = Noisy(0.1, relative=True)(Noisy(0.2 * spread)(problem, 0), 0)
    rng = RNG(0)
    seen = [noisy(problem.optimal, rng) for _ in range(2000)]
    assert np.std(seen) == pytest.approx(math.hypot(0.1, 0.2) * spread, rel=0.1)
    assert noisy.noise.count("Gaussian") == 2
    assert Noisy(0.0)(problem, 0)(problem.optimal, rng) == problem.value(problem.optimal)


# Failing


@pytest.mark.parametrize("make", [mixed, pool])
def test_random_failures(make):
    problem = make()
    failing = Failing(0.3, how="nan")(problem, 0)
    rng = RNG(0)
    seen = np.array([failing(problem.optimal, rng) for _ in range(3000)])
    assert np.isnan(seen).mean() == pytest.approx(0.3, abs=0.03)
    assert set(seen[~np.isnan(seen)]) == {problem.optimum}
    assert failing.value(problem.optimal) == failing.optimum == problem.optimum
    with pytest.raises(RuntimeError, match=f"{problem.name}.failing failed at"):
        Failing(1.0)(problem, 0)(problem.optimal, rng)


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.4])
def test_a_failing_region_spares_the_optimum(fraction):
    problem = PROBLEMS["hartmann-6"](0)
    sample, rng = points(problem, 400), RNG(0)
    for seed in range(3):
        failing = Failing(fraction, where="region", how="nan")(problem, seed)
        seen = [failing(point, rng) for point in sample]
        assert np.isnan(seen).mean() == pytest.approx(fraction, abs=0.07)
        assert failing(failing.optimal, rng) == failing.value(failing.optimal)
        np.testing.assert_array_equal(seen, [failing(point, rng) for point in sample])


def test_a_failing_region_of_a_pool_is_a_fraction_of_it():
    failing = Failing(0.2, where="region", how="nan")(pool(), 0)
    seen = np.array([failing({"index": i}, RNG(0)) for i in range(50)])
    assert np.isnan(seen).sum() == 10
    assert not np.isnan(seen[49])


def test_a_region_that_holds_the_optimum_forgets_it():
    failing = Failing(1.0, where="region")(PROBLEMS["branin"](0), 0)
    assert failing.optimum is None
    assert failing.optimal is None
    with pytest.raises(RuntimeError, match="meant to"):
        failing({"x1": 1.0, "x2": 2.0}, RNG(0))
    unknown = replace(PROBLEMS["branin"](0), optimal=None)
    assert Failing(0.1, where="region")(unknown, 0).optimum is None
    assert Failing(0.1)(unknown, 0).optimum == unknown.optimum


# Together


ORDERS = [
    (Shifted(), Rotated(), Permuted(), Noisy(0.1)),
    (Noisy(0.1), Rotated(), Shifted(), Permuted()),
    (Permuted(), Shifted(), Discretized(21), Noisy(0.1)),
    (Rotated(), Discretized(21), Permuted(), Failing(0.2, where="region", how="nan")),
    (Failing(0.2, where="region", how="nan"), Shifted(), Rotated(), Permuted(), Noisy(0.0)),
]


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "+".join(type(w).__name__ for w in order))
@pytest.mark.parametrize("start", [mixed(), PROBLEMS["branin"](0)], ids=lambda problem: problem.name)
def test_wrappers_compose(order, start):
    once, twice, other = start, start, start
    for wrapper in order:
        once, twice, other = wrapper(once, 1), wrapper(twice, 1), wrapper(other, 2)
    rows = points(once, 50)
    assert once.value(once.optimal) == pytest.approx(once.optimum, abs=1e-9)
    assert math.isfinite(once(once.optimal, RNG(0)))
    assert min(map(once.value, rows)) >= start.optimum - 1e-9
    assert [once.value(p) for p in rows] == [twice.value(p) for p in rows]
    np.testing.assert_array_equal([once(p, RNG(0)) for p in rows], [twice(p, RNG(0)) for p in rows])
    assert [once.value(p) for p in rows] != [other.value(p) for p in rows]
    assert once.name == "+".join([start.name, *(type(w).__name__.lower() for w in order)])


def test_what_a_wrapper_cannot_do_is_said():
    for wrapper in (Shifted(), Rotated(), Discretized(), Permuted()):
        with pytest.raises(UnsupportedError, match="the pool of pool"):
            wrapper(pool(), 0)
    grid = Discretized()(PROBLEMS["branin"](0), 0)
    for wrapper in (Shifted(), Rotated(), Discretized()):
        with pytest.raises(UnsupportedError, match="a continuous parameter"):
            wrapper(grid, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Noisy(-1.0), lambda: Noisy(math.nan), lambda: Noisy(1.0, points=0),
        lambda: Shifted(middle=1.5), lambda: Discretized(1), lambda: Discretized(0),
        lambda: Failing(1.5), lambda: Failing(0.1, where="there"), lambda: Failing(0.1, how="oops"),
    ],
)  # fmt: skip
def test_settings_are_checked(make):
    with pytest.raises(UnsupportedError, match="must"):
        make()
