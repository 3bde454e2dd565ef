"""What every latency controller is given and what it answers.

A controller is told what happened in one finished period (`PeriodMeasurement`)
and answers how much of what waits now should be kept (`KeepDecision`). A period
is either a control interval of an input buffer or one micro-batch:

==================  ====================================  ===============================
field               input buffer (DISSP)                  micro-batch (Spark)
==================  ====================================  ===============================
duration_seconds    the control interval                  start to end of the batch
offered_tuples      tuples the shedder looked at          tuples the batch was offered
kept_tuples         tuples that stayed in the buffer      tuples that passed the gate
processed_tuples    tuples taken out and processed        the same as kept (leave it out)
waiting_tuples      tuples in the buffer now              tuples of the next batch
==================  ====================================  ===============================

Nothing here reads a clock. Depends on nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

__all__ = ["Alarm", "KeepDecision", "LatencyController", "PeriodMeasurement", "Reason"]

_LARGEST = 1e12
"""No count of tuples, no rate and no time in seconds is larger than this."""
_NO_PERCENTILES: Mapping[float, float] = {}


class Alarm(StrEnum):
    """Something a person should know; the decision stands all the same."""

    GAIN_OUTSIDE_STABLE_RANGE = "the gain is too large for the delay seen; lower it"
    TARGET_UNREACHABLE = "the target cannot be met even when everything is dropped"


class Reason(StrEnum):
    """Why a controller kept what it kept."""

    NOTHING_WAITS = "nothing waits"
    NO_CONTROL = "no control is asked for"
    COLD_START = "no cost is known yet"
    TARGET_MET = "everything fits"
    HELD_TO_TARGET = "kept what fits the target"
    HELD_BY_FEEDBACK = "kept what the latency feedback allows"
    BUFFER_FULL = "the buffer is full"
    RATE_CAPPED = "the rate is capped"
    BEST_EFFORT = "the target is out of reach; kept a small share"


class PeriodMeasurement(NamedTuple):
    """One finished period, and what waits for the next one.

    time_seconds:             when the period ended, on any clock.
    duration_seconds:         length of the period; measure it with a clock that never jumps.
    offered_tuples:           tuples that were looked at in the period.
    kept_tuples:              those of them that were kept.
    busy_seconds:             server seconds spent on looking and processing.
    waiting_tuples:           tuples the next decision is about; None where nobody counts them.
    processed_tuples:         tuples processed in the period; None means `kept_tuples`.
    arrival_rate_per_second:  tuples that arrived in a second; None where it is not known.
    waiting_age_seconds:      mean age of the waiting tuples when their turn begins, or None.
    scheduling_delay_seconds: how long the period's work stood ready before it began.
    latency_mean_seconds:     mean end-to-end latency of the period's results; None: no result.
    latency_percentiles_seconds: percentile (for example 95) to seconds; may be empty.
    server_share:             share of the server this query will have, above 0 and up to 1.
    """

    time_seconds: float
    duration_seconds: float
    offered_tuples: int
    kept_tuples: int
    busy_seconds: float
    waiting_tuples: int | None = None
    processed_tuples: int | None = None
    arrival_rate_per_second: float | None = None
    waiting_age_seconds: float | None = None
    scheduling_delay_seconds: float = 0.0
    latency_mean_seconds: float | None = None
    latency_percentiles_seconds: Mapping[float, float] = _NO_PERCENTILES
    server_share: float = 1.0

    @property
    def work_tuples(self) -> int:
        """Tuples whose processing cost fell into this period."""
        return self.kept_tuples if self.processed_tuples is None else self.processed_tuples

    def latency_seconds(self, percentile: float | None = None) -> float | None:
        """The mean (None) or a percentile; None when it is missing or impossible."""
        if percentile is None:
            value = self.latency_mean_seconds
        else:
            value = self.latency_percentiles_seconds.get(percentile)
        return _at_least_zero(value)

    @property
    def is_usable(self) -> bool:
        """True when every number can be true, and kept is not above offered."""
        time, duration, offered, kept, busy, waiting, processed, rate, age, delay, _, _, share = (
            self
        )
        return (
            0 <= kept <= offered <= _LARGEST
            and 0.0 <= duration <= _LARGEST
            and 0.0 <= busy <= _LARGEST
            and 0.0 <= delay <= _LARGEST
            and 0.0 < share <= 1.0
            and math.isfinite(time)
            and (waiting is None or 0 <= waiting <= _LARGEST)
            and (processed is None or 0 <= processed <= _LARGEST)
            and (rate is None or 0.0 <= rate <= _LARGEST)
            and (age is None or 0.0 <= age <= _LARGEST)
        )

    def cleaned(self) -> PeriodMeasurement:
        """The same measurement with impossible numbers replaced by harmless ones.

        Clocks that jump make durations negative and ages infinite. What cannot
        be true becomes 0 or None, never an exception: a controller has to answer.
        """
        if self.is_usable:
            return self
        offered = int(_at_least_zero(self.offered_tuples) or 0)
        return self._replace(
            time_seconds=self.time_seconds if math.isfinite(self.time_seconds) else 0.0,
            duration_seconds=_at_least_zero(self.duration_seconds) or 0.0,
            busy_seconds=_at_least_zero(self.busy_seconds) or 0.0,
            offered_tuples=offered,
            kept_tuples=min(offered, int(_at_least_zero(self.kept_tuples) or 0)),
            waiting_tuples=_count(self.waiting_tuples),
            processed_tuples=_count(self.processed_tuples),
            arrival_rate_per_second=_at_least_zero(self.arrival_rate_per_second),
            waiting_age_seconds=_at_least_zero(self.waiting_age_seconds),
            scheduling_delay_seconds=_at_least_zero(self.scheduling_delay_seconds) or 0.0,
            server_share=self.server_share if 0.0 < self.server_share <= 1.0 else 1.0,
        )

    def expected_tuples(self) -> int:
        """How many tuples the next decision is about, counted or guessed from the rate.

        The number that waits if it is known; else the arrival rate over the
        length of this period; else what was offered in this period.
        """
        if self.waiting_tuples is not None:
            return self.waiting_tuples
        if self.arrival_rate_per_second is not None:
            return round(min(self.arrival_rate_per_second * self.duration_seconds, _LARGEST))
        return self.offered_tuples


def _at_least_zero(value: float | None) -> float | None:
    return value if value is not None and 0.0 <= value <= _LARGEST else None


def _count(value: int | None) -> int | None:
    good = _at_least_zero(value)
    return None if good is None else int(good)


class KeepDecision(NamedTuple):
    """How much to keep of what waits now.

    expected_tuples:           the number the decision was made for.
    keep_tuples:               0 to `expected_tuples`. A buffer keeps this many.
    keep_fraction:             0 to 1. A gate keeps this share, whatever the number turns out to be.
    reason:                    why.
    alarms:                    what a person should know, usually nothing.
    predicted_latency_seconds: what the controller expects for the kept tuples, if it predicts.
    """

    expected_tuples: int
    keep_tuples: int
    keep_fraction: float
    reason: Reason
    alarms: tuple[Alarm, ...] = ()
    predicted_latency_seconds: float | None = None

    @classmethod
    def at_most(
        cls,
        limit_tuples: float,
        expected_tuples: int,
        reason: Reason,
        alarms: tuple[Alarm, ...] = (),
        predicted_latency_seconds: float | None = None,
    ) -> KeepDecision:
        """Keep up to `limit_tuples`; `reason` is used only if that drops something."""
        if not limit_tuples < expected_tuples:  # also true for a limit that is not a number
            return cls.everything(
                expected_tuples, Reason.TARGET_MET, alarms, predicted_latency_seconds
            )
        limit = limit_tuples if limit_tuples > 0.0 else 0.0
        return cls(
            expected_tuples,
            math.floor(limit),
            limit / expected_tuples,
            reason,
            alarms,
            predicted_latency_seconds,
        )

    @classmethod
    def everything(
        cls,
        expected_tuples: int,
        reason: Reason,
        alarms: tuple[Alarm, ...] = (),
        predicted_latency_seconds: float | None = None,
    ) -> KeepDecision:
        """Keep all that waits."""
        if expected_tuples == 0:
            reason = Reason.NOTHING_WAITS
        return cls(expected_tuples, expected_tuples, 1.0, reason, alarms, predicted_latency_seconds)

    @property
    def sheds(self) -> bool:
        return self.keep_tuples < self.expected_tuples


@runtime_checkable
class LatencyController(Protocol):
    """Decides how much to keep, once a period.

    Guarantees of every implementation: the same measurements in the same order
    give the same decisions; 0 <= keep_tuples <= expected_tuples; no exception and
    no NaN whatever is measured; memory does not grow with time; picklable between
    two calls. Not guaranteed: that the target is met (some are baselines).
    """

    def decide(self, measurement: PeriodMeasurement) -> KeepDecision: ...
