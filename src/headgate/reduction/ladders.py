"""Which level to pack at: the paper's ladder, and one that looks at the budget.

`TurnaroundLadder` (PACK, section 5) moves one level up or down at a time, by the time
between a packing and the next. `BudgetLadder` remembers which share each level left
lately and picks the lowest level that is expected to fit, in one step.

Both are told times and counts; they read no clock, and a pickled one goes on as if
nothing had happened. Memory: one number for each level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headgate.errors import UsageError
from headgate.reduction.packing import Packing

__all__ = ["BudgetLadder", "BudgetLadderSettings", "TurnaroundLadder", "TurnaroundSettings"]


@dataclass(frozen=True, slots=True)
class TurnaroundSettings:
    """The paper's numbers.

    alpha: the weight of the old value when a turnaround time is smoothed,
        t = (1 - alpha) observed + alpha t, as the paper prints it: the new observation
        counts 0.9. A low-pass filter in the usual sense, where the new observation
        counts 0.1, is alpha = 0.9.
    smooth_first: compare the observation with the smoothed value that already has it in,
        in the order in which the paper prints its equations; False compares with the
        value before.
    The default is the equations as printed, in weight and order. It reacts only to large
    changes, the other readings also to the random variation of a short queue. The paper's
    figures disagree: its figure 8 (`headgate reproduce pack-figure-8`) is met by the order
    of print, its figure 11 (`pack-figure-11`) only with smooth_first=False.
    down_above, up_below: a relative change beyond these moves one level down or up.
    """

    alpha: float = 0.1
    smooth_first: bool = True
    down_above: float = 0.1
    up_below: float = -0.1

    def __post_init__(self) -> None:
        if not 0.0 <= self.alpha < 1.0:
            raise UsageError(f"alpha is from 0 to below 1, got {self.alpha!r}")
        if not (self.up_below <= 0.0 <= self.down_above):
            raise UsageError("up_below must not be above 0, down_above not below 0")


class TurnaroundLadder:
    """Asked at every packing, when a queue is full; answers the level to pack at.

    Starts at level 1. The time from the start to the first packing counts as the first
    turnaround time of level 1. Guarantee: 1 <= level <= levels.
    """

    def __init__(
        self,
        levels: int,
        settings: TurnaroundSettings = TurnaroundSettings(),  # noqa: B008 (frozen)
        start_seconds: float = 0.0,
    ) -> None:
        if levels < 1:
            raise UsageError(f"a ladder has at least 1 level, got {levels}")
        self.settings = settings
        self.level = 1
        self._turnaround_seconds: list[float | None] = [None] * levels
        self._last_packed_seconds = start_seconds

    def choose(self, now_seconds: float) -> int:
        """The level for the packing that happens now."""
        observed = now_seconds - self._last_packed_seconds
        if math.isfinite(observed) and observed >= 0.0:
            self._last_packed_seconds = now_seconds
            self._move(observed)
        return self.level

    def _move(self, observed: float) -> None:
        level, alpha = self.level, self.settings.alpha
        known = self._turnaround_seconds[level - 1]
        if known is None:
            self._turnaround_seconds[level - 1] = observed
            return
        smoothed = (1.0 - alpha) * observed + alpha * known
        self._turnaround_seconds[level - 1] = smoothed
        reference = smoothed if self.settings.smooth_first else known
        change = (observed - reference) / reference if reference > 0.0 else 0.0
        if change > self.settings.down_above:
            self.level = max(1, level - 1)
        elif change < self.settings.up_below:
            self.level = min(len(self._turnaround_seconds), level + 1)


@dataclass(frozen=True, slots=True)
class BudgetLadderSettings:
    """weight_of_new: how much the last packing counts in a level's remembered share."""

    weight_of_new: float = 0.3

    def __post_init__(self) -> None:
        if not 0.0 < self.weight_of_new <= 1.0:
            raise UsageError(f"weight_of_new is above 0 and at most 1, got {self.weight_of_new!r}")


class BudgetLadder:
    """Picks the lowest level that is expected to leave no more than the budget.

    A level that was never tried is expected to suffice, so the first packings learn it;
    a packing at a level also tells about every level below, since those run first. The
    rest, where the expectation was wrong, goes at random (`reduce_to_budget`).
    Guarantee: 0 <= level <= levels; 0 where the queue fits as it is.
    """

    def __init__(
        self,
        levels: int,
        settings: BudgetLadderSettings = BudgetLadderSettings(),  # noqa: B008 (frozen)
    ) -> None:
        if levels < 1:
            raise UsageError(f"a ladder has at least 1 level, got {levels}")
        self.settings = settings
        self.keep_ratios: list[float | None] = [None] * levels

    def choose(self, offered_events: int, budget_events: int) -> int:
        """The level for a queue of `offered_events`."""
        if offered_events <= budget_events:
            return 0
        for level, ratio in enumerate(self.keep_ratios, start=1):
            if ratio is None or ratio * offered_events <= budget_events:
                return level
        return len(self.keep_ratios)

    def observe(self, packing: Packing) -> None:
        """Learn what the levels of this packing left."""
        if packing.offered:
            self.learn(packing.keep_ratios())

    def learn(self, keep_ratios: Sequence[float]) -> None:
        """The share of a queue that was left after level 1, level 2 and so on."""
        weight = self.settings.weight_of_new
        for place, ratio in enumerate(keep_ratios[: len(self.keep_ratios)]):
            known = self.keep_ratios[place]
            self.keep_ratios[place] = (
                ratio if known is None else weight * ratio + (1.0 - weight) * known
            )
