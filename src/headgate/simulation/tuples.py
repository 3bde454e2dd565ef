"""Tuples as columns, and the queue in front of a gate.

A simulated tuple is two times: when it reached this job, and when the oldest tuple
that it was made of came into the network. Rows are sorted by the first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["NO_TUPLES", "ArcQueue", "Tuples"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tuples:
    """Two columns of the same length, virtual seconds."""

    entered: Floats
    origin: Floats

    def __len__(self) -> int:
        return len(self.entered)

    def part(self, chosen: slice | NDArray[np.bool_] | NDArray[np.intp]) -> Tuples:
        if self.origin is self.entered:
            same = self.entered[chosen]
            return Tuples(same, same)
        return Tuples(self.entered[chosen], self.origin[chosen])

    @classmethod
    def joined(cls, parts: Sequence[Tuples]) -> Tuples:
        """One after the other; the caller sees to the order."""
        if not parts:
            return NO_TUPLES
        if len(parts) == 1:
            return parts[0]
        entered = np.concatenate([part.entered for part in parts])
        if all(part.origin is part.entered for part in parts):
            return cls(entered, entered)
        return cls(entered, np.concatenate([part.origin for part in parts]))


NO_TUPLES = Tuples(np.empty(0), np.empty(0))


class ArcQueue:
    """Tuples on their way to one gate; those that have not arrived yet are in it as well.

    First in, first out. Each chunk begins where the one before ended. Unbounded: the
    node's memory limit is checked by the caller.
    """

    def __init__(self) -> None:
        self._chunks: deque[Tuples] = deque()
        self._taken = 0

    def put(self, tuples: Tuples) -> None:
        if len(tuples):
            self._chunks.append(tuples)

    def waiting(self, now_seconds: float) -> int:
        """How many have arrived by now and were not taken."""
        count = 0
        for chunk in self._chunks:
            if chunk.entered[0] > now_seconds:
                break
            count += _arrived(chunk, now_seconds)
        return count

    def arrived(self, now_seconds: float) -> int:
        """How many have arrived since the beginning."""
        return self._taken + self.waiting(now_seconds)

    def take(self, now_seconds: float) -> Tuples:
        """All that have arrived by now."""
        parts: list[Tuples] = []
        while self._chunks and self._chunks[0].entered[0] <= now_seconds:
            chunk = self._chunks.popleft()
            count = _arrived(chunk, now_seconds)
            if count < len(chunk):
                self._chunks.appendleft(chunk.part(slice(count, None)))
                chunk = chunk.part(slice(0, count))
            parts.append(chunk)
        taken = Tuples.joined(parts)
        self._taken += len(taken)
        return taken

    def entered(self) -> Floats:
        """Arrival times of all chunks, for the moment when memory ran out."""
        return np.concatenate([np.empty(0), *(chunk.entered for chunk in self._chunks)])


def _arrived(chunk: Tuples, now_seconds: float) -> int:
    if chunk.entered[-1] <= now_seconds:
        return len(chunk)
    return int(np.searchsorted(chunk.entered, now_seconds, side="right"))
