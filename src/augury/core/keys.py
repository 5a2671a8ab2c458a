"""Random keys: every random number is a function of (seed, trial number, purpose), never stored.

Keys are ordinary JAX keys. Code that draws with NumPy (candidate points, Sobol scrambling) turns one
into a generator; no key is used for both.
"""

import enum

import jax
import numpy as np
from jaxtyping import Key
from numpy.random import Generator

from augury.core.precision import computing

KeyArray = Key[jax.Array, ""]


class Purpose(enum.IntEnum):
    """What a trial's randomness is used for; the numbers are part of the saved state's meaning."""

    DESIGN = 0
    TUNE = 1
    FIT = 2
    POLICY = 3
    FALLBACK = 4
    PICTURE = 5  # on which nothing depends
    LOCAL = 6


def root_key(seed: int) -> KeyArray:
    """The key from which all randomness of a study is derived."""
    with computing():
        return jax.random.key(seed, impl="threefry2x32")


def fold(key: KeyArray, *numbers: int) -> KeyArray:
    """The key derived from `key` by `numbers`, in order."""
    with computing():
        for number in numbers:
            key = _fold_in(key, number)
        return key


_fold_in = jax.jit(jax.random.fold_in)  # compiled once; the plain function compiles piece by piece


def generator(key: KeyArray) -> Generator:
    """A NumPy generator seeded by `key`."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).astype(np.uint32))
