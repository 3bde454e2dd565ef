"""A simulation with an input buffer on each node, in steps of the control period.

In each period every node, in the order of flow, takes what arrived, serves its buffer,
and at the end asks what to keep and thins it. Looking at the tuples takes server time
at the beginning of the next period, while the buffer is locked.

A node that fails loses its buffer, and what arrives until it is back. A node that runs
out of memory fails for good.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from headgate.coordinator import BatchCompleted, BatchStarted, GateCount, RatesObserved
from headgate.coordinator.events import NeighbourMessage
from headgate.network import Network
from headgate.simulation.arrivals import Arrivals
from headgate.simulation.coordination import Coordination
from headgate.simulation.feeds import Feeds
from headgate.simulation.input_buffer import InputBuffer, Served
from headgate.simulation.jobs import Job, jobs_of
from headgate.simulation.latency_histogram import LatencySummary
from headgate.simulation.links import Links
from headgate.simulation.passage import PassageState, Rows, pass_through
from headgate.simulation.record import (
    FailureCause,
    JobOutcome,
    NodeOutcome,
    PeriodRow,
    SimulationResult,
)
from headgate.simulation.results import ResultBook
from headgate.simulation.settings import Planning, SimulationSettings
from headgate.simulation.tuples import ArcQueue, Tuples

__all__ = ["BufferSimulation"]

Floats = NDArray[np.float64]


class _BufferNode:
    """One node: its job, its buffer, and the last shedding."""

    def __init__(self, job: Job, capacity: float, seed: int, number: int) -> None:
        self.job = job
        self.gates = [arc.name for arc in job.inputs]
        self.buffer = InputBuffer(self.gates, [job.cost_of_input[g] / capacity for g in self.gates])
        self.outcome = JobOutcome(job.name, job.node, job.target_seconds)
        self.rng = np.random.default_rng((seed, number))
        self.passage_state = PassageState()
        self.shed = {gate: GateCount(0, 0, 0) for gate in self.gates}
        self.keep_fraction = 1.0
        self.split_counts: dict[str, GateCount] = {}
        self.dead = False
        self.is_down = False


class BufferSimulation:
    """One run. Build it, call `run` once."""

    def __init__(
        self, network: Network, load: Mapping[str, Arrivals], settings: SimulationSettings
    ) -> None:
        self._network, self._settings = network, settings
        jobs = jobs_of(network, settings.service, settings.latency_target_seconds)
        capacity = {node.name: node.capacity for node in network.nodes}
        self._nodes = [
            _BufferNode(job, capacity[job.node], settings.seed, number)
            for number, job in enumerate(jobs)
        ]
        self._queues = {arc.name: ArcQueue() for job in jobs for arc in job.inputs}
        self._feeds = Feeds(network, load, self._queues, settings.seed, settings.seconds)
        self._coordination = Coordination(network, jobs, settings)
        self._links = Links(network, settings.link_delay_seconds)
        self._outcomes = {n.name: NodeOutcome(n.name, n.capacity) for n in network.nodes}
        self._book = ResultBook(network, settings.latency_target_seconds)
        self._rows: list[PeriodRow] = []
        self._mail: list[tuple[float, int, NeighbourMessage]] = []
        self._order = itertools.count()
        self._observed: dict[str, int] = dict.fromkeys(self._queues, 0)
        self._observed_seconds = 0.0

    def run(self, progress: Callable[[float], None] | None = None) -> SimulationResult:
        period = self._settings.period_seconds
        periods = max(1, round(self._settings.seconds / period))
        for number in range(periods):
            start, end = number * period, (number + 1) * period
            self._feeds.draw_until(end)
            for node in self._nodes:
                self._period(node, number, start, end)
            self._observe(end)
            if progress is not None:
                progress(end)
        return self._result(periods * period)

    # --- one node, one period ---------------------------------------------------------------

    def _period(self, node: _BufferNode, number: int, start: float, end: float) -> None:
        arrived = self._receive(node, end)
        if node.dead or self._down_now(node, start, end):
            node.outcome.lost += node.buffer.clear()
            self._account(node)
            return
        factor = self._factor(node, start)
        served, busy = node.buffer.serve(start, end, factor)
        self._outcomes[node.job.node].busy_seconds += (
            busy * self._network.node_by_name[node.job.node].capacity
        )
        for part in served:
            self._send_results(node, part)
        node.outcome.processed += sum(map(len, served))
        self._report_and_ask(node, number, end, served, busy, arrived)
        self._account(node)

    def _receive(self, node: _BufferNode, end: float) -> int:
        """Tuples that reached the node in this period."""
        taken = [self._queues[gate].take(end) for gate in node.gates]
        arrived = sum(map(len, taken))
        node.outcome.arrived += arrived
        limit = self._settings.memory_tuples
        if limit is not None and not node.dead and node.buffer.waiting + arrived > limit:
            entered = np.sort(np.concatenate([tuples.entered for tuples in taken]))
            at = float(entered[max(0, limit - node.buffer.waiting)])
            self._outcomes[node.job.node].failures.append((at, FailureCause.MEMORY))
            node.dead = True
        node.buffer.put([(tuples.entered, tuples.origin) for tuples in taken])
        return arrived

    def _down_now(self, node: _BufferNode, start: float, end: float) -> bool:
        """A failure that touches a period takes the whole period."""
        name = node.job.node
        down = any(
            f.node == name and f.at_seconds < end and f.at_seconds + f.for_seconds > start
            for f in self._settings.failures
        )
        if down and not node.is_down:
            at = next(f.at_seconds for f in self._settings.failures if f.node == name)
            self._outcomes[name].failures.append((max(at, start), FailureCause.GIVEN))
        node.is_down = down
        return down

    def _factor(self, node: _BufferNode, start: float) -> float:
        costs = self._settings.costs
        noise = max(0.2, 1.0 + costs.noise * node.rng.standard_normal()) if costs.noise else 1.0
        return noise * costs.factor_at(start)

    def _send_results(self, node: _BufferNode, served: Served) -> None:
        job = node.job
        counts = served.done[0] >= self._settings.warm_up_seconds
        if counts:
            node.outcome.latency.add(served.done - served.entered)
        inputs = {}
        for number, gate in enumerate(node.gates):
            if len(node.gates) == 1:
                inputs[gate] = Rows(served.origin, served.done)
            else:
                mine = served.gate == number
                inputs[gate] = Rows(served.origin[mine], served.done[mine])
        standing = self._coordination.standing
        split_keep = {a.name: standing.get((job.name, a.name), 1.0) for a in job.splits}
        passage = pass_through(job, inputs, split_keep, node.passage_state, node.rng)
        for arc in job.outputs:
            rows = passage.outputs[arc.name]
            if arc.target in self._network.query_by_name:
                self._book.results(arc.target, rows.done - rows.origin, counts)
            else:
                sent = self._links.arrival_times(arc, rows.done)
                self._queues[arc.name].put(Tuples(sent, rows.origin))
        for gate, count in passage.split_counts.items():
            self._book.dropped(gate, count.dropped)
            known = node.split_counts.get(gate, GateCount(0, 0, 0))
            node.split_counts[gate] = GateCount(
                known.offered + count.offered,
                known.kept + count.kept,
                known.dropped + count.dropped,
            )

    def _report_and_ask(
        self,
        node: _BufferNode,
        number: int,
        end: float,
        served: list[Served],
        busy: float,
        arrived: int,
    ) -> None:
        period, coordination = self._settings.period_seconds, self._coordination
        clock, job = coordination.clock, node.job
        latency = _summary([part.done - part.entered for part in served])
        seen = latency
        if clock.jumps:
            seen = _summary([clock.latencies(part.entered, part.done) for part in served])
        now = clock.shows(end)
        completed = BatchCompleted(
            now,
            job.name,
            number,
            period,
            busy,
            dict(node.shed),
            seen.mean_seconds,
            seen.percentiles,
            arrived / period,
            seen.count,
        )
        coordination.tell_about(job.name, completed)
        coordination.report_splits(job.name, number, end, node.split_counts)
        node.split_counts = {}
        self._rows.append(_row(node, number, end, period, busy, arrived, latency))
        age = node.buffer.mean_age(end) if self._settings.reports_waiting_age else None
        started = BatchStarted(now, job.name, number + 1, node.buffer.counts(), age)
        answers = coordination.tell_about(job.name, started)
        keep = next((a.keep_fraction for a in answers if a.job == job.name), {})
        self._shed(node, keep, end)
        self._post(end)

    def _shed(self, node: _BufferNode, keep: Mapping[str, float], end: float) -> None:
        costs, buffer = self._settings.costs, node.buffer
        looked_at = buffer.waiting
        node.shed = buffer.thin(keep, node.rng)
        node.keep_fraction = buffer.waiting / looked_at if looked_at else 1.0
        for gate, count in node.shed.items():
            node.outcome.dropped += count.dropped
            self._book.dropped(gate, count.dropped)
        capacity = self._network.node_by_name[node.job.node].capacity
        looking = costs.looking_seconds * looked_at * costs.factor_at(end) / capacity
        buffer.free_at_seconds = max(buffer.free_at_seconds, end) + looking

    def _account(self, node: _BufferNode) -> None:
        node.outcome.waiting = node.buffer.waiting
        node.outcome.check()

    # --- plans ------------------------------------------------------------------------------

    def _observe(self, now: float) -> None:
        """Rates for whoever plans, and the mail that has arrived."""
        coordination = self._coordination
        while self._mail and self._mail[0][0] <= now:
            coordination.deliver(heapq.heappop(self._mail)[2], now)
            self._post(now)
        elapsed = now - self._observed_seconds
        if not coordination.plans or elapsed < self._settings.observe_seconds * (1 - 1e-9):
            return
        self._observed_seconds = now
        rates: dict[str, float] = {}
        for name, queue in self._queues.items():
            arrived = queue.arrived(now)
            rates[name] = (arrived - self._observed[name]) / elapsed
            self._observed[name] = arrived
        for coordinator in coordination.names:
            event = RatesObserved(coordination.clock.shows(now), self._seen_by(coordinator, rates))
            coordination.tell(coordinator, event)
            self._post(now)

    def _seen_by(self, coordinator: str, rates: Mapping[str, float]) -> dict[str, float]:
        network = self._network
        if self._settings.planning is Planning.CENTRAL:
            return {
                s.name: rates[network.arcs_from[s.name][0].name]
                for s in network.streams
                if network.arcs_from[s.name]
            }
        return {
            g: rates[g] for node in self._nodes if node.job.node == coordinator for g in node.gates
        }

    def _post(self, now: float) -> None:
        """Messages of the coordinators leave, and arrive after the delay of a link."""
        for message in self._coordination.outbox:
            at = now + self._settings.link_delay_seconds
            heapq.heappush(self._mail, (at, next(self._order), message))
        self._coordination.outbox.clear()

    def _result(self, seconds: float) -> SimulationResult:
        coordination = self._coordination
        return SimulationResult(
            self._settings,
            seconds,
            self._rows,
            {node.job.name: node.outcome for node in self._nodes},
            self._book.queries,
            self._outcomes,
            coordination.alarms,
            coordination.decisions,
            coordination.messages,
            coordination.ledger_balances,
            coordination.ledger_totals(),
            coordination.lines,
        )


def _summary(parts: list[Floats]) -> LatencySummary:
    if len(parts) == 1:
        return LatencySummary.of(parts[0])
    return LatencySummary.of(np.concatenate([np.empty(0), *parts]))


def _row(
    node: _BufferNode,
    number: int,
    end: float,
    period: float,
    busy: float,
    arrived: int,
    latency: LatencySummary,
) -> PeriodRow:
    offered = sum(count.offered for count in node.shed.values())
    kept = sum(count.kept for count in node.shed.values())
    return PeriodRow(
        end,
        node.job.name,
        number,
        period,
        busy,
        arrived,
        offered,
        kept,
        offered - kept,
        latency.count,
        node.buffer.waiting,
        node.keep_fraction,
        latency.mean_seconds,
        latency.p95_seconds,
        latency.largest_seconds,
    )
