"""Drops by key and by window on Spark, compared with exact answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.errors import UsageError
from headgate.spark.session import Headgate
from tests.spark.streams import logged_batches, rows_of, wait_for

Replay = Callable[..., DataFrame]


def _offered(hg: Headgate, query: str, gate: str) -> int:
    return sum(row["offered"] for row in rows_of(hg, query) if row["gate"] == gate)


def test_a_join_keeps_the_share_of_its_keys(
    hg: Headgate, spark: SparkSession, tmp_path: Path
) -> None:
    """int on one side, bigint on the other; only one gate is limited, the other follows."""
    everything = spark.range(16_000).selectExpr("id", "pmod(xxhash64(id), 4000) as key")
    (arrived := tmp_path / "arrived").mkdir()
    files = spark.readStream.schema("id bigint, key bigint").option("maxFilesPerTrigger", 1)
    left = hg.gate(files.parquet(str(arrived)), "left", by_key=["key"])
    right = files.parquet(str(arrived)).selectExpr("id as right_id", "cast(key as int) right_key")
    right = hg.gate(right, "right", by_key={"key": "right_key"})
    joined = left.join(right, F.expr("key = right_key")).select("id", "right_id", "key")
    shares = {"half": 0.5, "fifth": 0.2}
    queries = []
    for name, share in shares.items():
        writer = joined.writeStream.format("parquet").option("path", str(tmp_path / name))
        writer = writer.option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
        queries.append(hg.start(writer, name=name))
        hg.limit(name, "left" if name == "half" else "right", share)
    staged = tmp_path / "staged"
    everything.repartition(4).write.parquet(str(staged))
    for number, file in enumerate(sorted(staged.glob("*.parquet"))):
        file.rename(arrived / f"{number}.parquet")
    other = everything.selectExpr("id as right_id", "key as right_key")
    exact = everything.join(other, F.expr("key = right_key")).select("id", "right_id", "key")
    truth = {tuple(row) for row in exact.collect()}
    for name in shares:
        for gate in ("left", "right"):
            wait_for(lambda n=name, g=gate: _offered(hg, n, g) == 16_000, what=f"rows of {name}")
    for query in queries:
        query.stop()
    for name, share in shares.items():
        results = [tuple(row) for row in spark.read.parquet(str(tmp_path / name)).collect()]
        kept = set(results)
        assert len(kept) == len(results)
        assert kept < truth
        assert len(kept) / len(truth) == pytest.approx(share, abs=0.03)
        with_rows = [row for row in rows_of(hg, name) if row["offered"]]
        assert {row["keep_fraction"] for row in with_rows} == {share}
        assert {row["gate"] for row in with_rows} == {"left", "right"}
        keys = {row[2] for row in kept}
        assert kept == {row for row in truth if row[2] in keys}  # a key is there as a whole
    fifth, half = (
        {row[0] for row in spark.read.parquet(str(tmp_path / name)).select("key").collect()}
        for name in ("fifth", "half")
    )
    assert fifth < half


def _events(stream: DataFrame) -> DataFrame:
    """5 ms of event time a row, up to 10 s out of order."""
    late = F.pmod(F.xxhash64("id"), F.lit(10_000_000))
    micros = F.lit(1_700_000_000_000_000) + F.col("id") * 5000 - late
    return stream.select("id", F.timestamp_micros(micros).alias("at"))


_WINDOWS = {"tumbling": ("10 seconds",), "sliding": ("12 seconds", "3 seconds")}


def _start(hg: Headgate, stream: DataFrame, name: str, directory: Path) -> object:
    gated = hg.gate(
        _events(stream).withWatermark("at", "10 seconds"),
        "events",
        by_window=("at", *_WINDOWS[name]),
    )
    window = "window" if name == "sliding" else F.window("at", *_WINDOWS[name])
    counts = gated.groupBy(window).agg(F.count("*").alias("n"), F.sum("id").alias("s"))
    writer = counts.writeStream.format("parquet").option("path", str(directory / name))
    writer = writer.option("checkpointLocation", str(directory / f"{name}-checkpoint"))
    return hg.start(writer, name=name)


def test_every_window_that_comes_out_is_the_true_one(
    hg: Headgate, spark: SparkSession, replay: Replay, tmp_path: Path
) -> None:
    """Changing shares, events out of order, and a restart in the middle."""
    rows = 60_000
    stream = replay(rate=1e6, rows=rows, maxRowsPerTrigger=4000)
    queries = [_start(hg, stream, name, tmp_path) for name in _WINDOWS]
    changes = 0
    restarted = False
    shares = (0.5, 1.0, 0.2, 0.7, 0.0, 0.6, 0.9, 0.3)

    def work_through() -> bool:
        nonlocal changes, queries, restarted
        done = [_offered(hg, name, "events") for name in _WINDOWS]
        if min(done) >= rows:
            return True
        if not restarted and min(done) > rows / 2:
            for query in queries:
                query.stop()
            queries = [_start(hg, stream, name, tmp_path) for name in _WINDOWS]
            restarted = True
        for name in _WINDOWS:
            hg.limit(name, "events", shares[changes % len(shares)])
        changes += 1
        time.sleep(0.5)
        return False

    wait_for(work_through, 180, "all rows")
    for query in queries:
        query.stop()
    assert restarted
    assert not [alarm for alarm in hg.alarms() if alarm.kind == "windows"]
    for name, texts in _WINDOWS.items():
        exact = _events(spark.range(rows)).groupBy(F.window("at", *texts).alias("window"))
        truth = {
            row["window"]["start"]: (row["n"], row["s"])
            for row in exact.agg(F.count("*").alias("n"), F.sum("id").alias("s")).collect()
        }
        emitted = spark.read.parquet(str(tmp_path / name)).collect()
        found = {row["window"]["start"]: (row["n"], row["s"]) for row in emitted}
        assert len(found) == len(emitted)
        wrong = {start: (n, truth[start]) for start, n in found.items() if truth[start] != n}
        assert wrong == {}
        assert 10 < len(found) < 0.85 * len(truth)
        logged = logged_batches(tmp_path / f"{name}-checkpoint")
        shares_met = {d.threshold("events") for d, _ in logged.values()}
        assert len(shares_met) >= 3


def test_mistakes_in_the_choice_of_rows(hg: Headgate, replay: Replay) -> None:
    stream = replay(rate=10)
    with pytest.raises(UsageError, match="withWatermark"):
        hg.gate(stream, "a", by_window=("timestamp", "10 seconds"))
    late = stream.withWatermark("timestamp", "1 second")
    with pytest.raises(UsageError, match="no length of a window"):
        hg.gate(late, "a", by_window=("timestamp", "1 month"))
    with pytest.raises(UsageError, match="longer than the window"):
        hg.gate(late, "a", by_window=("timestamp", "1 second", "2 seconds"))
    with pytest.raises(UsageError, match="by_window wants"):
        hg.gate(late, "a", by_window="timestamp")
    with pytest.raises(UsageError, match="expected a timestamp"):
        hg.gate(late, "a", by_window=("id", "1 second"))
    with pytest.raises(UsageError, match="adds a column 'window'"):
        hg.gate(
            late.withColumn("window", F.lit(1)),
            "a",
            by_window=("timestamp", "2 seconds", "1 second"),
        )
    with pytest.raises(UsageError, match="give one of"):
        hg.gate(stream, "a", by_key=["key"], identity=["id"])
    with pytest.raises(UsageError, match=r"decimal\(10,2\).*Cast it"):
        hg.gate(stream.withColumn("d", F.expr("cast(1 as decimal(10,2))")), "a", by_key="d")
    with pytest.raises(UsageError, match="Cast it"):
        hg.gate(stream.withColumn("s", F.expr("'x' collate utf8_lcase")), "a", by_key="s")
    with pytest.raises(UsageError, match="dropped at random"):
        hg.gate(stream, "a", by_key=["key"], weight="w")
    with pytest.raises(UsageError, match="free"):
        hg.gate(stream, "a", weight="key")
    text = hg.gate(stream.selectExpr("cast(key as string) as name"), "text", by_key={"key": "name"})
    both = text.join(hg.gate(stream, "number", by_key=["key"]), F.expr("name = key"))
    with pytest.raises(UsageError, match=r"'number'.*Cast the columns"):
        hg.start(both.writeStream.format("noop"), name="types")
