"""How often the intervals of `hg.count`, `hg.sum` and `hg.avg` hold the truth.

Not a measurement of time: for groups of 20 to 1,000 tuples, keep fractions from 0.9 to 0.05 and
values from even to heavy-tailed, and zeros with a 1 in fifty, the share of groups whose interval
holds the exact answer. The rule of the gate chooses the tuples; Spark computes the columns as it
would in a stream. Groups of which nothing was kept, and averages of one tuple, have no interval and
are left out.

    python -m benchmarks estimate_coverage
"""

from __future__ import annotations

import math
import os
import sys
from typing import Any

__all__ = ["run"]

SIZES = (20, 60, 200, 1000)
KEEPS = (0.9, 0.5, 0.2, 0.05)
VALUES = ("uniform", "normal", "signed", "exponential", "lognormal", "rare")
BOUNDS = {"rare": 1.0}
"""Estimates of these are made without and with a bound of the values ("bounded")."""


def run(groups: int = 1000) -> dict[str, Any]:
    """Coverage by keep fraction, size of group and estimate."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    try:
        rows = _rows(spark, groups).persist()
        return {str(keep): _coverage(rows, keep) for keep in KEEPS}
    finally:
        spark.stop()


def _rows(spark: Any, groups: int) -> Any:
    """Columns size, g, id and one for each kind of value."""
    from pyspark.sql import functions as F  # noqa: N812

    sizes = F.explode(F.array(*map(F.lit, SIZES))).alias("size")
    rows = spark.range(0, groups, 1, 2).select(F.col("id").alias("g"), sizes)
    rows = rows.select("*", F.explode(F.sequence(F.lit(1), F.col("size"))).alias("i"))
    identity = (F.col("size") * groups + F.col("g")) * 1000 + F.col("i")
    rows = rows.select("size", "g", identity.cast("bigint").alias("id"))

    def unit(seed: int) -> Any:
        return (F.pmod(F.xxhash64("id", F.lit(seed)), F.lit(10**9)) + 0.5) / 1e9

    signed = F.sqrt(-2.0 * F.log(unit(1))) * F.cos(2.0 * math.pi * unit(2))
    values = {
        "uniform": unit(1),
        "normal": 10.0 + 3.0 * signed,
        "signed": signed,
        "exponential": -F.log(unit(1)),
        "lognormal": F.exp(signed),
        "rare": (unit(1) < 0.02).cast("double"),
    }
    return rows.select("size", "g", "id", *(values[name].alias(name) for name in VALUES))


def _coverage(rows: Any, keep: float) -> dict[str, dict[str, float]]:
    from pyspark.sql import functions as F  # noqa: N812

    from headgate.spark.gates import estimates
    from headgate.spark.gates.gate import passes
    from headgate.spark.gates.threshold import millionths

    kept = rows.where(passes(["id"], F.lit(3), F.lit(millionths(keep))))
    kept = kept.withColumn("weight", F.lit(1.0 / keep))
    truth = rows.groupBy("size", "g").agg(
        F.count("*").cast("double").alias("count"),
        *(F.sum(name).alias(f"sum_{name}") for name in VALUES),
        *(F.avg(name).alias(f"avg_{name}") for name in VALUES),
    )
    found = kept.groupBy("size", "g").agg(
        estimates.count().alias("e_count"),
        *(estimates.total(name).alias(f"e_sum_{name}") for name in VALUES),
        *(estimates.average(name).alias(f"e_avg_{name}") for name in VALUES),
        *(estimates.total(n, bound=b).alias(f"e_sum_{n}_bounded") for n, b in BOUNDS.items()),
        *(estimates.average(n, bound=b).alias(f"e_avg_{n}_bounded") for n, b in BOUNDS.items()),
    )
    plain = [f"{kind}_{name}" for kind in ("sum", "avg") for name in VALUES]
    bounded = [f"{kind}_{name}_bounded" for kind in ("sum", "avg") for name in BOUNDS]
    names = ["count", *plain, *bounded]
    inside = [
        F.avg(
            F.expr(f"cast({n.removesuffix('_bounded')} between e_{n}.low and e_{n}.high as int)")
        ).alias(n)
        for n in names
    ]
    by_size = truth.join(found, ["size", "g"]).groupBy("size").agg(*inside).collect()
    return {
        str(row["size"]): {name: round(row[name], 3) for name in names}
        for row in sorted(by_size, key=lambda row: row["size"])
    }
