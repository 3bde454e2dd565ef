"""The event loop of a simulation with micro-batches, over any number of nodes.

Events are: a job is ready, a batch ends, rates are observed, a table arrives, time
passes for the class loop, a node fails or comes back. Between events nothing happens,
so a run costs a few Python steps for each batch and numpy work for its tuples.

When nothing waits, a job looks again after the trigger, or after 10 ms (as Spark's
polling does). Results of a batch leave when it ends.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Mapping
from enum import IntEnum

import numpy as np

from headgate.coordinator import BatchCompleted, BatchStarted, RatesObserved, Tick
from headgate.coordinator.events import NeighbourMessage
from headgate.network import Network
from headgate.simulation.arrivals import Arrivals
from headgate.simulation.batch_job import BatchJob, JobState, RunningBatch
from headgate.simulation.coordination import BatchAnswer, Coordination
from headgate.simulation.feeds import Feeds
from headgate.simulation.jobs import jobs_of
from headgate.simulation.latency_histogram import LatencySummary
from headgate.simulation.links import Links
from headgate.simulation.processor import Processor
from headgate.simulation.record import FailureCause, NodeOutcome, PeriodRow, SimulationResult
from headgate.simulation.results import ResultBook
from headgate.simulation.settings import Planning, SimulationSettings
from headgate.simulation.tuples import Tuples

__all__ = ["MicroBatchSimulation"]

_POLL_SECONDS = 0.01


class _Kind(IntEnum):
    """What an event is; at the same time the smaller one comes first."""

    FAIL = 0
    RECOVER = 1
    BATCH_END = 2
    MESSAGE = 3
    OBSERVE = 4
    TICK = 5
    READY = 6


class MicroBatchSimulation:
    """One run. Build it, call `run` once."""

    def __init__(
        self, network: Network, load: Mapping[str, Arrivals], settings: SimulationSettings
    ) -> None:
        self._network, self._settings = network, settings
        shapes = jobs_of(network, settings.service, settings.latency_target_seconds)
        self._jobs = {
            job.name: BatchJob(job, number, settings.seed, settings.costs)
            for number, job in enumerate(shapes)
        }
        self._on_node = {
            node.name: [job for job in self._jobs.values() if job.job.node == node.name]
            for node in network.nodes
        }
        queues = {n: q for job in self._jobs.values() for n, q in job.queues.items()}
        self._queues = queues
        self._feeds = Feeds(network, load, queues, settings.seed, settings.seconds)
        self._coordination = Coordination(network, shapes, settings)
        self._links = Links(network, settings.link_delay_seconds)
        self._processors = {node.name: Processor(node.capacity) for node in network.nodes}
        self._nodes = {n.name: NodeOutcome(n.name, n.capacity) for n in network.nodes}
        self._dead: set[str] = set()
        self._book = ResultBook(network, settings.latency_target_seconds)
        self._rows: list[PeriodRow] = []
        self._events: list[tuple[float, int, int, object]] = []
        self._order = itertools.count()
        self._observed: dict[str, int] = dict.fromkeys(queues, 0)

    def run(self, progress: Callable[[float], None] | None = None) -> SimulationResult:
        self._schedule_beginning()
        handlers: dict[int, Callable[[float, object], None]] = {
            _Kind.FAIL: self._fail,
            _Kind.RECOVER: self._recover,
            _Kind.BATCH_END: self._batch_end,
            _Kind.MESSAGE: self._message,
            _Kind.OBSERVE: self._observe,
            _Kind.TICK: self._tick,
            _Kind.READY: self._ready,
        }
        while self._events and self._events[0][0] < self._settings.seconds:
            now, kind, _, what = heapq.heappop(self._events)
            self._feeds.draw_until(now)
            handlers[kind](now, what)
            if progress is not None:
                progress(now)
        return self._result()

    # --- what happens ---------------------------------------------------------------------

    def _ready(self, now: float, what: object) -> None:
        job = self._jobs[str(what)]
        if job.state is not JobState.IDLE or not self._fits_memory(job.job.node, now):
            return
        if not job.take(now):
            self._schedule(
                now + (self._settings.period_seconds or _POLL_SECONDS), _Kind.READY, what
            )
            return
        taken = job.taken or {}
        event = BatchStarted(
            self._coordination.clock.shows(now),
            job.job.name,
            job.batch,
            {gate: len(tuples) for gate, tuples in taken.items()},
            _mean_age(taken, now) if self._settings.reports_waiting_age else None,
        )
        self._carry_out(self._coordination.tell_about(job.job.name, event), now)

    def _carry_out(self, answers: list[BatchAnswer], now: float) -> None:
        """Start the batches that may run, and send what is to be sent."""
        for answer in answers:
            job = self._jobs.get(answer.job)
            if job is None or job.state is not JobState.ASKED or job.batch != answer.batch:
                continue
            standing = self._coordination.standing
            split_keep = {a.name: standing.get((job.job.name, a.name), 1.0) for a in job.job.splits}
            batch = job.start(now, answer.keep_fraction, split_keep)
            self._processors[job.job.node].start(job.job.name, batch.work_seconds, now)
            self._expect_end(job.job.node)
        delay = self._settings.link_delay_seconds
        for message in self._coordination.outbox:
            self._schedule(now + delay, _Kind.MESSAGE, message)
        self._coordination.outbox.clear()

    def _batch_end(self, now: float, what: object) -> None:
        node, version = what if isinstance(what, tuple) else ("", -1)
        processor = self._processors[node]
        due = processor.next_end()
        if processor.version != version or due is None:
            return
        job = self._jobs[due[1]]
        processor.finish(due[1], now)
        self._expect_end(node)
        batch = job.end(now, now >= self._settings.warm_up_seconds)
        self._send_results(job, batch, now)
        answers = self._report(job, batch, now)
        trigger = self._settings.period_seconds
        due_at = batch.started_seconds + trigger
        if trigger > 0.0:  # triggers are multiples of the interval, as Spark's are
            due_at = trigger * (math.floor(batch.started_seconds / trigger + 1e-9) + 1)
        job.ready_seconds = due_at
        self._schedule(max(now, due_at), _Kind.READY, job.job.name)
        self._carry_out(answers, now)

    def _send_results(self, job: BatchJob, batch: RunningBatch, now: float) -> None:
        for arc in job.job.outputs:
            rows = batch.passage.outputs[arc.name]
            if arc.target in self._network.query_by_name:
                counts = now >= self._settings.warm_up_seconds
                self._book.results(arc.target, now - rows.origin, counts)
            else:
                sent = self._links.arrival_times(arc, np.full(len(rows), now))
                self._queues[arc.name].put(Tuples(sent, rows.origin))
        for gate, count in (*batch.counts.items(), *batch.passage.split_counts.items()):
            self._book.dropped(gate, count.dropped)

    def _report(self, job: BatchJob, batch: RunningBatch, now: float) -> list[BatchAnswer]:
        """Tell the coordinator, write the row, check the books."""
        clock, entered = self._coordination.clock, batch.entered()
        latency = LatencySummary.of(now - entered)
        seen = latency
        if clock.jumps:
            seen = LatencySummary.of(clock.latencies(entered, np.full(len(entered), now)))
        since, before = job.last_report
        arrived = job.arrived(now)
        job.last_report = (now, arrived)
        event = BatchCompleted(
            clock.shows(now),
            job.job.name,
            job.batch - 1,
            now - batch.started_seconds,
            now - batch.started_seconds,  # as on Spark: the server seconds of a batch are its time
            batch.counts,
            seen.mean_seconds,
            seen.percentiles,
            (arrived - before) / (now - since) if now > since else None,
            scheduling_delay_seconds=max(0.0, batch.started_seconds - job.ready_seconds),
        )
        answers = self._coordination.tell_about(job.job.name, event)
        splits = batch.passage.split_counts
        self._coordination.report_splits(job.job.name, job.batch - 1, now, splits)
        job.account(now)
        self._rows.append(_row(job, batch, now, arrived - before, latency))
        return answers

    def _observe(self, now: float, _: object) -> None:
        seconds = self._settings.observe_seconds
        rates: dict[str, float] = {}
        for name, queue in self._queues.items():
            arrived = queue.arrived(now)
            rates[name] = (arrived - self._observed[name]) / seconds
            self._observed[name] = arrived
        for coordinator in self._coordination.names:
            seen = self._seen_by(coordinator, rates)
            event = RatesObserved(self._coordination.clock.shows(now), seen)
            self._carry_out(self._coordination.tell(coordinator, event), now)
        self._schedule(now + seconds, _Kind.OBSERVE, None)

    def _seen_by(self, coordinator: str, rates: Mapping[str, float]) -> dict[str, float]:
        """The central coordinator sees streams, a node's its own inputs."""
        network = self._network
        if self._settings.planning is Planning.CENTRAL:
            return {
                s.name: rates[network.arcs_from[s.name][0].name]
                for s in network.streams
                if network.arcs_from[s.name] and network.arcs_from[s.name][0].name in rates
            }
        mine = self._on_node[coordinator]
        return {name: rates[name] for job in mine for name in job.queues}

    def _message(self, now: float, what: object) -> None:
        if isinstance(what, NeighbourMessage):
            self._carry_out(self._coordination.deliver(what, now), now)

    def _tick(self, now: float, _: object) -> None:
        for coordinator in self._coordination.names:
            event = Tick(self._coordination.clock.shows(now))
            self._carry_out(self._coordination.tell(coordinator, event), now)
        self._schedule_tick(now)

    def _fail(self, now: float, what: object) -> None:
        node = str(what)
        if node in self._dead:
            return
        self._stop(node, now, FailureCause.GIVEN)

    def _recover(self, now: float, what: object) -> None:
        for job in self._on_node[str(what)]:
            if job.state is JobState.DOWN and str(what) not in self._dead:
                job.move(JobState.IDLE)
                self._schedule(now, _Kind.READY, job.job.name)

    def _stop(self, node: str, now: float, cause: FailureCause) -> None:
        self._nodes[node].failures.append((now, cause))
        self._processors[node].stop_all(now)
        for job in self._on_node[node]:
            if job.state is not JobState.DOWN:
                job.fail()

    def _fits_memory(self, node: str, now: float) -> bool:
        """True unless the node is out of memory; then it stops, at the tuple that was too many."""
        limit = self._settings.memory_tuples
        if limit is None:
            return True
        held = sum(job.held(now) for job in self._on_node[node])
        if held <= limit:
            return True
        in_hand = sum(job.in_hand for job in self._on_node[node])
        waiting = [queue.entered() for job in self._on_node[node] for queue in job.queues.values()]
        times = np.sort(np.concatenate(waiting))
        at = float(times[max(0, limit - in_hand)]) if len(times) else now
        self._dead.add(node)
        self._stop(node, now, FailureCause.MEMORY)
        self._nodes[node].failures[-1] = (at, FailureCause.MEMORY)
        return False

    # --- time -----------------------------------------------------------------------------

    def _schedule(self, at: float, kind: _Kind, what: object) -> None:
        heapq.heappush(self._events, (at, int(kind), next(self._order), what))

    def _expect_end(self, node: str) -> None:
        processor = self._processors[node]
        due = processor.next_end()
        if due is not None:
            self._schedule(due[0], _Kind.BATCH_END, (node, processor.version))

    def _schedule_tick(self, now: float) -> None:
        classes = self._settings.classes
        if classes is not None:
            self._schedule(
                now + min(classes.cycle_seconds, classes.grace_seconds), _Kind.TICK, None
            )

    def _schedule_beginning(self) -> None:
        for name in self._jobs:
            first = self._settings.period_seconds or _POLL_SECONDS
            self._schedule(first, _Kind.READY, name)
        if self._coordination.plans:
            self._schedule(self._settings.observe_seconds, _Kind.OBSERVE, None)
        self._schedule_tick(0.0)
        for failure in self._settings.failures:
            self._schedule(failure.at_seconds, _Kind.FAIL, failure.node)
            self._schedule(failure.at_seconds + failure.for_seconds, _Kind.RECOVER, failure.node)

    def _result(self) -> SimulationResult:
        seconds = self._settings.seconds
        self._feeds.draw_until(seconds)
        for name, processor in self._processors.items():
            processor.settle(seconds)
            self._nodes[name].busy_seconds = processor.busy_seconds
        for job in self._jobs.values():
            job.account(seconds)
        coordination = self._coordination
        return SimulationResult(
            self._settings,
            seconds,
            self._rows,
            {name: job.outcome for name, job in self._jobs.items()},
            self._book.queries,
            self._nodes,
            coordination.alarms,
            coordination.decisions,
            coordination.messages,
            coordination.ledger_balances,
            coordination.ledger_totals(),
            coordination.lines,
        )


def _mean_age(taken: Mapping[str, Tuples], now: float) -> float | None:
    entered = np.concatenate([np.empty(0), *(tuples.entered for tuples in taken.values())])
    return float(now - entered.mean()) if len(entered) else None


def _row(
    job: BatchJob, batch: RunningBatch, now: float, arrived: int, latency: LatencySummary
) -> PeriodRow:
    return PeriodRow(
        now,
        job.job.name,
        job.batch - 1,
        now - batch.started_seconds,
        batch.work_seconds,
        arrived,
        batch.offered,
        batch.kept_count,
        batch.offered - batch.kept_count,
        batch.kept_count,
        job.outcome.waiting,
        batch.kept_count / batch.offered if batch.offered else 1.0,
        latency.mean_seconds,
        latency.p95_seconds,
        latency.largest_seconds,
    )
