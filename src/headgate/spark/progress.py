"""Spark's progress of one micro-batch, read into numbers with units. Pure, no pyspark."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from headgate.coordinator import BatchCompleted, GateCount
from headgate.spark.decision import GateDecision, is_decision
from headgate.spark.source_offset import SourceOffset, is_source_offset

__all__ = ["BatchReport", "GateReport", "parse_progress"]

_METRIC_PREFIX = "headgate:"
_PERCENTILES = (50.0, 90.0, 95.0, 99.0)
_CLOCK_TICK_SECONDS = 1.0
_SHORTEST_INTERVAL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class GateReport:
    """What one gate saw. Arrivals in seconds since 1970, None where there are none."""

    offered: int
    kept: int
    arrival_mean: float | None = None
    first_arrival: float | None = None
    last_arrival: float | None = None
    lost: int = 0  # gone at the source before they could be offered

    @property
    def dropped(self) -> int:
        return self.offered - self.kept

    def arrival_rate_per_second(self, interval_seconds: float) -> float:
        """Tuples a second over the time in which they arrived, at most `interval_seconds`.

        A batch after a pause holds what arrived at its end, not over the whole pause, so
        the span of the arrivals counts where it is the shorter one. Not below a second:
        many clocks tick in seconds, and a batch of one tick would look like a crowd.
        """
        span = interval_seconds
        if self.first_arrival is not None and self.last_arrival is not None:
            span = min(span, max(self.last_arrival - self.first_arrival, _CLOCK_TICK_SECONDS))
        return self.offered / max(span, _SHORTEST_INTERVAL_SECONDS)


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One finished batch. Times are the driver's wall clock, in seconds since 1970."""

    query_id: str
    run_id: str
    batch: int
    start_seconds: float
    duration_seconds: float
    decision: GateDecision | None
    gates: Mapping[str, GateReport] = field(default_factory=dict)
    source_decisions: Mapping[str, GateDecision] = field(default_factory=dict)
    idle: bool = False  # Spark says every 10 s that nothing came, under the next batch's number

    def decision_of(self, gate: str) -> GateDecision | None:
        """What the gate did. A gate inside a source has it from that source's own offset."""
        return self.source_decisions.get(gate, self.decision)

    @property
    def end_seconds(self) -> float:
        return self.start_seconds + self.duration_seconds

    @property
    def offered(self) -> int:
        return sum(gate.offered for gate in self.gates.values())

    def latency_mean_seconds(self) -> float | None:
        """End of the batch minus mean arrival, over all gates that kept something."""
        total, kept = 0.0, 0
        for gate in self.gates.values():
            if gate.arrival_mean is not None and gate.kept > 0:
                total += (self.end_seconds - gate.arrival_mean) * gate.kept
                kept += gate.kept
        return total / kept if kept else None

    def latency_percentiles_seconds(self) -> dict[float, float]:
        """As if arrivals were even between the first and the last one: an estimate."""
        ranges = [
            (gate.first_arrival, gate.last_arrival)
            for gate in self.gates.values()
            if gate.first_arrival is not None and gate.last_arrival is not None and gate.kept > 0
        ]
        if not ranges:
            return {}
        first, last = min(low for low, _ in ranges), max(high for _, high in ranges)
        return {p: self.end_seconds - last + p / 100.0 * (last - first) for p in _PERCENTILES}

    def event(self, query: str, before: BatchReport | None) -> BatchCompleted:
        """What the coordinator is told. `before` is the batch before this one.

        The first batch of a run compiles code, starts processes and fills caches. Its time
        says nothing of the next ones, so its busy time is given as 0, which teaches nothing.
        """
        rate = sum(self.arrival_rates(before).values())
        return BatchCompleted(
            self.end_seconds,
            query,
            self.batch,
            self.duration_seconds,
            0.0 if before is None else self.duration_seconds,
            {n: GateCount(g.offered, g.kept, g.dropped) for n, g in self.gates.items()},
            self.latency_mean_seconds(),
            self.latency_percentiles_seconds(),
            rate,
        )

    def arrival_rates(self, before: BatchReport | None) -> dict[str, float]:
        """Tuples per second at each gate, since the batch before this one began."""
        if before is None:
            interval = math.inf if self._has_arrivals() else max(self.duration_seconds, 1.0)
        else:
            interval = self.start_seconds - before.start_seconds
        return {
            name: gate.arrival_rate_per_second(max(interval, _SHORTEST_INTERVAL_SECONDS))
            for name, gate in self.gates.items()
        }

    def _has_arrivals(self) -> bool:
        return all(
            gate.last_arrival is not None or not gate.offered for gate in self.gates.values()
        )


def parse_progress(text: str) -> BatchReport:
    """Read the JSON of a StreamingQueryProgress; ValueError when it is not one."""
    try:
        data = json.loads(text)
        metrics: Mapping[str, Any] = data.get("observedMetrics") or {}
        sources = data.get("sources", ())
        idle = "addBatch" not in data["durationMs"] and not metrics
        duration_ms = data["durationMs"].get("triggerExecution", data.get("batchDuration", 0))
        return BatchReport(
            str(data["id"]),
            str(data["runId"]),
            int(data["batchId"]),
            datetime.fromisoformat(data["timestamp"]).timestamp(),
            max(0.0, duration_ms / 1000.0),
            _decision(sources),
            {
                name[len(_METRIC_PREFIX) :]: _gate(values)
                for name, values in metrics.items()
                if name.startswith(_METRIC_PREFIX)
            },
            _source_decisions(sources),
            idle,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not the progress of a query: {error!r}") from None


def _gate(values: Mapping[str, Any]) -> GateReport:
    return GateReport(
        int(values["offered"] or 0),  # a sum over no rows is null
        int(values["kept"] or 0),
        _number(values.get("arrival_mean")),
        _number(values.get("first_arrival")),
        _number(values.get("last_arrival")),
        int(values.get("lost") or 0),
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _decision(sources: Any) -> GateDecision | None:
    """The companion's decision; without one, the newest among the sources with gates."""
    for source in sources:
        offset = source.get("endOffset")
        if is_decision(offset):
            return GateDecision.from_offset(offset)
    own = _source_decisions(sources).values()
    return max(own, key=lambda decision: decision.version, default=None)


def _source_decisions(sources: Any) -> dict[str, GateDecision]:
    """Decisions of the sources with gates that had something to read."""
    found = {}
    for source in sources:
        end = source.get("endOffset")
        if is_source_offset(end) and end != source.get("startOffset"):
            offset = SourceOffset.from_dict(end)
            found[offset.gate] = offset.decision
    return found
