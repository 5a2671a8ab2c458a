"""The data sets that problems learn from, with fixed splits into training and validation data."""

import functools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

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
    with np.load(path) as file:
        return {name: file[name] for name in ("x_train", "y_train", "x_test", "y_test")}


def mnist(problem: str) -> dict[str, Array]:
    """MNIST: x_train (60000, 28, 28), y_train, x_test (10000, 28, 28), y_test, as bytes."""
    return _mnist(str(data_file("mnist.npz", problem, _MNIST)))


def pima(problem: str) -> tuple[Array, Array]:
    """The 8 features (768, 8) and the outcome (768,) of the Pima diabetes data, zeros kept."""
    table = _table("pima_diabetes.csv", problem, _PIMA)
    return table[:, :-1], table[:, -1].astype(np.int64)


def boston(problem: str) -> tuple[Array, Array]:
    """The 13 features (506, 13) and the median value (506,), in 1000 $, of the Boston housing data."""
    table = _table("boston_housing.csv", problem, _BOSTON)
    return table[:, :-1], table[:, -1]


def _table(name: str, problem: str, source: str) -> Array:
    return np.loadtxt(data_file(name, problem, source), delimiter=",", skiprows=1)
