"""Plain PySpark behind a gate gives what it gives without one, as long as nothing falls.

Files of rows, one file a batch: both sides see the same batches. While rows fall, what state
holds is what the ledger says was kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from headgate.spark.session import Headgate
from tests.spark.streams import rows_of, wait_for

FILES, ROWS = 4, 300
_ROCKS_DB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # it copies files with Hadoop's usual local file system, which the session is without
    "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}

Gate = Callable[[DataFrame, str], DataFrame]
Read = Callable[[], DataFrame]


class CountOfKey(StatefulProcessor):
    """How many rows a key had so far."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._seen = handle.getValueState("seen", "seen bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802
        before = self._seen.get()
        seen = (0 if before is None else before[0]) + sum(1 for _ in rows)
        self._seen.update((seen,))
        yield Row(key=key[0], seen=seen)

    def close(self) -> None:
        """Nothing is held."""


def _udfs(read: Read, gate: Gate) -> DataFrame:
    twice = F.udf(lambda value: 2 * value, "bigint")

    @F.pandas_udf("bigint")  # type: ignore[call-overload]
    def next_to(values: pd.Series) -> pd.Series:
        return values + 1

    return gate(read(), "rows").select(twice("id").alias("twice"), next_to("id").alias("next"))


def _static_join(read: Read, gate: Gate) -> DataFrame:
    stream = gate(read(), "rows")
    names = stream.sparkSession.range(0, 7).withColumnRenamed("id", "key")
    return stream.join(names.withColumn("name", F.concat(F.lit("k"), "key")), "key")


def _windows_below(read: Read, gate: Gate) -> DataFrame:
    late = gate(read().withWatermark("at", "10 seconds"), "rows")
    return late.groupBy(F.window("at", "20 seconds"), "key").agg(F.sum("id").alias("ids"))


def _windows_above(read: Read, gate: Gate) -> DataFrame:
    late = gate(read(), "rows").withWatermark("at", "10 seconds")
    return late.groupBy(F.window("at", "20 seconds", "10 seconds")).agg(F.sum("id").alias("ids"))


def _sessions(read: Read, gate: Gate) -> DataFrame:
    late = gate(read(), "rows").withWatermark("at", "10 seconds")
    return late.groupBy(F.session_window("at", "2 seconds"), "key").count()


def _distinct(read: Read, gate: Gate) -> DataFrame:
    late = gate(read(), "rows").withWatermark("at", "10 seconds")
    return late.select("at", "key").dropDuplicatesWithinWatermark(["key"])


def _join(read: Read, gate: Gate) -> DataFrame:
    """An outer join: it says nothing of rows without a partner until the watermark has passed."""
    left, right = (
        gate(read().where(f"id % 3 <> {number}"), name)
        .withWatermark("at", "10 seconds")
        .select(F.col("id").alias(name), F.col("at").alias(f"{name}_at"))
        for number, name in enumerate(("left", "right"))
    )
    near = "left = right and right_at between left_at - interval 1 second and left_at"
    return left.join(right, F.expr(near), "left_outer")


def _counted_keys(read: Read, gate: Gate) -> DataFrame:
    groups = gate(read(), "rows").groupBy("key")
    return groups.transformWithState(CountOfKey(), "key bigint, seen bigint", "update", "none")


PROGRAMS = (
    _udfs,
    _static_join,
    _windows_below,
    _windows_above,
    _sessions,
    _distinct,
    _join,
    _counted_keys,
)


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows in order of time, a tenth of them up to eight seconds late."""
    directory = tmp_path_factory.mktemp("rows")
    begin = datetime(2026, 11, 16, 8, tzinfo=UTC)
    for number in range(FILES):
        rows = []
        for row_id in range(number * ROWS, (number + 1) * ROWS):
            late = row_id % 9 if row_id % 10 == 0 else 0
            rows.append(
                (row_id, row_id * row_id % 23, begin + timedelta(seconds=row_id / 10 - late))
            )
        frame = spark.createDataFrame(rows, "id bigint, key bigint, at timestamp").coalesce(1)
        frame.write.parquet(str(directory / f"file{number}"))
    return directory


@pytest.fixture
def rocks_db(spark: SparkSession) -> Iterator[None]:
    """The state store that transformWithState asks for."""
    for setting, value in _ROCKS_DB.items():
        spark.conf.set(setting, value)
    yield
    for setting in _ROCKS_DB:
        spark.conf.unset(setting)


def _read(spark: SparkSession, files: Path) -> DataFrame:
    schema = "id bigint, key bigint, at timestamp"
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(files / "file*"))


@pytest.mark.usefixtures("rocks_db")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__.strip("_"))
def test_an_open_gate_changes_no_result(
    hg: Headgate, spark: SparkSession, files: Path, program: Callable[[Read, Gate], DataFrame]
) -> None:
    name = "same" + program.__name__
    mode = "update" if program is _counted_keys else "append"

    def results(gate: Gate, table: str) -> list[Row]:
        frame = program(lambda: _read(spark, files), gate)
        writer = frame.writeStream.format("memory").outputMode(mode).queryName(table)
        query = writer.start() if table.endswith("plain") else hg.start(writer, name=table)
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return sorted(spark.table(table).collect(), key=str)

    expected = results(lambda stream, _: stream, name + "_plain")
    gated = results(lambda stream, gate: hg.gate(stream, gate, arrival="at"), name)
    assert len(expected) > 5
    assert gated == expected
    rows = rows_of(hg, name)
    assert (
        sum(row["offered"] for row in rows) == sum(row["kept"] for row in rows) > FILES * ROWS / 2
    )


@pytest.mark.usefixtures("rocks_db")
def test_state_of_the_users_own_holds_what_the_ledger_says_was_kept(
    hg: Headgate, replay: Callable[..., DataFrame]
) -> None:
    name = "kept_in_state"
    stream = hg.gate(replay(rate=2000), "rows", arrival="timestamp", identity=["id"])
    groups = stream.groupBy((F.col("id") % 10).alias("key"))
    counts = groups.transformWithState(CountOfKey(), "key bigint, seen bigint", "update", "none")
    seen: dict[int, int] = {}
    total_after: dict[int, int] = {}

    def note(frame: DataFrame, batch: int) -> None:
        seen.update({row.key: row.seen for row in frame.collect()})
        total_after[batch] = sum(seen.values())

    writer = counts.writeStream.foreachBatch(note).outputMode("update")
    query = hg.start(writer, name=name, latency="120s")
    wait_for(lambda: rows_of(hg, name), what="a first batch")
    hg.limit(name, "rows", 0.3)
    wait_for(lambda: sum(row["dropped"] > 0 for row in rows_of(hg, name)) >= 3, what="drops")
    query.stop()
    rows = rows_of(hg, name)
    assert all(row["offered"] == row["kept"] + row["dropped"] for row in rows)
    assert sum(row["kept"] for row in rows) == total_after[rows[-1]["batch"]]
