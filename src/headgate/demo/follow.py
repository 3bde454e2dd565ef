"""A running query seen from outside: its finished batches, as they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headgate.demo.job import revenue
from headgate.demo.recording import Batch
from headgate.errors import DemoError
from headgate.spark.session import Headgate

__all__ = ["Followed", "batch_of", "writer_of"]


def writer_of(stream: DataFrame, checkpoint: Path) -> DataStreamWriter:
    """The demo's query over this stream, not started yet."""
    writer = revenue(stream).writeStream.format("noop").outputMode("update")
    return writer.option("checkpointLocation", str(checkpoint))


def batch_of(hg: Headgate, text: str, epoch: float) -> Batch:
    """Spark's progress of a batch of a stream that began at `epoch` (seconds since 1970)."""
    report = hg.batch(text)
    return Batch(
        number=report.batch,
        end_seconds=report.end_seconds - epoch,
        duration_seconds=report.duration_seconds,
        offered=report.offered,
        kept=sum(gate.kept for gate in report.gates.values()),
        latency_mean_seconds=report.latency_mean_seconds(),
        latency_p95_seconds=report.latency_percentiles_seconds().get(95.0),
        read=_rows_read(text),
    )


def _rows_read(text: str) -> int | None:
    """Rows that Spark itself counted at the sources: a count that does not come from a gate."""
    counts = [source.get("numInputRows") for source in json.loads(text).get("sources", ())]
    known = [int(count) for count in counts if count is not None]
    return sum(known) if known else None


class Followed:
    """Stops the query when the block is left, however it is left."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._last = -1

    def __enter__(self) -> Followed:
        return self

    def __exit__(self, *_: object) -> None:
        self._query.stop()

    def fresh(self) -> list[str]:
        """Progress of batches that ended since the last call, as JSON, in order."""
        error = self._query.exception()
        if error is not None:
            raise DemoError(f"the demo's query ended with an error: {str(error)[:1000]}")
        jquery: Any = self._query._jsq
        recent = jquery.recentProgress()  # an array in the JVM: each look at it is a call
        found: list[tuple[int, str]] = []
        for index in range(len(recent) - 1, -1, -1):
            progress = recent[index]
            number = int(progress.batchId())
            if number <= self._last:
                break
            if progress.durationMs().containsKey("addBatch"):  # not only that nothing has come
                found.append((number, str(progress.json())))
        if found:
            self._last = found[0][0]
        return [text for _, text in reversed(found)]
