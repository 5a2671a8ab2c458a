"""Where the search happens: parameters, spaces and pools of candidates."""

from augury.space.params import Choice, Float, Int, Param, Scalar, param_from_dict
from augury.space.pool import Pool
from augury.space.space import Space

__all__ = ["Choice", "Float", "Int", "Param", "Pool", "Scalar", "Space", "param_from_dict"]
