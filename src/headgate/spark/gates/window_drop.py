"""Whole windows go or stay: what a gate has to remember so that no window is cut in two.

Plain data, no pyspark. Times are microseconds since 1970. Windows begin at multiples of
`slide` and last `size`. Consecutive windows form *blocks* of `width`; a block is the unit
that is kept or dropped. For tumbling windows a block is one window, unless the watermark
lags by more windows than can be remembered. For sliding windows it is several, because a
tuple stays if any of its windows stays: with fates of their own, ten windows over each
tuple at keep fraction 1/2 would drop one tuple in a thousand.

    fate of a block = hash(start of the block) < threshold of the block

The hash never changes, so a fate is fixed as soon as the threshold of the block is. The
thresholds are a list of steps (from, threshold), oldest first: a block has the threshold of
the last step that begins at or before it. The list stands in the decision, hence in Spark's
offset log.

Why no window is ever cut in two:

1. Let `seen` be the largest event time offered in all batches before the one that is being
   decided, and F the first block that begins after the block of the newest window of
   `seen`. No tuple of a window in F or later was ever offered. A new threshold is written
   as a step that begins at F, or replaces the last step if that begins at F or later: no
   tuple has met that one. No other step is changed. So all tuples that were offered
   before keep the threshold that their blocks had, and the new step speaks of blocks that
   no tuple has met.
2. Within one batch all tuples see the same list.
3. A batch that runs again has the same list, because it stands in the offset log.
4. The oldest step is forgotten only when all its blocks ended before the watermark that
   Spark used in the last batch. Spark drops tuples of such windows in the next batch
   anyway. From then on the gate drops them (`closed`), so they cannot fall to a younger
   step.

By induction over the batches, every block has had one threshold for all its tuples.

What must be known is `seen`, exactly or too large; too large only delays a new threshold.
It comes from Spark's observed metrics; after a restart, from the ledger. Where a number is
lost (`WindowWatch`), the driver's clock stands in for it: then, and only then, the argument
needs event times that are not in the future.

Bounded: between the second and the last step lie at most `CELLS` blocks. A threshold that
would need more is not taken; the last one stays until the watermark has moved on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from headgate.spark.gates.threshold import EVERYTHING

__all__ = ["CELLS", "CELLS_FROM", "WindowMemory", "WindowShape"]

CELLS = 256
"""Blocks whose thresholds can differ at one time."""
CELLS_FROM = 6
"""Where the cells begin in `WindowMemory.array`."""
_LONG_AGO = -(2**62)
_SLIDING_BLOCK = 4
"""A block of sliding windows is this many times as long as a window."""


@dataclass(frozen=True, slots=True)
class WindowShape:
    """Size and slide of the windows and width of a block, in microseconds."""

    size: int
    slide: int
    width: int

    @classmethod
    def of(cls, size: int, slide: int, watermark_delay: int) -> WindowShape:
        """The narrowest blocks of which twice the windows in flight can be remembered."""
        sliding = 1 if slide >= size else _SLIDING_BLOCK * math.ceil(size / slide)
        in_flight = 2 * (watermark_delay + size)
        return cls(size, slide, slide * max(sliding, math.ceil(in_flight / (CELLS * slide))))

    @property
    def windows_of_a_tuple(self) -> int:
        return max(1, math.ceil(self.size / self.slide))

    def newest_start(self, event_time: int) -> int:
        """Start of the newest window that holds an event time."""
        return event_time - event_time % self.slide

    def block(self, window_start: int) -> int:
        """Start of the block that a window belongs to."""
        return window_start - window_start % self.width

    def first_unseen(self, seen: int) -> int:
        """The first block that no tuple up to the event time `seen` can belong to."""
        return self.block(self.newest_start(seen)) + self.width

    def first_open(self, watermark: int) -> int:
        """The first block with a window that ends after the watermark."""
        # A block that starts at b has its last window end at b + width - slide + size.
        last_closed = self.block(watermark - self.size + self.slide - self.width)
        return last_closed + self.width

    def block_share(self, tuple_share: float) -> float:
        """The share of blocks to keep so that about `tuple_share` of the tuples is kept.

        A tuple whose windows lie in two blocks stays if one of them stays. With r, the
        share of such tuples, and x, that of blocks: x + r x (1 - x) = tuple_share.
        """
        r = (self.windows_of_a_tuple - 1) * self.slide / self.width
        if r == 0.0:
            return tuple_share
        return ((1.0 + r) - math.sqrt((1.0 + r) ** 2 - 4.0 * r * tuple_share)) / (2.0 * r)

    def as_list(self) -> list[int]:
        return [self.size, self.slide, self.width]


@dataclass(frozen=True, slots=True)
class WindowMemory:
    """Thresholds of blocks. `steps`: (first block, threshold); blocks before `closed` are over.

    >>> hour = WindowShape(3600, 3600, 3600)
    >>> memory = WindowMemory(hour).changed_to(500_000, None, None)
    >>> memory.changed_to(EVERYTHING, 7300, None).steps[1:]
    ((10800, 1000000),)
    """

    shape: WindowShape
    steps: tuple[tuple[int, int], ...] = ((_LONG_AGO, EVERYTHING),)
    closed: int = _LONG_AGO

    @property
    def newest(self) -> int:
        """The threshold of blocks to come."""
        return self.steps[-1][1]

    def threshold(self, block: int) -> int:
        """What the gate's expression computes from `array`."""
        if block < self.closed:
            return 0
        return next((limit for start, limit in reversed(self.steps) if start <= block), 0)

    def changed_to(self, threshold: int, seen: int | None, watermark: int | None) -> WindowMemory:
        """Another threshold for the blocks that no tuple has met.

        This very memory if that is what it says already, or if the list would grow too long.
        """
        unseen = _LONG_AGO if seen is None else self.shape.first_unseen(seen)
        last = self.steps[-1][0]
        # A last step ahead of everything seen has met no tuple: it may be changed.
        steps = list(self.steps[:-1] if unseen <= last else self.steps)
        if not steps or steps[-1][1] != threshold:
            steps.append((max(unseen, last), threshold))
        closed = self.closed
        first_open = _LONG_AGO if watermark is None else self.shape.first_open(watermark)
        while len(steps) > 1 and steps[1][0] <= first_open:
            steps.pop(0)
            closed = max(closed, first_open)
        if len(steps) > 1 and steps[-1][0] - steps[1][0] > CELLS * self.shape.width:
            return self
        new = tuple(steps)
        return self if new == self.steps else WindowMemory(self.shape, new, closed)

    def array(self) -> tuple[int, ...]:
        """0, closed, starts of the second and the last step, first and last threshold, cells.

        The block that begins at k times the width has cell k modulo `CELLS`, if it lies
        between the second and the last step.
        """
        first = self.steps[1][0] if len(self.steps) > 1 else _LONG_AGO
        last = self.steps[-1][0]
        cells = [0] * CELLS
        width = self.shape.width
        for (start, limit), (end, _) in pairwise(self.steps[1:]):
            for block in range(start, end, width):
                cells[block // width % CELLS] = limit
        return (0, self.closed, first, last, self.steps[0][1], self.newest, *cells)

    def as_dict(self) -> dict[str, Any]:
        return {
            "shape": self.shape.as_list(),
            "closed": self.closed,
            "steps": [list(step) for step in self.steps],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> WindowMemory:
        """Read what `as_dict` wrote; ValueError for anything else."""
        try:
            shape = WindowShape(*(int(number) for number in data["shape"]))
            steps = tuple((int(start), int(limit)) for start, limit in data["steps"])
            closed = int(data["closed"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a memory of windows: {error!r}") from None
        if not steps or len(steps) > CELLS + 2 or not _ascending(steps) or shape.width < 1:
            raise ValueError("not a memory of windows")
        return cls(shape, steps, closed)


def _ascending(steps: Sequence[tuple[int, int]]) -> bool:
    return all(a[0] < b[0] for a, b in pairwise(steps))
