"""What a gate costs when there is nothing to shed: milliseconds a batch and throughput.

Two queries that differ only in the gate run in turn, some rounds, in one Spark session.
`small`: batches of 1,000 rows show the fixed cost of a batch. The others have many rows
and a query that does more or less with each: `cheap` hashes twice (about 2 microseconds
of CPU time a row), `parsing` reads JSON, filters and counts by key (5 to 10), `heavy`
hashes many times (about 40). The source is Spark's own and leaves no pause between
batches, so the ratio of batch times is the ratio of throughput, at any load.
Medians of Spark's own times, the first batches of each round left out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.spark.environment import costly, progress_of

__all__ = ["run"]

ROUNDS = 5
WARM_UP_BATCHES = 6
BATCHES = 12


def run(spark: Any, hg: Any, rounds: int = ROUNDS) -> dict[str, Any]:
    """`ratio` is batch time with the gate over batch time without it."""
    return {
        "small": _compare(spark, hg, _hashing(2), 1_000, rounds),
        "cheap": _compare(spark, hg, _hashing(2), 200_000, rounds),
        "parsing": _compare(spark, hg, _parsing, 100_000, rounds),
        "heavy": _compare(spark, hg, _hashing(40), 20_000, rounds),
    }


def _hashing(times: int) -> Callable[[Any], Any]:
    def work(stream: Any) -> Any:
        return stream.where(costly("value", times) != "").writeStream.format("noop")

    return work


def _parsing(stream: Any) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    value = F.col("value").cast("string")
    text = F.concat(F.lit('{"id":'), value, F.lit(',"shop":"s'), value, F.lit('","price":12.5}'))
    order = F.from_json(text, "id bigint, shop string, price double")
    orders = stream.select(order.alias("order")).where("order.price > 1")
    shops = orders.groupBy(F.pmod("order.id", F.lit(100))).agg(F.sum("order.price"), F.count("*"))
    return shops.writeStream.format("noop").outputMode("update")


def _compare(spark: Any, hg: Any, work: Any, rows: int, rounds: int) -> dict[str, Any]:
    print(f"  {rows} rows a batch ...", file=sys.stderr, flush=True)
    with_gate: list[dict[str, float]] = []
    without: list[dict[str, float]] = []
    for number in range(rounds + 1):
        sides = [(True, with_gate), (False, without)]
        for gated, results in sides if number % 2 == 0 else reversed(sides):
            times = _batch_times(spark, hg, work, rows, gated)
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


def _batch_times(spark: Any, hg: Any, work: Any, rows: int, gated: bool) -> dict[str, float]:
    """Median times of one round of one side."""
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    stream = stream.option("startTimestamp", round(time.time() * 1000))
    stream = stream.option("advanceMillisPerBatch", 100).option("numPartitions", 2).load()
    if gated:
        stream = hg.gate(stream, "orders", arrival="timestamp", identity=["value"])
    name = f"bench{time.time_ns()}"
    writer = work(stream)
    query = hg.start(writer, name=name, latency="600s") if gated else writer.start()
    try:
        while len(progress_of(query)) < WARM_UP_BATCHES + BATCHES:
            time.sleep(0.1)
    finally:
        query.stop()
    times = [progress["durationMs"] for progress in progress_of(query)][WARM_UP_BATCHES:]
    return {
        "trigger_ms": median(t["triggerExecution"] for t in times),
        "add_ms": median(t["addBatch"] for t in times),
        "latest_ms": median(t["latestOffset"] for t in times),
    }
