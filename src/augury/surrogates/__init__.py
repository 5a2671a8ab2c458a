"""What we believe about the function: surrogates and their posteriors."""

from augury.surrogates.base import Capability, Fit, Path, Posterior, Status, Surrogate
from augury.surrogates.cnn import CNN
from augury.surrogates.election import Election
from augury.surrogates.empirical_process import EmpiricalProcess
from augury.surrogates.ensemble import Ensemble
from augury.surrogates.forest import RandomForest
from augury.surrogates.gp import GaussianProcess
from augury.surrogates.networks import MLP
from augury.surrogates.neural_linear import NeuralLinear
from augury.surrogates.neural_tangent import NeuralTangent
from augury.surrogates.ntk_process import NTKProcess
from augury.surrogates.rff import FourierProcess
from augury.surrogates.sample_then_optimize import SampleThenOptimize
from augury.surrogates.tangent_process import TangentProcess
from augury.surrogates.user_networks import ModuleNetwork, UserNetwork
from augury.surrogates.warps import Log, YeoJohnson

__all__ = [
    "CNN",
    "MLP",
    "Capability",
    "Election",
    "EmpiricalProcess",
    "Ensemble",
    "Fit",
    "FourierProcess",
    "GaussianProcess",
    "Log",
    "ModuleNetwork",
    "NTKProcess",
    "NeuralLinear",
    "NeuralTangent",
    "Path",
    "Posterior",
    "RandomForest",
    "SampleThenOptimize",
    "Status",
    "Surrogate",
    "TangentProcess",
    "UserNetwork",
    "YeoJohnson",
]
