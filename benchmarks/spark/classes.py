"""Classes on Spark: the classes paper's tables, what turns cost, and the agent under 50 queries.

Ten queries (aggregates, window joins, selects) in three classes 6:3:1 on local[2]. Each
kept row holds its task slot for a time (the papers' delay operator): on a machine that
is shared with others the capacity is then given by the slots and not by the neighbours.
Rows come from Spark's `rate` source through a filter whose share can be changed.
Capacity is measured first, in the same run; loads are set as shares of it. The queries run
on while schemes change, so all schemes see the same warm machine; they come in turn.

The schemes are those of the classes paper, and one more:

common        one shedder for all classes, and turns by fixed shares
per class     a shedder for each class, which follows the paper's equation 1; turns by fixed shares
fixed shares  Headgate's loop for micro-batches, with lending of shares switched off
lending       Headgate as it is

In the first two a query is due when it has rows, as in the paper. In the others it leaves its
turns to those that need them until its results would be older than half of its target, and
that is lending too: so "per class" and not "fixed shares" is the scheme without it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.spark.agent_load import agent_latency
from headgate.coordinator import ClassSettings, SettingsChanged
from headgate.spark.agent.busy_cores import busy_cores
from headgate.spark.agent.classes import jain_index
from headgate.spark.local_session import PLAIN_FILES

__all__ = ["run", "tables", "throughput"]

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
SCHEMES = ("common", "per class", "fixed shares", "lending")
_AS_IN_THE_PAPER = {"redistribute_every": 0, "due_above": 0.0, "by_quota": False, "ease": 1.0}
CHANGES: dict[str, dict[str, Any]] = {
    "common": {**_AS_IN_THE_PAPER, "one_shedder": True},
    "per class": _AS_IN_THE_PAPER,
    "fixed shares": {"redistribute_every": 0},
    "lending": {},
}
"""Of the settings of the class loop, by scheme."""
PAPER = {
    "near capacity": {
        "common": {"response_ms": (3.00, 3.13, 517.07), "loss_percent": (11.42, 11.43, 11.60)},
        "per class": {"response_ms": (3.55, 3.75, 492.84), "loss_percent": (0.0, 0.0, 35.95)},
        "lending": {"response_ms": (4.28, 4.38, 42.95), "loss_percent": (0.0, 0.0, 0.0)},
    },
    "steps": {
        "lending": {"response_ms": (6.67, 96.77, 226.05), "loss_percent": (0.0, 5.19, 50.97)}
    },
    "above capacity": {},  # ours: near the capacity nobody loses much on Spark
}
LOADS = {"near capacity": 0.85, "steps": 0.95, "above capacity": 1.2}
"""Shares of what the queries do with batches of any length; with batches that are short enough for
the targets they do about 0.85 of it, because each batch has a fixed cost."""
EVEN = dict.fromkeys(PRIORITIES, 1.0 / len(PRIORITIES))
STEPS = (1.0, 0.5, 1.2, 0.3, 0.9)
"""Load of gold in the steps, as a share of a third of the load."""
_STEP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How long one measurement takes, and after how long."""

    seconds: float = 30.0
    settle_seconds: float = 20.0


LONGER = 3.0
"""Times the targets where throughput at overload is measured with few large batches."""


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


@dataclass(frozen=True, slots=True)
class Flow:
    """What all queries did together while some seconds passed.

    busy_cores: cores that had a task, from looks ten times a second.
    response_over_target: mean latency of the kept rows of a class; None if it kept none.
    """

    rows_per_second: float
    batches_per_second: float
    busy_cores: float
    response_over_target: dict[str, float | None]


class Workload:
    """The session, the ten queries and the rates of their classes."""

    def __init__(self, directory: Path, controller: str = "none", longer: float = 1.0) -> None:
        from pyspark.sql import SparkSession

        import headgate
        from headgate.spark.agent.classes import class_settings
        from headgate.spark.plans.live_array import LiveArray

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
        # two equal literals would be one to Spark, so each begins with a number of its own
        self.rates = {n: LiveArray(self.spark, (0, i)) for i, n in enumerate(PRIORITIES)}
        self.names: dict[str, list[str]] = {name: [] for name in PRIORITIES}
        self.queries: list[Any] = []
        self.targets_seconds = {n: longer * seconds for n, seconds in TARGETS_SECONDS.items()}
        self._directory = directory
        self._controller = controller

    def start(self) -> None:
        for query_class, kinds in QUERIES.items():
            for number, kind in enumerate(kinds):
                name = f"{query_class}_{number}_{kind}"
                self.names[query_class].append(name)
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
            self._set_rate(name, min(1.0, share))

    def _set_rate(self, query_class: str, share: float) -> None:
        own = self.rates[query_class].values[1]
        self.rates[query_class].set((round(1e6 * share), own))

    def use(self, scheme: str) -> None:
        """Fresh class loops under another scheme; "open" lets everybody run."""
        if scheme == "open":
            self.hg.mode("open")
            return
        self.hg.mode("on")
        self.change(replace(self.settings, **CHANGES[scheme]))

    def change(self, settings: ClassSettings) -> None:
        self.hg._agent._handle(SettingsChanged(time.time(), classes=settings))

    def drain(self, longest_seconds: float = 180.0) -> float:
        """No more rows; wait until all that waits is done: every query began a batch since.

        When the last row was done.
        """
        self.use("open")
        for name in PRIORITIES:
            self._set_rate(name, 0.0)
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
        live = self.rates[query_class].column()
        luck = F.pmod(F.xxhash64("id"), F.lit(1_000_000))
        zero = F.pmod(F.xxhash64("id"), F.lit(1)).cast("int")  # an index that is not folded
        stream = stream.where(luck < F.get(live, zero))
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
            controller=self._controller,
        )
        self.queries.append(query)


def _began_after(query: Any, time_seconds: float) -> bool:
    """Has a batch ended that began after the time?"""
    last = query.lastProgress
    return last is not None and _seconds(last["timestamp"]) > time_seconds


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def measured_capacity(work: Workload, warm_up: float = 12.0, backlog: float = 20.0) -> float:
    """Rows a second of all queries together when everybody runs and all have a backlog.

    It grows with the backlog, because batches get longer and each has a fixed cost.
    """
    guess = 2.0 * 1000.0 / DELAY_MS
    work.use("open")
    work.set_load(EVEN, 0.3 * guess)
    time.sleep(warm_up)
    work.check()
    work.set_load(EVEN, 1.5 * guess)
    time.sleep(backlog)
    return processed(work, 10.0, to_the_end=True).rows_per_second


def processed(work: Workload, seconds: float, to_the_end: bool = False) -> Flow:
    """What is kept and processed while `seconds` pass; then drain.

    Rows count when their task has ended. Without turns and above the capacity tasks get longer and
    longer, and more and more rows are in tasks that have not ended; so there (`to_the_end`) rows
    and time count until the last task with rows has ended. That is too little for this side by up
    to a tenth: the filter that makes the load looks at rows when they are processed, so what waits
    vanishes when the rate is set to zero, and the last seconds have little to do.
    """
    since, kept_before = time.time(), work.kept_so_far()
    looks = []
    count = busy_cores(work.spark)
    while time.time() < since + seconds:
        looks.append(count())
        time.sleep(0.1)
    kept, until = work.kept_so_far() - kept_before, time.time()
    done = work.drain()
    responses = {
        name: None if (r := phase.response_seconds) is None else r / work.targets_seconds[name]
        for name, phase in work.measure(since, until).items()
    }
    batches = work.batches_between(since, until) / (until - since)
    if to_the_end:
        kept, until = work.kept_so_far() - kept_before, done
    return Flow(kept / (until - since), batches, sum(looks) / len(looks), responses)


def tables(
    work: Workload, capacity: float, seconds: float = 30.0, settle: float = 20.0
) -> dict[str, Any]:
    """Response and loss of each class, the schemes on three loads, beside the paper's.

    A class hears of its response when a batch has ended, and batches last about as long as the
    targets: some of these have to pass until shares and capacities have settled.
    """
    found: dict[str, Any] = {}
    for load in LOADS:
        found[load] = {}
        for scheme in SCHEMES:
            phases, shares = _scheme_phase(work, capacity, load, scheme, seconds, settle)
            kept = [1.0 - phase.loss for phase in phases.values()]
            found[load][scheme] = {
                "response_ms": {
                    n: None if p.response_seconds is None else 1e3 * p.response_seconds
                    for n, p in phases.items()
                },
                "loss_percent": {n: 100.0 * p.loss for n, p in phases.items()},
                "offered": {n: p.offered for n, p in phases.items()},
                "jain_index_of_kept": jain_index(kept),
                "shares_at_end": shares,
                "paper": PAPER[load].get(scheme),
            }
            _say(f"{load}, {scheme}: {json.dumps(found[load][scheme])}")
    found["claims"] = claims(found)
    return found


def _scheme_phase(
    work: Workload, capacity: float, load: str, scheme: str, seconds: float, settle: float
) -> tuple[dict[str, Phase], dict[str, float]]:
    others = {"silver": 1.15, "bronze": 0.7} if load == "steps" else {"silver": 1.0, "bronze": 1.0}
    part = LOADS[load] * capacity / len(PRIORITIES)
    work.set_load({"gold": 1.0, **others}, part)
    work.use(scheme)
    time.sleep(settle)
    since = time.time()
    for step in STEPS if load == "steps" else (1.0,):
        work.set_load({"gold": step, **others}, part)
        time.sleep(_STEP_SECONDS if load == "steps" else seconds)
    work.check()
    shares = work.hg.share()
    until = time.time()
    work.drain()
    return work.measure(since, until), shares


def claims(found: Mapping[str, Any]) -> dict[str, bool]:
    """What the issue asks for, tested on what was measured."""
    losses = {
        (load, scheme): found[load][scheme]["loss_percent"] for load in LOADS for scheme in SCHEMES
    }
    return {
        "the common shedder takes from every class": min(
            losses["above capacity", "common"].values()
        )
        > 0.0,
        "gold loses nothing but under the common shedder": all(
            losses[load, scheme]["gold"] == 0.0 for load in LOADS for scheme in SCHEMES[1:]
        ),
        "with lending bronze loses at most half": all(
            losses[load, "lending"]["bronze"] <= 0.5 * losses[load, "per class"]["bronze"]
            for load in ("near capacity", "steps")
        ),
        "loss by priority": all(
            losses[load, scheme]["gold"]
            <= losses[load, scheme]["silver"]
            <= losses[load, scheme]["bronze"]
            for load in LOADS
            for scheme in SCHEMES[1:]
        ),
    }


def throughput(
    work: Workload, capacity: float, load: float, rounds: int = 2, sizes: Sizes | None = None
) -> dict[str, Any]:
    """Rows a second with turns over rows a second without."""
    sizes = sizes or Sizes()
    sides: dict[str, list[Flow]] = {"open": [], "lending": []}
    for number in range(rounds):
        order = ("open", "lending") if number % 2 == 0 else ("lending", "open")
        for scheme in order:
            work.set_load(EVEN, load * capacity)
            work.use(scheme)
            time.sleep(sizes.settle_seconds)
            to_the_end = scheme == "open" and load > 1.0
            sides[scheme].append(processed(work, sizes.seconds, to_the_end))
            _say(f"{load}, {scheme}: {sides[scheme][-1]}")
    pairs = list(zip(sides["lending"], sides["open"], strict=True))
    ratios = [turns.rows_per_second / opened.rows_per_second for turns, opened in pairs]
    return {
        "targets_seconds": work.targets_seconds,
        "with_turns": [asdict(flow) for flow in sides["lending"]],
        "without": [asdict(flow) for flow in sides["open"]],
        "ratio_median": median(ratios),
        "ratio_least": min(ratios),
    }


def all_throughputs(work: Workload, capacity: float) -> dict[str, Any]:
    """At half load and at overload."""
    return {
        "half load": throughput(work, capacity, 0.5, sizes=Sizes(settle_seconds=10.0)),
        "overload": throughput(work, capacity, 1.5, rounds=1),
    }


def long_throughputs(work: Workload, capacity: float) -> dict[str, Any]:
    """At overload, where a batch may take long."""
    sizes = Sizes(45.0, settle_seconds=40.0)
    return {"overload": throughput(work, capacity, 1.5, sizes=sizes)}


def run(
    parts: Sequence[str] = ("agent", "tables", "throughput", "long targets"), **sizes: Any
) -> dict[str, Any]:
    """The parts by name. `sizes` go to `tables`."""
    results: dict[str, Any] = {}
    if "agent" in parts:
        results["agent"] = agent_latency()
    results["cost"] = f"each kept row holds its task slot for {DELAY_MS} ms"
    # the class loops alone decide what goes in the tables, as in the paper; beside them each
    # query's own latency controller, as for a user, where throughput is compared
    measured: dict[str, tuple[Callable[[Workload, float], dict[str, Any]], str, float]] = {
        "tables": (partial(tables, **sizes), "none", 1.0),
        "throughput": (all_throughputs, "model", 1.0),
        "long targets": (long_throughputs, "model", LONGER),
    }
    for part in parts:
        if part in measured:
            measure, controller, longer = measured[part]
            with _running(controller, longer) as work:
                if "capacity_rows_per_second" not in results:
                    results["capacity_rows_per_second"] = measured_capacity(work)
                    _say(f"capacity {results['capacity_rows_per_second']:.0f} rows a second")
                found = measure(work, results["capacity_rows_per_second"])
                found["alarms"] = sorted({f"{a.kind}: {a.text}" for a in work.hg.alarms()})[:20]
                results[part] = found
    return results


@contextmanager
def _running(controller: str, longer: float) -> Iterator[Workload]:
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as directory:
        work = Workload(Path(directory), controller, longer)
        try:
            work.start()
            _say("queries started")
            yield work
        finally:
            work.close()


def _say(text: str) -> None:
    print(f"{time.strftime('%X')} {text}", file=sys.stderr, flush=True)
