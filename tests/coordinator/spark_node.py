"""A Spark application in virtual time: batches are planned, run on slots, and committed.

Planning and committing take a fixed time of a core, which batches that run at once share. Tasks
take the slots for a fixed time and for their rows, and whoever came first has all slots, as with
Spark's own order of jobs. Turns and keep fractions come from a coordinator, as on Spark.
With these times it agrees with ten queries on Spark: see `test_spark_in_virtual_time`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from headgate.coordinator import (
    BatchCompleted,
    BatchStarted,
    ClassSettings,
    Coordinator,
    CoordinatorSettings,
    Event,
    GateCount,
    Mode,
    QuerySettings,
    SetKeepFraction,
    SettingsChanged,
    Tick,
)

STEP_SECONDS = 0.01
COME_BACK_SECONDS = 0.02
SLOTS = 2


@dataclass
class SparkQuery:
    """A query of a class, with rows that come evenly."""

    name: str
    query_class: str
    target_seconds: float
    rows_per_second: float
    planning_seconds: float = 0.25
    committing_seconds: float = 0.15
    slot_seconds: float = 0.3
    batch: int = 0
    phase: str = "asks"
    asks_at: float = 0.0
    started: float = 0.0
    left: float = 0.0
    kept: int = 0
    waiting: list[tuple[float, float]] = field(default_factory=list)  # time and rows
    taken: list[tuple[float, float]] = field(default_factory=list)


class Done(NamedTuple):
    """A batch that has ended."""

    time: float
    query: SparkQuery
    offered: int
    kept: int
    response_seconds: float


class SparkNode:
    """Ten or so queries on one machine. `done` has the batches."""

    def __init__(
        self,
        queries: Sequence[SparkQuery],
        classes: ClassSettings,
        mode: Mode = Mode.ON,
        row_seconds: float = 0.002,
        stalls: Callable[[float], bool] = lambda _: False,
    ) -> None:
        self.queries = {query.name: query for query in queries}
        known = {
            q.name: QuerySettings(("rows",), q.target_seconds, q.query_class, "none")
            for q in queries
        }
        self.coordinator = Coordinator(CoordinatorSettings(known, mode=mode, classes=classes))
        self.now = 0.0
        self.done: list[Done] = []
        self._row_seconds = row_seconds
        self._stalls = stalls
        self._counted: list[int] = []
        self._jobs: list[SparkQuery] = []  # with tasks that run or wait for slots

    def use(self, classes: ClassSettings, mode: Mode = Mode.ON) -> None:
        self._tell(SettingsChanged(self.now, mode=mode, classes=classes))

    def load(self, rows_per_second: Mapping[str, float]) -> None:
        """By class, spread evenly over its queries."""
        for name, rate in rows_per_second.items():
            own = [q for q in self.queries.values() if q.query_class == name]
            for query in own:
                query.rows_per_second = rate / len(own)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_SECONDS)):
            self.now += STEP_SECONDS
            for query in self.queries.values():
                query.waiting.append(
                    (self.now - STEP_SECONDS / 2, query.rows_per_second * STEP_SECONDS)
                )
            self._work()
            for query in self.queries.values():
                self._advance(query)
            self._counted.append(SLOTS if self._jobs else 0)
            if self.coordinator.wants_tick(self.now):
                self._tell(Tick(self.now, sum(self._counted) / len(self._counted)))
                self._counted.clear()

    def loss(self, query_class: str, since: float) -> float:
        own = self._of(query_class, since)
        return 1.0 - sum(d.kept for d in own) / sum(d.offered for d in own)

    def response(self, query_class: str, since: float) -> float:
        own = self._of(query_class, since)
        return sum(d.kept * d.response_seconds for d in own) / sum(d.kept for d in own)

    def kept_per_second(self, since: float) -> float:
        return sum(d.kept for d in self.done if d.time >= since) / (self.now - since)

    def _of(self, query_class: str, since: float) -> list[Done]:
        return [d for d in self.done if d.query.query_class == query_class and d.time >= since]

    def _work(self) -> None:
        """One step of work: in the driver shared by all, on the slots for who came first."""
        if self._stalls(self.now):
            return
        driving = [q for q in self.queries.values() if q.phase in ("planning", "committing")]
        for query in driving:
            query.left -= STEP_SECONDS * min(1.0, SLOTS / len(driving))
        if self._jobs:
            self._jobs[0].left -= STEP_SECONDS * SLOTS

    def _advance(self, query: SparkQuery) -> None:
        if query.phase == "asks" and self.now >= query.asks_at:
            rows = sum(count for _, count in query.waiting)
            if rows < 1.0:
                return
            age = sum((self.now - at) * count for at, count in query.waiting) / rows
            query.phase = "waits"
            waiting = {"rows": round(rows)}
            self._tell(BatchStarted(self.now, query.name, query.batch, waiting, age, SLOTS))
        if query.left > 0.0:
            return
        if query.phase == "planning":
            query.phase = "tasks"
            query.left = query.slot_seconds + query.kept * self._row_seconds
            self._jobs.append(query)
        elif query.phase == "tasks":
            self._jobs.remove(query)
            query.phase, query.left = "committing", query.committing_seconds
        elif query.phase == "committing":
            self._complete(query)

    def _complete(self, query: SparkQuery) -> None:
        offered = round(sum(count for _, count in query.taken))
        rows = sum(count for _, count in query.taken)
        response = sum((self.now - at) * count for at, count in query.taken) / rows
        self.done.append(Done(self.now, query, offered, query.kept, response))
        seconds = self.now - query.started
        fixed = min(seconds, query.planning_seconds + query.committing_seconds)
        counts = {"rows": GateCount(offered, query.kept, offered - query.kept)}
        event = BatchCompleted(
            self.now, query.name, query.batch, seconds, seconds, counts, response
        )
        event = replace(event, arrival_rate_per_second=query.rows_per_second, fixed_seconds=fixed)
        query.batch += 1
        query.phase, query.asks_at = "asks", self.now + COME_BACK_SECONDS
        self._tell(event)

    def _tell(self, event: Event) -> None:
        decisions: Sequence[Any] = self.coordinator.handle(event)
        for decision in decisions:
            if not isinstance(decision, SetKeepFraction):
                continue
            query = self.queries[decision.query]
            query.taken, query.waiting = query.waiting, []
            query.kept = round(decision.keep_fraction * sum(count for _, count in query.taken))
            query.started, query.phase, query.left = self.now, "planning", query.planning_seconds
