"""Latencies of one period in three numbers, and of a whole run in constant memory.

In the histogram mean, standard deviation and the largest are exact; percentiles
are right within 1 %, because the bins grow by 1 % each, from 0.1 ms to 28 hours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["LatencyHistogram", "LatencySummary"]

Floats = NDArray[np.float64]

_LEAST_SECONDS = 1e-4
_GROWTH = math.log(1.01)
_BINS = 2 + math.ceil(math.log(1e5 / _LEAST_SECONDS) / _GROWTH)


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Latencies of one batch or period in seconds; None where there was no tuple."""

    count: int = 0
    mean_seconds: float | None = None
    p95_seconds: float | None = None
    largest_seconds: float | None = None

    @classmethod
    def of(cls, latencies_seconds: Floats) -> LatencySummary:
        """Exact; the percentile is the nearest rank."""
        count = len(latencies_seconds)
        if count == 0:
            return cls()
        rank = math.ceil(0.95 * count) - 1
        ordered = np.partition(latencies_seconds, rank)
        return cls(
            count,
            float(latencies_seconds.sum()) / count,
            float(ordered[rank]),
            float(ordered[rank:].max()),
        )

    @property
    def percentiles(self) -> dict[float, float]:
        """As an event carries them."""
        return {} if self.p95_seconds is None else {95.0: self.p95_seconds}


class LatencyHistogram:
    """Counts by bin, and exact sums."""

    def __init__(self) -> None:
        self.count = 0
        self.largest_seconds = 0.0
        self._sum = 0.0
        self._squares = 0.0
        self._bins = np.zeros(_BINS, dtype=np.int64)

    def add(self, latencies_seconds: Floats) -> None:
        if len(latencies_seconds) == 0:
            return
        self.count += len(latencies_seconds)
        self.largest_seconds = max(self.largest_seconds, float(latencies_seconds.max()))
        self._sum += float(latencies_seconds.sum())
        # Not a dot product: the threads of a BLAS then spin on the other cores.
        self._squares += float(np.square(latencies_seconds).sum())
        raised = np.maximum(latencies_seconds, _LEAST_SECONDS)
        number = (np.log(raised / _LEAST_SECONDS) / _GROWTH).astype(np.int64)
        self._bins += np.bincount(np.minimum(number, _BINS - 1), minlength=_BINS)

    @property
    def mean_seconds(self) -> float | None:
        return self._sum / self.count if self.count else None

    @property
    def deviation_seconds(self) -> float | None:
        """Standard deviation around the mean."""
        if not self.count:
            return None
        mean = self._sum / self.count
        return math.sqrt(max(0.0, self._squares / self.count - mean * mean))

    def percentile_seconds(self, percentile: float) -> float | None:
        """The middle of the bin that holds the percentile (0 to 100)."""
        if not self.count:
            return None
        wanted = math.ceil(self.count * percentile / 100.0)
        number = int(np.searchsorted(np.cumsum(self._bins), max(1, wanted)))
        middle = _LEAST_SECONDS * math.exp((number + 0.5) * _GROWTH)
        return min(middle, self.largest_seconds)

    def distribution(self) -> tuple[Floats, Floats]:
        """Upper ends of the bins in use, and the share of latencies up to each."""
        used = np.flatnonzero(self._bins)
        if len(used) == 0:
            return np.empty(0), np.empty(0)
        number = np.arange(used[0], used[-1] + 1)
        seconds = _LEAST_SECONDS * np.exp((number + 1) * _GROWTH)
        share = np.cumsum(self._bins)[number] / self.count
        return seconds, share
