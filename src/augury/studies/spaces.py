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
from augury.space import Choice, Float, Int, Space
from augury.space.params import Param

Distributions = Mapping[str, BaseDistribution]


def distributions_of(space: Space) -> dict[str, BaseDistribution]:
    """What Optuna calls the parameters of a space."""
    return {name: _distribution(param) for name, param in space.params.items()}


def _distribution(param: Param) -> BaseDistribution:
    if isinstance(param, Float):
        return FloatDistribution(param.low, param.high, log=param.log, step=param.step)
    if isinstance(param, Int):
        return IntDistribution(param.low, param.high, log=param.log, step=param.step)
    assert isinstance(param, Choice)
    return CategoricalDistribution(param.options)


def space_of(distributions: Distributions, space: Space | None = None) -> Space:
    """The space of some parameters.

    Of a choice, the options' numbers are its values: Optuna lets options be equal, or no scalars. What
    distributions do not say, whether the options of a choice have an order, `space` does.
    """
    ordered = {} if space is None else {n: getattr(p, "ordered", False) for n, p in space.params.items()}
    return Space({name: _param(one, ordered.get(name, False)) for name, one in distributions.items()})


def _param(distribution: BaseDistribution, ordered: bool) -> Param:
    if isinstance(distribution, FloatDistribution):
        return Float(distribution.low, distribution.high, distribution.log, distribution.step)
    if isinstance(distribution, IntDistribution):
        return Int(distribution.low, distribution.high, distribution.log, distribution.step)
    if isinstance(distribution, CategoricalDistribution):
        return Choice(range(len(distribution.choices)), ordered)
    raise UnsupportedError(
        "a distribution must be a FloatDistribution, IntDistribution or CategoricalDistribution; got "
        f"{type(distribution).__name__}. Use one of these."
    )


def can_be_modelled(distribution: BaseDistribution) -> bool:
    """Whether a distribution has more than one value, and not too many for a parameter."""
    try:
        return not distribution.single() and bool(_param(distribution, ordered=False))
    except SpaceError:
        return False


def inside(distributions: Distributions, internal: Mapping[str, float]) -> dict[str, Any] | None:
    """The point of the space that some of Optuna's numbers are; None if one is missing or outside."""
    point: dict[str, Any] = {}
    for name, distribution in distributions.items():
        number = internal.get(name)
        if number is None or not distribution._contains(number):
            return None
        point[name] = number if isinstance(distribution, FloatDistribution) else int(number)
    return point


def outside(distributions: Distributions, point: Mapping[str, Any]) -> dict[str, Any]:
    """The values that Optuna has for a point of the space."""
    return {
        name: distribution.to_external_repr(distribution.to_internal_repr(point[name]))
        if not isinstance(distribution, CategoricalDistribution)
        else distribution.choices[point[name]]
        for name, distribution in distributions.items()
    }


def numbers(params: Mapping[str, Any], distributions: Distributions) -> dict[str, float]:
    """Values as Optuna stores them."""
    return {name: distributions[name].to_internal_repr(params[name]) for name in params}
