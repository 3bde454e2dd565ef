"""Latency of results: the oldest arrival goes through an aggregate to the sink."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.errors import UsageError
from headgate.spark.session import Headgate
from tests.spark.streams import rows_of, wait_for


@pytest.fixture
def stream(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("headgate_replay").option("rate", "200").load()


def test_a_window_is_as_old_as_its_first_tuple(hg: Headgate, stream: DataFrame) -> None:
    gated = hg.gate(stream, "clicks", arrival="timestamp", identity=["id"])
    late = gated.withWatermark("timestamp", "1 second")
    windows = late.groupBy(F.window("timestamp", "2 seconds")).agg(
        F.count("*").alias("clicks"), hg.oldest("timestamp")
    )
    results = hg.measure(windows, "windows")
    assert results.columns == windows.columns
    query = hg.start(
        results.writeStream.format("noop").outputMode("append"), name="aged windows", latency="30s"
    )
    try:
        rows = wait_for(
            lambda: [row for row in rows_of(hg, "aged windows") if row["result_rows"]][1:],
            what="a second finished window; the first had begun before the query",
        )
    finally:
        query.stop()
    # The first tuple of a whole window came the window and the watermark's delay before it.
    whole = rows[-1]
    assert whole["result_latency_mean_seconds"] > 2.9
    assert whole["result_latency_p95_seconds"] >= whole["result_latency_mean_seconds"] - 0.01
    assert whole["latency_mean_seconds"] < whole["result_latency_mean_seconds"]
    report = hg.report()
    sums = report.sums["aged windows", "clicks"]
    assert sums.result_rows == sum(r["result_rows"] or 0 for r in rows_of(hg, "aged windows"))
    assert "results; the oldest tuple" in str(report)
    assert "result_latency_mean_seconds" in hg.ledger().columns


def test_what_cannot_be_a_time_is_refused(hg: Headgate, stream: DataFrame) -> None:
    named = stream.withColumn("name", F.lit("x"))
    with pytest.raises(UsageError, match="expected a timestamp"):
        hg.measure(named, "names", arrival="name")
    with pytest.raises(UsageError, match="no column 'oldest_arrival'"):
        hg.measure(named, "names")
