"""Observations in padded buffers, so that one more observation does not compile anything anew."""

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from augury._errors import DataError

SMALLEST_BUCKET = 32


def bucket(n: int) -> int:
    """The buffer length for `n` rows: 32, 64, 96, 128, 192, 256, 384, 512, …

    Steps of one half waste at most a factor 1.5 per side; 100 observations meet 4 shapes.
    """
    if n <= SMALLEST_BUCKET:
        return SMALLEST_BUCKET
    power = 1 << (n - 1).bit_length()  # the smallest power of two >= n
    return power * 3 // 4 if power > 64 and n <= power * 3 // 4 else power


def pad(array: np.ndarray, rows: int) -> np.ndarray:
    """`array` followed by zero rows up to `rows`; zeros, since NaN would poison gradients."""
    out = np.zeros((rows, *array.shape[1:]), dtype=array.dtype)
    out[: len(array)] = array
    return out


class Data(eqx.Module):
    """Observations (x_i, y_i), to be maximized, in order, padded to a bucket.

    `groups` tells which columns share a lengthscale (the one-hot columns of one choice). It is an
    array, not a structure, so that spaces of the same encoded dimension share compiled code.
    """

    x: Float[np.ndarray, "capacity D"]
    y: Float[np.ndarray, " capacity"]
    mask: Bool[np.ndarray, " capacity"]
    groups: Int[np.ndarray, " D"]

    @classmethod
    def of(
        cls,
        x: Float[np.ndarray, "n D"],
        y: Float[np.ndarray, " n"],
        groups: Int[np.ndarray, " D"] | None = None,
    ) -> "Data":
        """The data with rows `x` in the unit cube and finite values `y`."""
        x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if x.ndim != 2 or y.shape != (len(x),):
            raise DataError(
                f"x must have shape (n, D) and y shape (n,); got {x.shape} and {y.shape}. "
                "Pass one row of x for each value."
            )
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise DataError("x and y must be finite; got NaN or infinity. Leave such rows out.")
        if groups is None:
            groups = np.arange(x.shape[1])
        if np.shape(groups) != (x.shape[1],):
            raise DataError(
                f"groups must have one number per column, {x.shape[1]}; got shape {np.shape(groups)}. "
                "Leave it out for one group per column."
            )
        capacity = bucket(len(x))
        mask = np.arange(capacity) < len(x)
        return cls(pad(x, capacity), pad(y, capacity), mask, np.asarray(groups, dtype=np.int64))

    @property
    def n(self) -> int:
        """The number of observations."""
        return int(self.mask.sum())

    @property
    def dim(self) -> int:
        """The number of columns."""
        return int(self.x.shape[1])

    def take(self, rows: Int[np.ndarray, " m"] | slice) -> "Data":
        """Some of the observations, in the given order."""
        n = self.n
        return Data.of(self.x[:n][rows], self.y[:n][rows], self.groups)
