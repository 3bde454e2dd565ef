"""Run a network file on one Spark application, with gates where the plan drops.

    with headgate.spark.run_network(spark, "shop.yaml") as run:
        run.wait(60)
        print(run.report().to_dict())

Guarantees: mistakes of the file are said before anything is started, all at once. Gates stand
at the inputs and behind every split; the exact planner decides again when measured rates, costs,
selectivities or the capacity have moved. Work in front of a split is done once in a batch for
all queries of one Spark query (see `network_groups`). Latency feedback and class shares bound
what the plan lets in, but not below what `keep_at_least` of a query takes (see
`planning.guarantees`); where that does not fit, latency suffers.
Not guaranteed: separate latencies for queries of one group, which have their batches in common;
`keep_at_least` of queries that need more than a share of their rows (a join by random drops).
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headgate.errors import NetworkError, UsageError
from headgate.network import Network, load_network
from headgate.spark.agent.listener import EventThread, ProgressListener
from headgate.spark.networks.network_frames import FLOW_PREFIX, NetworkFrames
from headgate.spark.networks.network_groups import NODE, Group, RunningNetwork, as_it_runs
from headgate.spark.networks.network_monitor import NetworkMonitor
from headgate.spark.networks.network_needs import problems_to_run
from headgate.spark.networks.network_record import NetworkRecord
from headgate.spark.networks.network_report import NetworkReport, QueryFigures
from headgate.spark.networks.network_sinks import writer_of
from headgate.spark.networks.operator_code import codes_of
from headgate.spark.networks.query_failure import failure_of
from headgate.spark.networks.task_time import TaskTimes
from headgate.spark.session import Headgate

__all__ = ["GateNow", "NetworkRun", "RunSettings", "read_network", "run_network"]


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How to run a network.

    classes:    priorities by class; None lets all that is connected run together.
    stand_ins:  let described costs and rates stand for code and sources that are not there.
    checkpoint: a directory for all checkpoints; None takes temporary ones.
    replayed:   options of the replay source, by stream without a source.
    timeout_seconds: how long a batch waits for a decision.
    warm_up_batches: after so many batches of every group the report begins to count.
    """

    classes: Mapping[str, float] | None = None
    stand_ins: bool = False
    checkpoint: str | None = None
    replayed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    timeout_seconds: float = 5.0
    warm_up_batches: int = 10


@dataclass(frozen=True, slots=True)
class GateNow:
    """One gate in the last batch of its Spark query."""

    query: str
    gate: str
    offered_per_second: float
    keep_fraction: float
    why: str
    latency_seconds: float | None
    target_seconds: float | None


def read_network(path: str | os.PathLike[str], stand_ins: bool = False) -> Network:
    """The network of a file, with everything that is needed to run it."""
    return load_network(path, lambda network: problems_to_run(network, stand_ins))


def run_network(
    spark: SparkSession,
    network: Network | str | os.PathLike[str],
    settings: RunSettings | None = None,
) -> NetworkRun:
    """Start the queries of a network. Stop them with `stop`, or use it in `with`."""
    chosen = settings or RunSettings()
    if not isinstance(network, Network):
        network = read_network(network, chosen.stand_ins)
    elif problems := problems_to_run(network, chosen.stand_ins):
        raise NetworkError(problems)
    return NetworkRun(spark, network, chosen)


class NetworkRun:
    """A network that runs; made by `run_network`. `headgate` is what its queries report to."""

    def __init__(self, spark: SparkSession, network: Network, settings: RunSettings) -> None:
        self.cores = _cores_at_start(spark)
        self.running: RunningNetwork = as_it_runs(
            network, self.cores, tuple(settings.classes or ())
        )
        self.settings = settings
        self.monitor = NetworkMonitor(self.running, self.cores)
        self.record = NetworkRecord(
            self.running.network,
            _readers(self.running),
            tuple(g.name for g in self.running.groups),
            settings.warm_up_batches,
        )
        self.queries: dict[str, StreamingQuery] = {}
        self._spark = spark
        self._names: dict[str, str] = {}  # by run id, the group
        self._lock = threading.Lock()
        self._times = TaskTimes(spark)
        self.headgate = Headgate(
            spark, settings.timeout_seconds, settings.classes, network=self.running.network
        )
        self.headgate.measured = self.measured
        self._events = EventThread(self.headgate.alarms_raised)
        self._listener = ProgressListener(self._events, self._progressed, lambda *_: None)
        spark.streams.addListener(self._listener)
        try:
            self.drops = self._start()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> NetworkRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- start and stop -------------------------------------------------------------------------

    def _start(self) -> dict[str, str]:
        frames = NetworkFrames(
            self._spark,
            self.running,
            self.cores,
            _replayed(self.running, self.settings),
            self.settings.stand_ins,
        )
        made = [
            (group, writer_of(group, frames.outputs(group), self._checkpoint(group)))
            for group in self.running.groups
        ]
        for group, writer in made:
            query = self.headgate.start(
                writer,
                group.name,
                group.latency_target_seconds,
                priority=group.query_class,
                keep_at_least=group.keep_at_least,
            )
            self.queries[group.name] = query
            self._names[str(query.runId)] = group.name
        return frames.drops

    def _checkpoint(self, group: Group) -> str | None:
        if self.settings.checkpoint is None:
            return None
        return str(Path(self.settings.checkpoint) / re.sub(r"[^\w.-]+", "_", group.name))

    def wait(
        self, seconds: float | None = None, look: Callable[[float], bool] | None = None
    ) -> None:
        """Until the time is over or a query has ended; its error is raised.

        look: called about four times a second with the seconds since the start; False ends it.
        """
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < (seconds or float("inf")):
            if look is not None and not look(elapsed):
                return
            for name, query in self.queries.items():
                if not query.isActive:
                    error = query.exception()
                    if error is not None:
                        raise UsageError(failure_of(name, str(error), codes_of(self.running)))
                    return
            time.sleep(0.25)

    def stop(self) -> None:
        """Stop the queries and let go."""
        for query in self.queries.values():
            try:
                query.stop()
            except Exception as error:  # one that will not stop must not keep the others
                self.headgate.alarms_raised.raise_alarm("query", "stop", str(error)[:500])
        self._events.drain(2.0)
        try:
            self._spark.streams.removeListener(self._listener)
        finally:
            self._events.close()
            self.headgate.close()

    # --- measurements ---------------------------------------------------------------------------

    def _progressed(self, text: str) -> None:
        report = self.headgate.batch(text)
        group = self._names.get(report.run_id)
        if group is None or report.idle:
            return
        busy = self._times.seconds(report.run_id, report.batch)
        cores = _cores(self._spark)
        with self._lock:
            self.monitor.follow_cores(cores)
            seen = self.monitor.observe(group, report, _flows(text), busy)
            self.record.add(seen)
            news = self.monitor.news(time.time())
            probes = self.monitor.groups[group].probes()
        with suppress(UsageError):  # the query has ended meanwhile
            for gate, most in probes.items():
                self.headgate.limit(group, gate, most)
        if news is not None:
            self.headgate.observe_network(news)

    def gates_now(self) -> list[GateNow]:
        """What each gate does, from the last batch of its query."""
        found = []
        for run in self.headgate.runs():
            report = run.last_report
            if report is None:
                continue
            why = {d.gate: d.why.bound.value for d in run.decided.get(report.batch, ())}
            for gate, seen in report.gates.items():
                found.append(
                    GateNow(
                        run.name,
                        gate,
                        run.rates.get(gate, 0.0),
                        seen.kept / seen.offered if seen.offered else 1.0,
                        why.get(gate, "nothing"),
                        report.latency_mean_seconds(),
                        run.target_seconds,
                    )
                )
        return found

    def load_now(self) -> float | None:
        """Task seconds per second over the run; None before anything was counted."""
        with self._lock:
            return self.record.measured_load()

    def capacity(self) -> float:
        """Task seconds per second that the application gets done."""
        with self._lock:
            return self.monitor.capacity()

    def measured(self) -> Network:
        """The running network with what was measured: rates, costs, selectivities, capacity."""
        with self._lock:
            return measured_network(self.monitor)

    def report(self) -> NetworkReport:
        """What has happened so far."""
        self._events.drain(2.0)
        sums = self.headgate.report().sums
        with self._lock:
            record, monitor = self.record, self.monitor
            return NetworkReport(
                self.running.network.name,
                record.seconds,
                tuple(self._figures()),
                {
                    group: {
                        gate: (s.offered, s.kept, s.dropped)
                        for (query, gate), s in sums.items()
                        if query == group
                    }
                    for group in self.queries
                },
                self.drops,
                record.score(),
                record.best_score(),
                record.predicted_load(),
                record.measured_load(),
                monitor.capacity(),
                dict(monitor.rates),
                tuple(f"{a.kind}, {a.subject}: {a.text}" for a in self.headgate.alarms()),
                record.load_error_mean_abs(),
            )

    def _figures(self) -> list[QueryFigures]:
        record, per_second = self.record, self.record.delivered_per_second()
        return [
            QueryFigures(
                query.name,
                record.delivered.get(query.name, 0),
                per_second[query.name],
                query.weight,
                record.latency_seconds(group.name),
                query.latency_target_seconds,
            )
            for group in self.running.groups
            for query in group.queries
        ]


def measured_network(monitor: NetworkMonitor) -> Network:
    """The network that runs, with the numbers that were measured."""
    network, numbers = monitor.running.network, monitor.statistics()
    operators = tuple(
        replace(
            o,
            cost_seconds=numbers[o.name].cost_seconds,
            selectivity=numbers[o.name].selectivity,
            window_tuples=numbers[o.name].window_tuples,
        )
        for o in network.operators
    )
    streams = tuple(
        replace(s, rate_per_second=monitor.rates.get(s.name, s.rate_per_second))
        for s in network.streams
    )
    nodes = tuple(
        replace(n, capacity=monitor.capacity()) if n.name == NODE else n for n in network.nodes
    )
    return replace(network, streams=streams, operators=operators, nodes=nodes)


def _cores(spark: SparkSession) -> int:
    """Those of the executors that are there now; a call to the JVM, below a millisecond."""
    return max(1, spark.sparkContext.defaultParallelism)


def _cores_at_start(spark: SparkSession) -> int:
    """The same once the first executor is there: before, a cluster's number is a guess."""
    if not (spark.sparkContext.master or "").startswith("local"):
        spark.range(1).count()
    return _cores(spark)


def _readers(running: RunningNetwork) -> dict[str, str]:
    """The first group that reads each stream."""
    found: dict[str, str] = {}
    for group in running.groups:
        own = {*group.operators, *(query.name for query in group.queries)}
        for stream in running.network.streams:
            if any(arc.target in own for arc in running.network.arcs_from[stream.name]):
                found.setdefault(stream.name, group.name)
    return found


def _replayed(running: RunningNetwork, settings: RunSettings) -> dict[str, dict[str, str]]:
    options = {
        s.name: {"rate": str(s.rate_per_second)}
        for s in running.network.streams
        if s.source is None and s.rate_per_second is not None
    }
    for name, given in settings.replayed.items():
        if name not in running.network.stream_by_name:
            raise UsageError(f"no stream {name!r} to replay")
        options[name] = dict(given)
    return options


def _flows(text: str) -> dict[str, int]:
    """How many tuples came out of each operator that has no gate behind it."""
    metrics: Mapping[str, Any] = json.loads(text).get("observedMetrics") or {}
    return {
        name[len(FLOW_PREFIX) :]: int(values.get("tuples") or 0)
        for name, values in metrics.items()
        if name.startswith(FLOW_PREFIX)
    }
