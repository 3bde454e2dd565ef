"""Things that break while a query runs. Each time: the query goes on, and an alarm says so."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.errors import UsageError
from headgate.spark.ledger.ledger_file import LedgerFile
from headgate.spark.plans import plan_rewrite
from headgate.spark.session import Headgate, attach
from tests.spark.streams import (
    batches_in_sink,
    expected_ids,
    rows_of,
    wait_for,
    wait_for_batches,
)

Replay = Callable[..., DataFrame]


def start(
    hg: Headgate,
    stream: DataFrame,
    name: str,
    checkpoint: Path | None = None,
    latency: str = "5s",
) -> Any:
    gated = hg.gate(stream, "orders", arrival="timestamp", identity=["id"])
    writer = gated.writeStream.format("noop")
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", str(checkpoint))
    return hg.start(writer, name=name, latency=latency)


def alarms(hg: Headgate, kind: str, subject: str) -> list[str]:
    return [a.text for a in hg.alarms() if a.kind == kind and subject in a.subject]


def test_an_exception_in_the_listener_loses_no_batch(
    hg: Headgate, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: str) -> None:
        raise RuntimeError("the listener is broken")

    monkeypatch.setattr(hg._listener._bridge, "_progressed", broken)
    query = start(hg, replay(rate=500), "deaf")
    wait_for(lambda: len(query.recentProgress) >= 4, what="four batches")
    wait_for(lambda: alarms(hg, "listener", ""), what="an alarm")
    assert query.isActive
    query.stop()
    rows = rows_of(hg, "deaf")
    assert [row["batch"] for row in rows] == list(range(len(rows)))
    assert len(rows) >= 3


def test_a_full_disk_stops_no_query_and_rows_come_later(
    hg: Headgate, replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/dev/full` refuses every byte with the error of a full disk."""
    real_open = LedgerFile._open

    def open_full(file: LedgerFile) -> Any:
        file._file = FileIO("/dev/full", "a")
        return file._file

    monkeypatch.setattr(LedgerFile, "_open", open_full)
    query = start(hg, replay(rate=500), "full", tmp_path)
    wait_for(lambda: len(query.recentProgress) >= 3, what="three batches")
    wait_for(lambda: alarms(hg, "ledger", "full"), what="an alarm")
    assert "No space left" in alarms(hg, "ledger", "full")[0]
    assert rows_of(hg, "full") == []
    monkeypatch.setattr(LedgerFile, "_open", real_open)
    wait_for_batches(hg, "full", 1)
    assert query.isActive
    query.stop()
    rows = rows_of(hg, "full")
    assert [row["batch"] for row in rows] == list(range(len(rows)))


def test_a_damaged_ledger_stops_no_start(
    spark: SparkSession, replay: Replay, tmp_path: Path
) -> None:
    damaged = (
        b'{"time_seconds":1,"que\xff\xfe\x00\n{"query_id":"x","batch":"7","gate":"t"}\n[]\n\xc3'
    )
    with attach(spark, timeout="20s") as first:
        query = start(first, replay(rate=500), "damaged", tmp_path)
        before = len(wait_for_batches(first, "damaged", 3))
        query.stop()
    [ledger] = (tmp_path / "headgate" / "ledger").glob("*.jsonl")
    with ledger.open("ab") as file:
        file.write(damaged)
    (tmp_path / "headgate" / "ledger" / "_sums").write_bytes(damaged)
    with attach(spark, timeout="20s") as second:
        query = start(second, replay(rate=500), "damaged", tmp_path)
        rows = wait_for_batches(second, "damaged", 2)
        query.stop()
        assert alarms(second, "ledger", "") == []
        assert len(rows) >= before + 2
        assert second.report().sums["damaged", "orders"].offered >= sum(r["offered"] for r in rows)
        assert second.ledger().count() == len(rows_of(second, "damaged"))


def test_whatever_fails_behind_the_start_is_an_alarm(
    hg: Headgate, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("it is broken")

    [(_, starts), *_] = hg._sessions._attached.values()
    books = starts._books
    monkeypatch.setattr(books.ledger, "open", broken)
    monkeypatch.setattr(books.digests, "open", broken)
    monkeypatch.setattr(books.letters, "begin", broken)
    query = start(hg, replay(rate=500), "behind")
    [run] = hg._agent.started("behind")
    assert run.run_id == str(query.runId)
    wait_for(lambda: run.reports >= 2, what="two batches that the agent has heard of")
    assert "RuntimeError: it is broken" in alarms(hg, "ledger", "behind")[0]
    query.stop()


def test_without_room_for_temporary_files_a_query_starts_all_the_same(
    hg: Headgate, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    monkeypatch.setattr(tempfile, "gettempdir", full)
    query = start(hg, replay(rate=500), "no room")
    wait_for_batches(hg, "no room", 1)
    query.stop()


def test_a_start_that_is_refused_leaves_nothing(hg: Headgate, replay: Replay) -> None:
    gated = hg.gate(replay(rate=500), "orders", arrival="timestamp", identity=["id"])
    writer = gated.writeStream.format("noop")
    with pytest.raises(UsageError, match="percentile"):
        hg.start(writer, name="refused", latency="3s", percentile=100)
    assert "refused" not in {run.name for run in hg.runs()}
    assert "refused" not in hg._agent.coordinator.queries
    with pytest.raises(UsageError, match="no gate refused/orders"):
        hg.limit("refused", "orders", 0.5)


def test_arrivals_from_the_future_raise_an_alarm_and_shed_nothing(
    hg: Headgate, replay: Replay
) -> None:
    ahead = replay(rate=500).selectExpr("id", "timestamp + interval 1 hour as timestamp")
    query = start(hg, ahead, "ahead", latency="60s")  # also on a busy machine a first batch fits
    wait_for_batches(hg, "ahead", 3)
    query.stop()
    assert all(row["dropped"] == 0 for row in rows_of(hg, "ahead"))
    assert "clock" in alarms(hg, "clock", "ahead")[0]


def test_a_source_that_goes_back_offers_its_rows_again(
    hg: Headgate, spark: SparkSession, tmp_path: Path
) -> None:
    """The same rows in a new file: they are new tuples, and are counted as such."""
    rows = spark.range(1000).selectExpr("id", "current_timestamp() as timestamp").coalesce(1)
    rows.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
    query = start(hg, stream, "rewound")
    wait_for(lambda: sum(row["offered"] for row in rows_of(hg, "rewound")) == 1000)
    rows.write.mode("append").parquet(str(tmp_path / "in"))
    wait_for(lambda: sum(row["offered"] for row in rows_of(hg, "rewound")) == 2000)
    assert query.isActive
    query.stop()


def test_an_offset_log_that_cannot_be_written_ends_the_query_and_drops_nothing_unlogged(
    spark: SparkSession, replay: Replay, tmp_path: Path
) -> None:
    """Spark itself ends it. Mended, the query goes on; every row has the fate that is logged."""
    checkpoint, out, name = tmp_path / "checkpoint", tmp_path / "out", "unlogged"
    epoch = time.time()

    def run(hg: Headgate) -> Any:
        gated = hg.gate(
            replay(rate=500, epoch=epoch), "orders", arrival="timestamp", identity=["id"]
        )
        writer = gated.writeStream.format("parquet").option("path", str(out))
        writer = writer.option("checkpointLocation", str(checkpoint))
        query = hg.start(writer, name=name)
        hg.limit(name, "orders", 0.4)
        return query

    with attach(spark, timeout="20s") as hg:
        other = start(hg, replay(rate=500), "beside")
        query = run(hg)
        wait_for_batches(hg, name, 2)
        (checkpoint / "offsets").rename(checkpoint / "aside")
        (checkpoint / "offsets").write_text("in the way")
        wait_for(lambda: query.exception(), what="the end of the query")
        wait_for(lambda: alarms(hg, "query", name), what="an alarm")
        (checkpoint / "offsets").unlink()
        (checkpoint / "aside").rename(checkpoint / "offsets")
        query = run(hg)
        wait_for_batches(hg, name, 2)
        assert query.exception() is None
        wait_for_batches(hg, "beside", 1)
        other.stop()
        query.stop()
        rows = rows_of(hg, name)
    in_sink = batches_in_sink(out)
    ids = spark.read.parquet(str(out)).toPandas()["id"].tolist()  # type: ignore[index]
    assert len(ids) == len(set(ids))
    assert set(ids) == expected_ids(spark, checkpoint, "orders", in_sink)
    assert any(row["dropped"] for row in rows)
    assert all(row["offered"] == row["kept"] + row["dropped"] for row in rows)
    counted = [row["batch"] for row in rows]
    assert counted == sorted(in_sink)[: len(counted)]
    assert len(in_sink) - len(counted) in (0, 1)


@pytest.mark.parametrize("format_number", [1, 2])
def test_a_checkpoint_of_another_version_of_headgate(
    spark: SparkSession, replay: Replay, tmp_path: Path, format_number: int
) -> None:
    """An older one knows fewer fields. A later one cannot be read: everything is kept."""
    epoch = time.time()
    with attach(spark, timeout="20s") as first:
        query = start(first, replay(rate=500, epoch=epoch), f"v{format_number}", tmp_path)
        wait_for_batches(first, f"v{format_number}", 2)
        query.stop()
    newest = max((tmp_path / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    text = newest.read_text()
    decision = {"headgate": format_number, "version": 7, "salt": 7, "keep": {"orders": 500_000}}
    wanted = json.dumps(decision)
    lines = [wanted if "headgate" in line else line for line in text.splitlines()]
    assert wanted in lines
    newest.write_text("\n".join(lines))
    for path in (tmp_path / "commits").glob(f"*{newest.name}*"):
        path.unlink()
    (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)
    for ledger in (tmp_path / "headgate" / "ledger").glob("*.jsonl"):
        rows = [line for line in ledger.read_text().splitlines() if line]
        kept = [line for line in rows if json.loads(line)["batch"] < int(newest.name)]
        ledger.write_text("".join(line + "\n" for line in kept))
    name = f"v{format_number}"
    with attach(spark, timeout="20s") as second:
        query = start(second, replay(rate=500, epoch=epoch), name, tmp_path)
        wait_for(lambda: query.exception() or len(query.recentProgress) >= 2)
        assert query.exception() is None
        query.stop()
        [again] = [row for row in rows_of(second, name) if row["batch"] == int(newest.name)]
        if format_number == 1:
            assert again["keep_fraction"] == 0.5
        else:
            assert again["dropped"] == 0
            assert alarms(second, "checkpoint", name)


def test_a_plan_that_cannot_be_rewritten_runs_without_its_gates(
    hg: Headgate, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise TypeError("'JavaPackage' object is not callable")

    monkeypatch.setattr(plan_rewrite.PlanRewrite, "of", broken)
    query = start(hg, replay(rate=500), "as it is")
    wait_for(lambda: len(query.recentProgress) >= 2, what="two batches")
    [text] = alarms(hg, "not gated", "as it is")
    assert "'JavaPackage' object is not callable" in text
    assert query.isActive
    query.stop()


def test_a_plan_that_spark_does_not_accept_runs_without_its_gates(
    hg: Headgate, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_it_is = plan_rewrite.inlined_in

    def other_columns(*given: Any) -> Any:
        own, below = as_it_is(*given)
        return own, below.child()

    monkeypatch.setattr(plan_rewrite, "inlined_in", other_columns)
    query = start(hg, replay(rate=500), "not accepted")
    wait_for(lambda: len(query.recentProgress) >= 2, what="two batches")
    [text] = alarms(hg, "not gated", "not accepted")
    assert "AnalysisException" in text
    query.stop()


def test_where_rows_cannot_be_counted_in_generated_code_spark_observes_them(
    hg: Headgate, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise TypeError("'JavaPackage' object is not callable")

    monkeypatch.setattr(plan_rewrite, "RowCounts", broken)
    query = start(hg, replay(rate=500), "observed")
    rows = wait_for_batches(hg, "observed", 2)
    query.stop()
    assert sum(row["offered"] for row in rows) > 0
    assert alarms(hg, "not gated", "observed") == []


def test_rows_of_the_last_batch_are_written_though_its_query_has_ended_meanwhile(
    hg: Headgate,
) -> None:
    """The thread of the events is so late that the query's end waits behind its last batch."""
    goes_on = threading.Event()
    hg._events.put(lambda: goes_on.wait(60) and None)
    options = {"rate": 1e6, "rows": 900, "maxRowsPerTrigger": 400, "epoch": 1}
    stream = hg.read("replay", "orders", options)
    query = hg.start(stream.writeStream.format("noop").trigger(availableNow=True), name="ended")
    assert query.awaitTermination(60)
    wait_for(lambda: hg._events._queue.qsize() >= 4, what="three batches and the end")
    goes_on.set()
    hg._events.drain(20.0)
    assert [row["offered"] for row in rows_of(hg, "ended")] == [400, 400, 100]


def test_a_continuous_query_runs_without_its_gates(hg: Headgate, spark: SparkSession) -> None:
    rate = spark.readStream.format("rate").option("rowsPerSecond", 50).option("numPartitions", 1)
    gated = hg.gate(rate.load(), "ticks", arrival="timestamp", identity=["value"])
    writer = gated.writeStream.format("memory").trigger(continuous="1 second")
    query = hg.start(writer, name="continuous", latency="1s")
    wait_for(lambda: spark.table("continuous").count() > 0, what="rows without a gate")
    query.stop()
    assert "micro-batch" in alarms(hg, "not gated", "continuous")[0]
