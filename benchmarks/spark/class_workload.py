"""Ten queries in three classes on one Spark session, for the measurements of `classes`.

Aggregates, window joins and selects, in classes 6:3:1. Each kept row holds its task slot for a
time (the papers' delay operator): on a machine that is shared with others the capacity is then
given by the slots and not by the neighbours. Rows come from Spark's `rate` source through a filter
that lets a share of them pass. The share belongs to the time of the row and not to that of the
batch: what waits does not change when the load does.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from headgate.coordinator import ClassSettings, SettingsChanged
from headgate.spark.local_session import PLAIN_FILES

__all__ = ["DELAY_MS", "PRIORITIES", "Phase", "Workload"]

PRIORITIES = {"gold": 6.0, "silver": 3.0, "bronze": 1.0}
TARGETS_SECONDS = {"gold": 6.0, "silver": 8.0, "bronze": 10.0}
QUERIES = {
    "gold": ("aggregate", "join", "select"),
    "silver": ("aggregate", "join", "select"),
    "bronze": ("aggregate", "aggregate", "join", "select"),
}
DELAY_MS = 2
MOST_ROWS_PER_SECOND = 400
"""Rows a second of each source; a filter in front of the gate lets the wanted share through."""
_CHANGES = 6
"""So many changes of the load are known: more than happen while rows wait."""
_ALL = 1_000_000


class LoadByTime:
    """The share of rows that passes, by the time of the row."""

    def __init__(self, spark: Any, own_number: int) -> None:
        from headgate.spark.plans.live_array import LiveArray

        self._changes = [(0, 0)] * _CHANGES  # share and since when, oldest first
        # two equal literals would be one to Spark, so each has a number of its own
        self._own_number = own_number
        self._live = LiveArray(spark, self._numbers())

    def set(self, share: float) -> None:
        """From now on; rows from before keep theirs.

        The oldest is written first, so a batch that begins meanwhile sees one change twice
        and not one too few.
        """
        change = (round(_ALL * share), round(1e6 * time.time()))
        self._changes = [*self._changes[1:], change]
        self._live.set(self._numbers())

    def passes(self) -> Any:
        """The condition on columns `id` and `timestamp`."""
        from pyspark.sql import functions as F  # noqa: N812

        live, at = self._live.column(), F.unix_micros("timestamp")
        zero = F.pmod(F.xxhash64("id"), F.lit(1)).cast("int")  # an index that is not folded
        share = F.lit(0)
        for place in range(0, 2 * _CHANGES, 2):
            since = F.get(live, zero + (place + 1))
            share = F.when(at >= since, F.get(live, zero + place)).otherwise(share)
        return F.pmod(F.xxhash64("id"), F.lit(_ALL)) < share

    def _numbers(self) -> tuple[int, ...]:
        return (*(number for change in self._changes for number in change), self._own_number)


@dataclass(frozen=True, slots=True)
class Phase:
    """What one class did between two times."""

    offered: int
    kept: int
    response_seconds: float | None
    seconds: float

    @property
    def loss(self) -> float:
        return 1.0 - self.kept / self.offered if self.offered else 0.0


class Workload:
    """The session, the ten queries and the rates of their classes."""

    def __init__(self, directory: Path) -> None:
        from pyspark.sql import SparkSession

        import headgate
        from headgate.spark.agent.classes import class_settings

        os.environ["PYSPARK_PYTHON"] = sys.executable
        self.spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.streaming.stateStore.maintenanceInterval", "600s")
            .config("spark.driver.memory", "2g")
            .config(map={**PLAIN_FILES})
            .getOrCreate()
        )
        self.spark.sparkContext.setLogLevel("OFF")
        self.settings = class_settings(PRIORITIES, self.spark.sparkContext.defaultParallelism)
        self.hg = headgate.attach(self.spark, timeout="20s", classes=self.settings)
        self.loads = {n: LoadByTime(self.spark, i) for i, n in enumerate(PRIORITIES)}
        self.queries: list[Any] = []
        self.targets_seconds = dict(TARGETS_SECONDS)
        self._directory = directory

    def start(self) -> None:
        for query_class, kinds in QUERIES.items():
            for number, kind in enumerate(kinds):
                name = f"{query_class}_{number}_{kind}"
                self._start_one(query_class, kind, name)

    def _start_one(self, query_class: str, kind: str, name: str, tries: int = 5) -> None:
        for left in range(tries - 1, -1, -1):
            self._start(query_class, kind, name)
            try:
                self._wait_for(name)
                return
            except RuntimeError:  # the machine was too busy for a new process
                if left == 0:
                    raise
                self.queries.pop().stop()

    def _wait_for(self, name: str, seconds: float = 60.0) -> None:
        """Until the query has asked for its first batch: one start at a time.

        Spark gives a Python process ten seconds to start, and ten at once need longer.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.check()
            if any(r.name == name and r.asking_batch >= 0 for r in self.hg._agent.runs):
                return
            time.sleep(0.1)
        raise RuntimeError(f"query {name} did not begin")

    def set_load(self, loads: Mapping[str, float], rows_per_second: float) -> None:
        """Loads by class as shares of `rows_per_second`, spread evenly over its queries."""
        for name, load in loads.items():
            gates = sum(2 if kind == "join" else 1 for kind in QUERIES[name])
            share = load * rows_per_second / gates / MOST_ROWS_PER_SECOND
            self.loads[name].set(min(1.0, share))

    def let_all_run(self) -> None:
        """No turns, nothing dropped."""
        self.hg.mode("open")

    def govern(self, changes: Mapping[str, Any], controller: str = "model") -> None:
        """Fresh class loops with these settings changed, and queries with this controller."""
        self.hg.mode("on")
        settings: ClassSettings = replace(self.settings, **changes)
        queries = {
            name: replace(
                known,
                controller=controller,
                controller_settings={"period_seconds": 0.0} if controller == "model" else {},
            )
            for name, known in self.hg._agent.coordinator.queries.items()
        }
        changed = SettingsChanged(time.time(), queries=queries, classes=settings)
        self.hg._agent._handle(changed)

    def drain(self, longest_seconds: float = 180.0) -> float:
        """No more rows; wait until all that waits is done: every query began a batch since.

        When the last row was done.
        """
        self.let_all_run()
        for load in self.loads.values():
            load.set(0.0)
        before = last = time.time()
        kept = self.kept_so_far()
        while not all(_began_after(q, before) for q in self.spark.streams.active):
            if time.time() - before > longest_seconds:
                raise RuntimeError(f"what waits was not done within {longest_seconds:.0f} s")
            time.sleep(0.25)
            if self.kept_so_far() > kept:
                kept, last = self.kept_so_far(), time.time()
        return last

    def kept_so_far(self) -> int:
        """Rows that tasks have kept that have ended, of all queries since they began."""
        total = 0
        for run in self.hg._agent.runs:
            found: list[Any] = list(run.counts.values())
            total += sum(int(counts._accumulators[counts._kept].sum()) for counts in found)
        return total

    def batches_between(self, since: float, until: float) -> int:
        """How many batches of all queries ended between the two times."""
        rows = self.hg._book.rows()
        ended = [r for r in rows if r["offered"] and since <= r["time_seconds"] < until]
        return len({(r["query"], r["batch"]) for r in ended})

    def measure(self, since: float, until: float) -> dict[str, Phase]:
        """What each class did with the batches that ended between the two times."""
        self.hg._settle()
        rows = [
            row
            for row in self.hg._book.rows()
            if row["offered"] is not None and since <= row["time_seconds"] < until
        ]
        found = {}
        for name in PRIORITIES:
            own = [row for row in rows if row["query_class"] == name]
            kept = sum(row["kept"] for row in own)
            late = [
                (row["latency_mean_seconds"], row["kept"])
                for row in own
                if row["latency_mean_seconds"] is not None
            ]
            weight = sum(count for _, count in late)
            response = sum(s * c for s, c in late) / weight if weight else None
            found[name] = Phase(sum(row["offered"] for row in own), kept, response, until - since)
        return found

    def check(self) -> None:
        for query in self.queries:
            if query.exception() is not None:
                raise RuntimeError(str(query.exception()))

    def close(self) -> None:
        for query in self.spark.streams.active:
            query.stop()
        self.hg.close()
        self.spark.stop()

    def _stream(self, query_class: str, gate: str) -> Any:
        from pyspark.sql import functions as F  # noqa: N812

        reader = self.spark.readStream.format("rate").option("numPartitions", 2)
        stream = reader.option("rowsPerSecond", MOST_ROWS_PER_SECOND).load()
        stream = stream.withColumnRenamed("value", "id").withColumn("key", F.expr("id % 100"))
        stream = stream.where(self.loads[query_class].passes())
        stream = self.hg.gate(stream, gate, arrival="timestamp", identity=["id"])
        # a constant argument would be evaluated once, not for every row
        sleep = f"reflect('java.lang.Thread', 'sleep', cast(pmod(id, 1) + {DELAY_MS} as bigint))"
        return stream.withColumn("slept", F.expr(sleep)).where("slept is not null").drop("slept")

    def _start(self, query_class: str, kind: str, name: str) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        mode = "append"
        if kind == "select":
            work = self._stream(query_class, "rows").where("key < 50")
        elif kind == "aggregate":
            stream = self._stream(query_class, "rows").withWatermark("timestamp", "20 seconds")
            groups = stream.groupBy(F.window("timestamp", "5 seconds"), F.expr("key % 10"))
            work, mode = groups.agg(F.avg("id")), "update"
        else:  # half of the rows on either side
            both = [
                self._stream(query_class, side)
                .where(f"id % 2 = {half}")
                .withWatermark("timestamp", "5 seconds")
                .select(F.col("key").alias(f"{side}_key"), F.col("timestamp").alias(f"{side}_time"))
                for half, side in enumerate(("left", "right"))
            ]
            near = "left_key = right_key and right_time between left_time - interval 1 second "
            work = both[0].join(both[1], F.expr(near + "and left_time + interval 1 second"))
        checkpoint = str(self._directory / "checkpoints" / name)
        writer = work.writeStream.format("noop").outputMode(mode)
        writer = writer.option("checkpointLocation", checkpoint)
        query = self.hg.start(
            writer,
            name=name,
            priority=query_class,
            latency=self.targets_seconds[query_class],
        )
        self.queries.append(query)


def _began_after(query: Any, time_seconds: float) -> bool:
    """Has a batch ended that began after the time?"""
    last = query.lastProgress
    return last is not None and _seconds(last["timestamp"]) > time_seconds


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
