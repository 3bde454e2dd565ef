"""How many rows a second the demo's query can do on this machine, now."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headgate.demo.follow import writer_of
from headgate.demo.job import GATE, orders
from headgate.demo.recording import Capacity, Watcher
from headgate.demo.scenario import Settings
from headgate.spark.agent.progress import parse_progress
from headgate.spark.saturation import SaturationSettings, measure_saturation
from headgate.spark.session import Headgate

__all__ = ["measure_capacity"]

_ENDLESS = "1e9"
_BATCH_SHARE = 1 / 1.5  # of the target: how long batches are while it is held
_LEAST_SHARE = 0.6  # of the usual time
_LONGER = 1.5  # times it: a machine that is not steady by then is measured no better


def measure_capacity(
    spark: SparkSession, hg: Headgate, settings: Settings, watcher: Watcher, directory: Path
) -> Capacity:
    """At most `settings.warm_up_seconds`, and half of that again if the speed still grows then.
    Longer only for the fewest batches.

    With a gate that keeps everything: its generated code gets warm too.
    """
    watcher.stage("Warming up and measuring the capacity", settings.warm_up_seconds)
    stages = count()
    started: list[tuple[float, StreamingQuery]] = []

    def start(rows: tuple[int, int]) -> StreamingQuery:
        stage = next(stages)
        in_turn = ",".join(map(str, rows))
        stream = orders(spark, {"rate": _ENDLESS, "maxRowsPerTrigger": in_turn})
        checkpoint = directory / f"capacity-{stage}"
        asked = time.time()
        gated = hg.gate(stream, GATE, arrival="timestamp", identity=["id"])
        query = hg.start(writer_of(gated, checkpoint), name=f"demo capacity {stage}")
        started.append((asked, query))
        return query

    usual, longest = settings.warm_up_seconds, _LONGER * settings.warm_up_seconds
    batch_seconds = _BATCH_SHARE * settings.target_seconds
    wanted = SaturationSettings(batch_seconds, _LEAST_SHARE * usual, longest)
    found = measure_saturation(start, wanted, watcher.tick)
    asked, first = started[0]
    began = parse_progress(first.recentProgress[0].json).start_seconds
    return Capacity(found.rows_per_second, found.steady, found.rates, began - asked)
