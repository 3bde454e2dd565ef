"""The PySpark blocks of README.md and docs/spark.md run as they stand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import headgate

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
    clicks = replay(rate=100).selectExpr("id", "key as page", "value as seconds", "timestamp as at")
    payments = replay(rate=100).selectExpr("cast(key as int) as payer")
    purchases = replay(rate=100).selectExpr("key as customer")
    streams = {"orders": orders, "clicks": clicks, "payments": payments, "purchases": purchases}
    for block in blocks:
        names: dict[str, Any] = {"spark": spark, **streams}
        attaches = "headgate.attach" in block
        if not attaches:
            names["hg"] = headgate.attach(spark)
        exec(compile(block, page, "exec"), names)
        for query in spark.streams.active:
            assert query.exception() is None
            query.stop()
        names["hg"].close()
        printed = capsys.readouterr().out
        assert "Headgate is on" in printed or not attaches
