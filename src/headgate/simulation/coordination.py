"""The edge between simulated jobs and the real coordinators.

Builds the coordinators (one for all nodes, or one a node), gives them events on the
clock that they would see, and sorts their decisions: keep fractions for a batch,
standing fractions of gates behind splits, tables for neighbours, alarms.

A job's gates at its inputs are one query for the coordinator, with the latency target.
Its gates behind splits are a second one, named JOB.splits, that follows the plan only:
feedback acts once, at the inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.control import ServiceKind
from headgate.coordinator import (
    AlarmKind,
    BatchCompleted,
    Coordinator,
    CoordinatorSettings,
    Decision,
    Event,
    GateCount,
    Journal,
    QuerySettings,
    RaiseAlarm,
    SendTable,
    SetKeepFraction,
    TableReceived,
)
from headgate.coordinator.events import NeighbourMessage
from headgate.errors import HeadgateError
from headgate.network import Network
from headgate.simulation.jobs import Job
from headgate.simulation.settings import Planning, SimulationSettings

__all__ = ["BatchAnswer", "Clock", "Coordination", "split_query"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """The coordinator's word on one batch: a fraction for every gate of the job's inputs."""

    job: str
    batch: int
    keep_fraction: Mapping[str, float]


class Clock:
    """What the coordinator's clock shows at a virtual time."""

    def __init__(self, settings: SimulationSettings) -> None:
        jumps = sorted(settings.clock_jumps, key=lambda jump: jump.at_seconds)
        self._at = np.array([jump.at_seconds for jump in jumps])
        moved = np.cumsum([0.0, *(jump.by_seconds for jump in jumps)])
        self._moved: Floats = moved

    def shows(self, time_seconds: float) -> float:
        if not self.jumps:
            return time_seconds
        return time_seconds + float(
            self._moved[np.searchsorted(self._at, time_seconds, side="right")]
        )

    @property
    def jumps(self) -> bool:
        return len(self._at) > 0

    def latencies(self, entered: Floats, done_seconds: Floats) -> Floats:
        """Differences of two readings of the clock."""
        begin = entered + self._moved[np.searchsorted(self._at, entered, side="right")]
        end = done_seconds + self._moved[np.searchsorted(self._at, done_seconds, side="right")]
        latencies: Floats = end - begin
        return latencies


def split_query(job: str) -> str:
    """The coordinator's name for the gates behind splits of a job."""
    return f"{job}.splits"


class Coordination:
    """All coordinators of a run."""

    def __init__(self, network: Network, jobs: Sequence[Job], settings: SimulationSettings) -> None:
        self.clock = Clock(settings)
        self.alarms: Counter[str] = Counter()
        self.decisions = 0
        self.messages = 0
        self.standing: dict[tuple[str, str], float] = {}  # (job, gate) of splits
        self.outbox: list[NeighbourMessage] = []
        self._settings = settings
        self._central = settings.planning is Planning.CENTRAL
        self._owner = {job.name: "" if self._central else job.node for job in jobs}
        self._split_owner = {split_query(job.name): job.name for job in jobs if job.splits}
        self._batches = {job.name: tuple(arc.name for arc in job.inputs) for job in jobs}
        self._coordinators: dict[str, Coordinator] = {}
        self._journals: dict[str, Journal] = {}
        self.lines: dict[str, list[str]] = {}
        for name in dict.fromkeys(self._owner.values()):
            mine = [job for job in jobs if self._owner[job.name] == name]
            self._start(name, _coordinator_settings(network, name, mine, settings))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinators: the nodes, or one empty name for the central one."""
        return tuple(self._coordinators)

    @property
    def plans(self) -> bool:
        return self._settings.planning is not Planning.NONE

    def tell(self, coordinator: str, event: Event) -> list[BatchAnswer]:
        """Hand over one event; returns the batches that may run now."""
        journal = self._journals.get(coordinator)
        if journal is None:
            decisions = self._coordinators[coordinator].handle(event)
        else:
            decisions, line = journal.handle(event)
            self.lines[coordinator].append(line)
        return self._sort(decisions)

    def tell_about(self, job: str, event: Event) -> list[BatchAnswer]:
        return self.tell(self._owner[job], event)

    def deliver(self, message: NeighbourMessage, time_seconds: float) -> list[BatchAnswer]:
        """A table or a rate reaches the coordinator of the node that it is for."""
        self.messages += 1
        event = TableReceived(self.clock.shows(time_seconds), message)
        return self.tell(message.receiver, event)

    def report_splits(
        self, job: str, batch: int, time_seconds: float, counts: Mapping[str, GateCount]
    ) -> None:
        """Enter what the gates behind splits did into the ledger."""
        if counts:
            now = self.clock.shows(time_seconds)
            event = BatchCompleted(now, split_query(job), batch, 0.0, 0.0, counts)
            self.tell_about(job, event)

    @property
    def ledger_balances(self) -> bool:
        """Every single row was checked when it was entered; this looks at the totals."""
        return all(c.ledger.balances for c in self._coordinators.values())

    def ledger_totals(self) -> dict[str, tuple[int, int, int]]:
        """Offered, kept and dropped by (coordinator's) query."""
        found: dict[str, tuple[int, int, int]] = {}
        for coordinator in self._coordinators.values():
            for query, total in coordinator.ledger.by_query().items():
                found[query] = (total.offered, total.kept, total.dropped)
        return found

    def _start(self, name: str, settings: CoordinatorSettings) -> None:
        if self._settings.with_journal:
            journal = Journal(settings)
            self._journals[name] = journal
            self.lines[name] = [journal.header()]
            self._coordinators[name] = journal.coordinator
        else:
            self._coordinators[name] = Coordinator(settings)

    def _sort(self, decisions: Sequence[Decision]) -> list[BatchAnswer]:
        self.decisions += len(decisions)
        fractions: dict[tuple[str, int], dict[str, float]] = {}
        for decision in decisions:
            if isinstance(decision, SetKeepFraction):
                if decision.batch is not None:
                    gates = fractions.setdefault((decision.query, decision.batch), {})
                    gates[decision.gate] = decision.keep_fraction
                elif decision.query in self._split_owner:
                    place = (self._split_owner[decision.query], decision.gate)
                    self.standing[place] = decision.keep_fraction
            elif isinstance(decision, SendTable):
                self.outbox.append(decision.message)
            elif isinstance(decision, RaiseAlarm):
                if decision.kind is AlarmKind.LEDGER:
                    raise HeadgateError(f"a fault of the simulator: {decision.text}")
                self.alarms[f"{decision.subject}: {decision.text}"] += 1
        return [BatchAnswer(job, batch, gates) for (job, batch), gates in fractions.items()]


def _coordinator_settings(
    network: Network, name: str, jobs: Sequence[Job], settings: SimulationSettings
) -> CoordinatorSettings:
    queries: dict[str, QuerySettings] = {}
    for job in jobs:
        queries[job.name] = QuerySettings(
            tuple(arc.name for arc in job.inputs),
            job.target_seconds,
            job.query_class,
            settings.controller,
            _controller_settings(settings, job.target_seconds),
            job.keep_at_least,
        )
        if job.splits:
            gates = tuple(arc.name for arc in job.splits)
            queries[split_query(job.name)] = QuerySettings(gates)
    return CoordinatorSettings(
        queries,
        network=None if settings.planning is Planning.NONE else network,
        node=name if settings.planning is Planning.DISTRIBUTED else None,
        classes=settings.classes,
    )


def _controller_settings(
    settings: SimulationSettings, target_seconds: float | None
) -> dict[str, object]:
    """What the controller must know of how tuples are served."""
    given = dict(settings.controller_settings)
    name, period = settings.controller, settings.period_seconds
    if name == "model":
        given.setdefault("service", settings.service)
    if name == "model" or (name == "paper" and settings.service is ServiceKind.INPUT_BUFFER):
        given.setdefault("period_seconds", period)
    elif name == "paper" and target_seconds is not None:
        given.setdefault("period_seconds", target_seconds / 1.5)  # a batch that lasts at the target
    elif name == "spark-pid" and period > 0.0:
        given.setdefault("batch_interval_seconds", period)
    return given
