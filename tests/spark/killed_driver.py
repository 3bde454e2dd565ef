"""A driver that runs one gated query until it is killed. Run by test_restart.py."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tests.spark.java_options import QUICK

CROWD = {"pattern": "flash crowd", "rate": 200, "peak": 5000, "at": "2s", "for": "900s"}


def main(directory: Path) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812

    import headgate

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", QUICK)
        .config("spark.sql.streaming.minBatchesToRetain", "1000")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    hg = headgate.attach(spark, timeout="20s")
    stream = spark.readStream.format("headgate_replay").options(**CROWD).load()
    stream = hg.gate(stream, "orders", arrival="timestamp", identity=["id"])
    slow = F.udf(lambda value: (time.sleep(0.001), value)[1], "double")
    writer = stream.withColumn("value", slow("value")).writeStream.format("parquet")
    writer = writer.option("path", str(directory / "out"))
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    query = hg.start(writer, name="killed", latency="2s")
    while query.isActive and not query.status["isTriggerActive"]:
        time.sleep(0.01)
    print("runs", flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
