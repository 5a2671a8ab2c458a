"""How one parameter's values lie in its columns of [0, 1].

An axis maps coordinates to columns and back; the coordinate of a value is the value itself on an
interval, and its level 0..L-1 on every discrete axis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Grid(Protocol):
    """Where the levels 0..L-1 of a discrete parameter lie in its columns."""

    @property
    def width(self) -> int:
        """The number of columns."""

    def place(self, levels: IntArray) -> FloatArray:
        """The columns (n, width) of levels (n,)."""

    def nearest(self, columns: FloatArray) -> IntArray:
        """The levels (n,) nearest to columns (n, width)."""

    def quantile(self, u: FloatArray) -> IntArray:
        """The levels (n,) at quantiles u (n,) of the uniform distribution."""


@dataclass(frozen=True)
class Fixed:
    """A single level: nothing to search, hence no column."""

    width = 0

    def place(self, levels: IntArray) -> FloatArray:
        return np.empty((len(levels), 0))

    def nearest(self, columns: FloatArray) -> IntArray:
        return np.zeros(len(columns), dtype=np.int64)

    def quantile(self, u: FloatArray) -> IntArray:
        return np.zeros(len(u), dtype=np.int64)


@dataclass(frozen=True)
class Even:
    """Evenly spaced levels, x = k / (L - 1)."""

    count: int
    width = 1

    def place(self, levels: IntArray) -> FloatArray:
        return (levels / (self.count - 1))[:, None]

    def nearest(self, columns: FloatArray) -> IntArray:
        return np.rint(np.clip(columns[:, 0], 0.0, 1.0) * (self.count - 1)).astype(np.int64)

    def quantile(self, u: FloatArray) -> IntArray:
        return _equal_parts(u, self.count)


@dataclass(frozen=True)
class LogInteger:
    """Integers low..low+L-1, evenly spread in their logarithm.

    Written with log1p and expm1 of k / low, which keep their digits where low is large.
    """

    low: int
    count: int
    width = 1

    def place(self, levels: IntArray) -> FloatArray:
        x = np.log1p(levels / self.low) / np.log1p((self.count - 1) / self.low)
        return np.minimum(x, 1.0)[:, None]

    def nearest(self, columns: FloatArray) -> IntArray:
        x = np.clip(columns[:, 0], 0.0, 1.0)
        k = np.floor(self.low * np.expm1(x * np.log1p((self.count - 1) / self.low)))
        below = np.clip(k, 0, self.count - 2).astype(np.int64)
        # Nearest in the encoded column, not in the integer: the two differ between 1 and 2.
        middle = (self.place(below)[:, 0] + self.place(below + 1)[:, 0]) / 2
        return below + (x > middle)

    def quantile(self, u: FloatArray) -> IntArray:
        edge = self.low - 0.5  # log-uniform over [low - 1/2, high + 1/2], then rounded
        k = np.floor(edge * np.expm1(u * np.log1p(self.count / edge)))
        return np.clip(k, 0, self.count - 1).astype(np.int64)


@dataclass(frozen=True)
class OneHot:
    """Levels without an order: one column each."""

    count: int

    @property
    def width(self) -> int:
        return self.count

    def place(self, levels: IntArray) -> FloatArray:
        columns = np.zeros((len(levels), self.count))
        columns[np.arange(len(levels)), levels] = 1.0
        return columns

    def nearest(self, columns: FloatArray) -> IntArray:
        return columns.argmax(axis=1).astype(np.int64)

    def quantile(self, u: FloatArray) -> IntArray:
        return _equal_parts(u, self.count)


@dataclass(frozen=True)
class Interval:
    """The real numbers of [low, high], or their logarithms, scaled to [0, 1]."""

    low: float
    high: float
    log: bool
    width = 1

    @property
    def _ends(self) -> tuple[float, float, bool]:
        """What 0 and 1 stand for, and whether these are logarithms."""
        if self.log:
            low, high = float(np.log(self.low)), float(np.log(self.high))
            # Logarithms any closer have lost their digits, and the linear map agrees to 1e-9.
            if high - low > 1e-9:
                return low, high, True
        return self.low, self.high, False

    def place(self, values: FloatArray) -> FloatArray:
        low, high, log = self._ends
        v = np.log(values) if log else values
        shrink = 0.5 if math.isinf(high - low) else 1.0  # high - low may overflow
        x = (v * shrink - low * shrink) / (high * shrink - low * shrink)
        return np.clip(x, 0.0, 1.0)[:, None]

    def nearest(self, columns: FloatArray) -> FloatArray:
        low, high, log = self._ends
        x = np.clip(columns[:, 0], 0.0, 1.0)
        v = low * (1.0 - x) + high * x
        if log:
            with np.errstate(over="ignore"):  # one ulp past the largest float; clipped below
                v = np.exp(v)
        v = np.where(x == 0.0, self.low, np.where(x == 1.0, self.high, v))
        return np.clip(v, self.low, self.high)


def _equal_parts(u: FloatArray, count: int) -> IntArray:
    """The part of [0, 1), cut into `count` equal ones, in which each u lies."""
    return np.minimum((u * count).astype(np.int64), count - 1)
