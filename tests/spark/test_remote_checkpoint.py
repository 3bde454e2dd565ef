"""A checkpoint on a file system that is not the driver's disk: `viewfs`, which Spark takes like
HDFS, with a mount that leads to a directory of the test.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.spark.ledger import mirror
from headgate.spark.ledger.lines import read_lines
from headgate.spark.session import Headgate, attach
from tests.spark.streams import rows_of, wait_for, wait_for_batches


@pytest.fixture
def far(spark: SparkSession, tmp_path: Path) -> tuple[str, Path]:
    """An address and the directory behind it."""
    name = f"headgate-{uuid.uuid4().hex}"
    spark.conf.set(f"fs.viewfs.mounttable.{name}.link./data", tmp_path.as_uri())
    return f"viewfs://{name}/data/checkpoint", tmp_path / "checkpoint" / "headgate" / "ledger"


def start(hg: Headgate, stream: DataFrame, checkpoint: str) -> Any:
    gated = hg.gate(stream, "orders", arrival="timestamp", identity=["id"])
    writer = gated.writeStream.format("noop").option("checkpointLocation", checkpoint)
    return hg.start(writer, name="far", latency="5s")


def test_the_ledger_stands_beside_a_checkpoint_on_another_file_system(
    spark: SparkSession,
    replay: Callable[..., DataFrame],
    far: tuple[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mirror, "_SEND_SECONDS", 0.5)
    checkpoint, ledger = far
    with attach(spark, timeout="20s") as first:
        query = start(first, replay(rate=500), checkpoint)
        wait_for_batches(first, "far", 3)
        wait_for(lambda: any(read_lines([ledger])), what="a piece")
        assert first.ledger().count() >= 3
        query.stop()
        before = rows_of(first, "far")
        [spool] = first._book.directories
        assert not [alarm for alarm in first.alarms() if alarm.kind == "ledger"]
    assert [row["batch"] for row in read_lines([ledger])] == [row["batch"] for row in before]
    shutil.rmtree(spool)  # another driver has no such directory
    with attach(spark, timeout="20s") as second:
        query = start(second, replay(rate=500), checkpoint)
        [run] = second._agent.started("far")
        assert run.last_report is not None  # what was recalled
        wait_for_batches(second, "far", 2)
        query.stop()
        rows = rows_of(second, "far")
        assert len(rows) >= len(before) + 2
        table = second.ledger().collect()
        assert sorted(row["batch"] for row in table) == [row["batch"] for row in rows]
        report = second.report()
        assert report.sums["far", "orders"].batches == len(rows)
        assert not [alarm for alarm in second.alarms() if alarm.kind == "ledger"]
    there = sorted(row["batch"] for row in read_lines([ledger]))
    assert there == [row["batch"] for row in rows] == list(range(len(rows)))
