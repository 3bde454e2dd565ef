"""Baseline: the rate rule of Spark's old DStreams (its PID rate estimator).

Decides a rate, in tuples per second, from the size, the processing delay and the
scheduling delay of a finished batch:

    processing_rate  = elements / processing_delay
    error            = last_rate - processing_rate
    historical_error = scheduling_delay * processing_rate / batch_interval
    error_change     = (error - last_error) / time_since_last_update
    rate = max(minimum_rate, last_rate - Kp error - Ki historical_error - Kd error_change)

The first usable batch only sets last_rate to its processing rate and gives no
limit. A batch that is empty, took no time, or did not end after the one before
is skipped and the last limit stands: so after a clock that jumped back the rule
sleeps until the clock has caught up. All of this is Spark's own behaviour.

It holds the rate at what was processed last, not a latency. In DStreams the rest
waits in the source; under a gate it is dropped. Cost: O(1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headgate.control.contract import KeepDecision, PeriodMeasurement, Reason
from headgate.errors import UsageError

__all__ = ["SparkPid", "SparkPidSettings"]


@dataclass(frozen=True, slots=True)
class SparkPidSettings:
    """Spark's defaults: Kp = 1, Ki = 0.2, Kd = 0, at least 100 tuples per second."""

    batch_interval_seconds: float = 1.0
    proportional: float = 1.0
    integral: float = 0.2
    derivative: float = 0.0
    minimum_rate_per_second: float = 100.0

    def __post_init__(self) -> None:
        for name in ("batch_interval_seconds", "minimum_rate_per_second"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise UsageError(f"{name} must be a number above 0, got {value!r}")
        for name in ("proportional", "integral", "derivative"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise UsageError(f"{name} must be a number of at least 0, got {value!r}")


class SparkPid:
    """See the module. `rate_per_second` is the limit in force, None before there is one."""

    def __init__(self, settings: SparkPidSettings) -> None:
        self.settings = settings
        self.rate_per_second: float | None = None
        self._last_time_seconds = -math.inf
        self._last_rate: float | None = None
        self._last_error = 0.0

    def decide(self, measurement: PeriodMeasurement) -> KeepDecision:
        measurement = measurement.cleaned()
        self._update(measurement)
        expected = measurement.expected_tuples()
        if self.rate_per_second is None:
            return KeepDecision.everything(expected, Reason.COLD_START)
        limit = self.rate_per_second * self.settings.batch_interval_seconds
        return KeepDecision.at_most(limit, expected, Reason.RATE_CAPPED)

    def _update(self, measurement: PeriodMeasurement) -> None:
        settings = self.settings
        elements, processing_delay = measurement.work_tuples, measurement.busy_seconds
        elapsed = measurement.time_seconds - self._last_time_seconds
        if not (elapsed > 0 and elements > 0 and processing_delay > 0):
            return
        processing_rate = elements / processing_delay
        self._last_time_seconds = measurement.time_seconds
        if self._last_rate is None:
            self._last_rate, self._last_error = processing_rate, 0.0
            return
        error = self._last_rate - processing_rate
        historical_error = (
            measurement.scheduling_delay_seconds * processing_rate / settings.batch_interval_seconds
        )
        error_change = (error - self._last_error) / elapsed
        rate = (
            self._last_rate
            - settings.proportional * error
            - settings.integral * historical_error
            - settings.derivative * error_change
        )
        if not math.isfinite(rate):  # a duration near zero can overflow; Spark has no guard
            return
        self._last_error = error
        self._last_rate = self.rate_per_second = max(settings.minimum_rate_per_second, rate)
