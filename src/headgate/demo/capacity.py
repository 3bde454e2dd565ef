"""How many rows a second the demo's query can do on this machine, now."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headgate.demo.follow import writer_of
from headgate.demo.job import GATE, measured, orders
from headgate.demo.recording import Capacity, Watcher
from headgate.demo.scenario import Settings
from headgate.spark.saturation import SaturationSettings, measure_saturation
from headgate.spark.session import Headgate

__all__ = ["measure_capacity"]

_ENDLESS = "1e9"
_BATCH_SECONDS = 1.5
_LEAST_SHARE = 0.6  # of the time that is allowed


def measure_capacity(
    spark: SparkSession, hg: Headgate, settings: Settings, watcher: Watcher, directory: Path
) -> Capacity:
    """At most `settings.warm_up_seconds`, longer only for the fewest batches.

    The first stage runs with a gate that only measures: its generated code gets warm too.
    """
    watcher.stage("Warming up and measuring the capacity", settings.warm_up_seconds)
    stages = count()

    def start(rows: int) -> StreamingQuery:
        stage = next(stages)
        stream = orders(spark, {"rate": _ENDLESS, "maxRowsPerTrigger": str(rows)})
        checkpoint = directory / f"capacity-{stage}"
        if stage == 0:
            gated = hg.gate(stream, GATE, arrival="timestamp", identity=["id"])
            return hg.start(writer_of(gated, checkpoint), name="demo warm-up")
        writer = writer_of(measured(stream), checkpoint).queryName(f"demo capacity {stage}")
        return writer.start()

    longest = settings.warm_up_seconds
    found = measure_saturation(
        start, SaturationSettings(_BATCH_SECONDS, _LEAST_SHARE * longest, longest), watcher.tick
    )
    return Capacity(found.rows_per_second, found.steady, found.seconds_to_first_batch, found.rates)
