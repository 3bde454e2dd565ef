"""The latency paper's experiment on Spark: figures 5 and 6a, as ratios to the target.

The same code as `headgate reproduce latency-on-spark`, which also draws the figures.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.spark.environment import spark_and_headgate
from headgate.reproduce.experiments.latency_on_spark import Scale, measure, summary

__all__ = ["run"]


def run() -> dict[str, Any]:
    with spark_and_headgate() as (spark, hg):
        rows = measure(spark, hg, Scale(), 1, _tell)
    return {"cells": summary(rows)}


def _tell(done: int, total: int, what: str) -> None:
    print(f"  {done} of {total}: {what} ...", file=sys.stderr, flush=True)
