"""A node's processor, shared evenly by the batches that run on it.

Every running batch gets the same share of the capacity; alone it gets all of it.
"""

from __future__ import annotations

__all__ = ["Processor"]


class Processor:
    """capacity in CPU seconds per second; work in CPU seconds."""

    def __init__(self, capacity: float) -> None:
        self.capacity = capacity
        self.busy_seconds = 0.0
        self.version = 0  # changes whenever the time of the next end may have changed
        self._left: dict[str, float] = {}
        self._now = 0.0

    def start(self, job: str, work_seconds: float, now_seconds: float) -> None:
        self._advance(now_seconds)
        self._left[job] = work_seconds
        self.version += 1

    def stop_all(self, now_seconds: float) -> None:
        """The node fails: all work in hand is lost, what was used was used."""
        self._advance(now_seconds)
        self._left.clear()
        self.version += 1

    def next_end(self) -> tuple[float, str] | None:
        """Which batch ends first, and when, if nothing else happens."""
        if not self._left:
            return None
        job = min(self._left, key=self._left.__getitem__)
        return self._now + self._left[job] * len(self._left) / self.capacity, job

    def finish(self, job: str, now_seconds: float) -> None:
        self._advance(now_seconds)
        del self._left[job]
        self.version += 1

    def settle(self, now_seconds: float) -> None:
        """Count the work that was done up to now."""
        self._advance(now_seconds)

    def _advance(self, now_seconds: float) -> None:
        if self._left and now_seconds > self._now:
            each = (now_seconds - self._now) * self.capacity / len(self._left)
            for job, left in self._left.items():
                self.busy_seconds += min(each, left)
                self._left[job] = max(0.0, left - each)
        self._now = max(self._now, now_seconds)
