"""Optuna's distributions as spaces, and back."""

from collections.abc import Mapping
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from augury._errors import SpaceError, UnsupportedError
from augury.maximizers import Domain
from augury.space import Choice, Float, Int, Pool, Space
from augury.space.params import Param

Distributions = Mapping[str, BaseDistribution]


def distributions_of(space: Domain) -> dict[str, BaseDistribution]:
    """What Optuna calls the parameters of a space; of a pool, the number of the candidate."""
    if isinstance(space, Pool):
        return {"index": IntDistribution(0, int(space.size) - 1)}
    return {name: _distribution(param) for name, param in space.params.items()}


def _distribution(param: Param) -> BaseDistribution:
    if isinstance(param, Float):
        return FloatDistribution(param.low, param.high, log=param.log, step=param.step)
    if isinstance(param, Int):
        return IntDistribution(param.low, param.high, log=param.log, step=param.step)
    assert isinstance(param, Choice)
    return CategoricalDistribution(param.options)


def space_of(distributions: Distributions) -> Space:
    """The space of some parameters.

    Of a choice, the options' numbers are its values: Optuna lets options be no scalars.
    """
    return Space({name: _param(distribution) for name, distribution in distributions.items()})


def _param(distribution: BaseDistribution) -> Param:
    if isinstance(distribution, FloatDistribution):
        return Float(distribution.low, distribution.high, distribution.log, distribution.step)
    if isinstance(distribution, IntDistribution):
        return Int(distribution.low, distribution.high, distribution.log, distribution.step)
    if isinstance(distribution, CategoricalDistribution):
        return Choice(range(len(distribution.choices)))
    raise UnsupportedError(
        "a distribution must be a FloatDistribution, IntDistribution or CategoricalDistribution; got "
        f"{type(distribution).__name__}. Use one of these."
    )


def can_be_modelled(distribution: BaseDistribution) -> bool:
    """Whether a distribution has more than one value, and not too many for a parameter."""
    try:
        return not distribution.single() and bool(_param(distribution))
    except SpaceError:
        return False


def is_value(value: Any, distribution: BaseDistribution) -> bool:
    """Whether a value is of the kind that a parameter has; it may lie outside."""
    try:
        distribution.to_internal_repr(value)
    except (TypeError, ValueError):
        return False
    return True


def numbers_of(values: Mapping[str, Any], distributions: Distributions) -> dict[str, float]:
    """Values as Optuna stores them."""
    return {name: float(distributions[name].to_internal_repr(values[name])) for name in values}


class Points:
    """Between the points of a space and Optuna's numbers.

    Args:
        distributions: the parameters.
        space: the user's own, whose values Optuna has too; None for one made from the distributions, in
            which an option of a choice is its number.
    """

    def __init__(self, distributions: Distributions, space: Domain | None) -> None:
        self.distributions, self.space = distributions, space or space_of(distributions)
        self.counted = space is None  # whether an option is its number

    def point(self, numbers: Mapping[str, float]) -> dict[str, Any] | None:
        """The point that some numbers are; None if one is missing or outside of its distribution."""
        point: dict[str, Any] = {}
        for name, one in self.distributions.items():
            number = numbers.get(name)
            if number is None or not one._contains(number):
                return None
            point[name] = int(number) if self._is_counted(name) else one.to_external_repr(number)
        return point

    def _is_counted(self, name: str) -> bool:
        return self.counted and isinstance(self.distributions[name], CategoricalDistribution)

    def numbers(self, point: Mapping[str, Any]) -> dict[str, float]:
        """The numbers of a point."""
        return {
            name: float(point[name] if self._is_counted(name) else one.to_internal_repr(point[name]))
            for name, one in self.distributions.items()
        }
