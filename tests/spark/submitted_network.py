"""A program for spark-submit: runs a network for some seconds and writes the report."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(network: str, report: str) -> None:
    from pyspark.sql import SparkSession

    from headgate.spark import run_network

    spark = SparkSession.builder.getOrCreate()
    with run_network(spark, network) as run:
        while sum(run.record.delivered.values()) < 500:
            run.wait(0.5)
        found = {**run.report().to_dict(), "network": run.headgate.network()}
    Path(report).write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
