"""What a person would write beside a network file: functions from DataFrames to a DataFrame."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812


def doubled(frame: DataFrame) -> DataFrame:
    return frame.withColumn("value", 2 * F.col("value"))


def per_key(frame: DataFrame) -> DataFrame:
    windows = F.window("timestamp", "1 second")
    return frame.groupBy(windows, "key").agg(F.count(F.lit(1)).alias("rows"))


def per_window(frame: DataFrame) -> DataFrame:
    return frame.groupBy("window", "key").agg(F.count(F.lit(1)).alias("rows"))


def forgets_to_return(frame: DataFrame) -> None:
    frame.select("id")


NOT_A_FUNCTION = 1
