"""Parameters: valid values, encoding, quantiles and errors."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augury._errors import SpaceError
from augury.space import Choice, Float, Int, Param, param_from_dict

finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2).map(abs) | st.text(max_size=3)


@st.composite
def floats(draw):
    low, high = sorted([draw(finite), draw(finite)])
    return Float(low, high)


@st.composite
def log_floats(draw):
    positive = st.floats(min_value=5e-324, allow_infinity=False)
    low, high = sorted([draw(positive), draw(positive)])
    return Float(low, high, log=True)


@st.composite
def stepped_floats(draw):
    low = draw(st.floats(-1e3, 1e3))
    return Float(low, low + draw(st.floats(0, 50)), step=draw(st.floats(0.05, 60)))


@st.composite
def ints(draw):
    low = draw(st.integers(-(2**62), 2**62))
    return Int(low, low + draw(st.integers(0, 2**39)), step=draw(st.integers(1, 2**41)))


@st.composite
def log_ints(draw):
    low = draw(st.integers(1, 2**61))
    return Int(low, low + draw(st.integers(0, 2**39)), log=True)


choices = st.builds(
    Choice,
    st.lists(scalars, min_size=1, max_size=6, unique_by=lambda v: (type(v), v)),
    st.booleans(),
)
discrete = stepped_floats() | ints() | log_ints() | choices
SMALL = [
    Int(1, 9, log=True),
    Int(-2, 9, step=3),
    Float(0.1, 0.75, step=0.1),
    Choice(["a", "b", "c"]),
    Choice(["a", "b", "c"], ordered=True),
    Int(4, 4),
]


@settings(deadline=None)
@given(discrete, st.data())
def test_levels_values_and_columns_correspond(param, data):
    code = data.draw(st.integers(0, param.levels - 1))
    columns = param.from_codes(np.array([code]))
    assert columns.shape == (1, param.width)
    assert ((columns >= 0) & (columns <= 1)).all()
    assert param.codes(columns).tolist() == [code]
    assert np.array_equal(param.snap(columns), columns)
    (value,) = param.decode(columns)
    assert type(param.check(value)) is type(value)
    assert param.check(value) == value
    assert np.array_equal(param.encode(value), columns[0])


@settings(deadline=None)
@given(floats() | log_floats(), st.floats(0, 1))
def test_continuous_values_come_back_and_stay_inside(param, x):
    columns = np.full((1, param.width), x)
    (value,) = param.decode(columns)
    assert type(value) is float
    assert param.low <= value <= param.high
    again = param.decode(param.encode(value)[None])[0]
    scale = value if param.log else max(abs(param.low), abs(param.high))
    assert abs(again - value) <= 1e-12 * scale
    assert np.array_equal(param.snap(columns), columns)


@pytest.mark.parametrize(
    "param",
    [
        Float(0.1, 0.3),
        Float(0.1, 0.3, log=True),
        Float(1e-300, 1e300, log=True),
        Float(5e-324, 1.7976931348623157e308, log=True),
        Float(1e300, math.nextafter(1e300, math.inf), log=True),
        Float(-1.7e308, 1.7e308),
        Float(0.0, 5e-324),
        Float(1e-6, 1.0, log=True),
    ],
)
def test_extreme_bounds_are_reached_and_never_left(param):
    x = np.linspace(-0.1, 1.1, 241)[:, None]
    values = np.array(param.decode(x))
    assert ((values >= param.low) & (values <= param.high)).all()
    assert param.decode(np.array([[0.0], [1.0]])) == [param.low, param.high]
    assert param.encode(param.low) == 0
    assert param.encode(param.high) == 1
    assert np.isfinite(param.encode_all(values)).all()


def test_encodings_in_closed_form():
    assert Float(-1, 3).encode(0) == 0.25
    assert Float(1e-4, 1, log=True).encode(1e-1) == pytest.approx(0.75)
    assert Float(0, 1, step=0.25).encode(0.75) == 0.75
    assert Int(0, 10).encode(3) == 0.3
    assert Int(0, 10, step=4).encode(4) == 0.5  # 0, 4, 8
    assert Int(1, 16, log=True).encode(4) == pytest.approx(0.5)
    assert Choice(["a", "b", "c"]).encode("b").tolist() == [0, 1, 0]
    assert Choice(["a", "b", "c"], ordered=True).encode("b").tolist() == [0.5]
    assert Float(2, 2).encode(2).shape == Choice([None]).encode(None).shape == (0,)


@pytest.mark.parametrize(
    ("param", "levels", "width", "continuous", "one_hot"),
    [
        (Float(0, 1), None, 1, True, False),
        (Float(1, 1), 1, 0, False, False),
        (Float(0, 1, step=0.3), 4, 1, False, False),
        (Float(0, 1, step=2), 1, 0, False, False),
        (Int(1, 15), 15, 1, False, False),
        (Int(1, 1), 1, 0, False, False),
        (Choice(["a", "b", "c"]), 3, 3, False, True),
        (Choice(["a", "b", "c"], ordered=True), 3, 1, False, False),
        (Choice([False, True]), 2, 2, False, True),
        (Choice([None]), 1, 0, False, False),
    ],
)
def test_shape_of_the_encoding(param, levels, width, continuous, one_hot):
    assert param.levels == levels
    assert param.width == width
    assert param.continuous is continuous
    assert param.one_hot is one_hot


def test_stepped_floats_are_clean_numbers():
    assert [Float(0, 1, step=0.1).decode(np.array([[k / 10]]))[0] for k in range(11)] == [
        0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0
    ]  # fmt: skip
    assert Float(-0.3, 0.3, step=0.1).decode(np.array([[0.5]])) == [0.0]
    assert Float(1 / 3, 2, step=1 / 7).decode(np.array([[0.0]])) == [1 / 3]
    assert Float(1000000.1, 1000000.4, step=0.1).levels == 4


@pytest.mark.parametrize("param", SMALL, ids=repr)
def test_snap_is_the_nearest_valid_row(param):
    rng = np.random.default_rng(0)
    valid = param.from_codes(np.arange(param.levels))
    columns = rng.uniform(-0.2, 1.2, (500, param.width))
    distance = np.linalg.norm(columns[:, None] - valid[None], axis=2)
    snapped = param.snap(columns)
    assert np.allclose(np.linalg.norm(columns - snapped, axis=1), distance.min(axis=1))
    assert np.array_equal(param.snap(snapped), snapped)
    assert param.decode(columns) == param.decode(snapped)


@pytest.mark.parametrize("param", [p for p in SMALL if not getattr(p, "log", False)], ids=repr)
def test_quantiles_give_each_level_the_same_mass(param):
    u = (np.arange(60 * param.levels) + 0.5) / (60 * param.levels)
    counts = np.bincount(param.codes(param.from_unit(u)), minlength=param.levels)
    assert counts.tolist() == [60] * param.levels


def test_log_quantiles():
    u = (np.arange(100_000) + 0.5) / 100_000
    param = Int(1, 9, log=True)
    mass = np.bincount(param.codes(param.from_unit(u)), minlength=9) / len(u)
    edges = np.log(np.arange(10) + 0.5)
    assert np.allclose(mass, np.diff(edges) / (edges[-1] - edges[0]), atol=2e-5)
    rate = Float(1e-4, 1, log=True)
    assert rate.decode(rate.from_unit(np.array([0.5]))) == pytest.approx([1e-2])
    ends = np.array([0, np.nextafter(1, 0)])
    assert param.decode(param.from_unit(ends)) == [1, 9]


def test_options_are_told_apart_with_their_type():
    options = [True, 1, 1.0, "1", None, 0, False]
    param = Choice(options)
    for option in options:
        assert type(param.check(option)) is type(option)
        (again,) = param.decode(param.encode(option)[None])
        assert again is param.options[options.index(option)] or again == option
        assert type(again) is type(option)
    assert Choice([1]) != Choice([True])
    assert Choice([1]) != Choice([1.0])
    assert Choice([1, 2]) == Choice((1, 2)) == Choice(np.array([1, 2])) == Choice(range(1, 3))


def test_numpy_scalars_become_python_scalars():
    param = Float(np.float32(0), np.int64(2), step=np.float64(0.5))
    assert param == Float(0.0, 2.0, step=0.5)
    assert [type(v) for v in (param.low, param.high, param.step)] == [float] * 3
    assert type(Int(np.int8(1), np.uint64(3)).high) is int
    assert type(Int(1, 3).check(np.int32(2))) is int
    assert type(Float(1, 3).check(np.float32(2))) is float
    assert Choice([np.bool_(True), np.str_("x")]).options == (True, "x")
    assert Choice([True, 1]).check(np.bool_(True)) is True
    assert Float(0, 1, step=0.1).check(0.30000000000000004) == 0.3


@settings(deadline=None)
@given(floats() | log_floats() | discrete)
def test_json_round_trip(param):
    again = param_from_dict(json.loads(json.dumps(param.to_dict())))
    assert again == param
    assert hash(again) == hash(param)


def test_parameters_are_immutable():
    with pytest.raises(AttributeError):
        Int(1, 3).low = 2


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: Float(1.0, 0.1), "low <= high; got low=1.0, high=0.1. Swap"),
        (lambda: Float(float("nan"), 1), "low must be a finite number; got nan"),
        (lambda: Float(0, float("inf")), "high must be a finite number; got inf"),
        (lambda: Float(0, 10**400), "high must be a finite number"),
        (lambda: Float("0", 1), "low must be a finite number; got '0'"),
        (lambda: Float(False, 1), "low must be a finite number; got False"),
        (lambda: Float(0, 1, log=True), "low > 0 with log=True; got low=0.0"),
        (lambda: Float(0, 1, 0.1), "log must be True or False; got 0.1"),
        (lambda: Float(0, 1, step=0), "step > 0; got step=0.0"),
        (lambda: Float(0, 1, step=-0.1), "step > 0; got step=-0.1"),
        (lambda: Float(0, 1, step=True), "step must be a finite number; got True"),
        (lambda: Float(1, 2, log=True, step=0.1), "log or a step, not both"),
        (lambda: Float(1e16, 2e16, step=0.1), "step of at least 1e-12"),
        (lambda: Float(-1.7e308, 1.7e308, step=1e300), "finite range"),
        (lambda: Int(3, 1), "low <= high; got low=3, high=1. Swap"),
        (lambda: Int(1.0, 3), "low must be an integer; got 1.0"),
        (lambda: Int(1, True), "high must be an integer; got True"),
        (lambda: Int(0, 3, log=True), "low > 0 with log=True; got low=0"),
        (lambda: Int(0, 3, step=0), "step > 0; got step=0"),
        (lambda: Int(1, 3, log=True, step=2), "log or a step, not both"),
        (lambda: Int(0, 2**63), "at most 64 bits"),
        (lambda: Int(0, 2**41), "at most 2**40 values"),
        (lambda: Choice([]), "at least one option"),
        (lambda: Choice("abc"), "must be a list; got 'abc'"),
        (lambda: Choice({"a", "b"}), "must be a list"),
        (lambda: Choice([1, 2, 1]), "distinct; got [1, 2, 1]"),
        (lambda: Choice([float("nan")]), "must not be NaN"),
        (lambda: Choice([(1, 2)]), "None, bool, int, float or str; got (1, 2)"),
        (lambda: Choice([1, 2], ordered=3), "ordered must be True or False; got 3"),
    ],
)
def test_wrong_parameters_say_what_to_do(build, text):
    with pytest.raises(SpaceError) as caught:
        build()
    message = str(caught.value)
    assert message.startswith(("Float ", "Int ", "Choice "))
    assert text in message
    assert message.endswith(".")


@pytest.mark.parametrize(
    ("param", "value"),
    [
        *[(Float(0, 1), v) for v in (-0.1, 1.1, "0.5", None, True, math.nan, math.inf, 10**400)],
        *[(Float(0, 1, step=0.1), v) for v in (0.15, 1.1, -0.1, math.nan)],
        *[(Int(1, 9), v) for v in (0, 10, 2.0, "2", True, None, math.nan)],
        *[(Int(1, 9, step=3), v) for v in (2, 9)],
        *[(Choice([1, "a"]), v) for v in (True, 1.0, "b", None, [1], math.nan, np.zeros(2))],
    ],
)
def test_wrong_values_name_the_parameter(param: Param, value):
    with pytest.raises(SpaceError, match=r"^'lr' must .*; got .*\. .*\.$"):
        param.check(value, "'lr'")


@pytest.mark.parametrize("data", [{}, {"type": "real"}, {"type": "int", "lo": 1}, 3, None])
def test_wrong_stored_parameters(data):
    with pytest.raises(SpaceError, match="stored parameter"):
        param_from_dict(data)


def test_continuous_parameters_have_no_levels():
    with pytest.raises(SpaceError, match="step"):
        Float(0, 1).codes(np.zeros((1, 1)))
