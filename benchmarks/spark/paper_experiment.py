"""The latency paper's experiment on Spark: figures 5 and 6a, as ratios to the target.

The same code as `headgate reproduce latency-on-spark`, which also draws the figures. CPU values
are those of the PlanetLab trace if the environment variable HEADGATE_DATA says where it is.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.spark.environment import spark_and_headgate
from headgate.reproduce.experiments.latency_on_spark import Scale, cpu_percent, measure, summary

__all__ = ["run"]


def run() -> dict[str, Any]:
    data = os.environ.get("HEADGATE_DATA")
    cpu = cpu_percent(Path(data) if data else None)
    with spark_and_headgate() as (spark, hg):
        rows = measure(spark, hg, Scale(), 1, _tell, cpu)
    values = "the PlanetLab trace" if cpu else "the replay source"
    return {"cpu_values_from": values, "cells": summary(rows)}


def _tell(done: int, total: int, what: str) -> None:
    print(f"  {done} of {total}: {what} ...", file=sys.stderr, flush=True)
