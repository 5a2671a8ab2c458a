"""Pools: scaling in blocks, sparse features, memory and errors."""

import doctest
import hashlib
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import augury.space.pool
from augury._errors import SpaceError
from augury.space import Pool


@pytest.fixture(params=[1, 7, 2**17])
def block(request, monkeypatch):
    monkeypatch.setattr(augury.space.pool, "_BLOCK", request.param)


def scaled(x):
    x = x.astype(float)
    span = np.ptp(x, axis=0)
    return (x - x.min(axis=0)) / np.where(span > 0, span, 1)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float32, np.float64])
def test_vectors_are_scaled_by_column(block, dtype):
    x = np.random.default_rng(0).integers(0, 100, (23, 5)).astype(dtype)
    x[:, 2] = 1
    pool = Pool(x)
    assert pool.rows(0, 23).dtype == np.float64
    assert np.array_equal(pool.rows(0, 23), scaled(x))
    assert np.array_equal(pool.rows(4, 9), scaled(x)[4:9])
    assert np.array_equal(pool.rows_at([3, 3, 0]), scaled(x)[[3, 3, 0]])
    assert (pool.rows(0, 23)[:, 2] == 0).all()


@pytest.mark.parametrize("shape", [(6, 4, 3), (6, 4, 3, 2)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_images_are_scaled_by_one_range(block, shape, order):
    x = np.asarray(np.random.default_rng(0).integers(10, 200, shape, dtype=np.uint8), order=order)
    expected = ((x.astype(float) - x.min()) / np.ptp(x)).reshape(6, -1)
    pool = Pool(x)
    assert pool.dim == x[0].size
    assert np.array_equal(pool.rows(0, 6), expected)
    assert np.array_equal(pool.rows_at([5, 1]), expected[[5, 1]])
    assert (Pool(np.full(shape, 3.0)).rows(0, 6) == 0).all()


@pytest.mark.parametrize("kind", ["csr_array", "csc_matrix", "coo_array"])
def test_sparse_columns_are_divided_by_their_maximum(block, kind):
    x = np.random.default_rng(0).poisson(0.5, (23, 6)).astype(np.float32)
    x[:, 1] = 0
    x[0, 2], x[1, 2] = -9, 4
    pool = Pool(getattr(scipy.sparse, kind)(x))
    largest = np.abs(x).max(axis=0)
    expected = x / np.where(largest > 0, largest, 1.0).astype(float)
    assert np.array_equal(pool.rows(0, 23), expected)
    assert np.array_equal(pool.rows_at([3, 3, 0]), expected[[3, 3, 0]])
    assert pool.fingerprint() == Pool(scipy.sparse.csr_array(x)).fingerprint()


def test_sparse_counts_equal_dense_ones():
    x = np.random.default_rng(0).poisson(1.0, (50, 6))
    x[0] = 0
    assert np.array_equal(Pool(scipy.sparse.csr_array(x)).rows(0, 50), Pool(x).rows(0, 50))


def test_repeated_sparse_entries_are_summed_in_a_copy():
    data, rows, columns = [1.0, 2.0, 4.0], [0, 0, 1], [0, 0, 1]
    given = scipy.sparse.csr_array((data, columns, [0, 2, 3]), shape=(2, 2))
    assert np.array_equal(Pool(given).rows(0, 2), np.eye(2))
    assert given.nnz == len(rows)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(0, 60), st.integers(0, 2**32 - 1))
def test_draws_are_distinct(size, n, seed):
    pool = Pool(np.arange(size)[:, None])
    rows, indices = pool.draw(n, np.random.default_rng(seed))
    assert len(set(indices.tolist())) == len(indices) == min(n, size)
    assert np.array_equal(rows, pool.rows_at(indices))


def test_all_candidates_are_drawn_in_random_order():
    indices = Pool(np.arange(50)[:, None]).draw(99, np.random.default_rng(0))[1]
    assert sorted(indices.tolist()) == list(range(50))
    assert indices.tolist() != list(range(50))


def test_the_interface_of_a_space():
    pool = Pool([[0, 5, 1], [1, 5, 1], [1, 5, 1]])  # candidates may repeat
    assert (pool.size, len(pool), pool.dim, pool.names) == (3, 3, 3, ("index",))
    assert pool.is_finite is True
    assert pool.groups.tolist() == [0, 1, 2]
    assert pool.continuous.tolist() == [False] * 3
    assert pool.check({"index": np.int32(2)}) == {"index": 2}
    assert type(pool.check({"index": np.int32(2)})["index"]) is int
    assert pool.decode(1) == {"index": 1}
    assert pool.encode({"index": 1}).tolist() == [1, 0, 0]
    assert pool.encode_all([{"index": 1}, {"index": 0}]).tolist() == [[1, 0, 0], [0, 0, 0]]
    assert pool.encode_all([]).shape == (0, 3)
    assert "(3, 3)" in repr(pool)
    assert "sparse" in repr(Pool(scipy.sparse.csr_array(np.eye(2))))


def test_a_large_pool_is_not_copied(tmp_path):
    path = tmp_path / "features.npy"
    np.save(path, np.random.default_rng(0).random((200_000, 20), dtype=np.float32))
    for features in (np.load(path), np.load(path, mmap_mode="r")):
        before = features[:3].copy()
        tracemalloc.start()
        pool = Pool(features)
        total = sum(pool.rows(s, min(s + 4096, 200_000)).sum() for s in range(0, 200_000, 4096))
        pool.draw(512, np.random.default_rng(0))
        pool.fingerprint()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 0.49 < total / features.size < 0.51
        assert peak < 0.25 * features.nbytes
        assert np.array_equal(features[:3], before)


def test_fingerprints_depend_on_the_content_alone(block):
    x = np.arange(12.0).reshape(4, 3)
    mark = Pool(x).fingerprint()
    assert mark == Pool(np.asfortranarray(x)).fingerprint() == Pool(x.tolist()).fingerprint()
    assert mark["shape"] == [4, 3]
    assert mark["dtype"] == x.dtype.str
    assert mark["sha256"] == hashlib.sha256(x.tobytes()).hexdigest()
    assert Pool(x + 1).fingerprint() != mark
    assert Pool(x.astype(np.float32)).fingerprint() != mark
    assert Pool(scipy.sparse.csr_array(x)).fingerprint() != mark


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array, lambda x: x[:, None]])
def test_the_first_row_that_is_not_finite_is_named(block, bad, convert):
    x = np.ones((30, 3))
    x[17, 2] = x[23, 0] = bad
    with pytest.raises(SpaceError, match="in row 17"):
        Pool(convert(x))


@pytest.mark.parametrize(
    ("features", "text"),
    [
        (np.arange(3), "reshape(-1, 1)"),
        (np.float64(3), "got shape ()"),
        (np.empty((0, 3)), "non-empty"),
        (np.empty((3, 0)), "non-empty"),
        (np.zeros((1, 2, 2, 2, 2)), "(N, H, W, C)"),
        (np.array([[None, 1]]), "got dtype object"),
        (np.array([[1j]]), "got dtype complex128"),
        (np.array([["a"]]), "got dtype <U1"),
        ([[1, 2], [3]], "different lengths"),
        ([[-1.7e308], [1.7e308]], "finite range"),
        (scipy.sparse.csr_array((0, 3)), "non-empty"),
        (scipy.sparse.csr_array([[1j]]), "complex"),
    ],
)
def test_wrong_features_say_what_to_do(features, text):
    with pytest.raises(SpaceError) as caught:
        Pool(features)
    assert text in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    "params",
    [{}, 1, {"index": 3}, {"index": -1}, {"index": True}, {"index": 1.0}, {"index": 0, "x": 1}],
)
def test_wrong_points_are_refused(params):
    with pytest.raises(SpaceError, match="'index'"):
        Pool(np.eye(3)).check(params)


@pytest.mark.parametrize("bounds", [(-1, 2), (2, 1), (0, 4)])
def test_rows_stay_inside_the_pool(bounds):
    with pytest.raises(SpaceError, match="<= 3"):
        Pool(np.eye(3)).rows(*bounds)
    with pytest.raises(SpaceError, match=r"\[0, 3\)"):
        Pool(np.eye(3)).rows_at([0, 3])


def test_the_examples_of_the_docstrings():
    assert doctest.testmod(augury.space.pool) == (0, 2)
