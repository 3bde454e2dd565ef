"""What the coordinator is told. Past tense, plain data, times in seconds on any one clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.coordinator.settings import ClassSettings, Mode, QuerySettings
from headgate.network import OperatorStatistics
from headgate.planning.cut_tables.table_messages import RatesReported, TableChanged, TableWithdrawn

__all__ = [
    "BatchCompleted",
    "BatchStarted",
    "Event",
    "GateCount",
    "NeighbourMessage",
    "RatesObserved",
    "SettingsChanged",
    "TableReceived",
    "Tick",
    "TurnReturned",
]

NeighbourMessage = TableChanged | TableWithdrawn | RatesReported


@dataclass(frozen=True, slots=True)
class GateCount:
    """What one gate saw in one batch. The three are counted apart, so that they can be checked."""

    offered: int
    kept: int
    dropped: int


@dataclass(frozen=True, slots=True)
class BatchStarted:
    """A query wants to run its next batch (or control period) and asks what to keep.

    waiting: tuples in front of each gate; a gate that is not named is not counted yet.
    waiting_age_seconds: mean age of the waiting tuples, where it is known.
    tasks: how many cores the batch can use at once.
    """

    time_seconds: float
    query: str
    batch: int
    waiting: Mapping[str, int] = field(default_factory=dict)
    waiting_age_seconds: float | None = None
    tasks: int = 1


@dataclass(frozen=True, slots=True)
class BatchCompleted:
    """A batch is done and its results are out.

    busy_seconds:     server seconds spent on it.
    processed_tuples: tuples processed, where this is not what was kept (input buffers).
    latency_percentiles_seconds: percentile (for example 95) to seconds.
    fixed_seconds:    the part of busy_seconds that a batch costs however few tuples it has.
    """

    time_seconds: float
    query: str
    batch: int
    duration_seconds: float
    busy_seconds: float
    counts: Mapping[str, GateCount]
    latency_mean_seconds: float | None = None
    latency_percentiles_seconds: Mapping[float, float] = field(default_factory=dict)
    arrival_rate_per_second: float | None = None
    processed_tuples: int | None = None
    scheduling_delay_seconds: float = 0.0
    fixed_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RatesObserved:
    """Rates of the network's streams, and newly measured numbers of its operators.

    capacities: CPU seconds per second of nodes, where they were measured.
    """

    time_seconds: float
    rates_per_second: Mapping[str, float]
    operators: Mapping[str, OperatorStatistics] = field(default_factory=dict)
    node_busy_share: float | None = None
    capacities: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableReceived:
    """A neighbour's agent has sent a message of the distributed planner."""

    time_seconds: float
    message: NeighbourMessage


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """A person or a program has changed what is wanted; None leaves a thing as it is.

    classes: other priorities or settings; all class loops begin anew, nothing is lent.
    """

    time_seconds: float
    mode: Mode | None = None
    queries: Mapping[str, QuerySettings] = field(default_factory=dict)
    removed_queries: tuple[str, ...] = ()
    classes: ClassSettings | None = None


@dataclass(frozen=True, slots=True)
class TurnReturned:
    """A query gives its turn back: it had nothing to do, or nobody hears of it any more."""

    time_seconds: float
    query: str
    batch: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed. What is due is done: load cycles, and turns that nobody came back for.

    busy_cores: how many cores had tasks since the last tick, on average, where it was counted.
    """

    time_seconds: float
    busy_cores: float | None = None


Event = (
    BatchStarted
    | BatchCompleted
    | RatesObserved
    | TableReceived
    | SettingsChanged
    | Tick
    | TurnReturned
)
