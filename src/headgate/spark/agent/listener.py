"""Spark's listener: it only hands events to a queue; a thread of our own does the rest.

The queue is bounded. When it is full the event is left out and an alarm raised; the
agent takes progress from the query itself at the next question, so only ledger rows of
batches in between are lost, and they are reported as such.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, ClassVar

from pyspark import SparkContext
from pyspark.sql.streaming.listener import StreamingQueryListener

from headgate.spark.agent.alarms import Alarms

__all__ = ["EventThread", "ProgressListener"]

_LONGEST_QUEUE = 10_000


class EventThread:
    """Runs what it is given, in order, on one thread. An exception becomes an alarm."""

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms
        self._queue: queue.Queue[Callable[[], None] | None] = queue.Queue(_LONGEST_QUEUE)
        self._thread = threading.Thread(target=self._run, name="headgate-events", daemon=True)
        self._thread.start()

    def put(self, work: Callable[[], None]) -> None:
        try:
            self._queue.put_nowait(work)
        except queue.Full:
            self._alarms.raise_alarm("listener", "queue", "full; an event was left out")

    def drain(self, timeout_seconds: float = 5.0) -> bool:
        """Wait until all that was put before is done."""
        done = threading.Event()
        self.put(done.set)
        return done.wait(timeout_seconds)

    def close(self) -> None:
        try:
            self._queue.put(None, timeout=1.0)
        except queue.Full:
            return
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                work()
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
                self._alarms.raise_alarm("listener", "event", text)


class ProgressListener(StreamingQueryListener):
    """Forwards progress (as JSON) and ends of queries.

    PySpark's own bridge builds a Python object from dozens of calls to the JVM for every
    event; this one asks for the JSON only.
    """

    def __init__(
        self,
        events: EventThread,
        progressed: Callable[[str], None],
        ended: Callable[[str, str | None], None],
    ) -> None:
        self._bridge = _Bridge(events, progressed, ended)

    @property
    def _jlistener(self) -> Any:
        if not hasattr(self, "_jlistenerobj"):
            jvm: Any = SparkContext._jvm
            self._jlistenerobj: Any = jvm.PythonStreamingQueryListenerWrapper(self._bridge)
        return self._jlistenerobj

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Not called: the bridge takes all events."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Not called: the bridge takes all events."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Not called: the bridge takes all events."""


class _Bridge:
    """What the JVM calls. Nothing may raise here, and nothing is decided here."""

    def __init__(
        self,
        events: EventThread,
        progressed: Callable[[str], None],
        ended: Callable[[str, str | None], None],
    ) -> None:
        self._events, self._progressed, self._ended = events, progressed, ended

    def onQueryStarted(self, jevent: Any) -> None:  # noqa: N802
        pass

    def onQueryIdle(self, jevent: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802
        self._events.put(lambda: self._progressed(str(jevent.progress().json())))

    def onQueryTerminated(self, jevent: Any) -> None:  # noqa: N802
        self._events.put(lambda: self._end(jevent))

    def _end(self, jevent: Any) -> None:
        exception = jevent.exception()
        text = str(exception.get()) if exception.isDefined() else None
        self._ended(str(jevent.runId().toString()), text)

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]
