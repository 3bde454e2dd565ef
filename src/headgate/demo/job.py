"""The demo's query: an ordinary windowed aggregate with some work for each row.

Orders come as JSON text. The query parses them, replaces the customer by a few rounds of
SHA-512 over a long text (in Spark's generated code), and counts orders, revenue and
customers of each shop in windows of ten seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

__all__ = ["GATE", "measured", "orders", "revenue"]

GATE = "orders"
_ROUNDS = 5
_REPEATS = 64  # of the 128 characters of a hash
_SHOPS = 50
_CUSTOMERS = 100_000


def orders(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """The stream: id, timestamp (arrival) and the order as JSON. No network, no Kafka."""
    reader = spark.readStream.format("headgate_replay").option("keys", _CUSTOMERS)
    for name, value in options.items():
        reader = reader.option(name, value)
    text = F.concat(
        F.lit('{"shop":'),
        F.col("key") % _SHOPS,
        F.lit(',"customer":'),
        F.col("key"),
        F.lit(',"cents":'),
        (F.col("value") * 10_000).cast("int"),
        F.lit("}"),
    )
    return reader.load().select("id", "timestamp", text.alias("order"))


def measured(frame: DataFrame) -> DataFrame:
    """Without a gate: count rows and look at arrivals in the same way as a gate does."""
    time = F.col("timestamp")
    return frame.observe(
        f"headgate:{GATE}",
        F.count(F.lit(1)).alias("offered"),
        F.count(F.lit(1)).alias("kept"),
        F.avg(time.cast("double")).alias("arrival_mean"),
        F.min(time).cast("double").alias("first_arrival"),
        F.max(time).cast("double").alias("last_arrival"),
    )


def revenue(frame: DataFrame) -> DataFrame:
    """The work."""
    schema = "shop int, customer int, cents int"
    parsed = frame.select("timestamp", F.from_json("order", schema).alias("order"))
    customer = F.col("order.customer").cast("string")
    for _ in range(_ROUNDS):
        customer = F.sha2(F.repeat(customer, F.lit(_REPEATS)), 512)
    rows = parsed.select("timestamp", "order.shop", "order.cents", customer.alias("customer"))
    return (
        rows.withWatermark("timestamp", "30 seconds")
        .groupBy(F.window("timestamp", "10 seconds"), "shop")
        .agg(
            F.count(F.lit(1)).alias("orders"),
            F.sum("cents").alias("cents"),
            F.approx_count_distinct("customer").alias("customers"),
        )
    )
