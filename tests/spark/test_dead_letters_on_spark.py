"""Dead letters on Spark: exactly the rows that the second hash names, once, and nothing is hurt."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.errors import UsageError
from headgate.reduction import PolicyBuilder, use
from headgate.spark.gates.gate import identity_hash, passes
from headgate.spark.letters.letter_columns import _SECOND_HASH
from headgate.spark.letters.letter_settings import letter_threshold
from headgate.spark.session import Headgate, attach
from headgate.spark.sources.source_letters import LETTER_SALT
from headgate.spark.sources.source_offset import keeps
from tests.spark.streams import (
    batches_in_sink,
    expected_ids,
    logged_batches,
    logged_sources,
    rows_of,
    wait_for,
    wait_for_batches,
)
from tests.spark.test_source_gate import kept_ids

Replay = Callable[..., DataFrame]


def expected_letters(spark: SparkSession, checkpoint: Path, share: float, last: int) -> set[int]:
    """From nothing but the offset log."""
    found: set[int] = set()
    start = 0
    for batch, (decision, offset) in logged_batches(checkpoint).items():
        if batch <= last and offset["row"] > start:
            rows = spark.range(start, offset["row"], numPartitions=1)
            kept = passes(["id"], F.lit(decision.salt), F.lit(decision.threshold("orders")))
            chance = F.pmod(
                F.xxhash64(identity_hash(["id"]), F.lit(_SECOND_HASH)), F.lit(1_000_000)
            )
            limit = letter_threshold(share, "orders", decision, True)
            found.update(
                rows.where(~kept & (chance < F.lit(limit))).toPandas()["id"].tolist()  # type: ignore[index]
            )
        start = offset["row"]
    return found


def start(hg: Headgate, stream: DataFrame, name: str, directory: Path, dead_letters: Any) -> Any:
    gated = hg.gate(
        stream, "orders", arrival="timestamp", identity=["id"], dead_letters=dead_letters
    )
    writer = gated.writeStream.format("parquet").option("path", str(directory / "out"))
    return hg.start(writer.option("checkpointLocation", str(directory / "checkpoint")), name=name)


def test_letters_are_the_rows_that_the_log_says_and_no_other(
    hg: Headgate, spark: SparkSession, replay: Replay, tmp_path: Path
) -> None:
    wanted = {"path": tmp_path / "letters", "share": 0.2}
    query = start(hg, replay(rate=5000), "letters", tmp_path, wanted)
    wait_for_batches(hg, "letters", 2)
    assert hg.dead_letters("letters").count() == 0
    assert not (tmp_path / "letters").exists()
    for keep in (0.4, 0.9, 1.0):
        hg.limit("letters", "orders", keep)
        wait_for_batches(hg, "letters", 2)
        assert ("ArrowEvalPython" in plan_of(query)) == (keep < 1.0)
    query.stop()
    rows = rows_of(hg, "letters")
    batches = {row["batch"] for row in rows}
    written = hg.dead_letters("letters")
    assert written.columns == ["id", "key", "value", "timestamp", "headgate_gate", "headgate_batch"]
    by_batch = {row["headgate_batch"]: row["n"] for row in _counts(written)}
    found: list[int] = written.toPandas()["id"].tolist()
    assert len(found) == len(set(found)) == sum(row["letters"] for row in rows) > 100
    checkpoint = tmp_path / "checkpoint"
    assert set(found) == expected_letters(spark, checkpoint, 0.2, max(batches))
    for row in rows:
        assert row["letters"] == by_batch.get(row["batch"], 0)
        assert row["letters_left"] == 0
        assert row["letters"] <= row["dropped"]
        assert row["letters"] <= 0.2 * row["offered"] + 5 * (0.2 * row["offered"]) ** 0.5
        if row["keep_fraction"] >= 0.8:
            assert row["letters"] == row["dropped"]
    kept = spark.read.parquet(str(tmp_path / "out")).toPandas()["id"].tolist()  # type: ignore[index]
    assert set(kept) == expected_ids(spark, checkpoint, "orders", batches)
    assert not set(kept) & set(found)
    report = hg.report()
    assert report.sums["letters", "orders"].letters == len(found)
    assert "written as dead letters" in str(report)


def plan_of(query: Any) -> str:
    """The plan of the last batch, as it was run."""
    return str(query._jsq.streamingQuery().lastExecution().executedPlan().toString())


def _counts(frame: DataFrame) -> list[Any]:
    return frame.groupBy("headgate_batch").agg(F.count("*").alias("n")).collect()


@pytest.mark.parametrize("sink_has_it", [True, False])
def test_letters_of_a_replayed_batch_stand_once(
    spark: SparkSession, replay: Replay, tmp_path: Path, sink_has_it: bool
) -> None:
    """Spark's file sink passes over a batch that it has already: then no task writes letters."""
    epoch, wanted = time.time(), str(tmp_path / "letters")
    with attach(spark, timeout="20s") as first:
        stream = replay(rate=2000, epoch=epoch, rows=4000)
        query = start(first, stream, "again", tmp_path, wanted)
        first.limit("again", "orders", 0.5)
        # To the end of the stream: no batch is under way when the query stops.
        wait_for(lambda: sum(row["offered"] for row in rows_of(first, "again")) == 4000)
        query.stop()
        last = back_to_the_last_committed_batch(tmp_path / "checkpoint")
        before = expected_letters(spark, tmp_path / "checkpoint", 0.1, last)
    if not sink_has_it:
        for path in (tmp_path / "out" / "_spark_metadata").glob(f"*{last}*"):
            path.unlink()
    parts = sorted((tmp_path / "letters").rglob(f"{last:012d}-*.parquet"))
    for number, path in enumerate(parts):  # cut into other partitions
        path.rename(path.with_name(f"{last:012d}-{77 + number:05d}.parquet"))
    with attach(spark, timeout="20s") as second:
        stream = replay(rate=2000, epoch=epoch, rows=8000)
        query = start(second, stream, "again", tmp_path, wanted)
        wait_for(lambda: any(row["batch"] > last for row in rows_of(second, "again")))
        query.stop()
        newest = max(row["batch"] for row in rows_of(second, "again"))
        written = second.dead_letters("again").where(f"headgate_batch <= {newest}")
        found = written.toPandas()["id"].tolist()
    assert len(found) == len(set(found))
    assert before
    assert before <= set(found)
    assert set(found) == expected_letters(spark, tmp_path / "checkpoint", 0.1, newest)


def back_to_the_last_committed_batch(checkpoint: Path) -> int:
    """As if the driver had died when the sink had the batch and the commit log did not."""
    commits = [int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit()]
    last = max(commits)
    for path in (checkpoint / "commits").iterdir():
        if path.name.removeprefix(".").removesuffix(".crc") == str(last):
            path.unlink()
    return last


def test_a_sink_that_fails_raises_an_alarm_and_hurts_nothing(
    hg: Headgate, spark: SparkSession, replay: Replay, tmp_path: Path
) -> None:
    (tmp_path / "letters").write_text("a file stands in the way")
    query = start(hg, replay(rate=2000), "no letters", tmp_path, str(tmp_path / "letters"))
    wait_for_batches(hg, "no letters", 1)
    hg.limit("no letters", "orders", 0.5)
    wait_for(lambda: any(row["dropped"] for row in rows_of(hg, "no letters")))
    wait_for_batches(hg, "no letters", 1)
    assert query.isActive
    query.stop()
    rows = rows_of(hg, "no letters")
    assert sum(row["letters_left"] for row in rows) > 0
    assert all(row["letters"] == 0 for row in rows)
    [text, *_] = [
        a.text for a in hg.alarms() if (a.kind, a.subject) == ("dead letters", "no letters")
    ]
    assert "orders" in text
    kept = spark.read.parquet(str(tmp_path / "out")).toPandas()["id"].tolist()  # type: ignore[index]
    batches = {row["batch"] for row in rows}
    assert set(kept) == expected_ids(spark, tmp_path / "checkpoint", "orders", batches)


def test_mistakes_are_said_before_anything_starts(hg: Headgate, replay: Replay) -> None:
    with pytest.raises(UsageError, match="headgate_batch is taken"):
        hg.gate(replay().withColumn("headgate_batch", F.lit(1)), "a", dead_letters="/x")
    options = {"topic": "t", "kafka.bootstrap.servers": "b:1", "kafka.no.such": "1"}
    with pytest.raises(UsageError, match="not accepted"):
        hg.gate(replay(), "a", dead_letters=options)
    with pytest.raises(UsageError, match="no query 'nobody'"):
        hg.dead_letters("nobody")


def test_a_gate_in_the_source_writes_letters_of_what_it_never_built(
    hg: Headgate, spark: SparkSession, tmp_path: Path
) -> None:
    stream = hg.read("replay", "orders", {"rate": 3000}, dead_letters=tmp_path / "letters")
    writer = stream.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = hg.start(writer, name="letters inside")
    wait_for_batches(hg, "letters inside", 1)
    hg.limit("letters inside", "orders", 0.5)
    wait_for(lambda: sum(row["dropped"] for row in rows_of(hg, "letters inside")) > 500)
    query.stop()
    rows = rows_of(hg, "letters inside")
    last = max(row["batch"] for row in rows)
    table = hg.dead_letters("letters inside").where(f"headgate_batch <= {last}")
    assert table.columns == ["id", "key", "value", "timestamp", "headgate_gate", "headgate_batch"]
    found = table.toPandas()["id"].tolist()  # type: ignore[index]
    assert len(found) == len(set(found)) == sum(row["letters"] for row in rows) > 0
    expected: set[int] = set()
    start = 0
    for batch, [offset] in logged_sources(tmp_path / "checkpoint").items():
        ids = np.arange(start, offset.position["row"], dtype=np.uint64)
        start = offset.position["row"]
        if batch <= last:
            kept = keeps(ids, offset.salt, offset.threshold)
            limit = letter_threshold(0.1, "orders", offset.decision, True)
            expected.update(ids[~kept & keeps(ids, LETTER_SALT, limit)].tolist())
    assert set(found) == expected
    out: Any = spark.read.parquet(str(tmp_path / "out")).toPandas()
    # The stop may come between the sink's commit of a batch and the ledger's line of it.
    assert set(out["id"]) == kept_ids(tmp_path / "checkpoint", batches_in_sink(tmp_path / "out"))


def test_gates_of_every_kind_write_letters_of_what_they_drop(
    hg: Headgate, spark: SparkSession, replay: Replay, tmp_path: Path
) -> None:
    stream, wanted = replay(rate=400, keys=50), {"path": tmp_path / "letters", "share": 0.5}
    columns = PolicyBuilder("readings", attribute="value").level(use("LT", "drop", value=0.5))
    arrow = PolicyBuilder("readings", group="key").level(use("EVERY", "keep", count=2))
    late = stream.withWatermark("timestamp", "1 second")
    sliding = ("timestamp", "1 second", "500 milliseconds")
    gated = {
        "keyed": hg.gate(stream, "keyed", by_key=["key"], dead_letters=wanted),
        "windowed": hg.gate(late, "windowed", by_window=sliding, dead_letters=wanted),
        "columns": hg.gate(
            stream, "columns", identity=["id"], policy=columns.build(), dead_letters=wanted
        ),
        "arrow": hg.gate(
            stream, "arrow", "timestamp", ["id"], policy=arrow.build(), dead_letters=wanted
        ),
    }
    frames = [frame.select("id", F.lit(name).alias("gate")) for name, frame in gated.items()]
    writer = reduce(DataFrame.union, frames).writeStream.format("parquet")
    writer = writer.option("path", str(tmp_path / "out"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = hg.start(writer, name="all kinds")
    wait_for_batches(hg, "all kinds", 1)
    for gate in gated:
        hg.limit("all kinds", gate, 0.3)

    def all_have_letters() -> bool:
        rows = rows_of(hg, "all kinds")
        return {row["gate"] for row in rows if row["letters"]} == set(gated)

    wait_for(all_have_letters, what="letters of every gate")
    assert query.exception() is None
    query.stop()
    rows = rows_of(hg, "all kinds")
    last = max(row["batch"] for row in rows)
    out: Any = spark.read.parquet(str(tmp_path / "out")).toPandas()
    for gate in gated:
        table = hg.dead_letters("all kinds", gate).where(f"headgate_batch <= {last}")
        found: list[int] = table.toPandas()["id"].tolist()
        mine = [row for row in rows if row["gate"] == gate]
        assert len(found) == len(set(found)) == sum(row["letters"] for row in mine)
        assert all(row["letters"] <= row["dropped"] for row in mine)
        assert all(row["offered"] == row["kept"] + row["dropped"] for row in mine)
        assert not set(found) & set(out["id"][out["gate"] == gate])
        assert max(found) < sum(row["offered"] for row in mine)
    with pytest.raises(UsageError, match="columns, arrow; name one"):
        hg.dead_letters("all kinds")
