"""How old the tuples are that wait in front of a source, from when they were first seen. Pure.

A source that is read with a limit leaves tuples behind, and the next batch finds them
older than one interval. Memory is bounded: `_MOST_STEPS` sightings, the oldest are merged.
"""

from __future__ import annotations

from collections import deque

__all__ = ["Backlog"]

_MOST_STEPS = 1000


class Backlog:
    """Sightings of new tuples, first in, first out.

    Tuples that were not there at the last sighting came evenly since then. Those of the
    very first sighting count as just come: how long they have waited is not known.
    """

    def __init__(self) -> None:
        self._steps: deque[list[float]] = deque()  # [tuples, mean time of arrival]
        self._waiting = 0.0
        self._seen_at: float | None = None

    def seen(self, now_seconds: float, waiting: int) -> float:
        """So many wait now; returns their mean age in seconds."""
        since = now_seconds if self._seen_at is None else self._seen_at
        self._seen_at = now_seconds
        new = waiting - self._waiting
        if new > 0:
            self._steps.append([new, (since + now_seconds) / 2.0])
            self._waiting = float(waiting)
            self._merge()
        elif new < 0:
            self.taken(round(-new))
        if waiting <= 0:
            return 0.0
        arrived = sum(count * time for count, time in self._steps) / waiting
        return max(0.0, now_seconds - arrived)

    def taken(self, tuples: int) -> None:
        """So many, the oldest, went into a batch."""
        left = float(tuples)
        while left > 0.0 and self._steps:
            first = self._steps[0]
            if first[0] > left:
                first[0] -= left
                break
            left -= self._steps.popleft()[0]
        self._waiting = sum(count for count, _ in self._steps)

    def _merge(self) -> None:
        while len(self._steps) > _MOST_STEPS:
            one, other = self._steps.popleft(), self._steps.popleft()
            count = one[0] + other[0]
            time = (one[0] * one[1] + other[0] * other[1]) / count
            self._steps.appendleft([count, time])
