"""What was measured: batches of the two runs, the ledger, the capacity. Pure data.

A `Recording` fills while the demo runs, so that a demo that is stopped early still has
what was measured up to then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from headgate.demo.scenario import Scenario, Settings

__all__ = [
    "WITH",
    "WITHOUT",
    "Batch",
    "Capacity",
    "Ledger",
    "LedgerRow",
    "Recording",
    "Run",
    "Watcher",
    "per_second",
]

WITH, WITHOUT = "with Headgate", "without Headgate"


@dataclass(frozen=True, slots=True)
class Batch:
    """One finished micro-batch. `end_seconds` counts from the begin of the stream.

    read: rows that Spark's source counted; None where Spark does not say.
    Latencies are from arrival to the end of the batch: the mean is measured, the 95th
    percentile an estimate from the first and the last arrival.
    """

    number: int
    end_seconds: float
    duration_seconds: float
    offered: int
    kept: int
    latency_mean_seconds: float | None
    latency_p95_seconds: float | None = None
    read: int | None = None

    @property
    def dropped(self) -> int:
        return self.offered - self.kept


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """What Headgate's ledger on disk says of one batch."""

    batch: int
    offered: int
    kept: int
    dropped: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger of a run, with its sums."""

    rows: tuple[LedgerRow, ...]

    @property
    def offered(self) -> int:
        return sum(row.offered for row in self.rows)

    @property
    def kept(self) -> int:
        return sum(row.kept for row in self.rows)

    @property
    def dropped(self) -> int:
        return sum(row.dropped for row in self.rows)

    def balances(self, batches: Sequence[Batch]) -> bool:
        """Offered = kept + dropped in every row, and offered is what Spark's source counted.

        A batch can end between the last look at the query and its stop: then only the
        ledger has it.
        """
        offered = {row.batch: row.offered for row in self.rows}
        return all(row.offered == row.kept + row.dropped for row in self.rows) and all(
            offered.get(batch.number) == batch.read for batch in batches if batch.read
        )


@dataclass(slots=True)
class Run:
    """One of the two runs of the same scenario."""

    name: str
    batches: list[Batch] = field(default_factory=list)
    ledger: Ledger | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """Rows per second of the saturated query.

    steady:        the last batches agreed.
    measured:      by pair of batches.
    start_seconds: from the start of the query on a cold JVM until its first batch began.
    """

    rows_per_second: float
    steady: bool
    measured: Sequence[float] = ()
    start_seconds: float = 0.0


@dataclass(slots=True)
class Recording:
    """Everything that the report is made from."""

    settings: Settings
    machine: Mapping[str, str] = field(default_factory=dict)
    capacity: Capacity | None = None
    scenario: Scenario | None = None
    runs: dict[str, Run] = field(default_factory=dict)
    stopped_early: bool = False


class Watcher(Protocol):
    """Who is told while the demo runs. Called on the demo's own thread."""

    def stage(self, title: str, seconds: float) -> None:
        """Something begins that takes about so long."""

    def tick(self, elapsed_seconds: float) -> None:
        """So much of the present stage is over."""

    def scene(self, recording: Recording) -> None:
        """The capacity is known; the runs follow and fill the recording."""


def per_second(batches: Sequence[Batch], edges: Sequence[float]) -> list[tuple[float, float]]:
    """Kept and dropped rows per second between each two edges.

    A batch's rows count evenly over the time in which it ran.
    """
    sums = [[0.0, 0.0] for _ in edges[1:]]
    for batch in batches:
        begin, length = batch.end_seconds - batch.duration_seconds, batch.duration_seconds
        for index, (low, high) in enumerate(pairwise(edges)):
            overlap = min(high, batch.end_seconds) - max(low, begin)
            if overlap > 0.0 and length > 0.0:
                share = overlap / length / (high - low)
                sums[index][0] += share * batch.kept
                sums[index][1] += share * batch.dropped
    return [(kept, dropped) for kept, dropped in sums]
