"""What is known of running queries now: rates, backlog, costs, shares, capacity. No pyspark.

A `QueryMeter` takes in every finished batch of a query; its `statistics` are the numbers. The
costs come from the estimator that the latency controller uses (`control.cost_estimate`), so they
are known for every query, with and without a target, a class or shedding.

Guarantees: no number has to be given by hand; what is not known yet is None; memory is constant.
Not guaranteed: the split between looking and processing while all tuples are kept (looking is
taken for a twentieth then), a fixed cost before batches of different sizes, and costs of queries
that run beside each other: each is charged for the whole time of its batch.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headgate.control import CostEstimator, CostSettings, TupleCosts
from headgate.coordinator import QuerySettings
from headgate.spark.agent.progress import BatchReport

__all__ = ["GateStatistics", "MeasuredStatistics", "QueryMeter", "QueryStatistics", "capacity_of"]

_RECENT_BATCHES = 20
_RATE_MEMORY = 0.5


@dataclass(frozen=True, slots=True)
class GateStatistics:
    """One gate.

    waiting_tuples: have arrived since its last finished batch began, by the rate.
    kept_share:     of what it was offered in the last 20 batches; its selectivity.
    """

    gate: str
    arrival_rate_per_second: float | None = None
    waiting_tuples: int | None = None
    kept_share: float | None = None


@dataclass(frozen=True, slots=True)
class QueryStatistics:
    """One running query. Seconds are of the time of its batches, on all cores that they use.

    batches:                   finished since it was started.
    seconds_per_looked_at_tuple, seconds_per_processed_tuple: a kept tuple costs both.
    fixed_seconds_per_batch:   what a batch costs without tuples.
    capacity_tuples_per_second: what it can keep up with when nothing is dropped, in batches as
        long as its latency target allows; without a target, in long ones.
    output_rows_per_tuple:     rows that it delivered for each kept tuple.
    """

    query: str
    batches: int
    gates: tuple[GateStatistics, ...]
    seconds_per_looked_at_tuple: float | None = None
    seconds_per_processed_tuple: float | None = None
    fixed_seconds_per_batch: float | None = None
    capacity_tuples_per_second: float | None = None
    output_rows_per_tuple: float | None = None


@dataclass(frozen=True, slots=True)
class MeasuredStatistics:
    """`print` shows a table; `to_dict` and `to_json` are for programs."""

    queries: tuple[QueryStatistics, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"queries": [asdict(query) for query in self.queries]}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), allow_nan=False)

    def __str__(self) -> str:
        if not self.queries:
            return "No query runs."
        lines = [_HEAD, *(line for query in self.queries for line in _lines(query))]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if place < _TEXTS else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )


class QueryMeter:
    """Takes in the finished batches of one query."""

    def __init__(self, settings: QuerySettings) -> None:
        self._settings = settings
        in_front = {gate for gates in settings.after.values() for gate in gates}
        self._first = [gate for gate in settings.gates if not settings.after.get(gate)]
        self._last = [gate for gate in settings.gates if gate not in in_front]
        self._estimator = CostEstimator(CostSettings())
        self._rates: dict[str, float] = {}
        self._recent: deque[BatchReport] = deque(maxlen=_RECENT_BATCHES)
        self._batches = 0

    @property
    def costs(self) -> TupleCosts | None:
        return self._estimator.costs

    @property
    def capacity_tuples_per_second(self) -> float | None:
        return capacity_of(self.costs, self._settings)

    @property
    def output_rows_per_tuple(self) -> float | None:
        told = [report for report in self._recent if _delivered(report) is not None]
        kept = sum(self._sum(report, self._last, "kept") for report in told)
        return sum(_delivered(report) or 0 for report in told) / kept if kept else None

    def observe(self, report: BatchReport, rates: Mapping[str, float]) -> None:
        """The first batch of a run compiles code and fills caches: its time says nothing."""
        self._batches += 1
        self._recent.append(report)
        for gate, rate in rates.items():
            before = self._rates.get(gate, rate)
            self._rates[gate] = before + (1.0 - _RATE_MEMORY) * (rate - before)
        if self._batches > 1:
            offered = self._sum(report, self._first, "offered")
            kept = self._sum(report, self._last, "kept")
            self._estimator.observe(offered, kept, report.duration_seconds)

    def statistics(self, query: str, waiting: Mapping[str, int]) -> QueryStatistics:
        """As far as they are known. waiting: tuples at each gate."""
        costs = self.costs
        return QueryStatistics(
            query,
            self._batches,
            tuple(
                GateStatistics(
                    gate, self._rates.get(gate), waiting.get(gate), self._kept_share(gate)
                )
                for gate in self._settings.gates
            ),
            None if costs is None else costs.looking_seconds,
            None if costs is None else costs.processing_seconds,
            None if costs is None else costs.fixed_seconds,
            self.capacity_tuples_per_second,
            self.output_rows_per_tuple,
        )

    def _kept_share(self, gate: str) -> float | None:
        offered = sum(self._sum(report, [gate], "offered") for report in self._recent)
        kept = sum(self._sum(report, [gate], "kept") for report in self._recent)
        return kept / offered if offered else None

    @staticmethod
    def _sum(report: BatchReport, gates: Sequence[str], what: str) -> int:
        return sum(getattr(report.gates[gate], what) for gate in gates if gate in report.gates)


def capacity_of(costs: TupleCosts | None, settings: QuerySettings) -> float | None:
    """Tuples per second that are all kept and do not pile up.

    Batches in a row hold a mean target when they are two thirds of it long. Where more than half
    of that is fixed, longer ones are meant.

    >>> costs = TupleCosts(0.5, 0.0001, 0.0009)
    >>> capacity_of(costs, QuerySettings(("orders",), 3.0)), capacity_of(costs, QuerySettings(()))
    (750.0, 1000.0)
    """
    if costs is None or costs.looking_seconds + costs.processing_seconds <= 0.0:
        return None
    per_tuple = costs.looking_seconds + costs.processing_seconds
    target = settings.latency_target_seconds
    if target is None:
        return 1.0 / per_tuple
    length = max(target / (1.0 + settings.quantile), 2.0 * costs.fixed_seconds)
    return (1.0 - costs.fixed_seconds / length) / per_tuple


def _delivered(report: BatchReport) -> int | None:
    """Rows that left, measured before the sink or counted by it."""
    return report.output_rows if report.result_rows is None else report.result_rows


_HEAD = (
    "query",
    "gate",
    "arriving/s",
    "waiting",
    "kept",
    "looking us",
    "processing us",
    "batch ms",
    "capacity/s",
)
_TEXTS = 2  # columns


def _lines(query: QueryStatistics) -> list[tuple[str, ...]]:
    """One line for each gate; what is of the whole query stands in the first."""
    of_query = (
        _shown(query.seconds_per_looked_at_tuple, 1e6),
        _shown(query.seconds_per_processed_tuple, 1e6),
        _shown(query.fixed_seconds_per_batch, 1e3),
        _shown(query.capacity_tuples_per_second),
    )
    return [
        (
            query.query if first else "",
            gate.gate,
            _shown(gate.arrival_rate_per_second),
            _shown(gate.waiting_tuples),
            _shown(gate.kept_share),
            *(of_query if first else ("",) * len(of_query)),
        )
        for first, gate in zip([True, *[False] * len(query.gates)], query.gates, strict=False)
    ]


def _shown(value: float | None, factor: float = 1.0) -> str:
    if value is None:
        return "-"
    number = factor * value
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
