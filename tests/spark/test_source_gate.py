"""The gate inside a source, on the replay source. On Kafka: test_kafka.py."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from headgate.errors import UsageError
from headgate.spark.session import Headgate, attach
from headgate.spark.sources.source_offset import SourceOffset, keeps
from tests.spark.streams import logged_sources, rows_of, wait_for, wait_for_batches


def kept_ids(checkpoint: Path, batches: set[int]) -> set[int]:
    """The ids that the rule of the source gate keeps, from nothing but the offset log."""
    kept: set[int] = set()
    start = 0
    for batch, [offset] in logged_sources(checkpoint).items():
        end = offset.position["row"]
        if batch in batches and end > start:
            ids = np.arange(start, end, dtype=np.uint64)
            kept.update(ids[keeps(ids, offset.salt, offset.threshold)].tolist())
        start = end
    return kept


def test_it_keeps_by_fraction_and_by_the_rule_in_the_offset(
    hg: Headgate, spark: SparkSession, tmp_path: Path
) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    stream = hg.read("replay", "orders", {"rate": 5000, "partitions": 3})
    assert stream.columns == ["id", "key", "value", "timestamp"]
    writer = stream.writeStream.format("parquet").option("path", str(out))
    query = hg.start(writer.option("checkpointLocation", str(checkpoint)), name="inside")
    wait_for_batches(hg, "inside", 1)
    for keep in (0.3, 0.0, 1.0):
        hg.limit("inside", "orders", keep)
        wait_for_batches(hg, "inside", 2)
    query.stop()
    rows = rows_of(hg, "inside")
    by_share = {row["keep_fraction"]: row for row in rows if row["offered"]}
    assert set(by_share) >= {0.3, 0.0, 1.0}
    for row in rows:
        assert row["offered"] == row["kept"] + row["dropped"]
        assert row["lost"] == 0
        tolerance = 5 * (row["offered"] * 0.25) ** 0.5
        assert abs(row["kept"] - row["keep_fraction"] * row["offered"]) <= tolerance
    assert by_share[0.0]["kept"] == 0
    assert by_share[1.0]["dropped"] == 0
    assert by_share[1.0]["latency_mean_seconds"] > 0
    logged = logged_sources(checkpoint)
    offered = {row["batch"]: row["offered"] for row in rows}
    ends = {batch: offset.position["row"] for batch, [offset] in logged.items()}
    assert all(offered[b] == ends[b] - ends.get(b - 1, 0) for b in offered)
    ids = spark.read.parquet(str(out)).toPandas()["id"].tolist()
    assert len(ids) == len(set(ids)) == sum(row["kept"] for row in rows)
    assert set(ids) == kept_ids(checkpoint, set(offered))
    assert len({offset.salt for [offset] in logged.values()}) >= 3


def test_two_queries_on_one_source_gate_have_decisions_of_their_own(hg: Headgate) -> None:
    stream = hg.read("replay", "shared", {"rate": 3000})
    first = hg.start(stream.writeStream.format("noop"), name="one")
    second = hg.start(stream.writeStream.format("noop"), name="other", latency=60)
    wait_for_batches(hg, "one", 1)
    hg.limit("one", "shared", 0.2)
    seen = wait_for_batches(hg, "one", 3)
    wait_for_batches(hg, "other", 2)
    first.stop()
    second.stop()
    assert seen[-1]["keep_fraction"] == 0.2
    assert 0 < seen[-1]["kept"] < seen[-1]["offered"] / 2
    assert all(row["dropped"] == 0 for row in rows_of(hg, "other"))


def dropping(rows: list[dict[str, Any]]) -> set[str]:
    """Gates that have dropped. Spark's rate source has rows for whole seconds only."""
    return {row["gate"] for row in rows if row["dropped"]}


def test_gates_in_and_behind_sources_share_one_decision_a_batch(
    hg: Headgate, spark: SparkSession, tmp_path: Path
) -> None:
    one = hg.read("replay", "one", {"rate": 2000}).select("id")
    two = hg.read("replay", "two", {"rate": 1000}).select("id")
    rate = spark.readStream.format("rate").option("rowsPerSecond", 500).load()
    behind = hg.gate(rate, "behind", arrival="timestamp", identity=["value"])
    union = one.union(two).union(behind.selectExpr("value as id"))
    writer = union.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = hg.start(writer, name="mixed", latency=60)
    wait_for_batches(hg, "mixed", 1)
    for gate, keep in (("one", 0.5), ("two", 0.25), ("behind", 0.75)):
        hg.limit("mixed", gate, keep)
    wait_for_batches(hg, "mixed", 4)
    wait_for(lambda: dropping(rows_of(hg, "mixed")) == {"one", "two", "behind"})
    query.stop()
    rows = rows_of(hg, "mixed")
    shares = {row["gate"]: row["keep_fraction"] for row in rows[-3:]}
    assert shares == {"one": 0.5, "two": 0.25, "behind": 0.75}
    assert all(row["offered"] == row["kept"] + row["dropped"] for row in rows)
    for offsets in logged_sources(tmp_path).values():
        assert len(offsets) == 2
        assert offsets[0].decision == offsets[1].decision
    lines = [json.loads(line) for line in hg.journal()]
    events = [line["event"] for line in lines if "event" in line]
    asked = [
        event["batch"]
        for event in events
        if event["type"] == "BatchStarted" and event["query"] == "mixed"
    ][-3:]
    assert len(set(asked)) == 3, "the coordinator is asked once a batch"


def test_a_limit_bounds_what_comes_out_and_hides_no_backlog(hg: Headgate) -> None:
    options = {"rate": 1e6, "rows": 400_000, "maxRowsPerTrigger": 10_000}
    options["epoch"] = time.time() - 60  # all of them have arrived
    stream = hg.read("replay", "limited", options)
    query = hg.start(stream.writeStream.format("noop"), name="limited", latency=600)
    wait_for_batches(hg, "limited", 1)
    hg.limit("limited", "limited", 0.25)
    rows = wait_for_batches(hg, "limited", 3)
    query.stop()
    assert {row["offered"] for row in rows if row["keep_fraction"] == 1.0} == {10_000}
    quarter = [row for row in rows if row["keep_fraction"] == 0.25]
    assert quarter[0]["offered"] == 40_000
    assert abs(quarter[0]["kept"] - 10_000) < 500
    waiting = [
        line["event"]["waiting"]["limited"]
        for line in map(json.loads, hg.journal())
        if line.get("event", {}).get("query") == "limited" and "waiting" in line["event"]
    ]
    assert max(waiting) > 100_000, "the agent knows what waits behind the limit"


def test_available_now_keeps_everything_and_ends(hg: Headgate, tmp_path: Path) -> None:
    options = {"rate": 1e6, "rows": 9000, "maxRowsPerTrigger": 4000, "epoch": 1}
    stream = hg.read("replay", "finite inside", options)
    writer = stream.writeStream.format("noop").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path))
    query = hg.start(writer, name="finite inside", latency=1)
    assert query.awaitTermination(60)
    assert query.exception() is None
    rows = rows_of(hg, "finite inside")
    assert [row["offered"] for row in rows] == [4000, 4000, 1000]
    assert all(row["dropped"] == 0 for row in rows)


def test_without_start_or_agent_everything_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    """First the agent dies; then the same checkpoint goes on without Headgate."""
    own = attach(spark, timeout="20s")
    stream = own.read("replay", "alone", {"rate": 2000})
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = own.start(writer, name="alone")
    wait_for_batches(own, "alone", 1)
    own.limit("alone", "alone", 0.25)
    assert wait_for_batches(own, "alone", 2)[-1]["dropped"] > 0
    own._server.close()
    rows = wait_for_batches(own, "alone", 3)
    assert query.isActive
    assert rows[-1]["offered"] > 0
    assert rows[-1]["dropped"] == 0
    wait_for(lambda: [a for a in own.alarms() if a.kind == "agent" and a.subject == "alone"])
    query.stop()
    plain = writer.trigger(availableNow=True).start()
    assert plain.awaitTermination(60)
    own.close()
    [newest] = list(logged_sources(tmp_path).values())[-1]
    assert newest.position["row"] > sum(row["offered"] for row in rows)
    assert newest.threshold == 1_000_000


def test_mistakes_are_said_before_anything_starts(hg: Headgate) -> None:
    def refused(match: str, source: str = "kafka", name: str = "a", **options: Any) -> None:
        with pytest.raises(UsageError, match=match):
            hg.read(source, name, {key.replace("__", "."): v for key, v in options.items()})

    refused("no source 'files'", "files")
    refused("needs a name", "replay", "")
    refused("maxRowsPerTrigger must be", "replay", maxRowsPerTrigger="many")
    refused("no pattern 'waves'", "replay", pattern="waves")
    refused("set kafka.bootstrap.servers", subscribe="orders")
    refused("set subscribe", kafka__bootstrap__servers="localhost:1")
    good = {"kafka__bootstrap__servers": "localhost:1", "subscribe": "orders"}
    refused("no option 'topic'", **good, topic="orders")
    refused("startingOffsets must be", **good, startingOffsets="soon")
    refused("must name the topics orders", **good, startingOffsets='{"x": {"0": 1}}')
    refused("is set by Headgate", **good, kafka__auto__offset__reset="latest")
    refused("not accepted", **good, kafka__fetch__bites="1")
    refused("JAAS", **good, kafka__sasl__jaas__config="x")
    refused("failOnDataLoss must be true or false", **good, failOnDataLoss="maybe")


def test_an_offset_of_a_later_format_is_refused() -> None:
    offset = SourceOffset("orders", {"row": 3}).as_dict()
    assert SourceOffset.from_dict(json.loads(json.dumps(offset))) == SourceOffset(
        "orders", {"row": 3}
    )
    with pytest.raises(ValueError, match="format 9"):
        SourceOffset.from_dict({**offset, "headgate_source": 9})


def test_a_process_of_a_source_does_not_load_the_planners() -> None:
    """Spark starts such a process for every query, and more for the tasks."""
    load = "import headgate.spark.sources.replay_gate, headgate.spark.sources.kafka_source, sys; "
    layers = ("coordinator", "planning", "network")
    tell = f"print([m for m in {layers} if 'headgate.' + m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", load + tell], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_a_decision_of_a_later_headgate_ends_no_query(hg: Headgate, tmp_path: Path) -> None:
    stream = hg.read("replay", "orders", {"rate": 500, "epoch": time.time()})
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = hg.start(writer, name="later", latency="5s")
    wait_for_batches(hg, "later", 2)
    query.stop()
    newest = max((tmp_path / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    lines = []
    for line in newest.read_text().splitlines():
        if "headgate_source" in line:
            offset = json.loads(line)
            line = json.dumps({**offset, "decision": {"headgate": 2, "version": 9}})
        lines.append(line)
    newest.write_text("\n".join(lines))
    (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)
    query = hg.start(writer, name="later", latency="5s")
    wait_for(lambda: query.exception() or len(query.recentProgress) >= 2)
    assert query.exception() is None, str(query.exception())
    query.stop()
    alarms = {(alarm.kind, alarm.subject) for alarm in hg.alarms()}
    assert ("checkpoint", "later") in alarms
    assert ("progress", "later") not in alarms
