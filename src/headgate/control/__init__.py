"""Decide by feedback: how much to keep, whose share it is, whose turn it is.

Defines these parts, each in files of its own, each usable alone:

- latency: `contract` (what a controller is told and answers), `model_based` (the
  default, on `cost_estimate`, `micro_batch` and `input_buffer`), `dissp` (the 2012
  paper), `baselines` and `spark_pid`, `catalogue` (all of them by name),
  `node_sharing` (several queries on one node);
- capacity of a class: `load` and `headroom` (ALoMa);
- turns: `scheduler` (CQC) and `highest_rate` (inside a class);
- what operators cost: `operator_costs`, from the totals of batches;
- lending between classes: `redistribution` (DILoS).

Depends on the standard library, `headgate.network` and `headgate.errors`. Nothing here
reads a clock, does I/O, draws a random number or starts a thread: times and measurements
are arguments, decisions are return values. Who carries them out is not known here.
"""

from headgate.control.baselines import (
    NoControl,
    NoControlSettings,
    StaticRateCap,
    StaticRateCapSettings,
    TailDrop,
    TailDropSettings,
)
from headgate.control.catalogue import LATENCY_CONTROLLERS, ControllerKind, build_controller
from headgate.control.contract import (
    Alarm,
    KeepDecision,
    LatencyController,
    PeriodMeasurement,
    Reason,
)
from headgate.control.cost_estimate import CostEstimator, CostSettings, TupleCosts
from headgate.control.dissp import DisspController, DisspSettings, largest_stable_gain
from headgate.control.headroom import (
    PATIENCE,
    HeadroomAction,
    HeadroomDecision,
    HeadroomMonitor,
    HeadroomSettings,
    ResponseState,
    adjusted_headroom,
)
from headgate.control.highest_rate import HighestRateOrder
from headgate.control.load import ClassLoad, class_loads, classes_of_operators, operator_loads
from headgate.control.model_based import (
    ControlState,
    ModelBasedController,
    ModelBasedSettings,
    ServiceKind,
)
from headgate.control.node_sharing import (
    NodeController,
    NodeShares,
    QueryDecision,
    QueryDemand,
    QueryLoss,
    QueryShare,
    share_node,
)
from headgate.control.operator_costs import OperatorCosts, OperatorCostSettings
from headgate.control.rate_forecast import RateForecast
from headgate.control.redistribution import (
    ClassReport,
    Redistribution,
    demand_portion,
    redistribute,
    supply_portion,
)
from headgate.control.scheduler import ClassScheduler, TurnState, time_by_quota
from headgate.control.spark_pid import SparkPid, SparkPidSettings

__all__ = [
    "LATENCY_CONTROLLERS",
    "PATIENCE",
    "Alarm",
    "ClassLoad",
    "ClassReport",
    "ClassScheduler",
    "ControlState",
    "ControllerKind",
    "CostEstimator",
    "CostSettings",
    "DisspController",
    "DisspSettings",
    "HeadroomAction",
    "HeadroomDecision",
    "HeadroomMonitor",
    "HeadroomSettings",
    "HighestRateOrder",
    "KeepDecision",
    "LatencyController",
    "ModelBasedController",
    "ModelBasedSettings",
    "NoControl",
    "NoControlSettings",
    "NodeController",
    "NodeShares",
    "OperatorCostSettings",
    "OperatorCosts",
    "PeriodMeasurement",
    "QueryDecision",
    "QueryDemand",
    "QueryLoss",
    "QueryShare",
    "RateForecast",
    "Reason",
    "Redistribution",
    "ResponseState",
    "ServiceKind",
    "SparkPid",
    "SparkPidSettings",
    "StaticRateCap",
    "StaticRateCapSettings",
    "TailDrop",
    "TailDropSettings",
    "TupleCosts",
    "TurnState",
    "adjusted_headroom",
    "build_controller",
    "class_loads",
    "classes_of_operators",
    "demand_portion",
    "largest_stable_gain",
    "operator_loads",
    "redistribute",
    "share_node",
    "supply_portion",
    "time_by_quota",
]
