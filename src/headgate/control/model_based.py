"""Headgate's own latency controller: predict, then keep exactly what fits the target.

Decides how many of the waiting tuples to keep so that the mean, or a chosen
percentile, of end-to-end latency meets the target. Once a period it

1. learns what looking at a tuple and processing one cost (`cost_estimate`),
2. predicts the latency if everything is kept (`micro_batch` or `input_buffer`),
3. keeps everything if that meets the target, else as many tuples as meet it,
4. compares the latency that it had predicted with the measured one and moves its
   target by a bias that takes up what the model misses (the integral part).

The bias learns from the error of the prediction, not from the distance to the
target, and only while the controller sheds and what it asks for is done. So it cannot
wind up: an overload that shedding cannot cure is predicted, and teaches nothing; nor
does a batch that kept another share, because shedding is switched off or another loop
decided. One error counts as at most a quarter of the target, the bias is at most half
of it, and it fades when there is nothing to shed.

States (`ControlState`): COLD until a cost is known, then OPEN while everything fits
and SHEDDING while it does not. Any state may follow any other but COLD, which never
comes back. A batch that is far larger than all before, where these were of one size and
shorter than the target, is decided like a cold one: how much of their time was fixed is not
known, and a query that starts with ten tuples on a cold machine would drop nearly everything
after them. Not so a backlog, whose tuples have waited for longer than the target.

Guarantees: nothing is dropped while the predicted latency meets the target; shedding
stops with the first decision for which everything fits; a result of any garbage in
the measurement is a number in range. The server is not left idle: shedding aims at
the target, never below it.
Non-guarantees: the target during the first batches of a sudden change (what has
already waited cannot be made younger); a target below what looking alone costs
(`Alarm.TARGET_UNREACHABLE`). There dropping buys little, so it drops less: a batch that is
late by a fifth even when it drops everything gets a fifth of its length for processing,
at most half. If looking alone is more than the machine can do, `least_slack` is kept.
Cost: about 20 microseconds a decision. Memory: constant.

Paper: the cost model is equation 1 of the 2012 paper; the control law is our own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from headgate.control.contract import Alarm, KeepDecision, PeriodMeasurement, Reason
from headgate.control.cost_estimate import CostEstimator, CostSettings, TupleCosts
from headgate.control.input_buffer import BufferPlan, buffer_drain_periods, plan_buffer
from headgate.control.micro_batch import (
    BatchOutlook,
    plan_micro_batch,
    smallest_micro_batch_latency_seconds,
)
from headgate.control.waiting_age import WaitingAge
from headgate.errors import UsageError

__all__ = ["ControlState", "ModelBasedController", "ModelBasedSettings", "ServiceKind"]

_RATE_MEMORY = 0.5
_LARGEST_ERROR = 0.25
_LARGEST_BIAS = 0.5
_BIAS_FADE = 0.9
_MOST_WORTH = 0.5
"""Out of reach: the most time for processing, as a share of a batch that drops everything."""
_DONE_WITHIN, _DONE_SIGMAS = 0.2, 3.0
"""What was kept is what was asked for if it differs by at most this share and so many standard
deviations of tuples that fall at random."""
_LONGEST_INTERVAL = 10.0
"""A batch counts as at most this many times its predicted length (a clock may have jumped)."""


class ServiceKind(StrEnum):
    """How the tuples that wait are served."""

    MICRO_BATCH = "micro-batch"
    INPUT_BUFFER = "input-buffer"


class ControlState(StrEnum):
    """What the controller is doing."""

    COLD = "cold"
    OPEN = "open"
    SHEDDING = "shedding"


@dataclass(frozen=True, slots=True)
class ModelBasedSettings:
    """What to hold, and how the tuples are served.

    latency_target_seconds: the latency to hold under overload.
    percentile:             None holds the mean, 95.0 the 95th percentile.
    service:                micro-batches, or a buffer that is thinned each period.
    period_seconds:         input buffer: time between two decisions. Micro-batch: the
                            trigger interval, 0 when a batch starts as soon as it can.
    integral_gain:          how fast the bias follows the error of the prediction.
    least_slack:            share of the target (buffer: of the period) that is always used to
                            process, even when the target is out of reach.
    cold_start_tuples:      most tuples kept before a cost is known; None keeps everything.
                            Set it where the first batch may find hours of backlog.
    costs:                  how costs are learnt; the fixed cost is left out for a buffer.
    """

    latency_target_seconds: float = 1.0
    percentile: float | None = None
    service: ServiceKind = ServiceKind.MICRO_BATCH
    period_seconds: float = 0.0
    integral_gain: float = 0.1
    least_slack: float = 0.1
    cold_start_tuples: int | None = None
    costs: CostSettings = field(default_factory=CostSettings)

    def __post_init__(self) -> None:
        object.__setattr__(self, "service", ServiceKind(self.service))  # a journal has its name
        target = self.latency_target_seconds
        if not (math.isfinite(target) and target > 0):
            raise UsageError(f"latency_target_seconds must be above 0, got {target!r}")
        if self.percentile is not None and not 0.0 < self.percentile < 100.0:
            raise UsageError(f"percentile must be between 0 and 100, got {self.percentile!r}")
        if not (math.isfinite(self.period_seconds) and self.period_seconds >= 0):
            raise UsageError(f"period_seconds must be at least 0, got {self.period_seconds!r}")
        if self.service is ServiceKind.INPUT_BUFFER and self.period_seconds == 0:
            raise UsageError("an input buffer needs its period_seconds, for example 0.25")
        if not 0.0 <= self.integral_gain <= 1.0:
            raise UsageError(f"integral_gain must be 0 to 1, got {self.integral_gain!r}")
        if not 0.0 < self.least_slack <= 1.0:
            raise UsageError(f"least_slack must be above 0 and up to 1, got {self.least_slack!r}")

    @property
    def quantile(self) -> float:
        return 0.5 if self.percentile is None else self.percentile / 100.0

    @property
    def cost_settings(self) -> CostSettings:
        if self.service is ServiceKind.MICRO_BATCH:
            return self.costs
        return CostSettings(
            self.costs.memory,
            self.costs.memory_after_surprise,
            False,
            self.costs.looking_share_at_start,
        )


_Plan = tuple[float, float, bool]
"""Tuples to keep, the latency in seconds that is predicted then, and is the target in reach?"""


class ModelBasedController:
    """The default controller. See the module.

    >>> controller = ModelBasedController(ModelBasedSettings(latency_target_seconds=3.0))
    >>> batch = PeriodMeasurement(2.0, 2.0, 200, 200, 2.0, 600, latency_mean_seconds=3.0)
    >>> decision = controller.decide(batch)   # 600 wait, a tuple costs 10 ms, 1 s has gone
    >>> decision.keep_tuples, decision.reason.value
    (178, 'kept what fits the target')
    """

    def __init__(self, settings: ModelBasedSettings) -> None:
        self.settings = settings
        self.state = ControlState.COLD
        self.bias_seconds = 0.0
        self._estimator = CostEstimator(settings.cost_settings)
        self._rate_per_second: float | None = None
        self._promised_seconds: float | None = None  # what the model said of the next results
        self._asked_fraction = 1.0  # to keep of what waited then
        self._shedding_seconds = 0.0
        self._ages = WaitingAge()
        self._is_buffer = settings.service is ServiceKind.INPUT_BUFFER
        self._quantile = settings.quantile

    @property
    def costs(self) -> TupleCosts | None:
        """The costs as they are known now."""
        return self._estimator.costs

    @property
    def arrival_rate_per_second(self) -> float | None:
        """The arrival rate as it is known now."""
        return self._rate_per_second

    def learn(self, measurement: PeriodMeasurement) -> None:
        """Take in a finished period without deciding. `decide` does it by itself."""
        self._learn(measurement.cleaned())

    def decide(self, measurement: PeriodMeasurement) -> KeepDecision:
        measurement = measurement.cleaned()
        self._learn(measurement)
        return self._choose(measurement)

    def choose(self, measurement: PeriodMeasurement) -> KeepDecision:
        """Decide for what waits, with what has been learnt so far."""
        return self._choose(measurement.cleaned())

    def _learn(self, measurement: PeriodMeasurement) -> None:
        self._learn_rate(measurement)
        self._learn_bias(measurement)
        self._estimator.observe(
            measurement.offered_tuples, measurement.work_tuples, measurement.busy_seconds
        )

    def _choose(self, measurement: PeriodMeasurement) -> KeepDecision:
        expected = measurement.expected_tuples()
        costs = self._estimator.costs
        if costs is None or self._is_beyond(measurement, expected):
            self._promised_seconds = None
            limit = self.settings.cold_start_tuples
            if limit is None:
                return KeepDecision.everything(expected, Reason.COLD_START)
            return KeepDecision.at_most(limit, expected, Reason.COLD_START)
        target = self.settings.latency_target_seconds - self.bias_seconds
        plan_it = self._plan_buffer if self._is_buffer else self._plan_batch
        keep, predicted, reachable = plan_it(measurement, costs, expected, target)
        alarms = () if reachable else (Alarm.TARGET_UNREACHABLE,)
        reason = Reason.HELD_TO_TARGET if reachable else Reason.BEST_EFFORT
        decision = KeepDecision.at_most(
            keep, expected, reason, alarms, predicted + self.bias_seconds
        )
        self._enter(ControlState.SHEDDING if decision.sheds else ControlState.OPEN, measurement)
        self._promise(predicted)
        self._asked_fraction = decision.keep_fraction
        return decision

    def _is_beyond(self, measurement: PeriodMeasurement, expected: int) -> bool:
        """Far more waits than was ever seen, but it has come within the target, after a batch
        that was shorter: no backlog.
        """
        target, age = self.settings.latency_target_seconds, measurement.waiting_age_seconds
        if age is None:
            age = measurement.duration_seconds / 2.0
        fresh = measurement.busy_seconds <= target and age <= target / 2.0
        return fresh and not self._estimator.reaches(expected)

    def _plan_batch(
        self, measurement: PeriodMeasurement, costs: TupleCosts, expected: int, target: float
    ) -> _Plan:
        settings, share, quantile = self.settings, measurement.server_share, self._quantile
        worked = costs.busy_seconds(measurement.offered_tuples, measurement.work_tuples) / share
        interval, longest = measurement.duration_seconds, _LONGEST_INTERVAL * worked
        if longest < interval:
            interval = longest
        if interval < settings.period_seconds:
            interval = settings.period_seconds
        age = measurement.waiting_age_seconds
        if age is None:
            age = self._ages.share(expected, interval) * interval
        age_at_quantile = quantile * 2.0 * age
        outlook = BatchOutlook(expected, age_at_quantile, interval, quantile, share)
        keep, predicted = plan_micro_batch(outlook, costs, target, settings.least_slack)
        if keep >= expected:
            return keep, predicted, True
        smallest = smallest_micro_batch_latency_seconds(
            costs, self._rate_per_second or 0.0, settings.period_seconds, quantile, share
        )
        if not target < smallest < math.inf:
            return keep, predicted, smallest < target
        worth = min(smallest / target - 1.0, _MOST_WORTH) * smallest / (1.0 + quantile)
        least = max(worth * share / max(costs.processing_seconds, 1e-12), keep)
        keep = min(least, float(expected))
        return keep, outlook.latency_seconds(costs, keep), False

    def _plan_buffer(
        self, measurement: PeriodMeasurement, costs: TupleCosts, expected: int, target: float
    ) -> _Plan:
        settings, period = self.settings, self.settings.period_seconds
        arrived = (self._rate_per_second or 0.0) * period
        plan: BufferPlan = plan_buffer(
            costs,
            expected,
            arrived,
            period,
            target,
            measurement.server_share,
            settings.least_slack,
        )
        kept = min(plan.keep_tuples, float(expected))
        periods = buffer_drain_periods(kept, arrived, plan.processed_per_period)
        predicted = periods * period + costs.processing_seconds
        return plan.keep_tuples, predicted, plan.reachable

    def _enter(self, state: ControlState, measurement: PeriodMeasurement) -> None:
        if state is ControlState.SHEDDING:
            self._shedding_seconds += measurement.duration_seconds
        else:
            self._shedding_seconds = 0.0
            self.bias_seconds *= _BIAS_FADE
        self.state = state

    def _promise(self, predicted_seconds: float) -> None:
        """Remember the prediction until its results are measured.

        A batch is measured at the next call. A buffer answers over the time that a
        tuple spends in it, so there the promise is smoothed over half the target.
        """
        last = self._promised_seconds
        if last is None or not self._is_buffer:
            self._promised_seconds = predicted_seconds
            return
        step = 2.0 * self.settings.period_seconds / self.settings.latency_target_seconds
        self._promised_seconds = last + min(1.0, step) * (predicted_seconds - last)

    def _learn_rate(self, measurement: PeriodMeasurement) -> None:
        rate = measurement.arrival_rate_per_second
        if rate is None:
            if measurement.waiting_tuples is None or measurement.duration_seconds <= 0:
                return
            if self._is_buffer:
                return  # the backlog says nothing of the rate
            rate = measurement.waiting_tuples / measurement.duration_seconds
        last = self._rate_per_second
        if last is None or not 0.5 * last <= rate <= 2.0 * last:
            self._rate_per_second = rate  # a step, not noise
        else:
            self._rate_per_second = last + (1.0 - _RATE_MEMORY) * (rate - last)

    def _learn_bias(self, measurement: PeriodMeasurement) -> None:
        promised = self._promised_seconds
        if promised is None or self.state is not ControlState.SHEDDING:
            return
        if not self._was_done(measurement):
            return
        settings = self.settings
        measured = measurement.latency_seconds(settings.percentile)
        if measured is None:
            return
        target, gain = settings.latency_target_seconds, settings.integral_gain
        if self._is_buffer:
            if self._shedding_seconds <= target:
                return  # what comes out now went in before the shedding began
            gain *= min(1.0, 2.0 * settings.period_seconds / target)
        bias = self.bias_seconds
        moved = bias + gain * _within(measured - promised - bias, _LARGEST_ERROR * target)
        self.bias_seconds = _within(moved, _LARGEST_BIAS * target)

    def _was_done(self, measurement: PeriodMeasurement) -> bool:
        """Was about the share kept that the last decision asked for?"""
        asked = self._asked_fraction * measurement.offered_tuples
        off = abs(measurement.kept_tuples - asked)
        return off <= _DONE_WITHIN * asked + _DONE_SIGMAS * math.sqrt(asked)


def _within(value: float, limit: float) -> float:
    """`value`, but not further from 0 than `limit`."""
    if value > limit:
        return limit
    return value if value > -limit else -limit
