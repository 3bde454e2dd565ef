"""The latency paper's query on Spark, small: what the experiment measures and how it sums up."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headgate.reproduce.experiments.latency_on_spark import (
    Scale,
    averages,
    measure,
    rates_over_time,
    summary,
)
from headgate.spark.session import Headgate


def test_the_pattern_has_the_asked_mean_over_a_whole_period() -> None:
    rates = rates_over_time(1000.0, 40, seed=1)
    assert sum(rates) / 40 == pytest.approx(1000.0)
    assert min(rates) >= 500.0
    assert max(rates) <= 1500.0
    assert rates != rates_over_time(1000.0, 40, seed=2)


def test_every_copy_gets_every_tuple(spark: SparkSession) -> None:
    table = spark.range(4).selectExpr(
        "id", "id / 4.0 as value", "timestamp_seconds(1700000000) as timestamp"
    )
    found = averages(table, 3).collect()
    assert sorted(row.copy for row in found) == [1, 2, 3]
    assert {row.average_cpu for row in found} == {37.5}
    traced = averages(table, 1, cpu=[10.0, 20.0]).collect()
    assert [row.average_cpu for row in traced] == [15.0]


def test_a_run_on_spark_sums_up_to_the_batches_it_saw(spark: SparkSession, hg: Headgate) -> None:
    told: list[str] = []
    scale = Scale((120,), (1.0,), (), 1.0, 4.0)
    rows = measure(spark, hg, scale, 1, lambda _done, _total, what: told.append(what))
    assert told[-1] == "done"
    [cell] = summary(rows)
    warm = [row for row in rows if row["warm"]]
    assert (cell["copies"], cell["target_seconds"]) == (120, 1.0)
    assert cell["batches"] == len(warm) > 0
    offered = sum(int(row["offered"] or 0) for row in warm)
    kept = sum(int(row["kept"] or 0) for row in warm)
    assert cell["kept_share"] == pytest.approx(kept / offered)
