"""How a batch is chosen from a belief: policies."""

from augury.policies.base import Picks, Policy
from augury.policies.ei import EI
from augury.policies.schedules import Constant, InformationGain, SqrtLog
from augury.policies.thompson import Thompson
from augury.policies.ucb import UCB

__all__ = ["EI", "UCB", "Constant", "InformationGain", "Picks", "Policy", "SqrtLog", "Thompson"]
