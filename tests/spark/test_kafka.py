"""Both ways to gate Kafka, against a real broker: a gate in the source, and an inline gate
on Spark's own connector.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headgate.network import parse_network
from headgate.spark import RunSettings, run_network
from headgate.spark.session import Headgate
from headgate.spark.sources.source_offset import identity_seed, keeps
from tests.spark.kafka_broker import Broker
from tests.spark.streams import logged_sources, rows_of, settles, wait_for, wait_for_batches
from tests.spark.test_documentation import BLOCK, KAFKA

ROOT = Path(__file__).parents[2]


def options(broker: Broker, topic: str, **more: Any) -> dict[str, Any]:
    return {
        "kafka.bootstrap.servers": broker.servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "requestTimeout": "2s",
        **more,
    }


@contextmanager
def producing(broker: Broker, topic: str, per_second: int) -> Iterator[None]:
    """Messages for three partitions, until the block ends; a broker that is away is waited for."""
    stop = threading.Event()

    def produce() -> None:
        producer = broker.producer()
        number = 0
        while not stop.wait(0.05):
            for _ in range(per_second // 20):
                producer.produce(topic, b"%d" % number, None, number % 3)
                number += 1
            producer.poll(0)
        producer.flush(10)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def kept_by_the_rule(checkpoint: Path, topic: str, batches: set[int]) -> set[tuple[int, int]]:
    """(partition, offset) of what the rule of the gate keeps, from nothing but the offset log."""
    kept: set[tuple[int, int]] = set()
    starts: dict[str, int] = {}
    for batch, [offset] in logged_sources(checkpoint).items():
        for partition, end in offset.position[topic].items():
            numbers = np.arange(starts.get(partition, 0), end, dtype=np.uint64)
            identities = numbers + identity_seed(topic, int(partition))
            mask = keeps(identities, offset.salt, offset.threshold)
            if batch in batches:
                kept |= {(int(partition), number) for number in numbers[mask].tolist()}
        starts = offset.position[topic]
    return kept


def written(spark: SparkSession, path: Path) -> list[tuple[int, int]]:
    rows = spark.read.parquet(str(path)).select("partition", "offset").toPandas()
    return list(zip(rows["partition"].tolist(), rows["offset"].tolist(), strict=True))


def test_a_gate_in_the_source_sheds_by_its_rule_and_the_ledger_balances(
    hg: Headgate, spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    broker.create("hand")
    broker.produce("hand", range(3000))
    stream = hg.read("kafka", "orders", options(broker, "hand"))
    columns = "key value topic partition offset timestamp timestampType"
    assert stream.columns == columns.split()
    writer = stream.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = hg.start(writer, name="hand")
    wait_for_batches(hg, "hand", 1)
    hg.limit("hand", "orders", 0.3)
    broker.produce("hand", range(3000, 12_000))
    wait_for(lambda: sum(row["offered"] for row in rows_of(hg, "hand")) == 12_000)
    query.stop()
    rows = rows_of(hg, "hand")
    assert all(row["offered"] == row["kept"] + row["dropped"] for row in rows)
    assert all(row["lost"] == 0 and row["latency_mean_seconds"] > 0 for row in rows)
    assert {row["keep_fraction"] for row in rows} == {1.0, 0.3}
    found = written(spark, tmp_path / "out")
    assert len(found) == len(set(found)) == sum(row["kept"] for row in rows) < 9000
    batches = {row["batch"] for row in rows}
    assert set(found) == kept_by_the_rule(tmp_path / "checkpoint", "hand", batches)
    assert {partition for partition, _ in found} == {0, 1, 2}


def test_a_latency_target_sheds_in_the_source(
    hg: Headgate, spark: SparkSession, broker: Broker
) -> None:
    del spark
    broker.create("target")
    slow = F.udf(lambda value: (time.sleep(0.002), value)[1], "binary")  # 1000 a second, two cores
    stream = hg.read("kafka", "crowd", options(broker, "target", startingOffsets="latest"))
    work = stream.withColumn("value", slow("value"))
    query = hg.start(work.writeStream.format("noop"), name="target", latency=2.0)
    with producing(broker, "target", 3000):
        wait_for(lambda: settles(rows_of(hg, "target"), 0.8, 4.0), what="a latency near 2 s")
    query.stop()
    rows = rows_of(hg, "target")
    assert any(row["dropped"] and row["why"] == "feedback" for row in rows)
    assert all(row["offered"] == row["kept"] + row["dropped"] for row in rows)


def test_an_inline_gate_stands_behind_sparks_own_connector(
    hg: Headgate, spark: SparkSession, broker: Broker
) -> None:
    broker.create("inline")
    broker.produce("inline", range(2000))
    settings = options(broker, "inline")
    del settings["requestTimeout"]
    stream = spark.readStream.format("kafka").options(**settings).load()
    identity = ["topic", "partition", "offset"]
    gated = hg.gate(stream, "orders", arrival="timestamp", identity=identity)
    query = hg.start(gated.writeStream.format("noop"), name="inline", latency=600)
    wait_for_batches(hg, "inline", 1)
    hg.limit("inline", "orders", 0.5)
    broker.produce("inline", range(2000, 6000))
    wait_for(lambda: sum(row["offered"] for row in rows_of(hg, "inline")) == 6000)
    query.stop()
    rows = rows_of(hg, "inline")
    assert all(row["offered"] == row["kept"] + row["dropped"] for row in rows)
    assert 1500 < sum(row["dropped"] for row in rows) < 2500


def test_a_network_reads_kafka_and_goes_on_from_its_checkpoint(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    broker.create("network")
    broker.produce("network", range(3000))
    network = parse_network(
        f"""\
network: orders of a topic
nodes: {{A: {{capacity: 2}}}}
streams:
  orders:
    source:
      format: kafka
      options: {{kafka.bootstrap.servers: "{broker.servers}", subscribe: network,
                startingOffsets: earliest}}
      arrival: timestamp
      identity: [topic, partition, offset]
operators:
  texts: {{kind: map, input: orders, node: A,
          code: "SELECT CAST(value AS STRING) AS text, partition, offset FROM orders"}}
queries:
  all: {{input: texts, latency: 600s, sink: {{format: parquet, options: {{path: {tmp_path}/out}}}}}}
"""
    )
    settings = RunSettings(checkpoint=str(tmp_path / "checkpoints"))
    for first, last in ((0, 3000), (3000, 5000)):
        if first:
            broker.produce("network", range(first, last))
        with run_network(spark, network, settings) as run:
            wait_for(lambda wanted=last - first: run.record.delivered.get("all", 0) >= wanted)
            report = run.report()
        [(gate, (offered, kept, dropped))] = report.gates["all"].items()
        assert gate == "orders->texts"
        assert (offered, kept, dropped) == (last, last, 0)  # the ledger goes on as well
    found = written(spark, tmp_path / "out")
    assert len(found) == len(set(found)) == 5000


def test_a_query_of_sparks_connector_goes_on_with_a_gate_in_the_source(
    hg: Headgate, spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    broker.create("entering")
    broker.produce("entering", range(300))
    settings = options(broker, "entering")
    theirs = {k: v for k, v in settings.items() if k != "requestTimeout"}

    def written_by(stream: DataFrame) -> DataStreamWriter:
        numbers = stream.selectExpr("cast(cast(value as string) as int) as number")
        writer = numbers.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(availableNow=True)

    before = written_by(spark.readStream.format("kafka").options(**theirs).load()).start()
    assert before.awaitTermination(60)
    broker.produce("entering", range(300, 900))
    writer = written_by(hg.read("kafka", "orders", settings))
    query = hg.start(writer, name="entering", latency=600)
    assert query.awaitTermination(60)
    assert query.exception() is None
    numbers = spark.read.parquet(str(tmp_path / "out")).toPandas()["number"].tolist()
    assert sorted(numbers) == list(range(900))
    first, *others = rows_of(hg, "entering")
    assert first["status"] == "uncounted", "that batch was Spark's own"
    assert sum(row["offered"] for row in others) == 600


@pytest.mark.parametrize(("page", "count"), [("README.md", 2), ("docs/spark.md", 1)])
def test_the_blocks_of_the_pages_run(
    hg: Headgate, spark: SparkSession, broker: Broker, page: str, count: int
) -> None:
    blocks = [b for b in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")) if KAFKA in b]
    assert len(blocks) == count
    broker.create("orders")
    try:
        for block in blocks:
            text = block.replace("broker-1:9092", broker.servers)
            names: dict[str, Any] = {"spark": spark, "hg": hg}
            exec(compile(text, page, "exec"), names)
            query = names["query"]
            # Without startingOffsets a query begins at the end, wherever that is when it starts.
            broker.produce("orders", range(90))
            wait_for(lambda query=query: _saw_something(broker, hg, query.name))
            assert query.exception() is None
            query.stop()
    finally:
        broker.delete("orders")


def _saw_something(broker: Broker, hg: Headgate, query: str) -> bool:
    if any(row["kept"] > 0 for row in rows_of(hg, query)):
        return True
    broker.produce("orders", range(9))
    return False


def _ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None


def _commits(checkpoint: Path) -> list[int]:
    return [int(p.name) for p in (checkpoint / "commits").glob("*") if p.name.isdigit()]


def _in_the_middle_of_shedding(checkpoint: Path) -> bool:
    logged = logged_sources(checkpoint)
    newest = max(logged)
    return newest > max(_commits(checkpoint)) and logged[newest][0].threshold == 300_000


def test_a_killed_driver_keeps_the_same_tuples_again(
    hg: Headgate, spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    broker.create("kafka_killed")
    broker.produce("kafka_killed", range(300))
    command = [sys.executable, "-m", "tests.spark.kafka_killed_driver"]
    with (tmp_path / "driver.log").open("wb") as log:
        driver = subprocess.Popen(
            [*command, broker.servers, str(tmp_path)],
            cwd=ROOT,
            start_new_session=True,
            stdout=log,
            stderr=log,
        )
    try:
        wait_for(lambda: _ended(driver) or _commits(checkpoint), 150, "the first batch")
        with producing(broker, "kafka_killed", 2000):
            shedding = lambda: _ended(driver) or _in_the_middle_of_shedding(checkpoint)  # noqa: E731
            wait_for(shedding, 150, "a batch that sheds")
            time.sleep(0.2)
            assert not _ended(driver), (tmp_path / "driver.log").read_text()[-3000:]
            os.killpg(driver.pid, signal.SIGKILL)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    before = logged_sources(checkpoint)
    replayed = max(before)
    stream = hg.read("kafka", "orders", options(broker, "kafka_killed"))
    writer = stream.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query = hg.start(
        writer.option("checkpointLocation", str(checkpoint)), name="kafka_killed", latency=600
    )
    wait_for(lambda: any(row["batch"] > replayed for row in rows_of(hg, "kafka_killed")))
    query.stop()
    after = logged_sources(checkpoint)
    assert {batch: after[batch] for batch in before} == before
    rows = rows_of(hg, "kafka_killed")
    counted = [row for row in rows if row["status"] == "counted"]
    assert all(row["offered"] == row["kept"] + row["dropped"] for row in counted)
    [again] = [row for row in rows if row["batch"] == replayed]
    if again["status"] == "counted":  # else it was committed in the moment of the kill
        assert again["keep_fraction"] == 0.3
        assert again["dropped"] > 0
    found = written(spark, tmp_path / "out")
    assert len(found) == len(set(found))
    batches = {row["batch"] for row in rows}
    assert set(found) == kept_by_the_rule(checkpoint, "kafka_killed", batches)


def test_a_query_outlives_its_broker(hg: Headgate, broker: Broker) -> None:
    """The last test of this file: it ends and restarts the broker of all."""
    broker.create("outage")
    broker.produce("outage", range(300))
    stream = hg.read("kafka", "orders", options(broker, "outage", readTimeout="30s"))
    query = hg.start(stream.writeStream.format("noop"), name="outage", latency=600)
    wait_for(lambda: sum(row["offered"] for row in rows_of(hg, "outage")) == 300)
    broker.stop()
    try:
        wait_for(
            lambda: [a for a in hg.alarms() if a.kind == "source" and "no broker" in a.text],
            what="an alarm",
        )
        assert query.isActive
    finally:
        broker.start()
    broker.produce("outage", range(300, 1000))
    wait_for(
        lambda: (
            query.exception() is not None
            or sum(row["offered"] for row in rows_of(hg, "outage")) >= 1000
        )
    )
    assert query.exception() is None
    query.stop()
    rows = rows_of(hg, "outage")
    assert sum(row["offered"] for row in rows) == 1000
    assert all(row["kept"] == row["offered"] and row["lost"] == 0 for row in rows)
