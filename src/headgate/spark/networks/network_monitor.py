"""What a running network shows of itself: rates, selectivities, costs, capacity. No pyspark.

Told of every batch, it answers with what the planner should know. Costs are in task seconds:
the time for which a tuple keeps a core busy. The capacity is what the application gets done in
task seconds per second: of the cores' time, what is left when Spark has planned and committed a
batch in every period (see `Group.period_seconds`).

Guarantees: memory is bounded. The first batch of a query teaches nothing but rates: it compiles
code and starts processes. Not guaranteed: the cost of operators that always see the same share
of tuples; see `control.operator_costs`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from headgate.control import OperatorCosts, RateForecast
from headgate.coordinator import RatesObserved
from headgate.network import Arc, Network, Operator, OperatorKind, OperatorStatistics
from headgate.planning.guarantees import gate_floors
from headgate.spark.agent.progress import BatchReport
from headgate.spark.networks.batch_length import BatchLength
from headgate.spark.networks.decided_share import decided_share
from headgate.spark.networks.network_groups import NODE, Group, RunningNetwork

__all__ = ["BatchSeen", "GroupMonitor", "NetworkMonitor"]

_UNKNOWN_COST_SECONDS = 1e-5
_MOST_OF_CORES = 0.97
_LEAST_OF_CORES = 0.05
_MOVED = 0.02
_FIRST_PROBE = 2  # batches
_WAIT_BATCHES = 10
_COUNT_MEMORY = 0.9  # of a batch to the next, for selectivities
_MOST_SCALE = 4.0  # of a single batch against what is known


@dataclass(frozen=True, slots=True)
class BatchSeen:
    """One batch as the monitor understood it.

    offered: tuples of each stream; delivered: of each query. busy_seconds: of tasks, None where
    Spark did not say; predicted_seconds: the same, from what was known when the batch began.
    tuple_seconds: the part of it that tuples took. measured: the operators of the group, with costs
    that make exactly these seconds of the tuples of the batch. capacity: what all groups could use
    together.
    """

    group: str
    end_seconds: float
    duration_seconds: float
    offered: Mapping[str, int]
    delivered: Mapping[str, int]
    busy_seconds: float | None
    predicted_seconds: float | None
    latency_seconds: float | None
    learnt: bool
    tuple_seconds: float
    measured: Mapping[str, OperatorStatistics]
    capacity: float


@dataclass
class GroupMonitor:
    """One group: what is known of its operators and of its batches."""

    network: Network
    group: Group
    cores: int
    believed: Mapping[str, float]
    batches: int = 0
    counts: dict[str, tuple[float, float]] = field(default_factory=dict)  # in, out; fading
    forecasts: dict[str, RateForecast] = field(default_factory=dict)  # by stream
    expected: dict[str, float] = field(default_factory=dict)  # what they say of the next batch
    last: BatchReport | None = None

    def __post_init__(self) -> None:
        self.costs = OperatorCosts({name: self.believed[name] for name in self.group.operators})
        self.length = BatchLength(self.cores)

    def capacity(self) -> float:
        """Task seconds per second with one batch in each period; half of the time at least."""
        # Where a batch of nothing takes most of the period, dropping does not help: batches will
        # be late whatever is kept, so they may as well be longer.
        period = max(self.group.period_seconds, 2.0 * self.length.fixed_seconds)
        in_tasks = (period - self.length.fixed_seconds) / self.length.seconds_per_task_second
        return (in_tasks - self.costs.fixed_seconds) / period

    def probes(self) -> dict[str, float]:
        """Most that gates behind splits may keep in the next batch; 1 lifts the limit.

        Branches that always get the same tuples cannot be told apart. Where the file does not say
        what they cost, each branch gets half of its tuples in two of the first batches. Branches
        that a query with a guarantee is behind are left alone.
        """
        operators = self.network.operator_by_name
        if all(operators[name].cost_seconds is not None for name in self.group.operators):
            return {}
        own, owed = set(self.group.operators), gate_floors(self.network)
        behind = [
            a.name
            for a in self.network.drop_locations
            if a.source in own and a.target in own and not owed.get(a.name)
        ]
        turn = self.batches - _FIRST_PROBE
        if not 0 <= turn <= 2 * len(behind):
            return {}
        return {gate: 0.5 if turn // 2 == place else 1.0 for place, gate in enumerate(behind)}

    def statistics(self) -> dict[str, OperatorStatistics]:
        cost = self.costs.cost_seconds
        return {
            name: self._statistics(self.network.operator_by_name[name], cost[name])
            for name in self.group.operators
        }

    def as_measured(
        self, came: Mapping[str, float], busy_seconds: float | None
    ) -> tuple[float, dict[str, OperatorStatistics]]:
        """What the tuples of a batch took, and the operators with costs to that sum.

        came: tuples into each operator. What is known was smoothed over batches; this one may have
        been faster or slower, and all of its operators with it.
        """
        expected = self.costs.seconds(came) - self.costs.fixed_seconds
        scale = 1.0
        if busy_seconds is not None and expected > 0.0:
            scale = (busy_seconds - self.costs.fixed_seconds) / expected
            scale = min(max(scale, 1.0 / _MOST_SCALE), _MOST_SCALE)
        return scale * expected, {
            name: replace(numbers, cost_seconds=scale * (numbers.cost_seconds or 0.0))
            for name, numbers in self.statistics().items()
        }

    def gain(self, name: str) -> float | None:
        """Tuples out for a tuple in, where any came in."""
        come, gone = self.counts.get(name, (0.0, 0.0))
        return gone / come if come > 0.0 else None

    def _statistics(self, operator: Operator, cost: float) -> OperatorStatistics:
        gain = self.gain(operator.name)
        if operator.kind is not OperatorKind.JOIN:
            given = operator.selectivity
            usual = 1.0 if given is None else given
            return OperatorStatistics(cost, usual if gain is None else gain)
        windows = operator.window_tuples or (1.0,) * len(operator.inputs)
        if gain is None:
            return OperatorStatistics(cost, operator.selectivity or 1.0, windows)
        met = 0.0
        for place in range(len(windows)):
            others = 1.0
            for other, window in enumerate(windows):
                others *= 1.0 if other == place else window
            met += others / len(windows)
        return OperatorStatistics(cost, gain / met if met > 0.0 else gain, windows)

    def entering(self, report: BatchReport, flows: Mapping[str, int]) -> dict[str, float]:
        """Tuples into each operator in this batch, as counted; learns what passes."""
        came: dict[str, float] = {}
        for name in self.group.operators:
            operator = self.network.operator_by_name[name]
            came[name] = sum(
                self._counted(Arc(source, name), report, flows) for source in operator.inputs
            )
            gone = self._out_of(name, report, flows)
            before = self.counts.get(name, (0.0, 0.0))
            self.counts[name] = (
                _COUNT_MEMORY * before[0] + came[name],
                _COUNT_MEMORY * before[1] + gone,
            )
        return came

    def delivered(self, report: BatchReport, flows: Mapping[str, int]) -> dict[str, int]:
        return {
            q.name: int(self._counted(Arc(q.input, q.name), report, flows))
            for q in self.group.queries
        }

    def predicted(self, report: BatchReport) -> dict[str, float] | None:
        """Tuples into each operator, as they could be known when the batch began.

        What arrives at the rates that were forecast after the batch before, for as long as it has
        been since that one began, at gates and operators that do as decided and as known. None
        before a forecast.
        """
        if self.last is None or not self.expected:
            return None
        seconds = max(0.0, report.start_seconds - self.last.start_seconds)
        return self._reaching(
            lambda arc: self.expected.get(arc.source, 0.0) * seconds,
            lambda arc: decided_share(report, arc.name),
        )

    def demand(self, rates: Mapping[str, float]) -> float:
        """Task seconds per second if nothing is dropped; as much as you like where a rate is
        unknown.
        """
        came = self._reaching(lambda arc: rates.get(arc.source, math.inf), lambda _: 1.0)
        cost = self.costs.cost_seconds
        return sum(cost[name] * tuples for name, tuples in came.items())

    def _reaching(
        self, offered: Callable[[Arc], float], share: Callable[[Arc], float]
    ) -> dict[str, float]:
        """Tuples into each operator; offered: by streams, share: what passes on an arc."""
        out: dict[str, float] = {}
        came: dict[str, float] = {}
        for name in self.group.operators:
            total = 0.0
            for source in self.network.operator_by_name[name].inputs:
                arc = Arc(source, name)
                is_stream = source in self.network.stream_by_name
                total += (offered(arc) if is_stream else out[source]) * share(arc)
            came[name] = total
            gain = self.gain(name)
            out[name] = total if gain is None else total * gain if gain > 0.0 else 0.0
        return came

    def _counted(self, arc: Arc, report: BatchReport, flows: Mapping[str, int]) -> float:
        seen = report.gates.get(arc.name)
        if seen is not None:
            return float(seen.kept)
        return float(flows.get(arc.source, 0))

    def _out_of(self, name: str, report: BatchReport, flows: Mapping[str, int]) -> float:
        if name in flows:
            return float(flows[name])
        for arc in self.network.arcs_from[name]:
            if arc.name in report.gates:
                return float(report.gates[arc.name].offered)
        return 0.0


class NetworkMonitor:
    """All groups of a running network.

    rates: of the streams, as measured; expected_rates: in the next batch. Tuples per second.
    """

    def __init__(self, running: RunningNetwork, cores: int) -> None:
        self.running, self.cores = running, cores
        self.rates: dict[str, float] = {}
        self.expected_rates: dict[str, float] = {}
        described = [
            o.cost_seconds for o in running.network.operators if o.cost_seconds is not None
        ]
        usual = sum(described) / len(described) if described else 0.0
        usual = usual or _UNKNOWN_COST_SECONDS
        believed = {
            o.name: usual if o.cost_seconds is None else max(o.cost_seconds, 1e-9)
            for o in running.network.operators
        }
        self.groups = {
            group.name: GroupMonitor(running.network, group, cores, believed)
            for group in running.groups
        }
        self._told: dict[str, OperatorStatistics] = {}
        self._told_capacity: float | None = None

    def follow_cores(self, cores: int) -> None:
        """So many cores are there now: executors have come or gone."""
        self.cores = cores
        for group in self.groups.values():
            group.length.follow(cores)

    def capacity(self) -> float:
        """Task seconds per second that get done if all groups have enough to do."""
        return self._within_cores(sum(self._capacities().values()))

    def usable_capacity(self) -> float:
        """The same at the rates that are expected.

        The batches of a group come one after the other, so a group that is asked for more than it
        can do cannot use what another leaves.
        """
        most = self._capacities()
        asked = {name: group.demand(self.expected_rates) for name, group in self.groups.items()}
        if all(asked[name] <= most[name] for name in most):
            return self.capacity()
        return self._within_cores(sum(min(asked[name], most[name]) for name in most))

    def _capacities(self) -> dict[str, float]:
        return {name: max(0.0, group.capacity()) for name, group in self.groups.items()}

    def _within_cores(self, seconds: float) -> float:
        return min(max(seconds, _LEAST_OF_CORES * self.cores), _MOST_OF_CORES * self.cores)

    def statistics(self) -> dict[str, OperatorStatistics]:
        return {
            name: numbers
            for group in self.groups.values()
            for name, numbers in group.statistics().items()
        }

    def observe(
        self,
        group: str,
        report: BatchReport,
        flows: Mapping[str, int],
        busy_seconds: float | None,
    ) -> BatchSeen:
        """Take in one batch."""
        own = self.groups[group]
        learns = own.batches > 0 and busy_seconds is not None
        predicted = None
        reaching = own.predicted(report)  # before anything is learnt from the batch
        if learns and own.costs.observations and reaching is not None:
            predicted = own.costs.seconds(reaching)
        self._observe_rates(own, report)
        own.batches += 1
        came = own.entering(report, flows)
        if learns and busy_seconds is not None:
            own.costs.observe(came, busy_seconds)
            own.length.observe(busy_seconds, report.duration_seconds)
        own.last = report
        tuple_seconds, measured = own.as_measured(came, busy_seconds)
        return BatchSeen(
            group,
            report.end_seconds,
            report.duration_seconds,
            self._offered(report),
            own.delivered(report, flows),
            busy_seconds,
            predicted,
            report.latency_mean_seconds(),
            learns,
            tuple_seconds,
            measured,
            self.usable_capacity(),
        )

    def news(self, now_seconds: float) -> RatesObserved | None:
        """What the planner should know; None as long as a rate or a cost is unknown.

        A group that has no batch yet is waited for while the others run their first ten.
        """
        learnt = [group.costs.observations for group in self.groups.values()]
        if min(learnt) == 0 and max(learnt) < _WAIT_BATCHES:
            return None
        rates: dict[str, float] = {}
        for stream in self.running.network.streams:
            rate = self.expected_rates.get(stream.name, stream.rate_per_second)
            if rate is None:
                return None
            rates[stream.name] = rate
        fresh = {
            name: numbers
            for name, numbers in self.statistics().items()
            if _moved(self._told.get(name), numbers)
        }
        self._told |= fresh
        capacity, told = self.usable_capacity(), self._told_capacity
        if told is None or abs(capacity - told) > _MOVED * told:
            self._told_capacity = capacity
        return RatesObserved(
            now_seconds, rates, fresh, capacities={NODE: self._told_capacity or capacity}
        )

    def _observe_rates(self, own: GroupMonitor, report: BatchReport) -> None:
        by_gate = report.arrival_rates(own.last)
        for stream in self.running.network.streams:
            seen = [
                by_gate[arc.name]
                for arc in self.running.network.arcs_from[stream.name]
                if arc.name in by_gate
            ]
            if seen:
                if own.batches <= 1:  # while a query starts, a rate says little of the next
                    own.forecasts.pop(stream.name, None)
                forecast = own.forecasts.setdefault(stream.name, RateForecast())
                expected = forecast.observe(max(seen), own.group.period_seconds)
                self.expected_rates[stream.name] = own.expected[stream.name] = expected
                self.rates[stream.name] = forecast.level

    def _offered(self, report: BatchReport) -> dict[str, int]:
        """Tuples of each stream; every arc of a stream is offered all of them."""
        offered: dict[str, int] = {}
        for stream in self.running.network.streams:
            for arc in self.running.network.arcs_from[stream.name]:
                if arc.name in report.gates:
                    offered[stream.name] = report.gates[arc.name].offered
                    break
        return offered


def _moved(told: OperatorStatistics | None, now: OperatorStatistics) -> bool:
    if told is None:
        return True
    pairs = ((told.cost_seconds, now.cost_seconds), (told.selectivity, now.selectivity))
    return any(abs((new or 0.0) - (old or 0.0)) > _MOVED * abs(old or 1e-12) for old, new in pairs)
