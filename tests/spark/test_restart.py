from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headgate.spark.session import Headgate
from tests.spark.killed_driver import CROWD
from tests.spark.streams import (
    batches_in_sink,
    expected_ids,
    logged_batches,
    rows_of,
    wait_for,
    wait_for_batches,
)

ROOT = Path(__file__).parents[2]


def _sheds_in_the_middle_of_a_batch(checkpoint: Path) -> bool:
    """True when the newest batch has begun, sheds, and is not the first that does."""
    offsets, commits = _newest(checkpoint / "offsets"), _newest(checkpoint / "commits")
    if offsets is None or commits is None or offsets <= commits or offsets < 3:
        return False
    return logged_batches(checkpoint)[offsets][0].sheds


def _newest(directory: Path) -> int | None:
    names = [int(p.name) for p in directory.glob("*") if p.name.isdigit()]
    return max(names, default=None)


def test_a_killed_driver_drops_the_same_tuples_again(
    hg: Headgate, spark: SparkSession, replay: Callable[..., DataFrame], tmp_path: Path
) -> None:
    """kill -9 in the middle of a batch under load; the next driver finishes that batch."""
    checkpoint = tmp_path / "checkpoint"
    command = [sys.executable, "-m", "tests.spark.killed_driver", str(tmp_path)]
    driver = subprocess.Popen(
        command,
        cwd=ROOT,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: _sheds_in_the_middle_of_a_batch(checkpoint), 150, "a batch that sheds")
        time.sleep(0.2)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    before = logged_batches(checkpoint)
    replayed = max(before)
    committed = _newest(checkpoint / "commits")
    had = batches_in_sink(tmp_path / "out")

    stream = hg.gate(replay(**CROWD), "orders", arrival="timestamp", identity=["id"])
    writer = stream.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    writer = writer.option("checkpointLocation", str(checkpoint))
    query = hg.start(writer, name="killed", latency="2s")
    wait_for_batches(hg, "killed", 1)
    query.stop()

    after = logged_batches(checkpoint)
    assert {n: after[n] for n in before} == before
    rows = rows_of(hg, "killed")
    counted = [row for row in rows if row["status"] == "counted"]
    batches = [row["batch"] for row in rows]
    assert len(batches) == len(set(batches)), rows
    assert set(batches) >= set(range(replayed + 1))
    assert all(row["offered"] == row["kept"] + row["dropped"] for row in counted)
    if committed != replayed and replayed not in had:  # a sink that has it passes over it
        [again] = [row for row in rows if row["batch"] == replayed]
        assert again["why"] == "replayed"
        assert again["keep_fraction"] == before[replayed][0].threshold("orders") / 1e6
        assert again["dropped"] > 0
    ids = spark.read.parquet(str(tmp_path / "out")).toPandas()["id"].tolist()
    assert len(ids) == len(set(ids))
    in_sink = batches_in_sink(tmp_path / "out")
    assert set(ids) == expected_ids(spark, checkpoint, "orders", in_sink)
    assert in_sink - set(batches) <= {max(in_sink)}


def test_a_checkpoint_without_gates_runs_on_without_them(
    hg: Headgate, replay: Callable[..., DataFrame], tmp_path: Path
) -> None:
    plain = replay(rate=1e6, rows=100).writeStream.format("noop").trigger(availableNow=True)
    plain.option("checkpointLocation", str(tmp_path)).start().awaitTermination(60)
    gated = hg.gate(replay(rate=1e6, rows=200), "late", identity=["id"])
    writer = gated.writeStream.format("noop").trigger(availableNow=True)
    query = hg.start(writer.option("checkpointLocation", str(tmp_path)), name="late", latency=1)
    assert query.awaitTermination(60)
    assert query.exception() is None
    assert any(a.kind == "not gated" and a.subject == "late" for a in hg.alarms())
