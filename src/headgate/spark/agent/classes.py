"""Classes on Spark: the settings that fit micro-batches, and what a person sees of them.

No pyspark. The pure class loop is made for turns of milliseconds; a micro-batch takes
tenths of seconds and has a fixed cost. So here

- two batches run at once, and more while cores are seen without tasks though a query waits:
  a batch leaves them idle while Spark plans and commits it;
- turns go first to queries whose results would be older than half of their target. Others
  wait until their batch is worth its fixed cost, or nobody else needs the time; a class that
  is let would fill all of its time with small batches;
- a class asks for what it needs with one batch in each latency target (what arrives in
  between is then half a target old on average), and can lend the rest;
- a class is late when its response is above 0.65 of its target, not above 0.1;
- the estimate of a class's capacity is what the turns give it. It may be lower only while the
  response is above the target, and higher only while the response is short all the same; then
  shedding is halved each time that this is seen;
- capacity moves once in a second.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headgate.coordinator import ClassSettings, Coordinator
from headgate.errors import UsageError

__all__ = ["ClassView", "checked_priorities", "class_settings", "class_views", "jain_index"]


def class_settings(priorities: Mapping[str, float], cores: int) -> ClassSettings:
    """The settings of the class loop for a Spark application with so many cores."""
    return ClassSettings(
        checked_priorities(priorities),
        cycle_seconds=0.5,
        redistribute_every=2,
        round_seconds=0.2,
        late_above=0.65,
        default_delay_seconds=None,
        least_turns=2,
        cores=max(1, cores),
        most_idle=0.1,
        batch_every=1.0,
        due_above=0.5,
        by_quota=True,
        ease=0.5,
        least_keep=0.05,
    )


def checked_priorities(priorities: Mapping[str, float]) -> dict[str, float]:
    """Numbers above 0 by class; UsageError says what is wrong."""
    if not isinstance(priorities, Mapping) or not priorities:
        raise UsageError('classes must name priorities, for example {"gold": 6, "silver": 3}')
    checked = {}
    for name, priority in priorities.items():
        number = isinstance(priority, int | float) and not isinstance(priority, bool)
        if not isinstance(name, str) or not name:
            raise UsageError(f"a class needs a name, got {name!r}")
        if not number or not (math.isfinite(priority) and priority > 0):
            raise UsageError(f"the priority of class {name!r} must be above 0, got {priority!r}")
        checked[name] = float(priority)
    return checked


@dataclass(frozen=True, slots=True)
class ClassView:
    """One class as the report shows it. Shares are of the whole application, 0 to 1.

    share:    what it may use now; priority_share: what its priority gives it. The
              difference is lent (or borrowed).
    headroom: the capacity it is found to have, and usage: its load divided by that.
    """

    name: str
    priority_share: float
    share: float
    headroom: float
    usage: float
    queries: int
    offered: int
    kept: int
    dropped: int

    @property
    def lent(self) -> float:
        return max(0.0, self.priority_share - self.share)

    @property
    def borrowed(self) -> float:
        return max(0.0, self.share - self.priority_share)

    @property
    def loss(self) -> float:
        return self.dropped / self.offered if self.offered else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "class": self.name,
            "priority_share": self.priority_share,
            "share": self.share,
            "lent": self.lent,
            "borrowed": self.borrowed,
            "headroom": self.headroom,
            "usage": self.usage,
            "queries": self.queries,
            "offered": self.offered,
            "kept": self.kept,
            "dropped": self.dropped,
            "loss": self.loss,
        }

    def share_text(self) -> str:
        moved = f", {self.lent:.2f} lent" if self.lent > 0.005 else ""
        moved = f", {self.borrowed:.2f} borrowed" if self.borrowed > 0.005 else moved
        return (
            f"class {self.name}: share {self.share:.2f} ({self.priority_share:.2f} by priority"
            f"{moved})"
        )

    def __str__(self) -> str:
        lost = f"{100.0 * self.loss:.3g} % lost"
        return f"{self.share_text()}, {self.queries} queries, {self.offered} offered, {lost}"


def class_views(
    coordinator: Coordinator, rows: Iterable[tuple[str | None, int, int, int]]
) -> list[ClassView]:
    """One view for each class; `rows` are class, offered, kept and dropped of ledger rows."""
    classes = coordinator.classes
    if classes is None:
        return []
    sums: dict[str, list[int]] = {name: [0, 0, 0] for name in classes.original}
    for name, *counts in rows:
        if name in sums:
            sums[name] = [a + b for a, b in zip(sums[name], counts, strict=True)]
    members = [settings.query_class for settings in coordinator.queries.values()]
    headrooms = classes.headrooms
    return [
        ClassView(
            name,
            classes.original[name],
            classes.portions[name],
            headrooms[name],
            classes.usage[name],
            members.count(name),
            *sums[name],
        )
        for name in classes.original
    ]


def jain_index(values: Iterable[float]) -> float:
    """Jain's fairness index: 1 when all are equal, 1/n when one has everything.

    >>> jain_index([1.0, 1.0, 1.0]), jain_index([1.0, 0.0])
    (1.0, 0.5)
    """
    values = list(values)
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares > 0.0 else 1.0
