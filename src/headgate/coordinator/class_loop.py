"""Whose turn and whose share: scheduler, adaptive headroom and lending, put together.

The class loop is fed by the coordinator: queries that are ready, seconds that were
used, and once in a load cycle what each class asks for and how long its results took.
It answers who runs next and how much of its data each class may keep.

Reference: 2011, sections III and IV.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from headgate.control import (
    ClassLoad,
    ClassReport,
    ClassScheduler,
    HeadroomMonitor,
    HeadroomSettings,
    redistribute,
    time_by_quota,
)
from headgate.coordinator.settings import ClassSettings
from headgate.errors import UsageError

__all__ = ["ClassLoop", "ClassNeeds"]

_NO_TARGET_SECONDS = 1.0  # stands in the monitor of a class without a target, and sheds nothing
_LATE_USAGE = 1.05  # what a class with a queue reports at least: it needs its reserve again
_LEAST_LENT = 0.01  # share of its portion that a class has lent at least, if it has lent


@dataclass(frozen=True, slots=True)
class ClassNeeds:
    """What the queries of the classes want: delay targets and guaranteed shares, by class."""

    targets_seconds: Mapping[str, float] = field(default_factory=dict)
    keep_at_least: Mapping[str, float] = field(default_factory=dict)


class ClassLoop:
    """The classes of one node."""

    def __init__(self, settings: ClassSettings) -> None:
        total = sum(settings.priorities.values())
        if not settings.priorities or total <= 0.0:
            raise UsageError("classes need priorities above 0, for example gold=6, silver=3")
        self.settings = settings
        self.original = {name: p / total for name, p in settings.priorities.items()}
        self.portions = dict(self.original)
        self.keep_fraction = dict.fromkeys(self.original, 1.0)
        self.usage = dict.fromkeys(self.original, 0.0)
        self._fits = dict.fromkeys(self.original, False)
        self._needs = ClassNeeds()
        self._scheduler = ClassScheduler(self._quotas())
        self._monitors = {name: self._monitor(name) for name in self.original}
        self._cycles = 0
        self._last_cycle_seconds = -math.inf
        self._usage_sums = dict.fromkeys(self.original, 0.0)
        self.guarantees_collide = False
        self._common = self._monitor("") if settings.one_shedder else None

    @property
    def headrooms(self) -> dict[str, float]:
        """The capacity that each class is found to have, node seconds per second."""
        return {name: monitor.headroom for name, monitor in self._monitors.items()}

    def fits(self, name: str) -> bool:
        """True while the turns give the class as much as its load asks for.

        False where turns are not counted as capacity (`by_quota`): then nobody knows.
        """
        return self._fits[name]

    def next_class(self, ready: Collection[str]) -> str | None:
        """The class that runs now."""
        return self._scheduler.next_class(ready)

    def used(self, query_class: str, seconds: float) -> None:
        """A query of the class has run for `seconds` of the whole node."""
        self._scheduler.charge(query_class, seconds)

    def is_worth_waiting_for(self, query_class: str, waiting: Collection[str]) -> bool:
        """True when the class would go before all that wait, if it came back now.

        It has time left in its turn, or it will have paid its debt before the others:
        batches that are longer than a quota leave every class in debt.
        """
        rounds = {name: self._rounds_in_debt(name) for name in (query_class, *waiting)}
        own = rounds.pop(query_class)
        return own <= 0.0 or all(own < other for other in rounds.values())

    def _rounds_in_debt(self, query_class: str) -> float:
        credit = self._scheduler.credit_seconds[query_class]
        return max(0.0, -credit / self._scheduler.quota_seconds[query_class])

    def is_due(self, time_seconds: float) -> bool:
        """True once in a load cycle; a clock that jumps back starts a new cycle."""
        if not self.is_due_at(time_seconds):
            return False
        self._last_cycle_seconds = time_seconds
        return True

    def is_due_at(self, time_seconds: float) -> bool:
        """The same question, without beginning the cycle."""
        elapsed = time_seconds - self._last_cycle_seconds
        return not 0.0 <= elapsed < self.settings.cycle_seconds * (1 - 1e-9)

    def cycle(
        self,
        loads: Mapping[str, ClassLoad],
        responses: Mapping[str, float | None],
        needs: ClassNeeds | None = None,
    ) -> dict[str, float] | None:
        """One load cycle; returns the new portions when capacity has moved."""
        self._needs = needs or ClassNeeds()
        recalled = self._recall(loads, responses)
        given = self._given_by_turns(loads)
        for name in self._monitors:
            load = loads.get(name, ClassLoad(0.0))
            self._step(name, load, responses.get(name), given.get(name))
            self._usage_sums[name] += self._reported(name, self.usage[name], responses)
        if self._common is not None:
            keep = self._step_common(self._common, loads, responses)
            self.keep_fraction = dict.fromkeys(self.original, keep)
        self._cycles += 1
        every = self.settings.redistribute_every
        if every <= 0 or self._cycles < every:
            return recalled
        usages = {name: total / self._cycles for name, total in self._usage_sums.items()}
        return self._redistribute(usages) or recalled

    def delay_target_seconds(self, name: str) -> float | None:
        """The worst response time that the class should have, where one is known."""
        given = self.settings.delay_targets_seconds.get(name)
        if given is None:
            given = self._needs.targets_seconds.get(name)
        return self.settings.default_delay_seconds if given is None else given

    def _given_by_turns(self, loads: Mapping[str, ClassLoad]) -> dict[str, float]:
        """What the turns give to each class that has something to do.

        Micro-batches are charged for their part of the time that passes, so the loads are in
        parts of the node, and all of them together get all of it.
        """
        if not self.settings.by_quota:
            return {}
        return time_by_quota({name: load.total for name, load in loads.items()}, self.portions)

    def _step(
        self, name: str, load: ClassLoad, response_seconds: float | None, given: float | None
    ) -> None:
        """One class's load manager.

        Micro-batches come seldom: before the first one has ended nothing is known, and
        nothing is shed by load alone.
        """
        monitor, target = self._monitors[name], self.delay_target_seconds(name)
        self._fits[name] = given is not None and given >= load.total
        if target is None or (response_seconds is None and self.settings.batch_every is not None):
            self.keep_fraction[name] = 1.0
            self.usage[name] = load.total / monitor.headroom
            return
        monitor.settings = replace(monitor.settings, delay_target_seconds=target)
        if given is None:
            decision = monitor.step(load, response_seconds)
        else:
            most = math.inf if self._fits[name] else given
            decision = monitor.step(load, response_seconds, given, most)
        self.keep_fraction[name] = decision.keep_fraction
        self.usage[name] = decision.usage

    def _step_common(
        self,
        monitor: HeadroomMonitor,
        loads: Mapping[str, ClassLoad],
        responses: Mapping[str, float | None],
    ) -> float:
        """One shedder for all: the response of the class that is nearest to its target."""
        total = ClassLoad(
            sum(load.private_load for load in loads.values()),
            sum(load.shared_load for load in loads.values()),
        )
        ratios = []
        for name in self.original:
            response, target = responses.get(name), self.delay_target_seconds(name)
            if response is not None and target is not None:
                ratios.append(response / target)
        if not ratios:
            return 1.0
        target = monitor.settings.delay_target_seconds
        return monitor.step(total, max(ratios) * target).keep_fraction

    def _is_late(self, name: str, response_seconds: float | None) -> bool:
        """A class with a queue has nothing to lend and something to catch up, whatever the
        estimate of its headroom says: equation 2 leaves that estimate too high when a class
        lived on quota that others did not use and now do, and ALoMa lowers it only when the
        response is past its target."""
        target = self.delay_target_seconds(name)
        if target is None or response_seconds is None:
            return False
        return response_seconds > self.settings.late_above * target

    def _reported(self, name: str, usage: float, responses: Mapping[str, float | None]) -> float:
        """The usage that a class reports: if it is late, so much that all it lent comes back."""
        if not self._is_late(name, responses.get(name)):
            return usage
        return max(_LATE_USAGE, usage, self.original[name] / self.portions[name])

    def _recall(
        self, loads: Mapping[str, ClassLoad], responses: Mapping[str, float | None]
    ) -> dict[str, float] | None:
        """What a class has lent comes back at once when it needs it, and before it sheds."""
        if self.settings.redistribute_every <= 0:
            return None
        usages = {}
        for name, monitor in self._monitors.items():
            load = loads.get(name, ClassLoad(0.0)).total
            usage = load / monitor.headroom if 0.0 <= load < math.inf else 0.0
            usages[name] = self._reported(name, usage, responses)
        in_need = (
            usages[name] > 1.0 and portion < self.original[name] * (1.0 - _LEAST_LENT)
            for name, portion in self.portions.items()
        )
        return self._redistribute(usages) if any(in_need) else None

    def _redistribute(self, usages: Mapping[str, float]) -> dict[str, float] | None:
        """Lend and give back."""
        reports = [
            ClassReport(
                name,
                self.settings.priorities[name],
                usages[name],
                self.portions[name],
                self.original[name],
                self.settings.keep_at_least.get(name, self._needs.keep_at_least.get(name, 0.0)),
            )
            for name in self.original
        ]
        self._cycles, self._usage_sums = 0, dict.fromkeys(self.original, 0.0)
        result = redistribute(reports)
        self.guarantees_collide = result.guarantees_collide
        if not result.moved():
            return None
        for name, portion in result.portions.items():
            self._monitors[name].rescale(portion, self.portions[name])
        self.portions = dict(result.portions)
        self._scheduler.set_quotas(self._quotas())
        return dict(self.portions)

    def _quotas(self) -> dict[str, float]:
        return {name: p * self.settings.round_seconds for name, p in self.portions.items()}

    def _monitor(self, name: str) -> HeadroomMonitor:
        """The load manager of a class; with no name, the one for all classes."""
        settings = self.settings
        headroom = settings.initial_headroom * self.original.get(name, 1.0)
        return HeadroomMonitor(
            HeadroomSettings(
                delay_target_seconds=self.delay_target_seconds(name) or _NO_TARGET_SECONDS,
                cycle_seconds=settings.cycle_seconds,
                initial_headroom=headroom,
                least_headroom=min(0.001, headroom),
                keep_at_least=max(settings.least_keep, settings.keep_at_least.get(name, 0.0)),
                ease=settings.ease,
            )
        )
