"""Decide: where to drop and how much, from a network, its statistics and the input rates.

Depends on `headgate.network`, numpy and the HiGHS solver. No clock, no I/O.
"""

from headgate.planning.cuts import CutTable
from headgate.planning.dfit import DfitPlanner, DfitSettings
from headgate.planning.exact import ExactPlanner, ExactSettings
from headgate.planning.flow_model import Flow, FlowModel, compile_flow
from headgate.planning.plan import Objective, Plan, Planner

__all__ = [
    "CutTable",
    "DfitPlanner",
    "DfitSettings",
    "ExactPlanner",
    "ExactSettings",
    "Flow",
    "FlowModel",
    "Objective",
    "Plan",
    "Planner",
    "compile_flow",
]
