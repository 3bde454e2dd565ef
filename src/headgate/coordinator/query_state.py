"""What the coordinator holds of one query: its controller, its last batch, its answers."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from headgate.control import (
    Alarm,
    ClassLoad,
    CostEstimator,
    CostSettings,
    KeepDecision,
    LatencyController,
    PeriodMeasurement,
    build_controller,
)
from headgate.coordinator.decisions import Decision, SetKeepFraction
from headgate.coordinator.events import BatchCompleted, BatchStarted, GateCount
from headgate.coordinator.settings import QuerySettings, upstream_gates

__all__ = ["QueryState", "as_if_shed"]

_REMEMBER_BATCHES = 64
_RATE_MEMORY = 0.5
_GROWING_BATCHES = 5
_ALARM_BATCHES = 4


class QueryState:
    """One query. Memory is bounded: the answers of the last batches, one measurement.

    planned: a plan decides for the gates behind the first ones. Feedback changes only what the
    first ones keep; so its measure is what these let in, whatever the plan drops later and on
    however many branches a tuple goes on.
    """

    def __init__(self, settings: QuerySettings, planned: bool = False) -> None:
        self.settings = settings
        self._planned = planned
        self._upstream = upstream_gates(settings.after)
        self._controller = _controller(settings)
        self._answers: OrderedDict[int, Sequence[Decision]] = OrderedDict()
        self._finished: tuple[BatchCompleted, int, int] | None = None  # with offered and kept
        self._last_completed = -1
        self._responses: deque[float] = deque(maxlen=_REMEMBER_BATCHES)
        self._last_response_seconds = 0.0
        self._longer_responses = 0  # batches in a row that took longer than the one before
        self._last_response: float | None = None
        self._seconds_per_tuple: float | None = None
        self._costs = CostEstimator(CostSettings())  # without what is known to be fixed
        self._fixed_seconds = 0.0
        self._alarms_in_row = 0
        self.offered_per_second = 0.0
        self.output_rate = 0.0

    def change(self, settings: QuerySettings) -> None:
        """New settings; what the controller has learnt stays where the controller does."""
        same = (
            settings.controller == self.settings.controller
            and settings.latency_target_seconds == self.settings.latency_target_seconds
            and dict(settings.controller_settings) == dict(self.settings.controller_settings)
        )
        self.settings = settings
        self._upstream = upstream_gates(settings.after)
        if not same:
            self._controller = _controller(settings)

    def decided(self, batch: int) -> Sequence[Decision] | None:
        """The answer that this batch got before, if it is still remembered."""
        return self._answers.get(batch)

    def remember(self, batch: int, decisions: Sequence[Decision]) -> None:
        self._answers[batch] = tuple(decisions)
        if len(self._answers) > _REMEMBER_BATCHES:
            self._answers.popitem(last=False)

    def fraction(self, batch: int, gate: str) -> float | None:
        """The keep fraction that the gate was given for this batch, if it is remembered."""
        for decision in self._answers.get(batch, ()):
            if isinstance(decision, SetKeepFraction) and decision.gate == gate:
                return decision.keep_fraction
        return None

    def ask(self, event: BatchStarted, only_asked: bool = False) -> KeepDecision | None:
        """The controller's answer for what waits; None without a latency target.

        The last completed batch is learnt from once: a second batch that starts before
        the first has completed is decided with what is known.

        only_asked: the answer is not carried out, so a backlog grows that would not be there.
        Then the answer is for as much as would wait, see `as_if_shed`.
        """
        if self._controller is None:
            return None
        if only_asked:
            event = as_if_shed(event, self._longest_batch_seconds())
        waiting = self._waiting(event.waiting) if event.waiting else None
        if self._finished is None:
            blank = PeriodMeasurement(event.time_seconds, 0.0, 0, 0, 0.0, waiting)
            return self._controller.decide(blank)
        return self._controller.decide(self._take_finished(waiting, event.waiting_age_seconds))

    def alarms_of(self, answer: KeepDecision) -> Sequence[Alarm]:
        """What a person should know: once, when it was said of some batches in a row.

        A single slow batch, as at the start of a query, is no reason to change a target.
        """
        self._alarms_in_row = self._alarms_in_row + 1 if answer.alarms else 0
        return answer.alarms if self._alarms_in_row == _ALARM_BATCHES else ()

    def _longest_batch_seconds(self) -> float:
        """How long batches in a row may be that hold the target: see `micro_batch`."""
        given, target = self.settings.controller_settings, self.settings.latency_target_seconds
        percentile, period = given.get("percentile"), given.get("period_seconds", 0.0)
        quantile = 0.5 if percentile is None else percentile / 100.0
        return float(max((target or 0.0) / (1.0 + quantile), period))

    def _take_finished(
        self, waiting: int | None = None, waiting_age_seconds: float | None = None
    ) -> PeriodMeasurement:
        assert self._finished is not None
        (batch, offered, kept), self._finished = self._finished, None
        return PeriodMeasurement(
            batch.time_seconds,
            batch.duration_seconds,
            offered,
            kept,
            batch.busy_seconds,
            waiting,
            batch.processed_tuples,
            batch.arrival_rate_per_second,
            waiting_age_seconds,
            batch.scheduling_delay_seconds,
            batch.latency_mean_seconds,
            batch.latency_percentiles_seconds,
        )

    def complete(self, event: BatchCompleted, share: float = 1.0) -> None:
        """Take in a finished batch; one that was taken in before teaches nothing.

        share: the part of the node that it had while it ran beside others.
        """
        if event.batch <= self._last_completed:
            return
        if self._finished is not None and self._controller is not None:
            self._controller.decide(self._take_finished())  # nobody asked: learn from it
        self._last_completed = event.batch
        offered, kept = self._counted(event.counts)
        response = event.latency_mean_seconds
        if response is not None:
            longer = response > self._last_response_seconds
            self._longer_responses = self._longer_responses + 1 if longer else 0
            self._last_response_seconds = response
            self._responses.append(response)
            if event.busy_seconds > 0.0:  # a batch that only warmed up says nothing
                percentile = self.settings.controller_settings.get("percentile")
                held = event.latency_percentiles_seconds.get(percentile) if percentile else None
                self._last_response = response if held is None else held
        self._learn_load(event, offered, kept, share * event.busy_seconds)
        self._finished = (event, offered, kept)

    def first_gates(self, gates: Iterable[str]) -> list[str]:
        """Those of `gates` that no other of them stands in front of."""
        named = list(gates)
        if not self._upstream:
            return named
        return [g for g in named if self._upstream.get(g, frozenset()).isdisjoint(named)]

    def _waiting(self, waiting: Mapping[str, int]) -> int:
        """Tuples that wait, each counted at the first gate that it meets."""
        if not self._upstream:
            return sum(waiting.values())
        return sum(waiting[gate] for gate in self.first_gates(waiting))

    def _counted(self, counts: Mapping[str, GateCount]) -> tuple[int, int]:
        """Offered at the first gates that have reported, kept at the last ones (or see above)."""
        offered = kept = 0
        if not self._upstream:
            for count in counts.values():
                offered += count.offered
                kept += count.kept
            return offered, kept
        for gate in self.first_gates(counts):
            offered += counts[gate].offered
            kept += counts[gate].kept
        if self._planned:
            return offered, kept
        kept = 0
        passed = frozenset().union(*(self._upstream.get(gate, frozenset()) for gate in counts))
        for gate, count in counts.items():
            if gate not in passed:
                kept += count.kept
        return offered, kept

    @property
    def seconds_per_tuple(self) -> float | None:
        """Server seconds for a kept tuple; None before the first."""
        return self._seconds_per_tuple

    @property
    def load(self) -> float:
        """Server seconds per second that the query asks for, before shedding."""
        return (self._seconds_per_tuple or 0.0) * self.offered_per_second

    def load_with_batch_every(self, seconds: float) -> ClassLoad:
        """The same with one batch in so many seconds: the fixed cost of a batch and what it
        takes to look at tuples cannot be shed, processing them can."""
        costs, rate = self._costs.costs, self.offered_per_second
        if costs is None:
            return ClassLoad(0.0)
        fixed = (self._fixed_seconds + costs.fixed_seconds) / seconds
        return ClassLoad(costs.processing_seconds * rate, fixed + costs.looking_seconds * rate)

    def rate_of_batch(self, waiting: int) -> float:
        """Tuples a second if what waits ran now. A batch that is hardly filled is slow."""
        seconds = self.seconds_of_batch(waiting)
        return waiting / seconds if seconds > 0.0 else math.inf  # not known yet: find out

    def seconds_of_batch(self, waiting: int) -> float:
        """Node seconds for a batch that keeps what waits; 0 before anything is known."""
        costs = self._costs.costs
        if costs is None:
            return 0.0
        return self._fixed_seconds + costs.busy_seconds(waiting, waiting)

    def share_within(self, event: BatchStarted, targets: float, server_share: float) -> float:
        """The share of what waits that can be kept with results at most so many targets old.

        server_share: the part of the node that the batch has while it runs. 0 as long as costs
        or ages are not known, and while the last results were older than that: then what is
        known is wrong.
        """
        target, costs = self.settings.latency_target_seconds, self._costs.costs
        waiting, age = self._waiting(event.waiting), event.waiting_age_seconds
        if target is None or costs is None or age is None or waiting <= 0:
            return 0.0
        if self._last_response is None or self._last_response > targets * target:
            return 0.0
        left = (targets * target - 2.0 * self.settings.quantile * age) * server_share
        left -= self._fixed_seconds + costs.busy_seconds(waiting, 0)
        needed = costs.processing_seconds * waiting
        if left <= 0.0:
            return 0.0
        return 1.0 if left >= needed else left / needed

    @property
    def last_response(self) -> float | None:
        """Latency of the last batch that taught something; it stands until the next one.

        The mean, or the percentile that the query's target is for.
        """
        return self._last_response

    def growing_response_seconds(self, delay_target_seconds: float) -> float | None:
        """The latest latency of a query without a target of its own, when it runs away.

        It does when it is above the target of its class and has grown in the last few
        batches. Said once for each such run of batches.
        """
        if self._controller is not None or self._longer_responses != _GROWING_BATCHES:
            return None
        response = self._last_response_seconds
        return response if response > delay_target_seconds else None

    def take_response(self) -> float | None:
        """Mean latency of the batches since it was last taken."""
        if not self._responses:
            return None
        mean = sum(self._responses) / len(self._responses)
        self._responses.clear()
        return mean

    def _learn_load(
        self, event: BatchCompleted, offered: int, kept: int, busy_seconds: float
    ) -> None:
        in_class = self.settings.query_class is not None  # only classes ask for these costs
        if in_class and offered > 0 and busy_seconds > 0.0:
            fixed = busy_seconds * min(1.0, event.fixed_seconds / event.busy_seconds)
            known = self._costs.costs is not None
            self._fixed_seconds += ((1 - _RATE_MEMORY) if known else 1.0) * (
                fixed - self._fixed_seconds
            )
            self._costs.observe(offered, kept, busy_seconds - fixed)
        if kept > 0:
            per_tuple = busy_seconds / kept
            old = self._seconds_per_tuple
            self._seconds_per_tuple = (
                per_tuple if old is None else old + (1 - _RATE_MEMORY) * (per_tuple - old)
            )
            if busy_seconds > 0.0:
                self.output_rate = kept / busy_seconds
        rate = event.arrival_rate_per_second
        if rate is None and event.duration_seconds > 0.0:
            rate = offered / event.duration_seconds
        if rate is not None:
            self.offered_per_second += (1 - _RATE_MEMORY) * (rate - self.offered_per_second)


def as_if_shed(event: BatchStarted, longest_batch_seconds: float) -> BatchStarted:
    """What would wait if the batches before had been no longer than this.

    With batches of one length in a row, tuples are half of it old on average when their batch
    begins. If they are older there is a backlog; the rate at which they came stays.

    >>> event = as_if_shed(BatchStarted(20.0, "alerts", 3, {"orders": 6000}, 10.0), 2.0)
    >>> event.waiting, event.waiting_age_seconds
    ({'orders': 600}, 1.0)
    """
    age, most = event.waiting_age_seconds, longest_batch_seconds / 2.0
    if age is None or age <= most:
        return event
    waiting = {gate: round(count * most / age) for gate, count in event.waiting.items()}
    return replace(event, waiting=waiting, waiting_age_seconds=most)


def _controller(settings: QuerySettings) -> LatencyController | None:
    if settings.latency_target_seconds is None:
        return None
    given = dict(settings.controller_settings)
    given.setdefault("latency_target_seconds", settings.latency_target_seconds)
    return build_controller(settings.controller, given)
