from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from headgate.errors import UsageError
from headgate.spark.gates.gate import time_of
from headgate.spark.plans.gate_nodes import gates_in, gates_in_series
from headgate.spark.session import Headgate
from tests.spark.streams import expected_ids, logged_batches, rows_of, wait_for, wait_for_batches

Replay = Callable[..., DataFrame]


def test_a_gate_keeps_by_fraction_and_by_the_hash_rule(
    hg: Headgate, spark: SparkSession, replay: Replay, tmp_path: Path
) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    stream = hg.gate(replay(rate=5000), "orders", arrival="timestamp", identity=["id"])
    assert type(stream) is type(replay())
    assert stream.columns == ["id", "key", "value", "timestamp"]
    writer = stream.writeStream.format("parquet").option("path", str(out))
    query = hg.start(writer.option("checkpointLocation", str(checkpoint)), name="fractions")
    wait_for_batches(hg, "fractions", 1)
    for keep in (0.3, 0.0, 1.0):
        hg.limit("fractions", "orders", keep)
        wait_for_batches(hg, "fractions", 2)
    query.stop()
    rows = rows_of(hg, "fractions")
    by_share = {row["keep_fraction"]: row for row in rows if row["offered"]}
    assert set(by_share) >= {0.3, 0.0, 1.0}
    for row in rows:
        assert row["offered"] == row["kept"] + row["dropped"]
        tolerance = 5 * (row["offered"] * 0.25) ** 0.5
        assert abs(row["kept"] - row["keep_fraction"] * row["offered"]) <= tolerance
    assert by_share[0.0]["kept"] == 0
    assert by_share[1.0]["dropped"] == 0
    assert [row["batch"] for row in rows] == list(range(len(rows)))
    written = spark.read.parquet(str(out))
    ids = written.toPandas()["id"].tolist()
    assert len(ids) == len(set(ids)) == sum(row["kept"] for row in rows)
    assert set(ids) == expected_ids(spark, checkpoint, "orders", {row["batch"] for row in rows})
    salts = {decision.salt for decision, _ in logged_batches(checkpoint).values()}
    assert len(salts) >= 3
    report = hg.report()
    [sums] = [sums for key, sums in report.sums.items() if key == ("fractions", "orders")]
    assert (sums.offered, sums.kept) == (
        sum(row["offered"] for row in rows),
        sum(row["kept"] for row in rows),
    )
    assert report.balances
    assert "fractions / orders" in str(report)
    table = hg.ledger().where("query = 'fractions'").agg(F.sum("offered"), F.sum("kept")).first()
    assert table is not None
    assert tuple(table) == (sums.offered, sums.kept)


def _rate(spark: SparkSession) -> DataFrame:
    """Spark's own source: columns timestamp and value."""
    return spark.readStream.format("rate").option("rowsPerSecond", 1000).load()


def _windows(hg: Headgate, spark: SparkSession) -> DataFrame:
    """The watermark stands below the gate, the window above it."""
    late = _rate(spark).withWatermark("timestamp", "1 second")
    gated = hg.gate(late, "below", arrival="timestamp", identity=["value"])
    return gated.groupBy(F.window("timestamp", "2 seconds")).count()


def _join(hg: Headgate, spark: SparkSession) -> DataFrame:
    sides = []
    for name in ("left", "right"):
        gated = hg.gate(_rate(spark), name, arrival="timestamp", identity=["value"])
        late = gated.withWatermark("timestamp", "2 seconds")
        sides.append(
            late.select(F.col("value").alias(name), F.col("timestamp").alias(name + "_at"))
        )
    near = "left = right and right_at between left_at - interval 1 hour and left_at"
    return sides[0].join(sides[1], F.expr(near + " + interval 1 hour"))


def _distinct(hg: Headgate, spark: SparkSession) -> DataFrame:
    gated = hg.gate(_rate(spark), "distinct", arrival="timestamp", identity=["value"])
    keyed = gated.withColumn("key", F.col("value") % 50)
    return keyed.withWatermark("timestamp", "5 seconds").dropDuplicates(["key"])


@pytest.mark.parametrize("build", [_windows, _join, _distinct])
def test_plain_pyspark_stands_between_gate_and_start(
    hg: Headgate, spark: SparkSession, build: Callable[[Headgate, SparkSession], DataFrame]
) -> None:
    name = build.__name__.strip("_")
    writer = build(hg, spark).writeStream.format("memory").outputMode("append")
    query = hg.start(writer, name=name, latency="120s")
    wait_for_batches(hg, name, 1)
    for gate in {row["gate"] for row in rows_of(hg, name)}:
        hg.limit(name, gate, 0.5)
    wait_for(lambda: _half(rows_of(hg, name)), what=f"half of {name}")
    wait_for(lambda: spark.table(name).limit(1).count(), what=f"results of {name}")
    assert query.exception() is None
    query.stop()
    rows = rows_of(hg, name)
    assert all(row["offered"] == row["kept"] + row["dropped"] for row in rows)
    gates = {"windows": {"below"}, "join": {"left", "right"}, "distinct": {"distinct"}}
    assert {row["gate"] for row in rows} == gates[name]


def _half(rows: list[dict[str, object]]) -> bool:
    gates = {row["gate"] for row in rows}
    halved = {row["gate"] for row in rows if row["keep_fraction"] == 0.5 and row["dropped"]}
    return bool(gates) and gates == halved


def test_two_queries_on_one_gated_stream_have_decisions_of_their_own(
    hg: Headgate, replay: Replay
) -> None:
    gated = hg.gate(replay(rate=3000), "shared", identity=["id"])
    batches: list[int] = []
    one = gated.writeStream.foreachBatch(lambda frame, _: batches.append(frame.count()))
    first = hg.start(one, name="first")
    second = hg.start(gated.writeStream.format("noop"), name="second", latency=60)
    wait_for_batches(hg, "first", 1)
    wait_for_batches(hg, "second", 1)
    hg.limit("first", "shared", 0.2)
    seen = wait_for_batches(hg, "first", 3)
    wait_for_batches(hg, "second", 3)
    first.stop()
    second.stop()
    assert seen[-1]["keep_fraction"] == 0.2
    assert 0 < seen[-1]["kept"] < seen[-1]["offered"] / 2
    assert all(row["dropped"] == 0 for row in rows_of(hg, "second"))
    kept = [row["kept"] for row in rows_of(hg, "first")]
    assert batches[: len(kept)] == kept[: len(batches)]


def test_a_gate_that_keeps_nothing_still_counts_in_front_of_a_shuffle(
    hg: Headgate, replay: Replay
) -> None:
    gated = hg.gate(replay(rate=500), "shut", arrival="timestamp", identity=["id"])
    writer = gated.repartition(2, "key").writeStream.format("noop")
    query = hg.start(writer, name="shut", latency=60)
    wait_for_batches(hg, "shut", 1)
    hg.limit("shut", "shut", 0.0)

    def counted() -> list[dict[str, Any]]:
        return [row for row in rows_of(hg, "shut") if row["keep_fraction"] == 0 and row["offered"]]

    rows = wait_for(counted, what="a batch of which nothing is kept")
    query.stop()
    assert (rows[-1]["kept"], rows[-1]["dropped"]) == (0, rows[-1]["offered"])


def test_an_arrival_without_a_time_zone_is_measured_too(hg: Headgate, replay: Replay) -> None:
    stream = replay(rate=500).withColumn("at", F.col("timestamp").cast("timestamp_ntz"))
    gated = hg.gate(stream, "no zone", arrival="at", identity=["id"])
    query = hg.start(gated.writeStream.format("noop"), name="no zone", latency=60)
    rows = wait_for_batches(hg, "no zone", 2)
    query.stop()
    assert 0.0 < rows[-1]["latency_mean_seconds"] < 60.0


@pytest.mark.parametrize(
    ("column", "weight", "is_a_filter"),
    [("timestamp", None, True), ("timestamp", "w", False), ("late", None, False)],
)
def test_filters_behind_a_gate_stay_behind_it(
    hg: Headgate, replay: Replay, column: str, weight: str | None, is_a_filter: bool
) -> None:
    """The gate counts every row, also those that the query throws away at once.

    It is one filter if it makes no columns and looks at columns as they come from the source: what
    is computed in front of it would be computed wherever the filter names it.
    """
    stream = replay(rate=1e6, rows=900, epoch=1)
    stream = stream.withColumn("late", F.expr("timestamp + interval 1 second"))
    gated = hg.gate(stream, "orders", arrival=column, identity=["id"], weight=weight)
    few = gated.where("id % 9 = 0").select("id")
    name = f"few {column} {weight}"
    query = hg.start(few.writeStream.format("noop").trigger(availableNow=True), name=name)
    assert query.awaitTermination(60)
    assert sum(row["offered"] for row in rows_of(hg, name)) == 900
    java: Any = query
    nodes = str(java._jsq.explainInternal(False)).splitlines()
    [counting] = [node for node in nodes if "Accumulator" in node]
    assert ("Filter" in counting) is is_a_filter


def test_a_gate_with_a_weight_keeps_nothing_and_then_everything(
    hg: Headgate, spark: SparkSession, replay: Replay, tmp_path: Path
) -> None:
    """Also on the checkpoint of a run that ended while nothing was kept."""
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    gated = hg.gate(replay(rate=500), "weighted", identity=["id"], weight="w")

    def start() -> StreamingQuery:
        writer = gated.writeStream.format("parquet").option("path", out)
        return hg.start(writer.option("checkpointLocation", checkpoint), name="weighted")

    def batches(keep: float) -> list[dict[str, Any]]:
        found = [row for row in rows_of(hg, "weighted") if row["offered"]]
        return [row for row in found if row["keep_fraction"] == keep]

    query = start()
    wait_for_batches(hg, "weighted", 1)
    hg.limit("weighted", "weighted", 0.5)
    wait_for(lambda: batches(0.5), what="a batch of which half is kept")
    hg.limit("weighted", "weighted", 0.0)
    wait_for(lambda: batches(0.0), what="a batch of which nothing is kept")
    query.stop()
    query = start()
    wait_for_batches(hg, "weighted", 2)
    hg.limit("weighted", "weighted", 1.0)
    wait_for_batches(hg, "weighted", 2)
    query.stop()
    assert query.exception() is None
    assert all(row["kept"] == 0 for row in batches(0.0))
    weights = spark.read.parquet(out).select("w").distinct().toPandas()["w"].tolist()
    assert sorted(weights) == [1.0, 2.0]


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Europe/Berlin"])
def test_the_last_times_that_a_column_can_hold_are_no_error(spark: SparkSession, zone: str) -> None:
    ends = spark.createDataFrame([(2**63 - 1,), (-(2**63) + 1,), (0,)], "micros bigint")
    frame = ends.select(F.timestamp_micros("micros").cast("timestamp_ntz").alias("at")).persist()
    assert frame.count() == 3
    zone_before = str(spark.conf.get("spark.sql.session.timeZone"))
    try:
        spark.conf.set("spark.sql.session.timeZone", zone)
        time = time_of(frame, "orders", "at")
        assert time is not None
        found = frame.select(time.cast("double").alias("seconds")).toPandas()["seconds"].tolist()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone_before)
        frame.unpersist()
    assert [math.isnan(seconds) for seconds in found] == [True, True, False]


def test_available_now_reads_everything_and_ends(
    hg: Headgate, replay: Replay, tmp_path: Path
) -> None:
    stream = hg.gate(replay(rate=1e6, rows=9000, maxRowsPerTrigger=4000), "finite")
    writer = stream.writeStream.format("noop").trigger(availableNow=True)
    query = hg.start(writer.option("checkpointLocation", str(tmp_path)), name="finite", latency=1)
    assert query.awaitTermination(60)
    rows = rows_of(hg, "finite")
    assert sum(row["offered"] for row in rows) == sum(row["kept"] for row in rows) > 0


def test_mistakes_are_said_before_anything_starts(
    hg: Headgate, spark: SparkSession, replay: Replay
) -> None:
    stream = replay(rate=10)
    with pytest.raises(UsageError, match="not a stream"):
        hg.gate(spark.range(3), "a")
    with pytest.raises(UsageError, match="no column 'when'"):
        hg.gate(stream, "a", arrival="when")
    with pytest.raises(UsageError, match="expected a timestamp"):
        hg.gate(stream.withColumn("t", F.lit("x")), "a", arrival="t")
    with pytest.raises(UsageError, match="map or variant"):
        hg.gate(stream.withColumn("m", F.create_map("key", "id")), "a", identity=["m"])
    with pytest.raises(UsageError, match="has no gate"):
        hg.start(stream.writeStream.format("noop"), name="a")
    with pytest.raises(UsageError, match="latency"):
        hg.start(hg.gate(stream, "a").writeStream.format("noop"), name="a", latency="soon")
    with pytest.raises(UsageError, match="no mode"):
        hg.mode("closed")
    with pytest.raises(UsageError, match="no gate"):
        hg.limit("nobody", "a", 0.5)
    assert not spark.streams.active


def test_gates_behind_each_other_are_known_as_such(hg: Headgate, replay: Replay) -> None:
    first = hg.gate(replay(rate=10), "first", identity=["id"])
    second = hg.gate(first.where("value > 0.5"), "second", identity=["id"])
    other = hg.gate(replay(rate=10), "other", identity=["id"])
    joined: Any = second.join(other, "id")
    plan = joined._jdf.queryExecution().analyzed()
    assert gates_in_series(plan) == {"second": ("first",)}
    assert set(gates_in(plan)) == {"first", "second", "other"}
