"""Dead letters in a Kafka topic, against a real broker."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.spark.session import Headgate
from tests.spark.kafka_broker import Broker
from tests.spark.streams import expected_ids, rows_of, wait_for, wait_for_batches
from tests.spark.test_dead_letters_on_spark import expected_letters, start

Replay = Callable[..., DataFrame]


def test_letters_in_a_topic_are_read_back_as_the_rows_they_were(
    hg: Headgate, spark: SparkSession, broker: Broker, replay: Replay, tmp_path: Path
) -> None:
    broker.create("late", 2)
    wanted = {"topic": "late", "kafka.bootstrap.servers": broker.servers, "share": 0.3}
    query = start(hg, replay(rate=1000), "to kafka", tmp_path, wanted)
    hg.limit("to kafka", "orders", 0.5)
    wait_for(lambda: sum(row["dropped"] for row in rows_of(hg, "to kafka")) > 300)
    query.stop()
    rows = rows_of(hg, "to kafka")
    last = max(row["batch"] for row in rows)
    assert [a.text for a in hg.alarms() if a.subject == "to kafka"] == []
    written = hg.dead_letters("to kafka").where(f"headgate_batch <= {last}")
    assert written.columns == ["id", "key", "value", "timestamp", "headgate_gate", "headgate_batch"]
    found: Any = written.toPandas()
    assert len(found) == found["id"].nunique() == sum(row["letters"] for row in rows)
    ids = set(found["id"].tolist())
    assert ids == expected_letters(spark, tmp_path / "checkpoint", 0.3, last)
    assert ids
    assert found["timestamp"].notna().all()
    assert found["value"].between(0, 1).all()


def test_a_broker_that_is_not_there_raises_an_alarm_and_hurts_nothing(
    hg: Headgate, spark: SparkSession, replay: Replay, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        servers = f"127.0.0.1:{free.getsockname()[1]}"
    wanted = {"topic": "late", "kafka.bootstrap.servers": servers, "timeout": "1s"}
    query = start(hg, replay(rate=500), "nobody there", tmp_path, wanted)
    hg.limit("nobody there", "orders", 0.5)
    wait_for(lambda: any(row["letters_left"] for row in rows_of(hg, "nobody there")))
    wait_for_batches(hg, "nobody there", 1)
    assert query.isActive
    query.stop()
    rows = rows_of(hg, "nobody there")
    alarms = [a.text for a in hg.alarms() if a.subject == "nobody there"]
    assert any("letters written" in text and servers in text for text in alarms)
    kept: Any = spark.read.parquet(str(tmp_path / "out")).toPandas()
    batches = {row["batch"] for row in rows}
    assert set(kept["id"]) == expected_ids(spark, tmp_path / "checkpoint", "orders", batches)
