"""One job under micro-batches: takes all that waits, asks, drops, runs, reports.

A batch that is cut off by a failure runs again with the same number, the same tuples
and the same random draws, so it drops the same tuples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from headgate.coordinator import GateCount
from headgate.errors import HeadgateError
from headgate.simulation.jobs import Job
from headgate.simulation.passage import Passage, PassageState, Rows, pass_through
from headgate.simulation.record import JobOutcome
from headgate.simulation.settings import WorkCosts
from headgate.simulation.tuples import ArcQueue, Tuples

__all__ = ["BatchJob", "JobState", "RunningBatch"]

Floats = NDArray[np.float64]


class JobState(StrEnum):
    """What a job is doing."""

    IDLE = "idle"
    ASKED = "asked"
    RUNNING = "running"
    DOWN = "down"


_MOVES = {
    JobState.IDLE: {JobState.ASKED, JobState.DOWN},
    JobState.ASKED: {JobState.RUNNING, JobState.DOWN},
    JobState.RUNNING: {JobState.IDLE, JobState.DOWN},
    JobState.DOWN: {JobState.IDLE},
}


@dataclass(frozen=True, slots=True)
class RunningBatch:
    """A batch between its start and its end."""

    started_seconds: float
    work_seconds: float
    keep_fraction: Mapping[str, float]
    counts: Mapping[str, GateCount]
    kept: Mapping[str, Tuples]
    passage: Passage

    @property
    def offered(self) -> int:
        return sum(count.offered for count in self.counts.values())

    @property
    def kept_count(self) -> int:
        return sum(count.kept for count in self.counts.values())

    def entered(self) -> Floats:
        """When each kept tuple reached the job."""
        return np.concatenate([np.empty(0), *(tuples.entered for tuples in self.kept.values())])


class BatchJob:
    """The state of one job. Time comes from the caller."""

    def __init__(self, job: Job, number: int, seed: int, costs: WorkCosts) -> None:
        self.job = job
        self.queues = {arc.name: ArcQueue() for arc in job.inputs}
        self.outcome = JobOutcome(job.name, job.node, job.target_seconds)
        self.state = JobState.IDLE
        self.batch = 0
        self.taken: dict[str, Tuples] | None = None
        self.running: RunningBatch | None = None
        self.ready_seconds = 0.0  # since when the batch could have begun
        self.last_report = (0.0, 0)  # when, and how many tuples had arrived by then
        self._passage_state = PassageState()
        self._before_batch = PassageState()
        self._seed, self._number, self._costs = seed, number, costs

    def move(self, state: JobState) -> None:
        if state not in _MOVES[self.state]:
            expected = ", ".join(sorted(_MOVES[self.state]))
            raise HeadgateError(f"{self.job.name}: {self.state} can become {expected}, not {state}")
        self.state = state

    def held(self, now_seconds: float) -> int:
        """Tuples that wait or are in a batch."""
        waiting = sum(queue.waiting(now_seconds) for queue in self.queues.values())
        return waiting + self.in_hand

    @property
    def in_hand(self) -> int:
        return sum(map(len, self.taken.values())) if self.taken else 0

    def arrived(self, now_seconds: float) -> int:
        return sum(queue.arrived(now_seconds) for queue in self.queues.values())

    def take(self, now_seconds: float) -> bool:
        """Take all that waits, unless a batch has to run again; False if there is nothing."""
        if self.taken is None:
            taken = {name: queue.take(now_seconds) for name, queue in self.queues.items()}
            if not any(map(len, taken.values())):
                return False
            self.taken = taken
        self.move(JobState.ASKED)
        return True

    def start(
        self,
        now_seconds: float,
        keep_fraction: Mapping[str, float],
        split_keep: Mapping[str, float],
    ) -> RunningBatch:
        """Drop, run the rest through the operators, and say what it will cost."""
        self.move(JobState.RUNNING)
        self._before_batch = self._passage_state.copy()
        rng = np.random.default_rng((self._seed, self._number, self.batch))
        kept: dict[str, Tuples] = {}
        counts: dict[str, GateCount] = {}
        for gate, tuples in (self.taken or {}).items():
            chosen = _chosen(tuples, keep_fraction.get(gate, 1.0), rng)
            kept[gate] = chosen
            counts[gate] = GateCount(len(tuples), len(chosen), len(tuples) - len(chosen))
        inputs = {gate: Rows(tuples.origin, tuples.entered) for gate, tuples in kept.items()}
        passage = pass_through(self.job, inputs, split_keep, self._passage_state, rng)
        offered = sum(count.offered for count in counts.values())
        work = self._work(offered, passage, now_seconds, rng)
        self.running = RunningBatch(now_seconds, work, dict(keep_fraction), counts, kept, passage)
        return self.running

    def end(self, now_seconds: float, with_latency: bool = True) -> RunningBatch:
        """The batch is done; its tuples are accounted for."""
        batch = self.running
        if batch is None:
            raise HeadgateError(f"{self.job.name}: a batch ended that did not run")
        self.move(JobState.IDLE)
        outcome = self.outcome
        outcome.processed += batch.kept_count
        outcome.dropped += batch.offered - batch.kept_count
        if with_latency:
            outcome.latency.add(now_seconds - batch.entered())
        self.running = self.taken = None
        self.batch += 1
        return batch

    def fail(self) -> None:
        """The node stops. What was taken is read again later; the work is lost."""
        self.move(JobState.DOWN)
        if self.running is not None:
            self._passage_state = self._before_batch
            self.running = None

    def account(self, now_seconds: float) -> None:
        """Bring the totals up to date and check that no tuple was made or has vanished."""
        self.outcome.arrived = self.arrived(now_seconds)
        self.outcome.waiting = self.held(now_seconds) - self.outcome.lost
        self.outcome.check()

    def _work(
        self, offered: int, passage: Passage, now_seconds: float, rng: np.random.Generator
    ) -> float:
        costs = self._costs
        work = costs.batch_fixed_seconds + costs.looking_seconds * offered
        for operator in self.job.operators:
            count = passage.operator_tuples[operator.name]
            if count:
                work += costs.operator_fixed_seconds + count * (operator.cost_seconds or 0.0)
        noise = max(0.2, 1.0 + costs.noise * rng.standard_normal()) if costs.noise else 1.0
        return work * noise * costs.factor_at(now_seconds)


def _chosen(tuples: Tuples, keep_fraction: float, rng: np.random.Generator) -> Tuples:
    if keep_fraction >= 1.0:
        return tuples
    return tuples.part(rng.random(len(tuples)) < keep_fraction)
