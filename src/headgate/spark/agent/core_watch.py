"""The cores of the application, for the classes: how many there are, and how many have tasks.

A look at the busy ones ten times a second while somebody waits for a turn, at their number every
five seconds: executors come and go. No pyspark; both are functions that ask Spark.

Failure: a function that raises is not asked again. What was known stays.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["CoreWatch"]

_LOOK_EVERY_SECONDS = 0.1
_ASK_EVERY_SECONDS = 5.0


class CoreWatch:
    """See the module. busy: how many have tasks now; total: how many there are."""

    def __init__(
        self,
        busy: Callable[[], int] | None = None,
        total: Callable[[], int] | None = None,
    ) -> None:
        self._busy, self._total = busy, total
        self._looked_at = self._asked_at = float("-inf")
        self._looks: list[int] = []

    def look(self, now_seconds: float) -> None:
        """At the busy ones, if the last look was long enough ago."""
        if self._busy is None or 0.0 <= now_seconds - self._looked_at < _LOOK_EVERY_SECONDS:
            return
        self._looked_at = now_seconds
        try:
            self._looks.append(self._busy())
        except Exception:  # Spark is going, or does not tell
            self._busy = None

    def busy_since_last(self) -> float | None:
        """The mean of the looks since this was asked; None without one."""
        looks, self._looks = self._looks, []
        return sum(looks) / len(looks) if looks else None

    def number(self, now_seconds: float) -> int | None:
        """How many there are; None when it is not time to ask, or nobody tells."""
        if self._total is None or 0.0 <= now_seconds - self._asked_at < _ASK_EVERY_SECONDS:
            return None
        self._asked_at = now_seconds
        try:
            return max(1, self._total())
        except Exception:  # Spark is going
            self._total = None
            return None
