"""A rate over time in pieces, with its sum and the way back from a sum to a time.

The sum is the expected number of arrivals since time 0. It turns a rate into arrival
times: the k-th tuple of an even stream comes when the sum reaches k - 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headgate.errors import UsageError

__all__ = ["RateProfile"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RateProfile:
    """Piece i has `rates_per_second[i]` from `starts_seconds[i]` to the next start.

    starts_seconds: ascending, the first one 0.
    period_seconds: the pieces begin again after this time; None: the last piece lasts for ever.

    All functions take arrays and cost O(log pieces) an entry. Times are at least 0.
    """

    starts_seconds: Floats
    rates_per_second: Floats
    period_seconds: float | None = None

    def __post_init__(self) -> None:
        starts, rates = self.starts_seconds, self.rates_per_second
        if len(starts) == 0 or len(starts) != len(rates) or starts[0] != 0.0:
            raise UsageError("a rate profile needs one start for each rate, the first start at 0")
        if not (np.all(np.diff(starts) > 0.0) and np.all(np.isfinite(starts))):
            raise UsageError("the starts of a rate profile must be finite and ascend")
        if not (np.all(rates >= 0.0) and np.all(np.isfinite(rates))):
            raise UsageError("rates must be finite numbers of at least 0 tuples per second")
        period = self.period_seconds
        if period is not None and not (np.isfinite(period) and period > starts[-1]):
            raise UsageError("the period of a rate profile must be longer than its last start")

    @cached_property
    def _sums(self) -> Floats:
        """Expected arrivals up to each start."""
        pieces = np.diff(self.starts_seconds) * self.rates_per_second[:-1]
        return np.concatenate(([0.0], np.cumsum(pieces)))

    @cached_property
    def tuples_per_period(self) -> float:
        """Expected arrivals in one period; infinite without one."""
        if self.period_seconds is None:
            return float("inf")
        last = (self.period_seconds - self.starts_seconds[-1]) * self.rates_per_second[-1]
        return float(self._sums[-1] + last)

    def rate_at(self, time_seconds: float) -> float:
        """Tuples per second at one time; 0 before time 0."""
        if time_seconds < 0.0:
            return 0.0
        within = time_seconds if self.period_seconds is None else time_seconds % self.period_seconds
        piece = int(np.searchsorted(self.starts_seconds, within, side="right")) - 1
        return float(self.rates_per_second[max(piece, 0)])

    def expected_before(self, time_seconds: float) -> float:
        """Expected arrivals from 0 to `time_seconds`."""
        time_seconds = max(0.0, time_seconds)
        rounds = 0.0
        if self.period_seconds is not None:
            rounds = float(np.floor(time_seconds / self.period_seconds))
            time_seconds = min(
                max(0.0, time_seconds - rounds * self.period_seconds), self.period_seconds
            )
        piece = int(np.searchsorted(self.starts_seconds, time_seconds, side="right")) - 1
        inside = (time_seconds - self.starts_seconds[piece]) * self.rates_per_second[piece]
        whole = rounds * self.tuples_per_period if rounds else 0.0
        return float(whole + self._sums[piece] + inside)

    def times_of(self, sums: Floats) -> Floats:
        """When the expected number of arrivals reaches each of `sums` (above 0, reachable)."""
        rounds: Floats = np.zeros_like(sums)
        if self.period_seconds is not None:
            rounds = np.ceil(sums / self.tuples_per_period) - 1.0
            sums = sums - rounds * self.tuples_per_period
        piece = np.maximum(np.searchsorted(self._sums, sums, side="left") - 1, 0)
        rates = self.rates_per_second[piece]
        gap = np.divide(sums - self._sums[piece], rates, out=np.zeros_like(sums), where=rates > 0.0)
        times: Floats = self.starts_seconds[piece] + gap
        return times if self.period_seconds is None else times + rounds * self.period_seconds
