"""A search space: named parameters, and points of it as rows of [0, 1]^D."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from operator import mul
from types import MappingProxyType
from typing import Any, final

import numpy as np
import numpy.typing as npt

from augury._errors import SpaceError
from augury.space.axes import FloatArray, IntArray
from augury.space.params import Param, Scalar, param_from_dict

_SOBOL_MAX_DIM = 21201  # the direction numbers that exist


@final
class Space:
    """An ordered, immutable set of named parameters.

    Inside, a point is a row of D = `dim` columns in [0, 1]; outside, it is a dict of Python
    scalars. P = `free` parameters are not fixed. A finite space numbers its points 0..size-1, the
    last parameter changing fastest.

    Parameters are given by keyword, or in one dict when a name is not an identifier:

    >>> from augury.space import Float, Int, Space
    >>> space = Space({"optimizer.lr": Float(1e-6, 1.0, log=True)}, depth=Int(1, 15))
    >>> space.decode(space.encode({"optimizer.lr": 1.0, "depth": 3}))
    {'optimizer.lr': 1.0, 'depth': 3}
    """

    __slots__ = ("_columns", "_continuous", "_groups", "_params", "_size", "_strides")

    def __init__(self, params: Mapping[str, Param] | None = None, /, **named: Param) -> None:
        self._params = _collect(params, named)
        members = list(self._params.values())
        widths = [param.width for param in members]
        ends = list(accumulate(widths))
        self._columns = [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]
        free = [width for width in widths if width]
        self._groups = _frozen(np.repeat(np.arange(len(free)), free), np.int64)
        self._continuous = _frozen(np.repeat([p.continuous for p in members], widths), np.bool_)
        # How far apart the indices of two neighbouring levels are; meaningless if not finite.
        counts = [param.levels or 1 for param in members]
        *strides, size = accumulate(reversed(counts), mul, initial=1)
        self._strides = strides[::-1]
        self._size = math.inf if self._continuous.any() else size

    @property
    def params(self) -> Mapping[str, Param]:
        """The parameters by name, in order (read-only)."""
        return MappingProxyType(self._params)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(self._params)

    @property
    def dim(self) -> int:
        """D, the number of encoded columns."""
        return len(self._groups)

    @property
    def free(self) -> int:
        """P, the number of parameters that are not fixed."""
        return int(self._groups.max(initial=-1)) + 1

    @property
    def is_finite(self) -> bool:
        """Whether no parameter is continuous."""
        return self._size != math.inf

    @property
    def size(self) -> int | float:
        """The number of points: an int, or infinity."""
        return self._size

    @property
    def groups(self) -> IntArray:
        """For each column, which of the P free parameters it belongs to."""
        return self._groups

    @property
    def continuous(self) -> npt.NDArray[np.bool_]:
        """For each column, whether every value of [0, 1] is valid."""
        return self._continuous

    # Between dicts and rows

    def check(self, params: Mapping[str, object]) -> dict[str, Scalar]:
        """The point with canonical Python values in the order of the space, or a SpaceError."""
        self._check_names(params)
        return {name: p.check(params[name], repr(name)) for name, p in self._params.items()}

    def encode(self, params: Mapping[str, object]) -> FloatArray:
        """The row (D,) of a point."""
        return self.encode_all([params])[0]

    def encode_all(self, points: Sequence[Mapping[str, object]]) -> FloatArray:
        """The rows (n, D) of n points."""
        for point in points:
            self._check_names(point)
        return self._stack(
            len(points),
            (
                param.encode_all([point[name] for point in points], repr(name))
                for name, param in self._params.items()
            ),
        )

    def decode(self, row: npt.ArrayLike) -> dict[str, Scalar]:
        """The valid point nearest to a row (D,)."""
        return self.decode_all(np.asarray(row)[None])[0]

    def decode_all(self, rows: npt.ArrayLike) -> list[dict[str, Scalar]]:
        """The valid points nearest to rows (n, D), as dicts of Python scalars."""
        x = self._matrix(rows)
        values = [p.decode(x[:, columns]) for p, columns in self._members()]
        return [dict(zip(self.names, point, strict=True)) for point in zip(*values, strict=True)]

    def snap(self, rows: npt.ArrayLike) -> FloatArray:
        """The valid rows nearest to any rows (n, D)."""
        x = self._matrix(rows)
        return self._stack(len(x), (p.snap(x[:, columns]) for p, columns in self._members()))

    # Choosing points

    def from_unit(self, u: npt.ArrayLike) -> FloatArray:
        """Valid rows (n, D) at quantiles u (n, P) in [0, 1): uniform u gives uniform points."""
        v = np.asarray(u, dtype=np.float64)
        if v.ndim != 2 or v.shape[1] != self.free:
            raise SpaceError(
                f"Quantiles must have shape (n, {self.free}); got {v.shape}. "
                "Give one column per parameter that is not fixed."
            )
        free = iter(v.T)
        unused = np.zeros(len(v))
        return self._stack(
            len(v), (p.from_unit(next(free) if p.width else unused) for p in self._params.values())
        )

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, npt.NDArray[Any] | None]:
        """n uniform points: their rows and, when the space is finite, their indices."""
        rows = self.from_unit(rng.random((n, self.free)))
        return rows, self.index_of(rows)

    def sobol(self, n: int, seed: int, skip: int = 0) -> FloatArray:
        """Rows skip..skip+n of the scrambled Sobol sequence of a seed.

        One dimension per free parameter. Beyond 21201 of them the points are uniform.
        """
        rng = np.random.default_rng(seed)
        if n == 0 or not 0 < self.free <= _SOBOL_MAX_DIM:
            return self.from_unit(rng.random((skip + n, self.free))[skip:])
        from scipy.stats import qmc  # takes a second to import

        sequence = qmc.Sobol(self.free, scramble=True, seed=rng)
        if skip:  # SciPy cannot skip nothing
            sequence.fast_forward(skip)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The balance properties", category=UserWarning)
            return self.from_unit(sequence.random(n))

    def neighbours(self, row: npt.ArrayLike, reach: int = 1) -> FloatArray:
        """The valid rows (m, D) that differ from the snapped row in one discrete parameter.

        Unordered choices take every other option, ordered parameters the levels at distance
        1, 2, 4, ... up to `reach`. Continuous columns are kept.
        """
        base = self.snap(np.asarray(row)[None])
        distances = 2 ** np.arange(int(reach).bit_length())
        blocks = [np.empty((0, self.dim))]
        for param, columns in self._members():
            if param.levels is None:
                continue
            here = param.codes(base[:, columns])[0]
            if param.one_hot:
                others = np.delete(np.arange(param.levels), here)
            else:
                others = np.concatenate([here - distances[::-1], here + distances])
                others = others[(others >= 0) & (others < param.levels)]
            block = np.repeat(base, len(others), axis=0)
            block[:, columns] = param.from_codes(others)
            blocks.append(block)
        return np.concatenate(blocks)

    # Finite spaces: points by number

    def index_of(self, rows: npt.ArrayLike) -> npt.NDArray[Any] | None:
        """The indices (n,) of the points nearest to rows (n, D); None on a space not finite.

        They are int64, or Python ints in an object array from 2**62 points on.
        """
        if not self.is_finite:
            return None
        x = self._matrix(rows)
        index = np.zeros(len(x), dtype=self._index_dtype)
        for (param, columns), stride in zip(self._members(), self._strides, strict=True):
            index += param.codes(x[:, columns]).astype(self._index_dtype) * stride
        return index

    def rows(self, start: int, stop: int) -> FloatArray:
        """The rows of the points start..stop-1 of a finite space."""
        return self.rows_at(np.arange(start, stop, dtype=self._index_dtype))

    def rows_at(self, indices: npt.ArrayLike) -> FloatArray:
        """The rows of the points with the given indices, of a finite space."""
        if not self.is_finite:
            raise SpaceError(
                "Indices must belong to a finite space; got one with a continuous parameter. "
                "Give every Float a step."
            )
        index = np.asarray(indices, dtype=self._index_dtype)
        if index.size and not (index.min() >= 0 and index.max() < self.size):
            raise SpaceError(
                f"Indices must lie in [0, {self.size}); got {index.min()} to {index.max()}. "
                "Stay below the size of the space."
            )
        return self._stack(
            len(index),
            (
                param.from_codes((index // stride % (param.levels or 1)).astype(np.int64))
                for param, stride in zip(self._params.values(), self._strides, strict=True)
            ),
        )

    # Storage and display

    def to_dict(self) -> dict[str, Any]:
        """A form for JSON; a list, because JSON objects may lose their order."""
        return {"params": [{"name": name, **p.to_dict()} for name, p in self._params.items()]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Space:
        """The space whose `to_dict` gave `data`."""
        try:
            fields = [dict(entry) for entry in data["params"]]
            names = [entry.pop("name") for entry in fields]
        except (KeyError, TypeError, ValueError) as error:
            raise SpaceError(
                f"A stored space must be a list of named params; got {data!r}. Write it with to_dict()."
            ) from error
        if len(set(names)) < len(names):
            raise SpaceError(f"Names must be distinct; got {names}. Rename a parameter.")
        return cls({name: param_from_dict(d) for name, d in zip(names, fields, strict=True)})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Space):
            return NotImplemented
        return list(self._params.items()) == list(other._params.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Space({self._params!r})"

    # Helpers

    @property
    def _index_dtype(self) -> type[Any]:
        return np.int64 if self.size < 2**62 else object

    def _members(self) -> Iterable[tuple[Param, slice]]:
        return zip(self._params.values(), self._columns, strict=True)

    def _stack(self, n: int, parts: Iterable[FloatArray]) -> FloatArray:
        """n rows, put together from the columns of each parameter."""
        rows = np.empty((n, self.dim))
        for columns, part in zip(self._columns, parts, strict=True):
            rows[:, columns] = part
        return rows

    def _check_names(self, params: object) -> None:
        if not isinstance(params, Mapping):
            raise SpaceError(
                f"A point must be a dict of parameters; got {params!r}. "
                f"Give {{{', '.join(f'{name!r}: ...' for name in self.names)}}}."
            )
        missing = [name for name in self.names if name not in params]
        unknown = [name for name in params if name not in self._params]
        if missing or unknown:
            raise SpaceError(
                f"A point must have exactly the parameters {list(self.names)}; got "
                f"missing {missing}, unknown {unknown}. Add the missing, remove the unknown."
            )

    def _matrix(self, rows: npt.ArrayLike) -> FloatArray:
        x = np.asarray(rows, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise SpaceError(
                f"Rows must have shape (n, {self.dim}); got {x.shape}. Encode the points first."
            )
        if np.isnan(x).any():
            raise SpaceError("Rows must hold numbers; got NaN. Drop the rows with NaN.")
        return x


def _collect(params: Mapping[str, Param] | None, named: dict[str, Param]) -> dict[str, Param]:
    """The parameters of both arguments, checked."""
    if params is not None and not isinstance(params, Mapping):
        raise SpaceError(
            f"Space must be given a dict or keywords; got {params!r}. Write Space(x=Float(0, 1))."
        )
    given = dict(params or {})
    both = sorted(given.keys() & named.keys())
    if both:
        raise SpaceError(f"Names must be distinct; got {both} in the dict and by keyword. Drop one.")
    members = {**given, **named}
    if not members:
        raise SpaceError("Space must have at least one parameter; got none. Add x=Float(0, 1).")
    for name, param in members.items():
        if not isinstance(name, str) or not name:
            raise SpaceError(f"Names must be non-empty strings; got {name!r}. Rename it.")
        if not isinstance(param, Param):
            raise SpaceError(
                f"{name!r} must be a Float, an Int or a Choice; got {param!r}. "
                "Write Float(low, high), Int(low, high) or Choice([option, ...])."
            )
    return members


def _frozen(values: npt.ArrayLike, dtype: type[Any]) -> npt.NDArray[Any]:
    array = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array
