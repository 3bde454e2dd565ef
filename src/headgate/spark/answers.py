"""What a person asks for: report, ledger, statistics, alarms. Part of `Headgate`.

All of it is of the batches that have ended so far, and nothing here changes what is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from headgate.network import Network, dump_network
from headgate.spark.agent.agent import Agent
from headgate.spark.agent.alarms import Alarm, Alarms
from headgate.spark.agent.classes import class_views
from headgate.spark.agent.listener import EventThread
from headgate.spark.agent.progress import BatchReport, parse_progress
from headgate.spark.agent.query_run import NOTHING_KNOWN, QueryRun
from headgate.spark.ledger.digest_book import DIGEST_SCHEMA, DigestBook, digest_rows, digest_table
from headgate.spark.ledger.ledger_book import LedgerBook
from headgate.spark.ledger.ledger_table import LEDGER_SCHEMA, ledger_table
from headgate.spark.ledger.report import Report
from headgate.spark.letters.letter_book import LetterBook
from headgate.spark.measured_statistics import MeasuredStatistics, QueryMeter
from headgate.spark.networks.network_export import MeasuredQuery, network_of_queries
from headgate.spark.sources.line_source import stream_lines

__all__ = ["Answers"]


class Answers:
    """See the module."""

    alarms_raised: Alarms
    measured: Callable[[], Network] | None  # of a network that is run
    _spark: SparkSession
    _agent: Agent
    _events: EventThread
    _book: LedgerBook
    _digests: DigestBook
    _letters: LetterBook
    _targets: dict[str, float | None]
    _meters: dict[str, QueryMeter]

    def report(self) -> Report:
        """What was shed, why, for whom, since the checkpoint of each query was made."""
        self._settle()
        sums = self._book.sums()
        counts = ((s.query_class, s.offered, s.kept, s.dropped) for s in sums.values())
        views = class_views(self._agent.coordinator, counts)
        mode = self._agent.mode.value
        return Report(mode, dict(self._targets), sums, self.alarms_raised.all(), views)

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
        were started by hand, their rates, what a tuple costs and what they deliver for it.
        """
        if self.measured is not None:
            return dump_network(self.measured())
        queries = [self._with_statistics(query) for query in self._agent.measured_queries()]
        cores = float(self._spark.sparkContext.defaultParallelism)
        return dump_network(network_of_queries("measured", queries, cores))

    def statistics(self) -> MeasuredStatistics:
        """Rates, backlog, costs, shares and capacity of the queries that run, as known now.

        Nothing has to be given by hand. `print` shows a table; `to_dict` is for programs.
        """
        self._settle()
        now = time.time()
        return MeasuredStatistics(
            tuple(
                self._meters[run.name].statistics(run.name, run.waiting(now, NOTHING_KNOWN))
                for run in self._agent.started()
                if run.name in self._meters
            )
        )

    def _with_statistics(self, query: MeasuredQuery) -> MeasuredQuery:
        """What a tuple costs in batches as long as the target allows, where that is known."""
        meter = self._meters.get(query.name)
        if meter is None:
            return query
        capacity = meter.capacity_tuples_per_second
        seconds = query.seconds_per_tuple if not capacity else 1.0 / capacity
        return replace(query, seconds_per_tuple=seconds, selectivity=meter.output_rows_per_tuple)

    def runs(self) -> list[QueryRun]:
        """The queries that run, to look at."""
        return self._agent.runs

    def batch(self, progress: str) -> BatchReport:
        """One batch of a query, from Spark's progress (its JSON), with the counts of its gates."""
        return self._agent.counted(parse_progress(progress))

    def alarms(self) -> list[Alarm]:
        """The last 1,000 alarms, oldest first."""
        return self.alarms_raised.all()

    def journal(self) -> list[str]:
        """The coordinator's recent events and decisions, as lines of JSON."""
        return self._agent.journal_lines

    def _settle(self) -> None:
        """Wait for what has been reported so far."""
        deadline = time.monotonic() + 2.0
        for run in self._agent.runs:
            handle = run.handle
            if handle is not None and (text := handle.last_progress()) is not None:
                self._agent.observe(text)
        self._events.drain(max(0.1, deadline - time.monotonic()))
