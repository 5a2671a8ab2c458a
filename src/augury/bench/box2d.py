"""Box2D, the physics of the control problems."""

import warnings
from typing import Any

from augury.bench.problem import package


def box2d(problem: str) -> Any:
    """The package Box2D, or the sentence that says how to get it.

    Its types warn when they are imported, and the interpreter crashes where warnings are errors.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return package("Box2D", problem)
