"""Queries with gates that nobody started through Headgate: their gates keep everything.

A gate is an ordinary transformation. In a query that is started with the writer's own `start`
nobody tells it what to drop, and nothing else would say so. Spark's listener hears of all queries
of a session, and what a gate observes bears its name.

Guarantees: one alarm for each such query; none for queries that any Headgate of this driver has
started, with or without its gates. Not guaranteed: an alarm for a query in a session that no
Headgate listens to.
"""

from __future__ import annotations

import json
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from headgate.spark.agent.alarms import Alarms
from headgate.spark.gates.gate_metrics import METRIC_PREFIX, gate_in, is_of_a_gate

__all__ = ["STARTED", "StartedRuns", "Ungated"]

_KEEP = 10_000


class StartedRuns:
    """What all Headgates of this driver have started; the last 10,000 runs.

    While a query is being started its run has no id yet, so its name stands for it. Spark allows
    no second running query of that name.
    """

    def __init__(self) -> None:
        self._starting: Counter[str] = Counter()
        self._runs: deque[str] = deque(maxlen=_KEEP)
        self._lock = threading.Lock()

    @contextmanager
    def starting(self, name: str) -> Iterator[Callable[[str], None]]:
        """Around a start; what it gives is to be called with the id of the run."""
        with self._lock:
            self._starting[name] += 1
        try:
            yield self._remember
        finally:
            with self._lock:
                self._starting[name] -= 1

    def has(self, run_id: str, name: str | None) -> bool:
        with self._lock:
            return run_id in self._runs or self._starting[name or ""] > 0

    def _remember(self, run_id: str) -> None:
        with self._lock:
            self._runs.append(run_id)


STARTED = StartedRuns()


class Ungated:
    """Raises the alarm `not gated` for queries that were not started through Headgate."""

    def __init__(self, alarms: Alarms, started: StartedRuns = STARTED) -> None:
        self._alarms, self._started = alarms, started
        self._told: deque[str] = deque(maxlen=_KEEP)

    def look(self, progress: str) -> None:
        """Spark's progress of any query, as JSON. Never raises because of what it holds."""
        if f'"{METRIC_PREFIX}' not in progress:
            return
        try:
            data: Mapping[str, Any] = json.loads(progress)
            query, run, name = str(data["id"]), str(data["runId"]), data.get("name")
            metrics = [m for m in data.get("observedMetrics") or () if is_of_a_gate(m)]
        except (ValueError, KeyError, TypeError):
            return  # whoever reads the progress says so
        if not metrics or query in self._told or self._started.has(run, name):
            return
        self._told.append(query)
        gates = ", ".join(sorted({str(gate_in(metric)) for metric in metrics}))
        self._alarms.raise_alarm(
            "not gated",
            str(name or query),
            f"its gates ({gates}) keep everything, because it was started with the writer's own "
            "start; start it with hg.start(writer, name=...)",
        )
