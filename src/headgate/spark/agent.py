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
from collections.abc import Callable, Mapping, Sequence
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
from headgate.spark.query_run import QueryRun

__all__ = ["Agent", "TooLateError"]

_KEEP_JOURNAL_LINES = 20_000
_MARGIN_SECONDS = 0.25
_CLOCK_SKEW_SECONDS = 1.0


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
        run.keep_at_least = settings.keep_at_least
        run.percentile = settings.controller_settings.get("percentile")
        run.drop_older_seconds = settings.drop_older_seconds
        removed = SettingsChanged(time.time(), removed_queries=(run.name,))
        self._handle(removed)  # a query that is started again begins with its batches anew
        self._handle(SettingsChanged(time.time(), queries={run.name: settings}))

    def recall(
        self, run: QueryRun, batches: Sequence[tuple[BatchReport, Mapping[str, float]]]
    ) -> None:
        """What the query did before it was started again; see `recall`."""
        with run.lock:
            for report, rates in batches:
                run.last_report, run.rates = report, rates
                self._handle(report.event(run.name, rates, False))

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

    def set_drop_older(self, run: QueryRun, seconds: float | None) -> None:
        """Tuples older than this fall after a stall, from the next batch on; None keeps them."""
        with run.lock:
            run.drop_older_seconds = seconds
            run.asked_batch = None

    def open_all(self, why: str) -> None:
        """The agent is going: every gate keeps everything."""
        for run in self.runs:
            self.alarms.raise_alarm("agent", run.name, f"{why}; everything is kept")
            with run.lock:
                run.open()

    # --- decisions ----------------------------------------------------------------------------

    def decide(self, key: str, offset: Mapping[str, Any], deadline: float) -> dict[str, Any]:
        """The decision for the next batch of a query whose last one had `offset`."""
        start = GateDecision.from_offset(offset)
        run = self._runs.get(key)
        if run is None:
            self.alarms.raise_alarm("unknown query", key, "asked for a decision; keeps everything")
            return _opened(start).offset()
        if not run.lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise TooLateError
        try:
            batch, decision = self._decide_safely(run, start)
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

    def _decide_safely(self, run: QueryRun, start: GateDecision) -> tuple[int | None, GateDecision]:
        try:
            return self._decide(run, start)
        except Exception as error:
            text = f"no decision, everything is kept: {type(error).__name__}: {error}"
            self.alarms.raise_alarm("decision", run.name, text)
            return None, _opened(start)

    def _decide(self, run: QueryRun, start: GateDecision) -> tuple[int | None, GateDecision]:
        now = time.time()
        if run.handle is None:  # Spark has not handed over the query yet: nothing is known
            cut_offs = run.cut_offs(now) if self.mode is Mode.ON else {}
            return None, start.changed_to({}, older_than=cut_offs)
        batch = run.handle.batch()
        self._catch_up(run, batch)
        cut_offs = run.cut_offs(now) if self.mode is Mode.ON else {}
        run.looked_at_seconds = now
        if batch == run.asked_batch:
            # Asked again for the same batch: nothing was waiting. Do not greet what comes
            # next with a decision that was made for a crowd.
            sheds = any(share < 1.0 for share in run.answer.values()) or run.levels
            if not run.limits and sheds:
                run.choose_levels({}, now)
                run.remember_why(batch, dict.fromkeys(run.gates, "nothing waits"))
            return batch, _changed(start, run, cut_offs)
        run.choose_levels(self._ask(run, batch, tuple(cut_offs)), now)
        run.asked_batch = batch
        return batch, _changed(start, run, cut_offs)

    def _ask(self, run: QueryRun, batch: int, cut_off: Sequence[str]) -> dict[str, float]:
        now = time.time()
        waiting = run.waiting(now)
        event = BatchStarted(now, run.name, batch, waiting, run.waiting_age_seconds(now))
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
        for gate in cut_off:
            why[gate] = "too old" if keep.get(gate, 1.0) == 1.0 else f"{why[gate]}, too old"
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
        if reports and (last is None or reports[0].batch > last.batch + 1):
            # The listener lags by more than a batch: take all, so that none is left out.
            reports = [parse_progress(text) for text in run.handle.recent_progress()]
        for report in reports:
            if report.run_id == run.run_id:
                self._observe(run, report)

    def _observe(self, run: QueryRun, report: BatchReport) -> None:
        if not run.is_new(report):
            return
        before = run.last_report
        if report.decision is not None and report.decision.note == UNREACHABLE:
            text = f"could not be asked for batch {report.batch}; everything was kept"
            self.alarms.raise_alarm("agent", run.name, text)
        newest = max((g.last_arrival or 0.0 for g in report.gates.values()), default=0.0)
        if newest > report.end_seconds + _CLOCK_SKEW_SECONDS:
            ahead = newest - report.end_seconds
            text = f"tuples arrived {ahead:.3g} s after their batch ended: a clock is wrong"
            self.alarms.raise_alarm("clock", run.name, text)
        run.rates = report.arrival_rates(before)
        run.last_report = report
        run.reports += 1
        for problem in run.learn(report):
            self.alarms.raise_alarm("policy", run.name, problem)
        self._handle(report.event(run.name, run.rates, run.reports == 1, run.percentile))
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


def _changed(start: GateDecision, run: QueryRun, cut_offs: Mapping[str, int]) -> GateDecision:
    return start.changed_to(
        run.answer, older_than=cut_offs, levels=run.levels, now_micros=run.now_micros
    )


def _opened(start: GateDecision) -> GateDecision:
    return start.opened("") if start.sheds else start
