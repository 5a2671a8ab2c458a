"""Checks of arguments that several interfaces share."""

import numbers
import secrets
from decimal import Decimal
from typing import Any

import numpy as np

from augury._errors import DataError, UnsupportedError


def one_of(name: str, value: object, options: tuple[str, ...]) -> None:
    """Refuse a value that is not among the options."""
    if not isinstance(value, str) or value not in options:
        allowed = " or ".join(f'"{option}"' for option in options)
        raise UnsupportedError(f"{name} must be {allowed}; got {value!r}. Use one of them.")


def check_seed(seed: int | None) -> int:
    """The seed as an int; a new one for None."""
    if seed is None:
        return secrets.randbits(32)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**63:
        raise UnsupportedError(
            f"seed must be an int with 0 <= seed < 2**63; got {seed!r}. Use seed=0, or None."
        )
    return int(seed)


def check_count(name: str, value: int | None) -> int | None:
    """A whole number of at least 1, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise UnsupportedError(
            f"{name} must be a whole number of at least 1; got {value!r}. Use 1 or more."
        )
    return int(value)


def need_count(name: str, value: int) -> int:
    """A whole number of at least 1."""
    if check_count(name, value) is None:
        raise UnsupportedError(f"{name} must be a whole number of at least 1; got None. Use 1 or more.")
    return int(value)


def check_retries(value: int) -> None:
    """Refuse what is no whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UnsupportedError(
            f"retries must be a whole number of at least 0; got {value!r}. Leave it out for none."
        )


def check_limit(name: str, value: float | None, *, positive: bool = False) -> None:
    """Refuse what is neither None, for no limit, nor a number; NaN is none."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool) and value == value
    if value is not None and not (real and (value > 0 or not positive)):
        kind = "a positive number" if positive else "a number"
        raise UnsupportedError(f"{name} must be {kind}; got {value!r}. Leave it out for no limit.")


def check_real(name: str, value: Any) -> None:
    """Refuse what is not one real number; NaN is left to the caller's own bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise UnsupportedError(f"{name} must be a number; got {value!r}. Pass an int or a float.")


def check_fixed(name: str, value: Any, *, zero: bool = False) -> None:
    """Refuse what is neither None, which learns a setting, nor a positive, finite number, or 0."""
    if value is None:
        return
    check_real(name, value)
    if not (0.0 < value < np.inf or (zero and value == 0.0)):
        raise UnsupportedError(
            f"{name} must be {'at least 0' if zero else 'positive'} and finite; got {value!r}. "
            "Give such a number, or None to learn it."
        )


def check_flags(**flags: Any) -> None:
    """Refuse what is neither True nor False."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise UnsupportedError(f"{name} must be True or False; got {value!r}. Use one of them.")


def check_value(value: Any) -> float:
    """A told value as a float."""
    if value is None:
        raise DataError("tell needs a value; got None. Pass a number, or failed=True.")
    if isinstance(value, numbers.Real | Decimal) and not isinstance(value, bool | np.bool_):
        try:
            return float(value)
        except OverflowError as error:
            raise DataError(
                f"a value must fit a float; got a larger {type(value).__name__}. Pass failed=True."
            ) from error
    try:
        array = np.asarray(value)
    except Exception as error:  # ragged lists, tensors on a device: whatever else a user may return
        raise DataError(
            f"a value must be one real number; got {type(value).__name__}. Pass float(value)."
        ) from error
    if array.dtype.kind not in "iuf" or array.size != 1:
        got = f"shape {array.shape}" if array.dtype.kind in "iuf" else type(value).__name__
        raise DataError(f"a value must be one real number; got {got}. Pass float(value).")
    return float(array.reshape(()))
