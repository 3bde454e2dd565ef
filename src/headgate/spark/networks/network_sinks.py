"""Where the queries of a group write: one Spark query with one output or with several.

One query: its own sink, with all that the sink guarantees. Several: their rows travel in one
stream, each marked with its query; in every batch they are held in memory (and on disk) and
written to one sink after the other. A batch that is run again is written again: several sinks
of one group get every row at least once, not exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headgate.network import Query, Sink
from headgate.spark.networks.network_groups import Group

__all__ = ["writer_of"]

_QUERY = "query"
_NOTHING = Sink("noop")


def writer_of(
    group: Group, outputs: Mapping[str, DataFrame], checkpoint: str | None
) -> DataStreamWriter:
    """The writer of the group's Spark query, not started."""
    if len(group.queries) == 1:
        [query] = group.queries
        sink = query.sink or _NOTHING
        writer = outputs[query.name].writeStream.format(sink.format).options(**dict(sink.options))
    elif all((query.sink or _NOTHING).format == "noop" for query in group.queries):
        writer = _in_one(group, outputs).writeStream.format("noop")
    else:
        writer = _in_one(group, outputs).writeStream.foreachBatch(_to_all(group))
    writer = writer.trigger(processingTime=f"{round(1000 * group.period_seconds)} milliseconds")
    return writer if checkpoint is None else writer.option("checkpointLocation", checkpoint)


def _in_one(group: Group, outputs: Mapping[str, DataFrame]) -> DataFrame:
    """All rows in one stream: the place of the query in the group, and a struct for each query."""
    parts = []
    for place, query in enumerate(group.queries):
        columns = [
            (
                F.struct("*") if other is query else F.lit(None).cast(outputs[other.name].schema)
            ).alias(f"rows{number}")
            for number, other in enumerate(group.queries)
        ]
        parts.append(outputs[query.name].select(F.lit(place).alias(_QUERY), *columns))
    return reduce(lambda a, b: a.union(b), parts)


def _to_all(group: Group) -> Callable[[DataFrame, int], None]:
    sinks = [
        (place, query)
        for place, query in enumerate(group.queries)
        if (query.sink or _NOTHING).format != "noop"
    ]

    def write(batch: DataFrame, number: int) -> None:
        held = batch.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            for place, query in sinks:
                own = held.where(F.col(_QUERY) == place).select(f"rows{place}.*")
                _write(own, query, number)
        finally:
            held.unpersist()

    return write


def _write(frame: DataFrame, query: Query, batch: int) -> None:
    sink = query.sink or _NOTHING
    if sink.format == "console":
        print(f"{query.name}, batch {batch}")
        frame.show(int(dict(sink.options).get("numRows", "20")), truncate=False)
        return
    frame.write.format(sink.format).options(**dict(sink.options)).mode("append").save()
