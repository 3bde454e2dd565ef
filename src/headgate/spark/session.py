"""What a person uses: `attach`, `gate`, `start`, `report`, `ledger`, `mode`.

    hg = headgate.attach(spark)
    orders = hg.gate(orders, "orders", arrival="timestamp", identity=["partition", "offset"])
    query = hg.start(orders.writeStream.format("noop"), name="alerts", latency="3s")

One `Headgate` for each Spark application: one agent, one coordinator, one listener.
A query never dies because of Headgate: what cannot be gated is started as it is, with
an alarm. Mistakes in the call itself raise `UsageError` before anything is started.

Here stands what makes and starts queries; `controls` has what changes them while they run,
`answers` what is known of them, `aggregates` the columns of queries that may be shed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headgate.coordinator import (
    ClassSettings,
    CoordinatorSettings,
    QuerySettings,
    RatesObserved,
)
from headgate.errors import UsageError
from headgate.network import Network
from headgate.reduction import Policy
from headgate.spark.agent.agent import Agent
from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.busy_cores import busy_cores
from headgate.spark.agent.classes import class_settings
from headgate.spark.agent.clock import Clock
from headgate.spark.agent.core_watch import CoreWatch
from headgate.spark.agent.listener import EventThread, ProgressListener
from headgate.spark.agent.listening import read_listening
from headgate.spark.agent.progress import BatchReport
from headgate.spark.agent.query_run import QueryRun
from headgate.spark.agent.server import AgentServer
from headgate.spark.agent.ungated import STARTED, Ungated
from headgate.spark.aggregates import Aggregates
from headgate.spark.answers import Answers
from headgate.spark.attached_sessions import AttachedSessions, register_sources
from headgate.spark.controls import Controls
from headgate.spark.gates.column_names import ColumnNames, repeated
from headgate.spark.gates.gate import add_gate, check_gate, choose_rows
from headgate.spark.ledger.digest_book import DigestBook
from headgate.spark.ledger.ledger_book import LedgerBook
from headgate.spark.letters.letter_book import LetterBook
from headgate.spark.measured_statistics import QueryMeter
from headgate.spark.plans.gate_nodes import gates_in, gates_in_series, gates_named_twice
from headgate.spark.plans.live_array import jvm_of
from headgate.spark.plans.stream_writer import plan_of, read_facts
from headgate.spark.policies.policy_gate import GatePolicy, add_policy_gate, read_policy
from headgate.spark.query_start import Books, QueryStart, StartRequest
from headgate.spark.sources.read_source import read_source
from headgate.spark.user_input import (
    controller_of,
    flag_of,
    name_of,
    percentile_of,
    seconds_of,
    share_of,
    text_of,
)

__all__ = ["Headgate", "attach"]


_TICK_SECONDS = 0.02


def attach(
    spark: SparkSession,
    timeout: str | float | timedelta = "2s",
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
    return Headgate(spark, seconds_of(timeout, "timeout"), classes, listen)


class Headgate(Controls, Answers, Aggregates):
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
        register_sources(spark)
        self.alarms_raised = Alarms()
        self._spark = spark
        self._timeout_seconds = timeout_seconds
        self._same_tuples: set[str] = set()
        self._policies: dict[int, GatePolicy] = {}
        self._book = LedgerBook(self.alarms_raised)
        self._digests = DigestBook(self.alarms_raised)
        self._letters = LetterBook(spark, self.alarms_raised)
        settings = CoordinatorSettings(classes=classes, network=network)
        cores = CoreWatch(busy_cores(spark), lambda: spark.sparkContext.defaultParallelism)
        self._agent = Agent(self.alarms_raised, self._record, settings, cores)
        self._server = AgentServer(self._agent, listening)
        self.measured: Callable[[], Network] | None = None  # of a network that is run
        self._events = EventThread(self.alarms_raised)
        self._clock = None
        if classes is not None:
            self._clock = Clock(self._agent.tick, _TICK_SECONDS, self.alarms_raised)
        self._targets: dict[str, float | None] = {}
        self._meters: dict[str, QueryMeter] = {}
        books = Books(self._book, self._digests, self._letters)
        self._ungated = Ungated(self.alarms_raised)
        self._listener = ProgressListener(self._events, self._progressed, self._ended)

        def starts_in(session: SparkSession) -> QueryStart:
            return QueryStart(
                session,
                self._agent,
                self._events,
                self.alarms_raised,
                books,
                self._asking_as,
                self._ended,
            )

        self._sessions = AttachedSessions(spark, self._listener, starts_in)

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
        name_of(name, "a gate")
        if flag_of(same_tuples, "same_tuples"):
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

        Columns are given by their names, as Spark finds them (upper and lower case matter only
        with spark.sql.caseSensitive).

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
        name_of(name, "a gate")
        _check_gate_input(frame, name, policy, dead_letters)
        columns = ColumnNames(frame, f"gate {name!r}")
        arrival = columns.find_optional(arrival, "arrival")
        identity = columns.find_all(identity, "identity")
        by_key, by_window = columns.find_key(by_key), columns.find_window(by_window)
        weight = text_of(weight, "weight")
        same = flag_of(same_tuples, "same_tuples")
        letters = self._letters.at_gate(frame, name, dead_letters)
        if same:
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
        latency: str | float | timedelta | None = None,
        *,
        priority: str | None = None,
        percentile: float | None = None,
        keep_at_least: float = 0.0,
        drop_older: str | float | timedelta | None = None,
        controller: str = "model",
        path: str | None = None,
        table: str | None = None,
    ) -> StreamingQuery:
        """Start the query with its gates at work.

        name:          the query's name, also in the ledger.
        latency:       target from arrival to result: "3s", "3 seconds", a timedelta or seconds;
                       None only measures.
        priority:      the class whose turns and share the query has; one of those given to
                       `attach`. Without it the query runs beside the classes.
        percentile:    None holds the mean, 95 the 95th percentile; 1 to below 100.
        keep_at_least: share that is kept whatever happens, 0 to 1.
        drop_older:    after a stall, tuples that arrived longer ago than this fall ("10m").
        path, table:   as for the writer's own `start` and `toTable`.

        The query runs in the Spark session of its stream.
        """
        name_of(name, "a query")
        _check_writer(writer, name)
        target = None if latency is None else seconds_of(latency, "latency")
        older = None if drop_older is None else seconds_of(drop_older, "drop_older")
        percentile = percentile_of(percentile, "percentile")
        controller = controller_of(controller, percentile)
        keep_at_least = share_of(keep_at_least, "keep_at_least")
        path, table = text_of(path, "path"), text_of(table, "table")
        if path is not None and table is not None:
            raise UsageError(f"query {name!r}: give a path or a table, not both")
        self._check_class(text_of(priority, "priority"))
        session, starts = self._sessions.of(writer)
        if name in self._sessions.active_names():
            raise UsageError(f"a query {name!r} is running already; give this one another name")
        writer = writer.queryName(name)
        facts = read_facts(session, writer, name)
        plan = plan_of(writer)
        gates = gates_in(plan)
        if not gates:
            raise UsageError(f"query {name!r} has no gate; put one with gate(df, name) before it")
        for gate in gates_named_twice(plan):
            raise UsageError(
                f"query {name!r}: two of its gates are called {gate!r}; give one another name, or, "
                "for one stream that stands twice in the query, call gate once and use its result "
                "twice"
            )
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
            older,
            gates_in_series(plan),
        )
        timed = frozenset(gate for gate, is_timed in gates.items() if is_timed)
        if older is not None and not timed:
            raise UsageError(f"query {name!r}: drop_older needs a gate with an arrival column")
        request = StartRequest(
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
        self._meters[name] = QueryMeter(settings)
        with STARTED.starting(name) as started:
            query = starts.start(request)
            started(str(query.runId))
        self._targets[name] = target
        return query

    def _record(self, run: QueryRun, report: BatchReport, rates: Mapping[str, float]) -> None:
        meter = self._meters.get(run.name)
        if meter is not None:
            meter.observe(report, rates)
        self._events.put(partial(self._letters.after_batch, run, report))
        self._events.put(partial(self._book.enter, run, report, rates))
        self._events.put(partial(self._digests.enter, run, report, rates))

    def _asking_as(self, key: str) -> dict[str, str]:
        """Options with which a companion or a source asks the agent."""
        agent, timeout = str(self._server.address_file), str(self._timeout_seconds)
        return {"agent": agent, "query": key, "timeout": timeout}

    def _progressed(self, progress: str) -> None:
        self._agent.observe(progress)
        self._ungated.look(progress)

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

    # --- the rest -------------------------------------------------------------------------------

    def observe_network(self, event: RatesObserved) -> None:
        """Measured numbers of the network that is run; the plan is made again if they moved."""
        self._agent.observe_network(event)

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
            self._sessions.close()
        finally:
            self._events.close()
            self._book.close_all()
            self._digests.close_all()


def _check_writer(writer: Any, name: str) -> None:
    if not isinstance(writer, DataStreamWriter):
        kind = type(writer).__name__
        raise UsageError(f"query {name!r}: expected a writer (df.writeStream...), got {kind}")


def _check_gate_input(frame: Any, gate: str, policy: Any, dead_letters: Any) -> None:
    """What can be said before Spark is asked for the columns."""
    if not isinstance(frame, DataFrame):
        raise UsageError(f"gate {gate!r}: expected a DataFrame, got {type(frame).__name__}")
    if policy is not None and not isinstance(policy, Policy | str | os.PathLike):
        raise UsageError(
            f"gate {gate!r}: policy must be a Policy or the file of one, got {policy!r}"
        )
    if (policy is not None or dead_letters is not None) and repeated(frame):
        what = "a policy" if policy is not None else "dead_letters"
        raise UsageError(
            f"gate {gate!r}: with {what} each column needs a name of its own; rename those that "
            "stand twice (withColumnRenamed, or select with alias)"
        )
