"""The one place where the loops meet: `handle(event) -> decisions`.

The plan sets the open-loop keep fraction of every gate; the share of the class bounds
it; latency feedback on the query bounds it again; a guaranteed minimum lifts it.
Each loop also works alone. No clock, no I/O, no randomness: the same events in the
same order give the same decisions, so a journal can be replayed.

Guarantees: a batch that asks again gets the same answer; a query with nothing to shed
keeps everything; `off` and `open` drop nothing; every keep fraction carries its reason;
offered = kept + dropped is checked for every batch. Not guaranteed: that a target
is met (see the controllers), and decisions for batches that are older than the last
`remember_batches` of their query (the durable decision log is the edge's).

Cost: about the cost of one controller, tens of microseconds an event; planning is done
only when rates have moved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from headgate.control import PATIENCE
from headgate.coordinator.alarm_texts import advice, backlog_grows, not_planning, unknown_query
from headgate.coordinator.class_cycle import class_cycle
from headgate.coordinator.class_loop import ClassLoop
from headgate.coordinator.composition import composed_keep, scaled_to
from headgate.coordinator.decisions import (
    AlarmKind,
    Decision,
    GrantTurn,
    MoveCapacity,
    RaiseAlarm,
    SendTable,
    SetKeepFraction,
)
from headgate.coordinator.events import (
    BatchCompleted,
    BatchStarted,
    Event,
    RatesObserved,
    SettingsChanged,
    TableReceived,
    Tick,
    TurnReturned,
)
from headgate.coordinator.ledger import Ledger, LedgerRow
from headgate.coordinator.planning_loop import CentralPlan, NodePlan
from headgate.coordinator.query_state import QueryState
from headgate.coordinator.settings import (
    ClassSettings,
    CoordinatorSettings,
    Mode,
    QuerySettings,
)
from headgate.coordinator.turns import Turns, as_of
from headgate.errors import PlanningError

__all__ = ["Coordinator"]


class Coordinator:
    """Events in, decisions out. See the module.

    >>> from headgate.coordinator import BatchStarted, QuerySettings
    >>> settings = CoordinatorSettings({"alerts": QuerySettings(("orders",), 3.0)})
    >>> coordinator = Coordinator(settings)
    >>> [decision] = coordinator.handle(BatchStarted(0.0, "alerts", 0, {"orders": 500}))
    >>> decision.gate, decision.keep_fraction, decision.why.bound.value
    ('orders', 1.0, 'nothing')
    """

    def __init__(self, settings: CoordinatorSettings) -> None:
        self.settings = settings
        self.mode = settings.mode
        self.ledger = Ledger()
        self._queries: dict[str, QueryState] = {}
        self._classes = None if settings.classes is None else ClassLoop(settings.classes)
        self._plan = _plan_for(settings)
        self._last_problem: str | None = None
        self._turns = Turns()
        self._held_for: tuple[str, float] | None = None  # class, and until when
        for name, query in settings.queries.items():
            self._queries[name] = QueryState(query, self._plan is not None)

    @property
    def queries(self) -> Mapping[str, QuerySettings]:
        return {name: state.settings for name, state in self._queries.items()}

    def seconds_per_tuple(self, query: str) -> float | None:
        """Server seconds for a kept tuple of the query, as last learnt."""
        state = self._queries.get(query)
        return None if state is None else state.seconds_per_tuple

    @property
    def portions(self) -> Mapping[str, float]:
        """Each class's share of the node; empty without classes."""
        return {} if self._classes is None else dict(self._classes.portions)

    @property
    def classes(self) -> ClassLoop | None:
        """The class loop, to look at; None without classes."""
        return self._classes

    def wants_tick(self, now_seconds: float) -> bool:
        """True when a Tick would do something: a load cycle, or a held turn to give away."""
        if self._classes is None:
            return False
        held = self._held_for
        given_up = held is not None and now_seconds >= held[1] and bool(self._turns.waiting)
        return given_up or self._classes.is_due_at(now_seconds)

    @property
    def counts_cores(self) -> bool:
        """True while a Tick should say how many cores have tasks: somebody waits for them."""
        classes = self._classes
        return (
            classes is not None and classes.settings.most_idle < 1.0 and bool(self._turns.waiting)
        )

    def has_turn(self, query: str, batch: int) -> bool:
        """True while this batch counts as running."""
        turn = self._turns.running.get(query)
        return turn is not None and turn.batch == batch

    def handle(self, event: Event) -> list[Decision]:
        """What follows from one event."""
        if isinstance(event, BatchStarted):
            return self._started(event)
        if isinstance(event, BatchCompleted):
            return self._completed(event)
        if isinstance(event, RatesObserved):
            return self._observed(event)
        if isinstance(event, TableReceived):
            return self._received(event)
        if isinstance(event, SettingsChanged):
            return self._changed(event)
        if isinstance(event, TurnReturned):
            return self._returned(event)
        return self._ticked(event)

    # --- batches ------------------------------------------------------------------------

    def _started(self, event: BatchStarted) -> list[Decision]:
        state = self._queries.get(event.query)
        if state is None:
            return [unknown_query(event.query)]
        known = state.decided(event.batch)
        if known is not None:
            return list(known)
        if self._classes is None or state.settings.query_class is None:
            return self._decide(state, event)
        running = self._turns.running.get(event.query)
        if running is not None:  # its last batch has ended, though nobody said so
            self._turns.end(event.query, event.time_seconds)
        if self.mode is Mode.OPEN:  # the kill switch: nobody waits
            self._turns.run(event, event.time_seconds)
            return self._decide(state, event)
        self._turns.wait(event)
        return self._grant(event.time_seconds)

    def _decide(self, state: QueryState, event: BatchStarted) -> list[Decision]:
        """One keep fraction for each gate of the query, composed of all loops."""
        answer = state.ask(event, self.mode is Mode.OFF)
        settings = state.settings
        plan = None if self._plan is None else self._plan.keep_fraction
        limit = self._class_limit(settings)
        floors = {} if self._plan is None else self._plan.floors
        older, mode = settings.drop_older_seconds, self.mode
        query, batch, gates = event.query, event.batch, settings.gates
        fed_back: Mapping[str, float] | None = None
        wanted: float | None = None
        note = ""
        if answer is not None:
            wanted, note = 1.0, answer.reason
            if answer.sheds:
                wanted = max(answer.keep_fraction, self._patience(state, event))
                if len(gates) > 1:
                    fed_back = self._feedback(state, event, wanted, plan or {})
        decisions: list[Decision] = []
        for gate in gates:
            planned = None if plan is None else plan.get(gate)
            if fed_back is not None:
                wanted = fed_back[gate]
            least = floors.get(gate, settings.keep_at_least)
            why, keep = composed_keep(planned, wanted, limit, least, mode, note)
            decisions.append(SetKeepFraction(query, batch, gate, keep, why, older))
        state.remember(event.batch, decisions)
        if answer is not None:
            for alarm in state.alarms_of(answer):
                text = advice(alarm, answer.predicted_latency_seconds)
                decisions.append(RaiseAlarm(AlarmKind.CONTROLLER, query, text))
        return decisions

    def _feedback(
        self,
        state: QueryState,
        event: BatchStarted,
        fraction: float,
        plan: Mapping[str, float],
    ) -> Mapping[str, float]:
        """One fraction for the query, laid over several gates as the plan does.

        Of gates in series the first one drops: that saves the most, and a tuple is not
        thinned twice for the same reason.
        """
        gates = state.settings.gates
        first = set(state.first_gates(gates))
        planned = {gate: plan.get(gate, 1.0) for gate in gates if gate in first}
        laid = scaled_to(fraction, planned, event.waiting)
        return dict.fromkeys(gates, 1.0) | laid

    def _patience(self, state: QueryState, event: BatchStarted) -> float:
        """The share that is kept although the controller would shed; 0 where it may.

        A query whose class fits its turns is late because others had the machine just now. It
        has a right to its part of it and catches up, so nothing of it falls before its results
        would be as late as its class may be.
        """
        query_class = state.settings.query_class
        if self._classes is None or query_class is None or not self._classes.fits(query_class):
            return 0.0
        others = sum(1 for name in self._turns.running if name != event.query)
        return state.share_within(event, PATIENCE, 1.0 / (1 + others))

    def _class_limit(self, settings: QuerySettings) -> float | None:
        if self._classes is None or settings.query_class is None:
            return None
        return self._classes.keep_fraction.get(settings.query_class)

    def _completed(self, event: BatchCompleted) -> list[Decision]:
        state = self._queries.get(event.query)
        if state is None:
            return [unknown_query(event.query)]
        decisions: list[Decision] = []
        now, query, batch = event.time_seconds, event.query, event.batch
        query_class = state.settings.query_class
        for gate, count in event.counts.items():
            offered, kept, dropped = count.offered, count.kept, count.dropped
            keep = state.fraction(batch, gate)
            row = LedgerRow(now, query, query_class, batch, gate, offered, kept, dropped, keep)
            wrong = self.ledger.enter(row)
            if wrong is not None:
                decisions.append(RaiseAlarm(AlarmKind.LEDGER, f"{query}/{gate}", wrong))
        if self._classes is None:  # nobody has a turn
            state.complete(event)
            return decisions
        turn = self._turns.end(query, now)
        if query_class is None:
            state.complete(event)
            return decisions
        share = 1.0 / (1 + len(self._turns.running))
        if turn is not None:
            share = turn.share(now)
        state.complete(event, share)
        target = self._classes.delay_target_seconds(query_class)
        response = None if target is None else state.growing_response_seconds(target)
        if target is not None and response is not None:
            decisions.append(backlog_grows(query, response, query_class, target))
        if turn is None or turn.due:
            self._classes.used(query_class, share * event.busy_seconds)
        if turn is not None:
            self._hold_for(query_class, now)
        return decisions + self._grant(event.time_seconds)

    # --- classes ------------------------------------------------------------------------

    def _hold_for(self, query_class: str, now_seconds: float) -> None:
        """Keep the place for a moment for the class that has just run, if it is entitled.

        Not when the node would be idle meanwhile, where several may run at once; nor where
        turns go to what is due, whoever has just run.
        """
        classes = self._classes
        if classes is None or classes.settings.due_above > 0.0:
            return
        if classes.settings.least_turns > 1 and not self._turns.running:
            return
        if classes.is_worth_waiting_for(query_class, self._waiting_by_class().keys()):
            self._held_for = (query_class, now_seconds + classes.settings.grace_seconds)

    def _returned(self, event: TurnReturned) -> list[Decision]:
        if not self.has_turn(event.query, event.batch):
            return []
        self._turns.end(event.query, event.time_seconds)
        return self._grant(event.time_seconds)

    def _grant(self, now_seconds: float) -> list[Decision]:
        """Give turns while there are places, unless the place is held for a class."""
        decisions: list[Decision] = []
        while self._classes is not None and self._turns.waiting:
            if self.mode is not Mode.OPEN and not self._turns.has_place(self._classes.settings):
                break
            by_class = self._waiting_by_class()
            if self._held_for is not None:
                query_class, until = self._held_for
                if query_class not in by_class and now_seconds < until:
                    break
                self._held_for = None
            due = self._due(by_class, now_seconds)
            chosen = self._classes.next_class((due or by_class).keys())
            if chosen is None:
                break
            queries = (due or by_class)[chosen]
            decisions += self._give_turn(chosen, queries, now_seconds, bool(due))
        return decisions

    def _due(self, by_class: Mapping[str, list[str]], now_seconds: float) -> dict[str, list[str]]:
        """The queries whose results would be late if they waited much longer.

        Turns go to them first. A query with a fixed cost a batch could fill all of its class's
        time with small batches, which nobody asked for; while another is due it waits until
        its own batch is worth its cost.
        """
        due = {}
        for name, queries in by_class.items():
            own = [query for query in queries if self._is_due(query, now_seconds)]
            if own:
                due[name] = own
        return due

    def _is_due(self, query: str, now_seconds: float) -> bool:
        """Looked at again only when it can have become due: many wait, and all are asked often."""
        if now_seconds < self._turns.waiting[query].time_seconds:
            return True  # the clock was set back: nobody knows how long it has waited
        due_at = self._turns.due_at.get(query)
        if due_at is None or now_seconds >= due_at > -math.inf:
            due_at = self._turns.due_at[query] = self._due_at(query, now_seconds)
        return now_seconds >= due_at

    def _due_at(self, query: str, now_seconds: float) -> float:
        """The query is not due before this time; minus infinity if it is due."""
        classes, state = self._classes, self._queries[query]
        settings = state.settings
        target = settings.latency_target_seconds
        if classes is None or classes.settings.due_above <= 0.0 or target is None:
            return -math.inf
        asked = as_of(self._turns.waiting[query], now_seconds, state.offered_per_second)
        age = asked.waiting_age_seconds
        if age is None:
            return -math.inf
        at_quantile = 2.0 * settings.quantile  # of the age, where the mean is 1
        waiting = sum(asked.waiting.values())
        response = at_quantile * age + state.seconds_of_batch(waiting)
        left = classes.settings.due_above * target - response
        if left <= 0.0:
            return -math.inf
        rate = round(state.offered_per_second)
        grows = at_quantile + state.seconds_of_batch(rate) - state.seconds_of_batch(0)
        return now_seconds + left / max(1.0, grows)

    def _give_turn(
        self, chosen: str, queries: list[str], now_seconds: float, due: bool
    ) -> list[Decision]:
        query = self._turns.choose(queries, lambda name: self._rate(name, now_seconds))
        state = self._queries[query]
        event = self._turns.grant(query, queries, now_seconds, due)
        turn = GrantTurn(query, event.batch, chosen)
        return [turn, *self._decide(state, as_of(event, now_seconds, state.offered_per_second))]

    def _rate(self, query: str, now_seconds: float) -> float:
        """What the order inside a class goes by; the highest first."""
        state = self._queries[query]
        if self._classes is None or self._classes.settings.batch_every is None:
            return state.output_rate
        asked = as_of(self._turns.waiting[query], now_seconds, state.offered_per_second)
        return state.rate_of_batch(sum(asked.waiting.values()))

    def _waiting_by_class(self) -> dict[str, list[str]]:
        by_class: dict[str, list[str]] = {}
        for query in self._turns.waiting:
            query_class = self._queries[query].settings.query_class
            if query_class is not None:
                by_class.setdefault(query_class, []).append(query)
        return by_class

    def _ticked(self, event: Tick) -> list[Decision]:
        """Do what is due; without classes that is nothing."""
        if self._classes is None:
            return []
        now = event.time_seconds
        if event.busy_cores is not None:
            self._turns.observe_cores(event.busy_cores, self._classes.settings, now)
        cycle = self._cycle(self._classes, now) if self._classes.is_due(now) else []
        return cycle + self._grant(now)

    def _cycle(self, classes: ClassLoop, now_seconds: float) -> list[Decision]:
        """One load cycle of the class loop."""
        collided = classes.guarantees_collide
        ages = {}
        for query, event in self._turns.waiting.items():
            rate = self._queries[query].offered_per_second
            age = as_of(event, now_seconds, rate).waiting_age_seconds
            if age is not None:
                ages[query] = age
        moved = class_cycle(classes, self._queries, ages)
        decisions: list[Decision] = [] if moved is None else [MoveCapacity(moved)]
        if classes.guarantees_collide and not collided:
            text = "the guaranteed minimums of the classes do not fit together"
            decisions.append(RaiseAlarm(AlarmKind.GUARANTEES_COLLIDE, "classes", text))
        return decisions

    # --- plans and settings ---------------------------------------------------------------

    def _observed(self, event: RatesObserved) -> list[Decision]:
        if self._plan is None:
            return []
        before = dict(self._plan.keep_fraction)
        messages = self._plan.observe(event.rates_per_second, event.operators, event.capacities)
        decisions: list[Decision] = [SendTable(message) for message in messages]
        return decisions + self._standing(before) + self._plan_problem()

    def _received(self, event: TableReceived) -> list[Decision]:
        if self._plan is None:
            return [not_planning(event.message.sender)]
        before = dict(self._plan.keep_fraction)
        try:
            messages = self._plan.receive(event.message)
        except PlanningError as error:
            return [RaiseAlarm(AlarmKind.PLANNER, event.message.sender, str(error))]
        decisions: list[Decision] = [SendTable(message) for message in messages]
        return decisions + self._standing(before) + self._plan_problem()

    def _standing(self, before: Mapping[str, float]) -> list[Decision]:
        """Planned fractions of gates, where they changed: they stand until the next plan.

        A gate that no query calls its own (on the way to another node, or in front of
        several queries) is decided by the plan alone and named without a query.
        """
        plan = {} if self._plan is None else self._plan.keep_fraction
        floors = {} if self._plan is None else self._plan.floors
        owners = {
            gate: (name, state.settings)
            for name, state in self._queries.items()
            for gate in state.settings.gates
        }
        decisions: list[Decision] = []
        for gate, planned in plan.items():
            if abs(planned - before.get(gate, 1.0)) <= 1e-9:
                continue
            name, settings = owners.get(gate, ("", None))
            limit = None if settings is None else self._class_limit(settings)
            least = floors.get(gate, 0.0 if settings is None else settings.keep_at_least)
            why, keep = composed_keep(planned, None, limit, least, self.mode, "")
            decisions.append(SetKeepFraction(name, None, gate, keep, why))
        return decisions

    def _plan_problem(self) -> list[Decision]:
        problem = None if self._plan is None else self._plan.problem
        if problem is None or problem == self._last_problem:
            self._last_problem = problem
            return []
        self._last_problem = problem
        return [RaiseAlarm(AlarmKind.GUARANTEES_COLLIDE, "plan", problem)]

    def _changed(self, event: SettingsChanged) -> list[Decision]:
        if event.mode is not None:
            self.mode = event.mode
        for name in event.removed_queries:
            self._queries.pop(name, None)
            self._turns.forget(name, event.time_seconds)
        for name, settings in event.queries.items():
            known = self._queries.get(name)
            if known is None:
                self._queries[name] = QueryState(settings, self._plan is not None)
            else:
                known.change(settings)
        if event.classes is not None:
            self._change_classes(event.classes)
        self._turns.due_at.clear()  # targets may have changed
        return self._grant(event.time_seconds)

    def _change_classes(self, settings: ClassSettings) -> None:
        """A new loop, but where only the machine has become larger or smaller."""
        known = self._classes
        if known is not None and known.settings.cores != settings.cores:
            only_cores = replace(known.settings, cores=settings.cores) == settings
            if only_cores:
                known.settings = settings
                return
        self._classes = ClassLoop(settings)


def _plan_for(settings: CoordinatorSettings) -> CentralPlan | NodePlan | None:
    if settings.network is None:
        return None
    if settings.node is None:
        return CentralPlan(settings.network, settings.replan_above)
    return NodePlan(settings.network, settings.node, settings)
