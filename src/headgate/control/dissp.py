"""The latency controller of the 2012 paper, section 3.

Decides how many of the N(t) tuples in the input buffer stay there, from the
measured latency alone. No model of the system.

    n(t+1) = n(t) + q n(t) (T - l(t - tau)) / T          (equation 7)

The linear case is stable for 0 < q < 2 / (2 tau_max + 1) (proposition 1), tau
counted in periods. A latency is seen only when its tuple is done, so the delay
is the latency itself and whatever the measurement adds. The controller watches
the largest delay seen and raises an alarm when q is outside the range.

The paper leaves three cases open. This is what happens here:

- Before the first latency above the target n is not set and everything is kept.
  The first overload sets n to the number that waits at that moment, or to
  `initial_tuples`. At that moment the backlog is about what the target allows.
- While n does not bind (fewer tuples wait than n) it does not grow: without this
  n would rise by the factor 1 + q each period of a quiet night.
- n never falls below `minimum_tuples`, because from 0 it could never rise again.

Guarantees: everything is kept until a latency above the target was measured.
Non-guarantees: settling time (the gain must be small, so it is slow), no
overshoot, no oscillation when the alarm is raised. Cost: O(1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headgate.control.contract import Alarm, KeepDecision, PeriodMeasurement, Reason
from headgate.errors import UsageError

__all__ = ["DisspController", "DisspSettings", "largest_stable_gain"]

_DELAY_MEMORY = 0.99
"""The largest delay seen fades by this factor each period, so that an old peak is forgotten."""


def largest_stable_gain(delay_periods: float) -> float:
    """The bound of proposition 1: 2 / (2 tau_max + 1).

    >>> largest_stable_gain(2)
    0.4
    """
    return 2.0 / (2.0 * delay_periods + 1.0)


@dataclass(frozen=True, slots=True)
class DisspSettings:
    """The paper's settings: period 250 ms, q = 0.1.

    latency_target_seconds:    T, the mean latency to hold.
    period_seconds:            time between two decisions; used to count delays in periods.
    gain:                      q of equation 7.
    measurement_delay_seconds: what the measurement adds to the delay of the latency itself.
    minimum_tuples:            the smallest n.
    initial_tuples:            n at the first overload; None: the number that waits then.
    """

    latency_target_seconds: float = 1.0
    period_seconds: float = 0.25
    gain: float = 0.1
    measurement_delay_seconds: float = 0.0
    minimum_tuples: float = 1.0
    initial_tuples: float | None = None

    def __post_init__(self) -> None:
        for name in ("latency_target_seconds", "period_seconds", "gain", "minimum_tuples"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise UsageError(f"{name} must be a number above 0, got {value!r}")


class DisspController:
    """Equation 7. See the module for what it decides and what it leaves open.

    >>> controller = DisspController(DisspSettings(latency_target_seconds=1.0))
    >>> late = PeriodMeasurement(0.25, 0.25, 100, 100, 0.25, 400, latency_mean_seconds=1.5)
    >>> controller.decide(late).keep_tuples   # 400 + 0.1 * 400 * (1.0 - 1.5) / 1.0
    380
    """

    def __init__(self, settings: DisspSettings) -> None:
        self.settings = settings
        self._tuples: float | None = None  # n(t) of equation 7
        self._largest_delay_periods = 0.0

    def decide(self, measurement: PeriodMeasurement) -> KeepDecision:
        settings = self.settings
        measurement = measurement.cleaned()
        expected = measurement.expected_tuples()
        latency = measurement.latency_seconds()
        self._watch_delay(latency)
        if latency is not None:
            self._move(latency, expected)
        alarms = self._alarms()
        if self._tuples is None:
            return KeepDecision.everything(expected, Reason.TARGET_MET, alarms)
        return KeepDecision.at_most(
            max(self._tuples, settings.minimum_tuples), expected, Reason.HELD_BY_FEEDBACK, alarms
        )

    def _move(self, latency_seconds: float, expected_tuples: int) -> None:
        settings = self.settings
        target = settings.latency_target_seconds
        if self._tuples is None:
            if latency_seconds <= target or expected_tuples == 0:
                return
            start = settings.initial_tuples
            self._tuples = float(expected_tuples) if start is None else start
        rises = latency_seconds < target
        if rises and expected_tuples < self._tuples:
            return  # n does not bind: more of it would change nothing now and hurt later
        moved = self._tuples * (1.0 + settings.gain * (target - latency_seconds) / target)
        self._tuples = max(settings.minimum_tuples, moved)

    def _watch_delay(self, latency_seconds: float | None) -> None:
        self._largest_delay_periods *= _DELAY_MEMORY
        if latency_seconds is None:
            return
        delay = latency_seconds + self.settings.measurement_delay_seconds
        periods = math.ceil(delay / self.settings.period_seconds - 1e-9)
        self._largest_delay_periods = max(self._largest_delay_periods, float(periods))

    def _alarms(self) -> tuple[Alarm, ...]:
        if self._tuples is None:
            return ()
        bound = largest_stable_gain(self._largest_delay_periods)
        return () if self.settings.gain < bound else (Alarm.GAIN_OUTSIDE_STABLE_RANGE,)
