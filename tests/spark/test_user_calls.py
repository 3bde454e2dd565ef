"""Calls as people make them: their names, their sessions, their mistakes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.errors import UsageError
from headgate.network import parse_network
from headgate.spark.session import Headgate
from tests.spark.streams import rows_of, wait_for, wait_for_batches

Replay = Callable[..., DataFrame]


def test_wrong_input_is_refused_before_anything_is_started(
    hg: Headgate, spark: SparkSession, replay: Replay
) -> None:
    stream = replay(rate=10)
    writer: Any = hg.gate(stream, "orders").writeStream.format("noop")
    for options, message in (
        ({"percentile": 0.95}, "write 95, not 0.95"),
        ({"percentile": "95"}, "percentile must be"),
        ({"latency": True}, "latency must be a duration"),
        ({"drop_older": "soon"}, "drop_older: expected a number"),
        ({"keep_at_least": "a"}, "keep_at_least must be"),
        ({"keep_at_least": 2}, "keep_at_least must be from 0 to 1"),
        ({"controller": "best"}, "no controller 'best'"),
        ({"path": "a", "table": "b"}, "give a path or a table, not both"),
        ({"name": 5}, "a query needs a name"),
    ):
        given: dict[str, Any] = {"name": "wrong", **options}
        with pytest.raises(UsageError, match=message):
            hg.start(writer, **given)
    wrong: Any = stream
    with pytest.raises(UsageError, match="expected a writer"):
        hg.start(wrong, "wrong")
    assert spark.streams.active == []
    assert all(run.name != "wrong" for run in hg.runs())
    with pytest.raises(UsageError, match="keep must be a number from 0 to 1, got 'x'"):
        hg.limit("wrong", "orders", wrong and "x")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="than must be above 0"):
        hg.drop_older("wrong", timedelta(0))


def test_columns_are_named_as_spark_names_them(hg: Headgate, replay: Replay) -> None:
    stream: Any = replay(rate=10).withColumnRenamed("id", "Id")
    assert hg.gate(stream, "a", arrival="TIMESTAMP", identity="ID").columns == stream.columns
    hg.gate(stream, "b", by_key=["KEY"])
    for given in (
        {"arrival": F.col("timestamp")},
        {"identity": [stream.Id]},
        {"by_key": stream.key},
    ):
        with pytest.raises(UsageError, match="takes the name of a column, not a Column"):
            hg.gate(stream, "c", **given)
    with pytest.raises(
        UsageError, match="no column 'timestmp' for arrival; did you mean 'timestamp'"
    ):
        hg.gate(stream, "c", arrival="timestmp")
    with pytest.raises(UsageError, match="arrival must be the name of a column, got 5"):
        hg.gate(stream, "c", arrival=5)  # type: ignore[arg-type]


def test_a_stream_in_which_names_stand_twice_has_a_gate(
    hg: Headgate, replay: Replay, tmp_path: Path
) -> None:
    stream = replay(rate=2000)
    twice = stream.withColumn("at", F.col("timestamp")).select("*", F.lit(1).alias("key"))
    gated = hg.gate(twice, "orders", arrival="at")  # the identity is all columns
    assert gated.columns == twice.columns
    assert gated.select(stream["key"]).columns == ["key"]
    writer = gated.select("id").writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query = hg.start(writer.option("checkpointLocation", str(tmp_path / "c")), name="twice")
    wait_for_batches(hg, "twice", 1)
    hg.limit("twice", "orders", 0.5)
    wait_for_batches(hg, "twice", 2)
    query.stop()
    last = rows_of(hg, "twice")[-1]
    assert 0 < last["kept"] < last["offered"]
    with pytest.raises(
        UsageError, match="identity: the stream has 2 columns 'key', as after a join"
    ):
        hg.gate(twice, "orders", identity=["id", "key"])
    with pytest.raises(UsageError, match="with dead_letters each column needs a name of its own"):
        hg.gate(twice, "orders", dead_letters=str(tmp_path))


def test_two_gates_of_one_name_in_a_query_are_refused_in_words(
    hg: Headgate, spark: SparkSession, replay: Replay
) -> None:
    left, right = (hg.gate(replay(rate=10), "orders", identity=["id"]) for _ in range(2))
    with pytest.raises(UsageError, match="two of its gates are called 'orders'"):
        hg.start(left.union(right).writeStream.format("noop"), name="both")
    query = hg.start(left.union(left).writeStream.format("noop"), name="one")
    wait_for_batches(hg, "one", 1)
    query.stop()
    assert spark.streams.active == []


def test_a_gate_that_spark_started_itself_is_named(hg: Headgate, replay: Replay) -> None:
    gated = hg.gate(replay(rate=100), "orders", arrival="timestamp", identity=["id"])
    ours = hg.start(gated.writeStream.format("noop"), name="with hg.start")
    query = gated.writeStream.format("noop").queryName("with start").start()

    def accused() -> list[str]:
        return [a.subject for a in hg.alarms() if a.kind == "not gated"]

    wait_for(lambda: "with start" in accused(), what="the alarm")
    wait_for_batches(hg, "with hg.start", 2)
    query.stop()
    ours.stop()
    assert accused().count("with start") == 1
    assert "with hg.start" not in accused()


def test_a_query_runs_in_the_session_of_its_stream(
    hg: Headgate, spark: SparkSession, tmp_path: Path
) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.shuffle.partitions", "3")
    other.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    stream = other.readStream.format("rate").option("rowsPerSecond", 500).load()
    gated = hg.gate(stream, "orders", arrival="timestamp", identity=["value"])
    query = hg.start(gated.writeStream.format("noop"), name="elsewhere")
    assert [running.name for running in other.streams.active] == ["elsewhere"]
    assert spark.streams.active == []
    with pytest.raises(UsageError, match="'elsewhere' is running already"):
        hg.start(gated.writeStream.format("noop"), name="elsewhere")
    wait_for_batches(hg, "elsewhere", 1)
    hg.limit("elsewhere", "orders", 0.0)
    rows = wait_for_batches(hg, "elsewhere", 3)
    query.stop()
    assert any(row["dropped"] for row in rows)
    assert (tmp_path / "elsewhere" / "headgate" / "ledger").is_dir()
    wait_for(lambda: all(run.name != "elsewhere" for run in hg.runs()), what="the end")


def test_an_offset_log_that_is_written_late_gets_no_gates(
    hg: Headgate, replay: Replay, tmp_path: Path
) -> None:
    gated = hg.gate(replay(rate=100), "orders", identity=["id"])
    writer = gated.writeStream.format("noop").option("asyncProgressTrackingEnabled", "true")
    writer = writer.option("checkpointLocation", str(tmp_path))
    query = hg.start(
        writer.option("_asyncProgressTrackingOverrideSinkSupportCheck", "true"), name="late log"
    )
    wait_for(lambda: len(query.recentProgress) >= 2, what="two batches")
    query.stop()
    [alarm] = [a for a in hg.alarms() if a.kind == "not gated" and a.subject == "late log"]
    assert "asyncProgressTrackingEnabled" in alarm.text
    assert all(run.name != "late log" for run in hg.runs())


def test_arrivals_that_cannot_be_measured_are_passed_over_or_named(
    hg: Headgate, replay: Replay
) -> None:
    stream = replay(rate=4000)
    seconds = F.col("timestamp").cast("double")
    some = F.when(F.col("id") % 3 == 0, float("nan")).when(F.col("id") % 3 == 1, float("inf"))
    arrivals = {
        "some": some.otherwise(seconds),
        "none": F.lit(None).cast("timestamp"),
        "ms": F.unix_millis("timestamp"),
    }
    for name, column in arrivals.items():
        gated = hg.gate(stream.withColumn("at", column), "orders", arrival="at", identity=["id"])
        query = hg.start(gated.writeStream.format("noop"), name=f"{name} known", latency="60s")
        rows = [row for row in wait_for_batches(hg, f"{name} known", 2) if row["kept"]]
        query.stop()
        latencies = [row["latency_mean_seconds"] for row in rows]
        told = [a.text for a in hg.alarms() if (a.kind, a.subject) == ("arrival", f"{name} known")]
        if name == "some":
            assert all(latency is not None and 0.0 < latency < 60.0 for latency in latencies)
            assert told == []
        else:
            assert latencies == [None] * len(rows)
            wanted = "has a known arrival" if name == "none" else "looks like milliseconds"
            assert len(told) == 1
            assert wanted in told[0]


def test_statistics_come_by_themselves(hg: Headgate, replay: Replay) -> None:
    gated = hg.gate(replay(rate=2000), "orders", arrival="timestamp", identity=["id"])
    writer = gated.where("id % 4 = 0").writeStream.format("noop")
    query = hg.start(writer, name="counted", latency="30s")
    wait_for_batches(hg, "counted", 4)
    hg.limit("counted", "orders", 0.5)
    wait_for_batches(hg, "counted", 4)
    [known] = [one for one in hg.statistics().queries if one.query == "counted"]
    [gate] = known.gates
    assert gate.arrival_rate_per_second is not None
    assert 500.0 < gate.arrival_rate_per_second < 8000.0
    assert gate.kept_share is not None
    assert 0.4 < gate.kept_share < 1.0
    assert known.capacity_tuples_per_second is not None
    assert known.output_rows_per_tuple == pytest.approx(0.25, abs=0.05)
    assert "counted" in str(hg.statistics())
    network = parse_network(hg.network())
    query.stop()
    assert network.nodes[0].capacity == 2.0
    [operator] = [one for one in network.operators if one.name == "counted work"]
    assert operator.selectivity == pytest.approx(0.25, abs=0.05)
