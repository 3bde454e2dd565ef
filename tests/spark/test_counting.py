"""Rows counted inside generated code, against Spark's own aggregates over the same rows."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.spark.agent.progress import BatchReport
from headgate.spark.agent.query_run import QueryRun
from headgate.spark.gates.gate_metrics import ARRIVAL_QUANTILES
from headgate.spark.plans.counting import RowCounts
from headgate.spark.plans.gate_nodes import made_of
from headgate.spark.plans.plan_rewrite import PlanRewrite
from headgate.spark.session import Headgate
from tests.spark.streams import rows_of
from tests.spark.test_gate import Replay

START = 1.79e9
AGGREGATES = {
    "first": "min(time)",
    "last": "max(time)",
    "mean": "avg(time)",
    "whole": "sum(whole)",
    "known": "count(odd)",
    "sum": "sum(odd)",
}


@pytest.fixture(params=["CODEGEN_ONLY", "NO_CODEGEN"])
def either_way(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """Generated code, and Spark's interpreter, which it falls back on."""
    settings = {
        "spark.sql.codegen.wholeStage": str(request.param == "CODEGEN_ONLY").lower(),
        "spark.sql.codegen.factoryMode": str(request.param),
    }
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, found in before.items():
        spark.conf.set(name, found or "")


def rows(spark: SparkSession, count: int, partitions: int = 3) -> DataFrame:
    ids = spark.range(0, count, 1, partitions)
    return ids.select(
        "id",
        (F.col("id") % 3 != 0).alias("kept"),
        (F.lit(START) + F.col("id") / 1000.0).alias("time"),
        (F.col("id") % 7).alias("whole"),
        F.when(F.col("id") % 5 == 0, F.col("id").cast("double")).alias("odd"),
    )


def counting(
    spark: SparkSession,
    frame: DataFrame,
    aggregates: dict[str, str],
    sampled: str = "",
    times: tuple[str, ...] = (),
    inlined: bool = False,
) -> tuple[DataFrame, RowCounts]:
    """The kept rows of `frame`, and what counts them."""
    named = [F.expr(text).alias(name) for name, text in aggregates.items()]
    node: Any = frame.observe(f"test {time.time_ns()}", *named)
    node = node._jdf.queryExecution().analyzed()
    columns = {str(c.name()): c for c in items(node.child().output())}
    parts = made_of(node.child()) if inlined else {}
    metrics = items(node.metrics())
    counts = RowCounts(spark, metrics, "quantiles", columns.get(sampled), times, parts)
    column = counts.column(columns["kept"])
    jvm: Any = spark._jvm
    logical = jvm.org.apache.spark.sql.catalyst.plans.logical
    every = jvm.java.util.ArrayList()
    for item in (*columns.values(), column):
        every.add(item)
    to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    plan = logical.Filter(column.toAttribute(), logical.Project(to_seq(every), node.child()))
    made = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return DataFrame(made, spark), counts


def plan_of(frame: Any) -> Any:
    return frame._jdf.queryExecution().analyzed()


def items(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_the_numbers_are_those_of_sparks_aggregates(spark: SparkSession, count: int) -> None:
    frame = rows(spark, count)
    kept, counts = counting(spark, frame, {"offered": "count(1)", **AGGREGATES})
    nothing = counts.take()
    assert (nothing["offered"], nothing["kept"], nothing["first"]) == (0, 0, None)
    assert sorted(row.id for row in kept.select("id").collect()) == [
        number for number in range(count) if number % 3
    ]
    found = counts.take()
    [wanted] = frame.agg(*(F.expr(text).alias(name) for name, text in AGGREGATES.items())).collect()
    assert found.pop("offered") == count
    assert found.pop("kept") == count - (count + 2) // 3
    assert found.pop("mean") == pytest.approx(wanted["mean"], abs=1e-5)
    assert found == {name: wanted[name] for name in AGGREGATES if name != "mean"}
    assert counts.take() == nothing


@pytest.mark.usefixtures("either_way")
def test_what_is_null_without_a_condition_is_counted_in_its_branch(spark: SparkSession) -> None:
    frame = rows(spark, 1000).withColumns(
        {
            "stays": F.when(F.col("kept"), F.col("time")),
            "goes": F.when(~F.col("kept"), F.col("odd")),
            "other": F.expr("if(whole = 1, 1L, null)"),
            "costly": F.when(F.col("kept"), F.when(F.col("whole") > 2, F.col("time"))),
        }
    )
    wanted = {
        "mean": "avg(stays)",
        "number": "count(goes)",
        "sum": "sum(goes)",
        "largest": "max(goes)",
        "others": "sum(other)",
        "last": "max(costly)",
    }
    kept, counts = counting(spark, frame, wanted, inlined=True)
    kept.write.format("noop").mode("overwrite").save()
    found = counts.take()
    [exact] = frame.agg(*(F.expr(text).alias(name) for name, text in wanted.items())).collect()
    assert found.pop("mean") == pytest.approx(exact["mean"], abs=1e-5)
    assert (found.pop("offered"), found.pop("kept")) == (1000, 666)
    assert found == {name: exact[name] for name in wanted if name != "mean"}
    text = str(counts.column(next(c for c in items(plan_of(frame).output()) if c.name() == "kept")))
    assert [name in text for name in ("stays#", "goes#", "other#", "costly#")] == [
        False,
        False,
        False,
        True,  # would have to be computed twice
    ]


@pytest.mark.parametrize("count", [1000, 200_000])
def test_averages_of_batch_after_batch(spark: SparkSession, count: int) -> None:
    """The large ones are cleared, the small ones are differences."""
    kept, counts = counting(spark, rows(spark, count), {"mean": "avg(time)"})
    for _ in range(4):
        kept.write.format("noop").mode("overwrite").save()
        assert counts.take()["mean"] == pytest.approx(START + (count - 1) / 2000.0, abs=1e-4)
    assert counts.take()["mean"] is None


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("kind", ["min", "max"])
def test_only_the_least_or_the_largest(spark: SparkSession, kind: str) -> None:
    frame = rows(spark, 1000).withColumn("odd", F.sin("id"))
    kept, counts = counting(spark, frame, {"found": f"{kind}(odd)"})
    kept.write.format("noop").mode("overwrite").save()
    numbers = [math.sin(number) for number in range(1000)]
    assert counts.take()["found"] == pytest.approx(min(numbers) if kind == "min" else max(numbers))


@pytest.mark.usefixtures("either_way")
def test_rows_that_spark_computes_again_are_counted_once(spark: SparkSession) -> None:
    """Whole passes, passes that end early, and one task that reads all partitions."""
    frame = rows(spark, 1000)
    kept, counts = counting(spark, frame, AGGREGATES)
    kept.write.format("noop").mode("overwrite").save()
    once = counts.take()
    actions = {
        "early": lambda: kept.limit(5).collect(),
        "sorted": lambda: kept.orderBy("whole").write.format("noop").mode("overwrite").save(),
        "all": lambda: kept.write.format("noop").mode("overwrite").save(),
        "one task": lambda: kept.coalesce(1).write.format("noop").mode("overwrite").save(),
        "twice": lambda: kept.union(kept).write.format("noop").mode("overwrite").save(),
    }
    for names in (
        ["sorted"],
        ["twice"],
        ["early", "all"],
        ["one task", "early"],
        ["all", "one task", "sorted", "one task"],
    ):
        for name in names:
            actions[name]()
        assert counts.take() == pytest.approx(once, abs=1e-5), names
    for _ in range(2):
        actions["early"]()
    assert 5 <= counts.take()["kept"] < 334


def test_batches_that_nobody_told_apart_keep_their_sum(spark: SparkSession) -> None:
    kept, counts = counting(spark, rows(spark, 1000), {"sum": "sum(odd)"})
    try:
        for batch in ("7", "8", "8"):
            spark.sparkContext.setLocalProperty("streaming.sql.batchId", batch)
            kept.write.format("noop").mode("overwrite").save()
    finally:
        spark.sparkContext.setLocalProperty("streaming.sql.batchId", None)  # type: ignore[arg-type]
    once = float(sum(range(0, 1000, 5)))
    assert counts.take() == {"sum": 2 * once, "offered": 2000, "kept": 1332}


def test_what_came_with_passes_is_cleared(spark: SparkSession) -> None:
    kept, counts = counting(spark, rows(spark, 100, 100), {"sum": "sum(odd)"})
    lengths = []
    for number in range(7):
        for _ in range(2 if number == 5 else 1):
            kept.write.format("noop").mode("overwrite").save()
        found = counts.take()
        assert (found["offered"], found["kept"]) == (100, 66)
        lengths.append(counts._seen.value().size())
    assert lengths == [100, 200, 0, 100, 200, 0, 100]


def test_foreach_batch_with_several_actions_counts_each_row_once(
    hg: Headgate, replay: Replay
) -> None:
    """A weight makes the gate a projection; without one it is a filter."""
    sizes: list[int] = []

    def act(frame: DataFrame, _: int) -> None:
        if not frame.isEmpty():
            sizes.append(frame.count())
            frame.orderBy("value").write.format("noop").mode("overwrite").save()
            frame.coalesce(1).write.format("noop").mode("overwrite").save()

    for weight in (None, "w"):
        sizes.clear()
        name = f"actions {weight}"
        stream = replay(rate=1e6, rows=9000, epoch=1, maxRowsPerTrigger=4000)
        gated = hg.gate(stream, "orders", arrival="timestamp", identity=["id"], weight=weight)
        writer = gated.writeStream.foreachBatch(act).trigger(availableNow=True)
        query = hg.start(writer, name=name)
        assert query.awaitTermination(90)
        found = rows_of(hg, name)
        assert [row["offered"] for row in found if row["offered"]] == sizes
        assert sum(row["kept"] for row in found) == sum(sizes) > 0


def test_user_filters_and_pruned_columns_do_not_change_what_is_counted(spark: SparkSession) -> None:
    kept, counts = counting(spark, rows(spark, 1000), AGGREGATES)
    few = kept.where("id > 900").select(F.lit(1).alias("one"))
    assert few.count() == 66
    assert {**counts.take(), "mean": None} == {
        "first": START,
        "last": START + 0.999,
        "mean": None,
        "whole": sum(number % 7 for number in range(1000)),
        "known": 200,
        "sum": float(sum(range(0, 1000, 5))),
        "offered": 1000,
        "kept": 666,
    }


def test_quantiles_come_from_some_hundred_rows_whatever_the_size(spark: SparkSession) -> None:
    wanted = {"quantiles": "max(time)"}
    for count in (200_000, 3000):
        kept, counts = counting(spark, rows(spark, count), wanted, "time")
        sizes = []
        for _ in range(3):
            kept.write.format("noop").mode("overwrite").save()
            samples = counts._now()[counts._list]["_list"]
            sizes.append(sum(isinstance(item, float) for item in samples))
            found = counts.take()["quantiles"]
        assert 100 < sizes[-1] < 300, sizes
        exact = START + count / 1000.0 * np.array(ARRIVAL_QUANTILES)
        assert np.abs(np.array(found) - exact).max() < 0.02 * count / 1000.0
    kept, counts = counting(spark, rows(spark, 20), wanted, "time")
    kept.write.format("noop").mode("overwrite").save()
    assert counts.take()["quantiles"] is None


def test_times_are_right_to_a_millisecond(spark: SparkSession) -> None:
    frame = rows(spark, 5000, 2).withColumn("time", F.lit(START) + F.col("id") / 1e5)
    wanted = {"first": "min(time)", "last": "max(time)"}
    for times in ((), ("time",)):
        kept, counts = counting(spark, frame, wanted, times=times)
        kept.write.format("noop").mode("overwrite").save()
        found = counts.take()
        assert found["first"] == START
        assert found["last"] == pytest.approx(START + 0.04999, abs=0.001 if times else 1e-6)


def test_nothing_that_grows_is_collected_when_nobody_takes_it(spark: SparkSession) -> None:
    wanted = {"first": "min(time)", "quantiles": "max(time)"}
    kept, counts = counting(spark, rows(spark, 20_000), wanted, "time")
    counts.stop()
    kept.write.format("noop").mode("overwrite").save()
    found = counts.take()
    assert (found["offered"], found["first"], found["quantiles"]) == (20_000, None, None)


@pytest.mark.parametrize(
    "aggregate",
    ["max(whole)", "avg(whole)", "stddev(time)", "count(DISTINCT whole)", "sum(id) + 1"],
)
def test_other_aggregates_are_refused(spark: SparkSession, aggregate: str) -> None:
    frame = rows(spark, 1).groupBy().agg(F.expr(aggregate).alias("other"))
    [metric] = items(frame._jdf.queryExecution().analyzed().aggregateExpressions())  # type: ignore[attr-defined, operator, unused-ignore]
    with pytest.raises(ValueError, match="other: no"):
        RowCounts(spark, [metric])


def test_a_gate_that_stands_twice_in_a_plan_is_observed(
    spark: SparkSession, hg: Headgate, replay: Replay
) -> None:
    stream = hg.gate(replay(rate=10), "split", arrival="timestamp", identity=["id"])
    one, two = stream.where("id < 5"), stream.where("id >= 5")
    for frame, counted in ((one, True), (one.union(two), False)):
        rewrite = PlanRewrite(spark, lambda: replay(rate=1).where("false"), {})
        plan: Any = frame
        text = str(rewrite.of(plan._jdf.queryExecution().analyzed()))
        assert ("split" in rewrite.counts) is counted
        assert ("CollectMetrics" in text) is not counted


class Counts:
    """Rows by hand."""

    def __init__(self) -> None:
        self.rows = 0

    def take(self) -> dict[str, int]:
        taken, self.rows = self.rows, 0
        return {"offered": taken, "kept": taken}

    def stop(self) -> None:
        """Nothing is collected here."""


def batch(number: int, moved: bool = True) -> BatchReport:
    return BatchReport("q", "r", number, START, 1.0, None, moved=moved)


@pytest.fixture
def run() -> QueryRun:
    made = QueryRun("key", "alerts", {})
    made.counts = {"orders": Counts()}
    return made


def offered(run: QueryRun, report: BatchReport, counted: int | None = None) -> int | None:
    """What the report says; `counted`: rows that Spark counts before."""
    counts = run.counts["orders"]
    assert isinstance(counts, Counts)
    counts.rows += counted or 0
    seen = run.counted(report).gates.get("orders")
    return None if seen is None else seen.offered


def test_counts_of_a_batch_are_taken_once_by_whoever_asks_first(run: QueryRun) -> None:
    run.why[0] = run.why[1] = {}
    assert offered(run, batch(0), 10) == 10
    assert offered(run, batch(0)) == 10
    assert offered(run, batch(1), 4) == 4
    assert offered(run, batch(0)) == 10


def test_batches_that_end_before_anybody_knows_the_query_are_told_apart(run: QueryRun) -> None:
    run.why[0] = {}
    counts = run.counts["orders"]
    assert isinstance(counts, Counts)
    run.set_counts_aside()
    counts.rows = 7
    run.set_counts_aside()
    assert offered(run, batch(0), 5) == 7
    run.reports = 1
    assert offered(run, batch(1)) == 5


def test_a_batch_that_a_sink_passes_over_has_no_counts(run: QueryRun) -> None:
    assert offered(run, batch(3)) is None
    run.reports = 1
    assert offered(run, batch(4)) == 0


def test_an_empty_batch_that_runs_again_is_counted(run: QueryRun) -> None:
    assert offered(run, batch(3, moved=False)) == 0


def test_a_report_that_nothing_came_or_of_an_old_batch_takes_no_counts(run: QueryRun) -> None:
    run.why[4] = run.why[5] = {}
    assert offered(run, batch(4), 10) == 10
    idle = BatchReport("q", "r", 5, START, 0.0, None, idle=True)
    assert offered(run, idle, 3) is None
    assert offered(run, batch(1)) is None
    assert offered(run, batch(5)) == 3
