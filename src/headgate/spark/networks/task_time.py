"""How long the tasks of a micro-batch kept cores busy, from Spark's own status store.

The sum of task times can be added up over queries that run at the same time, which the
durations of their batches cannot. It holds what a Python worker takes, since its task waits for
it. Spark keeps the last 1,000 jobs; what it has forgotten counts as nothing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

__all__ = ["TaskTimes"]

_BATCH = re.compile(r"batch = (\d+)")
_LOOK_AGAIN_SECONDS = 0.02
_RUNNING = ("ACTIVE", "PENDING", "RUNNING")


class TaskTimes:
    """Of the batches of all queries of one session. Each question costs some milliseconds."""

    def __init__(self, spark: SparkSession, pause: Callable[[float], None] = time.sleep) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        context: Any = spark.sparkContext._jsc
        self._store = context.sc().statusStore()
        self._seen: dict[str, int] = {}  # by run: the newest job that was added up
        self._pause = pause

    def seconds(self, run_id: str, batch: int, patience_seconds: float = 0.3) -> float | None:
        """Task seconds of a batch that has ended; None if Spark does not know them (any more).

        Spark's status comes a moment after the batch, so this waits for it a little.
        """
        left = patience_seconds
        while True:
            jobs = self._jobs(run_id, batch)
            if jobs and all(done for _, done in jobs):
                self._seen[run_id] = max(job for job, _ in jobs)
                return sum(self._job_seconds(job) for job, _ in jobs)
            if left <= 0.0:
                return None
            left -= _LOOK_AGAIN_SECONDS
            self._pause(_LOOK_AGAIN_SECONDS)

    def _jobs(self, run_id: str, batch: int) -> list[tuple[int, bool]]:
        """Jobs of the batch, and whether they have ended."""
        found = []
        for job in self._tracker.getJobIdsForGroup(run_id):
            if job <= self._seen.get(run_id, -1):
                continue
            try:
                data = self._store.job(job)
                text = data.description()
                said = _BATCH.search(str(text.get())) if text.isDefined() else None
                if said is not None and int(said[1]) == batch:
                    found.append((job, str(data.status().toString()) not in _RUNNING))
            except Exception:  # forgotten meanwhile
                continue
        return found

    def _job_seconds(self, job: int) -> float:
        info = self._tracker.getJobInfo(job)
        stages = () if info is None else info.stageIds
        return sum(self._stage_seconds(stage) for stage in stages)

    def _stage_seconds(self, stage: int) -> float:
        try:
            data = self._store.lastStageAttempt(stage)
        except Exception:  # skipped: its result was there already
            return 0.0
        if str(data.status().toString()) == "SKIPPED":
            return 0.0
        return float(data.executorRunTime()) / 1000.0
