"""Baselines to compare with: no control, tail drop, a static rate cap.

They stand in every comparison so that a good controller can be told from an easy
load. None of them looks at latency. The fourth baseline, the rule of Spark's
DStreams, has a file of its own (`spark_pid`); the fifth, one common shedder for
all classes, is one `HeadroomMonitor` that is given the load of all classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headgate.control.contract import KeepDecision, PeriodMeasurement, Reason
from headgate.errors import UsageError

__all__ = [
    "NoControl",
    "NoControlSettings",
    "StaticRateCap",
    "StaticRateCapSettings",
    "TailDrop",
    "TailDropSettings",
]


@dataclass(frozen=True, slots=True)
class NoControlSettings:
    """Nothing to set."""


class NoControl:
    """Baseline: keeps everything. Latency and memory grow without bound under overload."""

    def __init__(self, settings: NoControlSettings) -> None:
        self.settings = settings

    def decide(self, measurement: PeriodMeasurement) -> KeepDecision:
        expected = measurement.cleaned().expected_tuples()
        return KeepDecision.everything(expected, Reason.NO_CONTROL)


@dataclass(frozen=True, slots=True)
class TailDropSettings:
    """buffer_tuples: the most tuples that may wait."""

    buffer_tuples: int = 10_000

    def __post_init__(self) -> None:
        if self.buffer_tuples < 1:
            raise UsageError(f"buffer_tuples must be at least 1, got {self.buffer_tuples!r}")


class TailDrop:
    """Baseline: a buffer of a fixed size; what does not fit is dropped.

    Guarantees bounded memory. The latency is whatever the buffer's size makes it:
    right for one cost per tuple, wrong for every other.
    """

    def __init__(self, settings: TailDropSettings) -> None:
        self.settings = settings

    def decide(self, measurement: PeriodMeasurement) -> KeepDecision:
        expected = measurement.cleaned().expected_tuples()
        return KeepDecision.at_most(self.settings.buffer_tuples, expected, Reason.BUFFER_FULL)


@dataclass(frozen=True, slots=True)
class StaticRateCapSettings:
    """rate_per_second: tuples kept in a second of period time, however many arrive."""

    rate_per_second: float = 1000.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate_per_second) and self.rate_per_second > 0):
            raise UsageError(f"rate_per_second must be above 0, got {self.rate_per_second!r}")


class StaticRateCap:
    """Baseline: a fixed number of tuples per second, as `maxOffsetsPerTrigger` is used.

    Too low it wastes the machine, too high it does nothing. A period without a
    duration (a first call, a clock that stood still) is not capped.
    """

    def __init__(self, settings: StaticRateCapSettings) -> None:
        self.settings = settings

    def decide(self, measurement: PeriodMeasurement) -> KeepDecision:
        measurement = measurement.cleaned()
        expected = measurement.expected_tuples()
        if measurement.duration_seconds <= 0:
            return KeepDecision.everything(expected, Reason.COLD_START)
        limit = self.settings.rate_per_second * measurement.duration_seconds
        return KeepDecision.at_most(limit, expected, Reason.RATE_CAPPED)
