"""How many cores of the application have a task now, from Spark's task scheduler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

__all__ = ["busy_cores"]


def busy_cores(spark: SparkSession) -> Callable[[], int]:
    """A function that counts the running tasks of all executors. About a millisecond a call.

    The scheduler itself is asked: Spark's status store is written when tasks begin and end, at
    most so often, and says "busy" until the next one begins.
    """
    context: Any = spark.sparkContext._jsc
    scheduler = context.sc().taskScheduler()

    def count() -> int:
        total, executors = 0, scheduler.runningTasksByExecutors().valuesIterator()
        while executors.hasNext():
            total += int(executors.next())
        return total

    return count
