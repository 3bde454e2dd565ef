"""Amounts spread over stretches of time of equal length. Pure, no pyspark.

A batch says how many tuples it had, not when within its time. So an amount is spread evenly from
where it begins to where it ends, and each stretch gets its part. Amounts of different things that
cover the same time can then be compared stretch by stretch.

Guarantees: an amount that lies behind the begin of the timeline is kept whole, up to rounding; what
lies before it is left out. Memory is bounded: when there are more than `most` stretches, they
become twice as long, two of them one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Timeline"]


@dataclass
class Timeline:
    """
    >>> line = Timeline(begin_seconds=100.0, width_seconds=1.0)
    >>> line.spread("clicks", 99.0, 102.0, 30.0)
    >>> line.amounts("clicks", 2).tolist()
    [10.0, 10.0]
    """

    begin_seconds: float
    width_seconds: float = 1.0
    most: int = 1000
    _sums: dict[Hashable, np.ndarray] = field(default_factory=dict)

    def spread(self, name: Hashable, since: float, until: float, amount: float) -> None:
        """Add an amount that belongs to the time from `since` to `until`."""
        length = until - since
        first, last = max(since, self.begin_seconds), until
        if length <= 0.0 or last <= first:
            return
        while (last - self.begin_seconds) / self.width_seconds > self.most:
            self._join_pairs()
        begin = int((first - self.begin_seconds) // self.width_seconds)
        end = min(self.most, int((last - self.begin_seconds) // self.width_seconds) + 1)
        edges = self.begin_seconds + self.width_seconds * np.arange(begin, end + 1)
        overlap = np.diff(np.clip(edges, first, last))
        sums = self._sums.get(name)
        if sums is None:
            sums = self._sums[name] = np.zeros(self.most)
        sums[begin:end] += amount * overlap / length

    def amounts(self, name: Hashable, stretches: int) -> np.ndarray:
        """What belongs to each of the first stretches."""
        sums = self._sums.get(name)
        return np.zeros(stretches) if sums is None else sums[:stretches]

    def stretches_until(self, seconds: float) -> int:
        """How many whole stretches lie before this time."""
        whole = int((seconds - self.begin_seconds) / self.width_seconds + 1e-9)
        return min(max(whole, 0), self.most)

    def _join_pairs(self) -> None:
        self.width_seconds *= 2.0
        for name, sums in self._sums.items():
            joined = np.zeros(self.most)
            joined[: (self.most + 1) // 2] = np.add.reduceat(sums, np.arange(0, self.most, 2))
            self._sums[name] = joined
