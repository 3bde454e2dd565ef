from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.errors import UsageError
from headgate.spark.gates import estimates
from headgate.spark.gates.gate import passes
from headgate.spark.gates.threshold import EVERYTHING
from headgate.spark.session import Headgate
from tests.spark.streams import rows_of, wait_for

GROUPS = 1000


@pytest.fixture(scope="module")
def amounts(spark: SparkSession) -> Iterator[DataFrame]:
    """1,000 groups of 220 to 820 rows. `skewed` is exponential, `signed` uniform from -1 to 1."""
    unit = (F.pmod(F.xxhash64("id", F.lit(1)), F.lit(10**9)) + 0.5) / 1e9
    size = 220 + F.pmod(F.xxhash64("id", F.lit(2)), F.lit(601))
    groups = spark.range(0, GROUPS, 1, 2).select(F.col("id").alias("g"), size.alias("size"))
    rows = groups.select("g", F.explode(F.sequence(F.lit(1), F.col("size"))).alias("i"))
    rows = rows.select("g", (F.col("g") * 10_000 + F.col("i")).alias("id"))
    skewed, signed = (-F.log(unit)).alias("skewed"), (2 * unit - 1).alias("signed")
    frame = rows.select("g", "id", skewed, signed).persist()
    yield frame
    frame.unpersist()


def _sampled(rows: DataFrame, keep: Column) -> DataFrame:
    """The rule of the gate, and its weight, without a stream."""
    threshold = (keep * EVERYTHING).cast("bigint")
    return rows.where(passes(["id"], F.lit(7), threshold)).withColumn("weight", 1 / keep)


def _covered(rows: DataFrame, sample: DataFrame) -> dict[str, float]:
    """The share of groups whose interval holds the truth, by estimate."""
    columns = ("skewed", "signed")
    truth = rows.groupBy("g").agg(
        F.count("*").cast("double").alias("n"),
        *(F.sum(c).alias(f"s_{c}") for c in columns),
        *(F.avg(c).alias(f"a_{c}") for c in columns),
    )
    found = sample.groupBy("g").agg(
        estimates.count().alias("e_n"),
        *(estimates.total(c).alias(f"e_s_{c}") for c in columns),
        *(estimates.average(c).alias(f"e_a_{c}") for c in columns),
    )
    names = ["n", *(f"{kind}_{c}" for kind in "sa" for c in columns)]
    inside = [
        F.avg(F.expr(f"cast({name} between e_{name}.low and e_{name}.high as int)"))
        for name in names
    ]
    bias = [F.avg(F.expr(f"e_{name}.estimate / {name}")) for name in ("n", "s_skewed")]
    row = truth.join(found, "g").agg(F.count("*"), *inside, *bias).first()
    assert row is not None
    assert row[0] == GROUPS
    assert tuple(row)[-2:] == pytest.approx((1.0, 1.0), abs=0.02)
    return dict(zip(names, tuple(row)[1:], strict=False))


@pytest.mark.parametrize("keep", [0.9, 0.5, 0.2, 0.05, "mixed"])
def test_intervals_cover_the_truth(amounts: DataFrame, keep: float | str) -> None:
    """`mixed`: batches with different keep fractions within each group."""
    share = F.lit(keep)
    if keep == "mixed":
        shares = F.array(*map(F.lit, (1.0, 0.5, 0.2, 0.1)))
        share = F.element_at(shares, (F.col("id") % 4 + 1).cast("int"))
    covered = _covered(amounts, _sampled(amounts, share.cast("double")))
    print(keep, covered)
    assert {name: c for name, c in covered.items() if not 0.93 <= c <= 0.97} == {}


def test_without_drops_they_are_what_spark_says(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [(1, 2.0, 1.0), (1, -3.5, 1.0), (1, None, 1.0), (2, 7.0, 1.0), (3, None, 1.0)],
        "g int, y double, weight double",
    )
    exact = rows.groupBy("g").agg(
        F.count("*").cast("double"),
        F.sum("y"),
        F.avg("y"),
        estimates.count(),
        estimates.total("y"),
        estimates.average(F.col("y")),
    )
    for row in exact.collect():
        for number, interval in zip(row[1:4], row[4:], strict=True):
            assert tuple(interval) == (number,) * 3


def test_small_and_negative_groups(spark: SparkSession) -> None:
    data = [(1, 2.0, 4.0), (2, -2.0, 4.0), (2, -3.0, 4.0), *[(3, 5.0, 2.0)] * 3]
    rows = spark.createDataFrame(data, "g int, y double, weight double")
    found = rows.groupBy("g").agg(
        estimates.count().alias("n"),
        estimates.total("y").alias("s"),
        estimates.average("y").alias("a"),
    )
    one, two, same = found.orderBy("g").collect()
    z2 = 1.959964**2
    half = (12 * z2 + (1.5 * z2) ** 2) ** 0.5
    assert tuple(one["n"]) == pytest.approx((4.0, 1.0, 4 + 1.5 * z2 + half))
    assert tuple(one["a"]) == (2.0, None, None)
    assert two["s"]["estimate"] == -20.0
    assert two["s"]["low"] < -20.0 < two["s"]["high"] <= -5.0
    assert two["a"]["low"] < -2.5 < two["a"]["high"] < 0.0
    assert tuple(same["a"]) == pytest.approx((5.0, 5.0, 5.0))
    assert same["s"]["low"] == pytest.approx(5 * same["n"]["low"])


def test_of_no_rows_there_are_none(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], "y double, weight double")
    found = rows.agg(estimates.count().alias("n"), estimates.total("y").alias("s")).first()
    assert found is not None
    assert tuple(found["n"]) == (0.0, 0.0, 0.0)
    assert found["s"]["estimate"] is None


def test_kept_zeros_leave_open_what_the_bound_allows(spark: SparkSession) -> None:
    """The score interval of a count of which none was kept: z^2 (weight - 1)."""
    rows = spark.createDataFrame([(0.0, 20.0)] * 30, "y double, weight double")
    other = spark.createDataFrame([(0.0, 1.0)] * 3, rows.schema)
    for frame, high in ((rows, 19 * 1.959964**2), (other, 0.0)):
        named = {
            "sum": estimates.total("y"),
            "sum 2": estimates.total("y", bound=2),
            "sum -2": estimates.total("y", bound=-2),
            "avg": estimates.average("y"),
            "avg 2": estimates.average("y", bound=2),
        }
        found = frame.agg(*(column.alias(name) for name, column in named.items())).first()
        assert found is not None
        assert tuple(found["sum"]) == tuple(found["avg"]) == (0.0, 0.0, 0.0)
        assert tuple(found["sum 2"]) == pytest.approx((0.0, 0.0, 2 * high))
        assert tuple(found["sum -2"]) == pytest.approx((0.0, -2 * high, 0.0))
        assert tuple(found["avg 2"]) == pytest.approx((0.0, 0.0, 2 * high / 600))
    for bound in (0.0, float("inf"), float("nan")):
        with pytest.raises(UsageError, match="between 0 and the bound"):
            estimates.total("y", bound=bound)


def test_a_stream_with_changing_shares_says_how_wrong_it_can_be(
    hg: Headgate, spark: SparkSession, tmp_path: Path
) -> None:
    """The first file is kept whole, the second at 0.3; windows in append mode."""
    rows = spark.range(0, 40_000, 1, 2).selectExpr(
        "id",
        "id % 10 as g",
        "pmod(xxhash64(id), 1000) / 1000 as y",
        "timestamp_seconds(1700000000 + id div 400) as at",
    )
    ahead = rows.limit(1).selectExpr("id", "g", "y", "at + interval 1 hour as at")
    parts = [rows.where("id < 20000"), rows.where("id >= 20000"), ahead]  # ahead closes windows
    for number, part in enumerate(parts):
        part.coalesce(1).write.parquet(str(tmp_path / f"part{number}"))
    (arrived := tmp_path / "arrived").mkdir()
    stream = spark.readStream.schema(rows.schema).parquet(str(arrived))
    late = stream.withWatermark("at", "1 second")
    gated = hg.gate(late, "amounts", identity=["id"], weight="w")
    assert gated.columns == ["id", "g", "y", "at", "w"]
    keys = (F.window("at", "10 seconds").alias("window"), F.col("g"))
    counts = gated.groupBy(*keys).agg(
        hg.count("w").alias("n"), hg.sum("y", "w").alias("s"), hg.avg("y", "w").alias("a")
    )
    query = hg.start(counts.writeStream.format("memory").outputMode("append"), name="bars")
    for number in range(len(parts)):
        offered = sum(row["offered"] for row in rows_of(hg, "bars"))
        [file] = (tmp_path / f"part{number}").glob("*.parquet")
        file.rename(arrived / f"{number}.parquet")
        wait_for(lambda o=offered: sum(r["offered"] for r in rows_of(hg, "bars")) > o, what="rows")
        hg.limit("bars", "amounts", 0.3 if number == 0 else 1.0)
        time.sleep(1.0)  # not in the batch that Spark may just be making
    wait_for(lambda: spark.table("bars").count() >= 100, what="results")
    query.stop()
    truth = rows.groupBy(*keys).agg(
        F.count("*").alias("tn"), F.sum("y").alias("ts"), F.avg("y").alias("ta")
    )
    both = spark.table("bars").join(truth, ["window", "g"]).collect()
    assert len(both) == 100
    exact = [row for row in both if tuple(row["n"]) == (row["tn"],) * 3]
    assert len(exact) == 50  # the windows of the first file lost nothing
    inside = [
        row[kind]["low"] <= row["t" + kind] <= row[kind]["high"]
        for row in both
        if row not in exact
        for kind in "nsa"
    ]
    assert sum(inside) >= 0.88 * len(inside)
    kept = sum(row["kept"] for row in rows_of(hg, "bars"))
    assert 25_000 < kept < 27_000
    total = sum(row["n"]["estimate"] for row in both)
    assert total == pytest.approx(40_000, rel=0.03)
