from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from headgate.spark.ledger.lines import read_lines
from tests.spark.standalone_cluster import standalone_cluster
from tests.spark.streams import expected_ids, logged_batches
from tests.spark.test_dead_letters_on_spark import expected_letters

ROOT = Path(__file__).parents[2]


def test_tasks_that_run_twice_on_a_standalone_cluster_change_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A master and two workers; every batch has a second attempt at its first partition.

    It comes after the first one has failed, or, in every other batch, as Spark's own copy of one
    that stands still (speculation).
    """
    with standalone_cluster(tmp_path) as master:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.cluster_driver", str(tmp_path), master],
            cwd=ROOT,
            check=False,
            timeout=300,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr[:3000] + done.stderr[-3000:]
    assert (tmp_path / "executors").read_text() == "2"
    attempts = [path.name.split("-") for path in (tmp_path / "attempts").iterdir()]
    twice = {int(batch) for batch, partition, n in attempts if partition == "0" and n > "0"}
    assert {batch % 2 for batch in twice} == {0, 1}
    checkpoint = tmp_path / "checkpoint"
    committed = {int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")}
    ids = spark.read.parquet(str(tmp_path / "out")).toPandas()["id"].tolist()  # type: ignore[index]
    assert len(ids) == len(set(ids))
    assert set(ids) == expected_ids(spark, checkpoint, "orders", committed)
    assert any(decision.sheds for decision, _ in logged_batches(checkpoint).values())
    rows = list(read_lines([checkpoint / "headgate" / "ledger"]))
    assert {row["batch"] for row in rows} == committed
    assert all(row["offered"] == row["kept"] + row["dropped"] for row in rows)
    assert sum(row["kept"] for row in rows) == len(ids)
    last = logged_batches(checkpoint)[max(committed)][1]["row"]
    assert sum(row["offered"] for row in rows) == last
    letters = spark.read.parquet(str(tmp_path / "letters" / "*" / "*")).toPandas()
    written = letters["id"].tolist()  # type: ignore[index]
    assert len(written) == len(set(written)) == sum(row["letters"] for row in rows) > 0
    assert set(written) == expected_letters(spark, checkpoint, 0.1, max(committed))
