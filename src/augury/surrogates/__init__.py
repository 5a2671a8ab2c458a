"""What we believe about the function: surrogates and their posteriors."""

from augury.surrogates.base import Capability, Fit, Path, Posterior, Status, Surrogate
from augury.surrogates.forest import RandomForest
from augury.surrogates.gp import GaussianProcess
from augury.surrogates.ntk_process import NTKProcess
from augury.surrogates.rff import FourierProcess
from augury.surrogates.sample_then_optimize import SampleThenOptimize

__all__ = [
    "Capability",
    "Fit",
    "FourierProcess",
    "GaussianProcess",
    "NTKProcess",
    "Path",
    "Posterior",
    "RandomForest",
    "SampleThenOptimize",
    "Status",
    "Surrogate",
]
