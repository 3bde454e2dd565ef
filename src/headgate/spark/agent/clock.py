"""A thread that calls something at a steady pace until it is closed."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headgate.spark.agent.alarms import Alarms

__all__ = ["Clock"]


class Clock:
    """Calls `work` every `seconds`. An exception becomes an alarm; the next call comes."""

    def __init__(self, work: Callable[[], None], seconds: float, alarms: Alarms) -> None:
        self._work, self._seconds, self._alarms = work, seconds, alarms
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-clock", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while not self._closed.wait(self._seconds):
            try:
                self._work()
            except Exception as error:
                self._alarms.raise_alarm("clock", "tick", f"{type(error).__name__}: {error}")
