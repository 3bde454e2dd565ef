"""Two tiny plants in virtual time, for closed loops around a latency controller.

`MicroBatchPlant` runs batches back to back, or at a trigger; a batch takes all that
arrived. `BufferPlant` is the DISSP node: a buffer that is thinned at random each
period and served in order, tuple by tuple. Both draw from one seeded generator and
model nothing else: no operators, no network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from headgate.control import KeepDecision, LatencyController, PeriodMeasurement, Reason

Rate = Callable[[float], float]
"""Arrival rate per second at a time in seconds."""


def constant(rate: float) -> Rate:
    return lambda _: rate


def steps(*pairs: tuple[float, float]) -> Rate:
    """steps((0, 100), (10, 300)): 100/s from 0 s, 300/s from 10 s."""

    def rate(t: float) -> float:
        value = pairs[0][1]
        for start, level in pairs:
            if t >= start:
                value = level
        return value

    return rate


@dataclass(frozen=True)
class Costs:
    """Server seconds; `slow_from` multiplies all of them by `slow_by` from then on."""

    fixed: float = 0.0
    looking: float = 0.0
    processing: float = 0.001
    noise: float = 0.05
    slow_from: float = float("inf")
    slow_by: float = 1.0

    def factor(self, t: float) -> float:
        return self.slow_by if t >= self.slow_from else 1.0


@dataclass
class Trace:
    """What happened, a row for each period."""

    time: list[float] = field(default_factory=list)
    latency: list[float | None] = field(default_factory=list)
    keep_fraction: list[float] = field(default_factory=list)
    arrived: list[int] = field(default_factory=list)
    processed: list[int] = field(default_factory=list)
    decisions: list[KeepDecision] = field(default_factory=list)
    measurements: list[PeriodMeasurement] = field(default_factory=list)
    tuple_latencies: list[tuple[float, float]] = field(default_factory=list)

    def latencies(self, start: float = 0.0, end: float = float("inf")) -> np.ndarray:
        """Latency of each period that had results."""
        return np.array(
            [
                latency
                for t, latency in zip(self.time, self.latency, strict=True)
                if start <= t < end and latency is not None
            ]
        )

    def each_tuple(self, start: float = 0.0, end: float = float("inf")) -> np.ndarray:
        """Latency of each tuple, by the time it was done."""
        return np.array([latency for t, latency in self.tuple_latencies if start <= t < end])

    def keep_fractions(self, start: float = 0.0, end: float = float("inf")) -> np.ndarray:
        return np.array(
            [f for t, f in zip(self.time, self.keep_fraction, strict=True) if start <= t < end]
        )

    def total_processed(self, start: float = 0.0, end: float = float("inf")) -> int:
        return sum(n for t, n in zip(self.time, self.processed, strict=True) if start <= t < end)


def _arrivals(rng: np.random.Generator, rate: Rate, start: float, end: float) -> np.ndarray:
    """Poisson arrival times in [start, end), sorted; the rate is read every 50 ms."""
    edges = [*np.arange(start, end, 0.05), end]
    parts = [
        a + (b - a) * rng.random(rng.poisson(rate(a) * (b - a)))
        for a, b in pairwise(edges)
        if b > a
    ]
    return np.sort(np.concatenate(parts)) if parts else np.empty(0)


@dataclass
class MicroBatchPlant:
    """latency = wait for the batch + duration of the batch."""

    controller: LatencyController
    rate: Rate
    costs: Costs
    seed: int = 1
    trigger: float = 0.0
    least_duration: float = 0.01
    clock: Callable[[float], float] = lambda t: t
    counts_waiting: bool = True

    def run(self, seconds: float) -> Trace:
        rng = np.random.default_rng(self.seed)
        trace = Trace()
        now, previous_start = 0.0, 0.0
        waiting = _arrivals(rng, self.rate, 0.0, max(self.trigger, self.least_duration))
        now = max(self.trigger, self.least_duration)
        decision = KeepDecision(len(waiting), len(waiting), 1.0, Reason.COLD_START)
        while now < seconds:
            start = now
            kept = waiting[rng.random(len(waiting)) < decision.keep_fraction]
            busy = self.costs.factor(start) * (
                self.costs.fixed
                + self.costs.looking * len(waiting)
                + self.costs.processing * len(kept)
            )
            busy *= max(0.2, 1.0 + self.costs.noise * rng.standard_normal())
            duration = max(busy, self.least_duration)
            end = start + duration
            next_start = max(end, start + self.trigger)
            arriving = _arrivals(rng, self.rate, start, next_start)
            latencies = end - kept
            measurement = PeriodMeasurement(
                time_seconds=self.clock(end),
                duration_seconds=duration,
                offered_tuples=len(waiting),
                kept_tuples=len(kept),
                busy_seconds=busy,
                waiting_tuples=len(arriving) if self.counts_waiting else None,
                arrival_rate_per_second=len(arriving) / (next_start - start),
                scheduling_delay_seconds=max(0.0, start - previous_start - self.trigger)
                if self.trigger
                else 0.0,
                latency_mean_seconds=self._seen(latencies.mean(), end) if len(kept) else None,
                latency_percentiles_seconds=(
                    {95.0: float(np.percentile(latencies, 95))} if len(kept) else {}
                ),
            )
            trace.time.append(end)
            trace.latency.append(float(latencies.mean()) if len(kept) else None)
            trace.keep_fraction.append(decision.keep_fraction)
            trace.arrived.append(len(waiting))
            trace.processed.append(len(kept))
            trace.measurements.append(measurement)
            trace.tuple_latencies.extend((end, float(latency)) for latency in latencies)
            decision = self.controller.decide(measurement)
            trace.decisions.append(decision)
            waiting, previous_start, now = arriving, start, next_start
        return trace

    def _seen(self, latency: float, end: float) -> float:
        """A latency is a difference of two readings of the wall clock."""
        return float(self.clock(end) - self.clock(end - latency))


@dataclass
class BufferPlant:
    """The DISSP node: thinned each period, served in order, one tuple at a time."""

    controller: LatencyController
    rate: Rate
    costs: Costs
    seed: int = 1
    period: float = 0.25
    clock: Callable[[float], float] = lambda t: t

    def run(self, seconds: float) -> Trace:
        rng = np.random.default_rng(self.seed)
        trace = Trace()
        queue = np.empty(0)
        free_at = 0.0  # when the server has finished what it is doing
        offered = kept = 0
        looked_seconds = 0.0
        for index in range(int(seconds / self.period)):
            start, end = index * self.period, (index + 1) * self.period
            arriving = _arrivals(rng, self.rate, start, end)
            queue = np.concatenate((queue, arriving))
            served, latencies, busy = 0, [], 0.0
            factor = self.costs.factor(start)
            noise = np.maximum(0.2, 1.0 + self.costs.noise * rng.standard_normal(len(queue)))
            service = self.costs.processing * factor * noise
            busy = max(0.0, min(free_at, end) - start)
            for arrival, seconds_needed in zip(queue, service, strict=True):
                begin = max(free_at, arrival)
                if begin >= end:
                    break
                free_at = begin + seconds_needed
                busy += min(free_at, end) - begin
                latencies.append(free_at - arrival)
                served += 1
            queue = queue[served:]
            mean = float(np.mean(latencies)) if latencies else None
            measurement = PeriodMeasurement(
                time_seconds=self.clock(end),
                duration_seconds=self.period,
                offered_tuples=offered,
                kept_tuples=kept,
                busy_seconds=busy,
                waiting_tuples=len(queue),
                processed_tuples=served,
                arrival_rate_per_second=len(arriving) / self.period,
                latency_mean_seconds=(
                    None if mean is None else self.clock(end) - self.clock(end - mean)
                ),
                latency_percentiles_seconds=(
                    {95.0: float(np.percentile(latencies, 95))} if latencies else {}
                ),
            )
            decision = self.controller.decide(measurement)
            trace.time.append(end)
            trace.latency.append(mean)
            trace.keep_fraction.append(decision.keep_fraction)
            trace.arrived.append(len(arriving))
            trace.processed.append(served)
            trace.measurements.append(measurement)
            trace.decisions.append(decision)
            trace.tuple_latencies.extend((end, latency) for latency in latencies)
            offered = len(queue)
            kept = decision.keep_tuples
            if kept < offered:
                queue = queue[np.sort(rng.choice(offered, kept, replace=False))]
            looked_seconds = self.costs.looking * factor * offered
            free_at = max(free_at, end) + looked_seconds
        return trace
