"""The agent: measurements in, decisions out, for all queries of one driver.

Owns the one coordinator. The companion of a query asks `decide` before each batch; the
listener hands over progress; both may come from any thread.

Guarantees: `decide` and `observe` never raise because of what they are told. A decision
reaches the live arrays only if the asker is still waiting for it, so the arrays hold
what the offset log says. After every batch its decision expires: if the agent dies or
hangs, the next batch keeps everything. A batch is observed once.
Not guaranteed: the order of events across queries.
Failure: an error within a decision keeps everything and raises an alarm.
Cost: about a millisecond a batch, most of it for asking the JVM.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from headgate.coordinator import (
    BatchStarted,
    CoordinatorSettings,
    Decision,
    Event,
    Journal,
    Mode,
    QuerySettings,
    RaiseAlarm,
    SetKeepFraction,
    SettingsChanged,
)
from headgate.spark.alarms import Alarms
from headgate.spark.decision import UNREACHABLE, GateDecision
from headgate.spark.progress import BatchReport, parse_progress
from headgate.spark.query_run import NOTHING_KNOWN, InputState, QueryRun

__all__ = ["Agent", "TooLateError"]

_KEEP_JOURNAL_LINES = 20_000
_MARGIN_SECONDS = 0.25


Record = Callable[[QueryRun, BatchReport, Mapping[str, float]], None]


class TooLateError(Exception):
    """The asker no longer waits; nothing was changed."""


class Agent:
    """See the module. `record` gets every batch once, with the arrival rates at its gates."""

    def __init__(self, alarms: Alarms, record: Record) -> None:
        self.alarms = alarms
        self._record = record
        self._journal = Journal(CoordinatorSettings())
        self._lines: deque[str] = deque([self._journal.header()], maxlen=_KEEP_JOURNAL_LINES)
        self._coordinator_lock = threading.Lock()
        self._runs: dict[str, QueryRun] = {}

    # --- queries and settings ---------------------------------------------------------------

    @property
    def runs(self) -> list[QueryRun]:
        return list(self._runs.values())

    @property
    def mode(self) -> Mode:
        return self._journal.coordinator.mode

    @property
    def journal_lines(self) -> list[str]:
        """Settings and the last 20,000 events with their decisions, oldest out."""
        return list(self._lines)

    def add(self, run: QueryRun, settings: QuerySettings) -> None:
        """A query is about to start."""
        self._runs[run.key] = run
        run.target_seconds = settings.latency_target_seconds
        removed = SettingsChanged(time.time(), removed_queries=(run.name,))
        self._handle(removed)  # a query that is started again begins with its batches anew
        self._handle(SettingsChanged(time.time(), queries={run.name: settings}))

    def remove(self, run: QueryRun) -> None:
        """A query has ended."""
        self._runs.pop(run.key, None)
        with run.lock:
            run.open()

    def set_mode(self, mode: Mode) -> None:
        """on, off or open, from the next batch of every query on."""
        self._handle(SettingsChanged(time.time(), mode=mode))
        for run in self.runs:
            with run.lock:
                run.asked_batch = None

    def set_limit(self, run: QueryRun, gate: str, keep_fraction: float) -> None:
        """At most this share passes the gate from the next batch on; 1 lifts the limit."""
        with run.lock:
            run.limits[gate] = keep_fraction
            run.asked_batch = None

    def open_all(self, why: str) -> None:
        """The agent is going: every gate keeps everything."""
        for run in self.runs:
            self.alarms.raise_alarm("agent", run.name, f"{why}; everything is kept")
            with run.lock:
                run.open()

    # --- decisions ----------------------------------------------------------------------------

    def decide(
        self,
        key: str,
        offset: Mapping[str, Any],
        deadline: float,
        known: InputState = NOTHING_KNOWN,
    ) -> dict[str, Any]:
        """The decision for the next batch of a query whose last one had `offset`.

        All askers of a query get the same decision for the same batch.
        """
        start = GateDecision.from_offset(offset)
        run = self._runs.get(key)
        if run is None:
            self.alarms.raise_alarm("unknown query", key, "asked for a decision; keeps everything")
            return _opened(start).offset()
        if not run.lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise TooLateError
        try:
            batch, decision = self._decide_safely(run, start, known)
            if time.monotonic() > deadline - _MARGIN_SECONDS:
                self.alarms.raise_alarm(
                    "agent", run.name, "too slow to answer; this batch keeps everything"
                )
                run.open()
                raise TooLateError
            run.apply(decision, batch)
            return decision.offset()
        finally:
            run.lock.release()

    def withdraw(self, key: str) -> None:
        """An answer could not be delivered: the asker has taken "keep everything"."""
        run = self._runs.get(key)
        if run is not None:
            with run.lock:
                run.open()

    def replay(self, key: str, offset: Mapping[str, Any]) -> dict[str, Any]:
        """A batch from the offset log runs again with this decision."""
        decision = GateDecision.from_offset(offset)
        run = self._runs.get(key)
        if run is not None:
            with run.lock:
                batch = run.handle.batch() if run.handle is not None else None
                run.apply(decision, batch)
        return decision.offset()

    def source_alarm(self, key: str, text: str) -> None:
        """A source with a gate has something to say."""
        run = self._runs.get(key)
        if run is not None:
            self.alarms.raise_alarm("source", run.name, text)

    def _decide_safely(
        self, run: QueryRun, start: GateDecision, known: InputState
    ) -> tuple[int | None, GateDecision]:
        try:
            return self._decide(run, start, known)
        except Exception as error:
            text = f"no decision, everything is kept: {type(error).__name__}: {error}"
            self.alarms.raise_alarm("decision", run.name, text)
            return None, _opened(start)

    def _decide(
        self, run: QueryRun, start: GateDecision, known: InputState
    ) -> tuple[int | None, GateDecision]:
        if run.handle is None:  # Spark has not handed over the query yet: nothing is known
            return None, start.changed_to({})
        batch = run.handle.batch()
        self._catch_up(run, batch)
        if run.is_further_asker(batch, known.gate):
            return batch, run.decision
        if batch == run.asked_batch:
            # Asked again for the same batch: nothing was waiting. Do not greet what comes
            # next with a decision that was made for a crowd.
            if not run.limits and any(share < 1.0 for share in run.answer.values()):
                run.answer = {}
                run.remember_why(batch, dict.fromkeys(run.gates, "nothing waits"))
            return batch, run.next_decision(start)
        run.answer = self._ask(run, batch, known)
        run.asked_batch = batch
        return batch, run.next_decision(start)

    def _ask(self, run: QueryRun, batch: int, known: InputState) -> dict[str, float]:
        now = time.time()
        waiting = run.waiting(now, known)
        age = run.waiting_age_seconds(now, known)
        event = BatchStarted(now, run.name, batch, waiting, age)
        keep: dict[str, float] = {}
        why: dict[str, str] = {}
        for decision in self._handle(event):
            if isinstance(decision, SetKeepFraction):
                keep[decision.gate] = 1.0 if run.finite else decision.keep_fraction
                why[decision.gate] = decision.why.bound.value
        if self.mode is not Mode.ON:  # also for a batch that was decided before the change
            keep = dict.fromkeys(keep, 1.0)
        elif not run.finite:
            warm_up = dict.fromkeys(keep, run.warm_up_share(waiting))
            for name, limits in (("warm-up", warm_up), ("limit", run.limits)):
                for gate, limit in limits.items():
                    if limit < keep.get(gate, 1.0):
                        keep[gate], why[gate] = limit, name
        run.remember_why(batch, why)
        return keep

    # --- measurements ---------------------------------------------------------------------------

    def observe(self, text: str, name: str | None = None) -> None:
        """Progress of a query, as JSON. Foreign queries and known batches are passed over."""
        try:
            report = parse_progress(text)
        except ValueError as error:
            self.alarms.raise_alarm("progress", name or "", str(error))
            return
        if report.idle:  # the batch of that number is still to come
            return
        for run in self.runs:
            if run.run_id == report.run_id:
                with run.lock:
                    self._observe(run, report)
                    run.expire(report.batch)

    def _catch_up(self, run: QueryRun, batch: int) -> None:
        """Take in the batch before this one, if the listener has not brought it yet."""
        last = run.last_report
        if batch == 0 or run.handle is None or (last is not None and last.batch >= batch - 1):
            return
        newest = run.handle.last_progress()
        reports = [] if newest is None else [parse_progress(newest)]
        if reports and (reports[0].idle or last is None or reports[0].batch > last.batch + 1):
            # The listener lags by more than a batch: take all, so that none is left out.
            reports = [parse_progress(text) for text in run.handle.recent_progress()]
        for report in reports:
            if report.run_id == run.run_id and not report.idle:
                self._observe(run, report)

    def _observe(self, run: QueryRun, report: BatchReport) -> None:
        if not run.is_new(report):
            return
        before = run.last_report
        if report.decision is not None and report.decision.note == UNREACHABLE:
            text = f"could not be asked for batch {report.batch}; everything was kept"
            self.alarms.raise_alarm("agent", run.name, text)
        for gate, seen in report.gates.items():
            if seen.lost:
                text = f"{gate}: {seen.lost} tuples of batch {report.batch} were gone at the source"
                self.alarms.raise_alarm("data loss", run.name, text)
        run.rates = report.arrival_rates(before)
        run.last_report = report
        run.reports += 1
        self._handle(report.event(run.name, before))
        self._record(run, report, run.rates)

    def _handle(self, event: Event) -> list[Decision]:
        with self._coordinator_lock:
            decisions, line = self._journal.handle(event)
            if len(self._lines) == _KEEP_JOURNAL_LINES:
                self._lines.popleft()  # the header goes first: the rest is for reading only
            self._lines.append(line)
        for decision in decisions:
            if isinstance(decision, RaiseAlarm):
                self.alarms.raise_alarm(decision.kind.value, decision.subject, decision.text)
        return decisions


def _opened(start: GateDecision) -> GateDecision:
    return start.opened("") if start.sheds else start
