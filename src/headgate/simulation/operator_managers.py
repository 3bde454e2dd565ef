"""Load managers for a node with classes: who must lose how much, and who may run how long.

Once in a load cycle a manager is told what each class asks for and how long its results
took. It answers what each class keeps and, when capacity moves, the new portions.

- `NoShedding`: keeps everything (figure 2 of the 2011 paper).
- `CommonShedder`: one headroom monitor for all classes, which lose the same share
  (section IV-A, table I). It looks at the class that is worst off against its target.
- `ClassManager`: one headroom monitor for each class, without lending (section IV-B,
  table II) or with it (DILoS, section IV-C, tables III and IV). This is the coordinator's
  own class loop.

Deterministic; no clock. Cost: O(classes) a cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from headgate.control import ClassLoad, HeadroomMonitor, HeadroomSettings
from headgate.coordinator.class_loop import ClassLoop
from headgate.coordinator.settings import ClassSettings

__all__ = ["ClassManager", "CommonShedder", "LoadManager", "NoShedding", "Verdict"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """keep_fractions: by class. headrooms: estimated capacity by class, where there is one.
    portions: new shares of the node by class; None when nothing moved."""

    keep_fractions: Mapping[str, float]
    headrooms: Mapping[str, float]
    portions: Mapping[str, float] | None = None


class LoadManager(Protocol):
    """What the simulated node asks once in a load cycle."""

    def step(
        self, loads: Mapping[str, ClassLoad], responses_seconds: Mapping[str, float | None]
    ) -> Verdict: ...


class NoShedding:
    """Nothing is dropped, whatever happens."""

    def step(
        self, loads: Mapping[str, ClassLoad], responses_seconds: Mapping[str, float | None]
    ) -> Verdict:
        del responses_seconds
        return Verdict(dict.fromkeys(loads, 1.0), {})


class CommonShedder:
    """One load manager that does not know of classes."""

    def __init__(self, settings: ClassSettings) -> None:
        self._targets = settings.delay_targets_seconds
        self._longest = max(self._targets.values())
        self._monitor = HeadroomMonitor(
            HeadroomSettings(
                delay_target_seconds=self._longest,
                cycle_seconds=settings.cycle_seconds,
                initial_headroom=settings.initial_headroom,
            )
        )

    def step(
        self, loads: Mapping[str, ClassLoad], responses_seconds: Mapping[str, float | None]
    ) -> Verdict:
        total = ClassLoad(
            sum(load.private_load for load in loads.values()),
            sum(load.shared_load for load in loads.values()),
        )
        decision = self._monitor.step(total, self._worst(responses_seconds))
        return Verdict(
            dict.fromkeys(loads, decision.keep_fraction), dict.fromkeys(loads, decision.headroom)
        )

    def _worst(self, responses_seconds: Mapping[str, float | None]) -> float | None:
        """The response of the class nearest to its target, scaled to the longest target."""
        scaled = [
            seconds * self._longest / self._targets[name]
            for name, seconds in responses_seconds.items()
            if seconds is not None
        ]
        return max(scaled, default=None)


class ClassManager:
    """The coordinator's class loop; `redistribute_every` of its settings switches lending."""

    def __init__(self, settings: ClassSettings) -> None:
        self._loop = ClassLoop(settings)

    def step(
        self, loads: Mapping[str, ClassLoad], responses_seconds: Mapping[str, float | None]
    ) -> Verdict:
        portions = self._loop.cycle(loads, responses_seconds)
        usage = self._loop.usage
        headrooms = {c: loads[c].total / usage[c] for c in loads if usage[c] > 0.0}
        return Verdict(dict(self._loop.keep_fraction), headrooms, portions)
