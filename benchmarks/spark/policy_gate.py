"""What a policy costs on top of the random gate: milliseconds a batch, on Spark.

Queries that differ only in the gate run in turn, some rounds, in one Spark session: the
random gate, and gates with a policy of three levels, row-wise (Spark columns) or
queue-wise (Arrow). All of them shed: each is limited to about the same share of its
tuples. Medians of Spark's own batch times, the first rounds and the first batches of each round
left out: the JVM compiles for a minute, and longer where there is more code. Many short
rounds: the speed of the machine moves within a quarter of a minute.
The ratios are of rounds that ran one after the other; the spread is the least and the
most of them. Batches of the random gate and of the policies keep about as many tuples,
so the work behind the gate is the same. A batch takes about a second, as with a latency target
of some seconds; `short_batches` has both policies with a fifth of the rows. `parsed_rows` has
the row-wise one behind a JSON parser, as most streams come; the other rows are made of a hash
and are about as cheap as rows can be. `counted` is the random gate again, with as many counted
numbers of the same kinds as the row-wise policy has and without the policy: what it costs is the
price of counting, and the rest is the policy's own. `cpu` is the CPU time of
Spark's JVM for each batch: on a machine that others use too, its ratio says more than that of
the batch times.
"""

from __future__ import annotations

import json
import sys
import time
from statistics import median
from typing import Any

from benchmarks.spark.environment import jvm_cpu_seconds, spark_and_headgate

__all__ = ["run"]

ROUNDS = 12
WARM_UP_ROUNDS = 3
WARM_UP_BATCHES = 4
BATCHES = 5
KEEP = 0.5


def run(rounds: int = ROUNDS, rows: int = 1_000_000) -> dict[str, Any]:
    """The ratios are of a batch with the policy over one with the random gate."""
    policies = _policies()
    by_columns = {name: policies[name] for name in ("random", "row_wise", "counted")}
    with spark_and_headgate() as (spark, hg):
        return _compare(spark, hg, by_columns, rows, rounds) | {
            "short_batches": _compare(spark, hg, policies, rows // 5, rounds),
            "parsed_rows": _compare(spark, hg, by_columns, rows // 5, rounds, parsed=True),
        }


def _policies() -> dict[str, Any]:
    from headgate.reduction import PolicyBuilder, use

    # The random gate keeps half; level 1 of each policy leaves about half as well.
    row_wise = (
        PolicyBuilder("row-wise", attribute="reading")
        .digest("MEAN")
        .digest("MAX")
        .level(use("WITHIN", "drop", low=0, high=499))
        .level(use("INSET", "drop", values=[500, 501, 502]))
        .level(use("GT", "drop", value=990))
        .build()
    )
    queue_wise = (
        PolicyBuilder("queue-wise", attribute="reading", group="key")
        .digest("MEAN")
        .digest("MAX")
        .level(use("EVERY", "keep", count=2))
        .level(use("DELTA", "keep", change=300))
        .level(use("LATEST_PER_KEY", "keep"))
        .build()
    )
    return {"random": None, "row_wise": row_wise, "queue_wise": queue_wise, "counted": None}


def _compare(
    spark: Any, hg: Any, policies: dict[str, Any], rows: int, rounds: int, parsed: bool = False
) -> dict[str, Any]:
    print(f"  {rows} rows a batch{', parsed' if parsed else ''} ...", file=sys.stderr, flush=True)
    times: dict[str, list[dict[str, float]]] = {name: [] for name in policies}
    for number in range(rounds + WARM_UP_ROUNDS):
        names = list(policies) if number % 2 == 0 else list(reversed(policies))
        for name in names:
            measured = _batch_times(spark, hg, rows, name, policies[name], number, parsed)
            if number >= WARM_UP_ROUNDS:
                times[name].append(measured)
    result: dict[str, Any] = {"rows_per_batch": rows, "rounds": rounds, "keep_fraction": KEEP}
    for name, found in times.items():
        result[name] = {key: median(one[key] for one in found) for key in found[0]}
        if name != "random":
            pairs = list(zip(found, times["random"], strict=True))
            for what in ("trigger", "cpu"):
                ratios = [a[f"{what}_ms"] / b[f"{what}_ms"] for a, b in pairs]
                result[name] |= {
                    f"{what}_ratio_median": median(ratios),
                    f"{what}_ratio_least": min(ratios),
                    f"{what}_ratio_most": max(ratios),
                }
    return result


def _batch_times(
    spark: Any, hg: Any, rows: int, name: str, policy: Any, number: int, parsed: bool
) -> dict[str, float]:
    """Median times of one round of one gate."""
    from pyspark.sql import functions as F  # noqa: N812

    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    stream = stream.option("startTimestamp", round(time.time() * 1000))
    stream = stream.option("advanceMillisPerBatch", 100).option("numPartitions", 2).load()
    stream = stream.withColumn("reading", F.pmod(F.xxhash64("value"), F.lit(1000)))
    stream = stream.withColumn("key", F.col("value") % 1000)
    if parsed:
        stream = _through_json(stream)
    if name == "counted":
        gated = _counted(spark, stream)
    else:
        gated = hg.gate(stream, "readings", arrival="timestamp", identity=["value"], policy=policy)
    work = gated.withColumn("hash", F.sha2(F.sha2(F.col("value").cast("string"), 256), 256))
    writer = work.where(F.col("hash") != "").writeStream.format("noop")
    query_name = f"policy_{name}_{rows}_{number}{'_parsed' if parsed else ''}"
    query = hg.start(writer, name=query_name, latency="600s")
    hg.limit(query_name, "readings", KEEP)
    before = _wait_for(query, WARM_UP_BATCHES), jvm_cpu_seconds(spark)
    after = _wait_for(query, WARM_UP_BATCHES + BATCHES), jvm_cpu_seconds(spark)
    query.stop()
    progress = [json.loads(p.json) for p in query.recentProgress][WARM_UP_BATCHES:]
    counts = hg.report().sums[query_name, "readings"]
    return {
        "trigger_ms": median(p["durationMs"]["triggerExecution"] for p in progress),
        "add_ms": median(p["durationMs"]["addBatch"] for p in progress),
        "cpu_ms": 1000.0 * (after[1] - before[1]) / (after[0] - before[0]),
        "kept_share": counts.kept / max(1, counts.offered),
    }


def _counted(spark: Any, stream: Any) -> Any:
    """The random gate that also observes what the row-wise policy does: four counts, one for
    each level and one for odd rows, and the number, the sum and the largest of some readings.
    """
    from pyspark.sql import functions as F  # noqa: N812

    from headgate.spark.gates.gate import add_gate
    from headgate.spark.gates.row_columns import RandomRows

    class Counted(RandomRows):
        def columns(self, live: Any) -> dict[str, Any]:
            counts = {
                f"__headgate_count_{number}": (F.col("reading") > F.lit(200 * number)).cast(
                    "bigint"
                )
                for number in range(4)
            }
            half = F.when(F.col("reading") < 500, F.col("reading").cast("double"))
            return {**super().columns(live), **counts, "__headgate_half": half}

        def metrics(self) -> list[Any]:
            half = F.col("__headgate_half")
            counts = [F.sum(f"__headgate_count_{n}").alias(f"count_{n}") for n in range(4)]
            others = [F.count(half).alias("number"), F.sum(half).alias("sum")]
            return [*counts, *others, F.max(half).alias("largest")]

        def above(self, frame: Any) -> Any:
            return frame.drop("__headgate_half", *(f"__headgate_count_{n}" for n in range(4)))

    return add_gate(spark, stream, "readings", "timestamp", Counted(["value"]))


def _through_json(stream: Any) -> Any:
    """The same rows, read from texts."""
    from pyspark.sql import functions as F  # noqa: N812

    parts: list[Any] = []
    for name in ("value", "reading", "key"):
        parts += [F.lit(f', "{name}": ' if parts else f'{{"{name}": '), F.col(name).cast("string")]
    text = F.concat(*parts, F.lit("}"))
    event = F.from_json(text, "value bigint, reading bigint, key bigint")
    return stream.select("timestamp", event.alias("event")).select("timestamp", "event.*")


def _wait_for(query: Any, batches: int) -> int:
    """Wait for so many batches; how many there are."""
    while (count := len(query.recentProgress)) < batches:
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        time.sleep(0.05)
    return count
