"""Augury finds the best input of expensive black-box functions.

Names are imported when they are first used, so that `import augury` and the command line start at
once; the numerical libraries behind them take about a second.
"""

import importlib
import logging
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Algorithm": "algorithm",
    "AugurySampler": "studies.sampler",
    "AugurySearchCV": "adapters.search_cv",
    "algorithms": "algorithm",
    "AuguryError": "_errors",
    "DataError": "_errors",
    "NumericsError": "_errors",
    "SpaceError": "_errors",
    "SpaceExhausted": "_errors",
    "StorageError": "_errors",
    "UnsupportedError": "_errors",
    "Choice": "space",
    "Float": "space",
    "Int": "space",
    "Pool": "space",
    "Space": "space",
    "Optimizer": "optimizer",
    "Result": "run",
    "maximize": "run",
    "minimize": "run",
    "replay": "replaying",
    "Trial": "trial",
}

if TYPE_CHECKING:
    from augury import executors, plots
    from augury._errors import (
        AuguryError,
        DataError,
        NumericsError,
        SpaceError,
        SpaceExhausted,
        StorageError,
        UnsupportedError,
    )
    from augury.adapters.search_cv import AugurySearchCV
    from augury.algorithm import Algorithm, algorithms
    from augury.optimizer import Optimizer
    from augury.replaying import replay
    from augury.run import Result, maximize, minimize
    from augury.space import Choice, Float, Int, Pool, Space
    from augury.studies.sampler import AugurySampler
    from augury.trial import Trial

__all__ = [
    "Algorithm",
    "AuguryError",
    "AugurySampler",
    "AugurySearchCV",
    "Choice",
    "DataError",
    "Float",
    "Int",
    "NumericsError",
    "Optimizer",
    "Pool",
    "Result",
    "Space",
    "SpaceError",
    "SpaceExhausted",
    "StorageError",
    "Trial",
    "UnsupportedError",
    "algorithms",
    "executors",
    "maximize",
    "minimize",
    "plots",
    "replay",
]

logging.getLogger("augury").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name in ("executors", "plots"):
        return importlib.import_module(f"augury.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'augury' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"augury.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
