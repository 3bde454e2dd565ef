"""The Spark sessions whose queries one Headgate starts: its own, and those of further frames.

A query runs in the session of its frame: that has the settings, temporary views and the list of
active queries that its author expects. In each such session the sources are registered and the
listener is added when the first query is started there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headgate.errors import UsageError
from headgate.spark.plans.live_array import jvm_of
from headgate.spark.query_start import QueryStart
from headgate.spark.sources.companion import FORMAT, CompanionSource
from headgate.spark.sources.line_source import LineSource
from headgate.spark.sources.replay_source import ReplaySource

__all__ = ["AttachedSessions", "register_sources"]


class AttachedSessions:
    """See the module. `starts_in` makes what starts the queries of a session.

    The sources are registered in `own` already.
    """

    def __init__(
        self,
        own: SparkSession,
        listener: StreamingQueryListener,
        starts_in: Callable[[SparkSession], QueryStart],
    ) -> None:
        self._listener, self._starts_in = listener, starts_in
        self._attached: dict[str, tuple[SparkSession, QueryStart]] = {}
        self._application = own.sparkContext
        self._attach(own)

    def of(self, writer: DataStreamWriter) -> tuple[SparkSession, QueryStart]:
        """The session of the writer's frame, and what starts its queries."""
        spark: Any = getattr(writer, "_spark", None)
        jvm_of(spark)
        if spark.sparkContext is not self._application:
            raise UsageError("the stream belongs to another Spark application; attach to that one")
        attached = self._attached.get(_id_of(spark))
        if attached is None:
            register_sources(spark)
            attached = self._attach(spark)
        return attached

    def active_names(self) -> Iterator[str | None]:
        """Of the queries that run in any of the sessions."""
        for spark, _ in self._attached.values():
            yield from (query.name for query in spark.streams.active)

    def close(self) -> None:
        for spark, _ in self._attached.values():
            spark.streams.removeListener(self._listener)

    def _attach(self, spark: SparkSession) -> tuple[SparkSession, QueryStart]:
        spark.streams.addListener(self._listener)
        attached = self._attached[_id_of(spark)] = spark, self._starts_in(spark)
        return attached


def register_sources(spark: SparkSession) -> None:
    """Register the sources; UsageError when Spark's Python cannot load them.

    Where all runs on this machine and nobody has chosen a Python for Spark, it would take the
    first `python3` that it finds. This one is better: it has what the program has.
    """
    context: Any = spark.sparkContext
    try:
        _register(spark)
    except PySparkException as error:
        if context.master.startswith("local") and not _is_chosen(spark):
            before, context.pythonExec = context.pythonExec, sys.executable
            with suppress(PySparkException):
                return _register(spark)
            context.pythonExec = before
        lines = str(error).splitlines()
        reason = next((line for line in reversed(lines) if "Error: " in line), lines[0]).strip()
        raise UsageError(
            f"Spark's Python {context.pythonExec!r} cannot load headgate ({reason}); set "
            f"PYSPARK_PYTHON to the Python that has it (here {sys.executable}) before the session "
            "is made"
        ) from None


def _register(spark: SparkSession) -> None:
    with _active(spark):
        for source in (CompanionSource, ReplaySource, LineSource):
            spark.dataSource.register(source)
    spark.readStream.format(FORMAT).option("agent", "").option("query", "").load()


def _is_chosen(spark: SparkSession) -> bool:
    """Has somebody said which Python Spark's workers are?"""
    settings = ("spark.pyspark.python", "spark.pyspark.driver.python")
    given = any(spark.sparkContext.getConf().get(name) for name in settings)
    return given or "PYSPARK_PYTHON" in os.environ


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Spark looks for a source of the same name in the thread's session, not in the given one."""
    sessions = jvm_of(spark).org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def _id_of(spark: SparkSession) -> str:
    session: Any = spark._jsparkSession
    return str(session.sessionUUID())
