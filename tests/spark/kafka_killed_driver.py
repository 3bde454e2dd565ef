"""A driver that reads Kafka with a source gate until it is killed. Run by test_kafka.py."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tests.spark.java_options import QUICK


def main(servers: str, directory: Path) -> None:
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
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": "kafka_killed",
        "startingOffsets": "earliest",
    }
    stream = hg.read("kafka", "orders", options)
    slow = F.udf(lambda value: (time.sleep(0.002), value)[1], "binary")
    writer = stream.withColumn("value", slow("value")).writeStream.format("parquet")
    writer = writer.option("path", str(directory / "out"))
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    query = hg.start(writer, name="kafka_killed")
    while not query.recentProgress:
        time.sleep(0.2)
    hg.limit("kafka_killed", "orders", 0.3)
    query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
