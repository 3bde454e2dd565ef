"""What a gate costs when there is nothing to shed: milliseconds a batch and throughput.

Two queries that differ only in the gate run in turn, some rounds, in one Spark session.
`small`: batches of 1,000 rows show the fixed cost of a batch. The others have many rows
and a query that does more or less with each: `cheap` hashes twice (about 2 microseconds
of CPU time a row), `parsing` reads JSON, filters and counts by key (5 to 10), `heavy`
hashes many times (about 40). The source is Spark's own and leaves no pause between
batches, so the ratio of batch times is the ratio of throughput when saturated.
`parts`: what of it comes from where, on small batches. `filter` has the hash of a gate and
nothing else, `observed` also counts and looks at arrivals as a gate does, in plain Spark; what
`gate` has beyond that is the decision: asking, planning and logging it.
What a gate costs with pauses between batches: `half_capacity`.
Medians of Spark's own times. The first rounds and the first batches of each round are left out:
a streaming query runs for days, and a JVM that has just started compiles for minutes.
Checkpoints are written without a process for each file (`local_session.PLAIN_FILES`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.spark.environment import costly, progress_of, spark_and_headgate
from headgate.spark.local_session import PLAIN_FILES

__all__ = ["BATCHES", "batch_times", "compare", "hashing", "medians", "parsing", "run", "stream_of"]

ROUNDS = 13
WARM_UP_ROUNDS = 3
WARM_UP_BATCHES = 4
BATCHES = 6
_SMALL_ROWS = 1_000
_SMALL_WARM_UP = 25  # batches so short that the JVM is still learning


def run(rounds: int = ROUNDS) -> dict[str, Any]:
    """`ratio` is batch time with the gate over batch time without it."""
    with spark_and_headgate(PLAIN_FILES) as (spark, hg):
        return {
            "small": compare(spark, hg, hashing(2), _SMALL_ROWS, rounds, _SMALL_WARM_UP),
            "parts": _parts(spark, hg, hashing(2), rounds),
            "cheap": compare(spark, hg, hashing(2), 200_000, rounds),
            "parsing": compare(spark, hg, parsing, 100_000, rounds),
            "heavy": compare(spark, hg, hashing(40), 20_000, rounds),
        }


def hashing(times: int) -> Callable[[Any], Any]:
    def work(stream: Any) -> Any:
        return stream.where(costly("value", times) != "").writeStream.format("noop")

    return work


def parsing(stream: Any) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    value = F.col("value").cast("string")
    text = F.concat(F.lit('{"id":'), value, F.lit(',"shop":"s'), value, F.lit('","price":12.5}'))
    order = F.from_json(text, "id bigint, shop string, price double")
    orders = stream.select(order.alias("order")).where("order.price > 1")
    shops = orders.groupBy(F.pmod("order.id", F.lit(100))).agg(F.sum("order.price"), F.count("*"))
    return shops.writeStream.format("noop").outputMode("update")


def compare(
    spark: Any,
    hg: Any,
    work: Any,
    rows: int,
    rounds: int,
    warm_up: int = WARM_UP_BATCHES,
    warm_up_rounds: int = WARM_UP_ROUNDS,
) -> dict[str, Any]:
    print(f"  {rows} rows a batch ...", file=sys.stderr, flush=True)
    with_gate: list[dict[str, float]] = []
    without: list[dict[str, float]] = []
    for number in range(rounds + warm_up_rounds):
        sides = [(True, with_gate), (False, without)]
        for gated, results in sides if number % 2 == 0 else reversed(sides):
            times = batch_times(spark, hg, work, rows, gated, warm_up)
            if number >= warm_up_rounds:
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


def _parts(spark: Any, hg: Any, work: Any, rounds: int) -> dict[str, Any]:
    print("  parts ...", file=sys.stderr, flush=True)
    from pyspark.sql import functions as F  # noqa: N812

    from headgate.spark.gates.gate import count_metrics, identity_hash, passes, with_sample

    def filtered(stream: Any) -> Any:
        kept = passes(["value"], F.lit(1), F.lit(1_000_000))
        return with_sample(
            stream.select("*", kept.alias("kept")),
            "kept",
            F.col("timestamp"),
            identity_hash(["value"]),
        )

    def observed(stream: Any) -> Any:
        return filtered(stream).observe("seen", *count_metrics("kept", F.col("timestamp")))

    def gate(stream: Any) -> Any:
        return hg.gate(stream, "orders", arrival="timestamp", identity=["value"])

    sides: dict[str, Callable[[Any], Any]] = {
        "none": lambda stream: stream,
        "filter": lambda stream: filtered(stream).where("kept"),
        "observed": lambda stream: observed(stream).where("kept"),
        "gate": gate,
    }
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, side in sides.items():
            stream = side(stream_of(spark, _SMALL_ROWS))
            times = _times(hg, work(stream), name == "gate", _SMALL_WARM_UP)
            if number > 0:
                seen[name].append(times)
    return {
        name: {
            f"extra_{part}": median(
                a[part] - b[part] for a, b in zip(found, seen["none"], strict=True)
            )
            for part in found[0]
        }
        for name, found in seen.items()
        if name != "none"
    }


def stream_of(spark: Any, rows: int) -> Any:
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    stream = stream.option("startTimestamp", round(time.time() * 1000))
    return stream.option("advanceMillisPerBatch", 100).option("numPartitions", 2).load()


def batch_times(
    spark: Any, hg: Any, work: Any, rows: int, gated: bool, warm_up: int = WARM_UP_BATCHES
) -> dict[str, float]:
    """Median times of one round of one side."""
    stream = stream_of(spark, rows)
    if gated:
        stream = hg.gate(stream, "orders", arrival="timestamp", identity=["value"])
    return _times(hg, work(stream), gated, warm_up)


def _times(hg: Any, writer: Any, gated: bool, warm_up: int) -> dict[str, float]:
    name = f"bench{time.time_ns()}"
    query = hg.start(writer, name=name, latency="600s") if gated else writer.start()
    wanted = warm_up + (BATCHES if warm_up <= WARM_UP_BATCHES else 4 * BATCHES)
    try:
        while len(progress_of(query)) < wanted:
            time.sleep(0.1)
    finally:
        query.stop()
    return medians([progress["durationMs"] for progress in progress_of(query)][warm_up:])


def medians(times: Sequence[Mapping[str, int]]) -> dict[str, float]:
    return {
        "trigger_ms": median(t["triggerExecution"] for t in times),
        "add_ms": median(t["addBatch"] for t in times),
        "planning_ms": median(t["queryPlanning"] for t in times),
        "latest_ms": median(t["latestOffset"] for t in times),
    }
