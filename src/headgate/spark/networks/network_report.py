"""How a network did: counts, latency, the score beside the best possible one. No pyspark.

The best score is computed afterwards, with the mean costs, selectivities and capacity of the
time that is counted: the exact planner solves every stretch of time again, with what was offered
in it. So it knows what the planner at work had to find out first.

Memory is bounded: stretches of time are joined when there are more than 2,000.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headgate.errors import HeadgateError
from headgate.network import Network, OperatorStatistics, Statistics
from headgate.planning import ExactPlanner
from headgate.spark.networks.network_monitor import BatchSeen

__all__ = ["NetworkRecord", "NetworkReport", "QueryFigures"]

_STRETCH_SECONDS = 1.0
_MOST_STRETCHES = 2000


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """One query of the network. Latency is of the Spark query that it is part of."""

    name: str
    delivered: int
    per_second: float
    weight: float
    latency_seconds: float | None
    latency_target_seconds: float | None


@dataclass(frozen=True)
class NetworkReport:
    """The figures of a run; None where nothing was measured.

    best_score:  weighted tuples per second of the best plan, from what was measured.
    predicted_load, measured_load: task seconds per second, over the same batches.
    gates:       offered, kept and dropped at each gate, by group and gate.
    """

    network: str
    seconds: float
    queries: tuple[QueryFigures, ...]
    gates: Mapping[str, Mapping[str, tuple[int, int, int]]]
    drops: Mapping[str, str]
    score: float | None
    best_score: float | None
    predicted_load: float | None
    measured_load: float | None
    capacity: float
    rates: Mapping[str, float]
    alarms: tuple[str, ...] = ()

    @property
    def of_best(self) -> float | None:
        """The score as a share of the best one."""
        if self.score is None or not self.best_score:
            return None
        return self.score / self.best_score

    @property
    def load_error(self) -> float | None:
        """How far the predicted load is off, as a share of the measured one."""
        if self.predicted_load is None or not self.measured_load:
            return None
        return self.predicted_load / self.measured_load - 1.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "network": self.network,
            "seconds": self.seconds,
            "queries": {
                q.name: {
                    "delivered": q.delivered,
                    "per_second": q.per_second,
                    "weight": q.weight,
                    "latency_seconds": q.latency_seconds,
                    "latency_target_seconds": q.latency_target_seconds,
                }
                for q in self.queries
            },
            "gates": {
                group: {
                    gate: {
                        "offered": offered,
                        "kept": kept,
                        "dropped": dropped,
                        "drop": self.drops.get(gate, "random"),
                    }
                    for gate, (offered, kept, dropped) in gates.items()
                }
                for group, gates in self.gates.items()
            },
            "score": self.score,
            "best_score": self.best_score,
            "score_of_best": self.of_best,
            "predicted_load": self.predicted_load,
            "measured_load": self.measured_load,
            "load_error": self.load_error,
            "capacity": self.capacity,
            "rates_per_second": dict(self.rates),
            "alarms": list(self.alarms),
        }


@dataclass
class _Stretch:
    seconds: float
    offered: dict[str, float]

    def joined(self, other: _Stretch) -> _Stretch:
        names = {**self.offered, **other.offered}
        offered = {n: self.offered.get(n, 0.0) + other.offered.get(n, 0.0) for n in names}
        return _Stretch(self.seconds + other.seconds, offered)


@dataclass
class NetworkRecord:
    """Adds up the batches. `reader` is the group whose count of a stream is taken."""

    network: Network
    reader: Mapping[str, str]
    groups: tuple[str, ...]
    warm_up_batches: int = 1
    delivered: dict[str, int] = field(default_factory=dict)
    counted_delivered: dict[str, int] = field(default_factory=dict)
    latency: dict[str, tuple[float, float]] = field(default_factory=dict)  # sum, seconds
    predicted_seconds: float = 0.0
    measured_seconds: float = 0.0
    began: float | None = None
    last: float = 0.0
    _warm: dict[str, int] = field(default_factory=dict)
    _stretches: list[_Stretch] = field(default_factory=list)
    _offered: dict[str, float] = field(default_factory=dict)
    _stretch_began: float = 0.0
    _sums: dict[str, tuple[float, float]] = field(default_factory=dict)  # cost, selectivity
    _windows: dict[str, tuple[float, ...] | None] = field(default_factory=dict)
    _capacity_sum: float = 0.0
    _knowledge: int = 0

    @property
    def seconds(self) -> float:
        """Since all groups were warm."""
        return 0.0 if self.began is None else max(0.0, self.last - self.began)

    def add(self, seen: BatchSeen) -> None:
        """One batch. Figures count from the moment when every group is warm: costs are known,
        and Java has compiled what runs often."""
        for query, count in seen.delivered.items():
            self.delivered[query] = self.delivered.get(query, 0) + count
        if self.began is None:
            self._warm[seen.group] = self._warm.get(seen.group, 0) + int(seen.learnt)
            if all(self._warm.get(g, 0) >= self.warm_up_batches for g in self.groups):
                self.began = self.last = self._stretch_began = seen.end_seconds
            return
        self.last = max(self.last, seen.end_seconds)
        for query, count in seen.delivered.items():
            self.counted_delivered[query] = self.counted_delivered.get(query, 0) + count
        if seen.busy_seconds is not None and seen.predicted_seconds is not None:
            self.predicted_seconds += seen.predicted_seconds
            self.measured_seconds += seen.busy_seconds
        if seen.latency_seconds is not None:
            total, weight = self.latency.get(seen.group, (0.0, 0.0))
            self.latency[seen.group] = (
                total + seen.latency_seconds * seen.duration_seconds,
                weight + seen.duration_seconds,
            )
        self._add_offered(seen)

    def learn(self, statistics: Mapping[str, OperatorStatistics], capacity: float) -> None:
        """What was known after a batch; the best score goes by the mean over the time counted."""
        if self.began is None:
            return
        self._knowledge += 1
        self._capacity_sum += capacity
        for name, numbers in statistics.items():
            cost, selectivity = self._sums.get(name, (0.0, 0.0))
            self._sums[name] = (
                cost + (numbers.cost_seconds or 0.0),
                selectivity + (numbers.selectivity or 0.0),
            )
            self._windows[name] = numbers.window_tuples

    def _mean_network(self) -> tuple[Network, Statistics]:
        count = self._knowledge
        known = {
            name: OperatorStatistics(cost / count, selectivity / count, self._windows[name])
            for name, (cost, selectivity) in self._sums.items()
        }
        [node] = self.network.nodes
        mean = replace(node, capacity=self._capacity_sum / count)
        # Without guarantees: they can be impossible for a moment, and only lower the best score.
        free = tuple(replace(query, keep_at_least=0.0) for query in self.network.queries)
        return replace(self.network, nodes=(mean,), queries=free), Statistics(known)

    def latency_seconds(self, group: str) -> float | None:
        total, weight = self.latency.get(group, (0.0, 0.0))
        return total / weight if weight > 0.0 else None

    def score(self) -> float | None:
        """Weighted tuples per second that were delivered."""
        if self.seconds <= 0.0:
            return None
        weights = {query.name: query.weight for query in self.network.queries}
        return sum(weights[q] * n for q, n in self.counted_delivered.items()) / self.seconds

    def best_score(self) -> float | None:
        """The same for the best plan at every time; None where no plan can be made."""
        stretches = [s for s in self._all() if s.seconds > 0.0]
        if not stretches or not self._knowledge:
            return None
        network, statistics = self._mean_network()
        try:
            planner = ExactPlanner(network, statistics)
            total = sum(
                stretch.seconds
                * planner.plan(
                    {
                        s.name: stretch.offered.get(s.name, 0.0) / stretch.seconds
                        for s in network.streams
                    }
                ).score
                for stretch in stretches
            )
        except HeadgateError:
            return None
        return total / sum(stretch.seconds for stretch in stretches)

    def _all(self) -> list[_Stretch]:
        rest = _Stretch(self.last - self._stretch_began, dict(self._offered))
        return [*self._stretches, rest]

    def _add_offered(self, seen: BatchSeen) -> None:
        for stream, count in seen.offered.items():
            if self.reader.get(stream) == seen.group:
                self._offered[stream] = self._offered.get(stream, 0.0) + count
        length = self.last - self._stretch_began
        if length < _STRETCH_SECONDS:
            return
        self._stretches.append(_Stretch(length, self._offered))
        self._offered, self._stretch_began = {}, self.last
        if len(self._stretches) > _MOST_STRETCHES:
            pairs = zip(self._stretches[::2], self._stretches[1::2], strict=False)
            odd = self._stretches[-1:] if len(self._stretches) % 2 else []
            self._stretches = [a.joined(b) for a, b in pairs] + odd
