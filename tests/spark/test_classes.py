"""Queries of three classes share one Spark application."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.errors import UsageError
from headgate.spark.session import Headgate, attach
from tests.spark.streams import rows_of, wait_for

CLASSES = {"gold": 6, "silver": 3, "bronze": 1}
SLEEP = "reflect('java.lang.Thread', 'sleep', cast(pmod(id, 1) + {ms} as bigint))"


@pytest.fixture
def classed(spark: SparkSession) -> Iterator[Headgate]:
    with attach(spark, timeout="20s", classes=CLASSES) as hg:
        yield hg
        for query in spark.streams.active:
            query.stop()


def slow(frame: DataFrame, milliseconds: int) -> DataFrame:
    """Every row holds its task slot for a time, whatever else the machine does."""
    slept = frame.withColumn("slept", F.expr(SLEEP.format(ms=milliseconds)))
    return slept.where("slept is not null").drop("slept")


def test_turns_by_class_on_one_shared_source(
    classed: Headgate, replay: Callable[..., DataFrame], spark: SparkSession, tmp_path: Path
) -> None:
    """Gold needs a tenth of the two slots; bronze more than there is.

    Gold has time enough for the cold start of a busy machine, which may take half a minute.
    """
    stream = classed.gate(replay(rate=100), "rows", arrival="timestamp", identity=["id"])
    light, heavy = slow(stream, 1), slow(stream, 15)
    for name, frame, latency in (
        ("gold", light, 60.0),
        ("silver", light, 60.0),
        ("bronze", heavy, 5.0),
    ):
        writer = frame.writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(tmp_path / name))
        classed.start(writer, name=name, priority=name, latency=latency)
    second = classed.start(
        heavy.writeStream.format("noop"),
        name="second",
        priority="bronze",
        latency=5.0,
    )
    wait_for(lambda: sum(row["dropped"] > 0 for row in rows_of(classed, "bronze")) >= 1)
    second.stop()  # perhaps while it has a turn, perhaps while it waits: others go on
    counts = {name: len(rows_of(classed, name)) for name in CLASSES}
    wait_for(lambda: all(len(rows_of(classed, name)) > counts[name] for name in CLASSES))
    report = classed.report()
    losses = {view.name: view.loss for view in report.classes}
    assert losses["gold"] == 0.0
    assert losses["bronze"] > 0.0
    assert report.balances
    assert "class" in report.as_dict()["gates"][0]
    assert "class bronze: share" in str(report)
    bronze = rows_of(classed, "bronze")
    assert {row["query_class"] for row in bronze} == {"bronze"}
    assert any(row["held_seconds"] > 0.05 for row in bronze)
    assert sum(classed.share().values()) == pytest.approx(1.0)
    # Lent by the others, who need little: once they have caught up with a slow start.
    wait_for(lambda: classed.share()["bronze"] > 0.1, what="a loan to bronze")
    assert classed.ledger().where("query_class = 'gold'").count() > 0
    assert "rows: " in classed.explain("bronze")
    assert "class bronze: share" in classed.explain("bronze")
    classed.classes({"gold": 1, "silver": 1, "bronze": 2})
    assert classed.classes() == {"gold": 1.0, "silver": 1.0, "bronze": 2.0}
    assert not [query for query in spark.streams.active if query.exception() is not None]


def test_mistakes_are_named(
    hg: Headgate, classed: Headgate, replay: Callable[..., DataFrame], spark: SparkSession
) -> None:
    writer = classed.gate(replay(rate=10), "rows").writeStream.format("noop")
    with pytest.raises(UsageError, match="no class 'lead'; expected one of gold, silver, bronze"):
        classed.start(writer, name="x", priority="lead")
    with pytest.raises(UsageError, match="there are no classes; attach with classes="):
        hg.start(writer, name="x", priority="gold")
    with pytest.raises(UsageError, match="priority of class 'gold' must be above 0"):
        attach(spark, classes={"gold": 0})
    with pytest.raises(UsageError, match="there are no classes; give them to attach"):
        hg.classes({"gold": 1})
    with pytest.raises(UsageError, match="must name priorities"):
        classed.classes({})
