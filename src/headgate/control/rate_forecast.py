"""At what rate will the tuples of the next batch arrive?

A plan for the next batch is made when the last one has told its rates, and by then they are as
old as a batch. While a load grows or falls, a plan for the old rate keeps too much or too little,
the more so the longer batches are. So a level and a trend are followed (Holt's method), and the
forecast is one batch ahead:

    level(k)  = m forecast(k) + (1 - m) rate(k)
    trend(k)  = (trend(k-1) + level(k) - level(k-1)) / 2
    forecast(k+1) = level(k) + trend(k)

The memory m is short where batches are long: these have averaged already.

Guarantees: a forecast is at least 0, and within a third of the level; steady rates are forecast as
they are; a rate that is no finite number of at least 0 teaches nothing. Not guaranteed: anything
about steps, which nobody can see coming. Memory: constant.

>>> rate = RateForecast()
>>> [rate.observe(observed, period_seconds=6.0) for observed in (100.0, 100.0)]
[100.0, 100.0]
>>> round(rate.observe(120.0, period_seconds=6.0), 1)
128.5
"""

from __future__ import annotations

import math

__all__ = ["RateForecast"]

_MEMORY_SECONDS = 2.0
_TREND_MEMORY = 0.5
_MOST_AHEAD = 1.0 / 3.0  # of the level


class RateForecast:
    """See the module. One for each stream."""

    def __init__(self) -> None:
        self._level: float | None = None
        self._trend = 0.0

    @property
    def level(self) -> float:
        """The rate as it is, smoothed; 0 before anything was observed."""
        return self._level or 0.0

    def observe(self, rate_per_second: float, period_seconds: float) -> float:
        """The rate of a batch is known; the forecast for the next.

        period_seconds: from the begin of a batch to that of the next.
        """
        if not (math.isfinite(rate_per_second) and rate_per_second >= 0.0):
            return self._ahead()
        before = self._level
        if before is None:
            self._level = rate_per_second
            return rate_per_second
        memory = math.exp(-max(period_seconds, 0.0) / _MEMORY_SECONDS)
        self._level = memory * self._ahead() + (1.0 - memory) * rate_per_second
        step = self._level - before
        self._trend = _TREND_MEMORY * self._trend + (1.0 - _TREND_MEMORY) * step
        return self._ahead()

    def _ahead(self) -> float:
        most = _MOST_AHEAD * self.level
        return self.level + min(max(self._trend, -most), most)
