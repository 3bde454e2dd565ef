"""What a simulation tells: a row for each period or batch, and totals at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from headgate.errors import HeadgateError
from headgate.simulation.latency_histogram import LatencyHistogram
from headgate.simulation.settings import SimulationSettings

__all__ = [
    "FailureCause",
    "JobOutcome",
    "NodeOutcome",
    "PeriodRow",
    "QueryOutcome",
    "SimulationResult",
]


@dataclass(frozen=True, slots=True)
class PeriodRow:
    """One micro-batch, or one control period of an input buffer.

    time_seconds:  when it ended.
    arrived:       tuples that came since the row before (input buffer: in the period).
    offered, kept: at the gates of the job (input buffer: looked at and left by the shedder).
    processed:     tuples that were finished; their latency is from reaching the job to its end.
    waiting:       tuples that wait now.
    """

    time_seconds: float
    job: str
    batch: int
    duration_seconds: float
    busy_seconds: float
    arrived: int
    offered: int
    kept: int
    dropped: int
    processed: int
    waiting: int
    keep_fraction: float
    latency_mean_seconds: float | None
    latency_p95_seconds: float | None
    latency_max_seconds: float | None


class FailureCause(StrEnum):
    """Why a node stopped."""

    MEMORY = "out of memory"
    GIVEN = "failed as given"


@dataclass(slots=True)
class NodeOutcome:
    """busy_seconds are CPU seconds; `failures` has the times at which the node stopped."""

    name: str
    capacity: float
    busy_seconds: float = 0.0
    failures: list[tuple[float, FailureCause]] = field(default_factory=list)

    @property
    def out_of_memory_seconds(self) -> float | None:
        """When the node ran out of memory, if it did."""
        return next((at for at, why in self.failures if why is FailureCause.MEMORY), None)


@dataclass(slots=True)
class JobOutcome:
    """Tuples at the gates in front of one job, and their latency in the job.

    arrived = processed + dropped + waiting + lost. `lost` went with a node's memory.
    """

    name: str
    node: str
    target_seconds: float | None
    arrived: int = 0
    processed: int = 0
    dropped: int = 0
    waiting: int = 0
    lost: int = 0
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)

    @property
    def balances(self) -> bool:
        return self.arrived == self.processed + self.dropped + self.waiting + self.lost

    def check(self) -> None:
        """Raise if a tuple was made or has vanished: a fault of the simulator."""
        if not self.balances:
            raise HeadgateError(f"the simulator lost count of the tuples of {self.name}: {self}")


@dataclass(slots=True)
class QueryOutcome:
    """Results of one query. Latency is from the oldest arrival to the result.

    missed: results that the tuples dropped on the way would have given, on average.
    """

    name: str
    target_seconds: float | None
    results: int = 0
    missed: float = 0.0
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)

    @property
    def kept_share(self) -> float:
        """Results over the results of the same tuples without any drop; 1 without any."""
        total = self.results + self.missed
        return self.results / total if total > 0.0 else 1.0


@dataclass(frozen=True)
class SimulationResult:
    """Everything of one run. Simulated: no number here was measured on Spark."""

    settings: SimulationSettings
    seconds: float
    rows: Sequence[PeriodRow]
    jobs: Mapping[str, JobOutcome]
    queries: Mapping[str, QueryOutcome]
    nodes: Mapping[str, NodeOutcome]
    alarms: Counter[str]
    decisions: int
    messages: int
    ledger_balances: bool
    ledger_totals: Mapping[str, tuple[int, int, int]]
    journals: Mapping[str, Sequence[str]]

    def rows_of(self, job: str) -> list[PeriodRow]:
        return [row for row in self.rows if row.job == job]
