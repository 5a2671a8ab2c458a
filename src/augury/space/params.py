"""The parameters of a space: ``Float``, ``Int`` and ``Choice``.

A parameter knows its valid values; how they are encoded as columns of [0, 1] is the business of its
axis (:mod:`augury.space.axes`).
"""

from __future__ import annotations

import math
import numbers
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from augury._errors import SpaceError
from augury.space.axes import Even, Fixed, FloatArray, Grid, IntArray, Interval, LogInteger, OneHot

Scalar = bool | int | float | str | None

# Far above any useful grid, and low enough that neighbouring levels, also the crowded upper ones
# of a log Int, have columns that float64 tells apart.
_MAX_LEVELS = 2**40
_EPS = float(np.finfo(np.float64).eps)


class Param(ABC):
    """One parameter: its valid values and their encoding. All methods take n rows at once.

    A parameter with a single value is *fixed* and has no column; an unordered choice has one
    column per option; every other parameter has one column.
    """

    @property
    @abstractmethod
    def levels(self) -> int | None:
        """The number of distinct values; None when continuous, 1 when fixed."""

    @abstractmethod
    def check(self, value: object, name: str = "The value") -> Scalar:
        """The canonical Python value, or a SpaceError that begins with `name`."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """A form for JSON; `param_from_dict` reads it back."""

    @property
    @abstractmethod
    def _axis(self) -> Interval | Grid:
        """Where coordinates lie in the columns."""

    @abstractmethod
    def _coordinate(self, value: Any) -> float | int:
        """The coordinate of a canonical value."""

    @abstractmethod
    def _value(self, coordinate: Any) -> Scalar:
        """The canonical value at a coordinate."""

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return self._axis.width

    @property
    def continuous(self) -> bool:
        """Whether every number between the bounds is a value."""
        return self.levels is None

    @property
    def one_hot(self) -> bool:
        """Whether there is one column per option, because the options have no order."""
        return isinstance(self._axis, OneHot)

    def encode(self, value: object) -> FloatArray:
        """The columns (width,) of a value."""
        return self.encode_all([value])[0]

    def encode_all(self, values: Sequence[object], name: str = "The value") -> FloatArray:
        """The columns (n, width) of n values; `name` begins the error of one that is not valid."""
        coordinates = [self._coordinate(self.check(value, name)) for value in values]
        dtype = np.float64 if self.continuous else np.int64
        return self._axis.place(np.array(coordinates, dtype=dtype))

    def decode(self, columns: FloatArray) -> list[Scalar]:
        """The valid values nearest to columns (n, width)."""
        return [self._value(c) for c in self._axis.nearest(columns).tolist()]

    def snap(self, columns: FloatArray) -> FloatArray:
        """The valid columns (n, width) nearest to any columns (n, width)."""
        axis = self._axis
        if isinstance(axis, Interval):
            return np.clip(columns, 0.0, 1.0)
        return axis.place(axis.nearest(columns))

    def from_unit(self, u: FloatArray) -> FloatArray:
        """The columns (n, width) at quantiles u (n,): equal mass per level, log-uniform if log."""
        axis = self._axis
        if isinstance(axis, Interval):
            return u[:, None]
        return axis.place(axis.quantile(u))

    def codes(self, columns: FloatArray) -> IntArray:
        """The levels (n,) nearest to columns (n, width)."""
        return self._grid.nearest(columns)

    def from_codes(self, codes: IntArray) -> FloatArray:
        """The columns (n, width) of levels (n,)."""
        return self._grid.place(codes)

    @property
    def _grid(self) -> Grid:
        axis = self._axis
        if isinstance(axis, Interval):
            raise SpaceError(f"Levels need a discrete parameter; got {self!r}. Give it a step.")
        return axis


@dataclass(frozen=True)
class Float(Param):
    """A real number of [low, high].

    With `log` it is searched on a logarithmic scale; with `step` its values are low + k * step,
    the last one being the largest that does not exceed high.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        low, high = _number(self.low, "Float low"), _number(self.high, "Float high")
        step = None if self.step is None else _number(self.step, "Float step")
        _check_range("Float", low, high, self.log)
        if step is not None:
            if self.log:
                raise SpaceError(
                    f"Float must have log or a step, not both; got log=True, step={step}. Drop one."
                )
            if not step > 0:
                raise SpaceError(f"Float must satisfy step > 0; got step={step}. Use None for any.")
            if step < 1e-12 * max(abs(low), abs(high)) or math.isinf(high - low):
                raise SpaceError(
                    "Float must have a step of at least 1e-12 of its larger bound, and a finite "
                    f"range; got low={low}, high={high}, step={step}. Use step=None."
                )
        _set(self, low=low, high=high, log=bool(self.log), step=step)

    @property
    def levels(self) -> int | None:
        """The number of distinct values; None without a step, 1 when fixed."""
        if self.low == self.high:
            return 1
        if self.step is None:
            return None
        # Bounds and step are rounded decimals: a level that misses high by that much still counts.
        rounding = 4 * _EPS * max(abs(self.low), abs(self.high)) / self.step
        return math.floor((self.high - self.low) / self.step + max(1e-9, rounding)) + 1

    @property
    def _axis(self) -> Interval | Grid:
        levels = self.levels
        if levels is None:
            return Interval(self.low, self.high, self.log)
        return Even(levels) if levels > 1 else Fixed()

    def _value(self, coordinate: Any) -> float:
        if self.continuous:
            return float(coordinate)
        value = self.low + coordinate * (self.step or 0.0)
        # 0.1 + 2 * 0.1 should read 0.3: take the round number when only rounding errors differ.
        scale = max(abs(self.low), abs(self.high))
        digits = 12 - math.ceil(math.log10(scale)) if scale else 0
        clean = round(value, digits)
        if abs(clean - value) <= 4 * _EPS * scale:
            value = clean + 0.0  # no -0.0
        return min(max(value, self.low), self.high)

    def _coordinate(self, value: Any) -> float | int:
        levels = self.levels
        if levels is None:
            return float(value)
        return min(max(round((value - self.low) / (self.step or 1.0)), 0), levels - 1)

    def check(self, value: object, name: str = "The value") -> float:
        """The value as a Python float, moved onto its level when there is a step."""
        number = _number(value, name)
        slack = 1e-6 * (self.step or 0.0)
        if not self.low - slack <= number <= self.high + slack:
            raise _out_of_bounds(name, self.low, self.high, value)
        if self.step is None:
            return number
        nearest = self._value(self._coordinate(number))
        if abs(number - nearest) > slack + 4 * _EPS * max(abs(self.low), abs(self.high)):
            raise SpaceError(
                f"{name} must be {self.low} + k * {self.step}; got {value!r}. "
                f"The nearest valid value is {nearest}."
            )
        return nearest

    def to_dict(self) -> dict[str, Any]:
        """A form for JSON; `param_from_dict` reads it back."""
        fields = {"low": self.low, "high": self.high, "log": self.log, "step": self.step}
        return {"type": "float", **fields}


@dataclass(frozen=True)
class Int(Param):
    """An integer of low, low + step, ..., high; both bounds are included.

    With `log` it is searched on a logarithmic scale.
    """

    low: int
    high: int
    log: bool = False
    step: int = 1

    def __post_init__(self) -> None:
        low, high = _integer(self.low, "Int low"), _integer(self.high, "Int high")
        step = _integer(self.step, "Int step")
        _check_range("Int", low, high, self.log)
        if step <= 0:
            raise SpaceError(f"Int must satisfy step > 0; got step={step}. Use 1 for any integer.")
        if self.log and step != 1:
            raise SpaceError(
                f"Int must have log or a step, not both; got log=True, step={step}. Drop one."
            )
        if max(abs(low), abs(high)) >= 2**63:
            raise SpaceError(
                f"Int must have bounds of at most 64 bits; got low={low}, high={high}. Use a Float."
            )
        if (high - low) // step >= _MAX_LEVELS:
            raise SpaceError(
                f"Int must have at most 2**40 values; got low={low}, high={high}, step={step}. "
                "Use a larger step or a Float."
            )
        _set(self, low=low, high=high, log=bool(self.log), step=step)

    @property
    def levels(self) -> int:
        """The number of distinct values."""
        return (self.high - self.low) // self.step + 1

    @property
    def _axis(self) -> Grid:
        if self.levels == 1:
            return Fixed()
        return LogInteger(self.low, self.levels) if self.log else Even(self.levels)

    def _value(self, coordinate: Any) -> int:
        return self.low + int(coordinate) * self.step

    def _coordinate(self, value: Any) -> int:
        return int(value - self.low) // self.step

    def check(self, value: object, name: str = "The value") -> int:
        """The value as a Python int."""
        number = _integer(value, name)
        if not self.low <= number <= self.high:
            raise _out_of_bounds(name, self.low, self.high, value)
        below = self._value(self._coordinate(number))
        if number != below:
            raise SpaceError(
                f"{name} must be {self.low} + k * {self.step}; got {value!r}. "
                f"The next valid value below is {below}."
            )
        return number

    def to_dict(self) -> dict[str, Any]:
        """A form for JSON; `param_from_dict` reads it back."""
        fields = {"low": self.low, "high": self.high, "log": self.log, "step": self.step}
        return {"type": "int", **fields}


@dataclass(frozen=True)
class Choice(Param):
    """One of several options, each None, a bool, int, float or str.

    Options are told apart with their type: True, 1 and 1.0 are three options. With `ordered` the
    given order is meaningful and neighbouring options are close; otherwise all are equally far.
    """

    options: Sequence[Scalar]
    ordered: bool = False
    # Compared together with the options, so that Choice([1]) differs from Choice([True]).
    _keys: tuple[tuple[type, Scalar], ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        given: Any = self.options
        if isinstance(given, np.ndarray) and given.ndim == 1:
            given = given.tolist()
        if isinstance(given, str | bytes) or not isinstance(given, Sequence):
            raise SpaceError(
                f"Choice options must be a list; got {given!r}. Write Choice([option, ...])."
            )
        if not given:
            raise SpaceError("Choice must have at least one option; got []. Add one.")
        _check_flag(self.ordered, "Choice ordered")
        options = tuple(_scalar(option) for option in given)
        keys = tuple((type(option), option) for option in options)
        if len(set(keys)) < len(keys):
            raise SpaceError(
                f"Choice options must be distinct; got {list(options)!r}. Remove the repeated ones."
            )
        _set(self, options=options, ordered=bool(self.ordered), _keys=keys)

    @property
    def levels(self) -> int:
        """The number of options."""
        return len(self.options)

    @property
    def _axis(self) -> Grid:
        if self.levels == 1:
            return Fixed()
        return Even(self.levels) if self.ordered else OneHot(self.levels)

    def _value(self, coordinate: Any) -> Scalar:
        return self.options[coordinate]

    def _coordinate(self, value: Any) -> int:
        return self._keys.index((type(value), value))

    def check(self, value: object, name: str = "The value") -> Scalar:
        """The option that equals the value and has its type."""
        plain = value.item() if isinstance(value, np.generic) else value
        for key in self._keys:
            if key == (type(plain), plain):
                return key[1]
        raise SpaceError(
            f"{name} must be one of {reprlib.repr(list(self.options))}; got {value!r}. "
            "Give an option with its exact type."
        )

    def to_dict(self) -> dict[str, Any]:
        """A form for JSON; `param_from_dict` reads it back."""
        return {"type": "choice", "options": list(self.options), "ordered": self.ordered}


def param_from_dict(data: Mapping[str, Any]) -> Param:
    """The parameter whose `to_dict` gave `data`."""
    kinds: dict[object, type[Param]] = {"float": Float, "int": Int, "choice": Choice}
    try:
        fields = dict(data)
        return kinds[fields.pop("type")](**fields)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, SpaceError):
            raise
        raise SpaceError(
            "A stored parameter must have a type float, int or choice and its fields; "
            f"got {data!r}. Write it with to_dict()."
        ) from error


def _set(param: Param, **fields: object) -> None:
    """Stores canonical fields in a frozen dataclass."""
    for name, value in fields.items():
        object.__setattr__(param, name, value)


def _number(value: object, name: str) -> float:
    """A finite Python float."""
    try:
        # bool is a number to Python, but Float(False, True) is a mistake.
        if isinstance(value, numbers.Real) and not isinstance(value, bool):
            number = float(value)
            if math.isfinite(number):
                return number
    except OverflowError:
        pass
    raise SpaceError(f"{name} must be a finite number; got {value!r}. Give an int or a float.")


def _integer(value: object, name: str) -> int:
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    raise SpaceError(f"{name} must be an integer; got {value!r}. Give an int.")


def _scalar(option: Any) -> Scalar:
    """A plain Python option."""
    plain = option.item() if isinstance(option, np.generic) else option
    if type(plain) not in (type(None), bool, int, float, str):
        raise SpaceError(
            f"Choice options must be None, bool, int, float or str; got {option!r}. "
            "Use its name, and look the object up in your function."
        )
    if plain != plain:
        raise SpaceError("Choice options must not be NaN, which equals nothing. Use None.")
    return plain


def _check_flag(value: object, name: str) -> None:
    if not isinstance(value, bool | np.bool_):
        raise SpaceError(f"{name} must be True or False; got {value!r}. Pass arguments by keyword.")


def _check_range(kind: str, low: float, high: float, log: object) -> None:
    _check_flag(log, f"{kind} log")
    if low > high:
        raise SpaceError(f"{kind} must satisfy low <= high; got low={low}, high={high}. Swap the bounds.")
    if log and low <= 0:
        raise SpaceError(
            f"{kind} must satisfy low > 0 with log=True; got low={low}. Raise low or drop log."
        )


def _out_of_bounds(name: str, low: float, high: float, value: object) -> SpaceError:
    return SpaceError(
        f"{name} must lie in [{low}, {high}]; got {value!r}. Move it inside, or widen the bounds."
    )
