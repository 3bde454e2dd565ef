"""Decide: where to drop and how much, from a network, its statistics and the input rates.

Depends on `headgate.network`, numpy and the HiGHS solver. No clock, no I/O.
"""

from headgate.planning.cut_tables.cuts import CutTable
from headgate.planning.cut_tables.dfit import DfitPlanner, DfitSettings
from headgate.planning.drop_kinds import Drop, DropKind, drops_of
from headgate.planning.exact import ExactPlanner, ExactSettings
from headgate.planning.flow_model import Flow, FlowModel, compile_flow
from headgate.planning.plan import Objective, Plan, Planner
from headgate.planning.regions.solver import SolverPlanner, SolverSettings
from headgate.planning.regions.solver_w import SolverWPlanner, SolverWSettings
from headgate.planning.regions.workload import EmpiricalRates, ExponentialRates, Workload
from headgate.planning.sampled_tables.dfit_sampled import SampledDfit, SampledDfitSettings
from headgate.planning.sampled_tables.fit import FitPlanner, FitSettings

__all__ = [
    "CutTable",
    "DfitPlanner",
    "DfitSettings",
    "Drop",
    "DropKind",
    "EmpiricalRates",
    "ExactPlanner",
    "ExactSettings",
    "ExponentialRates",
    "FitPlanner",
    "FitSettings",
    "Flow",
    "FlowModel",
    "Objective",
    "Plan",
    "Planner",
    "SampledDfit",
    "SampledDfitSettings",
    "SolverPlanner",
    "SolverSettings",
    "SolverWPlanner",
    "SolverWSettings",
    "Workload",
    "compile_flow",
    "drops_of",
]
