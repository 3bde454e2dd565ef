"""What Headgate has to know of a DataStreamWriter, and how it starts one on another plan.

PySpark's writer only forwards to Java; the fields are read by reflection. Works on
internal names of Spark 4.2 and 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headgate.spark.plans.live_array import jvm_of

__all__ = ["TriggerKind", "WriterFacts", "dataset_of", "plan_of", "read_facts", "start_on"]


_CHECK = "spark.sql.streaming.unsupportedOperationCheck"
_EXCLUDED = "spark.sql.adaptive.optimizer.excludedRules"
_ASYNC_LOG = "asyncProgressTrackingEnabled"
_PROPAGATES_EMPTY = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"


class TriggerKind(StrEnum):
    MICRO_BATCH = "micro-batch"
    FINITE = "finite"  # AvailableNow, Once: reads what is there and ends
    OTHER = "other"  # continuous, real time: no gate can work there


@dataclass(frozen=True, slots=True)
class WriterFacts:
    """checkpoint is None where Spark will choose a temporary directory.

    async_log: Spark writes its offset log while the batch runs, or not for each batch.
    """

    checkpoint: str | None
    trigger: TriggerKind
    trigger_seconds: float
    async_log: bool = False


def read_facts(spark: SparkSession, writer: DataStreamWriter, name: str) -> WriterFacts:
    """Checkpoint directory and trigger of a writer."""
    jwrite: Any = writer._jwrite
    options = _field(jwrite, "extraOptions")
    option, asked = options.get("checkpointLocation"), options.get(_ASYNC_LOG)
    async_log = bool(asked.isDefined()) and str(asked.get()).strip().lower() == "true"
    checkpoint = str(option.get()) if option.isDefined() else None
    if checkpoint is None:
        root = spark.conf.get("spark.sql.streaming.checkpointLocation", None)
        checkpoint = f"{root}/{name}" if root else None
    trigger = _field(jwrite, "trigger")
    kind = str(trigger.getClass().getSimpleName()).rstrip("$")
    if kind == "ProcessingTimeTrigger":
        return WriterFacts(
            checkpoint, TriggerKind.MICRO_BATCH, trigger.intervalMs() / 1000.0, async_log
        )
    finite = kind in ("AvailableNowTrigger", "OneTimeTrigger")
    return WriterFacts(
        checkpoint, TriggerKind.FINITE if finite else TriggerKind.OTHER, 0.0, async_log
    )


def plan_of(writer: DataStreamWriter) -> Any:
    """The analysed plan that the writer would run."""
    return _field(writer._jwrite, "ds").queryExecution().analyzed()


def dataset_of(spark: SparkSession, jplan: Any) -> Any:
    """The plan as Spark takes it, analysed; raises if it cannot be."""
    session: Any = spark._jsparkSession
    return jvm_of(spark).org.apache.spark.sql.classic.Dataset.ofRows(session, jplan)


def start_on(
    spark: SparkSession,
    writer: DataStreamWriter,
    dataset: Any,
    path: str | None,
    table: str | None,
    checked: bool = False,
) -> StreamingQuery:
    """Start the writer on another dataset; afterwards the writer is as it was.

    checked: the plan numbers rows within partitions, which Spark forbids in streams since
    the numbers change from run to run. A policy's state only asks which row is the first.
    The plan without that was checked, so Spark's check is off while this query starts
    (and for queries that other threads start on this session in the same moment).
    """
    jwrite: Any = writer._jwrite
    field = jwrite.getClass().getDeclaredField("ds")
    field.setAccessible(True)
    before = field.get(jwrite)
    usual = spark.conf.get(_CHECK, "true") or "true"
    if checked and usual == "true":
        check = jvm_of(spark).org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
        check.checkForStreaming(before.queryExecution().analyzed(), _field(jwrite, "outputMode"))
    field.set(jwrite, dataset)
    try:
        if checked:
            spark.conf.set(_CHECK, "false")
        with _keeping_empty_stages(spark):
            return writer.toTable(table) if table is not None else writer.start(path)
    finally:
        field.set(jwrite, before)
        if checked:
            spark.conf.set(_CHECK, usual)


def _field(target: Any, name: str) -> Any:
    field = target.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(target)


@contextmanager
def _keeping_empty_stages(spark: SparkSession) -> Iterator[None]:
    """Queries that are started meanwhile keep stages without rows in their plan.

    Adaptive execution would take out what was found to be empty, and with it the counts of a
    gate that keeps nothing.
    """
    before = spark.conf.get(_EXCLUDED, None)
    spark.conf.set(_EXCLUDED, ",".join(filter(None, (before, _PROPAGATES_EMPTY))))
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_EXCLUDED)
        else:
            spark.conf.set(_EXCLUDED, before)
