"""Rows that Spark computes more than once in a batch are counted once. Pure, no pyspark.

Spark runs a stage again to sample ranges (`repartitionByRange`, a global `orderBy`), for every
action of `foreachBatch`, and when it has lost what an executor had made. A *pass* is one run over
one partition of a gate's input. Each pass of a batch over the same partition has the same rows, or
the first ones of them where it ended early (`limit`, `isEmpty`). So the one with the most rows
speaks for the partition.

At the begin of a pass a task hands over its key, (partition, batch), and with the key of its first
pass also its own counters, which come to the driver as they are at the end of the task. With every
later pass (after `coalesce` a task has several) it hands over what the counters say at that time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Key", "Numbers", "Seen", "counted_once", "keys_in"]

Key: TypeAlias = tuple[int, Any]
"""Partition and batch. Without the batch two of them that nobody told apart would be one."""
Numbers: TypeAlias = tuple[tuple[float, int], ...]
"""Sum and count of each counter."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What came with a pass: the counters of the task at its end, or at the begin of the pass."""

    numbers: Numbers
    at_end_of_task: bool = True


def keys_in(items: Iterable[Any]) -> list[Key]:
    """The keys in a list of other things; each is a whole number followed by the batch."""
    walk = iter(items)
    return [(item, next(walk, None)) for item in walk if type(item) is int]


def counted_once(
    keys: Sequence[Key], seen: Sequence[Seen], rows: Sequence[int], total: Numbers
) -> Numbers:
    """What is left of the total when each partition of a batch counts once.

    seen: what came with each pass; of one task together, in the order of its passes, the first
    with what the task had counted at its end. rows: places of the counters whose sums make up the
    number of rows. The total itself if these sums are not those of all passes: then some pass
    did not say that it began.
    """
    passes = _numbers_of_passes(seen)
    everything = _sum_of(passes)
    if len(passes) != len(keys) or any(everything[at][0] != total[at][0] for at in rows):
        return total
    sizes = [sum(numbers[at][0] for at in rows) for numbers in passes]
    return _sum_of([passes[place] for place in _largest_passes(keys, sizes)])


def _numbers_of_passes(seen: Sequence[Seen]) -> list[Numbers]:
    """What each pass has counted: from its begin to that of the next, or to the end of the task."""
    found: list[Numbers] = []
    ended: Numbers = ()
    for place, entry in enumerate(seen):
        if entry.at_end_of_task:
            ended = entry.numbers
        begun = None if entry.at_end_of_task else entry.numbers
        following = seen[place + 1] if place + 1 < len(seen) else None
        is_last = following is None or following.at_end_of_task
        after = ended if is_last or following is None else following.numbers
        found.append(after if begun is None else _less(after, begun))
    return found


def _largest_passes(keys: Sequence[Key], rows: Sequence[float]) -> list[int]:
    """The places of the passes that count: of each key the one with the most rows."""
    best: dict[Key, int] = {}
    for place, key in enumerate(keys):
        if key not in best or rows[place] > rows[best[key]]:
            best[key] = place
    return sorted(best.values())


def _sum_of(passes: Sequence[Numbers]) -> Numbers:
    """Counter by counter."""
    columns = zip(*passes, strict=True)
    return tuple((sum(s for s, _ in found), sum(c for _, c in found)) for found in columns)


def _less(later: Numbers, earlier: Numbers) -> Numbers:
    pairs = zip(later, earlier, strict=True)
    return tuple((s - before, c - count) for (s, c), (before, count) in pairs)
