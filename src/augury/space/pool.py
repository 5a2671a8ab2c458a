"""A pool: a finite set of candidates, given by their features."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, final

import numpy as np
import numpy.typing as npt

from augury._errors import SpaceError
from augury.space.axes import FloatArray, IntArray

# Numbers handled at a time: small beside any pool that matters, large beside NumPy's overhead.
_BLOCK = 2**17

_Selection = slice | IntArray


class _Features(Protocol):
    """The user's array, seen as scaled float64 rows, a few at a time."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    width: int

    def take(self, selection: _Selection) -> FloatArray: ...
    def chunks(self) -> Iterator[bytes]: ...


class _Dense:
    """Vectors, each column scaled by its own range, or images, all pixels by one range."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        if array.ndim == 1 and array.dtype == object:
            raise SpaceError(
                "Pool features must all have one shape; got an array of objects. "
                "Use np.stack(features), with features of one shape."
            )
        if array.ndim == 1:
            raise SpaceError(
                f"Pool features must have two dimensions; got shape {array.shape}. "
                "Use features.reshape(-1, 1)."
            )
        if array.ndim not in (2, 3, 4) or array.size == 0:
            raise SpaceError(
                "Pool features must be a non-empty (N, d), (N, H, W) or (N, H, W, C) array; got "
                f"shape {array.shape}. Reshape it."
            )
        _check_dtype(array.dtype)
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.width = array.size // len(array)
        self.low, high = self._range()
        with np.errstate(over="ignore"):
            span = high - self.low
        if not np.isfinite(span).all():
            raise SpaceError(
                "Pool features must have a finite range; got one above 1.8e308. Rescale them."
            )
        self.span = np.where(span > 0, span, 1.0)  # a constant column becomes 0

    def take(self, selection: _Selection) -> FloatArray:
        rows = self._flat(selection).astype(np.float64)
        rows -= self.low
        rows /= self.span
        return rows

    def chunks(self) -> Iterator[bytes]:
        for _, block in self._blocks():
            yield block.tobytes()

    def _flat(self, selection: _Selection) -> npt.NDArray[Any]:
        # Per block, because flattening an array that is not contiguous copies all of it.
        block = self.array[selection]
        return block.reshape(len(block), self.width)

    def _blocks(self) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        height = max(1, _BLOCK // self.width)
        for start in range(0, len(self.array), height):
            yield start, self._flat(slice(start, start + height))

    def _range(self) -> tuple[FloatArray, FloatArray]:
        axis = 0 if self.array.ndim == 2 else None
        low, high = np.asarray(np.inf), np.asarray(-np.inf)
        for start, block in self._blocks():
            # Both propagate NaN, so that they show whether the block is finite.
            smallest = np.asarray(block.min(axis=axis), dtype=np.float64)
            largest = np.asarray(block.max(axis=axis), dtype=np.float64)
            if not (np.isfinite(smallest).all() and np.isfinite(largest).all()):
                bad = ~np.isfinite(block.astype(np.float64)).all(axis=1)
                raise _not_finite(start + int(bad.argmax()))
            low = np.asarray(np.minimum(low, smallest))
            high = np.asarray(np.maximum(high, largest))
        return low, high


class _Sparse:
    """A sparse matrix; columns are divided by their largest absolute value, so zeros stay zero."""

    def __init__(self, matrix: Any) -> None:
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise SpaceError(
                f"Pool features must be a non-empty (N, d) matrix; got shape {matrix.shape}. "
                "Remove empty axes."
            )
        _check_dtype(matrix.dtype)
        matrix = matrix.tocsr()  # no copy of a CSR matrix
        if not matrix.has_canonical_format:
            matrix = matrix.copy()  # the user's own stays as it is
            matrix.sum_duplicates()
        self.matrix, self.shape, self.dtype = matrix, matrix.shape, matrix.dtype
        self.width = int(matrix.shape[1])
        largest = np.zeros(self.width)
        for start in range(0, matrix.nnz, _BLOCK):
            values = np.abs(matrix.data[start : start + _BLOCK].astype(np.float64))
            finite = np.isfinite(values)
            if not finite.all():
                first = start + int((~finite).argmax())
                raise _not_finite(int(np.searchsorted(matrix.indptr, first, side="right")) - 1)
            np.maximum.at(largest, matrix.indices[start : start + _BLOCK], values)
        self.span = np.where(largest > 0, largest, 1.0)

    def take(self, selection: _Selection) -> FloatArray:
        rows: FloatArray = self.matrix[selection].toarray().astype(np.float64, copy=False)
        rows /= self.span
        return rows

    def chunks(self) -> Iterator[bytes]:
        # SciPy picks the width of the indices by itself, so it is no part of the content.
        parts = (self.matrix.data, None), (self.matrix.indices, "<i8"), (self.matrix.indptr, "<i8")
        for array, dtype in parts:
            for start in range(0, len(array), _BLOCK):
                block = array[start : start + _BLOCK]
                yield (block if dtype is None else block.astype(dtype)).tobytes()


@final
class Pool:
    """N candidates, of which the best is sought; a point is ``{"index": i}``.

    Features are an (N, d) array of vectors, an (N, H, W) or (N, H, W, C) array of images, or a
    SciPy sparse matrix. Inside, a candidate is a row of `dim` columns: vectors are scaled to [0, 1]
    column by column, images by one range for all pixels, and sparse columns are divided by their
    largest absolute value (so negative entries reach down to -1). Rows are scaled when they are
    taken; the features themselves are never copied and must not change afterwards.

    >>> from augury.space import Pool
    >>> Pool([[1, 5], [3, 5], [2, 5]]).rows(0, 3).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.5, 0.0]]
    """

    __slots__ = ("_features", "_sha256")

    is_finite = True
    names = ("index",)

    def __init__(self, features: Any) -> None:
        # Only SciPy's sparse classes have tocsr, and asking for it imports nothing.
        self._features: _Features = (
            _Sparse(features) if hasattr(features, "tocsr") else _Dense(_array(features))
        )
        self._sha256: str | None = None

    @property
    def size(self) -> int:
        """N, the number of candidates."""
        return int(self._features.shape[0])

    @property
    def dim(self) -> int:
        """D, the number of columns of a row."""
        return self._features.width

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one candidate: (d,), or (H, W) or (H, W, C) for images."""
        return tuple(int(length) for length in self._features.shape[1:])

    @property
    def groups(self) -> IntArray:
        """For each column, its feature: every column is one of its own."""
        return np.arange(self.dim, dtype=np.int64)

    @property
    def continuous(self) -> npt.NDArray[np.bool_]:
        """For each column False: only the candidates' own values are valid."""
        return np.zeros(self.dim, dtype=np.bool_)

    def check(self, params: Mapping[str, object]) -> dict[str, int]:
        """The point ``{"index": i}`` with a Python int, or a SpaceError."""
        if not isinstance(params, Mapping) or set(params) != {"index"}:
            raise SpaceError(
                f"A point of a pool must have 'index' alone; got {params!r}. Give {{'index': i}}."
            )
        index: Any = params["index"]
        integer = isinstance(index, int | np.integer) and not isinstance(index, bool)
        if not (integer and 0 <= index < self.size):
            raise SpaceError(
                f"'index' must be an integer of [0, {self.size}); got {index!r}. "
                "Give the row number of a candidate."
            )
        return {"index": int(index)}

    def encode(self, params: Mapping[str, object]) -> FloatArray:
        """The row (D,) of a point."""
        return self.encode_all([params])[0]

    def encode_all(self, points: Sequence[Mapping[str, object]]) -> FloatArray:
        """The rows (n, D) of n points."""
        return self.rows_at([self.check(point)["index"] for point in points])

    def decode(self, index: int) -> dict[str, int]:
        """The point of an index."""
        return self.check({"index": index})

    def rows(self, start: int, stop: int) -> FloatArray:
        """The scaled rows of the candidates start..stop-1."""
        if not 0 <= start <= stop <= self.size:
            raise SpaceError(
                f"Rows must satisfy 0 <= start <= stop <= {self.size}; got {start}, {stop}. "
                "Stay inside the pool."
            )
        return self._features.take(slice(start, stop))

    def rows_at(self, indices: npt.ArrayLike) -> FloatArray:
        """The scaled rows of the candidates with the given indices."""
        index = np.asarray(indices, dtype=np.int64)
        if index.size and not (index.min() >= 0 and index.max() < self.size):
            raise SpaceError(
                f"Indices must lie in [0, {self.size}); got {index.min()} to {index.max()}. "
                "Stay inside the pool."
            )
        return self._features.take(index)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """The rows and indices of n distinct candidates; of all, shuffled, when n >= N."""
        indices = rng.choice(self.size, size=min(n, self.size), replace=False)
        return self._features.take(indices), indices

    def fingerprint(self) -> dict[str, Any]:
        """Shape, dtype and SHA-256 of the features, by which a saved search knows its pool."""
        if self._sha256 is None:
            digest = hashlib.sha256()
            for chunk in self._features.chunks():
                digest.update(chunk)
            self._sha256 = digest.hexdigest()
        shape = [int(length) for length in self._features.shape]
        return {"shape": shape, "dtype": self._features.dtype.str, "sha256": self._sha256}

    @property
    def sparse(self) -> bool:
        """Whether the candidates came as a sparse matrix, as word counts do."""
        return isinstance(self._features, _Sparse)

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        kind = "sparse " if self.sparse else ""
        return f"Pool({kind}{self._features.dtype} features of shape {self._features.shape})"


def _array(features: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(features)
    except ValueError as error:
        raise SpaceError(
            "Pool features must form an array; got rows of different lengths. Make them equal."
        ) from error


def _check_dtype(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "biuf":
        raise SpaceError(
            f"Pool features must be real numbers; got dtype {dtype}. "
            "Convert them with np.asarray(features, dtype=float)."
        )


def _not_finite(row: int) -> SpaceError:
    return SpaceError(
        f"Pool features must be finite; got NaN or infinity in row {row}. Drop or impute that row."
    )
