"""Whose turn and whose share: scheduler, adaptive headroom and lending, put together.

The class loop is fed by the coordinator: queries that are ready, seconds that were
used, and once in a load cycle what each class asks for and how long its results took.
It answers who runs next and how much of its data each class may keep.

Reference: 2011, sections III and IV.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from headgate.control import (
    ClassLoad,
    ClassReport,
    ClassScheduler,
    HeadroomMonitor,
    HeadroomSettings,
    redistribute,
)
from headgate.coordinator.settings import ClassSettings
from headgate.errors import UsageError

__all__ = ["ClassLoop"]

_DELAY_SECONDS = 1.0
_LATE_USAGE = 1.05  # what a class with a queue reports at least: it needs its reserve again


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
        self._scheduler = ClassScheduler(self._quotas())
        self._monitors = {name: self._monitor(name) for name in self.original}
        self._cycles = 0
        self._last_cycle_seconds = -math.inf
        self._usage_sums = dict.fromkeys(self.original, 0.0)

    def next_class(self, ready: Collection[str]) -> str | None:
        """The class that runs now."""
        return self._scheduler.next_class(ready)

    def used(self, query_class: str, seconds: float) -> None:
        """The class that has the turn has run for `seconds`."""
        self._scheduler.used(query_class, seconds)

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
        elapsed = time_seconds - self._last_cycle_seconds
        if 0.0 <= elapsed < self.settings.cycle_seconds * (1 - 1e-9):
            return False
        self._last_cycle_seconds = time_seconds
        return True

    def cycle(
        self, loads: Mapping[str, ClassLoad], responses: Mapping[str, float | None]
    ) -> dict[str, float] | None:
        """One load cycle; returns the new portions when capacity has moved."""
        for name, monitor in self._monitors.items():
            decision = monitor.step(loads.get(name, ClassLoad(0.0)), responses.get(name))
            self.keep_fraction[name] = decision.keep_fraction
            self.usage[name] = decision.usage
            late = self._is_late(name, responses.get(name))
            self._usage_sums[name] += max(_LATE_USAGE, decision.usage) if late else decision.usage
        self._cycles += 1
        every = self.settings.redistribute_every
        if every <= 0 or self._cycles % every:
            return None
        return self._redistribute(every)

    def delay_target_seconds(self, name: str) -> float:
        """The worst response time that the class should have; a second where none is given."""
        return self.settings.delay_targets_seconds.get(name, _DELAY_SECONDS)

    def _is_late(self, name: str, response_seconds: float | None) -> bool:
        """A class with a queue has nothing to lend and something to catch up, whatever the
        estimate of its headroom says: equation 2 leaves that estimate too high when a class
        lived on quota that others did not use and now do, and ALoMa lowers it only when the
        response is past its target."""
        target = self.delay_target_seconds(name)
        return response_seconds is not None and response_seconds > self.settings.late_above * target

    def _redistribute(self, cycles: int) -> dict[str, float] | None:
        """Lend and give back, from the mean usage since the last time."""
        reports = [
            ClassReport(
                name,
                self.settings.priorities[name],
                self._usage_sums[name] / cycles,
                self.portions[name],
                self.original[name],
                self.settings.keep_at_least.get(name, 0.0),
            )
            for name in self.original
        ]
        self._usage_sums = dict.fromkeys(self.original, 0.0)
        result = redistribute(reports)
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
        settings = self.settings
        headroom = settings.initial_headroom * self.original[name]
        return HeadroomMonitor(
            HeadroomSettings(
                delay_target_seconds=self.delay_target_seconds(name),
                cycle_seconds=settings.cycle_seconds,
                initial_headroom=headroom,
                least_headroom=min(0.001, headroom),
                keep_at_least=settings.keep_at_least.get(name, 0.0),
            )
        )
