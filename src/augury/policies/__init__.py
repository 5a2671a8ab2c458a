"""How a batch is chosen from a belief: policies."""

from augury.policies.base import Picks, Policy
from augury.policies.dpp_ts import DPPThompson
from augury.policies.ei import EI
from augury.policies.qei import QEI
from augury.policies.schedules import (
    Constant,
    Desautels,
    InformationGain,
    NeuralBOAdaptive,
    NeuralBOTheory,
    SqrtLog,
    UnionBound,
)
from augury.policies.sp import StochasticPolicy
from augury.policies.thompson import Thompson
from augury.policies.ts_rsr import TSRSR
from augury.policies.ucb import UCB
from augury.policies.ucb_pe import UCBPE

__all__ = [
    "EI",
    "QEI",
    "TSRSR",
    "UCB",
    "UCBPE",
    "Constant",
    "DPPThompson",
    "Desautels",
    "InformationGain",
    "NeuralBOAdaptive",
    "NeuralBOTheory",
    "Picks",
    "Policy",
    "SqrtLog",
    "StochasticPolicy",
    "Thompson",
    "UnionBound",
]
