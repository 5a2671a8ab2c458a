"""What we believe about the function: surrogates and their posteriors."""

from augury.surrogates.base import Capability, Fit, Path, Posterior, Status, Surrogate
from augury.surrogates.forest import RandomForest
from augury.surrogates.gp import GaussianProcess
from augury.surrogates.rff import FourierProcess

__all__ = [
    "Capability",
    "Fit",
    "FourierProcess",
    "GaussianProcess",
    "Path",
    "Posterior",
    "RandomForest",
    "Status",
    "Surrogate",
]
