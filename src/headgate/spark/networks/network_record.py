"""What a network delivered over time, beside the best that it could have. No pyspark.

Every batch counts for the time from the end of the one before it to its own end: tuples offered and
delivered, task seconds, and what its tuples cost. So queries whose batches begin and end at
different times can be laid side by side.

The best score is computed afterwards: for every stretch of time the exact planner solves again what
was offered then, with the costs, selectivities and capacity of then. It knows at once what the
planner at work had to find out first. Costs are such that each batch takes what it did take, and
the capacity is never below what was done. Guarantees and right answers, which both lower a score,
are of no account. **So what was done is one of the plans that the best is chosen from**, and the
score is at most the best, up to selectivities: these are smoothed over batches, because a window
delivers all at once.

Not guaranteed: that no more could have been done. The capacity is what the run itself took for its
capacity, as the planner at work did. Where that is too low, the best is too low with the score, and
their ratio does not show it; compare the measured load with the cores. And a single batch is taken
to be at most four times as fast or slow as those before.

Memory is bounded, see `Timeline`. Cost: a linear program for each stretch, milliseconds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from headgate.errors import HeadgateError
from headgate.network import Network, OperatorStatistics, Statistics
from headgate.planning import ExactPlanner, ExactSettings
from headgate.spark.networks.network_monitor import BatchSeen
from headgate.spark.networks.timeline import Timeline

__all__ = ["NetworkRecord"]


@dataclass
class NetworkRecord:
    """Takes in the batches. `reader` is the group whose count of a stream is taken.

    Figures count from the moment when every group has had `warm_up_batches`, until the last moment
    that all groups have reported. (Costs are known then, and Java has compiled what runs often.)
    """

    network: Network
    reader: Mapping[str, str]
    groups: tuple[str, ...]
    warm_up_batches: int = 1
    delivered: dict[str, int] = field(default_factory=dict)  # since the start
    _latency: dict[str, tuple[float, float]] = field(default_factory=dict)  # sum, seconds
    _line: Timeline | None = None
    _warm: dict[str, int] = field(default_factory=dict)
    _ended: dict[str, float] = field(default_factory=dict)  # the last batch of each group
    _windows: dict[str, tuple[float, ...] | None] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """The time that counts."""
        return 0.0 if self._line is None else self._stretches() * self._line.width_seconds

    def add(self, seen: BatchSeen) -> None:
        """One batch."""
        for query, count in seen.delivered.items():
            self.delivered[query] = self.delivered.get(query, 0) + count
        since = self._ended.get(seen.group, seen.end_seconds - seen.duration_seconds)
        self._ended[seen.group] = seen.end_seconds
        if self._line is not None:
            self._count(self._line, seen, since)
            return
        self._warm[seen.group] = self._warm.get(seen.group, 0) + int(seen.learnt)
        if all(self._warm.get(group, 0) >= self.warm_up_batches for group in self.groups):
            self._line = Timeline(seen.end_seconds)

    def delivered_per_second(self) -> dict[str, float]:
        """By query, over the time that counts."""
        names = [query.name for query in self.network.queries]
        return {name: self._per_second(("delivered", name)) or 0.0 for name in names}

    def predicted_load(self) -> float | None:
        """Task seconds a second, as they could be predicted when the batches began."""
        return self._per_second("predicted")

    def measured_load(self) -> float | None:
        """The same as measured, of the same batches."""
        return self._per_second("measured")

    def load_error_mean_abs(self) -> float | None:
        """How far a batch was off on average, up or down, as a share of the mean batch."""
        off, measured = self._per_second("off"), self._per_second("measured")
        return None if off is None or not measured else off / measured

    def latency_seconds(self, group: str) -> float | None:
        total, weight = self._latency.get(group, (0.0, 0.0))
        return total / weight if weight > 0.0 else None

    def score(self) -> float | None:
        """Weighted tuples per second that were delivered."""
        if self.seconds <= 0.0:
            return None
        weights = {query.name: query.weight for query in self.network.queries}
        return sum(weights[q] * rate for q, rate in self.delivered_per_second().items())

    def best_score(self) -> float | None:
        """The same for the best plan at every time; None where no plan can be made."""
        if self._line is None or self.seconds <= 0.0:
            return None
        try:
            scores = [self._best(*stretch) for stretch in self._as_it_was(self._line)]
        except HeadgateError:
            return None
        return sum(scores) / len(scores)

    def _best(
        self, rates: Mapping[str, float], capacity: float, known: Mapping[str, OperatorStatistics]
    ) -> float:
        [node] = self.network.nodes
        # Without guarantees: they can be impossible for a moment, and only lower the best score.
        free = tuple(replace(query, keep_at_least=0.0) for query in self.network.queries)
        able = replace(self.network, nodes=(replace(node, capacity=capacity),), queries=free)
        # And whatever it does to answers: what latency feedback drops is at the inputs.
        anything = ExactSettings(most_lost_for_right_answers=0.0)
        return ExactPlanner(able, Statistics(known), anything).plan(rates).score

    def _as_it_was(
        self, line: Timeline
    ) -> Iterator[tuple[dict[str, float], float, dict[str, OperatorStatistics]]]:
        """Rates, capacity and what is known of the operators, for every stretch that counts."""
        count = self._stretches()

        def mean(name: Hashable, over: Hashable) -> list[float]:
            weight = np.maximum(line.amounts(over, count), 1e-12)
            return list(line.amounts(name, count) / weight)

        used = line.amounts("used", count) / line.width_seconds
        capacity = np.maximum(mean("capacity", "known"), used)
        rates = {
            stream.name: line.amounts(("offered", stream.name), count) / line.width_seconds
            for stream in self.network.streams
        }
        known = {
            name: (mean(("cost", name), ("known", name)), mean(("gain", name), ("known", name)))
            for name in self._windows
        }
        for place in range(count):
            yield (
                {name: float(rate[place]) for name, rate in rates.items()},
                float(capacity[place]),
                {
                    name: OperatorStatistics(cost[place], gain[place], self._windows[name])
                    for name, (cost, gain) in known.items()
                },
            )

    def _count(self, line: Timeline, seen: BatchSeen, since: float) -> None:
        until = seen.end_seconds
        length = until - since
        for query, count in seen.delivered.items():
            line.spread(("delivered", query), since, until, count)
        for stream, count in seen.offered.items():
            if self.reader.get(stream) == seen.group:
                line.spread(("offered", stream), since, until, count)
        if seen.busy_seconds is not None and seen.predicted_seconds is not None:
            line.spread("measured", since, until, seen.busy_seconds)
            line.spread("predicted", since, until, seen.predicted_seconds)
            line.spread("off", since, until, abs(seen.predicted_seconds - seen.busy_seconds))
        line.spread("used", since, until, seen.tuple_seconds)
        line.spread("capacity", since, until, seen.capacity * length)
        line.spread("known", since, until, length)
        for name, numbers in seen.measured.items():
            line.spread(("cost", name), since, until, (numbers.cost_seconds or 0.0) * length)
            line.spread(("gain", name), since, until, (numbers.selectivity or 0.0) * length)
            line.spread(("known", name), since, until, length)
            self._windows[name] = numbers.window_tuples
        if seen.latency_seconds is not None:
            total, weight = self._latency.get(seen.group, (0.0, 0.0))
            self._latency[seen.group] = (
                total + seen.latency_seconds * seen.duration_seconds,
                weight + seen.duration_seconds,
            )

    def _stretches(self) -> int:
        if self._line is None:
            return 0
        return self._line.stretches_until(min(self._ended[group] for group in self.groups))

    def _per_second(self, name: Hashable) -> float | None:
        if self._line is None or self.seconds <= 0.0:
            return None
        return float(np.sum(self._line.amounts(name, self._stretches()))) / self.seconds
