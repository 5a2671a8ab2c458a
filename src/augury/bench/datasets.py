"""The data sets that problems learn from, with fixed splits into training and validation data."""

import functools
import warnings
import zipfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from augury._errors import DataError
from augury.bench.problem import data_file

Array = npt.NDArray[Any]

_MNIST = "Keras (keras.datasets.mnist downloads it)"
_PIMA = "kaggle.com/uciml/pima-indians-diabetes-database (or the R package mlbench)"
_BOSTON = "the R package mlbench (BostonHousing, as CSV with a header, MEDV last)"


class Split(NamedTuple):
    """Inputs and targets to train on, and to validate with."""

    x: Array
    y: Array
    valid_x: Array
    valid_y: Array


def split(x: Array, y: Array, train: int, valid: int, seed: int = 0) -> Split:
    """`train` and `valid` distinct rows, drawn with a fixed seed."""
    rows = np.random.default_rng(seed).permutation(len(x))[: train + valid]
    return Split(x[rows[:train]], y[rows[:train]], x[rows[train:]], y[rows[train:]])


def portion(x: Array, y: Array, fraction: float, seed: int = 0) -> Split:
    """All rows, of which `fraction` (rounded) is trained on."""
    train = round(fraction * len(x))
    return split(x, y, train, len(x) - train, seed)


def pooled(images: Array, size: int = 2) -> Array:
    """The means (n, h / size, w / size) over squares of size × size pixels of images (n, h, w)."""
    n, height, width = images.shape
    return images.reshape(n, height // size, size, width // size, size).mean(axis=(2, 4))


@functools.lru_cache(maxsize=1)
def _mnist(path: str) -> dict[str, Array]:
    data = arrays(path, ("x_train", "y_train", "x_test", "y_test"))
    for part in ("train", "test"):
        x, y = data[f"x_{part}"].shape, data[f"y_{part}"].shape
        if len(x) != 3 or x[1:] != (28, 28) or y != x[:1]:
            raise wrong_file(path, f"x_{part} (n, 28, 28) and y_{part} (n,)", f"{x} and {y}")
    return data


def arrays(path: Any, names: Sequence[str]) -> dict[str, Array]:
    """Arrays of a file, by name."""
    try:
        with open(path, "rb") as raw, np.load(raw) as file:
            return {name: file[name] for name in names}
    except (OSError, ValueError, KeyError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise wrong_file(path, f"the arrays {', '.join(names)} in NumPy's format", str(error)) from error


def wrong_file(path: Any, rule: str, got: str) -> DataError:
    """The error of a data file that is not what it should be."""
    return DataError(f"{path} must hold {rule}; got {got}. Get the file anew.")


def mnist(problem: str) -> dict[str, Array]:
    """MNIST: x_train (60000, 28, 28), y_train, x_test (10000, 28, 28), y_test, as bytes."""
    return _mnist(str(data_file("mnist.npz", problem, _MNIST)))


def pima(problem: str) -> tuple[Array, Array]:
    """The 8 features (768, 8) and the outcome (768,) of the Pima diabetes data, zeros kept."""
    table = _table("pima_diabetes.csv", problem, _PIMA, 9)
    return table[:, :-1], table[:, -1].astype(np.int64)


def boston(problem: str) -> tuple[Array, Array]:
    """The 13 features (506, 13) and the median value (506,), in 1000 $, of the Boston housing data."""
    table = _table("boston_housing.csv", problem, _BOSTON, 14)
    return table[:, :-1], table[:, -1]


def _table(name: str, problem: str, source: str, columns: int) -> Array:
    path, rule = data_file(name, problem, source), f"a header and rows of {columns} numbers"
    try:
        with warnings.catch_warnings(action="ignore"):  # of a file without rows
            table = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    except ValueError as error:
        raise wrong_file(path, rule, str(error)) from error
    if len(table) < 2 or table.shape[1] != columns:
        raise wrong_file(path, rule, f"{table.shape[0]} rows of {table.shape[1]}")
    return table
