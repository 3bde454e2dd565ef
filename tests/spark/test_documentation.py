"""The PySpark blocks of README.md and docs/spark.md run as they stand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```py\n(.*?)^```", re.M | re.S)
KAFKA = "kafka.bootstrap.servers"


@pytest.mark.usefixtures("hg")  # registers the replay source
@pytest.mark.parametrize("page", ["README.md", "docs/spark.md"])
def test_the_blocks_run(
    page: str,
    spark: SparkSession,
    replay: Callable[..., DataFrame],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    blocks = [block for block in blocks if KAFKA not in block]  # these run in test_kafka.py
    assert blocks
    orders = replay(rate=100).select(
        F.lit("orders").alias("topic"),
        F.lit(0).alias("partition"),
        F.col("id").alias("offset"),
        F.col("key").alias("shop"),
        "timestamp",
    )
    for block in blocks:
        names = {"spark": spark, "orders": orders}
        exec(compile(block, page, "exec"), names)
        for query in spark.streams.active:
            assert query.exception() is None
            query.stop()
        names["hg"].close()  # type: ignore[attr-defined]
        assert "Headgate is on" in capsys.readouterr().out
