"""What waits in front of an operator, and the gate it came through.

Tuples are not kept one by one. A stream's arc holds sorted arrival times and their
running sums, so that a batch is read in O(1). Behind the first operator a batch is a
count and a mean arrival time.

Guarantees: offered = kept + dropped at every gate; kept = read + waiting at every input.
Not guaranteed: which tuples of a batch survive an operator; the survivors are taken to
have arrived, on average, when the batch did. The mean response time over all results is
exact as long as survival does not depend on the arrival time inside one batch.
Memory: the tuples that have arrived and are not read, and those of one load cycle.
"""

from __future__ import annotations

import math
from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

__all__ = ["ClassGate", "InputQueue"]


class ClassGate:
    """Drops at random what the class must lose; counts what it saw.

    One gate stands for all arcs on which the class sheds: its input arcs, or the arcs
    behind the last operator that it shares with another class.
    """

    def __init__(self) -> None:
        self.keep_fraction = 1.0
        self.offered = 0
        self.kept = 0

    @property
    def dropped(self) -> int:
        return self.offered - self.kept

    def passes(self, count: int, rng: np.random.Generator) -> int:
        """How many of `count` tuples of a batch are kept."""
        kept = count if self.keep_fraction >= 1.0 else int(rng.binomial(count, self.keep_fraction))
        self.offered += count
        self.kept += kept
        return kept

    def passing(
        self, times_seconds: NDArray[np.float64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Those of the arriving tuples that are kept."""
        kept = times_seconds
        if self.keep_fraction < 1.0:
            kept = times_seconds[rng.random(len(times_seconds)) < self.keep_fraction]
        self.offered += len(times_seconds)
        self.kept += len(kept)
        return kept


class InputQueue:
    """The tuples of one stream that wait in front of one operator, oldest first.

    next_seconds: when the oldest of them arrived; infinite if there is none. It may lie
    in the future: a whole load cycle is offered at once.
    """

    def __init__(self, gate: ClassGate | None) -> None:
        self.gate = gate
        self.next_seconds = math.inf
        self.read = 0
        self._times: list[float] = []
        self._sums: list[float] = [0.0]
        self._head = 0

    def __len__(self) -> int:
        return len(self._times) - self._head

    def offer(self, times_seconds: NDArray[np.float64], rng: np.random.Generator) -> None:
        """Tuples that arrive later than all before them; the gate drops its share."""
        kept = times_seconds if self.gate is None else self.gate.passing(times_seconds, rng)
        del self._times[: self._head], self._sums[: self._head]
        self._head = 0
        self._sums.extend((self._sums[-1] + np.cumsum(kept)).tolist())
        self._times.extend(kept.tolist())
        self.next_seconds = self._times[0] if self._times else math.inf

    def arrived(self, now_seconds: float) -> int:
        """How many wait now."""
        return bisect_right(self._times, now_seconds, self._head) - self._head

    def take(self, count: int) -> float:
        """Read the `count` oldest; returns their mean arrival time in seconds."""
        first = self._head
        last = self._head = first + count
        self.read += count
        self.next_seconds = self._times[last] if last < len(self._times) else math.inf
        return (self._sums[last] - self._sums[first]) / count
