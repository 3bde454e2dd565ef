"""The agent: measurements in, decisions out, for all queries of one driver.

Owns the one coordinator. The companion of a query asks `decide` before each batch; the
listener hands over progress; both may come from any thread. With classes a question is
held until the coordinator grants the query's turn; `decide` returns None when one step
of waiting is over, and the query keeps its place if it asks again.

Guarantees: `decide` and `observe` never raise because of what they are told. A decision
reaches the live arrays only if the asker is still waiting for it, so the arrays hold
what the offset log says. After every batch its decision expires: if the agent dies or
hangs, the next batch keeps everything. A batch is observed once. A turn ends when its
batch does, when the query asks again for the same batch (nothing was waiting), when it
ends or is found outside of a trigger, and at last after a minute.
Not guaranteed: the order of events across queries.
Failure: an error within a decision keeps everything and raises an alarm.
Cost: about a millisecond a batch, most of it for asking the JVM.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headgate.coordinator import (
    BatchStarted,
    Coordinator,
    CoordinatorSettings,
    Decision,
    Event,
    Journal,
    Mode,
    QuerySettings,
    RaiseAlarm,
    RatesObserved,
    SetKeepFraction,
    SettingsChanged,
    Tick,
    TurnReturned,
)
from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.arrivals import arrival_problems
from headgate.spark.agent.core_watch import CoreWatch
from headgate.spark.agent.decision import UNREACHABLE, GateDecision
from headgate.spark.agent.progress import BatchReport, parse_progress
from headgate.spark.agent.query_run import NOTHING_KNOWN, InputState, QueryRun
from headgate.spark.agent.turn_desk import Ticket, TurnDesk
from headgate.spark.gates.row_choice import lowest_of_groups
from headgate.spark.networks.network_export import MeasuredQuery

__all__ = ["Agent", "TooLateError"]

_KEEP_JOURNAL_LINES = 20_000
_MARGIN_SECONDS = 0.25
_CLOCK_SKEW_SECONDS = 1.0
_HOLD_STEP_SECONDS = 1.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.005, 0.05
_LOOK_AT_TASKS_EVERY = 64  # batches


Record = Callable[[QueryRun, BatchReport, Mapping[str, float]], None]


class TooLateError(Exception):
    """The asker no longer waits; nothing was changed."""


class Agent:
    """See the module. `record` gets every batch once, with the arrival rates at its gates.

    cores: asked at ticks while there are classes.
    """

    def __init__(
        self,
        alarms: Alarms,
        record: Record,
        settings: CoordinatorSettings | None = None,
        cores: CoreWatch | None = None,
    ) -> None:
        self.alarms = alarms
        self._record = record
        self._journal = Journal(settings or CoordinatorSettings())
        self._desk = TurnDesk()
        self._lines: deque[str] = deque([self._journal.header()], maxlen=_KEEP_JOURNAL_LINES)
        self._coordinator_lock = threading.Lock()
        self._runs: dict[str, QueryRun] = {}
        self._cores = cores or CoreWatch()

    # --- queries and settings ---------------------------------------------------------------

    @property
    def runs(self) -> list[QueryRun]:
        return list(self._runs.values())

    @property
    def mode(self) -> Mode:
        return self._journal.coordinator.mode

    @property
    def coordinator(self) -> Coordinator:
        """To look at."""
        return self._journal.coordinator

    @property
    def journal_lines(self) -> list[str]:
        """Settings and the last 20,000 events with their decisions, oldest out."""
        return list(self._lines)

    def started(self, query: str | None = None) -> list[QueryRun]:
        """The runs that Spark has started, the newest first; of one query, if it is named."""
        runs = [run for run in reversed(self.runs) if run.handle is not None]
        return [run for run in runs if query in (None, run.name)]

    def add(self, run: QueryRun, settings: QuerySettings) -> None:
        """A query is about to start. Settings that are refused (UsageError) leave nothing."""
        self._runs[run.key] = run
        try:
            self._register(run, settings)
        except BaseException:
            self.remove(run)
            raise

    def _register(self, run: QueryRun, settings: QuerySettings) -> None:
        run.target_seconds = settings.latency_target_seconds
        run.keep_at_least = settings.keep_at_least
        run.percentile = settings.controller_settings.get("percentile")
        run.drop_older_seconds = settings.drop_older_seconds
        run.query_class = settings.query_class
        run.first_gates = tuple(gate for gate in settings.gates if not settings.after.get(gate))
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
        with run.lock:  # whoever asks afterwards sees that it is gone
            run.open()
        if all(other.name != run.name for other in self.runs):
            self._desk.close(run.name)
            self._handle(SettingsChanged(time.time(), removed_queries=(run.name,)))

    def set_classes(self, priorities: Mapping[str, float]) -> None:
        """Other priorities from now on; what was lent is back."""
        classes = self.coordinator.classes
        if classes is not None:
            settings = replace(classes.settings, priorities=dict(priorities))
            self._handle(SettingsChanged(time.time(), classes=settings))

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
        self._desk.wake_all()
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
    ) -> dict[str, Any] | None:
        """The decision for the next batch of a query whose last one had `offset`.

        All askers of a query get the same decision for the same batch. None: it is not
        its turn yet; ask again.
        """
        start = GateDecision.from_offset(offset)
        run = self._runs.get(key)
        if run is None:
            self.alarms.raise_alarm("unknown query", key, "asked for a decision; keeps everything")
            return _opened(start).offset()
        self._pace(run)
        step = time.monotonic() + _HOLD_STEP_SECONDS
        while (answer := self._answer(run, start, deadline, known)) is None:
            ticket = self._desk.ticket(run.name, run.asking_batch)
            left = min(step, deadline - 2 * _MARGIN_SECONDS) - time.monotonic()
            if ticket is None:
                continue
            woken = left > 0.0 and ticket.ready.wait(left)
            if not woken or ticket.granted_seconds is None:
                return None if self._lives(run) else _opened(start).offset()
        return answer.offset()

    def _answer(
        self, run: QueryRun, start: GateDecision, deadline: float, known: InputState
    ) -> GateDecision | None:
        """The decision, with the arrays set to it; None when it is not the query's turn."""
        if not run.lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise TooLateError
        try:
            if self._runs.get(run.key) is not run:  # ended since it was asked for
                return _opened(start)
            if not known.gate:  # a companion: its offset holds the decision of the whole query
                run.logged = start
            batch, decision = self._decide_safely(run, start, known)
            if decision is None:
                return None
            if time.monotonic() > deadline - _MARGIN_SECONDS:
                self.alarms.raise_alarm(
                    "agent", run.name, "too slow to answer; this batch keeps everything"
                )
                run.open()
                raise TooLateError
            run.apply(decision, batch)
            return decision
        finally:
            run.lock.release()

    def _lives(self, run: QueryRun) -> bool:
        """False when the query is being stopped: then its answer must not be held."""
        try:
            return run.handle is not None and run.handle.active()
        except Exception:  # the JVM is going
            return False

    def _pace(self, run: QueryRun) -> None:
        """A query of a class that finds nothing to do asks less and less often.

        Spark asks again every ten milliseconds, and each question costs all of them.
        """
        if run.query_class is not None and run.empty_asks > 0:
            pause = _FIRST_PAUSE_SECONDS * 2.0 ** min(run.empty_asks, 10)
            time.sleep(min(pause, _LONGEST_PAUSE_SECONDS))

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
                run.logged = decision
                run.apply(decision, batch)
        return decision.offset()

    def source_alarm(self, key: str, text: str) -> None:
        """A source with a gate has something to say."""
        run = self._runs.get(key)
        if run is not None:
            self.alarms.raise_alarm("source", run.name, text)

    def _decide_safely(
        self, run: QueryRun, start: GateDecision, known: InputState
    ) -> tuple[int | None, GateDecision | None]:
        try:
            return self._decide(run, start, known)
        except Exception as error:
            text = f"no decision, everything is kept: {type(error).__name__}: {error}"
            self.alarms.raise_alarm("decision", run.name, text)
            return None, _opened(start)

    def _decide(
        self, run: QueryRun, start: GateDecision, known: InputState
    ) -> tuple[int | None, GateDecision | None]:
        now = time.time()
        if run.handle is None:  # Spark has not handed over the query yet: nothing is known
            run.set_counts_aside()
            cut_offs = run.cut_offs(now) if self.mode is Mode.ON else {}
            return None, start.changed_to({}, older_than=cut_offs)
        batch = run.handle.batch()
        self._catch_up(run, batch)
        if run.is_further_asker(batch, known.gate):
            return batch, run.decision
        cut_offs = run.cut_offs(now) if self.mode is Mode.ON else {}
        if batch == run.asked_batch:
            # Asked again for the same batch: nothing was waiting. Do not greet what comes
            # next with a decision that was made for a crowd. Whatever comes runs without a
            # turn and is charged to its class afterwards.
            run.empty_asks += 1
            run.looked_at_seconds = now
            self._return_turn(run.name, batch)
            run.would_keep.pop(batch, None)
            sheds = any(share < 1.0 for share in run.answer.values()) or run.levels
            if not run.limits and sheds:
                run.choose_levels({}, now)
                run.remember_why(batch, dict.fromkeys(run.gates, "nothing waits"))
            return batch, run.next_decision(start, batch, cut_offs)
        answer = self._ask(run, batch, tuple(cut_offs), known)
        if answer is None:
            return batch, None
        run.choose_levels(answer, now)
        run.asked_batch = batch
        run.empty_asks = 0
        run.looked_at_seconds = now
        return batch, run.next_decision(start, batch, cut_offs)

    def _ask(
        self, run: QueryRun, batch: int, cut_off: Sequence[str], known: InputState
    ) -> dict[str, float] | None:
        """What to keep at each gate; None when it is not the query's turn."""
        now = time.time()
        waiting = run.waiting(now, known)
        decided = self._turn(run, batch, waiting, run.waiting_age_seconds(now, known), now)
        if decided is None:
            return None
        run.remember_decided(batch, decided)
        keep: dict[str, float] = {}
        why: dict[str, str] = {}
        for decision in decided:
            keep[decision.gate] = 1.0 if run.finite else decision.keep_fraction
            why[decision.gate] = decision.why.bound.value
        if self.mode is not Mode.ON:  # also for a batch that was decided before the change
            keep = dict.fromkeys(keep, 1.0)
            if self.mode is Mode.OFF and not run.finite:
                run.remember_would_keep(batch, _would_keep(run, decided))
        elif not run.finite:
            warm_up = dict.fromkeys(run.first_gates, run.warm_up_share(waiting))
            for name, limits in (("warm-up", warm_up), ("limit", run.limits)):
                for gate, limit in limits.items():
                    if limit < keep.get(gate, 1.0):
                        keep[gate], why[gate] = limit, name
        for gate in cut_off:
            why[gate] = "too old" if keep.get(gate, 1.0) == 1.0 else f"{why[gate]}, too old"
        keep, why = lowest_of_groups(keep, why, run.choices)
        run.remember_why(batch, why)
        return keep

    # --- turns ----------------------------------------------------------------------------------

    def _turn(
        self,
        run: QueryRun,
        batch: int,
        waiting: Mapping[str, int],
        age: float | None,
        now: float,
    ) -> Sequence[SetKeepFraction] | None:
        """The coordinator's decisions for this batch; None when it has to wait."""
        run.asking_batch = batch
        ticket = self._desk.ticket(run.name, batch)
        if ticket is None:
            ticket = self._desk.open(run.name, batch, now)
            event = BatchStarted(now, run.name, batch, waiting, age, run.tasks)
            decisions = self._handle(event)
            if ticket.granted_seconds is None:
                own = [d for d in decisions if isinstance(d, SetKeepFraction)]
                own = [d for d in own if (d.query, d.batch) == (run.name, batch)]
                if own or not self._takes_turns(run):  # decided at once, or decided before
                    self._desk.close(run.name)
                    return own
        if ticket.granted_seconds is None:
            return None
        run.remember_held(batch, ticket.held_seconds)
        return ticket.decisions

    def _takes_turns(self, run: QueryRun) -> bool:
        return self.coordinator.classes is not None and run.query_class is not None

    def _return_turn(self, query: str, batch: int) -> None:
        if self._desk.ticket(query, batch) is not None:
            self._desk.close(query)
        if self.coordinator.has_turn(query, batch):  # with the gates open there is no ticket
            self._handle(TurnReturned(time.time(), query, batch))

    def tick(self) -> None:
        """Time has passed: load cycles, held turns, and turns of queries that went silent."""
        now = time.time()
        with self._coordinator_lock:
            wanted = self.coordinator.wants_tick(now)
        if self.coordinator.counts_cores:
            self._cores.look(now)
        if wanted:
            self._follow_cores(now)
            self._handle(Tick(now, self._cores.busy_since_last()))
        for ticket in self._desk.to_check(now):
            if ticket.is_overdue(now):
                text = f"batch {ticket.batch} has its turn for long; others go on beside it"
                self.alarms.raise_alarm("turn", ticket.query, text)
                self._return_turn(ticket.query, ticket.batch)
            elif not self._works(ticket):
                self._return_turn(ticket.query, ticket.batch)

    def _follow_cores(self, now: float) -> None:
        """Executors come and go: so many batches may run at once as there are cores for."""
        classes = self.coordinator.classes
        if classes is None:
            return
        number = self._cores.number(now)
        if number is not None and number != classes.settings.cores:
            self._handle(SettingsChanged(now, classes=replace(classes.settings, cores=number)))

    def _works(self, ticket: Ticket) -> bool:
        """The query is within a trigger, so its turn is in use."""
        for run in self.runs:
            if run.name == ticket.query and run.handle is not None:
                try:
                    return run.handle.active() and run.handle.triggered()
                except Exception:  # the JVM is going
                    return False
        return False

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

    def counted(self, report: BatchReport) -> BatchReport:
        """The report of a batch that has just ended, with the numbers of all its gates."""
        for run in self.runs:
            if run.run_id == report.run_id:
                with run.lock:
                    return run.counted(report)
        return report

    def observe_network(self, event: RatesObserved) -> None:
        """Numbers of the network that the coordinator plans for."""
        self._handle(event)

    def measured_queries(self) -> list[MeasuredQuery]:
        """What is known of the queries that run."""
        with self._coordinator_lock:
            known = self.coordinator.queries
            return [
                MeasuredQuery(
                    run.name,
                    known[run.name],
                    dict(run.rates),
                    self.coordinator.seconds_per_tuple(run.name),
                )
                for run in self.runs
                if run.name in known
            ]

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
        report = run.counted(report)
        report = report.after_hold(run.held.get(report.batch, 0.0))
        self._desk.close(run.name, report.batch)
        if self._takes_turns(run) and run.reports % _LOOK_AT_TASKS_EVERY == 1:
            run.tasks = _tasks_of(run)
        if report.decision is not None and report.decision.note == UNREACHABLE:
            text = f"could not be asked for batch {report.batch}; everything was kept"
            self.alarms.raise_alarm("agent", run.name, text)
        newest = max((g.last_arrival or 0.0 for g in report.gates.values()), default=0.0)
        if newest > report.end_seconds + _CLOCK_SKEW_SECONDS:
            ahead = newest - report.end_seconds
            text = f"tuples arrived {ahead:.3g} s after their batch ended: a clock is wrong"
            self.alarms.raise_alarm("clock", run.name, text)
        problems = arrival_problems(report, run.target_seconds is not None)
        for text in problems if not run.arrivals_are_odd else ():
            self.alarms.raise_alarm("arrival", run.name, text)
        run.arrivals_are_odd = bool(problems)
        for gate, seen in report.gates.items():
            if seen.lost:
                text = f"{gate}: {seen.lost} tuples of batch {report.batch} were gone at the source"
                self.alarms.raise_alarm("data loss", run.name, text)
            if seen.letters is not None and seen.letters.error:
                counts = f"{seen.letters.written} letters written, {seen.letters.left} not"
                text = f"{gate}, batch {report.batch}: {counts}: {seen.letters.error}"
                self.alarms.raise_alarm("dead letters", run.name, text)
        run.rates = report.arrival_rates(before)
        run.last_report = report
        if any(seen.offered for seen in report.gates.values()):
            run.last_with_tuples = report
        run.reports += 1
        for problem in run.learn(report):
            self.alarms.raise_alarm("policy", run.name, problem)
        if run.windows is not None:
            run.windows.observe(report)
        self._handle(report.event(run.name, run.rates, run.reports == 1, run.percentile))
        self._record(run, report, run.rates)

    def _handle(self, event: Event) -> list[Decision]:
        with self._coordinator_lock:
            decisions, line = self._journal.handle(event)
            if len(self._lines) == _KEEP_JOURNAL_LINES:
                self._lines.popleft()  # the header goes first: the rest is for reading only
            self._lines.append(line)
            self._desk.route(decisions, time.time())
        for decision in decisions:
            if isinstance(decision, RaiseAlarm):
                self.alarms.raise_alarm(decision.kind.value, decision.subject, decision.text)
        return decisions


def _would_keep(run: QueryRun, decided: Sequence[SetKeepFraction]) -> dict[str, float]:
    """What would be kept at each gate if shedding were on."""
    shares = {d.gate: min(d.why.wanted, run.limits.get(d.gate, 1.0)) for d in decided}
    return lowest_of_groups(shares, {}, run.choices)[0]


def _tasks_of(run: QueryRun) -> int:
    """How wide the query's batches are; what was known before if Spark does not say."""
    try:
        return run.tasks if run.handle is None else max(1, run.handle.tasks())
    except Exception:  # the JVM is going, or the job is no longer remembered
        return run.tasks


def _opened(start: GateDecision) -> GateDecision:
    return start.opened("") if start.sheds else start
