"""What a simulation is told besides the network and its load."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from headgate.control import ServiceKind
from headgate.coordinator import ClassSettings
from headgate.errors import UsageError

__all__ = ["ClockJump", "NodeFailure", "Planning", "SimulationSettings", "Slowdown", "WorkCosts"]


class Planning(StrEnum):
    """Who plans. none: each gate by feedback alone. central: one coordinator for all nodes.
    distributed: one coordinator a node, and tables between neighbours."""

    NONE = "none"
    CENTRAL = "central"
    DISTRIBUTED = "distributed"


@dataclass(frozen=True, slots=True)
class Slowdown:
    """From `at_seconds` on, everything costs `factor` times as much as the network says."""

    at_seconds: float
    factor: float


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """The node stops at `at_seconds` and comes back after `for_seconds`."""

    node: str
    at_seconds: float
    for_seconds: float


@dataclass(frozen=True, slots=True)
class ClockJump:
    """The clock that the coordinator sees moves by `by_seconds` at `at_seconds`."""

    at_seconds: float
    by_seconds: float


@dataclass(frozen=True, slots=True)
class WorkCosts:
    """What work costs besides the operators' own cost per tuple. CPU seconds.

    A batch of b tuples costs an operator b c + f, that is c(b) = c + f / b for one of
    them: c is the cost in the network, f is `operator_fixed_seconds`. So the cost per
    tuple falls as batches grow. An input buffer is served tuple by tuple and has no f.

    looking_seconds:        for every tuple at a gate, kept or not (information gathering).
    batch_fixed_seconds:    for every micro-batch, whatever is in it.
    operator_fixed_seconds: f above, for every operator and batch.
    noise:                  relative standard deviation of the cost of a batch or a period.
    slowdowns:              changes of all costs, in the order of time.
    """

    looking_seconds: float = 0.0
    batch_fixed_seconds: float = 0.0
    operator_fixed_seconds: float = 0.0
    noise: float = 0.0
    slowdowns: tuple[Slowdown, ...] = ()

    def factor_at(self, time_seconds: float) -> float:
        """What all costs are multiplied by at this time."""
        factor = 1.0
        for change in self.slowdowns:
            if change.at_seconds <= time_seconds:
                factor = change.factor
        return factor


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """One run. Times in virtual seconds.

    service:                micro-batches (Spark) or an input buffer for each node (DISSP).
    period_seconds:         micro-batch: the trigger, 0 starts a batch as soon as one can.
                            Input buffer: time between two decisions, above 0.
    controller:             a name of `headgate.control.LATENCY_CONTROLLERS`.
    controller_settings:    further settings of it.
    latency_target_seconds: for every query; None takes the targets of the network.
    observe_seconds:        time between two observations of rates, where somebody plans.
    memory_tuples:          most tuples that wait on a node; one more and the node fails for good.
    link_delay_seconds:     time on the way from node to node.
    reports_waiting_age:    whether the mean age of waiting tuples is known to the controller.
    classes:                turns by priority class (micro-batches only).
    warm_up_seconds:        latencies before this are left out of the totals (not of the rows).
    with_journal:           keep the coordinators' journals, as lines.
    """

    seconds: float
    seed: int = 1
    service: ServiceKind = ServiceKind.MICRO_BATCH
    period_seconds: float = 0.0
    controller: str = "model"
    controller_settings: Mapping[str, Any] = field(default_factory=dict)
    latency_target_seconds: float | None = None
    planning: Planning = Planning.NONE
    observe_seconds: float = 1.0
    costs: WorkCosts = field(default_factory=WorkCosts)
    memory_tuples: int | None = None
    link_delay_seconds: float = 0.0
    failures: tuple[NodeFailure, ...] = ()
    clock_jumps: tuple[ClockJump, ...] = ()
    reports_waiting_age: bool = False
    classes: ClassSettings | None = None
    warm_up_seconds: float = 0.0
    with_journal: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds > 0.0):
            raise UsageError(f"a simulation lasts longer than 0 s, got {self.seconds!r}")
        if self.service is ServiceKind.INPUT_BUFFER and not self.period_seconds > 0.0:
            raise UsageError("an input buffer needs a period above 0 s, for example 0.25")
        if not (math.isfinite(self.period_seconds) and self.period_seconds >= 0.0):
            raise UsageError(f"the period must be at least 0 s, got {self.period_seconds!r}")
        if self.service is ServiceKind.INPUT_BUFFER and self.classes is not None:
            raise UsageError("turns by class need micro-batches, not an input buffer")
        if not self.observe_seconds > 0.0:
            raise UsageError("rates are observed over a time above 0 s")
