"""Spark's progress of one micro-batch, read into numbers with units. Pure, no pyspark."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np

from headgate.coordinator import BatchCompleted, GateCount
from headgate.spark.agent.decision import GateDecision, is_decision
from headgate.spark.gates.gate_metrics import (
    ARRIVAL_QUANTILES,
    RESULT_PREFIX,
    RESULT_QUANTILES,
    SAMPLED_TUPLES,
    gate_in,
)
from headgate.spark.letters.letter_settings import LETTERS_PREFIX, LetterCounts
from headgate.spark.sources.source_offset import SourceOffset, is_source_offset

__all__ = [
    "BatchReport",
    "GateReport",
    "ResultReport",
    "gate_report",
    "parse_progress",
]

_COUNTS = {
    "offered",
    "kept",
    "arrival_mean",
    "first_arrival",
    "last_arrival",
    "arrival_quantiles",
    "lost",
    "event_time_max",
    "letters_written",
    "letters_left",
    "letters_error",
}
_ARRIVALS = ("arrival_mean", "first_arrival", "last_arrival")
_LAST_SECOND = 253_402_300_799.0  # of the year 9999
_PERCENTILES = (50.0, 90.0, 95.0, 99.0)
_ENOUGH_SAMPLES = 32
_CLOCK_TICK_SECONDS = 1.0
_SHORTEST_INTERVAL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class GateReport:
    """What one gate saw. Arrivals in seconds since 1970, None where there are none.

    The mean is over kept tuples, first and last over all. `arrival_quantiles` stand for
    `ARRIVAL_QUANTILES`, from one in `SAMPLED_TUPLES` of the kept tuples.
    policy: what else was observed, for the policy of the gate to read.
    letters: what became of its dead letters; None for a gate that writes none.
    has_arrivals: it has an arrival column, whatever stands in it.
    odd_arrival: one that is no time in seconds since 1970. What was made of it is left out.
    """

    offered: int
    kept: int
    arrival_mean: float | None = None
    first_arrival: float | None = None
    last_arrival: float | None = None
    arrival_quantiles: tuple[float, ...] = ()
    lost: int = 0  # gone at the source before they could be offered
    event_time_max_micros: int | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)
    letters: LetterCounts | None = None
    has_arrivals: bool = False
    odd_arrival: float | None = None

    @property
    def dropped(self) -> int:
        return self.offered - self.kept

    def arrival_curve(self) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """Times and the shares of kept tuples that had arrived by then, both ascending.

        Measured where enough tuples were kept to sample from; else a straight line from the
        first to the last arrival.
        """
        if self.kept == 0 or self.first_arrival is None or self.last_arrival is None:
            return None
        enough = self.kept >= _ENOUGH_SAMPLES * SAMPLED_TUPLES
        if enough and len(self.arrival_quantiles) == len(ARRIVAL_QUANTILES):
            return self.arrival_quantiles, ARRIVAL_QUANTILES
        return (self.first_arrival, self.last_arrival), (0.0, 1.0)

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
class ResultReport:
    """Rows that left the query at one measured place, and when what they tell of arrived."""

    rows: int
    arrival_mean: float | None = None
    arrival_quantiles: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One finished batch. Times are the driver's wall clock, in seconds since 1970.

    held_seconds: how long it waited for its turn; this is not part of its duration.
    """

    query_id: str
    run_id: str
    batch: int
    start_seconds: float
    duration_seconds: float
    decision: GateDecision | None
    gates: Mapping[str, GateReport] = field(default_factory=dict)
    results: Mapping[str, ResultReport] = field(default_factory=dict)
    held_seconds: float = 0.0
    add_batch_seconds: float | None = None
    source_decisions: Mapping[str, GateDecision] = field(default_factory=dict)
    watermark_micros: int | None = None
    input_rows: int = 0
    moved: bool = True  # some source went on, so there should be rows
    output_rows: int | None = None  # as the sink counted them; most sinks do not
    idle: bool = False  # Spark says every 10 s that nothing came, under the next batch's number

    def after_hold(self, seconds: float) -> BatchReport:
        """The same batch, begun when its turn came: Spark counts the wait as execution."""
        held = min(max(0.0, seconds), self.duration_seconds)
        return replace(
            self,
            start_seconds=self.start_seconds + held,
            duration_seconds=self.duration_seconds - held,
            held_seconds=held,
        )

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

    def latency_percentiles_seconds(self, *further: float) -> dict[float, float]:
        """End of the batch minus quantiles of arrival, over the kept tuples of all gates."""
        curves = [
            (curve, gate.kept)
            for gate in self.gates.values()
            if (curve := gate.arrival_curve()) is not None
        ]
        if not curves:
            return {}
        times = np.unique(np.concatenate([curve[0] for curve, _ in curves]))
        arrived = sum(
            kept * np.interp(times, curve[0], curve[1], left=0.0, right=1.0)
            for curve, kept in curves
        )
        shares = arrived / sum(kept for _, kept in curves)
        return {
            p: self.end_seconds - float(np.interp(1.0 - p / 100.0, shares, times))
            for p in (*_PERCENTILES, *further)
        }

    @property
    def result_rows(self) -> int | None:
        """How many rows left at measured places; None if there is no such place."""
        return sum(seen.rows for seen in self.results.values()) if self.results else None

    def result_latency_mean_seconds(self) -> float | None:
        """End of the batch minus the oldest arrival behind a result, mean over the results."""
        seen = [(r.rows, r.arrival_mean) for r in self.results.values()]
        known = [(rows, mean) for rows, mean in seen if rows and mean is not None]
        rows = sum(count for count, _ in known)
        if not rows:
            return None
        return self.end_seconds - sum(mean * count for count, mean in known) / rows

    def result_latency_p95_seconds(self) -> float | None:
        """The 95th percentile of the same; of several measured places the largest."""
        place = RESULT_QUANTILES.index(0.05)
        seen = [r.arrival_quantiles for r in self.results.values() if r.rows]
        times = [times[place] for times in seen if len(times) == len(RESULT_QUANTILES)]
        return self.end_seconds - min(times) if times else None

    def event(
        self,
        query: str,
        rates: Mapping[str, float],
        is_first: bool,
        percentile: float | None = None,
    ) -> BatchCompleted:
        """What the coordinator is told; `rates` are the arrival rates at the gates.

        The first batch of a run compiles code, starts processes and fills caches. Its time
        says nothing of the next ones, so its busy time is given as 0, which teaches nothing.
        """
        return BatchCompleted(
            self.end_seconds,
            query,
            self.batch,
            self.duration_seconds,
            0.0 if is_first else self.duration_seconds,
            {n: GateCount(g.offered, g.kept, g.dropped) for n, g in self.gates.items()},
            self.latency_mean_seconds(),
            self.latency_percentiles_seconds(*(() if percentile is None else (percentile,))),
            sum(rates.values()),
            fixed_seconds=0.0 if is_first else self._planning_seconds(),
        )

    def _planning_seconds(self) -> float:
        """Planning, logs and commits: what is not spent on adding the batch to the sink."""
        if self.add_batch_seconds is None:
            return 0.0
        return max(0.0, self.duration_seconds - self.add_batch_seconds)

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
        letters = {gate_in(name, LETTERS_PREFIX): values for name, values in metrics.items()}
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
                gate: gate_report(values, letters.get(gate))
                for name, values in metrics.items()
                if (gate := gate_in(name)) is not None
            },
            {
                name[len(RESULT_PREFIX) :]: _result(values)
                for name, values in metrics.items()
                if name.startswith(RESULT_PREFIX)
            },
            add_batch_seconds=_seconds(data["durationMs"].get("addBatch")),
            source_decisions=_source_decisions(sources),
            watermark_micros=_watermark(data.get("eventTime")),
            input_rows=int(data.get("numInputRows") or 0),
            moved=any(
                source.get("startOffset") != source.get("endOffset")
                and not is_decision(source.get("endOffset"))
                for source in sources
            ),
            output_rows=_output_rows(data.get("sink")),
            idle=idle,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not the progress of a query: {error!r}") from None


def _output_rows(sink: Any) -> int | None:
    """Spark says -1 for a sink that does not count."""
    rows = _whole((sink or {}).get("numOutputRows"))
    return rows if rows is not None and rows >= 0 else None


def gate_report(values: Mapping[str, Any], letters: Mapping[str, Any] | None = None) -> GateReport:
    """What a gate counted, by the names of `gate.count_metrics`, read into numbers."""
    if "letters_written" in values:  # of a gate inside a source
        prefix = "letters_"
        letters = {
            name.removeprefix(prefix): value
            for name, value in values.items()
            if name.startswith(prefix)
        }
    arrivals = [_number(values.get(name)) for name in _ARRIVALS]
    mean, first, last = (time if _is_time(time) else None for time in arrivals)
    quantiles = tuple(float(time) for time in values.get("arrival_quantiles") or ())
    return GateReport(
        int(values["offered"] or 0),  # a sum over no rows is null
        int(values["kept"] or 0),
        mean,
        first,
        last,
        quantiles if all(map(_is_time, quantiles)) else (),
        int(values.get("lost") or 0),
        _whole(values.get("event_time_max")),
        {name: value for name, value in values.items() if name not in _COUNTS},
        None if letters is None else _letters(letters),
        "arrival_mean" in values,
        next(
            (time for time in reversed(arrivals) if time is not None and not _is_time(time)), None
        ),
    )


def _letters(values: Mapping[str, Any]) -> LetterCounts:
    return LetterCounts(
        int(values.get("written") or 0),
        int(values.get("left") or 0),
        str(values.get("error") or ""),
    )


def _result(values: Mapping[str, Any]) -> ResultReport:
    mean = _number(values.get("arrival_mean"))
    quantiles = tuple(float(time) for time in values.get("arrival_quantiles") or ())
    return ResultReport(
        int(values["rows"] or 0),
        mean if _is_time(mean) else None,
        quantiles if all(map(_is_time, quantiles)) else (),
    )


def _seconds(milliseconds: Any) -> float | None:
    number = _number(milliseconds)
    return None if number is None else max(0.0, number / 1000.0)


def _watermark(event_time: Any) -> int | None:
    text = (event_time or {}).get("watermark")
    if text is None:
        return None
    return round(datetime.fromisoformat(text).timestamp() * 1000) * 1000  # it has whole ms


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _is_time(seconds: float | None) -> bool:
    """Of the years that Spark has; more is another unit, or garbage."""
    return seconds is not None and abs(seconds) <= _LAST_SECOND


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _decision(sources: Any) -> GateDecision | None:
    """The companion's decision; without one, the newest among the sources with gates."""
    for source in sources:
        offset = source.get("endOffset")
        if is_decision(offset):
            try:
                return GateDecision.from_offset(offset)
            except ValueError:  # of a later Headgate: the counts are good all the same
                return None
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
