import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from augury._errors import DataError
from augury.core.data import Data, bucket, pad


def test_buckets_are_the_documented_ones():
    lengths = sorted({bucket(n) for n in range(513)})
    assert lengths == [32, 64, 96, 128, 192, 256, 384, 512]


@given(st.integers(0, 10**6))
def test_a_bucket_holds_its_rows_and_wastes_little(n):
    length = bucket(n)
    assert n <= length <= bucket(n + 1)
    assert length <= max(32, 2 * n)
    assert bucket(length) == length


def test_padding_is_zero():
    padded = pad(np.ones((3, 2), dtype=np.float32), 5)
    assert padded.dtype == np.float32
    np.testing.assert_array_equal(padded, [[1, 1], [1, 1], [1, 1], [0, 0], [0, 0]])


def test_data_are_padded_and_masked():
    data = Data.of([[0.1, 0.2], [0.3, 0.4]], [5, 6])
    assert (data.n, data.dim) == (2, 2)
    assert data.x.shape == (32, 2)
    assert data.x.dtype == data.y.dtype == np.float64
    np.testing.assert_array_equal(data.mask, np.arange(32) < 2)
    np.testing.assert_array_equal(data.x[2:], 0.0)
    np.testing.assert_array_equal(data.y[2:], 0.0)
    np.testing.assert_array_equal(data.y[:2], [5.0, 6.0])
    np.testing.assert_array_equal(data.groups, [0, 1])  # every column for itself


def test_no_observations_are_data_too():
    data = Data.of(np.empty((0, 4)), [])
    assert (data.n, data.dim) == (0, 4)
    assert not data.mask.any()


@pytest.mark.parametrize("n", [31, 32, 33, 64, 65])
def test_the_capacity_is_the_bucket(n):
    assert len(Data.of(np.zeros((n, 1)), np.zeros(n)).x) == bucket(n)


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        (np.zeros((3, 2)), np.zeros(2), r"x must have shape \(n, D\).*got \(3, 2\) and \(2,\)"),
        (np.zeros(3), np.zeros(3), r"got \(3,\) and \(3,\)"),
        (np.zeros((3, 1)), np.zeros((3, 1)), r"got \(3, 1\) and \(3, 1\)"),
        ([[np.nan]], [1.0], "must be finite"),
        ([[0.5]], [np.inf], "must be finite"),
    ],
)
def test_data_refuse(x, y, sentence):
    with pytest.raises(DataError, match=sentence):
        Data.of(x, y)


def test_take_keeps_the_order_asked_for_and_the_groups():
    x = np.arange(40.0)[:, None].repeat(2, axis=1)
    data = Data.of(x, -np.arange(40.0), groups=[0, 0])
    some = data.take(np.array([7, 3, 39]))
    assert some.n == 3
    assert len(some.x) == 32  # a bucket of its own
    np.testing.assert_array_equal(some.x[:3, 0], [7, 3, 39])
    np.testing.assert_array_equal(some.y[:3], [-7, -3, -39])
    np.testing.assert_array_equal(some.groups, [0, 0])
    assert data.take(slice(35)).n == 35
    assert data.take(slice(100)).n == 40  # padded rows are never taken
