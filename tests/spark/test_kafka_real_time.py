"""Real-time mode on a real broker: the query runs without its gates, and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headgate.spark.session import Headgate
from tests.spark.kafka_broker import Broker
from tests.spark.streams import wait_for


def test_a_query_in_real_time_mode_runs_without_its_gates(
    hg: Headgate, spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    for topic in ("real in", "real out"):
        broker.create(topic.replace(" ", "-"), 1)
    broker.produce("real-in", range(50), 1)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.servers)
    reader = reader.option("subscribe", "real-in").option("startingOffsets", "earliest")
    gated = hg.gate(reader.load(), "orders", arrival="timestamp", dead_letters=tmp_path / "letters")
    writer = gated.select("key", "value").writeStream.format("kafka").outputMode("update")
    writer = writer.option("kafka.bootstrap.servers", broker.servers).option("topic", "real-out")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = hg.start(writer.trigger(realTime="5 seconds"), name="real time", latency="1s")

    def arrived() -> bool:
        assert query.exception() is None
        out: Any = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.servers)
        return int(out.option("subscribe", "real-out").load().count()) >= 50

    wait_for(arrived, what="what real-time mode passed on")
    query.stop()
    [text] = [a.text for a in hg.alarms() if (a.kind, a.subject) == ("not gated", "real time")]
    assert "micro-batch" in text
