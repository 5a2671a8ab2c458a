"""Spaces: points as rows, enumeration, neighbours and Sobol points."""

import doctest
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import augury.space.space
from augury._errors import SpaceError
from augury.space import Choice, Float, Int, Space

MIXED = Space(
    {"optimizer.lr": Float(1e-6, 1.0, log=True)},
    depth=Int(1, 15),
    fixed=Int(3, 3),
    booster=Choice(["dart", "gbtree", None]),
    rate=Float(0, 1, step=0.25),
    size=Choice(["S", "M", "L"], ordered=True),
    units=Int(1, 64, log=True),
)
FINITE = Space(
    a=Int(0, 2),
    b=Choice(["x", "y", "z"]),
    c=Choice([7]),
    d=Float(0, 1, step=0.5),
    e=Int(1, 4, True),
)

small = st.one_of(
    st.builds(lambda low, n: Int(low, low + n), st.integers(-5, 5), st.integers(0, 4)),
    st.builds(lambda low, n: Int(low, low + n, log=True), st.integers(1, 5), st.integers(0, 4)),
    st.builds(lambda n: Float(0.1, 0.1 + 0.1 * n, step=0.1), st.integers(0, 4)),
    st.builds(lambda n, o: Choice(list("abcde"[:n]), o), st.integers(1, 5), st.booleans()),
)
finite_spaces = st.lists(small, min_size=1, max_size=4).map(
    lambda params: Space({f"p{i}": param for i, param in enumerate(params)})
)


def test_shape():
    assert MIXED.names == ("optimizer.lr", "depth", "fixed", "booster", "rate", "size", "units")
    assert MIXED.dim == 8
    assert MIXED.free == 6
    assert MIXED.groups.tolist() == [0, 1, 2, 2, 2, 3, 4, 5]
    assert MIXED.groups.dtype == np.int64
    assert MIXED.continuous.tolist() == [True] + [False] * 7
    assert MIXED.size == math.inf
    assert not MIXED.is_finite
    assert FINITE.size == 3 * 3 * 3 * 4
    assert FINITE.is_finite


def test_points_come_back_from_rows():
    rows, indices = MIXED.draw(200, np.random.default_rng(0))
    assert indices is None
    points = MIXED.decode_all(rows)
    assert all(type(p["depth"]) is int and type(p["rate"]) is float for p in points)
    assert {type(p["booster"]) for p in points} == {str, type(None)}
    assert np.allclose(MIXED.encode_all(points), rows, atol=1e-13)
    assert np.array_equal(MIXED.snap(rows), rows)
    assert MIXED.decode(rows[3]) == points[3]
    assert np.array_equal(MIXED.encode(points[3]), MIXED.encode_all(points)[3])
    assert list(MIXED.check(dict(reversed(points[0].items())))) == list(MIXED.names)
    assert MIXED.encode_all([]).shape == (0, 8)
    assert MIXED.decode_all(np.empty((0, 8))) == []


@settings(deadline=None)
@given(finite_spaces)
def test_enumeration_is_a_bijection(space):
    n = space.size
    rows = space.rows(0, n)
    assert rows.shape == (n, space.dim)
    assert space.index_of(rows).tolist() == list(range(n))
    points = space.decode_all(rows)
    assert len({json.dumps(point) for point in points}) == n
    assert np.array_equal(space.encode_all(points), rows)
    assert np.array_equal(space.rows(n // 3, n), rows[n // 3 :])
    assert np.array_equal(space.rows_at([n - 1, 0]), rows[[n - 1, 0]])


@settings(deadline=None)
@given(finite_spaces, st.integers(0, 2**32 - 1))
def test_snap_is_idempotent_and_nearest(space, seed):
    rows = np.random.default_rng(seed).uniform(-0.3, 1.3, (20, space.dim))
    snapped = space.snap(rows)
    every = space.rows(0, space.size)
    nearest = np.linalg.norm(rows[:, None] - every[None], axis=2).min(axis=1)
    assert np.allclose(np.linalg.norm(rows - snapped, axis=1), nearest)
    assert np.array_equal(space.snap(snapped), snapped)
    assert space.decode_all(rows) == space.decode_all(snapped)


@settings(deadline=None)
@given(finite_spaces, st.integers(0, 9), st.data())
def test_neighbours_differ_in_one_parameter(space, reach, data):
    here = data.draw(st.integers(0, space.size - 1))
    rows = space.rows(0, space.size)
    codes = {
        name: np.array([list(p.decode(p.from_codes(np.arange(p.levels)))).index(point[name])
                        for point in space.decode_all(rows)])
        for name, p in space.params.items()
    }  # fmt: skip
    expected = []
    for other in range(space.size):
        moved = [name for name in space.names if codes[name][other] != codes[name][here]]
        if len(moved) == 1:
            distance = abs(int(codes[moved[0]][other] - codes[moved[0]][here]))
            power = distance & (distance - 1) == 0
            if space.params[moved[0]].one_hot or (power and distance <= reach):
                expected.append(other)
    found = space.index_of(space.neighbours(rows[here], reach))
    assert sorted(found.tolist()) == expected


def test_neighbours_keep_continuous_columns():
    row = MIXED.encode_all(
        [{"optimizer.lr": 0.01, "depth": 1, "fixed": 3, "booster": None, "rate": 0.5, "size": "M",
          "units": 64}]
    )[0]  # fmt: skip
    points = MIXED.decode_all(MIXED.neighbours(row, reach=4))
    assert [p["depth"] for p in points if p["depth"] != 1] == [2, 3, 5]
    assert [p["booster"] for p in points if p["booster"]] == ["dart", "gbtree"]
    assert [p["rate"] for p in points if p["rate"] != 0.5] == [0, 0.25, 0.75, 1]
    assert [p["size"] for p in points if p["size"] != "M"] == ["S", "L"]
    assert [p["units"] for p in points if p["units"] != 64] == [60, 62, 63]
    assert len(points) == 3 + 2 + 4 + 2 + 3
    assert (MIXED.neighbours(row)[:, 0] == row[0]).all()
    assert Space(x=Float(0, 1)).neighbours([0.3]).shape == (0, 1)


def test_draws_are_uniform_over_a_finite_space():
    grid = (np.arange(6) + 0.5) / 6
    u = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    space = Space(a=Int(0, 2), c=Choice([7]), b=Choice(["x", "y"]))
    assert np.bincount(space.index_of(space.from_unit(u))).tolist() == [6] * 6
    rows, indices = FINITE.draw(50, np.random.default_rng(1))
    assert np.array_equal(FINITE.rows_at(indices), rows)
    assert indices.dtype == np.int64


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**64), st.integers(0, 9), st.integers(0, 9))
def test_sobol_points_are_one_sequence(seed, skip, n):
    whole = MIXED.sobol(skip + n, seed)
    assert np.array_equal(MIXED.sobol(skip, seed), whole[:skip])
    assert np.array_equal(MIXED.sobol(n, seed, skip=skip), whole[skip:])
    assert np.array_equal(MIXED.snap(whole), whole)


def test_sobol_points_fill_the_space():
    x = Space(x=Float(0, 1), y=Float(0, 1)).sobol(64, seed=3)
    assert (np.histogram2d(*x.T, bins=8, range=[[0, 1], [0, 1]])[0] == 1).all()
    assert not np.array_equal(x, Space(x=Float(0, 1), y=Float(0, 1)).sobol(64, seed=4))


def test_sobol_falls_back_to_uniform_points_in_very_many_dimensions(monkeypatch):
    monkeypatch.setattr(augury.space.space, "_SOBOL_MAX_DIM", 5)
    rows = MIXED.sobol(5, seed=0)
    assert np.array_equal(MIXED.sobol(2, seed=0, skip=3), rows[3:])


def test_a_space_of_fixed_parameters_is_one_point():
    space = Space(a=Int(1, 1), b=Choice(["x"]), c=Float(0.5, 0.5))
    assert (space.dim, space.free, space.size) == (0, 0, 1)
    assert space.sobol(3, seed=0).shape == (3, 0)
    rows, indices = space.draw(2, np.random.default_rng(0))
    assert rows.shape == (2, 0)
    assert indices.tolist() == [0, 0]
    assert space.decode(rows[0]) == {"a": 1, "b": "x", "c": 0.5}
    assert space.neighbours(rows[0]).shape == (0, 0)


def test_huge_finite_spaces_use_python_ints():
    space = Space({f"x{i}": Int(0, 2**20 - 1) for i in range(5)})
    assert space.size == 2**100
    rows, indices = space.draw(4, np.random.default_rng(0))
    assert indices.dtype == object
    assert np.array_equal(space.rows_at(indices), rows)
    last = space.rows(2**100 - 2, 2**100)
    assert space.index_of(last).tolist() == [2**100 - 2, 2**100 - 1]
    assert space.decode(last[-1]) == {f"x{i}": 2**20 - 1 for i in range(5)}


def test_a_space_is_immutable_and_stored_exactly():
    again = Space.from_dict(json.loads(json.dumps(MIXED.to_dict(), sort_keys=True)))
    assert again == MIXED == pickle.loads(pickle.dumps(MIXED))
    assert again.names == MIXED.names
    assert eval(repr(MIXED)) == MIXED
    assert Space(a=Int(0, 1), b=Int(0, 1)) != Space(b=Int(0, 1), a=Int(0, 1))
    assert Space(a=Choice([0, 1])) != Space(a=Choice([False, True]))
    assert Space(a=Int(0, 1)) != {"a": Int(0, 1)}
    for change in (
        lambda: setattr(MIXED, "names", ()),
        lambda: setattr(MIXED, "other", 1),
        lambda: MIXED.params.update(x=1),
    ):
        with pytest.raises(AttributeError):
            change()
    with pytest.raises(ValueError, match="read-only"):
        MIXED.groups[0] = 1


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: Space(), "at least one parameter"),
        (lambda: Space({}), "at least one parameter"),
        (lambda: Space([Float(0, 1)]), "dict or keywords"),
        (lambda: Space({"lr": Float(0, 1)}, lr=Float(0, 1)), "['lr']"),
        (lambda: Space(lr=(0, 1)), "'lr' must be a Float, an Int or a Choice; got (0, 1)"),
        (lambda: Space(lr=Float), "'lr' must be a Float, an Int or a Choice"),
        (lambda: Space({3: Float(0, 1)}), "got 3"),
        (lambda: Space({"": Float(0, 1)}), "got ''"),
        (lambda: Space.from_dict({}), "stored space"),
        (lambda: Space.from_dict({"params": [{"name": "a"}]}), "stored parameter"),
        (lambda: FINITE.check([1]), "{'a': ..., 'b': ..."),
        (lambda: FINITE.check({"a": 1, "z": 0}), "missing ['b', 'c', 'd', 'e'], unknown ['z']"),
        (lambda: FINITE.encode({"a": 3, "b": "x", "c": 7, "d": 0, "e": 1}), "'a' must lie in"),
        (lambda: FINITE.check({"a": 1, "b": "w", "c": 7, "d": 0, "e": 1}), "'b' must be one of"),
        (lambda: FINITE.check({"a": 1, "b": "x", "c": 7, "d": 0.3, "e": 1}), "'d' must be 0.0 + k"),
        (lambda: FINITE.rows(100, 109), "[0, 108)"),
        (lambda: FINITE.rows_at([-1]), "[0, 108)"),
        (lambda: MIXED.rows(0, 1), "finite space"),
        (lambda: MIXED.rows_at([0]), "finite space"),
        (lambda: MIXED.snap(np.zeros((2, 7))), "(n, 8); got (2, 7)"),
        (lambda: MIXED.decode(np.full(8, np.nan)), "NaN"),
        (lambda: MIXED.from_unit(np.zeros((2, 8))), "(n, 6); got (2, 8)"),
    ],
)
def test_errors_say_what_to_do(build, text):
    with pytest.raises(SpaceError) as caught:
        build()
    assert text in str(caught.value)
    assert str(caught.value).endswith(".")


def test_continuous_spaces_have_no_indices():
    assert MIXED.index_of(np.zeros((1, 8))) is None


def test_the_examples_of_the_docstrings():
    assert doctest.testmod(augury.space.space) == (0, 3)
