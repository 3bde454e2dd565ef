"""What a gate costs when there is nothing to shed: milliseconds a batch and throughput.

Two queries that differ only in the gate run in turn, some rounds, in one Spark session.
`small`: batches of 1,000 rows show the fixed cost of a batch. `large`: batches of many
rows through a query that does some work show the cost of a row. Medians of Spark's own
times (`triggerExecution`, `addBatch`), the first batches of each round left out.

    python -m benchmarks.spark
"""

from __future__ import annotations

import json
import os
import sys
import time
from statistics import median
from typing import Any

__all__ = ["run"]

ROUNDS = 5
WARM_UP_BATCHES = 6
BATCHES = 20


def run(rounds: int = ROUNDS, rows: int = 200_000) -> dict[str, Any]:
    """Both comparisons; `ratio` is batch time with the gate over batch time without it."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import headgate

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    try:
        with headgate.attach(spark) as hg:
            return {
                "small": _compare(spark, hg, 1_000, rounds),
                "large": _compare(spark, hg, rows, rounds),
            }
    finally:
        spark.stop()


def _compare(spark: Any, hg: Any, rows: int, rounds: int) -> dict[str, Any]:
    with_gate: list[dict[str, float]] = []
    without: list[dict[str, float]] = []
    for number in range(rounds + 1):
        sides = [(True, with_gate), (False, without)]
        for gated, results in sides if number % 2 == 0 else reversed(sides):
            times = _batch_times(spark, hg, rows, gated, number)
            if number > 0:  # the first round warms the machine up
                results.append(times)
    ratios = [a["trigger_ms"] / b["trigger_ms"] for a, b in zip(with_gate, without, strict=True)]
    extra = [a["trigger_ms"] - b["trigger_ms"] for a, b in zip(with_gate, without, strict=True)]
    return {
        "rows_per_batch": rows,
        "rounds": rounds,
        "batch_ms_with_gate": median(side["trigger_ms"] for side in with_gate),
        "batch_ms_without_gate": median(side["trigger_ms"] for side in without),
        "add_batch_ms_with_gate": median(side["add_ms"] for side in with_gate),
        "add_batch_ms_without_gate": median(side["add_ms"] for side in without),
        "latest_offset_ms_with_gate": median(side["latest_ms"] for side in with_gate),
        "extra_ms_median": median(extra),
        "extra_ms_least": min(extra),
        "extra_ms_most": max(extra),
        "ratio_median": median(ratios),
        "ratio_least": min(ratios),
        "ratio_most": max(ratios),
        "throughput_loss_share": 1.0 - 1.0 / median(ratios),
    }


def _batch_times(spark: Any, hg: Any, rows: int, gated: bool, number: int) -> dict[str, float]:
    """Median times of one round of one side."""
    from pyspark.sql import functions as F  # noqa: N812

    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    stream = stream.option("startTimestamp", round(time.time() * 1000))
    stream = stream.option("advanceMillisPerBatch", 100).option("numPartitions", 2).load()
    if gated:
        stream = hg.gate(stream, "orders", arrival="timestamp", identity=["value"])
    work = stream.withColumn("hash", F.sha2(F.sha2(F.col("value").cast("string"), 256), 256))
    writer = work.where(F.col("hash") != "").writeStream.format("noop")
    name = f"bench_{rows}_{gated}_{number}"
    query = hg.start(writer, name=name, latency="600s") if gated else writer.start()
    while len(query.recentProgress) < WARM_UP_BATCHES + BATCHES:
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        time.sleep(0.1)
    query.stop()
    times = [json.loads(p.json)["durationMs"] for p in query.recentProgress][WARM_UP_BATCHES:]
    return {
        "trigger_ms": median(t["triggerExecution"] for t in times),
        "add_ms": median(t["addBatch"] for t in times),
        "latest_ms": median(t["latestOffset"] for t in times),
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
