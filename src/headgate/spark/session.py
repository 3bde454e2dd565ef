"""What a person uses: `attach`, `gate`, `start`, `report`, `ledger`, `mode`.

    hg = headgate.attach(spark)
    orders = hg.gate(orders, "orders", arrival="timestamp", identity=["partition", "offset"])
    query = hg.start(orders.writeStream.format("noop"), name="alerts", latency="3s")

One `Headgate` for each Spark application: one agent, one coordinator, one listener.
A query never dies because of Headgate: what cannot be gated is started as it is, with
an alarm. Mistakes in the call itself raise `UsageError` before anything is started.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headgate.coordinator import (
    ClassSettings,
    CoordinatorSettings,
    Mode,
    QuerySettings,
    RatesObserved,
)
from headgate.coordinator.explain import because
from headgate.errors import UsageError
from headgate.network import Network, dump_network
from headgate.quantities import DURATION
from headgate.reduction import Policy
from headgate.spark.agent.agent import Agent
from headgate.spark.agent.alarms import Alarm, Alarms
from headgate.spark.agent.busy_cores import busy_cores
from headgate.spark.agent.classes import checked_priorities, class_settings, class_views
from headgate.spark.agent.clock import Clock
from headgate.spark.agent.listener import EventThread, ProgressListener
from headgate.spark.agent.listening import read_listening
from headgate.spark.agent.progress import BatchReport, parse_progress
from headgate.spark.agent.query_run import QueryRun
from headgate.spark.agent.server import AgentServer
from headgate.spark.gates import estimates, results
from headgate.spark.gates.estimates import WEIGHT
from headgate.spark.gates.gate import add_gate, check_gate, choose_rows
from headgate.spark.ledger.digest_book import DIGEST_SCHEMA, DigestBook, digest_rows, digest_table
from headgate.spark.ledger.ledger_book import LedgerBook
from headgate.spark.ledger.ledger_table import LEDGER_SCHEMA, ledger_table
from headgate.spark.ledger.report import Report
from headgate.spark.letters.letter_book import LetterBook
from headgate.spark.networks.network_export import network_of_queries
from headgate.spark.plans.gate_nodes import gates_in, gates_in_series
from headgate.spark.plans.live_array import jvm_of
from headgate.spark.plans.stream_writer import (
    plan_of,
    read_facts,
)
from headgate.spark.policies.policy_gate import GatePolicy, add_policy_gate, read_policy
from headgate.spark.query_start import Books, QueryStart, StartRequest
from headgate.spark.sources.companion import FORMAT, CompanionSource
from headgate.spark.sources.line_source import LineSource, stream_lines
from headgate.spark.sources.read_source import read_source
from headgate.spark.sources.replay_source import ReplaySource

__all__ = ["Headgate", "attach"]


_TICK_SECONDS = 0.02


def attach(
    spark: SparkSession,
    timeout: str = "2s",
    classes: Mapping[str, float] | ClassSettings | None = None,
    listen: Mapping[str, Any] | str | None = None,
) -> Headgate:
    """Headgate for this Spark session.

    timeout: how long a batch waits for a decision (not for its turn).
    classes: priorities by class, for example {"gold": 6, "silver": 3, "bronze": 1}. Queries
             that are started with a priority take turns by it.
    listen:  where the agent listens: on this machine, at any free port, unless told otherwise.
             Other machines need a token; TLS with a certificate. See `listening`.
    """
    return Headgate(spark, _seconds(timeout, "timeout"), classes, listen)


class Headgate:
    """See the module; made by `attach`. Also a context manager that closes itself."""

    def __init__(
        self,
        spark: SparkSession,
        timeout_seconds: float = 2.0,
        classes: Mapping[str, float] | ClassSettings | None = None,
        listen: Mapping[str, Any] | str | None = None,
        network: Network | None = None,
    ) -> None:
        jvm_of(spark)
        listening = read_listening(listen)
        if classes is not None and not isinstance(classes, ClassSettings):
            classes = class_settings(classes, spark.sparkContext.defaultParallelism)
        _check_python(spark)
        self.alarms_raised = Alarms()
        self._spark = spark
        self._timeout_seconds = timeout_seconds
        self._same_tuples: set[str] = set()
        self._policies: dict[int, GatePolicy] = {}
        self._book = LedgerBook(self.alarms_raised)
        self._digests = DigestBook(self.alarms_raised)
        self._letters = LetterBook(spark, self.alarms_raised)
        settings = CoordinatorSettings(classes=classes, network=network)
        self._agent = Agent(self.alarms_raised, self._record, settings, busy_cores(spark))
        self._server = AgentServer(self._agent, listening)
        self.measured: Callable[[], Network] | None = None  # of a network that is run
        self._events = EventThread(self.alarms_raised)
        self._clock = None
        if classes is not None:
            self._clock = Clock(self._agent.tick, _TICK_SECONDS, self.alarms_raised)
        self._targets: dict[str, float | None] = {}
        books = Books(self._book, self._digests, self._letters)
        self._starts = QueryStart(
            spark,
            self._agent,
            self._events,
            self.alarms_raised,
            books,
            self._asking_as,
            self._ended,
        )
        self._listener = ProgressListener(self._events, self._agent.observe, self._ended)
        spark.streams.addListener(self._listener)

    def __enter__(self) -> Headgate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the pipeline -------------------------------------------------------------------------

    def read(
        self,
        source: str,
        name: str,
        options: Mapping[str, Any] | None = None,
        *,
        same_tuples: bool = False,
        dead_letters: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    ) -> DataFrame:
        """A stream of `source` ("kafka" or "replay") with a gate inside; an ordinary DataFrame.

        Tuples fall before rows are built of them. The column `timestamp` is the arrival.
        options:     of the source; see `kafka_options` and `replay_source`.
        same_tuples, dead_letters: as for `gate`.
        """
        if same_tuples:
            self._same_tuples.add(name)

        def read(letters: str) -> DataFrame:
            return read_source(self._spark, source, name, options or {}, same_tuples, letters)

        return self._letters.in_source(read, name, dead_letters)

    def gate(
        self,
        frame: DataFrame,
        name: str,
        arrival: str | None = None,
        identity: Sequence[str] | None = None,
        same_tuples: bool = False,
        *,
        by_key: Sequence[str] | Mapping[str, str] | str | None = None,
        by_window: Sequence[str] | None = None,
        weight: str | None = None,
        policy: Policy | str | os.PathLike[str] | None = None,
        ladder: str = "budget",
        dead_letters: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    ) -> DataFrame:
        """`frame` behind a gate; an ordinary streaming DataFrame.

        arrival:     column with the time a tuple arrived; without it, latency is not measured
                     and the controller takes arrivals as even between two batches.
        identity:    columns that say which tuple it is; all columns if left out. With the
                     columns of a key, all tuples of a key fall or stay together.
        same_tuples: True lets the same identities fall as long as the share stays; by default
                     each decision chooses anew.
        by_key:      columns of a join key: the same keys stay on both sides. Where a column has
                     another name, {"name of the key": "column"}.
        by_window:   (event time column, size[, slide]) as for `functions.window`: whole windows
                     fall. With a slide, the result has a column `window` to group by.
        weight:      name of a column to add: 1 / keep fraction, for `count`, `sum` and `avg`.
        policy:      a reduction policy, or the file with one: what goes first. What is still
                     too much goes at random, by `identity`.
        ladder:      how the level is chosen: "budget" or "turnaround" (the paper's).
        dead_letters: where a bounded share of the dropped tuples is written for a back-fill: a
                     directory, or a dictionary (see `letters`).
        """
        letters = self._letters.at_gate(frame, name, dead_letters)
        if same_tuples:
            self._same_tuples.add(name)
        if policy is None:
            rows = choose_rows(frame, name, identity, by_key, by_window)
            return add_gate(self._spark, frame, name, arrival, rows, weight, letters)
        if by_key is not None or by_window is not None or weight is not None:
            raise UsageError(
                f"gate {name!r}: with a policy, by_key, by_window and weight are not possible; "
                "put a second gate behind it"
            )
        wanted = read_policy(policy, ladder)
        names = check_gate(frame, name, arrival, identity)
        number = len(self._policies)
        gated, self._policies[number] = add_policy_gate(
            self._spark, frame, name, arrival, names, wanted, ladder, number, letters
        )
        return gated

    def start(
        self,
        writer: DataStreamWriter,
        name: str,
        latency: str | float | None = None,
        *,
        priority: str | None = None,
        percentile: float | None = None,
        keep_at_least: float = 0.0,
        drop_older: str | float | None = None,
        controller: str = "model",
        path: str | None = None,
        table: str | None = None,
    ) -> StreamingQuery:
        """Start the query with its gates at work.

        name:          the query's name, also in the ledger.
        latency:       target from arrival to result, "3s" or seconds; None only measures.
        priority:      the class whose turns and share the query has; one of those given to
                       `attach`. Without it the query runs beside the classes.
        percentile:    None holds the mean, 95 the 95th percentile.
        keep_at_least: share that is kept whatever happens.
        drop_older:    after a stall, tuples that arrived longer ago than this fall ("10m").
        path, table:   as for the writer's own `start` and `toTable`.
        """
        target = None if latency is None else _seconds(latency, "latency")
        self._check_class(priority)
        if any(query.name == name for query in self._spark.streams.active):
            raise UsageError(f"a query {name!r} is running already; give this one another name")
        writer = writer.queryName(name)
        facts = read_facts(self._spark, writer, name)
        plan = plan_of(writer)
        gates = gates_in(plan)
        if not gates:
            raise UsageError(f"query {name!r} has no gate; put one with gate(df, name) before it")
        extra: dict[str, Any] = {}
        if controller == "model":
            extra = {"period_seconds": facts.trigger_seconds, "percentile": percentile}
        settings = QuerySettings(
            tuple(gates),
            target,
            priority,
            controller,
            extra,
            keep_at_least,
            None if drop_older is None else _seconds(drop_older, "drop_older"),
            gates_in_series(plan),
        )
        timed = frozenset(gate for gate, is_timed in gates.items() if is_timed)
        if drop_older is not None and not timed:
            raise UsageError(f"query {name!r}: drop_older needs a gate with an arrival column")
        query = self._starts.start(
            StartRequest(
                name,
                writer,
                plan,
                facts,
                settings,
                timed,
                frozenset(self._same_tuples),
                self._policies,
                path,
                table,
            )
        )
        self._targets[name] = target
        return query

    def _record(self, run: QueryRun, report: BatchReport, rates: Mapping[str, float]) -> None:
        self._events.put(partial(self._letters.after_batch, run, report))
        self._events.put(partial(self._book.enter, run, report, rates))
        self._events.put(partial(self._digests.enter, run, report, rates))

    def _asking_as(self, key: str) -> dict[str, str]:
        """Options with which a companion or a source asks the agent."""
        agent, timeout = str(self._server.address_file), str(self._timeout_seconds)
        return {"agent": agent, "query": key, "timeout": timeout}

    def _ended(self, run_id: str, exception: str | None) -> None:
        for run in self._agent.runs:
            if run.run_id == run_id:
                self._agent.remove(run)
                # Behind the rows of its last batch, which may still be in the queue.
                self._events.put(partial(self._book.close, run))
                self._events.put(partial(self._digests.close, run))
                if exception is not None:
                    text = f"ended with an error: {exception[:500]}"
                    self.alarms_raised.raise_alarm("query", run.name, text)

    # --- answers under shedding -----------------------------------------------------------------

    def count(self, weight: str = WEIGHT) -> Column:
        """An aggregate: how many tuples there were, as a struct of estimate, low and high.

        weight: the column that `gate` added, here and below.
        """
        return estimates.count(weight)

    def sum(self, column: Column | str, weight: str = WEIGHT) -> Column:
        """An aggregate: the sum over all tuples, kept or not."""
        return estimates.total(column, weight)

    def avg(self, column: Column | str, weight: str = WEIGHT) -> Column:
        """An aggregate: the mean over all tuples, kept or not."""
        return estimates.average(column, weight)

    def oldest(self, arrival: str) -> Column:
        """An aggregate: when the first tuple of a group arrived, as `oldest_arrival`."""
        return results.oldest(arrival)

    def measure(self, frame: DataFrame, name: str, arrival: str = results.OLDEST) -> DataFrame:
        """`frame` with the age of its rows measured, for the report and the ledger.

        Put it just before the sink. arrival: the column with the time; see `oldest`.
        """
        return results.measure_results(frame, name, arrival)

    # --- control --------------------------------------------------------------------------------

    def mode(self, mode: str | None = None) -> str:
        """The mode; with an argument, change it: "on", "off" (measure only) or "open"."""
        if mode is not None:
            try:
                wanted = Mode(mode)
            except ValueError:
                known = ", ".join(m.value for m in Mode)
                raise UsageError(f"no mode {mode!r}; expected one of {known}") from None
            self._agent.set_mode(wanted)
        return self._agent.mode.value

    def limit(self, query: str, gate: str, keep: float) -> None:
        """By hand: at most this share passes, from the next batch on. 1 lifts the limit."""
        if not 0.0 <= keep <= 1.0:
            raise UsageError(f"keep must be from 0 to 1, got {keep!r}")
        for run in self._agent.started(query):
            if gate in run.gates:
                self._agent.set_limit(run, gate, keep)
                return
        runs = self._agent.started()
        known = ", ".join(f"{run.name}/{gate}" for run in runs for gate in run.gates)
        raise UsageError(f"no gate {query}/{gate}; running are: {known or 'none'}")

    def drop_older(self, query: str, than: str | float | None) -> None:
        """After a stall, let tuples fall that arrived longer ago than this; None keeps them."""
        seconds = None if than is None else _seconds(than, "than")
        for run in self._agent.started(query):
            self._agent.set_drop_older(run, seconds)
            return
        known = ", ".join(run.name for run in self._agent.started())
        raise UsageError(f"no query {query!r}; running are: {known or 'none'}")

    def classes(self, priorities: Mapping[str, float] | None = None) -> dict[str, float]:
        """The priorities; with an argument, change them. What was lent is back then."""
        loop = self._agent.coordinator.classes
        if priorities is not None:
            if loop is None:
                raise UsageError("there are no classes; give them to attach(spark, classes=...)")
            wanted = checked_priorities(priorities)
            used = {s.query_class for s in self._agent.coordinator.queries.values()}
            missing = sorted(name for name in used if name and name not in wanted)
            if missing:
                raise UsageError(f"class {', '.join(missing)} has queries; give it a priority")
            self._agent.set_classes(wanted)
            loop = self._agent.coordinator.classes
        return {} if loop is None else dict(loop.settings.priorities)

    def share(self) -> dict[str, float]:
        """What each class may use of the application now, 0 to 1, with what is lent."""
        return dict(self._agent.coordinator.portions)

    def explain(self, query: str) -> str:
        """Why the last batch of a query kept what it kept, a sentence for each gate."""
        for run in self._agent.started(query):
            lines = [
                f"{gate}: {1.0 - share:.3g} of batch {batch} was to go: {reason}."
                for gate, share, batch, reason in _reasons(run)
            ]
            views = class_views(self._agent.coordinator, ())
            lines += [v.share_text() for v in views if v.name == run.query_class]
            return "\n".join(lines) or f"{query} has not run a batch yet."
        known = ", ".join(run.name for run in self._agent.started())
        raise UsageError(f"no query {query!r}; running are: {known or 'none'}")

    def _check_class(self, priority: str | None) -> None:
        known = self.classes()
        if priority is None or priority in known:
            return
        if not known:
            raise UsageError(
                f"priority {priority!r}: there are no classes; attach with "
                f"classes={{{priority!r}: 1, ...}}"
            )
        raise UsageError(f"no class {priority!r}; expected one of {', '.join(known)}")

    # --- what happened --------------------------------------------------------------------------

    def report(self) -> Report:
        """What was shed, why, for whom, since the checkpoint of each query was made."""
        self._settle()
        sums = self._book.sums()
        counts = ((s.query_class, s.offered, s.kept, s.dropped) for s in sums.values())
        views = class_views(self._agent.coordinator, counts)
        return Report(self.mode(), dict(self._targets), sums, self.alarms_raised.all(), views)

    def ledger(self, stream: bool = False) -> DataFrame:
        """One row for each gate and batch: offered, kept, dropped, why, latency.

        stream: as a streaming DataFrame of the queries that were started so far.
        """
        self._settle()
        if stream:
            return stream_lines(self._spark, self._book.directories, LEDGER_SCHEMA)
        return ledger_table(self._spark, self._book.addresses())

    def digests(self, stream: bool = False) -> DataFrame:
        """What gates with a policy dropped: a row for each gate, batch and group.

        stream: as for `ledger`.
        """
        self._settle()
        if stream:
            return digest_rows(stream_lines(self._spark, self._digests.directories, DIGEST_SCHEMA))
        return digest_table(self._spark, self._digests.addresses())

    def dead_letters(self, query: str, gate: str | None = None) -> DataFrame:
        """Dropped tuples that were written down, for a back-fill: the columns at the gate, and
        `headgate_gate` and `headgate_batch`.

        gate: needed if several gates of the query write letters.
        """
        self._settle()
        return self._letters.table(query, gate)

    def network(self) -> str:
        """What was measured, as a network file for `headgate plan` and `headgate simulate`.

        Rates, costs, selectivities and the capacity of a network that is run; of queries that
        were started by hand, their rates and what a tuple costs.
        """
        if self.measured is not None:
            return dump_network(self.measured())
        return dump_network(network_of_queries("measured", self._agent.measured_queries()))

    def runs(self) -> list[QueryRun]:
        """The queries that run, to look at."""
        return self._agent.runs

    def batch(self, progress: str) -> BatchReport:
        """One batch of a query, from Spark's progress (its JSON), with the counts of its gates."""
        return self._agent.counted(parse_progress(progress))

    def observe_network(self, event: RatesObserved) -> None:
        """Measured numbers of the network that is run; the plan is made again if they moved."""
        self._agent.observe_network(event)

    def alarms(self) -> list[Alarm]:
        """The last 1,000 alarms, oldest first."""
        return self.alarms_raised.all()

    def journal(self) -> list[str]:
        """The coordinator's recent events and decisions, as lines of JSON."""
        return self._agent.journal_lines

    def close(self) -> None:
        """Let go: queries run on and keep everything."""
        self._settle()
        if self._clock is not None:
            self._clock.close()
        self._server.close()
        try:
            for run in self._agent.runs:
                for counts in run.counts.values():
                    counts.stop()
            self._spark.streams.removeListener(self._listener)
        finally:
            self._events.close()
            self._book.close_all()
            self._digests.close_all()

    def _settle(self) -> None:
        """Wait for what has been reported so far."""
        deadline = time.monotonic() + 2.0
        for run in self._agent.runs:
            handle = run.handle
            if handle is not None and (text := handle.last_progress()) is not None:
                self._agent.observe(text)
        self._events.drain(max(0.1, deadline - time.monotonic()))


def _check_python(spark: SparkSession) -> None:
    """Register the sources; UsageError when Spark's Python cannot load them."""
    spark.dataSource.register(CompanionSource)
    spark.dataSource.register(ReplaySource)
    spark.dataSource.register(LineSource)
    try:
        spark.readStream.format(FORMAT).option("agent", "").option("query", "").load()
    except PySparkException as error:
        python = spark.sparkContext.pythonExec
        raise UsageError(
            f"Spark's Python {python!r} cannot load headgate; set PYSPARK_PYTHON to the Python "
            f"that has it (here {sys.executable}) before the session is made: {error}"
        ) from error


def _reasons(run: QueryRun) -> list[tuple[str, float, int | None, str]]:
    return [
        (d.gate, d.keep_fraction, d.batch, because(d.why, d.keep_fraction)) for d in run.decided
    ]


def _seconds(value: str | float, what: str) -> float:
    try:
        seconds = DURATION.parse(value) if isinstance(value, str) else float(value)
    except ValueError as error:
        raise UsageError(f"{what}: {error}") from None
    if not 0.0 < seconds < 1e9:
        raise UsageError(f"{what} must be above 0, got {value!r}")
    return seconds
