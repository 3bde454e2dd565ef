"""The Spark session of the measurements, and streams to measure with."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = [
    "costly",
    "jvm_cpu_seconds",
    "progress_of",
    "replay",
    "spark_and_headgate",
    "stolen_cpu_seconds",
]


@contextmanager
def spark_and_headgate(settings: Mapping[str, Any] | None = None) -> Iterator[tuple[Any, Any]]:
    """A local session on two cores with Headgate attached; both are closed at the end."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import headgate

    builder = (
        SparkSession.builder.master("local[2]")
        .appName("headgate-benchmarks")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "4g")
    )
    spark = builder.config(map=dict(settings or {})).getOrCreate()
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
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        reader = reader.option(name.rstrip("_"), text)
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


def jvm_cpu_seconds(spark: Any) -> float:
    """CPU time of the JVM so far: of driver and tasks, not of Python. Linux only."""
    pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stolen_cpu_seconds() -> float:
    """CPU time that other machines on the same host took from this one so far. Linux only."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


def progress_of(query: Any) -> list[dict[str, Any]]:
    """Spark's own progress of all batches, oldest first; raises what stopped the query."""
    if query.exception() is not None:
        raise RuntimeError(str(query.exception()))
    return [json.loads(progress.json) for progress in query.recentProgress]
