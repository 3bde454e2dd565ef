"""A driver on a standalone cluster of two workers, where tasks run twice.

Run by test_cluster.py. In every batch the first attempt at the first partition fails half-way, or,
in every other one, stands still for so long that Spark starts a copy beside it on the other host.
Each attempt leaves a file behind.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.spark.java_options import QUICK

ROWS_PER_SECOND = 400
BATCHES = 4
STILL_SECONDS = 60.0
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.efficiency.enabled": "false",
}


def disturbed(attempts: Path) -> Any:
    """A function for mapInArrow that passes rows on and disturbs a first attempt."""

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        number, partition = task.attemptNumber(), task.partitionId()
        batch = task.getLocalProperty("streaming.sql.batchId")
        (attempts / f"{batch}-{partition}-{number}").touch()
        for rows in batches:
            yield rows
            if number == 0 and partition == 0 and rows.num_rows:
                if int(batch or 0) % 2 == 0:
                    raise RuntimeError("the first attempt fails after some rows")
                time.sleep(STILL_SECONDS)

    return pass_on


def main(directory: Path, master: str) -> None:
    import pyspark

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    from pyspark.sql import SparkSession

    import headgate

    builder = (
        SparkSession.builder.master(master)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.driver.extraJavaOptions", QUICK)
        .config("spark.executor.extraJavaOptions", QUICK)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.streaming.minBatchesToRetain", "1000")
    )
    spark = builder.config(map={**SPECULATION}).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    attempts = directory / "attempts"
    attempts.mkdir()
    hg = headgate.attach(spark, timeout="20s")
    reader = spark.readStream.format("headgate_replay").option("rate", str(ROWS_PER_SECOND))
    stream = hg.gate(
        reader.load(),
        "orders",
        arrival="timestamp",
        identity=["id"],
        dead_letters=directory / "letters",
    )
    writer = stream.mapInArrow(disturbed(attempts), stream.schema).writeStream.format("parquet")
    writer = writer.option("path", str(directory / "out"))
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    query = hg.start(writer, name="cluster")
    hg.limit("cluster", "orders", 0.4)
    while len(query.recentProgress) < BATCHES and query.isActive:
        time.sleep(0.2)
    query.stop()
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1  # type: ignore[union-attr]
    (directory / "executors").write_text(str(executors))
    failure = query.exception()
    hg.close()
    spark.stop()
    if failure is not None:
        raise SystemExit(str(failure))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
