"""What a gate costs when nothing is to shed: the fast version of `benchmarks/spark/overhead.py`."""

from __future__ import annotations

from benchmarks.spark.overhead import compare, hashing
from pyspark.sql import SparkSession

from headgate.spark.session import Headgate


def test_an_open_gate_adds_little_to_a_batch(spark: SparkSession, hg: Headgate) -> None:
    found = compare(spark, hg, hashing(2), 1_000, rounds=3, warm_up_rounds=1)
    # A mechanism with a job of its own costs about 80 ms a batch on a quiet machine; these are
    # three short rounds on a busy one.
    assert found["extra_ms_median"] < 150.0
    assert found["latest_offset_ms_with_gate"] < 100.0
