"""What a person should know. A bounded list and the log; no pyspark."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass

__all__ = ["Alarm", "Alarms"]

_log = logging.getLogger("headgate.spark")
_KEEP = 1000
_QUIET_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Alarm:
    """`kind` is one word or two, for example "agent"; `subject` a query, gate or file."""

    time_seconds: float
    kind: str
    subject: str
    text: str


class Alarms:
    """The last 1,000 alarms, oldest out. The same alarm is logged once in ten seconds."""

    def __init__(self) -> None:
        self._alarms: deque[Alarm] = deque(maxlen=_KEEP)
        self._logged: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()

    def raise_alarm(self, kind: str, subject: str, text: str) -> None:
        """Remember and log. Never raises."""
        alarm = Alarm(time.time(), kind, subject, text)
        with self._lock:
            self._alarms.append(alarm)
            now = time.monotonic()
            if len(self._logged) > _KEEP:
                self._logged.clear()
            last = self._logged.get((kind, subject))
            if last is not None and now - last < _QUIET_SECONDS:
                return
            self._logged[kind, subject] = now
        _log.warning("headgate alarm (%s, %s): %s", kind, subject, text)

    def all(self) -> list[Alarm]:
        """Oldest first."""
        with self._lock:
            return list(self._alarms)
