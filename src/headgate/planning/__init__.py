"""Decide: where to drop and how much, from a network, its statistics and the input rates.

Depends on `headgate.network`, numpy and the HiGHS solver. No clock, no I/O.
"""

from headgate.planning.cuts import CutTable
from headgate.planning.dfit import DfitPlanner, DfitSettings
from headgate.planning.exact import ExactPlanner, ExactSettings
from headgate.planning.flow_model import Flow, FlowModel, compile_flow
from headgate.planning.plan import Objective, Plan, Planner
from headgate.planning.solver import SolverPlanner, SolverSettings
from headgate.planning.solver_w import SolverWPlanner, SolverWSettings
from headgate.planning.workload import EmpiricalRates, ExponentialRates, Workload

__all__ = [
    "CutTable",
    "DfitPlanner",
    "DfitSettings",
    "EmpiricalRates",
    "ExactPlanner",
    "ExactSettings",
    "ExponentialRates",
    "Flow",
    "FlowModel",
    "Objective",
    "Plan",
    "Planner",
    "SolverPlanner",
    "SolverSettings",
    "SolverWPlanner",
    "SolverWSettings",
    "Workload",
    "compile_flow",
]
