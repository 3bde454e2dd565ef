from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headgate.spark.session import Headgate, attach
from tests.spark.streams import rows_of, settles, wait_for, wait_for_batches

TARGET_SECONDS = 2.0


def costly(column: str) -> Column:
    """About 0.2 ms of CPU time for each row, inside generated code."""
    value = F.col(column).cast("string")
    for _ in range(40):
        value = F.sha2(F.repeat(value, 16), 512)
    return value


def capacity_per_second(spark: SparkSession) -> float:
    """Rows a second that the machine can process now, from a short batch job."""
    rows = 5000
    for _ in range(2):  # the first one compiles; each is a plan of its own, or Spark keeps results
        job = spark.range(0, rows, numPartitions=2).select(F.sum(F.length(costly("id"))))
        start = time.monotonic()
        job.collect()
        seconds = time.monotonic() - start
    return rows / seconds


def a_crowd(spark: SparkSession, replay: Callable[..., DataFrame], after: str) -> DataFrame:
    """Few rows at first, then three times what the machine can do."""
    rate = 3.0 * capacity_per_second(spark)
    times = {"at": after, "for": "900s"}
    return replay(pattern="flash crowd", rate=round(rate / 20), peak=round(rate), **times)


def test_latency_settles_at_the_target_and_grows_without_a_gate(
    hg: Headgate, spark: SparkSession, replay: Callable[..., DataFrame]
) -> None:
    crowd = a_crowd(spark, replay, after="3s")
    stream = hg.gate(crowd, "crowd", arrival="timestamp", identity=["id"])
    work = stream.select(F.sum(F.length(costly("id"))).alias("total"))
    writer = work.writeStream.format("noop").outputMode("complete")
    query = hg.start(writer, name="loop", latency=TARGET_SECONDS)
    low, high = 0.4 * TARGET_SECONDS, 2.0 * TARGET_SECONDS
    wait_for(lambda: settles(rows_of(hg, "loop"), low, high), what="a latency near the target")
    rows = rows_of(hg, "loop")
    assert any(row["dropped"] and row["why"] == "feedback" for row in rows)
    settled = [row for row in rows if row["dropped"]][-4:]
    late = [row["latency_p95_seconds"] / row["latency_mean_seconds"] for row in settled]
    assert 1.0 < median(late) < 1.6  # arrivals are even, so 4/3 where a batch is as the last one
    hg.mode("open")

    def grows() -> bool:
        last = rows_of(hg, "loop")[-1]
        return bool(last["dropped"] == 0 and last["latency_mean_seconds"] > high)

    wait_for(grows, what="a latency that grows without a gate")
    hg.mode("on")
    query.stop()
    later = rows_of(hg, "loop")[len(rows) :]
    opened = next(row for row in later if row["dropped"] == 0)  # one may be decided already
    assert opened["why"] in ("mode", "nothing")  # nothing: it would not shed anyway


def windowed(hg: Headgate, crowd: Callable[[], DataFrame]) -> DataStreamWriter:
    """A stateful aggregate: windows by key, with a watermark."""
    stream = hg.gate(crowd(), "clicks", arrival="timestamp", identity=["id"])
    late = stream.withColumn("work", F.length(costly("id"))).withWatermark("timestamp", "9 seconds")
    counts = late.groupBy(F.window("timestamp", "3 seconds"), "key").agg(F.sum("work"))
    return counts.writeStream.format("noop").outputMode("update")


def joined(hg: Headgate, crowd: Callable[[], DataFrame]) -> DataStreamWriter:
    """A stream-stream join of neighbours: half of the tuples come from either side."""
    sides = []
    for number, name in enumerate(("left", "right")):
        stream = hg.gate(crowd(), name, arrival="timestamp", identity=["id"])
        half = stream.where(f"id % 2 = {number}").withColumn("work", F.length(costly("id")))
        late = half.withWatermark("timestamp", "3 seconds")
        sides.append(late.selectExpr("id div 2 as pair", f"timestamp as {name}_time", "work"))
    near = "right_time between left_time - interval 1 second and left_time + interval 1 second"
    return (
        sides[0]
        .join(sides[1], ["pair"])
        .where(near)
        .writeStream.format("noop")
        .outputMode("append")
    )


@pytest.mark.parametrize("build", [windowed, joined])
def test_with_state_latency_settles_too_and_shedding_stops_when_the_crowd_goes(
    build: Callable[..., DataStreamWriter],
    hg: Headgate,
    spark: SparkSession,
    replay: Callable[..., DataFrame],
) -> None:
    rate = 3.0 * capacity_per_second(spark)
    steps = {"pattern": "steps", "rates": f"{round(rate / 20)},{round(rate)},1", "step": "24s"}
    name = build.__name__
    epoch = time.time() - 16.0  # eight seconds of calm, and the crowd comes
    query = hg.start(
        build(hg, lambda: replay(**steps, keys=20, epoch=epoch)), name=name, latency=TARGET_SECONDS
    )

    def held() -> bool:
        latencies = [row["latency_mean_seconds"] for row in rows_of(hg, name) if row["dropped"]]
        return len(latencies) >= 4 and 0.4 < median(latencies[-4:]) / TARGET_SECONDS < 2.0

    wait_for(held, what="a latency near the target")
    assert not any(row["dropped"] for row in rows_of(hg, name) if row["time_seconds"] < epoch + 24)

    def calm() -> bool:
        since = [row for row in rows_of(hg, name) if row["time_seconds"] > epoch + 48.0]
        return len({row["batch"] for row in since if not row["dropped"]}) >= 3

    wait_for(calm, what="batches that drop nothing")
    later = [row for row in rows_of(hg, name) if row["time_seconds"] > epoch + 48.0]
    shedding = {row["batch"] for row in later if row["dropped"]}
    assert len(shedding) <= 4  # the one that ran, and those with what the crowd left
    assert hg.report().balances
    query.stop()


def test_off_drops_nothing_and_says_what_would_go(
    hg: Headgate, spark: SparkSession, replay: Callable[..., DataFrame]
) -> None:
    crowd = a_crowd(spark, replay, after="10s")  # the query has started, and batches are short
    stream = hg.gate(crowd, "crowd", arrival="timestamp", identity=["id"])
    work = stream.select(F.sum(F.length(costly("id"))).alias("total"))
    hg.mode("off")
    writer = work.writeStream.format("noop").outputMode("complete")
    query = hg.start(writer, name="watched", latency=TARGET_SECONDS)

    def would_shed() -> list[float]:
        shares = [row["would_keep"] for row in rows_of(hg, "watched")]
        return [share for share in shares if share is not None and share < 0.9]

    wait_for(lambda: bool(would_shed()), what="a batch that would shed")
    query.stop()
    hg.mode("on")
    assert min(would_shed()) > 0.05  # a third fits, on a machine whose speed moves
    assert all(row["dropped"] == 0 for row in rows_of(hg, "watched"))
    assert "would have been dropped, but shedding was off" in str(hg.report())


def test_a_dead_agent_stops_no_query_and_drops_nothing(
    spark: SparkSession, replay: Callable[..., DataFrame], tmp_path: Path
) -> None:
    own = attach(spark, timeout="20s")
    stream = own.gate(replay(rate=2000), "lonely", identity=["id"])
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = own.start(writer, name="lonely")
    wait_for_batches(own, "lonely", 1)
    own.limit("lonely", "lonely", 0.25)
    wait_for_batches(own, "lonely", 2)
    assert rows_of(own, "lonely")[-1]["dropped"] > 0
    own._server.close()
    wait_for_batches(own, "lonely", 3)
    rows = rows_of(own, "lonely")
    assert query.isActive
    assert rows[-1]["offered"] > 0
    assert rows[-1]["dropped"] == 0
    assert rows[-1]["keep_fraction"] == 1.0
    wait_for(lambda: [a for a in own.alarms() if a.kind == "agent" and a.subject == "lonely"])
    query.stop()
    own.close()
