"""The Spark session of the measurements, and streams to measure with."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

__all__ = [
    "costly",
    "progress_of",
    "rate_of",
    "replay",
    "saturated_rate",
    "spark_and_headgate",
    "warmed_up_rate",
]

_STEADY = 0.05
_LONGEST_WARM_UP_SECONDS = 120.0


@contextmanager
def spark_and_headgate() -> Iterator[tuple[Any, Any]]:
    """A local session on two cores with Headgate attached; both are closed at the end."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import headgate

    spark = (
        SparkSession.builder.master("local[2]")
        .appName("headgate-benchmarks")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "4g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    try:
        with headgate.attach(spark) as hg:
            yield spark, hg
    finally:
        spark.stop()


def replay(spark: Any, **options: Any) -> Any:
    """A stream of the replay source. `for_` and `at` are durations."""
    reader = spark.readStream.format("headgate_replay")
    for name, value in options.items():
        reader = reader.option(name.rstrip("_"), str(value))
    return reader.load()


def costly(column: str, rounds: int, length: int = 1) -> Any:
    """CPU time for each row, inside generated code: SHA-512 of a text of `length` times 128
    characters, so many times (at most 40: Spark's analyser counts nesting).
    """
    from pyspark.sql import functions as F  # noqa: N812

    value = F.sha2(F.col(column).cast("string"), 512)
    for _ in range(rounds - 1):
        value = F.sha2(F.repeat(value, F.lit(length)) if length > 1 else value, 512)
    return value


def progress_of(query: Any) -> list[dict[str, Any]]:
    """Spark's own progress of all batches, oldest first; raises what stopped the query."""
    if query.exception() is not None:
        raise RuntimeError(str(query.exception()))
    return [json.loads(progress.json) for progress in query.recentProgress]


def rate_of(progress: dict[str, Any]) -> float:
    """Rows a second in one batch."""
    seconds = max(float(progress["durationMs"]["triggerExecution"]), 1.0) / 1000.0
    return float(progress["numInputRows"]) / seconds


def saturated_rate(writer: Any, batches: int = 4, leave_out: int = 1) -> list[float]:
    """Rows a second of a query that has more than enough to do, by batch."""
    query = writer.start()
    try:
        while len(progress_of(query)) < leave_out + batches:
            time.sleep(0.05)
        return [rate_of(p) for p in progress_of(query)[leave_out : leave_out + batches]]
    finally:
        query.stop()


def warmed_up_rate(writer: Any) -> float:
    """Run until three batches in a row are alike (or two minutes): the compiler is done."""
    query = writer.start()
    deadline = time.monotonic() + _LONGEST_WARM_UP_SECONDS
    try:
        while True:
            rates = [rate_of(p) for p in progress_of(query)]
            last, before = rates[-3:], rates[-6:-3]
            steady = len(before) == 3 and median(last) < (1.0 + _STEADY) * median(before)
            if (steady and len(rates) >= 12) or time.monotonic() > deadline:
                return median(last)
            time.sleep(0.2)
    finally:
        query.stop()
